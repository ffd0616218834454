"""`tandem submit`: submits a change for review, and waits for the verdict if asked."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import make_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tandem.bridge.session import has_changed, is_decided, is_proposers_turn, lacks_reviewer
from tandem.cli import persons, sources
from tandem.cli.calls import (
    Inputs,
    awaits_checks,
    given,
    needs_no_wait,
    present,
    say_go_on,
    say_question,
    verdict_status,
)
from tandem.cli.connection_options import (
    ConnectionOptions,
    TimeoutOption,
    need_project,
    need_worktree,
)
from tandem.cli.declared import Argument, Misused, Option
from tandem.cli.render import checks, finding_line
from tandem.cli.render.parts import ago
from tandem.cli.sources import Source
from tandem.cli.terminal import Exit, progress, say
from tandem.errors import TandemError
from tandem.present.findings import together
from tandem.present.shape import record
from tandem.present.shapes import WORK
from tandem.rulings import git, liveness, next_steps, person, state
from tandem.rulings.open_reviews import OpenReview
from tandem.rulings.person import agent_mark, told, wait_seconds
from tandem.rulings.trust import CHECKS_FILE
from tandem.setup.fresh_machine import identity_problem, missing_program

if TYPE_CHECKING:
    from collections.abc import Callable

    from tandem.bridge.session import Session
    from tandem.reviews.answers import Proposal
    from tandem.reviews.check_contract import CheckView

_LOG_LINES, _LOG_WIDTH = 15, 500
"""The end of a failed check's log that is shown: lines, and the characters of each."""
_MOST_LOGS = 3
_MOST_REMARKS = 200
_SHORT = 12


if TYPE_CHECKING:
    WorkOptions = SimpleNamespace
else:
    # The command then has an option for each.
    WorkOptions = make_dataclass(
        "WorkOptions",
        [
            (name, Annotated[str | None, Option(f"--{name.replace('_', '-')}", metavar="NAME", help=words)], None)
            for name, _, words in WORK
        ],
        namespace={"__module__": __name__},
    )


def submit(  # noqa: PLR0913 an option each
    name: Annotated[
        str | None, Argument(metavar="[BRANCH]", help="With --branch: another one than that you are on.")
    ] = None,
    *,
    branch: Annotated[
        bool, Option(help="All commits of a branch, as one change; again: a new round of the same review.")
    ] = False,
    intent: Annotated[
        str | None, Option("--intent", "-m", metavar="TEXT", help="Its purpose; a revision keeps its review's.")
    ] = None,
    source: Source,
    description: Annotated[
        str | None, Option(metavar="TEXT", help="Details: text, @FILE or - for standard input.")
    ] = None,
    revise: Annotated[str | None, Option(metavar="REVIEW", help="A new round of it.", completes="review")] = None,
    parent: Annotated[str | None, Option(metavar="REVIEW", help="Follow a rejected one.", completes="review")] = None,
    category: Annotated[
        Literal["plan_review", "code_change", "verification", "handoff"] | None,
        Option(help="Default: plan_review for --text, else code_change."),
    ] = None,
    work: WorkOptions,
    agent_type: Annotated[
        str, Option(metavar="NAME", variable="TANDEM_AGENT", help="Which agent made the change.")
    ] = "cli",
    wait: Annotated[bool, Option(help="Wait for the verdict; the exit status says which.")] = False,
    timeout: TimeoutOption = None,
    options: ConnectionOptions,
) -> Exit:
    """Submit your change for review: by default all changes of the working tree, new files included.

    Submitted again unchanged, it is the review that is there.
    """
    if not (source.is_default if branch else name is None) or (branch and (revise or parent)):
        raise Misused("--branch stands alone, with the name of a branch or without.", "--branch")
    if source.text is not None and description is not None:
        raise Misused("With --text the file is the description.", "--description")
    if intent is None and revise is None and parent is None and not branch:
        raise Misused("Say what the change is for.", "-m")
    if revise is not None and parent is not None:
        raise Misused("A revision keeps its review; give one of them.", "--parent")
    details = Inputs().text("--description", description) if description is not None else None
    stated = given(intent=intent, description=details, category=category, agent_type=agent_type, **vars(work))

    def send(session: Session) -> bytes:
        if branch:
            return _send_branch(session, name, options, stated)
        request = _request(session, options=options, source=source, stated=stated, revise=revise, parent=parent)
        return session.call("create_review", request)

    return _submit(send, options, timeout_s=wait_seconds() if timeout is None else timeout, wait=wait)


def _submit(
    send: Callable[[Session], bytes], options: ConnectionOptions, *, wait: bool, timeout_s: float | None
) -> Exit:
    with options.session() as session:
        with suppress(TandemError):  # the hook tells the person who commits
            say_problem()
        _say_what_is_missing()
        with progress("submitting"):
            envelope = send(session)
        data = json.loads(envelope)
        if not (wait and data["ok"]):
            ended = present(envelope, "create_review", as_json=options.as_json)
            # A wait says so in a line, and is not held up by a question.
            if data["ok"] and not wait:
                _offer_page(data["data"], options)
            return ended
        if options.as_json:
            is_up = "is there already" if data["data"]["existed"] else "is up"
            say(f"{data['data']['review_id']} {is_up}, round {data['data']['round']}")
        else:
            # The next step is the wait, which goes on from here.
            waiting = json.dumps({**data, "data": {**data["data"], "next_action": "none"}}).encode()
            present(waiting, "create_review", as_json=False)
        status = await_verdict(session, data["data"], timeout_s)
    ended = present(status, "get_review_status", as_json=options.as_json, status=verdict_status)
    if ended is Exit.WAITING and json.loads(status)["data"]["next_action"] == "wait":
        say_go_on(next_steps.wait(data["data"]["review_id"]))
    return ended


def say_problem() -> None:
    """Say why git would not start the gate's hooks here; nothing if it would, or no gate is on.

    Raises:
        TandemError: Git cannot be asked.
        GateUnreadable: Whether a gate is on cannot be read.
    """
    gate = state.find_enabled(str(Path.cwd()))
    if gate is not None and (problem := liveness.problem(gate)) is not None:
        say(problem)


def _send_branch(session: Session, name: str | None, options: ConnectionOptions, stated: dict[str, Any]) -> bytes:
    """Submit a branch as one change, again in the same review; the envelope.

    Raises:
        InvalidInput: It is no branch, or a base branch, or there is no base branch to compare with.
        Misused: The first time, its purpose is missing.
    """
    place = need_worktree()
    base, branch = sources.base_and_branch(place, name)
    known = OpenReview(place.common_dir, "branch", branch)
    stated = {**known.facts.get("stated", {}), **stated}
    if "intent" not in stated:
        raise Misused("Say what the change is for.", "-m")
    known.keep(stated=stated, again=shlex.join(["tandem", "submit", "--branch", *([name] if name else []), "--wait"]))

    return send_range(session, options, known, f"{base}...{git.resolve(place, git.HEADS + branch)}", stated)


def send_range(
    session: Session, options: ConnectionOptions, known: OpenReview, span: str, stated: dict[str, Any]
) -> bytes:
    """Submit a range of commits as one change, again in the review that the record has; the envelope.

    Args:
        session: The broker.
        options: Say the project.
        known: The record.
        span: The range.
        stated: Fields of the request, the intent among them.
    """

    def ask(content: dict[str, Any]) -> dict[str, Any]:
        return _request(session, options=options, source=Source(range=content["range"]), stated=content["stated"])

    return known.submit(session, ask, {"range": span, "stated": stated})


def _say_what_is_missing() -> None:
    """Say what a fresh machine lacks for the commit that comes next, with the line that fixes it."""
    unknown = identity_problem(Path.cwd(), os.environ)
    if unknown is not None:
        say(f"{unknown[0]} So that it does: {unknown[1]}")
    if (missing := missing_program(os.environ)) is not None:
        say(missing)


def _offer_page(created: dict[str, Any], options: ConnectionOptions) -> None:
    """Offer the person at the terminal the page of a review that no reviewer takes by itself."""
    is_person = agent_mark() is None and sys.stdin.isatty() and sys.stdout.isatty()
    if not next_steps.alone(created) or options.as_json or not is_person:
        return
    answer = person.ask("A person has to review it. Open its page in your browser now? Type yes, or Enter for no: ")
    if answer is not None and answer.lower() in {"y", "yes"}:
        stated = ["--broker", options.broker] if options.broker else []
        # In a process of its own: its imports would slow each submission.
        subprocess.run([sys.executable, "-P", "-m", "tandem", "open", created["review_id"], *stated], check=False)


def _request(
    session: Session,
    *,
    options: ConnectionOptions,
    source: Source,
    stated: dict[str, Any],
    revise: str | None = None,
    parent: str | None = None,
) -> dict[str, Any]:
    """The request, completed from the review that is revised or followed; `stated` are the fields that were given."""
    known_id = revise or parent
    known = record(session.data("get_proposal", {"review_id": known_id})) if known_id else None
    project = known.project if known else need_project(session, options)
    request = {"agent_role": "proposer"} | (_inherited(known) if known else {}) | stated
    request |= _content(source, known)
    request = persons.marked(request)
    if parent:
        return {**request, "project": project, "parent_id": parent}
    return {**request, "reuse": True} | ({"review_id": revise} if revise else {"project": project})


def _inherited(known: Proposal) -> dict[str, Any]:
    """What a new round keeps of the one before, unless told otherwise."""
    kept: dict[str, Any] = {"intent": known.intent, "agent_role": known.agent_role}
    kept |= given(**{name: getattr(known, name) for name, *_ in WORK})
    if known.path is None and known.description is not None:
        kept["description"] = known.description
    return kept


def _content(source: Source, known: Proposal | None) -> dict[str, Any]:
    with sources.here() as repository:
        if known and known.path is not None and source in {Source(), Source(staged=True)}:
            return sources.text_content(repository, repository.root / known.path)
        content = sources.content(repository, source, say)
        one = source.commit
        # Names such as HEAD^ are of other commits later.
        revision = source.range or (one and f"{content['base'][:_SHORT]}..{one}")
        return {**content, "metadata": {next_steps.REVISION: revision}} if revision else content


def await_verdict(session: Session, created: dict[str, Any], timeout_s: float | None) -> bytes:
    """The status envelope once there is a verdict that counts, or the time is up.

    Args:
        session: The broker.
        created: The answer to `create_review`; or a status, with `existed`.
        timeout_s: Seconds; None for as long as it takes.
    """
    remarks, following = _Remarks(session), CheckRemarks(session, created["review_id"])
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    remarks.say_who_comes(created)
    # One that was there may have its verdict, and an agent waits in vain where no reviewer comes: the present
    # state counts, not only later changes.
    is_over = created["existed"] or (lacks_reviewer(created) and agent_mark() is not None)
    cursor = None if is_over else created["cursor"]
    arguments = {"review_id": created["review_id"], "cursor": cursor, "wake_on": "any"}
    with progress("still waiting for the verdict") as doing:
        following.follow()
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            envelope = session.wait_until("get_review_status", arguments, ready=has_changed, timeout_s=left)
            content = json.loads(envelope)
            if not content["ok"]:
                return envelope
            data = content["data"]
            remarks.follow(data)
            if data.get("checks") is not None:
                following.follow()
            if awaits_checks(data):
                doing("still waiting for the checks")
            if needs_no_wait(data) or not has_changed(data):
                break
            arguments["cursor"] = data["cursor"]
    if data["status"] in {"approved", "changes_requested"} or not is_decided(data):
        following.conclude()
    say_question(session, data)
    _say_remarks(session, data)
    return envelope


def _say_remarks(session: Session, data: dict[str, Any]) -> None:
    """Say on standard error the findings that are open, if it is the proposer's turn to change."""
    if data["next_action"] in {"revise", "revert"} and data["findings"]:
        asked = {"review_id": data["review_id"], "status": "open", "limit": _MOST_REMARKS}
        for group in together(record(session.data("list_findings", asked)).findings):
            say(*map(finding_line, group))


_STOP = "Stop here and tell the person you work for. It is theirs to decide; do not review it."
"""An agent must not take a person's place."""


class CheckRemarks:
    """Says on standard error what becomes of the checks while a verdict is waited for, and at the end what failed."""

    def __init__(self, session: Session, review_id: str) -> None:
        self._session = session
        self._review_id = review_id
        self._said: dict[tuple[int, str], str] = {}
        self._checks: tuple[CheckView, ...] = ()

    def follow(self) -> None:
        """Say which have begun or ended since."""
        with suppress(TandemError):  # the wait itself reports the problem
            self._checks = record(self._session.data("list_checks", {"review_id": self._review_id})).checks
        for check in self._checks:
            name = (check.round, check.name)
            # What does not run is told only if somebody can do something about it.
            is_news = check.status != "queued" and (check.status != "skipped" or check.name == CHECKS_FILE)
            if is_news and self._said.get(name) != check.status:
                say(checks.line(check))
            self._said[name] = check.status

    def conclude(self) -> None:
        """Say what the required ones that did not pass wrote last, and what to do."""
        failed = [check for check in self._checks if check.required and checks.failed(check)]
        for check in failed[:_MOST_LOGS]:
            say(f"The gate stays closed: {checks.line(check)}")
            if check.has_log:
                with suppress(TandemError):
                    asked = {"review_id": self._review_id, "name": check.name, "round": check.round}
                    last = self._session.data("get_check_log", asked)["log"].rstrip("\n").split("\n")[-_LOG_LINES:]
                    say("\n".join(["the end of its log:", *(line[-_LOG_WIDTH:] for line in last)]))
                say(f"all of it: {checks.log_command(check)}")


class _Remarks:
    """Says on standard error what happens while a verdict is waited for."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._said: tuple[str, str | None] = ("", None)
        self._why_none: dict[str, Any] | None = None

    def say_who_comes(self, data: dict[str, Any]) -> None:
        """Say why no reviewer comes, and what helps."""
        before, self._why_none = self._why_none, data["no_reviewer"]
        if self._why_none is None or self._why_none == before:
            return
        if next_steps.alone(data) and agent_mark() is not None:
            say(next_steps.without_reviewer(data["review_id"]))
            return
        if data.get("attention") is None:
            why = self._why_none["message"]
            say(f"No reviewer comes: {why}" if self._why_none["needs_person"] else why)
        waits = next_steps.wait(data["review_id"])
        say(told(self._why_none["remedy"].replace(f"tandem review status {data['review_id']} --wait", waits)))
        if self._why_none["needs_person"] and agent_mark() is not None:
            say(_STOP)

    def follow(self, data: dict[str, Any]) -> None:
        """Say the news: who reviews, or why there is no reviewer."""
        step = (data["status"], data["reviewer_id"])
        if data["attention"] is not None:
            say(f"A person has to look: {data['attention']}")
        self.say_who_comes(data)
        if step != self._said and not is_proposers_turn(data):
            say(f"{data['reviewer_id']} reviews it{self._since(data)}" if data["reviewer_id"] else "in the queue")
        self._said = step

    def _since(self, data: dict[str, Any]) -> str:
        """How long that has been so; empty where the broker does not say."""
        with suppress(TandemError):
            events = self._session.data("get_review_timeline", {"review_id": data["review_id"]})["events"]
            claims = [one["at"] for one in events if one["new"] == "claimed"]
            return f", claimed {ago(claims[-1])}" if claims else ""
        return ""
