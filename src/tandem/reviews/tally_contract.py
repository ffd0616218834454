"""What the statistics answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from tandem.contract.answer import ProjectName
from tandem.present.shape import Shown


@dataclass(frozen=True, slots=True)
class FindingTally:
    """Counts of findings for one slice, and the cost of finding those that were corrected."""

    blocker: Annotated[int, Field(description="Findings of `blocker`.")]
    major: Annotated[int, Field(description="Findings of `major`.")]
    minor: Annotated[int, Field(description="Findings of `minor`.")]
    nit: Annotated[int, Field(description="Findings of `nit`.")]
    verified: Annotated[int, Field(description="How often one was found to be corrected.")]
    refuted: Annotated[int, Field(description="How often a proposer answered that one is none.")]
    upheld: Annotated[int, Field(description="How often the proposer was right to refute or defer one.")]
    reopened: Annotated[int, Field(description="How often one was opened again.")]
    late: Annotated[int, Field(description="Findings that came late, on lines that did not change.")]
    suppressed: Annotated[int, Field(description="Findings that repeat a lesson.")]
    cost_per_verified_usd: Annotated[
        float | None,
        Field(
            description="What the runs of the pools' reviewers cost, for each of their findings that was verified; null"
            " without any, by day and by category, and where no run said its cost."
        ),
    ]


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts and mean times for one slice of the reviews; times are None where there were none."""

    submitted: Annotated[int, Field(description="Reviews created.")]
    revised: Annotated[int, Field(description="Revisions submitted.")]
    claimed: Annotated[int, Field(description="Claims.")]
    approved: Annotated[int, Field(description="Verdicts `approved`.")]
    changes_requested: Annotated[int, Field(description="Verdicts `changes_requested`.")]
    rejected: Annotated[int, Field(description="Verdicts `rejected`.")]
    comments: Annotated[int, Field(description="Verdicts `comment`.")]
    findings: Annotated[FindingTally, Field(description="The findings.")]
    closed: Annotated[int, Field(description="Reviews closed.")]
    withdrawn: Annotated[int, Field(description="Reviews closed undecided.")]
    approval_rate: Annotated[
        float | None, Field(description="Approvals in all deciding verdicts, from 0 to 1; null without any.")
    ]
    mean_rounds: Annotated[
        float | None, Field(description="Mean round of the approvals."), Shown(label="rounds to approval")
    ]
    mean_seconds_to_claim: Annotated[
        float | None,
        Field(description="Mean time from creation to the first claim."),
        Shown("duration", label="mean to claim"),
    ]
    mean_seconds_to_verdict: Annotated[
        float | None,
        Field(description="Mean time from the claim to the deciding verdict."),
        Shown("duration", label="mean to verdict"),
    ]
    cost_usd: Annotated[
        float | None,
        Field(
            description="What the runs of the pools' reviewers cost; null by category, and where no run said its cost."
        ),
    ]
    cost_per_verdict_usd: Annotated[
        float | None,
        Field(description="The same for each of their deciding verdicts; null without any, and by day."),
    ]


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts per state now, and tallies over the asked time, whole and by slice; by day only since a day."""

    project: ProjectName | None
    since: Annotated[str | None, Field(description="The day that the tallies begin with; null for all time.")]
    open: Annotated[dict[str, int], Field(description="How many reviews are in each state now.")]
    total: Annotated[Tally, Field(description="The tally of everything.")]
    by_category: Annotated[dict[str, Tally], Field(description="A tally for each category.")]
    by_reviewer: Annotated[dict[str, Tally], Field(description="A tally for each reviewer.")]
    by_model: Annotated[
        dict[str, Tally],
        Field(description="A tally for each model of the pools' reviewers; without one, by their program's name."),
    ]
    by_finding_category: Annotated[
        dict[str, FindingTally],
        Field(description="The findings of each category of findings, in small letters; the 100 with most of them."),
    ]
    by_day: Annotated[
        dict[str, Tally],
        Field(description="A tally for each day (UTC), at most the newest 400; empty without `since`."),
    ]
    by_project: Annotated[dict[str, Tally], Field(description="A tally for each project.")]
