"""Ways in which git makes or moves a commit, each on a branch that is checked out and with a change of its own.

All ways onto a base branch are in `routes`.

Plumbing, which calls no hook for commits, prepares the operations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.repository.gating import START
from tests.repository.ranges.works import Work


@dataclass(frozen=True)
class Operation:
    """A way of getting a change onto a branch.

    Attributes:
        prepare: Sets up the operation; returns the commits before and after the change.
        run: Performs the operation; returns whether git succeeded.
        calls_hook: Whether git asks a hook before the commit is made. Where it does not, the base branch is still
            closed, and an audit finds the commits on other branches.
    """

    prepare: Callable[[Work], tuple[str, str]]
    run: Callable[[Work], bool]
    calls_hook: bool = True


def _staged(work: Work) -> tuple[str, str]:
    work.stage(work.change)
    return work.head(), work.made(work.change, work.head())


def _commit(work: Work) -> bool:
    return work.run("commit", "-m", "A change")


def _staged_with_another(work: Work) -> tuple[str, str]:
    wanted = work.made(work.change, work.head())
    work.stage({**work.change, **work.other, "new.txt": work.name})
    return work.head(), wanted


def _partly(work: Work) -> bool:
    return work.run("commit", "-m", "A part of it", "--", *work.change)


def _staged_on_approved(work: Work) -> tuple[str, str]:
    work.jump(work.approved(work.other, work.start))
    return _staged(work)


def _amend(work: Work) -> bool:
    return work.run("commit", "--amend", "--no-edit")


def _around_the_hooks(work: Work) -> bool:
    return work.run("commit", "--no-verify", "-m", "A change")


def _in_the_past(work: Work) -> tuple[str, str]:
    """The base branch has an approved commit below its newest; its revert is a change like any other."""
    commit = work.approved(work.change, work.start)
    work.jump(work.approved(work.other, commit))
    work.start = work.head()
    work.git("update-ref", "refs/heads/main", work.start)
    return work.start, work.made({"a.txt": START["a.txt"].decode()}, work.start)


def _revert(work: Work) -> bool:
    return work.run("revert", "--no-edit", "HEAD~1")


def _elsewhere(work: Work) -> tuple[str, str]:
    """The change is a commit on a side branch."""
    side = work.made(work.change, work.start)
    work.git("branch", f"side-{work.name}", side)
    return work.start, side


def _elsewhere_and_here(work: Work) -> tuple[str, str]:
    """As before, and the branch has gone on."""
    work.jump(work.approved(work.other, work.start))
    return _elsewhere(work)


def _side(work: Work, *arguments: str) -> bool:
    return work.run(*arguments, f"side-{work.name}")


def _on_an_old_base(work: Work) -> tuple[str, str]:
    """The change was committed on the branch, and its base has gone on."""
    commit = work.made(work.change, work.start)
    work.git("branch", f"side-{work.name}", work.approved(work.other, work.start))
    work.jump(commit)
    return work.start, commit


def _rebase(work: Work) -> bool:
    done = _side(work, "rebase")
    if not done:
        work.git("rebase", "--abort")
    return done


def _made(work: Work) -> tuple[str, str]:
    commit = work.made(work.change, work.start)
    (work.folder / "made").write_text(commit)
    return work.start, commit


def _update_ref(work: Work) -> bool:
    done = work.run("update-ref", f"refs/heads/{work.branch}", (work.folder / "made").read_text())
    work.git("reset", "--quiet", "--hard")
    return done


OPERATIONS = {
    "commit": Operation(_staged, _commit),
    "partial": Operation(_staged_with_another, _partly),
    "amend": Operation(_staged_on_approved, _amend),
    "no-verify": Operation(_staged, _around_the_hooks),
    "revert": Operation(_in_the_past, _revert),
    "merge": Operation(_elsewhere_and_here, lambda work: _side(work, "merge", "--quiet", "--no-edit")),
    "rebase": Operation(_on_an_old_base, _rebase),
    "commit-tree": Operation(_made, _update_ref, calls_hook=False),
    "fast-forward": Operation(_elsewhere, lambda work: _side(work, "merge", "--quiet", "--ff-only"), calls_hook=False),
}
