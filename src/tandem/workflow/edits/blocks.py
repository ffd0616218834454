"""A marked block of lines in a text file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tandem.workflow.edits.edit import Note, Planned, Reversible, Undone, unusable
from tandem.workflow.edits.texts import BOM, before_place, cut, newline_of, read, with_newlines, write


class _Span(NamedTuple):
    """A block in a text: where its first line begins, and where the line behind its last one does."""

    start: int
    end: int


@dataclass(frozen=True)
class MarkedBlock(Reversible):
    """`text` between two lines that name it, at the end of the file or beside a line.

    A block of the name that is there already is brought up to date where it stands.

    Attributes:
        path: The file.
        name: Of the block; letters, digits, `:` and `-`.
        text: The lines between the marks.
        comment: What stands before and behind the words of a mark.
        before: The block goes before the first line that begins so, indented or not.
        after: The block goes behind the first line that begins so.
        apart: Whether a blank line sets it apart from what is around it.
    """

    path: Path
    name: str
    text: str
    comment: tuple[str, str] = ("<!-- ", " -->")
    before: str | None = None
    after: str | None = None
    apart: bool = True

    def plan(self, before: bytes | None) -> Planned:
        """As in `Edit`.

        Raises:
            ConfigInvalid: The end of a block is missing, or the line that the block goes beside.
        """
        text = read(self.path, before, lenient=True)
        newline = newline_of(text)
        block = with_newlines(self._block(), newline)
        span = self._span(text)
        if span is not None:
            was = text[span.start : span.end]
            if was.rstrip("\r\n") == block.rstrip("\r\n"):
                return Planned(before or b"", None)
            return Planned(write(text[: span.start] + block + text[span.end :]), {"was": was})
        place = self._place(text)
        lead = before_place(text, place, newline)
        if not self.apart and text[:place].endswith("\n"):
            lead = ""
        rest = text[place:]
        tail = newline if self.apart and rest and not rest.startswith(("\n", "\r\n")) else ""
        note: Note = {"made": before is None, "lead": lead, "tail": tail}
        return Planned(write(text[:place] + lead + block + tail + rest), note)

    def undo(self, current: bytes | None, note: Note) -> Undone:
        """As in `Edit`."""
        if current is None:
            return Undone(None)
        text = read(self.path, current, lenient=True)
        span = self._span(text)
        if span is None:
            return Undone(current)
        if "was" in note:
            text = text[: span.start] + note["was"] + text[span.end :]
        else:
            text = cut(text, *span, note.get("lead", ""), note.get("tail", ""))
        gone = (note.get("made") or not note) and not text.strip(f"{BOM} \t\r\n")
        return Undone(None if gone else write(text))

    def described(self) -> dict[str, Any]:
        """As in `Edit`."""
        place = {"before": self.before, "after": self.after, "apart": self.apart}
        return {"kind": "marked_block", "name": self.name, "text": self.text, "comment": list(self.comment), **place}

    def _mark(self, word: str) -> str:
        return f"{self.comment[0]}tandem:{self.name} {word}{self.comment[1]}".rstrip()

    def _block(self) -> str:
        return "\n".join([self._mark("begin"), self.text.strip("\n"), self._mark("end")])

    def _span(self, text: str) -> _Span | None:
        """Where the block is.

        Raises:
            ConfigInvalid: It begins and does not end.
        """
        begin: int | None = None
        for start, line in _lines(text):
            if line.strip().removeprefix(BOM) == self._mark("begin"):
                begin = start
            elif begin is not None and line.strip() == self._mark("end"):
                return _Span(begin, start + len(line))
        if begin is not None:
            number = text.count("\n", 0, begin) + 1
            raise unusable(self.path, f"the line {self._mark('end')!r} is missing below this one", line=number)
        return None

    def _place(self, text: str) -> int:
        """Where a new block goes.

        Raises:
            ConfigInvalid: The line that it goes beside is not there.
        """
        anchor = self.before if self.before is not None else self.after
        if anchor is None:
            return len(text)
        for start, line in _lines(text):
            if line.lstrip().startswith(anchor.lstrip()):
                return start if self.before is not None else start + len(line)
        raise unusable(self.path, f"there is no line that begins with {anchor!r}")


def _lines(text: str) -> list[tuple[int, str]]:
    """The lines with their ends, and where each begins."""
    found: list[tuple[int, str]] = []
    start = 1 if text.startswith(BOM) else 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        found.append((start, text[start:end]))
        start = end
    return found
