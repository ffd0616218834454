"""Asking the broker, from a hook: one connection, short waits, and plain words when no broker answers."""

from __future__ import annotations

import json
import time

from tandem.bridge.credentials import REFUSED_CODE, NoToken
from tandem.bridge.http import Exchange, client_of
from tandem.bridge.location import HttpFailure, of_record
from tandem.bridge.submitted import REMEMBERED, remember
from tandem.core.stand_ins import Closing
from tandem.rulings.broker_errors import Refused, Unreachable

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tandem.bridge.http import HttpClient
    from tandem.bridge.location import BrokerLocation
    from tandem.rulings.state import GateFile

PATIENCE_SECONDS = 12.0
"""How long a hook waits for a broker that does not answer, in all: git, and who started it, wait 15 s at most.

A gate answers in milliseconds. After an answer the next one may take as long again.
"""

AGENT = "git-hook"
"""Who asks, in the log."""


class GateClient(Closing):
    """Calls operations for the project of a gate.

    Where the broker is was written down when the gate was switched on; the environment has no say in it, as the
    committer sets that. It may say with which access token, which the broker judges.

    Attributes:
        branch: The base branch that is updated; None if none is.
        tips: Its commits before and during the update, if checks must have run on one of these.
        on_tip: Whether they have to; known after `get_gate`.
        starts: Whether a broker that does not run is still to be started.
    """

    def __init__(
        self, gate: GateFile, agent: str | None = None, *, is_server: bool = False, starts: bool = False
    ) -> None:
        """Nothing is contacted yet.

        Args:
            gate: The switch.
            agent: On whose behalf the broker is asked; None for the hook itself.
            is_server: Whether the switch is where no client writes, and so needs no comparison with the record.
            starts: Whether a broker that does not run is started, where it is this user's own; not on a server.
        """
        self._gate = gate
        self._agent = agent or AGENT
        self._location = location_of(gate, is_server=is_server)
        self._client: HttpClient | None = None
        self._is_compared = is_server
        self._is_server = is_server
        self.branch: str | None = None
        self.tips: Sequence[str] = ()
        self.on_tip = False
        self.starts = starts and not is_server
        self._ends: float | None = None

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()

    def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """The data that an operation answers, asked for the gate's project.

        Raises:
            Refused: The broker refuses.
            Unreachable: No broker answers, or something that is none.
        """
        data = self._asked(operation, arguments)
        if operation in REMEMBERED:
            remember(self._gate.place.top, operation, arguments, data)
        return data

    def _compared(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """The same, of one that compares the gate here with the record: once for all that one hook asks."""
        here = {} if self._is_compared else {"here": self._gate.here()}
        answer = self.call(operation, **arguments, **here)
        self._is_compared = True
        return answer

    def _asked(self, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        body = json.dumps({"project": self._gate.project, **arguments}).encode()
        head = {"Content-Type": "application/json", "Accept": "application/json", "Tandem-Agent": self._agent}
        # What failed before leaves only the rest of it.
        self._ends = ends = self._ends or time.monotonic() + PATIENCE_SECONDS
        try:
            return self._answer(operation, body, head)
        except Unreachable as missed:
            if not (self.starts and missed.may_start) or time.monotonic() >= ends:
                raise
            # Almost always it runs.
            from tandem.rulings import starting

            self.starts = False
            config_dir = self._gate.config_dir
            return starting.answered(missed, config_dir, ends, lambda: self._answer(operation, body, head, again=True))

    def _answer(self, operation: str, body: bytes, head: dict[str, str], *, again: bool = False) -> dict[str, Any]:
        """The data of one request; `again` looks first where the broker is by now."""
        if again:
            self._location, self._client = location_of(self._gate, is_server=self._is_server), None
        try:
            self._client = self._client or self._connected()
            answer = self._client.request("POST", f"/api/v1/{operation}", body, head, Exchange(self._ends))
            envelope = json.loads(answer.read())
            self._ends = None
            if envelope["ok"] is True:
                data: dict[str, Any] = envelope["data"]
                return data
            error: dict[str, Any] = envelope["error"]
            refused = Refused(error["code"], error["message"], error.get("details", {}))
        except HttpFailure as failure:
            is_late = self._ends is not None and time.monotonic() >= self._ends
            hangs = f"It has not answered for {PATIENCE_SECONDS:g} s: if it hangs, end it with 'tandem down' first. "
            raise Unreachable(self._location, failure, hangs if is_late else "") from failure
        except NoToken as failure:
            raise Refused(REFUSED_CODE, str(failure), {}) from failure
        except (ValueError, KeyError, TypeError) as failure:
            raise Unreachable(self._location, "what answers there is no Tandem broker") from failure
        raise refused

    def _connected(self) -> HttpClient:
        found = self._location
        if found.url is None:
            raise Unreachable(found, f"none runs on {found.data_dir}")
        try:
            return client_of(found, silence_seconds=PATIENCE_SECONDS, proof_seconds=PATIENCE_SECONDS)
        except NoToken:
            raise
        except ValueError as error:
            raise Unreachable(found, str(error)) from error

    def check_gate(
        self, changes: list[dict[str, str]], signed: Sequence[str] = (), head: str | None = None, *, sign: bool = False
    ) -> dict[str, Any]:
        """Whether a difference is approved; the data of `check_gate`.

        Args:
            changes: The raw difference.
            signed: The signatures that the commit brings along.
            head: The commit that it is a difference to; without it nothing passes as a rollback.
            sign: Whether a signature is wanted.

        Raises:
            Refused: The broker refuses, or its record of the gate differs from the one here.
            Unreachable: No broker answers.
        """
        wanted: dict[str, Any] = {"signed": [*signed], "head": head, "sign": sign, "branch": self.branch}
        wanted["tips"] = [*self.tips]
        stated = {name: value for name, value in wanted.items() if value}
        return self._compared("check_gate", changes=changes, **stated)

    def concerned(self, decision: dict[str, Any]) -> list[dict[str, Any]]:
        """The statuses of the reviews of exactly what an answer of `check_gate` refuses; empty unless all has one.

        Raises:
            Refused: The broker refuses.
            Unreachable: No broker answers.
        """
        refused = [path for path in decision["paths"] if not path["allowed"]]
        if decision.get("code") is not None or any(path["round"] is None for path in refused):
            return []
        reviews = sorted({path["review_id"] for path in refused})
        return [self.call("get_review_status", review_id=review_id) for review_id in reviews]

    def get_gate(self) -> dict[str, Any]:
        """The gate's state at the broker, unless the record here differs; the data of `get_gate`.

        Raises:
            Refused: The broker refuses, or its record differs from the one here.
            Unreachable: No broker answers.
        """
        answer = self._compared("get_gate")
        self.on_tip = answer["checks_on_tip"]
        return answer


def location_of(gate: GateFile, *, is_server: bool = False) -> BrokerLocation:
    """Where a gate's broker is.

    Args:
        gate: The switch.
        is_server: Whether it is on a server, whose repository need not belong to the broker's user.
    """
    return of_record(gate.broker, gate.data_dir, gate.usual_url, is_trusted=is_server, more_dirs=gate.more_data_dirs)


def url_of(gate: GateFile) -> str | None:
    """That broker's address; None if it has left none."""
    return location_of(gate).url
