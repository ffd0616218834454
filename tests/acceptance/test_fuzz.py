"""Any JSON in any combination gets an answer of the contract, and never an internal error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.server.catalogue import REGISTRY
from tests.acceptance.furnishing import REQUESTS, Shop
from tests.acceptance.test_answers import LASTING, PASSING, declared, looked_at, own
from tests.broker import STATUS_OF

__all__ = ["looked_at", "own"]

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
LEFT_ALONE = {"project", "projects", "timeout_s"}
"""Fields on which depends whose affairs a request is about, and how long it takes."""


def spoilt(right: list[dict[str, Any]], fields: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    """Requests that are right but for some fields that are wrong, missing or unknown."""
    known = [value for request in right for value in request.values()]
    values = st.one_of(JSON, st.sampled_from(known)) if known else JSON
    names = st.sampled_from(sorted({*fields, "surprise"} - LEFT_ALONE))

    def spoil(request: dict[str, Any], wrong: dict[str, Any], missing: set[str]) -> dict[str, Any]:
        return {name: value for name, value in {**request, **wrong}.items() if name not in missing}

    wrong = st.dictionaries(names, values, max_size=3)
    return st.builds(spoil, st.sampled_from(right), wrong, st.sets(names, max_size=2))


READS = sorted({name for name, _ in LASTING} - {name for name, _ in PASSING})
"""Operations that change nothing, so that all can ask in one shop."""


@pytest.mark.parametrize("operation", READS)
def test_no_read_is_too_strange_for_an_answer(looked_at: Shop, operation: str):
    fuzz(looked_at, operation)


@pytest.mark.parametrize("operation", [one.name for one in REGISTRY if one.name not in READS])
def test_no_other_request_is_too_strange_for_an_answer(own: Shop, operation: str):
    fuzz(own, operation)


def fuzz(own: Shop, operation: str) -> None:
    """Ask for the operation in strange ways: each answer is of the contract."""
    found = REGISTRY.get(operation)
    fields = found.request.model_fields
    # A reviewer that is asked for is waited for.
    quick = [number for number, one in enumerate(REQUESTS.get(operation, [])) if "$staff.hiring" not in one]
    right = [own.request(operation, number) for number in quick[:2]] or [{}]
    always = {"project": own.desk.project, "timeout_s": 0}

    @settings(max_examples=4)
    @given(request=spoilt(right, [*fields]))
    def ask(request: dict[str, Any]) -> None:
        sent = {**{name: value for name, value in always.items() if name in fields}, **request}
        # As the standard library writes JSON: lone surrogates and large numbers included.
        response = own.desk.send(operation, json.dumps(sent).encode())
        envelope = response.json()
        if envelope["ok"]:
            declared(operation).validate_json(json.dumps(envelope["data"]), strict=True)
            return
        error = envelope["error"]
        assert response.status_code == STATUS_OF.get(error["code"]), error
        assert error["message"]

    ask()
