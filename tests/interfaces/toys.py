"""Small real operations, so that the faces can be watched without a broker behind them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, cast

from pydantic import Field

from tandem.contract.caller import Caller
from tandem.contract.operation import ALL, READ, WRITE, Operation, Registry, Role
from tandem.contract.request import ProjectRequest, Request
from tandem.core.clock import Clock
from tandem.errors import AlreadyClaimed, NotFound
from tandem.reviews.answers import ReviewPage, ReviewRow
from tandem.server.dispatch import Dispatcher


class NoProjects:
    """The projects that the dispatcher asks for, where there are none."""

    async def learn(self, *candidates: str | None) -> None:
        """Learn nothing."""


@dataclass
class Toys:
    """The state and the effects of the operations; the tests hold the other end."""

    waiting: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    projects: NoProjects = field(default_factory=NoProjects)
    parked: int = 0

    def park(self, change: int) -> None:
        self.parked += change


class Echo(ProjectRequest):
    """Say it back."""

    text: str
    shout: bool | None = None


class Keyed(Request):
    """Show the idempotency key; a plain request, as keeping answers takes a broker."""

    idempotency_key: str | None = None


class Wait(Request):
    """Wait until released."""


class Refuse(Request):
    """Always refused."""


class Explode(Request):
    """Always fails."""


class ByReview(ProjectRequest):
    """Something about one review."""

    review_id: str


class Discussion(ByReview):
    """The messages of a review."""

    limit: Annotated[int, Field(ge=1)] = 50


class Listing(ProjectRequest):
    """All reviews."""

    limit: Annotated[int, Field(ge=1)] = 50
    page: str | None = None


class SessionOpen(Request):
    """Open a session."""

    role: Literal["gemini", "codex"]


class Administer(Request):
    """Not offered over MCP."""


@dataclass(frozen=True)
class Said:
    """A message, and its speaker."""

    text: str
    role: str | None
    project: str | None
    agent: str | None


@dataclass(frozen=True)
class Answer:
    """Any answer."""

    value: Any


async def _echo(_toys: Toys, caller: Caller, request: Echo) -> Said:
    text = request.text.upper() if request.shout else request.text
    return Said(text, caller.role, request.project or caller.project, caller.agent)


async def _keyed(_toys: Toys, _caller: Caller, request: Keyed) -> dict[str, Any]:
    return {"key": request.idempotency_key}


async def _wait(toys: Toys, _caller: Caller, _request: Wait) -> dict[str, Any]:
    toys.park(+1)
    toys.waiting.set()
    try:
        await toys.release.wait()
    except asyncio.CancelledError:
        toys.cancelled.set()
        raise
    finally:
        toys.park(-1)
    return {"released": True}


async def _refuse(_toys: Toys, _caller: Caller, _request: Refuse) -> None:
    raise AlreadyClaimed("Somebody else has it; claim another.", reviewer_id="rev-2")


async def _explode(_toys: Toys, _caller: Caller, _request: Explode) -> None:
    raise RuntimeError("the secret inner text")


async def _by_review(_toys: Toys, _caller: Caller, request: ByReview) -> dict[str, Any]:
    if request.review_id != "rv_1":
        raise NotFound(f"There is no review {request.review_id}.", review_id=request.review_id)
    return {"review_id": request.review_id}


async def _listing(_toys: Toys, _caller: Caller, request: Listing) -> ReviewPage:
    if request.page == "second":
        return ReviewPage((_row("rv_3", "approved"),), next_page=None, cursor="", changed=True)
    return ReviewPage((_row("rv_1", "pending"), _row("rv_2", "closed")), next_page="second", cursor="", changed=True)


def _row(review_id: str, status: str) -> ReviewRow:
    blank = dict.fromkeys(ReviewRow.__dataclass_fields__)
    known = {"category": "code_change", "round": 1, "intent": "A change"}
    return ReviewRow(**cast("Any", {**blank, **known, "review_id": review_id, "status": status}))


async def _session_open(_toys: Toys, _caller: Caller, request: SessionOpen) -> dict[str, Any]:
    return {"role": request.role}


async def _administer(_toys: Toys, _caller: Caller, _request: Administer) -> dict[str, Any]:
    return {}


_PROPOSER = frozenset({Role.PROPOSER})
_HANDOFF = frozenset({Role.HANDOFF})
_ADMIN = frozenset({Role.ADMIN})
REGISTRY = Registry(
    (
        Operation("echo", "toy", "echo", Echo, Said, ALL, READ),
        Operation("keyed", "toy", "keyed", Keyed, Answer, _PROPOSER, WRITE),
        Operation("wait", "toy", "wait", Wait, Answer, ALL, READ, blocking=True),
        Operation("refuse", "toy", "refuse", Refuse, Answer, ALL, WRITE),
        Operation("explode", "toy", "explode", Explode, Answer, ALL, WRITE),
        Operation("get_proposal", "review", "show", ByReview, Answer, ALL, READ),
        Operation("get_review", "review", "whole", ByReview, Answer, ALL, READ, listed=False),
        Operation("get_review_status", "review", "status", ByReview, Answer, ALL, READ),
        Operation("get_discussion", "review", "discussion", Discussion, Answer, ALL, READ),
        Operation("list_reviews", "review", "list", Listing, ReviewPage, ALL, READ),
        Operation("session_open", "session", "open", SessionOpen, Answer, _HANDOFF, WRITE),
        Operation("administer", "admin", "do", Administer, Answer, _ADMIN, WRITE),
    )
)
HANDLERS = {
    "echo": _echo,
    "keyed": _keyed,
    "wait": _wait,
    "refuse": _refuse,
    "explode": _explode,
    "get_proposal": _by_review,
    "get_review": _by_review,
    "get_review_status": _by_review,
    "get_discussion": _by_review,
    "list_reviews": _listing,
    "session_open": _session_open,
    "administer": _administer,
}


def dispatcher(toys: Toys) -> Dispatcher:
    """The way into the toys."""
    return Dispatcher(REGISTRY, HANDLERS, cast("Any", toys), Clock())
