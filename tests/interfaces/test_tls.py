"""A broker that other machines reach by TLS: its certificate, who trusts it, and what holds over TLS as without."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import ssl
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tandem.client import TandemClient
from tests.acceptance.accessing import Bearer
from tests.broker import CALL_SECONDS, BrokerProcess
from tests.certifying import Authority, serial_shown
from tests.commandline import Ended, Shell, finish, repository
from tests.interfaces.bridging import bridge
from tests.interfaces.broker_process import WatchedBroker, watched_broker


@dataclass(frozen=True)
class Secured:
    """A broker with a certificate, and the authority that gave it."""

    broker: WatchedBroker
    authority: Authority
    certificate: Path
    key: Path

    @property
    def url(self) -> str:
        """Where other machines reach it."""
        return json.loads((self.broker.data_dir / "broker.json").read_text())["tls_url"]

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


@contextmanager
def secured(folder: Path, *names: str, **settings: object) -> Generator[Secured]:
    authority = Authority(folder)
    certificate, key = folder / "cert.pem", folder / "key.pem"
    authority.issue(certificate, key, *names)
    tls = {"tls_certificate_file": certificate, "tls_key_file": key, "tls_port": 0}
    with watched_broker(folder, auth="token", **tls, **settings) as broker:
        yield Secured(broker, authority, certificate, key)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured(tmp_path_factory.mktemp("tls"), "localhost", "tandem.example") as found:
        yield found


@pytest.fixture
def owner(served: Secured) -> Iterator[Bearer]:
    with Bearer.owner(served.broker) as desk:
        desk.plain("register_project", name=desk.project)
        yield desk


def elsewhere(served: Secured, home: Path, token: str, *, trusts: bool = True) -> dict[str, str]:
    """The environment on another machine."""
    given = {"TANDEM_DATA_DIR": f"{home}/data", "TANDEM_CONFIG_DIR": f"{home}/config", "TANDEM_TOKEN": token}
    return given | {"TANDEM_BROKER": served.url, "TANDEM_CA_FILE": str(served.authority.file) if trusts else ""}


def run(where: Path, environment: dict[str, str], *arguments: str) -> Ended:
    return finish(Shell(environment["TANDEM_BROKER"], where).start(*arguments, **environment))


def test_commands_the_bridge_and_the_python_client_reach_a_broker_by_a_ca_of_ones_own(
    served: Secured, owner: Bearer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert served.url.startswith("https://localhost:")
    root = repository(tmp_path / "checkout")
    with owner.give("ada", "proposer", "reviewer", bound=True) as ada:
        environment = elsewhere(served, tmp_path, ada.token)
        (root / "a.txt").write_text("one\n2\n")
        submitted = run(root, environment, "submit", "-m", "Count", "--json").data
        assert owner.do("get_review_status", review_id=submitted["review_id"])["status"] == "pending"
        with bridge(folder=root, **environment) as agent:
            asked = agent.tool("get_review_status", review_id=submitted["review_id"])
        assert asked["data"]["review_id"] == submitted["review_id"]
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

        async def ask() -> str:
            async with TandemClient(served.url) as client:
                return (await client.get_review_status(review_id=submitted["review_id"])).status

        assert asyncio.run(ask()) == "pending"


def test_a_certificate_of_an_unknown_ca_or_for_another_name_is_refused_with_what_to_do(served: Secured, tmp_path: Path):
    ended = run(tmp_path, elsewhere(served, tmp_path, "tdm_x", trusts=False), "status")
    assert ended.status == 3
    assert "TANDEM_CA_FILE" in ended.stderr
    wrong = elsewhere(served, tmp_path, "tdm_x") | {"TANDEM_BROKER": f"https://127.0.0.1:{served.port}"}
    ended = run(tmp_path, wrong, "status")
    assert ended.status == 3
    assert "not valid for '127.0.0.1'" in ended.stderr
    missing = elsewhere(served, tmp_path, "tdm_x") | {"TANDEM_CA_FILE": str(tmp_path / "none.pem")}
    ended = run(tmp_path, missing, "status")
    assert ended.status == 3
    assert "none.pem" in ended.stderr


def test_the_ca_may_stand_in_the_settings(served: Secured, tmp_path: Path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text(f"ca_file = '{served.authority.file}'\n")
    assert run(tmp_path, elsewhere(served, tmp_path, "tdm_x", trusts=False), "status").status == 0


def test_this_machines_own_clients_need_no_certificate(served: Secured):
    ended = served.broker.run("status")
    assert ended.returncode == 0, ended.stderr
    assert f"http://127.0.0.1:{served.broker.port}" in ended.stdout


def test_a_name_of_the_certificate_is_a_name_of_the_broker_and_no_other_is(served: Secured):
    def asked(host: str) -> int:
        trusting = served.authority.trusting
        return httpx.get(f"{served.url}/healthz", headers={"host": host}, verify=trusting, trust_env=False).status_code

    assert [asked("tandem.example:443"), asked("evil.example")] == [200, 403]


def test_less_than_tls_1_2_is_refused(served: Secured):
    old = served.authority.trusting
    old.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        serial_shown(served.port, old)


def test_a_renewed_certificate_counts_at_once_and_one_that_is_broken_does_not(tmp_path: Path):
    with secured(tmp_path, "localhost") as served:
        trusting = served.authority.trusting
        with httpx.Client(base_url=served.url, verify=trusting, trust_env=False, timeout=CALL_SECONDS) as kept:
            assert kept.get("/healthz").status_code == 200
            serial = served.authority.issue(served.certificate, served.key, "localhost")
            assert serial_shown(served.port, trusting) == serial
            served.certificate.write_text("-----BEGIN CERTIFICATE-----\nno\n")
            assert serial_shown(served.port, trusting) == serial
            serial = served.authority.issue(served.certificate, served.key, "localhost")
            assert serial_shown(served.port, trusting) == serial
            assert kept.get("/healthz").status_code == 200
        log = (served.broker.data_dir / "logs" / "broker.jsonl").read_text()
    assert "The certificate from before is still used" in log


def test_a_waiting_client_that_goes_away_is_noticed(served: Secured, owner: Bearer):
    review = owner.put_up()
    body = json.dumps({"review_id": review, "wait": True, "project": owner.project, "timeout_s": 50}).encode()
    head = (
        f"POST /api/v1/get_review_status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {owner.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    for shut in (socket.socket.close, ssl.SSLSocket.unwrap):
        plain = socket.create_connection(("127.0.0.1", served.port))
        waiting = served.authority.trusting.wrap_socket(plain, server_hostname="localhost")
        waiting.sendall(head.encode() + body)
        served.broker.await_waiting(1)
        shut(waiting)
        served.broker.await_waiting(0)
        waiting.close()


def test_cookies_are_for_tls_only_where_it_was_tls(served: Secured, owner: Bearer):
    def cookie(url: str) -> str:
        path = owner.plain("create_login")["data"]["path"]
        trusting = served.authority.trusting
        answer = httpx.get(f"{url}{path}", headers={"host": "tandem.example"}, verify=trusting, trust_env=False)
        return answer.headers["set-cookie"]

    assert "secure" in cookie(served.url).lower()
    assert "secure" not in cookie(served.broker.url).lower()


def _mismatched(folder: Path, authority: Authority) -> None:
    shutil.copy(folder / "cert.pem", folder / "kept.pem")
    authority.issue(folder / "cert.pem", folder / "key.pem", "localhost")
    shutil.copy(folder / "kept.pem", folder / "cert.pem")


def _locked(folder: Path, _: Authority) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
    )
    (folder / "key.pem").write_bytes(text)


SPOILED: list[tuple[Callable[[Path, Authority], object], str]] = [
    (lambda folder, _: (folder / "cert.pem").unlink(), "There is no file"),
    (lambda folder, _: (folder / "key.pem").unlink(), "There is no file"),
    (lambda folder, _: (folder / "cert.pem").write_text("no"), "holds no certificate in PEM form"),
    (lambda folder, _: (folder / "key.pem").write_text("no"), "holds no private key in PEM form"),
    (lambda folder, _: (folder / "key.pem").chmod(0o644), "open to other users"),
    (_mismatched, "is not that of the certificate"),
    (_locked, "has a password"),
]


@pytest.mark.parametrize(("spoil", "said"), SPOILED)
def test_files_that_cannot_be_used_are_refused_at_the_start(
    tmp_path: Path, spoil: Callable[[Path, Authority], object], said: str
):
    authority = Authority(tmp_path)
    authority.issue(tmp_path / "cert.pem", tmp_path / "key.pem", "localhost")
    spoil(tmp_path, authority)
    files = {"tls_certificate_file": tmp_path / "cert.pem", "tls_key_file": tmp_path / "key.pem"}
    broker = BrokerProcess(tmp_path, auth="token", tls_port=0, **files)
    ended = broker.run("up", "--port", "0")
    assert ended.returncode == 1
    assert "CONFIG_INVALID" in ended.stderr
    assert said in ended.stderr
    assert not (broker.data_dir / "tandem.db").exists()


@pytest.mark.parametrize(
    ("names", "days", "allowed", "level", "said"),
    [
        (("tandem.example",), 90, "tandem.example", "ok", "valid until"),
        (("*.example",), 90, "tandem.example:8443", "ok", "valid until"),
        (("tandem.example",), 5, "tandem.example", "problem", "ends on"),
        (("tandem.example",), -1, "tandem.example", "problem", "has ended on"),
        (("other.example",), 90, "tandem.example", "problem", "is for other.example, and not for tandem.example"),
    ],
)
def test_the_doctor_finds_certificates_that_end_or_do_not_fit(
    tmp_path: Path, names: tuple[str, ...], days: float, allowed: str, level: str, said: str
):
    Authority(tmp_path).issue(tmp_path / "cert.pem", tmp_path / "key.pem", *names, days=days)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text(
        f"tls_certificate_file = '{tmp_path}/cert.pem'\ntls_key_file = '{tmp_path}/key.pem'\n"
        f"allowed_hosts = '{allowed}'\n"
    )
    environment = {
        "TANDEM_BROKER": "http://127.0.0.1:9",
        "TANDEM_CONFIG_DIR": f"{tmp_path}/config",
        "TANDEM_DATA_DIR": f"{tmp_path}/data",
    }
    ended = run(tmp_path, environment, "doctor", "--json")
    found = {one["check"]: one for one in ended.envelope["data"]["findings"]}
    assert found["certificate"]["state"] == level
    assert said in found["certificate"]["message"]


def test_the_doctor_looks_at_the_certificate_of_a_broker_elsewhere(served: Secured, owner: Bearer, tmp_path: Path):
    ended = run(tmp_path, elsewhere(served, tmp_path, owner.token), "doctor", "--json")
    found = {one["check"]: one for one in ended.envelope["data"]["findings"]}
    assert served.url in found["certificate"]["message"]
