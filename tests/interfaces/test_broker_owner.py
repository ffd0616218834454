"""No client uses a broker of another user: a broker that was not named first proves that it is this user's own."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.broker import BrokerProcess
from tests.commandline import Ended, repository
from tests.forked import run_tandem
from tests.stranger import listening

KEY = "ab" * 32


@pytest.fixture(scope="module", params=["trusted", "token"])
def owned(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("owner"), auth=request.param) as running:
        yield running


class User:
    """Somebody with a home folder of their own, whose brokers listen at a port unless it is taken."""

    def __init__(self, home: Path, port: int) -> None:
        self.home = home
        self.data_dir = home / "state" / "tandem"
        self.data_dir.mkdir(parents=True)
        self.own(KEY)
        self.variables = {
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CONFIG_HOME": str(home / "config"),
            "TANDEM_PORT": str(port),
        }

    def own(self, key: str, mode: int = 0o600) -> None:
        """Have the secret of a broker in the data folder."""
        file = self.data_dir / "owner.key"
        file.write_text(f"{key}\n", "ascii")
        file.chmod(mode)

    def run(self, *words: str, **variables: str) -> Ended:
        ended = run_tandem(words, self.home, {**os.environ, **self.variables, **variables}, seconds=60)
        return Ended(ended.returncode, ended.stdout, ended.stderr)


def nonce_of(request: bytes) -> str:
    """The number in a request that has nothing else: no token, no content, no name."""
    line, host, number, *rest = request.decode().split("\r\n")
    assert (line, rest) == ("GET /healthz HTTP/1.1", ["", ""])
    assert host.startswith("Host: 127.0.0.1:")
    name, _, value = number.partition(": ")
    assert name == "Tandem-Nonce"
    return value


def as_a_broker(_request: bytes) -> bytes:
    content = b'{"ok":true,"data":{"phase":"ready"}}'
    return b"HTTP/1.1 200 OK\r\nTandem-Proof: %b\r\nContent-Length: %d\r\n\r\n%b" % (b"0" * 128, len(content), content)


def test_ones_own_broker_at_the_configured_port_proves_it(owned: BrokerProcess, tmp_path: Path) -> None:
    user = User(tmp_path, owned.port)
    user.own((owned.data_dir / "owner.key").read_text("ascii"))
    known = user.run("status", "--json").data
    assert (known["running"], known["url"], known["from"]) == (True, owned.url, "the configured port")
    assert known["instance_id"] == owned.health()["instance_id"]


def test_another_users_broker_at_the_configured_port_is_told_nothing(owned: BrokerProcess, tmp_path: Path) -> None:
    user = User(tmp_path, owned.port)
    calls = owned.health()["calls"]
    refused = user.run("review", "list", TANDEM_TOKEN="not-for-strangers")
    assert refused.status == 3
    whose = (
        f"The user {getpass.getuser()} listens there" if sys.platform == "linux" else "Another user may listen there"
    )
    for part in (owned.url, "the configured port", "has not proved that it is this user's broker", whose, "--port 0"):
        assert part in refused.stderr
    assert "has not proved" in user.run("status").stderr
    assert owned.health()["calls"] == calls


def test_a_secret_that_others_can_read_proves_nothing(owned: BrokerProcess, tmp_path: Path) -> None:
    user = User(tmp_path, owned.port)
    user.own((owned.data_dir / "owner.key").read_text("ascii"), 0o644)
    assert user.run("status").status == 3


@pytest.mark.parametrize("words", ["review list", "submit --staged -m secret", "status"])
def test_a_stranger_at_the_address_in_broker_json_gets_a_number_and_nothing_else(words: str, tmp_path: Path) -> None:
    with listening(as_a_broker) as (port, told):
        user = User(tmp_path, 0)
        (user.data_dir / "broker.json").write_text(json.dumps({"url": f"http://127.0.0.1:{port}", "token": "secret"}))
        refused = user.run(*words.split())
        assert (refused.status, "broker.json of this user" in refused.stderr) == (3, True)
    assert told
    assert all(nonce_of(request) for request in told)


def test_a_stranger_that_passes_the_number_on_to_the_own_broker_proves_nothing(
    owned: BrokerProcess, tmp_path: Path
) -> None:
    def relayed(request: bytes) -> bytes:
        answer = httpx.get(f"{owned.url}/healthz", headers={"Tandem-Nonce": nonce_of(request)})
        proof = answer.headers["Tandem-Proof"].encode()
        return b"HTTP/1.1 200 OK\r\nTandem-Proof: %b\r\nContent-Length: 2\r\n\r\n{}" % proof

    with listening(relayed) as (port, told):
        user = User(tmp_path, port)
        user.own((owned.data_dir / "owner.key").read_text("ascii"))
        refused = user.run("review", "list")
    assert told
    assert "has not proved" in refused.stderr


def test_a_broker_that_was_named_need_not_prove_anything(owned: BrokerProcess, tmp_path: Path) -> None:
    user = User(tmp_path, 0)
    assert user.run("status", "--json", "--broker", owned.url).data["from"] == "--broker"
    assert user.run("status", "--json", TANDEM_BROKER=owned.url).data["from"] == "TANDEM_BROKER"


def test_a_damaged_secret_is_made_anew(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "broker")
    broker.data_dir.mkdir(parents=True, mode=0o700)
    (broker.data_dir / "owner.key").write_text("nothing", "ascii")
    user = User(tmp_path / "user", 0)
    with broker:
        shutil.rmtree(user.data_dir)
        user.data_dir.symlink_to(broker.data_dir, target_is_directory=True)
        assert user.run("status", "--json").data["from"] == "broker.json of this user"


FAR = "http://255.255.255.255:9"
"""No machine has this address: a connection fails at once."""


@pytest.mark.parametrize("words", ["review list", "status", "init --yes", "open --print", "gate on"])
def test_who_names_a_broker_elsewhere_is_not_told_to_start_one_here(words: str, tmp_path: Path) -> None:
    user = User(repository(tmp_path / "home"), 0)
    refused = user.run(*words.split(), "--broker", FAR)
    assert refused.status == 3
    assert "tandem up" not in refused.stderr
    assert "Check the address (it is from --broker), and whether the broker runs on that machine" in refused.stderr
