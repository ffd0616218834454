"""The way past the gate that only a person at a terminal has; it is recorded with who and why.

`tandem gate override -m WHY -- …` runs git with the reason in `TANDEM_OVERRIDE`. A hook that is about to refuse
then asks at the terminal itself, so that the variable alone opens nothing. Its report to the broker, now or later,
carries the proof that the question was answered (`proof`).
"""

from __future__ import annotations

import os
import sys
import time

from tandem.core.visible import say
from tandem.rulings import git, pending, person, proof
from tandem.rulings.ask import GateClient
from tandem.rulings.broker_errors import Refused, Unreachable

if sys.platform != "win32":
    import pwd

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tandem.rulings.git import Change
    from tandem.rulings.state import GateFile

OPERATION = "override_gate"


def asked(gate: GateFile, why: str, refusal: Sequence[str], changes: list[Change], branch: str | None) -> str | None:
    """Ask the person at the terminal whether this may pass after all, and record that it did.

    Args:
        gate: The switch.
        why: Their reason.
        refusal: Why the gate refuses, a line each.
        changes: The changes that would pass.
        branch: Where it is committed; None if HEAD is detached.

    Returns:
        The override's id, for the trailer; None if it stays refused, which has been said then.
    """
    keys = proof.keys(gate.data_dir)
    trouble = _not_confirmed(gate, why, refusal, changes, has_key=bool(keys))
    if trouble is not None:
        say(f"refused: {refusal[0]}", *refusal[1:], trouble)
        return None
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    override_id = f"ov_{os.urandom(8).hex()}"
    who = user_name()
    proved = proof.prove(keys, (gate.project, git.digest(changes), override_id, why, branch, at, who))
    request = {"changes": changes, "reason": why, "override_id": override_id, "branch": branch, "at": at}
    request["proof"] = proved
    try:
        with GateClient(gate, who) as asker:
            asker.call(OPERATION, **request)
    except (Unreachable, Refused) as error:
        if isinstance(error, Refused) and not error.wants_token:
            say(f"refused: the broker does not record the override: {error}")
            return None
        # The person's word counts; the log gets it as soon as there is one.
        pending.keep(gate.place, OPERATION, request, who)
        told = "The broker is away: the override is kept here and recorded when it is back."
        say(told if isinstance(error, Unreachable) else f"The override is kept here and recorded later: {error}")
    return override_id


def user_name() -> str:
    """Who is logged in, as the system calls them."""
    if sys.platform != "win32":
        try:
            return pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            return str(os.getuid())
    return os.environ.get("USERNAME") or "unknown"


def _not_confirmed(
    gate: GateFile, why: str, refusal: Sequence[str], changes: list[Change], *, has_key: bool
) -> str | None:
    """Why the override is refused; None if the person has confirmed."""
    if not has_key and person.agent_mark() is None:
        return proof.lacks_key(gate.data_dir)
    # The decision stands last, next to the answer, and every name on a line of its own that it cannot leave.
    paths = sorted({change["path"] for change in changes})
    lines = ["The gate refuses:", *refusal, f"All that this lets through ({len(paths)}):"]
    lines += [f"  {path}" for path in paths] + [f"The reason that will be recorded: {why}"]
    return person.refused([*lines, f"Type the project's name ({gate.project}) to let it pass: "], gate.project)
