"""Screens: dialogs in which a person writes, chooses or confirms, and what the list and a review have in common.

A refusal leaves a dialog open, with everything typed. List and review stay up to date, and tell when the broker
is away.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.css.query import NoMatches
from textual.message_pump import MessagePump
from textual.screen import ModalScreen, Screen, ScreenResultType
from textual.suggester import SuggestFromList
from textual.widget import MountError, Widget
from textual.widgets import (
    Checkbox,
    Collapsible,
    Footer,
    Input,
    Label,
    OptionList,
    RadioButton,
    RadioSet,
    Static,
    Tabs,
    TextArea,
)
from textual.widgets.option_list import Option

from tandem.cli import persons
from tandem.cli.review_screen import texts
from tandem.cli.review_screen.desk import ScreenClient, ScreenDraft, WaitResult
from tandem.cli.review_screen.texts import chord, help_text
from tandem.client import Unreachable
from tandem.core.visible import is_blank, visible
from tandem.errors import InvalidInput, TandemError
from tandem.reviews.finding_rules import CATEGORIES

_BREATH_SECONDS = 0.1
_AGE_SECONDS = 30.0
"""How often ages in minutes are redrawn."""
_REFUSAL_SECONDS = 12.0
_LONGEST_NAME = 200

Send = Callable[[str, str, str], Awaitable[None]]
"""Sends a choice and a text, under an idempotency key."""


def host(part: MessagePump) -> App[None]:
    """The application."""
    return part.app  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - Textual leaves it open


@dataclass(frozen=True, slots=True)
class Question:
    """What a dialog asks.

    Attributes:
        title: In a few words.
        draft: Keeps the text and the choice.
        send: Sends them.
        about: What one should know before one answers.
        choices: Names of what one can choose, by their codes; the first is chosen to begin with.
        needs_text: The choices that nothing is sent for without a text.
        hint: What the text is for.
        is_text_first: Whether one begins with the text, as the choice is made already.
        fields: What else is asked; the draft keeps it by the widgets' ids.
        more: What that is, in a few words.
        go_on: Goes on after it was sent, where there is a next step: `line` or `verdict`.
    """

    title: str
    draft: ScreenDraft
    send: Send
    about: str = ""
    choices: Mapping[str, str] = field(default_factory=dict[str, str])
    needs_text: frozenset[str] = frozenset()
    hint: str = "Reason"
    is_text_first: bool = False
    fields: Sequence[Widget] = ()
    more: str = ""
    go_on: Callable[[str], None] | None = None


class Choices(RadioSet, inherit_bindings=False):
    """Choices of which arrows and enter choose; letters go to the text, so that none of a reason chooses."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,right", "next_button", "Next choice", show=False),
        Binding("up,left", "previous_button", "Previous choice", show=False),
        Binding("enter", "toggle_button", "Choose", show=False),
    ]

    def on_focus(self) -> None:
        """Begin at the chosen one; Textual begins at the first."""
        self._selected = max(0, self.pressed_index)

    def on_key(self, event: events.Key) -> None:
        """Hand letters on to the text."""
        if event.is_printable and event.character:
            event.stop()
            self._write(event.character)

    def on_paste(self, event: events.Paste) -> None:
        """Likewise."""
        event.stop()
        self._write(event.text)

    def _write(self, typed: str) -> None:
        text = self.screen.query_one("#text", TextArea)
        text.focus()
        text.insert(typed)


class FieldDialog(ModalScreen[ScreenResultType]):
    """A dialog with a field, which has the letters, too, that were typed before it was in focus."""

    def on_key(self, event: events.Key) -> None:
        """Take a letter that came to the dialog itself: a field in focus stops its own."""
        if event.is_printable and event.character and isinstance(self.focused, TextArea | Input | Choices | None):
            event.stop()
            if areas := self.query(TextArea):
                areas.first().insert(event.character)
            else:
                self.query_one(Input).insert_text_at_cursor(event.character)


class Composer(FieldDialog[str]):
    """Asks a question; ends with `sent` or the next step once the answer was sent, with nothing if it was left."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "send('sent')", "Send", priority=True),
        Binding("escape", "leave", "Back, keeping what you typed", priority=True),
        Binding("f2", "choose", "Next choice", priority=True),
        Binding("f3", "send('line')", "Next line", priority=True),
        Binding("f4", "send('verdict')", "Request changes", priority=True),
    ]

    def __init__(self, question: Question) -> None:
        super().__init__()
        self._question = question
        self._codes = list(question.choices)
        self._sending = False
        self._uncertain: tuple[object, str] | None = None

    def compose(self) -> ComposeResult:
        """The dialog."""
        question = self._question
        with Vertical(id="dialog"):
            yield Label(question.title, id="title", markup=False)
            yield Static("", id="refusal", markup=False)
            if question.about:
                yield Static(question.about, id="about", markup=False)
            if self._codes:
                chosen = question.draft.choice or self._codes[0]
                buttons = [RadioButton(Content(question.choices[code]), code == chosen) for code in self._codes]
                yield Choices(*buttons, id="choices")
            yield Label(question.hint, id="hint", markup=False)
            yield TextArea(question.draft.text, id="text", soft_wrap=True, show_line_numbers=False)
            if question.fields:
                yield Collapsible(*question.fields, title=question.more, collapsed=question.go_on is not None)
        yield Footer()

    def on_mount(self) -> None:
        """Begin where there is something to choose or to write."""
        self.query_one("#refusal").display = False
        self.set_focus(self.query_one("#choices" if self._codes and not self._question.is_text_first else "#text"))
        self.on_radio_set_changed()

    @property
    def _choice(self) -> str:
        if not self._codes:
            return ""
        pressed = self.query_one(RadioSet).pressed_index
        return self._codes[max(0, pressed)]

    def action_choose(self) -> None:
        """Choose the next row, wherever the cursor is."""
        buttons = list(self.query(RadioButton))
        if buttons:
            buttons[(self.query_one(RadioSet).pressed_index + 1) % len(buttons)].value = True

    def _keep(self) -> None:
        """Keep the choice, the text and the fields."""
        # Read where they stand: the news of a change may come when it has been sent, or when the dialog is gone.
        draft = self._question.draft
        if self._codes and (draft.choice or self._choice != self._codes[0]):
            draft.choice = self._choice
        said = {one.id or "": one.text for one in self.query(TextArea)}
        draft.text = said.pop("text")
        draft.more |= said
        draft.more |= {one.id or "": one.value for one in (*self.query(Input), *self.query(Checkbox))}

    def _behind_keys(self, act: Callable[[], None]) -> None:
        """Act when the field in focus has taken the keys that were pressed before."""
        (self.focused or self).call_later(act)

    def action_leave(self) -> None:
        """Go back."""

        def leave() -> None:
            self._keep()
            self.dismiss("")

        self._behind_keys(leave)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave out the keys for the next step where there is none."""
        return self._question.go_on is not None or action != "send" or parameters == ("sent",)

    def on_radio_set_changed(self) -> None:
        """Say what the choice needs."""
        question = self._question
        # Said in words as well: a terminal without colours marks the choice by them alone.
        chosen = f"{question.choices[self._choice]}. " if self._codes else ""
        needed = "required" if self._choice in question.needs_text else "optional"
        self.query_one("#hint", Label).update(f"{chosen}{question.hint} ({needed}):")

    def action_send(self, then: str) -> None:
        """Send it, unless it is being sent."""
        self._behind_keys(partial(self._begin, then))

    def _begin(self, then: str) -> None:
        if self._sending:
            return
        self._keep()
        text = self._question.draft.text
        if self._choice in self._question.needs_text and is_blank(text):
            self._refuse(f"{self._question.hint}: this needs one that the other side can act on.")
            self.query_one("#text").focus()
            return
        self._sending = True
        self.run_worker(self._send(self._choice, text, then), exit_on_error=False)

    async def _send(self, choice: str, text: str, then: str) -> None:
        # The same again, when it may have arrived: the broker then does it once.
        known, said = self._uncertain, (choice, text, dict(self._question.draft.more))
        key = known[1] if known and known[0] == said else secrets.token_hex(16)
        try:
            await self._question.send(choice, text, key)
        except Unreachable as error:
            self._uncertain = (said, key)
            self._refuse(texts.refusal(error))
        except TandemError as error:
            self._uncertain = None
            self._refuse(texts.refusal(error))
        else:
            self._question.draft.clear()
            self.dismiss(then)
        finally:
            self._sending = not self.is_current

    def _refuse(self, message: str) -> None:
        shown = self.query_one("#refusal", Static)
        shown.update(visible(message))
        shown.display = True


def details(said: Mapping[str, str | bool], *, has_suggestion: bool) -> list[Widget]:
    """The fields for what else a finding may say."""
    words = {name: str(said.get(name, "")) for name in ("category", "failure", "suggestion")}
    known = SuggestFromList(CATEGORIES, case_sensitive=False)
    category = Input(words["category"], id="category", max_length=_LONGEST_NAME, suggester=known, compact=True)
    suggestion = (
        Label("Suggest a change: the lines as they should be"),
        TextArea(words["suggestion"], id="suggestion"),
    )
    return [
        *(Label("Category"), category, Label("How it fails"), TextArea(words["failure"], id="failure")),
        *(suggestion if has_suggestion else ()),
        Checkbox("It was there before the change", bool(said.get("pre_existing")), id="pre_existing", compact=True),
    ]


class LineDialog(FieldDialog[str | None]):
    """Asks for a line; ends with it, or with None if it was left."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Leave", priority=True)]

    def __init__(self, title: str, line: str, about: str = "") -> None:
        super().__init__()
        self._title, self._line, self._about = title, line, about

    def compose(self) -> ComposeResult:
        """The dialog."""
        with Vertical(id="dialog"):
            yield Label(self._title, id="title", markup=False)
            yield Static(self._about, id="about", markup=False)
            yield Input(self._line, max_length=_LONGEST_NAME)
        yield Footer()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take the line, or say why not."""
        try:
            self.dismiss(self.taken(event.value))
        except InvalidInput as error:
            self.query_one("#about", Static).update(visible(error.message))

    def taken(self, line: str) -> str:
        """What the line is taken for."""
        return line.strip()


class NameDialog(LineDialog):
    """Asks a person for their name, and keeps it for the next time."""

    def __init__(self) -> None:
        about = "Others see this name on your verdicts and messages. It is asked once; --as NAME takes another."
        super().__init__("Who are you?", persons.suggested(), about)

    def taken(self, line: str) -> str:
        """The name."""
        name = persons.checked(line)
        try:
            persons.remember(name=name)
        except OSError as error:
            host(self).notify(f"The name cannot be kept: {error.strerror}.", severity="warning", markup=False)
        return name


class TextDialog(ModalScreen[None]):
    """A text to be read to its end."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,question_mark,q", "dismiss", "Back")]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title, self._text = title, text

    def compose(self) -> ComposeResult:
        """The text."""
        with VerticalScroll(id="dialog"):
            yield Label(self._title, id="title", markup=False)
            yield Static(self._text, id="whole", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Have keys scroll it."""
        self.query_one("#dialog").focus()


class ConfirmDialog(ModalScreen[bool]):
    """Asks whether to go on, which one key does."""

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """The question, and what the keys do."""
        with Vertical(id="dialog"):
            yield Static(f"{self._question}\n\ny  Yes    any other key  No", markup=False)

    def on_key(self, event: events.Key) -> None:
        """Take the key."""
        event.stop()
        self.dismiss(event.character == "y")


def confirm(part: MessagePump, question: str, act: Callable[[], object]) -> None:
    """Ask whether to go on, and act if so."""

    def answered(yes: bool | None) -> None:  # noqa: FBT001 - as a dialog ends
        if yes:
            act()

    host(part).push_screen(ConfirmDialog(question), answered)


class LiveScreen(Screen[None]):
    """A screen that is read again whenever something has happened."""

    PARTS: ClassVar[tuple[str, ...]] = ()
    """The names of the screen and of its parts in the table of keys."""

    def __init__(self, desk: ScreenClient) -> None:
        super().__init__()
        self.desk = desk
        self._due = asyncio.Event()
        self._asked: list[asyncio.Event] = []
        self._second: Mapping[str, str] | None = None

    def on_mount(self) -> None:
        """Begin to stay up to date; Textual calls this besides the one of a subclass."""
        self._due.set()
        self.run_worker(self._keep_fresh(), group="fresh")
        self.set_interval(_AGE_SECONDS, self.show_again)

    def on_key(self, event: events.Key) -> None:
        """Leave word of where the key was pressed, for the application: a dialog may be on top by then."""
        event.set_sender(self)

    async def _keep_fresh(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            asked, self._asked = self._asked, []
            try:
                await self.read_again()
            except TandemError as error:
                self.show_trouble(texts.refusal(error))
            except (NoMatches, MountError, Tabs.TabError):
                # The answer came while the screen was being taken apart.
                if not self._is_gone:
                    raise
                return
            finally:
                for one in asked:
                    one.set()
            # However much happens: one reading at a time, and time to draw it.
            await asyncio.sleep(_BREATH_SECONDS)

    @property
    def _is_gone(self) -> bool:
        app = host(self)
        return not app.is_running or self not in app.screen_stack

    async def read_again(self) -> None:
        """Ask the broker again, and show it."""

    def show_again(self) -> None:
        """Redraw the state that is known."""

    def is_about_this(self, subjects: frozenset[str]) -> bool:  # noqa: ARG002 - the list is about everything
        """Whether events on these concern the screen."""
        return True

    def hear(self, news: WaitResult) -> None:
        """Read again if the news concerns the screen; say so if there is none."""
        self.show_trouble(news.trouble or "")
        if news.trouble is None and (news.subjects is None or self.is_about_this(news.subjects)):
            self.refresh_soon()

    def refresh_soon(self) -> None:
        """Have it read again."""
        self._due.set()

    async def refreshed(self) -> None:
        """Have it read again, and wait for that, or for word that it cannot be."""
        asked = asyncio.Event()
        self._asked.append(asked)
        self.refresh_soon()
        await asked.wait()

    def show_trouble(self, trouble: str) -> None:
        """Show a problem; empty hides it."""
        self._note("#trouble", trouble)

    def _note(self, name: str, text: str) -> None:
        for note in self.query(name).results(Static):
            note.update(visible(text))
            note.display = bool(text)

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
        host(self).push_screen(TextDialog("Keys", help_text(*self.PARTS)))

    def action_chord(self, first: str) -> None:
        """Have the next key say what to do."""
        # Not in a dialog: a second key that comes at once would be there before it.
        said, self._second = chord(self.PARTS[0], first)
        self._note("#second", said)

    async def take_second(self, event: events.Key) -> None:
        """Take the key behind a first one, if there was one; one that means nothing there does nothing."""
        if self._second is not None:
            event.prevent_default()
            act, self._second = self._second.get(event.character or ""), None
            self._note("#second", "")
            if act:
                await self.run_action(act)

    def action_back(self) -> None:
        """Go back to the screen before."""
        host(self).pop_screen()


class ListScreen(LiveScreen):
    """Rows in sections under a headline; one row is chosen."""

    NOTHING: ClassVar[str] = ""
    """Shown when there are no rows."""

    def __init__(self, desk: ScreenClient) -> None:
        super().__init__(desk)
        self._filter = ""
        self._sections: dict[str, list[str]] = {}

    def compose(self) -> ComposeResult:
        """The list under its headline."""
        yield Static("", id="trouble", markup=False)
        yield Static("", id="headline", markup=False)
        yield OptionList(id="list", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Begin with the list."""
        self.show_trouble("")
        self._list.focus()

    @property
    def _list(self) -> OptionList:
        return self.query_one("#list", OptionList)

    @property
    def chosen(self) -> str:
        """The id of the row that is chosen; empty if there is none."""
        option = self._list.highlighted_option
        return (option.id or "") if option is not None else ""

    def show_rows(
        self, headline: str, sections: Iterable[tuple[str, str, str, Iterable[tuple[str, Text]]]], chosen: str = ""
    ) -> None:
        """Show sections by their names, titles and counts; the cursor stays on its row, or else in its section.

        Args:
            headline: The line above them.
            sections: The name of each, its title, the number in it, and its rows with their ids; a row without one is
                a heading.
            chosen: The row to choose instead; empty for none.
        """
        shown, chosen, top = self._list, chosen or self.chosen, self._list.scroll_offset.y
        before, options = self._sections, list[Option]()
        self._sections = {}
        for name, title, count, rows in sections:
            known = list(rows)
            kept = [(key, row) for key, row in known if self._filter.lower() in row.plain.lower()]
            if kept:
                self._sections[name] = [key for key, _ in kept if key]
                shown_of = f"{len(kept)} of {len(known)}" if self._filter else count
                options.append(Option(Text(f"{title} ({shown_of})", style="bold"), disabled=True))
                options += (Option(row, id=key or None, disabled=not key) for key, row in kept)
        shown.set_options(options or [Option(Text(self.NOTHING, style="dim"), disabled=True)])
        wanted = _nearest(chosen, before, self._sections)
        shown.highlighted = next((at for at, one in enumerate(shown.options) if one.id == wanted), None)
        shown.scroll_to(y=top, animate=False)
        where = f"  ·  only with '{self._filter}'" if self._filter else ""
        self.query_one("#headline", Static).update(visible(headline + where))

    def on_option_list_option_selected(self) -> None:
        """Open the row that was clicked."""
        self.action_open()

    def action_open(self) -> None:
        """Open the chosen row."""

    def action_search(self) -> None:
        """Ask which rows to show."""

        def ended(text: str | None) -> None:
            if text is not None:
                self._filter = text
                self.show_again()

        host(self).push_screen(LineDialog("Show only rows with this text; empty for all", self._filter), ended)

    def action_step(self, by: int) -> None:
        """Choose the next row, or the previous one."""
        (self._list.action_cursor_down if by > 0 else self._list.action_cursor_up)()

    def action_jump(self, to: int) -> None:
        """Choose the last row (1), or the first one (-1)."""
        (self._list.action_last if to > 0 else self._list.action_first)()


def _nearest(chosen: str, before: Mapping[str, list[str]], now: Mapping[str, list[str]]) -> str | None:
    """The row to choose: the same, or the one in its place in its section, or the first."""
    rows = [key for keys in now.values() for key in keys]
    if chosen in rows:
        return chosen
    section = next((name for name, keys in before.items() if chosen in keys), "")
    left = now.get(section, rows)
    at = before[section].index(chosen) if left is not rows else 0
    return left[min(at, len(left) - 1)] if left else None
