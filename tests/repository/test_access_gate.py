"""Git's hooks and the doctor at a broker that asks for access tokens."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from tests.broker import BrokerProcess
from tests.commandline import Ended
from tests.modes import VARIATION
from tests.repository.gating import DIGITS, Gated, gate_on, new_repository
from tests.stranger import listening

HINTS = ("TANDEM_TOKEN", "tandem token create")


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that asks for tokens; a test that stops it starts it again."""
    with BrokerProcess(tmp_path_factory.mktemp("broker"), auth="token") as started:
        yield started


@pytest.fixture
def gated(asking: BrokerProcess, tmp_path: Path, config_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Gated:
    """A repository of the person who runs the broker, with its gate on and their configuration in `config_dir`."""
    assert config_dir.is_dir()
    monkeypatch.setenv("TANDEM_DATA_DIR", str(asking.data_dir))
    return gate_on(asking, new_repository(tmp_path / "repository"))


def put_up(gated: Gated, *, approve: bool = True) -> str:
    """Propose the staged change, and have it approved; returns the review's id."""
    review_id = gated.submit()
    if approve:
        claim = gated.tandem("review", "claim", review_id, "--reviewer-id", "rev", "--json").data
        verdict = ("--verdict", "approved", "--claim-generation", str(claim["claim_generation"]))
        assert gated.tandem("review", "verdict", review_id, *verdict).status == 0
    return review_id


def token(gated: Gated, *options: str) -> str:
    return gated.tandem("token", "create", "colleague", *options, "--json").data["token"]


def test_the_owners_commits_are_judged_also_after_a_restart(gated: Gated) -> None:
    gated.stage(DIGITS)
    assert "not approved" in gated.refused("commit", "-m", "Change it")
    review_id = put_up(gated)
    gated.broker.stop()
    gated.broker.start()
    gated.git("commit", "--quiet", "-m", "Change it")
    assert gated.trailers() == [review_id]
    # The environment says where the data is only to commands; the hook knows by itself.
    gated.stage({"b.txt": "alpha\n"})
    assert "not approved" in gated.refused("commit", "-m", "More", TANDEM_DATA_DIR="/nowhere")


def test_p7_each_of_several_brokers_judges_by_the_token_that_it_left_and_gets_no_other(
    postgres_url: str, tmp_path: Path, config_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert config_dir.is_dir()
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    first, second = (BrokerProcess(folder, auth="token", database_url=postgres_url) for folder in folders)
    with first, second, monkeypatch.context() as owner:
        owner.setenv("TANDEM_DATA_DIR", str(first.data_dir))
        gated = gate_on(first, new_repository(tmp_path / "repository"))
        both = f"{first.url},{second.url}"
        switched = gated.person("gate", "on", "--broker", both)
        assert switched.ok, switched.stdout
        owner.setenv("TANDEM_DATA_DIR", "/nowhere")
        at_second = replace(gated, broker=second)
        gated.stage(DIGITS)
        reviews = [put_up(gated)]
        gated.git("commit", "--quiet", "-m", "Change it")
        first.stop()
        gated.stage({"b.txt": "alpha\n"})
        assert "not approved" in gated.refused("commit", "-m", "More")
        reviews.append(put_up(at_second))
        second.stop()
        second.start()
        gated.git("commit", "--quiet", "-m", "More")
        assert [gated.trailers(revision=name) for name in ("HEAD~", "HEAD")] == [[one] for one in reviews]
        gated.stage({"b.txt": "beta\n"})
        with listening(lambda _said: b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n") as (port, told):
            gated.rewrite(broker=f"http://127.0.0.1:{port},{second.url}")
            assert "not approved" in gated.refused("commit", "-m", "Again")
        assert told
        assert not [said for said in told if b"uthorization" in said or b"/api/" in said]


def test_a_colleagues_commits_are_judged_by_their_token(gated: Gated) -> None:
    theirs = token(gated, "--role", "proposer", "--project", gated.project)
    gated.stage(DIGITS)
    assert "not approved" in gated.refused("commit", "-m", "Change it", TANDEM_TOKEN=theirs)
    review_id = put_up(gated)
    gated.git("commit", "--quiet", "-m", "Change it", TANDEM_TOKEN=theirs)
    assert gated.trailers() == [review_id]


@pytest.mark.parametrize(
    ("wrong", "told"), [("tdm_wrong", HINTS), ("two words", ("The value of TANDEM_TOKEN is no access token",))]
)
def test_without_a_token_that_counts_nothing_passes_and_it_is_said_why(
    gated: Gated, wrong: str, told: tuple[str, ...]
) -> None:
    gated.stage(DIGITS)
    put_up(gated)
    said = gated.refused("commit", "-m", "Change it", TANDEM_TOKEN=wrong)
    assert all(one in said for one in told), said
    assert wrong not in said
    gated.git("commit", "--quiet", "-m", "Change it")


@pytest.mark.skipif(os.name == "nt", reason="platform: a script is the editor")
def test_what_could_not_be_recorded_for_want_of_a_token_is_recorded_later(gated: Gated, tmp_path: Path) -> None:
    gated.settings(tandem_enabled=True, review_granularity="per_plan")
    gated.git("switch", "--quiet", "-c", "plan")
    created = gated.tandem("token", "create", "colleague", "--role", "proposer", "--json").data
    # Revoked after the gate has judged, and before the commit is recorded.
    editor = tmp_path / "editor"
    revoke = f"TANDEM_TOKEN= TANDEM_BROKER={gated.broker.url} tandem token revoke {created['token_id']}"
    editor.write_text(f"#!/bin/sh\n{revoke}\n", "utf-8")
    editor.chmod(0o755)
    gated.stage(DIGITS)
    made = gated.try_git(
        "commit", "--quiet", "--edit", "-m", "feat(01-01): first", TANDEM_TOKEN=created["token"], GIT_EDITOR=str(editor)
    )
    assert (made.ok, "recorded once the broker can be told" in made.stderr) == (True, True), made.stderr
    assert gated.tandem("commits", "list", "--json").data["commits"] == []
    gated.stage({"b.txt": "beta\n"})
    gated.git("commit", "--quiet", "-m", "feat(01-01): second")
    recorded = gated.tandem("commits", "list", "--json").data["commits"]
    subjects = {gated.git("log", "-1", "--format=%s", one["commit"]) for one in recorded}
    assert subjects == {"feat(01-01): first", "feat(01-01): second"}


# ------------------------------------------------------------------------------------ the doctor


def said(ended: Ended, *checks: str) -> list[dict[str, Any]]:
    """Returns the findings of some checks."""
    return [one for one in ended.data["findings"] if one["check"] in checks]


def examined(gated: Gated, **environment: str) -> Ended:
    variables: dict[str, Any] = environment
    return gated.tandem("doctor", "--json", **variables)


def test_the_doctor_says_whose_token_is_taken(gated: Gated, tmp_path: Path) -> None:
    [own] = said(examined(gated), "access")
    assert (own["state"], "takes its owner's" in own["message"]) == ("ok", True)
    theirs = str(tmp_path / "theirs")
    variables = {"TANDEM_DATA_DIR": theirs, "TANDEM_TOKEN": token(gated, "--role", "proposer")}
    [colleague] = said(examined(gated, **variables), "access")
    assert (colleague["state"], "the one in TANDEM_TOKEN" in colleague["message"]) == ("ok", True)
    for wrong, fix in (("", "ask the person who runs the broker"), ("tdm_wrong", "put a token that counts")):
        ended = examined(gated, TANDEM_DATA_DIR=theirs, TANDEM_TOKEN=wrong)
        [found] = said(ended, "access")
        assert (ended.status, found["state"], fix in found["fix"]) == (1, "problem", True)
        # A check that doctor has no access for is no further problem.
        assert {one["state"] for one in said(ended, "database")} == {"skipped"}


def test_the_doctor_names_who_has_an_account_and_warns_of_who_is_logged_in_and_can_read_what_was_committed(
    gated: Gated, shared_broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tandem.core.platforms.accounts", lambda: ["rita", "sam"])
    own = psutil.Process().username()
    present = [SimpleNamespace(name=name) for name in (own, "sam", own, "sam")]
    monkeypatch.setattr("psutil.users", lambda: present)
    [asks] = said(examined(gated), "users")
    assert (asks["state"], "asks for access tokens" in asks["message"]) == ("ok", True)
    trusting: dict[str, Any] = {"TANDEM_BROKER": shared_broker.url, "TANDEM_DATA_DIR": str(shared_broker.data_dir)}
    ended = gated.tandem("doctor", "--json", "--broker", shared_broker.url, **trusting)
    [found] = said(ended, "users")
    assert (ended.status, found["state"], 'auth = "token"' in found["fix"]) == (1, "problem", True)
    assert "logged in on this machine (sam)" in found["message"]
    assert "every file that was ever committed" in found["message"]
    # No one else is there any more.
    present[:] = present[:1]
    alone = said(gated.tandem("doctor", "--json", "--broker", shared_broker.url, **trusting), "users", "access")
    assert [one["state"] for one in alone] == ["note", "ok"]
    assert 'auth = "token"' in alone[0]["fix"]


@VARIATION
def test_the_doctor_finds_tokens_that_nobody_is_asked_for(gated: Gated, shared_broker: BrokerProcess) -> None:
    trusting: dict[str, Any] = {"TANDEM_BROKER": shared_broker.url, "TANDEM_DATA_DIR": str(shared_broker.data_dir)}
    made = gated.tandem("token", "create", "rita", "--role", "proposer", "--json", **trusting).data
    ended = gated.tandem("doctor", "--json", "--broker", shared_broker.url, **trusting)
    assert gated.tandem("token", "revoke", made["token_id"], **trusting).status == 0
    [found] = said(ended, "access")
    assert (ended.status, found["state"], 'auth = "token"' in found["fix"]) == (1, "problem", True)


def test_commands_about_a_gate_have_its_brokers_token(gated: Gated, tmp_path: Path) -> None:
    """Commands ask the gate's broker, wherever the user's own data is by now."""
    away: dict[str, Any] = {"TANDEM_DATA_DIR": str(tmp_path / "moved"), "TANDEM_BROKER": ""}
    for command in (("gate", "status"), ("audit", "HEAD")):
        ended = gated.tandem(*command, "--json", **away)
        assert ended.envelope["ok"], ended.stdout


def test_a_servers_hook_asks_with_the_token_that_it_was_given(gated: Gated, tmp_path: Path) -> None:
    server = tmp_path / "shop.git"
    gated.git("clone", "--quiet", "--bare", str(gated.root), str(server))
    created = gated.tandem("token", "create", "server", "--role", "reviewer", "--project", gated.project, "--json").data
    named = ("--broker", gated.broker.url, "--project", gated.project)
    assert gated.tandem("gate", "server-hook", str(server), *named, TANDEM_TOKEN=created["token"]).status == 0
    assert stat.S_IMODE((server / "tandem" / "broker.json").stat().st_mode) == (0o666 if os.name == "nt" else 0o600)
    start = gated.head()
    gated.stage(DIGITS)
    made = gated.git("commit-tree", gated.git("write-tree"), "-p", start, "-m", "Change it")
    push = ("push", "--quiet", "--no-verify", str(server), f"{made}:main")
    assert "not approved" in gated.refused(*push)
    put_up(gated)
    gated.git(*push)
    # It repairs the hook with the token that is kept.
    assert gated.tandem("gate", "server-hook", str(server)).status == 0
    gated.tandem("token", "revoke", created["token_id"])
    other = gated.git("commit-tree", f"{start}^{{tree}}", "-p", made, "-m", "As before")
    assert "TANDEM_TOKEN" in gated.refused(*push[:-1], f"{other}:main")
