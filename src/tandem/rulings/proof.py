"""The proof that a person has answered: a keyed hash of their decision, made by the process that asked.

The broker leaves the key in its data folder, readable for its user alone. Without the proof it takes no override, and
nothing that loosens a gate. A person whose broker is on another machine seals with their access token instead. It holds
against everyone who calls the operation, writes a record or runs our commands; not against a program of the same user
that reads the key.
"""

from __future__ import annotations

import hmac
import json
import os
import re

from tandem.bridge.credentials import NoToken, stated_token
from tandem.core.stand_ins import hex_digest
from tandem.rulings.state import FOLLOWED, FREE, REVIEWED

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from tandem.rulings.state import GateFile

FILE = "person.key"
"""In the broker's data folder; derived again from its secret at each start."""

PERSON = "person"
"""Names that key in a proof; an access token is named by its id."""

_TOKEN = re.compile(r"tdm_([0-9a-z]{18})_.+")


def key_file(data_dir: str) -> str:
    """Where the key of a gate's broker is."""
    return os.path.join(data_dir, FILE)


def keys(data_dir: str) -> dict[str, str]:
    """The keys of the person's seal, by name: the broker's key, their access token; empty if they have neither."""
    found: dict[str, str] = {}
    try:
        with open(key_file(data_dir), encoding="ascii") as file:
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
        # As the broker knows it.
        found[f"tok_{named[1]}"] = hex_digest(token.encode())
    return found


def lacks_key(data_dir: str) -> str:
    """The advice where `keys` finds none."""
    return (
        f"The broker takes this only with the proof that a person answered, and the key for it is not in"
        f" {key_file(data_dir)}. Start the broker of that folder, or set TANDEM_TOKEN to your own access token."
    )


def prove(known: dict[str, str], facts: Sequence[object]) -> str:
    """The proof by each key: the broker may know one of them only."""
    return " ".join(f"{name}.{seal(key, facts)}" for name, key in known.items())


_SWITCH = ("since", "enabled", "branches", "accepted", "folder", "trusted", "reason", "signers", "commits", "threshold")


def switch_facts(project: str, request: Mapping[str, Any]) -> list[object]:
    """The sealed facts of a `set_gate`; `since` names the gate that it changes, so that the proof holds once."""
    return ["set_gate", project, *(request.get(name) for name in _SWITCH)]


def proved(gate: GateFile, project: str, **request: Any) -> dict[str, Any]:
    """The request of `set_gate` by a command that a person runs, with the proof as far as they can seal it.

    Args:
        gate: The switch, for the key.
        project: The project.
        request: The fields of the request, None for one that is left out.
    """
    stated = {"project": project} | {name: value for name, value in request.items() if value is not None}
    made = prove(keys(gate.data_dir), switch_facts(project, stated))
    return stated | ({"proof": made} if made else {})


_ON, _OFF = "more", "less"
_LOOSENS = (
    # A fact of a gate, whether more or less of it lets more through, whether also where the gate is off, in words.
    ("enabled", _OFF, False, "nothing that is committed would need an approval"),
    ("branches", _OFF, False, "{} would no longer be a base branch"),
    ("branches", _ON, False, "{} would become a base branch, and its commits so far would never be judged"),
    ("accepted", _ON, False, "{} would be taken as it is, with all before it"),
    ("trusted", _ON, False, "{} would count in full"),
    ("signers", _ON, True, "content signed by {} would pass"),
    ("folders", _ON, True, "the gate that is on in {} would make way for another project's"),
    ("project", _ON, False, "another project's approvals would count: {}"),
    ("broker", _ON, False, "another broker would be asked: {}"),
    ("data_dir", _ON, False, "the broker on another data folder would be asked: {}"),
    ("config_dir", _ON, False, "another folder's settings would hold: {}"),
    ("plans", _OFF, False, "agents could write plans that are not approved"),
    ("commits", _ON, False, "commits on other branches would pass {}"),
    ("threshold", _ON, True, "open findings of severity {} would keep no approval back"),
)
PASSING = {REVIEWED: (), FOLLOWED: ("before their review",), FREE: ("before their review", "without a review")}
"""By the gate's word for commits on other branches, how they pass, as a fact of that table."""


def loosened(
    before: Mapping[str, Iterable[str]], after: Mapping[str, Iterable[str]], *, is_on: bool = True
) -> list[str]:
    """How a change loosens a gate, a phrase each: a person decides it, at a terminal.

    The one table of that. The broker compares its record, the commands the record in the git folder.

    Args:
        before: The gate as it is, by the names of the table.
        after: The same of the gate as it would be; a name that is left out is not compared.
        is_on: Whether the gate is on before.
    """
    found: list[str] = []
    for name, kind, is_always, words in _LOOSENS:
        if name in after and (is_on or is_always):
            sides = (set(before.get(name, ())), set(after[name]))
            gained = sides[1] - sides[0] if kind == _ON else sides[0] - sides[1]
            found += [words.format(one) for one in sorted(gained)]
    return found


def settled_facts(project: str, review_id: str, head: str, reason: str | None) -> list[object]:
    """The sealed facts where a person says that a review's rejection is settled."""
    return ["record_rollback", project, review_id, head, reason]


def verdict_facts(request: Mapping[str, Any]) -> list[object]:
    """The sealed facts of a `submit_verdict`, where a person gives a verdict by a command."""
    return ["submit_verdict", *(request.get(name) for name in ("review_id", "verdict", "reviewer_id", "reason"))]


def waiver_facts(review_id: str, need: str, number: int, until: str, by: str | None, reason: str) -> list[object]:
    """The facts of a person who waives a requirement for a round by a command."""
    return ["waive_requirement", review_id, need, number, until, by, reason]


def settling_facts(review_id: str, need: str | None, verdict: str, by: str | None, reason: str | None) -> list[object]:
    """The facts of a person who reviews a waived requirement by a command."""
    return ["settle_waiver", review_id, need, verdict, by, reason]


def opening(key: str, at: int) -> dict[str, str]:
    """The query of a link by which a person has a browser opened, at a time in microseconds since the epoch."""
    return {"proof": seal(key, ["open", at]), "at": str(at)}


def seal(key: str, facts: Sequence[object]) -> str:
    """The keyed hash of what a person decided, in hexadecimal digits.

    Args:
        key: The key.
        facts: Of an override project, digest, id, reason, branch, time and name of the person, in this order; of a
            switch those of `switch_facts`; of a rejection those of `settled_facts`.
    """
    return hmac.new(key.encode(), json.dumps(list(facts)).encode(), "sha256").hexdigest()
