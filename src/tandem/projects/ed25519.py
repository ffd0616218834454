"""The Ed25519 keys of projects: their form for OpenSSH, and signatures over raw bytes.

Importing it takes seven megabytes, and most brokers have no mirror, and neither sign nor verify.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat


def openssh(seed: bytes) -> tuple[bytes, str]:
    """The private key's file, and the line of the public one, without a comment."""
    key = Ed25519PrivateKey.from_private_bytes(seed)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    return private, key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode("ascii")


def public_key(seed: bytes) -> bytes:
    """The 32 bytes by which others verify signatures with this seed."""
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()


def sign(seed: bytes, content: bytes) -> bytes:
    """The signature of 64 bytes."""
    return Ed25519PrivateKey.from_private_bytes(seed).sign(content)


def holds(key: bytes, signature: bytes, content: bytes) -> bool:
    """Whether a signature is by the key's owner and over exactly this content."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, content)
    except (InvalidSignature, ValueError):
        return False
    return True
