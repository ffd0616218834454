"""Who calls: their access, the names that they go by, and when two calls count as the same call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Self, get_args

from tandem.core.visible import folded

OWNER: Final = "owner"
"""The id and name of the person who runs the broker; no token can have it."""

REVIEWER_PREFIX: Final = "reviewer:"
"""Begins the id of the access that a pool's reviewer has; its reviewer's id follows."""

RoleName = Literal["proposer", "reviewer", "operator", "handoff", "supervisor", "admin", "monitor"]
ROLES: Final[tuple[RoleName, ...]] = get_args(RoleName)
"""What a token can be for, in the order in which they are shown."""

UNBOUND_ROLES: Final = frozenset({"supervisor", "admin", "monitor"})
"""Roles that concern no single project: a token with one of them is for all projects."""

Subject = Literal["review", "reviewer", "cycle"]
"""What a request can be about that is of one project."""

NAME_LENGTH: Final = 60


@dataclass(frozen=True, slots=True)
class Access:
    """What a caller was let in with.

    Attributes:
        id: `tok_…`; `owner`; or `reviewer:` and a reviewer's id.
        name: Whose it is.
        roles: The roles that it is for.
        project: The one project that it is for; None: all of them.
    """

    id: str
    name: str
    roles: frozenset[str]
    project: str | None

    @property
    def is_owner(self) -> bool:
        """Whether it is that of the person who runs the broker, who may go by any name."""
        return self.id == OWNER

    def calls_itself(self, stated: str | None) -> str | None:
        """The name that a caller goes by who states one: their own, or one behind their own and a slash."""
        if self.is_owner:
            return stated
        if stated is None:
            return self.name
        return stated if self.owns(stated) else f"{self.name}/{stated}"

    def owns(self, name: str | None) -> bool:
        """Whether a name is the caller's own; the owner of the broker stands in for everybody."""
        if self.is_owner:
            return True
        return name is not None and (name == self.name or name.startswith(f"{self.name}/"))


@dataclass(frozen=True, slots=True)
class Names:
    """Which stored names are a caller's own: what decides whether two acts are one principal's.

    With access tokens the token's own name decides, and what follows its slash is a label. On a trusted broker
    names only attribute, and each is compared as a whole.

    Attributes:
        own: Each with `end` behind it.
        end: What a name ends with, as far as it is compared.
    """

    own: tuple[str, ...]
    end: str

    @classmethod
    def of(cls, *stated: str | None, by_token: bool) -> Self:
        """The names of a caller.

        Args:
            stated: Every name that it goes by; None where it states none.
            by_token: Whether the broker needs access tokens.
        """
        end = "/" if by_token else "\n"
        names = (name.partition("/")[0] if by_token else name for name in stated if name)
        return cls(tuple(dict.fromkeys(name + end for name in names)), end)

    def include(self, name: str | None) -> bool:
        """Whether a stored name is one of them."""
        if name is None:
            return False
        known = folded(name) + self.end
        return any(known.startswith(folded(one.removesuffix(self.end)) + self.end) for one in self.own)


OWNER_ACCESS: Final = Access(OWNER, OWNER, frozenset(ROLES), None)


class AccessToken(NamedTuple):
    """One token as it is stored. Field order is the column order of its table.

    Attributes:
        roles: Separated by commas, sorted.
        token_hash: SHA-256 of the token's text in hexadecimal digits; the text itself is stored nowhere.
        created_at: Microseconds since the epoch, UTC, like the other times.
    """

    id: str
    name: str
    roles: str
    project: str | None
    token_hash: str
    created_at: int
    created_by: str
    expires_at: int | None
    revoked_at: int | None = None
    event_seq: int = 0
    event_hash: str = ""

    @property
    def subject(self) -> str:
        """What its events are about."""
        return f"token:{self.id}"

    @property
    def access(self) -> Access:
        """The access of its bearer."""
        return Access(self.id, self.name, frozenset(self.roles.split(",")), self.project)

    def state(self, now_us: int) -> str:
        """`valid`, `revoked` or `expired` at a time."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now_us else "valid"


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
        keeps_refusals: Whether a refusal, too, is the answer to its key from then on. Not that of a form, whose drafts
            are sent again by the same key.
    """

    role: str | None = None
    project: str | None = None
    agent: str | None = None
    principal: str = "local"
    key: Key | None = None
    access: Access | None = None
    is_page: bool = False
    keeps_refusals: bool = True

    @property
    def operator(self) -> str:
        """Who acts, for the log, where an operator need state no name."""
        return self.agent or "operator"

    def names(self, *stated: str | None) -> Names:
        """The names that the caller goes by, those included that it states in the request."""
        return Names.of(self.agent, *stated, by_token=self.access is not None)
