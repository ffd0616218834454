"""The demonstration of a review: one change from the proposal to the commit."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tandem.cli.demo_stage import Agent, Stage, expect
from tandem.cli.render.parts import diff as coloured
from tandem.git.repository import Repository

_FILE = "upload.py"
_INTENT = "Wait between upload attempts"
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


async def play(stage: Stage) -> None:
    """Play it to the end."""
    desk = stage.folder / "desk"
    await stage.stage_file(_FILE, _BEFORE)
    await stage.git("commit", "--quiet", "--message", "Uploads are tried three times")
    await stage.git("worktree", "add", "--quiet", "--detach", str(desk))
    proposer, reviewer = Agent(stage, "proposer", "proposer"), Agent(stage, "reviewer", "reviewer")
    for agent in (proposer, reviewer):
        tools = await agent.connect()
        agent.tell(f"demo-{agent.who} connects over MCP and finds {len(tools)} tools")

    stage.scene("The proposal")
    await stage.stage_file(_FILE, _PROPOSED)
    proposed = await asyncio.to_thread(_change, stage.repository)
    created = await proposer.call("create_review", intent=_INTENT, agent_type="demo-proposer", **proposed)
    review_id = created["review_id"]
    proposer.tell(f"puts up {review_id}: {_INTENT}")
    stage.show(coloured(proposed["diff"]))

    stage.scene("Claim, question, answer")
    waiting = proposer.wait("get_review_status", review_id=review_id, cursor=created["cursor"])
    claim = await reviewer.call("claim_review", reviewer_id="demo-reviewer")
    held = {name: claim[name] for name in ("review_id", "claim_generation")} | {"reviewer_id": "demo-reviewer"}
    reviewer.tell(f"claims the head of the queue: {review_id}, generation {claim['claim_generation']}")
    question = "Why one second? Three clients would come back in step."
    await reviewer.call("add_message", sender_role="reviewer", body=question, **held)
    reviewer.tell(f"asks: {question}")
    expect("what the proposer should do", (await waiting)["next_action"], "answer_message")
    answer = {"sender_role": "proposer", "body": "It was the first number that came to mind."}
    sent = await proposer.call("add_message", review_id=review_id, **answer)
    proposer.tell(f"was waiting, wakes at once and answers: {answer['body']}")

    stage.scene("Changes requested, with a counter-patch")
    waiting = proposer.wait("get_review_status", review_id=review_id, cursor=sent["cursor"])
    stage.write(f"desk/{_FILE}", _BETTER)
    better = (await asyncio.to_thread(_change, desk))["diff"]
    asked = {"verdict": "changes_requested", "reason": "Wait longer each time.", "counter_patch": better}
    given = await reviewer.call("submit_verdict", **asked, **held)
    reviewer.tell(f"requests changes ({asked['reason']}) and sends how it would do it:")
    stage.show(coloured(better))
    expect("what the proposer should do", (await waiting)["next_action"], "decide_counter_patch")
    patch = {"review_id": review_id, "counter_patch_id": given["counter_patch_id"]}
    accepted = await proposer.call("accept_counter_patch", **patch)
    proposer.tell(f"accepts the counter-patch: it becomes round {accepted['round']}")

    stage.scene("Second round, approved")
    waiting = proposer.wait("get_review_status", review_id=review_id, cursor=accepted["cursor"])
    claim = await reviewer.call("claim_review", review_id=review_id, reviewer_id="demo-reviewer")
    held["claim_generation"] = claim["claim_generation"]
    await reviewer.call("submit_verdict", verdict="approved", **held)
    reviewer.tell(f"claims it again (generation {claim['claim_generation']}) and approves round {claim['round']}")
    expect("what the proposer should do", (await waiting)["next_action"], "apply_and_close")
    proposer.tell(f"wakes to the approval of digest {waiting.result()['digest'][:12]}")
    await _land(stage, proposer, review_id)


async def _land(stage: Stage, proposer: Agent, review_id: str) -> None:
    stage.scene("Apply, and the gate")
    await stage.tandem("apply", review_id, status=1)
    proposer.tell("still has round 1 in the working tree: apply overwrites nothing. Put away, and again:")
    await stage.git("checkout", "--quiet", "HEAD", "--", _FILE)
    await stage.tandem("apply", review_id, "--index")
    await stage.tandem("gate", "check")
    stage.tell("gate", "passes what was approved. Now with one byte changed:")
    await stage.stage_file(_FILE, _BETTER.replace("2**attempt", "3**attempt"))
    await stage.tandem("gate", "check", status=1)
    await stage.stage_file(_FILE, _BETTER)
    await stage.git("commit", "--quiet", "--message", _INTENT)
    await stage.tandem("gate", "check", "--commit", "HEAD")

    stage.scene("The end")
    closed = await proposer.call("close_review", review_id=review_id)
    proposer.tell(f"closes {review_id}: {closed['outcome']}")
    await stage.tandem("review", "timeline", review_id)


def _change(folder: Path) -> dict[str, str]:
    """What differs in a working tree, as `create_review` takes it."""
    with Repository.discover(folder) as repository:
        found = repository.working_diff()
        return {"diff": found.diff, "base": found.base}
