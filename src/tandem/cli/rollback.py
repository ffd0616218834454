"""`tandem rollback`: reverts a commit that was made before its review and then decided against."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from tandem.cli.connection_options import ConnectionOptions, ensure_ours
from tandem.cli.declared import Argument, Option, without
from tandem.cli.persons import confirm, refuse_agents
from tandem.cli.render.parts import plain
from tandem.cli.terminal import Exit, progress, tell
from tandem.errors import Forbidden, InvalidInput
from tandem.gsd.rollback.report import RollbackReport
from tandem.gsd.rollback.repository import Checkout
from tandem.gsd.rollback.rolling import roll_back, settle_by_person
from tandem.present.text import Text, Whole
from tandem.rulings import planning, state

_SHORT = 10
_WIDTH = 10
_SHOWN_FILES = 30
_AWAY_SECONDS = 5.0
"""How long a broker that has gone is waited for: the next call of the command delivers the missed reports."""
_APPROVAL = {"carried": "its review still holds", "re_review": "to be reviewed again", "none": "without a review"}


@without("project")
async def rollback(
    review_id: Annotated[str, Argument(metavar="REVIEW", completes="review")],
    *,
    dry_run: Annotated[bool, Option(help="Show the commits, reverts, replays and files; change nothing.")] = False,
    settled: Annotated[
        bool, Option(help="Only say that nothing has to be rolled back; a person at a terminal.")
    ] = False,
    reason: Annotated[
        str | None, Option("-m", "--message", metavar="WHY", help="Why it is settled, for the log.")
    ] = None,
    options: ConnectionOptions,
) -> Exit:
    """Revert the commit of a review that was rejected or has changes requested, and what its plan built upon it.

    It is reverted, never reset: history stays, and so do other people's commits and local changes. A commit that
    was reverted by hand, or is gone, is settled without a change.
    """
    checkout = Checkout(Path.cwd())
    if settled:
        _ensure_a_person_says(review_id, reason, dry_run=dry_run)
    async with options.client() as client:
        client.session.away_s = _AWAY_SECONDS
        status = await client.get_review_status(review_id)
        ensure_ours(client.session, options, review_id, status.project)
        if settled and reason is not None:
            report = await settle_by_person(client, checkout, review_id, status.project, reason)
            return tell(report.facts(), _lines(report), as_json=options.as_json)
        with progress("rolling back") as say:
            report = await roll_back(client, checkout, review_id, status.project, say, dry_run=dry_run)
    tell(report.facts(), _lines(report), as_json=options.as_json)
    # A rollback that the broker does not know of is not done altogether.
    return Exit.DONE if report.unsaid is None else Exit.REFUSED


def _ensure_a_person_says(review_id: str, reason: str | None, *, dry_run: bool) -> None:
    """Go on only if a person at the terminal says that a rejection is settled.

    Raises:
        InvalidInput: They say no reason, or this is a dry run.
        Forbidden: An agent runs it, there is no terminal, or they said no.
    """
    question = f"{review_id} was decided against, and would no longer hold up its plan, with or without its commit."
    refuse_agents(question)
    if not reason or dry_run:
        raise InvalidInput(
            f"Say why it is settled, for the log: tandem rollback {review_id} --settled -m 'why'", field="reason"
        )
    unasked = Forbidden(f"{question} That needs a person at a terminal, and there is none here.", needed="person")
    confirm(f"{question}\nThe reason that will be recorded: {reason}\nIs it settled?", unasked=unasked)


def _lines(report: RollbackReport) -> Whole:
    """The report as lines that can be piped."""
    if report.settled is not None and not report.already:
        return Whole(*_settled(report))
    if report.already or not (report.reverted or report.finished):
        return Whole(*_nothing_done(report))
    return Whole(*_heading(report), *_taken(report), *_kept(report), *_files(report), *_checked(report), *_next(report))


def _settled(report: RollbackReport) -> Iterator[Text]:
    how = "by your word" if report.settled == "settled" else "its commit is gone, or was reverted by hand"
    yield Text(f"Settled: {report.review_id} no longer holds up its plan ({how}). Nothing was changed.")
    yield from _blocking(report)


def _blocking(report: RollbackReport) -> Iterator[Text]:
    gate = state.find_enabled(report.worktree)
    # In other modes a plan has no mode of its own.
    if gate is not None and planning.enforcement(gate, None) != planning.OPTIMISTIC:
        return
    yield Text(
        f"The plan {report.plan} goes on in blocking mode: a change is approved before it is committed"
        " (tandem submit --staged --wait -m '…')."
    )


def _nothing_done(report: RollbackReport) -> Iterator[Text]:
    by = ", ".join(commit[:_SHORT] for commit in report.already)
    yield Text(f"Already rolled back: the commit of {report.review_id} is reverted by {by}. Nothing was changed.")
    if report.waiting_round is not None:
        yield Text(
            f"Its accepted counter-patch (round {report.waiting_round}) is in no commit. When it is approved:"
            f" tandem apply {report.review_id} --index && git commit"
        )


def _heading(report: RollbackReport) -> Iterator[Text]:
    if report.dry_run:
        yield plain(f"Nothing was changed. Rolling back {report.review_id} on {report.branch} would do this:", "bold")
    elif report.finished:
        yield plain(f"Finished an interrupted rollback of {report.review_id} on {report.branch}.", "bold")
    else:
        yield plain(f"Rolled back {report.review_id} on {report.branch}.", "bold")


def _taken(report: RollbackReport) -> Iterator[Text]:
    for one in report.reverted:
        by = "nothing of it was left" if one.reverted_by is None else f"by {one.reverted_by[:_SHORT]}"
        if report.dry_run and one.reverted_by is not None:
            by = "by a revert"
        yield _line("reverted", "red", one.commit, one.subject, f"{one.because}; {by}")
    if report.counter_patch is not None:
        how = "" if report.counter_patch.exact else ", merged with the present content: needs another review"
        commit = "" if report.dry_run else report.counter_patch.commit
        yield _line("corrected", "green", commit, f"the counter-patch, round {report.counter_patch.round}", how[2:])


def _kept(report: RollbackReport) -> Iterator[Text]:
    for one in report.carried:
        becomes = "" if report.dry_run else f"is now {one.becomes[:_SHORT]}; "
        yield _line("replayed", "green", one.commit, one.subject, f"{becomes}{_APPROVAL[one.approval]}")
    for one in report.rework:
        what = one.subject or ", ".join(one.review_ids)
        yield _line("rework", "yellow", one.commit or "", what, one.reason)


def _files(report: RollbackReport) -> Iterator[Text]:
    for path in report.files[:_SHOWN_FILES]:
        yield Text.assemble(("file".ljust(_WIDTH), "dim"), plain(path))
    if len(report.files) > _SHOWN_FILES:
        yield Text(f"and {len(report.files) - _SHOWN_FILES} more files (--json lists all)", "dim")


def _checked(report: RollbackReport) -> Iterator[Text]:
    if report.verify is not None:
        how = "will be run" if report.dry_run else "passed"
        yield Text.assemble(("verify".ljust(_WIDTH), "dim"), plain(" ".join(report.verify)), (f"  {how}", "dim"))
    if report.summary is not None:
        yield Text.assemble(("told in".ljust(_WIDTH), "dim"), plain(report.summary))


def _next(report: RollbackReport) -> Iterator[Text]:
    if report.dry_run:
        yield Text(f"To do it: tandem rollback {report.review_id}")
        return
    for one in report.re_reviews:
        yield Text(f"Submitted again: {one.review_id}, round {one.round}, for {one.commit[:_SHORT]}")
    if report.unsaid is not None:
        yield Text.assemble(
            ("The repository is done, but this could not be told: ", "yellow"),
            plain(report.unsaid),
            f" Run it again: tandem rollback {report.review_id}",
        )
    yield from _blocking(report)
    if report.escalate:
        yield Text("It was decided against for the third time: stop here and ask a person before going on.", "bold red")


def _line(what: str, style: str, commit: str, subject: str, about: str) -> Text:
    named = f"{commit[:_SHORT]} " if commit else ""
    line = Text.assemble((what.ljust(_WIDTH), style), (named, "dim"), plain(subject))
    return line.append(Text.assemble(("  (", "dim"), plain(about, "dim"), (")", "dim"))) if about else line
