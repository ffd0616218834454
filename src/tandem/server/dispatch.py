"""Validates, authorises and runs one operation: the one way into the services, for every interface."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, cast
from weakref import WeakValueDictionary

import orjson
from pydantic import ValidationError

from tandem.contract.caller import Caller, Key
from tandem.contract.operation import Handler, Operation, Registry
from tandem.contract.request import ProjectRequest, Request, WriteRequest
from tandem.core.clock import Clock
from tandem.errors import (
    Forbidden,
    IdempotencyConflict,
    InternalError,
    InvalidInput,
    TandemError,
    Unavailable,
    error_from,
)
from tandem.reviews.context import Services
from tandem.server.authorisation import Authorisation
from tandem.server.metrics import Durations
from tandem.store.context import PLAIN_HASH, SEALED_HASH, Replayed, envelope, find_answer, keep_refusal
from tandem.store.jobs import lane

TRACEPARENT: ContextVar[str | None] = ContextVar("traceparent", default=None)
"""The caller's own span, as W3C Trace Context writes it, which the spans of a request go on from."""

OperationSpan = Callable[[str], AbstractContextManager[Callable[[str], None]]]
"""Opens a span around an operation, and gives a function that notes its outcome."""

_log = logging.getLogger("tandem.server")
_MOST_PROBLEMS = 1000
_MOST_FIELDS = 100
_FIELD_LENGTH = 60
_LONG = 1_000
"""Items of a list; a longer one is validated in a thread."""
_JSON_KINDS = {str: "a string: send the object itself", list: "an array", bool: "true or false", type(None): "null"}
_SCOPE = frozenset({"project", "idempotency_key"})
"""What a key's scope has, and its body need not."""


@dataclass(frozen=True, slots=True)
class CallResult:
    """What became of a call: an answer, or a refusal.

    Attributes:
        answer: The operation's typed answer; its JSON data where the same call was answered before. None of a refusal.
        error: The refusal or fault; None of an answer.
    """

    answer: Any = None
    error: TandemError | None = None

    @property
    def ok(self) -> bool:
        """Whether the operation was done."""
        return self.error is None

    @property
    def status(self) -> int:
        """The HTTP status that goes with it."""
        return 200 if self.error is None else self.error.status

    @property
    def code(self) -> str:
        """`OK`, or the code of the refusal."""
        return "OK" if self.error is None else self.error.code

    def body(self) -> bytes:
        """Serialises the envelope, as UTF-8 JSON."""
        if self.error is None:
            return envelope(self.answer)
        return orjson.dumps({"ok": False, "error": self.error.as_dict()})


def unexpected(error: Exception, clock: Clock, what: str, **facts: str) -> InternalError:
    """The answer to a fault that nothing expected; the log has it under the same reference."""
    reference = clock.new_id("err")
    _log.error(what, exc_info=error, extra={**facts, "reference": reference})
    message = f"Something went wrong inside the broker. Its log has the reason under {reference}."
    return InternalError(message, reference=reference)


class _Turn(asyncio.Lock):
    """Held while a call with some key is done.

    Attributes:
        trouble: Why the one that was done last was not, though it may be repeated; empty if it was.
    """

    trouble = ""


def _is_long(arguments: Any) -> bool:
    """Whether validating and hashing the arguments takes long enough to hold other calls up."""
    if not isinstance(arguments, dict):
        return False
    given = cast("dict[str, Any]", arguments).values()
    return any(isinstance(value, list) and len(cast("list[Any]", value)) > _LONG for value in given)


def _repeated(body: str, operation: Operation, services: Services) -> CallResult:
    """The outcome that an envelope was stored of."""
    stored = orjson.loads(body)
    if not stored["ok"]:
        return CallResult(error=error_from(stored["error"]))
    data = stored["data"]
    return CallResult(data if operation.reveal is None else operation.reveal(services.tokens, data))


class Dispatcher:
    """Calls operations by name.

    Attributes:
        calls: Operations that were called since the start, by any interface.
        ended: How many of them ended, by operation and outcome: `OK`, the code of a refusal, or `CANCELLED`.
        durations: How long those took that did not ask to wait, by operation.
        span: None unless operations are traced.
    """

    def __init__(
        self,
        registry: Registry,
        handlers: Mapping[str, Handler],
        services: Services,
        clock: Clock,
        authorisation: Authorisation | None = None,
    ) -> None:
        """Make a dispatcher.

        Args:
            registry: The operations.
            handlers: The service function of each, by name.
            services: Passed to each of them.
            clock: Gives reference ids for unknown faults.
            authorisation: Checks what tokens allow; None on a trusted broker.
        """
        self.registry = registry
        self._handlers = handlers
        self._authorisation = authorisation
        self._services = services
        self._clock = clock
        self._under_way: WeakValueDictionary[Key, _Turn] = WeakValueDictionary()
        self.calls = 0
        self.ended: Counter[tuple[str, str]] = Counter()
        self.durations: defaultdict[str, Durations] = defaultdict(Durations)
        self.span: OperationSpan | None = None

    def services_for(self, caller: Caller) -> Services:
        """What the operations of a caller stand on."""
        return self._services if self._authorisation is None else self._authorisation.services_for(caller)

    async def dispatch(self, name: str, arguments: Any, caller: Caller) -> CallResult:
        """Run one operation; never raises but for cancellation."""
        self.calls += 1
        began, outcome = time.perf_counter(), "CANCELLED"
        known = name if self.registry.find(name) is not None else "unknown"
        try:
            outcome_of = self._outcome(name, arguments, caller)
            result = await (outcome_of if self.span is None else self._traced(self.span(known), outcome_of))
            outcome = result.code
            return result
        finally:
            self.ended[known, outcome] += 1
            if not (isinstance(arguments, dict) and cast("dict[str, Any]", arguments).get("wait")):
                self.durations[known].add(time.perf_counter() - began)

    @staticmethod
    async def _traced(
        span: AbstractContextManager[Callable[[str], None]], outcome_of: Coroutine[Any, Any, CallResult]
    ) -> CallResult:
        with span as note:
            result = await outcome_of
            note(result.code)
            return result

    async def _outcome(self, name: str, arguments: Any, caller: Caller) -> CallResult:
        try:
            operation = self.registry.get(name)
            if self._authorisation is not None:
                return await self._authorised(operation, arguments, caller, self._authorisation)
            request = await self._read(operation, arguments, caller)
            return await self._run(operation, request, arguments, caller, self._services)
        except TandemError as error:
            return CallResult(error=error)
        except Exception as error:  # noqa: BLE001 the edge: every other fault becomes an answer, and is logged
            return CallResult(error=unexpected(error, self._clock, "operation failed", operation=name))

    async def call(self, name: str, arguments: dict[str, Any], caller: Caller) -> Any:
        """The typed answer of an operation, for callers within the broker.

        Raises:
            TandemError: The broker refuses, or something went wrong.
        """
        outcome = await self.dispatch(name, arguments, caller)
        if outcome.error is not None:
            raise outcome.error
        return outcome.answer

    async def _authorised(
        self, operation: Operation, arguments: Any, caller: Caller, authorisation: Authorisation
    ) -> CallResult:
        """Run an operation as far as the caller's token allows."""
        admitted, caller = authorisation.admit(operation, arguments, caller)
        request = await self._read(operation, admitted, caller)
        await authorisation.check_subjects(request, caller)
        outcome = await self._run(operation, request, arguments, caller, authorisation.services_for(caller))
        if operation.blocking:
            await authorisation.check_again(request, caller)
        return outcome

    async def _run(
        self, operation: Operation, request: Request, sent: dict[str, Any], caller: Caller, services: Services
    ) -> CallResult:
        lane.set(getattr(request, "project", None) or caller.project or "")
        # A call about a review is of its project, whichever is named or known.
        if isinstance(request, ProjectRequest) and getattr(request, "review_id", None) is None:
            await self._services.projects.learn(request.project, caller.project)
        key = (
            await asyncio.to_thread(self._key, operation, request, sent, caller)
            if operation.request.has_long_list and _is_long(sent)
            else self._key(operation, request, sent, caller)
        )
        if key is None:
            return CallResult(await self._handlers[operation.name](services, caller, request))
        return await self._keyed(operation, request, replace(caller, key=key), key, services)

    async def _keyed(
        self, operation: Operation, request: Request, caller: Caller, key: Key, services: Services
    ) -> CallResult:
        """One effect and one answer per key: an earlier answer is given again, a refusal is kept too."""
        # A repetition waits for the first call's answer, which may be completed after its transaction.
        turn = self._under_way.setdefault(replace(key, body_hash=""), _Turn())
        has_waited = turn.locked()
        async with turn:
            if has_waited and turn.trouble:
                # The next one would find the database no better, and keep the others waiting as long again.
                raise Unavailable(turn.trouble)
            turn.trouble = ""
            try:
                return await self._once(operation, request, caller, key, services)
            except Unavailable as error:
                # It may have been done or not: with its key the same call has one effect.
                if not error.retryable:
                    error = Unavailable(f"{error.message.partition(',')[0]}. Send it again with its idempotency_key.")
                turn.trouble = error.message
                raise error from None

    async def _once(
        self, operation: Operation, request: Request, caller: Caller, key: Key, services: Services
    ) -> CallResult:
        try:
            earlier = await self._services.store.read(lambda unit: find_answer(unit, key))
            if earlier is not None:
                return _repeated(earlier, operation, self._services)
            return CallResult(await self._handlers[operation.name](services, caller, request))
        except Replayed as replayed:
            return _repeated(replayed.envelope, operation, self._services)
        except (IdempotencyConflict, Unavailable):
            raise
        except TandemError as error:
            if error.retryable:
                raise
            # On another node the same call may have been let through meanwhile: then that is the answer.
            if caller.keeps_refusals:
                kept = await keep_refusal(self._services, key, CallResult(error=error).body())
            elif (kept := await self._services.store.read(lambda unit: find_answer(unit, key))) is None:
                raise
            return _repeated(kept, operation, self._services)

    def _key(self, operation: Operation, request: Request, sent: dict[str, Any], caller: Caller) -> Key | None:
        """The call's idempotency key, if it has one, in its scope: the caller, the project as sent, the operation.

        Which project is the default one may change between a call and its repetition, so it is no part of that. Nor is
        what a request has by default, or what this version makes of it: the next one may do otherwise.
        """
        if not isinstance(request, WriteRequest) or request.idempotency_key is None:
            return None
        fields = operation.request.model_fields
        said = {name: value for name, value in sent.items() if name not in _SCOPE and value != fields[name].default}
        body = orjson.dumps(said, option=orjson.OPT_SORT_KEYS)
        return Key(
            principal=caller.agent or caller.principal,
            project=request.project or caller.project or "",
            operation=operation.name,
            key=request.idempotency_key,
            body_hash=self._hash(body, has_secret=operation.reveal is not None or request.contains_key),
        )

    def _hash(self, body: bytes, *, has_secret: bool) -> str:
        """What tells bodies apart, and is the same on every node that the call may be repeated at."""
        if has_secret:
            # A reader of the database cannot try out keys. Nodes that share sessions share the secret, too.
            return SEALED_HASH + self._services.tokens.body_hash(body)
        return PLAIN_HASH + hashlib.sha256(body).hexdigest()

    async def _read(self, operation: Operation, arguments: Any, caller: Caller) -> Request:
        """The validated request."""
        if operation.request.has_long_list and _is_long(arguments):
            return await asyncio.to_thread(self._parse, operation, arguments, caller)
        return self._parse(operation, arguments, caller)

    @staticmethod
    def _parse(operation: Operation, arguments: Any, caller: Caller) -> Request:
        if caller.role is not None and caller.role not in operation.roles:
            raise Forbidden(
                f"'{operation.name}' is not for the role {caller.role}; use an endpoint of one of its roles.",
                operation=operation.name,
                role=caller.role,
                allowed=sorted(operation.roles),
            )
        if not isinstance(arguments, dict):
            kind = next((words for kind, words in _JSON_KINDS.items() if isinstance(arguments, kind)), "a number")
            raise InvalidInput(f"The arguments must be a JSON object, not {kind}.", field="arguments")
        if operation.request.has_long_list:
            _ensure_small_items(operation, cast("dict[str, Any]", arguments))
        try:
            return operation.request.model_validate(arguments)
        except ValidationError as error:
            raise _invalid_input(operation, error) from None


def _ensure_small_items(operation: Operation, arguments: dict[str, Any]) -> None:
    """Refuse an item of a list with more fields than any has: each would be a complaint of its own."""
    for name, given in arguments.items():
        for at, item in enumerate(cast("list[Any]", given) if isinstance(given, list) else ()):
            if isinstance(item, dict) and len(cast("dict[str, Any]", item)) > _MOST_FIELDS:
                raise InvalidInput(
                    f"{operation.name}: {_field((name, at))}: it has more than {_MOST_FIELDS} fields.",
                    field=_field((name, at)),
                    limit=_MOST_FIELDS,
                )


def _field(place: tuple[int | str, ...]) -> str:
    """Where a complaint is; names that are no field's may have any length."""
    return ".".join(name if len(name) <= _FIELD_LENGTH else f"{name[:_FIELD_LENGTH]}…" for name in map(str, place))


def _invalid_input(operation: Operation, error: ValidationError) -> InvalidInput:
    """The first complaint in words, the first ones in the details; never the refused values."""
    if error.error_count() > _MOST_PROBLEMS:  # to word them would take longer than everything else
        return InvalidInput(
            f"{operation.name}: {error.error_count()} things are wrong with the arguments; details.allowed_fields "
            "lists the fields there are.",
            field="arguments",
            allowed_fields=sorted(operation.request.model_fields),
        )
    problems = [
        {"field": _field(problem["loc"]) or "arguments", "problem": problem["msg"]}
        for problem in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    first = problems[0]
    allowed = sorted(operation.request.model_fields)
    return InvalidInput(
        f"{operation.name}: {first['field']}: {first['problem']}.",
        field=first["field"],
        problems=problems[:20],
        allowed_fields=allowed,
    )
