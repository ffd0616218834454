"""The reviewer pool: its records, and the decisions about it. Pure, so that every case can be tried.

A pool belongs to one supervisor. The database says which reviewers there should be; the supervisor makes it so.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import orjson

from tandem.core.clock import MICROSECONDS
from tandem.present.words import duration

if TYPE_CHECKING:
    # Its models are half of what a reviewer's process would import, and it needs none.
    from tandem.pool.contract import PoolRules

Wanted = Literal["run", "drain", "kill"]
Doing = Literal["starts", "idle", "reviews", "waits_for_checks", "silent"]
PauseKind = Literal["manual", "quiet_hours", "budget_per_review", "budget_per_day", "quota"]

LIVE_SECONDS = 150
"""A supervisor that was not heard of for so long is taken to be gone; it calls at least every 50 s."""

AT_ONCE_SECONDS = 15
"""A reviewer that lives for so long has not ended at once."""

CIRCUIT_FAILURES = 4
"""So many quick exits in a row open the circuit."""

LOGINS: Final = {
    "codex": "codex login",
    "claude": "claude setup-token",
    "gemini": "gemini",
    "opencode": "opencode auth login",
}
"""How a person logs each program in."""

NOT_LOGGED_IN: Final = "The program is not logged in"
CANNOT_START: Final = "cannot be started ("
RATE_LIMITED: Final = 6
"""The exit status of a reviewer whose program's provider takes no more requests."""

RETRY_AFTER: Final = "Rate limited; retry after "
END_OF_LOG: Final = "The end of its log: "
"""Words of why a run or a reviewer ended, by which those who wait for a verdict are told the remedy."""

_OF_REVIEWER: Final = re.compile(r"-r\d+-")
"""Stands in the id of each reviewer of a pool."""

_ID_DIGITS = 24
"""Of the hash of a supervisor's secret: more than anybody finds another secret for."""

_CIRCUIT_SECONDS = 300
_LONGEST_CIRCUIT_SECONDS = 3600
_LONGEST_DELAY_SECONDS = 600


class ReviewerState(StrEnum):
    """Where a reviewer is in its life."""

    ACTIVE = "active"
    """It should run; `pid` is None until its process does."""
    DRAINING = "draining"
    """It finishes the review that it holds, takes nothing new, and ends."""
    TERMINATED = "terminated"
    """It has ended; `end_reason` and `exit_code` say how."""


class DrainReason(StrEnum):
    """Why a reviewer is drained."""

    TTL = "ttl"
    """It is older than `max_ttl_seconds`."""
    IDLE = "idle"
    """It holds nothing, has ended no run for `idle_timeout_seconds` (or none since its start), and the pool has more
    than `min_pool_size`.
    """
    MANUAL = "manual"
    """A person asked for it: `kill_reviewer`."""
    SHUTDOWN = "shutdown"
    """Its supervisor stops."""
    STUCK = "stuck"
    """It let its lease run out, so it does not even renew any more: it is ended at once."""
    PAUSED = "paused"
    """The pool is paused."""


_ASKED: Final = {
    DrainReason.TTL: "its time was up",
    DrainReason.IDLE: "nothing to do",
    DrainReason.MANUAL: "ended by a person",
    DrainReason.SHUTDOWN: "its supervisor stopped",
    DrainReason.STUCK: "it hung",
    DrainReason.PAUSED: "the pool was paused",
}
_CAUSES: Final = {
    "rate limited (429)": re.compile(r"\b429\b|rate.?limit|too many requests|(?:usage|session) limit", re.IGNORECASE),
    "not logged in": re.compile(NOT_LOGGED_IN, re.IGNORECASE),
    "the program cannot be started": re.compile(re.escape(CANNOT_START)),
}
"""By signs in the words of reviewers that ended unasked."""

_MESSAGE: Final = re.compile(r'"message"\s*:\s*"((?:[^"\\]|\\.)*)"')
_WERE: Final = ("rate limited (429)", "not logged in")

_LONGEST_CAUSE = 100
_LONGEST_LAST = 300


class Pool(NamedTuple):
    """The pool of one supervisor. Field order is the column order of its table.

    Times are microseconds since the epoch, UTC. `projects` is a JSON list, None for all that are registered;
    `rules` the JSON of `PoolRules`. `profiles_out` has the profiles that start nothing, as `profiles.outs` reads it.
    `paused` says why nothing is started, in words;
    `paused_until` when a pause for the provider's quota ends by itself. `circuit_opened` counts how often
    in a row the circuit was opened; `forgiven` is the number of the reviewer up to which quick exits are forgotten.
    """

    id: str
    incarnation: str
    host: str
    provider: str
    mode: str
    model: str | None
    projects: str | None
    rules: str
    registered_at: int
    ended_at: int | None = None
    paused: str | None = None
    paused_kind: str | None = None
    paused_by: str | None = None
    paused_at: int | None = None
    circuit_until: int | None = None
    circuit_opened: int = 0
    forgiven: int = 0
    last_seen_at: int = 0
    event_seq: int = 0
    event_hash: str = ""
    paused_until: int | None = None
    profiles_out: str | None = None

    @property
    def project(self) -> None:
        """None: it serves several."""

    @property
    def subject(self) -> str:
        """What its events are about."""
        return f"pool:{self.id}"

    @property
    def state(self) -> str:
        """What the log says of it; a pool that is lost, or whose circuit is open, is running all the same."""
        return "ended" if self.ended_at is not None else "paused" if self.paused is not None else "running"

    def is_live(self, now_us: int) -> bool:
        """Whether its supervisor is there to do anything."""
        return self.ended_at is None and now_us - self.last_seen_at < LIVE_SECONDS * MICROSECONDS

    def serves(self, project: str) -> bool:
        """Whether it is for a project, if that is registered."""
        return self.projects is None or project in orjson.loads(self.projects)


class Reviewer(NamedTuple):
    """One reviewer of a pool. Field order is the column order of its table.

    Times and durations are microseconds. `pid` and `started_us` are None until its process runs. `quick` says that it
    ended at once, or because its program fails at once. `outcomes` is the JSON of how many runs ended how;
    `activity` that of `ReviewerActivity`, of which only silence is in the log.
    """

    id: str
    number: int
    pool_id: str
    incarnation: str
    project: str
    provider: str
    mode: str
    model: str | None
    host: str
    requested_by: str
    state: str = ReviewerState.ACTIVE.value
    pid: int | None = None
    started_us: int | None = None
    spawned_at: int = 0
    last_active_at: int = 0
    drain_reason: str | None = None
    drained_at: int | None = None
    kill: int = 0
    ended_at: int | None = None
    exit_code: int | None = None
    end_reason: str | None = None
    quick: int = 0
    reviews_completed: int = 0
    approvals: int = 0
    rejections: int = 0
    review_us: int = 0
    outcomes: str = "{}"
    tokens_in: int = 0
    tokens_out: int = 0
    cost_microusd: int = 0
    event_seq: int = 0
    event_hash: str = ""
    activity: str | None = None
    profile: str | None = None

    @property
    def subject(self) -> str:
        """What its events are about."""
        return f"reviewer:{self.id}"

    def said(self) -> dict[str, Any]:
        """What its supervisor last said that it does."""
        return orjson.loads(self.activity) if self.activity else {}

    def doing(self, claimed_at: int | None) -> tuple[Doing | None, int | None]:
        """Its activity, and since when. An agent that holds no review may be silent while it waits.

        Args:
            claimed_at: When it claimed the review that it holds; None if it holds none.
        """
        if self.ended_at is not None:
            return None, None
        if self.pid is None:
            return "starts", self.spawned_at
        if claimed_at is None:
            return "idle", self.last_active_at
        if (silent := self.said().get("silent_us")) is not None:
            return "silent", silent
        return "waits_for_checks" if self.said().get("checks") else "reviews", claimed_at

    @property
    def end_cause(self) -> str | None:
        """Why it ended in a few words, the same for all that ended so; None if it has not."""
        if self.ended_at is None:
            return None
        said = self.end_reason or ""
        if self.drain_reason is None or self.quick:
            why = failure_cause(said)
            return "done" if self.exit_code == 0 and why not in _CAUSES else why or "lost"
        return _ASKED[DrainReason(self.drain_reason)]

    @property
    def name(self) -> str:
        """What people call it: the id without its incarnation."""
        return f"{self.profile or self.provider}-r{self.number}"

    def wanted(self, now_us: int, deadline_seconds: float, *, holds: bool) -> Wanted:
        """What its supervisor should do.

        A drain that takes longer than any review may becomes a kill. So does that of an agent that holds no
        review: it runs the loop itself, and would only look for the next one.
        """
        if self.state == ReviewerState.ACTIVE:
            return "run"
        overdue = self.drained_at is not None and now_us - self.drained_at > _us(deadline_seconds)
        done = self.mode == "agent" and not holds
        return "kill" if self.kill or overdue or done else "drain"

    def failed_at_once(self, now_us: int) -> bool:
        """Whether an agent that ends now, unasked, has not even begun: its program would do so again and again."""
        at_once = now_us - self.spawned_at < _us(AT_ONCE_SECONDS)
        return self.mode == "agent" and self.drain_reason is None and self.outcomes == "{}" and at_once


def next_try(at_us: int | None, now_us: int) -> str:
    """When something is tried next, in words: whole minutes, or seconds where it is less than one."""
    left = -(-((at_us or now_us) - now_us) // MICROSECONDS)
    if left <= 0:
        return "Next try now"
    return f"Next try in {duration(left if left < 60 else -(-left // 60) * 60)}"  # noqa: PLR2004 - of a minute


def supervisor_id(secret: str) -> str:
    """The id that goes with a supervisor's secret: the caller that shows the secret is the supervisor."""
    return f"sv_{hashlib.sha256(secret.encode()).hexdigest()[:_ID_DIGITS]}"


def reviewer_id(kind: str, number: int, incarnation: str) -> str:
    """`codex-r1-k3f9q2`; the kind is the profile, or the client of a pool without any.

    Numbers begin at 1 with each incarnation of the supervisor, whose letters tell them apart.
    """
    return f"{kind}-r{number}-{incarnation}"


def may_be_reviewer(name: str) -> bool:
    """Whether a name has the form of a reviewer's id."""
    return _OF_REVIEWER.search(name) is not None


@dataclass(frozen=True, slots=True)
class ProjectQueue:
    """What one project asks of a profile of a pool.

    Attributes:
        project: The project.
        pending: Reviews that no one holds, and that its reviewers could claim now.
        active: Reviewers that should run and could claim one of these, of all pools that are live; all of the project
            while none is pending.
        own: The pool's own that should run.
        profile: The profile's name; empty for a pool that has none.
        seats: Missing approvals of reviews that others hold, which its reviewers could give: none of those can.
        idle: Reviewers that hold no review and could give one of these, of all pools that are live.
    """

    project: str
    pending: int = 0
    active: int = 0
    own: int = 0
    profile: str = ""
    seats: int = 0
    idle: int = 0

    def is_due(self, ratio: float) -> bool:
        """Whether a reviewer more is needed."""
        is_long = self.pending > 0 and (self.active == 0 or self.pending > ratio * self.active)
        return is_long or self.seats > self.idle


def next_start(demands: Iterable[ProjectQueue], rules: PoolRules, size: int) -> ProjectQueue | None:
    """What the pool's next reviewer is for; None if none is due.

    Args:
        demands: Of every project that the pool serves, profile by profile.
        rules: The pool's.
        size: How many of the pool's reviewers have not ended, draining ones included.
    """
    if size >= rules.max_pool_size:
        return None
    served = sorted(demands, key=lambda one: (one.active, -one.pending, one.project))
    due = next((one for one in served if one.is_due(rules.scaling_ratio)), None)
    if due is None and served and sum(one.own for one in served) < rules.min_pool_size:
        return served[0]
    return due


def drain_reason(reviewer: Reviewer, rules: PoolRules, *, busy: bool, spare: bool, now_us: int) -> DrainReason | None:
    """Why an active reviewer should end, if it should.

    Args:
        reviewer: The reviewer.
        rules: Its pool's.
        busy: Whether it holds a review, or its project has one for it.
        spare: Whether the pool has more reviewers than it always keeps.
        now_us: The time.
    """
    if now_us - reviewer.spawned_at > _us(rules.max_ttl_seconds):
        return DrainReason.TTL
    if not busy and spare and now_us - reviewer.last_active_at > _us(rules.idle_timeout_seconds):
        return DrainReason.IDLE
    return None


def start_at(newest: Reviewer | None, failures: int, rules: PoolRules) -> int:
    """When the next reviewer may be started: after the cooldown, which grows with quick exits in a row."""
    if newest is None:
        return 0
    seconds = min(rules.spawn_cooldown_seconds * 2**failures, _LONGEST_DELAY_SECONDS)
    # A long cooldown of the configuration is meant; only its growth is limited.
    return newest.spawned_at + _us(max(seconds, rules.spawn_cooldown_seconds))


def failures_in_a_row(newest_first: Sequence[Reviewer], forgiven: int) -> int:
    """How many of the newest reviewers ended at once, up to one that did not, or that had given a verdict before."""
    count = 0
    for reviewer in newest_first:
        if reviewer.number <= forgiven or not reviewer.quick or reviewer.reviews_completed:
            break
        count += 1
    return count


def plainly(said: str) -> str:
    """The words of a program without the JSON around them; all that it said if that has none."""
    found = _MESSAGE.search(said)
    return found[1] if found else said


def failure_cause(said: str) -> str:
    """Why a program failed in a few words, the same for all that failed so; empty if it did not say."""
    known = (cause for cause, sign in _CAUSES.items() if sign.search(said))
    why = plainly(said.partition(f" {END_OF_LOG}")[0].partition("\n")[0])
    # JSON without words differs from run to run.
    why = (why.partition('{"')[0].rstrip(" :") or why).rstrip(".")
    return next(known, why[:_LONGEST_CAUSE])


def readable(said: str) -> str:
    """A sentence with a program's JSON in it, with the words of that JSON instead; as it is if that has none."""
    start = said.find('{"')
    found = _MESSAGE.search(said, max(start, 0))
    if start < 0 or not found:
        return said
    try:
        _, end = json.JSONDecoder().raw_decode(said, start)
    except (ValueError, RecursionError):
        end = len(said)  # The end of a log is cut anywhere.
    return said[:start] + found[1] + said[end:].partition('{"')[0].rstrip()


def what_failed(newest_first: Sequence[Reviewer], forgiven: int) -> str:
    """How many reviewers in a row opened the circuit, and how the newest of them ended; without a full stop."""
    number = max(CIRCUIT_FAILURES, failures_in_a_row(newest_first, forgiven))
    return f"{number} reviewers in a row {_how_failed(newest_first[0] if newest_first else None)}"


def _how_failed(newest: Reviewer | None) -> str:
    cause = newest.end_cause if newest is not None else None
    if newest is None or cause is None or cause in _WERE:
        return f"were {cause}" if cause else "ended at once"
    last = plainly((newest.end_reason or "").partition(END_OF_LOG)[2].strip())
    return f"ended at once: {cause}" + (f" ({last[-_LONGEST_LAST:]})" if last else "")


def circuit_seconds(times_opened: int) -> int:
    """How long an open circuit keeps anything from being started, longer each time in a row."""
    return min(_CIRCUIT_SECONDS * 2 ** min(times_opened, 10), _LONGEST_CIRCUIT_SECONDS)


def limit(budget: float | None) -> float:
    """A budget as a number to compare with; infinite where there is none."""
    return float("inf") if budget is None else budget


def _us(seconds: float) -> int:
    return round(seconds * MICROSECONDS)
