"""What agents are taught: a skill, two commands and a block of instructions, in each client's own form and place.

The texts stand in `texts/` once. `files` and `block` give them as each client takes them, `hooks` what its hook
configuration has to hold; the plugins in the repository are the same again (see `tools/plugins.py`).
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

ClientName = Literal["claude", "codex", "gemini", "opencode", "cursor"]
CLIENTS: Final[tuple[ClientName, ...]] = ("claude", "codex", "gemini", "opencode", "cursor")

SERVER: Final = "tandem"
"""The MCP server's name in every client: its tools are `mcp__tandem__…`, and instructions call them so."""

SKILL: Final = "tandem-review"
STATUS_SKILL: Final = "tandem-status"
SKILL_DESCRIPTION: Final = (
    "Have changes, plans and reports reviewed through Tandem before they count. Use it in repositories with a Tandem"
    " section in CLAUDE.md, AGENTS.md or GEMINI.md: before every git commit, whenever a command says 'tandem: refused',"
    " and in GSD's plan, discuss, execute and verify steps."
)
REVIEW_DESCRIPTION: Final = "Have the present change reviewed through Tandem, and commit it when it is approved."
STATUS_DESCRIPTION: Final = "Say where Tandem's reviews and its gate stand in this repository."
_REVIEW_HINT: Final = "[what the change is for]"

SHARED_FILE: Final = "AGENTS.md"
_OWN_FILES: Final[dict[ClientName, str]] = {"claude": "CLAUDE.md", "gemini": "GEMINI.md"}
# Codex has no commands of its own any more: a skill is called by its name, `$tandem-status`.
_COMMANDS: Final[dict[ClientName, str]] = {
    "claude": ".claude/commands/tandem/{}.md",
    "gemini": ".gemini/commands/tandem/{}.toml",
    "opencode": ".opencode/commands/tandem/{}.md",
    "cursor": ".cursor/commands/tandem-{}.md",
}
COMMANDS: Final = ("review", "status")

_LOOKS: Final = ("gate status", "review list", "review status")
_MAY_RUN: Final = {
    "review": (*_LOOKS, "commit", "submit", "apply", "review proposal", "review discussion"),
    "status": (*_LOOKS, "gsd status"),
}
"""What Claude Code may run unasked in a command, besides `git status`: looks, and the command's own work."""

TIMEOUT_SECONDS: Final = 60
"""How long a client waits for a hook. The broker answers in milliseconds, and its silence ends after twenty seconds."""

CLAUDE_TOOLS: Final = "Bash|PowerShell|Write|Edit|MultiEdit"
CODEX_TOOLS: Final = "^(Bash|apply_patch)$"
GEMINI_TOOLS: Final = "^(run_shell_command|write_file|replace)$"

_MILLISECONDS: Final = 1000

_NOTES: Final[dict[ClientName, tuple[str, ...]]] = {
    "claude": ("Claude Code reads new hooks when its next session starts.",),
    "codex": (
        (
            "Codex skips new hooks in silence until you trust them: start codex in this project, type /hooks, look at"
            " Tandem's three and trust them. After each change of them Codex asks again. 'tandem doctor' says whether"
            " they are trusted."
        ),
    ),
    "gemini": ("Gemini CLI reads new hooks when its next session starts.",),
    "opencode": ("OpenCode reads new plugins when it is started again.",),
}

_TEXTS = Path(__file__).parent / "texts"


@dataclass(frozen=True, slots=True)
class TeachingFile:
    """One file that teaches a client.

    Attributes:
        path: Where it belongs, with slashes, below the project's root or the user's home folder. `.claude`, `.codex`
            and `.config` there stand for what CLAUDE_CONFIG_DIR, CODEX_HOME and XDG_CONFIG_HOME name instead.
        text: The whole file.
        scope: Which of the two.
    """

    path: str
    text: str
    scope: Literal["project", "user"]


def block_file(client: ClientName) -> str:
    """The file at the project's root that a client reads at the start of every session."""
    return _OWN_FILES.get(client, SHARED_FILE)


def folder_of(client: ClientName) -> str:
    """A client's configuration folder below the home folder."""
    return ".config/opencode" if client == "opencode" else f".{client}"


def files(client: ClientName) -> tuple[TeachingFile, ...]:
    """The skill and the commands of a client."""
    # The user's own: GSD looks for `global:tandem-review` there, and a linked working tree has it too.
    folder = f"{folder_of(client)}/skills"
    found = [TeachingFile(f"{folder}/{SKILL}/SKILL.md", skill(), "user")]
    commands = _COMMANDS.get(client)
    if commands is None:
        found.append(TeachingFile(f"{folder}/{STATUS_SKILL}/SKILL.md", status_skill(), "user"))
    else:
        found += [TeachingFile(commands.format(name), command(client, name), "project") for name in COMMANDS]
    return tuple(found)


def block() -> str:
    """The marked block for CLAUDE.md, AGENTS.md or GEMINI.md, without its marks."""
    return _text("block")


def skill() -> str:
    """The skill `tandem-review`, for every client."""
    return f"{_front(name=SKILL, description=SKILL_DESCRIPTION)}\n{_text('skill')}"


def status_skill() -> str:
    """The command `status` as a skill, for clients that have no commands."""
    return f"{_front(name=STATUS_SKILL, description=STATUS_DESCRIPTION)}\n{_text('status')}"


def command(client: ClientName, name: str) -> str:
    """A command, `review` or `status`, as a client has it."""
    # Cursor's commands are plain text; the text typed behind one follows it.
    arguments = {"gemini": "{{args}}", "cursor": "see the end of this message"}.get(client, "$ARGUMENTS")
    text = _text(name).replace("{arguments}", arguments)
    description = REVIEW_DESCRIPTION if name == "review" else STATUS_DESCRIPTION
    match client:
        case "cursor":
            return text
        case "gemini":
            # A JSON string is one of TOML too; the literal one of several lines takes the text as it is.
            return f"description = {json.dumps(description)}\nprompt = '''\n{text}'''\n"
        case "claude":
            hint = {"argument-hint": _REVIEW_HINT} if name == "review" else {}
            tools = ["Bash(git status:*)", *(f"Bash(tandem {one}:*)" for one in _MAY_RUN[name])]
            front = _front(description=description, **hint, **{"allowed-tools": ", ".join(tools)})
        case _:
            front = _front(description=description)
    return f"{front}\n{text}"


def _front(**members: str) -> str:
    lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in members.items() if name != "name"]
    name = [f"name: {members['name']}"] if "name" in members else []
    return "\n".join(["---", *name, *lines, "---", ""])


@cache
def _text(name: str) -> str:
    return (_TEXTS / f"{name}.md").read_text("utf-8")


@dataclass(frozen=True, slots=True)
class HookEntry:
    """Entries of a list in a client's JSON configuration.

    Attributes:
        path: The file, below the project's root or the user's home folder (see `TeachingFile.path`).
        scope: Which of the two.
        keys: Where the list is in it.
        items: The items that it must have, besides others.
    """

    path: str
    scope: Literal["project", "user"]
    keys: tuple[str, ...]
    items: tuple[dict[str, Any], ...]


def hooks(client: ClientName, command: Sequence[str]) -> tuple[HookEntry, ...]:
    """What a client's hook configuration has to hold; nothing for clients that have none.

    Args:
        client: The client.
        command: The words before a hook's name, e.g. `tandem hook`, or an interpreter and a program.
    """
    # Claude Code's shell is a POSIX one everywhere.
    typed = shlex.join if client == "claude" else _typed
    gate, session, turn = (typed([*command, name, "--client", client]) for name in ("agent", "session", "turn"))
    match client:
        case "claude":
            # The shared file names no place of one machine.
            file = ".claude/settings.local.json" if os.path.isabs(command[0]) else ".claude/settings.json"  # noqa: PTH117 - a word of a command
            before, start, end = _group(gate, CLAUDE_TOOLS), _group(session), _group(turn)
            return _entries(file, "project", PreToolUse=before, SessionStart=start, Stop=end)
        case "codex":
            before, start, end = _group(gate, CODEX_TOOLS), _group(session), _group(turn)
            return _entries(".codex/hooks.json", "user", PreToolUse=before, SessionStart=start, Stop=end)
        case "gemini":
            before = _group(gate, GEMINI_TOOLS, _MILLISECONDS)
            start, end = (_group(one, None, _MILLISECONDS) for one in (session, turn))
            return _entries(".gemini/settings.json", "user", BeforeTool=before, SessionStart=start, AfterAgent=end)
        case "opencode" | "cursor":
            return ()


def plugin(client: ClientName, command: Sequence[str]) -> TeachingFile | None:
    """The plugin of a client that takes no commands as hooks; None for the others.

    Args:
        client: The client.
        command: As for `hooks`.
    """
    if client != "opencode":
        return None
    text = (_TEXTS / "opencode.js").read_text("utf-8")
    return TeachingFile(
        ".config/opencode/plugins/tandem.js", text.replace("{command}", json.dumps(list(command))), "user"
    )


def notes(client: ClientName) -> tuple[str, ...]:
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
