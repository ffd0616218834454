"""Requests that did not reach the broker at once: kept in the common git folder, delivered at the next occasion.

One request a file in `tandem/pending/`, in the order of their names. Each is of a kind whose repetition has one
effect, so that two processes that deliver at once, or one that ends in the middle, do no harm.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from functools import partial
from itertools import dropwhile

from tandem.core.files import write_atomically
from tandem.core.visible import say, visible_line
from tandem.rulings import proof
from tandem.rulings.ask import GateClient
from tandem.rulings.broker_errors import Refused, Unreachable

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from typing import Any

    from tandem.rulings.state import GateFile, HookRepository

FOLDER = "pending"
REFUSED_FOLDER = "undeliverable"
SUBMITTING = "create_review"
_KEPT = ("override_gate", "record_commit", "set_gate", SUBMITTING)
"""The operations that hooks and `tandem gate off` keep; nothing else is delivered."""

_SEAL = "seal"
_ENDING = ".json"
_REASON = ".txt"


def keep(place: HookRepository, operation: str, arguments: dict[str, Any], agent: str | None = None) -> None:
    """Remember a request, so that it survives this process.

    Args:
        place: The repository.
        operation: Its name.
        arguments: With what, the project aside.
        agent: On whose behalf; None for the hook itself.

    Raises:
        OSError: It cannot be written.
    """
    folder = os.path.join(place.folder, FOLDER)
    os.makedirs(folder, exist_ok=True)
    name = f"{time.time_ns():020d}-{os.urandom(4).hex()}{_ENDING}"
    content = json.dumps({"operation": operation, "arguments": arguments, "agent": agent})
    write_atomically(os.path.join(folder, name), content.encode())


def sealed(gate: GateFile, arguments: dict[str, Any]) -> dict[str, Any]:
    """A submission with a seal by the keys of its author, under whose name alone it is delivered."""
    return {**arguments, _SEAL: proof.prove(proof.keys(gate.data_dir), [gate.project, arguments])}


def waiting(place: HookRepository) -> list[str]:
    """The files of the requests that wait, oldest first."""
    return _records(place, FOLDER)


def _records(place: HookRepository, name: str) -> list[str]:
    folder = os.path.join(place.folder, name)
    try:
        return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(_ENDING))
    except OSError:
        return []


def deliver(gate: GateFile) -> int:
    """Send the broker every waiting request, and forget it; a refused one is set aside, never tried again.

    Returns:
        How many requests still wait, because no broker answers, or it lets us in only with an access token.
    """
    left = dropwhile(partial(_delivered, gate), waiting(gate.place))
    return sum(1 for _ in left)


def _delivered(gate: GateFile, file: str) -> bool:
    """Whether a request need not be sent again."""
    request: dict[str, Any] = {}
    try:
        with open(file, encoding="utf-8") as stream:
            request = json.loads(stream.read())
        if _is_overtaken(gate, request):
            say("A record that switches the gate off at the broker is dropped, as the gate is on here.")
        else:
            with GateClient(gate, request.get("agent")) as asker:
                asker.call(request["operation"], **request["arguments"])
    except Unreachable:
        return False
    except FileNotFoundError:
        # Somebody else has delivered it.
        return True
    except Refused as refusal:
        if refusal.wants_token:
            return False
        _set_aside(gate.place, file, request, str(refusal))
        return True
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        _set_aside(gate.place, file, {}, "It is not what a hook writes.")
        return True
    # Somebody else may have delivered it too.
    with suppress(OSError):
        os.unlink(file)
    return True


def _is_overtaken(gate: GateFile, request: dict[str, Any]) -> bool:
    """Whether a record switches off a gate that was switched on again.

    Raises:
        ValueError: No hook keeps such a record: its author would act with the authority of the deliverer.
    """
    is_switch = request["operation"] == "set_gate"
    if request["operation"] == SUBMITTING:
        stated = request["arguments"].pop(_SEAL)
        own = sealed(gate, request["arguments"])[_SEAL]
        if own and not {*own.split()} & {*stated.split()}:
            raise ValueError(stated)
    if request["operation"] not in _KEPT or (is_switch and request["arguments"]["enabled"] is not False):
        raise ValueError(request["operation"])
    return is_switch and gate.enabled


def _set_aside(place: HookRepository, file: str, request: dict[str, Any], why: str) -> None:
    """Keep a record that does not count, with the reason beside it, and say so."""
    folder = os.path.join(place.folder, REFUSED_FOLDER)
    kept = os.path.join(folder, os.path.basename(file))
    try:
        os.makedirs(folder, exist_ok=True)
        os.replace(file, kept)
        write_atomically(kept.removesuffix(_ENDING) + _REASON, why.encode("utf-8", "replace"))
    except OSError:
        with suppress(OSError):
            os.unlink(file)
    say(f"A record that waited for the broker ({request.get('operation', 'unknown')}) is refused: {why}", kept)


def refused(place: HookRepository) -> list[str]:
    """The waiting requests that the broker has refused: each file with the reason, oldest first."""
    files = _records(place, REFUSED_FOLDER)
    return [visible_line(f"{file}: {_reason(file.removesuffix(_ENDING) + _REASON)}") for file in files]


def _reason(file: str) -> str:
    try:
        with open(file, encoding="utf-8") as stream:
            return stream.read()
    except (OSError, ValueError):
        return "the broker refused it"
