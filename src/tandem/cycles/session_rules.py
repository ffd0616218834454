"""Sessions of roles, and the keys that open them."""

from __future__ import annotations

from typing import NamedTuple

_MICROSECONDS = 1_000_000


class CycleKey(NamedTuple):
    """The pre-shared key of one role. Field order is the column order of its table.

    `key_hash` is a salted hash, and empty once the key was revoked; times are microseconds since the epoch, UTC.
    """

    project: str
    workflow: str
    role: str
    key_hash: str
    created_at: int
    revoked_at: int | None = None
    event_seq: int = 0
    event_hash: str = ""

    @property
    def subject(self) -> str:
        """What its events are about."""
        return f"key:{self.project}/{self.workflow}/{self.role}"


class Session(NamedTuple):
    """One session of a role. Field order is the column order of its table.

    Its token is not stored: it is derived from the id. Times are microseconds since the epoch, UTC.
    """

    id: str
    project: str
    workflow: str
    role: str
    opened_at: int
    last_seen_at: int
    ended_at: int | None = None
    end_reason: str | None = None
    event_seq: int = 0
    event_hash: str = ""

    @property
    def subject(self) -> str:
        """What its events are about."""
        return f"session:{self.id}"

    def idle(self, now_us: int, idle_seconds: float) -> bool:
        """Whether it was not used for too long."""
        return now_us - self.last_seen_at > idle_seconds * _MICROSECONDS
