"""One message on its way to the broker and its answer back, through outages.

After the broker went away reads may be sent again; a write may when it carries an idempotency key, so each one is
given one. A wait is pinned to a cursor before it begins, and asks only for the time that is left when it is sent
again.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from tandem.bridge import messages
from tandem.bridge.credentials import FILE_VARIABLE, KEY_VARIABLE, stated_key, stated_role
from tandem.bridge.http import Exchange, quoted
from tandem.bridge.location import Aborted, HttpFailure, NotSent, ResponseLost, is_local
from tandem.bridge.messages import cursor_to_pin, protocol_version, replies
from tandem.bridge.operations import OPERATIONS
from tandem.bridge.project import CREATE_REVIEW
from tandem.bridge.submitted import ORIGIN, REMEMBERED, remember
from tandem.errors import ConfigInvalid, Unavailable
from tandem.git.place import linked_head

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tandem.bridge.broker import BrokerLocator
    from tandem.bridge.http import HttpClient, HttpResponse
    from tandem.bridge.messages import Message
    from tandem.bridge.project import ProjectFinder
    from tandem.errors import InvalidInput


OUTAGE_SECONDS = 30.0
"""How long a request outlasts a broker that is away; with the longest wait still under a client's minute."""

WELCOME_SECONDS = 4.0
"""How long `initialize` waits for the broker, before the bridge answers it: clients give up a server soon."""

_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 1.0
_EARLY_SECONDS = 1.0
"""A wait that ends without news this long before its time was cut short, or is longer than the broker allows."""

_OK = 200
_WITHOUT_PROJECT = frozenset({"initialize", "server/discover", "ping", "tools/list"})

_OPENING_TOOL = "session_open"
_OF_ONE_PROJECT = frozenset({CREATE_REVIEW, "check_gate", _OPENING_TOOL, "cycle_start", "cycle_status"})
_NAMES_PROJECT = ("project", "review_id", "parent_id")


class PendingRequest:
    """A request that the client awaits; aborting its exchange cancels it, and frees the broker's side too.

    Attributes:
        message: The request.
        exchange: Its connection.
        was_heard: Whether the broker took the last attempt up, so that what follows is a new outage.
        failure: How the last attempt failed; None if none has.
    """

    def __init__(self, message: Message) -> None:
        self.message = message
        self.exchange = Exchange()
        self.was_heard = False
        self.failure: HttpFailure | None = None
        self._is_settled = threading.Lock()

    def settle(self) -> bool:
        """Take the right to give its one answer; false if it is taken already."""
        return self._is_settled.acquire(blocking=False)


class Route(NamedTuple):
    """How requests are addressed.

    Attributes:
        role: Whose tools they may call; None for all.
        project: The project that the user named.
        finder: Finds it by the folder where none was named.
        agent: The identity to state; None for none.
    """

    role: str | None
    project: str | None
    finder: ProjectFinder
    agent: str | None


class Forwarder:
    """Sends messages to the broker and writes its answers. Safe to share between threads."""

    def __init__(self, broker: BrokerLocator, route: Route, write: Callable[[bytes], None]) -> None:
        self._broker = broker
        self._route = route
        self._write = write
        self._negotiated: str | None = None

    def notify(self, message: Message) -> None:
        """Pass a notification on if the broker is there; it has no answer."""
        client = self._broker.client
        if client is None:
            return
        with contextlib.suppress(HttpFailure):
            self._post(client, message, message.raw, Exchange()).read()

    def answer(self, request: PendingRequest) -> None:
        """Get a request answered, through outages of the broker; nothing is written once it is cancelled."""
        if request.message.method != "initialize":
            self._answer(request)
            return
        timer = threading.Timer(WELCOME_SECONDS, self._welcome, (request,))
        timer.daemon = True
        timer.start()
        try:
            self._answer(request)
        finally:
            timer.cancel()

    def _welcome(self, request: PendingRequest) -> None:
        if not request.exchange.is_aborted and request.settle():
            missed = request.failure or NotSent(f"it has not answered for {WELCOME_SECONDS:g} s")
            reply = messages.welcome(request.message, self._broker.refusal(missed).message)
            self._negotiated = protocol_version(reply)
            self._write(reply)
            request.exchange.abort()

    def _answer(self, request: PendingRequest) -> None:
        try:
            call = Call(request.message, {**_opening(request.message), **self._base(request.message)})
        except ConfigInvalid as trouble:
            self._say(request, messages.refusal(request.message, trouble.as_dict()))
            return
        pause = _FIRST_PAUSE_SECONDS
        outage_since: float | None = None
        while not request.exchange.is_aborted:
            client = self._broker.client
            try:
                self._attempt(client, call, request)
            except Aborted:
                return
            except HttpFailure as failure:
                request.failure = failure
                if outage_since is None or request.was_heard:
                    outage_since = time.monotonic()
                refused = self._give_up(call, failure, outage_since)
            else:
                self._broker.answered()
                return
            if refused is not None:
                self._say(request, messages.refusal(request.message, refused.as_dict()))
                return
            request.was_heard = False
            self._broker.revive(client)
            with contextlib.suppress(Aborted):
                request.exchange.pause(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _give_up(self, call: Call, failure: HttpFailure, outage_since: float) -> Unavailable | None:
        """The error to end with after a failed attempt; None to go on trying."""
        is_lost = isinstance(failure, ResponseLost) and call.may_have_acted
        call.is_lost = call.is_lost or is_lost
        seconds = time.monotonic() - outage_since
        if seconds > OUTAGE_SECONDS or self._broker.is_stuck(failure, seconds):
            refused = self._broker.refusal(failure)
            return _unknown_outcome(refused, failure, call) if call.is_lost else refused
        if call.is_repeatable or not is_lost:
            return None
        return _unknown_outcome(Unavailable("The broker went away before it answered."), failure, call)

    def _attempt(self, client: HttpClient | None, call: Call, request: PendingRequest) -> None:
        if client is None:
            raise NotSent("none runs on this user's data")
        if (refused := self._refusal(client, call, request)) is not None:
            self._say(request, messages.refusal(call.message, refused.as_dict()))
            return
        if call.is_proposal:
            finder, project = self._route.finder, self._route.project
            call.complete(finder.with_base_files(call.arguments, project, client, request.exchange))
        if call.is_unpinned:
            seen = list(self._converse(client, call.message, call.glance(), request))
            cursor = cursor_to_pin(seen[-1])
            if cursor is None:
                self._say(request, *seen)
                return
            call.pin(cursor)
        for reply in self._converse(client, call.message, call.line(), request):
            if (
                call.seconds_left() > _EARLY_SECONDS
                and cursor_to_pin(reply)
                and not _is_ready(client, request.exchange)
            ):
                # It answers its waits when it is asked to stop; the client asked to wait for longer.
                raise NotSent("it stopped during the wait")
            if call.message.method == "initialize":
                self._negotiated = protocol_version(reply) or self._negotiated
            if call.message.tool in REMEMBERED:
                told: dict[str, Any] = {**call.arguments, "metadata": {ORIGIN: {}}}
                remember(self._route.finder.folder, call.message.tool, told, messages.data_of(reply))
            self._say(request, reply)

    def _refusal(self, client: HttpClient, call: Call, request: PendingRequest) -> InvalidInput | None:
        """The error for a call from a repository of no project; where the broker is, folders are another machine's."""
        is_told = self._route.project is not None or any(call.arguments.get(name) for name in _NAMES_PROJECT)
        if is_told or call.message.tool not in _OF_ONE_PROJECT or not is_local(client.target.url):
            return None
        return self._route.finder.refusal(client, request.exchange)

    def _converse(self, client: HttpClient, message: Message, line: bytes, request: PendingRequest) -> Iterator[bytes]:
        project = self._project(client, message, request.exchange)
        query = "" if project is None else "?project=" + quoted(project)
        answer = self._post(client, message, line, request.exchange, query)
        request.was_heard = answer.status == _OK
        return replies(answer, message)

    def _post(
        self, client: HttpClient, message: Message, line: bytes, exchange: Exchange, query: str = ""
    ) -> HttpResponse:
        head = {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            **messages.headers(message, self._negotiated),
        }
        if self._route.agent:
            head["Tandem-Agent"] = self._route.agent
        path = "/mcp" if self._route.role is None else f"/mcp/{self._route.role}"
        return client.request("POST", path + query, line, head, exchange)

    def _base(self, message: Message) -> dict[str, str]:
        """The base of a diff that names none and comes from a linked working tree: a broker takes the main one's."""
        given = message.arguments
        names_one = message.tool != CREATE_REVIEW or given.get("diff") is None or given.get("base") is not None
        head = None if names_one else linked_head(self._route.finder.folder)
        return {} if head is None else {"base": head}

    def _project(self, client: HttpClient, message: Message, exchange: Exchange) -> str | None:
        route = self._route
        if route.project is not None or message.method in _WITHOUT_PROJECT:
            return route.project
        if message.arguments.get("project") is not None:
            return None
        return route.finder.find(client, exchange)

    def _say(self, request: PendingRequest, *replies: bytes) -> None:
        if request.message.method == "initialize" and not request.settle():
            return
        for reply in replies:
            if not request.exchange.is_aborted:
                self._write(reply)


def _is_ready(client: HttpClient, exchange: Exchange) -> bool:
    """Whether the broker that was asked last takes new work, which one that is stopping does not."""
    target = client.target
    try:
        answer = client.request("GET", "/healthz", b"", {"Accept": "application/json"}, exchange)
        answer.read()
    except (NotSent, ResponseLost):
        return False
    # Where it has gone, another one may have answered.
    return answer.status == _OK and client.target is target


def _unknown_outcome(refused: Unavailable, failure: HttpFailure, call: Call) -> Unavailable:
    key = call.arguments.get(_KEY)
    again = f"repeat it with idempotency_key '{key}'" if key else "give an idempotency_key"
    unknown = Unavailable(
        f"{refused.message} Whether the call had its effect is unknown. Look before you repeat it, or {again}.",
        **{**refused.details, "outcome": "unknown", "reason": str(failure)},
    )
    unknown.retryable = False
    return unknown


DEFAULT_WAIT_SECONDS = 25.0
"""What the contract says a wait lasts that names no time."""

_LONGEST_WAIT_SECONDS = 50.0
_KEY = "idempotency_key"


class Call:
    """One request on its way, possibly several times.

    Args:
        message: What the client sent.
        additions: Arguments of its tool call that the bridge has, not the client.

    Attributes:
        message: What the client sent.
        is_repeatable: Whether it may be sent again when its fate is unknown.
        is_lost: Whether it may have had its effect in an attempt that failed.
        is_unpinned: Whether it is a wait that has no cursor yet.
        is_proposal: Whether it may need more than the client has, which depends on the broker.
    """

    def __init__(self, message: Message, additions: Mapping[str, Any] | None = None) -> None:
        self.message = message
        arguments = message.arguments
        self._changes: dict[str, Any] = dict(additions or {})
        known = OPERATIONS.get(message.tool or "")
        if known is not None and known.keyed and arguments.get(_KEY) is None and _takes_arguments(message):
            self._changes[_KEY] = "bridge-" + os.urandom(16).hex()
        has_key = arguments.get(_KEY) is not None or _KEY in self._changes
        is_safe = known is not None and known.repeatable and not known.keyed
        self._is_safe = message.method != "tools/call" or is_safe
        self.is_lost = False
        self.is_repeatable = self._is_safe or has_key
        waits = message.tool is not None and arguments.get("wait") is True
        has_content = arguments.get("diff") is not None or arguments.get("path") is not None
        self.is_proposal = message.tool == CREATE_REVIEW and has_content
        self.is_unpinned = waits and arguments.get("cursor") is None
        self._wait_seconds = _asked_seconds(arguments) if waits else None
        self._begun = time.monotonic()
        self._was_sent = False

    @property
    def may_have_acted(self) -> bool:
        """Whether it has been sent and does more than read."""
        return self._was_sent and not self._is_safe

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments as they are sent."""
        return {**self.message.arguments, **self._changes}

    def complete(self, additions: Mapping[str, Any]) -> None:
        """Add what a proposal needs; sent again, it is the same."""
        self._changes.update(additions)
        self.is_proposal = False

    def line(self) -> bytes:
        """The message as it must be sent now; the time since the call came counts as waited."""
        if self._wait_seconds is not None and self._was_sent:
            self._changes["timeout_s"] = round(self.seconds_left(), 3)
        self._was_sent = True
        return self.message.with_arguments(**self._changes) if self._changes else self.message.raw

    def seconds_left(self) -> float:
        """How long a wait has still to last; 0 for any other message."""
        if self._wait_seconds is None:
            return 0.0
        return max(0.0, self._wait_seconds - (time.monotonic() - self._begun))

    def glance(self) -> bytes:
        """An unpinned wait as a wait of no length: answers the present state, with the cursor to pin."""
        return self.message.with_arguments(timeout_s=0)

    def pin(self, cursor: str) -> None:
        """From now on, wait for events after this cursor."""
        self._changes["cursor"] = cursor
        self.is_unpinned = False


def _takes_arguments(message: Message) -> bool:
    """Whether an argument can be added without turning a refusable request into another one."""
    return isinstance(message.params.get("arguments", {}), dict)


def _asked_seconds(arguments: dict[str, Any]) -> float:
    asked = arguments.get("timeout_s")
    if isinstance(asked, int | float) and not isinstance(asked, bool):
        return min(float(asked), _LONGEST_WAIT_SECONDS)
    return DEFAULT_WAIT_SECONDS


def _opening(message: Message) -> dict[str, str]:
    """The key and the role that a call to open a session leaves to its bridge; nothing for all other messages.

    Raises:
        ConfigInvalid: The call leaves out the key, and there is none.
    """
    if message.tool != _OPENING_TOOL or not isinstance(message.params.get("arguments", {}), dict):
        return {}
    found: dict[str, str] = {}
    role = stated_role() if _is_left_out(message.arguments.get("role")) else None
    if role is not None:
        found["role"] = role
    if _is_left_out(message.arguments.get("psk")):
        key = stated_key()
        if key is None:
            raise ConfigInvalid(
                f"The session has no key to open it with. Put the role's key into {KEY_VARIABLE}, or into a file that"
                f" {FILE_VARIABLE} names, in the environment in which the client starts 'tandem mcp'; 'tandem cycle"
                " init' makes the keys.",
                setting=KEY_VARIABLE,
            )
        found["psk"] = key
    return found


def _is_left_out(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())
