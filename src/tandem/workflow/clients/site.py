"""Where clients are set up: the project, the user's folders, and how Tandem is called there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from tandem.workflow.edits import Edit
from tandem.workflow.program import Program
from tandem.workflow.teaching import Client as Name

SERVER: Final = "gsdreview"
"""The MCP server's name in every client: its tools are `mcp__gsdreview__…`, and instructions call them so."""

TOOL_TIMEOUT_SECONDS: Final = 120
"""A call waits for 50 seconds at most; OpenCode's own limit of 60 would be close."""

START_TIMEOUT_SECONDS: Final = 30
"""The first call may have to start the broker."""

_MOVED: Final = {
    ".claude": ("CLAUDE_CONFIG_DIR", ""),
    ".codex": ("CODEX_HOME", ""),
    ".gemini": ("GEMINI_CLI_HOME", ".gemini"),
    ".config": ("XDG_CONFIG_HOME", ""),
}
"""Folders of the home folder that a variable moves: its name, and what is below the folder that it names."""


@dataclass(frozen=True)
class Site:
    """Where clients are set up.

    Attributes:
        root: The top of the working tree.
        home: The user's home folder.
        program: How Tandem is called.
        environment: The user's variables.
        broker: The URL that the person named; null for the broker that runs for this user.
    """

    root: Path
    home: Path
    program: Program
    environment: Mapping[str, str]
    broker: str | None = None

    def user_file(self, path: str) -> Path:
        """A file below the home folder, where the user's variables may have moved its first folder.

        Args:
            path: With slashes, such as `.codex/hooks.json`.
        """
        first, _, rest = path.partition("/")
        moved = self._moved().get(first)
        return self.home / path if moved is None else moved / rest

    def tree_of(self, file: Path) -> Path:
        """The folder that a user's file is in: the home folder, else the one that a variable names."""
        if file.is_relative_to(self.home):
            return self.home
        return next(folder for folder in self._moved().values() if file.is_relative_to(folder))

    def _moved(self) -> dict[str, Path]:
        found: dict[str, Path] = {}
        for first, (variable, below) in _MOVED.items():
            stated = self.environment.get(variable, "").strip()
            if stated and Path(stated).expanduser().is_absolute():
                found[first] = Path(stated).expanduser() / below
        return found

    @property
    def server(self) -> list[str]:
        """The command of the MCP server: the proposer's tools over standard input and output."""
        stated = ["--broker", self.broker] if self.broker else []
        return [*self.program.words, "mcp", "--role", "proposer", *stated]


class Client(Protocol):
    """A client program.

    Attributes:
        name: As on the command line.
        title: As people call it.
        programs: What it is called on PATH.
        folder: Its configuration folder below the home folder.
    """

    name: Name
    title: str
    programs: tuple[str, ...]
    folder: str

    def edits(self, site: Site) -> list[Edit]:
        """Its MCP server and permissions, all in the project.

        Raises:
            ConfigInvalid: A file that decides what to write cannot be read.
        """
        ...

    def notes(self, site: Site) -> list[str]:
        """What a person has to know or do, a sentence or two each."""
        ...
