"""One review: its change, its texts, its discussion, and everything that a person may do to it."""

from __future__ import annotations

import asyncio
import textwrap
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Footer, OptionList, Static, TabbedContent, TabPane
from textual.widgets.option_list import Option

from tandem.cli.review_screen import facts, rows
from tandem.cli.review_screen.desk import Desk, Reading, Spot, read
from tandem.cli.review_screen.dialogs import host
from tandem.cli.review_screen.diff_view import DiffView
from tandem.cli.review_screen.review_actions import ReviewActions
from tandem.cli.review_screen.rows import Row
from tandem.cli.review_screen.texts import DiscussionView, Document
from tandem.domain.answers import DiscussionEntry
from tandem.faces.web.diffs.markdown import is_too_much

_FIRST_FOCUS = {"change": "#diff", "texts": "#document", "discussion": "#talk", "counter": "#counter-diff"}
_LARGEST_DOCUMENT = 100_000
"""Characters of a text that is shown as it was written."""


class ReviewScreen(ReviewActions):
    """A review that was opened from the list."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *ReviewActions.BINDINGS,
        Binding("1", "tab('change')", "The change", show=False),
        Binding("2", "tab('texts')", "Its texts", show=False),
        Binding("3", "tab('discussion')", "The discussion", show=False),
        Binding("4", "tab('counter')", "The counter-patch", show=False),
        Binding("left_square_bracket", "round(-1)", "Earlier round", show=False),
        Binding("right_square_bracket", "round(1)", "Later round", show=False),
        Binding("i", "interdiff", "Only what changed since an earlier round, or all", show=False),
        Binding("question_mark", "keys", "Keys"),
        Binding("escape,q", "back", "Back"),
    ]

    def __init__(self, desk: Desk, review_id: str) -> None:
        super().__init__(desk, review_id)
        self._shown: int | None = None
        self._since: int | None = None
        self._rows: list[Row] = []
        self._source: object = None
        self._texts: str | None = None
        self._drawn: object = None

    def compose(self) -> ComposeResult:
        """What it is, above; the rest in tabs."""
        yield Static("", id="trouble", markup=False)
        yield Static("", id="headline", markup=False)
        yield Static("", id="facts", markup=False)
        with TabbedContent(id="tabs"):
            with TabPane("Change", id="change"), Horizontal():
                yield OptionList(id="files", markup=False)
                yield DiffView(id="diff")
            with TabPane("Texts", id="texts"), VerticalScroll(id="document"):
                yield Document(id="markdown")
            with TabPane("Discussion", id="discussion"):
                yield DiscussionView(id="talk")
            with TabPane("Counter-patch", id="counter"):
                yield DiffView(id="counter-diff")
        yield Footer()

    def on_mount(self) -> None:
        """Begin with the change."""
        self.show_trouble("")
        self.query_one("#tabs", TabbedContent).hide_tab("counter")
        self.query_one("#diff").focus()

    @property
    def spot(self) -> Spot | None:
        """The line under the cursor, while the change is looked at."""
        row = self._diff.row
        return row.spot if row is not None and row.path and self._tab == "change" else None

    @property
    def chosen_entry(self) -> DiscussionEntry | None:
        """The entry of the discussion that has the focus."""
        return self.query_one("#talk", DiscussionView).chosen

    @property
    def _diff(self) -> DiffView:
        return self.query_one("#diff", DiffView)

    @property
    def _tab(self) -> str:
        return self.query_one("#tabs", TabbedContent).active

    def is_about_this(self, subjects: frozenset[str]) -> bool:
        """Whether this review is among them."""
        return self.review_id in subjects

    async def read_again(self) -> None:
        """Ask the broker for the review, in the round that is looked at."""
        wanted = (self._shown, self._since)
        found = await read(self.desk.client, self.review_id, *wanted)
        source = (found.proposal.round, self._since)
        content = self._rows
        if source != self._source:
            content = await asyncio.to_thread(_content, found, self._since)
            self.unusual = await asyncio.to_thread(facts.unusual, found.proposal)
        if (self._shown, self._since) != wanted:
            # Another round was asked for meanwhile, and is read next.
            return
        is_first, self.reading = self.reading is None, found
        self._shown, self._rows = found.proposal.round, content
        if source != self._source:
            self._show_files(found)
        self._show_rows(keep_place=source == self._source)
        self._source = source
        self.show_again()
        await self.query_one("#talk", DiscussionView).show_entries(found.entries, is_whole=found.is_whole)
        await self._show_texts(found)
        self._show_counter_patch(found)
        if is_first and found.proposal.path is not None:
            self.action_tab("texts")

    def show_again(self) -> None:
        """Say anew where it stands."""
        if self.reading is not None:
            self.query_one("#headline", Static).update(facts.headline(self.reading))
            self.query_one("#facts", Static).update(facts.lines(self.reading, self.desk.person, self._since))

    def refresh_soon(self) -> None:
        """Have it read again; what was kept of one's own is shown at once."""
        if self.reading is not None and self.is_mounted:
            self._show_rows(keep_place=True)
        super().refresh_soon()

    def _show_rows(self, *, keep_place: bool) -> None:
        found = self.reading
        if found is not None:
            number = found.proposal.round
            said = [entry for entry in found.entries if entry.round == number and entry.kind == "comment"]
            drafts = dict(self.desk.drafts.remarks(self.review_id, number))
            if (self._rows, said, drafts) != self._drawn:
                self._drawn = (self._rows, said, drafts)
                self._diff.show_rows(rows.with_remarks(self._rows, said, drafts), keep_place=keep_place)

    def _show_files(self, found: Reading) -> None:
        heads = {row.path: row.text for row in self._rows if row.kind == "file"}
        files = self.query_one("#files", OptionList)
        files.set_options([Option(text, id=f"f{at}") for at, text in enumerate(heads.values())])
        files.set_class(len(heads) < 2 or found.proposal.path is not None, "-needless")  # noqa: PLR2004 - a list has two

    async def _show_texts(self, found: Reading) -> None:
        text = facts.texts(found)
        if text == self._texts:
            return
        self._texts = text
        if is_too_much(text):
            cut = len(text) - _LARGEST_DOCUMENT
            rest = f"\n\n*… {cut:,} more characters: tandem review proposal has them.*" if cut > 0 else ""
            as_written = textwrap.indent(text[:_LARGEST_DOCUMENT], "    ", lambda _: True)
            text = f"*The text is shown as it was written.*\n\n{as_written}{rest}"
        await self.query_one(Document).update(text)

    def _show_counter_patch(self, found: Reading) -> None:
        patch, tabs = found.proposal.counter_patch, self.query_one("#tabs", TabbedContent)
        if patch is None:
            if self._tab == "counter":
                self.action_tab("change")
            tabs.hide_tab("counter")
            return
        path = found.proposal.path or ""
        shown = rows.of_diff(patch.diff) if patch.diff is not None else rows.of_text(path, patch.description or "")
        self.query_one("#counter-diff", DiffView).show_rows(shown, keep_place=True)
        tabs.show_tab("counter")

    @on(OptionList.OptionHighlighted, "#files")
    def go_to_file(self, event: OptionList.OptionHighlighted) -> None:
        """Show the file that is chosen."""
        paths = list(dict.fromkeys(row.path for row in self._rows if row.kind == "file"))
        if event.option_list.has_focus:
            self._diff.jump_to_file(paths[event.option_index])

    @on(DiffView.Moved)
    def choose_file(self, event: DiffView.Moved) -> None:
        """Mark the file that the cursor is in."""
        paths = list(dict.fromkeys(row.path for row in self._rows if row.kind == "file"))
        files = self.query_one("#files", OptionList)
        if event.path in paths and not files.has_focus and files.option_count == len(paths):
            files.highlighted = paths.index(event.path)

    def action_tab(self, name: str) -> None:
        """Show one of the tabs."""
        tabs = self.query_one("#tabs", TabbedContent)
        if name == "counter" and (self.reading is None or self.reading.proposal.counter_patch is None):
            self.notify("There is no counter-patch to decide.", markup=False)
            return
        tabs.active = name
        self.query_one(_FIRST_FOCUS[name]).focus()

    def action_round(self, by: int) -> None:
        """Show an earlier, or a later, round."""
        found = self.reading
        if found is None:
            return
        wanted = found.proposal.round + by
        if not 1 <= wanted <= found.status.round:
            self.notify("There is no such round.", markup=False)
            return
        self._shown, self._since = wanted, None
        self.refresh_soon()

    def action_interdiff(self) -> None:
        """Compare with the round before, then with the ones before that, then with none."""
        found = self.reading
        if found is None:
            return
        if found.proposal.round == 1:
            self.notify("This is the first round: there is nothing to compare it with.", markup=False)
            return
        since = found.proposal.round if self._since is None else self._since
        self._since = since - 1 if since > 1 else None
        self.refresh_soon()

    def action_back(self) -> None:
        """Go back to the list."""
        host(self).pop_screen()


def _content(found: Reading, since: int | None) -> list[Row]:
    proposal = found.proposal
    if since is not None:
        return rows.of_diff(proposal.interdiff or "") or rows.nothing(f"Nothing changed since round {since}.")
    if proposal.diff is not None:
        return rows.of_diff(proposal.diff)
    if proposal.path is not None:
        return rows.of_text(proposal.path, proposal.description or "")
    return rows.nothing("There is no change in this review: see its texts (2).")
