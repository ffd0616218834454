"""How approvals by several come to an end: proofs that come later, objections, withdrawals and waivers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tandem.core.clock import DAY_US, isoformat
from tandem.rulings import proof
from tests.acceptance.checking import Checked, check
from tests.acceptance.finding import MAJOR, answered
from tests.acceptance.reviewing import PROPOSER, WHY, AgentDesk, Desk, edited
from tests.acceptance.test_policy import BOTH, DOCUMENTS, allowed, have
from tests.acceptance.test_seats import TWO, begun, verdict
from tests.broker import BrokerProcess
from tests.commandline import ShellInside

BLOCKER = {**MAJOR, "severity": "blocker"}
UNTIL = isoformat(time.time_ns() // 1000 + DAY_US)


@pytest.fixture
def project(broker: BrokerProcess, tmp_path: Path) -> Iterator[Checked]:
    """A project on each database."""
    with Checked(broker, tmp_path / "repository", tmp_path) as opened:
        yield opened


def test_p1_who_approved_without_the_proof_of_a_person_gives_it_later(project: Checked) -> None:
    have(project, BOTH)
    review, digest = project.submitted(diff=edited())

    def trays(person: str) -> list[str]:
        found = project.do("get_inbox", person=person, project=project.project)
        return [
            tray for tray in ("your_turn", "waiting") for one in found[tray] if one["review"]["review_id"] == review
        ]

    assert project.approved_by(review, "ann")["data"]["status"] == "pending"
    assert [one.split(" (")[0] for one in project.status(review)["missing"]] == ["a person's review"]
    assert trays("ann") == ["your_turn"]
    again = project.approved_by(review, "ann")["error"]
    assert again["code"] == "FORBIDDEN"
    assert "tandem review approve" in again["message"]
    # Her approval fills the person's seat now: two approvals are needed, and one of hers is one.
    assert project.approved_by(review, "ann", proved=True)["data"]["status"] == "pending"
    status = project.status(review)
    assert [one.split(" (")[0] for one in status["missing"]] == ["an agent's review"]
    assert (status["attention"], allowed(project, digest)) == (None, (False, None))
    assert project.approved_by(review, "ann", proved=True)["error"]["code"] == "REQUIREMENT_MISSING"
    assert project.approved_by(review, "codex")["data"]["status"] == "approved"
    assert allowed(project, digest) == (True, None)


def objected(project: Checked, said: str) -> str:
    """A review to which one objected, while another is at work."""
    review, claims = begun(project, "gemini", "codex")
    assert verdict(project, review, "gemini", said, claims["gemini"])["data"]["status"] == "claimed"
    return review


def revised(project: Checked, review: str, text: str = "better") -> dict[str, Any]:
    """The envelope of a new round."""
    asked = {"review_id": review, "intent": WHY, "agent_type": "test", "proposer_id": PROPOSER}
    return project.call("create_review", **asked, diff=edited(text=text))


def test_p6_a_rejection_stands_although_others_are_at_work(project: Checked) -> None:
    review = objected(project, "rejected")
    for text in ("better", "other"):
        refused = revised(project, review, text)["error"]
        assert refused["code"] == "INVALID_TRANSITION"
        assert f"parent_id={review}" in refused["message"]
    assert project.status(review)["status"] == "claimed"
    assert project.do("close_review", review_id=review)["outcome"] == "rejected"


def test_a_revision_ends_the_round_of_an_objection(project: Checked) -> None:
    review = objected(project, "changes_requested")
    assert revised(project, review)["data"]["status"] == "pending"
    status = project.status(review)
    assert (status["objections"], status["beside"], len(status["missing"])) == (1, [], 2)
    assert project.do("close_review", review_id=review)["outcome"] == "withdrawn"


@pytest.mark.parametrize("ends", ["approved", "release"])
def test_an_objection_that_was_refuted_meanwhile_goes_back_to_a_reviewer(project: Checked, ends: str) -> None:
    review, claims = begun(project, "gemini", "codex")
    verdict(project, review, "codex", "changes_requested", claims["codex"], findings=[BLOCKER])
    [found] = project.do("list_findings", review_id=review)["findings"]
    answer = {"finding_id": found["finding_id"], "answer": "refuted", "reason": "It is right."}
    with Desk(project.url, project.project, agent=PROPOSER) as proposer:
        proposer.do("answer_finding", review_id=review, **answer)
    if ends == "release":
        project.do("release_claim", review_id=review, claim_generation=claims["gemini"])
    else:
        verdict(project, review, "gemini", "approved", claims["gemini"])
    status = project.status(review)
    assert (status["status"], status["verdict"], status["objections"]) == ("pending", None, 1)
    assert project.claim(review, "codex")


def test_what_is_approved_by_its_checks_is_its_proposers_turn(checking: Checked, tmp_path: Path) -> None:
    with Checked(checking.broker, tmp_path / "repository", checking.config_dir) as project:
        project.have(check("calm", "print('calm')"))
        have(project, DOCUMENTS)
        generation = project.claim(review := project.put_up(diff=edited()), "ann")
        project.ended(review)
        project.say(review, "proposer")
        project.do("release_claim", review_id=review, claim_generation=generation)
        status = project.status(review)
        assert (status["status"], status["turn"]) == ("approved", "proposer")


def withdrawn(project: Checked, review: str, who: str, **more: Any) -> dict[str, Any]:
    """Somebody withdraws their approval; the envelope."""
    return project.call("withdraw_approval", review_id=review, reason=WHY, withdrawn_by=who, **more)


def test_one_of_several_approvals_is_withdrawn_and_the_others_stay(project: Checked) -> None:
    three = '[[rule]]\nneeds = ["agent", "agent:codex", "person"]\n'
    review, claims = begun(project, "gemini", "codex", policy=three)
    verdict(project, review, "gemini", "approved", claims["gemini"])
    for who in ("opencode", "operator", "codex"):
        assert withdrawn(project, review, who)["error"]["code"] == "INVALID_TRANSITION"
    # While others are at work its seat is free at once, and their claims go on.
    assert withdrawn(project, review, "gemini")["data"]["status"] == "claimed"
    status = project.status(review)
    assert (len(status["missing"]), status["verdict"], status["verdict_reason"]) == (3, "comment", WHY)
    assert project.claim(review, "opencode") > claims["codex"]
    given = verdict(project, review, "codex", "approved", claims["codex"])
    assert given["data"]["status"] == "claimed"
    assert project.approved_by(review, "opencode")["data"]["status"] == "pending"
    # Once a person's alone is missing that is waited for, and no more when an agent's is missing again.
    assert project.status(review)["attention"]
    assert withdrawn(project, review, "opencode")["data"]["status"] == "pending"
    assert withdrawn(project, review, "opencode")["error"]["code"] == "INVALID_TRANSITION"
    status = project.status(review)
    assert (status["attention"], len(status["missing"]), status["objections"]) == (None, 2, 0)
    event = project.events(review)[-1]
    assert (event["kind"], event["data"]["approved_by"]) == ("approval_withdrawn", "opencode")
    assert project.approved_by(review, "opencode")["data"]["status"] == "pending"
    assert project.approved_by(review, "ann", proved=True)["data"]["status"] == "approved"


def test_an_agent_withdraws_its_own_approval_over_mcp_and_at_the_command_line(project: Checked) -> None:
    have(project, TWO)
    review, _ = project.submitted(diff=edited())
    shell, asked = ShellInside(project.url, project.repo.root), {"review_id": review, "reason": WHY}

    def by_command() -> None:
        command = ("review", "withdraw", review, "--reason", WHY, "--withdrawn-by", "gemini")
        ended = shell.run(*command, CLAUDECODE="1")
        assert ended.status == 0, ended.stderr

    with AgentDesk(project.url, project.project) as agents:
        for withdraw in (partial(agents.do, "withdraw_approval", **asked, withdrawn_by="gemini"), by_command):
            project.approved_by(review, "gemini")
            assert len(project.status(review)["missing"]) == 1
            withdraw()
            assert len(project.status(review)["missing"]) == 2


def told(project: Checked, review: str) -> tuple[str, str | None]:
    """The next action of a review's proposer, by its status and by the inbox."""
    found = project.do("get_inbox", person=PROPOSER, project=project.project)
    why = [one["why"] for one in found["your_turn"] if one["review"]["review_id"] == review]
    return project.status(review)["next_action"], next(iter(why), None)


DECIDE, ANSWER = ("decide_counter_patch", "decide"), ("answer_message", "answer")


@pytest.mark.parametrize("author", ["gemini", "codex"])
def test_a_counter_patch_stays_told_while_others_go_on(project: Checked, author: str) -> None:
    review, claims = begun(project, "gemini", "codex")
    other = next(name for name in claims if name != author)
    verdict(project, review, author, "comment", claims[author], counter_patch=edited(text="best"))
    assert told(project, review) == DECIDE
    verdict(project, review, other, "comment", claims[other])
    assert told(project, review) == DECIDE
    verdict(project, review, other, "approved", claims[other])
    assert told(project, review) == DECIDE
    project.do("release_claim", review_id=review, claim_generation=claims[author])
    assert told(project, review) == DECIDE
    project.claim(review, author)
    assert told(project, review) == DECIDE
    patch = project.status(review)["counter_patch_id"]
    project.do("reject_counter_patch", review_id=review, counter_patch_id=patch)
    assert told(project, review) == ("wait", None)


def test_a_question_stays_told_until_it_is_answered_although_who_asked_is_gone(project: Checked) -> None:
    review, claims = begun(project, "gemini", "codex")
    project.say(review, "reviewer", reviewer_id="gemini")
    # A counter-patch of somebody else is decided by itself.
    verdict(project, review, "codex", "comment", claims["codex"], counter_patch=edited(text="best"))
    assert told(project, review) == DECIDE
    patch = project.status(review)["counter_patch_id"]
    project.do("reject_counter_patch", review_id=review, counter_patch_id=patch)
    assert told(project, review) == ANSWER
    project.do("release_claim", review_id=review, claim_generation=claims["gemini"])
    assert told(project, review) == ANSWER
    verdict(project, review, "codex", "approved", claims["codex"])
    assert (project.status(review)["status"], *told(project, review)) == ("pending", *ANSWER)
    generation = project.claim(review, "opencode")
    assert told(project, review) == ANSWER
    # Who comes next need not wait for that answer.
    project.say(review, "reviewer", reviewer_id="opencode")
    project.say(review, "proposer")
    assert told(project, review) == ("wait", None)
    assert verdict(project, review, "opencode", "approved", generation)["data"]["status"] == "approved"


def test_a_comment_that_is_left_alone_stays_told_too(project: Checked) -> None:
    review, _ = project.submitted(diff=edited())
    verdict(project, review, "gemini", "comment", project.claim(review, "gemini"))
    claim = {"review_id": review, "claim_generation": project.status(review)["claim_generation"]}
    project.do("release_claim", **claim)
    assert told(project, review) == ANSWER
    project.say(review, "proposer")
    assert told(project, review) == ("wait", None)


@pytest.mark.parametrize("offers", [True, False])
def test_what_one_of_several_asked_is_answered_before_the_others_approvals_open_the_gate(
    project: Checked, offers: bool
) -> None:
    review, claims = begun(project, "gemini", policy=BOTH)
    more = {"counter_patch": edited(text="best")} if offers else {}
    verdict(project, review, "gemini", "comment", claims["gemini"], **more)
    project.approved_by(review, "ann")
    assert project.approved_by(review, "bob", proved=True)["data"]["status"] == "in_review"
    project.do("release_claim", review_id=review, claim_generation=claims["gemini"])
    assert (project.status(review)["status"], *told(project, review)) == ("pending", *(DECIDE if offers else ANSWER))
    if offers:
        project.do(
            "reject_counter_patch", review_id=review, counter_patch_id=project.status(review)["counter_patch_id"]
        )
    else:
        project.say(review, "proposer")
    assert project.status(review)["status"] == "approved"


def test_a_comment_from_beside_is_told_too(project: Checked) -> None:
    review, claims = begun(project, "gemini", "codex")
    verdict(project, review, "codex", "comment", claims["codex"])
    assert told(project, review) == ANSWER
    # Who leads the discussion need not wait for that answer.
    project.say(review, "reviewer", reviewer_id="gemini")
    project.say(review, "proposer")
    assert told(project, review) == ("wait", None)


def test_a_counter_patch_is_told_where_only_a_person_is_missing(project: Checked) -> None:
    review, claims = begun(project, "codex", policy=BOTH)
    project.approved_by(review, "gemini")
    verdict(project, review, "codex", "comment", claims["codex"], counter_patch=edited(text="best"))
    project.do("release_claim", review_id=review, claim_generation=claims["codex"])
    assert told(project, review) == DECIDE


def test_a_person_reads_the_answer_to_a_comment_from_beside(project: Checked) -> None:
    review, claims = begun(project, "codex", "bob", policy='[[rule]]\nneeds = ["agent", "review"]\n')
    verdict(project, review, "bob", "comment", claims["bob"])
    for name in claims:
        project.do("release_claim", review_id=review, claim_generation=claims[name])
    project.say(review, "proposer")
    assert "bob asked something" in project.status(review)["attention"]
    refused = project.approved_by(review, "gemini")["error"]
    assert (refused["code"], "bob asked something" in refused["message"]) == ("INVALID_TRANSITION", True)


def test_the_same_content_again_answers_no_question(project: Checked) -> None:
    review, claims = begun(project, "gemini", policy=BOTH)
    verdict(project, review, "gemini", "comment", claims["gemini"])
    project.approved_by(review, "ann")
    project.approved_by(review, "bob", proved=True)
    project.do("release_claim", review_id=review, claim_generation=claims["gemini"])
    assert told(project, review) == ANSWER
    revised(project, review)
    assert (project.status(review)["status"], *told(project, review)) == ("pending", *ANSWER)


def test_a_person_is_asked_for_again_once_an_agents_objection_is_settled(project: Checked) -> None:
    have(project, BOTH)
    review, _ = project.submitted(diff=edited())
    project.approved_by(review, "gemini")
    asked = {"review_id": review, "claim": True, "reason": WHY}
    project.do("submit_verdict", **asked, reviewer_id="codex", verdict="changes_requested", findings=[BLOCKER])
    [found] = project.do("list_findings", review_id=review)["findings"]
    answered(project, review, found["finding_id"], "refuted", reason="Right.")
    upheld = [{"finding_id": found["finding_id"], "answer": "upheld"}]
    project.do("submit_verdict", **asked, reviewer_id="opencode", verdict="comment", answers=upheld)
    project.do(
        "release_claim",
        review_id=review,
        claim_generation=project.status(review)["claim_generation"],
    )
    assert "a person's review" in project.status(review)["attention"]


def test_one_counter_patch_of_several_reviewers_waits_at_a_time(project: Checked) -> None:
    review, claims = begun(project, "gemini", "codex")
    patch = {"counter_patch": edited(text="best")}
    verdict(project, review, "codex", "comment", claims["codex"], **patch)
    refused = verdict(project, review, "gemini", "comment", claims["gemini"], **patch)["error"]
    assert (refused["code"], "codex" in refused["message"]) == ("INVALID_TRANSITION", True)
    # One's own takes the place of the one before.
    assert verdict(project, review, "codex", "comment", claims["codex"], **patch)["ok"]


def test_no_counter_patch_waits_that_a_rejection_has_overtaken(project: Checked) -> None:
    review, claims = begun(project, "gemini", "codex")
    verdict(project, review, "codex", "comment", claims["codex"], counter_patch=edited(text="best"))
    verdict(project, review, "codex", "rejected", claims["codex"])
    assert told(project, review)[0] != "decide_counter_patch"


def test_p11_a_person_who_withdraws_one_of_several_approvals_has_objected(project: Checked) -> None:
    have(project, BOTH)
    review, _ = project.submitted(diff=edited())
    project.approved_by(review, "ann", proved=True)
    project.do("withdraw_approval", review_id=review, withdrawn_by="ann", reason="It loses data.")
    [found] = project.do("list_findings", review_id=review)["findings"]
    assert (found["claim"], found["author"], found["blocking"]) == ("It loses data.", "ann", True)


def test_an_agent_whose_approval_is_not_needed_reports_a_fault_all_the_same(project: Checked) -> None:
    have(project, BOTH)
    review, _ = project.submitted(diff=edited())
    project.approved_by(review, "codex")
    refused = project.call("claim_review", review_id=review, reviewer_id="gemini")["error"]
    assert (refused["code"], "submit_verdict" in refused["message"]) == ("REQUIREMENT_MISSING", True)
    asked = {"review_id": review, "reviewer_id": "gemini", "claim": True, "reason": WHY, "findings": [BLOCKER]}
    assert project.do("submit_verdict", **asked, verdict="changes_requested")["status"] == "changes_requested"


def test_an_approval_with_the_proof_of_a_person_is_not_lost_by_one_without(project: Checked) -> None:
    review, claims = begun(project, "codex", policy=BOTH)
    project.approved_by(review, "ann")
    verdict(project, review, "codex", "comment", claims["codex"], findings=[BLOCKER])
    project.approved_by(review, "bob", proved=True)
    project.do("release_claim", review_id=review, claim_generation=claims["codex"])
    [found] = project.do("list_findings", review_id=review)["findings"]
    answered(project, review, found["finding_id"], "refuted", reason="Right.")
    upheld = [{"finding_id": found["finding_id"], "answer": "upheld"}]
    given = verdict(project, review, "bob", "approved", project.claim(review, "bob"), answers=upheld)["data"]
    assert (given["status"], project.status(review)["missing"]) == ("approved", [])


def test_a_finding_that_is_left_when_all_approvals_are_given_is_the_proposers_to_answer(project: Checked) -> None:
    have(project, TWO)
    review, digest = project.submitted(diff=edited())
    project.approved_by(review, "codex")
    claims = {who: project.claim(review, who) for who in ("codex", "gemini")}
    assert verdict(project, review, "gemini", "approved", claims["gemini"])["data"]["status"] == "claimed"
    verdict(project, review, "codex", "comment", claims["codex"], findings=[BLOCKER])
    released = project.do("release_claim", review_id=review, claim_generation=claims["codex"])
    assert released["status"] == "changes_requested"
    status = project.status(review)
    assert (*told(project, review), status["missing"]) == ("revise", "revise", [])
    assert "open findings keep the gate closed: blocker, a.txt:2, by codex" in status["verdict_reason"]
    assert "answer_finding" in status["message"]
    assert allowed(project, digest) == (False, None)
    [found] = project.do("list_findings", review_id=review)["findings"]
    answer = {"finding_id": found["finding_id"], "answer": "refuted", "reason": "It is right."}
    with Desk(project.url, project.project, agent=PROPOSER) as proposer:
        proposer.do("answer_finding", review_id=review, **answer)
    assert project.status(review)["status"] == "pending"
    answers = [{"finding_id": found["finding_id"], "answer": "upheld"}]
    given = verdict(project, review, "codex", "approved", project.claim(review, "codex"), answers=answers)
    assert (given["data"]["status"], allowed(project, digest)) == ("approved", (True, None))


def test_an_unknown_name_is_asked_for_no_proof_where_no_person_is_needed(project: Checked) -> None:
    review, claims = begun(project, "gemini", policy=TWO)
    # Beside it `agent:codex` is left.
    refused = project.call("claim_review", review_id=review, reviewer_id="ann")["error"]
    assert refused["code"] == "ALREADY_CLAIMED"
    verdict(project, review, "gemini", "approved", claims["gemini"])
    refused = project.approved_by(review, "ann")["error"]
    assert refused["code"] == "REQUIREMENT_MISSING"
    assert [one["need"] for one in refused["details"]["missing"]] == ["agent:codex"]
    project.claim(review, "codex")
    refused = project.call("claim_review", review_id=review, reviewer_id="opencode")["error"]
    assert refused["code"] == "ALREADY_CLAIMED"
    assert "none of those that are missing" in refused["message"]


def test_who_reviews_what_is_waived_meanwhile_hears_where_the_review_goes(project: Checked) -> None:
    review, claims = begun(project, "gemini", "codex")

    def waive(need: str) -> None:
        stated = {"need": need, "round": 1, "until": UNTIL, "waived_by": "ann", "reason": WHY}
        facts = proof.waiver_facts(review, need, 1, UNTIL, "ann", WHY)
        project.do("waive_requirement", review_id=review, **stated, proof=project.sealed(facts))

    waive("agent")
    refused = verdict(project, review, "gemini", "approved", claims["gemini"])["error"]
    assert refused["code"] == "REQUIREMENT_MISSING"
    assert f"tandem review settle {review}" in refused["message"]
    waive("agent:codex")
    assert project.status(review)["status"] == "approved"
    refused = verdict(project, review, "codex", "approved", claims["codex"])["error"]
    assert refused["code"] == "STALE_CLAIM"
    assert f"tandem review settle {review}" in refused["message"]
    settled = {"review_id": review, "need": "agent:codex", "verdict": "approved", "reviewer_id": "codex"}
    assert [one["need"] for one in project.do("settle_waiver", **settled)["owed"]] == ["agent"]


def test_the_queue_gives_no_one_again_what_they_approved(project: Checked) -> None:
    have(project, '[[rule]]\nneeds = ["agent", "agent:codex", "person"]\n')
    review, _ = project.submitted(diff=edited())
    project.approved_by(review, "ann")
    assert project.do("claim_review", reviewer_id="ann", project=project.project)["review"] is None
    # Beside an agent she may still claim it by name, for the person's approval.
    generation = project.claim(review, "codex")
    assert project.claim(review, "ann") > generation
