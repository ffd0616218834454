"""Writes the next migration: `python tools/migration.py "what changed"`, for developers.

Takes an empty SQLite database through the migrations that there are, compares it to the tables, and writes the
difference into `store/migrations/versions`. Read it before it is committed, and add its name to `REVISIONS`.
"""

from __future__ import annotations

import argparse
import re
import sqlite3
import subprocess
import sys
from contextlib import closing

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from tandem.schema import TANDEM
from tandem.store.schema import SQLITE_WORDS, migrating


def main() -> None:
    """Parse the command line and write the file."""
    parser = argparse.ArgumentParser(prog="python tools/migration.py", description=__doc__)
    parser.add_argument("message", help="what the step does, in a few words")
    message: str = parser.parse_args().message
    number = int(TANDEM.version.partition("_")[0]) + 1
    slug = re.sub(r"[^a-z0-9]+", "_", message.lower()).strip("_")
    with (
        closing(sqlite3.connect(":memory:", isolation_level=None)) as raw,
        migrating(TANDEM, SQLITE_WORDS, raw) as config,
    ):
        command.upgrade(config, "head")
        if not compare_metadata(MigrationContext.configure(config.attributes["connection"]), TANDEM.metadata):
            sys.exit("The tables are as the migrations leave them: change them first.")
        made = command.revision(config, message, autogenerate=True, rev_id=f"{number:04}_{slug}")
    for written in (one for one in (made if isinstance(made, list) else [made]) if one is not None):
        for ruff in (("check", "--fix"), ("format",)):
            subprocess.run([sys.executable, "-m", "ruff", *ruff, "--quiet", written.path], check=True)


if __name__ == "__main__":
    main()
