"""The gate: decides whether content is approved, to the byte.

A repository's own statement of its gate is compared with the broker's record first, as clients can write the former.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from tandem.contract.caller import Caller
from tandem.core.wanted import in_thread, while_wanted
from tandem.errors import CheckFailed, CheckPending, ConfigInvalid, InvalidInput, TandemError, TooLarge
from tandem.gate import queries, signing
from tandem.gate.approvals import CANDIDATES, Approvals, TooMuch, approved, ended_by, standing
from tandem.gate.contract import CheckGate, GateChange, GateDecision, GateHere, PathDecision
from tandem.gate.rules import Approval, CommitRow, Cover, Gate, commits_of, inverse, names, names_of
from tandem.git.changes import Change
from tandem.git.raw import digest_of
from tandem.reviews import checks, contents, grounds, rounds, seats
from tandem.reviews import queries as review_queries
from tandem.reviews import report_queries as reports
from tandem.reviews.check_rules import Hold
from tandem.reviews.context import Services
from tandem.reviews.verdicts import find_landing
from tandem.rulings import planning, trust
from tandem.rulings.next_steps import SUBMIT
from tandem.rulings.state import COMMITS, REVIEWED
from tandem.settings.config import PROJECT_FILE, load_settings, user_file
from tandem.settings.policy import is_exempt
from tandem.store.base import Unit

_log = logging.getLogger("tandem.gate")
_T = TypeVar("_T")
_FEW = 1_000
_FEW_ENTRIES = 1_000
"""Paths of a commit, and of approvals, that are judged as every other read; more of them in a line of their own, where
they keep no other read waiting."""
_MOST_ENTRIES = 500_000
"""Paths of approvals that a commit is compared with; with more of them it is refused."""
_HINTS = 10
"""Paths for which a refusal names a review that approved other content."""
Kind = Literal["approved", "exempt", "signed", "rollback", "overridden", "in_part"]


_large = ThreadPoolExecutor(1, thread_name_prefix="tandem-gate")
_Held = dict[str, Hold]
"""By review, the one hold that explains best why its content may not pass."""


@dataclass(frozen=True, slots=True)
class _Found:
    """The facts that the store has on a difference.

    Attributes:
        ending: By path and blob, the review and round of the approvals that end there, with the mode at the end.
        read: The approvals by review and round.
        covered: By path, the approvals that cover it.
        held: The required checks that have not passed, of the reviews that cover something.
        ended: By review whose approval a later one reverts, the review of that one.
        instead: By path that is not covered, a review that approved another result of the same content.
        concerned: By path that is not covered, the review that is about exactly this content and does not approve it.
        signature: For all of it: this broker's, if one was asked for and everything is approved, or a signer's.
        unsigned: Why none of the commit's signatures counts; None if one does, or it has none.
        whole: Why all of it passes, as a kind and in words: a signer's broker approved it, or a person let it through.
        commits: Commits that it may be the rollback of.
        branches: The base branches of the project's gate.
        owed: The override, in words, if no person has seen it yet.
    """

    ending: Mapping[tuple[str, str], Sequence[tuple[str, int, str]]]
    read: Mapping[tuple[str, int], Approval]
    covered: dict[str, Cover]
    held: _Held
    ended: dict[str, str] = field(default_factory=dict[str, str])
    instead: dict[str, str] = field(default_factory=dict[str, str])
    concerned: dict[str, queries.Concerned] = field(default_factory=dict[str, queries.Concerned])
    signature: str | None = None
    unsigned: str | None = None
    whole: tuple[Kind, str] | None = None
    commits: Sequence[CommitRow] = ()
    branches: tuple[str, ...] = ()
    owed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Question:
    """A difference that is judged.

    Attributes:
        changes: All of it.
        judged: Its changes that are not exempt.
        patterns: Those of exempt paths.
    """

    request: CheckGate
    changes: list[Change]
    judged: list[Change]
    patterns: tuple[str, ...]


async def check_gate(services: Services, _caller: Caller, request: CheckGate) -> GateDecision:
    """Whether exactly this content may pass; fails closed.

    A digest must be that of a round whose approval still stands. Of changes, each path must be exempt or covered by an
    approval. Otherwise the difference passes as a whole if the broker of a signer approved it, if a person let it
    through, or if it exactly reverts a commit of a change that was not approved.

    Raises:
        ConfigInvalid: The repository's statement of its gate differs from the record.
        InvalidInput: Both or neither was sent, or a path is named twice.
        TooLarge: The approvals of these paths have too many paths.
    """
    await require_same(services, request.project, request.here)
    if (request.digest is None) == (request.changes is None):
        raise InvalidInput("Send either changes or digest.", field="changes")
    settings = await asyncio.to_thread(project_settings, services, request.project, "gate_exempt", "checks_on_tip")
    known = await services.store.read(lambda unit: grounds.base_branches(unit, services, request.project).names)
    named = {*known, *([request.branch] if request.branch else ())} or {grounds.HEAD}
    of_tips = await contents.of_tips(services, request.project, named)
    asked = grounds.Asked(
        request.branch,
        request.branch in of_tips and of_tips[request.branch].checks is not None,
        await _tips(services, request, known) if settings[1] else None,
        policies={name: one.policy for name, one in of_tips.items()},
    )
    with while_wanted() as check:
        judge = _check_digest if request.digest is not None else _check_changes
        decision, held = await judge(services, request, settings[0], asked, check)
        by_now, landed = await _held_by_now(services, request.project, held), await _landed(services, held)
        if by_now or landed:
            asked = asked._replace(held=by_now, landed=landed)
            decision, _ = await judge(services, request, settings[0], asked, check)
        return decision


def _with_debts(unit: Unit, now_us: int, decision: GateDecision) -> GateDecision:
    """The decision with the waived requirements of its reviews that are still owed, in words."""
    if not decision.review_ids:
        return decision
    owing = [reports.with_objections(unit, one) for one in review_queries.list_owing(unit, decision.review_ids)]
    debts = [(f"{one.id}: {debt.words(now_us)}", debt) for one in owing for debt in rounds.owed(one)]
    overdue = tuple(words for words, debt in debts if debt.until < now_us)
    return replace(decision, owed=(*decision.owed, *(words for words, _ in debts)), overdue=overdue)


async def _tips(services: Services, request: CheckGate, named: Iterable[str]) -> dict[str, frozenset[str]]:
    """By base branch, the commits of which a check has to have run on one."""
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


async def _landed(services: Services, held: _Held) -> frozenset[str]:
    """The reviews that the policy keeps back whose content a base branch holds already."""
    found: list[str] = []
    for review_id in [name for name, hold in held.items() if hold.code is not None][:_HINTS]:
        review = await services.store.read(lambda unit, name=review_id: review_queries.get(unit, name))
        if (await find_landing(services, review)).branches:
            found.append(review_id)
    return frozenset(found)


async def _looked(services: Services, look: Callable[[int, Unit], _T], *, is_large: bool = False) -> _T:
    """Looks in the store, reading a bounded number of approved paths; long looks run one after the other."""
    if not is_large:
        with suppress(TooMuch):
            return await services.store.read(partial(look, _FEW_ENTRIES))
    try:
        return await in_thread(_large, lambda: services.store.read_blocking(partial(look, _MOST_ENTRIES)))
    except TooMuch:
        raise TooLarge(
            f"The approvals of these paths have more than {_MOST_ENTRIES} paths in all; commit them in several parts.",
            limit="approved_paths",
            most=_MOST_ENTRIES,
        ) from None


async def _check_digest(
    services: Services, request: CheckGate, _: tuple[str, ...], asked: grounds.Asked, check: Callable[[], None]
) -> tuple[GateDecision, _Held]:
    project, digest, now_us = request.project, request.digest or "", services.clock.now_us()

    def look(most: int, unit: Unit) -> tuple[GateDecision, _Held]:
        known, doubts = Approvals(unit, project, check, most), grounds.Doubts(unit, services, project, asked)
        found = review_queries.list_approvals(unit, project, digest, CANDIDATES)
        at = queries.list_approved_at(unit, [review_id for review_id, _ in found])
        kept: _Held = {}
        reason, code = f"No approved round has this digest. To have it reviewed: {SUBMIT}", None
        for one in sorted(found, key=lambda one: at.get(one[0], 0), reverse=True):
            chain = (known.whole(*one),)
            if (by := ended_by(known, [chain]).get(chain)) is not None:
                if not kept:
                    # All have the same content: the approval that reverts the newest one reverts the others, too.
                    reason = _taken_back_by(one[0], by)
                    break
                continue
            held = _held(unit, doubts, [one])
            if not held:
                # Of several reviews of the same, one whose checks have passed is enough.
                reason = f"approved by {one[0]}, round {one[1]}"
                decision = GateDecision(allowed=True, project=project, reason=reason, review_ids=one[:1], paths=())
                return _with_debts(unit, now_us, decision), {}
            kept |= held
        used = tuple(kept)[:1]
        if used:
            reason, code = _said({used[0]: kept[used[0]]})
        decision = GateDecision(allowed=False, project=project, reason=reason, review_ids=used, paths=(), code=code)
        return _with_debts(unit, now_us, decision), kept

    return await _looked(services, look)


async def _check_changes(
    services: Services,
    request: CheckGate,
    patterns: tuple[str, ...],
    asked: grounds.Asked,
    check: Callable[[], None],
) -> tuple[GateDecision, _Held]:
    is_large = len(request.changes or ()) > _FEW
    prepare = partial(_question, request, patterns)
    question = await (in_thread(_large, prepare) if is_large else asyncio.to_thread(prepare))
    if not question.changes:
        reason = "nothing changes"
        return GateDecision(allowed=True, project=request.project, reason=reason, review_ids=(), paths=()), {}
    look = partial(_answer, services=services, question=question, asked=asked, check=check)
    decision, found = await _looked(services, look, is_large=is_large)
    taken_back = await _taken_back(services, question, found.commits, found.branches)
    if taken_back is not None:
        reason = f"reverts the commit {taken_back.id}, which was not approved"
        return await asyncio.to_thread(_passed, question, "rollback", reason), {}
    return decision, {} if decision.allowed else found.held


def _question(request: CheckGate, patterns: tuple[str, ...]) -> _Question:
    """The difference, and its changes that are judged."""
    changes = changes_of(request.changes)
    return _Question(request, changes, [one for one in changes if not is_exempt(one, patterns)], patterns)


def _answer(
    most: int,
    unit: Unit,
    *,
    services: Services,
    question: _Question,
    asked: grounds.Asked,
    check: Callable[[], None],
) -> tuple[GateDecision, _Found]:
    """The decision on a difference that reverts none of the commits found; and the facts found."""
    known = Approvals(unit, question.request.project, check, most, question.patterns)
    found = _look(known, unit, services, question, asked)
    judged = question.judged
    if found.whole is not None:
        decision = replace(_passed(question, *found.whole), signed=found.signature, owed=found.owed)
    elif len(found.covered) != len(judged):
        missing = [change.path for change in judged if change.path not in found.covered]
        reason = (
            f"{len(missing)} of {len(question.changes)} paths are not approved as they are, first {missing[0]}."
            f" Commit exactly the approved content, or submit this: {SUBMIT}"
        )
        decision = _decided(question, found, reason)
    elif found.held:
        decision = _decided(question, found, *_said(found.held))
    else:
        reason = "everything is approved" if judged else "everything that changes is exempt"
        decision = replace(_decided(question, found, reason), signed=found.signature)
    known.forget()
    decision = _with_debts(unit, services.clock.now_us(), decision)
    return decision, replace(found, ending={}, read={}, covered={})


def exempt_patterns(services: Services, project: str) -> tuple[str, ...]:
    """The patterns of paths that the gate of a project sets aside. Blocks: it may read the project's file."""
    return project_settings(services, project, "gate_exempt")[0]


def project_settings(services: Services, project: str, *named: str) -> tuple[Any, ...]:
    """Settings of the broker's policy as they hold for a project. Blocks: it may read the project's file."""
    usual = tuple(getattr(services.policy, name) for name in named)
    root = services.projects.root(project)
    folder = Path(planning.project_root(root)) if root is not None else None
    file = folder / PROJECT_FILE if folder is not None else None
    if file is None or not file.exists():
        return usual
    try:
        loaded = load_settings(project_root=folder)
    except TandemError as error:
        # A file that cannot be read must neither close the gate for good nor open it.
        _log.warning("the project's settings cannot be used", extra={"project": project, "problem": error.message})
        return usual
    own = (loaded.origins[name] == str(file) for name in named)
    return tuple(
        getattr(loaded.settings, name) if is_own else value
        for name, is_own, value in zip(named, own, usual, strict=True)
    )


def changes_of(sent: Sequence[GateChange] | None) -> list[Change]:
    """The raw difference that a request carries. It may have 100,000 paths: call it in a thread.

    Raises:
        InvalidInput: A path is named twice.
    """
    changes = [Change(one.path, one.mode_before, one.blob_before, one.mode_after, one.blob_after) for one in sent or ()]
    if len({change.path for change in changes}) != len(changes):
        raise InvalidInput("Every path may be named once.", field="changes")
    return changes


def _look(known: Approvals, unit: Unit, services: Services, question: _Question, asked: grounds.Asked) -> _Found:
    project, changes, judged, request = question.request.project, question.changes, question.judged, question.request
    approvals, covered, ended = approved(known, judged)
    doubts = grounds.Doubts(unit, services, project, asked)
    held = _held(unit, doubts, _used(covered))
    if held and len(covered) == len(judged):
        # The same may be approved by reviews whose checks have passed.
        again, _ = standing(known, judged, [one for one in approvals if one.review_id not in held])
        if len(again) == len(judged) and not _held(unit, doubts, _used(again)):
            covered, held = again, {}
    found = _Found(known.ending, known.read, covered, held, ended)
    if len(covered) == len(judged) and not held:
        # No reviewer has looked at content that is only exempt.
        is_signed = request.sign and bool(judged)
        signature = signing.sign(services.tokens, project, digest_of(changes)) if is_signed else None
        return replace(found, signature=signature)
    gate, digest = queries.find_gate(unit, project), digest_of(changes)
    if request.signed and not held:
        signer, signature, problem = signing.verify(names_of(gate, "signers"), digest, request.signed)
        if signer is not None:
            return replace(found, signature=signature, whole=("signed", f"approved by the broker of {signer}"))
        found = replace(found, unsigned=problem)
    override = queries.find_override_of(unit, project, digest)
    if override is not None:
        words = f"let through by {override.overridden_by}: {override.reason}"
        owed = () if queries.is_seen(unit, override) else (f"{override.id}: no person has seen it yet: {words}",)
        return replace(found, whole=("overridden", words), owed=owed)
    missing = [change for change in judged if change.path not in covered]
    concerned = _concerned(unit, project, digest, missing)
    found = replace(found, instead=_instead(unit, project, missing[:_HINTS]), concerned=concerned)
    if request.head is None:
        return found
    return replace(
        found,
        commits=queries.list_inverse(unit, project, digest_of(judged), digest_of(inverse(judged))),
        branches=tuple(names_of(gate, "branches")),
    )


def _used(covered: dict[str, Cover]) -> list[tuple[str, int]]:
    """The reviews and rounds that cover something."""
    return sorted({(one.review_id, one.round) for made in {*covered.values()} for one in made.chain})


async def _taken_back(
    services: Services, question: _Question, candidates: Sequence[CommitRow], branches: tuple[str, ...]
) -> CommitRow | None:
    """The commit that the difference reverts, read from the repository itself: a hook may claim anything."""
    request = question.request
    repository = await services.projects.repository(request.project) if candidates else None
    head = request.head
    if repository is None or head is None:
        return None

    def look() -> CommitRow | None:
        wanted = {*inverse(question.judged)}
        for commit in candidates:
            made = repository.change_on_the_way(commit.id, head=head, base=request.base, branches=branches)
            if made is not None and {change for change in made if not is_exempt(change, question.patterns)} == wanted:
                return commit
        return None

    async with services.validations:
        return await asyncio.to_thread(look)


def _concerned(unit: Unit, project: str, digest: str, missing: Sequence[Change]) -> dict[str, queries.Concerned]:
    """The reviews of exactly this difference, or of the whole text that a path becomes."""
    whole = queries.find_concerned(unit, project, digest)
    if whole is not None:
        return {one.path: whole for one in missing}
    found = (
        (one.path, queries.find_concerned(unit, project, f"{one.blob_after}:{one.path}")) for one in missing[:_HINTS]
    )
    return {path: review for path, review in found if review is not None}


def _instead(unit: Unit, project: str, missing: Sequence[Change]) -> dict[str, str]:
    found = (
        (one.path, queries.find_approved_from(unit, project, one.path, one.blob_before, CANDIDATES)) for one in missing
    )
    return {path: review_id for path, review_id in found if review_id is not None}


def _taken_back_by(review_id: str, by: str) -> str:
    return f"{review_id} approved it, and {by}, approved later, takes it back; submit it again"


def _held(unit: Unit, doubts: grounds.Doubts, approvals: Sequence[tuple[str, int]]) -> _Held:
    """By review, the hold on its approved content; one that has ended comes before one that may still pass."""
    found: _Held = {}
    for which in approvals:
        lacking = seats.held(unit, doubts.asked, *which)
        if held := (*checks.held(unit, doubts, *which), *([lacking] if lacking else ())):
            found[which[0]] = min(held, key=lambda one: one.is_pending)
    return found


def _said(held: _Held) -> tuple[str, str]:
    """The hold on approved content, in words and as a code."""
    hold = min(held.values(), key=lambda one: one.is_pending)
    code = hold.code or (CheckPending.code if hold.is_pending else CheckFailed.code)
    return f"approved, but {hold.words} ({code})", code


def _decided(question: _Question, found: _Found, reason: str, code: str | None = None) -> GateDecision:
    """The decision path by path: exempt, covered by an approval, or neither."""
    left = {change.path for change in question.judged}
    covering = {made: _covering(made, found) for made in {*found.covered.values()}}
    paths = tuple(
        _exempt(change)
        if change.path not in left
        else replace(covering[made], path=change.path)
        if (made := found.covered.get(change.path)) is not None
        else _uncovered(change, found)
        for change in question.changes
    )
    used = tuple(sorted({one.review_id for made in covering for one in made.chain}))
    return GateDecision(all(path.allowed for path in paths), question.request.project, reason, used, paths, code)


def _passed(question: _Question, kind: Kind, reason: str) -> GateDecision:
    """The decision that lets a difference through as a whole; no review stands for it."""
    left = {change.path for change in question.judged}
    paths = tuple(
        _let_through(change, kind, reason) if change.path in left else _exempt(change) for change in question.changes
    )
    return GateDecision(allowed=True, project=question.request.project, reason=reason, review_ids=(), paths=paths)


def _exempt(change: Change) -> PathDecision:
    return _let_through(change, "exempt", "set aside by the setting gate_exempt")


def _let_through(change: Change, kind: Kind, reason: str) -> PathDecision:
    return PathDecision(change.path, allowed=True, review_id=None, round=None, reason=reason, kind=kind)


def _covering(made: Cover, found: _Found) -> PathDecision:
    """The decision on the paths that an approval covers, without the path."""
    # One that is kept back is named by itself: running the checks of another one would change nothing.
    approval = next((one for one in made.chain if one.review_id in found.held), made.approval)
    held = found.held.get(approval.review_id)
    reason = f"approved by {approval.review_id}, round {approval.round}"
    if len(made.chain) > 1:
        reason += f", as one of {len(made.chain)} approved changes that build on each other"
    return PathDecision(
        "",
        allowed=held is None,
        review_id=approval.review_id,
        round=approval.round,
        reason=reason if held is None else f"{reason}, but {held.words}",
        kind=None if held else "approved",
    )


def _uncovered(change: Change, found: _Found) -> PathDecision:
    """The decision on a path that nothing covers."""
    candidates = found.ending.get((change.path, change.blob_after), ())
    ending = [found.read[review_id, number] for review_id, number, mode in candidates if mode == change.mode_after]
    by = next(((one.review_id, found.ended[one.review_id]) for one in ending if one.review_id in found.ended), None)
    partly = next((one for one in ending if change in one.changes), None)
    concerned = found.concerned.get(change.path)
    review_id, number = (by[1], None) if by is not None else (concerned or (None, None))[:2]
    kind: Kind | None = None
    if by is not None:
        reason = _taken_back_by(*by)
    elif concerned is not None:
        reason = concerned.words
    elif partly is not None:
        review_id, kind = partly.review_id, "in_part"
        reason = (
            f"approved by {review_id} only together with its other paths; stage all: tandem apply {review_id} --index"
        )
    elif ending:
        reason = f"approved by {ending[-1].review_id} against other content before; submit it again"
    elif candidates:
        reason = "approved with another mode"
    else:
        reason = "no approved round has this content at this path"
        if change.path in found.instead:
            reason += (
                f"; {found.instead[change.path]} approved other content for it (did a formatter run since?). To commit"
                f" that: tandem apply {found.instead[change.path]} --index"
            )
    if found.unsigned is not None:
        reason = f"{reason}; {found.unsigned}"
    return PathDecision(change.path, allowed=False, review_id=review_id, round=number, reason=reason, kind=kind)


async def require_same(services: Services, project: str, here: GateHere | None) -> None:
    """Refuse a repository whose own files say something else of its gate than the record.

    Args:
        services: The store, and the folders of projects.
        project: The project that the repository names.
        here: Its statement; None if the caller is no repository.

    Raises:
        ConfigInvalid: They differ.
    """
    if here is None:
        return
    trusted = await asyncio.to_thread(trusted_here, services, project)
    found = _differences(
        project, await services.store.read(lambda unit: queries.find_gate(unit, project)), here, trusted
    )
    if found:
        raise ConfigInvalid(
            f"The gate in the repository differs from the record: {'; '.join(found)}. A person looks at it and runs"
            " 'tandem gate on'; for a file that is trusted, 'tandem trust' or 'tandem trust --revoke'.",
            project=project,
            differences=found,
        )


def _differences(project: str, gate: Gate | None, here: GateHere, trusted: Sequence[str]) -> list[str]:
    if gate is None or not gate.enabled:
        return [f"the gate of {project} is on there, and off at the broker"]
    recorded, found = names(gate.branches), list[str]()
    if here.folder not in names(gate.folders):
        moved = "if that was moved there, run in it: tandem project move"
        found.append(f"the gate of {project} was not switched on for {here.folder} ({moved})")
    if set(here.branches) != set(recorded):
        found.append(
            f"the base branches are {_branches_said(here.branches)} there, and {_branches_said(recorded)} at the broker"
        )
    stated, kept = here.commits or REVIEWED, commits_of(gate)
    if COMMITS.index(stated) < COMMITS.index(kept):
        found.append(f"commits on other branches are {stated} there, and {kept} at the broker")
    beyond = sorted({*here.trusted, *trusted} - {*names(gate.trusted)})
    return found + [f"{one.partition(' ')[2]} is trusted in a form that no person told the broker of" for one in beyond]


def _branches_said(branches: Sequence[str]) -> str:
    return ", ".join(branches) or "none"


def trusted_here(services: Services, project: str) -> list[str]:
    """The trusted contents of a project's folder, by the list that this broker reads. Blocks: it reads a file."""
    root = services.projects.root(project)
    return [] if root is None else trust.contents(str(user_file().parent), root)
