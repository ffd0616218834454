"""Findings whose lines a change makes again, in any file and in any review: looked up by the most telling line of each.

Blanks, and invisible characters, make no other line of one.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
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
"""Lines of so many characters, without blanks, are not those that any file has, as a closing bracket."""

_Side = tuple[str, str]
"""A file, and `new` or `old`, as of findings."""


class Made(NamedTuple):
    """The lines that a change shows.

    Attributes:
        lines: Those of each side of a file, by their numbers.
        numbers: The numbers of those that are not blank, in order.
        spots: Where those stand that it makes, or takes away, by the keys that `finding_rules.telling` gives them.
        longest: The longest line that it makes in each file, and under None in all; takes away, if it makes none.
    """

    lines: Mapping[_Side, Mapping[int, str]]
    numbers: Mapping[_Side, Sequence[int]]
    spots: Mapping[str, Sequence[tuple[_Side, int]]]
    longest: Mapping[str | None, str]

    def telling(self, path: str | None) -> str | None:
        """By what a file, or all of the change, is found again."""
        return finding_rules.telling([self.longest.get(path, "")])

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
    for file in () if is_text else hunks.parse(content):
        for line in (line for hunk in file.hunks for line in hunk.walk()):
            for side, number in (("new", line.new_number), ("old", line.old_number)):
                if number is not None:
                    add((file.path, side), number, line.text, is_made=line.kind != "context")
    solid = {place: [at for at, text in lines.items() if bare(text)] for place, lines in shown.items()}
    return Made(shown, solid, spots, longest["old"] | longest["new"])


async def made_by(services: Services, review_id: str, number: int | None = None) -> Made:
    """The lines that a round makes, by default the current one.

    Raises:
        NotFound: There is no such review or round.
    """
    found = await services.store.read(lambda unit: reviews.get_content(unit, review_id, number=number))
    paths = [change.path for change in found.round.entries()]
    text, is_text = found.diff or found.text or "", found.diff is None
    return await asyncio.to_thread(made, text, paths, is_text=is_text)


def place_of(one: Finding, origin: Finding, change: Made) -> Place | None:
    """Where a change makes the lines of a finding again.

    Args:
        one: The finding.
        origin: As it was found first: its fingerprint is that of its own file.
        change: The change.
    """
    spots = change.spots.get(one.telling or "", ())
    for place, number in sorted(spots, key=lambda spot: spot[0][0] != one.file):
        path, side = place
        is_long = len(bare(change.lines[place][number])) >= _LONG
        if one.line is None:
            if is_long or path == one.file:
                return Place(None if one.file is None else path, None, None, changed=True)
        elif side == one.side and (found := _at(one, origin, change, place, number, is_long=is_long)) is not None:
            return found
    return None


def _at(one: Finding, origin: Finding, change: Made, place: _Side, number: int, *, is_long: bool) -> Place | None:
    said = [line for line in map(bare, (one.lines or "").splitlines()) if line]
    if said and (found := change.run(place, number, said)) is not None:
        first, last = found
        shown = change.lines[place]
        around = "\n".join(shown[at] for at in range(max(1, first - AROUND), last + AROUND + 1) if at in shown)
        print_ = finding_rules.fingerprint(origin.category, origin.file or "", around, origin.claim)
        if sum(map(len, said)) >= _LONG or print_ == origin.fingerprint:
            return Place(place[0], first, None if one.end_line is None else last, changed=False)
    return Place(place[0], number, None if one.end_line is None else number, changed=True) if is_long else None


async def found(
    services: Services, project: str, digest: str | None, changes: Sequence[Change], change: Made, but: str = ""
) -> dict[str, Place]:
    """The findings of other reviews than one whose lines a change makes again, and where; by their ids.

    Not those that come with the same bytes, for which there are rules of their own.
    """

    def look(unit: Unit) -> tuple[list[tuple[Finding, Finding]], set[tuple[object, ...]]]:
        listed = finding_queries.list_telling(unit, project, change.spots, but)
        same = finding_queries.list_elsewhere(unit, project, digest, changes, but) if listed else []
        return listed, {one.identity for one in same}

    listed, same = await services.store.read(look)
    placed = ((one, place_of(one, origin, change)) for one, origin in listed if one.identity not in same)
    return {one.id: place for one, place in placed if place is not None}
