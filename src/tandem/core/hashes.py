"""Hashes of contents and decisions."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as in `errors`
if TYPE_CHECKING:
    from hashlib import sha256 as _sha256
else:
    _sha256 = __import__("_sha2" if sys.version_info >= (3, 12) else "_sha256").sha256

_LARGE_BYTES = 64 * 1024
"""OpenSSL's is several times as fast, and takes longer to load than most commits to judge."""


def hex_digest(data: bytes, algorithm: str = "sha256") -> str:
    """The hash as hexadecimal digits."""
    if algorithm == "sha256" and len(data) < _LARGE_BYTES:
        return _sha256(data).hexdigest()
    # As said above: most hooks and commands hash little.
    import hashlib

    return hashlib.new(algorithm, data, usedforsecurity=False).hexdigest()
