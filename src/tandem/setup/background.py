"""The broker for a command that needs one: the one that runs, else one that is started in the background."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from tandem.bridge.broker import AUTOMATIC, start_broker
from tandem.bridge.credentials import new_nonce
from tandem.bridge.http import Exchange, HttpClient
from tandem.bridge.location import BrokerLocation, HttpFailure, NotSent, find_data_dir, locate, of_record, targets
from tandem.bridge.messages import as_object
from tandem.bridge.session import unreachable
from tandem.errors import ConfigInvalid, InvalidInput, Unavailable
from tandem.settings.instance import Running, find_running

START_SECONDS: Final = 30.0
"""How long a broker that was started has to answer."""

_LOOK_SECONDS = 0.05
_ANSWER_SECONDS = 5.0
_LEAST_ROOM_BYTES = 1_000_000
"""A start takes about half of it."""

_ASKED = {"Content-Type": "application/json", "Accept": "application/json"}


async def find_broker(stated: str | None, folder: str | None = None) -> BrokerLocation | None:
    """The broker that is meant, by the one rule; None if it does not answer, or does not prove whose it is.

    Args:
        stated: The one that was named.
        folder: Where the record of a repository is looked for.
    """
    found = locate(stated, folder)
    _, failure = await asyncio.to_thread(look, found)
    return found if failure is None else None


async def reach_broker(stated: str | None, folder: str | None = None) -> tuple[BrokerLocation, bool]:
    """As `find_broker`, but one that does not run is started, unless it was named; and whether it was started.

    Raises:
        Unreachable: The one that was named does not answer, or the one that runs hangs.
        ConfigInvalid: None can be started in the data folder.
        Unavailable: The one that was started does not answer.
    """
    meant = locate(stated, folder)
    _, failure = await asyncio.to_thread(look, meant)
    if failure is None:
        return meant, False
    if not meant.is_own or meant.hangs(failure):
        raise unreachable(meant, failure)
    await run_in_background(Path(meant.data_dir))
    return locate(None, None, meant.data_dir), True


def look(broker: BrokerLocation) -> tuple[dict[str, Any], HttpFailure | None]:
    """What a broker says of itself at `/healthz`, in its envelope; else why it says nothing. Blocks.

    Raises:
        InvalidInput: Its address is no URL.
    """
    if broker.url is None:
        return {}, NotSent(f"none runs on {broker.data_dir}")
    try:
        said = _exchanged(broker.url, "GET", "/healthz", b"", broker.owner_dirs)[1]
    except HttpFailure as failure:
        return {}, failure
    return said, None if "ok" in said else NotSent("what answers there is no Tandem broker")


async def run_in_background(
    data_dir: Path, options: Sequence[str] = AUTOMATIC, *, waiting: Callable[[float], None] = lambda _: None
) -> Running:
    """Start a broker in the background, and wait until it is ready.

    Args:
        data_dir: Its data folder.
        options: Further options of `tandem up`.
        waiting: As `await_ready` has it.

    Raises:
        ConfigInvalid: It cannot be started in the folder.
        Unavailable: It ended before it answered, or took too long; with its last words. Or the one that runs hangs.
    """
    try:
        launched = start_broker(str(data_dir), options)
    except OSError as error:
        raise ConfigInvalid(
            f"A broker cannot be started in {data_dir}: {error.strerror or error}.", setting="data_dir"
        ) from error

    def refuse_ended() -> None:
        if launched.has_ended() and find_running(data_dir) is None:
            raise Unavailable(f"The broker did not start. It said:\n{launched.last_words()}", log=launched.log)

    running = await await_ready(data_dir, waiting, refuse_ended)
    if running is not None:
        return running
    if is_full(data_dir):
        raise Unavailable(f"The disk of {data_dir} is full. Make room: the broker then starts by itself.")
    raise Unavailable(
        f"The broker has not answered for {START_SECONDS:.0f} s. It said:\n{launched.last_words()}", log=launched.log
    )


async def await_ready(
    data_dir: Path, waiting: Callable[[float], None], missed: Callable[[], None] = lambda: None
) -> Running | None:
    """The broker of a data folder, once it is ready; None if it does not answer in time.

    Args:
        data_dir: The folder.
        waiting: Is told about once a second for how many seconds it has been waited for.
        missed: Is called after each look in vain, to end the wait by an error.

    Raises:
        Unreachable: It hangs.
    """
    began = said = time.monotonic()
    while (now := time.monotonic()) < began + START_SECONDS:
        running = find_running(data_dir)
        if running is not None and await asyncio.to_thread(serves, running, data_dir):
            return running
        missed()
        if now - said > 1:
            said = now
            waiting(now - began)
        await asyncio.sleep(_LOOK_SECONDS)
    return None


def is_full(folder: Path) -> bool:
    """Whether a folder's disk has no room for a start."""
    return shutil.disk_usage(folder).free < _LEAST_ROOM_BYTES


def is_ready(url: str) -> bool:
    """Whether a broker is there and serves. Blocks."""
    return ask(url, "GET", "/healthz")[1].get("ok") is True


def serves(running: Running, data_dir: Path) -> bool:
    """Whether the broker of a data folder answers and serves. Blocks.

    Raises:
        Unreachable: It hangs: until a person ends it, none can take its place.
    """
    try:
        return _exchanged(running.url, "GET", "/healthz", b"")[1].get("ok") is True
    except HttpFailure as failure:
        location = locate(None, None, str(data_dir))
        if location.hangs(failure):
            raise unreachable(location, failure) from None
        return False


def data_dirs_of(url: str | None) -> list[str]:
    """The data folders to keep on record of named brokers, as those on this machine state them. Blocks.

    They are what such brokers have to prove themselves by from then on. The user's own where none says any.
    """
    own = find_data_dir()
    if url is None or not of_record(url, own, None).owner_dirs:
        return [own]
    asked = (ask(one.url, "GET", "/healthz")[1] for one in targets(url) if one.is_local)
    said = [as_object(one.get("data")) or {} for one in asked]
    return list(dict.fromkeys(str(one["data_dir"]) for one in said if "data_dir" in one)) or [own]


def ask(url: str, method: str, path: str, body: bytes = b"") -> tuple[int, dict[str, Any]]:
    """The status and the envelope of a request without a token; 0 and nothing if none comes that can be read. Blocks.

    Raises:
        InvalidInput: That is no URL of a broker.
    """
    try:
        return _exchanged(url, method, path, body)
    except HttpFailure:
        return 0, {}


def _exchanged(
    url: str, method: str, path: str, body: bytes, owner_dirs: Sequence[str] = ()
) -> tuple[int, dict[str, Any]]:
    try:
        client = HttpClient(*targets(url), owner_dirs=owner_dirs)
    except ValueError as error:
        raise InvalidInput(f"{error}.", field="broker") from error
    # For the whole answer: an unknown program may listen there and send a little now and then for ever.
    exchange = Exchange(time.monotonic() + _ANSWER_SECONDS)
    with closing(client):
        try:
            answer = client.request(method, path, body, _ASKED | {"Tandem-Nonce": new_nonce()}, exchange)
            return answer.status, as_object(json.loads(answer.read()))
        except ValueError:
            return 0, {}
