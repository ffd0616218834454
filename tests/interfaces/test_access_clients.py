"""Clients of a broker that asks for access tokens: whose token goes where, and what people meet who have none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tandem.client import TandemClient
from tandem.core import platforms
from tests.commandline import DIFF, Ended, Inside, Shell, finish, owners_desk
from tests.interfaces.bridging import Peer, Reply, Request, bridge, peer
from tests.interfaces.broker_process import WatchedBroker, watched_broker
from tests.pages.guarded import Surfer

HINTS = ("TANDEM_TOKEN", "tandem token create")
"""Words that every refusal for a missing token must have."""

Environment = dict[str, Any]
"""Variables by name."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedBroker]:
    """One broker for all; a test that stops it starts it again, which makes its owner's token void."""
    with watched_broker(tmp_path_factory.mktemp("broker"), auth="token") as started:
        yield started


@pytest.fixture
def owner(broker: WatchedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inside:
    """The command line of the person who runs the broker, in a project of their own."""
    return owners_desk(broker.url, broker.data_dir, tmp_path, monkeypatch)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Environment:
    """The environment of somebody else, who has none of the broker's data."""
    return {"TANDEM_DATA_DIR": str(tmp_path / "theirs"), "TANDEM_TOKEN": ""}


def holding(environment: Environment, token: str) -> Environment:
    """An environment with a token in it."""
    return {**environment, "TANDEM_TOKEN": token}


def made(owner: Inside, name: str, *options: str) -> tuple[str, str]:
    """A new token: its id and its text."""
    data = owner.run("token", "create", name, *options, "--json").data
    return data["token_id"], data["token"]


def refused(ended: Ended) -> dict[str, Any]:
    """The error of a call that was refused for want of a token."""
    error = ended.envelope["error"]
    assert (ended.status, error["code"]) == (1, "UNAUTHENTICATED")
    assert all(hint in error["message"] for hint in HINTS), error
    return error


def read(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_others_are_told_what_to_do(owner: Inside, elsewhere: Environment) -> None:
    shown = owner.run("review", "list", **elsewhere)
    assert shown.status == 1
    assert all(hint in shown.stderr for hint in HINTS)
    assert refused(owner.run("review", "list", "--json", **elsewhere))["details"]["reason"] == "missing"
    wrong = holding(elsewhere, "tdm_wrong")
    assert refused(owner.run("review", "list", "--json", **wrong))["details"]["reason"] == "unknown"
    shown = owner.run("review", "list", **wrong)
    assert "The content of TANDEM_TOKEN was sent" in shown.stderr
    assert "tdm_wrong" not in shown.stdout + shown.stderr


@pytest.mark.parametrize("text", ["two words", "tdm_é", "tdm_a\ntdm_b"])
def test_what_is_no_token_is_not_sent(owner: Inside, elsewhere: Environment, text: str) -> None:
    ended = owner.run("review", "list", "--json", **holding(elsewhere, text))
    error = ended.envelope["error"]
    assert (ended.status, error["code"], error["details"]["setting"]) == (1, "CONFIG_INVALID", "TANDEM_TOKEN")
    assert text not in error["message"]
    with bridge(folder=owner.cwd, **holding(elsewhere, text), TANDEM_BROKER=owner.url) as client:
        status, said = client.end()
    assert (status, "TANDEM_TOKEN is no access token" in said, text in said) == (2, True, False)


def test_a_token_lets_its_holder_do_what_it_is_for(owner: Inside, elsewhere: Environment) -> None:
    created = owner.run("token", "create", "rita", "--role", "proposer", "--project", owner.project, "--days", "2")
    token = created.stdout.strip()
    assert (created.status, token.startswith("tdm_"), token in created.stderr) == (0, True, False)
    assert "TANDEM_TOKEN" in created.stderr
    rita = holding(elsewhere, token)
    put_up = owner.run("review", "create", "--intent", "hers", "--diff", DIFF, "--json", **rita)
    status = owner.run("review", "status", put_up.data["review_id"], "--json", **rita)
    assert status.data["status"] == "pending"
    proposal = owner.run("review", "proposal", put_up.data["review_id"], "--json").data
    assert proposal["proposer_id"] == "rita"
    claim = owner.run("review", "claim", put_up.data["review_id"], "--reviewer-id", "rita", "--json", **rita)
    assert (claim.status, claim.envelope["error"]["code"]) == (1, "FORBIDDEN")
    tokens = owner.run("token", "list", "--json", **rita)
    assert (tokens.status, tokens.envelope["error"]["code"]) == (1, "FORBIDDEN")


def test_the_folder_does_not_decide_what_a_token_is_for(owner: Inside) -> None:
    data = owner.run("token", "create", "everywhere", "--role", "proposer", "--json").data
    assert (data["project"], data["expires_at"]) == (None, None)
    [listed] = [line for line in owner.run("token", "list").stdout.splitlines() if data["token_id"] in line]
    assert ("all projects" in listed, "never" in listed) == (True, True)


def test_a_token_that_is_taken_back_counts_no_more(
    broker: WatchedBroker, owner: Inside, elsewhere: Environment
) -> None:
    token_id, token = made(owner, "temp", "--role", "reviewer")
    theirs = holding(elsewhere, token)
    assert owner.run("review", "list", "--json", **theirs).status == 0
    assert token_id in owner.run("token", "list").stdout
    assert owner.run("token", "revoke", token_id).status == 0
    assert refused(owner.run("review", "list", "--json", **theirs))["details"]["reason"] == "revoked"
    [shown] = [one for one in owner.run("token", "list", "--json").data["tokens"] if one["token_id"] == token_id]
    assert (shown["state"], shown["name"], shown["roles"]) == ("revoked", "temp", ["reviewer"])
    assert [name for name, content in read(broker.folder).items() if token.encode() in content] == []


def test_a_token_is_shown_once(owner: Inside) -> None:
    again = ("token", "create", "once", "--role", "proposer", "--idempotency-key", "the-same")
    assert owner.run(*again).stdout.startswith("tdm_")
    repeated = owner.run(*again)
    assert (repeated.status, repeated.stdout, "cannot be seen again" in repeated.stderr) == (1, "", True)


def test_a_bridge_goes_on_over_a_restart(broker: WatchedBroker, owner: Inside, elsewhere: Environment) -> None:
    _, token = made(owner, "robot", "--role", "proposer", "--role", "reviewer", "--role", "operator")
    named = {"TANDEM_BROKER": broker.url}
    with (
        bridge(folder=owner.cwd) as own,
        bridge(folder=owner.cwd, **named) as own_by_name,
        bridge(folder=owner.cwd, **named, **holding(elsewhere, token)) as robots,
    ):
        bridges = (own, own_by_name, robots)
        for client in bridges:
            assert client.tool("list_reviews")["ok"]
        cursor = robots.tool("list_reviews", status="pending")["data"]["cursor"]
        # The other one would start a broker itself while none is there.
        patient = (own_by_name, robots)
        waits = [one.send("tools/call", _wait_from(cursor)) for one in patient]
        broker.stop()
        broker.start()
        review_id = owner.created()
        for client, number in zip(patient, waits, strict=True):
            answer = client.receive()
            assert answer["id"] == number
            told = answer["result"]["structuredContent"]["data"]["reviews"]
            assert review_id in {one["review_id"] for one in told}
        for client in bridges:
            assert client.tool("get_review_status", review_id=review_id)["data"]["status"] == "pending"


def _wait_from(cursor: str) -> dict[str, Any]:
    return {"name": "list_reviews", "arguments": {"status": "pending", "wait": True, "cursor": cursor, "timeout_s": 40}}


def test_an_agent_without_a_token_learns_where_it_belongs(owner: Inside, elsewhere: Environment) -> None:
    with bridge(folder=owner.cwd, **elsewhere, TANDEM_BROKER=owner.url) as client:
        envelope = client.tool("create_review", intent="x", agent_type="x", diff=DIFF)
        assert envelope["error"]["code"] == "UNAUTHENTICATED"
        assert "in which the agent's client starts 'tandem mcp'" in envelope["error"]["message"]
        assert all(hint in envelope["error"]["message"] for hint in HINTS)
        assert "TANDEM_TOKEN" in json.dumps(client.call("tools/list"))


def test_a_command_waits_on_over_a_restart(broker: WatchedBroker, owner: Inside) -> None:
    review_id = owner.created()
    waiting = Shell(broker.url, owner.cwd).start("review", "status", review_id, "--wait", "--timeout", "60")
    broker.await_waiting(1)
    broker.stop()
    broker.start()
    claim = owner.run("review", "claim", review_id, "--reviewer-id", "rev", "--json").data
    verdict = ("--verdict", "approved", "--claim-generation", str(claim["claim_generation"]))
    assert owner.run("review", "verdict", review_id, *verdict).status == 0
    ended = finish(waiting)
    assert (ended.status, "approved" in ended.stdout) == (0, True), ended.stderr


# ------------------------------------------------------------------------------------ whose token goes where


def publish(folder: Path, url: str, token: str) -> Environment:
    """A data folder as a running broker leaves it; the environment of its user."""
    folder.mkdir(exist_ok=True)
    (folder / "broker.json").write_text(json.dumps({"url": url, "token": token}), "utf-8")
    return {"TANDEM_DATA_DIR": str(folder), "TANDEM_TOKEN": ""}


def envelope(request: Request) -> Reply:
    assert request.path.startswith("/api/v1/")
    return Reply(b'{"ok": true, "data": {"projects": []}}')


def asked(url: str, environment: Environment, cwd: Path) -> None:
    assert Inside(url, cwd).run("project", "list", "--json", **environment).status == 0


def bearer(server: Peer) -> str | None:
    return server.next().headers.get("authorization")


def test_the_owners_token_goes_to_the_published_address_only(tmp_path: Path) -> None:
    with peer(envelope) as own, peer(envelope) as foreign:
        environment = publish(tmp_path / "data", own.url, "tdm_o_own")
        asked(own.url, environment, tmp_path)
        assert bearer(own) == "Bearer tdm_o_own"
        asked(foreign.url, environment, tmp_path)
        assert bearer(foreign) is None
        asked(f"http://localhost:{own.port}", environment, tmp_path)
        assert bearer(own) is None
        asked(foreign.url, holding(environment, " tdm_mine\n"), tmp_path)
        assert bearer(foreign) == "Bearer tdm_mine"


@pytest.mark.anyio
async def test_a_refused_token_is_read_again_and_the_call_made_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def script(request: Request) -> Reply:
        if request.headers.get("authorization") == "Bearer tdm_o_new":
            return envelope(request)
        publish(tmp_path, server.url, "tdm_o_new")
        refusal: dict[str, Any] = {"code": "UNAUTHENTICATED", "message": "No.", "details": {}, "retryable": False}
        return Reply(json.dumps({"ok": False, "error": refusal}).encode(), status=401)

    with peer(script) as server:
        for name, value in publish(tmp_path, server.url, "tdm_o_old").items():
            monkeypatch.setenv(name, value)
        async with TandemClient(server.url) as client:
            # A write, which must not be made twice: a refusal had no effect.
            await client.call("create_review", {"intent": "x"})
            assert [bearer(server), bearer(server)] == ["Bearer tdm_o_old", "Bearer tdm_o_new"]
            await client.call("create_review", {"intent": "x"})
            assert bearer(server) == "Bearer tdm_o_new"
            publish(tmp_path, server.url, "tdm_o_other")
            await client.call("create_review", {"intent": "x"})
            assert (bearer(server), server.requests.empty()) == ("Bearer tdm_o_new", True)


def test_a_token_is_no_argument_of_any_process(owner: Inside) -> None:
    """Every user of the machine can read the arguments of a process."""
    for command in (("review", "list"), ("mcp",), ("token", "create", "x", "--role", "admin")):
        ended = finish(Shell(owner.url, owner.cwd).start(*command, "--token", "tdm_x"))
        assert (ended.status, "--token" in ended.stderr) == (2, True)


# ------------------------------------------------------------------------------------ the pages


def test_open_logs_the_browser_in_once(owner: Inside) -> None:
    review_id = owner.created()
    printed = owner.run("open", review_id, "--print")
    address = printed.stdout.strip()
    assert address.startswith(f"{owner.url}/login?code=")
    assert "within 60 s" in printed.stderr
    with Surfer(base_url=owner.url, trust_env=False) as browser:
        assert browser.get(address).headers["location"] == f"/reviews/{review_id}"
        assert not browser.get("/").headers.get("location", "").startswith("/login")
    with Surfer(base_url=owner.url, trust_env=False) as late:
        assert late.get(address).status_code == httpx.codes.UNAUTHORIZED


@pytest.mark.skipif(os.name == "nt", reason="platform: a script is the browser")
def test_others_on_the_machine_do_not_see_the_login(owner: Inside, tmp_path: Path) -> None:
    notes, browser = tmp_path / "addresses", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> {notes}\n', "utf-8")
    browser.chmod(0o755)
    done = finish(Shell(owner.url, owner.cwd).start("open", BROWSER=str(browser)))
    assert done.stdout.startswith(f"{owner.url}/login?code=")
    if len(platforms.accounts()) > 1:
        assert ("Others have accounts here" in done.stderr, notes.exists()) == (True, False)
    else:
        assert notes.read_text("utf-8") == done.stdout


def test_who_may_not_in_gets_no_address(owner: Inside, elsewhere: Environment) -> None:
    refused(owner.run("open", "--print", "--json", **elsewhere))


def test_programs_that_are_started_from_here_do_not_get_the_token(tmp_path: Path, elsewhere: Environment) -> None:
    """A broker that a bridge starts outlives it, and does not belong to the holder of a token for another broker."""
    code = "from tandem.bridge.credentials import without_secrets; print(sorted(without_secrets()))"
    environment = {**os.environ, **elsewhere, "TANDEM_TOKEN": "tdm_x"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "TANDEM_DATA_DIR" in done.stdout
    assert "TANDEM_TOKEN" not in done.stdout
