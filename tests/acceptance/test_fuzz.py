"""Whatever JSON arrives, in whatever combination: an answer of the contract, and never an internal error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from tandem.contract.operation import Operation
from tandem.server.catalogue import REGISTRY
from tests.acceptance.reviewing import REVIEWER, WHY, Desk, edited
from tests.broker import STATUS_OF, BrokerProcess, fresh_project

TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["\0", "\ud800", "-1", "../..", "' OR 1=1 --", "x" * 300, "\u202e\U0001f9ea", "{}", " "]),
)
NUMBERS = st.one_of(st.integers(-3, 3), st.sampled_from([2**31 - 1, 2**31, 2**63, -(2**63), 10**30, 0.5, 1e308]))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)

OF_GATES: dict[str, list[Any]] = {
    "head": ["1" * 40],
    "enabled": [True, False],
    "branches": [["main"], []],
    "branch": ["main", "feature"],
    "commit": ["1" * 40, "2" * 40, "2" * 64],
    "parent": ["2" * 40],
    "replaces": ["2" * 40],
    "commits": [["1" * 40]],
    "plan": ["03-02", "feature"],
    "at": ["2026-01-01T00:00:00Z", "2026-01-01"],
    "override_id": ["ov-1", "ov-2"],
    "head_before": ["1" * 40],
    "head_after": ["2" * 40],
    "reverted": [[{"commit": "1" * 40, "reverted_by": "2" * 40}]],
    "carried": [[{"commit": "1" * 40, "becomes": "2" * 40}]],
    "rework": [["1" * 40]],
}
"""What hooks tell of."""


class Situation:
    """A project with a review in several states, and what a request may name there."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        pending, claimed, offered, approved = (desk.put_up(description="So.") for _ in range(4))
        for review in (claimed, offered, approved):
            desk.claim(review)
        patch = desk.verdict(offered, "comment", counter_patch="So.", comments=[{"file": "a.txt", "body": "Odd."}])
        desk.verdict(approved, "approved")
        message = desk.say(claimed, "reviewer")
        page = desk.do("list_reviews", limit=1)
        talk = desk.do("get_discussion", review_id=offered, limit=1)
        self.by_field: dict[str, list[Any]] = {
            "review_id": [pending, claimed, offered, approved],
            "parent_id": [approved],
            "counter_patch_id": [patch["counter_patch_id"]],
            "resolves": [message["message_id"]],
            "reviewer_id": [REVIEWER, "rev-2"],
            "proposer_id": ["prop-1"],
            "claim_generation": [0, 1],
            "round": [1, 2],
            "since_round": [1],
            "cursor": [message["cursor"], page["cursor"]],
            "page": [page["next_page"], talk["next_page"]],
            "limit": [1, 50],
            "verdict": ["approved", "changes_requested", "rejected", "comment"],
            "reason": [WHY],
            "counter_patch": ["So.", edited()],
            "comments": [[{"file": "a.txt", "line": 1, "body": "Odd."}], []],
            "diff": [edited(), "no diff"],
            "description": ["So."],
            "intent": ["Improve it"],
            "agent_type": ["claude-code"],
            "sender_role": ["proposer", "reviewer"],
            "body": ["A word."],
            "metadata": [{}, {"files": ["a.txt"]}],
            "status": ["pending", "closed"],
            "category": ["code_change"],
            "since": ["2026-01-01"],
            "wait": [False, True],
            "wake_on": ["turn", "any"],
            "changes": [[], [{"path": "a.txt"}]],
            "review_ids": [[pending, approved], ["rv_nobody"]],
            **OF_GATES,
            "digest": ["1" * 64],
            "files": [["a.txt"]],
            "path": ["docs/plan.md"],
            "idempotency_key": ["key-1", "key-2"],
            "root": ["/", "relative"],
            "name": ["fuzz"],
        }

    def request(self, operation: Operation) -> st.SearchStrategy[dict[str, Any]]:
        """Requests of which most fields are right, some are not, and some are missing or unknown."""
        fields = {name: self._value(name) for name in operation.request.model_fields if name != "project"}
        known: dict[str, st.SearchStrategy[Any]] = {}
        optional: dict[str, st.SearchStrategy[Any]] = {"surprise": JSON}
        for name, value in fields.items():
            (known if _is_required(operation.request, name) else optional)[name] = value
        return st.fixed_dictionaries(known, optional=optional)

    def _value(self, name: str) -> st.SearchStrategy[Any]:
        if name == "timeout_s":
            return st.sampled_from([0, 0.0, -1, "soon"])
        right = self.by_field.get(name)
        return st.one_of(st.sampled_from(right), st.sampled_from(right), JSON) if right else JSON


def _is_required(request: type[BaseModel], name: str) -> bool:
    return request.model_fields[name].is_required()


def as_sent(project: str, request: dict[str, Any]) -> bytes:
    """JSON as the standard library writes it: lone surrogates and large numbers included."""
    if "wait" in request:
        request = {"timeout_s": 0, **request}
    return json.dumps({"project": project, **request}).encode()


@pytest.fixture
def situation(broker: BrokerProcess) -> Iterator[Situation]:
    with Desk(broker.url, fresh_project()) as desk:
        yield Situation(desk)


@pytest.mark.parametrize("operation", [operation.name for operation in REGISTRY])
def test_no_request_is_too_strange_for_an_answer(situation: Situation, operation: str):
    desk, found = situation.desk, REGISTRY.get(operation)
    scoped = "project" in found.request.model_fields

    @settings(max_examples=10)
    @given(request=situation.request(found))
    def ask(request: dict[str, Any]) -> None:
        body = as_sent(desk.project, request) if scoped else json.dumps(request).encode()
        response = desk.send(operation, body)
        envelope = response.json()
        if envelope["ok"]:
            found.answer_adapter().validate_json(json.dumps(envelope["data"]), strict=True)
            return
        error = envelope["error"]
        assert response.status_code == STATUS_OF.get(error["code"]), error
        assert error["message"]

    ask()
