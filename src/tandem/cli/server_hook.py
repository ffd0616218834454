"""`tandem gate server-hook`: the gate where others push to, which holds whatever hooks they have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tandem.cli.connection_options import ConnectionOptions, ensure_known
from tandem.cli.declared import Argument, Option, without
from tandem.cli.persons import YesOption, need_decision
from tandem.cli.render.parts import plain
from tandem.cli.terminal import Exit, progress, say, tell
from tandem.errors import InvalidInput
from tandem.present.text import Whole
from tandem.rulings import ask
from tandem.setup import gate_switch
from tandem.setup import server_hook as server_setup


@without("new")
async def server_hook(
    path: Annotated[
        Path, Argument(metavar="[REPOSITORY]", help="The bare repository; default: the current folder.")
    ] = Path(),
    *,
    remove: Annotated[bool, Option("--remove", help="Take the hook away, and put back what was there.")] = False,
    yes: YesOption = False,  # noqa: ARG001 - see there
    options: ConnectionOptions,
) -> Exit:
    """Have a bare repository refuse unapproved pushes to base branches. Running it again repairs the hook."""
    place = server_setup.place_at(path.absolute())
    before = gate_switch.switch(place)
    if remove:
        known = before.project if before is not None else place.git_dir
        need_decision(known, ["anybody could push here what is not approved"])
        remarks = server_setup.remove(place)
        for remark in remarks:
            say(remark)
        return tell({"enabled": False, "remarks": remarks}, plain("The hook is removed."), as_json=options.as_json)
    project = options.project or (before.project if before is not None else None)
    if project is None:
        raise InvalidInput(
            "Say whose approvals count: --project NAME, as 'tandem project list' has it.", field="project"
        )
    looser = server_setup.loosened(before, project, options.broker)
    url = options.broker or (ask.url_of(before) if before is not None else None)
    data_dir = before.data_dir if before is not None and options.broker is None else None
    connection = ConnectionOptions(url, None, options.agent, data_dir=data_dir)
    async with connection.client() as client:
        ensure_known(client.session, project, may_be_new=False)
        if looser:
            need_decision(project, looser)
        with progress("installing the hook"):
            gate = await server_setup.install(client.data, place, project, options.broker)
    chained = gate.hooks["chained"]
    facts = {"enabled": True, "project": project, "broker": gate.broker, "branches": gate.branches, "chained": chained}
    lines = [
        f"Pushes to {', '.join(gate.branches)} of {place.git_dir} need the approvals of {project}.",
        f"broker      {ask.url_of(gate) or gate.data_dir}",
        f"hook        {gate.hooks['directory']}/pre-receive{', which calls the former one first' if chained else ''}",
    ]
    return tell(facts, Whole(*map(plain, lines)), as_json=options.as_json)
