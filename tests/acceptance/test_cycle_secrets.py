"""Keys and tokens are where they are handed out, and nowhere else: no database, no log, no archive."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import httpx
import psycopg
from psycopg import sql

from tests.acceptance.cycling import Crew
from tests.broker import BrokerProcess, StartBroker, fresh_project
from tests.databases import ON_BOTH_DATABASES

pytest_plugins = ["tests.acceptance.cycling_crews"]

MAC = re.compile(r"[0-9a-f]{64}")
OWN = "a key of my own, long enough"


def a_whole_session(crew: Crew) -> None:
    """Two cycles with rework, repeated calls and many refusals, by sessions that come and go."""
    crew.prepare(gemini=OWN)
    opening = {"role": "gemini", "psk": OWN, "idempotency_key": "open"}
    twice = [crew.do("session_open", **opening) for _ in range(2)]
    assert twice[0] == twice[1]
    crew.refused("IDEMPOTENCY_CONFLICT", "session_open", **{**opening, "psk": crew.keys["codex"]})
    for psk in (crew.keys["gemini"], "almost the right key"):
        crew.refused("AUTH_FAILED", "session_open", role="codex", psk=psk, idempotency_key=f"wrong {psk[:3]}")
    starting = {"feature": "Login page", "idempotency_key": "start"}
    crew.cycle = [crew.do("cycle_start", **starting) for _ in range(2)][1]
    refusals(crew)
    locking = {"session_token": crew.sessions["gemini"], "idempotency_key": "lock"}
    assert [crew.do("lock_acquire", **locking) for _ in range(2)][1]["lock_token"] == crew.cycle["lock_token"]
    writing = {**crew.handing("codex"), "idempotency_key": "write"}
    assert crew.do("handoff_write", **writing) == crew.do("handoff_write", **writing)
    crew.play("gemini", "codex", "gemini")
    refusals(crew)
    crew.complete()
    crew.archive()
    crew.keys |= crew.do("cycle_rotate", role="gemini", idempotency_key="rotate")["keys"]
    crew.do("cycle_revoke", role="codex")
    refusals(crew)
    crew.make_keys()
    crew.join("gemini")
    closed = crew.join("codex")
    crew.join("codex")
    crew.do("session_close", session_token=closed, idempotency_key="close")
    crew.start("Logout page")
    crew.play("codex", "gemini")
    for look in ("cycle_status", "get_cycle", "list_cycles", "get_audit_log"):
        crew.do(look)
    crew.read("codex")


def refusals(crew: Crew) -> None:
    """Everything that is refused with tokens in hand, some of it under an idempotency key."""
    number = len(crew.refusals)
    current = crew.cycle["lock_token"]
    locks = [current, *[token for token in crew.secrets if token.startswith("lock_") and token != current][:1]]
    for role, session in crew.sessions.items():
        for lock in locks:
            number += 1
            tokens = {"session_token": session, "lock_token": lock, "idempotency_key": f"refused {number}"}
            for target in ("gemini", "codex", "stranger"):
                sent = {"target": target, "payload": crew.payload(role, target, notes=[lock]), **tokens}
                crew.call("handoff_write", **sent)
            crew.call("cycle_archive", **tokens)
            crew.call("lock_acquire", session_token=lock, idempotency_key=f"refused {number}")


def needles(crew: Crew) -> dict[str, bytes]:
    """Texts that must not appear anywhere: every key and token, its secret part, and hashes open to guessing."""
    found: dict[str, bytes] = {}
    for secret in crew.secrets:
        found[secret] = secret.encode()
        for mac in MAC.findall(secret):
            found[f"the secret part of {secret}"] = mac.encode()
        if secret in crew.keys.values():
            found[f"the bare hash of {secret}"] = hashlib.sha256(secret.encode()).hexdigest().encode()
    return found


def files_of(broker: BrokerProcess) -> dict[str, bytes]:
    """Every file that the broker wrote: database, logs, archives, its standard error."""
    return {str(file): file.read_bytes() for file in broker.folder.rglob("*") if file.is_file()}


def tables_of(url: str) -> dict[str, bytes]:
    """Every row of every table of a PostgreSQL database as text."""
    with psycopg.connect(url) as server:
        names = [row[0] for row in server.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
        rows = {
            name: server.execute(sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(name))).fetchall()
            for name in names
        }
    return {name: "\n".join(row[0] for row in found).encode() for name, found in rows.items()}


@ON_BOTH_DATABASES
def test_no_key_and_no_token_is_found_anywhere(start_broker: StartBroker, database_settings: dict[str, object]):
    broker = start_broker(log_level="debug", **database_settings)
    with Crew(broker.url, fresh_project()) as crew:
        a_whole_session(crew)
        assert len(crew.secrets) > 12
        assert len(crew.refusals) > 40
        places = files_of(broker)
        broker.stop()
        broker.start()
        places |= {f"{name} after a restart": content for name, content in files_of(broker).items()}
        if "database_url" in database_settings:
            places |= tables_of(str(database_settings["database_url"]))
        places["every event"] = json.dumps(crew.events()).encode()
        places["every refusal"] = "\n".join(crew.refusals).encode()
        places["every other answer"] = "\n".join(crew.others).encode()
        places["/healthz"] = httpx.get(f"{broker.url}/healthz").content
        wanted = needles(crew)
    # The search finds texts that are there.
    everything = b"\n".join(places.values())
    assert everything.count(b"Logout page") > 2
    assert b"handoffs/001-codex.json" in everything
    assert any(name.endswith(".jsonl") and b"a wrong key for the role codex" in places[name] for name in places)
    found = [(what, name) for what, needle in wanted.items() for name, content in places.items() if needle in content]
    assert not found
    broker.assert_intact()


def test_the_key_of_tokens_is_the_users_alone(broker: BrokerProcess, crew: Crew):
    assert crew.secrets
    secret = broker.secret_key
    assert secret.stat().st_mode & 0o077 == 0
    key = secret.read_bytes().strip()
    everything = files_of(broker)
    found = [Path(name).name for name, content in everything.items() if key in content]
    assert found == ["secret.key"] * secret.is_relative_to(broker.data_dir)


def test_a_key_or_token_in_the_wrong_place_is_not_repeated(crew: Crew):
    # As when arguments are mixed up: refusals go into transcripts, and are kept for a repetition.
    crew.start()
    key = crew.keys["gemini"]
    tokens = crew.tokens("gemini")
    session, lock = tokens["session_token"], tokens["lock_token"]
    sent: dict[str, Any] = {"target": "codex", "payload": {}, **tokens}
    mistakes: dict[str, tuple[str, dict[str, Any], str]] = {
        "role": ("session_open", {"role": key, "psk": "gemini"}, key),
        "role of a wait": ("cycle_status", {"role": session}, session),
        "target": ("handoff_write", {**sent, "target": lock}, lock),
        "target of a reader": ("handoff_read", {"target": session}, session),
        "workflow": ("cycle_start", {"feature": "Any", "workflow": key}, key),
        "session": ("lock_acquire", {"session_token": lock}, lock),
        "lock": ("handoff_write", {**sent, "lock_token": session}, session),
        "role to rotate": ("cycle_rotate", {"role": key}, key),
    }
    repeated: list[str] = []
    for what, (operation, arguments, secret) in mistakes.items():
        assert not crew.call(operation, **arguments)["ok"]
        if secret in crew.refusals[-1]:
            repeated.append(what)
    assert not repeated
