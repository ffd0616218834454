"""Findings of reviews, as the tests give, read and answer them."""

from __future__ import annotations

from typing import Any

from tests.acceptance.reviewing import AgentDesk, Desk, edited

MAJOR = {"file": "a.txt", "line": 2, "severity": "P1", "category": "logic", "claim": "It is better, not best."}
NIT = {"file": "a.txt", "line": 2, "severity": "nitpick", "claim": "Odd word."}


def found(desk: Desk, review: str, **more: Any) -> list[dict[str, Any]]:
    """The findings of a review."""
    return desk.do("list_findings", review_id=review, **more)["findings"]


def answered(desk: Desk, review: str, finding: str, answer: str, **more: Any) -> dict[str, Any]:
    """What an answer comes to."""
    return desk.do("answer_finding", review_id=review, finding_id=finding, answer=answer, **more)


def after_rounds(agents: AgentDesk, shop: Desk, verdict: str, **more: Any) -> str:
    """A review that an agent answered in three rounds with the same verdict over a grave finding."""
    review = shop.put_up(diff=edited())
    for number in range(1, 4):
        agents.decide(review, verdict, findings=[{**MAJOR, "claim": f"Fault {number}."}], **more)
        if number < 3:
            shop.revise(review, diff=edited(text=f"try {number}"))
    return review
