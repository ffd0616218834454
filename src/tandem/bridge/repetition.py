"""What may be sent again after the broker went away, and how it must then read.

Reads may. A write may when it carries an idempotency key, so each one is given one. A wait is pinned to
a cursor before it begins, and asks only for the time that is left when it is sent again.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from tandem.bridge.operations import OPERATIONS
from tandem.bridge.project import CREATE_REVIEW

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tandem.bridge.messages import Message

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
        self.is_repeatable = message.method != "tools/call" or is_safe or has_key
        waits = message.tool is not None and arguments.get("wait") is True
        has_content = arguments.get("diff") is not None or arguments.get("path") is not None
        self.is_proposal = message.tool == CREATE_REVIEW and has_content
        self.is_unpinned = waits and arguments.get("cursor") is None
        self._wait_seconds = _asked_seconds(arguments) if waits else None
        self._begun = time.monotonic()
        self._was_sent = False

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
        """How long a wait has still to last; 0 for what is no wait."""
        if self._wait_seconds is None:
            return 0.0
        return max(0.0, self._wait_seconds - (time.monotonic() - self._begun))

    def glance(self) -> bytes:
        """An unpinned wait as a wait of no length: answers what is known, with the cursor to pin."""
        return self.message.with_arguments(timeout_s=0)

    def pin(self, cursor: str) -> None:
        """From now on, wait for what comes after this cursor."""
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
