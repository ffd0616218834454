"""What to say where everything is approved, and only a required check keeps it back."""

from __future__ import annotations

import shlex

from tandem.core.visible import visible_line
from tandem.rulings import next_steps

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from typing import Any

    from tandem.rulings.ask import GateClient

_UNFINISHED = ("queued", "running")
_SHOWN_CHECKS = 5


def explained(asker: GateClient, decision: dict[str, Any], what: str, again: str) -> list[str]:
    """Why the gate stays closed, and what to do, a line each.

    Args:
        asker: To ask the broker with.
        decision: An answer of `check_gate` with a `code`.
        what: What is approved; begins the first line.
        again: What is to be done once the checks have passed.

    Raises:
        Refused: The broker refuses.
        Unreachable: No broker answers.
    """
    code = decision["code"]
    held = next(path for path in decision["paths"] if not path["allowed"] and path["review_id"] is not None)
    review_id = held["review_id"]
    found = asker.call("list_checks", review_id=review_id, round=held["round"])["checks"]
    open_ = [one for one in found if one["required"] and one["status"] != "passed"]
    ended = [one for one in open_ if one["status"] not in _UNFINISHED]
    lines = [f"{what} is approved by {review_id}, and a required check keeps it back ({code}):"]
    for one in (ended or open_)[:_SHOWN_CHECKS]:
        reason = one["reason"] or (f"exit status {one['exit_status']}" if one["exit_status"] else "")
        lines.append(visible_line(f"  {one['name']}: {one['status']}" + (f", {reason}" if reason else "")))
        if one["has_log"] and one in ended:
            lines.append(f"    Its log:      tandem checks log {review_id} {shlex.quote(one['name'])}")
    status = asker.call("get_review_status", review_id=review_id)
    if not open_:
        # They passed, on something that does not count.
        lines.append(f"  {visible_line(held['reason'])}")
        on = f" --branch {asker.branch}" if asker.branch else ""
        steps = next_steps.commands({**status, "next_action": "wait"}) if status["unapproved_range"] else ()
        lines += steps or [f"Run them again: tandem checks run {review_id}{on}"]
        return [*lines, f"When they count, {again}."]
    needs_person = next((one for one in ended if one.get("needs_person")), None)
    if needs_person:
        return [*lines, f"What helps:     {next_steps.wait(review_id)}"]
    if ended:
        lines += next_steps.commands({**status, "next_action": "revise", "checks": "failed"})
    else:
        lines.append(f"Wait for it:    {next_steps.wait(review_id)}")
    return [*lines, f"When they have passed, {again}."]
