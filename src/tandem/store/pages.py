"""Pages: limits, and opaque tokens for where the next one begins."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any, TypeVar

import orjson

from tandem.errors import InvalidInput, TooLarge
from tandem.store.context import Context

T = TypeVar("T")
_LARGEST = 2**62


def check_limit(services: Context, limit: int) -> None:
    """Refuse more rows than a page may have.

    Raises:
        TooLarge: It is over the limit.
    """
    most = services.policy.page_limit
    if limit > most:
        raise TooLarge(
            f"A page has at most {most} rows; ask for them by pages, or raise page_limit in the broker's"
            " configuration.",
            field="limit",
            limit=most,
            actual=limit,
            setting="page_limit",
        )


def cut(
    services: Context, found: list[T], limit: int, place: Callable[[T], tuple[Any, ...]]
) -> tuple[list[T], str | None]:
    """The rows of a page, of which one more was asked for, and the token of the next page if there is one."""
    listed = found[:limit]
    return listed, encode(services, *place(listed[-1])) if len(found) > limit else None


def encode(services: Context, *place: Any) -> str:
    """The token for the place after a row's sort key."""
    key = orjson.dumps(place)
    veil = services.waits.veil
    return base64.urlsafe_b64encode(key).decode().rstrip("=") if veil is None else veil.hide(key)


def decode(services: Context, token: str, *types: type) -> Any:
    """The sort key in a token, as a tuple of those types.

    Raises:
        InvalidInput: It is no token of this kind of list.
    """
    veil = services.waits.veil
    try:
        padded = token + "=" * (-len(token) % 4)
        key = base64.b64decode(padded, altchars=b"-_", validate=True) if veil is None else veil.show(token)
        place: list[Any] = orjson.loads(key)
        fits = len(place) == len(types) and all(type(value) is kind for value, kind in zip(place, types, strict=True))
    except (binascii.Error, ValueError, TypeError):
        fits, place = False, []
    if not fits or any(isinstance(value, int) and abs(value) > _LARGEST for value in place):
        raise InvalidInput("This is no page of this list; send next_page exactly as an answer gave it.", field="page")
    return tuple(place)
