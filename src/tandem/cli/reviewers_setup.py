"""`tandem reviewers setup`, and the question of `tandem init`: choose the program that reviews by itself."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated

from tandem.bridge.location import BrokerLocation
from tandem.cli.declared import Option
from tandem.cli.persons import confirm, refuse_agents
from tandem.cli.reviewer_candidates import Candidate, candidates, taken_up
from tandem.cli.terminal import Declined, EnvelopeOption, Exit, progress, say, show_data
from tandem.client import TandemClient
from tandem.core.visible import visible
from tandem.errors import InvalidInput, NotFound, TandemError
from tandem.pool.reviewers.providers.clean_room import SAVED
from tandem.rulings.person import agent_mark, is_at_terminal
from tandem.settings import writing
from tandem.settings.config import load_settings, user_file
from tandem.settings.pool import THROUGH_WSL
from tandem.setup.background import find_broker
from tandem.setup.clients import Program, Site, find_clients, home_folder

_COSTS = (
    "A review of some hundred lines costs about $0.23 with a key (an estimate), or a part of a subscription's limits."
    " The pool pauses when a day has cost 20 dollars or 20 million tokens; budget_per_day sets another limit."
)
_LATER = "No reviewer comes by itself: a person chooses one with 'tandem reviewers setup'."
_UNPROVED = (
    "It takes effect at the next start, as the table has settings that no person was shown, or there is no key of the"
    " broker: tandem down && tandem up --background. At a terminal, without --yes, the command shows them."
)
_SHORT_LOGIN = "A reviewer can use this login of Claude Code for some hours; for one that lasts: claude setup-token"


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
    chosen = candidates(os.environ, clients, None)[0]
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


def _chosen(provider: str | None, clients: Collection[str], model: str | None) -> tuple[Candidate, list[Candidate]]:
    """The client that was named, else the one to propose; and all.

    Raises:
        InvalidInput: There is no client of that name.
        NotFound: None was named, and none is installed and logged in.
    """
    found = candidates(os.environ, clients, model)
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


def _written(chosen: Candidate, model: str | None) -> str:
    return writing.with_reviewer(writing.read(), chosen.provider, model)


def _ask(chosen: Candidate, content: str) -> None:
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


async def _notes(chosen: Candidate, broker: BrokerLocation | None, *, is_new: bool, is_proved: bool) -> list[str]:
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
        notes += await taken_up(broker.url, chosen.provider)
    if chosen.login not in {None, SAVED} and not is_new:
        notes.append(
            f"The broker has to have {chosen.login} in its environment, too. If it was started without:"
            " tandem down && tandem up --background"
        )
    return notes
