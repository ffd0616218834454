"""What operators look at: timelines, the feed, the audit log, statistics, and what a search finds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any, Final

import orjson

from tandem.contract.answer import time_or_none
from tandem.contract.caller import Caller
from tandem.contract.request import WORK
from tandem.core.clock import DAY_US, MICROSECONDS, utc_day
from tandem.errors import InvalidInput
from tandem.git.changes import AffectedFile
from tandem.present.words import PRIORITIES
from tandem.reviews import queries as reviews
from tandem.reviews import report_queries as reports
from tandem.reviews import views
from tandem.reviews.answers import ActivityFeed, AuditPage, FeedEntry, Timeline
from tandem.reviews.context import Services
from tandem.reviews.finding_rules import SEVERITIES
from tandem.reviews.page_contract import FoundReview, SearchPage, SearchReviews
from tandem.reviews.report_queries import COST, KEYS, Key, SearchHit, Shape, place_of
from tandem.reviews.requests import GetActivityFeed, GetAuditLog, GetReviewStats, GetReviewTimeline
from tandem.reviews.rules import Review, State
from tandem.reviews.tally_contract import FindingTally, Statistics, Tally
from tandem.reviews.writing import FOUND_PREFIX, KIND_PREFIX, OPEN_PREFIX
from tandem.store import events, pages
from tandem.store.base import Row, Unit
from tandem.store.context import look_or_wait
from tandem.store.event import FOREVER
from tandem.store.statement import stated
from tandem.store.waits import topic

_TIMELINE_LIMIT = 100_000
_SCANS = 20
"""How often one look of a call with a cursor goes on where a scan of the log has stopped."""
_MOST_DAYS, _MOST_CATEGORIES = 400, 100


async def get_review_timeline(services: Services, _caller: Caller, request: GetReviewTimeline) -> Timeline:
    """Every event of a review, oldest first.

    Raises:
        NotFound: There is no such review (in that project).
    """
    hub = services.waits

    def work(unit: Unit) -> Timeline:
        review = reviews.get(unit, request.review_id, request.project)
        found = events.list_after(unit, 0, _TIMELINE_LIMIT, subject=review.id)
        return Timeline(
            review.id,
            tuple(views.event(event, hub) for event in found),
            services.waits.cursor(review.event_seq, unit),
        )

    return await services.store.read(work)


async def get_activity_feed(services: Services, caller: Caller, request: GetActivityFeed) -> ActivityFeed:
    """Reviews by latest activity; with a wait, once there is more of it.

    Raises:
        TooLarge: More rows than a page may have.
        InvalidInput: The page token or cursor is none of ours.
    """
    limit = request.limit
    pages.check_limit(services, limit)
    hub = services.waits
    after = hub.place(request.cursor)
    before: int | None = pages.decode(services, request.page, int)[0] if request.page else None
    project = services.projects.resolve(request.project, caller.project)

    def work(unit: Unit) -> ActivityFeed:
        newest = hub.newest(unit, after)
        found = reports.list_activity(unit, limit=limit + 1, before=before, project=project, state=request.status)
        shown = views.fitting(found[:limit], lambda one: len(one[1].data))
        entries = tuple(FeedEntry(views.row(review), views.event(event, hub)) for review, event in shown)
        following = pages.encode(services, shown[-1][0].event_seq) if len(found) > len(shown) else None
        newest_seen = shown[0][0].event_seq if shown else 0
        is_news = after is not None and newest_seen > after and newest > after
        return ActivityFeed(entries, following, hub.cursor(newest), changed=is_news)

    async def look() -> tuple[ActivityFeed, bool]:
        nonlocal after
        answer = await services.store.read(work)
        if after is None:
            after = hub.place(answer.cursor)
            answer = replace(answer, changed=bool(answer.entries))
        return answer, answer.changed

    return await look_or_wait(services, topic(project=project), look, request)


async def get_audit_log(services: Services, caller: Caller, request: GetAuditLog) -> AuditPage:
    """Events after a cursor, oldest first; without one, the newest. With a wait, once there are some.

    Raises:
        TooLarge: More rows than a page may have.
        InvalidInput: The cursor is none of ours.
    """
    limit = request.limit
    pages.check_limit(services, limit)
    hub = services.waits
    project = request.project or caller.project
    given = hub.read(request.cursor)

    def work(unit: Unit) -> AuditPage:
        # The events of one review are in order even while others write.
        until = unit.settled if request.review_id is None else FOREVER
        after = hub.place_among(unit, given, request.review_id or "")
        newest = max(hub.newest(unit, after), after or 0)
        filters = {"project": project, "subject": request.review_id, "kind": request.kind, "actor": request.actor}
        if after is None:
            newest_first = reversed(events.list_newest(unit, limit, until=until, **filters))
            found, more = views.fitting(newest_first, lambda one: len(one.data))[::-1], False
        else:
            ahead, stopped = events.list_scanned(unit, after, limit + 1, until=until, **filters)
            for _ in range(_SCANS - 1):
                if ahead or stopped is None:
                    break
                ahead, stopped = events.list_scanned(unit, stopped, limit + 1, until=until, **filters)
            found = views.fitting(ahead[:limit], lambda one: len(one.data))
            more = len(ahead) > len(found) or stopped is not None
            newest = found[-1].seq if len(ahead) > len(found) else newest if stopped is None else stopped
        if found and not more:
            newest = max(newest, found[-1].seq)
        shown = tuple(views.event(event, hub) for event in found)
        named = (name for event in shown for name in (event.subject, event.data.get("review_id")))
        return AuditPage(
            shown, hub.cursor(newest, unit), changed=bool(found), more=more, titles=reports.titles(unit, named)
        )

    async def look() -> tuple[AuditPage, bool]:
        nonlocal given
        answer = await services.store.read(work)
        # A wait goes on from here: the event that it waits for may no longer be among the newest.
        given = hub.read(answer.cursor)
        return answer, answer.changed or answer.more

    return await look_or_wait(services, request.review_id or topic(project=project), look, request)


async def get_review_stats(services: Services, caller: Caller, request: GetReviewStats) -> Statistics:
    """Counts and mean times, over all time or since a day; since a day also by day, of the newest `_MOST_DAYS`.

    Raises:
        InvalidInput: `since` is no ISO date or time.
    """
    project = services.projects.resolve(request.project, caller.project)
    day = _day(request.since)
    first = max(day, utc_day(services.clock.now_us() - (_MOST_DAYS - 1) * DAY_US)) if day else None

    def work(unit: Unit) -> tuple[list[Row], list[Row], dict[str, str], dict[str, int]]:
        return (
            reports.list_counts(unit, "category", "project", "reviewer_id", project=project, since_day=day),
            reports.list_counts(unit, "day", project=project, since_day=first) if first else [],
            services.pool.list_models(unit, project=project, since_day=day),
            reports.list_open(unit, project=project),
        )

    counted, by_day, models, now = await services.store.read(work)
    return Statistics(
        project=project,
        since=day,
        open={state.value: now.get(state.value, 0) for state in State},
        total=_tally(counted),
        by_category=_sliced(counted, lambda row: row[0]),
        by_reviewer=_sliced(counted, lambda row: row[2]),
        by_model=_sliced(counted, lambda row: models.get(row[2])),
        by_finding_category=_by_finding_category(counted),
        by_day=_sliced(by_day, lambda row: row[0]),
        by_project=_sliced(counted, lambda row: row[1]),
    )


def _sliced(rows: Iterable[Row], name_of: Callable[[Row], str | None]) -> dict[str, Tally]:
    """A tally for each name that rows have, by name; a row without one is not counted."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        name = name_of(row)
        if name and not row[-3].startswith(OPEN_PREFIX):
            found[name].append(row)
    return {name: _tally(items) for name, items in sorted(found.items())}


def _by_finding_category(rows: Iterable[Row]) -> dict[str, FindingTally]:
    """The categories with most findings first."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        if row[-3].startswith(KIND_PREFIX):
            category, _, name = row[-3].removeprefix(KIND_PREFIX).rpartition(":")
            found[category][name] += row[-2]
    most = sorted(found, key=lambda one: (-sum(found[one][name] for name in SEVERITIES), one))
    return {category: _finding_tally(found[category]) for category in most[:_MOST_CATEGORIES]}


def _day(since: str | None) -> str | None:
    """The UTC day of an ISO date or time."""
    if since is None:
        return None
    try:
        if len(since) == len("2026-01-01"):
            return date.fromisoformat(since).isoformat()
        instant = datetime.fromisoformat(since)
        return (instant if instant.tzinfo is None else instant.astimezone(UTC)).date().isoformat()
    except (ValueError, OverflowError) as error:
        raise InvalidInput("since must be an ISO date or time, such as 2026-11-21.", field="since") from error


_FOUND = (*SEVERITIES, "verified", "refuted", "upheld", "reopened", "late", "suppressed")
"""The numbers of findings."""


_DECIDING = ("approved", "changes_requested", "rejected")
_OF_A_DAY = 4
"""Columns of a row that is counted by day alone."""


def _finding_tally(counts: Mapping[str, int], cost_usd: float | None = None) -> FindingTally:
    return FindingTally(**{name: counts.get(name, 0) for name in _FOUND}, cost_per_verified_usd=cost_usd)


def _tally(rows: Sequence[Row]) -> Tally:
    """The sums of rows that end with reviewer (or day), metric, count and microseconds."""
    counts: dict[str, int] = defaultdict(int)
    totals: dict[str, int] = defaultdict(int)
    # A day has no reviewers: who decided there and who spent cannot be told.
    spenders = {row[-4] for row in rows if row[-3] == COST and len(row) > _OF_A_DAY}
    at_cost: dict[str, int] = defaultdict(int)
    for *_, who, metric, count, total in rows:
        counts[metric] += count
        totals[metric] += total
        at_cost[metric] += count if who in spenders else 0
    decided = sum(counts[name] for name in _DECIDING)
    verdict_time = sum(totals[name] for name in _DECIDING)
    cost_usd = counts[COST] / 1_000_000 if counts[COST] else None
    return Tally(
        submitted=counts["submitted"],
        revised=counts["revised"],
        claimed=counts["claimed"] + counts["first_claimed"],
        approved=counts["approved"],
        changes_requested=counts["changes_requested"],
        rejected=counts["rejected"],
        comments=counts["comment"],
        findings=_finding_tally(
            {name: counts[FOUND_PREFIX + name] for name in _FOUND}, _each(cost_usd, at_cost[f"{FOUND_PREFIX}verified"])
        ),
        closed=counts["closed:approved"] + counts["closed:rejected"] + counts["closed:withdrawn"],
        withdrawn=counts["closed:withdrawn"],
        approval_rate=counts["approved"] / decided if decided else None,
        mean_rounds=round(counts["rounds"] / counts["approved"], 2) if counts["approved"] else None,
        mean_seconds_to_claim=_mean(totals["first_claimed"], counts["first_claimed"]),
        mean_seconds_to_verdict=_mean(verdict_time, decided),
        cost_usd=cost_usd,
        cost_per_verdict_usd=_each(cost_usd, sum(at_cost[name] for name in _DECIDING)),
    )


def _each(cost_usd: float | None, count: int) -> float | None:
    return cost_usd / count if cost_usd is not None and count else None


def _mean(total_us: int, count: int) -> float | None:
    return total_us / count / MICROSECONDS if count else None


_SEARCH_REVIEWS: Final = 2_000
"""Reviews that one call looks through at most; beyond it the next page goes on."""
_SEARCH_LETTERS: Final = 20_000_000
"""Letters of descriptions and files after which a call stops as well."""
_SEARCH_PIECE: Final = 100


async def search_reviews(services: Services, caller: Caller, request: SearchReviews) -> SearchPage:
    """Reviews that are wanted, in an order, a page at a time; of every project unless one is named.

    Raises:
        TooLarge: More rows than a page may have.
        InvalidInput: The page token is none of ours.
    """
    pages.check_limit(services, request.limit)
    after: Key | None = pages.decode(services, request.page, *KEYS[request.sort]) if request.page else None
    project = request.project or caller.project

    def work(unit: Unit) -> SearchPage:
        newest = services.waits.newest(unit)
        found, following, stopped_us = _find(unit, request, project, after)
        return SearchPage(
            reviews=tuple(found),
            next_page=pages.encode(services, *following) if following else None,
            searched_back_to=time_or_none(stopped_us),
            cursor=services.waits.cursor(newest),
        )

    return await services.store.read(work)


def _find(
    unit: Unit, wanted: SearchReviews, project: str | None, after: Key | None
) -> tuple[list[FoundReview], Key | None, int | None]:
    """The found reviews, the place to go on from, and the time at which a limit stopped the search."""
    words = {*(wanted.text or "").casefold().split()}
    shape, given = _shape(wanted, project)
    found: list[FoundReview] = []
    last: Review | None = None
    read = 0
    for looked, candidate in enumerate(_history(unit, shape, given, after)):
        if last is not None and (looked == _SEARCH_REVIEWS or read >= _SEARCH_LETTERS):
            stopped_us = last.updated_at if shape.sort == "updated" else last.created_at
            return found, place_of(last, shape.sort), stopped_us
        review, files = candidate.review, None
        if _has_row(wanted, project, review) and _has_words(words, candidate):
            files = candidate.affected_files or reviews.get_round(unit, review.id, review.round).affected_files
        if files is not None and (wanted.path is None or _has_path(wanted.path, views.files_from(files))):
            if len(found) == wanted.limit and last is not None:
                return found, place_of(last, shape.sort), None
            found.append(views.row_as(FoundReview, review, files=len(orjson.loads(files))))
        last = review
        read += len(candidate.description or "") + len(files or "")
    return found, None, None


def _shape(wanted: SearchReviews, project: str | None) -> tuple[Shape, dict[str, Any]]:
    # `_has_row` applies the filters that are left out here.
    of_category = wanted.category is not None and wanted.status == State.CLOSED and wanted.attention is not True
    of_category = of_category and wanted.turn is None and wanted.sort != "updated"
    status = None if of_category else wanted.status
    given = stated(
        project=project,
        state=status,
        category=wanted.category,
        priority=None if wanted.priority is None else PRIORITIES.index(wanted.priority),
        turn=wanted.turn,
    )
    shape = Shape(
        sort=wanted.sort,
        filters=frozenset(given),
        state=status,
        attention=wanted.attention is True,
        after=False,
        texts=bool(wanted.text),
    )
    if shape.sort == "updated" and not shape.is_open:
        given = {name: value for name, value in given.items() if name in ("project", "state")}
    return replace(shape, filters=frozenset(given)), given


def _history(unit: Unit, shape: Shape, given: dict[str, Any], after: Key | None) -> Iterator[SearchHit]:
    while True:
        asked = replace(shape, after=after is not None)
        piece = reports.list_candidates(unit, asked, after=after, limit=_SEARCH_PIECE, given=given)
        yield from piece
        if len(piece) < _SEARCH_PIECE:
            return
        after = place_of(piece[-1].review, shape.sort)


def _has_words(words: Collection[str], candidate: SearchHit) -> bool:
    """Whether a review's own columns, or its description, have all the words."""
    review = candidate.review
    names = (review.id, review.parent_id, review.proposer_id, review.reviewer_id or review.verdict_by)
    work = (review.intent, *(getattr(review, name) for name in WORK))
    # A line break is in no word, so that none is found across two columns.
    whole = "\n".join(part for part in (*names, *work) if part).casefold()
    missing = [word for word in words if word not in whole]
    description = (candidate.description or "").casefold() if missing else ""
    return all(word in description for word in missing)


def _has_row(wanted: SearchReviews, project: str | None, review: Review) -> bool:
    """Whether a review's own columns are as wanted."""
    exact = (
        (project, review.project),
        (wanted.status, review.state),
        (wanted.category, review.category),
        (wanted.priority, PRIORITIES[review.priority]),
        (wanted.turn, review.turn),
        (wanted.attention, review.attention is not None),
        (wanted.proposer, review.proposer_id),
        (wanted.reviewer, review.reviewer_id or review.verdict_by),
    )
    return all(one is None or one == actual for one, actual in exact)


def _has_path(path: str, files: Sequence[AffectedFile]) -> bool:
    """Whether one of the files has a path with this part, before or after the change."""
    part = path.casefold()
    return any(part in file.path.casefold() or part in (file.old_path or "").casefold() for file in files)
