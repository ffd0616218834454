"""What a plan did, by git's history: its commits on each of its branches, and their combined difference."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tandem.core.visible import shortened
from tandem.errors import InvalidInput
from tandem.git.raw import digest_of
from tandem.git.repository import Repository
from tandem.git.snapshot import Scope
from tandem.gsd.rollback.repository import SUBJECT, Checkout, RepositoryCommit, log
from tandem.gsd.steps.situation import NOBODY, DocumentIdentity, StepContext, StepPointer, StepRequest
from tandem.gsd.steps.subjects import Subject, difference, objective, planning_dirs
from tandem.rulings import plans

_LOOKED_AT = 200
"""Commits that are looked through for approved content."""
_TRIED = 20
"""Commits whose difference is computed for that, when no trailer tells."""
_PLAN_COMMITS = 1_000
_USUAL_BASES = ("main", "master")
_SHORT = 12
_MOST_SUBJECTS = 200


def is_committed(repository: Repository, checkout: Checkout, pointer: StepPointer) -> bool:
    """Whether what a pointer names, as it was approved, is in a commit of this branch."""
    digest = pointer.approved or pointer.digest
    blob, colon, path = digest.partition(":")
    if colon:
        return checkout.text("rev-parse", "--quiet", "--verify", f"HEAD:{path}", accept=(0, 1, 128)) == blob
    if checkout.resolve("HEAD") is None:
        return False
    if any(pointer.review_id in commit.review_ids for commit in log(checkout, f"-{_LOOKED_AT}")):
        return True
    if pointer.base and checkout.resolve(pointer.base) is None:
        return False
    since = f"{pointer.base}..HEAD" if pointer.base else "HEAD"
    tried = log(checkout, f"-{_TRIED}", "--no-merges", since)
    return any(digest_of(repository.raw_changes(one.parents[0], one.id)) == digest for one in tried if one.parents)


@dataclass(frozen=True, slots=True)
class WaveBranch:
    """One line of commits that a wave made.

    Attributes:
        name: As it is named in commands: a branch, else a commit's id.
        tip: The commit at its end.
        base: The commit it is compared with.
        commits: What lies between, oldest first, without merges.
        identity: The plan that it carries out.
    """

    name: str
    tip: str
    base: str
    commits: tuple[RepositoryCommit, ...]
    identity: DocumentIdentity


def branches(situation: StepContext, checkout: Checkout, order: StepRequest) -> tuple[WaveBranch, ...]:
    """The branches of a wave: those that were named; else this one; on the base branch those of linked working trees.

    Raises:
        InvalidInput: It is unknown where the plan's commits begin.
    """
    wave = _Wave(situation, checkout, order.identity)
    if order.branches or order.since is not None:
        return tuple(wave.branch(name, order.since) for name in order.branches or (wave.here,))
    if situation.branch not in wave.bases:
        return (wave.branch(wave.here),)
    linked = [wave.branch(name) for name in wave.linked()]
    return tuple(branch for branch in linked if wave.carries_out(branch)) or (wave.on_base(),)


def subject(situation: StepContext, repository: Repository, branch: WaveBranch, order: StepRequest) -> Subject | None:
    """The proposal of a branch; None when its commits change nothing together."""
    found = difference(repository, Scope(revision=f"{branch.base}..{branch.tip}"))
    if not found.changes:
        return None
    words = branch.identity.words or branch.name
    return Subject(
        order=order,
        identity=branch.identity,
        intent=f"{words[:1].upper()}{words[1:]}: all of its commits",
        description=_description(situation, branch, order.result),
        changes=found.changes,
        digest=digest_of(found.changes),
        diff=found.diff,
        base=found.base,
        branch=branch.name,
        metadata={"branch": branch.name, "commits": [commit.id for commit in branch.commits[:_MOST_SUBJECTS]]},
        is_committed=True,
    )


def _description(situation: StepContext, branch: WaveBranch, result: str | None) -> str:
    subjects = [f"- {commit.id[:_SHORT]} {commit.subject}" for commit in branch.commits]
    subjects = shortened(subjects, _MOST_SUBJECTS, "- and {} more")
    phase, plan = branch.identity.phase, branch.identity.plan
    file = plans.find(phase, plan, planning_dirs(situation)) if plan else None
    goal = objective(plans.read(file) or "")
    parts = [f"## Objective\n\n{goal}"] if goal else []
    parts.append("## Commits\n\n" + "\n".join(subjects))
    parts.append(f"## Verification\n\n{result or 'The proposer did not say what verifying it gave.'}")
    return "\n\n".join(parts)


class _Wave:
    """Finds where the branches of a wave begin and end."""

    def __init__(self, situation: StepContext, checkout: Checkout, said: DocumentIdentity) -> None:
        self._situation = situation
        self._checkout = checkout
        self._said = said
        self.here = situation.branch or self._resolved("HEAD", "branch")
        self.bases = situation.gate.branches if situation.gate is not None else _USUAL_BASES

    def branch(self, name: str, since: str | None = None) -> WaveBranch:
        """A branch since it parted from its base, or since the plan's first commit on it."""
        tip = self._resolved(name, "branch")
        if since is not None:
            base = self._resolved(since, "since")
            found = self._commits(f"{base}..{tip}")
            return WaveBranch(name, tip, base, found, self._identity(self._said, found))
        base = self._parted(name, tip)
        found = self._commits(f"{base}..{tip}")
        identity = self._identity(self._said, found)
        own = self._of_plan(found, identity)
        if own and own[0] != found[0]:
            base = self._parent(own[0])
            found = self._commits(f"{base}..{tip}")
        return WaveBranch(name, tip, base, found, identity)

    def carries_out(self, branch: WaveBranch) -> bool:
        """Whether a branch has commits, and none of them say that they are of another plan than the one meant."""
        named, said = self._identity(NOBODY, branch.commits), self._said
        return bool(branch.commits) and (said.plan is None or named.plan is None or named.key(None) == said.key(None))

    def on_base(self) -> WaveBranch:
        """The plan's commits on the base branch itself, where no gate keeps them from being made there."""
        tip = self._resolved("HEAD", "branch")
        recent = self._commits("HEAD")
        matches = (SUBJECT.match(commit.subject) for commit in reversed(recent))
        last = next((DocumentIdentity(match["phase"], match["plan"]) for match in matches if match), NOBODY)
        identity = self._said if self._said.plan is not None else last
        own = self._of_plan(recent, identity)
        if not own:
            raise InvalidInput(
                "It is unknown where the plan's commits begin: none is named as feat(03-02): … is. Say it: "
                "tandem gate wave --since REV, or name the branches to merge: tandem gate wave BRANCH",
                field="since",
            )
        base = self._parent(own[0])
        return WaveBranch(self.here, tip, base, self._commits(f"{base}..{tip}"), identity)

    def linked(self) -> list[str]:
        """The branches of the other working trees."""
        prefix = "branch refs/heads/"
        names = [line.removeprefix(prefix) for line in self._worktrees() if line.startswith(prefix)]
        return [name for name in names if name != self._situation.branch]

    def _parted(self, name: str, tip: str) -> str:
        """Where a branch left the nearest of the branches that it may be merged into.

        Raises:
            InvalidInput: There is none.
        """
        situation, checkout = self._situation, self._checkout
        candidates = [f"refs/heads/{base}" for base in self.bases if base != name]
        if situation.root.resolve() != situation.main_root.resolve() or situation.branch != name:
            # The main working tree's, which is listed first: linked ones are merged into it.
            candidates += [line.removeprefix("HEAD ") for line in self._worktrees() if line.startswith("HEAD ")][:1]
        known = [oid for oid in map(checkout.resolve, candidates) if oid is not None]
        parted = [
            base for oid in known for base in checkout.text("merge-base", tip, oid, accept=(0, 1)).splitlines()[:1]
        ]
        if not parted:
            raise InvalidInput(
                f"It is unknown where {name} begins; say it: tandem gate wave {name} --since REV", field="since"
            )
        # The nearest leaves the fewest commits.
        return min(parted, key=lambda base: len(self._commits(f"{base}..{tip}")))

    def _worktrees(self) -> list[str]:
        return self._checkout.text("worktree", "list", "--porcelain").splitlines()

    def _commits(self, revisions: str) -> tuple[RepositoryCommit, ...]:
        """Commits without merges, oldest first."""
        return tuple(reversed(log(self._checkout, "--no-merges", f"-{_PLAN_COMMITS}", revisions)))

    def _parent(self, commit: RepositoryCommit) -> str:
        """The first parent of a commit; the empty tree's id of one that has none."""
        return commit.parents[0] if commit.parents else self._checkout.text("hash-object", "-t", "tree", "--stdin")

    def _resolved(self, revision: str, field: str) -> str:
        """The id of a commit that somebody named.

        Raises:
            InvalidInput: There is none by that name.
        """
        found = self._checkout.resolve(revision)
        if found is None:
            raise InvalidInput(f"{revision} is no commit of this repository; name one.", field=field, actual=revision)
        return found

    @staticmethod
    def _of_plan(found: Sequence[RepositoryCommit], identity: DocumentIdentity) -> list[RepositoryCommit]:
        """The commits whose subject names the plan, as `feat(03-02): …`."""
        if identity.plan is None:
            return []
        named = f"{identity.phase}-{identity.plan}" if identity.phase else identity.plan
        scope = re.compile(rf"[a-z]+\({re.escape(named)}(?:-\d+)?\)!?:")
        return [commit for commit in found if scope.match(commit.subject)]

    @staticmethod
    def _identity(said: DocumentIdentity, found: Sequence[RepositoryCommit]) -> DocumentIdentity:
        """The named plan, else the one that most of the commits name."""
        scopes = Counter(match.group("phase", "plan") for commit in found if (match := SUBJECT.match(commit.subject)))
        if said.plan is not None or not scopes:
            return said
        phase, plan = scopes.most_common(1)[0][0]
        return said.over(DocumentIdentity(phase, plan))
