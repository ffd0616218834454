"""The step whose content is all that a plan did: the combined difference of its commits, on each of its branches."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tandem.errors import InvalidInput
from tandem.git import Repository, Scope, digest_of
from tandem.workflow.steps import changes, history, tasks
from tandem.workflow.steps.documents import NOBODY, Identity, find_plan
from tandem.workflow.steps.history import Commit
from tandem.workflow.steps.orders import Order
from tandem.workflow.steps.situation import Situation
from tandem.workflow.steps.subjects import Subject
from tandem.workflow.steps.texts import planning_dirs

_SCOPE = re.compile(r"[a-z]+\((?P<phase>\d+(?:\.\d+)*[A-Za-z]?)-(?P<plan>\d+)(?:-\d+)?\)!?:")
_USUAL_BASES = ("main", "master")
_SHORT = 12
_MOST_SUBJECTS = 200


@dataclass(frozen=True, slots=True)
class Branch:
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
    commits: tuple[Commit, ...]
    identity: Identity


def branches(situation: Situation, said: Identity, named: tuple[str, ...], since: str | None) -> tuple[Branch, ...]:
    """The branches of a wave: those that were named; else this one; on the base branch those of linked working trees.

    Raises:
        InvalidInput: Nobody can say where the plan's commits begin.
    """
    if named or since is not None:
        found = [_branch(situation, said, name, since) for name in named or (_here(situation),)]
    elif _is_base(situation):
        linked = [_branch(situation, said, name, None) for name in _linked(situation)]
        found = [branch for branch in linked if _carries_out(branch, said)] or [_on_base(situation, said)]
    else:
        found = [_branch(situation, said, _here(situation), None)]
    return tuple(found)


def subject(situation: Situation, repository: Repository, branch: Branch, order: Order) -> Subject | None:
    """What is put up for a branch; null when its commits change nothing together."""
    found = changes.difference(repository, Scope(revision=f"{branch.base}..{branch.tip}"))
    if not found.changes:
        return None
    words = branch.identity.words or branch.name
    return Subject(
        step="wave",
        identity=branch.identity,
        intent=f"{words[:1].upper()}{words[1:]}: all of its commits",
        description=_description(situation, branch, order.result),
        changes=found.changes,
        digest=digest_of(found.changes),
        command=order.command,
        accept_command=order.accept_command,
        diff=found.diff,
        base=found.base,
        branch=branch.name,
        metadata={"branch": branch.name, "commits": [commit.id for commit in branch.commits[:_MOST_SUBJECTS]]},
        is_committed=True,
    )


def _description(situation: Situation, branch: Branch, result: str | None) -> str:
    subjects = [f"- {commit.id[:_SHORT]} {commit.subject}" for commit in branch.commits[:_MOST_SUBJECTS]]
    if len(branch.commits) > _MOST_SUBJECTS:
        subjects.append(f"- and {len(branch.commits) - _MOST_SUBJECTS} more")
    file = find_plan(branch.identity, planning_dirs(situation)) if branch.identity.plan else None
    goal = tasks.objective(_read(file)) if file is not None else None
    parts = [f"## Objective\n\n{goal}"] if goal else []
    parts.append("## Commits\n\n" + "\n".join(subjects))
    parts.append(f"## Verification\n\n{result or 'The proposer did not say what verifying it gave.'}")
    return "\n\n".join(parts)


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _branch(situation: Situation, said: Identity, name: str, since: str | None) -> Branch:
    """A branch since it parted from its base, or since the plan's first commit on it."""
    place = situation.repository
    tip = history.resolved(place, name, "branch")
    if since is not None:
        base = history.resolved(place, since, "since")
        found = history.commits(place, [f"{base}..{tip}"])
        return Branch(name, tip, base, found, _identity(said, found))
    base = _parted(situation, name, tip)
    found = history.commits(place, [f"{base}..{tip}"])
    identity = _identity(said, found)
    own = history.of_plan(found, identity.phase, identity.plan) if identity.plan else ()
    if own and found and own[0] != found[0]:
        base = history.parent(place, own[0].id)
        found = history.commits(place, [f"{base}..{tip}"])
    return Branch(name, tip, base, found, identity)


def _carries_out(branch: Branch, said: Identity) -> bool:
    """Whether a branch has commits, and none of them say that they are of another plan than the one that is meant."""
    named = _identity(NOBODY, branch.commits)
    return bool(branch.commits) and (said.plan is None or named.plan is None or named.key(None) == said.key(None))


def _on_base(situation: Situation, said: Identity) -> Branch:
    """The plan's commits on the base branch itself, where no gate keeps them from being made there."""
    place = situation.repository
    tip = history.resolved(place, "HEAD", "branch")
    recent = history.commits(place, ["HEAD"])
    identity = said if said.plan is not None else _last_scope(recent)
    own = history.of_plan(recent, identity.phase, identity.plan) if identity.plan else ()
    if not own:
        raise InvalidInput(
            "Nobody can say where the plan's commits begin: none is named as feat(03-02): … is. Say it: "
            "tandem gate wave --since REV, or name the branches that are to be merged: tandem gate wave BRANCH",
            field="since",
        )
    base = history.parent(place, own[0].id)
    return Branch(_here(situation), tip, base, history.commits(place, [f"{base}..{tip}"]), identity)


def _identity(said: Identity, found: tuple[Commit, ...]) -> Identity:
    """What was said, else the plan that most of the commits name."""
    scopes = Counter(match.group("phase", "plan") for commit in found if (match := _SCOPE.match(commit.subject)))
    if said.plan is not None or not scopes:
        return said
    phase, plan = scopes.most_common(1)[0][0]
    return said.over(Identity(phase, plan))


def _last_scope(found: tuple[Commit, ...]) -> Identity:
    matches = (_SCOPE.match(commit.subject) for commit in reversed(found))
    return next((Identity(match["phase"], match["plan"]) for match in matches if match), Identity())


def _here(situation: Situation) -> str:
    return situation.branch or history.resolved(situation.repository, "HEAD", "branch")


def _bases(situation: Situation) -> tuple[str, ...]:
    return situation.gate.branches if situation.gate is not None else _USUAL_BASES


def _is_base(situation: Situation) -> bool:
    return situation.branch in _bases(situation)


def _linked(situation: Situation) -> tuple[str, ...]:
    """The branches of the other working trees."""
    listed = history.run(situation.repository, "worktree", "list", "--porcelain").splitlines()
    prefix = "branch refs/heads/"
    names = (line.removeprefix(prefix) for line in listed if line.startswith(prefix))
    return tuple(name for name in names if name != situation.branch)


def _parted(situation: Situation, name: str, tip: str) -> str:
    """Where a branch left the nearest of the branches that it may be merged into.

    Raises:
        InvalidInput: There is none.
    """
    place = situation.repository
    candidates: list[str] = [f"refs/heads/{base}" for base in _bases(situation) if base != name]
    if situation.root.resolve() != situation.main_root.resolve() or situation.branch != name:
        main = _main_head(situation)
        candidates += [main] if main is not None else []
    known = [oid for oid in (history.find(place, one) for one in candidates) if oid is not None]
    parted = [base for base in (history.merge_base(place, tip, oid) for oid in known) if base is not None]
    if not parted:
        raise InvalidInput(
            f"Nobody can say where {name} begins; say it: tandem gate wave {name} --since REV", field="since"
        )
    # The nearest leaves the fewest commits.
    return min(parted, key=lambda base: len(history.commits(place, [f"{base}..{tip}"])))


def _main_head(situation: Situation) -> str | None:
    """The commit that the main working tree is at, into which linked ones are merged."""
    for line in history.run(situation.repository, "worktree", "list", "--porcelain").splitlines():
        if line.startswith("HEAD "):
            return line.removeprefix("HEAD ")
    return None
