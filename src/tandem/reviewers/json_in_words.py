"""Finding the one JSON object in what a program wrote: alone, in a fence, or with words around it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

QUOTED_LENGTH: Final = 200
"""A refusal quotes at most so many characters of what it refuses."""

_AROUND_FAULT = 60
_BRACE = re.compile(r"[{}]")
_WORDS_IN_BRACES = re.compile(r'\{[^{}":]*\}')
"""Braces of prose and code: without a colon they cannot be meant for an object that says something."""

_IN_ARRAY = re.compile(r"\[\s*\Z")
_LOOK_BACK = 20


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
    """The one JSON object in a text; written twice, it is still one.

    Raises:
        Unreadable: There is none, more than one, or one that is broken, has a property twice or a number that
            JSON does not know.
    """
    try:
        return _only(_objects(text), text)
    except RecursionError:
        raise Unreadable("the JSON object is nested too deeply") from None


def _only(objects: Iterator[dict[str, Any]], text: str) -> dict[str, Any]:
    first = next(objects, None)
    if first is None:
        words = text.strip()
        raise Unreadable(f"there is no JSON object in it: {quoted(words)}" if words else "it is empty")
    if any(other != first for other in objects):
        raise Unreadable("there are two different JSON objects in it; the answer is exactly one")
    return first


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Every object that is not inside another. Part of one spoils all: it may be of the real answer."""
    brace = _BRACE.search(text)
    while brace is not None:
        at = brace.start()
        words = _WORDS_IN_BRACES.match(text, at)
        if words is not None:
            end = words.end()
        elif brace.group() == "}":
            raise Unreadable(f"a brace closes what was not opened: {quoted(text[max(0, at - _AROUND_FAULT) :])}")
        elif _IN_ARRAY.search(text[max(0, at - _LOOK_BACK) : at]):
            raise Unreadable(f"the answer is an object, not one in an array: {quoted(text[at:])}")
        else:
            found, end = _decoded(text, at)
            yield found
        brace = _BRACE.search(text, end)


def _decoded(text: str, start: int) -> tuple[dict[str, Any], int]:
    try:
        return _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        half = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        fault = "the text ends before its JSON object does" if half else f"this is no JSON ({error.msg})"
        raise Unreadable(f"{fault}: {quoted(text[max(start, error.pos - _AROUND_FAULT) :])}") from None
    except ValueError:
        # What Python refuses to make of thousands of digits.
        raise Unreadable("a number in the JSON object is too long to be read") from None


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
