"""The command line: which command it calls, and with which values.

`cli.table` says what each command takes. Typer (`cli.main`), which reads the same table, takes longer to import than
most commands to answer: it is left what this parser does not know for certain, help, completion and every mistake.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from pathlib import Path

from tandem.cli.declared import Misused
from tandem.cli.execution import carry_out
from tandem.cli.table import COMMANDS
from tandem.cli.terminal import say, show_refusal
from tandem.errors import NotFound, Unavailable
from tandem.git.place import deleted_folder

TYPE_CHECKING = False  # as in `declared`
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from tandem.cli.declared import Command, Parameter

COMPLETION_VARIABLE = "_TANDEM_COMPLETE"
"""Set where the shell asks what to offer."""
_ENDED_BY_CTRL_C = 130
_HELP = frozenset({"-h", "--help"})
_FLAGS = frozenset("aeinopqsvz")
"""Options of `git commit` without a value."""


def run(arguments: list[str]) -> None:
    """Run a command; ends the process with its exit status."""
    _open_standard_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A pipe is read by programs, which expect UTF-8 as --json is; a terminal has an encoding of its own.
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="replace")
    as_json = "--json" in arguments
    if (deleted := deleted_folder()) is not None:
        sys.exit(show_refusal(NotFound(deleted[0].removeprefix("NOT_FOUND: ")), as_json=as_json))
    found = None if COMPLETION_VARIABLE in os.environ else read(arguments)
    if found is None:
        _typer().app(arguments, prog_name="tandem")
        return
    try:
        sys.exit(carry_out(*found))
    except Misused as error:
        sys.exit(_typer().show_misuse(found[0], error, as_json=as_json))
    except KeyboardInterrupt:
        sys.exit(_ENDED_BY_CTRL_C)
    except BrokenPipeError:
        # The reader has gone: the rest of the output is dropped.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        sys.exit(_refused_by_system(error, as_json=as_json))


def _refused_by_system(error: OSError, *, as_json: bool) -> int:
    if error.filename is not None:
        return show_refusal(Unavailable(f"{error.filename}: {error.strerror}."), as_json=as_json)
    if error.errno not in {errno.ENOSPC, errno.EIO}:
        raise error
    sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the process ends
    say(f"The output could not be written: {error.strerror}. What the command was for may be done.")
    return 1


def _open_standard_streams() -> None:
    """Open those that are closed, so that nothing else gets their numbers, and no command fails at its end."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free.
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w" if number else "r", encoding="utf-8"))  # noqa: SIM115 - as above


def _typer() -> ModuleType:
    from tandem.cli import main  # takes longer to import than most commands

    return main


def read(arguments: list[str]) -> tuple[str, dict[str, Any]] | None:
    """The command that is called, and the values of its parameters; None where that needs another look."""
    words = list(arguments)
    if words[:1] == ["help"]:
        return None
    if words and "." in words[0]:
        words[:1] = words[0].split(".", 1)
    for length in (1, 2, 3):
        name = " ".join(words[:length])
        if name in COMMANDS:
            values = _values(COMMANDS[name], words[length:])
            return None if values is None else (name, values)
    return None


def _values(command: Command, words: list[str]) -> dict[str, Any] | None:
    """The values of a command's parameters; None where one is unknown, missing or no value of its parameter."""
    options = {name: one for one in command.parameters for name in (*one.names, *one.off)}
    places = [one for one in command.parameters if not one.names]
    given: dict[str, list[str | bool]] = {}
    if command.takes_the_rest:
        if not places[0].valued or not _HELP.isdisjoint(words):
            return None
        words, given[places[0].name] = _parted(words, options, places[0].valued)
        places = []
    left = iter(words)
    for word in left:
        if word == "-" or not word.startswith("-"):
            if not places:
                return None
            one, value = places[0], word
            places = places if one.many else places[1:]
        else:
            name, equals, stated = word.partition("=")
            one = options.get(name)
            if one is None or (equals and (one.kind == "flag" or not name.startswith("--"))):
                return None
            value = name in one.names if one.kind == "flag" else stated if equals else next(left, None)
            if value is None:
                return None
        given.setdefault(one.name, []).append(value)
    try:
        return {one.name: _value(one, given.get(one.name)) for one in command.parameters}
    except ValueError:
        return None


def _parted(
    words: list[str], options: dict[str, Parameter], valued: tuple[str, ...]
) -> tuple[list[str], list[str | bool]]:
    """The words that are options of the command itself, and those of the program behind it, which may stand between."""
    own: list[str] = []
    rest: list[str | bool] = []
    left = iter(words)
    for word in left:
        name, equals, _ = word.partition("=")
        one = options.get(name)
        if word == "--":
            return own, [*rest, word, *left]
        into = rest if one is None else own
        into.append(word)
        # Several in one word, such as -am: the last one has the value.
        is_several = word[:1] == "-" and f"-{word[-1]}" in valued and _FLAGS.issuperset(word[1:-1])
        if (word in valued or is_several) if one is None else (one.kind != "flag" and not equals):
            into.extend([value] if (value := next(left, None)) is not None else [])
    return own, rest


def _value(one: Parameter, given: list[Any] | None) -> Any:
    """The value of a parameter.

    Raises:
        ValueError: It is missing, or the text is no value of it.
    """
    if given is None and one.variable is not None and (stated := os.environ.get(one.variable)):
        given = [stated]
    if given is None:
        if one.required:
            raise ValueError(one.name)
        return one.default if one.default is None else _typed(one, one.default)
    values = [_typed(one, value) for value in given]
    return values if one.many else values[-1]


def _typed(one: Parameter, value: Any) -> Any:
    if one.choices and value not in one.choices:
        raise ValueError(value)
    if one.kind == "path":
        return Path(value)
    if one.kind not in {"whole", "number"}:
        return value
    number = int(value) if one.kind == "whole" else float(value)
    if one.min is not None and number < one.min:
        raise ValueError(value)
    return number
