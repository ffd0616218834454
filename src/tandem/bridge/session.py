"""Calls to a broker by name, each retried where a second try cannot do harm, and waits that last as long as asked.

One POST an operation. Waits are made of calls that the broker answers within a minute. Standard library only: what an
agent runs all day stands on it, and the Python client is it in asyncio's dress.
"""

from __future__ import annotations

import json
import os
import time

from tandem.bridge.credentials import TOKEN_VARIABLE, NoToken
from tandem.bridge.http import Exchange, client_of, quoted
from tandem.bridge.location import Aborted, HttpFailure, NotSent, ResponseLost, Stranger
from tandem.bridge.operations import OPERATIONS
from tandem.bridge.project import CREATE_REVIEW, needs_base_files, owner, with_base_files
from tandem.bridge.submitted import REMEMBERED, remember
from tandem.core.stand_ins import Closing
from tandem.errors import ConfigInvalid, CursorExpired, InvalidInput, Unavailable, error_from

TYPE_CHECKING = False  # as in `errors`
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from tandem.bridge.http import HttpClient
    from tandem.bridge.location import BrokerLocation

    Condition = Callable[[dict[str, Any]], bool]
    """Whether the data of an answer end a wait."""

_ANSWER_SECONDS = 120.0
"""A silent broker is given up on; a call may wait 50 s, and validate and commit besides."""
_FIRST_DELAY_SECONDS = 0.05
_LONGEST_DELAY_SECONDS = 1.0
_BRIEF_SECONDS = 0.4
"""How long calls are repeated where no broker has answered yet, or it answered that it can do nothing now."""
_AWAY_SECONDS = 60.0
"""How long a broker may be away that has answered before: long enough to be restarted."""
_REMARK_SECONDS = 20.0
"""How often it is said that it is away."""

CALL_SECONDS = 50.0
"""The longest that one call waits; the broker allows no more."""
_EARLY_ANSWER_PAUSE_SECONDS = 0.2
_LATE_SECONDS = 10.0
"""How much longer than asked a wait takes at most, even if the broker goes away."""

_DECIDED = frozenset({"approved", "changes_requested", "rejected", "closed"})


class Unreachable(Unavailable):
    """No broker answered at all, so that its answer is unknown."""


def is_decided(data: dict[str, Any]) -> bool:
    """Whether a review's status is a verdict or the end, or there will be no verdict before a person has looked."""
    return data.get("status") in _DECIDED or data.get("attention") is not None


def is_proposers_turn(data: dict[str, Any]) -> bool:
    """Whether a review's proposer has something to do, or the review is over, or no reviewer comes without a person."""
    is_asked = data.get("turn") == "proposer" or data.get("question_id") is not None
    return is_asked or data.get("status") == "closed" or lacks_reviewer(data)


def lacks_reviewer(data: dict[str, Any]) -> bool:
    """Whether no reviewer takes a review before a person has done something."""
    none: dict[str, Any] = data.get("no_reviewer") or {}
    return bool(none.get("needs_person"))


def has_changed(data: dict[str, Any]) -> bool:
    """Whether the broker saw something after the cursor."""
    return bool(data.get("changed"))


class Session(Closing):
    """Talks to a broker; connections are kept. Several threads may call at once, each with an exchange of its own.

    Args:
        location: Where the broker is.
        project: The project of calls that name none.
        agent: Who is calling, for the log (`Tandem-Agent`).
        answer_s: The longest that a call takes in all, tries again included; None: no limit but those on silence and
            on how long the broker may be away.

    Attributes:
        away_s: How long the broker may be away in a call without a limit.
        remark: Says to a person that the broker is away, and that it is back; None to say nothing.
        url: The broker's address, or those of several; empty if it runs nowhere.
    """

    def __init__(
        self,
        location: BrokerLocation,
        project: str | None = None,
        agent: str | None = None,
        *,
        answer_s: float | None = None,
    ) -> None:
        self.location = location
        self.url = (location.url or "").rstrip("/")
        self.answer_s = answer_s
        self.away_s = _AWAY_SECONDS
        self.remark: Callable[[str], None] | None = None
        self._remark_at = 0.0
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if agent is not None:
            self._headers["Tandem-Agent"] = agent
        self._project = project
        self._projects: dict[str, str] | None = None
        self._query = f"?project={quoted(project)}" if project is not None else ""
        self._http: HttpClient | None = None
        self._contacted = False

    def close(self) -> None:
        """Close the idle connections; closing twice is safe."""
        if self._http is not None:
            self._http.close()

    @property
    def http(self) -> HttpClient:
        """The connections to the broker.

        Raises:
            ConfigInvalid: What the environment has for an access token is none.
            InvalidInput: The agent's name cannot be sent.
            Unreachable: The broker runs nowhere, or that is no address.
        """
        if self._http is None:
            try:
                self._http = client_of(self.location, silence_seconds=_ANSWER_SECONDS, asks_health=True)
            except NoToken as error:
                raise ConfigInvalid(str(error), setting=TOKEN_VARIABLE, origin="environment") from None
            except ValueError as error:
                raise unreachable(self.location, error) from error
            if not "".join(self._headers.values()).isprintable():
                raise InvalidInput("The agent's name must be a single line of text.", field="agent")
        return self._http

    def call(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        *,
        within_s: float | None = None,
        exchange: Exchange | None = None,
    ) -> bytes:
        """Any operation by name; answers with the envelope as it came, refusals included.

        Args:
            operation: The operation's name.
            arguments: The request as JSON values.
            within_s: The longest that this takes in all; default: the session's own limit.
            exchange: To give the call up by, from another thread.

        Raises:
            Unreachable: No broker answers.
            Aborted: It was given up.
        """
        exchange = exchange or Exchange()
        limit_s = self.answer_s if within_s is None else within_s
        exchange.deadline = None if limit_s is None else time.monotonic() + limit_s
        body = dict(arguments)
        has_content = body.get("diff") is not None or body.get("path") is not None
        if operation == CREATE_REVIEW and has_content and not self.location.is_own:
            body = self._with_base_files(body, exchange)
        known = OPERATIONS.get(operation)
        if known is not None and known.keyed and body.get("idempotency_key") is None:
            body["idempotency_key"] = os.urandom(16).hex()
        try:
            envelope = self._retried(operation, json.dumps(body).encode(), exchange)
        except HttpFailure as failure:
            if isinstance(failure, Aborted):
                raise
            if exchange.deadline is None or time.monotonic() < exchange.deadline:
                is_unknown = isinstance(failure, ResponseLost) and known is not None and known.keyed
                raise unreachable(self.location, failure, operation if is_unknown else None) from failure
            raise Unreachable(
                f"The broker at {self.url} is silent: no answer within {limit_s:.0f} s. Find the cause with: tandem"
                " doctor",
                url=self.url,
            ) from None
        if operation in REMEMBERED:
            remember(None, operation, body, _data_if_ok(envelope) or {})
        return envelope

    def data(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        """Any operation by name; answers with the data as JSON values.

        Raises:
            TandemError: The broker refuses, or none answers; the subclass is that of the code.
        """
        return data_of(self.call(operation, arguments))

    def wait_until(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        *,
        ready: Condition,
        done: Condition = has_changed,
        timeout_s: float | None = None,
        exchange: Exchange | None = None,
    ) -> bytes:
        """Repeat a waiting operation until its answer satisfies, is a refusal, or the time is up.

        Args:
            operation: An operation that takes `wait`, `cursor` and `timeout_s`.
            arguments: Its other arguments. Without a cursor the state is read first, and the wait begins there.
            ready: Whether that first answer satisfies already.
            done: Whether a later answer does.
            timeout_s: Seconds; None for as long as it takes.
            exchange: To give the wait up by, from another thread.

        Returns:
            The last envelope.
        """
        exchange = exchange or Exchange()
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        given = dict(arguments)
        while True:
            if given.get("cursor") is None:
                envelope = self.call(operation, given, exchange=exchange)
                data = _data_if_ok(envelope)
                if data is None or ready(data):
                    return envelope
                # Even when the time is up: only a wait from a cursor says whether anything has changed since.
                given["cursor"] = data.get("cursor")
            began = time.monotonic()
            asked_seconds = CALL_SECONDS if deadline is None else min(CALL_SECONDS, max(0.0, deadline - began))
            asked = {**given, "wait": True, "timeout_s": round(asked_seconds, 3)}
            within_s = None if deadline is None else max(0.0, deadline - began) + _LATE_SECONDS
            envelope = self.call(operation, asked, within_s=within_s, exchange=exchange)
            data = _data_if_ok(envelope)
            is_over = deadline is not None and time.monotonic() >= deadline
            refused = None if data is not None else json.loads(envelope)["error"].get("code")
            if refused == CursorExpired.code and given["cursor"] != arguments.get("cursor"):
                # A copy of the database was restored meanwhile: what there is now has to be looked at again.
                given["cursor"], data = None, {}
            elif data is None or done(data) or is_over:
                return envelope
            else:
                given["cursor"] = data.get("cursor")
            if not has_changed(data) and time.monotonic() - began < asked_seconds / 2:
                # A broker that is stopping answers its waits early; do not hammer it meanwhile.
                exchange.pause(_EARLY_ANSWER_PAUSE_SECONDS)

    def _retried(self, operation: str, content: bytes, exchange: Exchange) -> bytes:
        """The envelope of a call, tried again while that is harmless and in time."""
        known = OPERATIONS.get(operation)
        is_repeatable = known is not None and known.repeatable
        began, delay_seconds = time.monotonic(), _FIRST_DELAY_SECONDS
        limit_s = None if exchange.deadline is None else exchange.deadline - began
        failed_at: float | None = None
        while True:
            failure: HttpFailure | None = None
            envelope, is_away = b"", True
            try:
                status, envelope = self._post(operation, content, exchange)
            except HttpFailure as error:
                failure = error
                # What did not leave whole had no effect, so that even a lone write may try again.
                may_retry = not isinstance(error, Aborted) and (is_repeatable or isinstance(error, NotSent))
                may_retry = may_retry and not self.location.hangs(error)
                # Who has the port from the start keeps it.
                may_retry = may_retry and (self._contacted or not isinstance(error, Stranger))
                self._look_again()
            else:
                self._contacted = True
                self._say_back()
                is_away = status == Unavailable.status and _takes_nothing(envelope)
                # The connection goes to another one next. The request may have taken effect all the same.
                goes_on = status == Unavailable.status and len(self.http.targets) > 1 and is_repeatable
                may_retry = is_away or goes_on
            patience_s = self.away_s if limit_s is None else limit_s
            if not (is_away and self._contacted):
                patience_s = min(patience_s, _BRIEF_SECONDS)
            again_at = time.monotonic() + delay_seconds
            # What an answer takes that is lost in the end is no reason not to ask the next broker.
            failed_at = failed_at or again_at - delay_seconds
            gives_up = again_at - failed_at > max(patience_s, _BRIEF_SECONDS)
            if not may_retry or gives_up or (limit_s is not None and again_at - began > max(limit_s, _BRIEF_SECONDS)):
                if failure is None:
                    return envelope
                raise failure
            if failure is not None and delay_seconds == _LONGEST_DELAY_SECONDS:
                self._say_away(failure)
            exchange.pause(delay_seconds)
            delay_seconds = min(2 * delay_seconds, _LONGEST_DELAY_SECONDS)

    def _look_again(self) -> None:
        """Go to where the broker is by now, if it listens elsewhere."""
        found, old = self.location.again(), self._http
        if found is not self.location:
            # In this order, as other threads may call.
            self.location, self.url = found, (found.url or "").rstrip("/")
            self._http = None
            if old is not None:
                old.close()

    def _say_away(self, failure: HttpFailure) -> None:
        now = time.monotonic()
        if self.remark is not None and now >= self._remark_at:
            self._remark_at = now + _REMARK_SECONDS
            self.remark(f"{unreachable(self.location, failure).message}. This goes on when it is back.")

    def _say_back(self) -> None:
        if self.remark is not None and self._remark_at:
            self._remark_at = 0.0
            self.remark(f"The broker is back at {self.url}.")

    def _with_base_files(self, arguments: dict[str, Any], exchange: Exchange) -> dict[str, Any]:
        """A proposal with the base's files, where the broker has another repository than this one, or none."""
        if self._projects is None:
            envelope = self._retried("list_projects", b"{}", exchange)
            found = (_data_if_ok(envelope) or {}).get("projects", ())
            self._projects = {one["project"]: one["root"] for one in found}
        project = arguments.get("project") or self._project or owner(".", self._projects)
        if not needs_base_files(self.url.partition(",")[0], arguments, self._projects, project):
            return arguments
        return with_base_files(arguments, ".")

    def _post(self, operation: str, body: bytes, exchange: Exchange) -> tuple[int, bytes]:
        answer = self.http.request("POST", f"/api/v1/{operation}{self._query}", body, self._headers, exchange)
        content = answer.read()
        if not content.lstrip().startswith((b'{"ok":', b'{"ok" :')):
            raise Unreachable(
                f"What answers at {self.url} is not a Tandem broker (HTTP {answer.status}). "
                f"The address is from {self.location.origin}. {self.location.advice()}",
                url=self.url,
            )
        return answer.status, content


def unreachable(broker: BrokerLocation, failure: Exception, lost: str | None = None) -> Unreachable:
    """That a broker does not answer: where it was looked for, who said so, and what to do.

    Args:
        broker: Where it should be.
        failure: How it was missed.
        lost: The operation that may have had its effect; None if none has.
    """
    advice = broker.advice(failure)
    if not broker.url:
        return Unreachable(f"No broker runs on {broker.data_dir}. {advice}", url=None, origin=broker.origin)
    reason = str(failure) or type(failure).__name__
    unknown = f". Whether {lost} had its effect is unknown: look before you repeat it" if lost else ""
    said = f"No broker answers at {broker.url}, from {broker.origin} ({reason}){unknown}. {advice}"
    return Unreachable(said, url=broker.url, origin=broker.origin)


def data_of(envelope: bytes) -> Any:
    """The data inside an envelope, as JSON values.

    Raises:
        TandemError: The envelope is a refusal; the subclass is that of its code.
    """
    content: dict[str, Any] = json.loads(envelope)
    if not content.get("ok"):
        raise error_from(content.get("error") or {})
    return content.get("data")


def _data_if_ok(envelope: bytes) -> dict[str, Any] | None:
    content: dict[str, Any] = json.loads(envelope)
    return content["data"] if content.get("ok") else None


def _takes_nothing(envelope: bytes) -> bool:
    """Whether a broker refused because it starts or stops: then it has not looked at the call."""
    return "phase" in json.loads(envelope)["error"].get("details", {})
