"""The demonstration's third part: a hand-off that is reviewed before it counts."""

from __future__ import annotations

from typing import Any

from tandem.cli.demo_mcp import McpClient
from tandem.cli.demo_player import Player, make_keys
from tandem.cli.demo_stage import GATED_WORKFLOW
from tandem.cli.demo_teller import Teller, expect_equal, expect_refusal

_FEATURE = "Release notes"
_REVIEWER = "demo-reviewer"
_DRAFT = {"files_modified": ["NOTES.md"], "notes": ["Uploads are more robust."]}
_REVISED = {"files_modified": ["NOTES.md"], "notes": ["Uploads wait 1, 2, then 4 seconds between attempts."]}
_REASON = "Say what changed for whoever uploads."


class GatedStory:
    """Plays a cycle in approval mode and tells it as it happens."""

    def __init__(self, teller: Teller) -> None:
        self._teller = teller

    async def play(self) -> None:
        """Play it to the end.

        Raises:
            SceneFailed: A step went otherwise; says which, and what differed.
        """
        address = self._teller.stage.endpoint("handoff")
        async with (
            McpClient(address, "demo-writer") as first,
            McpClient(address, "demo-editor") as second,
            McpClient(self._teller.stage.endpoint("reviewer"), _REVIEWER) as reviewer,
        ):
            writer = Player("writer", GATED_WORKFLOW, first, self._teller)
            editor = Player("editor", GATED_WORKFLOW, second, self._teller)
            self._teller.scene("A hand-off that is reviewed first")
            keys = await make_keys(self._teller, GATED_WORKFLOW)
            for player in (writer, editor):
                await player.open_session(keys[player.role])
            review_id = await self._put_up(writer)
            await self._revise(writer, reviewer, review_id)
            await self._approve(editor, reviewer, review_id)

    async def _put_up(self, writer: Player) -> str:
        begun = await writer.start(_FEATURE)
        expect_equal("the cycle's mode", begun["mode"], "approval")
        shown = await writer.take_lock()
        writer.tell(f"starts the cycle {begun['cycle_id']} and takes the lock: {shown}")
        written = await writer.hand_over("editor", _DRAFT)
        expect_equal("the phase", (written["phase"], written["active_role"]), ("draft", "writer"))
        review_id = str(written["review_id"])
        writer.tell(f"hands over to editor: it becomes the review {review_id}, and the phase stays draft")
        refusal = await expect_refusal(
            "a hand-off before the verdict", "INVALID_PHASE", writer.hand_over("editor", _DRAFT)
        )
        expect_equal("the review that is in the way", refusal["details"]["review_id"], review_id)
        writer.tell(f"hands over again before the verdict, and is refused: INVALID_PHASE, {review_id} decides")
        return review_id

    async def _revise(self, writer: Player, reviewer: McpClient, review_id: str) -> None:
        waiting = writer.wait_for_turn()
        status = await self._judge(reviewer, review_id, 1, verdict="changes_requested", reason=_REASON)
        expect_equal("the review's status", status, "changes_requested")
        self._teller.tell("reviewer", f"claims {review_id} and requests changes: {_REASON}")
        woken = await waiting
        expect_equal("what the writer hears", (woken["phase"], woken["review"]["reason"]), ("draft", _REASON))
        written = await writer.hand_over("editor", _REVISED)
        expect_equal("the review that goes on", written["review_id"], review_id)
        writer.tell(f"was waiting, wakes at once and hands over anew: round 2 of {review_id}")
        self._teller.show_lines(_REVISED["notes"])

    async def _approve(self, editor: Player, reviewer: McpClient, review_id: str) -> None:
        waiting = editor.wait_for_turn()
        status = await self._judge(reviewer, review_id, 2, verdict="approved")
        expect_equal("the review's status", status, "approved")
        self._teller.tell("reviewer", f"approves round 2 of {review_id}, and with it the cycle advances: phase edit")
        woken = await waiting
        expect_equal("the phase", (woken["phase"], woken["active_role"]), ("edit", "editor"))
        await editor.read(_REVISED)
        editor.tell("was waiting, wakes at once and reads exactly what was approved")
        await editor.take_lock()
        await editor.complete()
        await editor.archive()
        editor.tell(f"takes the lock, completes the cycle and archives it: {_FEATURE} are done")

    async def _judge(self, reviewer: McpClient, review_id: str, number: int, **verdict: Any) -> str:
        """Claim a round of the hand-off's review and give a verdict; answers with the review's status."""
        claim = await reviewer.call("claim_review", reviewer_id=_REVIEWER)
        expect_equal("the round that was claimed", (claim["review_id"], claim["round"]), (review_id, number))
        expect_equal("the category", claim["review"]["category"], "handoff")
        given = await reviewer.call(
            "submit_verdict",
            review_id=review_id,
            claim_generation=claim["claim_generation"],
            reviewer_id=_REVIEWER,
            **verdict,
        )
        return str(given["status"])
