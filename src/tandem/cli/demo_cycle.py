"""The demonstration's second part: a feature goes through a hand-off cycle, with rework, into its archive."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

from tandem.cli.demo_mcp import McpClient
from tandem.cli.demo_player import Player, make_keys
from tandem.cli.demo_teller import Teller, expect, expect_equal, expect_refusal

_WORKFLOW = "frontend-backend"
_FEATURE = "Upload progress"
_WANTED = {
    "files_modified": ["web/progress.js"],
    "endpoints": ["GET /uploads/{id}/progress"],
    "data_shapes": [{"Progress": {"sent": "bytes", "total": "bytes"}}],
    "todos": ["Say how far an upload is; the bar asks twice a second."],
}
_BUILT = {
    "files_modified": ["server/progress.py"],
    "endpoints": ["GET /uploads/{id}/progress"],
    "notes": ["total is null until the first chunk has come."],
}
_REWORK = {
    "files_modified": ["web/progress.js"],
    "todos": ["The bar cannot show null: take total from the Content-Length header."],
}
_REWORKED = {"files_modified": ["server/progress.py"], "notes": ["total is there from the beginning."]}


class CycleStory:
    """Plays a cycle of the built-in workflow and tells it as it happens."""

    def __init__(self, teller: Teller) -> None:
        self._teller = teller

    async def play(self) -> None:
        """Play it to the end.

        Raises:
            SceneFailed: A step went otherwise; says which, and what differed.
        """
        address = self._teller.stage.endpoint("handoff")
        async with McpClient(address, "demo-gemini") as first, McpClient(address, "demo-codex") as second:
            gemini = Player("gemini", _WORKFLOW, first, self._teller)
            codex = Player("codex", _WORKFLOW, second, self._teller)
            self._teller.scene("A hand-off cycle: keys and sessions")
            keys = await make_keys(self._teller, _WORKFLOW)
            for player in (gemini, codex):
                await player.open_session(keys[player.role])
            await self._begin(gemini, codex)
            await self._come_back(gemini, codex)
            await self._rework(gemini, codex)
            await self._end(gemini)

    async def _begin(self, gemini: Player, codex: Player) -> None:
        self._teller.scene("From the front end to the back end")
        begun = await gemini.start(_FEATURE)
        expect_equal("the first phase", (begun["phase"], begun["active_role"]), ("frontend", "gemini"))
        gemini.tell(f"starts the cycle {begun['cycle_id']}: phase frontend")
        waiting = codex.wait_for_turn()
        codex.tell("waits for its turn, and the call stays open")
        refusal = await expect_refusal(
            "the lock out of turn", "LOCK_DENIED", codex.client.call("lock_acquire", session_token=codex.session_token)
        )
        expect_equal("the active role", refusal["details"]["activeRole"], "gemini")
        codex.tell("asks for the lock out of turn, and is refused: LOCK_DENIED")
        gemini.tell(f"takes the lock: {await gemini.take_lock()}")
        expect(not waiting.done(), "codex still waits while it is gemini's turn")
        await self._hand_over(gemini, codex, _WANTED, waiting, phase="backend")
        codex.tell(f"takes the lock, with a token of its own: {await codex.take_lock()}")

    async def _come_back(self, gemini: Player, codex: Player) -> None:
        self._teller.scene("Back again, and a stale token")
        await self._hand_over(codex, gemini, _BUILT, gemini.wait_for_turn(), phase="frontend_refine")
        stale = self._teller.masked(gemini.lock_token)
        await expect_refusal("a stale lock token", "LOCK_DENIED", gemini.hand_over("codex", _REWORK))
        expect_equal("the phase", (await gemini.status())["phase"], "frontend_refine")
        gemini.tell(f"hands over with the token of before, {stale}, and is refused: LOCK_DENIED")

    async def _rework(self, gemini: Player, codex: Player) -> None:
        self._teller.scene("One round of rework")
        gemini.tell(f"takes the lock, whose token is another by now: {await gemini.take_lock()}")
        await self._hand_over(gemini, codex, _REWORK, codex.wait_for_turn(), phase="backend")
        codex.tell(f"takes the lock: {await codex.take_lock()}")
        await self._hand_over(codex, gemini, _REWORKED, gemini.wait_for_turn(), phase="frontend_refine")

    async def _end(self, gemini: Player) -> None:
        self._teller.scene("Complete, and archived")
        gemini.tell(f"takes the lock: {await gemini.take_lock()}")
        await gemini.complete()
        gemini.tell(f"completes the cycle: {_FEATURE} is done")
        folder = Path(await gemini.archive())
        expect(folder.is_relative_to(self._teller.stage.data_dir), "the archive is below the broker's data", folder)
        gemini.tell(f"archives it in {folder.relative_to(self._teller.stage.folder).as_posix()}")
        files = await asyncio.to_thread(_files, folder)
        self._teller.show_lines([f"{len(content):>5} bytes  {name}" for name, content in files.items()])
        self._check_archive(files)

    async def _hand_over(
        self,
        giver: Player,
        taker: Player,
        facts: dict[str, list[Any]],
        waiting: asyncio.Task[dict[str, Any]],
        *,
        phase: str,
    ) -> None:
        """One hand-off: written, its taker woken, and read."""
        written = await giver.hand_over(taker.role, facts)
        expect_equal("who is next, and where", (written["active_role"], written["phase"]), (taker.role, phase))
        giver.tell(f"hands over to {taker.role}: phase {phase}")
        self._teller.show_lines(
            [f"{name}: {json.dumps(entry)}" for name, entries in facts.items() for entry in entries]
        )
        status = await waiting
        expect_equal("the phase in which the wait ends", status["phase"], phase)
        await taker.read(facts)
        taker.tell("was waiting, wakes at once and reads it")

    def _check_archive(self, files: dict[str, bytes]) -> None:
        """Insist that the archive is whole, and has every hand-off and no secret."""
        manifest = json.loads(files["manifest.json"])
        sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items() if name != "manifest.json"}
        expect_equal("the manifest's sums", manifest["sha256"], sums)
        targets = [handoff["target"] for handoff in manifest["handoffs"]]
        expect_equal("the hand-offs in the archive", targets, ["codex", "gemini", "codex", "gemini"])
        secrets = [secret.encode() for secret in self._teller.secrets]
        kept = [name for name, content in files.items() if any(secret in content for secret in secrets)]
        expect_equal("the files with a key or a token in them", kept, [])
        self._teller.tell(
            "log", f"every sum in the manifest is right, and none of {len(secrets)} keys and tokens is in a file"
        )


def _files(folder: Path) -> dict[str, bytes]:
    """The content of every file below a folder by its path there."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}
