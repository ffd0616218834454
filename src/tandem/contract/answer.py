"""What answers have in common: how one is made from a record, and the types of their fields."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import signature
from operator import attrgetter
from typing import Annotated, Any, TypeVar

from pydantic import Field

from tandem.core.clock import isoformat
from tandem.present.shape import Shown

T = TypeVar("T")


def time_or_none(instant_us: int | None) -> str | None:
    """ISO time, or None."""
    return None if instant_us is None else isoformat(instant_us)


def shown(kind: type[T], record: Any, /, **stated: Any) -> T:
    """An answer from a record: the fields that both name alike, times as ISO 8601, and the stated fields.

    Args:
        kind: The answer's type.
        record: The record. Its times are microseconds, and their names end in `_at`.
        stated: Fields that the record does not have, or has in another form.
    """
    plain, values, times = _common(kind, record.__class__, tuple(stated))
    stated.update(zip(plain, values(record), strict=False))
    for name in times:
        time = getattr(record, name)
        # A text is what others named so.
        stated[name] = time if isinstance(time, str) else time_or_none(time)
    return kind(**stated)


@cache
def _common(
    kind: type[Any], record: type[Any], stated: tuple[str, ...]
) -> tuple[list[str], Callable[[Any], tuple[Any, ...]], list[str]]:
    """Fields that an answer takes from a record as they are, what reads them, and the times among them."""
    common = [name for name in signature(kind).parameters if name not in stated and hasattr(record, name)]
    plain = [name for name in common if not name.endswith("_at")]
    # With two more, as of a single attribute it would read the value instead of a tuple.
    return plain, attrgetter(*plain, "__class__", "__class__"), [name for name in common if name.endswith("_at")]


ReviewId = Annotated[str, Field(description="The review.")]
ProjectName = Annotated[str, Field(description="The project.")]
StateName = Annotated[str, Field(description="The review's state; see the life cycle.")]
RoundNumber = Annotated[int, Field(description="The round's number.")]
Outcome = Annotated[str, Field(description="How a closed review ended: `approved`, `rejected` or `withdrawn`.")]
Digest = Annotated[
    str,
    Field(
        description=(
            "What an approval binds to: SHA-256 over exactly this change, or blob id and path of a "
            "text; null if nothing was validated."
        )
    ),
]
Cursor = Annotated[str, Field(description="Where the log stood; a later wait sends it to go on from there.")]
NextPage = Annotated[str, Field(description="Sent as `page` it gives the next page; null at the end.")]
Changed = Annotated[bool, Field(description="Whether there is something new since the cursor that was sent.")]
VerdictName = Annotated[
    str, Field(description="The verdict: `approved`, `changes_requested`, `rejected` or `comment`; null without one.")
]
Attention = Annotated[str, Field(description="Why a person should look; null if no one has to.")]
CreatedAt = Annotated[str, Field(description="When it was made.")]
UpdatedAt = Annotated[str, Field(description="When it last changed.")]
AlwaysTrue = Annotated[bool, Field(description="Always true."), Shown("hidden")]
Turn = Annotated[
    str,
    Field(description="The side that has something to do, `proposer` or `reviewer`; null when the review is over."),
]
Notes = Annotated[
    tuple[str, ...],
    Field(description="What git did that the diff as it was sent did not say, such as a hunk at another line."),
]
AcceptedBy = Annotated[
    str,
    Field(description="Who accepted the counter-patch that this round is; null if that may have been its author."),
]
Metadata = Annotated[dict[str, Any], Field(description="Further facts for readers, stored as given."), Shown("given")]
RemovedAt = Annotated[
    str,
    Field(description="When its texts, diffs and messages were removed (setting `retention_days`); else null."),
    Shown(label="removed by retention_days"),
]
TextPath = Annotated[str, Field(description="The file whose whole content was proposed; null for another change.")]
Revision = Annotated[
    str, Field(description="The commits that were proposed, as `A..B`; null for a change that is not committed yet.")
]
QuestionId = Annotated[
    str,
    Field(
        description=(
            "The newest question of a person who does not review it that its proposer has not answered: `add_message` "
            "with `resolves` answers it, and takes no turn."
        )
    ),
]
