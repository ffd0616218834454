"""Husky, lefthook and pre-commit, really installed: each with hooks of its own in a repository."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.downloads import needing
from tools.downloads import NODE, DownloadError, npm

HUSKY = "husky@9.1.7"
STAGES = ("pre-commit", "prepare-commit-msg", "pre-push")
"""The hooks that each has: one that the gate has not, and two that it has."""

_NOTE = 'echo MANAGER STAGE >>"$(git rev-parse --git-common-dir)/called"'
_SECONDS = 100


def called(root: Path) -> list[str]:
    """The hooks that ran since this was last asked."""
    file = root / ".git/called"
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return lines


def husky(root: Path) -> None:
    """What `npm install` does in a project with husky, again at each time."""
    for stage in STAGES:
        _write(root / ".husky" / stage, f"{_note('husky', stage)}\n")
    _run(root, str(NODE), str(_package() / "bin.js"))


def lefthook(root: Path) -> None:
    """`lefthook install`."""
    stages = (f"{stage}:\n  jobs:\n    - run: {_note('lefthook', stage)}\n" for stage in STAGES)
    _write(root / "lefthook.yml", "".join(stages))
    _run(root, "lefthook", "install")


def pre_commit(root: Path) -> None:
    """`pre-commit install` with three stages."""
    hooks = "".join(
        f"  - {{id: {stage}, name: {stage}, language: system, always_run: true, pass_filenames: false,"
        f" stages: [{stage}], entry: sh -c '{_note('pre-commit', stage)}'}}\n"
        for stage in STAGES
    )
    _write(root / ".pre-commit-config.yaml", f"repos:\n- repo: local\n  hooks:\n{hooks}")
    _run(root, "pre-commit", "install", *(word for stage in STAGES for word in ("-t", stage)))


MANAGERS: dict[str, Callable[[Path], None]] = {"husky": husky, "lefthook": lefthook, "pre-commit": pre_commit}


def _note(manager: str, stage: str) -> str:
    return _NOTE.replace("MANAGER", manager).replace("STAGE", stage)


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, "utf-8")


def _run(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=_SECONDS)
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}{done.stderr}"


def _package() -> Path:
    """Husky as npm has it, which is brought once for this environment of Python."""
    kept = Path(sys.prefix, "share", "tandem-tests", HUSKY)
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as scratch:
            with needing("npm", DownloadError):
                npm(Path(scratch), "install", HUSKY)
            brought = Path(scratch, "node_modules", "husky")
            try:
                brought.rename(kept)
            except OSError:
                # Another process of tests was faster.
                assert kept.is_dir()
    return kept
