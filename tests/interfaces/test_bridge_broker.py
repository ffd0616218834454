"""Where the bridge looks for the broker, and its answer when there is none."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tandem.bridge import forward
from tandem.bridge.broker import BrokerLocator
from tandem.bridge.forward import Forwarder, PendingRequest, Route
from tandem.bridge.location import DEFAULT_URL, find_data_dir, published_url
from tandem.bridge.messages import parse
from tandem.bridge.project import ProjectFinder
from tandem.cli.main import app
from tandem.client import TandemClient
from tandem.core import platforms
from tandem.settings.config import load_settings
from tests.commandline import repository
from tests.modes import VARIATION

pytestmark = pytest.mark.usefixtures("config_dir")


def test_the_bridge_and_the_broker_agree_on_the_data_folder(
    config_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert find_data_dir() == str(load_settings().settings.data_dir)
    (config_dir / "config.toml").write_text("data_dir = '~/mine'")
    assert find_data_dir() == str(load_settings().settings.data_dir) == str(Path.home() / "mine")
    monkeypatch.setenv("TANDEM_DATA_DIR", str(tmp_path / "other"))
    assert find_data_dir() == str(load_settings().settings.data_dir) == str(tmp_path / "other")


def test_a_broken_configuration_is_left_to_the_broker_to_report(config_dir: Path) -> None:
    (config_dir / "config.toml").write_text("data_dir = ")
    assert find_data_dir() == platforms.data_dir()


def answered(broker: BrokerLocator, folder: Path, method: str = "tools/call") -> dict[str, Any]:
    """The bridge's answer to a request."""
    params = {"name": "list_reviews", "arguments": dict[str, str]()}
    message = parse(json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).encode())
    written: list[bytes] = []
    Forwarder(broker, Route(None, "p", ProjectFinder(str(folder)), None), written.append).answer(
        PendingRequest(message)
    )
    [answer] = map(json.loads, written)
    return answer


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"url": 1}', "{"])
def test_a_broken_runtime_file_publishes_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "broker.json").write_text(text)
    assert published_url(str(tmp_path)) is None


def at(port: int) -> str:
    return f"http://127.0.0.1:{port}"


NOBODY = [at(port) for port in (9, 11, 13, 15, 17, 19)]
"""Ports at which no program listens."""


def test_all_find_the_same_broker_by_one_rule(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each of the places that name a broker is taken away in turn; then the next one counts, for everybody."""
    named, variable, gate, init, running, usual = NOBODY
    folder = repository(tmp_path / "shop")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    data_dir = Path(platforms.data_dir())
    data_dir.mkdir(parents=True)
    for file, facts in {
        folder / ".git" / "tandem" / "gate.json": {"enabled": True, "broker": gate, "data_dir": str(data_dir)},
        folder / ".git" / "tandem" / "init.json": {"broker": init},
        data_dir / "broker.json": {"url": running},
    }.items():
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(facts))

    def found(*options: str) -> tuple[str, str]:
        """Where everybody looks, as they say themselves, and on whose word."""
        variables = {"TANDEM_BROKER": os.environ.get("TANDEM_BROKER")}
        status = json.loads(CliRunner().invoke(app, ["status", "--json", *options], env=variables).stdout)["data"]
        asked = CliRunner().invoke(app, ["review", "list", "--json", *options], env=variables)
        client = BrokerLocator(options[-1] if options else None, str(folder)).client
        said = {
            json.loads(asked.stdout)["error"]["details"]["url"],
            client.target.url if client else "",
            TandemClient(options[-1] if options else None).url,
            status["url"],
        }
        assert len(said) == 1
        assert f"{status['url']}, from {status['from']} (" in status["trouble"]
        return status["url"], status["from"]

    monkeypatch.setenv("TANDEM_BROKER", variable)
    monkeypatch.setenv("TANDEM_PORT", usual.rpartition(":")[2])
    assert found("--broker", named) == (named, "--broker")
    assert found() == (variable, "TANDEM_BROKER")
    monkeypatch.delenv("TANDEM_BROKER")
    assert found() == (gate, "the record in the git folder")
    (folder / ".git" / "tandem" / "gate.json").unlink()
    assert found() == (init, "the record in the git folder")
    (folder / ".git" / "tandem" / "init.json").unlink()
    assert found() == (running, "broker.json of this user")
    (data_dir / "broker.json").unlink()
    assert found() == (usual, "the configured port")
    monkeypatch.delenv("TANDEM_PORT")
    assert BrokerLocator(None, str(folder)).client.target.url == DEFAULT_URL  # pyright: ignore[reportOptionalMemberAccess] it has one


def test_a_data_folder_of_ones_own_is_not_served_by_whoever_has_the_usual_port(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TANDEM_DATA_DIR", str(tmp_path / "mine"))
    assert BrokerLocator(None).client is None


@pytest.mark.parametrize("method", ["tools/call", "tools/list"])
def test_a_broker_that_never_comes_is_a_refusal_that_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, method: str
) -> None:
    monkeypatch.setattr(forward, "OUTAGE_SECONDS", 0.2)
    # Nothing listens at the discard port, and a named broker is never started.
    answer = answered(BrokerLocator("http://127.0.0.1:9"), tmp_path, method)
    assert answer["id"] == 7
    if method == "tools/call":
        assert answer["result"]["isError"] is True
        error = answer["result"]["structuredContent"]["error"]
    else:
        error = answer["error"]["data"]
    assert (error["code"], error["retryable"]) == ("UNAVAILABLE", True)
    assert "http://127.0.0.1:9 cannot be reached" in error["message"]


def test_a_broker_elsewhere_that_never_comes_is_not_to_be_started_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(forward, "OUTAGE_SECONDS", 0.2)
    answer = answered(BrokerLocator("http://255.255.255.255:9"), tmp_path)
    error = answer["result"]["structuredContent"]["error"]
    assert "Check the address (it is from --broker)" in error["message"]
    assert "tandem up" not in error["message"]


@VARIATION
def test_a_broker_that_cannot_start_says_why_to_the_client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(forward, "OUTAGE_SECONDS", 0.5)
    monkeypatch.setenv("TANDEM_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("TANDEM_PORT", "0")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "tandem.db").write_bytes(b"this is no database" * 100)
    broker = BrokerLocator(None)
    # The first call starts it, and the second one is told how that ended.
    answered(broker, tmp_path)
    deadline = time.monotonic() + 60
    while broker._starting is not None and not broker._starting.has_ended():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    error = answered(broker, tmp_path)["result"]["structuredContent"]["error"]
    assert error["code"] == "UNAVAILABLE"
    assert "tandem.db" in error["message"]
