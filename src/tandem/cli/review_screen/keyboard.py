"""The keys of the screens, as the table of all keys has them: bindings, two keys one after the other, and the help."""

from __future__ import annotations

from textual.binding import Binding, BindingType

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


def chord(screen: str, first: str) -> tuple[str, dict[str, str]]:
    """What the keys behind a first one do, in words, and the act of each."""
    found = [one for one in keys.of_screens(screen) if f"{first} " in one.keys]
    acts = {key[2:]: act for one in found for key, act in one.bound() if key.startswith(f"{first} ")}
    return "    ".join(f"{one.keys}  {one.does}" for one in found), acts
