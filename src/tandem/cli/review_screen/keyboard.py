"""The keys of the screens, as the table of all keys has them: bindings, two keys one after the other, and the help."""

from __future__ import annotations

from collections.abc import Mapping

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from tandem.present import keys


def bindings(screen: str) -> list[BindingType]:
    """The bindings of a screen, or of a part of one."""
    found: dict[str, BindingType] = {}
    for one in keys.of_screens(screen):
        for pressed, act in one.bound():
            first, *more = pressed.split()
            key = first if len(first) == 1 else first.lower()
            does = one.in_footer or one.does
            found[key] = Binding(key, f"chord('{first}')" if more else act, does, show=bool(one.in_footer))
    return list(found.values())


def help_text(*screens: str) -> str:
    """The keys of screens under their headings."""
    groups = [
        (group, [(", ".join(key.replace(" ", "") for key, _ in one.bound()), one.does) for one in found])
        for group, found in keys.grouped(*screens)
    ]
    width = max(len(names) for _, rows in groups for names, _ in rows)
    return "\n\n".join(
        "\n".join([group, *(f"  {names:<{width}}  {does}" for names, does in rows)]) for group, rows in groups
    )


class KeyDialog(ModalScreen[str]):
    """Waits for a key; ends with its meaning, or with nothing."""

    def __init__(self, said: str, answers: Mapping[str, str]) -> None:
        super().__init__()
        self._said, self._answers = said, answers

    def compose(self) -> ComposeResult:
        """What the keys do."""
        with Vertical(id="dialog"):
            yield Static(self._said, markup=False)

    def on_key(self, event: events.Key) -> None:
        """Take the key."""
        event.stop()
        self.dismiss(self._answers.get(event.character or "", ""))


def confirm(question: str) -> KeyDialog:
    """Asks whether to go on: ends with `yes`, or with nothing."""
    return KeyDialog(f"{question}\n\ny  Yes    any other key  No", {"y": "yes"})


def chord(screen: str, first: str) -> tuple[str, dict[str, str]]:
    """What the keys behind a first one do, in words, and the act of each."""
    found = [one for one in keys.of_screens(screen) if f"{first} " in one.keys]
    acts = {key[2:]: act for one in found for key, act in one.bound() if key.startswith(f"{first} ")}
    return "    ".join(f"{one.keys}  {one.does}" for one in found), acts
