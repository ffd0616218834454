"""What a diff leaves out between its hunks, and putting it back in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tandem.git.hunks import FileDiff, Hunk


@dataclass(frozen=True, slots=True)
class Gap:
    """Unchanged lines that a diff does not show.

    Attributes:
        old_first: First of them before the change, from 1.
        new_first: First of them after the change.
        count: How many; None after the last hunk, where only the file itself can tell.
    """

    old_first: int
    new_first: int
    count: int | None

    @property
    def old_last(self) -> int | None:
        """Last of them before the change."""
        return None if self.count is None else self.old_first + self.count - 1

    @property
    def new_last(self) -> int | None:
        """Last of them after the change."""
        return None if self.count is None else self.new_first + self.count - 1


def gaps(file: FileDiff) -> tuple[Gap | None, ...]:
    """The gap before each hunk and the one after the last; None where nothing is left out, or nobody can tell."""
    if not file.hunks:
        return (None,)
    found: list[Gap | None] = []
    old, new = 1, 1
    for hunk in file.hunks:
        count = hunk.new_first - new
        found.append(Gap(old, new, count) if count > 0 and hunk.old_first - old == count else None)
        old, new = hunk.old_first + hunk.old_count, hunk.new_first + hunk.new_count
    found.append(None if _ends_with_file(file) else Gap(old, new, None))
    return tuple(found)


def _ends_with_file(file: FileDiff) -> bool:
    """Whether the last hunk reaches the file's end, as far as the diff itself shows it."""
    if file.old_path is None or file.new_path is None:
        return True
    last = file.hunks[-1]
    if any(line.startswith("\\") for line in last.body[-3:]):
        return True
    usual = max((_unchanged(hunk.body) for hunk in file.hunks if hunk.new_first > 1), default=None)
    return usual is not None and _unchanged(last.body[::-1]) < usual


def _unchanged(body: Sequence[str]) -> int:
    return next((at for at, line in enumerate(body) if line[:1] in {"+", "-"}), len(body))


def widened(file: FileDiff, new_first: int, texts: Sequence[str]) -> FileDiff:
    """The diff with unchanged lines put where it left them out; lines that it shows already are passed over.

    Args:
        file: What was parsed.
        new_first: Number of the first line, after the change.
        texts: The lines as they are after the change.
    """
    hunks: list[Hunk] = []
    for at, gap in enumerate(gaps(file)):
        filling = _filling(gap, new_first, texts) if gap else None
        if filling:
            hunks.append(filling)
        if at < len(file.hunks):
            hunks.append(file.hunks[at])
    return replace(file, hunks=tuple(_merged(hunks)))


def _filling(gap: Gap, new_first: int, texts: Sequence[str]) -> Hunk | None:
    first = max(gap.new_first, new_first)
    end = new_first + len(texts)
    if gap.new_last is not None:
        end = min(end, gap.new_last + 1)
    if first >= end:
        return None
    body = tuple(f" {text}" for text in texts[first - new_first : end - new_first])
    return Hunk(first - gap.new_first + gap.old_first, len(body), first, len(body), "", body, 0, 0)


def _merged(hunks: list[Hunk]) -> list[Hunk]:
    """Neighbours that touch become one."""
    merged: list[Hunk] = []
    run: list[Hunk] = []
    for hunk in hunks:
        if run and run[-1].new_first + run[-1].new_count != hunk.new_first:
            merged.append(_joined(run))
            run = []
        run.append(hunk)
    return [*merged, _joined(run)] if run else merged


def _joined(run: list[Hunk]) -> Hunk:
    if len(run) == 1:
        return run[0]
    return Hunk(
        run[0].old_first,
        sum(hunk.old_count for hunk in run),
        run[0].new_first,
        sum(hunk.new_count for hunk in run),
        run[0].heading,
        tuple(line for hunk in run for line in hunk.body),
        sum(hunk.added for hunk in run),
        sum(hunk.deleted for hunk in run),
    )
