"""The gate as agents' hooks meet it: whose switch counts for a file or folder, and what its trouble means."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tandem.hooks import state
from tandem.hooks.ask import Refused, Unreachable
from tandem.hooks.git import GitTrouble

if TYPE_CHECKING:
    from tandem.hooks.state import GateFile

TROUBLE = (Unreachable, Refused, GitTrouble, OSError)
"""What keeps an answer away where a gate is on: nothing passes then."""


def gate_of(folder: str) -> GateFile | None:
    """The switch of the repository that a folder, which need not exist, is in; null if none is on there.

    Raises:
        GateUnreadable: Whether it is on cannot be read.
    """
    while not os.path.isdir(folder):
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    place = state.find_place(folder)
    gate = state.find(place) if place is not None and place.top is not None else None
    return gate if gate is not None and gate.enabled else None


def in_words(gate: GateFile, error: Exception) -> list[str]:
    """What is wrong, and what to do."""
    if isinstance(error, Unreachable):
        return [f"The gate is on and cannot be asked. {error}", "Until the broker answers, nothing passes."]
    if isinstance(error, Refused) and error.code == "NOT_FOUND":
        return [
            f"The broker does not know the project '{gate.project}': {error}",
            "A person has to register it again: tandem gate on",
        ]
    if isinstance(error, Refused):
        return [f"The broker refuses: {error}"]
    return [f"Whether this is approved cannot be found out: {error}.", "Mend that, or ask the person who works here."]
