"""The pools and their reviewers: what each does and since when, ending one, and resuming a pool."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.binding import BindingType

from tandem.cli.render.parts import STYLES
from tandem.cli.review_screen import texts
from tandem.cli.review_screen.desk import ScreenClient
from tandem.cli.review_screen.keyboard import bindings
from tandem.cli.review_screen.review import ReviewScreen
from tandem.cli.review_screen.screens import ListScreen, confirm, host
from tandem.core.visible import visible_line
from tandem.pool.contract import PoolView, ReviewerList, ReviewerView

_ENDED = "terminated"


class ReviewersScreen(ListScreen):
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
