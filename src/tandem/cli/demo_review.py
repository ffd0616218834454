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


_REVIEWER = {"reviewer_id": "demo-reviewer"}


async def play(stage: Stage) -> None:
    """Play it to the end."""
    desk = stage.folder / "desk"
    await stage.stage_file(_FILE, _BEFORE)
    await stage.git("commit", "--quiet", "--message", "Uploads are tried three times")
    await stage.git("worktree", "add", "--quiet", "--detach", str(desk))
    proposer, reviewer = [await Agent(stage, role, role).connect() for role in ("proposer", "reviewer")]

    stage.scene("The proposal")
    await stage.stage_file(_FILE, _PROPOSED)
    proposed = await asyncio.to_thread(_change, stage.repository)
    told = f"puts up {{review_id}}: {_INTENT}"
    news = await proposer.do(told, "create_review", intent=_INTENT, agent_type="demo-proposer", **proposed)
    stage.show(coloured(proposed["diff"]))
    review = {"review_id": news["review_id"]}

    async def turn(action: str) -> None:
        """Insist on what the wait that is open tells the proposer to do."""
        expect("what the proposer should do", (await waiting)["next_action"], action)

    stage.scene("Claim, question, answer")
    waiting = proposer.wait("get_review_status", **review, cursor=news["cursor"])
    told = "claims the head of the queue: {review_id}, generation {claim_generation}"
    claim = await reviewer.do(told, "claim_review", **_REVIEWER)
    held = {**review, **_REVIEWER, "claim_generation": claim["claim_generation"]}
    question = "Why one second? Three clients would come back in step."
    await reviewer.do(f"asks: {question}", "add_message", sender_role="reviewer", body=question, **held)
    await turn("answer_message")
    answer = "It was the first number that came to mind."
    told = f"was waiting, wakes at once and answers: {answer}"
    news = await proposer.do(told, "add_message", sender_role="proposer", body=answer, **review)

    stage.scene("Changes requested, with a counter-patch")
    waiting = proposer.wait("get_review_status", **review, cursor=news["cursor"])
    stage.write(f"desk/{_FILE}", _BETTER)
    better = (await asyncio.to_thread(_change, desk))["diff"]
    asked = {"verdict": "changes_requested", "reason": "Wait longer each time.", "counter_patch": better}
    told = f"requests changes ({asked['reason']}) and sends how it would do it:"
    given = await reviewer.do(told, "submit_verdict", **asked, **held)
    stage.show(coloured(better))
    await turn("decide_counter_patch")
    patch = {**review, "counter_patch_id": given["counter_patch_id"]}
    told = "accepts the counter-patch: it becomes round {round}"
    news = await proposer.do(told, "accept_counter_patch", **patch)

    stage.scene("Second round, approved")
    waiting = proposer.wait("get_review_status", **review, cursor=news["cursor"])
    told = "claims it again (generation {claim_generation})"
    claim = await reviewer.do(told, "claim_review", **review, **_REVIEWER)
    held["claim_generation"] = claim["claim_generation"]
    await reviewer.do("approves round {round}", "submit_verdict", verdict="approved", **held)
    await turn("apply_and_close")
    proposer.tell(f"wakes to the approval of digest {waiting.result()['digest'][:12]}")
    await _land(stage, proposer, news["review_id"])


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
    await proposer.do("closes {review_id}: {outcome}", "close_review", review_id=review_id)
    await stage.tandem("review", "timeline", review_id)


def _change(folder: Path) -> dict[str, str]:
    """What differs in a working tree, as `create_review` takes it."""
    with Repository.discover(folder) as repository:
        found = repository.working_diff()
        return {"diff": found.diff, "base": found.base}
