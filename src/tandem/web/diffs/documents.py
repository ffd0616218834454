"""What changed between two documents in Markdown, shown as the documents read: block by block, word by word."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, NamedTuple

from markdown_it.token import Token
from markupsafe import Markup

from tandem.core.texts import is_too_much_markdown
from tandem.git.word_changes import CommonRun, common_runs, pairs
from tandem.web.diffs.markdown import blocks_html, clean, parsed, rendered
from tandem.web.diffs.syntax import Budget

BlockKind = Literal["same", "changed", "added", "deleted"]

# A tag as the sanitiser writes it, an entity, a word, space, or any other character.
_PIECE = re.compile(r'<(?:[^>"]|"[^"]*")*>|&#?\w{1,31};|\w+|\s+|[^\w\s]')
_TAG = re.compile(r"<(?:[^>\"]|\"[^\"]*\")*>")
_START = re.compile(r' start="\d+"')
_MOST_BLOCK_EDITS = 400
_MOST_WORD_EDITS = 300
_MOST_PIECES = 6_000
_MOSTLY_OTHER = 0.7
_KEPT_AROUND = 1
_FEWEST_FOLDED = 3
_LISTS = {"bullet_list_open", "ordered_list_open"}
_HIGHLIGHT_SECONDS = 0.1
_MARK_SECONDS = 0.3


class Block(NamedTuple):
    """A paragraph, heading, item of a list, table or the like, and what became of it."""

    kind: BlockKind
    html: Markup


class BlockRange(NamedTuple):
    """Blocks that follow each other; a folded one is unchanged and need not be read."""

    folded: bool
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class DocumentDiff:
    """The difference of two documents.

    Attributes:
        stretches: The later document from its start to its end, with deleted blocks where they were.
        added: Blocks added.
        deleted: Blocks deleted.
        changed: Blocks in which words changed.
    """

    stretches: tuple[BlockRange, ...]
    added: int
    deleted: int
    changed: int


def compare(before: str, after: str, *, heading: int = 3) -> DocumentDiff:
    """What changed from one text to another, for the macro of `diff_document.html`.

    Args:
        before: Markdown, as it was.
        after: Markdown, as it is.
        heading: The level that first-level headings get on the page.
    """
    budget, time = Budget(_HIGHLIGHT_SECONDS), Budget(_MARK_SECONDS)
    left, right = _blocks(before, heading, budget), _blocks(after, heading, budget)
    found: list[Block] = []
    at_left = at_right = 0
    same = common_runs([_said(block) for block in left], [_said(block) for block in right], _MOST_BLOCK_EDITS)
    for run in [*same, CommonRun(len(left), len(right), 0)]:
        found += _replaced(left[at_left : run.left], right[at_right : run.right], time)
        found += [Block("same", block) for block in right[run.right : run.right + run.length]]
        at_left, at_right = run.left + run.length, run.right + run.length
    kinds = [block.kind for block in found]
    return DocumentDiff(tuple(_stretches(found)), kinds.count("added"), kinds.count("deleted"), kinds.count("changed"))


def _blocks(text: str, heading: int, budget: Budget) -> list[Markup]:
    if is_too_much_markdown(text):
        return [blocks_html(text, heading)]
    return [rendered(tokens, heading, budget) for tokens in _parts(parsed(text))]


def _parts(tokens: list[Token]) -> Iterator[list[Token]]:
    """The tokens of each block; each item of a list is a list of its own, so that it can change by itself."""
    part: list[Token] = []
    for token in tokens:
        part.append(token)
        if token.level == 0 and token.nesting <= 0:
            yield from _items(part) if part[0].type in _LISTS else [part]
            part = []


def _items(part: list[Token]) -> Iterator[list[Token]]:
    opening, *inside, closing = part
    item: list[Token] = []
    for token in inside:
        item.append(token)
        if token.type == "list_item_close" and token.level == 1:
            wrapper = opening.copy()
            number = item[0].info
            if opening.type == "ordered_list_open" and number:
                wrapper.attrs = {"start": number}
            yield [wrapper, *item, closing]
            item = []


def _replaced(left: list[Markup], right: list[Markup], time: Budget) -> Iterator[Block]:
    """Blocks that took the place of others: those that are alike become one with its words marked, while time lasts."""
    if not left or not right:
        yield from (Block("deleted", block) for block in left)
        yield from (Block("added", block) for block in right)
        return
    gone: list[Block] = []
    new: list[Block] = []
    for one, other in pairs([_text(block) for block in left], [_text(block) for block in right]):
        is_pair = one is not None and other is not None and time.left()
        marked = _marked(left[one or 0], right[other or 0]) if is_pair else None
        if marked is not None:
            yield from (*gone, *new, Block("changed", marked))
            gone, new = [], []
            continue
        if one is not None:
            gone.append(Block("deleted", left[one]))
        if other is not None:
            new.append(Block("added", right[other]))
    yield from (*gone, *new)


def _said(block: Markup) -> str:
    """A block without its number, which changes with every item before it."""
    return _START.sub("", block, count=1)


def _text(block: Markup) -> str:
    return html.unescape(_TAG.sub(" ", block))


class _Pieces:
    """A block's HTML in pieces, and which of them are words; space between two tags is none."""

    def __init__(self, block: Markup) -> None:
        self.all: list[str] = _PIECE.findall(block)
        self.places = [at for at in range(len(self.all)) if not self._is_structure(at)]
        self.words = [self.all[at] for at in self.places]
        self.size = sum(len(word) for word in self.words if not word.isspace())

    def _is_structure(self, at: int) -> bool:
        piece = self.all[at]
        if piece.startswith("<") and len(piece) > 1:
            return True
        return piece.isspace() and all(self._is_edge(beside) for beside in (at - 1, at + 1))

    def _is_edge(self, at: int) -> bool:
        return not 0 <= at < len(self.all) or self.all[at].startswith("<")


def _marked(left: Markup, right: Markup) -> Markup | None:
    """The later block with its new words in `ins` and those that are gone in `del`; None when little is alike."""
    before, after = _Pieces(left), _Pieces(right)
    if (
        _said(left).partition(">")[0] != _said(right).partition(">")[0]
        or max(len(before.all), len(after.all)) > _MOST_PIECES
    ):
        return None
    runs = common_runs(before.words, after.words, _MOST_WORD_EDITS)
    kept = sum(len(word.strip()) for run in runs for word in after.words[run.right : run.right + run.length])
    if kept < (1 - _MOSTLY_OTHER) * max(before.size, after.size):
        return None
    new: set[int] = set()
    gone: dict[int, str] = {}
    at_left = at_right = 0
    for run in [*runs, CommonRun(len(before.words), len(after.words), 0)]:
        words = "".join(before.words[at_left : run.left])
        if words:
            # After the word before it, so that it stays in the element that it was in.
            gone[after.places[at_right - 1] if at_right else -1] = words
        new.update(after.places[at_right : run.right])
        at_left, at_right = run.left + run.length, run.right + run.length
    return clean("".join(_with_marks(after, new, gone)))


def _with_marks(after: _Pieces, new: set[int], gone: dict[int, str]) -> Iterator[str]:
    first = after.places[0] if after.places else -1
    for at, piece in enumerate(after.all):
        if at == first and -1 in gone:
            yield f"<del>{gone[-1]}</del>"
        if at not in new:
            yield piece
        else:
            yield f"{'' if at - 1 in new else '<ins>'}{piece}{'' if at + 1 in new and at not in gone else '</ins>'}"
        if at in gone:
            yield f"<del>{gone[at]}</del>"
            if at in new and at + 1 in new:
                yield "<ins>"


def _stretches(blocks: list[Block]) -> Iterator[BlockRange]:
    """Long unchanged parts are folded, but for a block beside each change."""
    at = 0
    for is_same, group in groupby(blocks, key=lambda block: block.kind == "same"):
        run = tuple(group)
        start = _KEPT_AROUND if at else 0
        at += len(run)
        end = len(run) - (_KEPT_AROUND if at < len(blocks) else 0)
        if not is_same or end - start < _FEWEST_FOLDED or len(run) == len(blocks):
            start = end = len(run)
        for folded, part in ((False, run[:start]), (True, run[start:end]), (False, run[end:])):
            if part:
                yield BlockRange(folded, part)
