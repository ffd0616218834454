"""Husky, lint-staged, lefthook and pre-commit, really installed: each with hooks of its own in a repository."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.downloads import needing
from tools.downloads import NODE, DownloadError, npm

HUSKY = "husky@9.1.7"
LINT_STAGED = "lint-staged@15.5.2"
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
    """The work of `npm install` in a project with husky, repeated at each call."""
    for stage in STAGES:
        _write(root / ".husky" / stage, f"{_note('husky', stage)}\n")
    _run(root, str(NODE), str(_package(HUSKY) / "bin.js"))


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


def _package(wanted: str) -> Path:
    """An npm package, downloaded once for this Python environment."""
    # Node finds the package's dependencies beside it, in folders of this name.
    kept = Path(sys.prefix, "share", "tandem-tests", f"{wanted}-modules", "node_modules")
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as scratch:
            with needing("npm", DownloadError):
                npm(Path(scratch), "install", wanted)
            try:
                Path(scratch, "node_modules").rename(kept)
            except OSError:
                # Another process of tests was faster.
                assert kept.is_dir()
    return kept / wanted.partition("@")[0]


# The same managers with a formatter, which takes the blanks at the ends of lines away and notes that it ran.

_FORMAT = """\
import pathlib, sys
for name in sys.argv[1:]:
    file = pathlib.Path(name)
    file.write_text("".join(f"{line.rstrip()}\\n" for line in file.read_text().splitlines()))
with open(NOTE, "a") as note:
    note.write("ran\\n")
"""
_STAGED = "$(git diff --cached --name-only --diff-filter=d)"


def _formatter(root: Path) -> str:
    """The command that formats the files behind it."""
    script = root.parent / "format.py"
    script.write_text(_FORMAT.replace("NOTE", repr(str(root / ".git/called"))), "utf-8")
    return shlex.join([sys.executable, str(script)])


def _hook(root: Path, text: str) -> None:
    file = root / ".git/hooks/pre-commit"
    _write(file, f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def plain_formats(root: Path) -> None:
    """A script that somebody wrote."""
    _hook(root, f"set -e\n{_formatter(root)} {_STAGED}\ngit add {_STAGED}")


def husky_formats(root: Path) -> None:
    """As its documentation has it."""
    _write(root / ".husky/pre-commit", f"{_formatter(root)} {_STAGED}\ngit add {_STAGED}\n")
    _run(root, str(NODE), str(_package(HUSKY) / "bin.js"))


def lint_staged_formats(root: Path) -> None:
    """It hides unstaged changes, runs, stages, and brings them back."""
    _write(root / ".lintstagedrc.json", json.dumps({"*.txt": _formatter(root)}))
    _hook(root, f"exec {NODE} {_package(LINT_STAGED) / 'bin/lint-staged.js'}")


def lefthook_formats(root: Path) -> None:
    """With `stage_fixed`."""
    job = f"    - run: {_formatter(root)} {{staged_files}}\n      stage_fixed: true\n"
    _write(root / "lefthook.yml", f"pre-commit:\n  jobs:\n{job}")
    _run(root, "lefthook", "install")


def pre_commit_formats(root: Path) -> None:
    """It fails where a file was changed, which the person then stages."""
    hook = f"  - {{id: format, name: format, language: system, files: txt, entry: {_formatter(root)}}}\n"
    _write(root / ".pre-commit-config.yaml", f"repos:\n- repo: local\n  hooks:\n{hook}")
    _run(root, "git", "add", ".pre-commit-config.yaml")
    _run(root, "git", "commit", "--quiet", "-m", "pre-commit")
    _run(root, "pre-commit", "install")


FORMATTERS: dict[str, Callable[[Path], None]] = {
    "plain": plain_formats,
    "husky": husky_formats,
    "lint-staged": lint_staged_formats,
    "lefthook": lefthook_formats,
    "pre-commit": pre_commit_formats,
}
