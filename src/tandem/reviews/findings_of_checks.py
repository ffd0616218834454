"""What checks found: taken in with their results, and corrected once they no longer find it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

from tandem.reviews import finding_queries, finding_rules
from tandem.reviews.check_rules import CheckRun, CheckStatus
from tandem.reviews.context import Services
from tandem.reviews.finding_contract import GivenFinding, new_finding
from tandem.reviews.finding_rules import Finding
from tandem.reviews.rules import Review
from tandem.store.base import Unit

_SAID = ("file", "line", "end_line", "side", "severity", "category", "claim", "failure", "suggestion")


def taken(
    unit: Unit, services: Services, review: Review, run: CheckRun, given: Sequence[GivenFinding], now_us: int
) -> tuple[Finding, ...]:
    """The new findings of a check, and those that it no longer has, which are verified; or has again.

    The same words about the same file, for the same time, are the same finding: its lines may have moved.
    """
    known, found = _numbered(_of(unit, review.id, run.name)), _numbered(given)
    # One that failed and names nothing may have ended before it looked.
    looked = bool(given) or run.status == CheckStatus.PASSED
    gone = [one for what, one in known.items() if looked and what not in found and one.is_open]
    back = (one for what, one in known.items() if what in found and one.state == "verified")
    new = [one for what, one in found.items() if what not in known]
    return (
        *(finding_rules.after(one, "reopened", run.name, "The check finds it again.") for one in back),
        *(finding_rules.after(one, "verified", run.name, None, review.round) for one in gone),
        *(
            new_finding(
                one,
                review,
                id=services.clock.new_id("fn"),
                position=at,
                round=run.round if run.review_id == review.id else review.round,
                source="check",
                author=run.name,
                created_at=now_us,
            )
            for at, one in enumerate(new)
        ),
    )


def went_on(unit: Unit, known: CheckRun, review_id: str) -> bool:
    """Whether a known result does not tell any more what the check finds: later rounds of its review changed that."""
    return known.review_id == review_id and bool(_of(unit, review_id, known.name))


def copied(unit: Unit, services: Services, review: Review, known: CheckRun, now_us: int) -> tuple[Finding, ...]:
    """The same of a check that is not run again, as its result for the same tree is known."""
    if known.review_id == review.id:
        return ()
    there = (one for one in _of(unit, known.review_id, known.name) if one.is_open)
    given = [GivenFinding(**{name: getattr(one, name) for name in _SAID}) for one in there]
    return taken(unit, services, review, known, given, now_us)


def _of(unit: Unit, review_id: str, name: str) -> list[Finding]:
    known = finding_queries.list_of_review(unit, review_id)
    return [one for one in known if (one.source, one.author) == ("check", name)]


_One = TypeVar("_One", Finding, GivenFinding)


def _numbered(listed: Iterable[_One]) -> dict[tuple[str | None, str | None, str, int], _One]:
    """Findings by their file, category and words, and how many of those came before."""
    seen: Counter[tuple[str | None, str | None, str]] = Counter()
    found: dict[tuple[str | None, str | None, str, int], _One] = {}
    for one in listed:
        what = (one.file, one.category, one.claim)
        found[(*what, seen[what])] = one
        seen[what] += 1
    return found
