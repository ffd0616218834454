"""The skill, the commands and the block, as each client reads them and where it looks for them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

Client = Literal["claude", "codex", "gemini", "opencode", "cursor"]
CLIENTS: Final[tuple[Client, ...]] = ("claude", "codex", "gemini", "opencode", "cursor")

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

BLOCK_FILES: Final[dict[Client, str]] = {
    "claude": "CLAUDE.md",
    "codex": "AGENTS.md",
    "gemini": "GEMINI.md",
    "opencode": "AGENTS.md",
    "cursor": "AGENTS.md",
}
"""The file at the project's root that each client reads at the start of every session."""

# The user's own: GSD looks for `global:tandem-review` there, and a linked working tree has it too.
_SKILL_FOLDERS: Final[dict[Client, str]] = {
    "claude": ".claude/skills",
    "codex": ".codex/skills",
    "gemini": ".gemini/skills",
    "opencode": ".config/opencode/skills",
    "cursor": ".cursor/skills",
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


def files(client: Client) -> tuple[TeachingFile, ...]:
    """The skill and the commands of a client."""
    folder = _SKILL_FOLDERS[client]
    found = [TeachingFile(f"{folder}/{SKILL}/SKILL.md", skill(), "user")]
    match client:
        case "claude":
            found += _commands(".claude/commands/tandem/{}.md", claude_command)
        case "codex":
            # Codex has no commands of its own any more: a skill is called by its name, `$tandem-status`.
            found.append(TeachingFile(f"{folder}/{STATUS_SKILL}/SKILL.md", status_skill(), "user"))
        case "gemini":
            found += _commands(".gemini/commands/tandem/{}.toml", _gemini_command)
        case "opencode":
            found += _commands(".opencode/commands/tandem/{}.md", _opencode_command)
        case "cursor":
            found += _commands(".cursor/commands/tandem-{}.md", _cursor_command)
    return tuple(found)


def block() -> str:
    """The marked block for CLAUDE.md, AGENTS.md or GEMINI.md, without its marks."""
    return _text("block")


def skill() -> str:
    """The skill `tandem-review`, for whatever client."""
    return f"{_front(name=SKILL, description=SKILL_DESCRIPTION)}\n{_text('skill')}"


def status_skill() -> str:
    """The command `status` as a skill, for clients that have no commands."""
    return f"{_front(name=STATUS_SKILL, description=STATUS_DESCRIPTION)}\n{_text('status')}"


def claude_command(name: str) -> str:
    """A command as Claude Code has it; what it may run unasked looks, or puts up."""
    if name == "status":
        front = _front(description=STATUS_DESCRIPTION, **{"allowed-tools": _may_run("gsd status")})
        return f"{front}\n{_text('status')}"
    tools = _may_run("submit", "apply", "review proposal", "review discussion")
    front = _front(description=REVIEW_DESCRIPTION, **{"argument-hint": _REVIEW_HINT, "allowed-tools": tools})
    return f"{front}\n{_review('$ARGUMENTS')}"


def _may_run(*commands: str) -> str:
    looks = ("gate status", "review list", "review status", *commands)
    return ", ".join(["Bash(git status:*)", *(f"Bash(tandem {command}:*)" for command in looks)])


def _commands(path: str, written: Callable[[str], str]) -> list[TeachingFile]:
    return [TeachingFile(path.format(name), written(name), "project") for name in ("review", "status")]


def _gemini_command(name: str) -> str:
    text = _review("{{args}}") if name == "review" else _text("status")
    description = REVIEW_DESCRIPTION if name == "review" else STATUS_DESCRIPTION
    # A JSON string is one of TOML too; the literal one of several lines takes the text as it is.
    return f"description = {json.dumps(description)}\nprompt = '''\n{text}'''\n"


def _opencode_command(name: str) -> str:
    if name == "status":
        return f"{_front(description=STATUS_DESCRIPTION)}\n{_text('status')}"
    return f"{_front(description=REVIEW_DESCRIPTION)}\n{_review('$ARGUMENTS')}"


def _cursor_command(name: str) -> str:
    # Cursor's commands are plain text; what is typed behind one follows it.
    return _review("see the end of this message") if name == "review" else _text("status")


def _review(arguments: str) -> str:
    return _text("review").replace("{arguments}", arguments)


def _front(**members: str) -> str:
    lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in members.items() if name != "name"]
    name = [f"name: {members['name']}"] if "name" in members else []
    return "\n".join(["---", *name, *lines, "---", ""])


@cache
def _text(name: str) -> str:
    return (_TEXTS / f"{name}.md").read_text("utf-8")
