"""The client: operations as methods, refusals as errors, waits that last as long as asked.

One POST an operation, retried only where a second try cannot do harm. Waits are made of calls that the broker answers
within a minute.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import cache
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import orjson
from pydantic import BaseModel, TypeAdapter, ValidationError

from tandem.bridge import base_files
from tandem.bridge.credentials import TOKEN_VARIABLE, Credentials, NoToken
from tandem.bridge.http import Aborted, Exchange, HttpClient, HttpFailure, NotSent, Stranger, quoted, targets
from tandem.bridge.location import BrokerLocation, locate
from tandem.bridge.project import owner
from tandem.client.methods import Operations
from tandem.client.table import OPERATIONS
from tandem.errors import ConfigInvalid, CursorExpired, InternalError, InvalidInput, Unavailable, error_from

if TYPE_CHECKING:
    from tandem.reviews.answers import ReviewStatus

Answer = TypeVar("Answer")
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

CALL_SECONDS = 50.0
"""The longest that one call waits; the broker allows no more."""
_EARLY_ANSWER_PAUSE_SECONDS = 0.2
_LATE_SECONDS = 10.0
"""How much longer than asked a wait takes at most, whatever becomes of the broker."""

_DECIDED = frozenset({"approved", "changes_requested", "rejected", "closed"})


class Unreachable(Unavailable):
    """No broker answered at all, so that nothing is known of what it would have said."""


def is_decided(data: dict[str, Any]) -> bool:
    """Whether a review's status is a verdict or the end, or there will be no verdict before a person has looked."""
    return data.get("status") in _DECIDED or data.get("attention") is not None


def is_proposers_turn(data: dict[str, Any]) -> bool:
    """Whether a review's proposer has something to do, or the review is over, or no reviewer comes without a person."""
    return data.get("turn") == "proposer" or data.get("status") == "closed" or lacks_reviewer(data)


def lacks_reviewer(data: dict[str, Any]) -> bool:
    """Whether no reviewer takes a review before a person has done something."""
    none: dict[str, Any] = data.get("no_reviewer") or {}
    return bool(none.get("needs_person"))


def has_changed(data: dict[str, Any]) -> bool:
    """Whether the broker saw something after the cursor."""
    return bool(data.get("changed"))


class TandemClient(Operations):
    """Talks to a broker.

        async with TandemClient(agent="my-agent") as client:
            created = await client.create_review(intent="…", agent_type="my-agent", diff=diff)
            status = await client.wait_for_turn(created.review_id, created.cursor)

    Reads are repeated while a broker that has answered before is away or stops, until the time is up. So are writes, as
    each carries an idempotency key: the caller's, or a fresh one. The few that take none are repeated only where the
    broker certainly did not take them.

    To a broker that asks for access tokens goes the one in `TANDEM_TOKEN`, else its owner's, which a broker leaves
    in its data folder.

    Connections are kept. They are the bridge's, with a thread for each call: importing an asynchronous HTTP client
    takes longer than all else that most commands do.

    Args:
        url: The broker, or several on one database as `URL,URL`: whenever one is away, calls go to the next. By default
            the one that commands take, too: `TANDEM_BROKER`, that of the repository one is in, else this user's own.
        project: The project of calls that name none.
        agent: Who is calling, for the log (`Tandem-Agent`).
        data_dir: The data folder of that broker, if it is not the user's own.
        answer_s: The longest that a call takes in all, tries again included; default: no limit but those on silence and
            on how long the broker may be away.

    Attributes:
        away_s: How long the broker may be away in a call without a limit.
        url: The broker's address, or those of several; empty if it runs nowhere.
        location: How that is known.
    """

    def __init__(
        self,
        url: str | BrokerLocation | None = None,
        project: str | None = None,
        agent: str | None = None,
        *,
        data_dir: str | None = None,
        answer_s: float | None = None,
    ) -> None:
        located = isinstance(url, BrokerLocation)
        self.location = url if located else locate(url, ".", data_dir)
        self.url = (self.location.url or "").rstrip("/")
        self._answer_s = answer_s
        self.away_s = _AWAY_SECONDS
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if agent is not None:
            self._headers["Tandem-Agent"] = agent
        self._project = project
        self._projects: dict[str, str] | None = None
        self._query = f"?project={quoted(project)}" if project is not None else ""
        self._http: HttpClient | None = None
        self._exchanges: set[Exchange] = set()
        self._contacted = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, and give up the calls that still wait; closing twice is safe."""
        for exchange in self._exchanges:
            exchange.abort()
        if self._http is not None:
            self._http.close()

    @property
    def address(self) -> str:
        """The URL of the one of several brokers that is asked now, e.g. for a page."""
        return self._client().target.url

    async def call(self, operation: str, arguments: Mapping[str, Any], *, within_s: float | None = None) -> bytes:
        """Any operation by name; answers with the envelope as it came, refusals included.

        Args:
            operation: The operation's name.
            arguments: The request as JSON values.
            within_s: The longest that this takes in all; default: the client's own limit.

        Raises:
            Unreachable: No broker answers.
        """
        limit_s = self._answer_s if within_s is None else within_s
        try:
            async with asyncio.timeout(limit_s):
                return await self._call(operation, arguments, limit_s)
        except TimeoutError:
            raise Unreachable(
                f"The broker at {self.url} is silent: no answer within {limit_s:.0f} s. See what is wrong with: tandem"
                " doctor",
                url=self.url,
            ) from None

    async def _call(self, operation: str, arguments: Mapping[str, Any], limit_s: float | None) -> bytes:
        body = dict(arguments)
        has_content = body.get("diff") is not None or body.get("path") is not None
        if operation == base_files.OPERATION and has_content and not self.location.is_own:
            body = await self._with_base_files(body, limit_s)
        known = OPERATIONS.get(operation)
        if known and known.keyed and body.get("idempotency_key") is None:
            body["idempotency_key"] = secrets.token_hex(16)
        is_repeatable = known is not None and known.repeatable
        content = orjson.dumps(body)
        began, delay_seconds = time.monotonic(), _FIRST_DELAY_SECONDS
        failed_at: float | None = None
        while True:
            failure: HttpFailure | None = None
            envelope, is_away = b"", True
            try:
                status, envelope = await self._post(operation, content)
            except HttpFailure as error:
                failure = error
                # What did not leave whole had no effect, so that even a lone write may try again.
                may_retry = not isinstance(error, Aborted) and (is_repeatable or isinstance(error, NotSent))
                # Who has the port from the start keeps it.
                may_retry = may_retry and (self._contacted or not isinstance(error, Stranger))
            else:
                self._contacted = True
                is_away = status == Unavailable.status and _takes_nothing(envelope)
                # The connection goes to another one next. What it was about may have been done all the same.
                goes_on = status == Unavailable.status and len(self._client().targets) > 1 and is_repeatable
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
                raise unreachable(self.location, failure) from failure
            await asyncio.sleep(delay_seconds)
            delay_seconds = min(2 * delay_seconds, _LONGEST_DELAY_SECONDS)

    async def _with_base_files(self, arguments: dict[str, Any], limit_s: float | None) -> dict[str, Any]:
        """A proposal with the base's files, where the broker has another repository than this one, or none."""
        if self._projects is None:
            listed = orjson.loads(await self._call("list_projects", {}, limit_s))
            found = listed["data"]["projects"] if listed["ok"] else ()
            self._projects = {one["project"]: one["root"] for one in found}
        project = arguments.get("project") or self._project or owner(".", self._projects)
        if not base_files.is_wanted(self.url.partition(",")[0], arguments, self._projects, project):
            return arguments
        return await asyncio.to_thread(base_files.with_base_files, arguments, ".")

    async def data(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        """Any operation by name; answers with the data as JSON values.

        Args:
            operation: The operation's name.
            arguments: The request as JSON values.

        Raises:
            TandemError: The broker refuses, or none answers; the subclass is that of the code.
        """
        return _data(await self.call(operation, arguments))

    async def wait_for_turn(
        self, review_id: str, cursor: str | None = None, timeout_s: float | None = None
    ) -> ReviewStatus:
        """Wait until the proposer has something to do, or the time is up.

        Args:
            review_id: The review.
            cursor: Cursor of an earlier answer: wait for what comes after it. By default the state of now counts.
            timeout_s: Seconds; by default as long as it takes.
        """
        return await self._wait_for_status(review_id, cursor, timeout_s, "turn", is_proposers_turn, has_changed)

    async def wait_for_verdict(
        self, review_id: str, cursor: str | None = None, timeout_s: float | None = None
    ) -> ReviewStatus:
        """Wait until the review is decided or closed or needs a person's attention, or the time is up.

        Args:
            review_id: The review.
            cursor: Cursor of an earlier answer: wait for what comes after it. By default the state of now counts.
            timeout_s: Seconds; by default as long as it takes.
        """
        return await self._wait_for_status(review_id, cursor, timeout_s, "any", is_decided, is_decided)

    async def wait_until(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        *,
        ready: Condition,
        done: Condition = has_changed,
        timeout_s: float | None = None,
    ) -> bytes:
        """Repeat a waiting operation until its answer satisfies, is a refusal, or the time is up.

        Args:
            operation: An operation that takes `wait`, `cursor` and `timeout_s`.
            arguments: Its other arguments. Without a cursor the state is read first, and the wait begins there.
            ready: Whether that first answer satisfies already.
            done: Whether a later answer does.
            timeout_s: Seconds; null for as long as it takes.

        Returns:
            The last envelope.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        given = dict(arguments)
        while True:
            if given.get("cursor") is None:
                envelope = await self.call(operation, given)
                data = _data_if_ok(envelope)
                if data is None or ready(data):
                    return envelope
                # Even when the time is up: only a wait from a cursor says whether anything has changed since.
                given["cursor"] = data.get("cursor")
            began = time.monotonic()
            asked_seconds = CALL_SECONDS if deadline is None else min(CALL_SECONDS, max(0.0, deadline - began))
            asked = {**given, "wait": True, "timeout_s": round(asked_seconds, 3)}
            within_s = None if deadline is None else max(0.0, deadline - began) + _LATE_SECONDS
            envelope = await self.call(operation, asked, within_s=within_s)
            data = _data_if_ok(envelope)
            is_over = deadline is not None and time.monotonic() >= deadline
            if data is None and _code(envelope) == CursorExpired.code and given["cursor"] != arguments.get("cursor"):
                # A copy of the database was restored meanwhile: what there is now has to be looked at anew.
                given["cursor"], data = None, {}
            elif data is None or done(data) or is_over:
                return envelope
            else:
                given["cursor"] = data.get("cursor")
            if not has_changed(data) and time.monotonic() - began < asked_seconds / 2:
                # A broker that is stopping answers its waits early; do not hammer it meanwhile.
                await asyncio.sleep(_EARLY_ANSWER_PAUSE_SECONDS)

    async def _wait_for_status(
        self,
        review_id: str,
        cursor: str | None,
        timeout_s: float | None,
        wake_on: str,
        ready: Condition,
        done: Condition,
    ) -> ReviewStatus:
        arguments = {"review_id": review_id, "wake_on": wake_on, "cursor": cursor}
        envelope = await self.wait_until("get_review_status", arguments, ready=ready, done=done, timeout_s=timeout_s)
        return read_envelope(envelope, OPERATIONS["get_review_status"].answer)

    async def _operate(self, operation: str, given: Mapping[str, Any]) -> Any:
        # What is not stated is not sent, so that with the next version's defaults the same call is the same body.
        defaults: dict[str, Any] = getattr(type(self), operation).__kwdefaults__ or {}
        fields = {
            name: _json_value(value) for name, value in given.items() if name != "self" and value != defaults.get(name)
        }
        return read_envelope(await self.call(operation, fields), OPERATIONS[operation].answer)

    async def _post(self, operation: str, body: bytes) -> tuple[int, bytes]:
        status, content = await self._exchange(f"/api/v1/{operation}{self._query}", body)
        if not content.lstrip().startswith((b'{"ok":', b'{"ok" :')):
            raise Unreachable(
                f"What answers at {self.url} is not a Tandem broker (HTTP {status}). "
                f"The address is from {self.location.origin}. {self.location.advice()}",
                url=self.url,
            )
        return status, content

    async def _exchange(self, path: str, body: bytes) -> tuple[int, bytes]:
        """One request and the status and body of its answer; whoever is cancelled hangs up."""
        client = self._client()
        exchange = Exchange()
        ended: Future[tuple[int, bytes]] = Future()
        ended.set_running_or_notify_cancel()

        def carry_out() -> None:
            try:
                answer = client.request("POST", path, body, self._headers, exchange)
                ended.set_result((answer.status, answer.read()))
            except Exception as error:  # noqa: BLE001 - whoever awaits it gets it, whatever it is
                ended.set_exception(error)

        self._exchanges.add(exchange)
        Thread(target=carry_out, name="tandem-call", daemon=True).start()
        try:
            return await asyncio.wrap_future(ended)
        finally:
            self._exchanges.discard(exchange)
            # Of an exchange that has ended, this changes nothing.
            exchange.abort()

    def _client(self) -> HttpClient:
        if self._http is None:
            try:
                self._http = HttpClient(
                    *targets(self.url),
                    silence_seconds=_ANSWER_SECONDS,
                    credentials=Credentials(self.location),
                    owner_dirs=self.location.owner_dirs,
                )
            except NoToken as error:
                raise ConfigInvalid(str(error), setting=TOKEN_VARIABLE, origin="environment") from None
            except ValueError as error:
                raise unreachable(self.location, error) from error
            if not "".join(self._headers.values()).isprintable():
                raise InvalidInput("The agent's name must be a single line of text.", field="agent")
        return self._http


def unreachable(broker: BrokerLocation, failure: Exception) -> Unreachable:
    """That a broker does not answer: where it was looked for, who said so, and what to do."""
    advice = broker.advice(failure)
    if not broker.url:
        return Unreachable(f"No broker runs on {broker.data_dir}. {advice}", url=None, origin=broker.origin)
    reason = str(failure) or type(failure).__name__
    said = f"No broker answers at {broker.url}, from {broker.origin} ({reason}). {advice}"
    return Unreachable(said, url=broker.url, origin=broker.origin)


def read_envelope(envelope: bytes, answer: type[Answer]) -> Answer:
    """The typed answer inside an envelope.

    Raises:
        TandemError: The envelope is a refusal; the subclass is that of its code.
        InternalError: The data is not what this version of the client expects.
    """
    data = _data(envelope)
    try:
        return _adapter(answer).validate_python(data)
    except ValidationError as error:
        raise InternalError(
            f"The broker's answer is not a {answer.__name__} as this version knows it; are both of one version?",
            problems=[problem["loc"] for problem in error.errors()[:5]],
        ) from error


def _data_if_ok(envelope: bytes) -> dict[str, Any] | None:
    content: dict[str, Any] = orjson.loads(envelope)
    return content["data"] if content.get("ok") else None


def _code(envelope: bytes) -> str | None:
    return orjson.loads(envelope)["error"].get("code")


def _takes_nothing(envelope: bytes) -> bool:
    """Whether a broker refused because it starts or stops: then it has not looked at the call."""
    return "phase" in orjson.loads(envelope)["error"].get("details", {})


def _data(envelope: bytes) -> Any:
    content: dict[str, Any] = orjson.loads(envelope)
    if not content.get("ok"):
        raise error_from(content.get("error") or {})
    return content.get("data")


@cache
def _adapter(answer: type[Answer]) -> TypeAdapter[Answer]:
    return TypeAdapter(answer)


def _json_value(value: Any) -> Any:
    match value:
        case BaseModel():
            return value.model_dump(exclude_none=True, exclude_unset=True)
        case list() | tuple():
            return [_json_value(item) for item in value]  # pyright: ignore[reportUnknownVariableType] any JSON value
        case _:
            return value
