"""Marks on files: who has looked at what, round by round, and nothing else changes by it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.reviewing import Desk, at_once, edited
from tests.broker import BrokerProcess
from tests.databases import ON_BOTH_DATABASES
from tests.git.sandbox import new_file

ANNA = "anna"
BERT = "bert"


def mark(shop: Desk, review: str, path: str, *, viewed: bool = True, person: str = ANNA, **more: Any) -> list[str]:
    asked = {"review_id": review, "round": 1, "path": path, "viewed": viewed, "person": person, **more}
    return shop.do("mark_viewed", **asked)["paths"]


def viewed(shop: Desk, review: str, person: str = ANNA, number: int = 1) -> list[str]:
    return shop.do("get_review", review_id=review, round=number, files=[], person=person)["viewed"]


@pytest.fixture
def review(shop: Desk) -> str:
    return shop.put_up(diff=edited() + edited("b.txt") + new_file("new.txt"))


def test_a_file_is_marked_and_unmarked_as_often_as_one_likes(shop: Desk, review: str):
    assert viewed(shop, review) == []
    assert mark(shop, review, "new.txt") == ["new.txt"]
    assert mark(shop, review, "a.txt") == mark(shop, review, "a.txt") == viewed(shop, review) == ["a.txt", "new.txt"]
    assert mark(shop, review, "new.txt", viewed=False) == mark(shop, review, "new.txt", viewed=False) == ["a.txt"]
    assert mark(shop, review, "b.txt", viewed=False) == ["a.txt"]


def test_each_person_has_marks_of_their_own_in_each_round(shop: Desk, review: str):
    mark(shop, review, "a.txt")
    mark(shop, review, "b.txt", person=BERT)
    shop.revise(review, diff=edited(text="best"))
    assert (viewed(shop, review), viewed(shop, review, BERT)) == (["a.txt"], ["b.txt"])
    assert viewed(shop, review, ANNA, 2) == []
    assert mark(shop, review, "a.txt", round=2) == ["a.txt"]
    assert shop.refused("NOT_FOUND", "mark_viewed", review_id=review, round=2, path="b.txt", viewed=True, person=ANNA)[
        "allowed"
    ] == ["a.txt"]


def test_marks_leave_no_trace_on_the_review_or_the_log(shop: Desk, review: str):
    with shop.unchanged(review):
        mark(shop, review, "a.txt")
    shop.do("close_review", review_id=review)
    assert mark(shop, review, "b.txt") == ["a.txt", "b.txt"]


def test_only_what_is_there_can_be_marked(shop: Desk, review: str):
    asked: dict[str, Any] = {"review_id": review, "round": 1, "path": "a.txt", "viewed": True, "person": ANNA}
    for wrong in ({"path": "c.txt"}, {"path": "../a.txt"}, {"round": 2}, {"review_id": "rv_none"}, {"project": "x"}):
        shop.refused("NOT_FOUND", "mark_viewed", **{**asked, **wrong})
    for wrong in ({"person": " "}, {"person": "x" * 201}, {"round": 0}, {"viewed": "perhaps"}):
        shop.refused("INVALID_INPUT", "mark_viewed", **{**asked, **wrong})
    assert viewed(shop, review) == []


def test_a_text_is_marked_by_its_path_however_long_that_is(desk: Desk):
    path = "/".join(f"folder-{number}" for number in range(100, 190)) + "/ünï.md"
    review = desk.put_up(description="# Plan", path=path)
    assert mark(desk, review, path) == [path]


def test_a_repeated_call_has_one_effect(shop: Desk, review: str):
    first = mark(shop, review, "a.txt", idempotency_key="k")
    mark(shop, review, "a.txt", viewed=False)
    assert mark(shop, review, "a.txt", idempotency_key="k") == first
    assert viewed(shop, review) == []


@ON_BOTH_DATABASES
def test_many_marks_at_once_are_all_kept(shop: Desk, broker: BrokerProcess):
    names = [f"file-{number}.txt" for number in range(12)]
    review = shop.put_up(diff="".join(new_file(name) for name in names))

    def one(name: str) -> Any:
        def call() -> None:
            with Desk(broker.url, shop.project) as other:
                mark(other, review, name)
                mark(other, review, "file-0.txt")

        return call

    at_once([one(name) for name in names])
    assert viewed(shop, review) == sorted(names)
