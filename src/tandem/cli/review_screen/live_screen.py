"""What the list and a review have in common: they stay up to date, and tell when the broker is away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.css.query import NoMatches
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widget import MountError
from textual.widgets import Static, Tabs

from tandem.cli.review_screen import texts
from tandem.cli.review_screen.desk import ScreenClient, WaitResult
from tandem.cli.review_screen.dialogs import host, keys_dialog
from tandem.core.visible import visible
from tandem.errors import TandemError

_BREATH_SECONDS = 0.1
_AGE_SECONDS = 30.0
"""How often what is said in minutes is said anew."""
_REFUSAL_SECONDS = 12.0
_HEARD = {"question_mark": "?", "left_square_bracket": "[", "right_square_bracket": "]", "plus": "+", "minus": "-"}


class LiveScreen(Screen[None]):
    """A screen that is read again whenever something has happened."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark", "keys", "Keys")]

    def __init__(self, desk: ScreenClient) -> None:
        super().__init__()
        self.desk = desk
        self._due = asyncio.Event()

    def on_mount(self) -> None:
        """Begin to stay up to date; Textual calls this besides the one of a subclass."""
        self._due.set()
        self.run_worker(self._keep_fresh(), group="fresh")
        self.set_interval(_AGE_SECONDS, self.show_again)

    async def _keep_fresh(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            try:
                await self.read_again()
            except TandemError as error:
                self.show_trouble(texts.refusal(error))
            except (NoMatches, MountError, Tabs.TabError):
                # The answer came while the screen was being taken apart.
                if not self._is_gone:
                    raise
                return
            # However much happens: one reading at a time, and time to draw it.
            await asyncio.sleep(_BREATH_SECONDS)

    @property
    def _is_gone(self) -> bool:
        app = host(self)
        return not app.is_running or self not in app.screen_stack

    async def read_again(self) -> None:
        """Ask the broker anew, and show it."""

    def show_again(self) -> None:
        """Show what is known anew."""

    def is_about_this(self, subjects: frozenset[str]) -> bool:  # noqa: ARG002 - the list is about everything
        """Whether events on these concern what is shown."""
        return True

    def hear(self, news: WaitResult) -> None:
        """Read again if the news is about what is shown; say so if there is none."""
        self.show_trouble(news.trouble or "")
        if news.trouble is None and (news.subjects is None or self.is_about_this(news.subjects)):
            self.refresh_soon()

    def refresh_soon(self) -> None:
        """Have it read again."""
        self._due.set()

    def show_trouble(self, trouble: str) -> None:
        """Say what is wrong, until nothing is."""
        for note in self.query("#trouble").results(Static):
            note.update(visible(trouble))
            note.display = bool(trouble)

    async def attempt(self, deed: Awaitable[object], done: str) -> None:
        """Do something that needs no dialog, and say how it went."""
        try:
            await deed
        except TandemError as error:
            self.notify(visible(texts.refusal(error)), severity="error", timeout=_REFUSAL_SECONDS, markup=False)
        else:
            self.notify(done, markup=False)
        self.refresh_soon()

    def action_keys(self) -> None:
        """List the keys that do something here."""
        host(self).push_screen(keys_dialog((*_bound(self), *_bound(self.focused))))


def _bound(node: DOMNode | None) -> Iterator[tuple[str, str]]:
    bindings: list[Any] = list(node.BINDINGS) if node is not None else []
    for binding in bindings:
        if isinstance(binding, Binding) and binding.description:
            yield ", ".join(_HEARD.get(key, key) for key in binding.key.split(",")), binding.description
