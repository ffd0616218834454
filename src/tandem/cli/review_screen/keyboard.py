"""The keys of the screens, as the table of all keys has them: bindings, two keys one after the other, and the help."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
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


class ChordDialog(ModalScreen[str]):
    """Waits for the key behind a first one; ends with what both do, or with nothing."""

    def __init__(self, screen: str, first: str) -> None:
        super().__init__()
        found = [(one.does, *bound) for one in keys.of_screens(screen) for bound in one.bound()]
        self._acts = {key[2:]: (act, does) for does, key, act in found if key.startswith(f"{first} ")}

    def compose(self) -> ComposeResult:
        """The keys."""
        yield Static("   ".join(f"{key}  {does}" for key, (_, does) in self._acts.items()), id="about", markup=False)

    def on_key(self, event: events.Key) -> None:
        """Take the second key."""
        event.stop()
        self.dismiss(self._acts.get(event.character or "", ("", ""))[0])
