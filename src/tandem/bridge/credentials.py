"""What proves who calls, and that a broker is the caller's own: access tokens, the keys of roles, the owner's secret.

TANDEM_TOKEN      the caller's own access token; it goes to every broker that they call
TANDEM_PSK        the key of a role in hand-off cycles
TANDEM_PSK_FILE   a file whose first line is that key
TANDEM_ROLE       the role, for calls that name none

No model and no command line ever has a role's key.

The token that was stated goes with a request, else the one that a broker has left for its owner.

A broker that asks for tokens leaves its owner's beside its URL, in its data folder, which only the owner can read.
That one is for requests to exactly this URL. It is void after the next start, so it is read again when it is refused.
Of several brokers each has its own.

A broker proves that it is this user's by a keyed hash with a secret that only this user can read. A client
sends a number that cannot be foreseen. The broker answers with its hash, and that of the address at which it was
called: another one at that address cannot have the answer made by the user's own broker elsewhere.
"""

from __future__ import annotations

import os
import time
from _blake2 import blake2b  # `hashlib` loads OpenSSL, for which each commit would wait

from tandem.core.files import json_object
from tandem.errors import ConfigInvalid

TYPE_CHECKING = False  # every commit waits for the imports here, and `typing` takes a third of a start
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Sequence

TOKEN_VARIABLE = "TANDEM_TOKEN"  # noqa: S105 - the variable's name
RUNTIME_FILE = "broker.json"
_STARTING_SECONDS = 10.0
_LOOK_SECONDS = 0.02

REFUSED_CODE = "UNAUTHENTICATED"
"""What the envelope of a broker says that does not take the token, or got none."""

REFUSED_STATUS = 401
"""That answer's status; calls that it stands for have had no effect."""

KEY_VARIABLE = "TANDEM_PSK"
FILE_VARIABLE = "TANDEM_PSK_FILE"
ROLE_VARIABLE = "TANDEM_ROLE"
SESSION_VARIABLE = "TANDEM_SESSION_TOKEN"
LOCK_VARIABLE = "TANDEM_LOCK_TOKEN"

SECRET_VARIABLES = frozenset({KEY_VARIABLE, SESSION_VARIABLE, LOCK_VARIABLE, TOKEN_VARIABLE})
"""What no process that is started from here has any business with."""

_LINE_BYTES = 4096


class NoToken(ValueError):
    """The value of `TANDEM_TOKEN` cannot be a token; the message has no part of it."""


class Published:
    """What the running broker left in its data folder.

    Attributes:
        url: Where it listens.
        token: Its owner's token; None if it trusts everybody.
    """

    __slots__ = ("token", "url")

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url
        self.token = token


def published(data_dir: str) -> Published | None:
    """What the running broker left in its data folder; None if none did."""
    stated = json_object(os.path.join(data_dir, RUNTIME_FILE))
    url, token = stated.get("url"), stated.get("token")
    if not isinstance(url, str):
        return None
    return Published(url, token if isinstance(token, str) and _is_sendable(token) else None)


def has_token() -> bool:
    """Whether the environment has something for an access token, which need not be one."""
    return bool(os.environ.get(TOKEN_VARIABLE, "").strip())


def stated_token() -> str | None:
    """The token that the environment has; None if it has none.

    Raises:
        NoToken: Its value cannot be a token.
    """
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if token and not _is_sendable(token):
        raise NoToken(
            f"The value of {TOKEN_VARIABLE} is no access token: one is a single word of letters, digits, _ and -,"
            " as 'tandem token create NAME --role ROLE' printed it."
        )
    return token or None


def headers(token: str | None) -> dict[str, str]:
    """The header that carries a token; nothing for none."""
    return {} if token is None else {"Authorization": f"Bearer {token}"}


class Credentials:
    """The token for a broker, or those for several. Safe to share between threads."""

    def __init__(self, data_dirs: Sequence[str]) -> None:
        """Nothing is read yet but the environment.

        Args:
            data_dirs: The data folders of those brokers, where they may have left tokens.

        Raises:
            NoToken: `TANDEM_TOKEN` holds something else.
        """
        self._data_dirs = data_dirs
        self._stated = stated_token()
        self._left: dict[str, str | None] = {}

    def token(self, url: str) -> str | None:
        """The token to send to an address; None if there is none for the broker there."""
        if self._stated is None and url not in self._left:
            self._read(url)
        return self._stated or self._left[url]

    def renewed(self, url: str, refused: str | None) -> bool:
        """Whether there is another token now than the one that was refused at an address.

        Where a broker has left one before and leaves none now, it is just starting: that is waited for, some seconds.
        """
        if self._stated is not None:
            return False
        deadline = time.monotonic() + _STARTING_SECONDS
        # A broker answers as soon as it can, and is published a moment later.
        while not self._read(url) and refused is not None and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
        return self._left[url] not in (None, refused)

    def _read(self, url: str) -> bool:
        """Read the tokens that are there now; returns whether no others are expected soon."""
        found = [one for one in map(published, self._data_dirs) if one is not None]
        own = [one.token for one in found if one.url.rstrip("/") == url]
        self._left[url] = own[0] if own else None
        return bool(own) or len(found) == len(self._data_dirs)


def _is_sendable(token: str) -> bool:
    """Whether it fits into a header as it stands."""
    return token.isascii() and token.isprintable() and " " not in token


OWNER_FILE = "owner.key"
"""The secret, in the broker's data folder."""

NONCE_BYTES = 32
_OTHERS = 0o077


def new_nonce() -> str:
    """What to send."""
    return os.urandom(NONCE_BYTES).hex()


def proof(key: bytes, nonce: str, host: str, port: int) -> str:
    """The answer, in hexadecimal digits.

    Args:
        key: The secret.
        nonce: The nonce that was sent.
        host: The address at which the broker was called.
        port: Its port there.
    """
    return blake2b(f"tandem broker {nonce} {host} {port}".encode(), key=key).hexdigest()


def is_proven(answer: str | None, nonce: str, connected: socket, data_dir: str) -> bool:
    """Whether who answered has the secret of a data folder, which is read only now: a first start makes it."""
    try:
        path = os.path.join(data_dir, OWNER_FILE)
        with open(path, encoding="ascii") as file:
            made = os.fstat(file.fileno())
            if os.name == "posix" and (made.st_uid != os.geteuid() or made.st_mode & _OTHERS):
                return False
            key = bytes.fromhex(file.read())
    except (OSError, ValueError):
        return False
    host, port = connected.getpeername()[:2]
    return len(key) == NONCE_BYTES and answer == proof(key, nonce, host, port)


def read_key(path: str) -> str:
    """The key in a file: its first line, without the space around it.

    Raises:
        ConfigInvalid: The file cannot be read, or its first line is no key; the message has no part of it.
    """
    try:
        with open(os.path.expanduser(path), "rb") as file:
            line = file.readline(_LINE_BYTES)
        # Editors on Windows put a mark in front.
        key = line.decode("utf-8-sig").strip()
    except OSError as error:
        raise ConfigInvalid(f"The key file {path} cannot be read: {error.strerror or error}.", file=path) from None
    except UnicodeDecodeError:
        # Without its cause, which quotes the line.
        raise ConfigInvalid(f"The first line of the key file {path} is not UTF-8.", file=path) from None
    if not key:
        raise ConfigInvalid(f"The first line of the key file {path} is empty; it has to be the key.", file=path)
    return key


def stated_key() -> str | None:
    """The key that the environment has, else the one in the file that it names; None if it has neither.

    Raises:
        ConfigInvalid: The file has no key.
    """
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if key:
        return key
    path = os.environ.get(FILE_VARIABLE, "").strip()
    if not path:
        return None
    try:
        return read_key(path)
    except ConfigInvalid as trouble:
        advice = f"{FILE_VARIABLE} names it: correct that or the file, or put the key into {KEY_VARIABLE}."
        raise ConfigInvalid(f"{trouble.message} {advice}", setting=FILE_VARIABLE, file=path) from None


def stated_role() -> str | None:
    """The role that the environment has; None if it has none."""
    return os.environ.get(ROLE_VARIABLE, "").strip() or None


def without_secrets() -> dict[str, str]:
    """The environment for a process that outlives this one and is not the role's."""
    return {name: value for name, value in os.environ.items() if name not in SECRET_VARIABLES}
