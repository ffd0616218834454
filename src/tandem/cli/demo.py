"""`tandem demo`: a review, a hand-off cycle and a reviewer pool before your eyes, with a broker of their own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any, Literal

from tandem.bridge.location import HttpFailure
from tandem.cli.declared import Misused, Option
from tandem.cli.demo_stage import PROJECT, Agent, SceneFailed, Stage, expect, open_stage
from tandem.cli.render.parts import diff as coloured
from tandem.cli.terminal import Exit, say, show
from tandem.client import TandemClient
from tandem.core.scratch import ScratchFolder
from tandem.errors import TandemError
from tandem.git.repository import Repository
from tandem.present.text import Text, Whole
from tandem.settings.pool import THROUGH_WSL


def demo(
    *,
    keep: Annotated[bool, Option(help="Keep the scratch folder.")] = False,
    only: Annotated[
        Literal["review", "cycle"] | None, Option(help="Play the review alone, or the hand-off cycle; default: both.")
    ] = None,
    pool: Annotated[bool, Option(help="Play a reviewer pool instead, with a scripted program for a model.")] = False,
) -> None:
    """Watch agents play a review and a hand-off cycle: a broker, a repository and MCP clients, all real and scratch."""
    if pool and only is not None:
        raise Misused("A pool plays alone; leave out --only.", "--pool")
    began = time.monotonic()
    # The sweep of scratch folders leaves one with this name alone.
    scratch = contextlib.nullcontext(tempfile.mkdtemp(prefix="tandem-demo-kept-")) if keep else ScratchFolder("demo")
    try:
        with scratch as folder:
            if keep:
                say(f"The scratch folder stays: {folder}")
            asyncio.run(_play(Path(folder).resolve(), only, pool=pool))
    except (SceneFailed, TandemError, HttpFailure, TimeoutError) as error:
        reason = Text.assemble(("The demonstration failed: ", "bold red"), str(error) or type(error).__name__)
        show(Whole(reason), stderr=True)
        raise SystemExit(Exit.REFUSED) from None
    show(Text(f"\nAll of it happened as it must, in {time.monotonic() - began:.1f} s.", "bold green"))


async def _play(folder: Path, only: str | None, *, pool: bool) -> None:
    async with open_stage(folder, _POOL_SETTINGS if pool else "") as stage:
        who = "a broker with a pool of reviewers" if pool else "a broker, and agents that speak MCP"
        stage.scene(f"A repository, {who}")
        await stage.git("init", "--quiet", "--initial-branch=main")
        await stage.git("commit", "--quiet", "--allow-empty", "--message", "Begin")
        stage.tell("log", f"broker at {stage.url}, on embedded SQLite")
        await stage.tandem("project", "add")
        if pool:
            await _play_pool(stage)
        if not pool and only != "cycle":
            await _play_review(stage)
        if not pool and only != "review":
            await _play_cycle(stage)
        stage.scene("The log of all this")
        await stage.tandem("audit", "verify", "--data-dir", str(stage.data_dir))


# ------------------------------------------------------------------------------------------ a review

_UPLOAD = "upload.py"
_INTENT = "Wait between upload attempts"
_UPLOAD_BEFORE = '''"""Uploads, tried again when the network fails."""

ATTEMPTS = 3


def upload(send, parcel):
    for _ in range(ATTEMPTS):
        try:
            return send(parcel)
        except ConnectionError:
            continue
    raise TimeoutError(f"gave up after {ATTEMPTS} attempts")
'''
_UPLOAD_PROPOSED = _UPLOAD_BEFORE.replace("            continue\n", "            time.sleep(1)\n").replace(
    "\nATTEMPTS", "\nimport time\n\nATTEMPTS"
)
_UPLOAD_BETTER = _UPLOAD_PROPOSED.replace("for _ in", "for attempt in").replace(
    "time.sleep(1)", "time.sleep(2**attempt)"
)


_REVIEWER = {"reviewer_id": "demo-reviewer"}


async def _play_review(stage: Stage) -> None:
    """One change from the proposal to the commit."""
    desk = stage.folder / "desk"
    await stage.stage_file(_UPLOAD, _UPLOAD_BEFORE)
    await stage.git("commit", "--quiet", "--message", "Uploads are tried three times")
    await stage.git("worktree", "add", "--quiet", "--detach", str(desk))
    proposer, reviewer = [await Agent(stage, role, role).connect() for role in ("proposer", "reviewer")]

    stage.scene("The proposal")
    await stage.stage_file(_UPLOAD, _UPLOAD_PROPOSED)
    proposed = await asyncio.to_thread(_change, stage.repository)
    told = f"proposes {{review_id}}: {_INTENT}"
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
    stage.write(f"desk/{_UPLOAD}", _UPLOAD_BETTER)
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
    await stage.git("checkout", "--quiet", "HEAD", "--", _UPLOAD)
    await stage.tandem("apply", review_id, "--index")
    await stage.tandem("gate", "check")
    stage.tell("gate", "passes the approved content. Now with one byte changed:")
    await stage.stage_file(_UPLOAD, _UPLOAD_BETTER.replace("2**attempt", "3**attempt"))
    await stage.tandem("gate", "check", status=1)
    await stage.stage_file(_UPLOAD, _UPLOAD_BETTER)
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


# ------------------------------------------------------------------------------------------ a hand-off cycle

_Facts = dict[str, list[str]]
_LISTS = ("files_modified", "endpoints", "data_shapes", "assumptions", "todos", "notes")
_WANTED: _Facts = {"endpoints": ["GET /uploads/{id}/progress"], "todos": ["Say how far it is, twice a second."]}
_BUILT: _Facts = {"files_modified": ["server/progress.py"], "notes": ["total is null until the first chunk has come."]}
_REWORK: _Facts = {"todos": ["The bar cannot show null: take total from the Content-Length header."]}
_REWORKED: _Facts = {"files_modified": ["server/progress.py"], "notes": ["total is there from the beginning."]}


class _Player(Agent):
    """An agent that has a role in the workflow, a session and, when it is its turn, the lock."""

    def __init__(self, stage: Stage, role: str) -> None:
        super().__init__(stage, role, "handoff")
        self.tokens: dict[str, str] = {}

    async def open_session(self, key: str) -> None:
        """Connect, and show the key."""
        await self.connect()
        told = f"gives {self.stage.masked(key)} for the session {{session_token}}"
        opened = await self.do(told, "session_open", role=self.who, psk=key)
        self.tokens["session_token"] = opened["session_token"]

    def wait_for_turn(self) -> asyncio.Task[dict[str, Any]]:
        """Begin to wait for this role's turn."""
        return self.wait("cycle_status", role=self.who)

    async def start(self, feature: str) -> None:
        """Begin a cycle, and take its lock."""
        await self.do("starts the cycle {cycle_id}: phase {phase}", "cycle_start", feature=feature)
        await self.take_lock("takes its lock: {lock_token}")

    async def take_lock(self, told: str = "takes the lock, with a token of its own: {lock_token}") -> None:
        """Take the lock, and keep its token."""
        taken = await self.do(told, "lock_acquire", session_token=self.tokens["session_token"])
        self.tokens["lock_token"] = taken["lock_token"]

    async def hand_over(self, target: str, facts: _Facts) -> None:
        """Write a hand-off with the lock token that was taken last, which may be stale."""
        status = await self.call("cycle_status")
        payload: dict[str, Any] = {"cycle_id": status["cycle_id"], "feature": status["feature"]}
        payload |= {"producer": self.who, "consumer": target, **{name: facts.get(name, []) for name in _LISTS}}
        told = f"hands over to {target}: phase {{phase}}"
        await self.do(told, "handoff_write", target=target, payload=payload, **self.tokens)
        self.stage.show(*(f"{name}: {entry}" for name, entries in facts.items() for entry in entries))

    async def read(self, facts: _Facts, told: str) -> None:
        """Read the hand-off, and insist that it says these facts."""
        given = await self.do(told, "handoff_read", target=self.who)
        expect("the hand-off", {name: given.get(name) for name in facts}, facts)

    async def archive(self) -> Path:
        """Complete the cycle and archive it; the archive's folder."""
        await self.call("cycle_complete", **self.tokens)
        folder = Path((await self.call("cycle_archive", **self.tokens))["archive"])
        place = folder.relative_to(self.stage.folder).as_posix()
        self.tell(f"completes the cycle and archives it in {place}")
        return folder


async def _play_cycle(stage: Stage) -> None:
    """A feature with a round of rework, into its archive."""
    stage.scene("A hand-off cycle: keys and sessions")
    async with TandemClient(stage.url, PROJECT, "demo") as client:
        keys = (await client.cycle_init()).keys
    shown = ", ".join(f"{role} {stage.masked(key)}" for role, key in keys.items())
    stage.tell("log", f"keys, shown this once: {shown}")
    gemini, codex = players = [_Player(stage, role) for role in keys]
    for player in players:
        await player.open_session(keys[player.who])

    stage.scene("From the front end to the back end")
    await gemini.start("Upload progress")
    waiting = codex.wait_for_turn()
    codex.tell("waits for its turn, and the call stays open")
    await codex.refused("asks for the lock out of turn", "LOCK_DENIED", codex.take_lock())
    await _hand_over(gemini, codex, _WANTED, waiting)
    await codex.take_lock()

    stage.scene("Back again, and a stale token")
    await _hand_over(codex, gemini, _BUILT, gemini.wait_for_turn())
    told = f"hands over with the token of before, {stage.masked(gemini.tokens['lock_token'])}"
    await gemini.refused(told, "LOCK_DENIED", gemini.hand_over("codex", _REWORK))

    stage.scene("One round of rework")
    await gemini.take_lock("takes the lock, whose token is another by now: {lock_token}")
    await _hand_over(gemini, codex, _REWORK, codex.wait_for_turn())
    await codex.take_lock()
    await _hand_over(codex, gemini, _REWORKED, gemini.wait_for_turn())

    stage.scene("Complete, and archived")
    await gemini.take_lock()
    folder = await gemini.archive()
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    stage.show(*(f"{len(content):>5} bytes  {name}" for name, content in sorted(files.items())))


async def _hand_over(giver: _Player, taker: _Player, facts: _Facts, waiting: asyncio.Task[dict[str, Any]]) -> None:
    await giver.hand_over(taker.who, facts)
    expect("whose turn it is when the wait ends", (await waiting)["active_role"], taker.who)
    await taker.read(facts, "was waiting, wakes at once and reads it")


# ------------------------------------------------------------------------------------------ a reviewer pool

_PROGRAM = "tandem.examples.scripted_reviewer"
# Short times, so that the story takes seconds. A text of JSON is one of TOML, too.
_POOL_SETTINGS = f"""
[reviewer_pool]
enabled = true
provider = "custom"
command = {json.dumps([sys.executable, "-m", _PROGRAM])}
scaling_ratio = 1
spawn_cooldown_seconds = 0
retry_delay_seconds = 0.2
drain_seconds = 0.5
grace_seconds = 1
"""
_PRICES = "prices.py"
_PRICES_PROPOSED = '''"""Prices as people type them into the form."""


def price(text):
    return round(eval(text), 2)
'''
_PRICES_BETTER = _PRICES_PROPOSED.replace("eval(text)", "float(text)")
_WAIT = ("--wait", "--timeout", "60")


async def _play_pool(stage: Stage) -> None:
    """A proposal with a defect gets its verdict without anybody who reviews, and its revision up to the commit."""
    if THROUGH_WSL:
        raise SceneFailed("on Windows reviewers run in WSL, which this demonstration does not set up")
    stage.scene("A proposal, and no reviewer")
    await stage.tandem("reviewers", "list")
    stage.write(f"{PROJECT}/{_PRICES}", _PRICES_PROPOSED)
    told = await stage.tandem("submit", "-m", "Read prices from the form", *_WAIT, status=10)
    [review_id, *_] = re.findall(r"\brv_[0-9a-z]+", told)
    async with TandemClient(stage.url, PROJECT, "demo") as client:
        comments = [entry for entry in (await client.get_discussion(review_id)).entries if entry.file is not None]
    stage.tell("reviewer", f"{comments[0].author}, which the pool started by itself, requests changes:")
    stage.show(*(f"{one.file}:{one.line}: {one.body}" for one in comments))

    stage.scene("A revision, and the gate")
    await stage.stage_file(_PRICES, _PRICES_BETTER)
    await stage.tandem("submit", "--revise", review_id, *_WAIT)
    await stage.tandem("gate", "check")
    await stage.git("commit", "--quiet", "--message", "Read prices from the form")
    await stage.tandem("review", "close", review_id)
    await stage.tandem("reviewers", "list")
    await stage.tandem("down", "--data-dir", str(stage.data_dir))
