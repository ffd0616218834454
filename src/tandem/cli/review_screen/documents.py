"""Markdown by others as it is shown: nothing in it is hidden, opened or fetched."""

from __future__ import annotations

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from textual.widgets import Markdown

from tandem.cli.terminal import visible


class Document(Markdown):
    """A rendered text. HTML and comments in it are shown as they were written; a link names where it leads."""

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(id=id, parser_factory=_parser, open_links=False)


def _parser() -> MarkdownIt:
    parser = MarkdownIt("gfm-like", {"html": False})
    parser.core.ruler.push("name_targets", _name_targets)
    return parser


def _name_targets(state: StateCore) -> None:
    for token in state.tokens:
        if token.children:
            token.children = _with_targets(token.children)
        # Entities are characters by now.
        for child in token.children or ():
            child.content = visible(child.content)


def _with_targets(tokens: list[Token]) -> list[Token]:
    found: list[Token] = []
    target, begun = "", 0
    for token in tokens:
        found.append(token)
        if token.type == "link_open":
            target, begun = str(token.attrGet("href") or ""), len(found)
        elif token.type == "link_close":
            said = "".join(one.content for one in found[begun:])
            if target not in {said, f"mailto:{said}", f"http://{said}"}:
                found.append(Token("text", "", 0, content=f" ({target})"))
        elif token.type == "image":
            found.append(Token("text", "", 0, content=f" ({token.attrGet('src')})"))
    return found
