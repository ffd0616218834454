"""`tandem review` at a terminal, by its keys, against a real broker: what a person sees, does and is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandem.cli.review_screen.review import ReviewScreen
from tandem.client import TandemClient
from tandem.reviews.finding_contract import GivenFinding
from tests.commandline import DIFF
from tests.interfaces.screen_stage import PERSON, Stage, stage

pytestmark = pytest.mark.anyio

BETTER = DIFF.replace("+2", "+better")
BEST = DIFF.replace("+2", "+best")


async def test_what_waits_is_listed_in_the_brokers_order_and_new_things_come_by_themselves(at: Stage) -> None:
    await at.shows("Nothing is open", f"0 for {PERSON}")
    await at.create("A normal change", phase="03", task="03-2")
    await at.shows("Unclaimed (1)", "A normal change", "not taken yet", "by robot", "03 · 03-2")
    held = await at.create("A held change")
    await at.bob.claim_review(reviewer_id="bob", review_id=held)
    shown = await at.shows("Waiting on others (1)", "being reviewed", "bob")
    assert shown.index("A normal change") < shown.index("Waiting on others") < shown.index("A held change")


async def test_of_a_projects_unclaimed_reviews_ten_stand_unfolded_until_the_person_opens_the_rest(at: Stage) -> None:
    await at.create(f"Number 00 {'long ' * 40}", description="x")
    for number in range(1, 12):
        await at.create(f"Number {number:02}")
    shown = await at.shows("Unclaimed (12)", f"0 for {PERSON}", "Number 09", "… 2 more")
    rows = shown[shown.index("Number 00") :].splitlines()
    assert "Number 01" in rows[1], shown
    assert all("not taken yet" in row for row in rows[:2]), shown
    await at.lacks("Number 10")
    # A search looks through those that are folded, too.
    await at.press("slash")
    await at.type("number 11")
    await at.press("enter")
    await at.shows("Unclaimed (1 of 12)", "Number 11", "only with 'number 11'")
    await at.lacks("Number 00")
    await at.press("slash")
    await at.press("ctrl+u", "enter")
    await at.shows("Unclaimed (12)", "… 2 more")
    await at.press("G", "enter")
    await at.shows("Number 10", "Number 11")
    await at.press("enter")
    await at.shows("by robot", "Number 10")


async def test_reviews_at_which_reviewers_failed_are_tried_again_together(at: Stage) -> None:
    programs = {"secret": "u" * 40, "incarnation": "ab12"}
    about = {"host": "a-host", "provider": "codex", "projects": [at.project], "rules": {"retry_delay_seconds": 0}}
    failed = [await at.create(intent) for intent in ("The first", "The second")]
    async with TandemClient(at.other.session.url) as steward:
        await steward.data("supervisor_register", {**programs, **about})
        [named] = (await steward.data("supervisor_heartbeat", {**programs, "reviewers": []}))["reviewers"]
        for _ in range(6):
            held = await steward.claim_review(reviewer_id=named["reviewer_id"], project=at.project)
            about = {"review_id": held.review_id, "claim_generation": held.claim_generation}
            ended = {"reviewer_id": named["reviewer_id"], "outcome": "crashed", "reason": "no memory"}
            await steward.data("report_outcome", {**about, **ended})
    await at.shows(
        "Problems (1)", f"1 for {PERSON}", "Enter: try again  3 reviewers gave no verdict: no memory; 2 revi"
    )
    await at.press("home", "enter")
    await at.shows("Try them again?")
    await at.press("y")
    await at.shows("In the queue again.")
    assert [(await at.status(one)).attention for one in failed] == [None, None]


async def test_a_reason_typed_at_once_is_a_reason_and_chooses_no_verdict(at: Stage, review_id: str) -> None:
    await at.press("down", "down", "l")
    await at.type("Why 1?")
    await at.press("f4")
    await at.shows("Your verdict on round 1", "Request changes. Reason (optional)")
    await at.press(*"no ", "space", *"go")
    await at.shows("Request changes. Reason (optional)")
    # In the list, too: its cursor is on the chosen one, and letters are the reason's.
    await at.press("shift+tab", "enter", "space", "a")
    await at.shows("Request changes. Reason (optional)", "no  go a")
    await at.press("escape", "y", "x", "space")
    await at.shows("Request changes. Reason (optional)")
    await at.press("ctrl+s")
    found = await at.becomes(review_id, "changes_requested")
    assert found.verdict_reason is not None
    assert sorted(found.verdict_reason.split()) == ["a", "go", "no", "x"]


async def test_a_whole_finding_on_several_lines_is_written_by_keys(at: Stage, review_id: str) -> None:
    await at.press("down", "down", "shift+down", "shift+down", "l")
    shown = await at.shows("Finding on a.txt, lines 1-2", "More: category, how it fails, a suggestion")
    assert "Suggest a change" not in shown
    await at.type("It is odd.")
    await at.press("tab", "enter", "tab")
    await at.shows("Suggest a change")
    await at.type("secur")
    await at.press("right", "tab")
    await at.type("Always.")
    await at.press("tab", "end")
    await at.type(" and a half")
    await at.press("tab", "space", "ctrl+s")
    draft = await at.shows("minor, security, was there before, not sent yet on lines 1-2", "How it fails: Always.")
    assert "Suggestion:" in draft
    # It comes back as it was left.
    await at.press("down", "l")
    await at.shows("lines 1-2")
    await at.press("tab", "enter")
    await at.shows("security", "one and a half")
    await at.press("escape", "r", "ctrl+s")
    await at.becomes(review_id, "changes_requested")
    [one, *_] = (await at.other.list_findings(review_id=review_id)).findings
    assert (one.line, one.end_line, one.category, one.failure) == (1, 2, "security", "Always.")
    assert (one.suggestion, one.pre_existing) == ("one and a half\n2", True)
    await at.shows("minor, open, security, was there before", "How it fails: Always.", "one and a half")


async def test_suggestions_become_a_counter_patch(at: Stage, review_id: str) -> None:
    await at.press("E")
    await at.shows("No open finding has a suggestion")
    await at.bob.claim_review(reviewer_id="bob", review_id=review_id)
    found = [
        GivenFinding(file="a.txt", line=2, severity="minor", claim="Longer.", suggestion="twice"),
        GivenFinding(file="a.txt", line=1, severity="nit", claim="Louder.", suggestion="ONE"),
    ]
    await at.bob.submit_verdict(review_id, verdict="comment", reason="so", reviewer_id="bob", findings=found)
    await at.bob.release_claim(review_id, claim_generation=1)
    await at.shows("Longer.", "Louder.")
    await at.press("E")
    await at.shows("A counter-patch of suggestions", "a.txt:2: Longer.", "a.txt:1: Louder.")
    await at.type("As suggested.")
    await at.press("ctrl+s")
    await at.becomes(review_id, "changes_requested")
    offered = (await at.other.get_proposal(review_id)).counter_patch
    assert offered is not None
    assert {"+ONE", "+twice"} <= set((offered.diff or "").splitlines())


async def _found(at: Stage, review_id: str, *, person: str = PERSON) -> tuple[str, str]:
    """Two findings in the first round, which is revised; the ids of the one that blocks, and of the other."""
    blocking = GivenFinding(file="a.txt", line=2, severity="major", claim="Too short.")
    small = GivenFinding(severity="nit", claim="Say why.")
    await at.bob.claim_review(reviewer_id=person, review_id=review_id)
    await at.bob.submit_verdict(
        review_id, verdict="changes_requested", reason="so", reviewer_id=person, findings=[blocking, small]
    )
    await at.create(review_id=review_id, diff=BETTER)
    first, second = (await at.other.list_findings(review_id=review_id)).findings
    return first.finding_id, second.finding_id


async def test_findings_of_an_earlier_round_are_settled_with_the_verdict(at: Stage, review_id: str) -> None:
    blocking, _ = await _found(at, review_id)
    await at.other.answer_finding(review_id, finding_id=blocking, answer="fixed", reason="Longer now.")
    await at.shows("round 1 of 2")
    await at.press("right_square_bracket", "right_square_bracket")
    await at.shows("round 2 of 2", "major, fixed, blocking", "Longer now.", "Your 2 findings: 2 open (1 keeps")
    await at.press("a", "ctrl+s")
    await at.shows("Open findings need a word each before an approval", blocking, "Everything is as it was")
    assert (await at.status(review_id)).status == "pending"
    await at.press("escape", "right_square_bracket", "c", "S")
    await at.shows("What became of it?", "Too short.", "Verified: it is corrected")
    await at.press("ctrl+s")
    await at.shows("verified, not sent yet on line 2")
    await at.press("a")
    await at.shows("Goes with it: 1 answer.")
    await at.press("ctrl+s")
    await at.becomes(review_id, "approved")
    await at.shows("Your 2 findings: 1 verified, 1 open")
    assert at.app.desk.drafts.unsent() == []


async def test_a_finding_that_does_not_hold_is_reopened_with_a_reason(at: Stage, review_id: str) -> None:
    blocking, _ = await _found(at, review_id)
    await at.other.answer_finding(review_id, finding_id=blocking, answer="refuted", reason="It is not.")
    await at.shows("round 1 of 2")
    await at.press("right_square_bracket", "right_square_bracket")
    await at.shows("round 2 of 2")
    await at.press("right_square_bracket", "c", "S", "f2")
    await at.shows("Upheld: the proposer is right. Reason (optional)")
    await at.press("f2", "ctrl+s")
    await at.shows("Reopened: it does not hold. Reason (required)", "needs one that the other side can act on")
    await at.type("It is.")
    await at.press("ctrl+s")
    await at.shows("reopened, not sent yet on line 2", "It is.")
    await at.press("r")
    await at.type("again")
    await at.press("ctrl+s")
    await at.becomes(review_id, "changes_requested")
    found = (await at.other.list_findings(review_id=review_id)).findings
    assert [(one.state, one.settled_reason) for one in found[:2]] == [("reopened", "It is."), ("open", None)]


async def test_the_keys_of_findings_go_to_each_and_no_further_and_two_approve_with_all_verified(
    at: Stage, review_id: str
) -> None:
    await at.press("V")
    await at.shows("Your verdict on round 1")
    await at.press("escape", "right_square_bracket", "c")
    await at.shows("There is no further finding.")
    await _found(at, review_id)
    await at.shows("round 1 of 2")
    at.burst("]]")
    await at.shows("round 2 of 2", "nit, open")
    at.burst("]c]cS")
    await at.shows("What became of it?", "Say why.")
    await at.press("escape", "left_square_bracket")
    await at.shows("[ c  Next, previous finding")
    await at.press("q")
    await at.lacks("Next, previous finding")
    await at.press("left_square_bracket", "c", "S")
    await at.shows("What became of it?", "Too short.")
    assert (await at.status(review_id)).status == "pending"
    await at.press("escape", "V")
    await at.shows("Your verdict on round 2", "Approve, with all 2 open findings verified")
    await at.press("ctrl+s")
    await at.becomes(review_id, "approved")
    await at.shows("Your 2 findings: 2 verified")


async def test_no_verdict_on_ones_own_work_is_offered_but_answers_to_findings_are(url: str, tmp_path: Path) -> None:
    async with stage(url, tmp_path, person="robot") as at:
        review_id = await at.create()
        await at.opened(review_id)
        own = "It is your own: somebody else gives the verdict."
        for key in ("y", "a", "r", "l", "c"):
            at.app.clear_notifications()
            await at.until(lambda shown: shown.count(own) == 1, "said above the change whose it is")
            await at.press(key)
            await at.until(lambda shown: shown.count(own) == 2, f"said why not to {key}")
        assert isinstance(at.app.screen, ReviewScreen)
        assert (await at.status(review_id)).status == "pending"
        await at.press("m")
        shown = await at.shows("For its proposer")
        assert "As its reviewer" not in shown
        await at.press("escape")
        blocking, _ = await _found(at, review_id, person="bob")
        await at.shows("round 1 of 2")
        at.burst("]]")
        await at.shows("2 findings: 2 open (1 keeps the approval back)", "round 2 of 2")
        await at.press("right_square_bracket", "c", "S")
        shown = await at.shows("What became of it?", "For its proposer: fixed")
        assert "Verified" not in shown
        await at.press("f2", "tab")
        await at.type("It is meant.")
        await at.press("ctrl+s")
        await at.shows("major, refuted, blocking", "Answer: It is meant.")
        [found, _] = (await at.other.list_findings(review_id=review_id)).findings
        assert (found.finding_id, found.state, found.answered_by) == (blocking, "refuted", "robot")


async def test_what_somebody_else_holds_is_refused_and_a_claim_that_has_ended_is_made_again_by_sending(
    at: Stage, review_id: str
) -> None:
    await at.bob.claim_review(reviewer_id="bob", review_id=review_id)
    await at.shows("with bob, claim ends")
    await at.press("c")
    await at.shows("bob holds this review")
    await at.press("y")
    shown = await at.shows("Your verdict on round 1", "bob has it; yours can be sent once they have released it.")
    assert "sending claims it first" not in shown
    await at.press("ctrl+s")
    await at.shows("It can be yours once they have released it")
    await at.press("escape", "X")
    await at.shows("There is no claim of yours to release: bob holds it")
    assert (await at.status(review_id)).reviewer_id == "bob"
    await at.bob.release_claim(review_id, claim_generation=1)
    await at.shows("no one holds it")
    await at.press("c")
    await at.shows("yours, claim ends")
    await at.press("r")
    await at.type("too short")
    at.hears_nothing()
    await at.other.release_claim(review_id, claim_generation=3)
    await at.press("ctrl+s")
    await at.shows("Your claim has ended", "Your text is kept", "too short")
    await at.press("ctrl+s")
    found = await at.becomes(review_id, "changes_requested")
    assert (found.verdict_reason, found.claim_generation) == ("too short", 5)


async def test_messages_are_sent_answered_and_settled(at: Stage, review_id: str) -> None:
    await at.press("m")
    await at.shows(f"As its reviewer, {PERSON} (claims it first)", "Message (required)")
    await at.press("tab")
    await at.type("why now?")
    await at.press("ctrl+s")
    await at.becomes(review_id, "in_review")
    await at.press("m", "tab")
    await at.type("hello?")
    await at.press("ctrl+s")
    await at.shows("once the other side has answered")
    await at.press("escape")
    sent = await at.other.add_message(review_id, sender_role="proposer", body="It fails at night.")
    await at.press("3")
    await at.shows("why now?", "It fails at night.", "as proposer")
    await at.press("j", "j", "S")
    await at.shows("It settles: It fails at night.")
    await at.press("tab")
    await at.type("I see")
    await at.press("ctrl+s")
    await at.shows("I see", "settled")
    said = {entry.id: entry for entry in (await at.other.get_discussion(review_id)).entries}
    answer = next(entry for entry in said.values() if entry.body == "I see")
    assert (answer.author, answer.resolves) == (PERSON, sent.message_id)
    # The refused text is still there to be sent.
    await at.press("m")
    await at.shows("hello?")


async def test_a_round_that_is_over_is_said_what_changed_is_shown_and_closing_asks_first(
    at: Stage, review_id: str
) -> None:
    await at.press("i")
    await at.shows("This is the first round")
    await at.press("r")
    await at.type("too short")
    await at.create(review_id=review_id, diff=BETTER)
    await at.shows("round 1 of 2")
    await at.press("ctrl+s")
    await at.shows("Round 2 is the current one", "Your text is kept", "too short")
    assert (await at.status(review_id)).status == "pending"
    await at.press("escape")
    await at.shows("]] goes to round 2", "+ 2")
    await at.press("r")
    await at.shows("A verdict is for the current round")
    await at.press("right_square_bracket", "right_square_bracket")
    await at.shows("round 2 of 2", "- two", "+ better")
    await at.press("i")
    shown = await at.shows("what changed since round 1", "- 2", "+ better")
    assert "- two" not in shown
    await at.press("i")
    await at.shows("- two")
    await at.press("left_square_bracket", "left_square_bracket")
    await at.shows("round 1 of 2", "+ 2")
    await at.press("left_square_bracket", "left_square_bracket")
    await at.shows("There is no such round")
    await at.press("right_square_bracket", "right_square_bracket", "r")
    # The reason goes on to the next round.
    await at.shows("Your verdict on round 2", "too short")
    await at.press("ctrl+s")
    found = await at.becomes(review_id, "changes_requested")
    assert (found.verdict_reason, found.round) == ("too short", 2)
    await at.lacks("Your verdict on round 2")
    await at.press("C")
    await at.shows("Close the review?", "it is withdrawn")
    await at.press("escape")
    assert (await at.status(review_id)).status == "changes_requested"
    await at.press("C")
    await at.type("not needed")
    await at.press("ctrl+s")
    assert (await at.becomes(review_id, "closed")).outcome == "withdrawn"
    await at.press("escape")
    await at.shows("Nothing is open")


async def test_a_counter_patch_is_declined_and_another_accepted(at: Stage, review_id: str) -> None:
    await at.press("plus")
    await at.shows("There is no counter-patch to decide")
    await _offer(at, review_id, BETTER)
    await at.shows("Counter-patch")
    await at.press("4")
    await at.shows("+ better")
    await at.press("minus")
    await at.shows("Decline the counter-patch of bob?")
    await at.type("it is not")
    await at.press("ctrl+s")
    await at.until(lambda text: "Counter-patch" not in text, "without the counter-patch")
    assert (await at.status(review_id)).counter_patch_status == "rejected"
    await _offer(at, review_id, BEST)
    await at.shows("Counter-patch")
    await at.press("4")
    await at.shows("+ best")
    await at.press("plus")
    await at.shows("Accept the counter-patch of bob?", "becomes the next round")
    await at.press("ctrl+s")
    await at.lacks("Accept the counter-patch")
    await at.shows("round 1 of 2")
    await at.press("right_square_bracket", "right_square_bracket")
    await at.shows("+ best")
    assert (await at.other.get_proposal(review_id)).accepted_by == PERSON


async def _offer(at: Stage, review_id: str, diff: str) -> None:
    await at.bob.claim_review(reviewer_id="bob", review_id=review_id)
    await at.bob.submit_verdict(
        review_id, verdict="changes_requested", reason="so", counter_patch=diff, reviewer_id="bob"
    )
