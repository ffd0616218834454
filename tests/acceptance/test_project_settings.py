"""What holds for a project, as the broker's machine has it: what `tandem config show` says, and no secrets."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.reviewing import Desk
from tests.broker import BrokerProcess, fresh_project
from tests.git.sandbox import Sandbox

SECRETS = ("hunter2", "sk-abcdefghijklmnopqrstuvwx", "tok-1", "wordpass")
POOL = {
    "provider": "custom",
    "command": [
        "reviewer",
        "--api-key",
        SECRETS[0],
        f"--token={SECRETS[2]}",
        SECRETS[1],
        "--fast",
        f"https://me:{SECRETS[3]}@example.org/x",
    ],
    "max_pool_size": 4,
}


@pytest.fixture(scope="module")
def configured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with settings from an option, a variable and the user's file, and with secrets among them."""
    folder = tmp_path_factory.mktemp("configured")
    (folder / "config").mkdir()
    (folder / "config" / "config.toml").write_text("page_limit = 300\n", "utf-8")
    settings = {"git_timeout_seconds": 9, "reviewer_pool": json.dumps(POOL), "config_dir": folder / "config"}
    with ExitStack() as stack:
        yield stack.enter_context(BrokerProcess(folder, **settings))


@pytest.fixture
def own(configured: BrokerProcess, repo: Sandbox) -> Iterator[Desk]:
    """A project of the broker's, registered for `repo`."""
    with Desk(configured.url, fresh_project()) as opened:
        opened.register(repo.root)
        yield opened


def shown(desk: Desk) -> dict[str, dict[str, Any]]:
    """The settings by name."""
    found = desk.do("get_project_settings")["settings"]
    by_name = {one["name"]: one for one in found}
    assert len(by_name) == len(found)
    return by_name


def test_it_is_what_config_show_says(
    own: Desk, configured: BrokerProcess, repo: Sandbox, monkeypatch: pytest.MonkeyPatch
):
    repo.write(".tandem/config.toml", 'git_timeout_seconds = 5\npage_limit = 9999\ngit_executable = "evil"\nodd = 1\n')
    monkeypatch.chdir(repo.root)
    monkeypatch.setattr(configured, "folder", repo.root)
    told = json.loads(configured.run("config", "show", "--json").stdout)["data"]
    found = shown(own)
    for name, setting in told["settings"].items():
        if name != "port":
            # Which ones few people need, and when they count, is for the reader of the list, and no part of the answer.
            del setting["advanced"], setting["takes_effect"]
            assert {"name": name, **setting} == {key: found[name][key] for key in ("name", *setting)}
    for name, setting in told["workflow"].items():
        assert (found[name]["value"], found[name]["origin"]) == (setting["value"], setting["origin"])
    file = str(repo.root / ".tandem" / "config.toml")
    assert (found["page_limit"]["value"], found["page_limit"]["origin"]) == (300, told_file(configured))
    assert "lower value than 300" in found["page_limit"]["ignored"]
    assert found["git_timeout_seconds"]["origin"] == "TANDEM_GIT_TIMEOUT_SECONDS"
    assert (found["data_dir"]["value"], found["data_dir"]["origin"]) == (str(configured.data_dir), "--data-dir")
    assert found["port"]["origin"] == "--port"
    assert found["git_executable"]["value"] == "git"
    assert "may not set this" in found["git_executable"]["ignored"]
    assert (found["odd"]["value"], found["odd"]["origin"]) == (None, file)
    assert found["odd"]["ignored"]


def told_file(broker: BrokerProcess) -> str:
    """The user's own configuration of a broker."""
    return str(Path(broker.environment["TANDEM_CONFIG_DIR"], "config.toml"))


def test_no_secret_is_shown(own: Desk, configured: BrokerProcess):
    found = shown(own)
    assert found["reviewer_pool"]["value"]["command"] == [
        "reviewer",
        "--api-key",
        "***",
        "--token=***",
        "***",
        "--fast",
        "***",
    ]
    text = json.dumps(own.do("get_project_settings")) + configured.run("config", "show").stdout
    assert not [secret for secret in SECRETS if secret in text]
    key = (configured.data_dir / "secret.key").read_text("utf-8").strip()
    assert key
    assert key not in text


def test_the_databases_password_is_hidden(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch, repo: Sandbox):
    url = broker.environment.get("TANDEM_DATABASE_URL")
    with Desk(broker.url, fresh_project()) as desk:
        desk.register(repo.root)
        assert shown(desk)["database_url"]["value"] == url
    monkeypatch.setenv("TANDEM_DATABASE_URL", "postgresql://me:hunter2@localhost/x?sslpassword=wordpass")
    told = BrokerProcess(broker.folder).run("config", "show", "--json").stdout
    assert "postgresql://me:***@localhost/x?sslpassword=***" in told


def test_gsds_settings_and_the_pools(own: Desk, repo: Sandbox):
    planning = {
        "tandem_enabled": True,
        "review_granularity": "per_plan",
        "execution_mode": "optimistic",
        "reviewer_pool": {"max_pool_size": 2, "scaling_ratio": 1, "model": "dear", "wrong": 1},
    }
    repo.write(".planning/config.json", json.dumps(planning))
    file = str(repo.root / ".planning" / "config.json")
    found = shown(own)
    assert (found["tandem_enabled"]["value"], found["tandem_enabled"]["origin"]) == (True, file)
    for name, holds, stated in (
        ("review_granularity", "per_task", "per_plan"),
        ("execution_mode", "blocking", "optimistic"),
    ):
        assert found[name]["value"] == holds
        assert stated in found[name]["ignored"]
        assert "tandem trust" in found[name]["ignored"]
    # The variable wins over the file as a whole.
    assert found["reviewer_pool"]["value"]["max_pool_size"] == 4
    for name in ("scaling_ratio", "model", "wrong"):
        assert found[f"reviewer_pool.{name}"]["ignored"]
    assert "reviewer_pool.max_pool_size" not in found


def test_the_gate_is_told_along(own: Desk, repo: Sandbox):
    answer = own.do("get_project_settings")
    assert (answer["project"], answer["root"]) == (own.project, str(repo.root))
    assert answer["gate"] == own.do("get_gate")
    own.do("set_gate", enabled=True, branches=["main"], reason="From today on.")
    gate = own.do("get_project_settings")["gate"]
    assert (gate["enabled"], gate["branches"], gate["reason"]) == (True, ["main"], "From today on.")
    assert gate == own.do("get_gate")


@pytest.mark.parametrize("text", ["= nonsense", "git_timeout_seconds = 'soon'", "x = '" + "y" * 2_000_000 + "'"])
def test_a_file_that_cannot_be_used_is_named(own: Desk, repo: Sandbox, text: str):
    repo.write(".tandem/config.toml", text)
    envelope = own.call("get_project_settings")
    assert envelope["error"]["code"] == "CONFIG_INVALID"
    assert str(repo.root / ".tandem" / "config.toml") in envelope["error"]["message"]


def test_what_is_no_file_is_not_waited_for(own: Desk, repo: Sandbox):
    (repo.root / ".tandem").mkdir()
    os.mkfifo(repo.root / ".tandem" / "config.toml")
    own.refused("CONFIG_INVALID", "get_project_settings")


def test_a_label_has_no_settings(own: Desk):
    details = own.refused("NOT_FOUND", "get_project_settings", project=fresh_project())
    assert own.project in details["allowed"]


def test_words_of_a_repository_play_no_tricks(own: Desk, repo: Sandbox):
    repo.write(".tandem/config.toml", '"a\\u202eb\\u001b[2J" = 1\n"' + "z" * 5000 + '" = 2\n')
    found = shown(own)
    assert "a\\u202eb\\u001b[2J" in found
    assert all(len(name) <= 1000 for name in found)
