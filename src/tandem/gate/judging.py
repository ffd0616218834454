"""The gate: what is approved, to the byte."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

from tandem.contract.caller import Caller
from tandem.core.secret_key import Tokens
from tandem.core.wanted import in_thread, while_wanted
from tandem.errors import CheckFailed, CheckPending, InvalidInput, TandemError, TooLarge
from tandem.gate import commit_queries as commits
from tandem.gate import queries as gates
from tandem.gate import record, signing
from tandem.gate.contract import CheckGate, GateChange, GateDecision, PathDecision
from tandem.gate.rules import CommitRow, names
from tandem.git.changes import Change
from tandem.git.raw import ABSENT_MODE, digest_of
from tandem.reviews import checks
from tandem.reviews import report_queries as reports
from tandem.reviews.approvals import Approval, Cover, cover, end_of, inverse, net, start_of
from tandem.reviews.check_rules import CheckRun, CheckStatus
from tandem.settings.config import PROJECT_FILE, load_settings
from tandem.settings.exempt import is_exempt
from tandem.store.base import Unit
from tandem.store.context import Services

_log = logging.getLogger("tandem.gate")
_T = TypeVar("_T")
_CANDIDATES = 500
"""Approvals of the same content that are looked at; more would be abuse."""
_FEW = 1_000
_FEW_ENTRIES = 1_000
"""Paths of a commit, and of approvals, that are judged as every other read; more of them in a line of their own, where
they keep no other read waiting."""
_MOST_ENTRIES = 500_000
"""Paths of approvals that a commit is compared with; with more of them it is refused."""
_MOST_TURNS = 20
"""Times that approvals are sought in place of those that were taken back."""
_CHAINED = 500
_CHAINED_PATHS = 20_000
"""Approvals, and paths of them, that a commit is traced back through: a squash of more is submitted as one change."""
_HINTS = 10
"""Paths for which a refusal says what was approved in their place."""
Kind = Literal["approved", "exempt", "signed", "rollback", "overridden"]


_large = ThreadPoolExecutor(1, thread_name_prefix="tandem-gate")
_Held = dict[str, CheckRun]
"""By review, the one of its required checks that says most of why its content may not pass."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What the store says of a difference.

    Attributes:
        ending: By path and blob, the review and round of the approvals that end there, with the mode at the end.
        read: The approvals by review and round.
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

    ending: Mapping[tuple[str, str], Sequence[tuple[str, int, str]]]
    read: Mapping[tuple[str, int], Approval]
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


@dataclass(frozen=True, slots=True)
class _Question:
    """A difference that is judged.

    Attributes:
        changes: All of it.
        judged: What of it is not exempt.
        patterns: What sets paths aside.
    """

    request: CheckGate
    changes: list[Change]
    judged: list[Change]
    patterns: tuple[str, ...]

    @property
    def project(self) -> str:
        return self.request.project


class _TooMuch(Exception):
    """The approvals have more paths than may be looked at here."""


async def check_gate(services: Services, _caller: Caller, request: CheckGate) -> GateDecision:
    """Whether exactly this content may pass; fails closed.

    A digest has to be that of a round whose approval still stands. Of changes, a path is set aside as exempt, or
    covered by an approval. Else all of it passes that the broker of a signer approved, that a person let through, or
    that exactly takes back a commit of a change that was not approved.

    Raises:
        ConfigInvalid: What the repository says of its gate differs from the record.
        InvalidInput: Both or neither was sent, or a path is named twice.
        TooLarge: The approvals of these paths have too many paths.
    """
    if request.here is not None:
        await record.require_same(services, request.project, request.here)
    if (request.digest is None) == (request.changes is None):
        raise InvalidInput("Send either changes or digest.", field="changes")
    with while_wanted() as check:
        if request.digest is not None:
            look = partial(_check_digest, project=request.project, digest=request.digest, check=check)
            return await _looked(services, look)
        return await _check_changes(services, request, check)


async def _looked(services: Services, look: Callable[[int, Unit], _T], *, is_large: bool = False) -> _T:
    """What is found in the store, of so many paths of approvals at most; what takes long, one after the other."""
    if not is_large:
        with suppress(_TooMuch):
            return await services.store.read(partial(look, _FEW_ENTRIES))
    try:
        return await in_thread(_large, lambda: services.store.read_blocking(partial(look, _MOST_ENTRIES)))
    except _TooMuch:
        raise TooLarge(
            f"The approvals of these paths have more than {_MOST_ENTRIES} paths in all; commit them in several parts.",
            limit="approved_paths",
            most=_MOST_ENTRIES,
        ) from None


def _check_digest(most: int, unit: Unit, *, project: str, digest: str, check: Callable[[], None]) -> GateDecision:
    known = _Approvals(unit, project, check, most)
    found = reports.list_approvals(unit, project, digest, _CANDIDATES)
    if not found:
        reason = "No approved round has this digest. Put the change up with create_review or tandem submit."
        return GateDecision(allowed=False, project=project, reason=reason, review_ids=(), paths=())
    # All have the same content: what takes back the newest one takes back the others, too.
    at = reports.list_approved_at(unit, [review_id for review_id, _ in found])
    newest = max(found, key=lambda one: at.get(one[0], 0))
    chain = (known.whole(*newest),)
    by = _ended_by(known, [chain]).get(chain)
    if by is not None:
        return GateDecision(
            allowed=False, project=project, reason=_taken_back_by(newest[0], by), review_ids=(), paths=()
        )
    held = _held(unit, [newest])
    reason, code = _said(held) if held else (f"approved by {newest[0]}, round {newest[1]}", None)
    return GateDecision(not held, project, reason, newest[:1], (), code)


async def _check_changes(services: Services, request: CheckGate, check: Callable[[], None]) -> GateDecision:
    is_large = len(request.changes or ()) > _FEW
    prepare = partial(_question, services, request)
    question = await (in_thread(_large, prepare) if is_large else asyncio.to_thread(prepare))
    if not question.changes:
        return GateDecision(allowed=True, project=request.project, reason="nothing changes", review_ids=(), paths=())
    look = partial(_answer, question=question, tokens=services.tokens, check=check)
    decision, candidates, branches = await _looked(services, look, is_large=is_large)
    taken_back = await _taken_back(services, question, candidates, branches)
    if taken_back is not None:
        reason = f"takes back the commit {taken_back.id}, which was not approved"
        return await asyncio.to_thread(_passed, question, "rollback", reason)
    return decision


def _question(services: Services, request: CheckGate) -> _Question:
    """The difference, and what of it is judged. Blocks: it may read the project's file."""
    changes = changes_of(request.changes)
    patterns = exempt_patterns(services, request.project)
    return _Question(request, changes, [one for one in changes if not is_exempt(one, patterns)], patterns)


def _answer(
    most: int, unit: Unit, *, question: _Question, tokens: Tokens, check: Callable[[], None]
) -> tuple[GateDecision, Sequence[CommitRow], tuple[str, ...]]:
    """The decision, unless all of it takes back one of these commits of those that are not on these branches."""
    known = _Approvals(unit, question.project, check, most, question.patterns)
    found = _look(known, unit, question, tokens)
    judged = question.judged
    if found.whole is not None:
        decision = replace(_passed(question, *found.whole), signed=found.signature)
    elif len(found.covered) != len(judged):
        missing = [change.path for change in judged if change.path not in found.covered]
        reason = (
            f"{len(missing)} of {len(question.changes)} paths are not approved as they are, first {missing[0]}."
            " Put the change up with tandem submit, or commit exactly what was approved."
        )
        decision = _decided(question, found, reason)
    elif found.held:
        decision = _decided(question, found, *_said(found.held))
    else:
        reason = "everything is approved" if judged else "everything that changes is exempt"
        decision = replace(_decided(question, found, reason), signed=found.signature)
    known.forget()
    return decision, found.commits, found.branches


def exempt_patterns(services: Services, project: str) -> tuple[str, ...]:
    """The patterns of paths that the gate of a project sets aside. Blocks: it may read the project's file."""
    usual = services.policy.gate_exempt
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
    return loaded.settings.gate_exempt if loaded.origins["gate_exempt"] == str(file) else usual


def changes_of(sent: Sequence[GateChange] | None) -> list[Change]:
    """The raw difference that a request carries. It may have 100,000 paths: call it in a thread.

    Raises:
        InvalidInput: A path is named twice.
    """
    changes = [Change(one.path, one.mode_before, one.blob_before, one.mode_after, one.blob_after) for one in sent or ()]
    if len({change.path for change in changes}) != len(changes):
        raise InvalidInput("Every path may be named once.", field="changes")
    return changes


def _look(known: _Approvals, unit: Unit, question: _Question, tokens: Tokens) -> _Found:
    project, changes, judged, request = question.project, question.changes, question.judged, question.request
    approvals = known.ending_at(map(end_of, judged))
    covered, ended = _standing(known, judged, approvals)
    if len(covered) != len(judged) and len(approvals) != len(before := known.behind(approvals, judged)):
        approvals = before
        covered, ended = _standing(known, judged, approvals)
    held = _held(unit, sorted({(one.review_id, one.round) for made in {*covered.values()} for one in made.chain}))
    found = _Found(known.ending, known.read, covered, held, ended)
    if len(covered) == len(judged) and not held:
        # What is only exempt nobody has looked at.
        is_signed = request.sign and bool(judged)
        return replace(found, signature=signing.sign(tokens, project, digest_of(changes))) if is_signed else found
    gate, digest = gates.find(unit, project), digest_of(changes)
    if request.signed and not held:
        signers = names(gate.signers) if gate is not None else []
        signer, signature, problem = signing.verify(signers, digest, request.signed)
        if signer is not None:
            return replace(found, signature=signature, whole=("signed", f"approved by the broker of {signer}"))
        found = replace(found, unsigned=problem)
    override = gates.find_override_of(unit, project, digest)
    if override is not None:
        return replace(found, whole=("overridden", f"let through by {override.overridden_by}: {override.reason}"))
    missing = [change for change in judged if change.path not in covered]
    undecided = _undecided(unit, project, digest, missing)
    found = replace(found, instead=_instead(unit, project, missing[:_HINTS]), undecided=undecided)
    if request.head is None:
        return found
    return replace(
        found,
        commits=commits.list_inverse(unit, project, digest_of(judged), digest_of(inverse(judged))),
        branches=tuple(names(gate.branches)) if gate is not None else (),
    )


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


def _undecided(unit: Unit, project: str, digest: str, missing: Sequence[Change]) -> dict[str, tuple[str, int]]:
    """The reviews of exactly this difference, or of the whole text that a path becomes."""
    whole = reports.find_undecided(unit, project, digest)
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

    def __init__(
        self, unit: Unit, project: str, check: Callable[[], None], most: int, patterns: tuple[str, ...] = ()
    ) -> None:
        self.check = check
        self.ending: dict[tuple[str, str], list[tuple[str, int, str]]] = {}
        self.read: dict[tuple[str, int], Approval] = {}
        self._unit = unit
        self._project = project
        self._left = most
        self._patterns = patterns
        self._changes: dict[Change, Change] = {}
        self._approved_at: dict[str, int] = {}

    def ending_at(self, ends: Iterable[tuple[str, str, str]]) -> list[Approval]:
        """Every approval, whole, that has one of the paths with its blob at the end; `ending` has them by these.

        Raises:
            _TooMuch: They have too many paths.
        """
        wanted = dict.fromkeys((path, blob) for path, _, blob in ends)
        new = [one for one in wanted if one not in self.ending]
        self.ending.update((one, []) for one in new)
        kinds: dict[tuple[str, int], str] = {}
        known: dict[tuple[str, int, str], tuple[str, int, str]] = {}
        left = self._left
        for rows in reports.list_approving(self._unit, self._project, new, left + 1):
            self.check()
            left -= len(rows)
            if left < 0:
                raise _TooMuch
            for path, blob, review_id, number, kind, mode in rows:
                kinds[review_id, number] = kind
                one = (review_id, number, mode)
                self.ending[path, blob].append(known.setdefault(one, one))
        self._load(kinds)
        return [self.read[key] for key in dict.fromkeys(one[:2] for end in wanted for one in self.ending[end])]

    def whole(self, review_id: str, number: int) -> Approval:
        """An approval with all its paths.

        Raises:
            _TooMuch: It has too many.
        """
        self._load({(review_id, number): "change"})
        return self.read[review_id, number]

    def _load(self, kinds: Mapping[tuple[str, int], str]) -> None:
        entries: dict[tuple[str, int], list[Change]] = {key: [] for key in kinds if key not in self.read}
        for rows in reports.list_approved_paths(self._unit, list(entries), self._left + 1):
            self.check()
            self._left -= len(rows)
            if self._left < 0:
                raise _TooMuch
            for review_id, number, *facts in rows:
                change = Change(*facts)
                if not is_exempt(change, self._patterns):
                    # Approvals may have many of them in common.
                    entries[review_id, number].append(self._changes.setdefault(change, change))
        for key, changes in entries.items():
            self.read[key] = Approval(*key, frozenset(changes), is_text=kinds[key] == "text")

    def forget(self) -> None:
        """Free what was read, piece by piece: at once it would stop every other thread for longer than a call takes."""
        self.read.clear()
        for known in (self.ending, self._changes):
            while known:
                known.popitem()

    def approved_at(self, approvals: Iterable[Approval]) -> Mapping[str, int]:
        """By review, the place in the log of its approval; of these at the least."""
        new = {one.review_id for one in approvals} - self._approved_at.keys()
        self._approved_at |= dict.fromkeys(new, 0) | reports.list_approved_at(self._unit, sorted(new))
        return self._approved_at

    def behind(self, approvals: Sequence[Approval], changes: Sequence[Change]) -> list[Approval]:
        """Some approvals, and those that their content comes from, back to where the changes begin."""
        found, newest = dict.fromkeys(approvals), list(approvals)
        reached = {*map(start_of, changes), *map(end_of, changes)}
        paths = sum(len(one.changes) for one in found)
        while newest and len(found) < _CHAINED and paths < _CHAINED_PATHS:
            starts = {start_of(entry) for one in newest if not one.is_text for entry in one.changes} - reached
            reached |= starts
            newest = [one for one in self.ending_at(sorted(starts)) if one not in found]
            found |= dict.fromkeys(newest)
            paths += sum(len(one.changes) for one in newest)
        return list(found)


def _standing(
    known: _Approvals, judged: list[Change], approvals: list[Approval]
) -> tuple[dict[str, Cover], dict[str, str]]:
    """What covers which path, without approvals that a later one takes back; and those, with what takes them back."""
    ended: dict[str, str] = {}
    looked_at: set[tuple[Approval, ...]] = set()
    for _ in range(_MOST_TURNS):
        covered = cover(judged, [one for one in approvals if one.review_id not in ended], known.check)
        chains = {made.chain for made in {*covered.values()}}
        used = {*chains, *((one,) for chain in chains for one in chain)} - looked_at
        now = _ended_by(known, used)
        if not now:
            return covered, ended
        # Once one was taken back others were, too: each by itself would take a turn of its own.
        others = {(one,) for one in approvals} - looked_at - used
        ended |= {chain[-1].review_id: by for chain, by in (now | _ended_by(known, others)).items()}
        looked_at |= used | others
    return {}, ended


def _ended_by(known: _Approvals, chains: Iterable[tuple[Approval, ...]]) -> dict[tuple[Approval, ...], str]:
    """By chain, the newest approval that takes back all that it comes to, if it is later: the newer decision counts."""
    found: dict[tuple[Approval, ...], str] = {}
    starts = {chain: start_of(min(changes)) for chain in chains if (changes := net(chain))}
    known.ending_at(starts.values())
    others = {
        chain: [known.read[one[:2]] for one in known.ending[path, blob]] for chain, (path, _, blob) in starts.items()
    }
    at = known.approved_at(one for chain, ending in others.items() if ending for one in (*chain, *ending))
    for chain, ending in others.items():
        known.check()
        since = max((at[one.review_id] for one in chain if ending), default=0)
        later = [one for one in ending if at[one.review_id] > since]
        back = frozenset(inverse(net(chain))) if later else frozenset[Change]()
        takers = [one.review_id for one in later if back <= one.changes]
        if takers:
            found[chain] = max(takers, key=lambda review_id: at[review_id])
    return found


def _taken_back_by(review_id: str, by: str) -> str:
    return f"{review_id} approved it, and {by}, approved later, takes it back; submit it again"


def _held(unit: Unit, approvals: Sequence[tuple[str, int]]) -> _Held:
    """What keeps approved content back, by review; one that has ended comes before one that may still pass."""
    found: _Held = {}
    for review_id, number in approvals:
        held = checks.held(unit, review_id, number)
        if held:
            found[review_id] = min(held, key=lambda one: one.unfinished)
    return found


def _said(held: _Held) -> tuple[str, str]:
    """What keeps approved content back, in words and as a code."""
    run = min(held.values(), key=lambda one: one.unfinished)
    code = CheckPending.code if run.unfinished else CheckFailed.code
    return f"approved, but its required check {_of(run)} ({code})", code


def _of(run: CheckRun) -> str:
    ways = {CheckStatus.QUEUED: "has not begun", CheckStatus.RUNNING: "still runs", CheckStatus.FAILED: "failed"}
    return f"'{run.name}' {ways.get(CheckStatus(run.status), f'has not passed: {run.status}')}"


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
    return GateDecision(all(path.allowed for path in paths), question.project, reason, used, paths, code)


def _passed(question: _Question, kind: Kind, reason: str) -> GateDecision:
    """The decision that lets a difference through as a whole; no review stands for it."""
    left = {change.path for change in question.judged}
    paths = tuple(
        PathDecision(change.path, allowed=True, review_id=None, round=None, reason=reason, kind=kind)
        if change.path in left
        else _exempt(change)
        for change in question.changes
    )
    return GateDecision(allowed=True, project=question.project, reason=reason, review_ids=(), paths=paths)


def _exempt(change: Change) -> PathDecision:
    reason = "set aside by the setting gate_exempt"
    return PathDecision(change.path, allowed=True, review_id=None, round=None, reason=reason, kind="exempt")


def _covering(made: Cover, found: _Found) -> PathDecision:
    """The decision on the paths that an approval covers, without the path."""
    approval = made.approval
    held = next((found.held[one.review_id] for one in made.chain if one.review_id in found.held), None)
    reason = f"approved by {approval.review_id}, round {approval.round}"
    if len(made.chain) > 1:
        reason += f", as one of {len(made.chain)} approved changes that build on each other"
    return PathDecision(
        "",
        allowed=held is None,
        review_id=approval.review_id,
        round=approval.round,
        reason=reason if held is None else f"{reason}, but its required check {_of(held)}",
        kind=None if held else "approved",
    )


def _uncovered(change: Change, found: _Found) -> PathDecision:
    """The decision on a path that nothing covers."""
    candidates = found.ending.get((change.path, change.blob_after), ())
    ending = [found.read[review_id, number] for review_id, number, mode in candidates if mode == change.mode_after]
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
    elif candidates:
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
