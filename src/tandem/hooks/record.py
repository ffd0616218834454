"""`post-commit` and `post-rewrite`: what was committed, for a plan whose reviews come after its commits."""

from __future__ import annotations

import os

from tandem.hooks import git, message, modes, pending, plans
from tandem.hooks.ask import Asker, Refused, Unreachable
from tandem.hooks.speech import say

TYPE_CHECKING = False  # as in `jsontext`
if TYPE_CHECKING:
    from typing import Any

    from tandem.hooks.state import GateFile, Place

OPERATION = "record_commit"
_LAST_BYTES = 10_000
_MOST_REWRITTEN = 500
_LATER = "The commit is recorded once the broker can be told."
"""Of one rebase; what goes beyond is found by its trailers."""


class Commit:
    """A commit as its object tells it.

    Attributes:
        commit: Its id.
        parents: The ids of its parents.
        text: Its message.
    """

    __slots__ = ("commit", "parents", "text")

    def __init__(self, commit: str, parents: list[str], text: str) -> None:
        self.commit = commit
        self.parents = parents
        self.text = text


def committed(gate: GateFile) -> int:
    """Record HEAD; the commit is made, so nothing that goes wrong here is more than told."""
    place = gate.place
    branch = git.branch(place)
    if modes.leniency(gate, branch) == modes.STRICT or git.rebased(place) is not None:
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
    if modes.leniency(gate, branch) == modes.STRICT:
        return 0
    pairs = [line.split()[:2] for line in stdin.decode("ascii", "replace").splitlines()]
    made = [(pair[0], pair[1]) for pair in pairs[:_MOST_REWRITTEN] if len(pair) == 2 and pair[0] != pair[1]]  # noqa: PLR2004 old and new
    _tell(gate, [request(place, new, branch, replaces=old) for old, new in made])
    return 0


def _amended(place: Place, head: str) -> str | None:
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


def request(place: Place, commit: str, branch: str | None, replaces: str | None = None) -> dict[str, Any]:
    """What `record_commit` is told of a commit.

    Raises:
        GitTrouble: It cannot be read.
    """
    found = read(place, commit)
    belongs = plans.belonging(message.subject(found.text))
    named = message.values(found.text, message.REVIEW)
    parent = found.parents[0] if found.parents else None
    stated: dict[str, Any] = {
        "commit": found.commit,
        "parent": parent,
        "branch": branch,
        "phase": belongs.phase,
        "plan": plans.plan_key(belongs.phase, belongs.plan, branch),
        "task": belongs.task,
        "review_ids": [name for name in named if name != message.UNREVIEWED],
        "unreviewed": message.UNREVIEWED in named,
        "replaces": replaces,
        "depends_on": message.values(found.text, message.DEPENDS_ON),
        "changes": git.between(place, parent or git.empty_tree(place), found.commit),
    }
    return {name: value for name, value in stated.items() if value is not None}


def read(place: Place, commit: str) -> Commit:
    """A commit by its id.

    Raises:
        GitTrouble: There is none.
    """
    head, _, text = git.run(place, ["cat-file", "commit", commit]).stdout.decode("utf-8", "replace").partition("\n\n")
    parents = [line.removeprefix("parent ") for line in head.split("\n") if line.startswith("parent ")]
    return Commit(commit, parents, text)


def trailers(place: Place, commit: str) -> list[str]:
    """The reviews that a commit's message names, or the mark that it is unreviewed."""
    return message.values(read(place, commit).text, message.REVIEW)


def _tell(gate: GateFile, requests: list[dict[str, Any]]) -> None:
    """Record commits, those first that could not be recorded earlier."""
    if pending.deliver(gate):
        _keep(gate, requests, _LATER)
        return
    asker = Asker(gate)
    try:
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
    finally:
        asker.close()


def _keep(gate: GateFile, requests: list[dict[str, Any]], told: str) -> None:
    for facts in requests:
        pending.keep(gate.place, OPERATION, facts)
    say(told)
