"""Staying up to date: a wait on the broker's log that outlasts the broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from tandem.cli.whereabouts import Place
from tandem.client import TandemClient
from tandem.client.connection import Unreachable
from tandem.client.waits import CALL_SECONDS
from tandem.errors import CursorExpired, TandemError

_PAGE = 200
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 3.0
_EARLY_SECONDS = CALL_SECONDS / 2
"""A wait that ends sooner with nothing new was answered by a broker that is stopping."""


@dataclass(frozen=True, slots=True)
class News:
    """What a wait came back with.

    Attributes:
        subjects: What events were about; null if anything may have happened.
        trouble: Why nothing is heard at the moment; null if all is well.
    """

    subjects: frozenset[str] | None = None
    trouble: str | None = None


class Line:
    """The connection to a broker, which may come back at another address after a restart.

    Args:
        place: What the command was told.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self.client: TandemClient = place.client()

    async def look_again(self) -> None:
        """Find out where the broker is now, if nobody said where it has to be."""
        found = self._place.client()
        if found.url == self.client.url:
            await found.close()
        else:
            await self._change_to(found)

    async def introduce(self, person: str) -> None:
        """Name who is calling, from now on."""
        self._place = replace(self._place, agent=person)
        await self._change_to(self._place.client())

    async def _change_to(self, client: TandemClient) -> None:
        old, self.client = self.client, client
        await old.close()

    async def close(self) -> None:
        """Hang up."""
        await self.client.close()


async def follow(line: Line, tell: Callable[[News], None]) -> None:
    """Tell what happens for as long as the task lasts.

    Args:
        line: The connection.
        tell: Called with each news: what has changed, or that the broker is away, or back.
    """
    cursor: str | None = None
    pause_seconds = _FIRST_PAUSE_SECONDS
    # The first answer is news as well: what was read before it may have missed something.
    is_away = True
    while True:
        began = time.monotonic()
        # That it is back is news by itself: what has happened meanwhile is asked for without waiting.
        wait = cursor is not None and not is_away
        try:
            page = await line.client.get_audit_log(
                wait=wait, cursor=cursor, timeout_s=CALL_SECONDS if wait else None, limit=_PAGE
            )
        except CursorExpired:
            # Another database, or one that was put back: nothing that was read can be relied on.
            cursor, is_away = None, True
            continue
        except TandemError as error:
            is_away = True
            tell(News(trouble=_trouble(error)))
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)
            await line.look_again()
            continue
        if is_away:
            tell(News())
        elif page.changed:
            tell(News(frozenset(event.subject for event in page.events)))
        elif time.monotonic() - began < _EARLY_SECONDS:
            await asyncio.sleep(_FIRST_PAUSE_SECONDS)
        cursor, is_away, pause_seconds = page.cursor, False, _FIRST_PAUSE_SECONDS


def _trouble(error: TandemError) -> str:
    if isinstance(error, Unreachable):
        return "The broker is away; this goes on by itself once it is back. What is shown may be old."
    return f"{error.message} Trying again."
