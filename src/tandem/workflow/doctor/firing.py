"""Firing git's hooks with a change that nobody can have approved, so that nothing of the repository changes.

A dead hook looks like one that has nothing to object to. So each is made to judge a file of random content: in a git
folder of our own that shares the repository's objects and hooks, and never beyond the point where it must refuse.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tandem.bridge.scratch import ScratchFolder
from tandem.errors import Unavailable
from tandem.git.runner import Git, Output
from tandem.hooks import git
from tandem.hooks.state import GateFile

_GIT: Final = Git(timeout_seconds=60.0)
_ANY_STATUS: Final = range(256)
_MARK: Final = "tandem: refused"
_NOBODY: Final = {
    "GIT_AUTHOR_NAME": "Tandem's doctor",
    "GIT_AUTHOR_EMAIL": "doctor@localhost",
    "GIT_COMMITTER_NAME": "Tandem's doctor",
    "GIT_COMMITTER_EMAIL": "doctor@localhost",
}


@dataclass(frozen=True, slots=True)
class Fired:
    """What a hook did about it.

    Attributes:
        hook: Its name.
        refused: Whether it refused, in the gate's own words.
        said: The end of what was said.
    """

    hook: str
    refused: bool
    said: str


def fire(gate: GateFile) -> list[Fired]:
    """Fire the hooks that can refuse.

    Raises:
        GitTrouble: The repository cannot be read.
        TandemError: Git cannot be run in it.
        OSError: There is no room for a scratch folder.
    """
    with ScratchFolder("doctor") as folder:
        bad = _Bad(gate, Path(folder))
        return [bad.commit(), bad.update(), bad.push()]


class _Bad:
    """A commit of a random file on top of a base branch, in a folder of our own."""

    def __init__(self, gate: GateFile, folder: Path) -> None:
        self._gate = gate
        self._folder = folder
        self._ref = f"refs/heads/{gate.branches[0]}"
        self._tip = git.resolve(gate.place, self._ref)
        self._git_dir = folder / "git"
        self._git_dir.mkdir()
        (self._git_dir / "HEAD").write_text(f"ref: {self._ref}\n", "utf-8")
        (self._git_dir / "commondir").write_text(f"{gate.place.common_dir}\n", "utf-8")
        self._environment = self._clean()
        self._commit = self._make()

    def commit(self) -> Fired:
        """`prepare-commit-msg`, started by git as for a commit of the random file."""
        message = self._folder / "message"
        message.write_text("Tandem's doctor fires the hooks\n", "utf-8")
        done = self._run("hook", "run", "prepare-commit-msg", "--", str(message), "message")
        return self._fired("prepare-commit-msg", done)

    def update(self) -> Fired:
        """`reference-transaction`, up to the point where git asks it; then the transaction is given up."""
        old = self._tip or "0" * len(self._commit)
        told = f"start\nupdate {self._ref} {self._commit} {old}\nprepare\nabort\n"
        return self._fired("reference-transaction", self._run("update-ref", "--stdin", told=told))

    def push(self) -> Fired:
        """`pre-push`, in a dry run to an empty repository of our own."""
        away = self._folder / "away.git"
        self._run("init", "--quiet", "--bare", "--template=", str(away), of_its_own=True)
        done = self._run("push", "--dry-run", "--quiet", str(away), f"{self._commit}:{self._ref}")
        return self._fired("pre-push", done)

    def _clean(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("GIT_")}
        kept.pop("TANDEM_OVERRIDE", None)
        objects = self._folder / "objects"
        objects.mkdir()
        return {
            **kept,
            **_NOBODY,
            "GIT_DIR": str(self._git_dir),
            "GIT_WORK_TREE": str(self._gate.place.top or self._gate.root),
            "GIT_INDEX_FILE": str(self._folder / "index"),
            "GIT_OBJECT_DIRECTORY": str(objects),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(Path(self._gate.place.common_dir, "objects")),
            "GIT_TERMINAL_PROMPT": "0",
        }

    def _make(self) -> str:
        if self._tip is not None:
            self._must("read-tree", self._tip)
        blob = self._must("hash-object", "-w", "--stdin", told=secrets.token_hex(32))
        self._must("update-index", "--add", "--cacheinfo", f"100644,{blob},tandem-doctor-{secrets.token_hex(8)}")
        tree = self._must("write-tree")
        parents = ["-p", self._tip] if self._tip is not None else []
        return self._must("commit-tree", tree, *parents, "-m", "Tandem's doctor fires the hooks")

    def _must(self, *arguments: str, told: str = "") -> str:
        done = self._run(*arguments, told=told)
        if done.status_code:
            raise Unavailable(f"git {arguments[0]} failed: {done.words}")
        return done.stdout.decode().strip()

    def _run(self, *arguments: str, told: str = "", of_its_own: bool = False) -> Output:
        environment = self._environment
        if of_its_own:
            environment = {name: value for name, value in environment.items() if not name.startswith("GIT_")}
        top = Path(self._gate.place.top or self._gate.root)
        return _GIT.run(arguments, cwd=top, environment=environment, stdin=told.encode(), accept=_ANY_STATUS)

    def _fired(self, hook: str, done: Output) -> Fired:
        lines = done.words.splitlines()
        return Fired(hook, done.status_code != 0 and _MARK in done.words, lines[-1].strip() if lines else "")
