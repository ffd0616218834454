"""What agents call when a session starts: a line about the gate, two about reviews, GSD's overlay after an update.

Nothing here refuses anything or is waited for: a session starts in any case.
"""

from __future__ import annotations

import json
import os
import sys

from tandem.errors import TandemError
from tandem.hooks import turn
from tandem.rulings import liveness, pending, planning, state
from tandem.rulings.ask import GateClient
from tandem.rulings.broker_errors import Refused, Unreachable
from tandem.rulings.state import COMMITS_WORDS, REVIEWED

TYPE_CHECKING = False  # as in `rulings.git`
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tandem.rulings.state import GateFile

REFRESH = ("gsd", "overlay", "--refresh")
"""The command that puts the overlay back."""

_SHOWN = " ".join(("tandem", *REFRESH))
_EVENT = "SessionStart"


def main(arguments: Sequence[str]) -> int:
    """Say on standard output what the session should know, in the form that all three clients take; answers with 0.

    Args:
        arguments: `--client NAME`, and `--data-dir FOLDER` where Tandem's data is, for projects without a gate.
    """
    folder, session = os.getcwd(), None
    try:
        folder, session = turn.account(sys.stdin.buffer.read(turn.LARGEST_BYTES))
        gate = state.find_enabled(folder)
        line = _standing(gate, arguments) if gate is not None else None
    except state.GateUnreadable as error:
        gate, line = None, f"Tandem: {error}"
    except Exception as error:  # noqa: BLE001 - the edge: a session must not be kept from starting
        gate, line = None, f"Tandem: the state of the gate cannot be found out: {error or type(error).__name__}"
    stated = dict(zip(arguments[::2], arguments[1::2], strict=False)).get("--data-dir")
    lines = [line, _refreshed(stated or (gate.data_dir if gate is not None else None))]
    told = "\n".join(filter(None, [" ".join(filter(None, lines)), *_waiting(folder, session)]))
    if told:
        sys.stdout.write(
            json.dumps({"hookSpecificOutput": {"hookEventName": _EVENT, "additionalContext": told}}) + "\n"
        )
    return 0


def _waiting(folder: str, session: str | None) -> list[str]:
    """What waits for the session: less important than its start."""
    try:
        return turn.waiting(folder, session)
    except Exception:  # noqa: BLE001 - as above
        return []


def _standing(gate: GateFile, arguments: Sequence[str]) -> str:
    """That the gate is on, and whether it can be asked."""
    words = COMMITS_WORDS.get(planning.enforcement(gate, None), COMMITS_WORDS[REVIEWED])
    said = (
        f"Tandem's gate is on for the project '{gate.project}': {', '.join(gate.branches)} takes only approved content,"
        f" to the byte. As to commits: {words}. The skill tandem-review says how."
    )
    directory = gate.hooks.get("directory")
    if "gemini" in arguments and directory is not None:
        # It switches git's hooks off for every command that it runs.
        said += f" Here git commands that make or move commits have to say: git -c core.hooksPath={directory} …"
        said += " (the gate's hooks, which this client switches off)."
    try:
        said = " ".join(filter(None, [said, liveness.problem(gate)]))
    except TandemError as error:
        said += f" Whether git starts its hooks cannot be found out: {error}"
    try:
        with GateClient(gate, starts=True) as asker:
            asker.check_gate([])
        pending.deliver(gate)
    except Unreachable as error:
        return f"{said} {error}"
    except Refused as error:
        mend = "" if error.wants_token else " A person has to repair that: tandem gate on"
        return f"{said} But the broker refuses: {error}{mend}"
    return f"{said} The broker runs."


def _refreshed(data_dir: str | None) -> str | None:
    """Have the overlay put back where GSD was updated; the changes in words, if there are any."""
    folders = planning.outdated_overlays(data_dir) if data_dir is not None else []
    if not folders:
        return None
    # An update of GSD is rare, and this imports what starts processes.
    from tandem.rulings import starting

    try:
        starting.in_background(*REFRESH, data_dir=data_dir or "")
    except OSError as error:
        return f"GSD was updated, and Tandem's pointers in it are gone ({error.strerror}); run: {_SHOWN}"
    return f"GSD was updated in {', '.join(folders)}; Tandem puts its pointers back there ({_SHOWN})."
