"""Branches that land on `main`, and their approvals."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.commandline import Shell
from tests.forked import Started
from tests.repository.gating import Gated

NO_HOOKS = ("-c", f"core.hooksPath={os.devnull}")


def branched(
    gated: Gated, name: str, *commits: Mapping[str, str | None], cwd: Path | None = None, start: str = "main"
) -> str:
    """A branch with commits that no hook has seen; the id of its newest. `main` stays checked out."""
    gated.git("switch", "--quiet", "--create", name, start, cwd=cwd)
    for number, files in enumerate(commits, 1):
        gated.stage(files, cwd)
        gated.git(*NO_HOOKS, "commit", "--quiet", "-m", f"{name} {number}", cwd=cwd)
    head = gated.head(cwd=cwd)
    gated.git("switch", "--quiet", "main", cwd=cwd)
    return head


def approved(gated: Gated, name: str, *commits: Mapping[str, str | None], cwd: Path | None = None) -> str:
    """The same, approved as one change; the review's id."""
    branched(gated, name, *commits, cwd=cwd)
    return gated.approve("--range", f"main...{name}", cwd=cwd, intent=name)


def started(gated: Gated, *arguments: str, cwd: Path | None = None, **environment: str) -> Started:
    """`tandem land` as a process of its own."""
    shell = Shell(gated.broker.url, cwd or gated.root)
    own = {"TANDEM_DATA_DIR": str(gated.broker.data_dir), **gated.environment, **environment}
    return shell.start("land", *arguments, **own)


def clean(gated: Gated, cwd: Path | None = None) -> bool:
    """Whether nothing differs from HEAD in a working tree."""
    return gated.git("status", "--porcelain", cwd=cwd) == ""


def landings(gated: Gated, **more: Any) -> list[dict[str, Any]]:
    """The line, and the ended landings."""
    return gated.call("list_landings", **more)["landings"]


def named(landing: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields that name a landing in every call of its process."""
    return {name: landing[name] for name in ("branch", "source", "head", "landing_id", "generation")}


def mainline(gated: Gated) -> list[str]:
    """The subjects of `main` since the gate was switched on, oldest first."""
    return gated.git("log", "--first-parent", "--reverse", "--format=%s", "main").splitlines()[1:]


def run_git(folder: Path, *arguments: str) -> str:
    """Git elsewhere."""
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()
