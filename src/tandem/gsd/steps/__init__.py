"""The review steps of a workflow: what `tandem gate plan|context|task|wave|verification` propose, wait for and say.

One run of a step is here: from the settings to the word, in the blocking and in the optimistic mode.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tandem.client import TandemClient
from tandem.errors import InvalidInput, NotFound
from tandem.git.repository import Repository
from tandem.git.snapshot import Scope
from tandem.gsd.rollback.choosing import AGAINST, recorded_commits
from tandem.gsd.rollback.repository import Checkout
from tandem.gsd.steps import subjects, waves
from tandem.gsd.steps.outcomes import StepResult, StepWord, ended, of_review, word_of
from tandem.gsd.steps.reviewing import ReviewSubmitter
from tandem.gsd.steps.situation import Pointers, StepContext, StepPointer, StepRequest, seconds_until
from tandem.gsd.steps.subjects import StepDocument, Subject, TaskContext, document_key
from tandem.reviews.answers import ReviewStatus
from tandem.rulings import next_steps, pending, planning
from tandem.rulings.trust import BLOCKING, OPTIMISTIC, PER_PLAN


@dataclass(frozen=True, slots=True)
class Plans:
    """Asks about plans.

    Attributes:
        client: The broker.
        project: The project.
        pointers: The proposals from here: without a gate, no hook tells the broker of commits.
    """

    client: TandemClient
    project: str
    pointers: Pointers

    async def standing(self, keys: Iterable[str]) -> tuple[tuple[str, ...], bool]:
        """Where a plan stands, which commits may name in several ways.

        Returns:
            The reviews that were decided against after their commit and are not rolled back, oldest first; and whether
            the plan's changes need their approval first by now.
        """
        against: list[str] = []
        settled: set[str] = set()
        is_blocking = False
        for key in dict.fromkeys(keys):
            plan = (await self.client.get_gate(project=self.project, plan=key)).plan
            if plan is not None:
                against += plan.against
                settled |= set(plan.rolled_back)
                is_blocking = is_blocking or plan.mode == BLOCKING
            against += [status.review_id for status in await self._of_pointers(key) if _is_against(status)]
        standing = tuple(one for one in dict.fromkeys(against) if one not in settled)
        return standing, is_blocking or bool(standing)

    async def decided(self, order: StepRequest, keys: Iterable[str]) -> StepResult:
        """Wait until every change of a plan is decided, and tell the outcome."""
        deadline = time.monotonic() + order.timeout_seconds
        known = tuple(dict.fromkeys(keys))
        ids = [review_id for key in known for review_id in await self._reviews(key)]
        for review_id in dict.fromkeys(ids):
            status = await self._verdict(review_id, seconds_until(deadline))
            if status is not None and word_of(status) is not StepWord.APPROVED:
                outcome = await self._undecided(order, known, status)
                if outcome is not None:
                    return outcome
        if not ids:
            nothing = "No change of this plan was submitted, or all of them were rolled back."
            return StepResult(StepWord.NOTHING, order.step, ("Go on.",), project=self.project, reason=nothing)
        return StepResult(
            StepWord.APPROVED,
            order.step,
            ("Merge the branch as it is; a later change of it needs another review.",),
            review_id=ids[-1],
            review_ids=tuple(dict.fromkeys(ids)),
            project=self.project,
            reason="Every change of the plan is approved.",
        )

    async def _undecided(self, order: StepRequest, keys: tuple[str, ...], status: ReviewStatus) -> StepResult | None:
        """The outcome for a change that is not approved; None if it was reverted, so that it no longer counts."""
        if _is_against(status):
            against, _ = await self.standing(keys)
            return rollback(order, against, self.project) if status.review_id in against else None
        word = word_of(status)
        advice = {
            StepWord.WAITING: (f"There is no verdict yet. Run the same command again: {order.command}",),
            StepWord.CHANGES: (*next_steps.commands(asdict(status)), f"Then run again: {order.command}"),
        }
        wanted = advice.get(word, (f"Stop, and ask the person: tandem review proposal {status.review_id}",))
        if status.next_action == "answer_message":
            wanted = advice[StepWord.CHANGES]
        return StepResult(word, order.step, wanted, **of_review(status))

    async def _verdict(self, review_id: str, left_seconds: float) -> ReviewStatus | None:
        try:
            return await self.client.wait_for_turn(review_id, timeout_s=left_seconds)
        except NotFound:
            # A message may name any review; a missing one decides nothing.
            return None

    async def _reviews(self, key: str) -> list[str]:
        """The reviews of the commits of a plan that still stand."""
        commits = await recorded_commits(self.client, self.project, plan=key)
        standing = [one for one in commits if one.replaced_by is None and one.rolled_back_by is None]
        return [review_id for commit in standing for review_id in commit.review_ids] + self._pointed(key)

    async def _of_pointers(self, key: str) -> list[ReviewStatus]:
        found: list[ReviewStatus] = []
        for review_id in self._pointed(key):
            with suppress(NotFound):
                found.append(await self.client.get_review_status(review_id))
        return found

    def _pointed(self, key: str) -> list[str]:
        """The reviews that no step waited for."""
        return [one.review_id for one in self.pointers.all().values() if one.is_optimistic and one.plan_key == key]


def rollback(order: StepRequest, against: tuple[str, ...], project: str) -> StepResult:
    """The outcome that a change has to be rolled back first."""
    return StepResult(
        StepWord.ROLLBACK,
        order.step,
        (f"Roll it back: tandem rollback {against[0]}", f"Then run again: {order.command}"),
        review_id=against[0],
        review_ids=against,
        project=project,
        reason="It was decided against after its commit; what builds on it would have to go as well.",
    )


def _is_against(status: ReviewStatus) -> bool:
    return status.status in AGAINST or (status.status == "closed" and status.outcome == "rejected")


_GO_ON = (planning.GO_ON,)


def without_network(order: StepRequest, situation: StepContext) -> StepResult | None:
    """The outcome where local files say it all; None where the broker has to be asked."""
    if situation.is_disabled:
        return StepResult(StepWord.SOLO, order.step, _GO_ON, reason=planning.DISABLED_REASON)
    if order.step == "task" and not situation.is_strict_here:
        holds = situation.effective()
        if holds.granularity == PER_PLAN and holds.mode != OPTIMISTIC:
            return StepResult(
                StepWord.GO,
                order.step,
                ("Commit, and go on with the next task.", "After the plan's last task: tandem gate wave"),
                reason="The plan is reviewed as a whole (review_granularity is per_plan).",
            )
    if order.step == "wave":
        holds = situation.effective()
        if holds.is_strict and not (order.branches or order.since or order.accept):
            why = "Every task is reviewed before its commit (review_granularity is per_task)."
            return StepResult(StepWord.GO, order.step, _GO_ON, reason=why)
    return None


@dataclass(frozen=True, slots=True)
class StepRun:
    """One run of a step that the broker has to be asked about.

    Attributes:
        order: Its arguments.
        situation: Where it runs.
        client: The broker.
        project: The registered project.
        say: Tells a person what happens meanwhile.
        agent_type: Who does the step.
    """

    order: StepRequest
    situation: StepContext
    client: TandemClient
    project: str
    say: Callable[[str], None]
    agent_type: str

    async def outcome(self) -> StepResult:
        """How the step ended.

        Raises:
            TandemError: It was refused, or no broker answers.
        """
        gate = self.situation.gate
        if gate is not None and pending.waiting(gate.place):
            pending.deliver(gate)
        return await {"task": self._task, "wave": self._wave}.get(self.order.step, self._text)()

    async def _text(self) -> StepResult:
        order, situation = self.order, self.situation
        document = await self._document()
        claim = subjects.claim_of(document, order.claim) if order.step == "verification" else None
        with subjects.repository_of(situation, document) as repository:

            def build() -> Subject:
                found = document
                if not found.is_draft:
                    found = subjects.read_document(situation, order.step, document.file, None)
                return subjects.document_subject(situation, repository, order, found, claim)

            return await self._settled(self._submitter(repository), build)

    async def _document(self) -> StepDocument:
        order, situation = self.order, self.situation
        draft = order.draft
        if draft is None and order.file is not None:
            draft = await self._unwritten(order.file)
        document = subjects.read_document(situation, order.step, order.file, draft)
        if order.file is None:
            self.say(f"no file was named; took the newest: {document.file}")
        return document

    async def _unwritten(self, file: Path) -> bytes | None:
        """The text that was proposed for a document before its file was written; None if that is there."""
        path = subjects.missing_path(self.situation, file)
        pointer = None if path is None else self._pointers.find(document_key(self.order.step, path))
        if pointer is None:
            return None
        return ((await self.client.get_proposal(pointer.review_id)).description or "").encode()

    async def _task(self) -> StepResult:
        order, situation = self.order, self.situation
        with Repository(situation.root) as repository:
            found = subjects.difference(repository, Scope(staged=order.staged))
            known = subjects.work(situation, order.identity, found)
            for remark in (*found.remarks, *known.remarks):
                self.say(remark)
            submitter = self._submitter(repository)
            is_free = False
            if situation.effective().mode == OPTIMISTIC:
                done, is_free = await self._optimistic(known)
                if done is not None:
                    return done
            await submitter.sweep()
            if not found.changes:
                where = "The index" if order.staged else "The working tree"
                return StepResult(
                    StepWord.NOTHING, order.step, _GO_ON, reason=f"{where} equals HEAD.", project=self.project
                )

            def build() -> Subject:
                now = subjects.difference(repository, Scope(staged=order.staged))
                subject = subjects.change_subject(situation, now, known, order)
                if not is_free:
                    return subject
                # What the hook would have said of the commit's review.
                metadata = {"optimistic": True, "branch": subject.branch, "plan_key": subject.plan_key}
                return replace(subject, is_optimistic=True, metadata=metadata)

            return await self._put_up_only(submitter, build()) if is_free else await self._settled(submitter, build)

    async def _optimistic(self, known: TaskContext) -> tuple[StepResult | None, bool]:
        """The outcome of the optimistic mode, if it has one; and whether the change goes up without a wait."""
        order, situation = self.order, self.situation
        branch = situation.branch
        # Commits with free subjects go by the branch.
        keys = [known.identity.key(branch), *([branch] if branch else [])]
        against, is_blocking = await self._plans.standing(keys)
        if against:
            return rollback(order, against, self.project), False
        if is_blocking or situation.is_strict_here:
            return None, False
        if situation.gate is None:
            return None, True
        why = "The change is reviewed after its commit, which puts it up (execution_mode is optimistic)."
        return StepResult(StepWord.GO, order.step, ("Commit, and go on.",), project=self.project, reason=why), False

    async def _put_up_only(self, submitter: ReviewSubmitter, subject: Subject) -> StepResult:
        """Without a gate no hook puts the commit up, so this does."""
        part = await submitter.submit(subject)
        if isinstance(part, StepResult):
            return part
        subject, pointer = part
        trailer = f"Commit it with the trailer that names its review: Tandem-Review: {pointer.review_id}"
        return ended(
            subject,
            StepWord.GO,
            review_id=pointer.review_id,
            review_ids=(pointer.review_id,),
            project=self.project,
            round=pointer.round,
            reason="The change is reviewed after its commit (execution_mode is optimistic).",
            next=(trailer, "Go on with the next task."),
        )

    async def _wave(self) -> StepResult:
        order, situation = self.order, self.situation
        checkout = Checkout(situation.root)
        found = waves.branches(situation, checkout, order)
        if situation.effective().mode == OPTIMISTIC and not order.since:
            keys = [key for branch in found for key in (branch.identity.key(branch.name), branch.name)]
            return await self._plans.decided(order, keys)
        deadline = time.monotonic() + order.timeout_seconds
        with Repository(situation.root) as repository:
            is_here = situation.branch in [branch.name for branch in found]
            if is_here and repository.working_diff().diff:
                self.say("uncommitted changes are left out: a wave consists of its commits")
            submitter = self._submitter(repository)
            await submitter.sweep()
            parts = [await self._up(submitter, repository, branch, is_only=len(found) == 1) for branch in found]
            outcomes = [
                part if isinstance(part, StepResult) else await submitter.follow(*part, deadline) for part in parts
            ]
        return outcomes[0] if len(outcomes) == 1 else _summed(tuple(outcomes))

    async def _up(
        self, submitter: ReviewSubmitter, repository: Repository, branch: waves.WaveBranch, *, is_only: bool
    ) -> StepResult | tuple[Subject, StepPointer]:
        """A branch of a wave, proposed; or its outcome, where that is known at once."""
        order, situation = self.order, self.situation
        command = order.command if is_only or order.branches == (branch.name,) else f"tandem gate wave {branch.name}"
        told = replace(order, command=command, accept_command=f"{command} --accept")
        subject = waves.subject(situation, repository, branch, told)
        if subject is None:
            why = f"The commits of {branch.name} change nothing."
            return StepResult(StepWord.NOTHING, order.step, _GO_ON, reason=why, project=self.project)
        if order.accept:
            if not is_only or branch.name != situation.branch:
                raise InvalidInput(
                    f"A counter-patch goes into the working tree of its branch; run this there: {command} --accept",
                    field="accept",
                )
            return subject, await submitter.accept(subject)
        return await submitter.submit(subject)

    async def _settled(self, submitter: ReviewSubmitter, build: Callable[[], Subject]) -> StepResult:
        order = self.order
        subject = build()
        if not order.accept:
            part = await submitter.submit(subject)
            if isinstance(part, StepResult):
                return part
            return await submitter.follow(*part, time.monotonic() + order.timeout_seconds)
        pointer = await submitter.accept(subject)
        if not subject.is_draft:
            subject = build()
            pointer = replace(pointer, digest=subject.digest)
            self._pointers.put(subject.key, pointer)
        return await submitter.follow(subject, pointer, time.monotonic() + order.timeout_seconds)

    @property
    def _pointers(self) -> Pointers:
        return Pointers(Path(self.situation.repository.folder))

    @property
    def _plans(self) -> Plans:
        return Plans(self.client, self.project, self._pointers)

    def _submitter(self, repository: Repository) -> ReviewSubmitter:
        checkout = Checkout(repository.root)
        return ReviewSubmitter(
            self.client, self.project, repository, checkout, self._pointers, self.agent_type, self.say
        )


def _summed(parts: tuple[StepResult, ...]) -> StepResult:
    """One outcome for several branches: the word of the one that has to be dealt with first."""
    first = min(parts, key=lambda part: list(StepWord).index(part.word))
    ids = tuple(review_id for part in parts for review_id in part.review_ids)
    each = "Deal with each branch as it says below." if first.word not in _GOOD else "Merge the branches as they are."
    return StepResult(
        first.word, first.step, (each,), review_id=first.review_id, review_ids=ids, project=first.project, parts=parts
    )


_GOOD = frozenset({StepWord.APPROVED, StepWord.GO, StepWord.NOTHING})
