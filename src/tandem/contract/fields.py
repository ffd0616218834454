"""The fields that answers of several modules have in common, with the words that every interface has for them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from tandem.present.shape import Shown

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
