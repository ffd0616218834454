"""`tandem commit`: has a change reviewed and commits it; the same command until it is done."""

from __future__ import annotations

import os
import re
import shlex
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tandem.bridge.session import Unreachable, data_of
from tandem.cli import persons, sources
from tandem.cli.calls import given, say_go_on, verdict_status
from tandem.cli.committing import Commits, Taken
from tandem.cli.connection_options import ConnectionOptions, TimeoutOption, need_project
from tandem.cli.declared import Argument, Misused
from tandem.cli.render import render
from tandem.cli.sources import Source
from tandem.cli.submit import await_verdict, say_problem
from tandem.cli.terminal import Exit, progress, say, show, show_data, show_envelope
from tandem.errors import Forbidden, InvalidInput, InvalidTransition, NotFound, TandemError, error_from
from tandem.git.raw import FIELDS, digest_of
from tandem.git.runner import interactively
from tandem.hooks import judging
from tandem.present.record import record
from tandem.rulings import broker_errors, git, message, next_steps, person, planning, state
from tandem.rulings.ask import GateClient
from tandem.rulings.open_reviews import OpenReview

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tandem.bridge.session import Session
    from tandem.git.place import HookRepository
    from tandem.rulings.state import GateFile

VALUED = (
    *("-m", "-F", "-C", "-c", "-t", "--message", "--file", "--reuse-message", "--reedit-message", "--template"),
    *("--author", "--date", "--cleanup", "--fixup", "--squash", "--trailer", "--pathspec-from-file"),
)
"""The options of `git commit` whose value may be the next word."""
_INTERACTIVE = frozenset({"-p", "--patch", "--interactive"})
_MESSAGE = re.compile(r" (?:--(?:message|file)[= ]|-([aeinopqsvz]*)[mF] ?)(?:'[^']*'|\"[^\"]*\"|[^ '\"])+")
"""An option of a command line that gives the message, with the flags in the same word."""
_SCISSORS = re.compile(r"^.? ?-+ >8 -+$.*", re.MULTILINE | re.DOTALL)
_LONGEST_INTENT = 500
_SHORT = 12
_NOTHING_TO_COMMIT = 1


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
    once.
    """
    words = list(arguments or ())
    if not _INTERACTIVE.isdisjoint(words):
        raise Misused("Choose the parts first, with git add --patch; then run tandem commit.", "--patch")
    place = sources.worktree()
    gate = state.find(place)
    gate = gate if gate is not None and gate.enabled else None
    settings = planning.read(str(Path.cwd())) if gate is None else None
    if settings is not None and settings.found and planning.is_disabled(settings, gate):
        say(f"{planning.DISABLED_REASON} Committing as git does.")
        return interactively(["commit", *words], os.environ)
    run = _Run(place, gate, words, options, person.wait_seconds() if timeout is None else timeout)
    try:
        return run.end()
    finally:
        run.close()


class _Run:
    """One run of the command in a working tree."""

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
        self._commits = Commits(place, quiet=options.as_json)
        # The message is kept.
        whole = shlex.join(["tandem", "commit", *words])
        self._again = _MESSAGE.sub(lambda found: f" -{found[1]}" if found[1] else "", whole)
        self._opened: Session | None = None
        self._done: list[str] = []

    @property
    def _session(self) -> Session:
        # Not before the gate's client has started a broker that does not run.
        if self._opened is None:
            self._opened = self._options.session()
        return self._opened

    def close(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            self._opened.close()

    def end(self) -> int:
        """Take the next steps, up to the commit if it is approved; the exit status."""
        made, is_renewed = self._made_before(), False
        while True:
            edits = "message" not in self._known.facts and os.isatty(0) and person.agent_mark() is None
            taken = self._commits.take(self._words, edits=edits)
            if isinstance(taken, int):
                is_over = made is not None and taken == _NOTHING_TO_COMMIT
                return self._told_commit(*made) if made and is_over else self._ended_by_git(taken)
            taken = self._with_message(taken, edited=edits)
            base = git.head(self._place) or git.empty_tree(self._place)
            changes = git.between(self._place, base, taken.tree)
            digest = digest_of(tuple(change[field] for field in FIELDS) for change in changes)
            approved_by = self._approved_by(taken) if changes else []
            if approved_by is not None:
                return self._make(taken, approved_by)
            status = self._reviewed(taken, digest)
            if status is not None and verdict_status(status) is not Exit.DONE:
                return self._tell(status)
            if status is not None and status["digest"] == digest:
                reviews = [status["review_id"]] if self._gate is None else self._approved_by(taken)
                if reviews is not None or is_renewed:
                    return self._make(taken, reviews or [])
                # Approved once, and it counts no longer: it needs another review.
                is_renewed = True
                self._known.keep(review_id=None, digest=None)

    def _with_message(self, taken: Taken, *, edited: bool) -> Taken:
        """The same with the message of this run, else that of an earlier one."""
        if taken.is_told:
            if taken.source[0] == "message":
                self._known.keep(message=taken.message)
            return taken
        text = self._known.facts.get("message") or (self._cleaned(taken.message) if edited else "")
        if not text.strip():
            raise Misused("Say what the change is for.", "-m")
        self._known.keep(message=text)
        self._commits.message_file.write_text(text, "utf-8", "surrogateescape")
        return taken._replace(message=text)

    def _cleaned(self, text: str) -> str:
        """What a person has written in the editor, without what git put there."""
        written = _SCISSORS.sub("", text).encode("utf-8", "surrogateescape")
        return git.run(self._place, ["stripspace", "--strip-comments"], stdin=written).stdout.decode("utf-8", "replace")

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
                raise Unreachable(f"{error} Then: {self._again}") from error
            except broker_errors.Refused as error:
                raise error_from({"code": error.code, "message": str(error), "details": error.details}) from error
        return list(ruling.review_ids) if ruling.passes else None

    def _reviewed(self, taken: Taken, digest: str) -> dict[str, Any] | None:
        """Where the review of this content stands once there is news; None if the files have changed for it."""
        self._known.keep(again=self._again)
        status = self._known.status(self._session)
        if status is not None and status["digest"] == digest:
            return self._waited({**status, "existed": True})
        is_as_submitted = self._known.facts.get("digest") == digest
        if status is not None and is_as_submitted and status["status"] not in {"rejected", "closed"}:
            self._bring(status, taken)
            return None
        with suppress(TandemError, state.GateUnreadable):
            say_problem()
        whole = taken.message if taken.source[0] == "message" else self._cleaned(taken.message)
        text = message.subject(whole)
        body = whole.partition(text)[2].strip().encode("utf-8", "replace").decode()
        stated = {"intent": text[:_LONGEST_INTENT], **message.belonging(text), **given(description=body or None)}
        with progress("submitting"):
            content = {"tree": taken.tree, "stated": stated}
            created = data_of(self._known.submit(self._session, self._request, content))
        self._known.keep(making=[taken.tree, git.head(self._place)], closes=[created["review_id"]])
        self._done.append("submitted")
        what = "is there already" if created["existed"] else "is up"
        say(f"{created['review_id']} {what}, round {created['round']}")
        return self._waited(created)

    def _request(self, content: dict[str, Any]) -> dict[str, Any]:
        with sources.here() as repository:
            found = sources.content(repository, Source(range=f"..{content['tree']}"), say)
        return persons.marked(
            {
                "project": need_project(self._session, self._options, self._gate),
                "agent_type": os.environ.get("TANDEM_AGENT") or person.agent_name() or "cli",
                "agent_role": "proposer",
                "category": "code_change",
                "reuse": True,
                **content["stated"],
                **found,
            }
        )

    def _waited(self, created: dict[str, Any]) -> dict[str, Any]:
        left = None if self._ends is None else max(0.0, self._ends - time.monotonic())
        return data_of(await_verdict(self._session, created, left))

    def _bring(self, status: dict[str, Any], taken: Taken) -> None:
        """Bring the files, which are as they were submitted, to the round that the review has by now.

        Raises:
            InvalidInput: They are not, or git cannot.
        """
        asked = {"review_id": status["review_id"], "round": status["round"]}
        proposal = self._session.data("get_proposal", asked)
        index = {"GIT_INDEX_FILE": str(self._commits.folder / "round")}
        try:
            git.run(self._place, ["read-tree", proposal["base_commit"]], extra=index)
            git.run(
                self._place, ["apply", "--cached", "--whitespace=nowarn"], stdin=proposal["diff"].encode(), extra=index
            )
            tree = git.run(self._place, ["write-tree"], extra=index).text
            between = git.run(self._place, ["diff", "--binary", "--no-ext-diff", "--no-color", taken.tree, tree]).stdout
            where = ["--index"] if taken.is_staged else []
            git.run(self._place, ["apply", "--whitespace=nowarn", *where], stdin=between)
        except TandemError as error:
            raise InvalidInput(
                f"{status['review_id']} has a round that your files lack ({error.message}) Put your changes of them"
                f" away, with git stash, then bring the round: tandem apply {status['review_id']} --index",
                field="worktree",
            ) from error
        self._known.keep(digest=status["digest"])
        self._done.append("brought")
        say(f"Your files have round {status['round']} of {status['review_id']} now.")

    def _tell(self, status: dict[str, Any]) -> int:
        """Say where the review stands, and the command to go on with."""
        ended = verdict_status(status)
        if status["status"] == "closed":
            # Told once: the next run submits it again, as what follows that one.
            self._known.keep(review_id=None, follows=status["review_id"])
        steps = next_steps.commands(status)
        if self._options.as_json:
            self._show(status["review_id"], None, ended, steps, status["status"])
        else:
            show(render("ReviewStatus", record(status)))
        if ended is Exit.WAITING and status["next_action"] == "wait":
            say_go_on(self._again)
        return ended

    def _make(self, taken: Taken, reviews: list[str]) -> int:
        """Commit exactly this tree, and close its reviews."""
        before = git.head(self._place)
        self._known.keep(making=[taken.tree, before], closes=reviews)
        told = [] if taken.is_told else [f"--file={self._commits.message_file}"]
        status = self._commits.make([*told, *self._words], taken.tree)
        if status:
            return self._ended_by_git(status)
        found = git.head(self._place)
        if git.resolve(self._place, "HEAD", "tree") != taken.tree:
            raise InvalidInput(
                f"The commit {found} differs from the approved content: a hook of this repository changed it. Look at"
                " it with git show; take it back with: git reset --soft HEAD~1",
                field="tree",
            )
        self._done.append("committed")
        self._close()
        return self._told_commit(found, reviews)

    def _made_before(self) -> tuple[str, list[str]] | None:
        """The commit that an earlier run, or git alone, has made, with its reviews, which are closed; else None."""
        tree, before = self._known.facts.get("making") or (None, None)
        if tree is None:
            return None
        listed = git.run(
            self._place, ["log", "--format=%T %H", "-100", *([f"{before}..HEAD"] if before else [])], accept=(0, 128)
        )
        made = dict(line.split(" ") for line in listed.text.splitlines())
        return (made[tree], self._close()) if tree in made else None

    def _close(self) -> list[str]:
        """Close the reviews of the commit that was made, and forget them; one that is undecided goes on."""
        closed: list[str] = []
        try:
            for review_id in self._known.facts.get("closes") or ():
                with suppress(NotFound, InvalidTransition, Forbidden):
                    if self._session.data("get_review_status", {"review_id": review_id})["status"] == "approved":
                        self._session.data("close_review", {"review_id": review_id})
                        closed.append(review_id)
        except TandemError as error:
            say(f"It is committed, and its review is still open, as the broker says: {error.message}")
        else:
            self._known.forget()
            self._done += ["closed"] if closed else []
        return closed

    def _told_commit(self, made: str | None, reviews: Sequence[str]) -> int:
        if self._options.as_json:
            self._show(next(iter(reviews), None), made, Exit.DONE, [], "committed")
        else:
            said = f", approved by {', '.join(reviews)}" if reviews else ""
            say(f"committed {(made or '')[:_SHORT]}{said}")
        return Exit.DONE

    def _ended_by_git(self, status: int) -> int:
        if self._options.as_json and not status:
            self._show(None, None, Exit.DONE, [], "nothing")
        elif self._options.as_json:
            error = {"code": InvalidInput.code, "message": f"git commit ended with {status}; standard error says why."}
            show_envelope({"ok": False, "error": {**error, "details": {"exit_status": status}, "retryable": False}})
        return status

    def _show(self, review: str | None, made: str | None, ended: Exit, steps: Sequence[str], state: str) -> None:
        facts = {"done": self._done, "review_id": review, "state": state, "commit": made, "next": [*steps]}
        show_data({**facts, "exit_status": int(ended)})
