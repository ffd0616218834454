"""What the broker's secret vouches for: tokens of sessions and locks, hashes of bodies; and the keys of roles."""

from __future__ import annotations

import hashlib
import hmac
import threading

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tandem.core.secret_key import Tokens, check_key, hash_key, new_key

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


def test_a_session_is_known_by_its_token() -> None:
    tokens = Tokens(KEY)
    token = tokens.session_token(SESSION)
    assert tokens.session_id_of(token) == SESSION
    assert not tokens.made_by_another_key(token)
    assert Tokens(KEY).session_id_of(token) == SESSION


def test_a_token_with_any_letter_changed_is_nobodys() -> None:
    tokens = Tokens(KEY)
    for token in (tokens.session_token(SESSION), tokens.lock_token(CYCLE, 1)):
        for place, letter in enumerate(token):
            changed = token[:place] + ("1" if letter != "1" else "2") + token[place + 1 :]
            assert tokens.session_id_of(changed) is None
            assert not tokens.is_lock_token(changed, CYCLE, 1)


@pytest.mark.parametrize("around", ["{}\n", " {}", "{}0", "{}é", "{}\ud800", "x{}", "{}{}"], ids=ascii)
def test_what_only_looks_like_a_token_is_none(around: str) -> None:
    tokens = Tokens(KEY)
    for token in (tokens.session_token(SESSION), tokens.lock_token(CYCLE, 1)):
        changed = around.replace("{}", token)
        assert tokens.session_id_of(changed) is None
        assert not tokens.is_lock_token(changed, CYCLE, 1)
        assert not Tokens(b"another").made_by_another_key(changed)


@given(st.text())
def test_any_text_can_be_asked_about(text: str) -> None:
    tokens = Tokens(KEY)
    assert tokens.session_id_of(text) is None
    assert not tokens.is_lock_token(text, CYCLE, 1)
    assert not tokens.made_by_another_key(text)
    assert not tokens.made_by_another_key(f"sess_{text}")


def test_a_lock_token_is_of_one_cycle_and_one_rotation() -> None:
    tokens = Tokens(KEY)
    token = tokens.lock_token(CYCLE, 1)
    assert tokens.is_lock_token(token, CYCLE, 1)
    assert not tokens.is_lock_token(token, CYCLE, 2)
    assert not tokens.is_lock_token(token, CYCLE + "1", 1)
    assert not tokens.is_lock_token(tokens.session_token(SESSION), CYCLE, 1)
    assert tokens.session_id_of(token) is None


LOCKS = st.tuples(st.text("a:1", max_size=4), st.integers(0, 200))


@given(LOCKS, LOCKS)
def test_locks_that_differ_have_tokens_that_differ(one: tuple[str, int], other: tuple[str, int]) -> None:
    assume(one != other)
    assert Tokens(KEY).lock_token(*one) != Tokens(KEY).lock_token(*other)


def test_a_hash_of_a_body_is_never_part_of_a_token() -> None:
    tokens = Tokens(KEY)
    taken = {tokens.lock_token(CYCLE, 1)[-64:], tokens.session_token(SESSION)[-64:], mac(KEY, b"key")}
    bodies = [b"", b"key", b"lock", CYCLE.encode(), SESSION.encode(), b"7:session21:" + SESSION.encode()]
    assert taken.isdisjoint(map(tokens.body_hash, bodies))
    assert len(set(map(tokens.body_hash, bodies))) == len(bodies)
    assert Tokens(b"another").body_hash(b"key") != tokens.body_hash(b"key")


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


WRONG_IDS = [
    "",
    "0123456789abcdefgh",
    "ss_",
    SESSION[:-1],
    SESSION + "0",
    SESSION.upper(),
    SESSION[:-1] + "i",
    "rv" + SESSION[2:],
]


@pytest.mark.parametrize("session_id", WRONG_IDS)
def test_only_a_session_gets_a_session_token(session_id: str) -> None:
    with pytest.raises(ValueError, match="Crockford"):
        Tokens(KEY).session_token(session_id)


def test_the_key_is_nowhere_to_be_seen() -> None:
    tokens = Tokens(KEY)
    shown = [repr(tokens), str(tokens), f"{[tokens]}", *(repr(getattr(tokens, name)) for name in Tokens.__slots__)]
    assert repr(tokens) == f"Tokens(key_id='{tokens.key_id}')"
    for text in shown:
        assert KEY.hex() not in text
        assert repr(KEY)[2:-1] not in text
    assert tokens.key_id not in KEY.hex()


def test_threads_may_share_tokens() -> None:
    tokens = Tokens(KEY)
    session_ids = [f"ss_{number:018d}" for number in range(500)]
    found: dict[int, list[str | None]] = {}

    def know(thread: int) -> None:
        found[thread] = [tokens.session_id_of(tokens.session_token(session_id)) for session_id in session_ids]

    threads = [threading.Thread(target=know, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(found.values()) == [session_ids] * len(threads)


def test_a_key_is_known_by_its_hash_and_not_seen_in_it() -> None:
    key = new_key()
    stored = hash_key(key)
    assert stored.startswith("scrypt$16384$8$1$")
    assert [len(part) for part in stored.split("$")[4:]] == [32, 64]
    assert key not in stored
    assert check_key(key, stored)
    assert not check_key(key + "x", stored)
    assert not check_key("", stored)
    assert not check_key("\ud800", stored)
    assert hash_key(key) != stored
    for text in ("pässwörd", "\ud800"):
        assert check_key(text, hash_key(text))
        assert not check_key("?", hash_key(text))


def test_the_stored_hash_says_how_it_was_made() -> None:
    salt = bytes(16)
    hashed = hashlib.scrypt(b"psk_1", salt=salt, n=2, r=1, p=3, dklen=32)
    assert check_key("psk_1", f"scrypt$2$1$3${salt.hex()}${hashed.hex()}")
    assert not check_key("psk_1", f"scrypt$4$1$3${salt.hex()}${hashed.hex()}")


SALT_AND_HASH = f"{'0' * 32}${'0' * 64}"
MALFORMED = {
    "empty": "",
    "the key itself": "psk_1",
    "another algorithm": f"argon2$16384$8$1${SALT_AND_HASH}",
    "no salt": f"scrypt$16384$8$1$${'0' * 64}",
    "short hash": f"scrypt$16384$8$1${'0' * 32}${'0' * 62}",
    "a line more": f"scrypt$2$1$1${SALT_AND_HASH}\n",
    "no power of two": f"scrypt$3$8$1${SALT_AND_HASH}",
    "no cost": f"scrypt$0$0$0${SALT_AND_HASH}",
    "foreign digits": f"scrypt$٢$1$1${SALT_AND_HASH}",
    "too much memory": f"scrypt$1048576$99$9${SALT_AND_HASH}",
}


@pytest.mark.parametrize("stored", MALFORMED.values(), ids=MALFORMED)
def test_no_key_fits_a_malformed_hash(stored: str) -> None:
    assert not check_key("psk_1", stored)


def test_new_keys_have_256_bits_and_are_safe_everywhere() -> None:
    keys = {new_key() for _ in range(50)}
    assert len(keys) == 50
    for key in keys:
        assert len(key) == len("psk_") + 43
        assert key.isascii()
        assert key.replace("-", "").replace("_", "").isalnum()
