"""What the history of a repository says of one commit: whether a change may be its rollback."""

from __future__ import annotations

from collections.abc import Sequence

from tandem.domain.gates import Change
from tandem.errors import InvalidInput
from tandem.git.handle import Handle
from tandem.git.raw import RAW_OPTIONS, parse_raw
from tandem.git.scratch import Scratch

_NOTHING_THERE = 128
"""Git's exit status when a name stands for nothing."""


def change_of(
    handle: Handle, commit: str, *, head: str, base: str | None, branches: Sequence[str]
) -> tuple[Change, ...] | None:
    """What a commit changed, if it is part of what is being built; see `Repository.change_on_the_way`."""
    # In a folder of our own: neither grafts nor the commit graph, which are files in the repository, may say who a
    # commit's parents are.
    with handle.scratch() as scratch:
        parents = _parents(scratch, commit)
        if len(parents) != 1 or _has(scratch, head, commit) is not True:
            return None
        if base is not None:
            built_on = _has(scratch, base, commit)
        else:
            tips = filter(None, (handle.resolve(f"refs/heads/{branch}")[0] for branch in branches))
            # Without branches nobody can tell, so it might be on one.
            built_on = not branches or any(_has(scratch, tip, commit) for tip in tips)
        if built_on is not False:
            return None
        try:
            return parse_raw(scratch.run(["diff-tree", "-r", *RAW_OPTIONS, parents[0], commit]).stdout)
        except InvalidInput:
            return None


def _parents(scratch: Scratch, commit: str) -> list[str]:
    """The ids of a commit's parents; none if there is no such commit."""
    found = scratch.run(["rev-list", "--parents", "--no-walk", commit, "--"], accept=(0, _NOTHING_THERE))
    return found.stdout.decode("ascii", "replace").split()[1:]


def _has(scratch: Scratch, descendant: str, commit: str) -> bool | None:
    """Whether a commit is among another's ancestors, or is it; null if one of them is not there."""
    asked = ["merge-base", "--is-ancestor", commit, descendant]
    return {0: True, 1: False}.get(scratch.run(asked, accept=(0, 1, _NOTHING_THERE)).status_code)
