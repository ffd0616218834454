"""One rollback from its beginning to its end.

In order: the lock, what an earlier one left, the commit, what its plan built upon it, a scratch worktree with the
reverts, the counter-patch and the replayed dependents, the verify command, one fast-forward, and the telling. Until
the fast-forward nothing of the branch, the index and the working tree is touched; after it the files follow, and the
broker is told.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from tandem.client import TandemClient
from tandem.errors import ConfigInvalid, InvalidInput, InvalidTransition, NotFound, TandemError, Unavailable
from tandem.git.objects import TimeLimit
from tandem.git.runner import end
from tandem.gsd.rollback.choosing import (
    Choice,
    FoundCommit,
    Reviews,
    RollbackReview,
    choose,
    find,
    recorded_commits,
)
from tandem.gsd.rollback.making import RollbackBuilder, Say, remove_leftovers, scratch_worktree
from tandem.gsd.rollback.publishing import Note, changed_paths, ensure_free, locked, publish, settle
from tandem.gsd.rollback.report import RollbackReport, record_commits, settle_rejection, tell, write_section
from tandem.gsd.rollback.repository import Checkout, Tip
from tandem.rulings.planning import project_root
from tandem.settings.config import PREFIX, load_settings, user_file

VERIFY_SECONDS = 1800.0
_LOOK_SECONDS = 0.2
_SHOWN_BYTES = 4_000


async def roll_back(
    client: TandemClient, checkout: Checkout, review_id: str, project: str, say: Say, *, dry_run: bool = False
) -> RollbackReport:
    """Reverts the commits of a review that was decided against; all of them, or none.

    Args:
        client: The broker.
        checkout: The working tree that has the branch.
        review_id: The review.
        project: Its project.
        say: Is told each step.
        dry_run: Whether only to say what would be done.

    Raises:
        InvalidInput: Something is in progress, HEAD is detached or elsewhere, local changes are in the way, or
            somebody else's commits are.
        InvalidTransition: The review was not decided against, or the verify command fails.
        NotFound: There is no such review, or no commit of it.
        Unavailable: Another rollback runs, or HEAD moved meanwhile.
    """
    # Opened here and not in a thread, as it is held over all that follows.
    with locked(checkout.tandem_folder):
        await asyncio.to_thread(remove_leftovers, checkout)
        rollback = _Rollback(client, checkout, project, say)
        earlier = await rollback.finish_earlier(review_id, dry_run=dry_run)
        return earlier or await rollback.run(review_id, dry_run=dry_run)


async def settle_by_person(
    client: TandemClient, checkout: Checkout, review_id: str, project: str, reason: str
) -> RollbackReport:
    """Ends a rejection because the person who runs this says that its content is reverted; nothing is changed.

    Raises:
        InvalidInput: The branch has no commit.
        InvalidTransition: The review was not decided against.
        Forbidden: The broker does not take their proof.
    """
    review = await Reviews(client, project).review(review_id)
    head = await asyncio.to_thread(checkout.resolve, "HEAD")
    if head is None:
        raise InvalidInput("There is no commit here yet, and so nothing to settle.", field="branch")
    branch = await asyncio.to_thread(checkout.text, "rev-parse", "--abbrev-ref", "HEAD")
    report = replace(_begun(review, project, checkout, Tip(branch, head)), settled="settled")
    await settle_rejection(client, report, "settled", reason)
    return report


def _begun(review: RollbackReview, project: str, checkout: Checkout, tip: Tip) -> RollbackReport:
    """The report of a rollback that has done nothing yet."""
    return RollbackReport(
        review_id=review.id,
        project=project,
        plan=review.plan if review.names_plan else tip.branch,
        branch=tip.branch,
        worktree=str(checkout.root),
        how="record",
        head_before=tip.head,
        head_after=tip.head,
    )


class _Rollback:
    """One rollback, under the lock."""

    def __init__(self, client: TandemClient, checkout: Checkout, project: str, say: Say) -> None:
        self._client = client
        self._checkout = checkout
        self._project = project
        self._tell_step = say
        self._note = Note(checkout.layout.git_dir)
        self._stop = threading.Event()

    async def finish_earlier(self, review_id: str, *, dry_run: bool) -> RollbackReport | None:
        """Ends what an earlier rollback left; its report if it was of this review and only had to be told."""
        earlier = await asyncio.to_thread(self._note.read)
        if earlier is None:
            return None
        if dry_run:
            raise InvalidInput(
                f"An earlier rollback of {earlier.review_id} did not come to its end. Run it again without --dry-run,"
                f" which finishes it or puts everything back: tandem rollback {earlier.review_id}",
                field="dry_run",
                review_id=earlier.review_id,
            )
        self._say("finishing an earlier rollback")
        if not await asyncio.to_thread(settle, self._checkout, earlier):
            return None
        report = await self._told(replace(earlier, finished=True, worktree=str(self._checkout.root)))
        if report.review_id == review_id:
            return report
        if self._note.read() is not None:
            raise Unavailable(
                f"An earlier rollback of {report.review_id} could not be told to the broker ({report.unsaid}); nothing"
                " was changed now. Run this again when it can.",
                review_id=report.review_id,
            )
        return None

    async def run(self, review_id: str, *, dry_run: bool) -> RollbackReport:
        """Rolls a review back."""
        reviews = Reviews(self._client, self._project)
        tip = await asyncio.to_thread(self._checkout.tip)
        review = await reviews.review(review_id)
        self._say("looking for its commit")
        report = replace(
            _begun(review, self._project, self._checkout, tip), escalate=review.must_escalate, dry_run=dry_run
        )
        try:
            found = await find(reviews, self._checkout, tip, review)
            choice = await choose(reviews, self._checkout, review, found)
        except (NotFound, InvalidInput):
            if not dry_run and await self._is_settled(report, review):
                return replace(report, settled="observed")
            raise
        report = replace(report, how=found.how)
        if choice is None:
            is_settled = not dry_run and await self._is_settled(report, review)
            report = replace(report, settled="observed" if is_settled else None)
            return _nothing_to_do(report, review, found)
        if not dry_run:
            # The gate of a base branch lets the reverse of those through that it knows.
            known = [(one.commit.id, None) for one in reversed(choice.taken)]
            await record_commits(self._client, report, known)
        work = asyncio.ensure_future(asyncio.to_thread(self._make_and_publish, tip, review, choice, report))
        try:
            report = await asyncio.shield(work)
        except asyncio.CancelledError:
            # Git is not to be left alone with it: the thread ends at its next step, and tidies up.
            self._stop.set()
            await asyncio.wait({work})
            raise
        return report if dry_run else await self._told(report)

    async def _is_settled(self, report: RollbackReport, review: RollbackReview) -> bool:
        """Whether the broker sees that the change is gone, or was reverted by hand; the rejection ends with it."""
        if not review.is_after_commit and not await recorded_commits(self._client, self._project, review_id=review.id):
            # A change that was never committed holds nothing up.
            return False
        try:
            await settle_rejection(self._client, report, "observed")
        except InvalidTransition:
            return False
        return True

    def _say(self, doing: str) -> None:
        """Tells the next step, between two of them: where it may also be broken off."""
        if self._stop.is_set():
            raise Unavailable("The rollback was broken off; nothing was changed.")
        self._tell_step(doing)

    def _make_and_publish(
        self, tip: Tip, review: RollbackReview, choice: Choice, report: RollbackReport
    ) -> RollbackReport:
        """Everything that git does, in one thread."""
        command, origin = verify_command(self._checkout.root)
        self._say("making a scratch worktree")
        with scratch_worktree(self._checkout, tip.head) as scratch:
            report = RollbackBuilder(self._checkout, scratch, review.id, self._say).make(
                report, choice, review.counter_patch
            )
            changed = changed_paths(self._checkout, tip.head, report.head_after)
            report = replace(report, files=tuple(changed), verify=tuple(command) or None)
            ensure_free(self._checkout, changed)
            if report.dry_run:
                return report
            if command:
                self._say(f"verifying: {' '.join(command)}")
                verify(command, origin, scratch.folder, self._stop)
            self._say(f"publishing to {tip.branch}")
            publish(self._checkout, tip, report)
        return report

    async def _told(self, report: RollbackReport) -> RollbackReport:
        """Tells the broker and the plan's summary; what cannot be told now is told by the next call."""
        self._say("telling the broker")
        try:
            report = await tell(self._client, report)
        except TandemError as error:
            if not error.retryable:
                self._note.clear()
            return replace(report, unsaid=error.message)
        try:
            report = replace(report, summary=await asyncio.to_thread(write_section, Path(report.worktree), report))
        except OSError as error:
            report = replace(report, unsaid=f"SUMMARY.md cannot be written: {error.strerror}")
        self._note.clear()
        return report


def _nothing_to_do(report: RollbackReport, review: RollbackReview, found: FoundCommit) -> RollbackReport:
    patch = review.counter_patch
    missing = patch is not None and not any(commit.rollback_of for commit in found.commits)
    return replace(
        report,
        already=tuple(dict.fromkeys(by for _, by in found.gone)),
        waiting_round=patch.round if patch is not None and missing else None,
    )


def verify_command(root: Path) -> tuple[Sequence[str], str]:
    """The setting `verify_command`, from the user's configuration or a project's file that a person trusted.

    Returns:
        The program and its arguments, never a shell's text, and which configuration says so; no words if none does.

    Raises:
        ConfigInvalid: The configuration cannot be read, or it is the environment that says so.
    """
    loaded = load_settings(project_root=Path(project_root(str(root))))
    origin = loaded.origins["verify_command"]
    if origin.startswith(PREFIX):
        raise ConfigInvalid(
            f"{origin} is set, but any caller can set the environment: the verify command counts only from"
            f" your own configuration, {user_file()}. Unset it and run this again.",
            setting="verify_command",
            origin=origin,
        )
    return loaded.settings.verify_command or (), origin


def verify(
    command: Sequence[str], origin: str, folder: Path, stop: threading.Event, limit_seconds: float = VERIFY_SECONDS
) -> None:
    """Runs the command in a worktree; all that it started is ended when its time is up, or when it has to stop.

    Args:
        command: What to run.
        origin: Which configuration says so.
        folder: The worktree.
        stop: Is set when no caller waits for it any more.
        limit_seconds: How long it may take.

    Raises:
        ConfigInvalid: It cannot be started.
        InvalidTransition: It failed, or took too long.
    """
    # What steers git would lead it out of the worktree.
    environment = {name: value for name, value in os.environ.items() if not name.upper().startswith("GIT_")}
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise ConfigInvalid(
                f"{origin}: verify_command cannot be started ({error}); nothing was changed.",
                setting="verify_command",
                origin=origin,
            ) from error
        with process, TimeLimit(process, limit_seconds) as limit:
            status_code = _wait(process, stop)
        if status_code == 0 and not limit.passed:
            return
        said = _tail(output.fileno())
    how = f"did not end within {limit_seconds:g} s" if limit.passed else f"failed with exit status {status_code}"
    raise InvalidTransition(
        f"The verify command {how} on what the rollback would leave; nothing was changed. Its last words:\n{said}\n"
        "Look with --dry-run at what would stay, correct what depends on it, and run this again.",
        verify_command=list(command),
        status_code=status_code,
        output=said,
    )


def _wait(process: subprocess.Popen[bytes], stop: threading.Event) -> int:
    while True:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(_LOOK_SECONDS)
        if stop.is_set():
            end(process)


def _tail(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    os.lseek(descriptor, max(0, size - _SHOWN_BYTES), os.SEEK_SET)
    return os.read(descriptor, _SHOWN_BYTES).decode("utf-8", "replace").strip()
