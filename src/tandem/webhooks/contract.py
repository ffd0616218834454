"""Requests and answers of the operations on webhooks. Times are ISO 8601 in UTC."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from tandem.contract.answer import CreatedAt
from tandem.contract.operation import ADMIN, READ, REPEATABLE_WRITE, WRITE, Hints, Unlisted
from tandem.contract.request import LARGEST, Check, Name, PageLimit, Refusals, Request, Token, WriteRequest
from tandem.errors import Forbidden, InvalidInput, NotFound, TooLarge
from tandem.present.shape import Shown

URL_LENGTH: Final = 2048
MOST_WEBHOOKS: Final = 50
_MOST_KINDS = 50

Format = Literal["json", "slack"]
WebhookId = Annotated[str, Field(pattern=r"^whk_[0-9a-z]{18}$", description="As list_webhooks shows it.")]
Unused = Annotated[Name | None, Field(description="Of no effect.")]


class AddWebhook(WriteRequest):
    """Post events to a URL from now on. Takes the proof that a person decided it; its secret is shown once."""

    refusals: ClassVar[Refusals] = (
        Check(InvalidInput, "the URL cannot be used, leads to an address that is not allowed, or a kind is unknown"),
        Check(Forbidden, "nothing proves that a person decided it"),
        Check(TooLarge, f"there are {MOST_WEBHOOKS} webhooks already"),
    )

    project: Annotated[Name | None, Field(description="Only events of this project; default: of all.")] = None
    url: Annotated[
        str,
        Field(
            min_length=1,
            max_length=URL_LENGTH,
            description="Where events are posted to: https, or http to this machine.",
        ),
    ]
    events: Annotated[
        list[Annotated[str, Field(pattern=r"^[a-z_]{1,60}$")]] | None,
        Field(
            max_length=_MOST_KINDS,
            description="Only kinds of events that begin so, e.g. `review_`; default: all but `checkpoint`.",
        ),
    ] = None
    format: Annotated[
        Format, Field(description="json: the event as get_audit_log shows it; slack: one line of text, as Slack takes.")
    ] = "json"
    allow_private: Annotated[bool, Field(description="Allow addresses of private networks, for http too.")] = False
    proof: Annotated[
        Token | None, Field(description="Proof that a person decided it; `tandem webhook add` makes it.")
    ] = None


class ListWebhooks(Request):
    """Webhooks, oldest first, with their waiting and failed deliveries counted; never the secrets."""

    refusals: ClassVar[Refusals] = ()


class ListDeliveries(Request):
    """Deliveries of a webhook: those that failed, those that wait, and the newest that arrived."""

    refusals: ClassVar[Refusals] = (NotFound,)

    webhook_id: WebhookId
    limit: PageLimit = 50


class RemoveWebhook(WriteRequest):
    """Remove a webhook at once, with everything that waits to be delivered to it."""

    refusals: ClassVar[Refusals] = (NotFound,)

    project: Unused = None
    webhook_id: WebhookId


class TestWebhook(WriteRequest):
    """Post a `ping` to a webhook now, and tell what its receiver says. If it arrives, failed tries are repeated."""

    refusals: ClassVar[Refusals] = (NotFound,)

    project: Unused = None
    webhook_id: WebhookId


Where = Annotated[str, Field(description="Where it posts to, without the path, which may hold a secret.")]
Kinds = Annotated[
    tuple[str, ...], Field(description="How the kinds of its events begin; empty for all."), Shown(empty="all")
]
OneProject = Annotated[
    str, Field(description="The project whose events it gets; null for all."), Shown(empty="all projects")
]
Status = Annotated[int, Field(description="The HTTP status of the latest answer; null without one.")]
Answer = Annotated[str, Field(description="The beginning of the latest answer, or why there is none.")]


@dataclass(frozen=True, slots=True)
class WebhookFacts:
    """A webhook, as a person added it."""

    webhook_id: WebhookId
    url: Where
    events: Kinds
    format: Annotated[Format, Field(description="The form of the body.")]
    project: OneProject | None


@dataclass(frozen=True, slots=True)
class WebhookAdded(WebhookFacts):
    """A webhook was added."""

    secret: Annotated[
        str, Field(description="What signs its messages, shown this once; a repetition has a remark in its place.")
    ] = field(repr=False)


@dataclass(frozen=True, slots=True)
class WebhookView(WebhookFacts):
    """One webhook, without its secret."""

    allow_private: Annotated[bool, Field(description="Whether it may post to private networks.")]
    created_at: CreatedAt
    created_by: Annotated[str, Field(description="Who added it.")]
    waiting: Annotated[int, Field(description="Events that wait to be delivered, those that are tried again included.")]
    failed: Annotated[int, Field(description="Events that were given up in the last 14 days.")]
    delivered_at: Annotated[str | None, Field(description="When the latest event arrived.")]
    problem: Annotated[str | None, Field(description="The latest failed answer to an event that has not arrived yet.")]
    stopped: Annotated[
        str | None, Field(description="Why nothing is posted any more, and what to do; null while it is posted to.")
    ]


@dataclass(frozen=True, slots=True)
class WebhookList:
    """All webhooks."""

    webhooks: Annotated[
        tuple[WebhookView, ...],
        Field(description="The webhooks, oldest first."),
        Shown(empty="No webhooks. Add one with: tandem webhook add URL"),
    ]


@dataclass(frozen=True, slots=True)
class DeliveryView:
    """One event on its way to one webhook."""

    seq: Annotated[int, Field(description="The event's number.", le=LARGEST**2)]
    kind: Annotated[str, Field(description="What happened."), Shown("name")]
    subject: Annotated[str, Field(description="The event's subject, such as a review.")]
    title: Annotated[str | None, Field(description="The intent of the review that it happened to; else null.")]
    actor: Annotated[str, Field(description="Who did it.")]
    state: Annotated[str, Field(description="`waiting`, `delivered` or `failed`.")]
    attempts: Annotated[int, Field(description="How often it was tried.")]
    queued_at: Annotated[str, Field(description="When it was taken from the log.")]
    next_try_at: Annotated[str | None, Field(description="When it is tried next; null if it is not any more.")]
    ended_at: Annotated[str | None, Field(description="When it arrived or was given up.")]
    status: Status | None
    answer: Answer | None


@dataclass(frozen=True, slots=True)
class DeliveryList:
    """Deliveries of a webhook."""

    webhook_id: WebhookId
    deliveries: Annotated[
        tuple[DeliveryView, ...],
        Field(description="Failed ones, then waiting ones, then those that arrived."),
        Shown(empty="No deliveries yet."),
    ]


@dataclass(frozen=True, slots=True)
class WebhookRemoved:
    """A webhook gets nothing any more."""

    webhook_id: WebhookId
    removed_at: Annotated[str, Field(description="Since when.")]


@dataclass(frozen=True, slots=True)
class WebhookTested:
    """What became of a `ping`."""

    webhook_id: WebhookId
    delivered: Annotated[bool, Field(description="Whether the receiver took it: a status of 200 to 299.")]
    status: Status | None
    answer: Answer
    seconds: Annotated[float, Field(description="How long it took.")]


_SENDS = Hints(read_only=False, open_world=True)
OPERATIONS = (
    Unlisted("add_webhook", "webhook", "add", AddWebhook, WebhookAdded, ADMIN, WRITE),
    Unlisted("list_webhooks", "webhook", "list", ListWebhooks, WebhookList, ADMIN, READ),
    Unlisted("list_deliveries", "webhook", "deliveries", ListDeliveries, DeliveryList, ADMIN, READ),
    Unlisted("remove_webhook", "webhook", "remove", RemoveWebhook, WebhookRemoved, ADMIN, REPEATABLE_WRITE),
    Unlisted("test_webhook", "webhook", "test", TestWebhook, WebhookTested, ADMIN, _SENDS),
)
