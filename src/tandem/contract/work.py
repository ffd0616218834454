"""What a change belongs to: declared here once, and taken whole by all that has it.

The request that proposes a change, its row in the database, searches, exports, pages, the terminal, a reviewer's prompt
and the options of `tandem submit` have every field that stands here, under its name.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Final

from pydantic import Field

from tandem.contract.request import Name


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a change belongs to. Requests and answers have the fields themselves: they extend this class.

    It has no slots of its own, as pydantic's models can extend no class that has.
    """

    phase: Annotated[Name | None, Field(description="The project's phase that the change belongs to.")] = None
    plan: Annotated[Name | None, Field(description="The plan that the change belongs to.")] = None
    task: Annotated[Name | None, Field(description="The task of the plan that the change belongs to.")] = None


WORK: Final = tuple(field.name for field in fields(Work))
"""The names of its fields, in their order."""
