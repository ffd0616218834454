"""From the envelope's error object back to the error that the broker raised."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, cast

from tandem.errors import TandemError


def error_from(refusal: dict[str, Any]) -> TandemError:
    """The typed error for an envelope's `error` object.

    A code that this version does not know becomes a plain `TandemError` that carries the code.
    """
    code = str(refusal.get("code", TandemError.code))
    known = _by_code().get(code) or _unknown(code)
    error = known(str(refusal.get("message", "The broker gave no reason.")))
    # Set, not passed: a detail may bear the name of a parameter.
    error.details = dict(refusal.get("details") or {})
    error.retryable = bool(refusal.get("retryable", error.retryable))
    return error


def _unknown(code: str) -> type[TandemError]:
    return cast("type[TandemError]", type("TandemError", (TandemError,), {"code": code}))


@cache
def _by_code() -> dict[str, type[TandemError]]:
    return {error.code: error for error in _descendants(TandemError)}


def _descendants(parent: type[TandemError]) -> Iterator[type[TandemError]]:
    for child in parent.__subclasses__():
        if child.__module__ == TandemError.__module__:
            yield child
            yield from _descendants(child)
