"""Client programs that review, one module each: how they are run in a clean room, and what their output says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tandem.errors import ConfigInvalid
from tandem.reviewers import Provider
from tandem.reviewers.providers.claude import Claude
from tandem.reviewers.providers.codex import Codex
from tandem.reviewers.providers.custom import Custom
from tandem.reviewers.providers.gemini import Gemini
from tandem.reviewers.providers.opencode import Opencode

_NAMED: Final[dict[str, Callable[[tuple[str, ...]], Provider]]] = {
    "codex": Codex,
    "claude": Claude,
    "gemini": Gemini,
    "opencode": Opencode,
    "custom": Custom,
}

NAMES: Final = tuple(_NAMED)


def provider(name: str, command: tuple[str, ...] = ()) -> Provider:
    """The provider of a name.

    Args:
        name: One of `NAMES`.
        command: How its program is called, if not by its name; `custom` has no name of its own.

    Raises:
        ConfigInvalid: There is no such provider, or `custom` has no command.
    """
    make = _NAMED.get(name)
    if make is None:
        raise ConfigInvalid(
            f"There is no reviewer provider {name!r}; choose one of {', '.join(NAMES)}.",
            setting="provider",
            allowed=list(NAMES),
        )
    if not command and name == "custom":
        raise ConfigInvalid(
            "The reviewer provider 'custom' needs a command: a list of a program and its arguments.", setting="command"
        )
    return make(command or (name,))
