"""Runs of `tandem commit`, and the state that they leave."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

from tests.commandline import Ended, Inside, Shell
from tests.forked import Started
from tests.repository.gating import Gated
from tests.repository.terminal import without_agents

NOT_YET = 12


def environment(gated: Gated) -> dict[str, str]:
    """Returns the environment of a person's shell."""
    return {"TANDEM_DATA_DIR": str(gated.broker.data_dir), "GIT_EDITOR": "false", **gated.environment}


def commit(gated: Gated, *words: str, cwd: Path | None = None, stdin: bytes = b"", **more: str) -> Ended:
    """Run `tandem commit` to its end; it does not wait unless a time is given."""
    waits = () if "--timeout" in words else ("--timeout", "0")
    with_person = dict.fromkeys(os.environ.keys() - without_agents().keys(), "")
    said: dict[str, Any] = {**with_person, **environment(gated), **more}
    where = cwd or gated.root
    if stdin:
        return Shell(gated.broker.url, where).run("commit", *waits, *words, stdin=stdin, **said)
    return run_inside(gated.broker.url, where, "commit", *waits, *words, **said)


def run_inside(url: str, where: Path, *words: str, **environment: str) -> Ended:
    """Run a command in this process, which costs a third, where neither it nor git reads anything."""
    with contextlib.chdir(where), gits_words() as told:
        ended = Inside(url, where).run(*words, stdin=b"", **environment)
    return Ended(ended.status, told[0] + ended.stdout, told[1] + ended.stderr)


@contextlib.contextmanager
def gits_words() -> Generator[list[str]]:
    """What git and its hooks have written to this process's output and error output, once it is over."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, Path(os.devnull).open("rb") as nothing:
        kept = [(number, os.dup(number)) for number in range(3)]
        for number, file in enumerate((nothing, out, err)):
            os.dup2(file.fileno(), number)
        said: list[str] = []
        try:
            yield said
        finally:
            for number, copy in kept:
                os.dup2(copy, number)
                os.close(copy)
            for file in (out, err):
                file.seek(0)
                said.append(file.read().decode())


def start(gated: Gated, *words: str, **more: str) -> Started:
    """Start it."""
    return Shell(gated.broker.url, gated.root).start("commit", *words, **environment(gated), **more)


def review_of(ended: Ended) -> str:
    """The review that a run has submitted."""
    [name] = [line.split()[0] for line in ended.stderr.splitlines() if " is up, round " in line]
    return name


def reviewed(gated: Gated, *words: str, cwd: Path | None = None) -> str:
    """Submit by the command, which does not wait, and approve that; the review."""
    ended = commit(gated, *words, cwd=cwd)
    assert ended.status == NOT_YET, ended
    gated.decide(review_of(ended))
    return review_of(ended)


def reviews(gated: Gated) -> list[str]:
    """All reviews of the project: their states, oldest first."""
    listed = gated.call("list_reviews", limit=50)["reviews"]
    return [one["status"] for one in sorted(listed, key=lambda one: one["created_at"])]


def picture(root: Path, gated: Gated) -> dict[str, str]:
    """Returns the commit, the index and the working tree after a commit."""
    said = {
        "commit": ("log", "-1", "--format=%T %an %ae %ad %P", "--date=raw"),
        "message": ("log", "-1", "--format=%B"),
        "index": ("ls-files", "--stage"),
        "status": ("status", "--porcelain"),
    }
    found = {name: gated.git(*words, cwd=root) for name, words in said.items()}
    kept = [line for line in found["message"].splitlines() if not line.startswith("Tandem-Review: ")]
    return {**found, "message": "\n".join(kept).strip()}


def facts(gated: Gated, folder: Path | None = None) -> list[dict[str, object]]:
    """The records of open reviews in a git folder."""
    kept = (folder or gated.root / ".git") / "tandem" / "reviews"
    return [json.loads(file.read_text("utf-8")) for file in kept.glob("*.json")]
