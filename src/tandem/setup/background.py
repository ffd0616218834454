"""The broker for a command that needs one: the one that runs, else one that is started in the background."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from tandem.bridge.broker import DEFAULT_URL, find_data_dir, published_url, start_broker, stated_data_dir
from tandem.client import TandemClient, Unreachable
from tandem.errors import TandemError, Unavailable

START_SECONDS: Final = 30.0
"""How long a broker that was started has to answer."""

_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Reached:
    """A broker that answers.

    Attributes:
        url: Where it is.
        started: Whether it was started for this.
    """

    url: str
    started: bool


async def find_broker(stated: str | None) -> Reached | None:
    """The broker that was named, else the one of this user's data folder; null if it does not answer."""
    usual = None if stated_data_dir() else DEFAULT_URL
    for url in (stated,) if stated else (published_url(find_data_dir()), usual):
        if url is not None and await _answers(url):
            return Reached(url, started=False)
    return None


async def reach_broker(stated: str | None) -> Reached:
    """As `find_broker`, but one that does not run is started, unless it was named.

    Raises:
        Unavailable: The one that was named does not answer, or one that was started does not.
    """
    found = await find_broker(stated)
    if found is not None:
        return found
    if stated:
        raise Unreachable(f"No broker answers at {stated}; start it there, or leave --broker out.", broker=stated)
    data_dir = find_data_dir()
    try:
        launched = start_broker(data_dir)
    except OSError as error:
        raise Unavailable(f"The broker cannot be started in {data_dir}: {error.strerror or error}.") from error
    deadline = asyncio.get_running_loop().time() + START_SECONDS
    while asyncio.get_running_loop().time() < deadline:
        url = published_url(data_dir)
        if url is not None and await _answers(url):
            return Reached(url, started=True)
        if url is None and launched.process.poll() is not None:
            break
        await asyncio.sleep(_LOOK_SECONDS)
    raise Unavailable(f"The broker did not start. It said:\n{launched.last_words()}", log=launched.log)


async def _answers(url: str) -> bool:
    async with TandemClient(url) as client:
        try:
            await client.list_projects()
        except Unreachable:
            return False
        except TandemError:
            # It refuses, but it is there.
            return True
    return True
