"""The demonstration's first part: one change from the proposal to the commit, each step checked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tandem.cli.demo_mcp import McpClient
from tandem.cli.demo_stage import SceneFailed
from tandem.cli.demo_teller import Teller, expect, expect_equal, expect_refusal
from tandem.git.repository import Repository

_FILE = "upload.py"
_BEFORE = '''"""Uploads, tried again when the network fails."""

ATTEMPTS = 3


def upload(send, parcel):
    for _ in range(ATTEMPTS):
        try:
            return send(parcel)
        except ConnectionError:
            continue
    raise TimeoutError(f"gave up after {ATTEMPTS} attempts")
'''
_PROPOSED = _BEFORE.replace("            continue\n", "            time.sleep(1)\n").replace(
    "\nATTEMPTS", "\nimport time\n\nATTEMPTS"
)
_BETTER = _PROPOSED.replace("for _ in", "for attempt in").replace("time.sleep(1)", "time.sleep(2**attempt)")
_TURN_SECONDS = 20


class ReviewStory:
    """Plays a review and tells it as it happens."""

    def __init__(self, teller: Teller) -> None:
        self._teller = teller
        self._stage = teller.stage
        self._cursor = ""
        """What the proposer has seen: its waits begin there, so that they miss nothing."""

    async def play(self) -> None:
        """Play it to the end.

        Raises:
            SceneFailed: A step went otherwise; says which, and what differed.
        """
        await self._write_the_file()
        async with (
            McpClient(self._stage.endpoint("proposer"), "demo-proposer") as proposer,
            McpClient(self._stage.endpoint("reviewer"), "demo-reviewer") as reviewer,
        ):
            await self._tell_of_tools(proposer, reviewer)
            review_id = await self._propose(proposer)
            generation = await self._discuss(proposer, reviewer, review_id)
            await self._counter(proposer, reviewer, review_id, generation)
            await self._approve(proposer, reviewer, review_id)
            await self._land(review_id)
            await self._close(proposer, review_id)

    async def _write_the_file(self) -> None:
        stage = self._stage
        _write(stage.repository, _BEFORE)
        await stage.git("add", "--all")
        await stage.git("commit", "--quiet", "--message", "Uploads are tried three times")
        await stage.git("worktree", "add", "--quiet", "--detach", str(stage.desk))

    async def _tell_of_tools(self, proposer: McpClient, reviewer: McpClient) -> None:
        for role, client, own in (("proposer", proposer, "create_review"), ("reviewer", reviewer, "submit_verdict")):
            tools = await client.tools()
            expect(own in tools, f"the endpoint of the {role} lists {own}")
            self._teller.tell(role, f"{client.name} connects over MCP and finds {len(tools)} tools")

    async def _propose(self, proposer: McpClient) -> str:
        self._teller.scene("The proposal")
        _write(self._stage.repository, _PROPOSED)
        proposed = await self._diff_of(self._stage.repository)
        created = await proposer.call(
            "create_review", intent="Wait between upload attempts", agent_type="demo-proposer", **proposed
        )
        expect_equal("status", created["status"], "pending")
        expect_equal("validated", created["validated"], expected=True)
        self._cursor = created["cursor"]
        self._teller.tell("proposer", f"puts up {created['review_id']}: Wait between upload attempts")
        self._teller.show_diff(proposed["diff"])
        return str(created["review_id"])

    async def _discuss(self, proposer: McpClient, reviewer: McpClient, review_id: str) -> int:
        self._teller.scene("Claim, question, answer")
        waiting = asyncio.create_task(self._turn(proposer, review_id))
        claim = await reviewer.call("claim_review", reviewer_id="demo-reviewer")
        expect_equal("the review that was claimed", claim["review_id"], review_id)
        self._teller.tell(
            "reviewer", f"claims the head of the queue: {review_id}, generation {claim['claim_generation']}"
        )
        question = "Why one second? Three clients would come back in step."
        identity = {"reviewer_id": "demo-reviewer", "claim_generation": claim["claim_generation"]}
        await reviewer.call("add_message", review_id=review_id, sender_role="reviewer", body=question, **identity)
        self._teller.tell("reviewer", f"asks: {question}")
        status = await waiting
        expect_equal("what the proposer should do", status["next_action"], "answer_message")
        answer = "It was the first number that came to mind."
        sent = await proposer.call("add_message", review_id=review_id, sender_role="proposer", body=answer)
        self._cursor = sent["cursor"]
        self._teller.tell("proposer", f"was waiting, wakes at once and answers: {answer}")
        again = proposer.call("add_message", review_id=review_id, sender_role="proposer", body="And another thing")
        await expect_refusal("a second message in a row", "TURN_VIOLATION", again)
        self._teller.tell("proposer", "speaks twice in a row, and is refused: TURN_VIOLATION")
        return int(claim["claim_generation"])

    async def _counter(self, proposer: McpClient, reviewer: McpClient, review_id: str, generation: int) -> None:
        self._teller.scene("Changes requested, with a counter-patch")
        waiting = asyncio.create_task(self._turn(proposer, review_id))
        _write(self._stage.desk, _BETTER)
        better = (await self._diff_of(self._stage.desk))["diff"]
        given = await reviewer.call(
            "submit_verdict",
            review_id=review_id,
            verdict="changes_requested",
            reason="Wait longer each time.",
            counter_patch=better,
            claim_generation=generation,
            reviewer_id="demo-reviewer",
        )
        expect_equal("status", given["status"], "changes_requested")
        self._teller.tell("reviewer", "requests changes (Wait longer each time.) and sends how it would do it:")
        self._teller.show_diff(better)
        status = await waiting
        expect_equal("what the proposer should do", status["next_action"], "decide_counter_patch")
        accepted = await proposer.call(
            "accept_counter_patch", review_id=review_id, counter_patch_id=given["counter_patch_id"]
        )
        self._cursor = accepted["cursor"]
        expect_equal("round", accepted["round"], 2)
        expect_equal("status", accepted["status"], "pending")
        self._teller.tell("proposer", "accepts the counter-patch: it becomes round 2")

    async def _approve(self, proposer: McpClient, reviewer: McpClient, review_id: str) -> None:
        self._teller.scene("Second round, approved")
        waiting = asyncio.create_task(self._turn(proposer, review_id))
        claim = await reviewer.call("claim_review", review_id=review_id, reviewer_id="demo-reviewer")
        expect_equal("round", claim["round"], 2)
        given = await reviewer.call(
            "submit_verdict",
            review_id=review_id,
            verdict="approved",
            claim_generation=claim["claim_generation"],
            reviewer_id="demo-reviewer",
        )
        expect_equal("status", given["status"], "approved")
        self._teller.tell("reviewer", f"claims it again (generation {claim['claim_generation']}) and approves round 2")
        status = await waiting
        expect_equal("what the proposer should do", status["next_action"], "apply_and_close")
        self._teller.tell("proposer", f"wakes to the approval of digest {status['digest'][:12]}")

    async def _land(self, review_id: str) -> None:
        self._teller.scene("Apply, and the gate")
        repository = self._stage.repository
        refused = await self._teller.run("apply", review_id, status=1)
        expect("round 1" in refused.output, "apply says what is in the way", refused.output)
        expect_equal("the file", (repository / _FILE).read_text(encoding="utf-8"), _PROPOSED)
        self._teller.tell(
            "proposer", "still has round 1 in the working tree: apply overwrites nothing. Put away, and again:"
        )
        await self._stage.git("checkout", "--quiet", "--", _FILE)
        await self._teller.run("apply", review_id)
        expect_equal("the file", (repository / _FILE).read_text(encoding="utf-8"), _BETTER)
        await self._stage.git("add", "--all")
        await self._teller.run("gate", "check")
        self._teller.tell("gate", "passes what was approved. Now with one byte changed:")
        _write(repository, _BETTER.replace("2**attempt", "3**attempt"))
        await self._stage.git("add", "--all")
        await self._teller.run("gate", "check", status=1)
        _write(repository, _BETTER)
        await self._stage.git("add", "--all")
        await self._stage.git("commit", "--quiet", "--message", "Wait longer between upload attempts")
        await self._teller.run("gate", "check", "--commit", "HEAD")

    async def _close(self, proposer: McpClient, review_id: str) -> None:
        self._teller.scene("The end")
        closed = await proposer.call("close_review", review_id=review_id)
        expect_equal("outcome", closed["outcome"], "approved")
        self._teller.tell("proposer", f"closes {review_id}: {closed['outcome']}")
        await self._teller.run("review", "timeline", review_id)

    async def _turn(self, client: McpClient, review_id: str) -> dict[str, Any]:
        """Wait until it is the proposer's turn, as an agent does: a call that answers when there is news."""
        deadline = asyncio.get_running_loop().time() + _TURN_SECONDS
        while asyncio.get_running_loop().time() < deadline:
            status = await client.call(
                "get_review_status", review_id=review_id, wait=True, cursor=self._cursor, timeout_s=_TURN_SECONDS
            )
            self._cursor = status["cursor"]
            if status["changed"]:
                return status
        raise SceneFailed(f"the proposer was not woken for {_TURN_SECONDS} s")

    async def _diff_of(self, folder: Path) -> dict[str, str]:
        def read() -> dict[str, str]:
            with Repository.discover(folder) as repository:
                found = repository.working_diff()
                return {"diff": found.diff, "base": found.base}

        return await asyncio.to_thread(read)


def _write(folder: Path, content: str) -> None:
    (folder / _FILE).write_text(content, encoding="utf-8", newline="\n")
