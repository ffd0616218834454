"""The Dockerfile, compose.yaml and the Caddyfile, as far as they can be tried without a registry."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
import yaml

from tandem.settings.config import Settings, load_settings
from tests.acceptance.reviewing import Desk
from tests.architecture.source import ROOT
from tests.broker import BrokerProcess, fresh_project

VARIABLES = {"TANDEM_HOSTNAME": "tandem.example.com", "POSTGRES_PASSWORD": "s3cret"}


def instructions() -> list[tuple[str, str]]:
    """What the Dockerfile says, an instruction and its arguments each."""
    text = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines)]


def of(name: str) -> list[str]:
    return [rest for instruction, rest in instructions() if instruction == name]


def environment() -> dict[str, str]:
    """The variables of the last stage's environment."""
    return dict(word.split("=", 1) for word in shlex.split(of("ENV")[-1]))


def test_the_image_is_built_from_what_is_copied_and_nothing_else(tmp_path: Path):
    let_in = [line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")]
    copied = [shlex.split(rest) for rest in of("COPY") if "--from" not in rest]
    for *sources, target in copied:
        for source in sources:
            assert any(fnmatch(source, pattern) for pattern in let_in), f"{source} is not in .dockerignore"
            into = tmp_path / target / (Path(source).name if target.endswith("/") else "")
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, into, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                into.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, into)
    # The slim image has no git, which would know the version.
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "dist"]
    built = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PATH": "/nowhere"}, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    assert list((tmp_path / "dist").glob("tandem_broker-*.whl"))
    assert {name for name in ("requirements.txt", "requirements-extras.txt") if (tmp_path / name).exists()} == set(
        re.findall(r"-r (\S+)", of("RUN")[1])
    )


def test_the_image_runs_a_broker_that_says_how_it_is(tmp_path: Path):
    settings = {
        name.removeprefix("TANDEM_").lower(): value
        for name, value in environment().items()
        if name.startswith("TANDEM_") and name != "TANDEM_DATA_DIR"
    }
    assert settings.keys() <= Settings.model_fields.keys()
    assert orjson.loads(of("ENTRYPOINT")[0]) + orjson.loads(of("CMD")[0]) == ["tandem", "up"]
    program, *checks = orjson.loads(of("HEALTHCHECK")[0].partition(" CMD ")[2])
    assert program == "tandem"
    with BrokerProcess(tmp_path, **settings) as broker:
        assert httpx.post(f"{broker.url}/api/v1/list_reviews", json={}, timeout=60).status_code == 401
        assert broker.run(*checks).returncode == 0
    assert of("STOPSIGNAL") == ["SIGTERM"]
    assert of("USER") == ["tandem"]
    assert of("EXPOSE") == [str(Settings.model_fields["port"].default)]


def composed() -> dict[str, Any]:
    """The compose file with its variables filled in, as `.env` would."""

    def filled(match: re.Match[str]) -> str:
        name, default = match["name"], match["default"]
        return VARIABLES.get(name, default or "")

    text = (ROOT / "compose.yaml").read_text("utf-8")
    return yaml.safe_load(re.sub(r"\$\{(?P<name>\w+):(?:-(?P<default>[^}]*)|\?[^}]*)\}", filled, text))


def test_the_brokers_of_the_compose_file_have_settings_that_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    services = composed()["services"]
    first, second = services["broker-1"], services["broker-2"]
    assert first["environment"] == second["environment"]
    monkeypatch.setenv("TANDEM_CONFIG_DIR", str(tmp_path))
    for name, value in {**environment(), **first["environment"]}.items():
        if name.startswith("TANDEM_"):
            assert name.removeprefix("TANDEM_").lower() in Settings.model_fields, name
            monkeypatch.setenv(name, value)
    settings = load_settings({}).settings
    assert settings.database == "postgresql://tandem:s3cret@postgres/tandem"
    assert settings.allowed_hosts == ("tandem.example.com",)
    mounted = [{volume.split(":")[1] for volume in broker["volumes"]} for broker in (first, second)]
    assert mounted[0] == mounted[1]
    assert settings.secret_key.parent == Path("/shared") != settings.data_dir
    assert {"/shared", str(settings.data_dir)} <= mounted[0]
    own = [{volume for volume in broker["volumes"] if volume.endswith(":/data")} for broker in (first, second)]
    assert not own[0] & own[1], "each broker has a data folder of its own"


def test_what_the_compose_file_names_is_there():
    whole = composed()
    services: dict[str, Any] = whole["services"]
    for name, service in services.items():
        assert set(service.get("depends_on", ())) <= services.keys(), name
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            known = source in whole["volumes"] or source.startswith("/") or (ROOT / source).is_file()
            assert known, volume
    port = of("EXPOSE")[0]
    brokers = re.findall(r"broker-\d:\d+", (ROOT / "Caddyfile").read_text("utf-8"))
    assert brokers == [f"{name}:{port}" for name in services if name.startswith("broker-")]
    made = re.search(r"install --directory .* (/\S+) (/\S+)", of("RUN")[-1])
    assert made is not None
    assert set(made.groups()) == {"/data", "/shared"}, "volumes get the owner of the image's folders"


needs_caddy = pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine not in {"x86_64", "aarch64"},
    reason="platform: Caddy's wheels are for these",
)


@contextmanager
def proxied(folder: Path, *brokers: BrokerProcess) -> Generator[str]:
    """The proxy with the Caddyfile, in front of brokers; its address, once it answers."""
    with socket.socket() as reserved:
        # Caddy shares the port with this socket, which takes no connections: no other process gets it meanwhile.
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind(("", 0))
        url = f"http://localhost:{reserved.getsockname()[1]}"
        addresses = " ".join(f"127.0.0.1:{broker.port}" for broker in brokers)
        told = {"HOME": str(folder), "TANDEM_HOSTNAME": url, "TANDEM_BROKERS": addresses}
        program = Path(sys.executable).with_name("caddy")
        with (folder / "caddy.log").open("wb") as log:
            caddy = subprocess.Popen(
                [program, "run", "--config", ROOT / "Caddyfile"], env={**os.environ, **told}, stdout=log, stderr=log
            )
        try:
            until_answered(url, caddy)
            yield url
        finally:
            caddy.terminate()
            caddy.wait(60)


def until_answered(url: str, caddy: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert caddy.poll() is None, "the proxy has ended"
        try:
            if httpx.get(f"{url}/healthz", timeout=60).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.02)
    pytest.fail("the proxy does not answer")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[BrokerProcess, BrokerProcess]]:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with BrokerProcess(tmp_path / "one") as one, BrokerProcess(tmp_path / "two") as two:
        yield one, two


@needs_caddy
def test_the_proxy_goes_on_with_the_other_broker_and_holds_no_event_back(
    tmp_path: Path, pair: tuple[BrokerProcess, BrokerProcess]
):
    with proxied(tmp_path, *pair) as url:
        assert answering(url) == {broker.health()["instance_id"] for broker in pair}
        pair[0].kill()
        assert answering(url) == {pair[1].health()["instance_id"]}
        with httpx.stream("GET", f"{url}/events", timeout=60) as stream:
            lines = stream.iter_lines()
            first = next(lines)
            with Desk(pair[1].url, fresh_project()) as desk:
                review = desk.put_up()
            assert any(review in line for line in (first, *lines_until(lines, review)))


@needs_caddy
def test_the_brokers_know_the_clients_of_the_proxy_and_take_no_ones_word_for_it(tmp_path: Path):
    limits = {"auth": "token", "rate_limit_per_minute": 1, "rate_limit_burst": 1}
    with (
        BrokerProcess(tmp_path, trusted_proxies="127.0.0.1", **limits) as broker,
        proxied(tmp_path, broker) as url,
        httpx.Client(trust_env=False, timeout=60) as client,
    ):

        def answered(base: str, claimed: str) -> int:
            headers = {"X-Forwarded-For": claimed}
            return client.post(f"{base}/api/v1/list_projects", json={}, headers=headers).status_code

        # To the broker itself, which trusts this machine as a proxy, and then through Caddy, which does not.
        assert [answered(broker.url, f"203.0.113.{last}") for last in (1, 2, 3)] == [401, 401, 401]
        assert [answered(url, f"203.0.113.{last}") for last in (4, 5, 6)] == [401, 429, 429]


def answering(url: str) -> set[str]:
    """Which brokers answer twenty calls, none of which fails."""
    answers = [httpx.get(f"{url}/healthz", timeout=60).raise_for_status() for _ in range(20)]
    return {answer.json()["data"]["instance_id"] for answer in answers}


def lines_until(lines: Iterator[str], word: str) -> Iterator[str]:
    """Lines of an endless stream up to the one with a word."""
    for line in lines:
        yield line
        if word in line:
            return
