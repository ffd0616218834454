"""What the clients' hook configurations have to hold so that they call Tandem's hooks, and what a person must know."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from tandem.workflow.teaching.client_files import Client

TIMEOUT_SECONDS: Final = 60
"""How long a client waits for a hook. The broker answers in milliseconds, and its silence ends after twenty seconds."""

CLAUDE_TOOLS: Final = "Bash|PowerShell|Write|Edit|MultiEdit"
CODEX_TOOLS: Final = "^(Bash|apply_patch)$"
GEMINI_TOOLS: Final = "^(run_shell_command|write_file|replace)$"

_MILLISECONDS: Final = 1000

_NOTES: Final[dict[Client, tuple[str, ...]]] = {
    "claude": ("Claude Code reads new hooks when its next session starts.",),
    "codex": (
        (
            "Codex skips new hooks in silence until you trust them: start codex in this project, type /hooks, look at"
            " Tandem's two and trust them. After each change of them Codex asks again. 'tandem doctor' says whether"
            " they are trusted."
        ),
    ),
    "gemini": ("Gemini CLI reads new hooks when its next session starts.",),
}


@dataclass(frozen=True, slots=True)
class HookEntry:
    """Entries of a list in a client's JSON configuration.

    Attributes:
        path: The file, below the project's root or the user's home folder (see `TeachingFile.path`).
        scope: Which of the two.
        keys: Where the list is in it.
        items: What it has to hold, besides whatever else it holds.
    """

    path: str
    scope: Literal["project", "user"]
    keys: tuple[str, ...]
    items: tuple[dict[str, Any], ...]


def hooks(client: Client, command: Sequence[str], *, strict: bool = False) -> tuple[HookEntry, ...]:
    """What a client's hook configuration has to hold; nothing for clients whose tools no hook can refuse.

    Args:
        client: The client.
        command: What comes before a hook's name, e.g. `tandem hook`, or an interpreter and a program.
        strict: Whether plans, too, are to be approved before they are written.
    """
    gate = [*command, "agent", "--client", client, *(["--strict"] if strict else [])]
    session = [*command, "session", "--client", client]
    match client:
        case "claude":
            # Its shell is a POSIX one everywhere. The shared file names no place of one machine.
            file = ".claude/settings.local.json" if os.path.isabs(command[0]) else ".claude/settings.json"  # noqa: PTH117 - a word of a command
            before = _group(shlex.join(gate), CLAUDE_TOOLS)
            return _entries(file, "project", PreToolUse=before, SessionStart=_group(shlex.join(session)))
        case "codex":
            before = _group(_typed(gate), CODEX_TOOLS)
            return _entries(".codex/hooks.json", "user", PreToolUse=before, SessionStart=_group(_typed(session)))
        case "gemini":
            before = _group(_typed(gate), GEMINI_TOOLS, _MILLISECONDS)
            start = _group(_typed(session), None, _MILLISECONDS)
            return _entries(".gemini/settings.json", "user", BeforeTool=before, SessionStart=start)
        case "opencode" | "cursor":
            return ()


def notes(client: Client) -> tuple[str, ...]:
    """What a person has to know or do after the hooks were written, a sentence or two each."""
    return _NOTES.get(client, ())


def _entries(path: str, scope: Literal["project", "user"], **lists: dict[str, Any]) -> tuple[HookEntry, ...]:
    return tuple(HookEntry(path, scope, ("hooks", event), (group,)) for event, group in lists.items())


def _group(command: str, tools: str | None = None, second: int = 1) -> dict[str, Any]:
    """One group of hooks: for these tools, this command, with its limit in seconds, or parts of them."""
    hook = {"type": "command", "command": command, "timeout": TIMEOUT_SECONDS * second}
    return ({"matcher": tools} if tools else {}) | {"hooks": [hook]}


def _typed(words: Sequence[str]) -> str:
    """A command as the system's own shell takes it."""
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)
