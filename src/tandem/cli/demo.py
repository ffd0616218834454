"""`tandem demo`: a review, hand-off cycles and a reviewer pool before your eyes, with a broker of their own."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import psutil

from tandem.bridge.location import HttpFailure
from tandem.cli.declared import Misused, Option
from tandem.cli.demo_stage import PROJECT, Agent, SceneFailed, Stage, expect, open_stage
from tandem.cli.render.parts import diff as coloured
from tandem.cli.terminal import Exit, say, show
from tandem.client import TandemClient
from tandem.core.scratch import ScratchFolder
from tandem.errors import TandemError
from tandem.examples import examples
from tandem.git.repository import Repository
from tandem.pool.contract import ReviewerView
from tandem.pool.reviewers import REENTRY_VARIABLE
from tandem.present.text import Text, Whole
from tandem.reviews.answers import EventView
from tandem.settings.pool import THROUGH_WSL
from tandem.store.event import EventKind


def demo(
    *,
    keep: Annotated[bool, Option(help="Keep the scratch folder.")] = False,
    only: Annotated[
        Literal["review", "cycle"] | None, Option(help="Play the review alone, or the hand-off cycles; default: both.")
    ] = None,
    pool: Annotated[bool, Option(help="Play a reviewer pool instead, with a scripted program for a model.")] = False,
) -> None:
    """Watch agents play a review and hand-off cycles: a broker, a repository and MCP clients, all real and scratch."""
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
    configuration = examples()[_GATED_WORKFLOW] + (_POOL_SETTINGS if pool else "")
    async with open_stage(folder, configuration) as stage:
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
            await _play_cycles(stage)
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


# ------------------------------------------------------------------------------------------ hand-off cycles

_GATED_WORKFLOW = "writer-editor"
"""The ready example that the broker is configured with; each hand-off is reviewed first."""

_Facts = dict[str, list[str]]
_LISTS = ("files_modified", "endpoints", "data_shapes", "assumptions", "todos", "notes")
_WANTED: _Facts = {"endpoints": ["GET /uploads/{id}/progress"], "todos": ["Say how far it is, twice a second."]}
_BUILT: _Facts = {"files_modified": ["server/progress.py"], "notes": ["total is null until the first chunk has come."]}
_REWORK: _Facts = {"todos": ["The bar cannot show null: take total from the Content-Length header."]}
_REWORKED: _Facts = {"files_modified": ["server/progress.py"], "notes": ["total is there from the beginning."]}
_DRAFT: _Facts = {"notes": ["Uploads are more robust."]}
_REVISED: _Facts = {"notes": ["Uploads wait 1, 2, then 4 seconds between attempts."]}
_REASON = "Say what changed for the people who upload."


class _Player(Agent):
    """An agent that has a role in a workflow, a session and, when it is its turn, the lock."""

    def __init__(self, stage: Stage, role: str, workflow: str) -> None:
        super().__init__(stage, role, "handoff")
        self.workflow = workflow
        self.tokens: dict[str, str] = {}

    async def open_session(self, key: str) -> None:
        """Connect, and show the key."""
        await self.connect()
        told = f"gives {self.stage.masked(key)} for the session {{session_token}}"
        opened = await self.do(told, "session_open", role=self.who, psk=key, workflow=self.workflow)
        self.tokens["session_token"] = opened["session_token"]

    def wait_for_turn(self) -> asyncio.Task[dict[str, Any]]:
        """Begin to wait for this role's turn."""
        return self.wait("cycle_status", workflow=self.workflow, role=self.who)

    async def start(self, feature: str) -> None:
        """Begin a cycle, and take its lock."""
        await self.do(
            "starts the cycle {cycle_id}: phase {phase}", "cycle_start", feature=feature, workflow=self.workflow
        )
        await self.take_lock("takes its lock: {lock_token}")

    async def take_lock(self, told: str = "takes the lock, with a token of its own: {lock_token}") -> None:
        """Take the lock, and keep its token."""
        taken = await self.do(told, "lock_acquire", session_token=self.tokens["session_token"])
        self.tokens["lock_token"] = taken["lock_token"]

    async def hand_over(self, target: str, facts: _Facts, told: str = "hands over to {target}: phase {phase}") -> str:
        """Write a hand-off with the lock token that was taken last, which may be stale; its review, if it has one."""
        status = await self.call("cycle_status", workflow=self.workflow)
        payload: dict[str, Any] = {"cycle_id": status["cycle_id"], "feature": status["feature"]}
        payload |= {"producer": self.who, "consumer": target, **{name: facts.get(name, []) for name in _LISTS}}
        told = told.replace("{target}", target)
        written = await self.do(told, "handoff_write", target=target, payload=payload, **self.tokens)
        self.stage.show(*(f"{name}: {entry}" for name, entries in facts.items() for entry in entries))
        return written["review_id"]

    async def read(self, facts: _Facts, told: str) -> None:
        """Read the hand-off, and insist that it says these facts."""
        given = await self.do(told, "handoff_read", target=self.who, workflow=self.workflow)
        expect("the hand-off", {name: given.get(name) for name in facts}, facts)

    async def archive(self) -> Path:
        """Complete the cycle and archive it; the archive's folder."""
        await self.call("cycle_complete", **self.tokens)
        folder = Path((await self.call("cycle_archive", **self.tokens))["archive"])
        place = folder.relative_to(self.stage.folder).as_posix()
        self.tell(f"completes the cycle and archives it in {place}")
        return folder


async def _play_cycles(stage: Stage) -> None:
    """A feature with rework into its archive, and a hand-off that is reviewed."""
    stage.scene("A hand-off cycle: keys and sessions")
    await _play_rework(stage, *await _players(stage, "frontend-backend"))
    stage.scene("A hand-off that is reviewed first")
    await _play_reviewed(stage, *await _players(stage, _GATED_WORKFLOW))


async def _players(stage: Stage, workflow: str) -> list[_Player]:
    """Both roles of a workflow, with keys that the broker made."""
    async with TandemClient(stage.url, PROJECT, "demo") as client:
        keys = (await client.cycle_init(workflow=workflow)).keys
    shown = ", ".join(f"{role} {stage.masked(key)}" for role, key in keys.items())
    stage.tell("log", f"keys of {workflow}, shown this once: {shown}")
    players = [_Player(stage, role, workflow) for role in keys]
    for player in players:
        await player.open_session(keys[player.who])
    return players


async def _play_rework(stage: Stage, gemini: _Player, codex: _Player) -> None:
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
    stated = json.loads(files.pop("manifest.json"))["sha256"]
    expect("the sums", stated, {name: hashlib.sha256(content).hexdigest() for name, content in files.items()})
    told = [name for name, content in files.items() if any(one.encode() in content for one in stage.secrets)]
    expect("the files with a key or a token in them", told, [])
    count = len(stage.secrets)
    stage.tell("log", f"every sum in the manifest is right, and none of {count} keys and tokens is in a file")


async def _hand_over(giver: _Player, taker: _Player, facts: _Facts, waiting: asyncio.Task[dict[str, Any]]) -> None:
    await giver.hand_over(taker.who, facts)
    expect("whose turn it is when the wait ends", (await waiting)["active_role"], taker.who)
    await taker.read(facts, "was waiting, wakes at once and reads it")


async def _play_reviewed(stage: Stage, writer: _Player, editor: _Player) -> None:
    reviewer = Agent(stage, "reviewer", "reviewer")
    await writer.start("Release notes")
    told = "hands over to {target}: it becomes the review {review_id}, and the phase stays {phase}"
    review_id = await writer.hand_over("editor", _DRAFT, told)
    again = writer.hand_over("editor", _DRAFT)
    await writer.refused(f"hands over again before {review_id} has a verdict", "INVALID_PHASE", again)

    waiting = writer.wait_for_turn()
    told = f"claims {review_id} and requests changes: {_REASON}"
    await _judge(reviewer, told, verdict="changes_requested", reason=_REASON)
    expect("what the writer hears", (await waiting)["review"]["reason"], _REASON)
    waiting = editor.wait_for_turn()
    await writer.hand_over(
        "editor", _REVISED, f"was waiting, wakes at once and hands over again: round 2 of {review_id}"
    )

    await _judge(reviewer, f"approves round 2 of {review_id}, and with it the cycle advances", verdict="approved")
    await waiting
    await editor.read(_REVISED, "was waiting, wakes at once and reads exactly the approved hand-off")
    await editor.take_lock()
    await editor.archive()


async def _judge(reviewer: Agent, told: str, **verdict: str) -> None:
    claim = await reviewer.call("claim_review", reviewer_id="demo-reviewer")
    held = {name: claim[name] for name in ("review_id", "claim_generation")}
    await reviewer.do(told, "submit_verdict", reviewer_id="demo-reviewer", **held, **verdict)


# ------------------------------------------------------------------------------------------ a reviewer pool

_PROGRAM = "tandem.examples.scripted_reviewer"
_CAP = 2
_AT_ONCE = 6
# Short times, so that the story takes seconds. A text of JSON is one of TOML, too.
_POOL_SETTINGS = f"""
[reviewer_pool]
enabled = true
provider = "custom"
command = {json.dumps([sys.executable, "-m", _PROGRAM])}
max_pool_size = {_CAP}
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
    """Without anybody who reviews, every proposal gets its verdict, or a loud failure; stops the broker."""
    if THROUGH_WSL:
        raise SceneFailed("on Windows reviewers run in WSL, which this demonstration does not set up")
    async with TandemClient(stage.url, PROJECT, "demo") as client:
        story = _PoolStory(stage, client, (await client.get_audit_log(limit=1)).cursor)
        for part in (story.defect_and_revision, story.many, story.pause_and_failure, story.shutdown):
            await part()


class _PoolStory:
    def __init__(self, stage: Stage, client: TandemClient, beginning: str) -> None:
        self._stage, self._client, self._beginning = stage, client, beginning

    async def defect_and_revision(self) -> None:
        """A proposal with a defect, and its revision up to the commit."""
        stage, client = self._stage, self._client
        stage.scene("A proposal, and no reviewer")
        await stage.tandem("reviewers", "list")
        stage.write(f"{PROJECT}/{_PRICES}", _PRICES_PROPOSED)
        review_id = _id_in(await stage.tandem("submit", "-m", "Read prices from the form", *_WAIT, status=10))
        comments = [entry for entry in (await client.get_discussion(review_id)).entries if entry.file is not None]
        stage.tell("reviewer", f"{comments[0].author}, which the pool started by itself, requests changes:")
        stage.show(*(f"{one.file}:{one.line}: {one.body}" for one in comments))

        stage.scene("A revision, and the gate")
        await stage.stage_file(_PRICES, _PRICES_BETTER)
        await stage.tandem("submit", "--revise", review_id, *_WAIT)
        await stage.tandem("gate", "check")
        await stage.git("commit", "--quiet", "--message", "Read prices from the form")
        await client.close_review(review_id)
        stage.tell("gate", "passes it, to the byte; it is committed, and the review closed")

    async def many(self) -> None:
        """More proposals at once than there may be reviewers."""
        stage, client = self._stage, self._client
        stage.scene(f"{_AT_ONCE} proposals at once, for at most {_CAP} reviewers")
        created = await asyncio.gather(*(self._propose(f"Note {number}, a SLOW one") for number in range(_AT_ONCE)))
        stage.tell("proposer", f"makes {len(created)} proposals at once")
        waits = (client.wait_for_verdict(one, timeout_s=60) for one in created)
        expect("the verdicts", {one.status for one in await asyncio.gather(*waits)}, {"approved"})
        for one in reversed(await self._reviewers()):
            stage.tell("reviewer", f"{one.name} has given {one.reviews_completed} verdicts by now")
        now = most = 0
        for event in await self._events(self._beginning):
            now += (event.kind == EventKind.REVIEWER_REQUESTED) - (event.kind == EventKind.REVIEWER_TERMINATED)
            most = max(most, now)
        expect("how many reviewers there were at a time, at most", most, _CAP)
        stage.tell("log", f"proves that there were never more than {most} reviewers at a time")

    async def pause_and_failure(self) -> None:
        """A pool that is paused, and a program that fails."""
        stage = self._stage
        stage.scene("Paused by hand")
        await stage.tandem("reviewers", "pause", "--reason", "the model is down")
        await self._until("all reviewers have ended", lambda found: all(one.ended_at is not None for one in found))
        stage.tell("reviewer", "each finishes its review, and ends")

        stage.scene("A program that fails")
        await stage.stage_file(_PRICES, _PRICES_BETTER.replace("2)", "3)"))
        review_id = _id_in(await stage.tandem("submit", "-m", "Round to three digits; makes the program CRASH"))
        stage.tell("proposer", "waits: while the pool is paused, nothing is started")
        await stage.tandem("reviewers", "resume")
        await stage.tandem("review", "status", review_id, *_WAIT, status=14)
        for event in await self._events(self._beginning):
            if event.kind == EventKind.CLAIM_RELEASED and event.subject == review_id:
                later = "tried again later" if event.data.get("not_before") else "raised to a person's attention"
                stage.tell("log", f"{event.actor}: {event.data['reason']}; {later}")
        await stage.tandem("gate", "check", status=1)
        stage.tell("gate", "stays closed: a review that could not be done is never an approval")
        await stage.tandem("reviewers", "list")

    async def shutdown(self) -> None:
        """The broker stops in the middle of a review."""
        self._stage.scene("The broker stops while a program hangs")
        await self._propose("Have the program HANG")
        await self._until("its program runs", lambda found: any(_PROGRAM in words for words in self._processes(found)))
        known = await self._reviewers()
        await self._stage.tandem("down", "--data-dir", str(self._stage.data_dir))
        expect("the processes that are left", self._processes(known), [])
        self._stage.tell("log", f"of {len(known)} reviewers, their programs and the broker no process is left")

    async def _propose(self, intent: str) -> str:
        """Propose a new file with a line of its own."""
        name = re.sub(r"\W+", "-", intent.lower()) + ".md"
        head = f"diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n"
        diff = f"{head}@@ -0,0 +1 @@\n+{intent}.\n"
        return (await self._client.create_review(intent=intent, agent_type="demo-proposer", diff=diff)).review_id

    async def _reviewers(self) -> list[ReviewerView]:
        return list((await self._client.list_reviewers(project=PROJECT)).reviewers)

    def _processes(self, reviewers: list[ReviewerView]) -> list[str]:
        """What still runs of the stage: processes of reviewers by their environment, others by the folder's name."""
        known = {one.reviewer_id for one in reviewers}
        found: list[str] = []
        for process in psutil.process_iter():
            # Gone, or somebody else's.
            with contextlib.suppress(psutil.Error, OSError):
                words = " ".join(process.cmdline())
                if process.environ().get(REENTRY_VARIABLE) in known or str(self._stage.folder) in words:
                    found.append(words)
        return found

    async def _events(self, cursor: str) -> list[EventView]:
        """The log behind a place in it, oldest first."""
        page = await self._client.get_audit_log(cursor=cursor, limit=200)
        return [*page.events, *(await self._events(page.cursor) if page.more else ())]

    async def _until(self, what: str, condition: Callable[[list[ReviewerView]], bool]) -> None:
        """Wait for something, and look again after every event."""
        deadline = time.monotonic() + 60
        cursor = (await self._client.get_audit_log(limit=1)).cursor
        while not condition(await self._reviewers()):
            if time.monotonic() > deadline:
                raise SceneFailed(f"waited in vain until {what}")
            # Not for longer: that a process begins is no event.
            cursor = (await self._client.get_audit_log(cursor=cursor, wait=True, timeout_s=5)).cursor


def _id_in(output: str) -> str:
    return re.findall(r"\brv_[0-9a-z]+", output)[0]
