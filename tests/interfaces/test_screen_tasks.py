"""What five tasks take in the screen of `tandem review`: key presses besides the words that a person types."""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from pathlib import Path

import pytest

from tandem.client import TandemClient
from tests.acceptance.reviewing import Desk
from tests.commandline import DIFF, Shell
from tests.interfaces.screen_stage import PERSON, Stage
from tests.interfaces.test_review_screen_terminal import TERMINALS, terminal
from tests.modes import VARIATION

pytestmark = pytest.mark.anyio

BETTER = DIFF.replace("+2", "+better")


class Keys:
    """Counts the keys that a person presses; typed words are free."""

    def __init__(self, at: Stage) -> None:
        self.pressed: list[str] = []
        self._at = at

    async def press(self, *keys: str) -> None:
        self.pressed += keys
        await self._at.press(*keys)

    def took(self, most: int) -> None:
        """At most so many."""
        assert len(self.pressed) <= most, f"{len(self.pressed)} keys, at most {most} wanted: {self.pressed}"


async def test_the_most_urgent_review_is_approved_by_three_keys_and_another_at_once_by_two(at: Stage) -> None:
    await at.create("Any change")
    urgent = await at.create("The urgent change", agent_role="planner")
    shown = await at.shows("Any change", "The urgent change", "critical")
    assert shown.index("The urgent change") < shown.index("Any change")
    await at.press("G", "g")
    ann = Keys(at)
    await ann.press("enter")
    shown = await at.shows("- two", "+ 2", "no one holds it")
    assert shown.index("- two") < shown.index("+ 2")
    await ann.press("a")
    await at.shows("Your verdict on round 1", "sending claims it first", "Approve. Reason (optional)")
    await ann.press("ctrl+s")
    found = await at.becomes(urgent, "approved")
    assert (found.verdict, found.reviewer_id) == ("approved", PERSON)
    ann.took(3)
    await at.shows(f"{PERSON} approved on round 1.")
    await at.lacks("Your verdict")
    await at.press("escape")
    await at.shows("Waiting on others (1)")
    await at.press("g")
    ann = Keys(at)
    await ann.press("enter")
    await at.shows("Any change", "no one holds it")
    await ann.press("A")
    await at.shows(f"{PERSON} approved on round 1.")
    ann.took(2)
    # But not with something to look at.
    await at.press("escape")
    odd = await at.create("An odd change", diff=DIFF.replace("+2", "+2\u200b"))
    await at.opened(odd)
    await at.press("A")
    await at.shows("Look at these before you decide:", "1 invisible character")
    assert (await at.status(odd)).status == "pending"


async def test_three_comments_and_a_request_for_changes_take_eight_keys(at: Stage) -> None:
    review_id = await at.create()
    await at.shows("Unclaimed (1)")
    ann = Keys(at)
    await ann.press("enter")
    await at.shows("- two")
    await ann.press("N")
    await ann.press("c")
    await at.shows("Finding on a.txt, line 2 before the change")
    await at.type("Why two?")
    await ann.press("f3")
    await at.lacks("Finding on a.txt, line 2 before the change")
    await at.shows("Finding on a.txt, line 2", "Next line")
    await at.type("Why 2?")
    # Another one on the same line.
    await ann.press("ctrl+s")
    await at.shows("not sent yet on line 2:", "Why 2?")
    await ann.press("c")
    await at.shows("Finding on a.txt, line 2", "Minor. The fault")
    await at.type("Test it.")
    await ann.press("f4")
    await at.shows("Your verdict on round 1", "Goes with it: 3 findings.")
    await ann.press("ctrl+s")
    await at.becomes(review_id, "changes_requested")
    ann.took(8)
    found = (await at.other.list_findings(review_id=review_id)).findings
    assert [(one.line, one.claim) for one in found][:3] == [(2, "Why two?"), (2, "Why 2?"), (2, "Test it.")]


@VARIATION
async def test_round_two_is_read_against_round_one_with_ones_findings_by_three_keys(at: Stage) -> None:
    review_id = await at.create()
    await at.opened(review_id)
    await at.press("N", "N", "down", "c")
    await at.type("Not better.")
    await at.press("f4")
    await at.shows("Goes with it: 1 finding.")
    await at.press("ctrl+s")
    await at.becomes(review_id, "changes_requested")
    # The dialog is gone, and escape leaves the review.
    await at.shows("changes requested  round 1", "requested changes on round 1")
    await at.lacks("Your verdict")
    await at.press("escape")
    await at.create(review_id=review_id, diff=BETTER)
    await at.shows("Unclaimed (1)")
    await at.press("g")
    ann = Keys(at)
    await ann.press("enter")
    await at.shows("round 2 of 2")
    await ann.press("i")
    shown = await at.shows("what changed since round 1", "+ better", "Not better.", "Your 2 findings: 2 open")
    assert "- two" not in shown
    ann.took(3)


@TERMINALS
def test_a_counter_patch_from_the_editor_takes_six_keys(shell: Shell, tmp_path: Path) -> None:
    editor = tmp_path / "editor.py"
    editor.write_text("import sys\nopen(sys.argv[1], 'a').write('three\\n')\n", "utf-8")
    review_id = shell.run("submit", "-m", "Count on", "--json").data["review_id"]
    pressed = ""
    with terminal(shell, "review", "--as", "ann", EDITOR=f"{sys.executable} {editor}", VISUAL="") as at:

        def press(key: str) -> None:
            nonlocal pressed
            pressed += key
            at.type(key)

        at.until("Count on")
        press("\r")
        at.until("no one holds it")
        press("e")
        at.until("A counter-patch: a.txt")
        at.type("Count to three.")
        at.until("Count to three.")
        press("\x13")
        at.until("Your counter-patch is offered.")
        at.type("q")
        at.until("Waiting on others")
        at.type("q")
        assert at.end() == 0
    assert len(pressed) <= 6, f"{len(pressed)} keys, at most 6 wanted: {pressed!r}"

    async def patch(client: TandemClient) -> tuple[str, str | None]:
        proposal = await client.get_proposal(review_id)
        assert proposal.counter_patch is not None
        return proposal.counter_patch.author, proposal.counter_patch.diff

    author, diff = shell.ask(patch)
    assert author == "ann"
    assert "+three" in (diff or "")


async def test_a_search_of_the_change_goes_from_hit_to_hit(at: Stage, review_id: str) -> None:
    assert review_id
    await at.press("slash")
    await at.type("TWO")
    await at.press("enter", "c")
    await at.shows("Finding on a.txt, line 2 before the change")
    await at.press("escape", "n")
    await at.shows("There is no further 'two'.")
    await at.press("slash", "ctrl+u")
    await at.type("Twelve")
    await at.press("enter")
    await at.shows("There is no 'Twelve' here.")
    await at.press("slash", "ctrl+u")
    await at.type("A.TXT")
    await at.press("enter", "c")
    await at.shows("Claimed: it is yours to decide.")


async def test_after_a_refresh_the_cursor_is_in_its_section(at: Stage) -> None:
    first, second = await at.create("The first"), await at.create("The second")
    third = await at.create("The third")
    await at.shows("The first", "The second", "The third")
    await at.press("g", "j")
    await at.bob.claim_review(reviewer_id="bob", review_id=second)
    await at.shows("Unclaimed (2)", "Waiting on others (1)")
    await at.press("enter")
    # The row itself is still there, in another section.
    await at.shows("The second", "with bob")
    await at.press("escape", "g", "j")
    await at.other.close_review(third)
    await at.shows("Unclaimed (1)")
    await at.press("enter")
    await at.shows("The first", "no one holds it")
    assert (await at.status(first)).status == "pending"


async def test_a_paused_pool_is_resumed_by_two_keys_and_a_stuck_agent_ended_by_three_or_by_way_of_its_problem(
    at: Stage,
) -> None:
    held, name = await _silent(at)
    await at.other.pause_reviewers(reason="The model is down")
    ann = Keys(at)
    await ann.press("R")
    await at.shows("paused", "The model is down")
    await ann.press("r")
    await at.lacks("The model is down")
    ann.took(2)
    await at.press("escape")
    await at.shows("Problems (1)", f"{name} has been silent for 24 min", "Enter, then x: end it")
    ann = Keys(at)
    await ann.press("g", "enter")
    await at.shows(f"{name}  silent for 24 min")
    await at.press("x")
    await at.shows(f"End {name} and take over")
    ann.took(2)
    await at.press("escape", "escape")
    await at.opened(held)
    await at.shows(f"with {name}, claim ends in", f"{name} has been silent for 24 min")
    await at.press("escape")
    await at.shows("Problems (1)")
    ann = Keys(at)
    await ann.press("R")
    await at.shows("At work (1)", f"{name}  silent for 24 min", "has had 'Wait between attempts'")
    await ann.press("x")
    await at.shows(f"End {name} and take over 'Wait between attempts'?")
    await ann.press("y")
    await at.shows("Wait between attempts", "yours, claim ends in")
    ann.took(3)
    found = await at.becomes(held, "claimed")
    assert found.reviewer_id == PERSON


async def test_an_override_is_seen_by_two_keys(at: Stage) -> None:
    change = {"path": "a.txt", "mode_after": "100644", "blob_after": "1" * 40}

    def override() -> None:
        with Desk(at.other.session.url, at.project, agent="cy") as cy:
            cy.override(changes=[change], reason="The shop is down. " * 6, branch="main")

    await asyncio.to_thread(override)
    await at.shows("Problems (1)", "Enter: seen", f"cy overrode the gate of {at.project} on main")
    await at.press("g")
    ann = Keys(at)
    await ann.press("enter")
    await at.shows("Seen? It leaves your list.")
    await ann.press("y")
    await at.shows("Seen. The log keeps the override.")
    await at.lacks("Problems (1)")
    ann.took(2)


async def _silent(at: Stage) -> tuple[str, str]:
    """A review that a reviewer of a pool has, which is silent for 24 minutes: its id, and the reviewer's name."""
    # A secret of its own: a reviewer of an earlier test is none of its pool.
    secret, about = secrets.token_hex(16), {"incarnation": "ab12cd34"}
    held = await at.create()
    async with TandemClient(at.other.session.url) as steward:
        known = {
            "host": "a-host",
            "provider": "codex",
            "projects": [at.project],
            "rules": {"spawn_cooldown_seconds": 0},
        }
        await steward.data("supervisor_register", {"secret": secret, **about, **known})
        beat = {"secret": secret, **about}
        orders = await steward.data("supervisor_heartbeat", beat)
        [(name, short)] = [(one["reviewer_id"], one["name"]) for one in orders["reviewers"]]
        await steward.claim_review(reviewer_id=name, review_id=held)
        us = round((time.time() - 24 * 60 - 5) * 1_000_000)
        activity = {"output_us": us, "silent_us": us}
        running = {"reviewer_id": name, "wanted": "run", "state": "running", "pid": 4_000_000, "started_us": 1}
        await steward.data("supervisor_heartbeat", {**beat, "reviewers": [{**running, "activity": activity}]})
    return held, short


async def test_a_renamed_file_is_one_file_with_the_lines_that_differ(at: Stage) -> None:
    moved = "diff --git a/a.txt b/b.txt\nsimilarity index 50%\nrename from a.txt\nrename to b.txt\n"
    lines = "--- a/a.txt\n+++ b/b.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    review = await at.create("Move it", diff=moved + lines)
    await at.shows("Move it", "+1 −1", "1 file")
    await at.opened(review)
    await at.shows("a.txt → b.txt  renamed  +1 −1", "- two", "+ 2")
    # A line that is gone is one of the file that it was in, and stays in its place here.
    await at.press("down", "down", "down", "l")
    await at.shows("Finding on a.txt, line 2 before the change")
    await at.type("It was two.")
    await at.press("ctrl+s")
    await at.shows("minor, not sent yet on line 2 before the change")
    await at.press("r")
    await at.shows("1 renamed file, whose unchanged lines are folded")
    await at.press("ctrl+s")
    await at.becomes(review, "changes_requested")
    shown = await at.shows(f"minor, open: {PERSON} on line 2 before the change:")
    assert shown.index("- two") < shown.index("It was two.") < shown.index("+ 2")
    found = (await at.other.list_findings(review_id=review)).findings
    assert ("a.txt", 2, "old") in {(one.file, one.line, one.side) for one in found}
