"""Reading the one JSON object that a program's answer has to be."""

from __future__ import annotations

import json
import re
from typing import Any, Final

QUOTED_LENGTH: Final = 200
"""A refusal quotes at most so many characters of what it refuses."""

_AROUND_FAULT = 60
_FENCED = re.compile(r"```(?:json)?[ \t]*\r?\n(?P<inside>.*)\n[ \t]*```", re.DOTALL)
"""A fence around the whole answer is not a word beside it: models that no schema holds cannot leave it out."""


class Unreadable(Exception):
    """The text holds no answer that could be acted on; the message says why."""


def quoted(text: str, most: int = QUOTED_LENGTH) -> str:
    """The start of a text in quotes, at most so many characters, with escapes for what cannot be shown."""
    shown = repr(text[:most])
    whole = len(text) <= most and len(shown) <= most
    return shown if whole else f"{shown[: most - 1]}…"


def check_text(where: str, text: str, limit_bytes: int) -> None:
    """Refuse a text that cannot be stored; `where` names it in the refusal.

    Raises:
        Unreadable: It has NUL characters or lone surrogates, or is over the limit.
    """
    if "\0" in text:
        raise Unreadable(f"there is a NUL character in {where}")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        around = quoted(text[max(0, error.start - _AROUND_FAULT) :])
        raise Unreadable(f"there is a lone surrogate in {where}: {around}") from None
    if size > limit_bytes:
        raise Unreadable(f"{where} has {size} bytes; {limit_bytes} is the most")


def only_object(text: str) -> dict[str, Any]:
    """The JSON object that a text is, white space around it and one fence around all of it aside.

    An object between words is refused: it may be one that the program quotes.

    Raises:
        Unreadable: It is anything else, or the object is broken, has a property twice or a number that JSON does not
            know.
    """
    bare = text.removeprefix("\ufeff").strip()
    fenced = _FENCED.fullmatch(bare)
    if fenced is not None:
        bare = fenced["inside"].strip()
    if not bare:
        raise Unreadable("it is empty")
    if not bare.startswith("{"):
        raise Unreadable(f"it is not one JSON object and nothing else: {quoted(bare)}")
    try:
        found, end = _DECODER.raw_decode(bare)
    except json.JSONDecodeError as error:
        half = error.pos >= len(bare) or error.msg.startswith("Unterminated")
        fault = "the text ends before its JSON object does" if half else f"this is no JSON ({error.msg})"
        raise Unreadable(f"{fault}: {quoted(bare[max(0, error.pos - _AROUND_FAULT) :])}") from None
    except RecursionError:
        raise Unreadable("the JSON object is nested too deeply") from None
    except ValueError:
        # What Python refuses to make of thousands of digits.
        raise Unreadable("a number in the JSON object is too long to be read") from None
    if rest := bare[end:].strip():
        raise Unreadable(f"something follows the JSON object, which has to stand alone: {quoted(rest)}")
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise Unreadable(f"the property {quoted(twice)} is there twice")
    return found


def _no_number(name: str) -> Any:
    raise Unreadable(f"{name} is no number of JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_number)
