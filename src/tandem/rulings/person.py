"""Is there a person? What only a person may decide is asked at the terminal, never of standard input.

An agent's commands have its marks in their environment and mostly no terminal. Neither is a wall: a program of
the same user can take both away. It keeps an agent that is told "refused" from helping itself.
"""

from __future__ import annotations

import os
import re
import select
import sys
from typing import TYPE_CHECKING, Any, cast

from tandem.bridge.submitted import ORIGIN
from tandem.core import platforms
from tandem.core.files import json_object
from tandem.core.stand_ins import hex_digest
from tandem.core.visible import folded, visible_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
CLIENTS = {
    "CLAUDE": "claude-code",
    "CODEX": "codex",
    "CURSOR": "cursor",
    "GEMINI": "gemini",
    "OPENCODE": "opencode",
}
"""How the marks of each client begin, and what `tandem init` has it call itself."""
_LIMITS = {
    "claude-code": (120.0, "BASH_DEFAULT_TIMEOUT_MS"),
    "gemini": (300.0, None),
    "opencode": (120.0, "OPENCODE_EXPERIMENTAL_BASH_DEFAULT_TIMEOUT_MS"),
}
"""After how many seconds a client ends a command or leaves it behind, and its own variable for that, in milliseconds.
Gemini CLI counts from the last line of output. Of the others it is not known; they get the shortest."""
_SHORTEST_SECONDS = 120.0
_LEAST_ANSWER_SECONDS = 10.0
"""However short a client's limit is set: less than this a busy broker may take."""
_SESSIONS = (
    "CODEX_THREAD_ID",
    "OPENCODE_SESSION_ID",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_SESSION_ID",
    "GEMINI_SESSION_ID",
    "CURSOR_SESSION_ID",
)
"""Where the clients name their session to the commands that they run, as they do to their hooks."""
_REVIEWER = "TANDEM_REVIEWER"
_LINE_BYTES = 1000


def family(*names: str | None) -> str | None:
    """The client that goes by one of these names; None if none is known."""
    known = {name.partition("-")[0] for name in CLIENTS.values()}
    words = (re.split("[-/ ]", folded(name), maxsplit=1)[0] for name in names if name)
    return next((word for word in words if word in known), None)


def agent_mark(environment: Mapping[str, str] | None = None) -> str | None:
    """The variable that shows that an agent runs this command; None if none does."""
    return next(iter(_marks(os.environ if environment is None else environment)), None)


def told(words: str) -> str:
    """Words to an agent; or, where a person runs this command, to that person."""
    if agent_mark() is not None:
        return words
    decides = words.replace("Stop, and tell your person:", "A person decides:")
    return decides.removeprefix("Stop. ").replace("Tell your person:", "To go on:")


def _marks(stated: Mapping[str, str]) -> list[str]:
    known = [name for name in _MARKS if stated.get(name)]
    return known + [name for name in sorted(stated) if name.startswith(_MARK_PREFIXES) and stated[name]]


def clients() -> list[str]:
    """The programs of agents that run this command: more than one where one has started another."""
    marks = _marks(os.environ)
    return [name for start, name in CLIENTS.items() if any(mark.startswith(start) for mark in marks)]


def agent_name() -> str | None:
    """The default name of the agent that runs this command; None if no agent does."""
    return os.environ.get(_REVIEWER) or next(iter(clients()), None)


def is_reviewer() -> bool:
    """Whether a reviewer of a pool runs this command."""
    return bool(os.environ.get(_REVIEWER))


def settings_file() -> str:
    """The file with the name and the wishes of the person who works here."""
    return os.path.join(os.environ.get("TANDEM_CONFIG_DIR") or platforms.config_dir(), "person.json")


def is_quiet() -> bool:
    """Whether the person wants agents to end their turns no matter how their reviews stand."""
    return json_object(settings_file()).get("quiet") is True


def wait_seconds() -> float | None:
    """How long a command may wait so that it ends before the agent's client ends it; None if no agent runs it."""
    if agent_mark() is None:
        return None
    limits = [_limit(*_LIMITS[name]) for name in clients() if name in _LIMITS]
    # A part is left for the work before and after the wait.
    return min(limits, default=_SHORTEST_SECONDS) * 5 / 6


def answer_seconds() -> float | None:
    """How long a command waits for any answer at most, so that it ends before the agent's client ends it."""
    limit_seconds = wait_seconds()
    return None if limit_seconds is None else max(limit_seconds, _LEAST_ANSWER_SECONDS)


def _limit(usual_seconds: float, variable: str | None) -> float:
    stated = os.environ.get(variable, "") if variable else ""
    return int(stated) / 1000 if stated.isdecimal() and int(stated) else usual_seconds


def origin(folder: str, client: str | None = None) -> dict[str, Any] | None:
    """Where a command of an agent comes from; None for a person's, and for a reviewer of a pool.

    The session and the folder are given as hashes, as every reviewer can read them.

    Args:
        folder: The root of the working tree.
        client: The agent's program, where a hook of its own says so.
    """
    if (client or agent_mark()) is None or is_reviewer():
        return None
    programs = [*clients(), *([client] if client else [])]
    session = next((os.environ[name] for name in _SESSIONS if os.environ.get(name)), None)
    return {"clients": programs, "session": session and hashed(session), "folder": hashed(os.path.realpath(folder))}


def marked(request: dict[str, Any], folder: str) -> dict[str, Any]:
    """A proposal's request whose metadata say where it comes from, if an agent makes it.

    Args:
        request: The request.
        folder: The root of the working tree.
    """
    found = origin(folder)
    return request if found is None else {**request, "metadata": {**(request.get("metadata") or {}), ORIGIN: found}}


def shared(own: Mapping[str, Any], proposal: Mapping[str, Any]) -> str | None:
    """The link between an agent and a proposal's author, in words; None if there is none."""
    metadata = proposal["metadata"].get(ORIGIN)
    said = cast("dict[str, Any]", metadata) if isinstance(metadata, dict) else {}
    if own["session"] is not None and said.get("session") == own["session"]:
        return "this session"
    if said.get("folder") == own["folder"]:
        return "an agent in this folder"
    stated = said.get("clients")
    names = [str(name) for name in cast("list[Any]", stated)] if isinstance(stated, list) else []
    names += [str(proposal[name]).rpartition("/")[2] for name in ("proposer_id", "author", "agent_type")]
    return next((f"the same client ({name})" for name in own["clients"] if name in names), None)


def not_to_review(review_id: str, by: str) -> str:
    """The refusal for an agent that wants to review its own work."""
    return (
        f"{review_id} was proposed by {by}, and an agent does not review its own work. Stop, and tell your person:"
        f" tandem open {review_id}"
    )


def hashed(text: str) -> str:
    """A session or folder as a proposal names it."""
    return hex_digest(text.encode("utf-8", "surrogateescape"))[:16]


def ask(question: str) -> str | None:
    """Put a question to the person at the terminal; the line they answered, or None if there is no terminal.

    Standard input and output stay untouched: a hook's belong to git, and a pipe can say yes. None as well without
    an answer in `ANSWER_SECONDS`.

    Args:
        question: With everything that has to be known to answer it; nothing is added.
    """
    if sys.platform == "win32":
        return _ask_console(question)
    text, line = question.encode("utf-8", "replace"), b""
    try:
        with open("/dev/tty", "r+b", buffering=0) as terminal:
            while text:
                text = text[terminal.write(text) :]
            if select.select([terminal], [], [], ANSWER_SECONDS)[0]:
                line = terminal.read(_LINE_BYTES)
    except OSError:
        # There is none, it is not in the foreground, or it went away: no person can answer.
        return None
    return line.decode("utf-8", "replace").strip() if line else None


def refused(lines: Sequence[str], word: str) -> str | None:
    """Ask the person at the terminal for what only they may decide; why it is refused, None if they agree.

    No option answers this question: it stands in front of every proof of an override and of what loosens a gate.

    Args:
        lines: All that is decided, a line each. A name in one can neither leave its line nor colour the terminal.
        word: The word that they must type.
    """
    mark = agent_mark()
    if mark is not None:
        return f"An agent runs this command ({mark} is set): ask a person to run it in their own terminal."
    answer = ask("\n".join(f"tandem: {visible_line(line)}" for line in lines))
    if answer is None:
        return "It takes a person at a terminal, and there is none here."
    return None if answer == word else f"Not confirmed: the answer is not '{word}'."


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


def screen() -> tuple[int, int]:
    """The columns and lines of the terminal that is asked at; 80 and 24 where it does not say."""
    try:
        descriptor = os.open("CONOUT$" if sys.platform == "win32" else "/dev/tty", os.O_RDWR)
        try:
            found = os.get_terminal_size(descriptor)
        finally:
            os.close(descriptor)
    except OSError:
        found = os.terminal_size((0, 0))
    return found.columns or 80, found.lines or 24


def is_at_terminal() -> bool:
    """Whether there is a terminal to ask at."""
    try:
        descriptor = os.open("CONIN$" if sys.platform == "win32" else "/dev/tty", os.O_RDWR)
    except OSError:
        return False
    os.close(descriptor)
    return True
