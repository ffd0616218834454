"""The documentation as its tests see it: pages, headings, links, blocks of code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.architecture.source import ROOT

_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[(?:[^\]\[]|\[[^\]]*\])*\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (?P<title>.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block of code."""

    page: Page
    language: str
    text: str


@dataclass(frozen=True)
class Page:
    """One Markdown file."""

    path: Path

    @property
    def where(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def text(self) -> str:
        return self.path.read_text("utf-8")

    @property
    def prose(self) -> str:
        """The text without blocks of code."""
        return _FENCE.sub("", self.text)

    @property
    def blocks(self) -> list[Block]:
        return [Block(self, match["language"], match["text"]) for match in _FENCE.finditer(self.text)]

    @property
    def sections(self) -> list[str]:
        """The text from one heading to the next; blocks of code are empty lines."""
        hidden = _FENCE.sub(lambda block: "\n" * block[0].count("\n"), self.text)
        starts = [*(match.start() for match in _HEADING.finditer(hidden)), len(hidden)]
        return [hidden[start:end] for start, end in pairwise(starts)]

    @property
    def links(self) -> list[str]:
        return [match["target"] for match in _LINK.finditer(self.prose)]

    @property
    def anchors(self) -> set[str]:
        """The anchors that GitHub makes of the headings."""
        titles = [match["title"].lower() for match in _HEADING.finditer(self.prose)]
        return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


def pages() -> Iterator[Page]:
    """Every page of ours."""
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        yield Page(path)
