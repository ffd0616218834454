"""What agents call at the end of a turn: `Stop` (Claude Code, Codex), `AfterAgent` (Gemini CLI), OpenCode's plugin.

If a review that the session submitted was decided or asks something, the agent goes on with that. It hears each change
once: it is noted first, and what cannot be noted is not told. Nothing else here keeps an agent from ending its turn.
"""

from __future__ import annotations

import json
import os
import sys
import time

from tandem.bridge.location import locate
from tandem.bridge.session import Session
from tandem.bridge.submitted import submissions
from tandem.errors import NotFound
from tandem.rulings import next_steps, person

TYPE_CHECKING = False  # as in `rulings.git`
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from tandem.bridge.submitted import Submission

    Status = dict[str, Any]

PATIENCE_SECONDS = 2.0
"""How long the broker may take in all: the agent has nothing to do meanwhile."""

AGENT = "turn-hook"
"""Who asks, in the log."""

LARGEST_BYTES = 16 * 1024 * 1024
_MOST_ASKED = 10
_MOST_LINES = 2
_LONGEST_REASON = 4000
GO_ON = "Tandem has news of what you submitted for review. Go on with it now:"


def main(_: Sequence[str]) -> int:
    """Have the agent go on if there is news, in the form that all clients take; answers with 0."""
    try:
        folder, session = account(sys.stdin.buffer.read(LARGEST_BYTES))
        news = told(folder, session, _block)
    except Exception:  # noqa: BLE001 - the edge: an agent must not be kept from ending its turn
        return 0
    if news:
        sys.stdout.write(json.dumps({"decision": "block", "reason": "\n\n".join([GO_ON, *news])}) + "\n")
    return 0


def account(data: bytes) -> tuple[str, str | None]:
    """Where a session works, and its id if the client names one."""
    try:
        said: Any = json.loads(data)
        folder: Any = said.get("cwd")
        session: Any = said.get("session_id")
    except (ValueError, AttributeError, RecursionError):
        folder = session = None
    works_in = folder if isinstance(folder, str) and os.path.isdir(folder) else os.getcwd()
    return works_in, session if isinstance(session, str) else None


def waiting(folder: str, session: str | None) -> list[str]:
    """What a session that starts should know of the reviews that were submitted where it works: two lines at most."""
    lines = told(folder, session, _line, starts=True)
    more = len(lines) - _MOST_LINES
    return lines if more <= 0 else [*lines[: _MOST_LINES - 1], f"{more + 1} more reviews wait: tandem review list"]


def told(
    folder: str, session: str | None, text: Callable[[Submission, Status, str | None], str], *, starts: bool = False
) -> list[str]:
    """The news of the reviews that were submitted where a session works; they count as told from now on.

    Args:
        folder: Where it works.
        session: Its id; None if that is not known.
        text: A review in words, by its status and what that asks for.
        starts: Whether it has just begun: then it hears of other sessions' reviews and of those that are pending, too.
    """
    found = submissions(folder)
    if not found:
        return []
    mark = person.hashed(session) if session is not None else None
    if not starts:
        found = [one for one in found if mark is None or one.session in {None, mark}]
    if not found or person.is_quiet() or person.is_reviewer():
        return []
    # The commands to run are those for the working tree where they will be.
    os.chdir(folder)
    said: list[str] = []
    for one, status in _statuses(found[:_MOST_ASKED]):
        asked = _asked(status)
        news = asked if asked != one.told.get(mark or "") else None
        try:
            if status["status"] == "closed":
                one.forget()
            elif news is not None:
                one.told[mark or ""] = news
                one.keep()
        except OSError:
            continue
        if news is not None or (starts and status["status"] != "closed"):
            said.append(text(one, status, asked))
    return said


def _statuses(found: list[Submission]) -> Iterator[tuple[Submission, Status]]:
    """Where reviews stand, as far as the broker says so in time."""
    ends = time.monotonic() + PATIENCE_SECONDS
    with Session(locate(folder=os.getcwd()), agent=AGENT) as session:
        for one in found:
            left = ends - time.monotonic()
            if left <= 0:
                return
            answer = json.loads(session.call("get_review_status", {"review_id": one.review_id}, within_s=left))
            if answer["ok"]:
                yield one, answer["data"]
            elif answer["error"]["code"] == NotFound.code:
                # The broker has another database by now.
                one.forget()


def _asked(status: Status) -> str | None:
    """What a review asks of its proposer, the same as long as that is the same; None if nothing."""
    action = status["next_action"]
    if status["status"] == "closed":
        # One that was closed from here is forgotten by now.
        return None if status["outcome"] == "approved" else "closed"
    is_for_person = action == "escalate" and status["verdict"] not in {"changes_requested", "rejected"}
    if is_for_person or action in {"wait", "none"}:
        return None
    facts = [action, status["round"], status["counter_patch_id"]]
    # A second question is asked in the same way as the first.
    facts.append(status["cursor"] if action == "answer_message" else status["checks"] if action == "revise" else None)
    return json.dumps(facts)


def _state(one: Submission, status: Status) -> str:
    state = status["status"].replace("_", " ")
    if status["next_action"] == "answer_message":
        state = "its reviewer asks something"
    elif state == "closed":
        state = "closed without approval"
    return f"{one.review_id} ({one.intent}): {state}" if one.intent else f"{one.review_id}: {state}"


def _block(one: Submission, status: Status, _: str | None) -> str:
    """All that an agent needs to go on with a review."""
    lines = [f"{_state(one, status)}, round {status['round']}."]
    reason = status["closed_reason"] if status["status"] == "closed" else status["verdict_reason"]
    if reason and status["next_action"] != "answer_message":
        lines.append(f"The reason: {reason[:_LONGEST_REASON]}")
    return "\n".join([*lines, *next_steps.commands(status)])


def _line(one: Submission, status: Status, asked: str | None) -> str:
    step = next(iter(next_steps.commands(status)), "") if asked is not None else ""
    return f"{_state(one, status)}. {step}".rstrip()
