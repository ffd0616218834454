"""The gate: what is approved, to the byte."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tandem.contract.caller import Caller
from tandem.errors import CheckFailed, CheckPending, InvalidInput, TandemError
from tandem.gate import commit_queries as commits
from tandem.gate import queries as gates
from tandem.gate import record, signing
from tandem.gate.contract import CheckGate, GateChange, GateDecision, PathDecision
from tandem.gate.rules import CommitRow, names
from tandem.git.changes import Change
from tandem.git.raw import ABSENT_MODE, digest_of
from tandem.reviews import checks, contents, grounds
from tandem.reviews import report_queries as reports
from tandem.reviews.approvals import Approval, Cover, cover, end_of, inverse, net, start_of
from tandem.reviews.checks import Hold
from tandem.settings.config import PROJECT_FILE, load_settings
from tandem.settings.exempt import is_exempt
from tandem.store.base import Unit
from tandem.store.context import Services

_log = logging.getLogger("tandem.gate")
_CANDIDATES = 500
"""Approvals of the same blob at the same path that are looked at; more would be abuse."""
_APPROVED_PATHS = 100_000
_CHAINED = 500
_CHAINED_PATHS = 20_000
"""Approvals, and paths of them, that a commit is traced back through: a squash of more is submitted as one change."""
_HINTS = 10
"""Paths for which a refusal says what was approved in their place."""
Kind = Literal["approved", "exempt", "signed", "rollback", "overridden"]


_Held = dict[str, Hold]
"""By review, the one of its required checks that says most of why its content may not pass."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What the store says of a difference.

    Attributes:
        approvals: Approvals of some of its paths.
        covered: What they make of each path that they cover.
        held: The required checks that have not passed, of the reviews that cover something.
        ended: Of approvals that a later one takes back, by review, which one does.
        instead: By path that is not covered, a review that approved something else to come of the same content.
        undecided: By path that is not covered, the review and round that wait for a verdict on exactly this content.
        signature: For all of it: this broker's, if one was asked for and everything is approved, or a signer's.
        unsigned: Why no signature counts that the commit brings along; null if one does, or there is none.
        whole: Why all of it passes, as a kind and in words: a signer's broker approved it, or a person let it through.
        commits: Commits that it may be the rollback of.
        branches: The base branches of the project's gate.
    """

    approvals: list[Approval]
    covered: dict[str, Cover]
    held: _Held
    ended: dict[str, str] = field(default_factory=dict[str, str])
    instead: dict[str, str] = field(default_factory=dict[str, str])
    undecided: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    signature: str | None = None
    unsigned: str | None = None
    whole: tuple[Kind, str] | None = None
    commits: Sequence[CommitRow] = ()
    branches: tuple[str, ...] = ()


async def check_gate(services: Services, _caller: Caller, request: CheckGate) -> GateDecision:
    """Whether exactly this content may pass; fails closed.

    A digest has to be that of a round whose approval still stands. Of changes, a path is set aside as exempt, or
    covered by an approval. Else all of it passes that the broker of a signer approved, that a person let through, or
    that exactly takes back a commit of a change that was not approved.

    Raises:
        ConfigInvalid: What the repository says of its gate differs from the record.
        InvalidInput: Both or neither was sent, or a path is named twice.
    """
    if request.here is not None:
        await record.require_same(services, request.project, request.here)
    if (request.digest is None) == (request.changes is None):
        raise InvalidInput("Send either changes or digest.", field="changes")
    settings = await asyncio.to_thread(project_settings, services, request.project, "gate_exempt", "checks_on_tip")
    named = await contents.names_checks(services, request.project, request.branch)
    asked = grounds.Asked(request.branch, named, await _tips(services, request) if settings[1] else None)
    if request.digest is None:
        return await _check_changes(services, request, changes_of(request.changes), settings[0], asked)
    decision, held = await _check_digest(services, request.project, request.digest, asked)
    if by_now := await _held_by_now(services, request.project, held):
        decision, _ = await _check_digest(services, request.project, request.digest, asked._replace(held=by_now))
    return decision


async def _tips(services: Services, request: CheckGate) -> dict[str, frozenset[str]]:
    """By base branch, the commits of which a check has to have run on one."""
    named = await services.store.read(lambda unit: grounds.base_branches(unit, services, request.project).names)
    await grounds.newest(services, request.project)
    tips = await grounds.tips(services, request.project, named)
    been = {request.branch: request.tips or ()} if request.branch else {}
    return {name: frozenset((tip, *been.get(name, ()))) for name, tip in tips.items()}


async def _held_by_now(services: Services, project: str, held: _Held) -> frozenset[str]:
    """The bases of checks that keep something back whose commits a base branch holds by now."""
    stood_on = [hold.ground for hold in held.values() if hold.ground is not None]
    if not stood_on:
        return frozenset()
    await grounds.newest(services, project)
    return await grounds.held_by_now(services, project, stood_on)


async def _check_digest(
    services: Services, project: str, digest: str, asked: grounds.Asked
) -> tuple[GateDecision, _Held]:
    def look(unit: Unit) -> tuple[tuple[str, int] | None, _Held, str | None]:
        first: tuple[tuple[str, int] | None, _Held] = None, {}
        ended: str | None = None
        doubts = grounds.Doubts(unit, services, project, asked)
        for found in reports.list_approvals(unit, project, digest, _CANDIDATES):
            by = _ended_by(_Approvals(unit, project), (_approval(unit, *found),))
            if by is not None:
                ended = _taken_back_by(found[0], by)
            elif held := _held(unit, doubts, [found]):
                # Of several reviews of the same, one whose checks have passed is enough.
                first = first if first[0] is not None else (found, held)
            else:
                return found, {}, None
        return first[0], first[1], ended

    found, held, ended = await services.store.read(look)
    if found is None:
        reason = ended or "No approved round has this digest. Put the change up with create_review or tandem submit."
        return GateDecision(allowed=False, project=project, reason=reason, review_ids=(), paths=()), held
    reason, code = _said(held) if held else (f"approved by {found[0]}, round {found[1]}", None)
    return GateDecision(not held, project, reason, found[:1], (), code), held


async def _check_changes(
    services: Services, request: CheckGate, changes: list[Change], patterns: tuple[str, ...], asked: grounds.Asked
) -> GateDecision:
    project = request.project
    check_paths(changes)
    if not changes:
        return GateDecision(allowed=True, project=project, reason="nothing changes", review_ids=(), paths=())
    judged = [change for change in changes if not is_exempt(change, patterns)]
    # In the reader's thread: a search over many paths must not hold up the event loop.
    look = partial(_look, services=services, request=request, changes=changes, judged=judged, patterns=patterns)
    found = await services.store.read(partial(look, asked=asked))
    if found.whole is None and (by_now := await _held_by_now(services, project, found.held)):
        found = await services.store.read(partial(look, asked=asked._replace(held=by_now)))
    is_approved = len(found.covered) == len(judged)
    if is_approved and not found.held:
        reason = "everything is approved" if judged else "everything that changes is exempt"
        return replace(_decided(project, changes, judged, found, reason), signed=found.signature)
    if found.whole is not None:
        return replace(_passed(project, changes, judged, *found.whole), signed=found.signature)
    taken_back = await _taken_back(services, request, judged, found, patterns)
    if taken_back is not None:
        reason = f"takes back the commit {taken_back.id}, which was not approved"
        return _passed(project, changes, judged, "rollback", reason)
    if is_approved:
        return _decided(project, changes, judged, found, *_said(found.held))
    missing = [change.path for change in judged if change.path not in found.covered]
    reason = (
        f"{len(missing)} of {len(changes)} paths are not approved as they are, first {missing[0]}."
        " Put the change up with tandem submit, or commit exactly what was approved."
    )
    return _decided(project, changes, judged, found, reason)


def exempt_patterns(services: Services, project: str) -> tuple[str, ...]:
    """The patterns of paths that the gate of a project sets aside. Blocks: it may read the project's file."""
    return project_settings(services, project, "gate_exempt")[0]


def project_settings(services: Services, project: str, *named: str) -> tuple[Any, ...]:
    """Settings of the broker's policy as they hold for a project. Blocks: it may read the project's file."""
    usual = tuple(getattr(services.policy, name) for name in named)
    root = services.projects.root(project)
    file = Path(root, PROJECT_FILE) if root is not None else None
    if root is None or file is None or not file.exists():
        return usual
    try:
        loaded = load_settings(project_root=Path(root))
    except TandemError as error:
        # A file that cannot be read must neither close the gate for good nor open it.
        _log.warning("the project's settings cannot be used", extra={"project": project, "problem": error.message})
        return usual
    own = (loaded.origins[name] == str(file) for name in named)
    return tuple(
        getattr(loaded.settings, name) if is_own else value
        for name, is_own, value in zip(named, own, usual, strict=True)
    )


def check_paths(changes: Sequence[Change]) -> None:
    """Refuse a difference that names a path twice.

    Raises:
        InvalidInput: It does.
    """
    if len({change.path for change in changes}) != len(changes):
        raise InvalidInput("Every path may be named once.", field="changes")


def changes_of(sent: Sequence[GateChange] | None) -> list[Change]:
    """The raw difference that a request carries."""
    return [Change(one.path, one.mode_before, one.blob_before, one.mode_after, one.blob_after) for one in sent or ()]


def _look(
    unit: Unit,
    services: Services,
    request: CheckGate,
    changes: list[Change],
    judged: list[Change],
    patterns: tuple[str, ...],
    asked: grounds.Asked,
) -> _Found:
    project = request.project
    approvals, covered, ended = _approved(unit, project, judged, patterns)
    doubts = grounds.Doubts(unit, services, project, asked)
    held = _held(unit, doubts, _used(covered))
    if held and len(covered) == len(judged):
        # The same may be approved by reviews whose checks have passed.
        others = [one for one in approvals if one.review_id not in held]
        again, _ = _standing(_Approvals(unit, project, patterns), judged, others)
        if len(again) == len(judged) and not _held(unit, doubts, _used(again)):
            covered, held = again, {}
    found = _Found(approvals, covered, held, ended)
    if len(covered) == len(judged) and not held:
        # What is only exempt nobody has looked at.
        is_signed = request.sign and bool(judged)
        signature = signing.sign(services.tokens, project, digest_of(changes)) if is_signed else None
        return replace(found, signature=signature)
    gate = gates.find(unit, project)
    if request.signed and not held:
        signers = names(gate.signers) if gate is not None else []
        signer, signature, problem = signing.verify(signers, digest_of(changes), request.signed)
        if signer is not None:
            return replace(found, signature=signature, whole=("signed", f"approved by the broker of {signer}"))
        found = replace(found, unsigned=problem)
    override = gates.find_override_of(unit, project, digest_of(changes))
    if override is not None:
        return replace(found, whole=("overridden", f"let through by {override.overridden_by}: {override.reason}"))
    missing = [change for change in judged if change.path not in covered]
    undecided = _undecided(unit, project, changes, missing)
    found = replace(found, instead=_instead(unit, project, missing[:_HINTS]), undecided=undecided)
    if request.head is None:
        return found
    return replace(
        found,
        commits=commits.list_inverse(unit, project, digest_of(judged), digest_of(inverse(judged))),
        branches=tuple(names(gate.branches)) if gate is not None else (),
    )


def is_approved(
    unit: Unit, project: str, digest: str, changes: Sequence[Change] | None, patterns: tuple[str, ...]
) -> bool:
    """Whether approvals cover all of a difference that is not set aside; of one without entries, all of it as it is."""
    known = _Approvals(unit, project)
    for found in reports.list_approvals(unit, project, digest, _CANDIDATES):
        if _ended_by(known, (_approval(unit, *found),)) is None:
            return True
    judged = [change for change in changes or () if not is_exempt(change, patterns)]
    return changes is not None and len(_approved(unit, project, judged, patterns)[1]) == len(judged)


def _approved(
    unit: Unit, project: str, judged: list[Change], patterns: tuple[str, ...]
) -> tuple[list[Approval], dict[str, Cover], dict[str, str]]:
    """The approvals of some changes, what they cover, and those that a later one takes back."""
    known = _Approvals(unit, project, patterns)
    approvals = known.ending_at(map(end_of, judged))
    covered, ended = _standing(known, judged, approvals)
    if len(covered) != len(judged) and len(approvals) != len(before := known.behind(approvals, judged)):
        approvals = before
        covered, ended = _standing(known, judged, approvals)
    return approvals, covered, ended


def _used(covered: dict[str, Cover]) -> list[tuple[str, int]]:
    """The reviews and rounds that cover something."""
    return sorted({(one.review_id, one.round) for made in covered.values() for one in made.chain})


async def _taken_back(
    services: Services, request: CheckGate, judged: list[Change], found: _Found, patterns: tuple[str, ...]
) -> CommitRow | None:
    """The commit that the difference reverts, read from the repository itself: a hook may claim anything."""
    repository = await services.projects.repository(request.project)
    head = request.head
    if repository is None or head is None or not found.commits:
        return None

    def look() -> CommitRow | None:
        wanted = {*inverse(judged)}
        for commit in found.commits:
            made = repository.change_on_the_way(commit.id, head=head, base=request.base, branches=found.branches)
            if made is not None and {change for change in made if not is_exempt(change, patterns)} == wanted:
                return commit
        return None

    async with services.validations:
        return await asyncio.to_thread(look)


def _undecided(
    unit: Unit, project: str, changes: Sequence[Change], missing: Sequence[Change]
) -> dict[str, tuple[str, int]]:
    """The reviews of exactly this difference, or of the whole text that a path becomes."""
    whole = reports.find_undecided(unit, project, digest_of(changes))
    if whole is not None:
        return {one.path: whole for one in missing}
    found = (
        (one.path, reports.find_undecided(unit, project, f"{one.blob_after}:{one.path}")) for one in missing[:_HINTS]
    )
    return {path: review for path, review in found if review is not None}


def _instead(unit: Unit, project: str, missing: Sequence[Change]) -> dict[str, str]:
    found = (
        (one.path, reports.find_approved_from(unit, project, one.path, one.blob_before, _CANDIDATES))
        for one in missing
        if one.mode_before != ABSENT_MODE
    )
    return {path: review_id for path, review_id in found if review_id is not None}


class _Approvals:
    """The approvals of a project, as far as a question needs them; what the gate sets aside is no part of them."""

    def __init__(self, unit: Unit, project: str, patterns: tuple[str, ...] = ()) -> None:
        self.unit = unit
        self._project = project
        self._patterns = patterns
        self._read: dict[tuple[str, int], Approval] = {}

    def ending_at(self, ends: Iterable[tuple[str, str, str]]) -> list[Approval]:
        """Every approval, whole, that has one of the paths with its blob at the end."""
        found: dict[tuple[str, int], Approval] = {}
        for path, blob in dict.fromkeys((path, blob) for path, _, blob in ends):
            rows = reports.list_approved_for_path(self.unit, self._project, path, blob, _CANDIDATES)
            for review_id, number, kind, *_ in rows:
                key = (review_id, number)
                if key not in self._read:
                    whole = _approval(self.unit, *key, is_text=kind == "text")
                    judged = frozenset(one for one in whole.changes if not is_exempt(one, self._patterns))
                    self._read[key] = replace(whole, changes=judged)
                found[key] = self._read[key]
        return list(found.values())

    def behind(self, approvals: Sequence[Approval], changes: Sequence[Change]) -> list[Approval]:
        """Some approvals, and those that their content comes from, back to where the changes begin."""
        found, newest = list(approvals), list(approvals)
        reached = {*map(start_of, changes), *map(end_of, changes)}
        while newest and len(found) < _CHAINED and sum(len(one.changes) for one in found) < _CHAINED_PATHS:
            starts = {start_of(entry) for one in newest if not one.is_text for entry in one.changes} - reached
            reached |= starts
            newest = [one for one in self.ending_at(sorted(starts)) if one not in found]
            found += newest
        return found


def _standing(
    known: _Approvals, judged: list[Change], approvals: list[Approval]
) -> tuple[dict[str, Cover], dict[str, str]]:
    """What covers which path, without approvals that a later one takes back; and those, with what takes them back."""
    ended: dict[str, str] = {}
    looked_at: set[tuple[Approval, ...]] = set()
    while True:
        covered = cover(judged, [one for one in approvals if one.review_id not in ended])
        chains = {made.chain for made in covered.values()}
        used = {*chains, *((one,) for chain in chains for one in chain)} - looked_at
        looked_at |= used
        now = {chain[-1].review_id: by for chain in used if (by := _ended_by(known, chain)) is not None}
        if not now:
            return covered, ended
        ended |= now


def _ended_by(known: _Approvals, chain: Sequence[Approval]) -> str | None:
    """A later approval that takes back all that approved changes come to; of the two decisions the newer one counts."""
    back = frozenset(inverse(net(chain)))
    if not back:
        return None
    since = max(reports.approved_at(known.unit, one.review_id) for one in chain)
    others = (one for one in known.ending_at([end_of(min(back))]) if back <= one.changes)
    return next((one.review_id for one in others if reports.approved_at(known.unit, one.review_id) > since), None)


def _taken_back_by(review_id: str, by: str) -> str:
    return f"{review_id} approved it, and {by}, approved later, takes it back; submit it again"


def _approval(unit: Unit, review_id: str, number: int, *, is_text: bool = False) -> Approval:
    entries = reports.list_approved_paths(unit, review_id, number, _APPROVED_PATHS)
    return Approval(review_id, number, frozenset(Change(*entry) for entry in entries), is_text=is_text)


def _held(unit: Unit, doubts: grounds.Doubts, approvals: Sequence[tuple[str, int]]) -> _Held:
    """What keeps approved content back, by review; one that has ended comes before one that may still pass."""
    found: _Held = {}
    for which in approvals:
        if held := checks.held(unit, doubts, *which):
            found[which[0]] = min(held, key=lambda one: one.is_pending)
    return found


def _said(held: _Held) -> tuple[str, str]:
    """What keeps approved content back, in words and as a code."""
    hold = min(held.values(), key=lambda one: one.is_pending)
    code = CheckPending.code if hold.is_pending else CheckFailed.code
    return f"approved, but {hold.words} ({code})", code


def _decided(
    project: str, changes: list[Change], judged: list[Change], found: _Found, reason: str, code: str | None = None
) -> GateDecision:
    """The decision path by path: exempt, covered by an approval, or neither."""
    left = {change.path for change in judged}
    paths = tuple(_judged(change, found) if change.path in left else _exempt(change) for change in changes)
    used = tuple(sorted({one.review_id for made in found.covered.values() for one in made.chain}))
    return GateDecision(all(path.allowed for path in paths), project, reason, used, paths, code)


def _passed(project: str, changes: list[Change], judged: list[Change], kind: Kind, reason: str) -> GateDecision:
    """The decision that lets a difference through as a whole; no review stands for it."""
    left = {change.path for change in judged}
    paths = tuple(
        PathDecision(change.path, allowed=True, review_id=None, round=None, reason=reason, kind=kind)
        if change.path in left
        else _exempt(change)
        for change in changes
    )
    return GateDecision(allowed=True, project=project, reason=reason, review_ids=(), paths=paths)


def _exempt(change: Change) -> PathDecision:
    reason = "set aside by the setting gate_exempt"
    return PathDecision(change.path, allowed=True, review_id=None, round=None, reason=reason, kind="exempt")


def _judged(change: Change, found: _Found) -> PathDecision:
    made, candidates = found.covered.get(change.path), found.approvals
    if made is not None:
        approval = made.approval
        held = next((found.held[one.review_id] for one in made.chain if one.review_id in found.held), None)
        reason = f"approved by {approval.review_id}, round {approval.round}"
        if len(made.chain) > 1:
            reason += f", as one of {len(made.chain)} approved changes that build on each other"
        return PathDecision(
            change.path,
            allowed=held is None,
            review_id=approval.review_id,
            round=approval.round,
            reason=reason if held is None else f"{reason}, but {held.words}",
            kind=None if held else "approved",
        )
    ending = [one for one in candidates if any(end_of(entry) == end_of(change) for entry in one.changes)]
    by = next(((one.review_id, found.ended[one.review_id]) for one in ending if one.review_id in found.ended), None)
    partly = next((one for one in ending if change in one.changes), None)
    review_id, number = (by[1], None) if by is not None else found.undecided.get(change.path, (None, None))
    if by is not None:
        reason = _taken_back_by(*by)
    elif review_id is not None:
        reason = f"{review_id}, round {number}, has exactly this content and no verdict yet"
    elif partly is not None:
        reason = f"approved by {partly.review_id} only together with its other paths; commit them together"
    elif ending:
        reason = f"approved by {ending[-1].review_id} against other content before; submit it again"
    elif any(
        (entry.path, entry.blob_after) == (change.path, change.blob_after)
        for one in candidates
        for entry in one.changes
    ):
        reason = "approved with another mode"
    else:
        reason = "no approved round has this content at this path"
        if change.path in found.instead:
            reason += (
                f"; {found.instead[change.path]} approved other content for it (did a formatter run since?):"
                " submit this, or commit that"
            )
    if found.unsigned is not None:
        reason = f"{reason}; {found.unsigned}"
    return PathDecision(change.path, allowed=False, review_id=review_id, round=number, reason=reason)
