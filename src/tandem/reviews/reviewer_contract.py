"""What operations answer of who reviews: the holder of a claim, and why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from tandem.present.shape import Shown


@dataclass(frozen=True, slots=True)
class NoReviewer:
    """Why no reviewer takes a review, and what helps."""

    reason: Annotated[
        str,
        Field(
            description=(
                "`paused`, `budget`, `circuit_open`, `pool_lost`, `not_logged_in`, `program_missing`, `no_pool` (a "
                "person or another agent reviews it), `no_profile` (no reviewer of the pool fits), `person` (the "
                "project's policy asks for one), `quiet_hours`, `rate_limited` (the provider's quota), `failed` (the "
                "last run gave no verdict), or `silent` (its program neither writes nor uses the processor)."
            )
        ),
        Shown("hidden"),
    ]
    needs_person: Annotated[
        bool, Field(description="Whether none comes before a person acts: agents then stop."), Shown("hidden")
    ]
    message: Annotated[
        str, Field(description="The reason in words, with the program's own error."), Shown(label="no reviewer")
    ]
    remedy: Annotated[str, Field(description="What helps, and who does it.")]


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a review."""

    name: Annotated[str, Field(description="What people call them.")]
    claimed_at: Annotated[str | None, Field(description="Since when.")]
    doing: Annotated[str | None, Field(description="What a pool's reviewer does, as `list_reviewers` answers.")]
    doing_since: Annotated[str | None, Field(description="Since when it does that.")]
