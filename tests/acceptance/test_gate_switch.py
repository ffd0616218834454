"""The switch of a gate, and what a person lets through it."""

from __future__ import annotations

from typing import Any

from tests.acceptance.gating import staged
from tests.acceptance.reviewing import Desk, at_once
from tests.broker import fresh_project
from tests.databases import ON_BOTH_DATABASES
from tests.git.sandbox import Sandbox

CHANGE = {
    "path": "a.txt",
    "mode_before": "100644",
    "blob_before": "1" * 40,
    "mode_after": "100644",
    "blob_after": "2" * 40,
}
OTHER = {**CHANGE, "blob_after": "3" * 40}


def switches(desk: Desk) -> list[dict[str, Any]]:
    """The events of the project's switch."""
    return desk.do("get_audit_log", kind="gate_switched")["events"]


def test_a_gate_is_off_until_somebody_switches_it_on(shop: Desk):
    assert shop.do("get_gate") == {
        "project": shop.project,
        "enabled": False,
        "branches": [],
        "accepted": [],
        "folders": [],
        "trusted": [],
        "signers": [],
        "reason": None,
        "switched_at": None,
        "switched_by": None,
        "plan": None,
        "public_key": None,
        "checks_on_tip": False,
        "commits": None,
        "threshold": None,
    }
    # Nor does anybody but a person say before whose signatures will count.
    shop.refused("FORBIDDEN", "set_gate", enabled=True, signers=[f"ann={'A' * 43}"])


def test_switching_is_told_with_who_and_why(shop: Desk):
    on = shop.do("set_gate", enabled=True, branches=["main", "main", "release/1"], reason="We ship.")
    assert (on["enabled"], on["branches"], on["reason"]) == (True, ["main", "release/1"], "We ship.")
    assert shop.do("get_gate") == on
    off = shop.loosen(enabled=False)
    # Settings that are not stated stay.
    assert (off["enabled"], off["branches"], off["reason"]) == (False, ["main", "release/1"], None)
    first, second = switches(shop)
    assert (first["old"], first["new"], first["actor"]) == (None, "on", "operator")
    assert first["data"]["reason"] == "We ship."
    assert (second["old"], second["new"]) == ("on", "off")


def test_the_same_position_again_is_no_event(shop: Desk):
    first = shop.do("set_gate", enabled=True, branches=["main"], accepted=["1" * 40])
    assert shop.do("set_gate", enabled=True, reason="Again.") == first
    assert len(switches(shop)) == 1
    assert shop.do("set_gate", enabled=True, accepted=[])["accepted"] == []
    assert len(switches(shop)) == 2


@ON_BOTH_DATABASES
def test_p2_a_folder_that_a_gate_holds_goes_to_another_project_only_with_the_proof_of_a_person(shop: Desk):
    folder = "/home/ann/shop/.git"
    shop.do("set_gate", enabled=True, branches=["main"], folder=folder)
    with Desk(shop.url, fresh_project()) as other:
        other.do_unscoped("register_project", name=other.project)
        taking = {"enabled": True, "branches": ["main"], "folder": folder}
        details = other.refused("FORBIDDEN", "set_gate", **taking)
        assert details["loosens"] == [f"the gate that is on in {folder} would make way for another project's"]
        assert not other.do("get_gate")["enabled"]
        # Nor by a record from when it was off, or elsewhere.
        other.do("set_gate", **{**taking, "enabled": False})
        other.refused("FORBIDDEN", "set_gate", enabled=True)
        assert other.loosen(**taking)["folders"] == [folder]
        # From now on it is on record for both, and neither asks again.
        assert other.do("set_gate", enabled=True, branches=["main"], folder=folder)["enabled"]
    assert shop.do("set_gate", enabled=True, folder=folder)["folders"] == [folder]
    shop.loosen(enabled=False)
    with Desk(shop.url, fresh_project()) as third:
        third.do_unscoped("register_project", name=third.project)
        assert "loosens" in third.refused("FORBIDDEN", "set_gate", **taking)


def test_only_a_registered_project_has_a_gate(desk: Desk):
    for operation, more in (
        ("get_gate", {}),
        ("set_gate", {"enabled": True}),
        ("set_gate", {"enabled": False}),
        ("override_gate", desk.proved(changes=[CHANGE], reason="Why not.")),
        ("record_commit", {"commit": "1" * 40}),
    ):
        envelope = desk.call(operation, **more)
        assert envelope["error"]["code"] == "NOT_FOUND"
        assert "tandem project add" in envelope["error"]["message"]


def test_a_gate_outlives_the_registration_of_its_folder(shop: Desk, repo: Sandbox):
    shop.do("set_gate", enabled=True, branches=["main"])
    # Which it keeps as long as that is there.
    refused = shop.envelope_unscoped("remove_project", name=shop.project)["error"]
    assert (refused["code"], "tandem gate off" in refused["message"]) == ("FORBIDDEN", True)
    repo.root.rename(repo.root.with_name("away"))
    shop.do_unscoped("remove_project", name=shop.project)
    assert shop.do("get_gate")["enabled"]
    assert not shop.loosen(enabled=False)["enabled"]
    shop.refused("NOT_FOUND", "set_gate", enabled=True)


@ON_BOTH_DATABASES
def test_switching_from_many_places_at_once_leaves_one_whole_story(shop: Desk):
    def switch(number: int) -> dict[str, Any]:
        with Desk(shop.url, shop.project) as mine:
            return mine.do("set_gate", enabled=False, branches=[f"b{number}"])

    at_once([lambda number=number: switch(number) for number in range(8)])
    told = switches(shop)
    assert len(told) == 8
    assert shop.do("get_gate")["branches"] == told[-1]["data"]["branches"]
    # Each follows on the one before it.
    assert [event["old"] for event in told[1:]] == [event["new"] for event in told[:-1]]


@ON_BOTH_DATABASES
def test_p2_an_override_lets_exactly_its_difference_through(shop: Desk, repo: Sandbox):
    repo.write("a.txt", "a hot fix\n")
    repo.write("new.txt", "new\n")
    changes = staged(repo)
    assert not shop.do("check_gate", changes=changes)["allowed"]
    made = shop.override(changes=changes, reason="The shop is down.", branch="main")
    assert made["digest"] == repo.index_digest("HEAD")
    decision = shop.do("check_gate", changes=changes[::-1])
    assert decision["allowed"]
    assert decision["review_ids"] == []
    assert {path["kind"] for path in decision["paths"]} == {"overridden"}
    assert "The shop is down." in decision["reason"]
    for part in (changes[:1], changes[1:], [*changes, {**CHANGE, "path": "more.txt"}]):
        assert not shop.do("check_gate", changes=part)["allowed"]
    repo.write("new.txt", "newer\n")
    assert not shop.do("check_gate", changes=staged(repo))["allowed"]


WRONG: tuple[dict[str, Any], ...] = (
    {"proof": None},
    {"proof": f"person.{'0' * 64}"},
    {"proof": f"tok_{'0' * 18}.{'0' * 64}"},
    {"changes": [OTHER]},
    {"reason": "Another reason."},
    {"branch": "release"},
    {"branch": None},
    {"at": "2026-01-02T03:04:06Z"},
    {"override_id": "ov-2"},
    {"override_id": None},
)


def test_p2_an_override_takes_the_proof_that_a_person_answered_exactly_this(shop: Desk):
    at = "2026-01-02T03:04:05Z"
    proved = shop.proved(changes=[CHANGE], reason="Now.", branch="main", at=at, override_id="ov-1")
    for wrong in WRONG:
        details = shop.refused("FORBIDDEN", "override_gate", **{**proved, **wrong})
        assert details == {"field": "proof", "needed": "person"}, wrong
    with Desk(shop.url, shop.project, agent="somebody else") as other:
        other.refused("FORBIDDEN", "override_gate", **proved)
    # Nor is it of another project.
    elsewhere = shop.proved(changes=[CHANGE], reason="Now.", project=fresh_project())
    shop.refused("FORBIDDEN", "override_gate", **{**elsewhere, "project": shop.project})
    assert shop.do("get_audit_log", kind="gate_overridden")["events"] == []
    assert not shop.do("check_gate", changes=[CHANGE])["allowed"]
    assert not shop.do("check_gate", changes=[OTHER])["allowed"]
    shop.do("override_gate", **proved)
    assert shop.do("check_gate", changes=[CHANGE])["allowed"]
    assert not shop.do("check_gate", changes=[CHANGE], project=fresh_project())["allowed"]


def test_an_override_is_told_with_who_why_what_and_when(shop: Desk):
    with Desk(shop.url, shop.project, agent="ada") as ada:
        made = ada.override(changes=[CHANGE], reason="Now.", at="2026-01-02T03:04:05+01:00", branch="main")
    assert (made["overridden_by"], made["overridden_at"]) == ("ada", "2026-01-02T02:04:05.000000Z")
    (event,) = shop.do("get_audit_log", kind="gate_overridden")["events"]
    assert event["actor"] == "ada"
    assert event["data"] == {
        "override_id": made["override_id"],
        "digest": made["digest"],
        "reason": "Now.",
        "branch": "main",
        "proved_by": "person",
        "overridden_at": made["overridden_at"],
        "paths": ["a.txt"],
        "files": 1,
    }


@ON_BOTH_DATABASES
def test_p4_an_override_that_is_told_twice_is_one(shop: Desk):
    told = {"changes": [CHANGE], "reason": "Now.", "override_id": "ov-7"}

    def tell() -> dict[str, Any]:
        with Desk(shop.url, shop.project) as mine:
            return mine.override(**told)

    answers = at_once([tell] * 6)
    assert all(answer == answers[0] for answer in answers)
    assert len(shop.do("get_audit_log", kind="gate_overridden")["events"]) == 1
    details = shop.refused("INVALID_INPUT", "override_gate", **shop.proved(**{**told, "changes": [OTHER]}))
    assert details["field"] == "override_id"
    assert not shop.do("check_gate", changes=[OTHER])["allowed"]


def test_a_reason_has_its_limit(shop: Desk):
    long = "x" * 256_001
    assert shop.refused("TOO_LARGE", "set_gate", enabled=True, reason=long)["field"] == "reason"
    assert shop.refused("TOO_LARGE", "override_gate", changes=[CHANGE], reason=long)["field"] == "reason"
