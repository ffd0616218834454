"""Who calls, as far as the interface can tell, and when two calls count as the same call."""

from __future__ import annotations

from dataclasses import dataclass

from tandem.contract.access import Access, Names


@dataclass(frozen=True, slots=True)
class Key:
    """An idempotency key in its scope (principal, project as sent, operation), and the hash of the body as sent."""

    principal: str
    project: str
    operation: str
    key: str
    body_hash: str

    @property
    def name(self) -> str:
        """The same for calls that repeat each other."""
        return f"key {self.principal} {self.project} {self.operation} {self.key}"


@dataclass(frozen=True, slots=True)
class Caller:
    """The circumstances of a call that are not in its body.

    Attributes:
        role: The role endpoint it came by; None where the interface has no role.
        project: The endpoint's `?project=`, or what the bridge or command line found.
        agent: The identity that the client states in `Tandem-Agent`; None if it states none.
        principal: Whose idempotency keys these are; `local` on a trusted local broker.
        key: The call's idempotency key in its scope; the dispatcher fills it in.
        access: What the caller was let in with; None on a trusted broker.
        is_page: Whether a page of the broker calls for a person, whose browser is known to be theirs.
    """

    role: str | None = None
    project: str | None = None
    agent: str | None = None
    principal: str = "local"
    key: Key | None = None
    access: Access | None = None
    is_page: bool = False

    @property
    def operator(self) -> str:
        """Who acts, for the log, where an operator need state no name."""
        return self.agent or "operator"

    def names(self, *stated: str | None) -> Names:
        """The names that the caller goes by, those included that it states in the request."""
        return Names.of(self.agent, *stated, by_token=self.access is not None)
