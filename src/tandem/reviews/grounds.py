"""What a round stands on: the tip of its base branch, and what lies between.

Git computes it before a transaction, and it is kept as JSON with the round and with each run of a check. Whether what
lies between is approved is asked of the database whenever it matters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

import orjson

from tandem.contract.answer import shown as shown_as
from tandem.core.stand_ins import hex_digest
from tandem.core.visible import visible_line
from tandem.errors import TandemError
from tandem.git.changes import Change
from tandem.git.ground import Ground, GroundCommit
from tandem.git.repository import Repository
from tandem.git.reviewed_tree import RoundContent
from tandem.reviews import queries
from tandem.reviews.check_contract import GroundView, UnapprovedCommit
from tandem.reviews.context import Difference, Services
from tandem.store.base import Unit

HEAD: Final = "HEAD"
_SHORT = 12
_NAMED = 10
_FETCH_SECONDS = 5.0


class BaseBranches(NamedTuple):
    """Where a project's changes land.

    Attributes:
        names: The base branches: those of its gate, else `HEAD` for what its mirror follows; else none.
        accepted: Commits that count as held by them, with their ancestors.
    """

    names: tuple[str, ...]
    accepted: tuple[str, ...]


class Rules(NamedTuple):
    """What a base branch's tip says of the approvals that a change needs.

    Attributes:
        policy: The policy's file.
        owners: The file with the owners of paths; None if there is none, or the policy names none.
    """

    policy: bytes
    owners: bytes | None

    @property
    def source(self) -> str:
        """What identifies both."""
        return hex_digest(self.policy if self.owners is None else self.policy + b"\0" + self.owners)


class Asked(NamedTuple):
    """What the gate is asked, as far as the ground of a check matters.

    Attributes:
        branch: The base branch that is updated; None if none is, or the caller does not know.
        has_checks: Whether that branch names checks by now.
        tips: By base branch, the commits of which a check has to have run on one; None where any will do.
        policies: By base branch, the policy of its tip; None where it has none.
        landed: Reviews whose content a base branch is known to hold by now: it was judged when it got there.
        held: The bases whose commits the base branches are known to hold by now.
    """

    branch: str | None = None
    has_checks: bool = False
    tips: Mapping[str, frozenset[str]] | None = None
    policies: Mapping[str, Rules | None] = {}
    held: frozenset[str] = frozenset()
    landed: frozenset[str] = frozenset()


_NOTHING: Final = Asked()


class Doubt(NamedTuple):
    """Why the result of a check does not open the gate.

    Attributes:
        words: That, to stand behind the check's name, and what helps.
        ground: The ground that it ran on, where a base branch may hold that by now; else None.
    """

    words: str
    ground: Ground | None = None


def as_json(ground: Ground | None) -> str | None:
    """A ground in its stored form."""
    return None if ground is None else orjson.dumps(ground, default=list).decode()


def parsed(text: str | None) -> Ground | None:
    """A ground from its stored form."""
    if text is None:
        return None
    stored: dict[str, Any] = orjson.loads(text)
    for one in stored["commits"]:
        one |= {"paths": tuple(one["paths"]), "changes": _changes(one["changes"]), "signed": tuple(one["signed"])}
    stored["commits"] = tuple(GroundCommit(**one) for one in stored["commits"])
    stored |= {"net": _changes(stored["net"]), "conflict": tuple(stored["conflict"])}
    return Ground(**stored)


def _changes(stored: list[list[str]] | None) -> tuple[Change, ...] | None:
    return None if stored is None else tuple(Change(*entry) for entry in stored)


def base_branches(unit: Unit, services: Services, project: str) -> BaseBranches:
    """The base branches of a project, and what else counts as held."""
    names = tuple(name for one in services.participants for name in one.protected_branches(unit, project))
    accepted = tuple(oid for one in services.participants for oid in one.accepted_commits(unit, project))
    mirror = services.projects.mirror(project)
    if not names and mirror is not None and services.projects.root(project) == str(mirror.folder):
        names = (HEAD,)
    return BaseBranches(names, accepted)


class Look(NamedTuple):
    """What a round stands on now.

    Attributes:
        repository: The project's.
        branches: Its base branches.
        ground: The ground; where it cannot be found out, with the problem.
    """

    repository: Repository
    branches: tuple[str, ...]
    ground: Ground


async def look(services: Services, found: queries.RoundContent, branch: str | None) -> Look | None:
    """What a round stands on now, on one of the base branches if it is named; None where there is no repository."""
    current, project = found.round, found.review.project
    repository = await services.projects.repository(project, HEAD)
    if repository is None or current.base_commit is None:
        return None
    known = await services.store.read(lambda unit: base_branches(unit, services, project))
    on = branch if branch in known.names else None
    content = RoundContent(current.base_commit, current.digest, found.diff, current.path, found.text)
    try:
        async with services.validations:
            changes = [Change(**one) for one in orjson.loads(current.changes)]
            ground = await asyncio.to_thread(repository.ground, content, changes, *known, on)
    except TandemError as error:
        ground = Ground(content.base, problem=f"{error.code}: {error.message}")
    return Look(repository, known.names, ground)


class Doubts:
    """What keeps results of checks from opening the gate, although they passed, within a unit of work."""

    def __init__(self, unit: Unit, services: Services, project: str, asked: Asked = _NOTHING) -> None:
        self._unit = unit
        self._services = services
        self._project = project
        self.asked = asked
        # The checks of a round ran on the same, mostly.
        self._known: dict[str | None, Doubt | None] = {None: None}

    def missed(self, grounds: Sequence[str | None]) -> str | None:
        """Why the checks of the branch that is updated were not even asked for; None if they were, or it has none.

        Args:
            grounds: What the round's checks ran on; what the round stands on, where it has none.
        """
        asked, known = self.asked, map(parsed, {*grounds})
        if not asked.has_checks or any(one is None or one.branch == asked.branch for one in known):
            return None
        return f"the checks of {asked.branch} have not run on it; run them with --branch {asked.branch}"

    def of(self, ground: str | None) -> Doubt | None:
        """Why what a check ran on, in its stored form, keeps its result from opening the gate; None if it does not.

        Runs of versions that recorded no ground count as they did.
        """
        if ground not in self._known:
            found = parsed(ground)
            self._known[ground] = None if found is None else self._found(found)
        return self._known[ground]

    def _found(self, ground: Ground) -> Doubt | None:
        asked, names = self.asked, base_branches(self._unit, self._services, self._project).names
        if asked.branch not in (None, ground.branch):
            return Doubt(f"ran on {_place(ground)}; run it with --branch {asked.branch}")
        if names and ground.branch not in names:
            return Doubt(f"ran on {_place(ground)}, and changes land on {', '.join(names)}; run it again")
        if asked.tips is not None and ground.branch and ground.tip not in asked.tips.get(ground.branch, ()):
            return Doubt(f"ran on {_place(ground)}, which has moved on since; run it again (checks_on_tip)")
        if ground.base in asked.held:
            return None
        commits, more = _unapproved(self._unit, self._services, self._project, ground)
        if not commits and not more:
            return None
        return Doubt(
            f"ran on {_listed(commits, more)}; it counts once they are approved, or on that base branch", ground
        )


async def held_by_now(services: Services, project: str, grounds: Iterable[Ground]) -> frozenset[str]:
    """The bases of some grounds whose commits the base branches hold by now, as far as that is known here."""
    repository = await services.projects.repository(project)
    if repository is None:
        return frozenset()
    wanted = [*grounds]

    def work() -> frozenset[str]:
        # A repository that cannot be read holds nothing.
        with suppress(TandemError):
            return frozenset(ground.base for ground in wanted if repository.holds(ground))
        return frozenset()

    async with services.validations:
        return await asyncio.to_thread(work)


async def newest(services: Services, project: str) -> None:
    """Fetch the newest pushes; if the forge does not answer soon, the commits that are here count."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_FETCH_SECONDS):
            await services.projects.repository(project, HEAD)


async def tips(services: Services, project: str, names: Iterable[str | None]) -> dict[str, str]:
    """Where some branches are, as far as that is known here; nothing, where the repository cannot be read."""
    wanted = {name for name in names if name is not None}
    repository = await services.projects.repository(project) if wanted else None
    with suppress(TandemError):
        return {} if repository is None else await asyncio.to_thread(repository.tips, wanted)
    return {}


def view(unit: Unit, services: Services, project: str, text: str | None) -> GroundView | None:
    """A round's ground as it is shown; see `as_of_now` for what only git can tell."""
    ground = parsed(text)
    if ground is None:
        return None
    commits, more = _unapproved(unit, services, project, ground)
    return _view(ground, commits, more, None)


async def shown_now(services: Services, project: str, text: str | None) -> GroundView | None:
    """A round's ground as it is shown, as it is by now."""
    found = await services.store.read(lambda unit: view(unit, services, project, text))
    return await as_of_now(services, project, found, text)


async def as_of_now(services: Services, project: str, shown: GroundView | None, text: str | None) -> GroundView | None:
    """The ground with where its branch is by now, and without commits that a base branch holds by now."""
    ground = parsed(text)
    if shown is None or ground is None or ground.branch is None:
        return shown
    tip = (await tips(services, project, [ground.branch])).get(ground.branch)
    commits, more = shown.unapproved, shown.more_unapproved
    if (commits or more) and await held_by_now(services, project, [ground]):
        commits, more = (), 0
    return _view(ground, commits, more, None if tip == ground.tip else tip)


def _unapproved(
    unit: Unit, services: Services, project: str, ground: Ground
) -> tuple[tuple[UnapprovedCommit, ...], int]:
    """The commits between that approvals do not cover, alone or all together as one change; and how many more."""
    if not ground.commits:
        return (), 0
    approves = partial(_approves, unit, services, project)
    if approves(ground.net_digest, ground.net):
        return (), 0
    left = [one for one in ground.commits if not approves(one.digest, one.changes, one.signed)]
    return tuple(UnapprovedCommit(one.id, one.paths, one.more_paths) for one in left), ground.more_commits


def _approves(
    unit: Unit,
    services: Services,
    project: str,
    digest: str | None,
    changes: Sequence[Change] | None,
    signed: Sequence[str] = (),
) -> bool:
    if digest is None:
        return False
    what = Difference(digest, changes, signed)
    return any(one.approves(unit, services, project, what) for one in services.participants)


def _view(ground: Ground, commits: tuple[UnapprovedCommit, ...], more: int, moved_to: str | None) -> GroundView:
    notes = [] if ground.problem is None else [ground.problem]
    if commits or more:
        notes.append(
            f"It stands on {_listed(commits, more)}. No check's result opens the gate until they are approved, or on"
            " that base branch."
        )
    since = f", which is at {moved_to[:_SHORT]} by now" if moved_to else ""
    now = {"moved_to": moved_to, "stands_on": _place(ground) + since, "notes": tuple(notes)}
    return shown_as(GroundView, ground, unapproved=commits, more_unapproved=more, **now)


def _place(ground: Ground) -> str:
    if ground.branch is None or ground.tip is None:
        return "its base commit; no base branch is known"
    branch = "the mirror's HEAD" if ground.branch == HEAD else ground.branch
    return f"{branch} at {ground.tip[:_SHORT]}"


def _listed(commits: Sequence[UnapprovedCommit], more: int) -> str:
    count = len(commits) + more
    said = [f"{one.commit[:_SHORT]} ({_paths(one)})" for one in commits[:_NAMED]]
    left = count - len(said)
    return f"{count} commit{'' if count == 1 else 's'} without an approval: {', '.join(said)}" + (
        f" and {left} more" if left else ""
    )


def _paths(commit: UnapprovedCommit) -> str:
    left = len(commit.paths[_NAMED:]) + commit.more_paths
    # Hooks print it: what a file is called must move no cursor.
    return ", ".join(map(visible_line, commit.paths[:_NAMED])) + (f" and {left} more" if left else "")
