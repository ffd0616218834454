"""Hand-off cycles as their roles play them over MCP, and every key, token and refusal of it for a second look."""

from __future__ import annotations

import itertools
import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from tests.acceptance.staffed import until
from tests.broker import BrokerProcess, Poster

TOOLS = frozenset(
    {
        "session_open",
        "cycle_start",
        "cycle_status",
        "lock_acquire",
        "handoff_write",
        "handoff_read",
        "cycle_complete",
        "cycle_archive",
    }
)
"""The operations called over MCP; all others are an administrator's or an operator's, and are called over HTTP."""
_MCP_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-11-25",
}
_PARSE_ERROR = -32700
FEATURE = "Login page"


class Crew:
    """All roles of one workflow in one project, each with its key and its session.

    Attributes:
        project: Sent with every call.
        workflow: Sent with every call that has one; None leaves it to the broker.
        keys: The key of each role.
        sessions: The session token of each role.
        cycle: What `cycle_start` answered last.
        secrets: Every key and token that was ever handed out.
        refusals: Every error answer as JSON text.
        others: Every other answer as JSON text, but those that hand out a key or a token.
    """

    def __init__(self, url: str, project: str, workflow: str | None = None) -> None:
        self.project = project
        self.workflow = workflow
        self.keys: dict[str, str] = {}
        self.sessions: dict[str, str] = {}
        self.cycle: dict[str, Any] = {}
        self.secrets: set[str] = set()
        self.refusals: list[str] = []
        self.others: list[str] = []
        self._since: str | None = None
        self._http = Poster(url, {})
        self._ids = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    # ------------------------------------------------------------------------------------------- calls

    def send(self, tool: str, arguments: Any) -> dict[str, Any] | None:
        """One `tools/call` with exactly these arguments; its envelope, or None if the broker cannot parse it."""
        # As the standard library writes JSON: halves of surrogate pairs and large numbers included.
        return self.send_text(tool, json.dumps(arguments))

    def send_text(self, tool: str, arguments: str) -> dict[str, Any] | None:
        """The same with the arguments as JSON text, or as text that is none."""
        call = f'{{"jsonrpc":"2.0","id":{next(self._ids)},"method":"tools/call","params":'
        parameters = f'{{"name":{json.dumps(tool)},"arguments":{arguments}}}}}'
        response = self._http.post("/mcp/handoff", content=(call + parameters).encode(), headers=_MCP_HEADERS.items())
        message = json.loads(response.text.removeprefix("event: message\r\ndata: "))
        if "error" in message:
            assert (response.status_code, message["error"]["code"]) == (400, _PARSE_ERROR), message
            return None
        result = message["result"]
        envelope: dict[str, Any] = result["structuredContent"]
        assert result["isError"] is not envelope["ok"]
        assert json.loads(result["content"][0]["text"]) == envelope
        return self._noted(envelope)

    def administer(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """One call over HTTP for the project; its envelope."""
        body = json.dumps({"project": self.project, **arguments}).encode()
        response = self._http.post(f"/api/v1/{operation}", content=body, headers=[("Content-Type", "application/json")])
        return self._noted(response.json())

    def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """One call for the project and workflow, unless the arguments say otherwise; its envelope."""
        if operation not in TOOLS:
            return self.administer(operation, **arguments)
        place = {"project": self.project, **({"workflow": self.workflow} if self.workflow else {})}
        envelope = self.send(operation, {**place, **arguments})
        assert envelope is not None
        return envelope

    def do(self, operation: str, **arguments: Any) -> Any:
        """A call that must succeed; its data."""
        envelope = self.call(operation, **arguments)
        assert envelope["ok"], f"{operation}: {envelope['error']}"
        return envelope["data"]

    def refused(self, code: str, operation: str, **arguments: Any) -> dict[str, Any]:
        """A call that must be refused with this code; the error's details."""
        envelope = self.call(operation, **arguments)
        assert not envelope["ok"], f"{operation} was not refused: {envelope['data']}"
        error = envelope["error"]
        assert error["code"] == code, error
        # What to do next: a sentence, or at its end a command to copy.
        assert len(error["message"]) > 15
        assert error["message"][-1] in ".)" or ": tandem " in error["message"], error["message"]
        return error["details"]

    def _noted(self, envelope: dict[str, Any]) -> dict[str, Any]:
        if not envelope["ok"]:
            self.refusals.append(json.dumps(envelope))
            return envelope
        data = envelope["data"]
        found = {data[name] for name in ("session_token", "lock_token") if name in data}
        if "sessions_ended" in data and "keys" in data:
            found |= set(data["keys"].values())
        self.secrets |= found
        if not found:
            self.others.append(json.dumps(envelope))
        return envelope

    # ------------------------------------------------------------------------------------------- roles

    def prepare(self, **own: str) -> Self:
        """Keys for all roles (of one's own where given) and a session for each."""
        self.make_keys(**own)
        for role in self.keys:
            self.join(role)
        return self

    def make_keys(self, **own: str) -> dict[str, Any]:
        """Keys for all roles that have none."""
        more: dict[str, Any] = {"keys": own} if own else {}
        if self.workflow:
            more["workflow"] = self.workflow
        made = self.do("cycle_init", **more)
        self.keys |= made["keys"]
        return made

    def join(self, role: str) -> str:
        """A fresh session for a role; its token."""
        self.sessions[role] = self.do("session_open", role=role, psk=self.keys[role])["session_token"]
        return self.sessions[role]

    def start(self, feature: str = FEATURE) -> dict[str, Any]:
        """A new cycle."""
        self.cycle = self.do("cycle_start", feature=feature)
        return self.cycle

    def lock(self, role: str | None = None) -> str:
        """The lock's token, for the active role if no other is named."""
        return self.do("lock_acquire", session_token=self.sessions[role or self.active_role])["lock_token"]

    def tokens(self, role: str | None = None) -> dict[str, str]:
        """The lock and session token of the active role, as completion and archive want them."""
        role = role or self.active_role
        return {"lock_token": self.lock(role), "session_token": self.sessions[role]}

    def payload(self, producer: str, consumer: str, **changes: Any) -> dict[str, Any]:
        """A payload for the cycle that was started last."""
        return payload(self.cycle, producer, consumer, **changes)

    def hand_over(self, target: str, **changes: Any) -> dict[str, Any]:
        """A hand-off by the active role."""
        return self.do("handoff_write", **self.handing(target, **changes))

    def handing(self, target: str, **changes: Any) -> dict[str, Any]:
        """The arguments with which the active role hands over; `changes` apply to the payload."""
        role = self.active_role
        return {"target": target, "payload": self.payload(role, target, **changes), **self.tokens(role)}

    def complete(self) -> dict[str, Any]:
        """Completion by the active role."""
        return self.do("cycle_complete", **self.tokens())

    def archive(self) -> Path:
        """The archive, written by the active role."""
        return Path(self.do("cycle_archive", **self.tokens())["archive"])

    def play(self, *targets: str) -> None:
        """Hand over to one role after the other."""
        for target in targets:
            self.hand_over(target)

    def begin_anew(self) -> Self:
        """End the running cycle of the built-in workflow by legal steps; `events` then returns only later events."""
        while (status := self.status())["phase"] is not None:
            self.cycle = status
            match status["phase"]:
                case "complete":
                    self.archive()
                case "frontend_refine":
                    self.complete()
                case phase:
                    self.hand_over({"frontend": "codex", "backend": "gemini"}[phase])
        self.cycle = {}
        self._since = self.do("get_audit_log")["cursor"]
        return self

    # ------------------------------------------------------------------------------------------- looks

    @property
    def active_role(self) -> str:
        """Whose turn it is."""
        return self.status()["active_role"]

    def status(self) -> dict[str, Any]:
        """Where the cycle is."""
        return self.do("cycle_status")

    def read(self, target: str) -> dict[str, Any]:
        """The latest hand-off to a role."""
        return self.do("handoff_read", target=target)

    def events(self) -> list[dict[str, Any]]:
        """All events of the project, or those since `begin_anew`, oldest first."""
        page = self.do("get_audit_log", limit=200, **({"cursor": self._since} if self._since else {}))
        assert not page["more"]
        return page["events"]

    def kinds(self) -> list[str]:
        """The kinds of the events of cycles, without keys and sessions."""
        cycles = [event for event in self.events() if event["subject"].startswith("cycle:")]
        return [event["kind"] for event in cycles]

    def everything(self) -> dict[str, Any]:
        """All that anybody can see of the workflow; equal when nothing was done."""
        status = self.status()
        events = self.events()
        return {"status": status, "events": events, **{role: self.read(role) for role in status["handoffs"]}}

    @contextmanager
    def unchanged(self) -> Generator[None]:
        """What happens inside must leave no trace."""
        before = self.everything()
        yield
        assert self.everything() == before


def payload(cycle: Mapping[str, Any], producer: str, consumer: str, **changes: Any) -> dict[str, Any]:
    """A whole payload for a cycle, with some fields changed or added."""
    whole: dict[str, Any] = {
        "cycle_id": cycle["cycle_id"],
        "feature": cycle["feature"],
        "producer": producer,
        "consumer": consumer,
        "files_modified": ["src/login.ts", "src/login.css"],
        "endpoints": [{"method": "POST", "path": "/api/session"}],
        "data_shapes": [{"Session": {"user": "string", "expires": "time"}}],
        "assumptions": ["Names are unique."],
        "todos": [],
        "notes": [f"From {producer} to {consumer}."],
        "extras": {"ticket": 7},
    }
    return {**whole, **changes}


def without(whole: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A copy that lacks one field."""
    return {field: value for field, value in whole.items() if field != name}


def until_waiting(broker: BrokerProcess, count: int) -> None:
    """Return once exactly so many waits are parked in the broker."""
    until(lambda: broker.health()["waiting"] == count, f"{count} waits are parked")
