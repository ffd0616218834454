"""Finding the commit, or the commits, that a review was about."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from tandem.errors import InvalidInput, NotFound
from tandem.hooks.message import REVIEW
from tandem.workflow.rollback.checkout import Checkout, Stand
from tandem.workflow.rollback.history import Commit, differences, line_from, log, reverted_by
from tandem.workflow.rollback.reviewed import Desk, Record, Reviewed

How = Literal["record", "trailer", "patch_id", "plan"]

_SEARCHED_COMMITS = 2_000
"""How many of the newest commits that touch a review's files are compared with its diff."""
_LONGEST_CHAIN = 1_000
_SHORT = 10


@dataclass(frozen=True, slots=True)
class Found:
    """Where a review's content is in the branch.

    Attributes:
        how: By what it was found.
        line: The oldest of its commits and all that came since, newest first.
        commits: Its commits that hold, newest first.
        gone: Its commits that a later one reverts, and that one.
    """

    how: How
    line: tuple[Commit, ...]
    commits: tuple[Commit, ...]
    gone: tuple[tuple[Commit, str], ...]


async def find(desk: Desk, checkout: Checkout, stand: Stand, review: Reviewed) -> Found:
    """The commits of a review: recorded and still there, else named by a trailer, else with the same patch id.

    Raises:
        InvalidInput: They are on another branch, or it cannot be told which they are.
        NotFound: There are none.
    """
    review_id = review.status.review_id
    records = await desk.records(review_id=review_id)
    _ensure_branch(checkout, stand, review, records)
    found = _among(checkout, stand, "record", _present(checkout, stand, records))
    if found is None or not found.commits:
        found = _among(checkout, stand, "trailer", _named(checkout, "HEAD", review_id)) or found
    if found is None:
        found = _among(checkout, stand, "patch_id", _with_patch_of(checkout, stand, review))
    if found is None and review.is_whole_plan:
        found = _among(checkout, stand, "plan", await _of_plan(desk, checkout, stand, review))
    if found is None:
        raise _nowhere(checkout, review_id, records)
    if found.how == "patch_id" and len(found.commits) > 1:
        listed = ", ".join(_shown(commit) for commit in found.commits)
        raise InvalidInput(
            f"Several commits make exactly the change of {review_id} ({listed}), and none names it; nothing was"
            " changed. Take back the right one yourself: git revert COMMIT",
            field="commit",
            commits=[commit.id for commit in found.commits],
        )
    return found


def _ensure_branch(checkout: Checkout, stand: Stand, review: Reviewed, records: Iterable[Record]) -> None:
    """Refuses another branch than that of the commit, as long as that branch is there."""
    branches = [record.branch for record in records if record.branch]
    if review.branch is not None:
        branches.append(review.branch)
    if not branches or stand.branch in branches:
        return
    branch = branches[-1]
    if checkout.resolve(f"refs/heads/{branch}") is not None:
        raise _other_branch(stand.branch, [branch])


def _other_branch(here: str, branches: Sequence[str]) -> InvalidInput:
    return InvalidInput(
        f"The change was committed on {' and '.join(branches)}, and {here} is checked out; nothing was changed."
        f" Go there first: git switch {branches[0]}",
        field="branch",
        expected=branches[0],
        actual=here,
    )


def _present(checkout: Checkout, stand: Stand, records: Iterable[Record]) -> list[str]:
    """The recorded commits, or what was made of them, that are in the branch."""
    listed = list(records)
    replaced = {record.commit: record.replaced_by for record in listed}
    found: list[str] = []
    for record in listed:
        commit: str | None = record.commit
        for _ in range(_LONGEST_CHAIN):
            if commit is None or checkout.is_ancestor(commit, stand.head):
                break
            commit = replaced.get(commit)
        if commit is not None and commit not in found and checkout.is_ancestor(commit, stand.head):
            found.append(commit)
    return found


def _among(checkout: Checkout, stand: Stand, how: How, commits: Sequence[str]) -> Found | None:
    """What became of some commits of the branch; null if there are none."""
    if not commits:
        return None
    line = line_from(checkout, commits, stand.head)
    gone = reverted_by(line)
    chosen = [commit for commit in line if commit.id in commits and not commit.reverts]
    if not chosen:
        return None
    return Found(
        how,
        tuple(line),
        tuple(commit for commit in chosen if commit.id not in gone),
        tuple((commit, gone[commit.id]) for commit in chosen if commit.id in gone),
    )


def _named(checkout: Checkout, where: str, review_id: str) -> list[str]:
    """The commits whose message names the review, other than reverts."""
    pattern = rf"^[[:space:]]*{REVIEW}[[:space:]]*:.*{re.escape(review_id)}"
    found = log(checkout, where, "--extended-regexp", "--regexp-ignore-case", f"--grep={pattern}")
    return [commit.id for commit in found if review_id in commit.review_ids and not commit.reverts]


def _with_patch_of(checkout: Checkout, stand: Stand, review: Reviewed) -> list[str]:
    """The commits that make one of the review's changes: by their digest, else by git's patch id."""
    paths = {file.path for one in review.rounds.values() for file in one.affected_files}
    paths |= {file.old_path for one in review.rounds.values() for file in one.affected_files if file.old_path}
    if not paths:
        return []
    literal = [f":(top,literal){path}" for path in sorted(paths)]
    listed = checkout.run(["rev-list", f"--max-count={_SEARCHED_COMMITS}", "--no-merges", stand.head, "--", *literal])
    ids = listed.stdout.decode("ascii").split()
    candidates = log(checkout, "--no-walk", *ids) if ids else []
    by_digest = [
        commit
        for commit, difference in differences(checkout, candidates).items()
        if review.round_of(difference) is not None
    ]
    if by_digest:
        return by_digest
    wanted = {_patch_id(checkout, one.diff.encode()) for one in review.rounds.values() if one.diff} - {None}
    found = [
        commit
        for commit, patch_id in (pair for renames in (True, False) for pair in _patch_ids(checkout, ids, renames))
        if patch_id in wanted
    ]
    return list(dict.fromkeys(found))


def _patch_id(checkout: Checkout, diff: bytes) -> str | None:
    answer = checkout.run(["patch-id", "--stable"], stdin=diff).stdout.decode("ascii").split()
    return answer[0] if answer else None


def _patch_ids(checkout: Checkout, commits: Sequence[str], renames: bool) -> list[tuple[str, str]]:  # noqa: FBT001 - the two ways in which a diff may have been made
    if not commits:
        return []
    options = ["--root", "-p", "--full-index", "--binary", "--no-ext-diff", "--no-textconv"]
    asked = "".join(f"{commit}\n" for commit in commits).encode()
    patches = checkout.run(
        ["diff-tree", "--stdin", *options, "--find-renames" if renames else "--no-renames"], stdin=asked
    )
    lines = checkout.run(["patch-id", "--stable"], stdin=patches.stdout).stdout.decode("ascii").splitlines()
    return [(commit, patch_id) for patch_id, commit in (line.split(" ", 1) for line in lines)]


async def _of_plan(desk: Desk, checkout: Checkout, stand: Stand, review: Reviewed) -> list[str]:
    """All commits of the review's plan: those recorded for it, else those since its base that say so."""
    recorded = _present(checkout, stand, await desk.records(plan=review.plan))
    if recorded:
        return recorded
    base = review.first.base_commit
    if base is None or not checkout.is_ancestor(base, stand.head):
        return []
    return [
        commit.id
        for commit in log(checkout, stand.head, f"^{base}")
        if commit.rollback_of is None
        and (commit.plan or (stand.branch if commit.is_unreviewed else None)) == review.plan
    ]


def _nowhere(checkout: Checkout, review_id: str, records: Sequence[Record]) -> InvalidInput | NotFound:
    """The error for a review without a commit in the branch."""
    elsewhere = _named(checkout, "--branches", review_id) + [record.commit for record in records]
    here = checkout.stand().branch
    for commit in elsewhere:
        names = checkout.run(
            ["for-each-ref", "--format=%(refname:short)", f"--contains={commit}", "refs/heads"], accept=(0, 1, 128, 129)
        )
        branches = os.fsdecode(names.stdout).split()
        if branches:
            return _other_branch(here, branches)
    return NotFound(
        f"No commit of {here} is the change of {review_id}: none was recorded for it, names it ({REVIEW}: {review_id})"
        " or has its patch id. Nothing was changed. If it was committed, take it back yourself: git revert COMMIT",
        review_id=review_id,
        branch=here,
    )


def _shown(commit: Commit) -> str:
    return f"{commit.id[:_SHORT]} {commit.subject}"
