"""Forms of commands: the command and its parameters, as the command line's own parser reads them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product, takewhile
from typing import Any

import typer
from typer.exceptions import TyperException

from tandem.bridge import main as bridge
from tandem.cli.declared import ARGUMENT_SUFFIX
from tandem.cli.main import DefaultGroup, app, load
from tandem.cli.table import COMMANDS
from tandem.cli.tree import TREE

COMMON = frozenset({"--json", "--broker", "--agent", "--timeout"})
"""Options that say where a command goes, how long it waits and how it prints, but do not change its action."""
_NEEDED = {
    "submit": {"intent", "revise"},
    "session open": {"role", "role_option"},
    "reviewers kill": {"reviewer", "reviewer_id"},
}
"""What these commands look for by themselves, one of each."""
_ALONE = frozenset({"review"})
"""Groups that do something when no command of them is named."""
_TAILS = {"folder": ("--data-dir", "DIR"), "on": ("--branch", "BRANCH")}
"""Options that a message adds where they are needed, by the names of the variables that have them."""
_VERB = re.compile(r"[a-z][a-z-]*|tools/\w+\.py")
_VERBS = {"claude": 3, "codex": 3, "opencode": 3, "docker": 2}
"""How many words say what another program does, if not one."""
_OF_THE_PROGRAM = frozenset({"--version", "--install-completion", "--show-completion"})


@dataclass(frozen=True, order=True)
class Form:
    """A command with the names of its parameters, such as `review claim` with `REVIEW_ID` and `--reviewer-id`.

    Attributes:
        command: Its words.
        given: Arguments and options, sorted.
        is_bare: Whether something is missing, and nothing is given: the command is only named.
    """

    command: str
    given: tuple[str, ...] = ()
    is_bare: bool = False

    def __str__(self) -> str:
        return " ".join(filter(None, [self.command, *self.given]))

    @property
    def essence(self) -> Form:
        """The form without what only says where the command goes."""
        return Form(self.command, tuple(one for one in self.given if one not in COMMON), self.is_bare)


def find_command(words: Sequence[str]) -> tuple[Any, list[str]]:
    """The command that the words name, and the rest of them.

    Raises:
        LookupError: There is none.
    """
    command: Any = _root()
    left = list(words)
    while left and not left[0].startswith("-") and (known := dict(getattr(command, "commands", {}))):
        name = left.pop(0)
        if name not in known and isinstance(command, DefaultGroup):
            # `tandem audit main..HEAD` is short for `tandem audit commits main..HEAD`.
            left.insert(0, name)
            name = str(TREE[command.name or ""].default)
        if name not in known:
            raise LookupError(f"there is no command {name}")
        # Those of the first level are stand-ins until they are asked for.
        command = _load(name) if command is _root() and name in TREE else known[name]
    return command, left


_load = cache(load)


@cache
def _root() -> Any:
    return typer.main.get_command(app)


def other_form(words: Sequence[str]) -> Form:
    """The form of a command of another program: its name, its verb, and its options and variables."""
    program, *left = (words[0].rpartition("/")[2], *words[1:])
    if program == "make":
        targets = [one for one in left if re.fullmatch(r"[a-z-]+", one)]
        return Form(" ".join([program, *targets]), tuple(sorted({n for n, is_set, _ in _variables(left) if is_set})))
    while program == "git" and left and left[0].startswith(("-", "{")):
        # The folder and the settings do not change the action.
        left = left[2:] if left[0] in {"-C", "-c"} else left[1:]
    verb = list(takewhile(_VERB.fullmatch, left[: _VERBS.get(program, 1)]))
    options = {one.partition("=")[0] for one in left[len(verb) :] if one.startswith("-")} - {"-", "--", "-q", "--quiet"}
    return Form(" ".join([program, *verb]), tuple(sorted(options)))


def _variables(words: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    return (word.partition("=") for word in words)


def words_of(line: str) -> list[str]:
    """The words of a command as it is typed, without the program's name."""
    words = shlex.split(line)
    return words[words.index("tandem") + 1 :]


def alternatives(words: Sequence[str]) -> Iterator[list[str]]:
    """The commands that one text names at once: `plan|context`."""
    either = [word.split("|") if re.fullmatch(r"[a-z|-]+\|[a-z|-]+", word) else [word] for word in words]
    yield from (list(one) for one in product(*either))


def form_of(words: Sequence[str]) -> Form:
    """The form of a command, without the program's name, as it is typed; its parameters are checked.

    Raises:
        LookupError: There is no such command, or something is missing.
        TyperException: The parser refuses it.
        ValueError: As TyperException, of `tandem mcp`.
    """
    return _form_of(tuple(words))


@cache
def _form_of(words: tuple[str, ...]) -> Form:
    # Texts name the same commands again and again.
    if words[:1] == ("mcp",):
        bridge.parse([one for one in words[1:] if one != "--help"])
        return Form("mcp", tuple(sorted(one for one in words[1:] if one.startswith("-"))))
    if words[:1] and words[0] in _OF_THE_PROGRAM:
        return Form("", (words[0],))
    if {"help", "--help", "-h"} & {*words}:
        find_command([one for one in words if one not in {"help", "--help", "-h"}])
        return Form("help")
    command, left = find_command(words)
    path = " ".join(words[: len(words) - len(left)])
    if not left and hasattr(command, "commands"):
        return Form(path, is_bare=path not in _ALONE)
    context = command.make_context("tandem", list(left))
    parameters = context.command.params
    given = {one.name for one in parameters if _is_given(context, one)}
    if path in _NEEDED and not given & _NEEDED[path]:
        raise LookupError(f"one of {', '.join(sorted(_NEEDED[path]))} is missing")
    for field in COMMANDS[path].parameters if path in COMMANDS else ():
        if field.needed and field.hidden and not {field.name, field.name + ARGUMENT_SUFFIX} & given:
            raise LookupError(f"{field.name.upper()} is missing")
    return Form(path, tuple(sorted(_name(one) for one in parameters if one.name in given)))


def length_of_path(words: Sequence[str]) -> int:
    """How many of the words name the command."""
    command: Any = _root()
    for number, word in enumerate(words):
        known = dict(getattr(command, "commands", {}))
        if word not in known and not re.fullmatch(r"\{\w+\}|[a-z-]+\|[a-z|-]+", word):
            return number
        command = _load(word) if not number and word in TREE else known.get(word)
    return len(words)


def is_group(command: str) -> bool:
    """Whether it has commands of its own."""
    return hasattr(find_command(command.split())[0], "commands")


def is_flag(words: Sequence[str], option: str) -> bool:
    """Whether an option of the command that the words name takes no value."""
    return any(one.is_flag for one in _parameters(words) if option in {*one.opts, *one.secondary_opts})


def _parameters(words: Sequence[str]) -> list[Any]:
    try:
        command, _ = find_command(words)
    except LookupError:
        return []
    if hasattr(command, "commands"):
        return command.params
    # Some stand in their group until they are called.
    return command.make_context("tandem", [], resilient_parsing=True).command.params


def read(words: Sequence[str]) -> Form:
    """The form of a command that a text names: placeholders are filled in, and the text may only name it.

    Raises:
        LookupError: As `form_of`.
        TyperException: As `form_of`.
        ValueError: As `form_of`.
    """
    words = [word for word in words if word != "…"]
    if words and (tail := re.fullmatch(r"(.+)\{(\w+)\}", words[-1])) and tail[2] in _TAILS:
        words = [*words[:-1], tail[1], *_TAILS[tail[2]]]
    plain = [shlex.split(word)[0] if "'" in word or '"' in word else word for word in words]
    try:
        return form_of(plain)
    except (LookupError, TyperException):
        filled = ["1" if re.fullmatch(r"[A-Z_]+|\{\w+\}", word) else word for word in plain]
        if filled != plain:
            return form_of(filled)
        path = length_of_path(words)
        options = {name for one in _parameters(words) for name in (*one.opts, *one.secondary_opts)}
        if not path or not {*words[path:]} <= options:
            raise
        return Form(" ".join(words[:path]), tuple(sorted(words[path:])), is_bare=True)


def _is_given(context: Any, parameter: Any) -> bool:
    source = context.get_parameter_source(parameter.name)
    return source is not None and source.name == "COMMANDLINE"


def _name(parameter: Any) -> str:
    name: str = parameter.name.removesuffix(ARGUMENT_SUFFIX)
    if parameter.param_type_name == "argument" or parameter.hidden:
        return name.upper()
    return max(parameter.opts, key=len)
