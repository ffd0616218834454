"""Client programs that review, one module each: how they are run in a clean room, and what their output says."""

from __future__ import annotations

from typing import Final

from tandem.pool.reviewers.providers.claude import Claude
from tandem.pool.reviewers.providers.clean_room import Provider
from tandem.pool.reviewers.providers.codex import Codex
from tandem.pool.reviewers.providers.custom import Custom
from tandem.pool.reviewers.providers.gemini import Gemini
from tandem.pool.reviewers.providers.opencode import Opencode

_PROVIDERS: Final[dict[str, type[Provider]]] = {one.name: one for one in (Codex, Claude, Gemini, Opencode, Custom)}

NAMES: Final = tuple(_PROVIDERS)


def provider(name: str, command: tuple[str, ...] = ()) -> Provider:
    """The provider of one of `NAMES`, with how its program is called, if not by its name."""
    return _PROVIDERS[name](command or (name,))
