"""`tandem review` at a terminal: a screen with what waits for a person, the changes, the discussion and the verdict.

The application is here, with the inbox, the reviewers, and one wait on the broker for all of it. Nothing of this
package is imported before the screen is opened, as it needs Textual.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import App
from textual.binding import BindingType

from tandem.bridge.credentials import has_token
from tandem.cli.connection_options import ConnectionOptions, find_project
from tandem.cli.render.parts import STYLES
from tandem.cli.review_screen import texts
from tandem.cli.review_screen.desk import ScreenClient, WaitResult
from tandem.cli.review_screen.review import ReviewScreen
from tandem.cli.review_screen.screens import (
    ConfirmDialog,
    FieldDialog,
    ListScreen,
    LiveScreen,
    NameDialog,
    confirm,
    host,
)
from tandem.cli.review_screen.texts import bindings
from tandem.cli.terminal import Exit
from tandem.core.visible import visible_line
from tandem.errors import InvalidTransition, TandemError
from tandem.inbox.contract import Inbox, InboxItem
from tandem.pool.contract import PoolView, ReviewerList, ReviewerView
from tandem.present import inbox
from tandem.present.facts import work
from tandem.present.keys import key_of

_RENEWAL_SECONDS = 30.0
"""How often a claim is renewed while the person does something."""
_WIDE_COLUMNS = 110
"""From here on there is room for the list of files beside the change."""
_LIMIT = 100
_CAUSE, _OVERRIDE, _FAILURE, _MORE = "cause ", "override ", "failure ", "more "
_INTENT = 60
"""Characters of an intent, so that the rest of the row is seen."""
_ENDED = "terminated"


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
        person = self.desk.person
        if not person and has_token():
            with suppress(TandemError):  # such as of a broker that trusts everybody, and looks at no token
                person = (await self.desk.client.data("get_inbox", {"limit": 1}))["person"]
        if person:
            await self._begin(person)
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

    async def on_key(self, event: events.Key) -> None:
        """Have the screen take the second of two keys, before bindings do."""
        pressed_on = event._sender  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - Textual has no other way to it
        if isinstance(pressed_on, LiveScreen) and isinstance(self.screen, FieldDialog):
            # It was typed for the dialog that the key before it has opened; a question is answered when it is seen.
            event.prevent_default()
            self.post_message(events.Key(event.key, event.character))
        if isinstance(self.screen, LiveScreen):
            await self.screen.take_second(event)

    async def _renew(self) -> None:
        if time.monotonic() - self._acted_at < _RENEWAL_SECONDS:
            for screen in self.screen_stack:
                if isinstance(screen, ReviewScreen):
                    await screen.renew()

    def action_reviewers(self) -> None:
        """Show the reviewers."""
        self.push_screen(_ReviewersScreen(self.desk))

    async def action_quit(self) -> None:
        """End; ask first if something was typed that has not been sent."""
        unsent = self.desk.drafts.unsent()
        if not unsent or isinstance(self.screen, ConfirmDialog):
            self.exit()
            return

        count = f"{len(unsent)} reviews" if len(unsent) > 1 else "a review"
        confirm(self, f"You have typed something for {count} that is not sent. Leave it behind?", self.exit)


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


class InboxScreen(ListScreen):
    """The first screen."""

    PARTS = ("list",)
    BINDINGS: ClassVar[list[BindingType]] = bindings("list")
    NOTHING = "Nothing is open. New reviews appear here by themselves."

    def __init__(self, desk: ScreenClient) -> None:
        super().__init__(desk)
        self._inbox: Inbox | None = None
        self._unfolded: set[str] = set()

    async def read_again(self) -> None:
        """Ask the broker for the open reviews."""
        desk = self.desk
        self._inbox = await desk.client.get_inbox(person=desk.person, project=desk.project, limit=_LIMIT)
        self.show_again()

    def show_again(self) -> None:
        """Draw the list."""
        found = self._inbox
        if found is None:
            return
        shown = inbox.sections(found)
        number = inbox.needing(shown)
        count = f"{_LIMIT}+" if number > _LIMIT else number
        headline = f"{count} for {self.desk.person}  ·  {self.desk.project or 'all projects'}"
        self.show_rows(headline, [(one.name, one.title, one.count, self._rows(one)) for one in shown])

    def _rows(self, section: inbox.Section) -> Iterator[tuple[str, Text]]:
        is_headed = len(section.groups) > 1 and not self._filter
        for project, group in section.groups:
            more = f"{_MORE}{section.name} {project}"
            # A search looks through all rows.
            shown = group if self._filter or more in self._unfolded else section.unfolded(group)
            if is_headed:
                yield "", Text(f" {visible_line(project)} ({len(group)})", "bold dim")
            for item in shown:
                yield _key(item), _row(item, with_project=self.desk.project is None and not is_headed)
                for review in item.holds_up:
                    said = f"{review.intent}  {review.project}  for {texts.since(review.created_at)}"
                    yield review.review_id, Text(f"      {visible_line(said)}", "dim")
            if len(shown) < len(group):
                yield more, Text(f"  … {len(group) - len(shown)} more", "dim")

    def action_open(self) -> None:
        """Open the highlighted item."""
        if self.chosen.startswith(_CAUSE):
            host(self).push_screen(_ReviewersScreen(self.desk, self.chosen.removeprefix(_CAUSE)))
        elif self.chosen.startswith((_OVERRIDE, _FAILURE)):
            self._settle(self.chosen)
        elif self.chosen.startswith(_MORE):
            self._unfolded.add(self.chosen)
            self.show_again()
        elif self.chosen:
            host(self).push_screen(ReviewScreen(self.desk, self.chosen))

    def _settle(self, chosen: str) -> None:
        """Ask whether an override leaves the person's list, or the reviews of a failure go back into the queue."""
        found = self._inbox.problems if self._inbox else ()
        item = next((one for one in found if _key(one) == chosen), None)
        if item is None:
            return
        client, held, person = self.desk.client, item.holds_up, self.desk.person
        project, _, override_id = (item.who or "").rpartition("/")

        async def retry() -> None:
            for review in held:
                with suppress(InvalidTransition):  # meanwhile somebody took it
                    await client.retry_review(review.review_id)

        def act() -> None:
            if item.kind == "failure":
                self.run_worker(self.attempt(retry(), "In the queue again."))
            else:
                seen = client.see_override(override_id=override_id, project=project, person=person)
                self.run_worker(self.attempt(seen, "Seen. The log keeps the override."))

        question = "Try them again?" if item.kind == "failure" else "Seen? It leaves your list."
        confirm(self, f"{visible_line(inbox.said(item))}\n\n{question}", act)

    def action_projects(self) -> None:
        """Show all projects, or only the one that the command was called for."""
        if self.desk.home is None:
            self.notify("All projects are shown: the command was called for none.", markup=False)
            return
        self.desk.project = None if self.desk.project is not None else self.desk.home
        self.refresh_soon()


def _key(item: InboxItem) -> str:
    """The review that an item opens, the override to be seen, or the pool or reviewer that is a cause."""
    if item.review is not None:
        return item.review.review_id
    if item.kind == "override":
        return f"{_OVERRIDE}{item.who}"
    if item.kind == "failure":
        return f"{_FAILURE}{item.holds_up[0].review_id}"
    return f"{_CAUSE}{item.pool.supervisor_id if item.pool and item.kind == 'pool' else item.who}"


def _helps(item: InboxItem) -> str:
    """The keys that help against a cause."""
    if item.kind in ("override", "failure"):
        return "Enter: seen" if item.kind == "override" else "Enter: try again"
    if item.pool is not None and item.kind == "reviewer":
        return f"Enter, then {key_of('reviewers', 'end')}: end it"
    resumes = f"Enter, then {key_of('reviewers', 'resume')}: resume it"
    return resumes if item.why in inbox.PAUSED else "Enter: the reviewers"


def _row(item: InboxItem, *, with_project: bool) -> Text:
    review = item.review
    if review is None:
        # What to do comes first: a narrow terminal cuts the end.
        return Text.assemble("  ", (_helps(item), "dim"), f"  {visible_line(inbox.said(item))}")
    proposer = texts.name_of(review)
    told = replace(item, who=proposer) if item.who == review.proposer_id else item
    said = [inbox.size(item), inbox.said(told), item.detail, f"by {proposer}", f"for {texts.since(item.since)}"]
    said += [work(review), review.project if with_project else None]
    intent = visible_line(review.intent)
    row = Text(f"  {intent if len(intent) <= _INTENT else f'{intent[:_INTENT]}…'}  ")
    row.append("critical  " if review.priority == "critical" else "", "bold red")
    return row.append("  ".join(visible_line(part) for part in said if part), "dim")


class _ReviewersScreen(ListScreen):
    """All pools with a supervisor, and the reviewers that are at work, silent ones first."""

    PARTS = ("reviewers",)
    BINDINGS: ClassVar[list[BindingType]] = bindings("reviewers")
    NOTHING = "This broker runs no reviewers: 'tandem reviewers --help' says how to start some."

    def __init__(self, desk: ScreenClient, first: str = "") -> None:
        super().__init__(desk)
        self._first = first
        self._found = ReviewerList((), ())

    async def read_again(self) -> None:
        """Ask the broker for those of the project, or for all."""
        self._found = await self.desk.client.list_reviewers(project=self.desk.project)
        self.show_again()

    def show_again(self) -> None:
        """Draw them."""
        at_work = sorted(
            (one for one in self._found.reviewers if one.state != _ENDED),
            key=lambda one: (one.doing != "silent", one.doing_since or ""),
        )
        pools = [one for one in self._found.pools if one.state != "ended"]
        first = next((one.reviewer_id for one in at_work if one.name == self._first), self._first)
        self._first = ""
        work = ((one.reviewer_id, _work(one)) for one in at_work)
        sections = [
            ("at work", "At work", str(len(at_work)), work),
            ("pools", "Pools", str(len(pools)), ((one.supervisor_id, _pool(one)) for one in pools)),
        ]
        self.show_rows("Reviewers", sections, first)

    @property
    def _reviewer(self) -> ReviewerView | None:
        return next((one for one in self._found.reviewers if one.reviewer_id == self.chosen), None)

    def action_open(self) -> None:
        """Open the review that the chosen reviewer has."""
        if (one := self._reviewer) is not None and one.review_id:
            host(self).push_screen(ReviewScreen(self.desk, one.review_id))

    def action_end(self) -> None:
        """Ask whether to end the chosen reviewer; its review is the person's then."""
        one, desk = self._reviewer, self.desk
        if one is None:
            return

        async def end() -> None:
            if one.review_id is None:
                deed = desk.client.kill_reviewer(reviewer_id=one.reviewer_id, force=True)
                await self.attempt(deed, f"{one.name} is ended.")
                return
            deed = desk.client.claim_review(reviewer_id=desk.person, review_id=one.review_id, take_over=True)
            await self.attempt(deed, f"{one.name} is ended, and its review is yours.")
            host(self).push_screen(ReviewScreen(desk, one.review_id))

        about = f" and take over '{visible_line(one.review_title or one.review_id)}'" if one.review_id else ""
        confirm(self, f"End {visible_line(one.name)}{about}?", lambda: self.run_worker(end()))

    def action_resume(self) -> None:
        """Resume the chosen pool, or all that are paused."""
        pools = {one.supervisor_id for one in self._found.pools}
        chosen = self.chosen if self.chosen in pools else None
        self.run_worker(self.attempt(self.desk.client.resume_reviewers(supervisor_id=chosen), "Resumed."))


def _work(one: ReviewerView) -> Text:
    doing = (one.state if one.state == "draining" else one.doing or one.state).replace("_", " ")
    row = Text(f"  {visible_line(one.name)}  ")
    row.append(f"{doing} for {texts.since(one.doing_since or one.spawned_at)}", "red" if doing == "silent" else "")
    has = f"has had '{one.review_title}' for {texts.since(one.claimed_at)}" if one.claimed_at else ""
    wrote = f"last wrote {texts.since(one.last_output_at)} ago" if one.last_output_at else ""
    return row.append("".join(f"  {visible_line(part)}" for part in (has, wrote, one.project) if part), "dim")


def _pool(one: PoolView) -> Text:
    row = Text(f"  {visible_line(one.provider)} on {visible_line(one.host)}  ")
    row.append(one.state.replace("_", " "), STYLES.get(one.state, ""))
    return row.append(f"  {one.active} of {one.max_pool_size} reviewers  {visible_line(one.why or '')}", "dim")
