"""Compares a repository's statement of its gate with the broker's record, as clients can write the former."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tandem.errors import ConfigInvalid
from tandem.gate import queries
from tandem.gate.contract import GateHere
from tandem.gate.rules import Gate, commits_of, names
from tandem.reviews.context import Services
from tandem.rulings import trust
from tandem.rulings.state import COMMITS, REVIEWED
from tandem.settings.config import user_file


async def require_same(services: Services, project: str, here: GateHere | None) -> None:
    """Refuse a repository whose own files say something else of its gate than the record.

    Args:
        services: The store, and the folders of projects.
        project: The project that the repository names.
        here: Its statement; None if the caller is no repository.

    Raises:
        ConfigInvalid: They differ.
    """
    if here is None:
        return
    trusted = await asyncio.to_thread(trusted_here, services, project)
    found = _differences(
        project, await services.store.read(lambda unit: queries.find_gate(unit, project)), here, trusted
    )
    if found:
        raise ConfigInvalid(
            f"The gate in the repository differs from the record: {'; '.join(found)}. A person looks at it and runs"
            " 'tandem gate on'; for a file that is trusted, 'tandem trust' or 'tandem trust --revoke'.",
            project=project,
            differences=found,
        )


def _differences(project: str, gate: Gate | None, here: GateHere, trusted: Sequence[str]) -> list[str]:
    if gate is None or not gate.enabled:
        return [f"the gate of {project} is on there, and off at the broker"]
    recorded, found = names(gate.branches), list[str]()
    if here.folder not in names(gate.folders):
        moved = "if that was moved there, run in it: tandem project move"
        found.append(f"the gate of {project} was not switched on for {here.folder} ({moved})")
    if set(here.branches) != set(recorded):
        found.append(f"the base branches are {_said(here.branches)} there, and {_said(recorded)} at the broker")
    stated, kept = here.commits or REVIEWED, commits_of(gate)
    if COMMITS.index(stated) < COMMITS.index(kept):
        found.append(f"commits on other branches are {stated} there, and {kept} at the broker")
    beyond = sorted({*here.trusted, *trusted} - {*names(gate.trusted)})
    return found + [f"{one.partition(' ')[2]} is trusted in a form that no person told the broker of" for one in beyond]


def _said(branches: Sequence[str]) -> str:
    return ", ".join(branches) or "none"


def trusted_here(services: Services, project: str) -> list[str]:
    """The trusted contents of a project's folder, by the list that this broker reads. Blocks: it reads a file."""
    root = services.projects.root(project)
    return [] if root is None else trust.contents(str(user_file().parent), root)
