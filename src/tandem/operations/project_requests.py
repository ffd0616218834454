"""The typed requests on projects."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from tandem.contract.request import (
    FilePath,
    Name,
    Refusals,
    Request,
)
from tandem.errors import (
    NotFound,
    TimedOut,
)


class RegisterProject(Request):
    """Register a folder as a project; its name defaults to the folder's."""

    refusals: ClassVar[Refusals] = (TimedOut,)

    root: Annotated[FilePath, Field(description="The folder: absolute, in a git repository.")]
    name: Annotated[Name | None, Field(description="The project's name.")] = None


class ListProjects(Request):
    """All registered projects; with a token of one project, that one."""

    refusals: ClassVar[Refusals] = ()
    keeps_to_caller: ClassVar[bool] = True


class RemoveProject(Request):
    """Forget a project's folder; its reviews stay."""

    refusals: ClassVar[Refusals] = (NotFound,)

    name: Annotated[Name, Field(description="The project's name.")]
