"""The proof that a broker is this user's: a keyed hash with a secret that only this user can read.

Whoever connects sends a number that nobody can foresee. The broker answers with its hash, and that of the address at
which it was called: another one at that address cannot have the answer made by the user's own broker elsewhere.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # as in `credentials`
if TYPE_CHECKING:
    from _socket import socket

FILE = "owner.key"
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
        nonce: What was sent.
        host: The address at which the broker was called.
        port: Its port there.
    """
    from _blake2 import blake2b  # `hashlib` loads OpenSSL, for which each commit would wait

    return blake2b(f"tandem broker {nonce} {host} {port}".encode(), key=key).hexdigest()


def is_proven(answer: str | None, nonce: str, connected: socket, data_dir: str) -> bool:
    """Whether who answered has the secret of a data folder, which is read only now: a first start makes it."""
    try:
        path = os.path.join(data_dir, FILE)
        with open(path, encoding="ascii") as file:
            made = os.fstat(file.fileno())
            if os.name == "posix" and (made.st_uid != os.geteuid() or made.st_mode & _OTHERS):
                return False
            key = bytes.fromhex(file.read())
    except (OSError, ValueError):
        return False
    host, port = connected.getpeername()[:2]
    return len(key) == NONCE_BYTES and answer == proof(key, nonce, host, port)
