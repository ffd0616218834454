"""The proof that a person has answered: a keyed hash of what they let through, made by the process that asked.

The broker leaves the key in its data folder, readable for its user alone, and takes no override without the proof. A
person whose broker is on another machine seals with their access token instead. It holds against whoever calls the
operation, writes a record or runs our commands; not against a program of the same user that reads the key.
"""

from __future__ import annotations

import json
import os
import re

from tandem.bridge.credentials import NoToken, stated_token

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tandem.hooks.state import GateFile

FILE = "person.key"
"""In the broker's data folder; made anew from its secret at each start."""

PERSON = "person"
"""Names that key in a proof; an access token is named by its id."""

_TOKEN = re.compile(r"tdm_([0-9a-z]{18})_.+")


def key_file(gate: GateFile) -> str:
    """Where the key of a gate's broker is."""
    return os.path.join(gate.data_dir, FILE)


def keys(gate: GateFile) -> dict[str, str]:
    """What the person can seal with, by name: the broker's key, their access token; empty if they have neither."""
    found: dict[str, str] = {}
    try:
        with open(key_file(gate), encoding="ascii") as file:
            found[PERSON] = file.read().strip()
    except (OSError, ValueError):
        # The broker is on another machine, or never ran.
        pass
    try:
        token = stated_token()
    except NoToken:
        token = None
    named = _TOKEN.fullmatch(token or "")
    if token is not None and named is not None:
        from hashlib import sha256  # most commits pass without

        # As the broker knows it.
        found[f"tok_{named[1]}"] = sha256(token.encode()).hexdigest()
    return found


def prove(known: dict[str, str], facts: Sequence[str | None]) -> str:
    """The proof by each key: the broker may know one of them only."""
    return " ".join(f"{name}.{seal(key, facts)}" for name, key in known.items())


def seal(key: str, facts: Sequence[str | None]) -> str:
    """The keyed hash of an override, in hexadecimal digits.

    Args:
        key: The key.
        facts: Project, digest, id, reason, branch, time and name of the person, in this order.
    """
    import hmac  # most commits pass without

    return hmac.new(key.encode(), json.dumps(list(facts)).encode(), "sha256").hexdigest()
