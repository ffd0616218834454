"""Hand-off cycles whose workflows ask for approval: the brokers, the players, and the invariants."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg

from tandem.cycles.payloads import ARRAYS
from tests.acceptance.cycling import Crew
from tests.acceptance.reviewing import Desk

GATED = "frontend-backend"
DIRECT = "direct"
FORK = "fork"
CONFIG = """\
[workflows.frontend-backend]
mode = "approval"

[workflows.direct]
like = "frontend-backend"
mode = "direct"

[workflows.fork]
roles = ["writer", "editor", "printer"]
start = "draft"
mode = "approval"

[workflows.fork.phases.draft]
role = "writer"
handoff = { editor = "edit", printer = "print" }
complete = true

[workflows.fork.phases.edit]
role = "editor"
handoff = { writer = "draft" }

[workflows.fork.phases.print]
role = "printer"
handoff = { writer = "draft" }
"""
"""The built-in workflow with and without approval, and one with a phase that goes two ways and may complete too."""

PAIR = {
    "frontend": ("gemini", {"codex": "backend"}, False),
    "backend": ("codex", {"gemini": "frontend_refine"}, False),
    "frontend_refine": ("gemini", {"codex": "backend"}, True),
}
PHASES: dict[str, dict[str, tuple[str, dict[str, str], bool]]] = {
    GATED: PAIR,
    DIRECT: PAIR,
    FORK: {
        "draft": ("writer", {"editor": "edit", "printer": "print"}, True),
        "edit": ("editor", {"writer": "draft"}, False),
        "print": ("printer", {"writer": "draft"}, False),
    },
}
"""By workflow and phase: who is active, where its hand-offs lead, and whether it may complete."""

ROLES = {GATED: ("gemini", "codex"), DIRECT: ("gemini", "codex"), FORK: ("writer", "editor", "printer")}
UNDECIDED = ("pending", "claimed", "in_review")
"""States in which a review holds its cycle up."""

_WITHOUT_SESSION = {
    "session_open",
    "cycle_start",
    "cycle_status",
    "handoff_read",
    "cycle_init",
    "cycle_rotate",
    "cycle_revoke",
    "get_cycle",
    "list_cycles",
}


class Team(Desk):
    """A project in which the roles of one workflow, each with a session, take turns.

    Attributes:
        workflow: Named in every call that brings no session.
        keys: The roles' keys.
        sessions: The roles' session tokens.
        cycle_id: The cycle that was begun last.
        feature: Its name for the change.
    """

    def __init__(self, url: str, project: str, workflow: str = GATED, agent: str | None = None) -> None:
        super().__init__(url, project, agent)
        self.workflow = workflow
        self.keys: dict[str, str] = {}
        self.sessions: dict[str, str] = {}
        self.cycle_id = ""
        self.feature = ""
        self._since: str | None = None
        self._seen = 0

    def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """One call; its envelope, with the HTTP status checked against it."""
        if operation in _WITHOUT_SESSION:
            arguments = {"workflow": self.workflow, **arguments}
        return super().call(operation, **arguments)

    def enrol(self) -> None:
        """Make every role's key and open a session for it."""
        self.from_now_on()
        self.keys = self.do("cycle_init")["keys"]
        self.sessions = {role: self.open_session(role) for role in self.keys}

    def from_now_on(self) -> None:
        """Let `log` begin here."""
        if self._since is None:
            self._since = self.do("get_audit_log", project=None)["cursor"]
        found, self._since = self._read_on()
        self._seen = max((event["seq"] for event in found), default=self._seen)

    def open_session(self, role: str) -> str:
        """Another session of a role; its token."""
        return self.do("session_open", role=role, psk=self.keys[role])["session_token"]

    def elsewhere(self, url: str) -> Team:
        """The same team at another broker."""
        other = Team(url, self.project, self.workflow)
        other.keys, other.sessions = self.keys, self.sessions
        other.cycle_id, other.feature, other._since = self.cycle_id, self.feature, self._since
        return other

    def begin(self, feature: str = "Login page") -> str:
        """Start a cycle; the lock token that came with it."""
        started = self.do("cycle_start", feature=feature)
        self.cycle_id, self.feature = started["cycle_id"], started["feature"]
        return started["lock_token"]

    def where(self, **more: Any) -> dict[str, Any]:
        """The cycle's status."""
        return self.do("cycle_status", **more)

    def place(self) -> tuple[str | None, str | None]:
        """Phase and active role."""
        status = self.where()
        return status["phase"], status["active_role"]

    def lock(self, role: str) -> str:
        """Take the lock; its token."""
        return self.do("lock_acquire", session_token=self.sessions[role])["lock_token"]

    def tokens(self, role: str, lock_token: str | None = None) -> dict[str, str]:
        """The tokens of a role's step: its session and the lock, taken now unless it is given."""
        return {"session_token": self.sessions[role], "lock_token": lock_token or self.lock(role)}

    def payload(self, producer: str, target: str, **changes: Any) -> dict[str, Any]:
        """A hand-off's payload."""
        about = {"cycle_id": self.cycle_id, "feature": self.feature, "producer": producer, "consumer": target}
        return {**about, **{name: [] for name in ARRAYS}, "notes": ["Mind the gap."], **changes}

    def handing(self, producer: str, target: str, lock_token: str | None = None, **changes: Any) -> dict[str, Any]:
        """The arguments of a hand-off."""
        sent = {"target": target, "payload": self.payload(producer, target, **changes)}
        return {**sent, **self.tokens(producer, lock_token)}

    def hand_over(self, producer: str, target: str, **changes: Any) -> dict[str, Any]:
        """Write a hand-off, the lock taken just before."""
        return self.do("handoff_write", **self.handing(producer, target, **changes))

    def put_forward(self, producer: str, target: str, **changes: Any) -> str:
        """Write a hand-off that waits for approval; its review."""
        return self.hand_over(producer, target, **changes)["review_id"]

    def request_changes(self, review: str) -> None:
        """Claim, and ask for changes."""
        self.verdict(review, "changes_requested", self.claim(review))

    def pass_on(self, producer: str, target: str, **changes: Any) -> None:
        """Write a hand-off and have it approved if that is needed."""
        written = self.hand_over(producer, target, **changes)
        if written["review_id"] is not None:
            self.approve(written["review_id"])

    def to_refine(self) -> None:
        """Begin a cycle of `frontend-backend` and bring it to the phase that may complete."""
        self.begin()
        self.pass_on("gemini", "codex")
        self.pass_on("codex", "gemini")

    def finish(self, role: str) -> dict[str, Any]:
        """Complete and archive, from a phase of a role that does both."""
        self.do("cycle_complete", **self.tokens(role))
        return self.do("cycle_archive", **self.tokens(role))

    def history(self) -> dict[str, Any]:
        """The whole cycle."""
        return self.do("get_cycle", cycle_id=self.cycle_id)

    def log(self) -> list[dict[str, Any]]:
        """Every event of the project since the team enrolled, or since it said `from_now_on`; oldest first."""
        return self._read_on()[0]

    def _read_on(self) -> tuple[list[dict[str, Any]], str]:
        """The events since `_since`, to the newest of any cycle; and the cursor behind it.

        A project's log goes as far as it is settled, and on PostgreSQL a transaction of another database holds that up.
        A cycle's own events are there at once, and are waited for.
        """
        found: list[dict[str, Any]] = []
        cursor, more = self._since, True
        while more or self._newest() > max((event["seq"] for event in found), default=self._seen):
            page = self.do("get_audit_log", cursor=cursor, limit=200, wait=not more)
            found += page["events"]
            cursor, more = page["cursor"], page["more"]
        assert cursor
        return found, cursor

    def _newest(self) -> int:
        """The number of the newest event of the newest cycle."""
        listed = self.do("list_cycles", limit=1)["cycles"]
        own = [self.do("get_audit_log", review_id=f"cycle:{one['cycle_id']}", limit=1)["events"] for one in listed]
        return max((event["seq"] for events in own for event in events), default=0)

    @contextmanager
    def unmoved(self) -> Generator[None]:
        """What happens inside must leave the cycle where it is, however its review ends."""
        before = self._standing()
        yield
        assert self._standing() == before

    def _standing(self) -> dict[str, Any]:
        status = self.where()
        shown = {name: status[name] for name in ("cycle_id", "phase", "active_role", "handoffs")}
        # Who takes the lock again may; no one else gets it.
        shown["lock"] = status["lock"]["role"]
        return {**shown, "read": {role: self.do("handoff_read", target=role) for role in ROLES[self.workflow]}}


def to_idle(team: Team) -> None:
    """End the cycle that is under way, by legal steps."""
    while (status := team.where())["phase"] is not None:
        role, phase, waiting = status["active_role"], status["phase"], status["review"]
        team.cycle_id, team.feature = status["cycle_id"], status["feature"]
        if phase == "complete":
            team.do("cycle_archive", **team.tokens(role))
        elif waiting and waiting["status"] in UNDECIDED:
            team.do("close_review", review_id=waiting["review_id"])
        elif PHASES[team.workflow][phase][2]:
            team.do("cycle_complete", **team.tokens(role))
        else:
            team.pass_on(role, next(iter(PHASES[team.workflow][phase][1])))


@contextmanager
def played(team: Team) -> Generator[Team]:
    """A team with no cycle under way, for one test, after which its log must tell one story."""
    to_idle(team)
    team.from_now_on()
    yield team
    check_story(team)


def check_story(team: Team, *, alone: bool = True) -> list[dict[str, Any]]:
    """Each approval of a hand-off advanced its cycle by the very next event, and nothing else did; the events.

    Besides, every event of a cycle goes on from the phase that the one before it left, and the last phase is the
    stored one. The numbers of its events follow one another if it is alone in writing to the log.
    """
    events = team.log()
    phases: dict[str, str | None] = {}
    gated = {event["data"].get("review_id") for event in events if event["kind"] == "handoff_written"}
    for before, event, after in zip([None, *events], events, [*events[1:], None], strict=False):
        if event["kind"] == "verdict_submitted" and event["new"] == "approved" and event["subject"] in gated:
            assert after is not None, event
            assert after["kind"] == "cycle_advanced", (event, after)
            assert after["seq"] == event["seq"] + 1 or not alone, (event, after)
            assert after["data"]["review_id"] == event["subject"]
            assert after["data"]["round"] == event["data"]["round"]
        if not event["subject"].startswith("cycle:"):
            continue
        assert event["old"] == phases.get(event["subject"]), event
        phases[event["subject"]] = event["new"]
        moves = event["kind"] in {"cycle_started", "cycle_advanced", "cycle_completed", "cycle_archived"}
        assert moves == (event["old"] != event["new"]), event
        if event["kind"] == "cycle_advanced":
            assert before is not None, event
            assert before["seq"] == event["seq"] - 1 or not alone
            assert before["kind"] in {"verdict_submitted", "handoff_written"}
            assert before["subject"] == event["data"].get("review_id", event["subject"])
    for subject, phase in phases.items():
        cycle = team.do("get_cycle", cycle_id=subject.removeprefix("cycle:"))["cycle"]
        assert phase == ("archived" if cycle["archived_at"] else cycle["phase"]), subject
    return events


def check_archive(team: Team | Crew, folder: Path) -> None:
    """An archive is whole: every file that its manifest names, no other, and what the broker says of the cycle."""
    manifest = json.loads((folder / "manifest.json").read_bytes())
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert files == {"manifest.json", *manifest["sha256"]}
    assert folder.name == manifest["cycle_id"]
    for name, digest in manifest["sha256"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, name
    history = team.do("get_cycle", cycle_id=manifest["cycle_id"])
    for name in ("cycle_id", "project", "workflow", "feature", "created_at", "completed_at", "archived_at"):
        assert manifest[name] == history["cycle"][name], name
    told = [{name: value for name, value in one.items() if name != "payload"} for one in history["handoffs"]]
    assert [{name: value for name, value in one.items() if name != "file"} for one in manifest["handoffs"]] == told
    payloads = [json.loads((folder / one["file"]).read_bytes()) for one in manifest["handoffs"]]
    assert payloads == [one["payload"] for one in history["handoffs"]]


def code_of(answer: dict[str, Any]) -> str | None:
    """The code of a refusal; None for a success."""
    return None if answer["ok"] else answer["error"]["code"]


def kinds_of(events: list[dict[str, Any]], subject: str) -> list[str]:
    """The kinds of a subject's events, oldest first."""
    return [event["kind"] for event in events if event["subject"] == subject]


def are_adjacent(events: list[dict[str, Any]], *kinds: str) -> bool:
    """Whether somewhere in the log an event of the first kind is directly followed by one of the second."""
    return any((one["kind"], two["kind"]) == kinds and two["seq"] == one["seq"] + 1 for one, two in pairwise(events))


def config_dir(folder: Path) -> Path:
    """A user's configuration folder with the workflows of these tests."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(CONFIG, "utf-8")
    return folder


def assert_no_deadlocks(database: str) -> None:
    """No units waited for each other in a circle until PostgreSQL ended one; asked once all brokers have stopped.

    Such a unit is run again, so that nothing but a second of delay tells of it.
    """
    with psycopg.connect(database) as server:
        row = server.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").fetchone()
    assert row == (0,)
