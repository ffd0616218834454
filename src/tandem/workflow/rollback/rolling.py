"""One rollback from its beginning to its end."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from tandem.client import TandemClient
from tandem.errors import InvalidInput, TandemError, Unavailable
from tandem.workflow.rollback import recovery, scratch, summary, verifying
from tandem.workflow.rollback.checkout import Checkout, Stand
from tandem.workflow.rollback.choosing import Choice, choose
from tandem.workflow.rollback.finding import Found, find
from tandem.workflow.rollback.journal import Entry, Journal
from tandem.workflow.rollback.lock import held
from tandem.workflow.rollback.making import Made, Maker, Tell
from tandem.workflow.rollback.publishing import BrokenOff, changed_paths, ensure_free, publish
from tandem.workflow.rollback.report import Report, from_facts
from tandem.workflow.rollback.reviewed import Desk, Reviewed
from tandem.workflow.rollback.scratch import Scratch
from tandem.workflow.rollback.telling import record_commits, tell


@dataclass(frozen=True, slots=True)
class Asked:
    """What a rollback is asked to do.

    Attributes:
        review_id: The review.
        project: Its project.
        dry_run: Whether only to say what would be done.
    """

    review_id: str
    project: str
    dry_run: bool = False


async def roll_back(client: TandemClient, checkout: Checkout, asked: Asked, say: Tell) -> Report:
    """Takes back what was committed of a review that was decided against; all of it, or nothing.

    Args:
        client: The broker.
        checkout: The working tree that has the branch.
        asked: What to do.
        say: Is told what is being done.

    Raises:
        InvalidInput: Something is in progress, HEAD is detached or elsewhere, local changes are in the way, or
            somebody else's commits are.
        InvalidTransition: The review was not decided against, or the verify command fails.
        NotFound: There is no such review, or no commit of it.
        Unavailable: Another rollback runs, or HEAD moved meanwhile.
    """
    # Opened here and not in a thread, as it is held over all that follows.
    with held(checkout.tandem_folder) as lock:
        return await _Rollback(client, checkout, asked, say, lock).run()


class _Rollback:
    """One rollback, under the lock."""

    def __init__(self, client: TandemClient, checkout: Checkout, asked: Asked, say: Tell, lock: IO[bytes]) -> None:
        self._client = client
        self._checkout = checkout
        self._asked = asked
        self._tell = say
        self._lock = lock
        self._journal = Journal(checkout.tandem_folder)
        self._desk = Desk(client, asked.project)
        self._stop = threading.Event()

    async def run(self) -> Report:
        finished = await self._finish_earlier()
        if finished is not None and finished.review_id == self._asked.review_id:
            return finished
        stand = await asyncio.to_thread(self._checkout.stand)
        review = await self._desk.review(self._asked.review_id)
        self._say("looking for its commit")
        found = await find(self._desk, self._checkout, stand, review)
        choice = await choose(self._desk, self._checkout, review, found)
        report = self._begun(stand, review, found)
        if choice is None:
            return self._nothing_to_do(report, review, found)
        if not self._asked.dry_run:
            # The gate of a base branch lets the reverse of those through that it knows.
            known = [(one.commit.id, None) for one in reversed(choice.taken)]
            await record_commits(self._client, self._checkout.root, report, known)
        return await self._make_and_publish(stand, review, choice, report)

    def _say(self, doing: str) -> None:
        """Tells what is being done, between two steps: where it may also be broken off."""
        if self._stop.is_set():
            raise Unavailable("The rollback was broken off; nothing was changed.")
        self._tell(doing)

    async def _finish_earlier(self) -> Report | None:
        """Ends what an earlier rollback left; its report if only the telling was left of it."""
        entry = await asyncio.to_thread(self._journal.read)
        if entry is None:
            return None
        if self._asked.dry_run and entry.head_after is not None:
            raise InvalidInput(
                f"An earlier rollback of {entry.review_id} did not come to its end. Run it again without --dry-run,"
                f" which finishes it or puts everything back: tandem rollback {entry.review_id}",
                field="dry_run",
                review_id=entry.review_id,
            )
        self._say("finishing an earlier rollback")
        if not await asyncio.to_thread(recovery.recover, self._checkout, entry, was_killed=True):
            self._journal.clear()
            return None
        report = await self._told(replace(from_facts(entry.report), finished=True))
        if self._journal.read() is not None and entry.review_id != self._asked.review_id:
            raise Unavailable(
                f"An earlier rollback of {entry.review_id} could not be told to the broker ({report.unsaid}); nothing"
                " was changed now. Run this again when it can.",
                review_id=entry.review_id,
            )
        return report

    async def _make_and_publish(self, stand: Stand, review: Reviewed, choice: Choice, report: Report) -> Report:
        folder = scratch.choose_folder()
        entry = Entry(self._asked.review_id, str(self._checkout.root), stand.branch, str(folder), stand.head)
        work = asyncio.ensure_future(asyncio.to_thread(self._make, stand, review, choice, report, entry))
        try:
            report = await asyncio.shield(work)
        except asyncio.CancelledError:
            # Git is not to be left alone with it: the thread ends at its next step, and tidies up.
            self._stop.set()
            await asyncio.wait({work})
            raise
        return report if self._asked.dry_run else await self._told(report)

    def _make(self, stand: Stand, review: Reviewed, choice: Choice, report: Report, entry: Entry) -> Report:
        """Everything that git does, in one thread."""
        try:
            self._journal.write(entry)
            return self._made_and_published(stand, review, choice, report, entry)
        except BaseException as error:
            left = self._journal.read() or entry
            if not recovery.recover(self._checkout, left, was_killed=isinstance(error, BrokenOff)):
                self._journal.clear()
            raise
        finally:
            scratch.remove(self._checkout, Path(entry.scratch))

    def _made_and_published(
        self, stand: Stand, review: Reviewed, choice: Choice, report: Report, entry: Entry
    ) -> Report:
        command = verifying.configured(self._checkout.root)
        self._say("making a scratch worktree")
        worktree = Scratch(self._checkout, Path(entry.scratch), stand.head)
        made = Maker(self._checkout, worktree, self._asked.review_id, self._say).make(choice, review.counter_patch)
        changed = changed_paths(self._checkout, stand.head, made.head)
        report = _completed(report, made, tuple(changed), command)
        ensure_free(self._checkout, changed)
        if self._asked.dry_run:
            self._journal.clear()
            return report
        if command is not None:
            self._say(f"verifying: {' '.join(command.argv)}")
            verifying.verify(command, worktree.folder, self._stop)
        self._say(f"publishing to {stand.branch}")
        self._journal.write(replace(entry, head_after=made.head, at=time.time(), report=report.facts()))
        publish(self._checkout, stand, made.head, self._lock)
        return report

    async def _told(self, report: Report) -> Report:
        """Tells the broker and the plan's summary; what cannot be told now is told by the next call."""
        self._say("telling the broker")
        try:
            report = await tell(self._client, report)
        except TandemError as error:
            if not error.retryable:
                self._journal.clear()
            return replace(report, unsaid=error.message)
        try:
            written = await asyncio.to_thread(summary.write_section, Path(report.worktree), report)
        except OSError as error:
            written = None
            report = replace(report, unsaid=f"SUMMARY.md cannot be written: {error.strerror}")
        self._journal.clear()
        return replace(report, summary=written)

    def _begun(self, stand: Stand, review: Reviewed, found: Found) -> Report:
        return Report(
            review_id=self._asked.review_id,
            project=self._asked.project,
            plan=review.plan if review.names_plan else stand.branch,
            branch=stand.branch,
            worktree=str(self._checkout.root),
            how=found.how,
            head_before=stand.head,
            head_after=stand.head,
            escalate=review.must_escalate,
            dry_run=self._asked.dry_run,
        )

    @staticmethod
    def _nothing_to_do(report: Report, review: Reviewed, found: Found) -> Report:
        patch = review.counter_patch
        missing = patch is not None and not any(commit.rollback_of for commit in found.commits)
        return replace(
            report,
            already=tuple(dict.fromkeys(by for _, by in found.gone)),
            waiting_round=patch.round if patch is not None and missing else None,
        )


def _completed(report: Report, made: Made, files: tuple[str, ...], command: verifying.Verify | None) -> Report:
    return replace(
        report,
        head_after=made.head,
        reverted=made.reverted,
        counter_patch=made.counter_patch,
        carried=made.carried,
        rework=made.rework,
        files=files,
        verify=command.argv if command is not None else None,
    )
