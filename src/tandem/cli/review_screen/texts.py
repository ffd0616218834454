"""Texts by others as they are shown: Markdown in which nothing is hidden, opened or fetched, and a discussion."""

from __future__ import annotations

from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Markdown, Static

from tandem.cli.render.parts import ago
from tandem.cli.review_screen import facts
from tandem.cli.terminal import visible
from tandem.domain.answers import DiscussionEntry
from tandem.hooks.visible import visible_line

_LONGEST = 20_000
"""Characters of one entry that are shown; the rest is for `tandem review discussion`."""


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


class Entry(Static, can_focus=True):
    """One thing that was said."""

    def __init__(self, entry: DiscussionEntry) -> None:
        super().__init__(_text(entry), classes="entry", markup=False)
        self.entry = entry


class DiscussionView(VerticalScroll):
    """All of it, oldest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,n", "step(1)", "Next entry", show=False),
        Binding("k", "step(-1)", "Previous entry", show=False),
    ]

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(id=id)
        self._shown: tuple[DiscussionEntry, ...] | None = None

    @property
    def chosen(self) -> DiscussionEntry | None:
        """The entry that has the focus."""
        focused = self.screen.focused
        return focused.entry if isinstance(focused, Entry) else None

    async def show_entries(self, entries: tuple[DiscussionEntry, ...], *, is_whole: bool) -> None:
        """Show what was said; the focus stays on the entry that it is on."""
        if entries == self._shown:
            return
        self._shown = entries
        chosen = self.chosen
        shown: list[Widget] = [Entry(entry) for entry in entries]
        if not entries:
            shown.append(Static("Nothing has been said yet.", markup=False))
        if not is_whole:
            shown.append(Static("There is more: see 'tandem review discussion'.", markup=False))
        await self.remove_children()
        await self.mount_all(shown)
        for one in self.query(Entry):
            if chosen is not None and one.entry.id == chosen.id:
                one.focus()

    def action_step(self, by: int) -> None:
        """Put the focus on the next, or previous, entry."""
        entries = list(self.query(Entry))
        focused = self.screen.focused
        at = entries.index(focused) + by if isinstance(focused, Entry) and focused in entries else 0
        if entries:
            entries[max(0, min(at, len(entries) - 1))].focus()


def _text(entry: DiscussionEntry) -> Text:
    text = Text()
    text.append(visible(entry.author), style="bold")
    text.append(f"  {visible(_what(entry))}")
    text.append(f"  round {entry.round}, {ago(entry.at)}", style="dim")
    if entry.resolved_by:
        text.append("  settled", style="green")
    body = entry.body or ""
    text.append("\n" + visible(body[:_LONGEST]))
    if len(body) > _LONGEST:
        text.append(f" … {len(body) - _LONGEST} more characters", style="dim")
    return text


def _what(entry: DiscussionEntry) -> str:
    match entry.kind:
        case "verdict":
            return facts.GIVEN.get(entry.verdict or "", entry.verdict or "")
        case "comment":
            place = "" if entry.line is None else f", line {entry.line}"
            return f"on {visible_line(entry.file or '')}{place}"
        case "counter_patch":
            return f"counter-patch ({entry.status})"
        case _:
            return f"as {entry.sender_role}"
