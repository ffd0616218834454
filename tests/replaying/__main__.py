"""Replays the commits of a repository through a real broker and a real gate: `make replay`.

Each commit is submitted as a diff in one of eleven dialects, approved by another reviewer, altered, which the gate must
refuse, and committed through the hook. The approved digest must be the commit's, the diff that the product shows must
give the approved bytes when it is applied without any leniency, and each refusal must give a reason that applies to
the change, in a sentence that the guide names. Without a repository a made-up one is replayed, which has a commit for
each kind of file, name and change, each in every dialect. Exit status 1 if anything failed.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.acceptance.reviewing import Desk
from tests.broker import BrokerProcess
from tests.git.sandbox import GITCONFIG
from tests.replaying import kinds
from tests.replaying.clone import Clone, Commit, Repository, history
from tests.replaying.dialects import DIALECTS, EVERY, Dialect
from tests.replaying.replay import Replay
from tests.repository.gating import gate_on

_FOREIGN = ("GIT_", "TANDEM_", "XDG_")
_SAFE = "[safe]\n    directory = *\n"


def main() -> int:
    """Replay what the command line asks for; 1 if anything failed."""
    asked = _asked()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tandem-replay-") as name:
        folder = Path(name)
        _clean_environment(folder)
        root = asked.repository.resolve() if asked.repository else kinds.build(folder / "source")
        with _replaying(root, folder, asked) as (replay, commits):
            for commit in commits:
                replay.run(commit, _dialects(asked, commit))
                if sys.stderr.isatty():
                    sys.stderr.write(f"\r{commit.number + 1} of {len(commits)}")
    if sys.stderr.isatty():
        sys.stderr.write("\r")
    tally = replay.tally
    sys.stdout.write(tally.report(time.monotonic() - began))
    if asked.keep:
        tally.save(asked.keep)
    return int(bool(tally.failures))


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.replaying", description=__doc__)
    names = [dialect.name for dialect in EVERY]
    parser.add_argument("repository", nargs="?", type=Path, help="whose commits; without it a made-up one's")
    parser.add_argument("--commits", type=int, default=300, help="how many of the newest (300)")
    parser.add_argument("--revision", default="HEAD", help="the newest of them (HEAD)")
    parser.add_argument("--dialect", choices=[*names, "all"], help="in this one, or each commit in all of them")
    parser.add_argument("--keep", type=Path, help="a folder for the smallest input of each kind of failure")
    parser.add_argument("--seed", default="0", help="other alterations")
    return parser.parse_args()


def _dialects(asked: argparse.Namespace, commit: Commit) -> list[Dialect]:
    """Those that a commit is submitted in: one in turn, unless something else is asked for."""
    if asked.dialect == "all" or (asked.repository is None and asked.dialect is None):
        return list(EVERY)
    if asked.dialect:
        return [dialect for dialect in EVERY if dialect.name == asked.dialect]
    return [DIALECTS[commit.number % len(DIALECTS)]]


def _clean_environment(folder: Path) -> None:
    """A home folder of our own: no setting of the person who runs this counts."""
    for name in [name for name in os.environ if name.startswith(_FOREIGN)]:
        del os.environ[name]
    home = folder / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(GITCONFIG + _SAFE, "utf-8")
    os.environ.update(HOME=str(home), USERPROFILE=str(home), GIT_CONFIG_NOSYSTEM="1", GIT_EDITOR="true")
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])


@contextmanager
def _replaying(root: Path, folder: Path, asked: argparse.Namespace) -> Generator[tuple[Replay, list[Commit]]]:
    """A broker, and a gated clone that is where the first commit begins."""
    (folder / "broker").mkdir()
    with BrokerProcess(folder / "broker") as broker, closing(Repository(root)) as source:
        commits = history(source, asked.revision, asked.commits)
        assert commits, f"{root} has no commits to replay"
        with closing(Clone(folder / "clone", source, commits[0].parent)) as clone:
            project = gate_on(broker, clone.root).project
            with Desk(broker.url, project, "author") as proposer, Desk(broker.url, project, "second") as reviewer:
                yield Replay(clone, proposer, reviewer, random.Random(asked.seed)), commits


if __name__ == "__main__":
    sys.exit(main())
