"""The gate of a bare repository that others push to: one hook, `pre-receive`, which no client can leave out.

Its switch is a `gate.json` like a working tree's, with the base branches that the broker has for the project. An access
token that the broker wants is kept beside it, in the form in which a broker leaves its owner's.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tandem.bridge import credentials
from tandem.bridge.location import find_data_dir, published_url
from tandem.core.files import remove_if_empty, write_atomically
from tandem.errors import InvalidInput
from tandem.rulings import git, proof, state
from tandem.rulings.state import GateFile, HookRepository
from tandem.setup import gate_switch, githooks
from tandem.setup.gate_switch import GateOptions
from tandem.setup.githooks import Installed
from tandem.setup.registration import Call


def place_at(folder: Path) -> HookRepository:
    """The bare repository that a folder is, or is in.

    Raises:
        InvalidInput: It is none.
    """
    found = state.find_repository(str(folder))
    if found is None or git.run(found, ["rev-parse", "--is-bare-repository"]).text != "true":
        raise InvalidInput(
            f"{folder} is no bare repository. Name the one on the server that others push to; in a working tree:"
            " tandem gate on",
            field="path",
        )
    return found


def loosened(before: GateFile | None, project: str, broker: str | None) -> list[str]:
    """What of a hook that is there would hold less: that is a person's to decide."""
    if before is None:
        return []
    was = {"project": [before.project], "broker": [before.broker or ""]}
    return proof.loosened(was, {"project": [project], "broker": [broker or before.broker or ""]})


async def install(call: Call, place: HookRepository, project: str, broker: str | None) -> GateFile:
    """Install the hook for the project's base branches, or repair it.

    Args:
        call: Calls the broker.
        place: The bare repository.
        project: Whose approvals count.
        broker: The broker's URL; None for the one before, else the one on this user's data.

    Raises:
        TandemError: The broker refuses or is away, its gate of the project is off, git would not start the hook, or
            a file cannot be written.
    """
    gate = await call("get_gate", {"project": project})
    if not gate["enabled"]:
        raise InvalidInput(
            f"The gate of {project} is not on, so it has no base branches. Run this in a working tree of the project,"
            " with the same broker: tandem gate on",
            field="project",
        )
    with gate_switch.explained("The hook was not installed"):
        return _installed(place, project, broker, tuple(gate["branches"]))


def _installed(place: HookRepository, project: str, broker: str | None, branches: tuple[str, ...]) -> GateFile:
    before = gate_switch.switch(place)
    token = credentials.stated_token()
    if broker is None and before is not None:
        broker = before.broker
    if broker is None and token is not None:
        broker = published_url(find_data_dir())
    keeps_token = before is not None and (before.broker, before.data_dir) == (broker, place.folder)
    installed = githooks.install_on_server(place, branches)
    earlier = Installed.of(before.hooks) if before is not None else None
    if earlier is not None and earlier.made_directory:
        installed = replace(installed, made_directory=True)
    wish = GateOptions(project, broker, branches)
    made = gate_switch.new_gate(place, project, wish, installed)
    if token is not None or keeps_token:
        made = GateFile(place, {**made.facts(), "data_dir": place.folder})
    gate_switch.write(made)
    if token is not None:
        write_atomically(_token_file(place), json.dumps({"url": broker, "token": token}).encode() + b"\n")
    return made


def remove(place: HookRepository) -> list[str]:
    """Take the hook away, and restore the former one, to the byte.

    Returns:
        What could not be put back, a sentence each.

    Raises:
        Unavailable: A file or the repository cannot be changed.
    """
    before = gate_switch.switch(place)
    installed = Installed.of(before.hooks) if before is not None else None
    with gate_switch.explained("The hook was not removed"):
        remarks = githooks.remove(place, installed or githooks.found(place))
        for file in (Path(place.gate_file), _token_file(place)):
            file.unlink(missing_ok=True)
        remove_if_empty(place.folder)
        return remarks


def _token_file(place: HookRepository) -> Path:
    return Path(place.folder, credentials.RUNTIME_FILE)
