"""What `tandem doctor` is told of GSD's overlay and of rollbacks."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from tandem.bridge.location import find_data_dir
from tandem.errors import TandemError
from tandem.gsd.overlay import OverlayPlan, Overlays
from tandem.gsd.rollback.publishing import Note
from tandem.setup.doctor import Check, DoctorContext, Finding
from tandem.setup.doctor.finding import note, ok, problem


async def check_overlay(_: DoctorContext) -> list[Finding]:
    """Whether GSD has our pointers where it should, also after its last update."""
    try:
        overlays = Overlays(Path(find_data_dir()))
        return await asyncio.to_thread(_overlaid, overlays)
    except TandemError as error:
        return [problem("overlay", error.message, "tandem gsd overlay")]


def _overlaid(overlays: Overlays) -> list[Finding]:
    found: list[Finding] = []
    for one in overlays.remembered():
        plan = overlays.plan(one)
        said = f"GSD {one.version} in {one.folder}"
        if any(change.alters for change in plan.changes):

            async def again(plan: OverlayPlan = plan) -> None:
                await asyncio.to_thread(overlays.carry_out, [plan])

            found.append(problem("overlay", f"{said} lost pointers, as an update does.", "tandem gsd overlay", again))
        elif plan.missing:
            found.append(note("overlay", f"{said} has no place for: {', '.join(plan.missing)}"))
        else:
            found.append(ok("overlay", f"{said} has {plan.pointers} pointers."))
    return found


async def check_leftovers(here: DoctorContext) -> list[Finding]:
    """A rollback that its process did not live to finish."""
    if here.place is None:
        return []
    try:
        report = Note(Path(here.place.git_dir)).read()
    except TandemError as error:
        return [problem("rollback", error.message, "tandem rollback REVIEW, with the review's id")]
    if report is None:
        return []
    return [
        problem("rollback", f"The rollback of {report.review_id} was cut off.", f"tandem rollback {report.review_id}")
    ]


CHECKS: Final[tuple[Check, ...]] = (check_overlay, check_leftovers)
