"""What was said about a review, an entry at a time; each can be answered."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from tandem.cli.render.parts import ago
from tandem.cli.review_screen import words
from tandem.cli.terminal import visible
from tandem.domain.answers import DiscussionEntry
from tandem.hooks.visible import visible_line

_LONGEST = 20_000
"""Characters of one entry that are shown; the rest is for `tandem review discussion`."""


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
            return words.GIVEN.get(entry.verdict or "", entry.verdict or "")
        case "comment":
            place = "" if entry.line is None else f", line {entry.line}"
            return f"on {visible_line(entry.file or '')}{place}"
        case "counter_patch":
            return f"counter-patch ({entry.status})"
        case _:
            return f"as {entry.sender_role}"
