"""Hashes of contents and decisions."""

from __future__ import annotations


def hex_digest(data: bytes, algorithm: str = "sha256") -> str:
    """The hash as hexadecimal digits."""
    # Takes longer to import than most hooks to judge, and most commits pass without.
    import hashlib

    return hashlib.new(algorithm, data, usedforsecurity=False).hexdigest()
