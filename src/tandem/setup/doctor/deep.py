"""What `--deep` tries beyond the rest: a review by the pool's own program, in a project that is gone afterwards."""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tandem.core.scratch import ScratchFolder
from tandem.errors import TandemError
from tandem.git.runner import Git, clean_environment
from tandem.setup.doctor.finding import DoctorContext, Finding, ok, problem, skipped
from tandem.setup.registration import Call

_SECONDS: Final = 300.0
_WAIT_SECONDS: Final = 10.0
_UNDECIDED: Final = {"pending", "claimed", "in_review"}
_LOOK: Final = "tandem reviewers list; tandem reviewers logs"
_GIT: Final = Git(timeout_seconds=60.0)
_NOBODY: Final = ("-c", "user.name=Tandem's doctor", "-c", "user.email=doctor@localhost")
_DIFF: Final = """\
diff --git a/try.txt b/try.txt
--- a/try.txt
+++ b/try.txt
@@ -1 +1 @@
-This is a trial
+This is a trial.
"""


async def check_review(here: DoctorContext) -> list[Finding]:
    """Propose a full stop, and wait for what the pool's program says of it."""
    if not here.deep:
        return []
    if here.call is None:
        return [skipped("review", here.silence)]
    if here.facts.get("reviewer_pool", "off") == "off":
        return [skipped("review", "There is no pool whose program could be tried.")]
    here.tell("waiting for a review by the pool")
    with ScratchFolder("doctor") as name:
        await asyncio.to_thread(_make_repository, Path(name))
        project = f"tandem-doctor-{secrets.token_hex(4)}"
        await here.call("register_project", {"root": name, "name": project})
        try:
            return [await _reviewed(here.call, project)]
        finally:
            with suppress(TandemError):
                await here.call("remove_project", {"name": project})


async def _reviewed(call: Call, project: str) -> Finding:
    intent = "A try by tandem doctor --deep: end the sentence with a full stop. Give any verdict."
    request = {"project": project, "intent": intent, "agent_type": "doctor", "diff": _DIFF}
    review_id = (await call("create_review", request))["review_id"]
    try:
        status = await _decided(call, project, review_id)
    finally:
        with suppress(TandemError):
            await call("close_review", {"review_id": review_id, "reason": "It was a try by tandem doctor."})
    if status["status"] not in _UNDECIDED:
        return ok("review", f"The pool's program reviewed a try: {status['status']}.")
    why = status.get("no_reviewer")
    if why:
        return problem("review", f"The pool's program gave no verdict: {why['message']}", why["remedy"])
    return problem("review", f"The pool's program gave no verdict in {_SECONDS:g} s.", _LOOK)


async def _decided(call: Call, project: str, review_id: str) -> dict[str, Any]:
    """The review's state, once there is a verdict, or a reason why none has come."""
    deadline, cursor = time.monotonic() + _SECONDS, None
    while True:
        request = {"project": project, "review_id": review_id, "wake_on": "any", "timeout_s": _WAIT_SECONDS}
        status = await call("get_review_status", {**request, "wait": cursor is not None, "cursor": cursor})
        is_over = status["status"] not in _UNDECIDED or bool(status.get("no_reviewer") or status.get("attention"))
        if is_over or time.monotonic() > deadline:
            return status
        cursor = status["cursor"]


def _make_repository(folder: Path) -> None:
    environment = clean_environment({}, isolated=True)
    (folder / "try.txt").write_text("This is a trial\n", "utf-8")
    for arguments in (
        ["init", "--quiet", "--template="],
        ["add", "try.txt"],
        [*_NOBODY, "commit", "--quiet", "-m", "start"],
    ):
        _GIT.run(arguments, cwd=folder, environment=environment)
