"""The options that say which broker a command talks to, for which project, and as whom."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from tandem.bridge.location import BrokerLocation, locate
from tandem.bridge.project import owner, top_level
from tandem.cli.identity import caller
from tandem.client import TandemClient
from tandem.errors import Forbidden, InvalidInput
from tandem.git.place import find_repository
from tandem.rulings.person import answer_seconds
from tandem.rulings.state import GateFile

COMMON_PANEL = "Common options"
PROJECT_HELP = "Registered project, or a label; default: the repository you are in."

BrokerOption = Annotated[
    str | None,
    typer.Option(
        "--broker",
        metavar="URL",
        envvar="TANDEM_BROKER",
        help="The broker, or several on one database: URL,URL; default: the one on this machine.",
        rich_help_panel=COMMON_PANEL,
    ),
]
ProjectOption = Annotated[
    str | None, typer.Option("--project", metavar="NAME", help=PROJECT_HELP, rich_help_panel=COMMON_PANEL)
]
AgentOption = Annotated[
    str | None,
    typer.Option(
        "--agent",
        metavar="NAME",
        envvar="TANDEM_AGENT",
        help="Who is calling; default: the agent that runs the command, else who 'tandem me' says.",
        rich_help_panel=COMMON_PANEL,
    ),
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        "--idempotency-key",
        metavar="TEXT",
        help="The same key with the same body has one effect and one answer, for a day.",
        rich_help_panel=COMMON_PANEL,
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option("--json", help="Print the envelope, exactly as the broker answered it.", rich_help_panel=COMMON_PANEL),
]
NewOption = Annotated[
    bool,
    typer.Option("--new", help="--project names a label that nobody has used so far.", rich_help_panel=COMMON_PANEL),
]

WaitOption = Annotated[bool, typer.Option("--wait", help="Wait until there is something new.")]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        min=0,
        metavar="SECONDS",
        help="How long to wait; default: as long as it takes, for an agent as long as its client allows.",
    ),
]


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """What every command that talks to a broker is told.

    Attributes:
        broker: The URL, if one was given.
        project: The project, if one was given.
        agent: Who is calling; null if nobody said: then the agent that runs it, else the person of `tandem me`.
        as_json: Whether the envelope is printed, as the broker answers it.
        new: Whether the project that was given may be a name that nobody has used so far.
        data_dir: The data folder of that broker, if it is not the user's own.
    """

    broker: BrokerOption = None
    project: ProjectOption = None
    agent: AgentOption = None
    as_json: JsonOption = False
    new: NewOption = False
    data_dir: str | None = None

    def client(self, location: BrokerLocation | None = None) -> TandemClient:
        """A client for the broker: by the one rule of `bridge.location`, or one that is known already."""
        found = location or locate(self.broker, ".", self.data_dir)
        return TandemClient(found, agent=caller(self.agent).name, answer_s=answer_seconds())


async def need_project(client: TandemClient, options: ConnectionOptions, gate: GateFile | None = None) -> str:
    """The project that was given; else that of this repository's gate, else as `find_project` has it.

    Raises:
        InvalidInput: This repository is of none.
    """
    if gate is not None and options.project is None:
        return gate.project
    project = await find_project(client, options)
    if project is None and top_level(str(Path.cwd())) is None:
        raise InvalidInput(
            "You are in no git repository here. Go into the project's, or name the project: --project NAME. Of"
            " dotfiles, set GIT_DIR and GIT_WORK_TREE.",
            field="project",
        )
    if project is None:
        from tandem.git.layout import ensure_usable  # these for this refusal alone
        from tandem.setup.registration import refuse_gated_copy, switch

        place = find_repository(str(Path.cwd()))
        ensure_usable(place)
        known = switch(place) if place is not None else None
        if place is not None:
            await refuse_gated_copy(client.data, place)
        # To add it would make two projects of one, where a gate has it already.
        way = "tandem gate on" if known is not None and known.enabled else "tandem project add"
        raise InvalidInput(
            f"This repository is not registered. Register it with: {way}. If it was moved: tandem project move",
            field="project",
        )
    return project


async def find_project(client: TandemClient, options: ConnectionOptions) -> str | None:
    """The project that was given; else the registered one whose folder we are in; outside of git the only one.

    All working trees of a repository belong to one project.

    Raises:
        InvalidInput: Nobody knows the project that was given: its name is misspelt, unless it is said to be new.
    """
    if options.project is not None:
        if not options.new:
            await ensure_known(client, options.project)
        return options.project
    # As JSON values: to build the types of answers takes longer than the call.
    registered = (await client.data("list_projects", {}))["projects"]
    here = str(Path.cwd())
    if find_repository(here) is None:
        return registered[0]["project"] if len(registered) == 1 else None
    return owner(here, {project["project"]: project["root"] for project in registered})


async def ensure_known(client: TandemClient, project: str, *, may_be_new: bool = True) -> None:
    """Refuse a project that nobody has registered or used; by default with the option that allows it.

    Raises:
        InvalidInput: Nobody knows it.
    """
    registered = [one["project"] for one in (await client.data("list_projects", {}))["projects"]]
    if project in registered:
        return
    try:
        for operation, found in (("list_reviews", "reviews"), ("list_cycles", "cycles")):
            if (await client.data(operation, {"project": project, "limit": 1}))[found]:
                return
    except Forbidden:
        # A token for less: what it is for is the broker's to say.
        return
    near = difflib.get_close_matches(project, registered, 1)
    said = f" Did you mean '{near[0]}'?" if near else f" Registered: {', '.join(registered) or 'none'}."
    advice = " A new name takes --new." if may_be_new else ""
    raise InvalidInput(
        f"There is no project '{project}': it is not registered, and has no review and no cycle.{said}{advice}",
        field="project",
        actual=project,
        allowed=registered,
    )


async def ensure_ours(client: TandemClient, options: ConnectionOptions, review_id: str, project: str) -> None:
    """Refuse to change this repository for another project's review; one that nobody registered is anybody's.

    Raises:
        InvalidInput: This repository belongs to another project.
    """
    found = await find_project(client, options)
    if found not in {None, project}:
        raise InvalidInput(
            f"{review_id} belongs to the project {project}; this repository is {found}.",
            field="project",
            expected=project,
            actual=found,
        )


def one_of(by_place: Any, by_name: Any, option: str) -> Any:
    """What was given by its place or by its option's name; null if neither was.

    Raises:
        BadParameter: Both were, and they differ.
    """
    if by_place is not None and by_name is not None and by_place != by_name:
        raise typer.BadParameter(f"Given twice: {by_place} and {by_name}.", param_hint=option)
    return by_place if by_name is None else by_name
