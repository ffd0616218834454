"""`tandem reviewers setup`, and the question of `tandem init`: choose the program that reviews by itself."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Annotated, Final

from tandem.bridge.location import BrokerLocation
from tandem.bridge.messages import as_object
from tandem.cli.declared import Option
from tandem.cli.persons import confirm, refuse_agents
from tandem.cli.terminal import Declined, EnvelopeOption, Exit, progress, say, show_data
from tandem.client import TandemClient
from tandem.core.visible import visible
from tandem.errors import InvalidInput, NotFound, TandemError
from tandem.pool.reviewers import providers
from tandem.pool.reviewers.providers.clean_room import SAVED, looking
from tandem.pool.rules import LOGINS
from tandem.rulings.person import agent_mark, is_at_terminal
from tandem.settings import writing
from tandem.settings.config import load_settings, user_file
from tandem.settings.pool import THROUGH_WSL
from tandem.setup.background import ask, find_broker
from tandem.setup.clients import CLIENTS, Program, Site, find_clients, home_folder

_COSTS = (
    "A review of some hundred lines costs about $0.23 with a key (an estimate), or a part of a subscription's limits."
    " The pool pauses when a day has cost 20 dollars or 20 million tokens; budget_per_day sets another limit."
)
_LATER = "No reviewer comes by itself: a person chooses one with 'tandem reviewers setup'."
_AGAIN = "tandem down && tandem up --background"
_UNPROVED = (
    "It takes effect at the next start, as the table has settings that no person was shown, or there is no key of the"
    f" broker: {_AGAIN}. At a terminal, without --yes, the command shows them."
)
_SHORT_LOGIN = "A reviewer can use this login of Claude Code for some hours; for one that lasts: claude setup-token"

_TAKE_UP_SECONDS: Final = 20.0
"""How long a broker that runs has to read the file and start its supervisor."""

_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class _Candidate:
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


async def setup(
    *,
    provider: Annotated[
        str | None, Option(metavar="NAME", help="Have this one review: opencode, gemini, claude, codex.")
    ] = None,
    model: Annotated[
        str | None, Option(metavar="NAME", help="Its model, in its own words; SERVICE/MODEL for opencode.")
    ] = None,
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: EnvelopeOption = False,
) -> Exit:
    """Choose the program that reviews when a proposal waits, and have the running broker start it.

    Finds the clients that are installed and logged in, by their programs, files and keys, and proposes one that does
    not propose the changes itself. Writes the table reviewer_pool of your own configuration, and keeps its comments.
    """
    refuse_agents("Have a program review by itself, at its owner's cost?")
    if THROUGH_WSL:
        raise InvalidInput("On Windows reviewers run in WSL: write [reviewer_pool] yourself, workspace_wsl_path too.")
    load_settings()
    chosen, all_ = _chosen(provider, _installed(), model)
    content, before = _written(chosen, model), writing.read()
    if not yes:
        _ask(chosen, content)
    is_proved = writing.write(content, asked=not yes)
    found = await find_broker(None, ".")
    notes = await _notes(chosen, found, is_new=False, is_proved=is_proved)
    if as_json:
        facts = {"file": str(user_file()), "changed": content != before, "broker": found and found.url, "notes": notes}
        show_data({**asdict(chosen), **facts, "candidates": [*map(asdict, all_)]})
        return Exit.DONE
    say(f"{chosen.title} reviews: {user_file()}" + ("" if content != before else " says so already"))
    say(*(f"note: {note}" for note in notes))
    return Exit.DONE


async def offer(clients: Collection[str], broker: BrokerLocation, *, is_new: bool, asks: bool) -> list[str]:
    """Offer the person who sets a repository up a reviewer, where none is configured; gives the notes.

    Args:
        clients: The clients that were set up.
        broker: The broker.
        is_new: Whether it was started just now, with this command's environment.
        asks: Whether a question may be asked.
    """
    loaded = load_settings()
    if not broker.is_own or THROUGH_WSL or loaded.settings.reviewer_pool.enabled:
        return []
    if loaded.origins["reviewer_pool"] != "default":
        return [f"The reviewer pool is off in {loaded.origins['reviewer_pool']}. {_LATER}"]
    async with TandemClient(broker) as client:
        with suppress(TandemError):  # a token may not be allowed to look
            if any(one.state not in {"ended", "lost"} for one in (await client.list_reviewers()).pools):
                return []
    chosen = _candidates(os.environ, clients, None)[0]
    if not (chosen.is_ready and asks and agent_mark() is None and is_at_terminal()):
        return [_LATER]
    content = _written(chosen, None)
    try:
        _ask(chosen, content)
    except Declined:
        return [_LATER]
    is_proved = writing.write(content, asked=True)
    return [f"{chosen.title} reviews: {user_file()}", *await _notes(chosen, broker, is_new=is_new, is_proved=is_proved)]


def _installed() -> list[str]:
    site = Site(user_file().parent, home_folder(), Program(()), os.environ)
    return [one.client.name for one in find_clients(site) if one.is_installed]


def _chosen(provider: str | None, clients: Collection[str], model: str | None) -> tuple[_Candidate, list[_Candidate]]:
    """The client that was named, else the one to propose; and all.

    Raises:
        InvalidInput: There is no client of that name.
        NotFound: None was named, and none is installed and logged in.
    """
    found = _candidates(os.environ, clients, model)
    if provider is None and found[0].is_ready:
        return found[0], found
    if provider is None:
        stand = "; ".join(one.standing() for one in found)
        raise NotFound(
            f"No client that could review is installed and logged in here ({stand}). Install one and log it in, or"
            " name one with --provider; until then a person reviews: tandem open"
        )
    named = [one for one in found if one.provider == provider]
    if not named:
        names = [one.provider for one in found]
        raise InvalidInput(
            f"There is no reviewer {provider!r}; choose from {', '.join(names)}.", field="provider", allowed=names
        )
    if provider == "opencode" and "/" not in (model or ""):
        raise InvalidInput("OpenCode needs a model: --model SERVICE/MODEL.", field="model")
    return named[0], found


def _written(chosen: _Candidate, model: str | None) -> str:
    return writing.with_reviewer(writing.read(), chosen.provider, model)


def _ask(chosen: _Candidate, content: str) -> None:
    """Go on only if the person wants this reviewer.

    Raises:
        Declined: They do not.
        InvalidInput: There is no terminal.
    """
    room = "in a clean room, as a session of its own" if chosen.proposes else "when a proposal waits"
    lines = [
        f"{chosen.standing()}. Have it review by itself, {room}?",
        _COSTS,
        *([_SHORT_LOGIN] if (chosen.provider, chosen.login) == ("claude", SAVED) else []),
        f"{user_file()} would say:",
        *(f"    {visible(line)}" for line in writing.pool_table(content).splitlines()),
        "Go on?",
    ]
    unasked = InvalidInput("There is no terminal to ask at. Run it with --yes.", field="yes")
    confirm("\n".join(lines), unasked=unasked)


async def _notes(chosen: _Candidate, broker: BrokerLocation | None, *, is_new: bool, is_proved: bool) -> list[str]:
    """What a person should know now: of the login, and of the broker, which takes the choice up first."""
    notes: list[str] = []
    if not chosen.is_ready:
        notes.append(f"{chosen.standing()}.")
    if broker is None or broker.url is None:
        return [*notes, "No broker runs: the next start takes it up."]
    if not broker.is_own:
        return [*notes, f"The broker at {broker.url} is not the one of this configuration, and does not take it up."]
    if not is_proved:
        return [*notes, _UNPROVED]
    with progress("waiting for the broker to take it up"):
        notes += await _taken_up(broker.url, chosen.provider)
    if chosen.login not in {None, SAVED} and not is_new:
        notes.append(
            f"The broker has to have {chosen.login} in its environment, too. If it was started without: {_AGAIN}"
        )
    return notes


def _candidates(environment: Mapping[str, str], proposers: Collection[str], model: str | None) -> list[_Candidate]:
    """The clients that Tandem can run as reviewers, the one to propose first.

    That is one that is installed and logged in, and does not propose itself, if there is one.

    Args:
        environment: The user's variables.
        proposers: The clients of the repository's agents; the first of them counts as the proposer.
        model: The model, where one was named.
    """
    titles = {client.name: client.title for client in CLIENTS}
    found = [
        _Candidate(
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


async def _taken_up(url: str, provider: str) -> list[str]:
    """What a person should know of the broker that reads the choice now: nothing where it has taken it up.

    Args:
        url: Where the broker answers.
        provider: The program that reviews.
    """
    deadline = time.monotonic() + _TAKE_UP_SECONDS
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
