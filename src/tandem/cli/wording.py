"""Refusals in the words of the command line: commands for operations, options for fields, no words of libraries."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, cast

from tandem.bridge.operations import OPERATIONS
from tandem.cli.declared import ARGUMENT_SUFFIX, Parameter
from tandem.cli.table import COMMANDS
from tandem.rulings import next_steps

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


def of_usage(error: Any) -> str:
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


def of_refusal(
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
