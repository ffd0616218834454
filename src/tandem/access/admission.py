"""Who is let in: bearer tokens, the owner's token, the passes of a pool's reviewers, and login codes."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from typing import Any, Final, cast

import orjson

from tandem.access import queries as access_tokens
from tandem.contract.caller import OWNER, OWNER_ACCESS, REVIEWER_PREFIX, Access, AccessToken
from tandem.core.clock import MICROSECONDS, Clock
from tandem.core.secret_key import Tokens
from tandem.errors import Unauthenticated, Unavailable
from tandem.store.base import Store, Unit

LOGIN_SECONDS: Final = 60
"""How long a login code can be redeemed."""

TOKEN_PREFIX: Final = "tok_"  # noqa: S105 - begins ids, proves nothing
_OWNER_PREFIX = "tdm_o_"
_START_SECONDS = 10
_SECRET_BYTES = 32
_LONGEST_BEARER = 4096
_TOKEN = re.compile(r"tdm_(?P<id>[0-9a-hjkmnp-tv-z]{18})_[A-Za-z0-9_-]{43}")
_PASS = re.compile(r"tdm_r_(?P<body>[A-Za-z0-9_-]+)\.(?P<seal>[0-9a-f]{64})")
_CODE = re.compile(r"(?P<body>[A-Za-z0-9_-]+)\.(?P<seal>[0-9a-f]{64})")
_REVIEWER_ROLES: Final = frozenset({"reviewer"})
_HOW = "Ask the person who runs the broker for one (tandem token create NAME --role ROLE), and set TANDEM_TOKEN to it."


class Authenticator:
    """Identifies a request's sender by its credentials; on a trusted broker no one in particular.

    Nothing is remembered from one request to the next, so that a revocation counts at once on every node.

    Attributes:
        required: Whether calls need a token.
        owner_token: The token of the broker's owner, new at each start; None where none is required.
        published: Set once clients can find the owner's token; who may want to look it up is not refused before.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        tokens: Tokens,
        *,
        required: bool,
        reviewer_project: Callable[[Unit, str], str | None],
    ) -> None:
        """Wire it up.

        Args:
            store: Where tokens and ended logins are kept.
            clock: The time.
            tokens: Seals passes and login codes.
            required: Whether calls need a token.
            reviewer_project: The project of a pool's reviewer that has not ended; None for every other name.
        """
        self.required = required
        self.owner_token = f"{_OWNER_PREFIX}{secrets.token_urlsafe(_SECRET_BYTES)}" if required else None
        self.published = asyncio.Event()
        self.published.set()
        self._store = store
        self._clock = clock
        self._tokens = tokens
        self._reviewer_project = reviewer_project
        self._run = secrets.token_hex(8)

    def __repr__(self) -> str:
        return f"Authenticator(required={self.required})"

    async def admit(self, bearer: str | None) -> Access | None:
        """Who has a token; None on a trusted broker.

        Raises:
            Unauthenticated: There is none, or it is unknown, expired or revoked; says which and what to do.
            Unavailable: It may be the owner's of the start before, and that of this one is not published for long.
        """
        if not self.required:
            return None
        if bearer is None:
            await self._until_published()
            raise Unauthenticated(
                f"This broker needs an access token: send it as 'Authorization: Bearer …'. {_HOW}", reason="missing"
            )
        if len(bearer) > _LONGEST_BEARER:
            raise _unknown()
        if self.owner_token is not None and hmac.compare_digest(bearer.encode(), self.owner_token.encode()):
            return OWNER_ACCESS
        found = _TOKEN.fullmatch(bearer)
        if found is not None:
            return await self._bearer_of(bearer, TOKEN_PREFIX + found["id"])
        if bearer.startswith(_OWNER_PREFIX):
            await self._until_published()
        return await self._reviewer_of(bearer)

    async def known(self, access_id: str) -> Access | None:
        """The access of that id, which was proved earlier; None unless it is still valid."""
        if access_id == OWNER:
            return OWNER_ACCESS if self.required else None
        if access_id.startswith(REVIEWER_PREFIX):
            return await self._reviewer(access_id.removeprefix(REVIEWER_PREFIX))
        token = await self._valid(access_id) if access_id.startswith(TOKEN_PREFIX) else None
        return token.access if token is not None else None

    async def key_of(self, token_id: str) -> str | None:
        """The key by which the holder of a token for administrators proves something; None if there is none.

        Args:
            token_id: `tok_…`.
        """
        token = await self._valid(token_id)
        return token.token_hash if token is not None and "admin" in token.access.roles else None

    async def logged_in(self, login: str, access_id: str) -> Access | None:
        """What a browser was logged in with; None if that no longer counts, or the login was ended.

        Args:
            login: What its cookie calls this login.
            access_id: What the login was made with.
        """
        login_hash = hash_of(login)
        has_ended = await self._store.read(lambda unit: access_tokens.has_login_ended(unit, login_hash))
        return None if has_ended else await self.known(access_id)

    async def end_login(self, login: str, seconds: float) -> bool:
        """End a login at every node, for every copy of its cookie; also a link that works once.

        Args:
            login: What the cookie calls it; the seal of a link.
            seconds: How long it could have gone on at the most.

        Returns:
            Whether it had not ended yet.
        """
        until = self._clock.now_us() + round(seconds * MICROSECONDS)
        login_hash = hash_of(login)
        return await self._store.write(lambda unit: access_tokens.end_login(unit, login_hash, until))

    def pass_for(self, reviewer_id: str, project: str, seconds: float) -> str:
        """The token of a pool's reviewer.

        Args:
            reviewer_id: The reviewer: the pass is in its name, and void once it has terminated.
            project: The one project that it is for.
            seconds: How long it is good for at the most.
        """
        until = self._clock.now_us() + round(seconds * MICROSECONDS)
        return f"tdm_r_{self._sealed('reviewer pass', [reviewer_id, project, until])}"

    def login_code(self, access: Access) -> str:
        """A code that logs a browser in as somebody: once, within a minute; as the owner in this run of the broker."""
        until = self._clock.now_us() + LOGIN_SECONDS * MICROSECONDS
        run = self._run if access.is_owner else None
        return self._sealed("login code", [access.id, until, run, secrets.token_hex(8)])

    async def redeem(self, code: str) -> Access | None:
        """Who a login code was made for; None if it is void or was used."""
        found = _CODE.fullmatch(code) if len(code) <= _LONGEST_BEARER else None
        said = self._unsealed("login code", found) if found is not None else None
        if said is None:
            return None
        access_id, until, run, number = said
        if until <= self._clock.now_us() or run not in {None, self._run}:
            return None
        login_hash = hash_of(f"login code {number}")
        is_first = await self._store.write(lambda unit: access_tokens.end_login(unit, login_hash, until))
        return await self.known(access_id) if is_first else None

    async def _until_published(self) -> None:
        try:
            async with asyncio.timeout(_START_SECONDS):
                await self.published.wait()
        except TimeoutError:
            raise Unavailable("The broker is starting; try again in a moment.") from None

    async def _bearer_of(self, bearer: str, token_id: str) -> Access:
        token = await self._find(token_id)
        if token is None or not hmac.compare_digest(hash_of(bearer), token.token_hash):
            raise _unknown()
        state = token.state(self._clock.now_us())
        if state != "valid":
            raise Unauthenticated(f"This access token is {state}. {_HOW}", reason=state, token_id=token.id)
        return token.access

    async def _reviewer_of(self, bearer: str) -> Access:
        """Whom a pass is for."""
        found = _PASS.fullmatch(bearer)
        said = self._unsealed("reviewer pass", found) if found is not None else None
        if said is None:
            raise _unknown()
        reviewer_id, project, until = said
        access = await self._reviewer(reviewer_id)
        if access is None or access.project != project:
            raise Unauthenticated("The reviewer that this pass was for has ended; end its program.", reason="revoked")
        if until <= self._clock.now_us():
            raise Unauthenticated("This reviewer's pass has expired; its supervisor starts another.", reason="expired")
        return access

    async def _reviewer(self, reviewer_id: str) -> Access | None:
        """What a pool's reviewer may do that has not ended."""
        project = await self._store.read(lambda unit: self._reviewer_project(unit, reviewer_id))
        return None if project is None else Access(REVIEWER_PREFIX + reviewer_id, reviewer_id, _REVIEWER_ROLES, project)

    async def _find(self, token_id: str) -> AccessToken | None:
        return await self._store.read(lambda unit: access_tokens.find(unit, token_id))

    async def _valid(self, token_id: str) -> AccessToken | None:
        token = await self._find(token_id)
        return token if token is not None and token.state(self._clock.now_us()) == "valid" else None

    def _sealed(self, purpose: str, facts: list[Any]) -> str:
        body = base64.urlsafe_b64encode(orjson.dumps(facts)).decode().rstrip("=")
        return f"{body}.{self._tokens.seal(f'{purpose} {body}')}"

    def _unsealed(self, purpose: str, found: re.Match[str]) -> list[Any] | None:
        body = found["body"]
        if not hmac.compare_digest(found["seal"], self._tokens.seal(f"{purpose} {body}")):
            return None
        try:
            return cast("list[Any]", orjson.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))))
        except (binascii.Error, ValueError):
            return None


def new_token(token_id: str) -> str:
    """A fresh token's text: its id, by which it is found, and 256 random bits."""
    return f"tdm_{token_id.removeprefix(TOKEN_PREFIX)}_{secrets.token_urlsafe(_SECRET_BYTES)}"


def hash_of(secret: str) -> str:
    """What to store of a token or a login. Both are long and random, so trying does not find them."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _unknown() -> Unauthenticated:
    return Unauthenticated(
        f"This broker does not know that access token; the owner's changes at each start of the broker. {_HOW}",
        reason="unknown",
    )
