"""The review behind a `tandem commit`: found again, submitted, revised, waited for, told."""

from __future__ import annotations

import os
import shlex
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tandem.bridge.session import data_of
from tandem.cli import persons, sources
from tandem.cli.calls import given, say_go_on, verdict_status
from tandem.cli.committing import show_outcome
from tandem.cli.connection_options import need_project
from tandem.cli.declared import Misused
from tandem.cli.render import render
from tandem.cli.sources import Source
from tandem.cli.submit import await_verdict, say_problem
from tandem.cli.terminal import Exit, progress, say, show
from tandem.errors import InvalidInput, NotFound, TandemError
from tandem.present.shape import record
from tandem.rulings import git, message, next_steps, person
from tandem.setup.fresh_machine import identity_problem

if TYPE_CHECKING:
    from tandem.bridge.session import Session
    from tandem.cli.committing import Commits, Taken
    from tandem.cli.connection_options import ConnectionOptions
    from tandem.git.place import HookRepository
    from tandem.rulings.open_reviews import OpenReview
    from tandem.rulings.state import GateFile

_LONGEST_INTENT = 500
_STANDING = {"pending", "claimed", "in_review", "approved"}
"""The states of a review whose reviewer has not asked for another round."""


def refuse_unknown_identity(status: int) -> None:
    """Say how git comes to know who commits, if it ended with this status because it does not.

    Raises:
        InvalidInput: It does not.
    """
    unknown = identity_problem(Path.cwd(), os.environ)
    if unknown is not None:
        raise InvalidInput(f"{unknown[0]} So that it does: {unknown[1]}", exit_status=status)


@dataclass(frozen=True, slots=True)
class CommitReview:
    """The review of one working tree, branch and agent.

    Attributes:
        known: The record of it.
        again: The command that goes on.
        ends: When the command's time is up, on the monotonic clock; None if it waits as long as it takes.
        done: The steps of the command so far, a word each, in order.
    """

    session: Session
    place: HookRepository
    gate: GateFile | None
    options: ConnectionOptions
    known: OpenReview
    commits: Commits
    again: str
    ends: float | None
    done: list[str]

    @staticmethod
    def is_approved(status: dict[str, Any]) -> bool:
        """Whether it may be committed: it is approved, and its required checks have passed."""
        return verdict_status(status) is Exit.DONE

    def stands(self, taken: Taken, digest: str) -> dict[str, Any] | None:
        """Where the review of this content stands once there is news; None if the files have changed for it."""
        self.known.keep(again=self.again, staged=taken.is_staged)
        status = self.known.status(self.session)
        if status is not None and status["digest"] == digest:
            return self.waited(status)
        is_as_submitted = self.known.facts.get("digest") == digest
        if status is not None and is_as_submitted and status["status"] not in {"rejected", "closed"}:
            self._bring(status, taken)
            return None
        with suppress(TandemError):
            say_problem()
        whole = taken.message if taken.source[0] == "message" else self.commits.cleaned(taken.message)
        text = message.subject(whole) or "(no message)"
        body = whole.partition(text)[2].strip().encode("utf-8", "replace").decode()
        if taken.is_told and status is not None and status["status"] in _STANDING:
            self._leave(status["review_id"], taken, text)
        ended = self.known.facts.get("follows") if status is None else status["review_id"]
        if not taken.is_told and ended is not None and (status is None or status["status"] == "closed"):
            self._ensure_same_change(ended, taken)
        stated = {"intent": text[:_LONGEST_INTENT], **message.belonging(text), **given(description=body or None)}
        with progress("submitting"):
            content = {"tree": taken.tree, "stated": stated}
            created = data_of(self.known.submit(self.session, self._request, content))
        self.known.keep(making=[taken.tree, git.head(self.place)], closes=[created["review_id"]])
        self.done.append("submitted")
        what = "is there already" if created["existed"] else "is up"
        say(f"{created['review_id']} {what}, round {created['round']}")
        return self.waited(created)

    def _leave(self, review_id: str, taken: Taken, text: str) -> None:
        """Begin a review of its own where a change in other words shares no file with that of the review."""
        proposal = self._unrelated(review_id, taken)
        if proposal is not None and proposal["intent"] != text[:_LONGEST_INTENT]:
            self.known.keep(review_id=None, digest=None)
            goes_on = shlex.join(["tandem", "commit", "-m", proposal["intent"]])
            say(f"{review_id} shares no file with this, and stays as it is. Its files staged, it goes on by: {goes_on}")

    def _ensure_same_change(self, review_id: str, taken: Taken) -> None:
        """Let the message of a review that was closed stand only for a change that shares a file with it."""
        # The broker may have another database by now.
        with suppress(NotFound):
            if self._unrelated(review_id, taken) is not None:
                self.known.forget()
                raise Misused(f"{review_id} was closed, and shares no file with this. Give a message.", "-m")

    def _unrelated(self, review_id: str, taken: Taken) -> dict[str, Any] | None:
        """The proposal of a review, if it shares no file with what would be committed."""
        proposal = self.session.data("get_proposal", {"review_id": review_id})
        files = {path for one in proposal["affected_files"] for path in (one["path"], one["old_path"])}
        changed = {one["path"] for one in git.between(self.place, git.head(self.place), taken.tree)}
        return proposal if files.isdisjoint(changed) else None

    def _request(self, content: dict[str, Any]) -> dict[str, Any]:
        with sources.here() as repository:
            found = sources.content(repository, Source(range=f"..{content['tree']}"), say)
        return persons.marked(
            {
                "project": need_project(self.session, self.options, self.gate),
                "agent_type": os.environ.get("TANDEM_AGENT") or person.agent_name() or "cli",
                "agent_role": "proposer",
                "category": "code_change",
                "reuse": True,
                **content["stated"],
                **found,
            }
        )

    def waited(self, created: dict[str, Any]) -> dict[str, Any]:
        """Where a review stands once there is news; it is told by its status, or by the answer to `create_review`."""
        left = None if self.ends is None else max(0.0, self.ends - time.monotonic())
        return data_of(await_verdict(self.session, {"existed": True, **created}, left))

    def _bring(self, status: dict[str, Any], taken: Taken) -> None:
        """Bring the files, which are as they were submitted, to the round that the review has by now.

        Raises:
            InvalidInput: They are not, or git cannot.
        """
        asked = {"review_id": status["review_id"], "round": status["round"]}
        proposal = self.session.data("get_proposal", asked)
        index = {"GIT_INDEX_FILE": str(self.commits.folder / "round")}
        try:
            git.run(self.place, ["read-tree", proposal["base_commit"]], extra=index)
            git.run(
                self.place, ["apply", "--cached", "--whitespace=nowarn"], stdin=proposal["diff"].encode(), extra=index
            )
            tree = git.run(self.place, ["write-tree"], extra=index).text
            between = git.run(self.place, ["diff", "--binary", "--no-ext-diff", "--no-color", taken.tree, tree]).stdout
            where = ["--index"] if taken.is_staged else []
            git.run(self.place, ["apply", "--whitespace=nowarn", *where], stdin=between)
        except TandemError as error:
            raise InvalidInput(
                f"{status['review_id']} has a round that your files lack ({error.message}) Put your changes of them"
                f" away, with git stash, then bring the round: tandem apply {status['review_id']} --index",
                field="worktree",
            ) from error
        self.known.keep(digest=status["digest"])
        self.done.append("brought")
        say(f"Your files have round {status['round']} of {status['review_id']} now.")

    def tell(self, status: dict[str, Any], made: str | None = None) -> int:
        """Say where the review stands, of a commit if it is made, and the command to go on with."""
        ended = verdict_status(status)
        if status["status"] == "closed":
            # Told once: the next run submits it again, as what follows that one.
            self.known.keep(review_id=None, follows=status["review_id"])
        steps = next_steps.commands(status)
        if self.options.as_json:
            show_outcome(self.done, status["review_id"], made, ended, steps, status["status"])
        else:
            show(render("ReviewStatus", record(status)))
        if ended is Exit.WAITING and status["next_action"] == "wait":
            say_go_on(self.again)
        return ended
