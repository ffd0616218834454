"""Webhooks added, listed, tried and removed. A secret signs, so it is stored as it is; it is shown once."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from tandem.contract.answer import shown, time_or_none
from tandem.contract.caller import Caller
from tandem.core.clock import isoformat
from tandem.errors import Forbidden, InvalidInput, NotFound, TooLarge
from tandem.gate.switch import key_of
from tandem.reviews import report_queries as reports
from tandem.reviews.context import Services
from tandem.store import events, pages
from tandem.store.base import Unit
from tandem.store.context import transact
from tandem.store.event import EventKind
from tandem.webhooks import posting, queries, rules
from tandem.webhooks.contract import (
    MOST_WEBHOOKS,
    AddWebhook,
    DeliveryList,
    DeliveryView,
    ListDeliveries,
    ListWebhooks,
    RemoveWebhook,
    TestWebhook,
    WebhookAdded,
    WebhookList,
    WebhookRemoved,
    WebhookTested,
    WebhookView,
)
from tandem.webhooks.rules import Webhook
from tandem.webhooks.sender import send

SHOWN_ONCE = "(shown once, when it was made)"
STOPPED = (
    "Its receiver answered 410 Gone: nothing is posted to it, and events wait. Remove it, or try the receiver (tandem"
    " webhook test WEBHOOK_ID): once it takes that, what waits is posted."
)


async def add_webhook(services: Services, caller: Caller, request: AddWebhook) -> WebhookAdded:
    """Add a webhook.

    Raises:
        InvalidInput: The URL cannot be used, leads nowhere or to an address that is not allowed, or a kind is unknown.
        Forbidden: Nothing proves that a person decided it.
        TooLarge: There are too many webhooks.
    """
    if await key_of(services, request.proof, rules.proof_facts(request.model_dump())) is None:
        raise Forbidden(
            "A webhook takes the proof that a person decided it, for exactly this URL and these options; 'tandem"
            " webhook add' makes it when a person runs it.",
            field="proof",
            needed="person",
        )
    for beginning in request.events or ():
        if not any(kind.startswith(beginning) for kind in EventKind):
            raise InvalidInput(
                f"No kind of event begins with '{beginning}'.",
                field="events",
                allowed=[str(kind) for kind in EventKind],
            )
    await _check_url(request)
    now = services.clock.now_us()
    webhook = Webhook(
        id=services.clock.new_id("whk"),
        project=request.project,
        url=request.url,
        kinds=",".join(dict.fromkeys(request.events or ())),
        format=request.format,
        allow_private=int(request.allow_private),
        secret=rules.new_secret(),
        created_at=now,
        created_by=caller.operator,
    )

    def work(unit: Unit) -> WebhookAdded:
        events.lock(unit)
        if len(queries.list_all(unit)) >= MOST_WEBHOOKS:
            raise TooLarge(f"There are {MOST_WEBHOOKS} webhooks already; remove one.", limit=MOST_WEBHOOKS)
        queries.add(unit, webhook)
        return shown(WebhookAdded, webhook, webhook_id=webhook.id, url=webhook.place, events=webhook.beginnings)

    added = await transact(services, caller, work, kept=lambda answer: replace(answer, secret=SHOWN_ONCE))
    services.webhooks_wanted.set()
    return added


async def list_webhooks(services: Services, _caller: Caller, _request: ListWebhooks) -> WebhookList:
    """All webhooks, and how their deliveries stand."""
    found = await services.store.read(lambda unit: [_view(unit, one) for one in queries.list_all(unit)])
    return WebhookList(tuple(found))


async def list_deliveries(services: Services, _caller: Caller, request: ListDeliveries) -> DeliveryList:
    """Deliveries of a webhook.

    Raises:
        NotFound: There is no such webhook.
    """
    pages.check_limit(services, request.limit)

    def look(unit: Unit) -> DeliveryList:
        _get(unit, request.webhook_id)
        found = queries.list_deliveries(unit, request.webhook_id, request.limit)
        titles = reports.titles(unit, (one.subject for one, _ in found))
        return DeliveryList(
            request.webhook_id,
            tuple(
                shown(
                    DeliveryView,
                    one,
                    title=titles.get(one.subject),
                    next_try_at=time_or_none(one.not_before) if one.state == "waiting" else None,
                    **event,
                )
                for one, event in found
            ),
        )

    return await services.store.read(look)


async def remove_webhook(services: Services, caller: Caller, request: RemoveWebhook) -> WebhookRemoved:
    """Remove a webhook.

    Raises:
        NotFound: There is no such webhook.
    """
    now = services.clock.now_us()

    def work(unit: Unit) -> WebhookRemoved:
        events.lock(unit)
        queries.remove(unit, _get(unit, request.webhook_id), actor=caller.operator, now_us=now)
        return WebhookRemoved(request.webhook_id, isoformat(now))

    return await transact(services, caller, work)


async def test_webhook(services: Services, caller: Caller, request: TestWebhook) -> WebhookTested:
    """Post a `ping`; what waits to be tried again is tried at once if it arrives.

    Raises:
        NotFound: There is no such webhook.
    """
    webhook = await services.store.read(lambda unit: _get(unit, request.webhook_id))
    began = time.monotonic()
    reply = await send(services, webhook, rules.ping(webhook, services.clock.now_us()))
    seconds = round(time.monotonic() - began, 3)
    tested = WebhookTested(webhook.id, reply.delivered, reply.status, reply.answer, seconds)

    def work(unit: Unit) -> WebhookTested:
        if reply.delivered:
            queries.hasten(unit, webhook.id, services.clock.now_us())
        return tested

    return await transact(services, caller, work)


async def _check_url(request: AddWebhook) -> None:
    target = posting.read_url(request.url)
    try:
        async with asyncio.timeout(posting.SECONDS):
            await posting.list_addresses(target, allow_private=request.allow_private)
    except posting.NotAllowed as error:
        raise InvalidInput(f"{error}.", field="url") from None
    except (OSError, UnicodeError, TimeoutError):
        raise InvalidInput(f"The name '{target.host}' cannot be resolved here.", field="url") from None


def _get(unit: Unit, webhook_id: str) -> Webhook:
    found = queries.find(unit, webhook_id)
    if found is None:
        raise NotFound("There is no such webhook; list_webhooks shows what there is.", webhook_id=webhook_id)
    return found


def _view(unit: Unit, webhook: Webhook) -> WebhookView:
    standing = queries.standing(unit, webhook.id)._asdict()
    return shown(
        WebhookView,
        webhook,
        webhook_id=webhook.id,
        url=webhook.place,
        events=webhook.beginnings,
        allow_private=bool(webhook.allow_private),
        **{**standing, "delivered_at": time_or_none(standing["delivered_at"])},
        stopped=STOPPED if queries.is_stopped(unit, webhook.id) else None,
    )
