"""All reviewers in one supervisor's charge, as the broker's orders and the reports to it name them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tandem.domain.pool_answers import Orders
from tandem.reviewers.charges import Charge, Household
from tandem.reviewers.equipment import Equipment
from tandem.reviewers.trees import end_marked


class Crew:
    """The reviewers that the broker still has to hear something of."""

    def __init__(
        self,
        equipment: Equipment,
        *,
        argv: tuple[str, ...],
        environment: Mapping[str, str],
        folder: Path,
        projects: tuple[str, ...] | None,
        on_news: Callable[[], None],
    ) -> None:
        """A crew of nobody.

        Args:
            equipment: The reviewers' folders and jobs.
            argv: How a worker is started.
            environment: What each of them inherits.
            folder: Where their processes start.
            projects: Whose reviewers may be started; null for all.
            on_news: Is called when there is something to report.
        """
        self._projects = projects
        self._household = Household(
            equipment=equipment, argv=argv, environment=environment, folder=folder, living=self._living, on_news=on_news
        )
        self._charges: dict[str, Charge] = {}
        self._lives: dict[str, asyncio.Task[None]] = {}

    @property
    def starting(self) -> bool:
        """Whether there will be news of a start in a moment."""
        return any(one.starting for one in self._charges.values())

    def reports(self) -> list[dict[str, Any]]:
        """What the broker is to be told: of each reviewer that is not just being started."""
        return [one.report() for one in self._charges.values() if not one.starting]

    def obey(self, orders: Orders, reports: list[dict[str, Any]], *, may_start: bool) -> None:
        """Does what the broker answered.

        Args:
            orders: The answer.
            reports: What the broker was told before.
            may_start: Whether reviewers that are not there yet are started.
        """
        listed = {order.reviewer_id: order for order in orders.reviewers}
        for told in reports:
            charge = self._charges[told["reviewer_id"]]
            if told["state"] == "running":
                charge.broker_knows()
            elif charge.reviewer_id not in listed:
                del self._charges[charge.reviewer_id], self._lives[charge.reviewer_id]
        for charge in self._charges.values():
            order = listed.pop(charge.reviewer_id, None)
            if order is None:
                # The broker has given it up, and with it its claim.
                charge.want("kill")
            else:
                charge.follow(order)
        for order in listed.values() if may_start else ():
            charge = Charge(order, self._household)
            self._charges[order.reviewer_id] = charge
            if self._projects is not None and order.project not in self._projects:
                charge.refuse(f"This supervisor does not serve the project {order.project!r}.")
            self._lives[order.reviewer_id] = asyncio.create_task(charge.live(), name=f"reviewer-{order.reviewer_id}")

    def end_processes(self) -> None:
        """Kills all that any reviewer has running, whatever it is at; blocks."""
        for reviewer_id in self._living():
            end_marked(self._household.equipment.marks(reviewer_id))

    def want(self, wanted: str) -> None:
        """Has every reviewer drain or end."""
        for charge in self._charges.values():
            charge.want(wanted)

    async def until_ended(self, seconds: float) -> bool:
        """Waits until all have ended, for so long at most; says whether they have."""
        lives = [life for life in self._lives.values() if not life.done()]
        if not lives:
            return True
        _, left = await asyncio.wait(lives, timeout=seconds)
        return not left

    async def abandon(self) -> None:
        """Forgets all of them; what could not be ended is killed once more, and not waited for."""
        lives = list(self._lives.values())
        for life in lives:
            life.cancel()
        await asyncio.gather(*lives, return_exceptions=True)
        self._charges.clear()
        self._lives.clear()

    def _living(self) -> tuple[str, ...]:
        return tuple(self._charges)
