"""A broker that is not on this machine's loopback, or not at a plain address: asked by the bridge's client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandem.bridge.http import Client, HttpFailure, Target
from tandem.hooks.wire import NoAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping


class Distant:
    """As `Wire`, for any URL.

    Args:
        url: Where the broker is.
        silence_seconds: How long it may be silent.

    Raises:
        ValueError: It is no URL.
    """

    def __init__(self, url: str, silence_seconds: float) -> None:
        self._client = Client(Target(url), silence_seconds=silence_seconds)

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        """The body of the answer to a POST, whatever its status.

        Raises:
            NoAnswer: There was none; whether the other side acted is unknown.
        """
        try:
            return self._client.request("POST", path, body, headers).read()
        except HttpFailure as failure:
            raise NoAnswer(str(failure) or type(failure).__name__) from failure

    def close(self) -> None:
        """Hang up; twice is safe."""
        self._client.close()
