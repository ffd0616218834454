"""A reviewer program that keeps what it was given: `reviewer.py FOLDER ANSWER …`; it prints one answer a run.

Below FOLDER it writes `prompt-N.txt`, `environment-N.json` and `given-N/` for its run number N, from 1.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path


def main() -> None:
    """One review."""
    folder, *answers = sys.argv[1:]
    kept = Path(folder)
    number = len(list(kept.glob("prompt-*.txt"))) + 1
    (kept / f"environment-{number}.json").write_text(json.dumps(dict(os.environ)))
    scratch = Path(os.environ["TANDEM_REVIEW_SCHEMA"]).parent
    shutil.copytree(scratch / "given", kept / f"given-{number}")
    (kept / f"prompt-{number}.txt").write_bytes(sys.stdin.buffer.read())
    sys.stdout.write(answers[min(number, len(answers)) - 1])


if __name__ == "__main__":
    main()
