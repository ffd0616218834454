"""Signed approvals: that one broker approved a content, in a form that another broker can verify.

A signature is `KEYID.SIGNATURE`, by Ed25519 over the digest of all that a commit changes. Every project of a broker has
a key of its own, derived from the broker's secret: what is approved in one project says nothing in another.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple

from tandem.core.secret_key import Tokens

_CONTEXT = b"tandem-signed-approval-v1\0"
_KEY_ID_DIGITS = 12
_SIGNATURE_BYTES = 64


class Verified(NamedTuple):
    """What the signatures of a commit are worth.

    Attributes:
        signer: Whose broker approved exactly this content; null if no signature proves it.
        signature: The one that does.
        problem: Why none counts, in words; null if one does, or none was sent that looks like one.
    """

    signer: str | None = None
    signature: str | None = None
    problem: str | None = None


def public_key(tokens: Tokens, project: str) -> str:
    """What others verify this broker's signatures with: 32 bytes as 43 letters that are safe in a URL."""
    # The library takes seven megabytes, and most brokers never sign.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(tokens.signing_seed(project))
    return _text(key.public_key().public_bytes_raw())


def sign(tokens: Tokens, project: str, digest: str) -> str:
    """The signature for a content that is approved.

    Args:
        tokens: The broker's secret.
        project: The project in which it is approved.
        digest: Over all that the commit changes.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # as above

    key = Ed25519PrivateKey.from_private_bytes(tokens.signing_seed(project))
    signature = key.sign(_CONTEXT + digest.encode())
    return f"{_key_id(key.public_key().public_bytes_raw())}.{_text(signature)}"


def verify(signers: Iterable[str], digest: str, signed: Iterable[str]) -> Verified:
    """Whether a signature of a known signer is over exactly this digest.

    Args:
        signers: Who is known, each as `NAME=KEY`.
        digest: Over all that the commit changes.
        signed: What the commit says, whatever that is.
    """
    known: dict[str, list[tuple[str, bytes]]] = {}
    for signer in signers:
        name, _, key = signer.partition("=")
        known.setdefault(_key_id(_bytes(key)), []).append((name, _bytes(key)))
    found = Verified()
    for stated in signed:
        key_id, _, text = stated.partition(".")
        try:
            signature = _bytes(text)
        except ValueError:
            continue
        if len(signature) != _SIGNATURE_BYTES or len(key_id) != _KEY_ID_DIGITS or not key_id.isalnum():
            continue
        if key_id not in known:
            found = found if found.problem else Verified(problem=_unknown(key_id))
            continue
        name = next((name for name, key in known[key_id] if _holds(key, signature, digest)), None)
        if name is not None:
            return Verified(name, stated)
        found = Verified(problem=f"the signature of {known[key_id][0][0]}'s broker is for other content")
    return found


def _unknown(key_id: str) -> str:
    return (
        f"it has a signature by the key {key_id}, which is no signer's here: ask whose it is before you add them"
        " with 'tandem gate on --signer NAME=KEY'"
    )


def _holds(key: bytes, signature: bytes, digest: str) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, _CONTEXT + digest.encode())
    except (InvalidSignature, ValueError):
        return False
    return True


def _key_id(key: bytes) -> str:
    return sha256(key).hexdigest()[:_KEY_ID_DIGITS]


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    """What a text stands for.

    Raises:
        ValueError: It is not base64.
    """
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
