"""The options that say which broker a command talks to, for which project, and as whom."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tandem.bridge.location import locate
from tandem.bridge.project import owner, top_level
from tandem.bridge.session import Session
from tandem.cli.declared import Misused, Option
from tandem.cli.persons import caller
from tandem.cli.terminal import nearest, say
from tandem.errors import Forbidden, InvalidInput
from tandem.git.place import HookRepository, find_repository, linked_worktrees, unusable
from tandem.rulings.ask import location_of
from tandem.rulings.person import answer_seconds

if TYPE_CHECKING:
    from tandem.bridge.location import BrokerLocation
    from tandem.client import TandemClient
    from tandem.rulings.state import GateFile

COMMON_PANEL = "Common options"
PROJECT_HELP = "Registered project, or a label; default: the repository you are in."

BrokerOption = Annotated[
    str | None,
    Option(
        metavar="URL",
        variable="TANDEM_BROKER",
        help="The broker, or several on one database: URL,URL; default: the one on this machine.",
        panel=COMMON_PANEL,
    ),
]
ProjectOption = Annotated[
    str | None, Option(metavar="NAME", help=PROJECT_HELP, completes="project", panel=COMMON_PANEL)
]
AgentOption = Annotated[
    str | None,
    Option(
        metavar="NAME",
        variable="TANDEM_AGENT",
        help="Who is calling; default: the agent that runs the command, else who 'tandem me' says.",
        panel=COMMON_PANEL,
    ),
]
KeyOption = Annotated[
    str | None,
    Option(
        metavar="TEXT",
        help="The same key with the same body has one effect and one answer, for a day.",
        panel=COMMON_PANEL,
    ),
]
JsonOption = Annotated[
    bool, Option("--json", help="Print the envelope, exactly as the broker answered it.", panel=COMMON_PANEL)
]
NewOption = Annotated[bool, Option(help="--project names a new label.", panel=COMMON_PANEL)]

WaitOption = Annotated[bool, Option(help="Wait until there is something new.")]
TimeoutOption = Annotated[
    float | None,
    Option(
        min=0,
        metavar="SECONDS",
        help="How long to wait; default: as long as it takes, for an agent as long as its client allows.",
    ),
]


class ConnectionOptions:
    """What every command that talks to a broker is told.

    Attributes:
        broker: The URL, if one was given.
        project: The project, if one was given.
        agent: Who is calling; None for the agent that runs it, else the person of `tandem me`.
        as_json: Whether the envelope is printed, as the broker answers it.
        new: Whether the project that was given may be a new name.
        data_dir: The data folder of that broker, if it is not the user's own.
    """

    # Not a dataclass, which would take most of the time that a command has to start in.
    def __init__(
        self,
        broker: BrokerOption = None,
        project: ProjectOption = None,
        agent: AgentOption = None,
        *,
        as_json: JsonOption = False,
        new: NewOption = False,
        data_dir: str | None = None,
    ) -> None:
        self.broker, self.project, self.agent = broker, project, agent
        self.as_json, self.new, self.data_dir = as_json, new, data_dir

    def changed(self, **options: Any) -> ConnectionOptions:
        """The same but for these."""
        return ConnectionOptions(**{**vars(self), **options})

    def location(self, gate: GateFile | None = None) -> BrokerLocation:
        """The broker that was named, else the one that a gate asks, else that of the one rule of `bridge.location`."""
        if gate is not None and self.broker is None:
            return location_of(gate)
        return locate(self.broker, ".", self.data_dir)

    def session(self, gate: GateFile | None = None) -> Session:
        """Calls to the broker; see `location`."""
        session = Session(self.location(gate), agent=caller(self.agent).name, answer_s=answer_seconds())
        session.remark = say
        return session

    def client(self, gate: GateFile | None = None, location: BrokerLocation | None = None) -> TandemClient:
        """The same with the types of all answers, and for asyncio; or calls to a broker that is known already."""
        from tandem.client import TandemClient  # to build the types takes longer than most calls

        return TandemClient(location or self.location(gate), agent=caller(self.agent).name, answer_s=answer_seconds())


def need_worktree() -> HookRepository:
    """The working tree that the command runs in.

    Raises:
        InvalidInput: It runs in none, or in a git folder.
    """
    place = find_repository(str(Path.cwd()))
    if place is None:
        way = "Go into the project's; of dotfiles, set GIT_DIR and GIT_WORK_TREE."
        raise InvalidInput(f"{Path.cwd()} is not in the work tree of a git repository. {way}", field="path")
    if (trouble := unusable(place)) is not None:
        raise InvalidInput(f"{trouble[0]} {trouble[1][:1].upper()}{trouble[1][1:]}", field="path")
    if place.top is None:
        trees = ", ".join(linked_worktrees(place.common_dir)) or "its working tree"
        where = f"Run this where the files are: {trees}. Of dotfiles, set GIT_DIR and GIT_WORK_TREE."
        raise InvalidInput(f"{Path.cwd()} belongs to a git folder. {where}", field="path")
    return place


def need_project(session: Session, options: ConnectionOptions, gate: GateFile | None = None) -> str:
    """The project that was given; else that of this repository's gate, else as `find_project` has it.

    Raises:
        InvalidInput: This repository is of none.
    """
    if gate is not None and options.project is None:
        return gate.project
    project = find_project(session, options)
    if project is None and top_level(str(Path.cwd())) is None:
        raise InvalidInput(
            "You are in no git repository here. Go into the project's, or name the project: --project NAME. Of"
            " dotfiles, set GIT_DIR and GIT_WORK_TREE.",
            field="project",
        )
    if project is None:
        from tandem.setup.registration import refuse_unregistered  # for this refusal alone

        refuse_unregistered(session)
    return project


def find_project(session: Session, options: ConnectionOptions) -> str | None:
    """The project that was given; else the registered one whose folder we are in; outside of git the only one.

    All working trees of a repository belong to one project.

    Raises:
        InvalidInput: The broker does not know the project that was given, and it is not said to be new.
    """
    if options.project is not None:
        if not options.new:
            ensure_known(session, options.project)
        return options.project
    registered = session.data("list_projects", {})["projects"]
    here = str(Path.cwd())
    if find_repository(here) is None:
        return registered[0]["project"] if len(registered) == 1 else None
    return owner(here, {project["project"]: project["root"] for project in registered})


def ensure_known(session: Session, project: str, *, may_be_new: bool = True) -> None:
    """Refuse a project that was never registered or used; by default with the option that allows it.

    Raises:
        InvalidInput: The broker does not know it.
    """
    registered = [one["project"] for one in session.data("list_projects", {})["projects"]]
    if project in registered:
        return
    try:
        for operation, found in (("list_reviews", "reviews"), ("list_cycles", "cycles")):
            if session.data(operation, {"project": project, "limit": 1})[found]:
                return
    except Forbidden:
        # A token for less: the broker decides what its holder may do.
        return
    near = nearest(project, registered)
    said = f" Did you mean '{near}'?" if near else f" Registered: {', '.join(registered) or 'none'}."
    advice = " A new name takes --new." if may_be_new else ""
    raise InvalidInput(
        f"There is no project '{project}': it is not registered, and has no review and no cycle.{said}{advice}",
        field="project",
        actual=project,
        allowed=registered,
    )


def ensure_ours(session: Session, options: ConnectionOptions, review_id: str, project: str) -> None:
    """Refuse to change this repository for another project's review; one without a project is for any.

    Raises:
        InvalidInput: This repository belongs to another project.
    """
    found = find_project(session, options)
    if found not in {None, project}:
        raise InvalidInput(
            f"{review_id} belongs to the project {project}; this repository is {found}.",
            field="project",
            expected=project,
            actual=found,
        )


def one_of(by_place: Any, by_name: Any, option: str) -> Any:
    """The value that was given by its place or by its option's name; None if neither was.

    Raises:
        Misused: Both were, and they differ.
    """
    if by_place is not None and by_name is not None and by_place != by_name:
        raise Misused(f"Given twice: {by_place} and {by_name}.", option)
    return by_place if by_name is None else by_name
