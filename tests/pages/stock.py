"""A broker with a day's work in it, as pages show it to people: plans, changes, talk, verdicts, a hand-off cycle."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.acceptance.cycling import Crew
from tests.acceptance.pooling import ended, started
from tests.acceptance.receiving import NOBODY, added
from tests.acceptance.reviewing import Desk
from tests.git.sandbox import Sandbox

PAYMENTS = """\
import httpx


class Payments:
    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def charge(self, order: str, cents: int) -> str:
        answer = self._client.post("/charges", json={"order": order, "cents": cents})
        answer.raise_for_status()
        return answer.json()["id"]

    def refund(self, charge: str) -> None:
        self._client.post(f"/charges/{charge}/refund").raise_for_status()
"""
RETRYING = """\
import time

import httpx

ATTEMPTS = 4


class Payments:
    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def charge(self, order: str, cents: int) -> str:
        for attempt in range(ATTEMPTS):
            answer = self._client.post("/charges", json={"order": order, "cents": cents})
            if answer.status_code < 500:
                break
            time.sleep(2**attempt)
        answer.raise_for_status()
        return answer.json()["id"]

    def refund(self, charge: str) -> None:
        self._client.post(f"/charges/{charge}/refund").raise_for_status()
"""
KEYED = RETRYING.replace('"cents": cents})', '"cents": cents}, headers={"Idempotency-Key": order})')
BAR = """\
export function show(bar, sent, total) {
  bar.value = sent / total;
  bar.title = `${sent} of ${total} bytes`;
}
"""
WHY = """\
The payment provider answers **503** for some seconds after each of its releases, and every order in that time was lost.

- waits 1, 2, 4 and 8 seconds between attempts
- answers below 500 are final, as before

See `docs/payments.md` for their promise.
"""
PLAN = """\
# Phase 3: uploads

## Goal

People see how far an upload is.

## Tasks

1. `GET /uploads/{id}/progress` answers with the bytes that were sent.
2. The bar asks twice a second.

| task | who |
| --- | --- |
| 1 | codex |
| 2 | gemini |
"""


@dataclass(frozen=True)
class Stock:
    """The broker's content.

    Attributes:
        url: The broker's.
        project: Its registered project.
        change: A review of two rounds with talk and findings; Ada holds it.
        plan: A review of a text, of two rounds.
        mine: Ada's own, to which changes are asked.
        cycle: A hand-off cycle under way.
        reviewer: A reviewer of a pool, which decided and ended.
    """

    url: str
    project: str
    change: str
    plan: str
    mine: str
    cycle: str
    reviewer: str


def stocked(url: str, folder: Path) -> Stock:
    """Put a day's work into a broker."""
    shop = Sandbox(folder / "webshop")
    shop.write("shop/payments.py", PAYMENTS)
    shop.write("web/progress.js", BAR)
    shop.write("docs/payments.md", "# Payments\n\nThe provider is away for seconds, never for minutes.\n")
    shop.commit("start")
    with Desk(url, "webshop") as desk:
        desk.register(shop.root)
        added(desk, NOBODY)
        change, plan, mine = _change(desk, shop), _plan(desk), _mine(desk, shop)
        _others(desk, shop)
        _lesson(desk, shop)
        reviewer = _pool(desk)
    with Crew(url, "webshop") as crew:
        crew.prepare().start("Upload progress")
        crew.hand_over("codex", notes=["The bar asks twice a second."])
        return Stock(url, "webshop", change, plan, mine, crew.cycle["cycle_id"], reviewer)


def edit(shop: Sandbox, **files: str) -> str:
    """The diff of some files' new contents; the working tree stays as it was. `__` in a name is its slash."""
    for name, content in files.items():
        shop.write(_path(name), content)
    shop.git("add", "--all")
    diff = shop.diff("--cached")
    shop.git("reset", "--quiet", "--hard")
    return diff


def _path(name: str) -> str:
    *folders, stem, suffix = name.split("__")
    return "/".join([*folders, f"{stem}.{suffix}"])


def _change(desk: Desk, shop: Sandbox) -> str:
    intent = "Charge again when the payment provider is away"
    review = desk.put_up(
        intent=intent, description=WHY, diff=edit(shop, shop__payments__py=RETRYING),
        proposer_id="claude-7", phase="02", plan="02-01", task="3",
    )  # fmt: skip
    generation = desk.claim(review, "codex-2")
    desk.say(review, "reviewer", "Is a charge that timed out charged twice?", reviewer_id="codex-2")
    desk.say(review, "proposer", "It may be. The provider has keys for that; I add them.")
    findings: list[dict[str, Any]] = [
        {"line": 14, "severity": "major", "claim": "Without a key this may **charge twice**.", "failure": "A timeout."},
        {"line": 17, "severity": "minor", "claim": "`sleep` holds the worker.", "suggestion": "        time.sleep(1)"},
    ]
    findings = [{"file": "shop/payments.py", **one} for one in findings] + [{"severity": "nit", "claim": "No tests."}]
    desk.verdict(review, "changes_requested", generation, findings=findings)
    [first, *_] = desk.do("list_findings", review_id=review)["findings"]
    tests = "def test_charges_again() -> None:\n    assert charged(answers=[503, 200]) == 2\n"
    diff = edit(shop, shop__payments__py=KEYED, tests__test_payments__py=tests)
    desk.revise(review, intent=intent, description=WHY, diff=diff, proposer_id="claude-7")
    desk.do("answer_finding", review_id=review, finding_id=first["finding_id"], answer="fixed", reason="It has a key.")
    desk.verdict(review, "comment", desk.claim(review, "ada"), findings=[{**findings[1], "line": 12, "claim": "Odd."}])
    return review


def _plan(desk: Desk) -> str:
    plan: dict[str, str] = {
        "intent": "Plan of phase 3: uploads", "category": "plan_review", "path": "PLAN.md", "proposer_id": "gemini-1"
    }  # fmt: skip
    review = desk.put_up(**plan, description=PLAN)
    desk.verdict(review, "changes_requested", desk.claim(review, "codex-2"), reason="Who tests it?")
    desk.revise(review, **plan, description=PLAN.replace("| 2 | gemini |", "| 2 | gemini |\n| tests | codex |"))
    return review


def _mine(desk: Desk, shop: Sandbox) -> str:
    better = BAR.replace("sent / total", "total ? sent / total : 0")
    diff = edit(shop, web__progress__js=better)
    review = desk.put_up(intent="Show no bar before the first byte", diff=diff, proposer_id="ada")
    desk.verdict(review, "changes_requested", desk.claim(review, "codex-2"), counter_patch=diff.replace(": 0", ": 1"))
    return review


def _others(desk: Desk, shop: Sandbox) -> None:
    for number, intent in enumerate(("Say which order failed", "Drop the old cart", "Name the currency")):
        diff = edit(shop, **{f"notes__note{number}__md": f"# {intent}\n"})
        review = desk.put_up(intent=intent, diff=diff, proposer_id="claude-7")
        desk.approve(review, "codex-2")
        desk.do("close_review", review_id=review)
    waiting = desk.put_up(
        intent="Check that phase 2 does what its plan says", category="verification", proposer_id="gsd-verifier",
        description="All twelve criteria hold; the log is in `verify.txt`.",
    )  # fmt: skip
    desk.claim(waiting, "codex-2")
    desk.put_up(intent="Keep the cart for a month", diff=edit(shop, docs__cart__md="# Cart\n"), proposer_id="claude-7")


def _lesson(desk: Desk, shop: Sandbox) -> None:
    """A finding that was refuted, which another reviewer upheld."""
    review = desk.put_up(intent="Note the rates", diff=edit(shop, docs__rates__md="# Rates\n"), proposer_id="claude-7")
    finding = {"file": "docs/rates.md", "line": 1, "severity": "major", "claim": "A heading says nothing."}
    desk.verdict(review, "changes_requested", desk.claim(review, "codex-2"), findings=[finding])
    [one] = desk.do("list_findings", review_id=review)["findings"]
    about = {"review_id": review, "finding_id": one["finding_id"]}
    desk.do("answer_finding", **about, answer="refuted", reason="The index is made of them.")
    upheld = {"finding_id": one["finding_id"], "answer": "upheld"}
    desk.verdict(review, "approved", desk.claim(review, "codex-3"), answers=[upheld])


def _pool(desk: Desk) -> str:
    """A pool of which a reviewer approved something, and whose others then failed at once; the former."""
    steward = started(desk, max_pool_size=1)
    first = steward.one()
    desk.approve(desk.put_up(intent="Spell the street's name", proposer_id="claude-7"), first)
    steward.beat(ended(first))
    said = 'Its program failed at once. The end of its log: {"error": {"code": 429, "message": "Too many requests"}}'
    for _ in range(4):
        [name] = [one["reviewer_id"] for one in steward.beat()["reviewers"]] or [
            desk.do("spawn_reviewer")["reviewer_id"]
        ]
        steward.beat(ended(name, 3, quick=True, error=said))
    return first
