"""Idempotency keys: what makes two calls the same call."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Key:
    """A key in its scope (principal, project as it was sent, operation), and the hash of the body it came with."""

    principal: str
    project: str
    operation: str
    key: str
    body_hash: str
