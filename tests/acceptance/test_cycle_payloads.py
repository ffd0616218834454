"""The form of a hand-off: each field that is missing, of another kind or about something else is named, and the
rest comes back as it was written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tandem.cycles.payloads import ARRAYS
from tests.acceptance.cycling import Crew, without
from tests.databases import ON_BOTH_DATABASES

pytest_plugins = ["tests.acceptance.cycling_crews"]

TEXTS = ("cycle_id", "feature", "producer", "consumer")
LIMIT_BYTES = 256_000
LEVELS = 100
"""How deep a payload may be nested, itself included."""
NOT_TEXT: tuple[Any, ...] = (None, 0, 1.5, True, [], ["gemini"], {}, "", "  \n")
NOT_ARRAY: tuple[Any, ...] = (None, 0, 1.5, False, "", "src/login.ts", {}, {"0": "src/login.ts"})
NOT_OBJECT: tuple[Any, ...] = (None, [], [{}], "{}", 7, -0.5, True, False, "")


@pytest.fixture
def crew(shared_crew: Crew) -> Crew:
    """A cycle in which gemini must hand over to codex."""
    shared_crew.begin_anew().start()
    return shared_crew


class Offers:
    """Payloads offered by the role whose turn it is."""

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.right = crew.payload("gemini", "codex")
        self._tokens = crew.tokens("gemini")

    def refused(self, payload: Any, code: str = "SCHEMA_INVALID") -> dict[str, Any]:
        """The details of the refusal of a payload."""
        return self.crew.refused(code, "handoff_write", target="codex", payload=payload, **self._tokens)

    def fields(self, payload: Any) -> list[str]:
        """The fields that are complained of; the first is also named by itself."""
        details = self.refused(payload)
        named = [problem["field"] for problem in details["problems"]]
        assert named[0] == details["field"]
        assert all(len(problem["problem"]) > 10 for problem in details["problems"])
        return named

    def taken(self, payload: Any) -> None:
        """Write a payload, see that it comes back as it was, and have it handed back."""
        self.crew.do("handoff_write", target="codex", payload=payload, **self._tokens)
        read = self.crew.read("codex")
        assert read == payload
        assert json.dumps(read) == json.dumps(payload)
        self.crew.hand_over("gemini")
        self._tokens = self.crew.tokens("gemini")


def test_every_field_that_is_missing_or_of_another_kind_is_named(crew: Crew):
    offers = Offers(crew)
    with crew.unchanged():
        for name in (*TEXTS, *ARRAYS):
            assert offers.fields(without(offers.right, name)) == [name]
            for wrong in NOT_TEXT if name in TEXTS else NOT_ARRAY:
                assert offers.fields({**offers.right, name: wrong}) == [name], wrong
        for wrong in NOT_OBJECT:
            assert offers.fields({**offers.right, "extras": wrong}) == ["extras"], wrong


def test_a_payload_is_an_object(crew: Crew):
    offers = Offers(crew)
    with crew.unchanged():
        for wrong in (*NOT_OBJECT, [offers.right], json.dumps(offers.right)):
            assert offers.fields(wrong) == ["payload"], wrong


def test_a_payload_speaks_of_this_cycle_and_this_hand_off(crew: Crew):
    offers = Offers(crew)
    others = {
        "cycle_id": [
            "20260220T215622Z_login-page_abcdef",
            crew.cycle["cycle_id"].upper(),
            crew.cycle["cycle_id"] + " ",
        ],
        "feature": ["Logout page", "login page", " Login page"],
        "producer": ["codex", "Gemini", "planner"],
        "consumer": ["gemini", "codex ", "*"],
    }
    with crew.unchanged():
        for name, values in others.items():
            for value in values:
                details = offers.refused({**offers.right, name: value})
                (problem,) = details["problems"]
                assert (problem["field"], problem["expected"]) == (name, offers.right[name])
        swapped = {**offers.right, "producer": "codex", "consumer": "gemini"}
        assert offers.fields(swapped) == ["producer", "consumer"]


def test_all_complaints_are_made_at_once(crew: Crew):
    offers = Offers(crew)
    with crew.unchanged():
        assert offers.fields({}) == [*TEXTS, *ARRAYS]
        wrong: dict[str, Any] = {"cycle_id": 1, "feature": "", "todos": {}, "extras": [], "mood": "good"}
        assert set(offers.fields({**offers.right, **wrong})) == wrong.keys()
        many = offers.refused({f"field {number}": 1 for number in range(500)})
        assert 10 <= len(many["problems"]) <= 100


def test_further_facts_go_into_extras(crew: Crew):
    offers = Offers(crew)
    with crew.unchanged():
        for name in ("mood", "Notes", "notes ", "", "extras.ticket", "lock_token", "x" * 10_000):
            assert offers.fields({**offers.right, name: []}) == [name[:100]]
            assert "extras" in crew.refusals[-1]
    offers.taken({**offers.right, "extras": {"mood": "good", "": [], "lock_token": None, "deep": {"er": [{}]}}})
    offers.taken({**offers.right, "extras": {}})
    offers.taken(without(offers.right, "extras"))


@ON_BOTH_DATABASES
def test_what_was_written_comes_back_as_it_was(crew: Crew):
    offers = Offers(crew)
    offers.taken(
        {
            **dict(reversed(offers.right.items())),
            "files_modified": [
                "src/größe.ts",
                "\u2028\u2029\u0085",
                "\u202ertl",
                "\U0001f680",
                "e\u0301",
                "\x01\x7f\t",
            ],
            "endpoints": [0, -1, 2**53, -(2**63), 2**64 - 1, 0.1, 1e-7, 1.5e300, -0.0, True, False, None],
            "data_shapes": [{}, [], [[]], {"b": {"a": 1, "A": 2}}, "", "\r\n", '"\\"', "</script>", "%s {0} $1"],
            "notes": ["x" * 100_000],
            "todos": [],
        }
    )
    offers.taken({**offers.right, **{name: [] for name in ARRAYS}})


def test_there_is_a_limit_to_the_size(crew: Crew):
    offers = Offers(crew)
    with crew.unchanged():
        for note in ("x" * LIMIT_BYTES, "\u6f22" * (LIMIT_BYTES // 3)):
            details = offers.refused({**offers.right, "notes": [note]}, "TOO_LARGE")
            assert details["limit"] == LIMIT_BYTES < details["actual"]
        assert offers.fields({**offers.right, "todos": [0] * 2001}) == ["todos"]
    offers.taken({**offers.right, "todos": [0] * 2000})
    offers.taken({**offers.right, "notes": ["\u6f22" * (LIMIT_BYTES // 4)]})


def nested(levels: int) -> dict[str, Any]:
    """An object that is nested so deep, itself included."""
    innermost: dict[str, Any] = {}
    for _ in range(levels - 1):
        innermost = {"in": innermost}
    return innermost


def test_there_is_a_limit_to_the_depth(crew: Crew):
    offers = Offers(crew)
    with crew.unchanged():
        for extras in (nested(LEVELS), nested(LEVELS + 50), {"list": [[[nested(LEVELS)]]]}):
            assert offers.refused({**offers.right, "extras": extras}, "INVALID_INPUT")["field"] == "payload"
        # So deep that no parser of JSON goes there.
        deep = '{"in":' * 20_000 + "{}" + "}" * 20_000
        assert crew.send_text("handoff_write", f'{{"payload":{deep}}}') is None
    offers.taken({**offers.right, "extras": nested(LEVELS - 1)})
    crew.complete()
    archive = crew.archive()
    assert json.loads((archive / "handoffs" / "001-codex.json").read_text("utf-8"))["extras"] == nested(LEVELS - 1)


@ON_BOTH_DATABASES
def test_texts_that_no_database_holds_are_refused_wherever_they_are(crew: Crew):
    offers = Offers(crew)
    arguments = {"target": "codex", **crew.tokens()}
    with crew.unchanged():
        for bad in ("\0", "a\0b"):
            for place in (
                {"notes": [bad]},
                {"feature": bad},
                {"extras": {bad: 1}},
                {bad: 1},
                {"todos": [{"a": [bad]}]},
            ):
                assert offers.refused({**offers.right, **place}, "INVALID_INPUT")["field"] == "payload"
            assert offers.refused(bad, "INVALID_INPUT")["field"] == "payload"
            for name in ("target", "lock_token", "session_token", "project", "workflow"):
                sent = {**arguments, "payload": offers.right, name: bad}
                assert crew.refused("INVALID_INPUT", "handoff_write", **sent)["field"] == name
        # Half of a surrogate pair is no JSON text at all.
        for bad in ("\ud800", "a\udfffb"):
            assert crew.send("handoff_write", {**arguments, "payload": {**offers.right, "notes": [bad]}}) is None


def test_a_token_in_a_payload_is_refused_and_not_repeated(crew: Crew):
    offers = Offers(crew)
    tokens = crew.tokens("gemini")
    with crew.unchanged():
        for token in tokens.values():
            places: list[dict[str, Any]] = [
                {"notes": [token]},
                {"notes": [f"The token is '{token}'."]},
                {"extras": {"deep": [{"er": token}]}},
                {"extras": {token: 1}},
                {"files_modified": [f"{token}\n"]},
                {token: 1},
            ]
            for place in places:
                offers.refused({**offers.right, **place})
                assert token not in crew.refusals[-1], place
    offers.taken({**offers.right, "notes": ["lock_", "sess_", "The lock_token rotates."]})
