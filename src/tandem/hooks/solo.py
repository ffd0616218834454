"""`tandem gate STEP` where nobody reviews: said by one look at local files, before anything heavy is imported."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tandem.hooks import planning, state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tandem.hooks.planning import Planning
    from tandem.hooks.state import GateFile

STEPS = ("plan", "context", "task", "wave", "verification")
WORD = "SOLO"
WHY = "Nobody reviews here: tandem_enabled is false, and no gate is on."
GO_ON = "Go on."


def is_solo(settings: Planning, gate: GateFile | None) -> bool:
    """Whether nothing is reviewed: the workflow does not put anything up, and no gate that is on would refuse.

    Args:
        settings: What the project's files say.
        gate: The gate's switch, if it is on.
    """
    return not settings.tandem_enabled and gate is None


def answer(arguments: Sequence[str]) -> str | None:
    """What a step prints for people where nobody reviews; null if somebody might, or more is asked than that.

    Args:
        arguments: The command line behind `tandem`.
    """
    if len(arguments) < len(("gate", "STEP")) or arguments[0] != "gate" or arguments[1] not in STEPS:
        return None
    if any(one in {"--json", "--help"} for one in arguments):
        return None
    folder = os.getcwd()
    try:
        place = state.find_place(folder)
        gate = None if place is None else state.find(place)
    except (state.GateUnreadable, OSError):
        # Whether the gate is on is unknown; the whole command says so.
        return None
    if not is_solo(planning.read(folder), gate if gate is not None and gate.enabled else None):
        return None
    return f"{WORD}\nreason: {WHY}\n- {GO_ON}\n"
