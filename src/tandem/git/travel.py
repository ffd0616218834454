"""Where lines of one round stand in another: computed from blobs, by the hunks that `git blame` goes by."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal, NamedTuple

from tandem.errors import TandemError
from tandem.git.changes import Change, Entry
from tandem.git.handle import Handle
from tandem.git.hunks import FileDiff, Hunk, parse
from tandem.git.layout import Scratch
from tandem.git.raw import ABSENT_MODE, EXECUTABLE, REGULAR, encode_path
from tandem.git.rounds import LARGEST_FILE_BYTES, RoundPatch, base_of, blob_sizes, make_blobs, read_blobs

MOST_LINES = 50
"""Of the lines of one spot."""
MOST_LINE_BYTES = 8_000
"""Likewise, in UTF-8."""


class Spot(NamedTuple):
    """Lines that something is said about.

    Attributes:
        id: What the answer is found by.
        round: The round that it was said about.
        side: Whether the file is meant as it is before or after that round's change.
        file: Its path; None for the whole change.
        line: The first line, from 1; None for the whole file.
        end_line: The last line; None for the same as `line`.
    """

    id: str
    round: int
    side: Literal["before", "after"]
    file: str | None
    line: int | None = None
    end_line: int | None = None


class Excerpt(NamedTuple):
    """The lines of a spot, as the file has them.

    Attributes:
        total: How many lines the file has; None if there is no such file.
        lines: The lines of the spot; None where there are none.
        around: Those with some more around them.
    """

    total: int | None = None
    lines: str | None = None
    around: str | None = None


class Place(NamedTuple):
    """Where a spot stands in another round, on the same side.

    Attributes:
        file: The path there; None for the whole change, as when the file is gone or has no lines any more.
        line: The first line there; None for the whole file.
        end_line: The last line there; None where the spot names none.
        changed: Whether any of it is other than it was; None where that is unknown, and the place as it was said.
    """

    file: str | None
    line: int | None
    end_line: int | None
    changed: bool | None


@dataclass(frozen=True, slots=True)
class Version:
    """A round, as its files are read.

    Attributes:
        patch: Its change.
        beside: The commit that all files are read at but those in `touched`.
        touched: Those that the change touches, and others that are read at its base.
        moved_from: The path before of each file that the change renames.
        text: The whole content of the file, where the round is that of a text.
    """

    patch: RoundPatch
    beside: str
    touched: frozenset[str] = frozenset()
    moved_from: Mapping[str, str] | None = None
    text: str | None = None


class Shift(NamedTuple):
    """Lines, and those in their place. With a count of 0 the first one is that before which they would stand."""

    old_first: int
    old_count: int
    new_first: int
    new_count: int


Shifts = Sequence[Shift]
_Pair = tuple[str, str]
_Trip = tuple[Spot, str, Entry, Entry]
"""A spot, the path where it went, the file as it was and as it is."""

_START = re.compile(rb"^diff --git a/\S+ b/", re.MULTILINE)
_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
_DIFF = ("diff-tree", "-r", "--patch", "--unified=0", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames")
"""With Myers' algorithm and the indent heuristic, as no configuration says otherwise: those of `git blame`."""


def find_places(
    handle: Handle, versions: Mapping[int, Version], spots: Iterable[Spot], target: int
) -> dict[str, Place]:
    """Where spots stand in a round, by their ids.

    Args:
        handle: The repository.
        versions: The rounds by number; of one that is left out everything is unknown.
        spots: The spots.
        target: The round.
    """
    found: dict[str, Place] = {}
    trips: list[_Trip] = []
    asked = list(spots)
    files = _Files(handle, versions, {path for spot in asked for path in _candidates(versions, spot, target)})
    for spot in asked:
        one = _went_to(versions, files, spot, target)
        if isinstance(one, Place):
            found[spot.id] = one
        else:
            trips.append(one)
    if trips:
        shifts = _shifts(handle, versions, trips, target)
        absent = handle.layout.objects.object_id("blob", b"")
        found |= {trip[0].id: _arrived(trip, shifts, absent) for trip in trips}
    return found


def as_said(spot: Spot, target: int) -> Place:
    """The place that a spot names; unchanged in its own round, else it is unknown whether it is."""
    return Place(spot.file, spot.line, spot.end_line, False if spot.file and spot.round == target else None)


def read_excerpts(
    handle: Handle, versions: Mapping[int, Version], spots: Iterable[Spot], around: int
) -> dict[str, Excerpt]:
    """The lines that spots name in their own rounds, by their ids; those that cannot be read as text are left out.

    At most `MOST_LINES` and `MOST_LINE_BYTES` of each, without the line feed that ends the last one.
    """
    asked = [(spot, spot.file) for spot in spots if spot.file is not None]
    files = _Files(handle, versions, {path for _, path in asked})
    # A remark on a whole file may be about one that the change deletes.
    sides = {spot: [spot.side] if spot.line else ["after", "before"] for spot, _ in asked}
    found = {spot: [files.find(spot.round, side, path) for side in sides[spot]] for spot, path in asked}
    entries = {spot: all_[0] for spot, all_ in found.items() if spot.line and all_[0] and all_[0].mode != ABSENT_MODE}
    with handle.scratch() as scratch:
        wanted = [(spot.round, spot.file or "", entry.oid) for spot, entry in entries.items()]
        sizes = _make(handle, scratch, versions, wanted)
        contents = read_blobs(scratch, (oid for oid, size in sizes.items() if size <= LARGEST_FILE_BYTES))
    texts = {oid: content for oid, content in contents.items() if content is not None and b"\0" not in content}
    absent = {
        spot.id: Excerpt() for spot, all_ in found.items() if all(one and one.mode == ABSENT_MODE for one in all_)
    }
    return absent | {
        spot.id: _excerpt(texts[entry.oid].split(b"\n"), spot.line or 1, spot.end_line or spot.line or 1, around)
        for spot, entry in entries.items()
        if entry.oid in texts
    }


def _excerpt(lines: Sequence[bytes], first: int, last: int, around: int) -> Excerpt:
    total = len(lines) - (not lines[-1])
    return Excerpt(total, _cut(lines, first, last), _cut(lines, max(1, first - around), last + around))


def _cut(lines: Sequence[bytes], first: int, last: int) -> str | None:
    shown = lines[first - 1 : min(last, first - 1 + MOST_LINES)]
    return b"\n".join(shown)[:MOST_LINE_BYTES].decode("utf-8", "ignore") or None


class _Files:
    """What rounds have at some paths; each tree is read once."""

    def __init__(self, handle: Handle, versions: Mapping[int, Version], paths: set[str]) -> None:
        self._found: dict[tuple[int, str, str], Entry] = {}
        at_base: dict[tuple[str, str], Entry] = {}
        changes = {
            number: {change.path: change for change in one.patch.changes if change.path in paths}
            for number, one in versions.items()
        }
        for number, one in versions.items():
            for path, change in changes[number].items():
                self._found[number, "before", path] = at_base[one.patch.base, path] = change.before
                self._found[number, "after", path] = change.after
        for number, one in versions.items():
            rest = paths - changes[number].keys()
            for commit, names in ((one.patch.base, rest & one.touched), (one.beside, rest - one.touched)):
                for path, entry in _at(handle, commit, names, at_base).items():
                    self._found[number, "before", path] = self._found[number, "after", path] = entry

    def find(self, number: int, side: str, path: str) -> Entry | None:
        """A file's entry, which says so where it is absent; None if that is unknown."""
        return self._found.get((number, side, path))


def _at(handle: Handle, commit: str, paths: set[str], known: Mapping[tuple[str, str], Entry]) -> dict[str, Entry]:
    found = {path: known[commit, path] for path in paths if (commit, path) in known}
    missing = {encode_path(path): path for path in paths - found.keys()}
    with suppress(TandemError):
        there = handle.objects.entries(base_of(handle, RoundPatch(commit, None, ())).tree, missing).entries
        # Of some files of a base no one can tell that another is not there.
        others = {} if handle.bases is not None else dict.fromkeys(missing, handle.layout.objects.absent)
        found |= {missing[name]: entry for name, entry in {**others, **there}.items()}
    return found


def _candidates(versions: Mapping[int, Version], spot: Spot, target: int) -> Iterator[str]:
    """The paths that a spot's file may have in a round, the likeliest first."""
    if spot.file is None:
        return
    yield spot.file
    source, there = versions.get(spot.round), versions.get(target)
    if spot.side == "after" and source is not None and there is not None:
        origin = (source.moved_from or {}).get(spot.file, spot.file)
        yield from (path for path, before in (there.moved_from or {}).items() if before in {spot.file, origin})
        yield origin


def _went_to(versions: Mapping[int, Version], files: _Files, spot: Spot, target: int) -> Place | _Trip:
    said = as_said(spot, target)
    before = None if spot.file is None else files.find(spot.round, spot.side, spot.file)
    if said.changed is not None or before is None or before.mode == ABSENT_MODE:
        return said
    for path in _candidates(versions, spot, target):
        after = files.find(target, spot.side, path)
        if after is None:
            return said
        if after.oid == before.oid:
            return said._replace(file=path, changed=False)
        if after.mode != ABSENT_MODE:
            return Place(path, None, None, changed=True) if spot.line is None else (spot, path, before, after)
    there = versions[target].patch.changes if spot.side == "after" else ()
    same = next((change.path for change in there if change.after.oid == before.oid), None)
    return Place(None, None, None, changed=True) if same is None else said._replace(file=same, changed=False)


def _arrived(trip: _Trip, shifts: Mapping[_Pair, Shifts | None], empty: str) -> Place:
    spot, path, before, after = trip
    if after.oid == empty:
        return Place(path, None, None, changed=True)
    found = shifts.get((before.oid, after.oid), ())
    if found is None or spot.line is None:
        return Place(None, None, None, changed=True)
    if not found:
        return as_said(spot, -1)
    return Place(path, *carried(found, spot.line, spot.end_line))


def _shifts(
    handle: Handle, versions: Mapping[int, Version], trips: Iterable[_Trip], target: int
) -> dict[_Pair, Shifts | None]:
    pairs: dict[_Pair, None] = {}
    wanted: list[tuple[int, str, str]] = []
    for spot, path, before, after in trips:
        pairs[before.oid, after.oid] = None
        wanted += [(spot.round, spot.file or "", before.oid), (target, path, after.oid)]
    with handle.scratch() as scratch:
        sizes = _make(handle, scratch, versions, wanted)
        return shifts_between(scratch, [pair for pair in pairs if sizes.keys() >= set(pair)], sizes)


def _make(
    handle: Handle, scratch: Scratch, versions: Mapping[int, Version], wanted: Iterable[tuple[int, str, str]]
) -> dict[str, int]:
    """Has blobs of rounds in the scratch folder, as far as they can be made; their sizes in bytes, by id.

    Args:
        handle: The repository.
        scratch: The folder.
        versions: The rounds.
        wanted: Round, path and id of each blob.
    """
    asked = list(wanted)
    oids = {oid for *_, oid in asked}
    missing = oids - blob_sizes(scratch, oids).keys()
    for number, one in versions.items() if missing else ():
        lacking = {path: oid for where, path, oid in asked if where == number and oid in missing}
        # What cannot be made stays unknown, and does not hide the places of the rest.
        with suppress(TandemError):
            if lacking and one.text is not None:
                scratch.write_blob(one.text.encode())
            elif lacking:
                make_blobs(handle, scratch, one.patch, lacking)
    return blob_sizes(scratch, oids)


def shifts_between(scratch: Scratch, pairs: Sequence[_Pair], sizes: Mapping[str, int]) -> dict[_Pair, Shifts | None]:
    """What lies between two blobs, for each pair of ids; None where one is binary, or too large to compare.

    Args:
        scratch: Where all of them can be read.
        pairs: The ids before and after, which differ.
        sizes: Their sizes in bytes.
    """
    found: dict[_Pair, Shifts | None] = dict.fromkeys(pairs)
    compared = [pair for pair in pairs if max(sizes[oid] for oid in pair) <= LARGEST_FILE_BYTES]
    if compared:
        # One tree has all the blobs before, another all those after, each pair under its number.
        trees = (
            scratch.tree_of({b"%d" % at: Entry(REGULAR, oid) for at, oid in enumerate(side)})
            for side in zip(*compared, strict=True)
        )
        _, *parts = _START.split(scratch.run([*_DIFF, *trees]).stdout)
        for part in parts:
            at = int(part[: part.index(b"\n")])
            found[compared[at]] = [_shift(*hunk.groups()) for hunk in _HUNK.finditer(part)] or None
    return found


def is_rebase(handle: Handle, before: RoundPatch, after: RoundPatch) -> bool:
    """Whether two rounds make the same change of two bases, as their diffs were drawn.

    The same files with the same modes, and each either with the same bytes before and after, or with the same hunks:
    line by line, in the same part of the file, with the lines around them, which one base has where the other one has
    them. In doubt it is none: a rename is a deleted and an added file, and other bytes of a binary file are a change.
    """
    moved = _with_other_bases(before.changes, after.changes)
    if not moved:
        return moved is not None
    old, new = ({one.path: one for one in parse(patch.diff or "")} for patch in (before, after))
    with handle.scratch() as scratch:
        sizes = blob_sizes(scratch, {oid for pair in moved.values() for oid in pair})
        if any(oid not in sizes for pair in moved.values() for oid in pair):
            return False
        shifts = shifts_between(scratch, [*moved.values()], sizes)
    return all(
        path in old and path in new and _has_moved(old[path], new[path], shifts[pair]) for path, pair in moved.items()
    )


def _with_other_bases(before: Iterable[Change], after: Iterable[Change]) -> dict[str, _Pair] | None:
    """The blobs at both bases of the files where these differ; None if it is another change for sure."""
    old, new = ({one.path: one for one in changes} for changes in (before, after))
    if old.keys() != new.keys():
        return None
    differ = [(one, new[path]) for path, one in old.items() if one != new[path]]
    for one, other in differ:
        modes = (one.mode_before, one.mode_after)
        if modes != (other.mode_before, other.mode_after) or not set(modes) <= {REGULAR, EXECUTABLE}:
            return None
        if one.blob_before == other.blob_before:
            return None
    return {one.path: (one.blob_before, other.blob_before) for one, other in differ}


def _has_moved(old: FileDiff, new: FileDiff, shifts: Shifts | None) -> bool:
    """Whether the hunks of a file are the same, each of lines that stayed as they were and are where they went."""
    if shifts is None or not old.hunks or any(one.binary or one.latin_1 or one.stray for one in (old, new)):
        return False

    def arrives(one: Hunk, other: Hunk) -> bool:
        if not one.old_count or (one.heading, one.body) != (other.heading, other.body):
            return False
        first, last, changed = carried(shifts, one.old_first, one.old_first + one.old_count - 1)
        return not changed and (first, last) == (other.old_first, other.old_first + other.old_count - 1)

    return len(old.hunks) == len(new.hunks) and all(map(arrives, old.hunks, new.hunks))


def _shift(old: bytes, old_count: bytes | None, new: bytes, new_count: bytes | None) -> Shift:
    # Git names no lines by the one before them.
    before, after = int(old_count or b"1"), int(new_count or b"1")
    return Shift(int(old) + (not before), before, int(new) + (not after), after)


def carried(shifts: Shifts, line: int, end_line: int | None) -> tuple[int, int | None, bool]:
    """Where lines stand after shifts, and whether any of them changed; a changed one is the nearest of its hunk."""
    end = line if end_line is None else end_line
    at = bisect_right(shifts, end, key=attrgetter("old_first"))
    changed = at > 0 and shifts[at - 1].old_first + shifts[at - 1].old_count > line
    first, last = _moved(shifts, line, is_end=False), _moved(shifts, end, is_end=True)
    if first > last:
        # All of them are deleted.
        first = last = max(last, 1)
    return first, None if end_line is None else last, changed


def _moved(shifts: Shifts, line: int, *, is_end: bool) -> int:
    at = bisect_right(shifts, line, key=attrgetter("old_first"))
    if at == 0:
        return line
    old, old_count, new, new_count = shifts[at - 1]
    if line >= old + old_count:
        return line - old - old_count + new + new_count
    return new + min(line - old, new_count - 1) if new_count else new - is_end
