"""A reviewer that comes by itself: the clients that could be it, and the broker that takes the choice up."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from tandem.bridge.messages import as_object
from tandem.pool.reviewers import providers
from tandem.pool.reviewers.providers.clean_room import SAVED, looking
from tandem.pool.rules import LOGINS
from tandem.setup.background import ask
from tandem.setup.clients import CLIENTS

TAKE_UP_SECONDS: Final = 20.0
"""How long a broker that runs has to read the file and start its supervisor."""

_LOOK_SECONDS = 0.1
_AGAIN = "tandem down && tandem up --background"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A client that could review.

    Attributes:
        provider: Its name in the settings, and that of its program.
        title: As people call it.
        program: Where its program is on PATH; None if it is not.
        login: `SAVED`, or the variable with its key; None if neither is found.
        proposes: Whether it is the client whose changes are reviewed.
    """

    provider: str
    title: str
    program: str | None
    login: str | None
    proposes: bool

    @property
    def is_ready(self) -> bool:
        """Whether it could review here."""
        return self.program is not None and self.login is not None

    def standing(self) -> str:
        """How it stands, in a few words."""
        if self.program is None:
            return f"{self.title}: not installed"
        if self.login is None:
            what = " for the model's service (--model SERVICE/MODEL)" if self.provider == "opencode" else ""
            return f"{self.title}: installed, no login found{what}; {LOGINS[self.provider]}"
        return f"{self.title}: installed, {'probably logged in' if self.login == SAVED else f'{self.login} is set'}"


def candidates(environment: Mapping[str, str], proposers: Collection[str], model: str | None) -> list[Candidate]:
    """The clients that Tandem can run as reviewers, the one to propose first.

    That is one that is installed and logged in, and does not propose itself, if there is one.

    Args:
        environment: The user's variables.
        proposers: The clients of the repository's agents; the first of them counts as the proposer.
        model: The model, where one was named.
    """
    titles = {client.name: client.title for client in CLIENTS}
    found = [
        Candidate(
            name,
            titles[name],
            shutil.which(name, path=environment.get("PATH")),
            providers.provider(name).login(looking(environment, model)),
            name in [*proposers][:1],
        )
        for name in providers.NAMES
        if name in LOGINS
    ]
    return sorted(found, key=lambda one: (not one.is_ready, one.proposes))


async def taken_up(url: str, provider: str) -> list[str]:
    """What a person should know of the broker that reads the choice now: nothing where it has taken it up.

    Args:
        url: Where the broker answers.
        provider: The program that reviews.
    """
    deadline = time.monotonic() + TAKE_UP_SECONDS
    while True:
        facts = as_object((await asyncio.to_thread(ask, url, "GET", "/healthz"))[1].get("data")) or {}
        if str(facts.get("reviewer_pool")).startswith(f"{provider},"):
            missing = facts.get("program_missing")
            where = f"The broker does not find '{missing}' on its own PATH. In a shell that does: {_AGAIN}"
            return [where] if missing else []
        if time.monotonic() > deadline:
            why = facts.get("settings_problem") or "it was started with other settings in its environment, or is older"
            return [f"The broker at {url} has not taken it up: {why.rstrip('.')}. Start it again: {_AGAIN}"]
        await asyncio.sleep(_LOOK_SECONDS)
