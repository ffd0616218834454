"""`post-commit` and `post-rewrite`: the new commits of a plan whose reviews come after its commits."""

from __future__ import annotations

import os
import sys

from tandem.core.visible import say
from tandem.rulings import git, pending, planning
from tandem.rulings.ask import GateClient
from tandem.rulings.broker_errors import Refused, Unreachable
from tandem.rulings.plans import RECORDING, record_request

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tandem.rulings.state import GateFile, HookRepository

_LAST_BYTES = 10_000
_MOST_REWRITTEN = 500
"""Of one rebase; the others are found by their trailers."""

_LATER = "The commit is recorded once the broker can be told."


def committed(gate: GateFile, _arguments: Sequence[str]) -> int:
    """Record HEAD; the commit is made, so nothing that goes wrong here is more than told."""
    place = gate.place
    branch = git.branch(place)
    if planning.enforcement(gate, branch) not in planning.RECORDED or git.rebased(place) is not None:
        # The commits of a rebase are told at its end, each with the one that it replaces.
        return 0
    head = git.head(place)
    if head is not None:
        _tell(gate, [record_request(place, head, branch, replaces=_amended(place, head))])
    return 0


def rewritten(gate: GateFile, _arguments: Sequence[str]) -> int:
    """Record what an amend or a rebase made of commits: on standard input the old id and the new one, a line each."""
    stdin = sys.stdin.buffer.read()
    place = gate.place
    branch = git.branch(place)
    if planning.enforcement(gate, branch) not in planning.RECORDED:
        return 0
    pairs = [line.split()[:2] for line in stdin.decode("ascii", "replace").splitlines()]
    made = [(pair[0], pair[1]) for pair in pairs[:_MOST_REWRITTEN] if len(pair) == 2 and pair[0] != pair[1]]  # noqa: PLR2004 old and new
    _tell(gate, [record_request(place, new, branch, replaces=old) for old, new in made])
    return 0


def _amended(place: HookRepository, head: str) -> str | None:
    """The commit that HEAD was made from by an amend; None if it was not, or git keeps no log."""
    try:
        with open(os.path.join(place.git_dir, "logs", "HEAD"), "rb") as file:
            file.seek(-min(_LAST_BYTES, os.fstat(file.fileno()).st_size), os.SEEK_END)
            last = file.read().decode("utf-8", "replace").rstrip("\n").rpartition("\n")[2]
    except OSError:
        return None
    facts, _, what = last.partition("\t")
    ids = facts.split(" ")[:2]
    # The first record of a commit stands, so that post-rewrite would come too late.
    return ids[0] if ids[1:] == [head] and what.startswith("commit (amend)") else None


def _tell(gate: GateFile, requests: list[dict[str, Any]]) -> None:
    """Record commits, those first that could not be recorded earlier."""
    if pending.deliver(gate):
        _keep(gate, requests, _LATER)
        return
    with GateClient(gate) as asker:
        for at, facts in enumerate(requests):
            try:
                asker.call(RECORDING, **facts)
            except Unreachable:
                _keep(gate, requests[at:], "The broker is away: the commit is recorded when it is back.")
                return
            except Refused as error:
                say(f"The broker does not record {facts['commit'][:12]}: {error}")
                if error.wants_token:
                    _keep(gate, requests[at:], _LATER)
                    return


def _keep(gate: GateFile, requests: list[dict[str, Any]], told: str) -> None:
    for facts in requests:
        pending.keep(gate.place, RECORDING, facts)
    say(told)
