"""The typed Python client: every operation of the broker as an async method."""

from __future__ import annotations

from tandem.client.connection import DEFAULT_URL, Unreachable
from tandem.client.session import TandemClient

__all__ = ["DEFAULT_URL", "TandemClient", "Unreachable"]
