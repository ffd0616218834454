"""Findings that go on with a new review, come back with a round, or stand on the same content in other reviews."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import orjson

from tandem.git.travel import Place
from tandem.reviews import again, files, finding_queries, finding_rules, seats
from tandem.reviews import queries as reviews
from tandem.reviews import report_queries as reports
from tandem.reviews.contents import Content
from tandem.reviews.context import Services, threshold_of
from tandem.reviews.finding_rules import Finding, blocks
from tandem.reviews.rounds import Round, asked, disagreement, with_turn
from tandem.reviews.rules import Review, State
from tandem.store import events
from tandem.store.base import Unit
from tandem.store.event import EventKind

_THERE = "In "
"""So begins why a review waits, with the name of the other one in which that was said."""
_NAMED = 10
"""So many approvals elsewhere are named."""


def going_on(unit: Unit, project: str, parent_id: str | None, content: Content) -> list[Finding]:
    """The findings that a new review goes on with: the open ones of its parent, and those that stand on its content."""
    there = finding_queries.list_of_review(unit, parent_id) if parent_id else []
    found = [(one, True) for one in there if (one.is_open or one.state == "late") and one.source != "check"]
    found += finding_queries.list_refused(unit, project, content.digest, content.changes)
    found += [(one, True) for one in finding_queries.list_still_left(unit, content.again)]
    found.sort(key=lambda known: (known[0].seq, known[0].position))
    # Of one that went on several times the newest.
    newest = {one.identity: (one, stands) for one, stands in found}
    return [one for one, stands in newest.values() if stands]


async def with_places(
    services: Services, project: str, parent_id: str | None, content: Content, *, is_text: bool
) -> Content:
    """The content of a new review with the places of the findings that it goes on with; before any transaction."""
    if not services.has_findings.is_set():
        return content

    def look(unit: Unit) -> tuple[list[Finding], bool]:
        return going_on(unit, project, parent_id, content), finding_queries.has_any(unit, project)

    known, has_any = await services.store.read(look)
    there: dict[str, list[Finding]] = {}
    for one in known:
        there.setdefault(one.review_id, []).append(one)
    found: dict[str, Place] = {}
    for review_id, findings in there.items():
        found |= await files.places_in(services, review_id, map(files.spot_of, findings), content, is_text=is_text)
    if not has_any:
        return content
    made = await _made(services, project, content, is_text=is_text)
    comes_again = await again.found(services, project, content.digest, content.changes, made)
    # A copy of one that goes on with the content, at the same place, is the same.
    there_already = {(one.identity[1:], found[one.id].file) for one in known}
    names = await services.store.read(lambda unit: finding_queries.list_still_left(unit, comes_again))
    known_by = {one.id: one.identity[1:] for one in names}
    return replace(content, places=found, again=_left(comes_again, known_by, there_already))


def _left(
    found: Mapping[str, tuple[Place, ...]],
    known_by: Mapping[str, tuple[object, ...]],
    there: Collection[tuple[tuple[object, ...], str | None]],
) -> dict[str, tuple[Place, ...]]:
    """The findings and places that come again, but for those that are there already."""
    left = {
        name: tuple(place for place in places if (known_by.get(name, ()), place.file) not in there)
        for name, places in found.items()
    }
    return {name: places for name, places in left.items() if places}


async def _made(services: Services, project: str, content: Content, *, is_text: bool) -> again.Made:
    base = content.base_commit
    return await again.made_in(services, project, content.content, content.changes, base, is_text=is_text)


def copies(services: Services, review: Review, content: Content, found: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings that a round goes on with, at their places; of the whole file where those are unknown.

    Each keeps when, and in which review, it was found.
    """
    here = {"review_id": review.id, "round": review.round, "seq": 0, "verdict_id": None}
    placed = (_placed(one, place) for one in found for place in _places(one, content))
    known = (one._replace(id=services.clock.new_id("fn"), found_in=one.found_in or one.review_id) for one in placed)
    return tuple(one._replace(**here, position=at) for at, one in enumerate(known))


def _places(one: Finding, content: Content) -> tuple[Place | None, ...]:
    goes_on = one.id in content.places
    return (*((content.places[one.id],) if goes_on else ()), *content.again.get(one.id, () if goes_on else (None,)))


def waiting(
    unit: Unit, services: Services, review: Review, found: Collection[Finding], parent_id: str | None = None
) -> Review:
    """A review as one that waits for a person where one does whose findings block it, of its content, or its parent."""
    own = finding_queries.list_of_review(unit, review.id) if review.by_checks else ()
    threshold = threshold_of(unit, services, review.project, review) if found or own else ""
    if any(seats.holds_rule_back(one, threshold) for one in (*found, *own)):
        # Checks alone do not approve it then: a reviewer is wanted.
        review = review._replace(by_checks=0)
    if review.is_disputed and review.attention != seats.waits(review):
        return review
    names = {one.review_id for one in found if blocks(one, threshold) or one.state == "late"}
    names |= {parent_id} if parent_id else set()
    known = [_stopped(unit, reviews.get(unit, name)) for name in sorted(names)]
    waits = [one for one in (*known, stopped_on(unit, review)) if one["attention"]]
    if not waits:
        return review
    most = max(waits, key=lambda one: one["objections"])
    return with_turn(review._replace(**most | {"objections": max(most["objections"], review.objections)}))


def stopped_on(unit: Unit, review: Review) -> dict[str, Any]:
    """As `_stopped`, of others on the content of a review: the newest, unless a person had a later one go on."""
    free = 0
    for one in reports.list_of_content(unit, review.project, review.digest) if review.digest else ():
        is_later = one.id != review.id and (one.closed_at or one.updated_at) > free
        found = _stopped(unit, one) if is_later else {}
        # Findings that hold an approval back do so wherever the content is.
        if (why := found.get("attention")) and finding_rules.APPROVES not in why:
            return found
        free = max(free, one.created_at)
    return {"attention": None}


def _stopped(unit: Unit, known: Review) -> dict[str, Any]:
    """Why a review waits for a person, or did when it was closed without one, and after how many rounds."""
    if known.state != State.CLOSED:
        why = seats.why_stopped(known) if known.is_stopped or asked(known) else None
        said: dict[str, Any] = {"attention": why, "objections": known.objections}
    else:
        closings = events.list_newest(unit, 1, subject=known.id, kind=EventKind.REVIEW_CLOSED)
        said = orjson.loads(closings[0].data) if closings else {}
    why, objections = said.get("attention"), said.get("objections", 0)
    # The rounds are counted on; anything else was said there.
    is_there = why and why != disagreement(known._replace(objections=objections)) and not why.startswith(_THERE)
    return {"attention": f"{_THERE}{known.id}: {why}" if is_there else why, "objections": objections}


def _placed(one: Finding, place: Place | None) -> Finding:
    if one.file is None:
        return one
    if place is None or place.changed is None:
        return one._replace(line=None, end_line=None, suggestion=None)
    found = one._replace(file=place.file or one.file, line=place.line, end_line=place.end_line)
    return found._replace(changed=1, suggestion=None) if place.changed else found


async def with_returned(services: Services, review: Review, content: Content, *, is_text: bool) -> Content:
    """The content of a new round with the findings whose lines it brings; before any transaction."""

    def look(unit: Unit) -> tuple[list[Finding], bool]:
        return finding_queries.list_of_review(unit, review.id), finding_queries.has_any(unit, review.project)

    known, has_any = await services.store.read(look)
    if not has_any:
        return content
    asked = [one for one in known if _may_return(one)]
    spots = [files.spot_of(one) for one in asked if not one.changed]
    found = await files.places_in(services, review.id, spots, content, is_text=is_text)
    same = [spot for spot in spots if found[spot.id].changed is False]
    was = await files.places(services, review.id, same, review.round)
    returned = {name: found[name].file for name, place in was.items() if place.changed}
    made = await _made(services, review.project, content, is_text=is_text)
    comes_again = await again.found(services, review.project, content.digest, content.changes, made, review.id)
    on_lines = (one for one in asked if one.id not in returned and one.line is not None)
    back = [(one, placed) for one in on_lines if (placed := again.places_of(one, one, made))]
    before = await again.made_by(services, review.id, review.round) if back else made
    returned |= {one.id: placed[0].file for one, placed in back if not again.places_of(one, one, before)}
    return replace(content, returned=returned, again=comes_again)


def of_round(
    unit: Unit, services: Services, before: Review, after: Review, content: Content
) -> tuple[Review, tuple[Finding, ...]]:
    """A review at its new round, and the findings that the round opens again or brings from other reviews."""
    mine = {(one.identity[1:], one.file) for one in finding_queries.list_of_review(unit, before.id)}
    found = finding_queries.list_still_left(unit, content.again)
    left = _left(content.again, {one.id: one.identity[1:] for one in found}, mine)
    content, found = replace(content, again=left), [one for one in found if one.id in left]
    rows = (*reopened(unit, before, content), *copies(services, after, content, found))
    return waiting(unit, services, after, found), rows


def _ends(known: Round) -> frozenset[tuple[str, str]]:
    """The files of a round as it leaves them."""
    return frozenset((one.path, one.blob_after) for one in known.entries())


def _may_return(one: Finding) -> bool:
    return one.state in ("fixed", "verified") and one.source != "check"


def reopened(unit: Unit, review: Review, content: Content) -> tuple[Finding, ...]:
    """The findings of a review, as it was before, that a new round opens again: it brings their faults back."""
    asked = [one for one in finding_queries.list_of_review(unit, review.id) if _may_return(one)]
    if not asked:
        return ()
    before = reviews.get_round(unit, review.id, review.round)
    new = {(one.path, one.blob_after) for one in content.changes} - _ends(before)
    numbers = {one.round for one in asked if one.blob is None}
    rounds = {number: reviews.get_round(unit, review.id, number) for number in numbers}
    own = {number: (known.digest, _ends(known)) for number, known in rounds.items()}

    def is_back(one: Finding) -> bool:
        if one.id in content.returned:
            return True
        if one.blob is not None:
            return (one.file, one.blob) in new
        # About a whole change: all of it, or any part that was corrected since.
        digest, ends = own[one.round]
        return (digest is not None and digest == content.digest != before.digest) or bool(ends & new)

    back = (one for one in asked if is_back(one))
    return tuple(finding_rules.brought_back(one, content.returned.get(one.id)) for one in back)


def approved_elsewhere(unit: Unit, review: Review) -> tuple[str, ...]:
    """That the same content is approved by another review, which a finding here does not alter."""
    known = reviews.list_approvals(unit, review.project, review.digest, _NAMED) if review.digest else []
    return tuple(
        f"{name} approves the same content, which passes the gate until that is withdrawn"
        f" (tandem review withdraw {name} --reason 'why')."
        for name, _ in known
        if name != review.id
    )


def elsewhere(
    unit: Unit,
    current: Round,
    review: Review,
    here: Collection[Finding],
    threshold: str,
    comes_again: Iterable[str] = (),
    *,
    is_person: bool,
) -> list[Finding]:
    """The findings in other reviews that block: the gate opens for the content, whichever review approves it.

    Not those that this one goes on with, and somebody settled here, on the same bytes. A person overrules agents, and
    may say that the changes are made that another person asked for. `comes_again` are ids of those whose lines it has.
    """
    found = finding_queries.list_elsewhere(unit, review.project, review.digest, current.entries(), review.id)
    known = {one.identity[1:] for one in (*here, *found)}
    found += [one for one in finding_queries.list_still_left(unit, comes_again) if one.identity[1:] not in known]
    over = [one for one in here if one.state in finding_rules.OVER]
    now = _ends(current)

    @cache
    def ends_of(review_id: str, number: int) -> frozenset[tuple[str, str]]:
        return _ends(reviews.get_round(unit, review_id, number))

    def is_over(one: Finding) -> bool:
        same = [mine for mine in over if (mine.identity, mine.blob) == (one.identity, one.blob)]
        if one.blob is not None or not same:
            return bool(same)
        # About a whole change: its files that are in this one were then as they are now.
        met = now & ends_of(one.review_id, one.round)
        return any(was == now or (met and met <= was) for was in (ends_of(review.id, mine.round) for mine in same))

    kept = (one for one in found if blocks(one, threshold) and not is_over(one))
    return [one for one in kept if not is_person or (one.source == "person" and not one.is_request)]
