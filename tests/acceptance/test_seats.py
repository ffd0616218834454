"""Claims beside each other: a review that needs several approvals is reviewed by several at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tandem.rulings import proof
from tests.acceptance.checking import Checked
from tests.acceptance.finding import MAJOR
from tests.acceptance.pooling import ended, started
from tests.acceptance.reviewing import PROPOSER, WHY, at_once, edited
from tests.acceptance.test_policy import BOTH, allowed, have
from tests.broker import BrokerProcess, StartBroker
from tests.databases import ON_BOTH_DATABASES

RACERS = ("gemini", "opencode", "codex", "claude-code", "cursor")
RACES, ALL_RACES = 12, 500
"""On each database; all with pytest's `--every-mode`."""
TWO = '[[rule]]\nneeds = ["agent", "agent:codex"]\n'
LEASE_SECONDS = 4
"""Longer than a busy machine needs for the next renewal."""


@pytest.fixture
def project(broker: BrokerProcess, tmp_path: Path) -> Iterator[Checked]:
    """A project on each database."""
    with Checked(broker, tmp_path / "repository", tmp_path) as opened:
        yield opened


def begun(project: Checked, *who: str, policy: str = TWO, text: str = "better") -> tuple[str, dict[str, int]]:
    """A review that these have claimed, one after the other; the generation of each."""
    have(project, policy)
    review, _ = project.submitted(diff=edited(text=text))
    return review, {name: project.claim(review, name) for name in who}


def verdict(project: Checked, review: str, who: str, said: str, generation: int, **more: Any) -> dict[str, Any]:
    """A verdict under a claim; its envelope."""
    asked = {"review_id": review, "reviewer_id": who, "claim_generation": generation, "verdict": said, **more}
    return project.call("submit_verdict", **asked, **({} if said == "approved" else {"reason": WHY}))


@ON_BOTH_DATABASES
def test_p1_two_review_at_the_same_time_and_both_approvals_count(project: Checked) -> None:
    review, claims = begun(project, "gemini", "codex")
    assert claims["gemini"] < claims["codex"]
    status = project.status(review)
    assert (status["reviewer_id"], status["beside"], len(status["missing"])) == ("gemini", ["codex"], 2)
    # Whose approval gives nothing that these two will not give waits, as before.
    assert project.call("claim_review", review_id=review, reviewer_id="opencode")["error"]["code"] == "ALREADY_CLAIMED"
    # A claim again is the same one.
    assert project.claim(review, "codex") == claims["codex"]
    assert project.do("renew_claim", review_id=review, claim_generation=claims["codex"])["claim_generation"]
    given = verdict(project, review, "codex", "approved", claims["codex"])
    assert given["data"]["status"] == "claimed"
    assert (project.status(review)["beside"], len(project.status(review)["missing"])) == ([], 1)
    assert verdict(project, review, "codex", "approved", claims["codex"])["error"]["code"] == "STALE_CLAIM"
    assert verdict(project, review, "gemini", "approved", claims["gemini"])["data"]["status"] == "approved"


def test_p1_the_claim_beside_goes_on_when_the_first_one_ends(project: Checked) -> None:
    review, claims = begun(project, "gemini", "codex")
    assert verdict(project, review, "gemini", "approved", claims["gemini"])["data"]["status"] == "claimed"
    status = project.status(review)
    assert (status["reviewer_id"], status["claim_generation"], status["beside"]) == ("codex", claims["codex"], [])
    assert verdict(project, review, "gemini", "approved", claims["gemini"])["error"]["code"] == "STALE_CLAIM"
    assert verdict(project, review, "codex", "approved", claims["codex"])["data"]["status"] == "approved"
    # No number is given twice.
    project.do("withdraw_approval", review_id=review, reason=WHY, withdrawn_by="operator")
    assert project.claim(review, "codex") > claims["codex"]


def test_a_release_leaves_the_review_to_the_others(project: Checked) -> None:
    review, claims = begun(project, "gemini", "codex")
    project.do("release_claim", review_id=review, claim_generation=claims["gemini"])
    assert (project.status(review)["status"], project.status(review)["reviewer_id"]) == ("claimed", "codex")
    again = project.claim(review, "gemini")
    assert again > claims["codex"]
    project.do("release_claim", review_id=review, claim_generation=again)
    project.do("release_claim", review_id=review, claim_generation=claims["codex"])
    assert project.status(review)["status"] == "pending"
    assert project.claim(review, "codex") > again


def test_p6_an_objection_ends_the_round_once_all_have_ended(project: Checked) -> None:
    for first, second in (("codex", "gemini"), ("gemini", "codex")):
        review, claims = begun(project, "gemini", "codex", text=first)
        objected = verdict(project, review, first, "changes_requested", claims[first], findings=[MAJOR])
        assert objected["data"]["status"] == "claimed"
        status = project.status(review)
        assert (status["status"], status["verdict"], status["findings"]["blocking"]) == (
            "claimed",
            "changes_requested",
            1,
        )
        # No one begins, and the approval of who is at work counts, though it approves nothing.
        assert project.call("claim_review", review_id=review, reviewer_id=first)["error"]["code"] == "ALREADY_CLAIMED"
        ended = verdict(project, review, second, "approved", claims[second])
        assert ended["data"]["status"] == "changes_requested", ended
        status = project.status(review)
        assert (status["verdict"], status["reviewer_id"], len(status["missing"])) == ("changes_requested", first, 1)
        assert (status["next_action"], status["attention"], status["beside"]) == ("revise", None, [])
        assert project.status(review)["objections"] == 1
        # The number of the last claim is not that of who objected.
        said = {"review_id": review, "sender_role": "reviewer", "body": "Why?", "claim_generation": claims[second]}
        assert project.call("add_message", **said)["error"]["code"] == "STALE_CLAIM"
        project.revise(review, diff=edited(text="other"))
        assert project.status(review)["status"] == "pending"


def test_the_harsher_of_two_objections_is_the_review_s(project: Checked) -> None:
    review, claims = begun(project, "gemini", "codex")
    verdict(project, review, "gemini", "rejected", claims["gemini"])
    assert verdict(project, review, "codex", "changes_requested", claims["codex"])["data"]["status"] == "rejected"
    assert project.status(review)["reviewer_id"] == "gemini"
    # Who approves it all the same hears so.
    review, claims = begun(project, "gemini", "codex")
    verdict(project, review, "gemini", "rejected", claims["gemini"])
    given = verdict(project, review, "codex", "approved", claims["codex"])["data"]
    assert (given["status"], "have objected" in given["notes"][0]) == ("rejected", True)
    review, claims = begun(project, "gemini", "codex")
    verdict(project, review, "codex", "changes_requested", claims["codex"])
    assert verdict(project, review, "gemini", "rejected", claims["gemini"])["data"]["status"] == "rejected"


def test_an_objection_ends_the_round_when_the_last_claim_is_released(project: Checked) -> None:
    review, claims = begun(project, "gemini", "codex")
    verdict(project, review, "gemini", "changes_requested", claims["gemini"])
    released = project.do("release_claim", review_id=review, claim_generation=claims["codex"])
    assert released["status"] == "changes_requested"
    assert project.status(review)["reviewer_id"] == "gemini"


def test_a_person_still_decides_after_the_approval_of_who_was_at_work(project: Checked) -> None:
    review, claims = begun(project, "gemini", "codex", policy=f"{TWO}rounds = 1\n")
    verdict(project, review, "codex", "changes_requested", claims["codex"], findings=[MAJOR])
    # Who is at work goes on.
    assert project.claim(review, "gemini") == claims["gemini"]
    assert verdict(project, review, "gemini", "approved", claims["gemini"])["data"]["status"] == "changes_requested"
    status = project.status(review)
    assert "a person decides" in status["attention"]
    assert status["next_action"] == "escalate"


def test_p1_findings_of_another_hold_back_the_last_approval(project: Checked) -> None:
    review, claims = begun(project, "gemini", "codex")
    verdict(project, review, "gemini", "comment", claims["gemini"], findings=[MAJOR])
    assert verdict(project, review, "codex", "approved", claims["codex"])["data"]["status"] == "in_review"
    assert verdict(project, review, "gemini", "approved", claims["gemini"])["error"]["code"] == "OPEN_FINDINGS"
    project.do("release_claim", review_id=review, claim_generation=claims["gemini"])
    assert project.status(review)["status"] == "pending"
    assert project.approved_by(review, "gemini")["error"]["code"] == "OPEN_FINDINGS"


def test_a_new_round_ends_all_claims(project: Checked) -> None:
    review, claims = begun(project, "gemini", "codex")
    project.revise(review, diff=edited(text="other"))
    for who, generation in claims.items():
        error = verdict(project, review, who, "approved", generation)["error"]
        assert error["code"] == "STALE_CLAIM"
        assert "round 2" in error["message"]
    review, claims = begun(project, "gemini", "codex")
    project.do("close_review", review_id=review)
    assert verdict(project, review, "codex", "approved", claims["codex"])["error"]["code"] == "STALE_CLAIM"


def test_an_accepted_counter_patch_ends_the_claims_beside(project: Checked) -> None:
    review, claims = begun(project, "gemini", "codex")
    offered = verdict(project, review, "codex", "comment", claims["codex"], counter_patch=edited(text="best"))["data"]
    assert project.status(review)["next_action"] == "decide_counter_patch"
    project.accept(review, offered["counter_patch_id"])
    assert (project.status(review)["reviewer_id"], project.status(review)["beside"]) == ("gemini", [])
    assert verdict(project, review, "codex", "approved", claims["codex"])["error"]["code"] == "STALE_CLAIM"


def test_a_person_claims_beside_an_agent(project: Checked) -> None:
    review, claims = begun(project, "codex", policy=BOTH)
    asked = {"review_id": review, "person": "ann"}
    assert "claim_beside" in project.do("get_review", **asked)["actions"]
    assert "claim_beside" not in project.do("get_review", review_id=review, person="codex")["actions"]
    generation = project.claim(review, "ann")
    whole = project.do("get_review", **asked)
    seen = whole["status"]
    assert (seen["reviewer_id"], seen["claim_generation"], seen["beside"]) == ("ann", generation, ["codex"])
    assert whole["holder"]["name"] == "ann"
    given = {"review_id": review, "verdict": "approved", "reviewer_id": "ann", "claim_generation": generation}
    proved = {**given, "proof": project.sealed(proof.verdict_facts(given))}
    assert project.do("submit_verdict", **proved)["status"] == "claimed"
    assert verdict(project, review, "codex", "approved", claims["codex"])["data"]["status"] == "approved"
    assert allowed(project, project.status(review)["digest"]) == (True, None)


def test_one_principal_holds_one_claim(project: Checked) -> None:
    review, _ = begun(project, "codex", policy='[[rule]]\nneeds = ["agent", "review", "agent:codex"]\n')
    for name in ("Codex", "codex\u200b", "CODEX", "co\u034fdex", "codex\u3164", "codex\ufe0f", "codex\U000e0100"):
        refused = project.call("claim_review", review_id=review, reviewer_id=name)
        assert refused["error"]["code"] == "ALREADY_CLAIMED"
    assert project.call("claim_review", review_id=review, reviewer_id=PROPOSER)["ok"] is False


def test_the_queue_hands_out_free_seats_after_what_no_one_holds(project: Checked) -> None:
    review, _ = begun(project, "gemini")
    other, _ = project.submitted(diff=edited(text="other"))
    assert project.do("claim_review", reviewer_id="codex", project=project.project)["review_id"] == other
    assert project.do("claim_review", reviewer_id="codex", project=project.project)["review_id"] == review
    assert project.do("claim_review", reviewer_id="gemini", project=project.project)["review_id"] == other
    assert project.do("claim_review", reviewer_id="opencode", project=project.project)["review"] is None


def test_without_a_policy_one_holds_a_review(project: Checked) -> None:
    review, _ = project.submitted(diff=edited())
    project.claim(review, "gemini")
    assert project.call("claim_review", review_id=review, reviewer_id="codex")["error"]["code"] == "ALREADY_CLAIMED"
    assert project.do("claim_review", reviewer_id="codex", project=project.project)["review"] is None


@ON_BOTH_DATABASES
def test_p1_of_many_who_race_for_two_seats_two_get_one_each(project: Checked, request: pytest.FixtureRequest) -> None:
    have(project, TWO)
    diff = edited()
    for _ in range(ALL_RACES if request.config.getoption("every_mode") else RACES):
        review = project.put_up(diff=diff)
        asked = [partial(project.call, "claim_review", review_id=review, reviewer_id=who) for who in RACERS]
        answers = dict(zip(RACERS, at_once(asked), strict=True))
        claims = {who: one["data"]["claim_generation"] for who, one in answers.items() if one["ok"]}
        refused = {one["error"]["code"] for one in answers.values() if not one["ok"]}
        assert (len(claims), len({*claims.values()}), refused) == (2, 2, {"ALREADY_CLAIMED"})
        assert "codex" in claims
        given = at_once([partial(verdict, project, review, who, "approved", number) for who, number in claims.items()])
        assert sorted(one["data"]["status"] for one in given) == ["approved", "claimed"]


@ON_BOTH_DATABASES
def test_p5_the_lease_of_each_claim_ends_by_itself(
    start_broker: StartBroker, database_settings: dict[str, object], tmp_path: Path
) -> None:
    times = {"claim_timeout_seconds": LEASE_SECONDS, "sweep_interval_seconds": 0.2, "review_deadline_seconds": 600}
    broker = start_broker(**times, **database_settings)
    with Checked(broker, tmp_path / "repository", tmp_path) as project:
        # The first claim is kept of one review, the one beside it of the other.
        ways = [(*begun(project, "gemini", "codex"), *who) for who in (("gemini", "codex"), ("codex", "gemini"))]
        done = threading.Event()

        def renew() -> None:
            while not done.wait(LEASE_SECONDS / 4):
                for review, claims, kept, _ in ways:
                    project.do("renew_claim", review_id=review, claim_generation=claims[kept])

        for review, *_ in ways:
            project.say(review, "reviewer", reviewer_id="gemini")
        cursors = [project.status(review)["cursor"] for review, *_ in ways]
        renewing = threading.Thread(target=renew)
        renewing.start()
        for (review, _, _, lost), cursor in zip(ways, cursors, strict=True):
            log = {"review_id": review, "kind": "review_reclaimed"}
            [event] = project.do("get_audit_log", **log, wait=True, cursor=cursor, timeout_s=40)["events"]
            assert event["data"]["reviewer_id"] == lost
        done.set()
        renewing.join()
        for review, claims, kept, lost in ways:
            status = project.status(review)
            assert (status["reviewer_id"], status["beside"], status["next_action"]) == (kept, [], "answer_message")
            assert verdict(project, review, lost, "approved", claims[lost])["error"]["code"] == "STALE_CLAIM"
            assert verdict(project, review, kept, "approved", claims[kept])["data"]["status"] == "pending"
        project.broker.assert_intact()


@ON_BOTH_DATABASES
def test_two_pools_review_one_change_at_the_same_time(project: Checked) -> None:
    have(project, TWO)
    first, second = started(project), started(project)
    review = project.put_up(diff=edited())
    one = first.one()
    assert second.beat()["reviewers"] == []
    claim = project.do("claim_review", reviewer_id=one)
    other = second.one()
    assert first.beat()["reviewers"][0]["reviewer_id"] == one
    beside = project.do("claim_review", reviewer_id=other)
    assert {claim["review_id"], beside["review_id"]} == {review}
    assert [steward.seen(name)["review_id"] for steward, name in ((first, one), (second, other))] == [review, review]
    # A run without a verdict, and a reviewer that ends, give back their own claim only.
    first.report(one, claim, "timeout")
    status = project.status(review)
    assert (status["status"], status["reviewer_id"], status["claim_generation"]) == (
        "claimed",
        other,
        beside["claim_generation"],
    )
    again = project.do("claim_review", reviewer_id=one)
    assert again["review_id"] == review
    first.beat(ended(one))
    assert (project.status(review)["reviewer_id"], project.status(review)["beside"]) == (other, [])
    # A person who takes it over ends every reviewer of a pool that is at work on it.
    project.do("claim_review", review_id=review, reviewer_id="ann", take_over=True)
    assert (project.status(review)["reviewer_id"], project.status(review)["beside"]) == ("ann", [])
    assert verdict(project, review, other, "approved", beside["claim_generation"])["error"]["code"] == "STALE_CLAIM"
