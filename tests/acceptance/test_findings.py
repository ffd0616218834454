"""P11: no finding is lost: it reaches every later round, and its proposer cannot settle it alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.finding import MAJOR, NIT, after_rounds, answered, found
from tests.acceptance.reviewing import OTHER, PROPOSER, REVIEWER, WHY, AgentDesk, Desk, ProposerDesk, edited
from tests.broker import BrokerProcess
from tests.databases import ON_BOTH_DATABASES
from tests.git.sandbox import Sandbox


@ON_BOTH_DATABASES
def test_p11_a_grave_finding_keeps_the_approval_back_until_a_reviewer_settles_it(shop: Desk):
    review = shop.put_up(diff=edited())
    shop.decide(review, "changes_requested", findings=[MAJOR, NIT])
    major, nit = found(shop, review)
    assert (major["severity"], major["blocking"], major["lines"]) == ("major", True, "better")
    assert (nit["severity"], nit["blocking"]) == ("nit", False)
    digest = shop.revise(review, diff=edited(text="best"))["digest"]
    answered(shop, review, major["finding_id"], "fixed")
    generation = shop.claim(review, OTHER)
    with shop.unchanged(review):
        details = shop.refused(
            "OPEN_FINDINGS", "submit_verdict", review_id=review, verdict="approved", claim_generation=generation
        )
    assert [one["finding_id"] for one in details["findings"]] == [major["finding_id"]]
    assert not shop.is_open_for(digest)
    # The number of a claim says whose it is.
    answered(shop, review, major["finding_id"], "verified", claim_generation=generation)
    shop.verdict(review, "approved", generation)
    assert shop.is_open_for(digest)
    assert shop.status(review)["findings"] == {"total": 2, "open": 1, "blocking": 0, "answered": 0}
    counted = shop.do("get_review_stats")["by_reviewer"][REVIEWER]["findings"]
    assert [counted[name] for name in ("blocker", "major", "nit", "verified", "late")] == [0, 1, 1, 1, 0]


def test_p11_a_proposer_settles_nothing_and_a_reviewer_answers_nothing(shop: Desk, broker: BrokerProcess):
    review = shop.put_up(diff=edited())
    shop.decide(review, "changes_requested", findings=[MAJOR])
    (major,) = found(shop, review)
    asked = {"review_id": review, "finding_id": major["finding_id"]}
    with ProposerDesk(broker.url, shop.project) as proposer, shop.unchanged(review):
        proposer.refused("FORBIDDEN", "answer_finding", **asked, answer="verified", claim_generation=1)
        proposer.refused("REASON_REQUIRED", "answer_finding", **asked, answer="refuted", reason=" ")
    with AgentDesk(broker.url, shop.project) as reviewer, shop.unchanged(review):
        reviewer.refused("FORBIDDEN", "answer_finding", **asked, answer="fixed")
        # A person found it: an agent does not settle that, with any claim.
        reviewer.refused("FORBIDDEN", "answer_finding", **asked, answer="verified", reviewer_id=REVIEWER)
    with shop.unchanged(review):
        shop.refused("SELF_APPROVAL", "answer_finding", **asked, answer="verified", reviewer_id=PROPOSER)


def test_p11_no_agent_approves_without_a_word_on_what_is_open_however_small(desk: Desk, label_agents: AgentDesk):
    review = desk.put_up(diff=edited())
    label_agents.decide(review, "changes_requested", findings=[MAJOR, NIT])
    major, nit = (one["finding_id"] for one in found(desk, review))
    desk.revise(review, diff=edited(text="best"))
    said = [{"finding_id": major, "answer": "verified"}]
    approves = {"review_id": review, "verdict": "approved", "reviewer_id": OTHER, "claim": True}
    unsaid = label_agents.refused("OPEN_FINDINGS", "submit_verdict", **approves, answers=said)["findings"]
    told = label_agents.call("submit_verdict", **approves, answers=said)["error"]["message"]
    assert told.startswith(f"Open findings need a word each before an approval: {nit} (nit, ")
    assert [one["finding_id"] for one in unsaid] == [nit]
    # Nor are other small ones approved for those who pass over it.
    odd = {"verdict": "changes_requested", "reason": "Odd.", "findings": [{**NIT, "claim": "Odd, too."}]}
    given = label_agents.do("submit_verdict", **{**approves, **odd}, answers=said, read_all=True)
    assert given["verdict"] == "changes_requested"
    desk.revise(review, diff=edited(text="best of all"))
    still = [
        {"finding_id": one["finding_id"], "answer": "reopened", "reason": "Still odd."}
        for one in found(desk, review, status="open")
    ]
    assert label_agents.do("submit_verdict", **approves, answers=still)["verdict"] == "approved"
    assert [one["state"] for one in found(desk, review)] == ["verified", "reopened", "reopened"]


def test_p11_an_agent_that_approves_over_a_persons_finding_leaves_it_to_the_person(shop: Desk, agents: AgentDesk):
    review = shop.put_up(diff=edited())
    shop.decide(review, "changes_requested", findings=[MAJOR])
    digest = shop.revise(review, diff=edited(text="best"))["digest"]
    given = agents.verdict(review, "approved", agents.claim(review, OTHER))
    assert (given["verdict"], given["status"]) == ("comment", "pending")
    status = shop.status(review)
    assert (status["next_action"], status["turn"]) == ("escalate", "proposer")
    assert REVIEWER in status["attention"]
    assert not shop.is_open_for(digest)
    assert agents.do("claim_review", reviewer_id=OTHER)["review_id"] is None
    agents.refused("INVALID_TRANSITION", "claim_review", review_id=review, reviewer_id=OTHER)
    (major,) = found(shop, review)
    settled = [{"finding_id": major["finding_id"], "answer": "verified"}]
    shop.verdict(review, "approved", shop.claim(review), answers=settled)
    assert shop.is_open_for(digest)


def test_a_persons_request_for_changes_counts_however_small_what_they_wrote(shop: Desk, agents: AgentDesk):
    review = shop.put_up(diff=edited())
    shop.decide(review, "changes_requested", findings=[NIT])
    nit, request = found(shop, review)
    assert (nit["blocking"], request["blocking"], request["claim"]) == (False, True, WHY)
    shop.revise(review, diff=edited(text="best"))
    assert agents.verdict(review, "approved", agents.claim(review, OTHER))["verdict"] == "comment"
    # Who asked for it says that it is made, by approving.
    shop.approve(review)
    assert [one["state"] for one in found(shop, review)] == ["open", "verified"]


def test_what_an_agent_asks_for_small_things_alone_is_approved_with_notes(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=edited())
    given = agents.decide(review, "changes_requested", findings=[NIT], reason="It must not land.", read_all=True)
    assert (given["verdict"], given["status"]) == ("approved", "approved")
    assert given["notes"]
    # Its proposer is told, as is every reader of the review and its log.
    told = shop.status(review)["verdict_reason"]
    assert told.startswith("(Asked for changes; counts as an approval, ")
    assert told.endswith(") It must not land.")
    assert [one["body"] for one in shop.discussion(review) if one["kind"] == "verdict"] == [told]
    # Unless it did not say that it has read all, or sends words without a severity.
    for more in ({"findings": [NIT]}, {"comments": [{"file": "a.txt", "line": 2, "body": "Odd."}], "read_all": True}):
        other = shop.put_up(diff=edited("b.txt"))
        assert agents.decide(other, "changes_requested", **more)["status"] == "changes_requested"


def test_what_was_refuted_goes_back_to_a_reviewer_in_the_same_round(label_agents: AgentDesk, desk: Desk):
    review = desk.put_up(diff=edited())
    label_agents.decide(review, "changes_requested", findings=[MAJOR, {**MAJOR, "line": 1, "severity": "blocker"}])
    first, second = (one["finding_id"] for one in found(desk, review))
    assert answered(desk, review, first, "refuted", reason="It is best.")["status"] == "changes_requested"
    contested = answered(desk, review, second, "deferred", reason="Later.")
    assert (contested["status"], contested["turn"], contested["round"]) == ("pending", "reviewer", 1)
    generation = label_agents.claim(review, OTHER)
    said = [
        {"finding_id": first, "answer": "upheld"},
        {"finding_id": second, "answer": "reopened", "reason": "It is not done."},
    ]
    label_agents.verdict(review, "changes_requested", generation, answers=said)
    assert [one["state"] for one in found(desk, review)] == ["upheld", "reopened"]


def test_p11_a_false_alarm_that_comes_again_is_listed_and_blocks_nothing(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=edited())
    agents.decide(review, "changes_requested", findings=[MAJOR])
    (alarm,) = (one["finding_id"] for one in found(shop, review))
    answered(shop, review, alarm, "refuted", reason="It is best.")
    generation = agents.claim(review, OTHER)
    agents.verdict(review, "approved", generation, answers=[{"finding_id": alarm, "answer": "upheld"}])
    (lesson,) = shop.do("list_lessons", files=["a.txt"])["lessons"]
    assert (lesson["finding_id"], lesson["answer"]) == (alarm, "It is best.")
    for number in range(7):
        again = shop.put_up(diff=edited(), phase=str(number))
        assert agents.decide(again, "approved", findings=[MAJOR])["status"] == "approved"
        (repeated,) = found(shop, again)
        assert (repeated["state"], repeated["suppressed_by"]) == ("suppressed", alarm)
    # Other lines around it end that, and so does a person.
    other = shop.put_up(diff=edited(line=3))
    agents.decide(other, "changes_requested", findings=[MAJOR])
    assert found(shop, other)[0]["state"] == "open"
    shop.do("remove_lesson", finding_id=alarm)
    last = shop.put_up(diff=edited(), phase="last")
    agents.decide(last, "changes_requested", findings=[MAJOR])
    assert found(shop, last)[0]["state"] == "open"


def test_p11_a_blocker_in_other_words_than_the_lesson_is_for_a_person(agents: AgentDesk, shop: Desk):
    review, blocker = shop.put_up(diff=edited()), {**MAJOR, "severity": "blocker"}
    agents.decide(review, "changes_requested", findings=[blocker])
    (alarm,) = (one["finding_id"] for one in found(shop, review))
    answered(shop, review, alarm, "refuted", reason="It is best.")
    generation = agents.claim(review, OTHER)
    agents.verdict(review, "approved", generation, answers=[{"finding_id": alarm, "answer": "upheld"}])
    other_words = {**blocker, "claim": "A name of a user is run as a command."}
    for said, status in ((blocker, "approved"), (other_words, "changes_requested")):
        again = shop.put_up(diff=edited(), phase=status)
        given = agents.decide(again, "changes_requested", findings=[said], read_all=True)
        assert (given["status"], found(shop, again)[0]["state"]) == (status, "suppressed")
    assert "repeats a lesson in other words" in shop.status(again)["attention"]


def test_p11_findings_follow_their_lines_into_later_rounds(agents: AgentDesk, shop: Desk, repo: Sandbox):
    review = shop.put_up(diff=edited(line=5))
    agents.decide(review, "changes_requested", findings=[{**MAJOR, "line": 5}, {**MAJOR, "line": 9}])
    before = repo.read("a.txt").decode().splitlines(keepends=True)
    repo.write("a.txt", "".join(["new\n", *before[:4], "other\n", *before[5:]]))
    shop.revise(review, diff=repo.diff())
    changed, moved = found(shop, review)
    assert (changed["place"]["line"], changed["place"]["changed"]) == (6, True)
    assert (moved["place"]["line"], moved["place"]["changed"]) == (10, False)
    (shown, _) = shop.do("get_review", review_id=review)["findings"]
    assert shown["place"] == changed["place"]


def test_findings_are_found_in_the_files_of_a_branch_that_went_on(agents: AgentDesk, shop: Desk, repo: Sandbox):
    review = shop.put_up(diff=edited(line=5))
    agents.decide(review, "approved", findings=[{**NIT, "line": 5}, {**NIT, "line": 9}])
    before = repo.read("a.txt").decode().splitlines(keepends=True)
    repo.write("a.txt", "".join(["new\n", *before[:4], "better\n", *before[5:8], "gone\n", *before[9:]]))
    repo.commit("land it and go on")
    landed = shop.rows("list_findings", "findings", review_id=review, at="HEAD")
    assert [(one["place"]["line"], one["place"]["changed"]) for one in landed] == [(6, False), (10, True)]
    refused = shop.refused("INVALID_INPUT", "list_findings", review_id=review, at="no-such-branch")
    assert refused["field"] == "at"
    shop.refused("INVALID_INPUT", "list_findings", review_id=review, round=1, at="HEAD")


def test_what_is_found_late_on_old_lines_is_kept_and_does_not_block(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=edited())
    agents.decide(review, "changes_requested", findings=[MAJOR])
    (first,) = found(shop, review)
    shop.revise(review, diff=edited(text="best"))
    late = [{**MAJOR, "line": 9}, {**MAJOR, "line": 8, "severity": "blocker"}]
    generation = agents.claim(review, OTHER)
    said = [{"finding_id": first["finding_id"], "answer": "verified"}]
    agents.verdict(review, "changes_requested", generation, findings=late, answers=said)
    assert [(one["state"], one["blocking"]) for one in found(shop, review)] == [
        ("verified", False),
        ("late", False),
        ("open", True),
    ]


def test_p11_rounds_without_a_reviewer_do_not_count_towards_the_three(label_agents: AgentDesk, desk: Desk):
    review = desk.put_up(diff=edited())
    for number in range(3):
        desk.revise(review, diff=edited(text=f"not looked at {number}"))
    for number in range(1, 4):
        label_agents.decide(review, "changes_requested", findings=[{**MAJOR, "claim": f"Fault {number}."}])
        status = desk.status(review)
        assert (status["objections"], status["next_action"]) == (number, "revise" if number < 3 else "escalate")
        if number < 3:
            desk.revise(review, diff=edited(text=f"try {number}"))
            desk.revise(review, diff=edited(text=f"try {number} once more"))
    status = desk.status(review)
    assert status["attention"] == "3 rounds ended without agreement: a person decides."
    assert status["message"].startswith("3 rounds ended without agreement: a person decides. Stop,")


def test_p11_a_proposer_who_revises_before_the_verdict_does_not_escape_the_three_rounds(
    label_agents: AgentDesk, desk: Desk
):
    review = desk.put_up(diff=edited())
    desk.decide(review, "comment", findings=[NIT])
    desk.revise(review, diff=edited(text="try 1"))
    generation = label_agents.claim(review, OTHER)
    said = {"review_id": review, "sender_role": "reviewer", "body": "Does it compile?", "reviewer_id": OTHER}
    label_agents.do("add_message", **said, claim_generation=generation)
    desk.revise(review, diff=edited(text="try 2"))
    label_agents.decide(review, "changes_requested", findings=[MAJOR])
    status = desk.status(review)
    assert (status["attention"], status["next_action"]) == (
        "3 rounds ended without agreement: a person decides.",
        "escalate",
    )


@pytest.mark.parametrize("asks", ["agent", "person"])
def test_p11_who_may_go_on_by_a_persons_word_revises_and_has_three_rounds_again(
    label_agents: AgentDesk, desk: Desk, broker: BrokerProcess, asks: str
):
    """It is a person who has it go on, or whose own request came last."""
    asker = label_agents if asks == "agent" else desk
    review = desk.put_up(diff=edited())
    text = 0
    for _ in range(2):
        for number in range(1, 4):
            assert desk.status(review)["next_action"] == "wait"
            asker.decide(review, "changes_requested", findings=[{**MAJOR, "claim": f"Fault {text}."}])
            assert desk.status(review)["next_action"] == ("revise" if number < 3 else "escalate")
            if number < 3:
                desk.revise(review, diff=edited(text=f"try {(text := text + 1)}"))
        with Desk(broker.url, desk.project, agent="codex/7") as agent:
            agent.refused("FORBIDDEN", "retry_review", review_id=review)
        onward = desk.do("retry_review", review_id=review)
        assert (onward["next_action"], onward["attention"], onward["objections"]) == ("revise", None, 0)
        assert "Change what verdict_reason asks for" in onward["message"]
        assert desk.status(review)["next_action"] == "revise"
        desk.revise(review, diff=edited(text=f"try {(text := text + 1)}"))


def test_p11_a_person_who_asks_for_changes_in_a_dispute_has_decided_that_it_goes_on(
    label_agents: AgentDesk, desk: Desk
):
    review = after_rounds(label_agents, desk, "changes_requested")
    desk.decide(review, "changes_requested", findings=[MAJOR])
    status = desk.status(review)
    assert (status["next_action"], status["attention"], status["objections"]) == ("revise", None, 0)
    for number in range(1, 4):
        desk.revise(review, diff=edited(text=f"then {number}"))
        label_agents.decide(review, "changes_requested", findings=[{**MAJOR, "claim": f"Then {number}."}])
        assert desk.status(review)["next_action"] == ("revise" if number < 3 else "escalate")


def test_p11_a_finding_that_was_reopened_three_times_goes_to_a_person_again_after_three_more(
    label_agents: AgentDesk, desk: Desk
):
    review = desk.put_up(diff=edited())
    label_agents.decide(review, "changes_requested", findings=[MAJOR])
    (major,) = (one["finding_id"] for one in found(desk, review))
    reopened = [{"finding_id": major, "answer": "reopened", "reason": "It still fails."}]
    for number in range(1, 7):
        answered(desk, review, major, "refuted", reason="It is best.")
        label_agents.verdict(review, "changes_requested", label_agents.claim(review, OTHER), answers=reopened)
        status = desk.status(review)
        assert status["next_action"] == ("escalate" if number in (3, 6) else "revise")
        if number == 3:
            assert desk.do("retry_review", review_id=review)["next_action"] == "revise"
    assert "was answered 6 times" in desk.status(review)["attention"]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"severity": "dreadful"}, "severity"),
    ({"file": None}, "file"),
    ({"line": None, "suggestion": "x"}, "line"),
    ({"end_line": 1}, "end_line"),
    ({"line": 11}, "line"),
    ({"end_line": 11}, "end_line"),
    ({"side": "old", "line": 11}, "line"),
    ({"file": "none.txt"}, "file"),
    ({"file": "none.txt", "line": None}, "file"),
]


def test_a_finding_that_means_nothing_is_refused_with_its_place(shop: Desk):
    review = shop.put_up_claimed(diff=edited())
    sent = {"review_id": review, "verdict": "comment", "reason": WHY, "claim_generation": 1}
    with shop.unchanged(review):
        for wrong, field in WRONG:
            details = shop.refused("INVALID_INPUT", "submit_verdict", **sent, findings=[NIT, {**MAJOR, **wrong}])
            assert details["field"] == f"findings.1.{field}"
            if 11 in wrong.values():
                assert details["lines"] == 10


def test_a_place_that_no_one_can_look_up_is_taken_as_it_is_said(desk: Desk, shop: Desk, repo: Sandbox):
    review = desk.put_up(diff=edited())
    desk.decide(review, "comment", findings=[{**MAJOR, "line": 400}])
    assert found(desk, review)[0]["line"] == 400
    # Of a file that the change deletes something can be said, too.
    repo.git("rm", "-q", "b.txt")
    deleting = shop.put_up(diff=repo.git("diff", "HEAD"))
    shop.decide(deleting, "comment", findings=[{**MAJOR, "file": "b.txt", "line": None}])
    assert [one["file"] for one in found(shop, deleting)] == ["b.txt"]


def test_p11_what_was_approved_is_not_reopened_beside_its_approval(shop: Desk):
    review = shop.put_up(diff=edited())
    shop.decide(review, "changes_requested", findings=[MAJOR])
    (major,) = found(shop, review)
    shop.revise(review, diff=edited(text="best"))
    settled = [{"finding_id": major["finding_id"], "answer": "verified"}]
    shop.verdict(review, "approved", shop.claim(review), answers=settled)
    asked = {"review_id": review, "finding_id": major["finding_id"], "answer": "reopened", "reason": "It came back."}
    with shop.unchanged(review):
        shop.refused("INVALID_TRANSITION", "answer_finding", **asked, reviewer_id=REVIEWER)
    shop.do("withdraw_approval", review_id=review, reason="It came back.")
    assert shop.do("answer_finding", **asked, reviewer_id=REVIEWER)["state"] == "reopened"


def test_the_threshold_is_the_gates_and_a_person_alone_raises_it(shop: Desk):
    # Also while the gate is off.
    shop.refused("FORBIDDEN", "set_gate", enabled=False, threshold="blocker")
    assert shop.do("set_gate", enabled=False, threshold="minor")["threshold"] == "minor"
    shop.do("set_gate", enabled=True, branches=["main"], threshold="minor")
    assert shop.do("get_gate")["threshold"] == "minor"
    details = shop.refused("FORBIDDEN", "set_gate", enabled=True, threshold="blocker")
    assert details["needed"] == "person"
    review = shop.put_up(diff=edited())
    shop.decide(review, "comment", findings=[{**MAJOR, "severity": "medium"}])
    refused = {"review_id": review, "verdict": "approved", "claim_generation": 1}
    shop.refused("OPEN_FINDINGS", "submit_verdict", **refused)


def test_the_findings_of_a_project_come_by_pages(label_agents: AgentDesk, desk: Desk):
    for number in range(3):
        review = desk.put_up(diff=edited(text=f"better {number}"))
        label_agents.decide(review, "changes_requested", findings=[MAJOR, NIT])
    pages = desk.pages("list_findings", status="open", limit=2)
    assert [len(page["findings"]) for page in pages] == [2, 2, 2]
    assert len({one["finding_id"] for page in pages for one in page["findings"]}) == 6


def test_p11_a_lesson_silences_nothing_graver_and_no_person(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=edited())
    agents.decide(review, "changes_requested", findings=[{**MAJOR, "severity": "minor"}])
    (alarm,) = (one["finding_id"] for one in found(shop, review))
    answered(shop, review, alarm, "refuted", reason="It is best.")
    generation = agents.claim(review, OTHER)
    agents.verdict(review, "approved", generation, answers=[{"finding_id": alarm, "answer": "upheld"}])
    for desk, severity, state in ((agents, "nit", "suppressed"), (agents, "blocker", "open"), (shop, "nit", "open")):
        again = shop.put_up(diff=edited(), phase=f"{severity} {state}")
        desk.decide(again, "comment", findings=[{**MAJOR, "severity": severity}])
        # The open ones of the others come along.
        assert found(shop, again)[-1]["state"] == state


def test_p11_who_wrote_the_content_settles_nothing_that_others_found_on_it(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=edited())
    patch = agents.decide(review, "changes_requested", counter_patch=edited(text="patched"))
    shop.accept(review, patch["counter_patch_id"])
    agents.verdict(review, "changes_requested", agents.claim(review, OTHER), findings=[MAJOR])
    [major] = found(shop, review)
    answered(shop, review, major["finding_id"], "refuted", reason="It is.")
    generation = agents.claim(review)
    said = {"review_id": review, "verdict": "approved", "claim_generation": generation}
    for word in ("verified", "upheld"):
        told = [{"finding_id": major["finding_id"], "answer": word}]
        agents.refused("SELF_APPROVAL", "submit_verdict", **said, answers=told)


def test_what_still_fails_without_an_answer_is_reopened_and_counts_as_no_answer(label_agents: AgentDesk, desk: Desk):
    review = desk.put_up(diff=edited())
    label_agents.decide(review, "changes_requested", findings=[MAJOR])
    [major] = found(desk, review)
    desk.revise(review, diff=edited(text="best"))
    still = [{"finding_id": major["finding_id"], "answer": "reopened", "reason": "As before."}]
    label_agents.decide(review, "changes_requested", answers=still)
    [now] = found(desk, review)
    assert (now["state"], now["settled_reason"], now["blocking"]) == ("reopened", "As before.", True)


def test_a_deleted_line_is_never_found_late(agents: AgentDesk, shop: Desk, repo: Sandbox):
    review = shop.put_up(diff=edited())
    agents.decide(review, "changes_requested", findings=[MAJOR])
    (first,) = found(shop, review)
    repo.write("a.txt", "".join(f"line {number}\n" for number in range(1, 11) if number != 7))
    shop.revise(review, diff=repo.diff())
    said = [{"finding_id": first["finding_id"], "answer": "verified"}]
    gone = {**MAJOR, "line": 7, "side": "old", "claim": "It is needed."}
    generation = agents.claim(review, OTHER)
    agents.verdict(review, "changes_requested", generation, findings=[gone], answers=said, read_all=True)
    assert [one["state"] for one in found(shop, review)] == ["verified", "open"]


def test_who_answered_for_the_proposer_does_not_judge_that(broker: BrokerProcess, shop: Desk, agents: AgentDesk):
    review = shop.put_up(diff=edited())
    agents.decide(review, "changes_requested", findings=[MAJOR])
    (major,) = found(shop, review)
    with Desk(broker.url, shop.project, agent="ann") as ann:
        answered(ann, review, major["finding_id"], "refuted", reason="It is best.")
        ann.claim(review, "ann")
        said = [{"finding_id": major["finding_id"], "answer": "upheld"}]
        ann.refused(
            "SELF_APPROVAL", "submit_verdict", review_id=review, verdict="approved", claim_generation=2, answers=said
        )


def test_an_agent_that_calls_by_the_name_of_its_client_is_no_person(broker: BrokerProcess, shop: Desk):
    review = shop.put_up(diff=edited())
    shop.decide(review, "changes_requested", findings=[MAJOR])
    (major,) = found(shop, review)
    asked = {"review_id": review, "finding_id": major["finding_id"], "answer": "verified"}
    for agent, name in (("claude-code", REVIEWER), ("Codex/2", REVIEWER), (None, "gemini"), (None, "CODEX/1")):
        with Desk(broker.url, shop.project, agent=agent) as desk:
            desk.refused("FORBIDDEN" if agent else "NOT_CLAIMANT", "answer_finding", **asked, reviewer_id=name)


def test_a_reviewer_that_claims_is_told_what_was_found_and_what_was_none(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=edited())
    agents.decide(review, "changes_requested", findings=[MAJOR, {**MAJOR, "line": 5, "category": "tests"}])
    first, second = (one["finding_id"] for one in found(shop, review))
    for one in (first, second):
        answered(shop, review, one, "refuted", reason="It is best.")
    told = agents.do("claim_review", review_id=review, reviewer_id=OTHER)
    assert [one["finding_id"] for one in told["findings"]] == [first, second]
    said = [{"finding_id": first, "answer": "upheld"}, {"finding_id": second, "answer": "upheld"}]
    agents.verdict(review, "approved", told["claim_generation"], answers=said)
    other = shop.put_up(diff=edited(text="other"))
    told = agents.do("claim_review", review_id=other, reviewer_id=OTHER)
    assert (told["findings"], len(told["lessons"])) == ([], 2)


def test_p11_the_projects_threshold_holds_for_the_same_content_elsewhere(agents: AgentDesk, shop: Desk):
    shop.do("set_gate", enabled=True, branches=["main"], threshold="minor")
    review, other = shop.put_up(diff=edited()), shop.put_up(diff=edited(), phase="2")
    shop.decide(review, "comment", findings=[{**MAJOR, "severity": "minor"}])
    assert agents.decide(other, "approved")["verdict"] == "comment"


def test_a_small_comment_in_a_later_round_needs_no_person(label_agents: AgentDesk, desk: Desk):
    review = desk.put_up(diff=edited())
    for number in range(1, 4):
        desk.revise(review, diff=edited(text=f"try {number}"))
    assert label_agents.decide(review, "comment", findings=[NIT])["status"] == "in_review"
    assert desk.status(review)["attention"] is None


@pytest.mark.parametrize("verdict", ["comment", "changes_requested"])
def test_p11_a_dispute_stays_a_persons_until_a_verdict_or_a_retry(
    label_agents: AgentDesk, desk: Desk, broker: BrokerProcess, verdict: str
):
    review = after_rounds(label_agents, desk, verdict)
    status = desk.status(review)
    why = status["attention"]
    assert (status["next_action"], "3 rounds" in why) == ("escalate", True)
    for number in range(2):
        generation = desk.claim(review)
        held = desk.status(review)
        assert (held["attention"], held["next_action"]) == (None, "wait")
        desk.do("release_claim", review_id=review, claim_generation=generation)
        assert desk.status(review)["attention"] == why
        assert label_agents.do("claim_review", reviewer_id=OTHER)["review_id"] is None
        label_agents.refused("INVALID_TRANSITION", "claim_review", review_id=review, reviewer_id=OTHER)
        # On a trusted broker's command line it states its name.
        with Desk(broker.url, desk.project, agent="codex/7") as agent:
            agent.refused("INVALID_TRANSITION", "claim_review", review_id=review, reviewer_id=OTHER)
            agent.refused("FORBIDDEN", "retry_review", review_id=review)
        desk.revise(review, diff=edited(text=f"once more {number}"))
    if verdict == "comment":
        desk.do("retry_review", review_id=review)
        assert label_agents.do("claim_review", reviewer_id=OTHER)["review_id"] == review
    else:
        desk.verdict(review, verdict, desk.claim(review))
        assert desk.status(review)["attention"] is None
        desk.revise(review, diff=edited(text="as told"))
        assert label_agents.do("claim_review", reviewer_id=OTHER)["review_id"] == review


@ON_BOTH_DATABASES
def test_p1_a_verdict_claims_in_the_same_step_and_refused_leaves_all_as_it_was(shop: Desk, agents: AgentDesk):
    review = shop.put_up(diff=edited())
    agents.decide(review, "changes_requested", findings=[MAJOR])
    (major,) = found(shop, review)
    approves: dict[str, Any] = {"review_id": review, "verdict": "approved", "claim": True}
    with shop.unchanged(review):
        shop.refused("OPEN_FINDINGS", "submit_verdict", **approves, reviewer_id=OTHER)
        shop.refused("SELF_APPROVAL", "submit_verdict", **approves, reviewer_id=PROPOSER)
        shop.refused("INVALID_INPUT", "submit_verdict", **approves)
    settled = [{"finding_id": major["finding_id"], "answer": "verified"}]
    shop.do("submit_verdict", **approves, reviewer_id=OTHER, answers=settled)
    assert shop.kinds(review)[-2:] == ["review_claimed", "verdict_submitted"]
    held = shop.put_up_claimed(diff=edited("b.txt"))
    with shop.unchanged(held):
        shop.refused("ALREADY_CLAIMED", "submit_verdict", **{**approves, "review_id": held}, reviewer_id=OTHER)
    patched = {"verdict": "changes_requested", "reason": WHY, "counter_patch": edited("b.txt", text="patched")}
    shop.do("submit_verdict", review_id=held, claim=True, reviewer_id=REVIEWER, **patched)
    assert shop.status(held)["counter_patch_status"] == "pending"
