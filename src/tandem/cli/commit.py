"""`tandem commit`: has a change reviewed and commits it; the same command until it is done."""

from __future__ import annotations

import re
import shlex
import time
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tandem.bridge.session import Unreachable
from tandem.cli import persons
from tandem.cli.committing import Commits, Taken, for_git, has_editor, show_outcome
from tandem.cli.connection_options import ConnectionOptions, TimeoutOption, need_worktree
from tandem.cli.declared import Argument, Misused
from tandem.cli.terminal import Exit, going_on, say, show_refusal
from tandem.errors import Forbidden, InvalidInput, InvalidTransition, NotFound, TandemError, error_from
from tandem.git.runner import interactively
from tandem.hooks import judging
from tandem.rulings import broker_errors, git, message, next_steps, pending, person, planning, state
from tandem.rulings.ask import GateClient
from tandem.rulings.open_reviews import OpenReview
from tandem.rulings.state import FOLLOWED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from tandem.bridge.session import Session
    from tandem.cli.commit_review import CommitReview
    from tandem.git.place import HookRepository
    from tandem.rulings.state import GateFile

VALUED = (
    *("-m", "-F", "-C", "-c", "-t", "--message", "--file", "--reuse-message", "--reedit-message", "--template"),
    *("--author", "--date", "--cleanup", "--fixup", "--squash", "--trailer", "--pathspec-from-file"),
)
"""The options of `git commit` whose value may be the next word."""
_INTERACTIVE = re.compile(r"--pat(ch?)?|--int[a-z]*|-[aeinoqsvz]*p[aeinoqsvz]*[mFCct]?")
_MESSAGE = re.compile(r" (?:--(?:message|file)[= ]|-([aeinopqsvz]*)[mF] ?)(?:'[^']*'|\"[^\"]*\"|[^ '\"])+")
"""An option of a command line that gives the message, with the flags in the same word."""
_NO_VERIFY = re.compile(r"--no-v|-[^-]*n")
_EDITS = re.compile(r"--edit$|-[ainopqsvz]*e")
_MAY_BE_EMPTY = "--allow-empty-m"
_AMENDS = "--am"
_TAKES_A_MESSAGE = re.compile(r"--re(u|ed).*|-[aeinoqsvz]*[cC].*")
"""An option by which git has the message from a commit."""
_SHORT = 12
_NOTHING_TO_COMMIT = 1
_FATAL = 128


def commit(
    arguments: Annotated[
        list[str] | None,
        Argument(metavar="[OPTIONS OF git commit]", help="Those of git commit, unchanged.", valued=VALUED),
    ] = None,
    *,
    timeout: TimeoutOption = None,
    options: ConnectionOptions,
) -> int:
    """Have your change reviewed, and commit exactly that once it is approved.

    It takes the options of git commit, runs your hooks, submits the result, waits, commits, and closes the review.
    Run it again until it is done: it revises the review if you changed something, and keeps the message that you gave
    once. Where the gate follows commits, it commits first, and waits for the verdict on that.
    """
    words = list(arguments or ())
    if any(map(_INTERACTIVE.fullmatch, words)):
        raise Misused("Choose the parts first, with git add --patch; then run tandem commit.", "--patch")
    place = need_worktree()
    gate = state.find_enabled(str(Path.cwd()))
    settings = planning.read(str(Path.cwd())) if gate is None else None
    if settings is not None and settings.found and planning.is_disabled(settings, gate):
        say(f"{planning.DISABLED_REASON} Committing as git does.")
        return interactively(["commit", *words], for_git())
    run = _Run(place, gate, words, options, person.wait_seconds() if timeout is None else timeout)
    try:
        with going_on(run.again):
            ended = run.end()
        return run.follow() if ended is None else ended
    finally:
        run.close()


class _Run:
    """One run of the command in a working tree.

    Attributes:
        again: The command that goes on.
    """

    def __init__(
        self,
        place: HookRepository,
        gate: GateFile | None,
        words: Sequence[str],
        options: ConnectionOptions,
        timeout_s: float | None,
    ) -> None:
        self._place, self._gate, self._words, self._options = place, gate, words, options
        self._ends = None if timeout_s is None else time.monotonic() + timeout_s
        self._branch = git.branch(place)
        session = (person.origin(place.top or place.git_dir) or {}).get("session")
        name = persons.caller(options.agent).name
        self._known = OpenReview(place.git_dir, "commit", self._branch, name, session)
        if not self._known.facts and options.agent is None and person.agent_mark() is None:
            # Begun before the person had said their name.
            unnamed = OpenReview(place.git_dir, "commit", self._branch, None, session)
            if unnamed.facts:
                self._known.keep(**unnamed.facts)
                unnamed.forget()
        self._is_followed = gate is not None and planning.enforcement(gate, self._branch) == FOLLOWED
        self._commits = Commits(place, quiet=options.as_json)
        # The message is kept, that of an amend apart from that of a commit.
        self._kept = "amends" if any(one.startswith(_AMENDS) for one in words) else "message"
        self._told: list[str] = []
        whole = shlex.join(["tandem", "commit", *words])
        self.again = _MESSAGE.sub(lambda found: f" -{found[1]}" if found[1] else "", whole)
        self._unsent: set[str] = set()
        self._is_unsent = False
        self._done: list[str] = []

    @cached_property
    def _session(self) -> Session:
        # Not before the gate's client has started a broker that does not run.
        return self._options.session()

    def close(self) -> None:
        """Close the connections."""
        if "_session" in vars(self):
            self._session.close()

    def end(self) -> int | None:
        """Take the next steps, up to the commit if it is approved; the exit status, or None for `follow`."""
        made, is_renewed = self._made_before(), False
        while True:
            edits = self._kept not in self._known.facts and has_editor()
            # Behind the editor only commit-msg keeps git from committing, and with --no-verify git skips that.
            edits = edits and not any(map(_NO_VERIFY.match, self._words))
            with self._commits.taking(self._words, edits=edits) as found:
                if isinstance(found, int):
                    return self._without_commit(found, made)
                taken = self._with_message(found, edited=edits)
                # A hook submits a followed commit: as a review, or as the next round of one.
                approved_by = [] if self._is_followed else self._approved_by(taken)
                self._keep_message(taken, approved_by)
                if approved_by is not None and taken.is_held and not self._told:
                    self._begin(taken, approved_by)
                    return self._made(taken, approved_by, self._commits.go_on())
            if approved_by is not None:
                return self._make(taken, approved_by)
            changes = git.between(self._place, git.head(self._place), taken.tree)
            if not changes:
                return self._make(taken, [])
            review = self._reviewer_side()
            digest = git.digest(changes)
            status = review.stands(taken, digest)
            if status is not None and self._known.is_overtaken():
                raise InvalidInput(
                    f"Another tandem commit of this working tree has gone on with {status['review_id']}: its content"
                    f" and its message count, and it makes the commit. If it runs no more: {self.again}",
                    field="worktree",
                )
            if status is not None and not review.is_approved(status):
                return review.tell(status)
            if status is not None and status["digest"] == digest:
                reviews = [status["review_id"]] if self._gate is None else self._approved_by(taken)
                if reviews is not None or is_renewed:
                    return self._make(taken, reviews or [])
                # Approved once, and it counts no longer: it needs another review.
                is_renewed = True
                self._known.keep(review_id=None, digest=None)

    def _without_commit(self, status: int, made: tuple[str, list[str]] | None) -> int | None:
        """The end of a run in which git had nothing to commit; None for `follow`."""
        is_over = status == _NOTHING_TO_COMMIT and not self._commits.is_refused
        if is_over and self._is_undecided():
            return None
        return self._told_commit(*made) if made and is_over else self._ended_by_git(status)

    def _with_message(self, taken: Taken, *, edited: bool) -> Taken:
        """The same with the message of this run, else that of an earlier one."""
        text = self._known.facts.get(self._kept) or ""
        is_amended = self._kept == "amends" and taken.source == ("commit", "HEAD")
        if taken.is_told and not (text and is_amended and not any(map(_TAKES_A_MESSAGE.fullmatch, self._words))):
            may_be_empty = taken.source[0] != "message" or any(one.startswith(_MAY_BE_EMPTY) for one in self._words)
            if not taken.message.strip() and not may_be_empty:
                raise Misused("The message is empty: say what the change is for.", "-m")
            if taken.source[0] != "message" or not any(map(_EDITS.match, self._words)):
                return taken
            # Git has added what only the editor shows.
            return taken._replace(message=self._commits.cleaned(taken.message, self._words))
        text = text or (self._commits.cleaned(taken.message, self._words) if edited else "")
        if not text.strip():
            raise Misused("Say what the change is for.", "-m")
        if edited and self._commits.is_prepared:
            self._known.keep(prepared=text)
        self._commits.message_file.write_bytes(text.encode("utf-8", "surrogateescape"))
        self._told = [f"--file={self._commits.message_file}"]
        return taken._replace(message=text)

    def _keep_message(self, taken: Taken, approved_by: Sequence[str] | None) -> None:
        """Keep the message for the next run, unless this commit leaves the review open that one is kept for."""
        mine = self._known.facts.get("review_id")
        if taken.source[0] in {"", "template", "message"} and (approved_by is None or mine in {None, *approved_by}):
            self._known.keep(**{self._kept: taken.message})

    def _approved_by(self, taken: Taken) -> list[str] | None:
        """The reviews by which the gate lets exactly this pass; None if it does not, or none is on."""
        if self._gate is None:
            return None
        with GateClient(self._gate, starts=True) as asker:
            asker.branch = planning.base_branch(self._gate, self._branch)
            try:
                arguments = [str(self._commits.message_file), *taken.source]
                ruling = judging.judge(self._gate, asker, taken.tree, arguments)
            except broker_errors.Unreachable as error:
                raise Unreachable(f"{error} Then: {self.again}") from error
            except broker_errors.Refused as error:
                raise error_from({"code": error.code, "message": str(error), "details": error.details}) from error
        return list(ruling.review_ids) if ruling.passes else None

    @staticmethod
    def _rest() -> ModuleType:
        # Where the approval is there, which is when somebody waits, none of it is needed.
        from tandem.cli import commit_review

        return commit_review

    def _waiting(self) -> set[str]:
        """What of a followed commit the broker could not be told."""
        return set(pending.waiting(self._place)) if self._is_followed else set()

    def _reviewer_side(self) -> CommitReview:
        session, known, commits = self._session, self._known, self._commits
        return self._rest().CommitReview(
            session, self._place, self._gate, self._options, known, commits, self.again, self._ends, self._done
        )

    def _make(self, taken: Taken, reviews: list[str]) -> int | None:
        """Commit exactly this tree, and close its reviews; None for `follow`."""
        self._begin(taken, reviews)
        is_prepared = taken.message == self._known.facts.get("prepared")
        made = self._commits.make([*self._told, *self._words], taken.tree, is_prepared=is_prepared)
        return self._made(taken, reviews, made)

    def _begin(self, taken: Taken, reviews: list[str]) -> None:
        """Keep what the commit will be, for a run after this one was killed."""
        self._unsent = self._waiting()
        self._known.keep(making=[taken.tree, git.head(self._place)], closes=reviews)

    def _made(self, taken: Taken, reviews: list[str], status: int) -> int | None:
        """Close the reviews of the commit that git has made, if it has; None for `follow`."""
        self._is_unsent = not self._unsent.issuperset(self._waiting())
        if status:
            return self._ended_by_git(status)
        found = git.head(self._place)
        if found is None or git.resolve(self._place, found, "tree") != taken.tree:
            raise InvalidInput(
                f"The commit {found} differs from the approved content: a hook of this repository changed it. Look at"
                " it with git show; take it back with: git reset --soft HEAD~1",
                field="tree",
            )
        self._done.append("committed")
        self._close(found, is_approved=True)
        return None if self._is_followed else self._told_commit(found, reviews)

    def follow(self) -> int:
        """Wait for the verdict on the commit that was made, and close its reviews; the exit status."""
        made, reviews = self._followed()
        if (self._is_unsent or not reviews) and self._needs_review(made):
            return self._told_unsent(made)
        for review_id in reviews:
            self.again = next_steps.wait(review_id)
            review = self._reviewer_side()
            with going_on(self.again):
                status = review.waited(self._session.data("get_review_status", {"review_id": review_id}))
            if not review.is_approved(status):
                return review.tell(status, made)
        self._known.keep(closes=reviews)
        self._close(made, is_approved=True)
        return self._told_commit(made, reviews)

    def _followed(self) -> tuple[str, list[str]]:
        """The commit at HEAD, and the reviews that it names."""
        made = git.head(self._place)
        return made or "", message.reviews(git.read_commit(self._place, made)[1]) if made else []

    def _is_undecided(self) -> bool:
        """Whether the commit at HEAD is followed, and a review of it not closed."""
        for review_id in self._followed()[1] if self._is_followed else ():
            # A message may name any.
            with suppress(NotFound):
                if self._session.data("get_review_status", {"review_id": review_id})["status"] != "closed":
                    return True
        return False

    def _needs_review(self, made: str) -> bool:
        """Whether a commit that was submitted as no review changes something, and passes by nothing else."""
        parents, text = git.read_commit(self._place, made)
        passes = len(parents) > 1 or message.values(text, message.SIGNED) or message.values(text, message.OVERRIDE)
        before = parents[0] if parents else git.empty_tree(self._place)
        return bool((self._is_unsent or not passes) and git.between(self._place, before, made))

    def _made_before(self) -> tuple[str, list[str]] | None:
        """The commit that an earlier run, or git alone, has made, with its reviews, which are closed; else None."""
        tree, before = self._known.facts.get("making") or (None, None)
        if tree is None:
            return None
        listed = git.run(
            self._place, ["log", "--format=%T %H", "-100", *([f"{before}..HEAD"] if before else [])], accept=(0, 128)
        )
        made = dict(line.split(" ") for line in listed.text.splitlines())
        return (made[tree], self._close(made[tree])) if tree in made else None

    def _close(self, commit: str | None, *, is_approved: bool = False) -> list[str]:
        """Close the reviews of the commit that was made, and forget them; one that is undecided goes on."""
        closed: list[str] = []
        facts = self._known.facts
        closes: list[str] = facts.get("closes") or []
        try:
            for review_id in closes:
                with suppress(NotFound, InvalidTransition, Forbidden):
                    asked = {"review_id": review_id}
                    if is_approved or self._session.data("get_review_status", asked)["status"] == "approved":
                        on = f" on {self._branch}" if self._branch else ""
                        closing = {"reason": f"Committed as {commit[:10]}{on}."} if commit else {}
                        self._session.data("close_review", asked | closing)
                        closed.append(review_id)
        except TandemError as error:
            say(f"It is committed, and its review is still open, as the broker says: {error.message}")
        else:
            if facts.get("review_id") in {None, *closes}:
                self._known.forget()
            else:
                # It is another change's, which goes on.
                self._known.keep(making=None, closes=None)
            self._done += ["closed"] if closed else []
        return closed

    def _told_commit(self, made: str | None, reviews: Sequence[str]) -> int:
        if self._options.as_json:
            show_outcome(self._done, next(iter(reviews), None), made, Exit.DONE, [], "committed")
        else:
            said = f", approved by {', '.join(reviews)}" if reviews else ""
            say(f"committed {(made or '')[:_SHORT]}{said}")
        return Exit.DONE

    def _told_unsent(self, made: str) -> int:
        why, ended = "the broker took no review of it", Exit.REFUSED
        if self._is_unsent:
            why, ended = "no broker answered", Exit.UNREACHABLE
        step = f"Have the branch reviewed: {next_steps.SUBMIT_BRANCH}"
        if self._options.as_json:
            show_outcome(self._done, None, made, ended, [step], "committed")
        else:
            say(f"committed {made[:_SHORT]}, and not submitted for review, as {why}. {step}")
        return ended

    def _ended_by_git(self, status: int) -> int:
        if status == _FATAL:
            self._rest().refuse_unknown_identity(status)
        if self._options.as_json and not status:
            show_outcome(self._done, None, None, Exit.DONE, [], "nothing")
        elif self._options.as_json:
            why = f"git commit ended with {status}; standard error says why."
            show_refusal(InvalidInput(why, exit_status=status), as_json=True)
        return status
