"""Requests and answers of the operations on projects. Times are ISO 8601 in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from tandem.contract.answer import AlwaysTrue, ProjectName
from tandem.contract.operation import ADMIN, EVERY_ROLE, READ, REPEATABLE_WRITE, WRITE, ForPeople, Operation
from tandem.contract.request import (
    FilePath,
    Name,
    Refusals,
    Request,
)
from tandem.errors import (
    Forbidden,
    NotFound,
    TimedOut,
)
from tandem.present.shape import Shown


class RegisterProject(Request):
    """Register a folder as a project, or move one to it; or the URL of a repository; or a name alone."""

    refusals: ClassVar[Refusals] = (Forbidden, NotFound, TimedOut)

    root: Annotated[
        FilePath | None, Field(description="The folder: absolute, in a git repository; none if it is elsewhere.")
    ] = None
    mirror: Annotated[
        FilePath | None,
        Field(
            description="The URL of its repository (https, ssh or file), of which the broker keeps a mirror. The same"
            " again has it fetched now."
        ),
    ] = None
    name: Annotated[Name | None, Field(description="The project's name; default: the folder's, or the URL's.")] = None
    move: Annotated[
        bool,
        Field(description="Whether the project of this name has this folder from now on, instead of its own."),
    ] = False


class ListProjects(Request):
    """All registered projects; with a token of one project, that one."""

    refusals: ClassVar[Refusals] = ()
    project_scoped: ClassVar[bool] = True


class RemoveProject(Request):
    """Forget a project's folder; its reviews stay."""

    refusals: ClassVar[Refusals] = (Forbidden, NotFound)

    name: Annotated[Name, Field(description="The project's name.")]


@dataclass(frozen=True, slots=True)
class MirrorView:
    """A project's mirror, as the broker has it that answers."""

    url: Annotated[str, Field(description="Where it is fetched from.")]
    folder: Annotated[str, Field(description="Where the broker that answers keeps it.")]
    deploy_key: Annotated[
        str,
        Field(description="The public key that the broker shows there; let it read the repository."),
        Shown("copied"),
    ]
    fetched_at: Annotated[str | None, Field(description="When it was last fetched since the broker's start.")]
    fetching: Annotated[bool, Field(description="Whether it is being fetched.")]
    problem: Annotated[str | None, Field(description="Why the last fetch failed, if it did.")]


@dataclass(frozen=True, slots=True)
class ProjectView:
    """A registered project and its folder."""

    project: ProjectName
    root: Annotated[
        str, Field(description="The top level of its git repository; empty if it is elsewhere."), Shown(label="folder")
    ]
    registered_at: Annotated[str, Field(description="When it was registered.")]
    mirror: Annotated[MirrorView | None, Field(description="Its mirror, if it has one.")] = None


@dataclass(frozen=True, slots=True)
class ProjectList:
    """All registered projects, by name."""

    projects: Annotated[
        tuple[ProjectView, ...],
        Field(description="The projects, by name."),
        Shown(empty="No project is registered; in a repository: tandem project add"),
    ]


@dataclass(frozen=True, slots=True)
class ProjectRemoved:
    """The project is a label again; its reviews stay."""

    project: ProjectName
    removed: AlwaysTrue


OPERATIONS = (
    Operation("register_project", "project", "add", RegisterProject, ProjectView, ADMIN, REPEATABLE_WRITE),
    ForPeople("list_projects", "project", "list", ListProjects, ProjectList, EVERY_ROLE, READ),
    Operation("remove_project", "project", "remove", RemoveProject, ProjectRemoved, ADMIN, WRITE),
)
