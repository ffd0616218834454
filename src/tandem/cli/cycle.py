"""`tandem cycle …`: features on their way from role to role, to be followed, read and kept."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.text import Text

from tandem.cli import role_keys
from tandem.cli.calls import with_project
from tandem.cli.commands import EnvelopeOption, add, command
from tandem.cli.completion import complete_cycle, complete_example
from tandem.cli.connection_options import ConnectionOptions, JsonOption
from tandem.cli.exits import Exit
from tandem.cli.generated import add_operation
from tandem.cli.render.cycles import history, payloads
from tandem.cli.render.parts import copied, facts
from tandem.cli.role_keys import WorkflowOption
from tandem.cli.terminal import progress, say, show, show_data, show_envelope, tell
from tandem.client import TandemClient
from tandem.client.session import read_envelope
from tandem.client.table import OPERATIONS
from tandem.domain.archives import archive_files
from tandem.domain.cycle_answers import CycleHistory
from tandem.errors import InternalError, NotFound

CycleArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="CYCLE_ID",
        help="Which one; default: the newest of the project and workflow.",
        show_default=False,
        autocompletion=complete_cycle,
    ),
]


@command()
def example(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Which one to print.", autocompletion=complete_example),
    ] = None,
    *,
    as_json: EnvelopeOption = False,
) -> None:
    """List the example workflows, or print one to append to your config.toml."""
    from tandem.config import user_file
    from tandem.examples import examples

    found = examples()
    file = str(user_file())
    if name is None:
        about = {one: text.partition("\n")[0].lstrip("# ") for one, text in found.items()}
        listed = [{"name": one, "about": line} for one, line in about.items()]
        shown = facts((one, Text(line)) for one, line in about.items())
        tell({"examples": listed, "file": file}, shown, as_json=as_json)
        if not as_json:
            say("To print one: tandem cycle example NAME")
    elif name not in found:
        raise NotFound(f"There is no example '{name}'; there are: {', '.join(found)}.", allowed=list(found))
    elif as_json:
        show_data({"name": name, "text": found[name], "file": file})
    else:
        say(f"To be appended to {file}: tandem cycle example {name} >> {shlex.quote(file)}")
        say("Then start the broker anew: it reads its configuration once.")
        sys.stdout.write(found[name])


@command()
async def show_cycle(
    cycle_id: CycleArgument = None,
    *,
    workflow: WorkflowOption = None,
    with_payloads: Annotated[bool, typer.Option("--payloads", help="Show what was handed over, too.")] = False,
    options: ConnectionOptions,
    as_json: JsonOption = False,
) -> Exit:
    """Show a whole cycle: where it is, every hand-off, and the review that it waits for."""
    async with options.client() as client:
        async with progress("cycle show"):
            envelope = await _fetch(client, _asked(cycle_id, workflow), options)
        if as_json:
            show_envelope(envelope)
            return Exit.DONE if orjson.loads(envelope)["ok"] else Exit.REFUSED
        found = read_envelope(envelope, CycleHistory)
        review_id = found.cycle.review_id
        review = await client.get_review_status(review_id) if review_id else None
    show(history(found, review))
    if with_payloads:
        show(payloads(found))
    return Exit.DONE


@command()
async def export(
    cycle_id: CycleArgument = None,
    *,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Where the cycle's own folder goes.")],
    workflow: WorkflowOption = None,
    options: ConnectionOptions,
    as_json: JsonOption = False,
) -> Exit:
    """Write a cycle to a folder of its own, as an archive has it: state, workflow and hand-offs, no secret."""
    # Late: the other commands write no folders.
    from tandem.atomic_dirs import write_whole

    async with options.client() as client, progress("cycle export"):
        found = read_envelope(await _fetch(client, _asked(cycle_id, workflow), options), CycleHistory)
    files = archive_files(found)
    name = found.cycle.cycle_id
    try:
        folder = await asyncio.to_thread(write_whole, to.expanduser().resolve(), name, files)
    except ValueError as error:
        raise InternalError(f"The broker's cycle cannot be written to a folder: {error}.", cycle_id=name) from error
    data = {"cycle_id": name, "folder": str(folder), "files": sorted(files)}
    return tell(data, copied([("exported", name), ("folder", str(folder))]), as_json=as_json)


def _asked(cycle_id: str | None, workflow: str | None) -> dict[str, Any]:
    return {name: value for name, value in (("cycle_id", cycle_id), ("workflow", workflow)) if value is not None}


async def _fetch(client: TandemClient, asked: dict[str, Any], options: ConnectionOptions) -> bytes:
    operation = OPERATIONS["get_cycle"]
    return await client.call(operation.name, await with_project(operation, asked, client, options))


def register(app: typer.Typer) -> None:
    """Add the group `cycle`, in the order in which the commands are needed."""
    group = typer.Typer(help="Hand-off cycles: one feature, one active role at a time.", no_args_is_help=True)
    add(group, "cycle example", example)
    add(group, "cycle init", role_keys.init)
    for name in ("cycle_start", "cycle_status", "cycle_complete", "cycle_archive", "list_cycles"):
        add_operation(group, OPERATIONS[name])
    add(group, "cycle show", show_cycle)
    add(group, "cycle export", export)
    add(group, "cycle rotate", role_keys.rotate)
    add_operation(group, OPERATIONS["cycle_revoke"])
    app.add_typer(group, name="cycle")
