"""What monitoring is told: `GET /metrics`, in the formats of Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from tandem.errors import Forbidden
from tandem.server.asgi.exchange import Exchange, send_bytes
from tandem.server.measurements import Measurements
from tandem.server.tally import Family

ROLE: Final = "monitor"
"""What a token is for that may read this, where tokens are needed."""


async def serve_metrics(exchange: Exchange, measurements: Measurements) -> None:
    """Answer one scrape, in OpenMetrics or in the older text format, as its client accepts.

    Raises:
        Forbidden: The caller's token is for something else.
    """
    access = exchange.access
    if access is not None and ROLE not in access.roles:
        raise Forbidden(
            f"Metrics need a token with the role {ROLE}: 'tandem token create NAME --role {ROLE}'.",
            allowed=[ROLE],
            actual=sorted(access.roles),
        )
    families = await measurements.families()
    accepted = exchange.headers.get(b"accept", b"").decode("latin-1")
    body, content_type = await asyncio.to_thread(_exposed, families, accepted)
    await send_bytes(exchange.send, 200, body, ((b"content-type", content_type.encode()),))


def _exposed(families: Sequence[Family], accepted: str) -> tuple[bytes, str]:
    from tandem.server.http.exposition import exposed

    return exposed(families, accepted)
