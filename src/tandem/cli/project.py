"""`tandem project add|move`: the folder of a project, and the record of it in the git folder."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from tandem.bridge.operations import OPERATIONS
from tandem.cli.calls import call, given, present
from tandem.cli.connection_options import ConnectionOptions
from tandem.cli.declared import Argument, Misused, Option, without
from tandem.cli.persons import decided
from tandem.cli.render.parts import plain
from tandem.cli.terminal import Exit, progress, say, tell
from tandem.client import TandemClient
from tandem.git.layout import ensure_usable
from tandem.git.place import find_repository
from tandem.present.text import Whole
from tandem.rulings.state import GateFile, HookRepository
from tandem.setup import gate_switch, registration
from tandem.setup.gate_switch import GateOptions

FolderArgument = Annotated[Path, Argument(metavar="FOLDER", help="A folder in a git repository.")]


@without("project")
async def add_project(
    path: FolderArgument = Path(),
    *,
    name: Annotated[str | None, Option(help="Its name; default: the folder's.")] = None,
    elsewhere: Annotated[bool, Option(help="Without a folder: its repository is on other machines.")] = False,
    mirror: Annotated[
        str | None, Option(metavar="URL", help="The repository at this URL, fetched by the broker itself.")
    ] = None,
    options: ConnectionOptions,
) -> Exit:
    """Register a folder as a project, or a repository's URL, or the name of one that other machines have."""
    if elsewhere or mirror:
        if name is None and not mirror:
            raise Misused("Name it: there is no folder to name it after.", "--name")
        return call(OPERATIONS["register_project"], given(name=name, mirror=mirror), options)
    root = path.expanduser().resolve()
    here = find_repository(str(root))
    # The broker does not have the variables that name the git folder of dotfiles.
    place = here if "GIT_DIR" in os.environ and root.is_dir() else None
    async with options.client() as client:
        if here is not None:
            ensure_usable(here)
            await registration.refuse_gated_copy(client.data, here)
        moved = await registration.moved_project(client.data, root, name)
        if moved is not None:
            wish = GateOptions(moved, options.broker, reason="tandem project add")
            await _move(client, gate_switch.place_at(root), wish)
        arguments = given(root=str(root) if place is None else place.home, name=moved or name or None)
        with progress("project add"):
            envelope = await client.call("register_project", arguments)
    if json.loads(envelope)["ok"]:
        registration.remember(json.loads(envelope)["data"])
    if moved is not None:
        say(f"This repository was moved here, and stays the project {moved}.")
    return present(envelope, "register_project", as_json=options.as_json)


@without("project")
async def move(
    name: Annotated[
        str | None,
        Argument(metavar="NAME", help="Default: what the git folder says; a clone needs it.", completes="project"),
    ] = None,
    path: FolderArgument = Path(),
    *,
    options: ConnectionOptions,
) -> Exit:
    """Keep a project whose repository was moved: the broker learns its new folder, gate and hooks follow."""
    place = gate_switch.place_at(path.expanduser().resolve())
    async with options.client() as client:
        project = name or await registration.require_moved(client.data, place)
        wish = GateOptions(project=project, broker=options.broker, reason="tandem project move")
        gate = await _move(client, place, wish)
    root = place.home
    lines = [f"The project {project} is at {root}."]
    if gate is not None:
        lines.append(f"Its gate is on there for {', '.join(gate.branches)}; git starts its hooks.")
    facts = {"project": project, "root": root, "gate": gate is not None}
    return tell(facts, Whole(*map(plain, lines)), as_json=options.as_json)


async def _move(client: TandemClient, place: HookRepository, wish: GateOptions) -> GateFile | None:
    async def attempt(agreed: Sequence[str]) -> GateFile | None:
        with progress("project move"):
            return await gate_switch.move(client.data, place, wish, agreed)

    return await decided(attempt)
