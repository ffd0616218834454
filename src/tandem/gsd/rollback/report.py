"""What a rollback did or would do, and how the broker and the plan's SUMMARY.md learn of it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from tandem.bridge.location import find_data_dir
from tandem.client import TandemClient
from tandem.core.files import write_atomically
from tandem.core.visible import visible_line
from tandem.errors import AlreadyLanded, InvalidTransition, TandemError
from tandem.git.repository import Repository
from tandem.git.snapshot import Scope
from tandem.gsd.rollback.repository import SHORT, BranchMove
from tandem.present.shapes import WORK
from tandem.rulings import planning, proof, state
from tandem.rulings.plans import FOLDER, record_request

Approval = Literal["carried", "re_review", "none"]
"""Of a commit that was replayed: its review still holds for it, has to be done again, or there is none."""


Settled = Literal["observed", "settled"]
"""A rejection that no rollback ended: the broker saw that the change is gone, or a person said so."""


@dataclass(frozen=True, slots=True)
class Reverted:
    """A commit that was reverted.

    Attributes:
        commit: Its id.
        subject: Its message's first line.
        review_ids: Its reviews.
        because: Why it was reverted.
        reverted_by: The commit that reverts it; None if nothing of it was left.
    """

    commit: str
    subject: str
    review_ids: tuple[str, ...]
    because: str
    reverted_by: str | None


@dataclass(frozen=True, slots=True)
class Carried:
    """A dependent that was replayed.

    Attributes:
        commit: Its former id.
        becomes: Its present id.
        subject: Its message's first line.
        review_ids: Its reviews.
        approval: What became of their approval.
    """

    commit: str
    becomes: str
    subject: str
    review_ids: tuple[str, ...]
    approval: Approval


@dataclass(frozen=True, slots=True)
class Rework:
    """A change that has to be made again.

    Attributes:
        commit: The commit that is gone; None if it was no commit of its own.
        subject: Its message's first line.
        review_ids: Its reviews.
        reason: Why it could not be kept.
    """

    commit: str | None
    subject: str
    review_ids: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class ConflictPatch:
    """The accepted counter-patch.

    Attributes:
        round: The round that it made.
        commit: The commit that has it.
        exact: Whether the commit has the accepted content, to the byte.
    """

    round: int
    commit: str
    exact: bool


@dataclass(frozen=True, slots=True)
class ReReview:
    """A review that was proposed again because its content changed.

    Attributes:
        commit: The commit that it is about.
        review_id: The review; a new one where the old one takes no more rounds.
        round: Its round.
        replaces: The review that the commit had.
    """

    commit: str
    review_id: str
    round: int
    replaces: str


@dataclass(frozen=True, slots=True)
class RollbackReport:
    """What a rollback did, or with `dry_run` would do.

    Attributes:
        review_id: The review that was rolled back.
        project: Its project.
        plan: Its plan's key; from now on that plan's commits are refused until they are approved.
        branch: The branch.
        worktree: The working tree.
        how: By what the commit was found: `record`, `trailer`, `patch_id` or `plan`.
        head_before: Where the branch was.
        head_after: Where it is; the same if there was nothing to do.
        reverted: The reverted commits, newest first.
        counter_patch: The accepted counter-patch, if there was one.
        carried: The dependents that stay.
        rework: The changes that have to be made again.
        files: The files that changed.
        verify: The verify command that passed, or will be run; None if none is configured.
        already: The commits that had taken it back before; then nothing was done.
        settled: How a rejection ended whose content was gone before: `observed` by the broker or `settled` by a person;
            else None.
        waiting_round: The round of an accepted counter-patch that is in no commit; None if there is none.
        escalate: Whether a person has to look before anybody goes on.
        re_reviews: The reviews that were proposed again.
        summary: The SUMMARY.md that got a section on it.
        unsaid: What could not be told to the broker; running the command again tells it.
        finished: Whether an earlier, interrupted run had done it and this one only told of it.
        dry_run: Whether nothing was done.
    """

    review_id: str
    project: str
    plan: str
    branch: str
    worktree: str
    how: str
    head_before: str
    head_after: str
    reverted: tuple[Reverted, ...] = ()
    counter_patch: ConflictPatch | None = None
    carried: tuple[Carried, ...] = ()
    rework: tuple[Rework, ...] = ()
    files: tuple[str, ...] = ()
    verify: tuple[str, ...] | None = None
    already: tuple[str, ...] = ()
    settled: Settled | None = None
    waiting_round: int | None = None
    escalate: bool = False
    re_reviews: tuple[ReReview, ...] = ()
    summary: str | None = None
    unsaid: str | None = None
    finished: bool = False
    dry_run: bool = False

    @property
    def move(self) -> BranchMove:
        """The branch's move."""
        return BranchMove(self.branch, self.head_before, self.head_after)

    @property
    def changed(self) -> bool:
        """Whether the branch moved, or would."""
        return self.head_after != self.head_before

    def facts(self) -> dict[str, Any]:
        """As JSON values; a name that is not Unicode is shown as well as it can be."""
        readable = json.dumps(asdict(self), ensure_ascii=False).encode("utf-8", "replace")
        return {**json.loads(readable), "changed": self.changed}


_ENDING = "-SUMMARY.md"
_LIMIT_BYTES = 4_000_000
_LONGEST_INTENT = 500
_KEPT = ("project", "agent_type", "agent_role", *(name for name, *_ in WORK), "proposer_id")
"""The fields that a review keeps from its last round when it is proposed again."""


async def tell(client: TandemClient, report: RollbackReport) -> RollbackReport:
    """Records the rollback and proposes changed content again; telling the same twice has no further effect.

    Args:
        client: The broker.
        report: The rollback.

    Returns:
        The report with the reviews that were proposed again; `unsaid` names what the broker does not take.

    Raises:
        TandemError: The broker does not answer, or refuses the rollback itself.
    """
    root = Path(report.worktree)
    made = [(report.counter_patch.commit, None)] if report.counter_patch is not None else []
    await record_commits(client, report, [*made, *((one.becomes, one.commit) for one in report.carried)])
    reverted: Any = [
        {"commit": one.commit, "reverted_by": one.reverted_by} for one in report.reverted if one.reverted_by
    ]
    carried: Any = [{"commit": one.commit, "becomes": one.becomes} for one in report.carried]
    await client.record_rollback(
        **_rolled_back(report),
        reverted=reverted,
        carried=carried,
        rework=[one.commit for one in report.rework if one.commit is not None],
    )
    again: list[ReReview] = []
    refused: list[str] = []
    for commit, review_id in _to_review(report):
        try:
            again.append(await _put_up(client, root, commit, review_id, report))
        except TandemError as error:
            if error.retryable:
                raise
            refused.append(f"{commit[:SHORT]} cannot be proposed again for {review_id}: {error.message}")
    return replace(report, re_reviews=tuple(again), unsaid="; ".join(refused) or None)


async def record_commits(
    client: TandemClient, report: RollbackReport, commits: Iterable[tuple[str, str | None]]
) -> None:
    """Has the broker know commits of the plan; those that it knows stay as they are.

    Args:
        client: The broker.
        report: Which plan, branch and working tree they belong to.
        commits: Each with the commit that it replaces, if there is one.

    Raises:
        TandemError: The broker does not answer, or refuses.
    """
    place = state.find_repository(report.worktree)
    if place is None:
        return
    for commit, replaces in commits:
        asked: dict[str, Any] = await asyncio.to_thread(record_request, place, commit, report.branch, replaces)
        asked["plan"] = report.plan
        await client.record_commit(project=report.project, **asked)


async def settle_rejection(
    client: TandemClient, report: RollbackReport, how: Settled, reason: str | None = None
) -> None:
    """Has the broker end a rejection that needs no rollback any more; twice has no further effect.

    Args:
        client: The broker.
        report: Which review, and where.
        how: By the broker's own look at the repository, or by the word of the person who runs this.
        reason: Why the person says so.

    Raises:
        InvalidTransition: The broker sees that the change stands, or cannot tell; or it was not decided against.
        Forbidden: It does not take the person's proof.
    """
    proved = ""
    if how == "settled":
        place = state.find_repository(report.worktree)
        gate = state.find(place) if place is not None else None
        keys = proof.keys(gate.data_dir if gate is not None else str(find_data_dir()))
        proved = proof.prove(keys, proof.settled_facts(report.project, report.review_id, report.head_after, reason))
    await client.record_rollback(
        **_rolled_back(report),
        how=how,
        reason=reason,
        proof=proved or None,
    )


def _rolled_back(report: RollbackReport) -> dict[str, Any]:
    """The review, and the branch before and after, as `record_rollback` takes them."""
    names = ("review_id", "project", "branch", "head_before", "head_after")
    return {name: getattr(report, name) for name in names}


def _to_review(report: RollbackReport) -> Iterable[tuple[str, str]]:
    """The commits whose content is no longer the proposed one, each with its review."""
    if report.counter_patch is not None and not report.counter_patch.exact:
        yield report.counter_patch.commit, report.review_id
    for one in report.carried:
        if one.approval == "re_review":
            # Several approvals together covered it; the first one's review takes all of it.
            yield one.becomes, one.review_ids[0]


async def _put_up(client: TandemClient, root: Path, commit: str, review_id: str, report: RollbackReport) -> ReReview:
    """Puts a commit's content up as the next round of its review, or as a new one where that is over."""
    current = await client.get_proposal(review_id, project=report.project)
    facts: dict[str, Any] = {
        **(await asyncio.to_thread(_content, root, commit)),
        **{name: getattr(current, name) for name in _KEPT},
        "intent": current.intent[:_LONGEST_INTENT],
        "metadata": {**current.metadata, "rolled_back": report.review_id},
    }
    key = f"rollback-{report.head_after}-{review_id}"
    try:
        made = await client.create_review(review_id=review_id, idempotency_key=key, **facts)
    except (InvalidTransition, AlreadyLanded):
        facts |= {"category": current.category, "parent_id": review_id}
        made = await client.create_review(idempotency_key=f"{key}-new", **facts)
    return ReReview(commit, made.review_id, made.round, review_id)


def _content(root: Path, commit: str) -> dict[str, Any]:
    with Repository(root) as repository:
        found = repository.working_diff(Scope(revision=commit))
    return {"diff": found.diff, "base": found.base}


def write_section(root: Path, report: RollbackReport) -> str | None:
    """Adds a section to the plan's summary in the working tree, if there is one; once for each rollback.

    Args:
        root: Top of the working tree.
        report: The rollback.

    Returns:
        The file's path from the root; None if the plan has no summary.

    Raises:
        OSError: It cannot be written.
    """
    file = _find(root, report.plan)
    if file is None:
        return None
    before = file.read_bytes()
    mark = f"<!-- tandem rollback {report.review_id} {report.head_after} -->"
    if mark.encode() not in before:
        line_end = "\r\n" if b"\r\n" in before else "\n"
        text = line_end.join(["", *_lines(report, mark), ""])
        gap = b"" if before.endswith(b"\n") or not before else line_end.encode()
        write_atomically(file, before + gap + text.encode("utf-8", "replace"), mode=None)
    return file.as_posix() if not file.is_relative_to(root) else file.relative_to(root).as_posix()


def _find(root: Path, plan: str) -> Path | None:
    """The one summary of a plan; None if there is none, or it cannot be told which it is."""
    for top in dict.fromkeys((root, Path(planning.project_root(str(root))))):
        found = list(_summaries(top, f"{plan}{_ENDING}"))
        workstream = planning.read(str(top)).workstream if len(found) > 1 else None
        if workstream is not None:
            found = [file for file in found if workstream in file.relative_to(top).parts]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _summaries(top: Path, name: str) -> Iterator[Path]:
    # The name is compared and never made into a path: it may come from anybody.
    for folder, _, names in os.walk(top / FOLDER):
        file = Path(folder) / name if name in names else None
        if file is not None and not file.is_symlink() and file.stat().st_size <= _LIMIT_BYTES:
            yield file


def _lines(report: RollbackReport, mark: str) -> Iterator[str]:
    yield f"## Reverted after review: {report.review_id}"
    yield ""
    yield mark
    yield ""
    for one in report.reverted:
        by = f", reverted by `{one.reverted_by[:SHORT]}`" if one.reverted_by else ""
        yield f"- `{one.commit[:SHORT]}` {_plain(one.subject)} ({_plain(one.because)}){by}"
    if report.counter_patch is not None:
        yield f"- The counter-patch (round {report.counter_patch.round}) is in `{report.counter_patch.commit[:SHORT]}`"
    for one in report.carried:
        again = ", to be reviewed again" if one.approval == "re_review" else ""
        yield f"- Kept: `{one.commit[:SHORT]}` {_plain(one.subject)} is now `{one.becomes[:SHORT]}`{again}"
    for one in report.rework:
        what = _plain(one.subject) or ", ".join(one.review_ids)
        yield f"- To be made again: {what} ({_plain(one.reason)})"
    yield ""
    yield "The rest of the plan goes on in blocking mode: each change is approved before it is committed."


def _plain(text: str) -> str:
    """Text by others on one line, without what Markdown or HTML would make something of."""
    return visible_line(text).replace("<", "&lt;").replace("`", "'")
