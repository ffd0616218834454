"""The demonstration's story: one change from the proposal to the commit, each step checked."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from rich.padding import Padding
from rich.text import Text

from tandem.cli.demo_mcp import McpClient, ToolRefused
from tandem.cli.demo_stage import PROJECT, Finished, SceneFailed, Stage
from tandem.cli.render.parts import diff as coloured
from tandem.cli.terminal import console
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
_STYLES = {"proposer": "bold cyan", "reviewer": "bold magenta", "gate": "bold yellow", "log": "bold blue"}
_TURN_SECONDS = 20


class Story:
    """Plays the review and tells it as it happens."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._console = console()
        self._cursor = ""
        """What the proposer has seen: its waits begin there, so that they miss nothing."""

    async def play(self) -> None:
        """Play it to the end.

        Raises:
            SceneFailed: A step went otherwise; says which, and what differed.
        """
        await self._set_up()
        endpoint = f"{self._stage.url}/mcp/{{}}?project={PROJECT}"
        async with (
            McpClient(endpoint.format("proposer"), "demo-proposer") as proposer,
            McpClient(endpoint.format("reviewer"), "demo-reviewer") as reviewer,
        ):
            await self._tell_of_tools(proposer, reviewer)
            review_id = await self._propose(proposer)
            generation = await self._discuss(proposer, reviewer, review_id)
            await self._counter(proposer, reviewer, review_id, generation)
            await self._approve(proposer, reviewer, review_id)
            await self._land(review_id)
            await self._close(proposer, review_id)
        await self._prove()

    async def _set_up(self) -> None:
        self._scene("A repository, a broker, two agents")
        stage = self._stage
        _write(stage.repository, _BEFORE)
        await stage.git("init", "--quiet")
        await stage.git("add", "--all")
        await stage.git("commit", "--quiet", "--message", "Uploads are tried three times")
        await stage.git("worktree", "add", "--quiet", "--detach", str(stage.desk))
        self._tell("log", f"broker at {stage.url}, on embedded SQLite")
        await self._run("project", "add")

    async def _tell_of_tools(self, proposer: McpClient, reviewer: McpClient) -> None:
        for role, client, own in (("proposer", proposer, "create_review"), ("reviewer", reviewer, "submit_verdict")):
            tools = await client.tools()
            _expect(own in tools, f"the endpoint of the {role} lists {own}")
            self._tell(role, f"{client.name} connects over MCP and finds {len(tools)} tools")

    async def _propose(self, proposer: McpClient) -> str:
        self._scene("The proposal")
        _write(self._stage.repository, _PROPOSED)
        proposed = await self._diff_of(self._stage.repository)
        created = await proposer.call(
            "create_review", intent="Wait between upload attempts", agent_type="demo-proposer", **proposed
        )
        _expect_equal("status", created["status"], "pending")
        _expect_equal("validated", created["validated"], expected=True)
        self._cursor = created["cursor"]
        self._tell("proposer", f"puts up {created['review_id']}: Wait between upload attempts")
        self._show_diff(proposed["diff"])
        return str(created["review_id"])

    async def _discuss(self, proposer: McpClient, reviewer: McpClient, review_id: str) -> int:
        self._scene("Claim, question, answer")
        waiting = asyncio.create_task(self._turn(proposer, review_id))
        claim = await reviewer.call("claim_review", reviewer_id="demo-reviewer")
        _expect_equal("the review that was claimed", claim["review_id"], review_id)
        self._tell("reviewer", f"claims the head of the queue: {review_id}, generation {claim['claim_generation']}")
        question = "Why one second? Three clients would come back in step."
        identity = {"reviewer_id": "demo-reviewer", "claim_generation": claim["claim_generation"]}
        await reviewer.call("add_message", review_id=review_id, sender_role="reviewer", body=question, **identity)
        self._tell("reviewer", f"asks: {question}")
        status = await waiting
        _expect_equal("what the proposer should do", status["next_action"], "answer_message")
        answer = "It was the first number that came to mind."
        sent = await proposer.call("add_message", review_id=review_id, sender_role="proposer", body=answer)
        self._cursor = sent["cursor"]
        self._tell("proposer", f"was waiting, wakes at once and answers: {answer}")
        try:
            await proposer.call("add_message", review_id=review_id, sender_role="proposer", body="And another thing")
        except ToolRefused as refusal:
            _expect_equal("a second message in a row", refusal.code, "TURN_VIOLATION")
            self._tell("proposer", "speaks twice in a row, and is refused: TURN_VIOLATION")
        else:
            raise SceneFailed("a second message in a row was taken")
        return int(claim["claim_generation"])

    async def _counter(self, proposer: McpClient, reviewer: McpClient, review_id: str, generation: int) -> None:
        self._scene("Changes requested, with a counter-patch")
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
        _expect_equal("status", given["status"], "changes_requested")
        self._tell("reviewer", "requests changes (Wait longer each time.) and sends how it would do it:")
        self._show_diff(better)
        status = await waiting
        _expect_equal("what the proposer should do", status["next_action"], "decide_counter_patch")
        accepted = await proposer.call(
            "accept_counter_patch", review_id=review_id, counter_patch_id=given["counter_patch_id"]
        )
        self._cursor = accepted["cursor"]
        _expect_equal("round", accepted["round"], 2)
        _expect_equal("status", accepted["status"], "pending")
        self._tell("proposer", "accepts the counter-patch: it becomes round 2")

    async def _approve(self, proposer: McpClient, reviewer: McpClient, review_id: str) -> None:
        self._scene("Second round, approved")
        waiting = asyncio.create_task(self._turn(proposer, review_id))
        claim = await reviewer.call("claim_review", review_id=review_id, reviewer_id="demo-reviewer")
        _expect_equal("round", claim["round"], 2)
        given = await reviewer.call(
            "submit_verdict",
            review_id=review_id,
            verdict="approved",
            claim_generation=claim["claim_generation"],
            reviewer_id="demo-reviewer",
        )
        _expect_equal("status", given["status"], "approved")
        self._tell("reviewer", f"claims it again (generation {claim['claim_generation']}) and approves round 2")
        status = await waiting
        _expect_equal("what the proposer should do", status["next_action"], "apply_and_close")
        self._tell("proposer", f"wakes to the approval of digest {status['digest'][:12]}")

    async def _land(self, review_id: str) -> None:
        self._scene("Apply, and the gate")
        repository = self._stage.repository
        refused = await self._run("apply", review_id, status=1)
        _expect("round 1" in refused.output, "apply says what is in the way", refused.output)
        _expect_equal("the file", (repository / _FILE).read_text(encoding="utf-8"), _PROPOSED)
        self._tell("proposer", "still has round 1 in the working tree: apply overwrites nothing. Put away, and again:")
        await self._stage.git("checkout", "--quiet", "--", _FILE)
        await self._run("apply", review_id)
        _expect_equal("the file", (repository / _FILE).read_text(encoding="utf-8"), _BETTER)
        await self._stage.git("add", "--all")
        await self._run("gate", "check")
        self._tell("gate", "passes what was approved. Now with one byte changed:")
        _write(repository, _BETTER.replace("2**attempt", "3**attempt"))
        await self._stage.git("add", "--all")
        await self._run("gate", "check", status=1)
        _write(repository, _BETTER)
        await self._stage.git("add", "--all")
        await self._stage.git("commit", "--quiet", "--message", "Wait longer between upload attempts")
        await self._run("gate", "check", "--commit", "HEAD")

    async def _close(self, proposer: McpClient, review_id: str) -> None:
        self._scene("The end")
        closed = await proposer.call("close_review", review_id=review_id)
        _expect_equal("outcome", closed["outcome"], "approved")
        self._tell("proposer", f"closes {review_id}: {closed['outcome']}")
        await self._run("review", "timeline", review_id)

    async def _prove(self) -> None:
        await self._run("audit", "verify", "--data-dir", str(self._stage.data_dir))

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

    async def _run(self, *arguments: str, status: int = 0) -> Finished:
        """Run `tandem`, show what it says, and insist on its exit status."""
        self._console.print(Text(f"  $ tandem {' '.join(_shown(argument) for argument in arguments)}", style="bold"))
        finished = await self._stage.tandem(*arguments)
        if finished.output:
            self._console.print(Padding(Text(finished.output, style="dim"), (0, 0, 0, 4), expand=False))
        _expect_equal(f"exit status of tandem {' '.join(arguments[:2])}", finished.status, status)
        return finished

    async def _diff_of(self, folder: Path) -> dict[str, str]:
        def read() -> dict[str, str]:
            with Repository.discover(folder) as repository:
                found = repository.working_diff()
                return {"diff": found.diff, "base": found.base}

        return await asyncio.to_thread(read)

    def _scene(self, title: str) -> None:
        self._console.print(Text(f"\n{title}", style="bold underline"))

    def _tell(self, who: str, what: str) -> None:
        self._console.print(Text.assemble((f"{who:>9}", _STYLES[who]), "  ", what), soft_wrap=True)

    def _show_diff(self, content: str) -> None:
        self._console.print(Padding(coloured(content), (0, 0, 0, 11), expand=False))


def _write(folder: Path, content: str) -> None:
    (folder / _FILE).write_text(content, encoding="utf-8", newline="\n")


def _shown(argument: str) -> str:
    return f"'{argument}'" if " " in argument else argument


def _expect(condition: bool, what: str, seen: object = None) -> None:  # noqa: FBT001 - an assertion
    if not condition:
        raise SceneFailed(f"expected that {what}" + (f"; saw: {seen}" if seen is not None else ""))


def _expect_equal(what: str, actual: object, expected: object) -> None:
    if actual != expected:
        raise SceneFailed(f"{what}: expected {expected!r}, got {actual!r}")
