"""Where GSD is installed, for which client, and which of its files the overlay is for."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal

from tandem.hooks.gsd import version_of
from tandem.workflow.gsd.pointers import AGENTS, COMMANDS, NOT_BEFORE, TOOLS, WORKFLOWS, Pointer


class Client(StrEnum):
    """A client for which GSD's files are known."""

    CLAUDE = "claude"
    CODEX = "codex"
    GEMINI = "gemini"
    OPENCODE = "opencode"


_PROJECT_FOLDERS: Final[Mapping[Client, str]] = {
    Client.CLAUDE: ".claude",
    Client.CODEX: ".codex",
    Client.GEMINI: ".gemini",
    Client.OPENCODE: ".opencode",
}
_HOME_VARIABLES: Final[Mapping[Client, str]] = {
    Client.CLAUDE: "CLAUDE_CONFIG_DIR",
    Client.CODEX: "CODEX_HOME",
    Client.GEMINI: "GEMINI_CONFIG_DIR",
    Client.OPENCODE: "OPENCODE_CONFIG_DIR",
}


@dataclass(frozen=True, slots=True)
class Target:
    """A file that the overlay is for.

    Attributes:
        name: From the installation's folder, with slashes, as GSD's own manifest names it.
        pointers: The pointers that belong into it.
        tool: What belongs at the end of its list of tools; null if nothing.
        is_expected: Whether its absence is worth a word.
    """

    name: str
    pointers: tuple[Pointer, ...] = ()
    tool: str | None = None
    is_expected: bool = True


@dataclass(frozen=True, slots=True)
class Install:
    """GSD as one client has it.

    Attributes:
        client: Whose.
        scope: `project`, or `user` for all of the user's projects.
        folder: The client's folder, links followed.
        version: GSD's version.
    """

    client: Client
    scope: Literal["project", "user"]
    folder: Path
    version: str

    def targets(self) -> Iterator[Target]:
        """The files that the overlay is for, whether or not they are there."""
        tool = TOOLS.get(self.client)
        for agent, pointers in AGENTS.items():
            yield Target(f"agents/{agent}.md", pointers, tool)
            if self.client is Client.CODEX:
                yield Target(f"agents/{agent}.toml", pointers)
        for workflow, pointers in WORKFLOWS.items():
            expected = self.is_at_least(NOT_BEFORE.get(workflow, (0, 0)))
            yield Target(f"get-shit-done/workflows/{workflow}.md", pointers, is_expected=expected)
        if tool is not None:
            for command in COMMANDS:
                for name in (
                    f"commands/gsd/{command}.md",
                    f"skills/gsd-{command}/SKILL.md",
                    f"command/gsd-{command}.md",
                ):
                    yield Target(name, (), tool, is_expected=False)

    def is_at_least(self, version: tuple[int, int]) -> bool:
        """Whether it is of a version or a later one; one that cannot be read counts as the newest."""
        found = re.match(r"v?(\d+)\.(\d+)", self.version)
        return found is None or (int(found[1]), int(found[2])) >= version


def find(top: Path | None, environment: Mapping[str, str], home: Path) -> list[Install]:
    """Every installation that a session in a project meets: the project's own and the user's.

    Args:
        top: The working tree's top; null outside of git.
        environment: Where the clients' own variables are looked up.
        home: The user's home folder.
    """
    found: dict[Path, Install] = {}
    for client in Client:
        places: list[tuple[Literal["project", "user"], Path]] = [("user", _user_folder(client, environment, home))]
        if top is not None:
            places.append(("project", top / _PROJECT_FOLDERS[client]))
        for scope, place in places:
            folder = Path(os.path.realpath(place))
            version = version_of(str(folder))
            if version is not None:
                found.setdefault(folder, Install(client, scope, folder, version))
    return list(found.values())


def _user_folder(client: Client, environment: Mapping[str, str], home: Path) -> Path:
    """The folder that GSD's installer uses for a client when it installs for all projects."""
    stated = environment.get(_HOME_VARIABLES[client], "").strip()
    if stated:
        return _expanded(stated, home)
    if client is not Client.OPENCODE:
        return home / _PROJECT_FOLDERS[client]
    file = environment.get("OPENCODE_CONFIG", "").strip()
    if file:
        return _expanded(file, home).parent
    base = environment.get("XDG_CONFIG_HOME", "").strip()
    return (_expanded(base, home) if base else home / ".config") / "opencode"


def _expanded(path: str, home: Path) -> Path:
    return home / path[2:] if path.startswith("~/") else Path(path)
