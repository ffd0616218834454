"""`tandem cycle init` and `rotate`: keys of roles, made and shown once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from tandem.cli.calls import present, run, with_project
from tandem.cli.completion import complete_role
from tandem.cli.cycle_record import WorkflowOption
from tandem.cli.exits import Exit
from tandem.cli.key_sources import Given, KeyFolder, key_from, keys_by_role
from tandem.cli.render.cycles import key_files, keys, unseen
from tandem.cli.terminal import progress, say, show, show_envelope
from tandem.cli.whereabouts import AgentOption, BrokerOption, JsonOption, Place, ProjectOption
from tandem.client.described import Described
from tandem.client.session import read_envelope
from tandem.client.table import OPERATIONS
from tandem.domain.cycle_answers import KeysMade
from tandem.errors import Unavailable

INIT_EPILOG = """[bold]Examples[/bold]

  tandem cycle init

  tandem cycle init --workflow writer-editor --write-to ~/.config/tandem/keys

  tandem cycle init --key gemini=env:GEMINI_KEY --key codex=file:codex.key"""
ROTATE_EPILOG = """[bold]Examples[/bold]

  tandem cycle rotate gemini

  tandem cycle rotate gemini --key file:gemini.key"""

WriteToOption = Annotated[
    Path | None,
    typer.Option("--write-to", metavar="DIR", help="Write each key to DIR/ROLE.psk instead of showing it."),
]


def init(
    *,
    workflow: WorkflowOption = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            metavar="ROLE=SOURCE",
            help="A key of your own: its role, and env:NAME or file:PATH. For several roles, several times.",
        ),
    ] = None,
    write_to: WriteToOption = None,
    broker: BrokerOption = None,
    project: ProjectOption = None,
    agent: AgentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make the keys of a workflow's roles; each is shown this once, and only a hash is kept."""
    given = keys_by_role(key or [])
    arguments: dict[str, Any] = {"keys": {role: own.key for role, own in given.items()}} if given else {}
    arguments |= {"workflow": workflow} if workflow else {}
    operation = OPERATIONS["cycle_init"]
    place = Place(broker, project, agent)
    run(_make(operation, arguments, given, place, write_to=write_to, as_json=as_json), as_json=as_json)


def rotate(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="Whose key.", autocompletion=complete_role)],
    *,
    workflow: WorkflowOption = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="SOURCE", help="A key of your own: env:NAME or file:PATH.")
    ] = None,
    write_to: WriteToOption = None,
    broker: BrokerOption = None,
    project: ProjectOption = None,
    agent: AgentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Replace a role's key; its sessions end."""
    given = {role: key_from(key, "--key")} if key else {}
    arguments: dict[str, Any] = {"role": role} | ({"key": given[role].key} if given else {})
    arguments |= {"workflow": workflow} if workflow else {}
    operation = OPERATIONS["cycle_rotate"]
    place = Place(broker, project, agent)
    run(_make(operation, arguments, given, place, write_to=write_to, as_json=as_json), as_json=as_json)


async def _make(
    operation: Described,
    arguments: dict[str, Any],
    given: Mapping[str, Given],
    place: Place,
    *,
    write_to: Path | None,
    as_json: bool,
) -> Exit:
    folder = await asyncio.to_thread(KeyFolder, write_to) if write_to else None
    if folder is not None and operation.name == "cycle_init":
        folder.refuse_to_replace()
    async with place.client() as client, progress(f"{operation.noun} {operation.verb}"):
        envelope = await client.call(operation.name, await with_project(operation, arguments, client, place))
    if as_json and (folder is None or not orjson.loads(envelope)["ok"]):
        return present(envelope, KeysMade, as_json=True)
    made = read_envelope(envelope, KeysMade)
    sources = {role: own.source for role, own in given.items()}
    lost = unseen(made, given)
    if lost:
        say(f"Made by an earlier try, and not to be seen again: {', '.join(lost)}. tandem cycle rotate makes new ones.")
    if folder is None:
        show(keys(made, sources))
        return Exit.DONE
    try:
        files = await asyncio.to_thread(folder.write, {role: made.keys[role] for role in made.keys if role not in lost})
    except Unavailable as trouble:
        # They are made, and this is the only moment to see them.
        present(envelope, KeysMade, as_json=as_json)
        say(f"{trouble.message} So they are shown here.")
        return Exit.REFUSED
    if as_json:
        data = {name: value for name, value in orjson.loads(envelope)["data"].items() if name != "keys"}
        show_envelope(orjson.dumps({"ok": True, "data": {**data, "files": files}}))
    else:
        show(key_files(made, files))
    return Exit.DONE
