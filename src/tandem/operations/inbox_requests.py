"""The typed requests of the inbox, the search and the marks on files."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from tandem.contract.request import (
    Person,
    ProjectRequest,
    Refusals,
)


class GetInbox(ProjectRequest):
    """What waits for a person, what waits for others, and what is wrong; of every project unless one is named."""

    refusals: ClassVar[Refusals] = ()
    speaks_as: ClassVar[str | None] = "person"

    person: Person
    limit: Annotated[int, Field(ge=1, description="Rows of each list, at most 200.")] = 50
