"""The broker's secret: where it is kept, the tokens that it makes and knows again, and the keys of roles.

Tokens are derived, not stored: a reader of the database, a backup of it or the log cannot make one. Every
broker on one database needs the same secret. Keys that are agreed on beforehand are kept as hashes.
"""

from __future__ import annotations

import base64
import glob
import hashlib
import hmac
import os
import re
import secrets
import shlex
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from tandem.core import files, platforms
from tandem.errors import DOCS, ConfigInvalid

KEY_BYTES = 32
SETTING = "secret_key_file"

_KEY_TEXT = re.compile(rb"[0-9A-Fa-f]{64}")
_PART_OF_KEY_TEXT = re.compile(rb"[0-9A-Fa-f]{0,64}")
_MOST_BYTES = 1024
_PATIENCE_SECONDS = 1.0
_LOOK_SECONDS = 0.01
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_HAS_MODES = hasattr(os, "geteuid")
"""Windows states a mode too, but it says nothing about other users."""

_SESSION_PREFIX = "ss_"
_SESSION_ID = re.compile(r"ss_[0-9a-hjkmnp-tv-z]{18}")
_SESSION_TOKEN = re.compile(r"sess_(?P<session>[0-9a-hjkmnp-tv-z]{18})_(?P<key_id>[0-9a-f]{6})_[0-9a-f]{64}")
_LOCK_TOKEN = re.compile(r"lock_(?P<key_id>[0-9a-f]{6})_[0-9a-f]{64}")
_KEY_ID_DIGITS = 6

_VEIL_BYTES = 32
_TAG_BYTES = 15
"""Of 120 bits: another text with the same one cannot be found."""

_COST, _BLOCK_SIZE, _PARALLELISM = 2**14, 8, 1
_SALT_BYTES = 16
_HASH_BYTES = 32
_MOST_MEMORY_BYTES = 64 * 2**20
"""Four times what the parameters above need: a stored value must not be able to ask for all there is."""

_STORED = re.compile(
    r"scrypt\$(?P<n>[0-9]{1,7})\$(?P<r>[0-9]{1,2})\$(?P<p>[0-9])\$(?P<salt>[0-9a-f]{32})\$(?P<hash>[0-9a-f]{64})"
)


def load_or_make(path: Path) -> bytes:
    """The secret in a file, as 32 bytes; a new one is made if there is no file.

    Processes that start at once get the same: one makes it, the others read it. Blocks for the disk.

    Raises:
        ConfigInvalid: The file holds something else, can be read by others, or cannot be read or made. The
            message never has its content.
    """
    try:
        try:
            key = _load(path)
        except FileNotFoundError:
            _make(path)
            # Not the one that was just made: another process may have been first.
            key = _load(path)
    except OSError as error:
        raise ConfigInvalid(
            f"The secret key file {path} cannot be used: {error.strerror or error}. Give the broker's user access "
            f"to it, or choose another place with {SETTING}.",
            setting=SETTING,
        ) from error
    _remove_leftovers(path)
    return key


def find(path: Path) -> bytes | None:
    """The secret in a file, or None if there is no file; none is made. Blocks for the disk.

    Raises:
        ConfigInvalid: The file holds something else, or can be read by others.
    """
    try:
        return _load(path)
    except FileNotFoundError:
        return None


def _load(path: Path) -> bytes:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    text = _read(path)
    # Without links the file is seen before its text: then its maker is just about to write it.
    while len(text) < 2 * KEY_BYTES and _PART_OF_KEY_TEXT.fullmatch(text) and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
        text = _read(path)
    if not _KEY_TEXT.fullmatch(text):
        raise ConfigInvalid(
            f"The secret key file {path} does not hold a key, {2 * KEY_BYTES} hexadecimal digits. Put the right one in "
            "its place from a backup, or delete it: the broker then makes a new key at its next start, and what "
            "sessions and locks were given out before is void. The log in the database then needs a new beginning: see "
            f"{DOCS}/guide/backup.md#when-the-secret-is-lost",
            setting=SETTING,
        )
    return bytes.fromhex(text.decode("ascii"))


def _read(path: Path) -> bytes:
    with path.open("rb") as stream:
        mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
        if _HAS_MODES and mode & _OTHERS:
            raise ConfigInvalid(
                f"The secret key file {path} is open to other users of this machine (mode {mode:04o}). Run: chmod 600 "
                f"{shlex.quote(str(path))}. If somebody may have read it, delete it: the broker makes a new one.",
                setting=SETTING,
            )
        return stream.read(_MOST_BYTES).strip()


def _make(path: Path) -> None:
    """Have a key in the file, this process's or another's."""
    platforms.make_private(str(path.parent))
    line = secrets.token_hex(KEY_BYTES).encode("ascii") + b"\n"
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    files.write_new(fresh, line)
    try:
        # Unlike a rename, a link never replaces what another process has made meanwhile.
        os.link(fresh, path)
    except OSError:
        # The file system has no links; or another process was first, and has it already.
        with suppress(FileExistsError):
            files.write_new(path, line)
    finally:
        fresh.unlink(missing_ok=True)
    with suppress(OSError):
        files.flush_folder(str(path.parent))


class OpaqueTokens:
    """Hides data that a client keeps and sends back: it can neither read nor make them.

    The same always looks the same, so that it tells nothing either when it is given twice.
    """

    __slots__ = ("_mac",)

    def __init__(self, mac: Callable[..., str]) -> None:
        self._mac = mac

    def hide(self, data: bytes, *, padded: bool = True) -> str:
        """The text to give out; padded, it says as much as how many times 32 bytes there are, else how many bytes."""
        if padded:
            data = data.ljust(-(-len(data) // _VEIL_BYTES) * _VEIL_BYTES)
        tag = self._tag(data)
        return base64.urlsafe_b64encode(tag + self._stirred(data, tag)).decode().rstrip("=")

    def show(self, text: str) -> bytes:
        """The hidden data, with blanks behind it if it was padded.

        Raises:
            ValueError: Nothing was hidden so, or it was for somebody else.
        """
        whole = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        tag = whole[:_TAG_BYTES]
        data = self._stirred(whole[_TAG_BYTES:], tag)
        if not hmac.compare_digest(tag, self._tag(data)):
            raise ValueError("nothing that was hidden here")
        return data

    def _tag(self, data: bytes) -> bytes:
        return bytes.fromhex(self._mac(b"tag", data))[:_TAG_BYTES]

    def _stirred(self, data: bytes, tag: bytes) -> bytes:
        blocks = range(-(-len(data) // _VEIL_BYTES))
        stream = b"".join(bytes.fromhex(self._mac(b"stream", tag, b"%d" % block)) for block in blocks)
        return bytes(one ^ other for one, other in zip(data, stream, strict=False))


def _remove_leftovers(path: Path) -> None:
    """Remove what a crash left beside the file, which has the same secret in it or an unused one."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.{'?' * 16}.new"):
        with suppress(OSError):
            leftover.unlink()


class Tokens:
    """Makes tokens from the secret, and knows them again.

    Holds no copy of the secret, only the state of a hash that has taken it in. Safe for threads.

    Attributes:
        key_id: Tells tokens of this secret from those of another; says nothing about the secret.
    """

    __slots__ = ("_keyed", "_log_key", "key_id")

    def __init__(self, key: bytes) -> None:
        self._keyed = hmac.new(key, digestmod=hashlib.sha256)
        self.key_id = self._mac(b"key")[:_KEY_ID_DIGITS]
        self._log_key = bytes.fromhex(self._mac(b"log"))

    def __repr__(self) -> str:
        return f"Tokens(key_id={self.key_id!r})"

    def lock_token(self, cycle_id: str, rotation: int) -> str:
        """The token of a cycle's lock after so many rotations."""
        return f"lock_{self.key_id}_{self._mac(b'lock', cycle_id.encode(), str(rotation).encode())}"

    def seal(self, text: str) -> str:
        """A text's keyed hash: who reads it later knows that a broker with this secret wrote it."""
        return self._mac(b"page", text.encode())

    def person_key(self) -> str:
        """The key by which a process that has asked a person proves it; says nothing about the secret."""
        return self._mac(b"person")

    def signing_seed(self, project: str) -> bytes:
        """The private key that signs the approvals of a project."""
        return bytes.fromhex(self._mac(b"sign", project.encode()))

    def deploy_seed(self, project: str) -> bytes:
        """The private key by which a project's mirror is fetched."""
        return bytes.fromhex(self._mac(b"deploy", project.encode()))

    def veil(self, reader: str) -> OpaqueTokens:
        """Hides things for one reader from that reader."""
        return OpaqueTokens(partial(self._mac, b"veil", reader.encode()))

    def seal_event(self, content: bytes) -> str:
        """The hash of an event of the log, which cannot be made without the secret."""
        # Keyed BLAKE2b rather than HMAC: half a microsecond instead of two, in every write.
        return hashlib.blake2b(content, digest_size=_HASH_BYTES, key=self._log_key).hexdigest()

    def session_token(self, session_id: str) -> str:
        """The token of a session.

        Raises:
            ValueError: That is not a session's id.
        """
        if not _SESSION_ID.fullmatch(session_id):
            raise ValueError("a session id is ss_ and 18 letters and digits of Crockford's base 32")
        mac = self._mac(b"session", session_id.encode())
        return f"sess_{session_id.removeprefix(_SESSION_PREFIX)}_{self.key_id}_{mac}"

    def session_id_of(self, token: str) -> str | None:
        """The session that a token was made for; None if it was not made with this secret."""
        found = _SESSION_TOKEN.fullmatch(token)
        if found is None:
            return None
        session_id = _SESSION_PREFIX + found["session"]
        return session_id if hmac.compare_digest(token, self.session_token(session_id)) else None

    def is_lock_token(self, token: str, cycle_id: str, rotation: int) -> bool:
        """Whether a token is that of a cycle's lock after so many rotations."""
        # As bytes: texts must be ASCII to be compared. A replaced letter is a question mark, which no token has.
        return hmac.compare_digest(token.encode("ascii", "replace"), self.lock_token(cycle_id, rotation).encode())

    def made_by_another_key(self, token: str) -> bool:
        """Whether a token looks right but names another secret: brokers on one database need the same file."""
        found = _SESSION_TOKEN.fullmatch(token) or _LOCK_TOKEN.fullmatch(token)
        return found is not None and found["key_id"] != self.key_id

    def body_hash(self, data: bytes) -> str:
        """A hash of a body in hexadecimal digits, so that bodies cannot be tried out without the secret."""
        return self._mac(b"body", data)

    def _mac(self, *parts: bytes) -> str:
        # Each part behind its length, so that no two lists of parts are the same bytes.
        keyed = self._keyed.copy()
        for part in parts:
            keyed.update(b"%d:" % len(part))
            keyed.update(part)
        return keyed.hexdigest()


def new_key() -> str:
    """A fresh key for a role: `psk_` and 256 random bits as 43 letters that are safe in a URL."""
    return f"psk_{secrets.token_urlsafe(KEY_BYTES)}"


def hash_key(key: str) -> str:
    """What to store of a role's key: `scrypt$n$r$p$salt$hash`. Takes some 50 ms and 16 MiB, on purpose."""
    salt = secrets.token_bytes(_SALT_BYTES)
    hashed = _scrypt(key, salt, _COST, _BLOCK_SIZE, _PARALLELISM)
    return f"scrypt${_COST}${_BLOCK_SIZE}${_PARALLELISM}${salt.hex()}${hashed.hex()}"


def check_key(key: str, stored: str) -> bool:
    """Whether a key is the one that was stored; false for what `hash_key` never made. As slow as `hash_key`."""
    found = _STORED.fullmatch(stored)
    if found is None:
        return False
    try:
        hashed = _scrypt(key, bytes.fromhex(found["salt"]), int(found["n"]), int(found["r"]), int(found["p"]))
    except ValueError:
        # No such parameters, or too much memory.
        return False
    return hmac.compare_digest(hashed, bytes.fromhex(found["hash"]))


def _scrypt(key: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    # A request may bring any text that JSON can; halves of surrogate pairs too.
    text = key.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(text, salt=salt, n=n, r=r, p=p, maxmem=_MOST_MEMORY_BYTES, dklen=_HASH_BYTES)
