"""Signed approvals: that one broker approved a content, in a form that another broker can verify.

A signature is `KEYID.SIGNATURE`, by Ed25519 over the digest of all that a commit changes; the first part is how the
public key begins. Every project of a broker has a key of its own, derived from the broker's secret: an approval in
one project counts for nothing in another.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from typing import NamedTuple

from tandem.core.secret_key import Tokens

_CONTEXT = b"tandem-signed-approval-v1\0"
_KEY_ID_LETTERS = 12
_FORM = re.compile(r"([A-Za-z0-9_-]{12})\.([A-Za-z0-9_-]{86})")


class Verified(NamedTuple):
    """The result of verifying a commit's signatures.

    Attributes:
        signer: Whose broker approved exactly this content; None if no signature proves it.
        signature: The one that does.
        problem: Why none counts, in words; None if one does, or none was sent that looks like one.
    """

    signer: str | None = None
    signature: str | None = None
    problem: str | None = None


def public_key(tokens: Tokens, project: str) -> str:
    """The key to verify this broker's signatures with: 32 bytes as 43 letters that are safe in a URL."""
    return _text(_ed25519().public_key(tokens.signing_seed(project)))


def sign(tokens: Tokens, project: str, digest: str) -> str:
    """The signature for a content that is approved.

    Args:
        tokens: The broker's secret.
        project: The project in which it is approved.
        digest: Over all that the commit changes.
    """
    signature = _ed25519().sign(tokens.signing_seed(project), _CONTEXT + digest.encode())
    return f"{public_key(tokens, project)[:_KEY_ID_LETTERS]}.{_text(signature)}"


def verify(signers: Iterable[str], digest: str, signed: Iterable[str]) -> Verified:
    """Whether a signature of a known signer is over exactly this digest.

    Args:
        signers: Who is known, each as `NAME=KEY`.
        digest: Over all that the commit changes.
        signed: The commit's signatures, unchecked.
    """
    known: dict[str, list[tuple[str, bytes]]] = {}
    for signer in signers:
        name, _, key = signer.partition("=")
        known.setdefault(key[:_KEY_ID_LETTERS], []).append((name, _bytes(key)))
    found = Verified()
    for stated in signed:
        form = _FORM.fullmatch(stated)
        if form is None:
            continue
        key_id, signature = form[1], _bytes(form[2])
        if key_id not in known:
            found = found if found.problem else Verified(problem=_unknown(key_id))
            continue
        holds, content = _ed25519().holds, _CONTEXT + digest.encode()
        name = next((name for name, key in known[key_id] if holds(key, signature, content)), None)
        if name is not None:
            return Verified(name, stated)
        found = Verified(problem=f"the signature of {known[key_id][0][0]}'s broker is for other content")
    return found


def _unknown(key_id: str) -> str:
    return (
        f"it is signed with a key that begins with {key_id} and is no signer's here; if it is a colleague's, ask them"
        " for all of it and run: tandem gate on --signer NAME=KEY"
    )


def _ed25519():  # noqa: ANN202 - the type of this one module has no name
    # The library takes seven megabytes, and most brokers neither sign nor verify.
    from tandem.projects import ed25519

    return ed25519


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
