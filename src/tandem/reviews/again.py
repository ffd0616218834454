"""Findings whose lines a change makes again, in any file and any review: looked up by the most telling line of each.

Blanks, and invisible characters, make no other line of one.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from tandem.git import hunks
from tandem.git.changes import Change
from tandem.git.travel import Place
from tandem.reviews import finding_queries, finding_rules
from tandem.reviews import queries as reviews
from tandem.reviews.context import Services
from tandem.reviews.finding_rules import Finding, bare
from tandem.store.base import Unit

AROUND: Final = 2
"""So many lines on both sides of a finding belong to its fingerprint."""
_LONG: Final = 20
"""Lines of so many characters, without blanks, are not those that any file has twice, as a closing bracket."""
_LONG_ELSEWHERE: Final = 60
_LINES_ELSEWHERE: Final = 3
"""So many lines, and characters, tell a copy in another file from what many files have."""

_Side = tuple[str, str]
"""A file, and `new` or `old`, as of findings."""


class Made(NamedTuple):
    """The lines that a change shows.

    Attributes:
        lines: Those of each side of a file, by their numbers.
        numbers: The numbers of those that are not blank, in order.
        spots: Where those stand that it makes, or takes away, by the keys that `finding_rules.telling` gives them.
        longest: The longest line that it makes in each file, and under None in all; takes away, if it makes none.
        binary: The files of which it shows none.
    """

    lines: Mapping[_Side, Mapping[int, str]]
    numbers: Mapping[_Side, Sequence[int]]
    spots: Mapping[str, Sequence[tuple[_Side, int]]]
    longest: Mapping[str | None, str]
    binary: frozenset[str]

    def telling(self, path: str | None) -> str | None:
        """By what a file, or all of the change, is found again."""
        return finding_rules.telling([self.longest.get(path, "")])

    def text(self, place: _Side, first: int, last: int) -> str | None:
        """Lines of a file, as far as they are shown; None if none is."""
        shown = self.lines.get(place, {})
        return "\n".join(shown[at] for at in range(first, last + 1) if at in shown) or None

    def run(self, place: _Side, number: int, said: Sequence[str]) -> tuple[int, int] | None:
        """The first and last line of a run of lines, around one of them; None if they are not the same."""
        numbers, at = self.numbers[place], said.index(max(said, key=len))
        start = bisect_left(numbers, number) - at
        window = numbers[max(start, 0) : start + len(said)]
        is_same = [bare(self.lines[place][one]) for one in window] == [*said]
        is_shown = is_same and all(one in self.lines[place] for one in range(window[0], window[-1] + 1))
        return (window[0], window[-1]) if is_shown else None


def made(content: str, paths: Iterable[str], *, is_text: bool) -> Made:
    """The lines that a diff, or the text of a file, makes and takes away."""
    shown: dict[_Side, dict[int, str]] = {}
    spots: dict[str, list[tuple[_Side, int]]] = {}
    longest: dict[str, dict[str | None, str]] = {"new": {}, "old": {}}

    def add(place: _Side, number: int, text: str, *, is_made: bool) -> None:
        shown.setdefault(place, {})[number] = text
        if is_made and (key := finding_rules.telling([text])) is not None:
            spots.setdefault(key, []).append((place, number))
            known = longest[place[1]]
            known |= {one: max(known.get(one, ""), text, key=lambda line: len(bare(line))) for one in (place[0], None)}

    if is_text:
        for path in paths:
            for number, text in enumerate(content.split("\n"), start=1):
                add((path, "new"), number, text, is_made=True)
    files = () if is_text else hunks.parse(content)
    for file in files:
        for line in (line for hunk in file.hunks for line in hunk.walk()):
            for side, number in (("new", line.new_number), ("old", line.old_number)):
                if number is not None:
                    add((file.path, side), number, line.text, is_made=line.kind != "context")
    solid = {place: [at for at, text in lines.items() if bare(text)] for place, lines in shown.items()}
    binary = frozenset(file.path for file in files if file.binary)
    return Made(shown, solid, spots, longest["old"] | longest["new"], binary)


async def made_by(services: Services, review_id: str, number: int | None = None) -> Made:
    """The lines that a round makes, by default the current one.

    Raises:
        NotFound: There is no such review or round.
    """
    found = await services.store.read(lambda unit: reviews.get_content(unit, review_id, number=number))
    paths = [change.path for change in found.round.entries()]
    text, is_text = found.diff or found.text or "", found.diff is None
    return await asyncio.to_thread(made, text, paths, is_text=is_text)


def places_of(one: Finding, origin: Finding, change: Made) -> list[Place]:
    """Where a change makes the lines of a finding again: at most one place in each file.

    Args:
        one: The finding; of lines.
        origin: As it was found first: its fingerprint is that of its own file.
        change: The change.
    """
    best: dict[str, tuple[tuple[bool, bool, int], Place]] = {}
    for place, number in change.spots.get(one.telling or "", ()):
        if place[1] == one.side and (found := _at(one, origin, change, place, number)) is not None:
            best[place[0]] = min(found, best.get(place[0], found), key=lambda ranked: ranked[0])
    return [place for _, place in best.values()]


def _at(
    one: Finding, origin: Finding, change: Made, place: _Side, number: int
) -> tuple[tuple[bool, bool, int], Place] | None:
    """The place at one line, with how well it fits: the same lines, the same around them, and how far away it is."""
    path, said = place[0], [line for line in map(bare, (one.lines or "").splitlines()) if line]
    shown, size = change.lines[place], sum(map(len, said))
    if said and (found := change.run(place, number, said)) is not None:
        first, last = found
        around = change.text(place, first - AROUND, last + AROUND) or ""
        print_ = finding_rules.fingerprint(origin.category, origin.file or "", around, origin.claim)
        is_long = size >= _LONG if path == one.file else size >= _LONG_ELSEWHERE and len(said) >= _LINES_ELSEWHERE
        if is_long or print_ == origin.fingerprint:
            end = None if one.end_line is None else last
            rank = (False, print_ != origin.fingerprint, abs(first - (one.line or first)))
            return rank, Place(path, first, end, changed=False)
    if path != one.file or len(bare(shown[number])) < _LONG:
        return None
    end = None if one.end_line is None else number
    return (True, True, abs(number - (one.line or number))), Place(path, number, end, changed=True)


def _whole(one: Finding, was: Made, change: Made, blobs: Mapping[str, str]) -> list[Place]:
    """Where most of the lines are made again that a file, or a change, made when all of it was meant; or its bytes."""

    def said(of: Made, path: str | None, side: str) -> Counter[str]:
        spots = ((key, place) for key, spots in of.spots.items() for place, _ in spots)
        return Counter(key for key, place in spots if place[1] == side and path in (None, place[0]))

    side = "new" if said(was, one.file, "new") else "old"
    before = said(was, one.file, side)
    paths = {place[0] for place in change.lines} if one.file is not None else [None]
    least = {path: 1 if path == one.file else _LINES_ELSEWHERE for path in paths}
    alike = {path: (before & said(change, path, side)).total() for path in paths}
    again = {path for path, count in alike.items() if count * 2 > before.total() >= least[path]}
    again |= {path for path, blob in blobs.items() if one.blob == blob}
    return [Place(path, None, None, changed=True) for path in sorted(again, key=str)]


async def found(
    services: Services, project: str, digest: str | None, changes: Sequence[Change], change: Made, but: str = ""
) -> dict[str, tuple[Place, ...]]:
    """The findings of other reviews than one whose lines a change makes again, and where; by their ids.

    One stands until it is settled in its own review, or elsewhere on the same bytes, or was upheld in the file.
    """
    blobs = {one.path: one.blob_after for one in changes}

    def look(unit: Unit) -> tuple[list[tuple[Finding, bool]], set[tuple[object, ...]]]:
        listed = finding_queries.list_again(unit, project, change.spots, blobs, but)
        same = finding_queries.list_same(unit, project, digest, changes, but) if listed else []
        return listed, {one.identity for one, stands in same if not stands}

    listed, settled = await services.store.read(look)
    origins = {one.identity[1:]: one for one, _ in reversed(listed)}
    upheld = {(one.identity[1:], one.file) for one, _ in listed if one.state == "upheld"}
    placed: dict[tuple[object, ...], tuple[str, Place]] = {}
    # Of one that went on to other reviews the newest counts.
    for one, stands in listed:
        if not stands or one.identity in settled:
            continue
        known = one.identity[1:]
        if one.file in change.binary:
            places = [Place(one.file, None, None, changed=True)]
        elif one.line is None:
            places = _whole(one, await made_by(services, one.review_id, one.round), change, blobs)
        else:
            places = places_of(one, origins[known], change)
        placed |= {(known, place.file): (one.id, place) for place in places if (known, place.file) not in upheld}
    again: dict[str, tuple[Place, ...]] = {}
    for name, place in placed.values():
        again[name] = (*again.get(name, ()), place)
    return again
