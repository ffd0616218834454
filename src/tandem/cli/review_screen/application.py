"""The application of `tandem review`: from the name to the list, and one wait on the broker for all of it."""

from __future__ import annotations

import time

from textual import events
from textual.app import App

from tandem.cli.connection_options import ConnectionOptions, find_project
from tandem.cli.review_screen.desk import BrokerLink, Drafts, ScreenClient, WaitResult, follow
from tandem.cli.review_screen.dialogs import Confirm, NameDialog
from tandem.cli.review_screen.inbox_screen import InboxScreen
from tandem.cli.review_screen.live_screen import LiveScreen
from tandem.cli.review_screen.review import ReviewScreen
from tandem.cli.terminal import Exit

_RENEWAL_SECONDS = 30.0
"""How often a claim is renewed while the person does something."""
_WIDE_COLUMNS = 110
"""From here on there is room for the list of files beside the change."""


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
        self.desk.person = name
        await self.desk.line.introduce(name)
        self.push_screen(InboxScreen(self.desk))
        self.run_worker(follow(self.desk.line, self.hear), group="live")
        self.set_interval(_RENEWAL_SECONDS, self._renew)

    def hear(self, news: WaitResult) -> None:
        """Pass on what has happened to every screen that shows some of it."""
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
        person: The name that was given or remembered; null to ask for it.

    Raises:
        TandemError: The broker refuses, or none answers.
    """
    line = BrokerLink(options)
    try:
        project = find_project(line.client.session, options)
        app = ReviewApp(ScreenClient(line, person or "", project, project, Drafts()))
        await app.run_async()
    finally:
        await line.close()
    return Exit.DONE if app.return_code == 0 else Exit.REFUSED
