"""A reviewer's program that neither writes nor works is called silent, and is ended before long."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.acceptance.pooling import Steward, broker, started
from tests.acceptance.reviewing import Desk
from tests.acceptance.staffed import Counter, StaffedBroker, counter, only_posix
from tests.modes import VARIATION

__all__ = ["broker"]

HASTY = {"max_pool_size": 1, "silence_seconds": 4, "background_check_interval_seconds": 1}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter]:
    """The project of a broker with one real reviewer at a time, which is called silent after two seconds."""
    folder = tmp_path_factory.mktemp("silence")
    with StaffedBroker(folder, HASTY) as started, counter(started, folder / "repository") as opened:
        yield opened


@VARIATION
@only_posix
def test_a_program_that_computes_without_a_word_is_not_silent(project: Counter) -> None:
    review = project.ask("compute 2.5")
    assert project.decided(review)["status"] == "approved"
    assert project.outcomes(review) == ["verdict"]
    [member] = project.team()
    assert "reviewer_silent" not in [one["kind"] for one in project.log(f"reviewer:{member['reviewer_id']}")]


@only_posix
def test_a_program_that_hangs_is_named_and_ended_and_its_review_tried_again(project: Counter) -> None:
    review = project.ask("in-turn hang approve")
    assert project.decided(review)["status"] == "approved"
    assert project.outcomes(review) == ["timeout", "verdict"]
    [timeout] = project.of_kind(review, "claim_released")
    assert "it fell silent" in timeout["data"]["reason"]
    [member] = project.team()
    told = [one for one in project.log(f"reviewer:{member['reviewer_id']}") if one["kind"] == "reviewer_silent"]
    # It was named while there was still time to look.
    assert [(one["data"]["silent"], one["seq"] < timeout["seq"]) for one in told] == [(True, True)]
    assert told[0]["data"]["since"] < told[0]["at"]
    project.broker.assert_intact()


@pytest.fixture
def steward(shop: Desk) -> Steward:
    """A pool that has just started."""
    return started(shop)


def us_ago(seconds: float) -> int:
    """An instant as supervisors say it."""
    return round((time.time() - seconds) * 1_000_000)


def seconds_since(instant: str) -> float:
    """How long ago that was."""
    return (datetime.now(UTC) - datetime.fromisoformat(instant)).total_seconds()


def test_what_each_reviewer_does_is_told_and_since_when(shop: Desk, steward: Steward) -> None:
    review = shop.put_up(intent="Wait between attempts")
    name = steward.one()

    def does(**activity: Any) -> dict[str, Any]:
        steward.activity[name] = activity
        steward.beat()
        return steward.seen(name)

    assert (does()["doing"], does()["review_title"]) == ("idle", None)
    shop.do("claim_review", reviewer_id=name)
    reviews = does(output_us=us_ago(5))
    assert (reviews["doing"], reviews["review_title"]) == ("reviews", "Wait between attempts")
    assert 5 <= seconds_since(reviews["last_output_at"]) < 60
    assert does(checks=True)["doing"] == "waits_for_checks"
    silent = does(output_us=us_ago(1450), silent_us=us_ago(1450))
    assert silent["doing"] == "silent"
    none = shop.status(review)["no_reviewer"]
    assert (none["reason"], none["needs_person"]) == ("silent", False)
    assert none["message"] == f"{silent['name']} has been silent for 24 min."
    assert f"tandem review claim {review} --take-over" in none["remedy"]
    assert 1440 <= seconds_since(silent["doing_since"]) < 1510
    [wrong] = shop.do("get_inbox", person="ada")["problems"]
    assert wrong["cause"] == "codex-r1 has been silent for 24 min; 1 review waits"
    assert [one["review_id"] for one in wrong["holds_up"]] == [review]
    does(output_us=us_ago(0))
    kinds = [one["data"]["silent"] for one in steward.log(f"reviewer:{name}") if one["kind"] == "reviewer_silent"]
    assert kinds == [True, False]
    shop.do("kill_reviewer", reviewer_id=name, force=True)
    assert review == steward.seen(name)["review_id"]


def test_p1_a_person_takes_over_and_what_the_ended_reviewer_still_says_is_refused(shop: Desk, steward: Steward) -> None:
    review = shop.put_up()
    name = steward.one()
    stale = shop.claim(review, name)
    # Neither an agent nor the proposer may: nothing is ended then.
    shop.refused("FORBIDDEN", "claim_review", review_id=review, reviewer_id=name, take_over=True)
    proposer = shop.do("get_proposal", review_id=review)["proposer_id"]
    shop.refused("SELF_APPROVAL", "claim_review", review_id=review, reviewer_id=proposer, take_over=True)
    assert [one["wanted"] for one in steward.beat()["reviewers"]] == ["run"]
    claim = shop.do("claim_review", review_id=review, reviewer_id="ada", take_over=True)
    assert (claim["reviewer_id"], claim["claim_generation"] > stale) == ("ada", True)
    assert [one["wanted"] for one in steward.beat()["reviewers"]] == ["kill"]
    late = {"verdict": "approved", "reason": "Fine.", "claim_generation": stale, "round": 1}
    with shop.unchanged(review):
        shop.refused("STALE_CLAIM", "submit_verdict", review_id=review, reviewer_id=name, **late)
        # No one takes a person's claim.
        shop.refused("ALREADY_CLAIMED", "claim_review", review_id=review, reviewer_id="bob", take_over=True)
    assert shop.do("list_reviewers")["reviewers"][0]["outcomes"] == {"cancelled": 1}
