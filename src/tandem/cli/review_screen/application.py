"""The application of `tandem review`: from the name to the list, and one wait on the broker for all of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, OptionList, Static
from textual.widgets.option_list import Option

from tandem.cli.connection_options import ConnectionOptions, find_project
from tandem.cli.review_screen import texts
from tandem.cli.review_screen.desk import ScreenClient, WaitResult
from tandem.cli.review_screen.review import ReviewScreen
from tandem.cli.review_screen.screens import Confirm, LiveScreen, NameDialog, host
from tandem.cli.terminal import Exit
from tandem.core.visible import visible, visible_line
from tandem.inbox.contract import Inbox, InboxItem
from tandem.present import inbox
from tandem.present.facts import work

_RENEWAL_SECONDS = 30.0
"""How often a claim is renewed while the person does something."""
_WIDE_COLUMNS = 110
"""From here on there is room for the list of files beside the change."""


_LIMIT = 100
_CAUSE = "cause"
_NOTHING = "Nothing is open. New reviews appear here by themselves."


class ReviewApp(App[None]):
    """The screen that `tandem review` opens."""

    TITLE = "tandem review"
    CSS_PATH = "screen.tcss"
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, desk: ScreenClient) -> None:
        super().__init__()
        self.HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (_WIDE_COLUMNS, "-wide")]
        self.desk = desk
        self._acted_at = 0.0

    async def on_mount(self) -> None:
        """Ask for the name if it is not known, and begin."""
        if self.desk.person:
            await self._begin(self.desk.person)
        else:
            self.push_screen(NameDialog(), self._begin)

    async def _begin(self, name: str | None) -> None:
        if name is None:
            self.exit()
            return
        await self.desk.introduce(name)
        self.push_screen(InboxScreen(self.desk))
        self.run_worker(self.desk.follow(self.hear), group="live")
        self.set_interval(_RENEWAL_SECONDS, self._renew)

    def hear(self, news: WaitResult) -> None:
        """Pass news on to every screen that shows some of it."""
        for screen in self.screen_stack:
            if isinstance(screen, LiveScreen) and screen.is_mounted:
                screen.hear(news)

    async def on_event(self, event: events.Event) -> None:
        """Note when the person did something."""
        if isinstance(event, events.InputEvent):
            self._acted_at = time.monotonic()
        await super().on_event(event)

    async def _renew(self) -> None:
        if time.monotonic() - self._acted_at < _RENEWAL_SECONDS:
            for screen in self.screen_stack:
                if isinstance(screen, ReviewScreen):
                    await screen.renew()

    async def action_quit(self) -> None:
        """End; ask first if something was typed that has not been sent."""
        unsent = self.desk.drafts.unsent()
        if not unsent or isinstance(self.screen, Confirm):
            self.exit()
            return

        def answered(yes: bool | None) -> None:  # noqa: FBT001 - the dialog's result
            if yes:
                self.exit()

        count = f"{len(unsent)} reviews" if len(unsent) > 1 else "a review"
        self.push_screen(Confirm(f"You have typed something for {count} that is not sent. Leave it behind?"), answered)


async def open_screen(options: ConnectionOptions, person: str | None) -> Exit:
    """Show the screen until the person leaves it.

    Args:
        options: What the command was told.
        person: The name that was given or remembered; None to ask for it.

    Raises:
        TandemError: The broker refuses, or none answers.
    """
    desk = ScreenClient(options, person or "")
    try:
        desk.project = desk.home = find_project(desk.client.session, options)
        app = ReviewApp(desk)
        await app.run_async()
    finally:
        await desk.client.close()
    return Exit.DONE if app.return_code == 0 else Exit.REFUSED


class InboxScreen(LiveScreen):
    """The first screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", show=True),
        Binding("j", "step(1)", "Next", show=False),
        Binding("k", "step(-1)", "Previous", show=False),
        Binding("p", "projects", "This project, or all"),
        Binding("r", "reload", "Read again", show=False),
        Binding("question_mark", "keys", "Keys"),
        Binding("q", "app.quit", "Quit"),
    ]

    def __init__(self, desk: ScreenClient) -> None:
        super().__init__(desk)
        self._inbox: Inbox | None = None
        self._keys: set[str] = set()

    def compose(self) -> ComposeResult:
        """The list under its headline."""
        yield Static("", id="trouble", markup=False)
        yield Static("", id="headline", markup=False)
        yield OptionList(id="list", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Begin with the list."""
        self.show_trouble("")
        self.query_one(OptionList).focus()

    async def read_again(self) -> None:
        """Ask the broker for the open reviews."""
        desk = self.desk
        self._inbox = await desk.client.get_inbox(person=desk.person, project=desk.project, limit=_LIMIT)
        self.show_again()

    def show_again(self) -> None:
        """Draw the list, with the same line highlighted."""
        found = self._inbox
        if found is None:
            return
        shown = self.query_one(OptionList)
        before, at = shown.highlighted_option, shown.highlighted
        top = shown.scroll_offset.y
        options = list(_options(found, with_project=self.desk.project is None))
        self._keys = {option.id for option in options if option.id is not None}
        shown.set_options(options)
        self.query_one("#headline", Static).update(self._headline(found))
        keys = [option.id for option in shown.options]
        if before is not None and before.id in self._keys:
            shown.highlighted = keys.index(before.id)
        else:
            places = [place for place, key in enumerate(keys) if key in self._keys]
            after = [place for place in places if place >= (at or 0)]
            shown.highlighted = after[0] if after else max(places, default=None)
        shown.scroll_to(y=top, animate=False)

    def _headline(self, found: Inbox) -> str:
        where = self.desk.project or "all projects"
        return visible(f"{_number(found.counts.your_turn)} for {self.desk.person}  ·  {where}")

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Open the chosen item."""
        key = event.option.id or ""
        if key.startswith(_CAUSE):
            self.notify(texts.ELSEWHERE, markup=False)
        elif key:
            host(self).push_screen(ReviewScreen(self.desk, key))

    def action_open(self) -> None:
        """Open the highlighted item."""
        self.query_one(OptionList).action_select()

    def action_step(self, by: int) -> None:
        """Move the highlight."""
        shown = self.query_one(OptionList)
        if by > 0:
            shown.action_cursor_down()
        else:
            shown.action_cursor_up()

    def action_projects(self) -> None:
        """Show all projects, or only the one that the command was called for."""
        if self.desk.home is None:
            self.notify("All projects are shown: the command was called for none.", markup=False)
            return
        self.desk.project = None if self.desk.project is not None else self.desk.home
        self.refresh_soon()

    def action_reload(self) -> None:
        """Ask the broker again."""
        self.refresh_soon()


def _key(item: InboxItem) -> str:
    """The review that an item opens, or what tells a cause from every other one."""
    if item.review is not None:
        return item.review.review_id
    return f"{_CAUSE} {item.pool.supervisor_id if item.pool and item.kind == 'pool' else item.who}"


def _number(count: int) -> str:
    return f"{_LIMIT}+" if count > _LIMIT else str(count)


def _options(found: Inbox, *, with_project: bool) -> Iterator[Option]:
    shown = [section for section in inbox.sections(found) if section.items]
    for section in shown:
        yield Option(Text(f"{section.title} ({section.count})", style="bold"), disabled=True)
        for _, items in section.groups:
            for item in items:
                yield Option(_row(item, with_project=with_project), id=_key(item))
                yield from _held_up(item)
    if not shown:
        yield Option(Text(_NOTHING, style="dim"), disabled=True)


def _row(item: InboxItem, *, with_project: bool) -> Text:
    review = item.review
    title = _line("  ").append(visible_line(inbox.said(item) if review is None else review.intent))
    if review is None:
        return Text("\n").join((title, _line("    ").append(inbox.helps(item) or "", "dim")))
    if review.priority == "critical":
        title.append("  critical", "bold red")
    said = [inbox.said(item), item.detail, inbox.size(item), work(review), review.project if with_project else None]
    said += [texts.since(item.since), review.review_id]
    about = _line("    ").append_text(texts.state(review.status, None)).append("  ")
    return Text("\n").join((title, about.append("  ".join(visible_line(part) for part in said if part), "dim")))


def _held_up(item: InboxItem) -> Iterator[Option]:
    """The reviews that wait because of something, under it; they can be opened, too."""
    for review in item.holds_up:
        said = f"{visible_line(review.intent)}  {review.project}  {texts.since(review.created_at)}  {review.review_id}"
        yield Option(_line("      ").append(said, "dim"), id=review.review_id)


def _line(indent: str) -> Text:
    return Text(indent, no_wrap=True, overflow="ellipsis")
