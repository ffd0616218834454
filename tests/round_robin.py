"""Several brokers on one database behind one address, as behind a load balancer: `make acceptance BROKERS=3`."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx

from tests.broker import CALL_SECONDS, NO_TLS, BrokerProcess

Answer = TypeVar("Answer")
_CHUNK = 65_536


class BrokersAtOneAddress(BrokerProcess):
    """Brokers that get the connections in turn; questions about their processes go to the first one."""

    def __init__(self, folders: Sequence[Path], **settings: object) -> None:
        super().__init__(folders[0], **settings)
        self._others = [BrokerProcess(folder, **settings) for folder in folders[1:]]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="round-robin")
        self._address = 0

    @property
    def url(self) -> str:
        """The one address."""
        return f"http://127.0.0.1:{self._address or self.port}"

    @property
    def data_dirs(self) -> list[Path]:
        """The folder of each."""
        return [self.data_dir, *(other.data_dir for other in self._others)]

    def __enter__(self) -> Self:
        super().__enter__()
        for other in self._others:
            other.start()
        ports = itertools.cycle([self.port, *(other.port for other in self._others)])
        self._thread.start()
        self._address = self._run(self._serve(ports))
        self._known()
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._hang_up())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        for other in self._others:
            other.stop()
        super().__exit__(None, None, None)

    def health(self) -> dict[str, Any]:
        """The facts of the first one; what waits, in all of them."""
        facts = [
            httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=CALL_SECONDS, verify=NO_TLS).json()["data"]
            for port in (self.port, *(other.port for other in self._others))
        ]
        return facts[0] | {"waiting": sum(one["waiting"] for one in facts)}

    def _run(self, work: Coroutine[None, None, Answer]) -> Answer:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _serve(self, ports: Iterator[int]) -> int:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await _relayed(reader, writer, next(ports))

        self._listening = await asyncio.start_server(accept, "127.0.0.1", 0)
        return self._listening.sockets[0].getsockname()[1]

    async def _hang_up(self) -> None:
        self._listening.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


async def _relayed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    there, back = await asyncio.open_connection("127.0.0.1", port)

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while chunk := await source.read(_CHUNK):
                sink.write(chunk)
                await sink.drain()

    pumps = [asyncio.ensure_future(pump(reader, back)), asyncio.ensure_future(pump(there, writer))]
    try:
        # As soon as one side hangs up, so does the other.
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in pumps:
            one.cancel()
        for one in (writer, back):
            one.close()
