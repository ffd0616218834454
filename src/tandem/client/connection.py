"""The wire: one POST an operation, retried only where a second try cannot do harm."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from threading import Thread
from types import TracebackType
from typing import Self

import orjson

from tandem.bridge.broker import find_data_dir
from tandem.bridge.credentials import TOKEN_VARIABLE, Credentials, NoToken
from tandem.bridge.http import Aborted, Exchange, HttpClient, HttpFailure, NotSent, Target, quoted
from tandem.errors import ConfigInvalid, InvalidInput, Unavailable

DEFAULT_URL = "http://127.0.0.1:8321"
_ANSWER_SECONDS = 120.0
"""A silent broker is given up on; a call may wait 50 s, and validate and commit besides."""
_RETRY_DELAYS_SECONDS = (0.05, 0.25)
_PATIENT_DELAYS_SECONDS = (0.05, 0.1, 0.25, 0.5, *(1.0,) * 60)
"""For a wait that was already going on: long enough for a broker to be restarted."""


class Unreachable(Unavailable):
    """No broker answered at all, so that nothing is known of what it would have said."""


class Connection:
    """Keep-alive connections to one broker.

    They are the bridge's, a thread for each call: importing an HTTP client that is asynchronous by itself takes
    longer than all else that most commands do.

    Args:
        url: The broker's.
        project: The project of calls that name none.
        agent: Who is calling.
        data_dir: The data folder in which that broker may have left its owner's token; null for the user's own.
    """

    def __init__(self, url: str, *, project: str | None, agent: str | None, data_dir: str | None = None) -> None:
        self.url = url.rstrip("/")
        self._data_dir = data_dir
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if agent is not None:
            self._headers["Tandem-Agent"] = agent
        self._query = f"?project={quoted(project)}" if project is not None else ""
        self._http: HttpClient | None = None
        self._exchanges: set[Exchange] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, and give up the calls that still wait; closing twice is safe."""
        for exchange in self._exchanges:
            exchange.abort()
        if self._http is not None:
            self._http.close()

    async def call(
        self, operation: str, arguments: Mapping[str, object], *, repeatable: bool, patient: bool = False
    ) -> bytes:
        """The envelope that the broker answers, as it came.

        Args:
            operation: The operation's name.
            arguments: Its request, as JSON values.
            repeatable: Whether the call may be sent again when nobody knows if it arrived.
            patient: Whether to keep trying for about a minute while the broker is away.

        Raises:
            Unreachable: Nobody, or nobody who speaks as a broker does, answers at the URL.
        """
        body = orjson.dumps(arguments)
        for delay_seconds in _PATIENT_DELAYS_SECONDS if patient else _RETRY_DELAYS_SECONDS:
            try:
                return await self._post(operation, body)
            except HttpFailure as failure:
                # What did not leave whole had no effect, so that even a lone write may try again.
                if isinstance(failure, Aborted) or not (repeatable or isinstance(failure, NotSent)):
                    raise self._unreachable(failure) from failure
                await asyncio.sleep(delay_seconds)
        try:
            return await self._post(operation, body)
        except HttpFailure as failure:
            raise self._unreachable(failure) from failure

    async def _post(self, operation: str, body: bytes) -> bytes:
        status, content = await self._exchange(f"/api/v1/{operation}{self._query}", body)
        if not content.lstrip().startswith((b'{"ok":', b'{"ok" :')):
            raise Unreachable(
                f"What answers at {self.url} is not a Tandem broker (HTTP {status}). "
                "Check --broker or TANDEM_BROKER, or start one with: tandem up --background",
                url=self.url,
            )
        return content

    async def _exchange(self, path: str, body: bytes) -> tuple[int, bytes]:
        """One request and the status and body of its answer; whoever is cancelled hangs up."""
        client = self._client()
        exchange = Exchange()
        ended: Future[tuple[int, bytes]] = Future()
        ended.set_running_or_notify_cancel()

        def carry_out() -> None:
            try:
                answer = client.request("POST", path, body, self._headers, exchange)
                ended.set_result((answer.status, answer.read()))
            except Exception as error:  # noqa: BLE001 - whoever awaits it gets it, whatever it is
                ended.set_exception(error)

        self._exchanges.add(exchange)
        Thread(target=carry_out, name="tandem-call", daemon=True).start()
        try:
            return await asyncio.wrap_future(ended)
        finally:
            self._exchanges.discard(exchange)
            # Of an exchange that has ended, this changes nothing.
            exchange.abort()

    def _client(self) -> HttpClient:
        if self._http is None:
            try:
                credentials = Credentials(self.url, lambda: self._data_dir or find_data_dir())
                self._http = HttpClient(Target(self.url), silence_seconds=_ANSWER_SECONDS, credentials=credentials)
            except NoToken as error:
                raise ConfigInvalid(str(error), setting=TOKEN_VARIABLE, origin="environment") from None
            except ValueError as error:
                raise self._unreachable(error) from error
            if not "".join(self._headers.values()).isprintable():
                raise InvalidInput("The agent's name must be a single line of text.", field="agent")
        return self._http

    def _unreachable(self, failure: Exception) -> Unreachable:
        reason = str(failure) or type(failure).__name__
        return Unreachable(
            f"No broker answers at {self.url} ({reason}). Start it with: tandem up --background",
            url=self.url,
        )
