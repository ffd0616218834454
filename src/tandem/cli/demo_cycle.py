"""The demonstration of hand-off cycles: a feature with rework into its archive, and a hand-off that is reviewed."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

from tandem.cli.demo_stage import PROJECT, Agent, Stage, expect
from tandem.client import TandemClient

GATED_WORKFLOW = "writer-editor"
"""The ready example that the broker is configured with; each hand-off is reviewed first."""

Facts = dict[str, list[str]]
_LISTS = ("files_modified", "endpoints", "data_shapes", "assumptions", "todos", "notes")
_WANTED: Facts = {"endpoints": ["GET /uploads/{id}/progress"], "todos": ["Say how far it is, twice a second."]}
_BUILT: Facts = {"files_modified": ["server/progress.py"], "notes": ["total is null until the first chunk has come."]}
_REWORK: Facts = {"todos": ["The bar cannot show null: take total from the Content-Length header."]}
_REWORKED: Facts = {"files_modified": ["server/progress.py"], "notes": ["total is there from the beginning."]}
_DRAFT: Facts = {"notes": ["Uploads are more robust."]}
_REVISED: Facts = {"notes": ["Uploads wait 1, 2, then 4 seconds between attempts."]}
_REASON = "Say what changed for whoever uploads."


class Player(Agent):
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

    async def hand_over(self, target: str, facts: Facts, told: str = "hands over to {target}: phase {phase}") -> str:
        """Write a hand-off with the lock token that was taken last, which may be stale; its review, if it has one."""
        status = await self.call("cycle_status", workflow=self.workflow)
        payload: dict[str, Any] = {"cycle_id": status["cycle_id"], "feature": status["feature"]}
        payload |= {"producer": self.who, "consumer": target, **{name: facts.get(name, []) for name in _LISTS}}
        told = told.replace("{target}", target)
        written = await self.do(told, "handoff_write", target=target, payload=payload, **self.tokens)
        self.stage.show(*(f"{name}: {entry}" for name, entries in facts.items() for entry in entries))
        return written["review_id"]

    async def read(self, facts: Facts, told: str) -> None:
        """Read what was handed over, and insist that it says these facts."""
        given = await self.do(told, "handoff_read", target=self.who, workflow=self.workflow)
        expect("what was handed over", {name: given.get(name) for name in facts}, facts)

    async def archive(self) -> Path:
        """Complete the cycle and archive it; the archive's folder."""
        await self.call("cycle_complete", **self.tokens)
        folder = Path((await self.call("cycle_archive", **self.tokens))["archive"])
        place = folder.relative_to(self.stage.folder).as_posix()
        self.tell(f"completes the cycle and archives it in {place}")
        return folder


async def play(stage: Stage) -> None:
    """Play both cycles to their ends."""
    stage.scene("A hand-off cycle: keys and sessions")
    await _play_rework(stage, *await _players(stage, "frontend-backend"))
    stage.scene("A hand-off that is reviewed first")
    await _play_reviewed(stage, *await _players(stage, GATED_WORKFLOW))


async def _players(stage: Stage, workflow: str) -> list[Player]:
    """Both roles of a workflow, with keys that the broker made."""
    async with TandemClient(stage.url, PROJECT, "demo") as client:
        keys = (await client.cycle_init(workflow=workflow)).keys
    shown = ", ".join(f"{role} {stage.masked(key)}" for role, key in keys.items())
    stage.tell("log", f"keys of {workflow}, shown this once: {shown}")
    players = [Player(stage, role, workflow) for role in keys]
    for player in players:
        await player.open_session(keys[player.who])
    return players


async def _play_rework(stage: Stage, gemini: Player, codex: Player) -> None:
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


async def _hand_over(giver: Player, taker: Player, facts: Facts, waiting: asyncio.Task[dict[str, Any]]) -> None:
    await giver.hand_over(taker.who, facts)
    expect("whose turn it is when the wait ends", (await waiting)["active_role"], taker.who)
    await taker.read(facts, "was waiting, wakes at once and reads it")


async def _play_reviewed(stage: Stage, writer: Player, editor: Player) -> None:
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
        "editor", _REVISED, f"was waiting, wakes at once and hands over anew: round 2 of {review_id}"
    )

    await _judge(reviewer, f"approves round 2 of {review_id}, and with it the cycle advances", verdict="approved")
    await waiting
    await editor.read(_REVISED, "was waiting, wakes at once and reads exactly what was approved")
    await editor.take_lock()
    await editor.archive()


async def _judge(reviewer: Agent, told: str, **verdict: str) -> None:
    claim = await reviewer.call("claim_review", reviewer_id="demo-reviewer")
    held = {name: claim[name] for name in ("review_id", "claim_generation")}
    await reviewer.do(told, "submit_verdict", reviewer_id="demo-reviewer", **held, **verdict)
