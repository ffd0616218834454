"""`tandem apply` and `tandem review checkout`: a round in the working tree, or in a folder of its own."""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tandem.cli import persons, shown, sources
from tandem.cli.connection_options import ConnectionOptions, ensure_ours
from tandem.cli.declared import Argument, Option, without
from tandem.cli.render.parts import plain
from tandem.cli.terminal import Exit, progress, say, tell
from tandem.core.visible import visible_line
from tandem.errors import InvalidInput, InvalidTransition
from tandem.git.repository import Repository
from tandem.git.reviewed_tree import DoesNotMerge, ReviewedTree, RoundContent
from tandem.git.worktree import WorktreeUpdate
from tandem.present.shape import record
from tandem.present.text import Group, Text
from tandem.rulings import next_steps

if TYPE_CHECKING:
    from tandem.reviews.answers import Proposal, ReviewStatus


@without("project")
def apply(
    review_id: Annotated[str, Argument(metavar="REVIEW", completes="review")],
    *,
    index: Annotated[bool, Option(help="Stage the touched files too.")] = False,
    options: ConnectionOptions,
) -> Exit:
    """Bring the working tree to the approved round, or change nothing and say why."""
    with options.session() as session, progress("applying"):
        status = record(session.data("get_review_status", {"review_id": review_id}))
        _ensure_approved(status)
        proposal = record(session.data("get_proposal", {"review_id": review_id, "round": status.round}))
        ensure_ours(session, options, review_id, proposal.project)
        earlier = [
            record(session.data("get_proposal", {"review_id": review_id, "round": number}))
            for number in range(1, status.round)
        ]
        try:
            update, besides = _bring(proposal, earlier, index=index)
        except InvalidInput as refusal:
            raise _explained(refusal, review_id, index=index) from refusal
    data = {"review_id": review_id, "round": status.round, "changed": update.changed, **asdict(update)}
    return tell(data, _report(update, status, besides), as_json=options.as_json)


def _ensure_approved(status: ReviewStatus) -> None:
    # What changes a counter-patch that was accepted begins with it.
    is_asked = status.next_action == "revise" and status.counter_patch_status == "accepted"
    if is_asked or "approved" in {status.status, status.outcome}:
        return
    state = status.status if status.outcome is None else f"{status.status} ({status.outcome})"
    raise InvalidTransition(
        f"{status.review_id} is {state}, not approved; nothing was changed.",
        review_id=status.review_id,
        status=status.status,
        expected="approved",
    )


def _bring(proposal: Proposal, earlier: list[Proposal], *, index: bool) -> tuple[WorktreeUpdate, tuple[str, ...]]:
    """The update, and the other paths that are staged."""
    with sources.here() as repository:
        update = _brought(repository, proposal, earlier, index=index)
        touched = {*update.written, *update.deleted, *update.already}
        with suppress(InvalidInput):  # a conflict is there to be resolved first
            return update, tuple(one.path for one in repository.raw_changes() if one.path not in touched)
        return update, ()


def _brought(repository: Repository, proposal: Proposal, earlier: list[Proposal], *, index: bool) -> WorktreeUpdate:
    if proposal.diff is not None:
        diff, base = proposal.diff, proposal.base_commit or proposal.base
        for one in reversed(earlier):
            if one.diff is not None and _is_committed(repository, one):
                # From there on, as files may be in the one round and not in the other.
                before = (one.diff, one.base_commit or one.base or "HEAD")
                diff, base = repository.interdiff(before, (diff, base or "HEAD")), "HEAD"
                break
        return repository.apply_to_worktree(diff, base, index=index)
    if proposal.path is None or proposal.description is None:
        raise InvalidInput(f"{proposal.review_id} has no content to apply: it is words only.", field="review_id")
    return repository.text_to_worktree(proposal.path, proposal.description, index=index)


def _is_committed(repository: Repository, proposal: Proposal) -> bool:
    """Whether HEAD has exactly a round's content, and had not before."""
    base = proposal.base_commit
    if base is None or proposal.diff is None or not repository.has_base(base):
        return False
    changes = repository.validate_diff(proposal.diff, base).changes
    return bool(repository.landed_on(changes, base, ("HEAD",), now=True))


def _explained(refusal: InvalidInput, review_id: str, *, index: bool) -> InvalidInput:
    """The refusal, with the commands that put an earlier round, or local work, out of the way."""
    paths: list[str] = refusal.details.get("paths", [])
    if not paths:
        return refusal
    # Of some files alone git does not put away a change that is only staged.
    away = f"git stash push --all -- {shlex.join(f':/{path}' for path in paths)}"
    away = "git stash push" if refusal.details["field"] == "index" else away
    return InvalidInput(
        f"{refusal.message} Put it away: {away}\n"
        f"Then again: tandem apply {review_id}{' --index' if index else ''}\n"
        "Once that is committed, bring it back: git stash pop --index",
        **refusal.details,
    )


def _report(update: WorktreeUpdate, status: ReviewStatus, besides: tuple[str, ...]) -> Group:
    lines = [Text.assemble(("written  ", "green"), plain(path)) for path in update.written]
    lines += [Text.assemble(("deleted  ", "red"), plain(path)) for path in update.deleted]
    known = "The" if update.changed else "Already there: the"
    if status.checks not in {None, "passed"}:
        has = {"pending": "has not ended yet", "failed": "has not passed"}.get(str(status.checks), "does not count")
        remark = f"A required check {has}: the gate refuses to commit it. See: tandem checks list {status.review_id}"
        lines.append(Text(remark, style="yellow"))
    lines.append(Text(f"{known} working tree has round {status.round} of {status.review_id}."))
    staging = ()
    if update.unstaged:
        left_out = ", ".join(map(visible_line, update.unstaged))
        said = f"Ignored, or outside of your sparse checkout; git add leaves them out: {left_out}."
        said += f" Stage the change with: tandem apply {status.review_id} --index"
        said += f"\nIf it is not to be committed: tandem review close {status.review_id}"
        lines.append(Text(said, style="yellow"))
    elif not update.indexed:
        touched = shlex.join(f":/{path}" for path in (*update.written, *update.deleted, *update.already))
        staging = (f"Stage it: git add -- {touched}",)
    if status.next_action == "apply_and_close":
        paths = shlex.join(f":/{path}" for path in besides)
        said = f"More is staged, which it does not approve. Unstage that: git restore --staged -- {paths}"
        lines += [plain(said)] if besides else []
        lines += map(plain, (*staging, *next_steps.commit(status.review_id)))
    return Group(*lines)


@without("project")
def checkout(
    review_id: Annotated[str, Argument(metavar="REVIEW", completes="review")],
    folder: Annotated[
        Path | None,
        Argument(metavar="DIR", help="New, or empty; default: beside the repository, with the review's id."),
    ] = None,
    *,
    number: Annotated[int | None, Option("--round", metavar="N", min=1, help="Default: the newest.")] = None,
    options: ConnectionOptions,
) -> Exit:
    """Make a folder with exactly a round's files: a repository in which HEAD is the change as one commit.

    It stands on the tip of the project's base branch, merged with what its own base has beside that. Nothing that is
    not committed is in it, nor any setting or hook of yours. Run it in the project's repository.
    """
    with options.session() as session, progress("laying out the files"):
        answered = session.data("get_proposal", {"review_id": review_id, "round": number})
        proposal = record(answered)
        ensure_ours(session, options, review_id, proposal.project)
        tree = _lay_out(proposal, folder)
        say(*(proposal.ground.notes if proposal.ground is not None else ()))
    data = {"review_id": review_id, "round": proposal.round, "folder": str(tree.folder), "commit": tree.commit}
    said = f"{tree.folder} has round {proposal.round} of {review_id}: HEAD is {tree.commit[:12]}"
    said += f", on {tree.base[:12]}." if tree.base is not None else "."
    shown.note(answered, persons.caller(options.agent).name or "")
    return tell({**data, "base": tree.base}, plain(said), as_json=options.as_json)


def _lay_out(proposal: Proposal, folder: Path | None) -> ReviewedTree:
    review_id, base = proposal.review_id, proposal.base_commit
    if base is None:
        raise InvalidInput(
            f"{review_id} has no files: it names no commit of a repository that it was made against.", field="review_id"
        )
    content = RoundContent(base, proposal.digest, proposal.diff, proposal.path, proposal.description)
    with sources.here() as repository:
        place = (folder or repository.root.with_name(f"{repository.root.name}-{review_id}")).absolute()
        if place.is_symlink() or (place.exists() and not (place.is_dir() and not any(place.iterdir()))):
            raise InvalidInput(f"{place} is not empty. Delete it, or name another folder.", field="folder")
        if not place.parent.is_dir():
            raise InvalidInput(f"{place.parent} is not there. Make it first.", field="folder")
        title, ground = f"Round {proposal.round} of {review_id}", proposal.ground
        tip = None if ground is None else ground.moved_to or ground.tip
        try:
            return repository.lay_out(content, place, title, tip=tip)
        except (DoesNotMerge, InvalidInput) as error:
            if tip is None:
                raise
            say(f"{error.message} So it stands on {base[:12]}, and the files that it leaves alone are as old as that.")
            return repository.lay_out(content, place, title)
