"""Access tokens over a broker's life, at several brokers, and where no secret may be found."""

from __future__ import annotations

import hashlib
import json
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.acceptance.accessing import TOKEN, Bearer, owner_token
from tests.acceptance.databases import run_sql
from tests.acceptance.pooling import PID, Steward
from tests.acceptance.staffed import until
from tests.acceptance.test_cycle_secrets import files_of, tables_of
from tests.broker import BrokerProcess, StartBroker, fresh_project
from tests.git.sandbox import Sandbox

pytest_plugins = ["tests.acceptance.accessing_brokers"]


def test_after_a_kill_every_token_is_as_it_was_but_the_owners_and_the_log_is_held_against_them(
    start_broker: StartBroker, database_settings: dict[str, object]
):
    broker = start_broker(**TOKEN, **database_settings)
    with Bearer.owner(broker) as before:
        alice, bob = before.give("alice", "operator"), before.give("bob", "operator", bound=True)
        before.do("revoke_token", token_id=bob.token_id)
        broker.kill()
    broker.start()
    with Bearer.owner(broker, before.project) as after:
        assert after.token != before.token
        with Bearer(broker.url, before.project, before.token) as stale:
            stale.refused("UNAUTHENTICATED", "list_reviews")
        alice.do("list_reviews")
        bob.refused("UNAUTHENTICATED", "list_reviews")
        states = {one["token_id"]: one["state"] for one in after.plain("list_tokens")["data"]["tokens"]}
        assert states == {alice.token_id: "valid", bob.token_id: "revoked"}
        carol = after.give("carol", "operator")
        subject = f"token:{bob.token_id}"
        events = after.plain("get_audit_log", review_id=subject, limit=50)["data"]["events"]
        assert [event["kind"] for event in events] == ["token_created", "token_revoked"]
        about = {"what": "access token", "name": "bob", "roles": ["operator"], "project": after.project}
        assert all((event["data"], event["project"]) == (about, after.project) for event in events)
    for desk in (alice, bob, carol):
        desk.close()
    broker.assert_intact()
    broker.stop()
    run_sql(broker, database_settings, "UPDATE access_tokens SET roles = 'admin,operator'")
    verified = broker.audited()
    assert verified.status != 0
    assert "access_tokens" in verified.stdout
    assert "roles" in verified.stdout


@pytest.fixture
def nodes(postgres_url: str, start_broker: StartBroker) -> tuple[BrokerProcess, BrokerProcess]:
    """Two brokers with one database, that need tokens."""
    one, two = (start_broker(**TOKEN, database_url=postgres_url) for _ in range(2))
    return one, two


def test_a_token_counts_at_every_node_and_its_revocation_at_once(nodes: tuple[BrokerProcess, BrokerProcess]):
    one, two = nodes
    with Bearer.owner(one) as owner:
        for _ in range(2):
            with owner.give("alice", "operator") as here, Bearer(two.url, owner.project, here.token) as there:
                there.do("list_reviews")
                here.do("list_reviews")
                owner.do("revoke_token", token_id=here.token_id)
                assert there.refused("UNAUTHENTICATED", "list_reviews")["reason"] == "revoked"
        # An owner's token is that of one broker.
        with Bearer(two.url, owner.project, owner.token) as elsewhere:
            elsewhere.refused("UNAUTHENTICATED", "list_reviews")
    one.assert_intact()


def test_what_a_wait_brings_is_for_nobody_whose_token_was_revoked_meanwhile(owner: Bearer, guarded: BrokerProcess):
    review = owner.put_up()
    with owner.give("alice", "proposer") as alice, ThreadPoolExecutor(1) as pool:
        cursor = alice.do("get_review_status", review_id=review)["cursor"]
        waits = {"review_id": review, "wait": True, "cursor": cursor, "wake_on": "any", "timeout_s": 45}
        waiting = pool.submit(alice.call, "get_review_status", **waits)
        until(lambda: guarded.health()["waiting"], "alice waits")
        owner.do("revoke_token", token_id=alice.token_id)
        owner.claim(review)
        answer = waiting.result(60)
    assert answer["error"]["code"] == "UNAUTHENTICATED"


def test_no_secret_is_found_anywhere(start_broker: StartBroker, database_settings: dict[str, object], repo: Sandbox):
    broker = start_broker(**TOKEN, log_level="debug", **database_settings)
    refusals: list[str] = []
    with Bearer.owner(broker, fresh_project()) as owner:
        owner.register(repo.root)
        keyed = owner.do("create_token", name="bob", roles=["operator"], project=None, idempotency_key="key-1")
        owner.do("create_token", name="bob", roles=["operator"], project=None, idempotency_key="key-1")
        alice = owner.give("alice", "proposer", "reviewer", "operator", bound=True)
        alice.put_up()
        alice.claim(owner.put_up())
        # In the wrong places, as when arguments are mixed up.
        for number, field in enumerate(("name", "token_id", "roles", "days", alice.token)):
            for operation in ("create_token", "revoke_token"):
                asked = {"name": "x", "roles": ["operator"], field: alice.token, "idempotency_key": f"wrong-{number}"}
                answer = owner.plain(operation, **asked)
                assert not answer["ok"]
                # A field's name is repeated, but kept nowhere.
                refusals += [] if field == alice.token else [json.dumps(answer)]
        revoked = owner.give("carol", "operator")
        owner.do("revoke_token", token_id=revoked.token_id)
        refusals.append(revoked.raw("list_reviews", {}).text)
        code = alice.plain("create_login")["data"]["path"].partition("code=")[2]
        reviewer_pass = pass_of(owner)
        events = json.dumps(owner.plain("get_audit_log", limit=200))
        secrets_ = {
            "the owner's": owner.token,
            "alice's": alice.token,
            "bob's": keyed["token"],
            "carol's": revoked.token,
            "the login": code,
            "the reviewer's": reviewer_pass,
        }
        places = files_of(broker)
        [published] = [name for name in places if Path(name).name == "broker.json"]
        assert owner.token.encode() in places.pop(published)
        if "database_url" in database_settings:
            places |= tables_of(str(database_settings["database_url"]))
        places["every event"] = events.encode()
        places["some refusals"] = "\n".join(refusals).encode()
        places["the list"] = json.dumps(owner.plain("list_tokens")).encode()
    for desk in (alice, revoked):
        desk.close()
    everything = b"\n".join(places.values())
    # The search finds stored texts: the hash is stored, and in no event.
    stored = hashlib.sha256(alice.token.encode()).hexdigest().encode()
    assert stored in everything
    assert stored not in places["every event"]
    found = [
        (what, name)
        for what, secret in secrets_.items()
        for name, content in places.items()
        if secret.encode() in content or secret[-43:].encode() in content
    ]
    assert not found


def test_what_is_published_is_the_owners_alone(guarded: BrokerProcess):
    published = guarded.data_dir / "broker.json"
    assert stat.S_IMODE(published.stat().st_mode) == 0o600
    assert len(owner_token(guarded)) > 43
    logged = (guarded.data_dir / "logs" / "broker.jsonl").read_text("utf-8")
    assert '"ready"' in logged
    assert owner_token(guarded) not in logged


def pass_of(owner: Bearer) -> str:
    """The access token that a pool's supervisor gets for a reviewer to start."""
    steward = Steward(owner)
    steward.register()
    owner.put_up()
    [order] = steward.beat()["reviewers"]
    assert order["access"]
    return order["access"]


def test_a_reviewer_of_a_pool_has_a_pass_for_its_project_while_it_lives(owner: Bearer, repo: Sandbox):
    owner.register(repo.root)
    steward = Steward(owner)
    steward.register()
    review, other = owner.put_up(), owner.put_up(project=fresh_project())
    [order] = steward.beat()["reviewers"]
    name = order["reviewer_id"]
    # Told once: a supervisor that knows of it is not told again.
    assert [one["access"] for one in steward.beat()["reviewers"]] == [None]
    with Bearer(owner.url, owner.project, order["access"]) as reviewer:
        claim = reviewer.plain("claim_review")["data"]
        assert (claim["review_id"], claim["reviewer_id"]) == (review, name)
        reviewer.refused("NOT_FOUND", "get_proposal", review_id=other)
        for operation in ("create_review", "list_reviewers", "create_token", "supervisor_register"):
            reviewer.refused("FORBIDDEN", operation)
        assert reviewer.plain("create_login")["error"]["code"] == "FORBIDDEN"
        run = {"review_id": review, "claim_generation": claim["claim_generation"], "outcome": "timeout"}
        with owner.give("bob", "reviewer") as bob:
            bob.refused("FORBIDDEN", "report_outcome", reviewer_id=name, **run)
        reviewer.do("report_outcome", reviewer_id=name, **run)
        steward.beat({"reviewer_id": name, "wanted": "run", "state": "ended", "pid": PID, "exit_code": 0})
        assert reviewer.refused("UNAUTHENTICATED", "list_reviews") == {"reason": "revoked"}


def test_with_tokens_every_address_can_be_listened_to(start_broker: StartBroker):
    broker = start_broker(**TOKEN, host="0.0.0.0")
    published = json.loads((broker.data_dir / "broker.json").read_text("utf-8"))
    # Clients of this machine are told an address that they can call.
    assert published["url"] == broker.url
    assert httpx.post(f"{broker.url}/api/v1/list_reviews", json={}).status_code == 401
    with Bearer.owner(broker) as owner:
        owner.do("list_reviews")
    foreign = httpx.get(f"{broker.url}/healthz", headers={"Host": "evil.example"})
    assert foreign.status_code == 403


def test_an_address_of_its_own_is_a_name_of_the_broker(start_broker: StartBroker):
    ended = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False, timeout=10)
    addresses = [one for one in ended.stdout.split() if "." in one]
    own = addresses[0] if addresses else "127.0.0.2"
    broker = start_broker(**TOKEN, host=own)
    url = json.loads((broker.data_dir / "broker.json").read_text("utf-8"))["url"]
    assert own in url
    assert httpx.get(f"{url}/healthz").status_code == 200
