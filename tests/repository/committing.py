"""Runs of `tandem commit`, and the state that they leave."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.commandline import Ended, Shell
from tests.forked import Started
from tests.repository.gating import Gated
from tests.repository.terminal import without_agents

NOT_YET = 12


def environment(gated: Gated) -> dict[str, str]:
    """Returns the environment of a person's shell."""
    return {"TANDEM_DATA_DIR": str(gated.broker.data_dir), "GIT_EDITOR": "false", **gated.environment}


def commit(gated: Gated, *words: str, cwd: Path | None = None, stdin: bytes = b"", **more: str) -> Ended:
    """Run `tandem commit` to its end, in a process of its own; it does not wait unless a time is given."""
    waits = () if "--timeout" in words else ("--timeout", "0")
    with_person = dict.fromkeys(os.environ.keys() - without_agents().keys(), "")
    shell = Shell(gated.broker.url, cwd or gated.root)
    return shell.run("commit", *waits, *words, stdin=stdin, **{**with_person, **environment(gated), **more})


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
