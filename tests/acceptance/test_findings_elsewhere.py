"""P11: a finding counts wherever its content, or the bytes of its file, come again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.accessing import Bearer
from tests.acceptance.finding import MAJOR, NIT, after_rounds, answered, found
from tests.acceptance.reviewing import OTHER, PROPOSER, REVIEWER, AgentDesk, Desk, ProposerDesk, edited
from tests.broker import BrokerProcess
from tests.databases import ON_BOTH_DATABASES
from tests.git.sandbox import Sandbox, new_file
from tests.modes import VARIATION

pytest_plugins = ["tests.acceptance.accessing_brokers"]


def test_p11_no_finding_hides_another_where_the_same_content_comes_again(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=edited())
    grave, small = {**MAJOR, "severity": "blocker"}, {**MAJOR, "severity": "nit", "line": 9}
    agents.decide(review, "changes_requested", findings=[MAJOR, grave, small])
    first = found(shop, review)[0]["finding_id"]
    agents.decide(review, "changes_requested", answers=[{"finding_id": first, "answer": "verified"}])
    shop.do("close_review", review_id=review)
    again = shop.put_up(diff=edited())
    assert [(one["severity"], one["blocking"]) for one in found(shop, again)] == [("blocker", True), ("nit", False)]
    # A finding that was verified in another review may be right again.
    agents.decide(again, "changes_requested", findings=[MAJOR])
    shop.do("close_review", review_id=again)
    last = shop.put_up(diff=edited())
    assert sorted(one["severity"] for one in found(shop, last)) == ["blocker", "major", "nit"]


def test_p11_reviews_without_findings_hide_none_of_the_same_content(agents: AgentDesk, shop: Desk):
    first, *others = (shop.put_up(diff=edited(), phase=str(number)) for number in range(7))
    agents.decide(first, "changes_requested", findings=[MAJOR])
    for one in (first, *others):
        shop.do("close_review", review_id=one)
    assert [one["blocking"] for one in found(shop, shop.put_up(diff=edited()))] == [True]


def test_p11_what_was_found_late_blocks_nothing_once_it_is_answered(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=edited())
    agents.decide(review, "changes_requested", findings=[NIT])
    digest = shop.revise(review, diff=edited(text="best"))["digest"]
    small = [{"finding_id": found(shop, review)[0]["finding_id"], "answer": "reopened", "reason": "Still odd."}]
    agents.decide(review, "approved", findings=[{**MAJOR, "line": 9}], answers=small)
    late = found(shop, review)[1]["finding_id"]
    assert answered(shop, review, late, "refuted", reason="It is best.")["counts"]["blocking"] == 0
    assert (found(shop, review)[1]["state"], found(shop, review)[1]["answer"]) == ("late", "It is best.")
    assert shop.is_open_for(digest)


def test_p11_what_a_person_found_counts_for_its_content_after_the_review_went_on(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=edited())
    shop.decide(review, "changes_requested", findings=[MAJOR])
    shop.revise(review, diff=edited(text="other"))
    again = shop.put_up(diff=edited(), phase="2")
    assert agents.decide(again, "approved")["verdict"] == "comment"
    shop.do("close_review", review_id=review)
    shop.do("close_review", review_id=again)
    assert [one["blocking"] for one in found(shop, shop.put_up(diff=edited()))] == [True]


def test_p11_no_second_review_of_the_content_gets_around_what_is_open_in_the_first(agents: AgentDesk, shop: Desk):
    review, other = shop.put_up(diff=edited()), shop.put_up(diff=edited(), phase="2")
    agents.decide(review, "changes_requested", findings=[MAJOR])
    given = agents.decide(other, "approved")
    assert (given["verdict"], shop.status(other)["next_action"]) == ("comment", "escalate")
    assert review in shop.status(other)["attention"]
    assert shop.decide(other, "approved")["verdict"] == "approved"


def both(text: str = "better") -> str:
    """A diff that replaces the second line of two files."""
    return edited(text=text) + edited("b.txt", text="other")


@ON_BOTH_DATABASES
def test_p11_what_is_open_on_a_file_counts_wherever_another_change_brings_the_same_file(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=edited())
    agents.decide(review, "changes_requested", findings=[{**MAJOR, "line": None}])
    assert blocked(shop, agents, diff=both())
    # Nor do small findings of who has read all approve it. With other bytes of that file nothing stands against it.
    again, other = shop.put_up(diff=both(), phase="2"), shop.put_up(diff=both("best"))
    assert agents.decide(again, "changes_requested", findings=[NIT], read_all=True)["status"] == "changes_requested"
    assert agents.decide(other, "approved")["verdict"] == "approved"


def test_p11_a_finding_on_a_file_goes_on_with_a_change_that_brings_that_file_again(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=both("best"))
    shop.decide(review, "changes_requested", findings=[MAJOR, {**MAJOR, "file": "b.txt", "claim": "Of the other."}])
    shop.do("close_review", review_id=review)
    (kept,) = found(shop, shop.put_up(diff=edited(text="best")))
    assert (kept["file"], kept["claim"], kept["blocking"]) == ("a.txt", MAJOR["claim"], True)
    assert found(shop, shop.put_up(diff=edited(text="third"))) == []
    text = "# Plan\n"
    plan = shop.put_up(path="plan.md", description=text)
    agents.decide(plan, "changes_requested", findings=[{**MAJOR, "file": "plan.md", "line": 1}])
    shop.do("close_review", review_id=plan)
    diff = (
        "diff --git a/plan.md b/plan.md\nnew file mode 100644\n--- /dev/null\n+++ b/plan.md\n@@ -0,0 +1 @@\n+# Plan\n"
    )
    assert [one["blocking"] for one in found(shop, shop.put_up(diff=diff))] == [True]


def test_p11_a_finding_goes_on_with_a_change_that_makes_its_lines_again_among_others(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=edited())
    agents.decide(review, "changes_requested", findings=[MAJOR])
    shop.do("close_review", review_id=review)
    more = "@@ -7,3 +7,3 @@\n line 7\n-line 8\n+more\n line 9\n"
    (kept,) = found(shop, shop.put_up(diff=edited() + more))
    assert (kept["file"], kept["line"], kept["blocking"]) == ("a.txt", MAJOR["line"], True)
    # Not with one that leaves these lines as they were.
    assert found(shop, shop.put_up(diff=edited(line=8, text="more"))) == []


@pytest.mark.parametrize("way", ["twin", "revised", "retried"])
def test_p11_a_proposer_who_closes_a_review_rids_no_other_of_its_findings(agents: AgentDesk, shop: Desk, way: str):
    review = shop.put_up(diff=edited())
    other = shop.put_up(diff=edited("b.txt" if way == "revised" else "a.txt"), phase="2")
    agents.decide(review, "changes_requested", findings=[MAJOR])
    if way == "retried":
        assert agents.decide(other, "approved")["verdict"] == "comment"
    shop.do("close_review", review_id=review)
    if way == "revised":
        shop.revise(other, diff=edited())
    if way == "retried":
        shop.do("retry_review", review_id=other)
    if way == "revised":
        agents.refused(
            "OPEN_FINDINGS", "submit_verdict", review_id=other, verdict="approved", reviewer_id=OTHER, claim=True
        )
    else:
        assert agents.decide(other, "approved")["verdict"] == "comment"
        assert review in shop.status(other)["attention"]


def test_p11_what_a_reviewer_settles_where_it_goes_on_needs_nothing_more(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=edited())
    whole = {"severity": "major", "claim": "Of the whole."}
    agents.decide(review, "changes_requested", findings=[MAJOR, whole])
    shop.do("close_review", review_id=review)
    again = shop.put_up_whole(diff=edited())
    settled = [{"finding_id": one["finding_id"], "answer": "verified"} for one in found(shop, again["review_id"])]
    assert len(settled) == 2
    agents.decide(again["review_id"], "approved", answers=settled)
    assert shop.is_open_for(again["digest"])


def test_p11_what_is_settled_on_other_bytes_says_nothing_of_these(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=edited())
    agents.decide(review, "changes_requested", findings=[MAJOR, {"severity": "major", "claim": "Of the whole."}])
    shop.do("close_review", review_id=review)
    other = shop.put_up(diff=edited(text="best"), parent_id=review)
    agents.decide(
        other,
        "comment",
        answers=[{"finding_id": one["finding_id"], "answer": "verified"} for one in found(shop, other)],
    )
    shop.revise(other, diff=edited())
    settled = [{"finding_id": found(shop, other)[0]["finding_id"], "answer": "verified"}]
    assert agents.decide(other, "approved", answers=settled)["verdict"] == "comment"


def test_p11_a_finding_that_goes_on_keeps_its_lines_and_says_whether_they_changed(
    agents: AgentDesk, shop: Desk, repo: Sandbox
):
    review = shop.put_up(diff=both())
    other = {**MAJOR, "file": "b.txt", "end_line": 3, "suggestion": "best\n"}
    agents.decide(review, "rejected", findings=[MAJOR, other])
    same, parent = shop.put_up(diff=both()), {"parent_id": review}
    for one in found(shop, same):
        assert (one["line"], one["suggestion"]) == (2, "best\n" if one["file"] == "b.txt" else None)
        assert one["place"]["changed"] is False
    for name, text in (("a.txt", "best"), ("b.txt", "other")):
        lines = ["first", "line 1", text, *(f"line {number}" for number in range(3, 11))]
        repo.write(name, "".join(f"{line}\n" for line in lines))
    first, second = found(shop, shop.put_up(diff=repo.diff(), **parent))
    assert (first["line"], first["lines"], first["place"]["line"]) == (3, "better", 3)
    assert first["place"]["changed"] is True
    assert (second["line"], second["end_line"], second["suggestion"]) == (3, 4, "best\n")
    assert second["place"]["changed"] is False


MORE = edited().replace(" line 3", " line 3\n-line 4\n+more\n line 5").replace("1,3", "1,5")
"""The same with another line of the file."""


@pytest.mark.parametrize("again", [both(), MORE], ids=["another file", "another line"])
def test_p11_a_fault_that_comes_back_is_open_again(agents: AgentDesk, shop: Desk, again: str):
    review = shop.put_up(diff=edited())
    agents.decide(review, "changes_requested", findings=[MAJOR, {**MAJOR, "line": 9, "claim": "It stays as it is."}])
    shop.revise(review, diff=edited(text="best"))
    named = [one["finding_id"] for one in found(shop, review)]
    answered(shop, review, named[0], "fixed")
    agents.decide(review, "approved", answers=[{"finding_id": one, "answer": "verified"} for one in named])
    # A round that leaves it corrected says nothing.
    shop.revise(review, diff=edited(text="best") + edited("b.txt", text="else"))
    assert [one["state"] for one in found(shop, review)] == ["verified", "verified"]
    digest = shop.revise(review, diff=again)["digest"]
    back, other = found(shop, review)
    assert (back["state"], back["blocking"], back["settled_by"]) == ("reopened", True, "broker")
    assert other["state"] == ("verified" if again == MORE else "reopened")
    claimed = agents.do("claim_review", review_id=review, reviewer_id=OTHER)
    assert named[0] in [one["finding_id"] for one in claimed["findings"]]
    agents.refused(
        "OPEN_FINDINGS", "submit_verdict", review_id=review, verdict="approved",
        claim_generation=claimed["claim_generation"],
    )  # fmt: skip
    assert not shop.is_open_for(digest)


def test_p11_a_counter_patch_brings_a_fault_back_as_a_revision_does(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=edited())
    agents.decide(review, "changes_requested", findings=[MAJOR, {"severity": "major", "claim": "Of the whole."}])
    shop.revise(review, diff=edited(text="best"))
    settled = [{"finding_id": one["finding_id"], "answer": "verified"} for one in found(shop, review)]
    patch = agents.decide(review, "changes_requested", answers=settled, counter_patch=edited())
    assert [one["state"] for one in found(shop, review)] == ["verified", "verified"]
    shop.accept(review, patch["counter_patch_id"])
    assert [one["state"] for one in found(shop, review)] == ["reopened", "reopened"]


def blocked(desk: Desk, agents: AgentDesk, **proposal: Any) -> bool:
    """Whether no agent's approval of another change opens the gate: it is refused, or waits for a person."""
    put_up = desk.put_up_whole(**proposal)
    approves = {"review_id": put_up["review_id"], "verdict": "approved", "reviewer_id": OTHER, "claim": True}
    given = agents.call("submit_verdict", **approves, read_all=True)
    is_refused = not given["ok"] and given["error"]["code"] in ("OPEN_FINDINGS", "INVALID_TRANSITION")
    return (is_refused or given["data"]["verdict"] == "comment") and not desk.is_open_for(put_up["digest"])


@pytest.mark.parametrize("verdict", ["changes_requested", "rejected"])
def test_p11_what_a_person_decided_against_a_change_holds_for_its_parts(agents: AgentDesk, shop: Desk, verdict: str):
    review = shop.put_up(diff=both())
    shop.decide(review, verdict, reason="The wrong design.")
    [request] = found(shop, review)
    assert (request["claim"], request["source"], request["blocking"]) == ("The wrong design.", "person", True)
    for part in (edited("a.txt"), edited("b.txt", text="other"), both()):
        assert blocked(shop, agents, diff=part)
    assert not blocked(shop, agents, diff=edited("a.txt", text="best"))


def test_p11_a_finding_counts_for_every_round_in_which_it_was_open(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=edited(text="good"))
    shop.decide(review, "changes_requested", findings=[{**MAJOR, "line": 9}])
    shop.revise(review, diff=edited())
    assert blocked(shop, agents, diff=edited())
    shop.do("close_review", review_id=review)
    again = shop.put_up(diff=edited())
    assert [(one["line"], one["state"]) for one in found(shop, again)] == [(9, "open")]


def test_p11_a_fault_that_was_corrected_comes_back_with_its_bytes_only(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=both())
    shop.decide(review, "changes_requested", findings=[MAJOR])
    shop.revise(review, diff=both("best"))
    [fault] = found(shop, review)
    shop.decide(review, "approved", answers=[{"finding_id": fault["finding_id"], "answer": "verified"}])
    again, corrected = shop.put_up(diff=edited()), shop.put_up(diff=edited(text="best"))
    assert [(one["state"], one["settled_reason"]) for one in found(shop, again)] == [
        ("reopened", "Its lines are back.")
    ]
    assert found(shop, corrected) == []


def test_p11_what_was_settled_once_does_not_rise_again_with_the_same_content(agents: AgentDesk, shop: Desk):
    reviews: list[str] = []
    for _ in range(3):
        reviews.append(shop.put_up(diff=edited()))
        if len(reviews) == 1:
            shop.decide(reviews[0], "changes_requested", findings=[MAJOR])
        shop.do("close_review", review_id=reviews[-1])
    last = shop.put_up(diff=edited())
    [fault] = found(shop, last)
    said = {"finding_id": fault["finding_id"], "reason": "It is meant so."}
    shop.do("answer_finding", review_id=last, answer="refuted", **said)
    shop.decide(last, "approved", answers=[{**said, "answer": "upheld"}])
    assert not blocked(shop, agents, diff=edited(), phase="2")


def test_p11_a_person_hears_of_a_persons_finding_on_the_same_content(agents: AgentDesk, shop: Desk):
    first, second = shop.put_up(diff=edited()), shop.put_up(diff=edited(), phase="2")
    shop.decide(first, "changes_requested", findings=[MAJOR])
    [fault] = found(shop, first)
    generation = shop.claim(second, "wanda")
    approval = {"review_id": second, "verdict": "approved", "reviewer_id": "wanda", "claim_generation": generation}
    envelope = shop.call("submit_verdict", **approval)
    assert envelope["error"]["code"] == "OPEN_FINDINGS"
    assert first in envelope["error"]["message"]
    settled = {"finding_id": fault["finding_id"], "answer": "verified", "reviewer_id": "wanda"}
    shop.do("answer_finding", review_id=first, **settled)
    shop.do("submit_verdict", **approval)


def test_p11_who_finds_a_fault_hears_where_the_same_content_is_approved(agents: AgentDesk, shop: Desk):
    first, second = shop.put_up(diff=edited()), shop.put_up(diff=edited(), phase="2")
    agents.decide(first, "approved")
    [note] = shop.decide(second, "changes_requested", findings=[MAJOR])["notes"]
    assert note.startswith(f"{first} approves the same content")


def test_p11_no_agent_approves_again_what_a_person_withdrew(agents: AgentDesk, shop: Desk):
    created = shop.put_up_whole(diff=edited())
    review = created["review_id"]
    agents.decide(review, "approved")
    shop.do("withdraw_approval", review_id=review, withdrawn_by="rita", reason="It loses data.")
    [request] = found(shop, review)
    assert (request["claim"], request["author"], request["blocking"]) == ("It loses data.", "rita", True)
    assert agents.decide(review, "approved")["verdict"] == "comment"
    assert not shop.is_open_for(created["digest"])


@pytest.mark.parametrize("way", ["release", "revise"])
def test_a_person_who_commented_reads_the_answer_before_an_agent_decides(label_agents: AgentDesk, desk: Desk, way: str):
    review = desk.put_up(diff=edited())
    generation = desk.claim(review, "rita")
    desk.verdict(review, "comment", generation, reviewer_id="rita", reason="Does this lose data?")
    if way == "release":
        desk.do("release_claim", review_id=review, claim_generation=generation)
    else:
        desk.revise(review, diff=edited(text="best"))
    assert "rita" in desk.status(review)["attention"]
    label_agents.refused("INVALID_TRANSITION", "claim_review", review_id=review, reviewer_id="rev-1")


WIDER = new_file("notes.txt")
"""A part that another change has besides."""


def test_p11_a_fault_in_a_file_that_a_change_leaves_alone_counts_for_each_of_its_parts(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=edited() + new_file("more.txt"))
    shop.decide(review, "rejected", findings=[{**MAJOR, "file": "b.txt"}])
    assert blocked(shop, agents, diff=edited() + WIDER)
    assert blocked(shop, agents, diff=new_file("more.txt"))
    assert not blocked(shop, agents, diff=edited(text="best") + new_file("other.txt"))


def test_p11_a_request_that_was_met_is_open_again_where_a_part_of_its_change_comes_back(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=edited())
    shop.decide(review, "changes_requested", reason="The wrong design.")
    shop.revise(review, diff=edited(text="best"))
    shop.decide(review, "approved")
    assert blocked(shop, agents, diff=edited() + WIDER)
    assert not blocked(shop, agents, diff=edited(text="best") + new_file("other.txt"))
    shop.revise(review, diff=edited() + WIDER)
    assert [(one["claim"], one["state"]) for one in found(shop, review)] == [("The wrong design.", "reopened")]
    # A round that only takes the correction out again brings it back, too.
    untested = shop.put_up(diff=edited(text="other"))
    shop.decide(untested, "changes_requested", reason="It has no test.")
    shop.revise(untested, diff=edited(text="other") + new_file("test.txt"))
    shop.decide(untested, "approved")
    shop.revise(untested, diff=edited(text="other"))
    assert [one["state"] for one in found(shop, untested)] == ["reopened"]


def test_p11_no_number_of_findings_hides_one(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=edited())
    many = [{**MAJOR, "severity": "blocker", "claim": f"Fault {number}"} for number in range(200)]
    generation = agents.claim(review)
    agents.verdict(review, "comment", generation, findings=many)
    agents.do("release_claim", review_id=review, claim_generation=generation)
    shop.decide(review, "rejected", findings=[MAJOR])
    again = shop.put_up(diff=edited())
    assert len(shop.rows("list_findings", "findings", review_id=again, limit=200)) == 201


def test_p11_who_wrote_the_content_settles_nothing_on_it_in_another_review(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=edited())
    shop.decide(review, "rejected", findings=[MAJOR])
    again = shop.put_up(diff=edited(), proposer_id="bot")
    [fault] = found(shop, again)
    said = [{"finding_id": fault["finding_id"], "answer": "verified"}]
    own = {"review_id": again, "claim": True, "verdict": "approved", "answers": said}
    told = shop.refused("SELF_APPROVAL", "submit_verdict", **own, reviewer_id=PROPOSER)
    assert told["finding_id"] == fault["finding_id"]
    assert shop.do("submit_verdict", **own, reviewer_id=REVIEWER)["status"] == "approved"


def test_p11_a_name_with_other_names_in_it_is_one_name(shop: Desk):
    odd = f"{PROPOSER}\n{OTHER}"
    shop.decide(shop.put_up(diff=edited(), proposer_id=odd), "rejected", findings=[MAJOR])
    again = shop.put_up(diff=edited(), proposer_id="bot")
    said = [{"finding_id": found(shop, again)[0]["finding_id"], "answer": "verified"}]
    verdict = {"review_id": again, "claim": True, "verdict": "approved", "answers": said}
    shop.refused("SELF_APPROVAL", "submit_verdict", **verdict, reviewer_id=odd)
    assert shop.do("submit_verdict", **verdict, reviewer_id=OTHER)["status"] == "approved"


@pytest.mark.parametrize("way", ["same", pytest.param("follows", marks=VARIATION), "open"])
def test_p11_a_new_review_waits_for_a_person_as_the_one_that_it_goes_on_with(
    agents: AgentDesk, shop: Desk, broker: BrokerProcess, way: str
):
    review = after_rounds(agents, shop, "changes_requested")
    why = shop.status(review)["attention"]
    with ProposerDesk(broker.url, shop.project, agent=PROPOSER) as proposer:
        for _ in range(2):
            if way != "open":
                proposer.do("close_review", review_id=review)
            changed = edited(text="try 2") if way == "same" else edited(text="else")
            review = proposer.put_up(diff=changed, parent_id=None if way == "same" else review)
            status = shop.status(review)
            assert (status["attention"], status["objections"], status["next_action"]) == (why, 3, "escalate")
            agents.refused("INVALID_TRANSITION", "claim_review", review_id=review, reviewer_id=OTHER)
    shop.do("retry_review", review_id=review)
    status = shop.status(review)
    assert (status["attention"], status["objections"], status["next_action"]) == (None, 0, "wait")
    assert agents.do("claim_review", reviewer_id=OTHER)["review_id"] == review


@pytest.mark.parametrize("way", ["closed", "rejected"])
def test_p11_a_person_who_ends_a_review_ends_its_dispute(
    agents: AgentDesk, shop: Desk, broker: BrokerProcess, way: str
):
    review = after_rounds(agents, shop, "changes_requested")
    if way == "closed":
        with Desk(broker.url, shop.project, agent="ann") as ann:
            ann.do("close_review", review_id=review)
    else:
        shop.decide(review, "rejected")
    status = shop.status(shop.put_up(diff=edited(text="try 2"), parent_id=review))
    assert (status["attention"], status["objections"]) == (None, 0)


@pytest.mark.parametrize("how", ["message", "comment", "counter-patch"])
def test_p11_no_round_follows_three_that_were_objected_to_however_until_a_person_decides(
    label_agents: AgentDesk, desk: Desk, how: str
):
    review = desk.put_up(diff=edited())
    text = 0
    for _ in range(2):
        generation = 0
        for number in range(1, 4):
            assert desk.status(review)["attention"] is None
            if how != "counter-patch" or number == 1:
                generation = label_agents.claim(review, OTHER)
            if how == "message":
                label_agents.say(review, "reviewer", claim_generation=generation)
            text += 1
            patch = edited(text=f"try {text}")
            if how == "counter-patch":
                given = label_agents.verdict(review, "comment", generation, counter_patch=patch, round=text)
                desk.accept(review, given["counter_patch_id"])
                continue
            if how == "comment":
                label_agents.verdict(review, "comment", generation)
            desk.revise(review, diff=patch)
        status = desk.status(review)
        assert (status["status"], status["next_action"], status["objections"]) == ("pending", "escalate", 3)
        assert status["attention"] == "3 rounds ended without agreement: a person decides."
        label_agents.refused("INVALID_TRANSITION", "claim_review", review_id=review, reviewer_id=OTHER)
        desk.do("retry_review", review_id=review)
    desk.approve(review)
    desk.revise(review, diff=edited(text="more"))
    assert desk.status(review)["attention"] is None


def test_p11_the_count_begins_again_with_the_request_of_who_is_a_person_for_sure(owner: Bearer):
    with (
        owner.give("prop", "proposer") as proposer,
        owner.give("ann", "reviewer", "operator") as ann,
        owner.give("bot", "reviewer") as bot,
    ):
        review = proposer.put_up(diff=edited(), proposer_id="prop")
        for number in range(1, 5):
            bot.verdict(review, "comment", bot.claim(review, "bot"))
            bot.do("release_claim", review_id=review, claim_generation=bot.status(review)["claim_generation"])
            ann.verdict(review, "changes_requested", ann.claim(review, "ann"))
            status = proposer.status(review)
            assert (status["next_action"], status["objections"]) == ("revise", 0)
            proposer.revise(review, diff=edited(text=f"try {number}"), proposer_id="prop")
