"""What the history of a repository says of one commit: whether a change may be its rollback."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tandem.domain.gates import Change
from tandem.errors import InvalidInput
from tandem.git import snapshot
from tandem.git.handle import Handle
from tandem.git.layout import neutral_folder
from tandem.git.runner import Output

_NOTHING_THERE = 128
"""Git's exit status when a name stands for nothing."""


def change_of(
    handle: Handle, commit: str, *, head: str, base: str | None, branches: Sequence[str]
) -> tuple[Change, ...] | None:
    """What a commit changed, if it is part of what is being built; see `Repository.change_on_the_way`."""
    parents = _parents(handle, commit)
    if len(parents) != 1 or _has(handle, head, commit) is not True:
        return None
    built_on = _has(handle, base, commit) if base is not None else _is_on_branch(handle, commit, branches)
    if built_on is not False:
        return None
    try:
        return snapshot.raw_changes(handle, parents[0], commit, None)
    except InvalidInput:
        return None


def _parents(handle: Handle, commit: str) -> list[str]:
    """The ids of a commit's parents; none if there is no such commit."""
    found = _ask(handle, ["rev-list", "--parents", "--no-walk", commit, "--"], accept=(0, _NOTHING_THERE))
    return found.stdout.decode("ascii", "replace").split()[1:]


def _has(handle: Handle, descendant: str, commit: str) -> bool | None:
    """Whether a commit is among another's ancestors, or is it; null if one of them is not there."""
    asked = ["merge-base", "--is-ancestor", commit, descendant]
    return {0: True, 1: False}.get(_ask(handle, asked, accept=(0, 1, _NOTHING_THERE)).status_code)


def _is_on_branch(handle: Handle, commit: str, branches: Sequence[str]) -> bool:
    """Whether a branch has a commit already; without branches nobody can tell, so it might."""
    if not branches:
        return True
    refs = [f"refs/heads/{branch}" for branch in branches]
    asked = ["for-each-ref", "--count=1", "--format=%(refname)", f"--contains={commit}", *refs]
    return bool(_ask(handle, asked).stdout)


def _ask(handle: Handle, arguments: Sequence[str], accept: Sequence[int] = (0,)) -> Output:
    # Neither grafts nor the commit graph, which are files in the repository, may say who a commit's parents are.
    environment = handle.layout.environment() | {"GIT_GRAFT_FILE": os.devnull}
    whole = ["-c", "core.commitGraph=false", *arguments]
    return handle.git.run(whole, cwd=neutral_folder(), environment=environment, accept=accept)
