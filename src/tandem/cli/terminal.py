"""The terminal: answers on standard output, all else on standard error, and the exit statuses, which scripts read.

Refusals are in the words of the command line: commands for operations, options for fields, no words of libraries.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
import time
from contextlib import contextmanager, suppress
from enum import IntEnum
from functools import cache
from threading import Event, Thread
from typing import TYPE_CHECKING, Annotated, Any, cast

from tandem.bridge.credentials import REFUSED_CODE, TOKEN_VARIABLE, has_token
from tandem.bridge.operations import OPERATIONS
from tandem.bridge.session import Unreachable
from tandem.cli.declared import ARGUMENT_SUFFIX, Option
from tandem.cli.table import COMMANDS
from tandem.core.visible import visible, visible_line
from tandem.errors import Forbidden, TandemError
from tandem.present.text import Text, Whole, drawn
from tandem.rulings import next_steps
from tandem.rulings.person import wait_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping

    from tandem.cli.declared import Parameter
    from tandem.present.text import Drawable

_FOLLOW_SECONDS = 0.2
_LINE_SECONDS = 20.0
_SPINNER_DELAY_SECONDS = 1.0
_SPINNER_LOOK_SECONDS = 0.1
_SPINNER_CHARACTERS = 72
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_MOST_ALLOWED = 12
_COLUMNS = 80
"""Of a terminal that says nothing of its own."""
_DETAILS_SAID_ALREADY = frozenset(
    {
        "problems",
        "allowed_fields",
        "url",
        "git",
        "field",
        "operation",
        "action",
        "allowed_actions",
        "problem",
        "findings",
    }
)

_COMMANDS = {"create_review": "submit"}
"""Where people use another command than the operation's own."""
_ELSEWHERE = (
    (r"To go on, create a new review with parent_id=(\w+)\.", "To go on: " + next_steps.follow(r"\1")),
    (
        r"Say of each in answers whether .*; or ask for changes\.",
        'Settle each with the verdict, or ask for changes: --answers \'[{"finding_id": "ID", "answer": "verified"}]\'',
    ),
    ("From here it can become: nothing: it is over", "It is over"),
    ("next_page", "the page"),
)
_FIELD = re.compile(r"\b(?:[a-z]+(?:_[a-z]+)+\b(?:=\w+)?|[a-z]+=\w+)")
_SETTING = re.compile(r"^(--[\w-]+|TANDEM_\w+): \w+: must\b")
_LIBRARY = (
    (r"Value error, ", ""),
    (r"Input should be a valid integer[^.;]*", "must be a whole number"),
    (r"Input should be a valid number[^.;]*", "must be a number"),
    (r"Input should be a valid tuple", "must be a list"),
    (r"Input should be a valid dictionary", "must be a table"),
    (r"Input should be greater than or equal to ", "must be at least "),
    (r"Input should be less than or equal to ", "must be at most "),
    (r"Input should be greater than ", "must be more than "),
    (r"(?:Input|String|List|Tuple|Value) should ", "must "),
    (r"Input is not a valid path for [^.;]*", "must be a path"),
    (r"Field required", "is missing"),
)
"""How the libraries that check values say it, and how we do."""
_USAGE = (
    (r"Invalid value: ", ""),
    (r"Invalid value for '?(-[^':]*|[A-Z_]+)'?: must", r"\1 must"),
    (r"Invalid value for '?(-[^':]*|[A-Z_]+)'?: ", r"\1: "),
    (r"Missing (?:option|argument) '([^']+)'(?: / '[^']+')? \(env var: '(\w+)'\)\.", r"\1 is missing, and so is \2."),
    (r"Missing (?:option|argument) '([^']+)'(?: / '[^']+')?\.", r"\1 is missing."),
    (r"Got unexpected extra argument(?:s|\(s\))? \((.*)\)", r"Too much was given; nothing takes: \1."),
    (r"Option '([^']+)' requires an argument\.", r"\1 needs a value."),
    (r"No such option: (\S+?)\.?$", r"There is no option '\1'."),
    (r"\s+", " "),
)

EnvelopeOption = Annotated[bool, Option("--json", help="Print an envelope of JSON.")]
"""For what a command finds out by itself."""


class Exit(IntEnum):
    """How a command ended. Part of the contract: scripts and agents branch on it."""

    DONE = 0
    """Done, or approved."""
    REFUSED = 1
    """The broker, or the command itself, refused; the code is printed."""
    USAGE = 2
    """The command was called wrongly."""
    UNREACHABLE = 3
    """No broker answers."""
    CHANGES_REQUESTED = 10
    """Changes are wanted: by the reviewer, or by a required check that failed on the approved content; or the policy
    asks for more since the approval.
    """
    REJECTED = 11
    WAITING = 12
    """No verdict or turn yet: the time was up, or it is the caller's turn to answer; or a required check of the
    approved content has not ended.
    """
    CLOSED = 13
    """Closed without approval; of a cycle, over before it was the waiting role's turn."""
    PERSON = 14
    """A person has to look, and an agent stops: no reviewer could decide, or comes, or a step of GSD ends with
    `ESCALATE`.
    """


class Declined(Forbidden):
    """The person at the terminal said no, which needs no other words than theirs."""


def show(shown: Drawable | str, *, stderr: bool = False) -> None:
    """Print an answer; where there is no terminal its lines are as long as they need to be."""
    shown = Text(shown) if isinstance(shown, str) else shown
    stream = sys.stderr if stderr else sys.stdout
    has_terminal = stream.isatty()
    width = _columns() if has_terminal else None
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") in {"dumb", "unknown"}
    stream.write(drawn(shown, width, coloured=not plain and (has_terminal or bool(os.environ.get("FORCE_COLOR")))))
    stream.flush()


def _columns() -> int:
    """The terminal's width; `shutil`, which knows it too, takes longer to import than an answer to print."""
    stated = os.environ.get("COLUMNS", "")
    if stated.isdecimal() and int(stated):
        return int(stated)
    with suppress(OSError):
        return os.get_terminal_size(sys.__stdout__.fileno() if sys.__stdout__ else 1).columns or _COLUMNS
    return _COLUMNS


def indented(text: str) -> str:
    """A text that may quote others: none of its further lines is mistaken for a remark of ours."""
    return visible(text).replace("\n", "\n  ")


def say(*messages: str) -> None:
    """Print remarks that are no part of the answer."""
    for message in messages:
        show(Whole(Text(indented(message))), stderr=True)


@contextmanager
def going_on(command: str) -> Generator[None]:
    """Say the one command to go on with where Ctrl-C ends the block."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"Interrupted. Go on with: {command}")
        raise


def show_log(parts: Iterable[Iterable[str]], line_shown: Callable[[str], str], *, follow: bool) -> None:
    """Print the last lines of a log, and to follow it also those that are written until Ctrl-C.

    Args:
        parts: The lines, as `log_files.follow` has them.
        line_shown: How a line is shown.
        follow: Whether to follow it.
    """
    with suppress(KeyboardInterrupt):
        for part in parts:
            for line in part:
                sys.stdout.write(f"{line_shown(line)}\n")
            sys.stdout.flush()
            if not follow:
                return
            if not part:
                time.sleep(_FOLLOW_SECONDS)


def show_envelope(envelope: bytes | dict[str, Any]) -> None:
    """Print an envelope exactly as the broker answered it, or one of our own, and a newline."""
    if isinstance(envelope, dict):
        envelope = json.dumps(envelope, ensure_ascii=False, separators=(",", ":")).encode()
    sys.stdout.flush()
    sys.stdout.buffer.write(envelope + b"\n")
    sys.stdout.buffer.flush()


def show_data(data: object) -> None:
    """Print what a command found out by itself as an envelope."""
    show_envelope({"ok": True, "data": data})


def tell(data: object, shown: Drawable | str, *, as_json: bool) -> Exit:
    """Print what a command found out by itself, as an envelope or for people; the exit status of success."""
    if as_json:
        show_data(data)
    else:
        show(shown)
    return Exit.DONE


def show_refusal(error: TandemError, *, as_json: bool, parameters: Iterable[Parameter] = ()) -> Exit:
    """Print a refusal, as an envelope or for people; answers with the exit status.

    Args:
        error: The refusal.
        as_json: Whether to print an envelope.
        parameters: Those of the command, whose options people know.
    """
    ended = Exit.UNREACHABLE if isinstance(error, Unreachable) else Exit.REFUSED
    if as_json:
        show_envelope({"ok": False, "error": error.as_dict()})
        return ended
    if isinstance(error, Declined):
        say(error.message)
        return ended
    message = refusal_in_commands(error.message, error.details, parameters, sys.argv)
    lines = [Text.assemble(("refused: ", "bold red"), (error.code, "bold"), f": {indented(message)}")]
    if error.code == REFUSED_CODE and has_token():
        lines.append(
            Text(f"  The content of {TOKEN_VARIABLE} was sent; leave it out if the broker is your own.", "dim")
        )
    for name, value in error.details.items():
        is_long = name == "allowed" and (isinstance(value, dict) or len(value) > _MOST_ALLOWED)
        if name not in _DETAILS_SAID_ALREADY and not is_long and value not in (None, "", [], {}):
            lines.append(Text(f"  {name}: {indented(_short(value))}", "dim"))
    show(Whole(*lines), stderr=True)
    return ended


@contextmanager
def progress(doing: str) -> Generator[Callable[[str], None]]:
    """Show on standard error the current task, and its duration.

    People see a spinner at their terminal after a second. Agents and pipes get a line every 20 s, as some clients end a
    command that is silent.

    Yields a function that takes, from any thread, the words for the next task.
    """
    words = [doing]
    ended = Event()
    limit_seconds = wait_seconds()
    is_person = sys.stderr.isatty() and limit_seconds is None
    arguments = (words, ended) if is_person else (words, ended, limit_seconds)
    showing = Thread(target=_spin if is_person else _tell_time, args=arguments, name="tandem-progress", daemon=True)
    showing.start()
    try:
        yield lambda now: words.append(visible_line(now)[:_SPINNER_CHARACTERS])
    finally:
        ended.set()
        showing.join()


def _tell_time(words: list[str], ended: Event, limit_seconds: float | None) -> None:
    began = time.monotonic()
    # Several lines within the limit of the agent's client, however short that is set.
    pause = _LINE_SECONDS if limit_seconds is None else min(_LINE_SECONDS, limit_seconds / 5)
    while not ended.wait(pause):
        say(f"{words[-1]}: {round(time.monotonic() - began)} s")


def _spin(words: list[str], ended: Event) -> None:
    began = time.monotonic()
    pause = _SPINNER_DELAY_SECONDS
    frames = itertools.cycle(_SPINNER)
    while not ended.wait(pause):
        pause = _SPINNER_LOOK_SECONDS
        minutes, seconds = divmod(round(time.monotonic() - began), 60)
        shown = f"{next(frames)} {words[-1]} {minutes // 60}:{minutes % 60:02}:{seconds:02}"
        # A line that is broken cannot be erased.
        sys.stderr.write(f"\r{shown[: _columns() - 1]}\x1b[K")
        sys.stderr.flush()
    if pause == _SPINNER_LOOK_SECONDS:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _short(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_short(item) for item in value)  # pyright: ignore[reportUnknownVariableType] any JSON value
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def usage_in_commands(error: Any) -> str:
    """How a command was called wrongly.

    Args:
        error: What the parser of the command line raised.
    """
    possible = getattr(error, "possibilities", None)
    said = str(error.message if possible else error.format_message())
    for pattern, replacement in (*_LIBRARY, *_USAGE):
        said = re.sub(pattern, replacement, said)
    said += "" if said.endswith((".", "?", ")")) else "."
    return said + (f" Did you mean {' or '.join(map(repr, sorted(possible)))}?" if possible else "")


def refusal_in_commands(
    message: str, details: Mapping[str, Any], parameters: Iterable[Parameter], typed: Collection[str] = ()
) -> str:
    """A broker's refusal, as the person who typed the command understands it.

    Args:
        message: As the broker answered it.
        details: The refusal's facts; `field` names the wrong one.
        parameters: Those of the command that was typed.
        typed: Its words: a branch or project may be called like an operation.
    """
    options = dict(_options(parameters))
    operation, colon, rest = message.partition(": ")
    said = rest if colon and operation in OPERATIONS else message
    field = str(details.get("field", ""))
    if said.startswith(f"{field}: "):
        said = f"{_option(field, options)} {said.removeprefix(f'{field}: ')}"
    for pattern, replacement in (*_LIBRARY, *_ELSEWHERE):
        said = re.sub(pattern, replacement, said)
    said = in_commands(said, but=typed)
    said = said.replace("answer REVIEW", f"answer {details.get('review_id')}")
    said = _SETTING.sub(r"\1 must", said).replace(": must ", " must ")
    # What a file calls a setting, an option may be called, too.
    if "setting" not in details or str(details.get("origin", "")).startswith("--"):
        said = _FIELD.sub(lambda found: _named(found, options), said)
    return said + _meant(said, details.get("allowed"))


def in_commands(text: str, *, whole: bool = False, but: Collection[str] = ()) -> str:
    """A text with commands for operations, `whole` or with the arguments only that the text gives."""
    return _operation().sub(lambda found: found[0] if found[1] in but else _command(found, whole=whole), text)


def _meant(said: str, allowed: Any) -> str:
    """Which of the allowed names may have been meant, as a sentence."""
    name = re.search(r"'([^']+)'", said)
    if name is None or not isinstance(allowed, list) or "Did you mean" in said or "no longer" in said:
        return ""
    near = nearest(name[1], [str(one) for one in cast("list[Any]", allowed)])
    return f" Did you mean '{near}'?" if near and near != name[1] else ""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like one that there is not; None if none is near."""
    import difflib  # start-up time: only a name that there is not needs it

    return next(iter(difflib.get_close_matches(name, list(known), 1)), None)


@cache
def _operation() -> re.Pattern[str]:
    """An operation, with the arguments behind it; made where it is needed, as that takes longer than an answer."""
    return re.compile(
        rf"(?<!/)[`']?\b({'|'.join(sorted(OPERATIONS, key=len, reverse=True))})\b[`']?"
        r"(?P<waits> with wait\b(?:=true)?)?(?: \((?P<given>\w+=[\w-]+(?:, \w+=[\w-]+)*)\))?"
    )


def _command(found: re.Match[str], *, whole: bool) -> str:
    """The command of an operation, with the arguments that stand behind that; `whole`, with all that it needs."""
    operation = OPERATIONS[found[1]]
    words = _COMMANDS.get(operation.name, f"{operation.noun} {operation.verb}")
    given = dict(pair.split("=") for pair in (found["given"] or "").split(", ") if pair)
    given |= {"wait": "true"} if found["waits"] else {}
    filled = _filled(COMMANDS[words].parameters, given, whole=whole) if whole or given else ()
    return f"'{' '.join(('tandem', words, *filled))}'"


def _filled(parameters: Iterable[Parameter], given: dict[str, str], *, whole: bool) -> Iterator[str]:
    """The arguments and options of a command; a placeholder for one that it needs, unless a variable may have it."""
    needed = {one.name for one in parameters if whole and one.needed and one.variable is None}
    for one in parameters:
        name = one.name.removesuffix(ARGUMENT_SUFFIX)
        value = given.pop(name, None) or (one.metavar if name in needed and not one.hidden else None)
        if value is not None:
            yield from ([one.option] if one.kind == "flag" else [one.option, value] if one.names else [value])


def _named(found: re.Match[str], options: Mapping[str, str]) -> str:
    """A word that is the name of a field: its option, if the command has one."""
    name, _, value = found[0].partition("=")
    return " ".join(filter(None, (options[name], value))) if name in options else found[0]


def _option(field: str, options: Mapping[str, str]) -> str:
    """The option of a field, or of one in a list of them, such as `roles.0`; the field itself if there is none."""
    name = field.partition(".")[0]
    for one in (name, name.removesuffix("s"), name.removesuffix("es")):
        if one in options:
            return options[one]
    return field


def _options(parameters: Iterable[Parameter]) -> Iterable[tuple[str, str]]:
    """What each of a command's parameters is called on the command line."""
    for parameter in parameters:
        if not parameter.names:
            yield parameter.name.removesuffix(ARGUMENT_SUFFIX), parameter.option
        elif not parameter.hidden:
            for name in (parameter.name, *(one.lstrip("-").replace("-", "_") for one in parameter.names)):
                yield name, parameter.option
