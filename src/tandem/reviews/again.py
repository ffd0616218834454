"""Findings whose lines a change makes again, in any file and any review: looked up by the most telling line of each.

Blanks, and invisible characters, make no other line of one.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Final, NamedTuple, TypeVar

from tandem.errors import TandemError
from tandem.git import hunks
from tandem.git.changes import Change
from tandem.git.raw import ABSENT_MODE
from tandem.git.rounds import RoundPatch
from tandem.git.travel import MOST_LINE_BYTES, Place
from tandem.reviews import finding_queries, finding_rules
from tandem.reviews import queries as reviews
from tandem.reviews.context import Services
from tandem.reviews.finding_rules import Finding, bare
from tandem.store.base import Unit

T = TypeVar("T")
AROUND: Final = 2
"""So many lines on both sides of a finding belong to its fingerprint."""
_LONG: Final = 20
"""Lines of so many characters, without blanks, are not those that any file has twice, as a closing bracket."""
_LONG_ELSEWHERE: Final = 60
_LINES_ELSEWHERE: Final = 3
"""So many lines, and characters, tell a copy in another file from what many files have."""

_MODE: Final = "mode "
"""Begins the key of another mode of a file, which counts as one line that the change makes."""
_LETTER_BYTES: Final = 4
"""Of the longest letter in UTF-8: so much short of its limit a text may have been cut."""

_Side = tuple[str, str]
"""A file, and `new` or `old`, as of findings."""


class Made(NamedTuple):
    """The lines that a change shows.

    Attributes:
        lines: Those of each side of a file, by their numbers.
        numbers: The numbers of those that are not blank, in order.
        spots: Where those stand that it makes, or takes away, by the keys that `finding_rules.key_of` gives them.
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

    def telling_at(self, place: _Side, first: int, last: int) -> str | None:
        """By what some lines of a file are found again: the longest that the change makes; None if it makes none."""
        lines = {number: bare(line) for number, line in self._within(place, first, last)}
        keys = {number: finding_rules.key_of(line) for number, line in lines.items()}
        own = [number for number, key in keys.items() if key and (place, number) in self.spots.get(key, ())]
        return keys[max(own, key=lambda number: len(lines[number]))] if own else None

    def text(self, place: _Side, first: int, last: int) -> str | None:
        """Lines of a file, as far as they are shown; None if none is."""
        return "\n".join(line for _, line in self._within(place, first, last)) or None

    def _within(self, place: _Side, first: int, last: int) -> list[tuple[int, str]]:
        return sorted((at, line) for at, line in self.lines.get(place, {}).items() if first <= at <= last)

    def _line(self, place: _Side, number: int) -> str:
        """A line of a file; empty where it is not shown, and for another mode, which is on no line."""
        return self.lines.get(place, {}).get(number, "")

    def tells(self, before: Counter[str], lines: Counter[str]) -> bool:
        """Whether some of its lines, by their keys, are a copy of those before, and not what many files have.

        Few lines are a copy where there is hardly anything else.
        """
        alike = before & lines
        stands = {key: self.spots[key][0] for key in alike}
        texts = {key: self._line(*spot) for key, spot in stands.items()}
        size = sum(count * len(bare(texts[key])) for key, count in alike.items())
        if alike.total() >= _LINES_ELSEWHERE and size >= _LONG_ELSEWHERE:
            return True
        return alike.total() * 2 > lines.total() and (alike.total() > 1 or size >= _LONG)

    def stands(self, path: str | None, side: str) -> Counter[tuple[str, ...]]:
        """The lines that it makes on one side of a file, or of all: each with its file and the lines around its run."""
        found: Counter[tuple[str, ...]] = Counter()
        made: dict[_Side, list[tuple[int, str]]] = {}
        for key, spots in self.spots.items():
            for place, number in spots:
                if place[1] == side and path in (None, place[0]):
                    made.setdefault(place, []).append((number, key))
        for place, listed in made.items():
            around: list[str] = []
            before, numbers = -1, {number for number, _ in listed}
            for number, key in sorted(listed):
                if number > before + 1 or before == 0:
                    last = next(at for at in count(number) if at + 1 not in numbers)
                    near = (*range(number - AROUND, number), *range(last + 1, last + AROUND + 1)) if number else ()
                    around = [bare(self._line(place, at)) for at in near]
                found[place[0], key, *around] += 1
                before = number
        return found

    def run(self, place: _Side, number: int, lines: Sequence[str]) -> tuple[int, int, list[str]] | None:
        """The first and last line of a run of lines that has one of them, and those that are shown of it.

        None if those are not the same.
        """
        shown, said = self.lines[place], [one for one in lines if one]
        numbers, line = self.numbers[place], bare(shown[number])
        for start in (bisect_left(numbers, number) - at for at, one in enumerate(said) if one == line):
            window = numbers[max(start, 0) : start + len(said)]
            is_same = [bare(shown[one]) for one in window] == said
            if is_same and all(one in shown for one in range(window[0], window[-1] + 1)):
                return window[0], window[-1], said
        for first in (number - at for at, one in enumerate(lines) if one == line):
            here = {at: bare(shown[at]) for at in range(first, first + len(lines)) if at in shown}
            if first > 0 and len(here) < len(lines) and all(lines[at - first] == one for at, one in here.items()):
                return first, first + len(lines) - 1, [one for one in here.values() if one]
        return None


def made(content: str, changes: Sequence[Change], *, is_text: bool, before: str = "") -> Made:
    """The lines that a diff, or the text of a file in place of another, makes and takes away."""
    shown: dict[_Side, dict[int, str]] = {}
    spots: dict[str, list[tuple[_Side, int]]] = {}
    longest: dict[str, dict[str | None, tuple[int, str]]] = {"new": {}, "old": {}}
    solid: dict[_Side, list[int]] = {}
    keys: dict[tuple[str | None, str], Counter[str]] = {}
    files = () if is_text else hunks.parse(content)

    def add(key: str, place: _Side, number: int, length: int) -> None:
        spots.setdefault(key, []).append((place, number))
        path, side = place
        for one in (path, None):
            keys.setdefault((one, side), Counter())[key] += 1
            longest[side][one] = max(longest[side].get(one, (0, "")), (length, key))

    for place, number, text, is_made in _of_text(content, before, changes) if is_text else _of_files(files):
        shown.setdefault(place, {})[number] = text
        line = bare(text)
        if line:
            solid.setdefault(place, []).append(number)
        # Some take a carriage return for the end of a line.
        for part in {line, *map(bare, text.split("\r"))} if is_made else ():
            if (key := finding_rules.key_of(part)) is not None:
                add(key, place, number, len(part))
    telling = {path: key for path, (_, key) in (longest["old"] | longest["new"]).items()}
    for change in changes:
        if ABSENT_MODE not in (modes := (change.mode_before, change.mode_after)) and len(set(modes)) > 1:
            for side in ("old", "new"):
                add(_MODE + (finding_rules.key_of(f"{change.path}: {modes}") or ""), (change.path, side), 0, 0)
    telling = {path: key for path, (_, key) in longest["new"].items()} | telling
    binary = frozenset(file.path for file in files if file.binary)
    return Made(shown, solid, spots, telling, binary, keys)


def _of_text(text: str, before: str, changes: Sequence[Change]) -> Iterator[tuple[_Side, int, str, bool]]:
    path = changes[0].path if changes else ""
    for side, content, other in (("new", text, before), ("old", before, text)):
        left = Counter(map(bare, other.split("\n")))
        for number, line in enumerate(content.split("\n") if content else (), start=1):
            left[bare(line)] -= 1
            yield (path, side), number, line, left[bare(line)] < 0


def _of_files(files: Iterable[hunks.FileDiff]) -> Iterator[tuple[_Side, int, str, bool]]:
    for file in files:
        for line in (line for hunk in file.hunks for line in hunk.walk()):
            for side, number in (("new", line.new_number), ("old", line.old_number)):
                if number is not None:
                    yield (file.path, side), number, line.text, line.kind != "context"


class FindingsThere(Exception):
    """Git was not asked about findings, as the broker knew of none, and the project has some."""


async def knowing(services: Services, write: Callable[[], Awaitable[T]]) -> T:
    """What `write` does, which begins again where it finds that the project has findings after all."""
    try:
        return await write()
    except FindingsThere:
        services.has_findings.set()
        return await write()


def ensure_known(unit: Unit, services: Services, project: str) -> None:
    """Refuse to go on where git should have been asked about findings first.

    Raises:
        FindingsThere: The project has some, and the broker did not know.
    """
    if not services.has_findings.is_set() and finding_queries.has_any(unit, project):
        raise FindingsThere


async def made_in(
    services: Services, project: str, content: str, changes: Sequence[Change], base: str | None, *, is_text: bool
) -> Made:
    """The lines that a content makes; of a text all, where the file in place of which it is cannot be read."""
    before = ""
    with suppress(TandemError):
        if is_text and changes and changes[0].before.mode != ABSENT_MODE:
            repository = await services.projects.repository(project, base)
            if repository is not None and base is not None:
                patch = RoundPatch(base, None, tuple(changes))
                read = await asyncio.to_thread(repository.file_of_round, patch, changes[0].path, after=False)
                before = (read or b"").decode("utf-8", "replace")
    return await asyncio.to_thread(made, content, changes, is_text=is_text, before=before)


async def made_by(services: Services, review_id: str, number: int | None = None) -> Made:
    """The lines that a round makes, by default the current one.

    Raises:
        NotFound: There is no such review or round.
    """
    found = await services.store.read(lambda unit: reviews.get_content(unit, review_id, number=number))
    changes = await asyncio.to_thread(found.round.entries)
    text, is_text = found.diff or found.text or "", found.diff is None
    return await made_in(services, found.review.project, text, changes, found.round.base_commit, is_text=is_text)


def _lines(one: Finding) -> list[str]:
    return [*map(bare, (one.lines or "").split("\n"))]


def _span(one: Finding) -> range:
    return range(one.line or 0, (one.end_line or one.line or 0) + 1)


def _is_of_lines(one: Finding) -> bool:
    """Whether a finding is on lines that its change made; else it is found again by those of its file, or change."""
    return one.line is not None and one.telling in map(finding_rules.key_of, _lines(one))


def _is_cut(one: Finding) -> bool:
    """Whether not all lines of a finding are kept: the most telling may be none of those that are."""
    kept = one.lines or ""
    return len(_span(one)) > kept.count("\n") + 1 or len(kept.encode()) > MOST_LINE_BYTES - _LETTER_BYTES


def places_of(one: Finding, origin: Finding, change: Made) -> list[Place]:
    """Where a change makes the lines of a finding again: at most one place in each file.

    Args:
        one: The finding; of lines.
        origin: As it was found first: its fingerprint is that of its own file.
        change: The change.
    """
    best: dict[str, tuple[tuple[bool, bool, int], Place]] = {}
    for place, number in change.spots.get(one.telling or "", ()) if _is_of_lines(one) or _is_cut(one) else ():
        if place[1] == one.side and number and (found := _at(one, origin, change, place, number)) is not None:
            best[place[0]] = min(found, best.get(place[0], found), key=lambda ranked: ranked[0])
    return [place for _, place in best.values()]


def _at(
    one: Finding, origin: Finding, change: Made, place: _Side, number: int
) -> tuple[tuple[bool, bool, int], Place] | None:
    """The place at one line, with how well it fits: the same lines, the same around them, and how far away it is."""
    path, shown = place[0], change.lines[place]
    if one.lines and (found := change.run(place, number, _lines(one))) is not None:
        first, last, said = found
        size = sum(map(len, said))
        around = change.text(place, first - AROUND, last + AROUND) or ""
        print_ = finding_rules.fingerprint(origin.category, origin.file or "", around, origin.claim)
        is_long = size >= _LONG if path == one.file else size >= _LONG_ELSEWHERE and len(said) >= _LINES_ELSEWHERE
        if is_long or print_ == origin.fingerprint:
            # Of many lines the first ones are kept.
            cut = len(_span(one)) - len(_lines(one))
            end = None if one.end_line is None else last + max(cut, 0)
            rank = (False, print_ != origin.fingerprint, abs(first - (one.line or first)))
            return rank, Place(path, first, end, changed=False)
    if path != one.file or len(bare(shown[number])) < _LONG:
        return None
    end = None if one.end_line is None else number
    return (True, True, abs(number - (one.line or number))), Place(path, number, end, changed=True)


def _whole(one: Finding, was: Made, change: Made, blobs: Mapping[str, str]) -> list[Place]:
    """Where most of the lines are made again that a file, or a change, made when all of it was meant; or its bytes.

    So they are of what a change did not make: of lines by their file, of a file by the change that left it alone.
    """
    file = one.file if any((one.file, side) in was.keys for side in ("old", "new")) else None
    side = "new" if _makes_lines(was, file, "new") or not _makes_lines(was, file, "old") else "old"
    before = was.keys.get((file, side), Counter[str]())
    paths = {path for path, of in change.keys if path is not None and of == side} if file is not None else [None]
    now = {path: change.keys.get((path, side), Counter[str]()) for path in paths}
    again = {path for path, lines in now.items() if (before & lines).total() * 2 > before.total()}
    again = {path for path in again if change.tells(before, now[path]) or _is_there(file, path, side, was, change)}
    again |= {path for path, blob in blobs.items() if one.blob == blob}
    return [_place(one, change, path) for path in sorted(again, key=str)]


def _is_there(file: str | None, path: str | None, side: str, was: Made, change: Made) -> bool:
    """Whether most lines of a file, or change, come again between the same lines, beside as many others at most."""
    before, now = was.stands(file, side), change.stands(path, side)
    files = {at for at, *_ in before}
    beside = sum(often for (at, *_), often in now.items() if at in files)
    alike = (before & now).total() * 2
    return path == file and alike > before.total() and alike >= beside


def _makes_lines(change: Made, file: str | None, side: str) -> bool:
    return any(not key.startswith(_MODE) for key in change.keys.get((file, side), ()))


def _place(one: Finding, change: Made, path: str | None) -> Place:
    """A file, or change, where a finding comes again; or its lines, where they are as they were."""
    shown, span, lines = change.lines.get((path or "", one.side), {}), _span(one), _lines(one)
    if path is None and one.file is not None and not any((one.file, side) in change.lines for side in ("old", "new")):
        # A file that this change leaves alone, too, is taken to be as it was.
        return Place(one.file, one.line, one.end_line, changed=False)
    is_same = one.line is not None and len(span) == len(lines) and [bare(shown.get(at, "")) for at in span] == lines
    return Place(path, one.line, one.end_line, changed=False) if is_same else Place(path, None, None, changed=True)


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
    standing = [one for one, stands in listed if stands and one.identity not in settled]
    # Of one that went on to other reviews the newest counts.
    others = (one for one in standing if one.file not in change.binary)
    whole = {one.identity: one for one in others if not _is_of_lines(one)}
    rounds = {(one.review_id, one.round) for one in whole.values()}
    were = {place: await made_by(services, *place) for place in rounds}
    upheld = {(one.identity[1:], one.file) for one, _ in listed if one.state == "upheld"}

    def place() -> dict[str, tuple[Place, ...]]:
        placed: dict[tuple[object, ...], tuple[str, Place]] = {}
        for one in standing:
            if one is whole.get(one.identity, one):
                key = one.identity[1:]
                at = _now(one, origins[key], were.get((one.review_id, one.round)), change, blobs)
                placed |= {(key, here.file): (one.id, here) for here in at if (key, here.file) not in upheld}
        again: dict[str, tuple[Place, ...]] = {}
        for name, here in placed.values():
            again[name] = (*again.get(name, ()), here)
        return again

    return await asyncio.to_thread(place)


def _now(one: Finding, origin: Finding, was: Made | None, change: Made, blobs: Mapping[str, str]) -> list[Place]:
    """Where a finding stands in a change; `was` is the change that it was found on, where all of it was meant."""
    if one.file in change.binary:
        return [Place(one.file, None, None, changed=True)]
    found = places_of(one, origin, change) if one.line is not None else []
    if found or _is_of_lines(one):
        return found
    return [] if was is None else _whole(one, was, change, blobs)
