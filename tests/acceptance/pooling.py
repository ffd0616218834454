"""A supervisor without processes: it only calls the operations, at the pace of the test."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tandem.pool.rules import supervisor_id
from tests.acceptance.reviewing import Desk
from tests.broker import BROKERS, BrokerProcess, database_of
from tests.round_robin import BrokersAtOneAddress

PID = 4_000_000
"""No process has it: hardly any machine has process ids as large."""


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One for a module of many pools: each call of a supervisor looks at all pools, and at all that waits for them."""
    with ExitStack() as stack:
        settings = database_of(request, stack)
        folders = [tmp_path_factory.mktemp("pools") for _ in range(BROKERS)]
        if BROKERS > 1 and settings:
            yield stack.enter_context(BrokersAtOneAddress(folders, **settings))
        else:
            yield stack.enter_context(BrokerProcess(folders[0], **settings))


class Steward:
    """Runs a pool for one desk's project, on paper.

    Attributes:
        secret: What its id is made from.
        incarnation: That of its latest start.
        known: The broker's latest word on each of its reviewers that has not ended.
        activity: The activity of each, as it says.
    """

    def __init__(self, desk: Desk, **rules: Any) -> None:
        self.desk = desk
        self.secret = secrets.token_hex(32)
        self.incarnation = ""
        self.known: dict[str, str] = {}
        self.activity: dict[str, dict[str, Any]] = {}
        # Tests do not wait for delays that they do not test.
        self.rules: dict[str, Any] = {"spawn_cooldown_seconds": 0, "retry_delay_seconds": 0, **rules}

    @property
    def supervisor_id(self) -> str:
        """Its id."""
        return supervisor_id(self.secret)

    def register(self, **more: Any) -> dict[str, Any]:
        """Start, or restart; the answer."""
        self.incarnation = more.pop("incarnation", secrets.token_hex(8))
        self.known = {}
        about = {"host": "a-host", "provider": "codex", "projects": [self.desk.project], "rules": self.rules}
        identity = {"secret": self.secret, "incarnation": self.incarnation}
        return self.desk.do("supervisor_register", **{**identity, **about, **more})

    def beat(self, *ended: dict[str, Any], **more: Any) -> dict[str, Any]:
        """Say that all known reviewers run, but for those that have ended; the orders."""
        orders = self.desk.do_unscoped("supervisor_heartbeat", **self.saying(*ended, **more))
        self.known = {one["reviewer_id"]: one["wanted"] for one in orders["reviewers"]}
        return orders

    def saying(self, *ended: dict[str, Any], **more: Any) -> dict[str, Any]:
        """The request of a heartbeat."""
        gone = {one["reviewer_id"] for one in ended}
        running = [
            {"reviewer_id": name, "wanted": wanted, "state": "running", "pid": PID, "started_us": 1}
            | {"activity": self.activity.get(name)}
            for name, wanted in self.known.items()
            if name not in gone
        ]
        identity = {"secret": self.secret, "incarnation": self.incarnation}
        return {**identity, "reviewers": [*running, *ended], **more}

    def one(self) -> str:
        """The only reviewer, known to run."""
        self.beat()
        self.beat()
        [name] = self.known
        return name

    def seen(self, reviewer_id: str) -> dict[str, Any]:
        """A reviewer as operators see it."""
        listed = self.desk.do("list_reviewers")["reviewers"]
        return next(one for one in listed if one["reviewer_id"] == reviewer_id)

    def pool(self) -> dict[str, Any]:
        """The pool as operators see it."""
        pools = self.desk.do("list_reviewers")["pools"]
        return next(one for one in pools if one["supervisor_id"] == self.supervisor_id)

    def log(self, subject: str) -> list[dict[str, Any]]:
        """The events of a reviewer or pool."""
        return self.desk.do("get_audit_log", review_id=subject, project=None, limit=200, cursor=None)["events"]

    def fail(self, reviewer_id: str, outcome: str = "timeout", **more: Any) -> dict[str, Any]:
        """Claim the next review and report that it came to nothing."""
        claim = self.desk.do("claim_review", reviewer_id=reviewer_id)
        return self.report(reviewer_id, claim, outcome, **more)

    def report(self, reviewer_id: str, claim: dict[str, Any], outcome: str, **more: Any) -> dict[str, Any]:
        """Report how a run ended."""
        return self.desk.do(
            "report_outcome",
            reviewer_id=reviewer_id,
            review_id=claim["review_id"],
            claim_generation=claim["claim_generation"],
            outcome=outcome,
            **{"reason": "it took too long", **more},
        )


def started(desk: Desk, **rules: Any) -> Steward:
    """A pool that has just started."""
    steward = Steward(desk, **rules)
    steward.register()
    return steward


def ended(
    reviewer_id: str, exit_code: int | None = 0, *, quick: bool = False, error: str | None = None
) -> dict[str, Any]:
    """What a supervisor says of a reviewer whose process has ended."""
    return {
        "reviewer_id": reviewer_id,
        "state": "ended",
        "pid": PID,
        "started_us": 1,
        "exit_code": exit_code,
        "quick": quick,
        "error": error,
    }
