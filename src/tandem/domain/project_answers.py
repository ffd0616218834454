"""What the operations on projects answer. Times are ISO 8601 in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from tandem.domain.fields import (
    AlwaysTrue,
    ProjectName,
)


@dataclass(frozen=True, slots=True)
class ProjectView:
    """A registered project and its folder."""

    project: ProjectName
    root: Annotated[str, Field(description="The top level of its git repository.")]
    registered_at: Annotated[str, Field(description="When it was registered.")]


@dataclass(frozen=True, slots=True)
class ProjectList:
    """All registered projects, by name."""

    projects: Annotated[tuple[ProjectView, ...], Field(description="The projects, by name.")]


@dataclass(frozen=True, slots=True)
class ProjectRemoved:
    """The project is a label again; its reviews stay."""

    project: ProjectName
    removed: AlwaysTrue
