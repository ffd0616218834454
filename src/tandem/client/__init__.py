"""The typed Python client: every operation of the broker as an async method."""

from __future__ import annotations

from tandem.bridge.location import DEFAULT_URL
from tandem.client.session import TandemClient, Unreachable

__all__ = ["DEFAULT_URL", "TandemClient", "Unreachable"]
