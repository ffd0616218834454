"""What a pool's reviewers find: the next one is shown where it stands, and settles it; and it comes to an end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.reviewing import edited
from tests.acceptance.staffed import Counter, StaffedBroker, counter, only_posix

pytestmark = only_posix
TIMES = 3


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter]:
    """The project of a broker with a pool of real reviewers."""
    folder = tmp_path_factory.mktemp("findings")
    with StaffedBroker(folder) as broker, counter(broker, folder / "repository") as opened:
        yield opened
        broker.assert_intact()


def findings(project: Counter, review: str) -> list[dict[str, Any]]:
    return project.rows("list_findings", "findings", review_id=review)


def say(project: Counter, finding: dict[str, Any], answer: str, reason: str | None = None) -> dict[str, Any]:
    about = {"review_id": finding["review_id"], "finding_id": finding["finding_id"]}
    return project.do("answer_finding", **about, answer=answer, reason=reason)


def asked_for_changes(project: Counter, review: str) -> list[dict[str, Any]]:
    """The findings of a review, once changes are requested."""
    status = project.decided(review)
    assert status["status"] == "changes_requested", (status, project.events(review))
    return findings(project, review)


def test_who_says_nothing_of_an_earlier_finding_or_approves_over_it_is_tried_again(project: Counter) -> None:
    intent = "in-turn find approve settle=reopened settle"
    review = project.put_up(intent=intent, diff=edited(text="once"))
    [found] = asked_for_changes(project, review)
    say(project, found, "fixed")
    project.revise(review, intent=intent, diff=edited(text="twice"))
    assert project.decided(review)["status"] == "approved"
    assert project.outcomes(review) == ["verdict", "unreadable", "unreadable", "verdict"]
    forgotten, over_it = (one["data"]["reason"] for one in project.of_kind(review, "claim_released"))
    assert f"says nothing of 1 earlier findings: {found['finding_id']}" in forgotten
    assert "OPEN_FINDINGS" in over_it
    assert found["finding_id"] in over_it


def test_small_findings_of_who_read_all_approve_with_notes(project: Counter) -> None:
    review = project.ask("find 2 minor")
    assert project.decided(review)["status"] == "approved"
    assert [(one["severity"], one["state"]) for one in findings(project, review)] == [("minor", "open")]


def test_p11_a_false_alarm_that_is_repeated_again_and_again_blocks_nothing(project: Counter) -> None:
    review = project.put_up(intent="in-turn find=8 settle", diff=edited(text="a change elsewhere"))
    [alarm] = asked_for_changes(project, review)
    # With nothing left to correct the same round goes to a reviewer again.
    assert say(project, alarm, "refuted", "The eighth line is as it was meant.")["status"] == "pending"
    project.when(review, lambda one: one["status"] == "approved", "is approved")
    assert [one["state"] for one in findings(project, review)] == ["upheld"]

    again = [project.ask("find 8") for _ in range(TIMES)]
    statuses = [project.decided(one) for one in again]
    assert {one["status"] for one in statuses} == {"approved"}
    assert {one["findings"]["blocking"] for one in statuses} == {0}
    repeated = [found for one in again for found in findings(project, one)]
    assert [(one["state"], one["suppressed_by"]) for one in repeated] == [("suppressed", alarm["finding_id"])] * TIMES
    for one in again:
        [run] = project.broker.runs(one)
        assert "The eighth line is as it was meant." in run["prompt"]


def test_p11_who_finds_something_new_each_round_ends_in_the_third_with_a_person(project: Counter) -> None:
    intent = "find"
    review = project.put_up(intent=intent, diff=edited(text="try 1"))
    for number in (2, 3):
        newest = asked_for_changes(project, review)[-1]
        say(project, newest, "fixed")
        project.revise(review, intent=intent, diff=edited(text=f"try {number}"))
        status = project.when(review, lambda one, now=number: one["round"] == now and one["verdict"], "is decided")
    assert "3 rounds ended without agreement: a person decides." in status["attention"]
    assert (status["status"], status["next_action"]) == ("changes_requested", "escalate")
    assert [one["state"] for one in findings(project, review)] == ["verified", "verified", "open"]

    # Nor does another round start them again: a later one is reviewed, and this waits.
    project.revise(review, intent="approve", diff=edited(text="try 4"))
    project.approved()
    assert (project.status(review)["status"], len(project.broker.runs(review))) == ("pending", 3)


def test_a_place_that_is_none_costs_no_try(project: Counter) -> None:
    review = project.ask("find 2,11")
    assert [(one["file"], one["line"]) for one in asked_for_changes(project, review)] == [("a.txt", 2), ("a.txt", None)]
    assert project.outcomes(review) == ["verdict"]
