"""The screen of `tandem review` driven by keys, against a real broker, with the other side played by its client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual import events
from textual.pilot import Pilot
from textual.widgets import OptionList

from tandem.cli.connection_options import ConnectionOptions
from tandem.cli.review_screen import ReviewApp
from tandem.cli.review_screen.desk import ScreenClient
from tandem.client import TandemClient
from tandem.reviews.answers import ReviewStatus
from tests.commandline import DIFF, repository

PERSON = "ann"
SHOWN_SECONDS = 60.0


@dataclass
class Stage:
    """A project at a broker, and its screen.

    Attributes:
        other: The proposer's client.
        bob: Another reviewer's.
        project: The project.
        app: The application.
        pilot: Presses its keys.
    """

    other: TandemClient
    bob: TandemClient
    project: str
    app: ReviewApp
    pilot: Pilot[None]

    @property
    def text(self) -> str:
        """Everything that is on the screen, a line a row."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)

    async def until(self, condition: Callable[[str], bool], what: str) -> str:
        """Wait until the screen is so; its text then."""
        deadline = time.monotonic() + SHOWN_SECONDS
        while not condition(text := self.text):
            assert time.monotonic() < deadline, f"never {what}:\n{text}"
            await self.pilot.pause(0.02)
        return text

    async def shows(self, *texts: str) -> str:
        """Wait until all of these are on the screen."""
        return await self.until(lambda text: all(one in text for one in texts), f"showed {texts}")

    async def lacks(self, text: str) -> str:
        """Wait until this is on the screen no more."""
        return await self.until(lambda shown: text not in shown, f"without {text}")

    async def press(self, *keys: str) -> None:
        """Press keys."""
        await self.pilot.press(*keys)

    def burst(self, keys: str) -> None:
        """Press keys one right behind the other, as a terminal hands on a paste."""
        for key in keys:
            self.app.post_message(events.Key({"]": "right_square_bracket", "/": "slash"}.get(key, key), key))

    async def type(self, text: str) -> None:
        """Type a text, as fast as a paste: after each single key the pilot waits until the process is idle."""
        await self.pilot.pause()
        self.app.post_message(events.Paste(text))
        await self.pilot.pause()

    def hears_nothing(self) -> None:
        """From now on the screen learns of nothing by itself."""
        for worker in list(self.app.workers):
            if worker.group == "live":
                worker.cancel()

    async def create(self, intent: str = "Wait between attempts", **fields: Any) -> str:
        """Put a review up; its id."""
        given: dict[str, Any] = {"diff": DIFF} if "path" not in fields and "review_id" not in fields else {}
        created = await self.other.create_review(
            intent=intent, agent_type="robot", project=self.project, **{**given, **fields}
        )
        return created.review_id

    async def opened(self, review_id: str) -> None:
        """Open a review that is on the list."""
        listed = self.app.screen.query_one("#list", OptionList)
        await self.until(lambda _: any(one.id == review_id for one in listed.options), f"listed {review_id}")
        while listed.highlighted_option is None or listed.highlighted_option.id != review_id:
            await self.press("down")
        await self.press("enter")
        await self.shows("by robot")

    async def status(self, review_id: str) -> ReviewStatus:
        """Where the review stands at the broker."""
        return await self.other.get_review_status(review_id)

    async def becomes(self, review_id: str, status: str) -> ReviewStatus:
        """Wait at the broker until the review stands so."""
        deadline = time.monotonic() + SHOWN_SECONDS
        while (found := await self.status(review_id)).status != status:
            assert time.monotonic() < deadline, f"is {found.status}, not {status}:\n{self.text}"
            await asyncio.sleep(0.02)
        return found


@asynccontextmanager
async def stage(
    url: str,
    folder: Path,
    *,
    person: str = PERSON,
    size: tuple[int, int] = (120, 40),
    options: ConnectionOptions | None = None,
) -> AsyncGenerator[Stage]:
    """A fresh project with a repository in `folder`, and the screen open on it."""
    root = repository(folder / folder.name)
    async with TandemClient(url, agent="robot") as other, TandemClient(url, agent="bob") as bob:
        await other.register_project(root=str(root))
        desk = ScreenClient(options or ConnectionOptions(url, None, person or None), person, root.name)
        app = ReviewApp(desk)
        # Each step of an animated scroll is a layout of its own.
        app.animation_level = "none"
        try:
            async with app.run_test(size=size, notifications=True) as pilot:
                yield Stage(other, bob, root.name, app, pilot)
        finally:
            await desk.client.close()
