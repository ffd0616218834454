"""`tandem land`: brings a branch to its base branch, approved, and checked as the merge that it becomes."""

from __future__ import annotations

import shlex
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

from tandem.bridge.session import Session, data_of, has_changed
from tandem.cli.audit import asking
from tandem.cli.base_branch import BaseBranch, Candidate, Strategy
from tandem.cli.calls import needs_no_wait, present, say_go_on, verdict_status
from tandem.cli.connection_options import ConnectionOptions, TimeoutOption
from tandem.cli.declared import Argument, Option, without
from tandem.cli.submit import CheckRemarks, await_verdict, send_range
from tandem.cli.terminal import Exit, going_on, progress, say, tell
from tandem.errors import InvalidInput, InvalidTransition, NotFound, TandemError, Unavailable
from tandem.git.reviewed_tree import DoesNotMerge
from tandem.rulings import git, message, state
from tandem.rulings.open_reviews import OpenReview
from tandem.rulings.person import agent_name, wait_seconds
from tandem.rulings.ranges import Judgement, RangeChecker
from tandem.settings.config import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from tandem.rulings.state import GateFile

_BEAT_SECONDS = 4.0
"""How often a landing says that it is alive: often enough within its lease."""
_LOOK_SECONDS = 5.0
_SHORT = 10
_MAY_PASS = frozenset({"queued", "running", "passed"})
_STATES = {Exit.DONE: "landed", Exit.WAITING: "waiting"}
_PENDING = frozenset({"pending", "claimed", "in_review"})
_UNDECIDED = _PENDING | {"changes_requested"}
_NOT_LANDED: dict[str, Any] = {"commit": None, "review_ids": [], "paths": [], "review": None}


@without("new", "project")
def land(
    branch: Annotated[
        str | None, Argument(metavar="BRANCH", help="The branch that lands; default: the one that is checked out.")
    ] = None,
    *,
    onto: Annotated[str | None, Option(metavar="BRANCH", help="The base branch; default: the gate's first.")] = None,
    strategy: Annotated[
        Strategy | None, Option(help="A merge commit, one commit, or a fast-forward; default: landing_strategy.")
    ] = None,
    remote: Annotated[
        str | None, Option(metavar="NAME", help="Move this remote's branch; default: the setting landing_remote.")
    ] = None,
    intent: Annotated[
        str | None,
        Option("--intent", "-m", metavar="TEXT", help="Its purpose; default: its review's, else its newest commit's."),
    ] = None,
    timeout: TimeoutOption = None,
    options: ConnectionOptions,
) -> Exit:
    """Bring a branch to its base branch: have it approved as one change, wait in the line, check the merge, move it.

    Run again in any state, it goes on from there.
    """
    gate = _gate()
    base = onto or gate.branches[0]
    source, head = _named(gate, base, branch)
    settings = load_settings(project_root=Path(gate.place.settings_root)).settings
    limit_s = wait_seconds() if timeout is None else timeout
    with options.session(gate) as session:
        job = _Job(
            session=session,
            gate=gate,
            base=BaseBranch(gate.place, base, remote or settings.landing_remote, source),
            source=source,
            head=head,
            strategy=strategy or settings.landing_strategy,
            intent=intent,
            again=shlex.join(["tandem", *sys.argv[1:], *([] if branch else [source])]),
            deadline=None if limit_s is None else time.monotonic() + limit_s,
            options=options,
        )
        try:
            with going_on(job.again):
                ended = job.run()
        except DoesNotMerge as error:
            where = f"{source} does not merge with {base}: {error.where}. Nothing moved."
            ended = job.failed(f"{where} Take it in: {job.base.taken_in('merge')}", paths=error.paths)
        except _MustWait:
            say_go_on(job.again)
            ended = _Outcome(Exit.WAITING, f"Not landed yet: {source}")
        except TandemError as error:
            error.message += f"\nThen again: {job.again}"
            raise
        say(*dict.fromkeys(job.base.left))
    facts = {"branch": source, "onto": base, "state": _STATES.get(ended.exit, "failed"), **_NOT_LANDED}
    facts |= ended.facts or {}
    if options.as_json or ended.text:
        tell(facts, ended.text, as_json=options.as_json)
    return ended.exit


def _gate() -> GateFile:
    gate = state.find_enabled(str(Path.cwd()))
    if gate is None or not gate.branches:
        raise InvalidInput("No gate is on here that has a base branch to land on. Switch it on: tandem gate on")
    return gate


def _named(gate: GateFile, base: str, branch: str | None) -> tuple[str, str]:
    """The branch that lands, and its commit."""
    source = branch or git.branch(gate.place) or ""
    head = git.resolve(gate.place, git.HEADS + source)
    if base not in gate.branches:
        raise InvalidInput(f"The gate has no base branch {base}, but: {', '.join(gate.branches)}.", field="onto")
    if head is None or source == base:
        unknown = f"'{branch}' is no branch here. " if branch and head is None else ""
        raise InvalidInput(f"{unknown}Name the branch that lands on {base}: tandem land BRANCH", field="branch")
    return source, head


class _MustWait(Exception):
    """The time is up; run again, the command goes on."""


class _Outcome(NamedTuple):
    """How it ended.

    Attributes:
        exit: The exit status.
        text: That for people; empty if they have it already.
        facts: Further facts, for programs.
    """

    exit: Exit
    text: str
    facts: dict[str, Any] | None = None


@dataclass
class _Job:
    """One landing.

    Attributes:
        again: The command that goes on; it names the branch, as another may be checked out by then.
        whole: The review of the branch as one change, once it had to be one.
        approved: The tree that it was approved for.
        must_be_whole: Whether it has to be one, as no check ran on exactly what lands.
        doing: Shows the current task.
    """

    session: Session
    gate: GateFile
    base: BaseBranch
    source: str
    head: str
    strategy: Strategy
    intent: str | None
    again: str
    deadline: float | None
    options: ConnectionOptions
    whole: str | None = None
    approved: str | None = None
    must_be_whole: bool = False
    doing: Callable[[str], None] = say

    @cached_property
    def known(self) -> OpenReview:
        """The review of the branch as one change that was submitted last, of whichever command."""
        return OpenReview(self.gate.place.common_dir, "branch", self.source)

    @property
    def line(self) -> dict[str, Any]:
        """The line that it waits in."""
        return {"project": self.gate.project, "branch": self.base.name}

    def run(self) -> _Outcome:
        """Land it, or say whose turn it is."""
        if (commit := self._landed_before()) is not None:
            return _Outcome(Exit.DONE, f"Landed already, as {self._there(commit)}.", {"commit": commit})
        while True:
            found = self._merged()
            if found is None:
                return self._there_already()
            if self.must_be_whole or _unapproved(self._judged(found)):
                if ended := self._reviewed(found):
                    return ended
                continue
            with _Place(self) as place, progress(f"waiting in the line of {self.base.name}") as self.doing:
                place.wait()
                if ended := self._landed(place):
                    return ended

    def failed(self, text: str, exit_status: Exit = Exit.CHANGES_REQUESTED, **facts: object) -> _Outcome:
        """That it is the proposer's turn."""
        return _Outcome(exit_status, f"{text}\nThen, once it is committed: {self.again}", facts)

    def left_s(self) -> float | None:
        """How long it may go on, in seconds; None for as long as it takes."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def wait(self, operation: str, arguments: dict[str, Any]) -> None:
        """Wait a little for news.

        Raises:
            _MustWait: The time is up.
        """
        left_s = self.left_s()
        if left_s == 0:
            raise _MustWait
        limit_s = _LOOK_SECONDS if left_s is None else min(_LOOK_SECONDS, left_s)
        self.session.wait_until(operation, arguments, ready=has_changed, timeout_s=limit_s)

    def _there(self, commit: str) -> str:
        return f"{commit[:_SHORT]} on {self.base.name}"

    def _there_already(self) -> _Outcome:
        return _Outcome(Exit.DONE, f"{self.base.name} has all of {self.source} already.")

    def _landed_before(self) -> str | None:
        """Where the base branch went when the branch landed as it is now; finishes what a cut-off landing left."""
        self.base.tip()
        asked = {**self.line, "source": self.source, "limit": 1}
        known = next(iter(self.session.data("list_landings", asked)["landings"]), None)
        if known is None or known["commit"] is None or known["head"] != self.head or not self._finished(known):
            return None
        if known["state"] != "landed":
            self._close(known["review_ids"], known["tip"], known["commit"])
        if known["state"] != "landed" and not self.base.left:
            named = {name: known[name] for name in ("landing_id", "generation", "source", "head")}
            self.session.data("report_landing", {**self.line, **named, "state": "landed"})
        return known["commit"]

    def _finished(self, known: dict[str, Any]) -> bool:
        """Whether a landing moved the base branch; if it was cut off then, its files follow."""
        if known["state"] == "landed":
            return self.base.has(known["commit"])
        since = datetime.fromisoformat(known["changed_at"]).timestamp()
        return self.base.finish(known["tip"], known["commit"], since)

    def _merged(self) -> Candidate | None:
        """What the branch makes of the base branch as that is now; None if that has all of it."""
        tip = self.base.tip()
        found = self.base.merged(tip, self.head, self.strategy, self._title())
        return None if found.tree == git.resolve(self.gate.place, tip, "tree") else found

    def _title(self) -> str:
        return self.purpose if self.strategy == "squash" else f"Merge branch '{self.source}'"

    @cached_property
    def purpose(self) -> str:
        """What the branch is for: as told now, else as its review has it until that was closed as approved."""
        status = None if self.intent else self.known.status(self.session)
        stated: dict[str, Any] = self.known.facts["stated"] if status and status["outcome"] != "approved" else {}
        newest = git.run(self.gate.place, ["log", "-1", "--format=%s", self.head]).text
        return self.intent or stated.get("intent") or newest or self.source

    def _judged(self, found: Candidate, as_if: Callable[[Any], Any] = lambda said: said) -> Judgement:
        """What the gate's hook will find of it; `as_if` changes what the broker says of each difference."""
        place = self.gate.place
        gate = self.session.data("get_gate", {"project": self.gate.project, "here": self.gate.here()})
        on_tip = {"tips": git.mainline(place, found.tip, found.commit)} if gate["checks_on_tip"] else {}
        bases = git.Bases(self.gate, gate["accepted"])
        known, tips = bases.never_judged, tuple(bases.tips.values())
        ask = asking(self.session, {**self.line, **on_tip})
        with RangeChecker(place, lambda changes, signed: as_if(ask(changes, signed))) as judge:
            return judge.judge(found.commit, old=found.tip, without=known, tips=tips, earlier=bases.earlier)

    def _up(self, found: Candidate, states: frozenset[str]) -> list[str]:
        """The open reviews in some states that let it pass once they are approved; none where it needs another one.

        Another purpose than that of the branch's own needs one, too.
        """
        known: dict[str, bool] = {}

        def approved(decision: dict[str, Any]) -> dict[str, Any]:
            refused = [one for one in decision["paths"] if not one["allowed"]]
            # A round is named of a review of exactly this, and of one that a check keeps back.
            named = {one["review_id"] for one in refused if one["round"]}
            known.update({one: self._status(one)["status"] in states for one in named - known.keys()})
            if not all(one["round"] and known[one["review_id"]] for one in refused):
                return decision
            paths = [{**one, "allowed": True} for one in decision["paths"]]
            return {**decision, "allowed": True, "review_ids": [*decision["review_ids"], *named], "paths": paths}

        judgement = self._judged(found, approved)
        used = dict.fromkeys(one for row in judgement.commits for one in row.finding.review_ids if known.get(one))
        is_other = self.known.facts.get("stated", {}).get("intent") != self.purpose
        is_needed = _unapproved(judgement) or (is_other and self.known.facts.get("review_id") in used)
        return [] if is_needed else [*used]

    def _status(self, review_id: str) -> dict[str, Any]:
        return self.session.data("get_review_status", {"review_id": review_id})

    def _awaited(self, is_up: list[str]) -> dict[str, Any]:
        """The one of some reviews whose verdict comes first, or whose proposer's turn it is."""
        say(f"{self.source} is under review: {', '.join(is_up)}")
        with progress("still waiting for the verdict"):
            while not (ready := [one for one in map(self._status, is_up) if len(is_up) == 1 or needs_no_wait(one)]):
                self.wait("list_reviews", {"project": self.gate.project, "status": "open", "limit": 1})
        return {**ready[0], "existed": True}

    def _reviewed(self, found: Candidate) -> _Outcome | None:
        """Have it approved, as one change unless reviews of it are open; None once it is, or one of them."""
        if self.approved == found.tree:
            why = f"tandem audit {found.tip[:_SHORT]}..{found.commit[:_SHORT]}"
            raise InvalidTransition(f"It is approved as one change, and the gate does not let it pass. Why: {why}")
        self.known.keep(again=self.again)
        is_up = [] if self.must_be_whole else self._up(found, _PENDING) or self._up(found, _UNDECIDED)
        created = self._awaited(is_up) if is_up else self._submitted(found)
        envelope = await_verdict(self.session, created, self.left_s())
        status = data_of(envelope)
        exit_status = verdict_status(status)
        if exit_status is Exit.DONE:
            if not is_up:
                self.whole, self.approved, self.must_be_whole = created["review_id"], found.tree, False
            return None
        if status["next_action"] == "wait":
            raise _MustWait
        if not self.options.as_json:
            present(envelope, "get_review_status", as_json=False)
        if exit_status in {Exit.CHANGES_REQUESTED, Exit.WAITING}:
            say(f"Then: {self.again}")
        return _Outcome(exit_status, "", {"review": status})

    def _submitted(self, found: Candidate) -> Any:
        """The review of what lands as one change: the branch's own, if one is open."""
        stated = {"agent_type": agent_name() or "cli", **self.known.facts.get("stated", {}), "intent": self.purpose}
        self.known.keep(stated=stated)
        span = f"{found.tip}..{found.commit}" if self.strategy == "squash" else f"{found.tip}...{self.head}"
        created = data_of(send_range(self.session, self.options, self.known, span, stated))
        say(f"{created['review_id']}, round {created['round']}, has {self.source} as one change.")
        return created

    def _landed(self, place: _Place) -> _Outcome | None:
        """Land it now that it is first; None if it needs a review before."""
        for one in self.session.data("list_landings", self.line)["landings"]:
            # Another process was cut off: the files of a checkout are as before, or git's locks are left.
            if one["state"] == "failed" and one["commit"] and self.base.is_at(one["commit"], one["tip"]):
                self._finished(one)
        while True:
            place.report("checking")
            found = self._merged()
            if found is None:
                place.report("landed")
                return self._there_already()
            judgement = self._judged(found)
            reviews = list(dict.fromkeys(one for row in judgement.commits for one in row.finding.review_ids))
            if _unapproved(judgement):
                place.report("failed", reason=f"{self.base.name} has moved on: what lands needs another review.")
                return None
            passed = self._checked(found, [self.whole] if self.whole else reviews) if reviews else True
            if isinstance(passed, _Outcome):
                place.report("failed", reason=passed.text.partition("\n")[0])
                return passed
            if passed is False or (passed and not judgement.passes and not self._judged(found).passes):
                place.report("failed", reason="No check ran on exactly what lands: it needs a review as one change.")
                self.must_be_whole = True
                return None
            if passed and (commit := self._moved(place, found, reviews)) is not None:
                return _Outcome(
                    Exit.DONE, f"Landed as {self._there(commit)}.", {"commit": commit, "review_ids": reviews}
                )

    def _moved(self, place: _Place, found: Candidate, reviews: list[str]) -> str | None:
        """Move the base branch, with the files of its checkouts, and close the reviews; None if it has moved on."""
        final = self._final(found, reviews)
        # A move that never began is not ended by the next run.
        self.base.ensure_checkouts_free(final.tip, final.commit)
        place.report("landing", tip=final.tip, commit=final.commit, review_ids=reviews)
        self.doing(f"moving {self.base.name}")
        if not self.base.move(final):
            return None
        self._close(reviews, final.tip, final.commit)
        # Run again, it ends one that failed with its commit there.
        if self.base.left:
            place.report("failed", reason=self.base.left[0])
        else:
            place.report("landed")
        return final.commit

    def _final(self, found: Candidate, reviews: list[str]) -> Candidate:
        """The same with the reviews in its message, as the gate's hook has it."""
        if self.strategy == "ff":
            return found
        lines = [f"{message.REVIEW}: {review_id}" for review_id in reviews]
        if self.gate.sign and self.strategy == "squash":
            changes = git.between(self.gate.place, found.tip, found.commit)
            signed = self.session.data("check_gate", {**self.line, "changes": changes, "sign": True})["signed"]
            lines += [f"{message.SIGNED}: {signed}"] if signed else []
        title = "\n\n".join([self._title(), *(["\n".join(lines)] if lines else [])])
        return self.base.merged(found.tip, self.head, self.strategy, title, is_final=True)

    def _checked(self, found: Candidate, reviews: list[str]) -> bool | _Outcome | None:
        """Whether the required checks have passed on it; None where they have to run again, False for others."""
        self.doing(f"checking the merge with {self.base.name}")
        review_id = reviews[-1]
        listed = self.session.data("list_checks", {"review_id": review_id})
        here = {"branch": self.base.name, "tip": found.tip}
        required = [one for one in listed["checks"] if one["required"]]
        if not required or any(one["status"] not in _MAY_PASS or not here.items() <= one.items() for one in required):
            try:
                listed = self.session.data("run_checks", {"review_id": review_id, "branch": self.base.name})
            except NotFound as error:
                if error.details.get("allowed") != []:
                    raise
                return True
        # Checks that still run on an earlier base branch are asked for again only once they have ended.
        is_late = any(one["status"] == "running" and not here.items() <= one.items() for one in listed["checks"])
        remarks = CheckRemarks(self.session, review_id)
        while listed["outcome"] == "pending":
            remarks.follow()
            self.wait("list_checks", {"review_id": review_id, "cursor": listed["cursor"]})
            listed = self.session.data("list_checks", {"review_id": review_id})
        required = [one for one in listed["checks"] if one["required"]]
        on_it = [one for one in required if here.items() <= one.items()]
        if on_it != required and all(one["status"] in _MAY_PASS for one in on_it):
            if not is_late and self.base.tip() == found.tip:
                raise Unavailable(f"The broker has another {self.base.name} than this repository: fetch it there.")
            return None
        if listed["outcome"] == "failed":
            remarks.follow()
            remarks.conclude()
            turn = Exit.PERSON if any(one["needs_person"] for one in required) else Exit.CHANGES_REQUESTED
            said = f"A required check has not passed on the merge with {self.base.name}. Nothing moved."
            return self.failed(f"{said} Correct that in {self.source}.", turn)
        # Of several reviews, the last one's checks are chosen by its own files alone.
        is_chosen = len(reviews) > 1 and any(one["status"] == "skipped" for one in listed["checks"])
        return not is_chosen and all(one["tree"] == found.tree for one in required)

    def _close(self, review_ids: list[str], tip: str, commit: str) -> None:
        """Close the reviews that have landed, and what else is open of the branch; who may not leaves them open."""
        own, named = [*review_ids], list[str]()
        # Commits that it has got meanwhile have not landed.
        is_over = git.resolve(self.gate.place, git.HEADS + self.source) == self.head
        if is_over:
            own += filter(None, [self.known.facts.get("review_id")])
            named = [one for commit in git.commits(self.gate.place, self.head, [tip]) for one in commit.reviews]
        for review_id in dict.fromkeys([*own, *named]):
            closing = {"review_id": review_id, "reason": f"Landed as {self._there(commit)}."}
            with suppress(TandemError):
                # A message may name any, also another project's.
                if review_id in own or self._branch_of(review_id) == self.source:
                    self.session.data("close_review", closing)
        if is_over:
            self.known.forget()

    def _branch_of(self, review_id: str) -> str | None:
        asked: dict[str, Any] = {"review_id": review_id, "project": self.gate.project, "files": []}
        return self.session.data("get_proposal", asked)["metadata"].get("branch")


class _Place:
    """A place in the line of a base branch, held for as long as the process says that it is alive."""

    def __init__(self, job: _Job) -> None:
        self._job = job
        self._row: dict[str, Any] = {}
        self._turn = threading.Lock()
        self._over = threading.Event()
        self._beating = threading.Thread(target=self._beat, name="tandem-landing", daemon=True)

    def __enter__(self) -> Self:
        self.report("waiting")
        self._beating.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._over.set()
        self._beating.join()
        # Who runs the command again soon finds the place as it was.
        if self._row["place"] is not None and kind is not _MustWait:
            with suppress(TandemError):
                self.report("failed", reason=error.message if isinstance(error, TandemError) else "It was interrupted.")

    def report(self, state: str, **told: object) -> None:
        """Say how it goes on; the first word takes the place.

        Raises:
            StaleClaim: The place is another process's by now.
        """
        with self._turn:
            self._say(state, **told)

    def wait(self) -> None:
        """Wait until it is first.

        Raises:
            _MustWait: The time is up.
        """
        job, said = self._job, None
        while self._row["place"] != 1:
            listed = job.session.data("list_landings", job.line)
            first = listed["landings"][0]
            now = (self._row["place"], first["source"], first["state"])
            if now != said:
                since = datetime.fromisoformat(first["changed_at"]).astimezone().strftime("%H:%M:%S")
                say(f"Place {now[0]} in the line of {job.base.name}; first is {now[1]}: {now[2]} since {since}")
                job.doing(f"place {now[0]} in the line of {job.base.name}")
            said = now
            job.wait("list_landings", {**job.line, "cursor": listed["cursor"]})
            self.report("waiting")

    def _beat(self) -> None:
        while not self._over.wait(_BEAT_SECONDS):
            # Who has lost the place hears it with its next word.
            with suppress(TandemError), self._turn:
                if self._row["place"] is not None:
                    self._say(self._row["state"])

    def _say(self, state: str, **told: object) -> None:
        job = self._job
        mine = {name: self._row[name] for name in ("landing_id", "generation") if self._row}
        said = {**job.line, "source": job.source, "head": job.head, **mine, "state": state, **told}
        self._row = job.session.data("report_landing", said)


def _unapproved(judgement: Judgement) -> bool:
    """Whether something in it is not approved; what only a check keeps back may still pass."""
    return not judgement.passes and any(not one.passes and one.finding.code is None for one in judgement.commits)
