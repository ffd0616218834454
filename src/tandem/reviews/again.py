"""Findings whose lines a change makes again, in any file and any review: looked up by the most telling line of each.

Blanks, and invisible characters, make no other line of one.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
        longest: The key of the longest line that it makes, or else takes away, in each file, and under None in all.
        binary: The files of which it shows none.
        keys: The keys of those lines of each side of a file, and under None of all, with how often each stands there.
    """

    lines: Mapping[_Side, Mapping[int, str]]
    numbers: Mapping[_Side, Sequence[int]]
    spots: Mapping[str, Sequence[tuple[_Side, int]]]
    longest: Mapping[str | None, str]
    binary: frozenset[str]
    keys: Mapping[tuple[str | None, str], Counter[str]]

    def telling(self, path: str | None) -> str | None:
        """By what a file, or all of the change, is found again."""
        return self.longest.get(path)

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
    longest: dict[str, dict[str | None, tuple[int, str]]] = {"new": {}, "old": {}}
    solid: dict[_Side, list[int]] = {}
    keys: dict[tuple[str | None, str], Counter[str]] = {}
    files = () if is_text else hunks.parse(content)
    for place, number, text, is_made in _of_text(content, paths) if is_text else _of_files(files):
        shown.setdefault(place, {})[number] = text
        line = bare(text)
        if line:
            solid.setdefault(place, []).append(number)
        if not is_made or (key := finding_rules.key_of(line)) is None:
            continue
        spots.setdefault(key, []).append((place, number))
        path, side = place
        for one in (path, None):
            keys.setdefault((one, side), Counter())[key] += 1
            longest[side][one] = max(longest[side].get(one, (0, "")), (len(line), key))
    telling = {path: key for path, (_, key) in (longest["old"] | longest["new"]).items()}
    binary = frozenset(file.path for file in files if file.binary)
    return Made(shown, solid, spots, telling, binary, keys)


def _of_text(content: str, paths: Iterable[str]) -> Iterator[tuple[_Side, int, str, bool]]:
    for path in paths:
        for number, text in enumerate(content.split("\n"), start=1):
            yield (path, "new"), number, text, True


def _of_files(files: Iterable[hunks.FileDiff]) -> Iterator[tuple[_Side, int, str, bool]]:
    for file in files:
        for line in (line for hunk in file.hunks for line in hunk.walk()):
            for side, number in (("new", line.new_number), ("old", line.old_number)):
                if number is not None:
                    yield (file.path, side), number, line.text, line.kind != "context"


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
    side = "new" if (one.file, "new") in was.keys else "old"
    before = was.keys.get((one.file, side), Counter[str]())
    paths = {path for path, of in change.keys if path is not None and of == side} if one.file is not None else [None]
    least = {path: 1 if path == one.file else _LINES_ELSEWHERE for path in paths}
    alike = {path: (before & change.keys.get((path, side), Counter[str]())).total() for path in paths}
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
    known = _Known(change, blobs, {one.identity[1:]: one for one, _ in reversed(listed)})
    standing = [one for one, stands in listed if stands and one.identity not in settled]
    # Of one that went on to other reviews the newest counts.
    whole = {one.identity: one for one in standing if one.line is None and one.file not in change.binary}
    rounds = {(one.review_id, one.round) for one in whole.values()}
    were = {place: await made_by(services, *place) for place in rounds}
    upheld = {(one.identity[1:], one.file) for one, _ in listed if one.state == "upheld"}

    def place() -> dict[str, tuple[Place, ...]]:
        placed: dict[tuple[object, ...], tuple[str, Place]] = {}
        for one in standing:
            if one.line is not None or one is whole.get(one.identity, one):
                key = one.identity[1:]
                at = known.places(one, were.get((one.review_id, one.round)))
                placed |= {(key, here.file): (one.id, here) for here in at if (key, here.file) not in upheld}
        again: dict[str, tuple[Place, ...]] = {}
        for name, here in placed.values():
            again[name] = (*again.get(name, ()), here)
        return again

    return await asyncio.to_thread(place)


class _Known(NamedTuple):
    """A change, its files by their blobs, and each finding as it was found first."""

    change: Made
    blobs: Mapping[str, str]
    origins: Mapping[tuple[object, ...], Finding]

    def places(self, one: Finding, was: Made | None) -> list[Place]:
        """Where a finding stands in the change; `was` is the change that it was found on, where all of it was meant."""
        if one.file in self.change.binary:
            return [Place(one.file, None, None, changed=True)]
        if one.line is None:
            return [] if was is None else _whole(one, was, self.change, self.blobs)
        return places_of(one, self.origins[one.identity[1:]], self.change)
