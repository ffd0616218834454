"""What git's history says: which commits a plan has, and whether something approved is in one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tandem.errors import InvalidInput, Unavailable
from tandem.git import Repository, digest_of
from tandem.hooks import git
from tandem.hooks.message import REVIEW
from tandem.hooks.state import Place
from tandem.workflow.steps.pointers import Pointer

_LOOKED_AT = 200
"""Commits that are looked through for what was approved."""
_TRIED = 20
"""Commits whose difference is computed for that, when no trailer tells."""
_PLAN_COMMITS = 1_000
_TRAILERS = f"--format=%(trailers:key={REVIEW},valueonly=true,separator=%x20)"


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of the plan.

    Attributes:
        id: Its id.
        subject: The first line of its message.
    """

    id: str
    subject: str


def run(place: Place, *arguments: str, accept: tuple[int, ...] = (0,)) -> str:
    """What git says.

    Raises:
        Unavailable: It fails.
    """
    try:
        return git.run(place, arguments, accept=accept).text
    except git.GitTrouble as trouble:
        raise Unavailable(f"{trouble}. Run git status to see what is wrong.") from trouble


def commits(place: Place, revisions: list[str]) -> tuple[Commit, ...]:
    """Commits without merges, oldest first."""
    listed = run(place, "log", "--no-merges", "--reverse", f"-{_PLAN_COMMITS}", "--format=%H%x09%s", *revisions, "--")
    pairs = (line.partition("\t") for line in listed.splitlines())
    return tuple(Commit(oid, subject) for oid, _, subject in pairs)


def find(place: Place, revision: str) -> str | None:
    """The id of a commit; null if there is none by that name.

    Raises:
        Unavailable: Git fails.
    """
    named = f"{revision}^{{commit}}"
    return run(place, "rev-parse", "--quiet", "--verify", "--end-of-options", named, accept=(0, 1, 128)) or None


def resolved(place: Place, revision: str, field: str) -> str:
    """The id of a commit that somebody named.

    Raises:
        InvalidInput: There is none by that name.
    """
    found = find(place, revision)
    if found is None:
        raise InvalidInput(f"{revision} is no commit of this repository; name one.", field=field, actual=revision)
    return found


def merge_base(place: Place, one: str, other: str) -> str | None:
    """Where two commits parted; null if they have nothing in common."""
    found = run(place, "merge-base", one, other, accept=(0, 1)).splitlines()
    return found[0] if found else None


def of_plan(found: tuple[Commit, ...], phase: str | None, plan: str | None) -> tuple[Commit, ...]:
    """The commits whose subject names the plan, as `feat(03-02): …`."""
    scope = re.compile(rf"[a-z]+\({re.escape(f'{phase}-{plan}' if phase else plan or '')}(?:-\d+)?\)!?:")
    return tuple(commit for commit in found if scope.match(commit.subject))


def holds(repository: Repository, place: Place, pointer: Pointer) -> bool:
    """Whether what a pointer names, as it was approved, is in a commit of this branch."""
    digest = pointer.approved or pointer.digest
    blob, colon, path = digest.partition(":")
    if colon:
        return run(place, "rev-parse", "--quiet", "--verify", f"HEAD:{path}", accept=(0, 1, 128)) == blob
    trailers = run(place, "log", f"-{_LOOKED_AT}", _TRAILERS, accept=(0, 128))
    if pointer.review_id in trailers.split():
        return True
    since = [f"{pointer.base}..HEAD"] if pointer.base else ["HEAD"]
    lines = run(place, "log", f"-{_TRIED}", "--no-merges", "--format=%H %P", *since, "--", accept=(0, 128)).splitlines()
    pairs = (line.split(" ") for line in lines)
    return any(digest_of(repository.raw_changes(pair[1], pair[0])) == digest for pair in pairs if pair[1:])


def parent(place: Place, commit: str) -> str:
    """The first parent of a commit; the empty tree's id of one that has none."""
    found = run(place, "rev-parse", "--quiet", "--verify", f"{commit}^", accept=(0, 1, 128))
    return found or run(place, "hash-object", "-t", "tree", "--stdin")
