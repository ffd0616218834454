"""Where the base branches are and have been, and what is never judged."""

from __future__ import annotations

from tandem.hooks import git

TYPE_CHECKING = False  # every commit waits for what is imported here; see `tuples`
if TYPE_CHECKING:
    from typing import NamedTuple

    from tandem.hooks.state import GateFile
else:
    from tandem.hooks.tuples import NamedTuple

HEADS = "refs/heads/"
STARTS = "refs/tandem/gate-start/"
"""Where the base branches were when the gate was switched on, a ref for each."""

_FORMAT = "%(objecttype) %(objectname) %(*objecttype) %(*objectname) %(refname)"


class Bases(NamedTuple):
    """The refs that judging begins at, as they are now.

    Attributes:
        tips: The base branches that exist, by their full names, with the commits they are at.
        never_judged: The commits of the accepted refs and of the gate's start: they and their ancestors are taken
            as they are.
        starts: Of those, the ones of the gate's start.
    """

    tips: dict[str, str]
    never_judged: tuple[str, ...]
    starts: tuple[str, ...]


def read(gate: GateFile) -> Bases:
    """The refs as they are now.

    Raises:
        GitTrouble: Git does not answer.
    """
    wanted = {HEADS + branch for branch in gate.branches}
    patterns = [*sorted(wanted), STARTS, *gate.accepted]
    listed = git.run(gate.place, ["for-each-ref", f"--format={_FORMAT}", *patterns]).text
    tips: dict[str, str] = {}
    accepted: list[str] = []
    starts: list[str] = []
    for line in listed.splitlines():
        kind, oid, inner_kind, inner_oid, ref = line.split(" ", 4)
        commit = oid if kind == "commit" else inner_oid if inner_kind == "commit" else None
        if commit is None:
            continue
        if ref.startswith(STARTS):
            starts.append(commit)
        elif ref in wanted:
            tips[ref] = commit
        # A pattern also finds what is below it, which nobody accepted.
        if ref in gate.accepted:
            accepted.append(commit)
    return Bases(tips, tuple(dict.fromkeys((*accepted, *starts))), tuple(starts))


def earlier(gate: GateFile, found: Bases) -> set[str]:
    """What the base branches have been at since the gate was switched on, as far as git has kept it.

    Raises:
        GitTrouble: Git does not answer.
    """
    been: set[str] = set()
    for ref in found.tips:
        # No log was kept where git fails here.
        for oid in git.run(gate.place, ["log", "-g", "--format=%H", ref, "--"], accept=(0, 128)).text.splitlines():
            been.add(oid)
            if oid in found.starts:
                break
    return been
