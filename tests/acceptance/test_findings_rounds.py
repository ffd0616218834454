"""P11: from round to round: late findings, questions of persons, and the words for a proposer."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from tandem.git.hunks import parse
from tests.acceptance.finding import MAJOR, found
from tests.acceptance.reviewing import OTHER, PROPOSER, REVIEWER, AgentDesk, Desk, ProposerDesk, edited
from tests.acceptance.test_findings_again import added
from tests.broker import BrokerProcess
from tests.commandline import ShellInside
from tests.modes import VARIATION

TRANSFER = (
    "def transfer(a, amount):",
    "    a.lock()",
    "    check_limits(a, amount)",
    "    a.take(amount)",
    "    a.unlock()",
)


@pytest.fixture
def files() -> Mapping[str, bytes]:
    """What the repository of `shell` has."""
    return {"a.txt": b"".join(b"line %d\n" % number for number in range(1, 11))}


def fault(line: int) -> dict[str, object]:
    """A grave finding on a line of `m.py`."""
    return {"file": "m.py", "line": line, "severity": "major", "claim": f"Fault of {line}."}


def found_late(agents: AgentDesk, shop: Desk, before: list[str], after: list[str]) -> tuple[set[int], set[int]]:
    """The lines on which findings are late in the round after one that was objected to, and those that it added."""
    review = shop.put_up(diff=added("m.py", *before))
    agents.decide(review, "changes_requested", findings=[fault(1)])
    shop.revise(review, diff=added("m.py", *after))
    agents.decide(review, "comment", findings=[fault(line) for line in range(1, len(after) + 1)])
    late = {one["line"] for one in found(shop, review) if one["state"] == "late"}
    shown = parse(shop.do("get_proposal", review_id=review, since_round=1)["interdiff"])
    lines = (line for file in shown for hunk in file.hunks for line in hunk.lines)

    return late, {line.new_number or 0 for line in lines if line.kind == "added"}


def test_p11_a_line_that_moved_past_another_is_not_found_late(agents: AgentDesk, shop: Desk):
    _, lock, check, take, unlock = TRANSFER
    late, new = found_late(agents, shop, [*TRANSFER], ["def pay(a, amount):", lock, take, check, unlock])
    assert {2, 5} <= late <= {2, 3, 5}
    assert 4 in new


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=VARIATION) for seed in (1, 2))])
def test_p11_no_line_that_the_changes_since_show_as_added_is_found_late(agents: AgentDesk, shop: Desk, seed: int):
    chance = random.Random(seed)
    before = [
        chance.choice([f"line {seed} {number}", "    }", "    return"]) for number in range(chance.randint(6, 14))
    ]
    after = [*before]
    for _ in range(chance.randint(1, 4)):
        after.insert(chance.randrange(len(after)), after.pop(chance.randrange(len(after))))
    after[chance.randrange(len(after))] = f"other {seed}"
    late, new = found_late(agents, shop, before, after)
    assert late <= set(range(1, len(after) + 1)) - new


def asked(shop: Desk, review: str, *, holds: bool = False) -> None:
    """Alice, a person, asks something under a claim, and lets go of it."""
    generation = shop.claim(review, "alice")
    shop.say(review, "reviewer", "Who calls it?", claim_generation=generation)
    if not holds:
        shop.do("release_claim", review_id=review, claim_generation=generation)


@pytest.mark.parametrize(
    "way",
    [
        "closed",
        "open",
        "parent",
        "round",
        *(pytest.param(way, marks=VARIATION) for way in ("revised", "held", "answered")),
    ],
)
def test_p11_no_new_review_or_round_shakes_the_question_of_a_person_off(
    agents: AgentDesk, shop: Desk, broker: BrokerProcess, way: str
):
    review = shop.put_up(diff=edited())
    asked(shop, review, holds=way in {"held", "answered", "parent"})
    with ProposerDesk(broker.url, shop.project, agent=PROPOSER) as proposer:
        if way == "revised":
            proposer.revise(review, diff=edited(text="other"))
        if way == "answered":
            proposer.say(review, "proposer", "No one.")
        if way != "open":
            proposer.do("close_review", review_id=review)
        if way == "round":
            again = proposer.put_up(diff=edited("b.txt"))
            assert shop.status(again)["attention"] is None
            proposer.revise(again, diff=edited())
        else:
            stated = {"parent_id": review} if way == "parent" else {"phase": "2"}
            again = proposer.put_up(diff=edited(text="else" if way == "parent" else "better"), **stated)
        for _ in range(2):
            status = shop.status(again)
            assert status["attention"].startswith(f"In {review}: alice asked something"), way
            assert status["next_action"] == "escalate"
            agents.refused("INVALID_TRANSITION", "claim_review", review_id=again, reviewer_id=OTHER)
            proposer.do("close_review", review_id=again)
            again = proposer.put_up(diff=edited(), parent_id=again)
    # A person ends it for good.
    shop.do("retry_review", review_id=again)
    assert shop.status(again)["attention"] is None
    shop.do("close_review", review_id=again)
    if way != "open":
        last = shop.put_up_whole(diff=edited())
        assert agents.decide(last["review_id"], "approved")["verdict"] == "approved"
        assert shop.is_open_for(last["digest"])


@pytest.mark.parametrize("holds", [False, True])
def test_p11_no_second_review_of_the_content_is_approved_past_the_question_of_a_person(
    agents: AgentDesk, shop: Desk, holds: bool
):
    first, second = shop.put_up(diff=edited()), shop.put_up_whole(diff=edited(), phase="2")
    asked(shop, first, holds=holds)
    given = agents.decide(second["review_id"], "approved")
    assert (given["verdict"], shop.status(second["review_id"])["next_action"]) == ("comment", "escalate")
    assert first in given["notes"][0]
    assert not shop.is_open_for(second["digest"])
    assert shop.decide(second["review_id"], "approved")["verdict"] == "approved"


def test_p11_an_answer_that_comes_with_a_new_round_is_read_before_an_agent_decides(agents: AgentDesk, shop: Desk):
    review = shop.put_up(diff=edited())
    asked(shop, review, holds=True)
    shop.say(review, "proposer", "No one.")
    shop.revise(review, diff=edited(text="other"))
    assert shop.status(review)["attention"].startswith("alice asked something")
    agents.refused("INVALID_TRANSITION", "claim_review", review_id=review, reviewer_id=OTHER)


def test_p11_why_a_review_waits_names_the_review_where_that_was_said(agents: AgentDesk, shop: Desk):
    lines = ("def pay(total):", "    cents = total * 100 + surcharge", "    return cents")
    first = shop.put_up(diff=added("m.py", *lines))
    shop.decide(first, "changes_requested", findings=[{**fault(2), "claim": "It is off."}], reviewer_id=REVIEWER)
    agents.decide(first, "approved")
    assert shop.status(first)["attention"].startswith("A reviewer approves")
    shop.do("close_review", review_id=first)
    other = shop.put_up(diff=added("m.py", *lines, "# More."), proposer_id="prop-2", phase="2")
    assert [one["claim"] for one in found(shop, other)] == ["It is off."]
    assert shop.status(other)["attention"].startswith(f"In {first}: A reviewer approves")


def test_who_settles_a_finding_without_a_claim_hears_how_it_is_settled(agents: AgentDesk, shop: Desk):
    first = shop.put_up(diff=edited())
    agents.decide(first, "changes_requested", findings=[MAJOR])
    shop.do("close_review", review_id=first)
    review = shop.put_up(diff=edited())
    settled = {"review_id": review, "finding_id": found(shop, review)[0]["finding_id"], "answer": "verified"}
    error = agents.call("answer_finding", **settled, reviewer_id=OTHER)["error"]
    assert error["code"] == "INVALID_TRANSITION"
    assert "claim_review" in error["message"]
    assert "person" in error["message"]
    assert "reviewer_message" not in error["message"]


def test_a_proposer_hears_of_what_keeps_the_approval_back_before_a_reviewer_comes(others: Desk, shell: ShellInside):
    first = others.put_up(diff=edited())
    others.do("claim_review", review_id=first, reviewer_id="codex")
    others.verdict(first, "changes_requested", findings=[MAJOR], reviewer_id="codex")
    others.do("close_review", review_id=first)
    created = others.put_up_whole(diff=edited())
    assert created["next_action"] == "wait"
    assert "answer_finding" in created["message"]
    answers = f"tandem findings answer {created['review_id']}"
    shown = shell.run("review", "status", created["review_id"])
    assert answers in shown.stdout + shown.stderr
    finding = found(others, created["review_id"])[0]["finding_id"]
    others.do("answer_finding", review_id=created["review_id"], finding_id=finding, answer="fixed")
    shown = shell.run("review", "status", created["review_id"])
    assert answers not in shown.stdout + shown.stderr
