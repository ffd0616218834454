"""The wire: one POST an operation, retried only where a second try cannot do harm."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import httpx
import orjson

from tandem.errors import Unavailable

DEFAULT_URL = "http://127.0.0.1:8321"
_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 120.0
"""A silent broker is given up on; a call may wait 50 s, and validate and commit besides."""
_RETRY_DELAYS_SECONDS = (0.05, 0.25)
_PATIENT_DELAYS_SECONDS = (0.05, 0.1, 0.25, 0.5, *(1.0,) * 60)
"""For a wait that was already going on: long enough for a broker to be restarted."""


class Unreachable(Unavailable):
    """No broker answered at all, so that nothing is known of what it would have said."""


class Connection:
    """A keep-alive connection to one broker."""

    def __init__(self, url: str, *, project: str | None, agent: str | None) -> None:
        self.url = url.rstrip("/")
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if agent is not None:
            headers["Tandem-Agent"] = agent
        self._http = httpx.AsyncClient(
            base_url=self.url,
            headers=headers,
            params={"project": project} if project is not None else None,
            timeout=httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS, pool=None),
            # A proxy of the environment has no business between here and the loopback.
            trust_env=False,
            # Loading the certificate store takes longer than most calls; plain HTTP needs none.
            verify=self.url.startswith("https:"),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; closing twice is safe."""
        await self._http.aclose()

    async def call(
        self, operation: str, arguments: Mapping[str, Any], *, repeatable: bool, patient: bool = False
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
            except httpx.TransportError as error:
                # An unopened connection carried nothing, so that even a lone write may try again.
                if not (repeatable or isinstance(error, httpx.ConnectError)):
                    raise self._unreachable(error) from error
                await asyncio.sleep(delay_seconds)
        try:
            return await self._post(operation, body)
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    async def _post(self, operation: str, body: bytes) -> bytes:
        answer = await self._http.post(f"/api/v1/{operation}", content=body)
        if not answer.content.lstrip().startswith((b'{"ok":', b'{"ok" :')):
            raise Unreachable(
                f"What answers at {self.url} is not a Tandem broker (HTTP {answer.status_code}). "
                "Check --broker or TANDEM_BROKER, or start one with: tandem up --background",
                url=self.url,
            )
        return answer.content

    def _unreachable(self, error: httpx.TransportError) -> Unreachable:
        reason = str(error) or type(error).__name__
        return Unreachable(
            f"No broker answers at {self.url} ({reason}). Start it with: tandem up --background",
            url=self.url,
        )
