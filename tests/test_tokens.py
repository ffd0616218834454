"""What the broker's secret vouches for: tokens of sessions and locks, hashes of bodies; and the keys of roles."""

from __future__ import annotations

import hashlib
import hmac

from tandem.core.secret_key import Tokens, new_key

KEY = bytes(range(32))
SESSION = "ss_0123456789abcdefgh"
CYCLE = "2026-11-21-login-k3f9"


def mac(key: bytes, *parts: bytes) -> str:
    """What the tokens are said to be made of, computed once more."""
    message = b"".join(str(len(part)).encode() + b":" + part for part in parts)
    return hmac.new(key, message, hashlib.sha256).hexdigest()


def test_tokens_of_a_key_are_the_same_in_every_process_and_version() -> None:
    tokens = Tokens(KEY)
    key_id = mac(KEY, b"key")[:6]
    assert tokens.lock_token(CYCLE, 12) == f"lock_{key_id}_" + mac(KEY, b"lock", CYCLE.encode(), b"12")
    assert tokens.session_token(SESSION) == f"sess_{SESSION[3:]}_{key_id}_" + mac(KEY, b"session", SESSION.encode())
    assert tokens.body_hash(b"{}") == mac(KEY, b"body", b"{}")


def test_a_token_of_another_key_is_told_from_a_wrong_one() -> None:
    tokens, others = Tokens(KEY), Tokens(b"another")
    for token in (others.session_token(SESSION), others.lock_token(CYCLE, 1)):
        assert tokens.made_by_another_key(token)
        assert tokens.session_id_of(token) is None
        assert not tokens.is_lock_token(token, CYCLE, 1)
        forged = token.replace(others.key_id, tokens.key_id)
        assert not tokens.made_by_another_key(forged)
        assert tokens.session_id_of(forged) is None
        assert not tokens.is_lock_token(forged, CYCLE, 1)


def test_new_keys_have_256_bits_and_are_safe_everywhere() -> None:
    keys = {new_key() for _ in range(50)}
    assert len(keys) == 50
    for key in keys:
        assert len(key) == len("psk_") + 43
        assert key.isascii()
        assert key.replace("-", "").replace("_", "").isalnum()
