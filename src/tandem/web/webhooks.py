"""`/webhooks`: who is told of events, and what has arrived. Nothing is changed here."""

from __future__ import annotations

from tandem.web.page import PageRequest, PageResponse, PageRoute
from tandem.webhooks.contract import WebhookList

PATH = "/webhooks"
_ROWS = 50


async def show(request: PageRequest) -> PageResponse:
    """All webhooks, each with its deliveries."""
    found: WebhookList = await request.call("list_webhooks")
    deliveries = [
        (await request.call("list_deliveries", webhook_id=one.webhook_id, limit=_ROWS)).deliveries
        for one in found.webhooks
    ]
    return PageResponse("webhooks.html", {"webhooks": list(zip(found.webhooks, deliveries, strict=True))})


ROUTES = (PageRoute(PATH, show),)
