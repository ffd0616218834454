"""`post-commit` and `post-rewrite`: what was committed, for a plan whose reviews come after its commits."""

from __future__ import annotations

import os

from tandem.core.visible import say
from tandem.rulings import enforcement, git, message, pending
from tandem.rulings.ask import GateClient, Refused, Unreachable

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from typing import Any

    from tandem.rulings.state import GateFile, HookRepository

OPERATION = "record_commit"
_LAST_BYTES = 10_000
_MOST_REWRITTEN = 500
_LATER = "The commit is recorded once the broker can be told."
"""Of one rebase; what goes beyond is found by its trailers."""


def committed(gate: GateFile) -> int:
    """Record HEAD; the commit is made, so nothing that goes wrong here is more than told."""
    place = gate.place
    branch = git.branch(place)
    if enforcement.enforcement(gate, branch) == enforcement.STRICT or git.rebased(place) is not None:
        # What a rebase makes is told at its end, as what it became of what.
        return 0
    head = git.head(place)
    if head is not None:
        _tell(gate, [request(place, head, branch, replaces=_amended(place, head))])
    return 0


def rewritten(gate: GateFile, stdin: bytes) -> int:
    """Record what an amend or a rebase made of commits.

    Args:
        gate: The switch.
        stdin: Git's list: the old id and the new one, a line each.
    """
    place = gate.place
    branch = git.branch(place)
    if enforcement.enforcement(gate, branch) == enforcement.STRICT:
        return 0
    pairs = [line.split()[:2] for line in stdin.decode("ascii", "replace").splitlines()]
    made = [(pair[0], pair[1]) for pair in pairs[:_MOST_REWRITTEN] if len(pair) == 2 and pair[0] != pair[1]]  # noqa: PLR2004 old and new
    _tell(gate, [request(place, new, branch, replaces=old) for old, new in made])
    return 0


def _amended(place: HookRepository, head: str) -> str | None:
    """The commit that HEAD was made from by an amend; null if it was not, or git keeps no log."""
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


def request(place: HookRepository, commit: str, branch: str | None, replaces: str | None = None) -> dict[str, Any]:
    """What `record_commit` is told of a commit.

    Raises:
        TandemError: It cannot be read.
    """
    from tandem.rulings import plans  # strict projects do without it

    parents, text = git.read_commit(place, commit)
    belongs = message.belonging(message.subject(text))
    named = message.values(text, message.REVIEW)
    parent = parents[0] if parents else None
    changes = git.between(place, parent or git.empty_tree(place), commit)
    belongs = plans.with_task(place, belongs, [change["path"] for change in changes], parent)
    stated: dict[str, Any] = {
        "commit": commit,
        "parent": parent,
        "branch": branch,
        "phase": belongs.get("phase"),
        "plan": message.plan_key(belongs.get("phase"), belongs.get("plan"), branch),
        "task": belongs.get("task"),
        "review_ids": [name for name in named if name != message.UNREVIEWED],
        "unreviewed": message.UNREVIEWED in named,
        "replaces": replaces,
        "depends_on": message.values(text, message.DEPENDS_ON),
        "changes": changes,
    }
    return {name: value for name, value in stated.items() if value is not None}


def _tell(gate: GateFile, requests: list[dict[str, Any]]) -> None:
    """Record commits, those first that could not be recorded earlier."""
    if pending.deliver(gate):
        _keep(gate, requests, _LATER)
        return
    with GateClient(gate) as asker:
        for at, facts in enumerate(requests):
            try:
                asker.call(OPERATION, **facts)
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
        pending.keep(gate.place, OPERATION, facts)
    say(told)
