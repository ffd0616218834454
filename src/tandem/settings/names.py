"""What settings have in common: the marks of their declarations, and what a wrong one meant."""

from __future__ import annotations

import difflib
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection

    from pydantic import BaseModel


class Mark(StrEnum):
    """What a setting's declaration says of it, beside its type."""

    ADVANCED = "advanced"
    """Few need it; lists show it last, or only when asked."""

    NAMES_FILES = "names files"
    """It is a text that names files."""

    READABLE = "readable"
    """It names files that checks may read."""

    AT_ONCE = "at once"
    """It takes effect while a broker runs, which reads its file again when that changes; others need a restart."""


class Tighten(StrEnum):
    """In which direction a project's file may move a setting; one without such a mark it may not set."""

    LOWER = "a lower value than {}"
    HIGHER = "a higher value than {}"
    FULL = "to full"
    ON = "to true"
    OFF = "to false"
    LONGER = "more hours, and none left out"


def has(owner: type[BaseModel], name: str, mark: Mark) -> bool:
    """Whether a setting's declaration has a mark."""
    return mark in owner.model_fields[name].metadata


def takes_effect(owner: type[BaseModel], name: str) -> str:
    """When a change of a setting counts for a broker that runs, in words."""
    return Mark.AT_ONCE.value if has(owner, name, Mark.AT_ONCE) else "after a restart"


def direction(owner: type[BaseModel], name: str) -> Tighten | None:
    """In which direction a project's file may move a setting; None if it may not set it."""
    return next((mark for mark in owner.model_fields[name].metadata if isinstance(mark, Tighten)), None)


def loosening(owner: type[BaseModel], name: str, old: Any, new: Any) -> str | None:
    """Why a project's file may not make this change of a setting; None if the change tightens."""
    way = direction(owner, name)
    match way:
        case None:
            return "a repository may not set this"
        case Tighten.LOWER:
            is_tighter = old is None or (new is not None and new < old)
        case Tighten.HIGHER:
            is_tighter = new > old
        case Tighten.LONGER:
            is_tighter = set(old) <= set(new)
        case Tighten.FULL | Tighten.ON | Tighten.OFF:
            is_tighter = new == {Tighten.FULL: "full", Tighten.ON: True, Tighten.OFF: False}[way]
    return None if is_tighter else f"a repository may only tighten this: {way.value.format(old)}"


VARIABLES: Final = frozenset(
    {
        "agent",
        "broker",
        "browser",  # of the tests
        "checks",
        "config_dir",
        "lock_token",
        "override",
        "phase",
        "plan",
        "psk",
        "psk_file",
        "review_effort",
        "review_mcp_url",
        "review_model",
        "review_schema",
        "reviewer",
        "role",
        "run",
        "session_token",
        "setup",
        "supervisor",
        "task",
        "token",
    }
)
"""Variables, in lower case and without their prefix, that are no settings."""


def unknown(key: str, known: Collection[str]) -> str:
    """Why a name is no setting, as the end of a sentence that says where it stands.

    Args:
        key: The name.
        known: The settings that there are.
    """
    near = difflib.get_close_matches(key, known, 2)
    meant = f" Did you mean {' or '.join(map(repr, near))}?" if near else f" There are: {', '.join(sorted(known))}."
    return f"there is no setting '{key}'.{meant}"
