"""Guides as the stories play them: the lines that a guide has one type, in order, and the output that it shows.

= docs/guide/checks.md          the lines below that begin with `%` are those of this page, all of them, in order
% tandem review show {review}   the next line of the page, played; `{review}` stands for what the page has there
- why not                       below such a line: it is not played, and why
~ why not                       below such a line: it is played, but the output on the page is not compared
<% ~/x.toml                     writes the file, as the next block of the page has it that is no line to type
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.architecture.pages import Page
from tests.architecture.source import ROOT
from tests.sentences.named import lines_of
from tests.sentences.playing import Step

_DIFFERS = re.compile(
    r"\b(?:rv|vd|cp|tok|whk|sv|sess|lock|tdm)_\w*(?:\.\.\.|…)?|\b[0-9a-f]{7,64}\b|/home/ann[^\s:,)]*|…|\.\.\."
    r"|\b[\d.]+(?= (?:s|rows|events|subjects|min)\b)|\b\S{43}$|─+| {2,}"
)
"""Parts of an output that are not the same twice: ids, digests, places, times; and the widths of columns."""


@dataclass
class Guide:
    """A page that is being played.

    Attributes:
        page: Where it is.
        lines: Its lines that are left to type, each with its output.
        files: Its other blocks that come after the line that was typed last: number of the line, and text.
    """

    page: str
    lines: list[tuple[int, str, list[str]]] = field(default_factory=list[tuple[int, str, list[str]]])
    files: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])

    def take(self, step: Step) -> list[str]:
        """Take the next line to type, which has to be this one; its output on the page."""
        assert self.lines, f"{step.where}: {self.page} has no such line any more: {step.line}"
        number, line, printed = self.lines.pop(0)
        played = re.sub(r"\\\{\w+\\\}", ".*", re.escape(step.line.removesuffix(" &")))
        assert re.fullmatch(played, line), f"{step.where}: {self.page}:{number} has: {line}"
        self.files = [one for one in self.files if one[0] > number]
        return printed


def guide(page: str) -> Guide:
    """A page to be played."""
    found = Page(ROOT / page)
    shown = {line for block in found.blocks if block.language == "console" for line in block.text.splitlines()}
    read = Guide(page)
    for number, is_typed, text in lines_of(found.text):
        line = " ".join(re.sub(r"\s#\s.*", "", text).split()) if is_typed else text
        if is_typed and line and not line.startswith("#"):
            read.lines.append((number, line, []))
        elif read.lines and text in shown and text.strip("."):
            read.lines[-1][2].append(_DIFFERS.sub("*", text.strip()))
    at = 0
    for block in found.blocks:
        at = found.text.index(block.text, at)
        if block.language not in {"console", "text", ""}:
            read.files.append((found.text.count("\n", 0, at) + 1, block.text))
    return read


def guided(steps: Iterable[Step | tuple[str, str]]) -> Iterator[Step | tuple[str, str]]:
    """The steps of a story, with what its guides say; those that are not played are left out.

    Raises:
        AssertionError: The story does not have the lines of a guide, all of them and in order.
    """
    now: Guide | None = None
    for step in steps:
        if isinstance(step, tuple):
            name, text = step
            if name.startswith("% "):
                assert now is not None, name
                name, text = name[2:], now.files.pop(0)[1]
            yield name, text
        elif step.page:
            _finish(now)
            now = guide(step.page)
        elif not step.of_guide:
            yield step
        else:
            assert now is not None, step.where
            printed = now.take(step)
            step.printed += [] if step.differs else printed
            if not step.unplayed:
                yield step
    _finish(now)


def _finish(played: Guide | None) -> None:
    left = [f"{played.page}:{number}: {line}" for number, line, _ in played.lines] if played else []
    assert left == [], "no story plays this"


def played_pages(stories: Path) -> list[str]:
    """The pages that stories play."""
    lines = [line for path in stories.glob("*.txt") for line in path.read_text("utf-8").splitlines()]
    return sorted(line[2:] for line in lines if line.startswith("= "))
