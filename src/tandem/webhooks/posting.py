"""One POST to an address that somebody named: checked first, then connected to as it was checked.

There is no second look at the name, no redirect and no proxy of the environment.
"""

from __future__ import annotations

import asyncio
import importlib
import ipaddress
import re
import socket
import ssl
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from tandem.core.addresses import IpAddress, kind_of
from tandem.core.visible import visible
from tandem.errors import InvalidInput

if TYPE_CHECKING:
    import httpx

SECONDS: Final = 10
"""How long a receiver may take, from the look at its name to its answer."""
_MOST_BYTES: Final = 4_096
"""Of an answer: its beginning is enough to see the problem."""
_MOST_SHOWN: Final = 500
_MOST_DIGITS: Final = 9
_URL: Final = re.compile(r"[!-~]+")
_HOST: Final = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")
_OK: Final = range(200, 300)


class Target(NamedTuple):
    """Where a URL leads.

    Attributes:
        host: Name or address, without brackets.
        authority: As the header `Host` has it.
        path: With the query.
    """

    host: str
    port: int
    authority: str
    path: str
    tls: bool


class Reply(NamedTuple):
    """What a receiver said.

    Attributes:
        status: The HTTP status; None if it did not answer.
        answer: The beginning of its answer, or why there is none.
        retry_after_seconds: How long it asks not to be tried again (`Retry-After`); 0 if it does not say.
    """

    status: int | None
    answer: str
    retry_after_seconds: float = 0

    @property
    def delivered(self) -> bool:
        """Whether it took the message."""
        return self.status in _OK


class NotAllowed(Exception):
    """The address is none that a webhook may post to; says why."""


def read_url(url: str) -> Target:
    """Where a webhook's URL leads.

    Raises:
        InvalidInput: It is none that can be posted to.
    """
    try:
        parts = urlsplit(url) if _URL.fullmatch(url) else None
        port = parts.port if parts else None
    except ValueError:
        parts, port = None, None
    if parts is None or parts.scheme not in {"http", "https"} or not _HOST.fullmatch(parts.hostname or ""):
        raise InvalidInput("The URL must be https://HOST/PATH, or http:// to this machine, in ASCII.", field="url")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise InvalidInput("The URL must have no user, password or fragment.", field="url")
    tls = parts.scheme == "https"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.hostname or "", port or (443 if tls else 80), parts.netloc, path, tls)


async def list_addresses(target: Target, *, allow_private: bool) -> list[str]:
    """The addresses of the target that may be posted to.

    Raises:
        NotAllowed: It has none.
        OSError: Its name cannot be resolved.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    problems = {
        address: _problem(ipaddress.ip_address(address.partition("%")[0]), target, allow_private=allow_private)
        for address in (str(place[0]) for *_, place in found)
    }
    allowed = [address for address, problem in problems.items() if problem is None]
    if not allowed:
        reasons = "; ".join(f"{address} {problem}" for address, problem in list(problems.items())[:3])
        raise NotAllowed(f"{target.host} leads to no address that may be posted to: {reasons}")
    return allowed


async def post(url: str, headers: dict[str, str], body: bytes, *, allow_private: bool) -> Reply:
    """Post to a webhook's URL; an error is returned as the reply."""
    # With the first message: most brokers have no webhooks, and the import takes a tenth of a second.
    httpx = await asyncio.to_thread(importlib.import_module, "httpx")

    try:
        target = read_url(url)
        client = httpx.AsyncClient(verify=_tls(), trust_env=False, timeout=SECONDS)
        async with asyncio.timeout(SECONDS), client:
            *others, last = await list_addresses(target, allow_private=allow_private)
            for address in others:
                with suppress(httpx.ConnectError):
                    return await _exchange(client, target, address, headers, body)
            return await _exchange(client, target, last, headers, body)
    except (TimeoutError, httpx.TimeoutException):
        return Reply(None, f"no answer within {SECONDS} s")
    except (NotAllowed, InvalidInput, httpx.HTTPError, OSError, UnicodeError) as error:
        return Reply(None, _shown(_plainly(error)))


async def _exchange(
    client: httpx.AsyncClient, target: Target, address: str, headers: dict[str, str], body: bytes
) -> Reply:
    """Post to an address that was looked at, as the host that has it; takes no more of the answer than is shown."""
    errors = importlib.import_module("httpx")
    sent = {
        "Host": target.authority,
        "User-Agent": f"Tandem/{version('tandem-broker')}",
        "Content-Type": "application/json",
        "Accept-Encoding": "identity",
        "Connection": "close",
        **headers,
    }
    place = f"{'https' if target.tls else 'http'}://{f'[{address}]' if ':' in address else address}:{target.port}"
    asked = {"sni_hostname": target.host, "target": target.path.encode("ascii")}
    said = b""
    async with client.stream("POST", place, headers=sent, content=body, extensions=asked) as response:
        # The status decides: a body that breaks off takes nothing back.
        with suppress(errors.RemoteProtocolError, errors.ReadError):
            async for data in response.aiter_raw():
                said += data
                if len(said) >= _MOST_BYTES:
                    break
    shown = _shown(said[:_MOST_BYTES].decode("utf-8", "replace"))
    return Reply(response.status_code, shown, _seconds_of(response.headers.get("retry-after", "")))


def _seconds_of(retry_after: str) -> float:
    """How long from now a `Retry-After` means: a number of seconds, or a date; 0 if it is neither."""
    if retry_after.isdecimal() and retry_after.isascii():
        return float(retry_after[:_MOST_DIGITS])
    try:
        until = parsedate_to_datetime(retry_after)
    except ValueError:
        return 0
    aware = until if until.tzinfo else until.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.now(UTC)).total_seconds())


def _problem(address: IpAddress, target: Target, *, allow_private: bool) -> str | None:
    """Why an address may not be posted to; None if it may."""
    match kind_of(address):
        case "loopback":
            return None
        case "unusable":
            return "is of a kind that no receiver has"
        case "public":
            return None if target.tls else "takes https: http is for this machine"
        case "private":
            return None if allow_private else "is of a private network, which takes --allow-private"


def _plainly(error: Exception) -> str:
    """Why nothing was posted, in the system's words where the connection failed."""
    if isinstance(error, (NotAllowed, InvalidInput)):
        return str(error)
    cause: BaseException | None = error
    while cause and not (isinstance(cause, OSError) and cause.strerror):
        cause = cause.__cause__ or cause.__context__
    said = (cause.strerror if isinstance(cause, OSError) else None) or str(error) or type(error).__name__
    return f"The connection failed: {said.rstrip('.')}."


def _shown(text: str) -> str:
    return visible(text)[:_MOST_SHOWN]


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()
