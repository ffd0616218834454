"""Small changes to an approved commit, each of which a gate has to see."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from tests.replaying.clone import ABSENT, SYMLINK, Change, Clone, Commit, Entry
from tests.replaying.strict import LINE

Edits = dict[bytes, Entry]
"""What to stage over the commit: entries by path."""

_FILES = {"100644": "100755", "100755": "100644"}


def alteration(clone: Clone, commit: Commit, chance: random.Random) -> tuple[str, Edits]:
    """One alteration that differs from the commit and from its parent; its kind and what to stage.

    Kinds take turns. One that the commit has no place for passes its turn on; an extra file can always be added.
    """
    kinds = list(KINDS)
    turn = commit.number % len(kinds)
    for kind in kinds[turn:] + kinds[:turn]:
        changes = chance.sample(commit.changes, len(commit.changes))
        for edits in KINDS[kind](clone, changes, chance):
            return kind, edits
    raise AssertionError("an extra file can always be added")


def _rewritten(
    clone: Clone, changes: list[Change], rewrite: Callable[[bytes, bytes], Iterator[bytes]]
) -> Iterator[Edits]:
    """A touched file with other bytes: neither those that are approved nor those that were there."""
    for change in changes:
        if change.after.mode not in _FILES:
            continue
        before = clone.content(change.before.oid) if change.before.mode in _FILES else b""
        after = clone.content(change.after.oid)
        for made in rewrite(before, after):
            if made not in {before, after}:
                yield {change.path: Entry(change.after.mode, clone.keep(made))}


def _byte(clone: Clone, changes: list[Change], chance: random.Random) -> Iterator[Edits]:
    def rewrite(_before: bytes, after: bytes) -> Iterator[bytes]:
        if after:
            at = chance.randrange(len(after))
            yield after[:at] + bytes([after[at] ^ 1]) + after[at + 1 :]

    return _rewritten(clone, changes, rewrite)


def _line_end(clone: Clone, changes: list[Change], chance: random.Random) -> Iterator[Edits]:
    def rewrite(_before: bytes, after: bytes) -> Iterator[bytes]:
        lines: list[bytes] = LINE.findall(after)
        if not lines:
            return
        at = chance.randrange(len(lines))
        line = lines[at]
        body = line.rstrip(b"\r\n")
        lines[at] = body + (b"\n" if line.endswith(b"\r\n") else b"\r\n")
        yield b"".join(lines)
        yield after.removesuffix(b"\n")

    return _rewritten(clone, changes, rewrite)


def _place(clone: Clone, changes: list[Change], chance: random.Random) -> Iterator[Edits]:
    """The lines that change, changed at another place: where the same lines stand, else a line further down or up."""

    def rewrite(before: bytes, after: bytes) -> Iterator[bytes]:
        old: list[bytes] = LINE.findall(before)
        new: list[bytes] = LINE.findall(after)
        start = next((at for at, (one, two) in enumerate(zip(old, new, strict=False)) if one != two), 0)
        most = min(len(old), len(new)) - start
        end = next((at for at in range(most) if old[-at - 1] != new[-at - 1]), most)
        gone, come = old[start : len(old) - end], new[start : len(new) - end]
        if gone and old.count(gone[0]) > 1:
            places = [at for at in range(len(old)) if at != start and old[at : at + len(gone)] == gone]
            for at in chance.sample(places, len(places))[:3]:
                yield b"".join(old[:at] + come + old[at + len(gone) :])
        rest = old[:start] + old[start + len(gone) :]
        for at in (start + 1, start - 1):
            if 0 <= at <= len(rest):
                yield b"".join(rest[:at] + come + rest[at:])

    return _rewritten(clone, changes, rewrite)


def _mode(clone: Clone, changes: list[Change], _chance: random.Random) -> Iterator[Edits]:
    for change in changes:
        other = Entry(_FILES.get(change.after.mode, ABSENT), change.after.oid)
        if other.mode != ABSENT and other != change.before:
            yield {change.path: other}


def _kind(_clone: Clone, changes: list[Change], _chance: random.Random) -> Iterator[Edits]:
    """A symbolic link that leads where the file's text says, or a file with a link's text."""
    for change in changes:
        if change.after.mode in _FILES or change.after.mode == SYMLINK:
            other = Entry("100644" if change.after.mode == SYMLINK else SYMLINK, change.after.oid)
            if other != change.before:
                yield {change.path: other}


def _name(_clone: Clone, changes: list[Change], _chance: random.Random) -> Iterator[Edits]:
    for change in changes:
        if change.after.mode != ABSENT:
            yield {change.path: change.before, change.path + b".moved": change.after}


def _dropped(_clone: Clone, changes: list[Change], _chance: random.Random) -> Iterator[Edits]:
    for change in changes:
        others = [other.path for other in changes if other is not change]
        below = any(one.startswith(change.path + b"/") or change.path.startswith(one + b"/") for one in others)
        if others and not below:
            yield {change.path: change.before}


def _extra(clone: Clone, _changes: list[Change], chance: random.Random) -> Iterator[Edits]:
    yield {b"extra-file.txt": Entry("100644", clone.keep(f"{chance.random()}\n".encode()))}


KINDS: dict[str, Callable[[Clone, list[Change], random.Random], Iterator[Edits]]] = {
    "a byte": _byte,
    "a mode": _mode,
    "an extra file": _extra,
    "a dropped file": _dropped,
    "another place": _place,
    "a line end": _line_end,
    "another name": _name,
    "another type": _kind,
}
