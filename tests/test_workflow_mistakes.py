"""Workflows: the refusal of each mistake names its place, and the allowed values."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tandem.errors import ConfigInvalid
from tandem.settings.workflows import load, parse
from tests.relay import DELETED, relay

HERE = "workflows.relay"
NAMES = {"pattern": "^[a-z][a-z0-9_-]{0,39}$"}


def refused(name: str, table: object) -> ConfigInvalid:
    with pytest.raises(ConfigInvalid) as caught:
        parse(name, table)
    return caught.value


def refused_together(tables: dict[str, Any]) -> ConfigInvalid:
    with pytest.raises(ConfigInvalid) as caught:
        load(tables)
    return caught.value


MISTAKES: dict[str, tuple[dict[str, Any], str, object]] = {
    # The changes, the words of the refusal and the values that it allows. Its place is that of the last change.
    "unknown key": ({"rolls": []}, "no such key", ["roles", "start", "phases", "archiver", "mode"]),
    "like in a whole one": ({"like": "x"}, "no such key", ["roles", "start", "phases", "archiver", "mode"]),
    "no roles": ({"roles": DELETED}, "it is missing", None),
    "no start": ({"start": DELETED}, "it is missing", None),
    "no phases": ({"phases": DELETED}, "it is missing", None),
    "roles as text": ({"roles": "planner"}, "must be a list of names", None),
    "a role as number": ({"roles": ["planner", 3]}, "must be a name in quotes", None),
    "a role's name": ({"roles": ["planner", "The Builder"]}, "'The Builder' cannot be the name", NAMES),
    "a role too long": ({"roles": ["planner", "r" * 41]}, "at most 39 more", NAMES),
    "a role's line": ({"roles": ["planner", "builder\n"]}, "cannot be the name of a role", NAMES),
    "one role": ({"roles": ["planner"]}, "is 1; it must be 2 to 20", {"minimum": 2, "maximum": 20}),
    "many roles": ({"roles": [f"r{n}" for n in range(21)]}, "is 21", {"minimum": 2, "maximum": 20}),
    "a role twice": ({"roles": ["planner", "builder", "planner"]}, "'planner' is there twice", None),
    "an idle role": (
        {"roles": ["planner", "builder", "tester", "critic", "guest"]},
        "no phase makes critic, guest active",
        None,
    ),
    "start unknown": ({"start": "begin"}, "no phase 'begin'", ["plan", "build", "test"]),
    "start complete": ({"start": "complete"}, "no phase 'complete'", ["plan", "build", "test"]),
    "start as list": ({"start": ["plan"]}, "must be a name in quotes", None),
    "mode unknown": ({"mode": "gated"}, "no mode 'gated'", ["direct", "approval"]),
    "mode as truth": ({"mode": True}, "must be a name in quotes", None),
    "archiver unknown": ({"archiver": "clerk"}, "no role 'clerk'", ["planner", "builder", "tester"]),
    "archiver as null": ({"archiver": None}, "must be a name in quotes", None),
    "phases as list": ({"phases": [{"role": "planner"}]}, "must be a table", None),
    "phases empty": ({"phases": {}}, "is 0; it must be 1 to 50", {"minimum": 1, "maximum": 50}),
    "many phases": (
        {"phases": {f"p{n}": {"role": "planner"} for n in range(51)}},
        "is 51",
        {"minimum": 1, "maximum": 50},
    ),
    "a phase as text": ({"phases__plan": "planner"}, "must be a table", None),
    "a phase's name": ({"phases__Plan B": {"role": "planner"}}, "cannot be the name of a phase", NAMES),
    "complete reserved": (
        {"phases__complete": {"role": "planner"}},
        "cannot be declared. Choose another name, and write 'complete = true'",
        None,
    ),
    "a phase's key": ({"phases__plan__handoffs": {}}, "no such key", ["role", "handoff", "complete"]),
    "a phase without role": ({"phases__plan__role": DELETED}, "it is missing", None),
    "a phase's role unknown": ({"phases__plan__role": "boss"}, "no role 'boss'", ["planner", "builder", "tester"]),
    "a phase's role as number": ({"phases__plan__role": 1}, "must be a name in quotes", None),
    "complete as text": ({"phases__test__complete": "true"}, "true or false", [True, False]),
    "complete as number": ({"phases__test__complete": 1}, "true or false", [True, False]),
    "handoff as text": ({"phases__build__handoff": "test"}, "must be a table", None),
    "handoff to a number": ({"phases__build__handoff": {"tester": 1}}, "must be a name in quotes", None),
    "handoff to an unknown role": (
        {"phases__build__handoff": {"critic": "test"}},
        "no role 'critic'",
        ["planner", "builder", "tester"],
    ),
    "handoff to nowhere": (
        {"phases__build__handoff": {"tester": "trial"}},
        "no phase 'trial'. A hand-off to tester can lead to: test.",
        ["test"],
    ),
    "handoff to another's phase": (
        {"phases__build__handoff": {"tester": "plan"}},
        "the phase 'plan' is not tester's but planner's. A hand-off to tester can lead to: test.",
        ["test"],
    ),
    "handoff to who has no phase": (
        {"roles": ["planner", "builder", "tester", "critic"], "phases__build__handoff": {"critic": "test"}},
        "can lead to: nothing, for no phase has this role",
        [],
    ),
    "handoff that completes": (
        {"phases__test__handoff": {"builder": "complete"}},
        "no hand-off completes a cycle; write 'complete = true'",
        ["build"],
    ),
    "no end": ({"phases__test__complete": False}, "no phase may complete the cycle", None),
    "cut off": (
        {"phases__retro": {"role": "planner", "handoff": {"builder": "build"}}},
        "no hand-offs lead here from 'plan'",
        None,
    ),
    "dead end": (
        {"phases__build__handoff": {"tester": "test", "planner": "wait"}, "phases__wait": {"role": "planner"}},
        "no hand-offs lead from here to a phase that may complete (test)",
        ["test"],
    ),
    "endless circle": (
        {
            "phases__test__handoff": {"builder": "fix"},
            "phases__fix": {"role": "builder", "handoff": {"planner": "muse"}},
            "phases__muse": {"role": "planner", "handoff": {"builder": "fix"}},
        },
        "no hand-offs lead from here",
        ["test"],
    ),
}


OTHER_PLACES = {"no end": "phases", "endless circle": "phases.fix"}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_refused_by_its_place_with_what_is_allowed(name: str) -> None:
    changes, words, allowed = MISTAKES[name]
    place = OTHER_PLACES.get(name, list(changes)[-1].replace("__", "."))
    error = refused("relay", relay(**changes))
    assert error.message.startswith(f"{HERE}.{place}: ")
    assert words in error.message
    assert error.details["setting"] == f"{HERE}.{place}"
    assert error.details.get("allowed") == allowed
    json.dumps(error.as_dict())


@pytest.mark.parametrize("name", ["", "Relay", "9lives", "-relay", "a.b", "a/b", "ü", "relay\n", "r" * 41])
def test_a_workflow_is_named_in_small_letters(name: str) -> None:
    for error in (refused(name, relay()), refused_together({name: relay()})):
        assert error.details["setting"] == f"workflows.{name}"
        assert error.details["allowed"] == NAMES
        assert "cannot be the name of a workflow" in error.message


def test_a_name_may_be_as_long_as_forty_with_digits_and_dashes() -> None:
    name = "a-1_" + "x" * 36
    table = json.loads(json.dumps(relay()).replace('"builder"', f'"{name}"').replace('"build"', f'"{name}"'))
    assert parse(name, table).phase(name).role == name


@pytest.mark.parametrize("table", [None, "plan", [], 3])
def test_a_workflow_is_a_table(table: object) -> None:
    for error in (refused("relay", table), refused_together({"relay": table})):
        assert (error.details["setting"], "must be a table" in error.message) == (HERE, True)


def test_the_largest_workflow_that_may_be_can_be() -> None:
    roles = [f"r{n}" for n in range(20)]
    phases: dict[str, Any] = {}
    for n in range(50):
        following = {f"r{(n + 1) % 20}": f"p{n + 1}"} if n < 49 else {}
        phases[f"p{n}"] = {"role": f"r{n % 20}", "handoff": following, "complete": n == 49}
    assert parse("relay", {"roles": roles, "start": "p0", "phases": phases}).completing_phases == ("p49",)


@pytest.mark.parametrize(
    ("table", "place", "words", "allowed"),
    [
        ({"like": "unknown"}, ".like", "no workflow 'unknown'", ["frontend-backend", "relay"]),
        ({"like": 3}, ".like", "must be a name in quotes", None),
        ({"like": "relay", "rolls": []}, ".rolls", "no such key", ["like", "archiver", "mode"]),
        ({"like": "relay", "start": "build"}, ".start", "has it already", ["like", "archiver", "mode"]),
        ({"like": "relay", "roles": ["a", "b"]}, ".roles", "has it already", ["like", "archiver", "mode"]),
        ({"like": "relay", "phases": {}}, ".phases", "has it already", ["like", "archiver", "mode"]),
        ({"like": "relay", "archiver": "codex"}, ".archiver", "no role 'codex'", ["planner", "builder", "tester"]),
        ({"like": "relay", "mode": "x"}, ".mode", "no mode 'x'", ["direct", "approval"]),
        ({"lik": "relay"}, ".lik", "no such key", ["roles", "start", "phases", "archiver", "mode", "like"]),
        ({"mode": "approval"}, "", "defines nothing. Add roles, start, phases; or 'like'", None),
    ],
)
def test_what_stands_beside_like_is_mode_and_archiver(
    table: dict[str, Any], place: str, words: str, allowed: object
) -> None:
    error = refused_together({"second": table, "relay": relay()})
    assert error.details["setting"] == f"workflows.second{place}"
    assert words in error.message
    assert error.details.get("allowed") == allowed


@pytest.mark.parametrize(
    ("likes", "circle"),
    [
        ({"a": "a"}, "a is like a"),
        ({"a": "b", "b": "a"}, "a is like b is like a"),
        ({"x": "a", "a": "b", "b": "c", "c": "a"}, "a is like b is like c is like a"),
        ({"frontend-backend": "frontend-backend"}, "frontend-backend is like frontend-backend"),
        ({"frontend-backend": "a", "a": "frontend-backend"}, "frontend-backend is like a is like frontend-backend"),
    ],
)
def test_a_circle_of_likes_is_refused(likes: dict[str, str], circle: str) -> None:
    error = refused_together({name: {"like": other} for name, other in likes.items()})
    assert f": {circle}: that is a circle" in error.message
    assert re.fullmatch(r"workflows\.[a-z-]+\.like", error.details["setting"])
    assert set(error.details["allowed"]).isdisjoint(circle.split(" is like "))


def test_an_unsound_model_is_refused_at_its_own_place() -> None:
    error = refused_together({"second": {"like": "relay"}, "relay": relay(start="x")})
    assert error.details["setting"] == "workflows.relay.start"


def test_half_a_definition_does_not_adjust_the_built_in_workflow() -> None:
    error = refused_together({"frontend-backend": {"start": "frontend"}})
    assert error.details["setting"] == "workflows.frontend-backend.roles"
    assert "it is missing" in error.message


def test_there_are_at_most_fifty_workflows() -> None:
    tables = {f"w{n}": {"like": f"w{n + 1}" if n < 48 else "frontend-backend"} for n in range(49)}
    assert len(load(tables)) == 50
    error = refused_together({**tables, "one-more": relay()})
    assert (error.details["setting"], error.details["actual"]) == ("workflows", 51)
    assert error.details["allowed"] == {"minimum": 1, "maximum": 50}
