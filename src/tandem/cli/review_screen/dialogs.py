"""Dialogs in which a person writes, chooses or confirms. What is refused leaves them open, with everything typed."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message_pump import MessagePump
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, Label, RadioButton, RadioSet, Static, TextArea

from tandem.cli import identity
from tandem.cli.review_screen import texts
from tandem.cli.review_screen.desk import ScreenDraft
from tandem.client.session import Unreachable
from tandem.core.visible import is_blank, visible
from tandem.errors import InvalidInput, TandemError

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
        draft: Where what is typed is kept.
        send: What is done with it.
        about: What one should know before one answers.
        choices: Names of what one can choose, by their codes; the first is chosen to begin with.
        needs_text: The choices that nothing is sent for without a text.
        hint: What the text is for.
    """

    title: str
    draft: ScreenDraft
    send: Send
    about: str = ""
    choices: Mapping[str, str] = field(default_factory=dict[str, str])
    needs_text: frozenset[str] = frozenset()
    hint: str = "Reason (optional)"


class Composer(ModalScreen[bool]):
    """Asks a question; ends with true once the answer was sent, with false if it was left."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "send", "Send", priority=True),
        Binding("escape", "leave", "Back, keeping what you typed", priority=True),
    ]

    def __init__(self, question: Question) -> None:
        super().__init__()
        self._question = question
        self._codes = list(question.choices)
        self._sending = False
        self._uncertain: tuple[str, str, str] | None = None

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
                yield RadioSet(*buttons, id="choices")
            yield Label(question.hint, id="hint", markup=False)
            yield TextArea(question.draft.text, id="text", soft_wrap=True, show_line_numbers=False)
        yield Footer()

    def on_mount(self) -> None:
        """Begin where there is something to choose or to write."""
        self.query_one("#refusal").display = False
        self.query_one("#choices" if self._codes else "#text").focus()
        self._say_what_is_needed()

    @property
    def _choice(self) -> str:
        if not self._codes:
            return ""
        pressed = self.query_one(RadioSet).pressed_index
        return self._codes[max(0, pressed)]

    def on_radio_set_changed(self) -> None:
        """Keep what was chosen."""
        self._question.draft.choice = self._choice
        self._say_what_is_needed()

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Keep what was typed."""
        self._question.draft.text = event.text_area.text

    def _say_what_is_needed(self) -> None:
        question = self._question
        if self._codes:
            # Said in words as well: a terminal without colours marks the choice by them alone.
            needed = "required" if self._choice in question.needs_text else "optional"
            hint = f"{question.choices[self._choice]}. {question.hint} ({needed}):"
            self.query_one("#hint", Label).update(hint)

    def action_leave(self) -> None:
        """Go back; the draft stays."""
        self.dismiss(False)  # noqa: FBT003 - the screen's result

    def action_send(self) -> None:
        """Send it, unless it is being sent."""
        if self._sending:
            return
        text = self.query_one(TextArea).text
        if self._choice in self._question.needs_text and is_blank(text):
            self._refuse(f"{self._question.hint}: this needs one that the other side can act on.")
            self.query_one(TextArea).focus()
            return
        self._sending = True
        self.run_worker(self._send(self._choice, text), exit_on_error=False)

    async def _send(self, choice: str, text: str) -> None:
        # The same again, when nobody knows whether it arrived: the broker then does it once.
        known = self._uncertain
        key = known[2] if known and known[:2] == (choice, text) else secrets.token_hex(16)
        try:
            await self._question.send(choice, text, key)
        except Unreachable as error:
            self._uncertain = (choice, text, key)
            self._refuse(texts.refusal(error))
        except TandemError as error:
            self._uncertain = None
            self._refuse(texts.refusal(error))
        else:
            self._question.draft.clear()
            self.dismiss(True)  # noqa: FBT003 - the screen's result
        finally:
            self._sending = False

    def _refuse(self, message: str) -> None:
        shown = self.query_one("#refusal", Static)
        shown.update(visible(message))
        shown.display = True


class NameDialog(ModalScreen[str | None]):
    """Asks a person for their name; ends with it, or with null if they would rather leave."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Leave", priority=True)]

    def compose(self) -> ComposeResult:
        """The dialog."""
        with Vertical(id="dialog"):
            yield Label("Who are you?", id="title")
            yield Static(
                "Others see this name on your verdicts and messages. It is asked once; --as NAME takes another.",
                id="about",
            )
            yield Input(identity.suggested(), id="name", max_length=200)
            yield Static("", id="refusal", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Begin with the name."""
        self.query_one("#refusal").display = False

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take the name, and keep it for the next time."""
        refusal = self.query_one("#refusal", Static)
        try:
            name = identity.checked(event.value)
        except InvalidInput as error:
            refusal.update(visible(error.message))
            refusal.display = True
            return
        try:
            identity.remember(name)
        except OSError as error:
            host(self).notify(f"The name cannot be kept: {error.strerror}.", severity="warning", markup=False)
        self.dismiss(name)

    def action_leave(self) -> None:
        """End without a name."""
        self.dismiss(None)


class Confirm(ModalScreen[bool]):
    """Asks whether to go on; y is yes, everything else no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape", "answer(False)", "No"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """The dialog."""
        with Vertical(id="dialog"):
            yield Static(self._question, markup=False)
        yield Footer()

    def action_answer(self, yes: bool) -> None:  # noqa: FBT001 - the screen's result
        """End with the answer."""
        self.dismiss(yes)


class TextDialog(ModalScreen[None]):
    """A text to be read to its end."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,question_mark,q", "leave", "Back")]

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

    def action_leave(self) -> None:
        """Go back."""
        self.dismiss(None)


def keys_dialog(keys: Iterable[tuple[str, str]]) -> TextDialog:
    """A list of keys with what they do."""
    known = dict.fromkeys(keys)
    width = max(len(key) for key, _ in known)
    return TextDialog("Keys", "\n".join(f"{key:<{width}}  {does}" for key, does in known))
