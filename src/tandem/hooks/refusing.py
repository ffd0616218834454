"""A person at a terminal may let through what a hook refuses."""

from __future__ import annotations

import os

from tandem.core.visible import is_blank

TYPE_CHECKING = False  # as in `rulings.git`
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tandem.rulings.git import Change
    from tandem.rulings.state import GateFile

OVERRIDE_VARIABLE = "TANDEM_OVERRIDE"
"""Holds the reason of a person who overrides the gate."""


def override_wanted() -> str | None:
    """The reason of the person who wants to override; None without one."""
    why = os.environ.get(OVERRIDE_VARIABLE, "").strip()
    return None if is_blank(why) else why


def overridden(
    gate: GateFile, why: str, reasons: Sequence[str], changes: list[Change], branch: str | None
) -> str | None:
    """Ask the person at the terminal, as `override.asked` does, which see."""
    # What seals the person's answer takes longer to import than a hook to judge.
    from tandem.rulings import override

    return override.asked(gate, why, reasons, changes, branch)
