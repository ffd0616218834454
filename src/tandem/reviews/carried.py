"""Findings that go on with a new review, come back with a round, or stand on the same content in other reviews."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final, NamedTuple

import orjson

from tandem.git import hunks
from tandem.git.travel import Place
from tandem.reviews import finding_queries, finding_rules, places
from tandem.reviews import queries as reviews
from tandem.reviews.contents import Content
from tandem.reviews.context import Services, threshold_of
from tandem.reviews.finding_rules import Finding, blocks
from tandem.reviews.rounds import Round, why_stopped, with_turn
from tandem.reviews.rules import Review, State
from tandem.store import events
from tandem.store.base import Unit
from tandem.store.event import EventKind

_NAMED = 10
"""So many approvals elsewhere are named."""
AROUND: Final = 2
"""So many lines on both sides of a finding belong to its fingerprint."""
_TELLING: Final = 24
"""Lines of so many characters are not those that any file has, as a closing bracket."""


def going_on(unit: Unit, project: str, parent_id: str | None, content: Content) -> list[Finding]:
    """The findings that a new review goes on with: the open ones of its parent, and those that stand on its content."""
    there = finding_queries.list_of_review(unit, parent_id) if parent_id else []
    found = [(one, True) for one in there if one.is_open and one.source != "check"]
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
    paths = [change.path for change in content.changes]

    def look(unit: Unit) -> tuple[list[Finding], list[Finding], bool]:
        known, has_any = going_on(unit, project, parent_id, content), finding_queries.has_any(unit, project)
        return known, finding_queries.list_left(unit, project, paths) if has_any else [], has_any

    known, left, has_any = await services.store.read(look)
    there: dict[str, list[Finding]] = {}
    for one in {one.id: one for one in (*known, *left)}.values():
        there.setdefault(one.review_id, []).append(one)
    found: dict[str, Place] = {}
    for review_id, findings in there.items():
        found |= await places.places_in(services, review_id, map(places.spot_of, findings), content, is_text=is_text)
    if not has_any:
        return replace(content, places=found)
    made, firsts = await asyncio.to_thread(_made, content, is_text=is_text)
    again = {one.id: found[one.id] for one in left if _comes_again(found[one.id], made)}
    moved = await services.store.read(lambda unit: finding_queries.list_with_lines(unit, project, firsts))
    again |= {one.id: at for one, first in moved if one.id not in again and (at := _moved_to(first, made, firsts))}
    # Findings on a whole file that comes again go on with it, or hold its approval back: see `elsewhere`.
    ends = {(change.path, change.blob_after) for change in content.changes}
    known = (one for one in (*(one for one, _ in moved), *left) if one.id in again and (one.file, one.blob) not in ends)
    # Found at the same place it is the same.
    said = {(one.identity[1:], again[one.id]): one.id for one in known}
    return replace(content, places=found | again, again=frozenset(said.values()))


class _Made(NamedTuple):
    """The files that a change makes, as far as it shows them: by line number each line, and whether it is new."""

    files: Mapping[str, Mapping[int, tuple[str, bool]]]

    def by_first_line(self) -> dict[str, list[tuple[str, int]]]:
        """Where each new line stands, by what findings on it are looked up by."""
        found: dict[str, list[tuple[str, int]]] = {}
        for path, lines in self.files.items():
            for number, (text, is_new) in lines.items():
                if is_new and (key := finding_rules.first_line(text)) is not None:
                    found.setdefault(key, []).append((path, number))
        return found

    def text(self, path: str, first: int, last: int) -> str:
        """Lines of a file; those that the change does not show are left out."""
        lines = self.files[path]
        return "\n".join(lines[at][0] for at in range(first, last + 1) if at in lines)

    def last_of(self, path: str, first: int, said: Iterable[str]) -> int | None:
        """The last of the new lines from one on that say something, but for blank ones; None if they do not."""
        at, lines = first, self.files[path]
        for line in said:
            while at in lines and not lines[at][0].strip():
                at += 1
            text, is_new = lines.get(at, ("", False))
            if not is_new or finding_rules.unspaced(text) != line:
                return None
            at += 1
        return at - 1

    def makes(self, path: str, first: int, last: int) -> bool:
        """Whether all of some lines are new."""
        lines = self.files.get(path, {})
        return all(at in lines and lines[at][1] for at in range(first, last + 1))


def _made(content: Content, *, is_text: bool) -> tuple[_Made, dict[str, list[tuple[str, int]]]]:
    """The lines that a change makes, with those around them; and where those are that are looked up."""
    if is_text:
        lines = {at: (text, True) for at, text in enumerate(content.content.split("\n"), start=1)}
        made = _Made({change.path: lines for change in content.changes})
        return made, made.by_first_line()
    files: dict[str, dict[int, tuple[str, bool]]] = {}
    for file in hunks.parse(content.content):
        walked = (line for hunk in file.hunks for line in hunk.walk())
        lines = {line.new_number: (line.text, line.kind == "added") for line in walked if line.new_number is not None}
        files[file.path] = lines
    made = _Made(files)
    return made, made.by_first_line()


def _comes_again(place: Place, made: _Made) -> bool:
    """Whether a change makes the lines of a finding as they were."""
    if place.changed is not False or place.file is None or place.line is None:
        return False
    return made.makes(place.file, place.line, place.end_line or place.line)


def _moved_to(one: Finding, made: _Made, firsts: Mapping[str, Iterable[tuple[str, int]]]) -> Place | None:
    """Where a change makes the lines of a finding in any file: lines that tell, or with the same lines around them."""
    said = finding_rules.in_lines(one.lines or "")
    tells = sum(map(len, said)) >= _TELLING
    for path, first in firsts.get(one.first_line or "", ()):
        last = made.last_of(path, first, said)
        if last is None:
            continue
        around = made.text(path, max(1, first - AROUND), last + AROUND)
        if tells or finding_rules.fingerprint(one.category, one.file or "", around, one.claim) == one.fingerprint:
            return Place(path, first, None if one.end_line is None else last, changed=False)
    return None


def copies(services: Services, review: Review, content: Content, found: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings that a new review goes on with, at their places; of the whole file where those are unknown."""
    here = {"review_id": review.id, "round": 1, "seq": 0, "verdict_id": None, "created_at": review.created_at}
    return tuple(
        _placed(one, content.places.get(one.id))._replace(id=services.clock.new_id("fn"), **here, position=at)
        for at, one in enumerate(found)
    )


def waiting(unit: Unit, services: Services, review: Review, found: Collection[Finding]) -> Review:
    """A new review as one that waits for a person where one does whose findings block it, or its parent."""
    if not found and review.parent_id is None:
        return review
    threshold = threshold_of(unit, services, review.project, review)
    parents = [review.parent_id] if review.parent_id else []
    names = sorted({*parents, *(one.review_id for one in found if blocks(one, threshold))})
    waits = [one for one in (_stopped(unit, name) for name in names) if one["attention"]]
    return with_turn(review._replace(**max(waits, key=lambda one: one["objections"]))) if waits else review


def _stopped(unit: Unit, review_id: str) -> dict[str, Any]:
    """Why a review waits for a person, or did when it was closed without one, and after how many rounds."""
    known = reviews.get(unit, review_id)
    if known.state != State.CLOSED:
        return {"attention": why_stopped(known) if known.is_stopped else None, "objections": known.objections}
    closings = events.list_newest(unit, 1, subject=review_id, kind=EventKind.REVIEW_CLOSED)
    said: dict[str, Any] = orjson.loads(closings[0].data) if closings else {}
    return {"attention": said.get("attention"), "objections": said.get("objections", 0)}


def _placed(one: Finding, place: Place | None) -> Finding:
    if one.file is None:
        return one
    if place is None or place.changed is None:
        return one._replace(line=None, end_line=None, suggestion=None)
    found = one._replace(file=place.file or one.file, line=place.line, end_line=place.end_line)
    return found._replace(changed=1, suggestion=None) if place.changed else found


async def with_returned(services: Services, review: Review, content: Content, *, is_text: bool) -> Content:
    """The content of a new round with the findings whose lines it brings back; before any transaction."""
    known = await services.store.read(lambda unit: finding_queries.list_of_review(unit, review.id))
    spots = [places.spot_of(one) for one in known if _may_return(one) and not one.changed]
    found = await places.places_in(services, review.id, spots, content, is_text=is_text)
    same = [spot for spot in spots if found[spot.id].changed is False]
    was = await places.places(services, review.id, same, review.round)
    return replace(content, returned=frozenset(name for name, place in was.items() if place.changed))


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
    return tuple(finding_rules.brought_back(one) for one in back)


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
    unit: Unit, current: Round, review: Review, here: Iterable[Finding], threshold: str, *, is_person: bool
) -> list[Finding]:
    """The findings in other reviews that block: the gate opens for the content, whichever review approves it.

    Not those that this one goes on with, and somebody settled here, on the same bytes. A person overrules agents, and
    may say that the changes are made that another person asked for.
    """
    found = finding_queries.list_elsewhere(unit, review, current.entries())
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
