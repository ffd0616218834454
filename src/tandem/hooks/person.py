"""Is there a person? What only a person may decide is asked at the terminal, never of standard input.

An agent's commands have its marks in their environment and mostly no terminal. Neither is a wall: whoever runs as
the same user can take both away. It keeps an agent that is told "refused" from helping itself.
"""

from __future__ import annotations

import os
import select
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ANSWER_SECONDS = 600.0
"""How long a person has to answer; nothing that waits for them may wait for ever."""

# Set by the clients for the commands that they run. Their settings (CODEX_HOME, OPENCODE_CONFIG, …) are no marks:
# people have those in their own shells.
_MARKS = (
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CODEX_CI",
    "CODEX_THREAD_ID",
    "GEMINI_CLI",
    "OPENCODE",
    "OPENCODE_PID",
    "OPENCODE_SESSION_ID",
    "CURSOR_AGENT",
    "AI_AGENT",
    "TANDEM_REVIEWER",
)
_MARK_PREFIXES = ("CODEX_SANDBOX",)
_LINE_BYTES = 1000


def agent_mark(environment: Mapping[str, str] | None = None) -> str | None:
    """The variable that shows that an agent runs this command; null if none does."""
    stated = os.environ if environment is None else environment
    for name in _MARKS:
        if stated.get(name):
            return name
    return next((name for name in sorted(stated) if name.startswith(_MARK_PREFIXES) and stated[name]), None)


def ask(question: str) -> str | None:
    """Put a question to the person at the terminal; the line they answered, or null if there is no terminal.

    Standard input and output stay untouched: a hook's belong to git, and a pipe can say yes. Null as well when
    nobody answers in `ANSWER_SECONDS`.

    Args:
        question: With everything that has to be known to answer it; nothing is added.
    """
    if sys.platform == "win32":
        return _ask_console(question)
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return None
    try:
        _write(terminal, question.encode("utf-8", "replace"))
        return _line(terminal)
    except OSError:
        # Not in the foreground, or the terminal went away: nobody is there to answer.
        return None
    finally:
        os.close(terminal)


def _write(terminal: int, text: bytes) -> None:
    while text:
        text = text[os.write(terminal, text) :]


def _line(terminal: int) -> str | None:
    ready, _, _ = select.select([terminal], [], [], ANSWER_SECONDS)
    if not ready:
        return None
    line = os.read(terminal, _LINE_BYTES)
    return line.decode("utf-8", "replace").strip() if line else None


def _ask_console(question: str) -> str | None:
    # Windows has no time limit for a line of the console.
    try:
        with (
            open("CONOUT$", "w", encoding="utf-8", errors="replace") as shown,
            open("CONIN$", encoding="utf-8") as typed,
        ):
            shown.write(question)
            shown.flush()
            line = typed.readline()
    except OSError:
        return None
    return line.strip() if line else None


def is_at_terminal() -> bool:
    """Whether there is a terminal to ask at."""
    try:
        descriptor = os.open("CONIN$" if sys.platform == "win32" else "/dev/tty", os.O_RDWR)
    except OSError:
        return False
    os.close(descriptor)
    return True
