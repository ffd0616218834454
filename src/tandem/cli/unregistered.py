"""What a command says in a repository that is no project."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from tandem.bridge.session import Session
from tandem.errors import InvalidInput
from tandem.git.layout import ensure_usable
from tandem.git.place import find_repository
from tandem.setup import registration


def awaited(session: Session) -> registration.Call:
    """The session's calls, for what awaits them."""

    async def call(operation: str, arguments: Mapping[str, Any]) -> Any:
        return session.data(operation, arguments)

    return call


def refuse_unregistered(session: Session) -> NoReturn:
    """Say how the repository that the command runs in becomes a project.

    Raises:
        InvalidInput: It is of none.
    """
    place = find_repository(str(Path.cwd()))
    ensure_usable(place)
    known = None
    if place is not None:
        known = registration.switch(place)
        asyncio.run(registration.refuse_gated_copy(awaited(session), place))
    # To add it would make two projects of one, where a gate has it already.
    way = "tandem gate on" if known is not None and known.enabled else "tandem project add"
    raise InvalidInput(
        f"This repository is not registered. Register it with: {way}. If it was moved: tandem project move",
        field="project",
    )
