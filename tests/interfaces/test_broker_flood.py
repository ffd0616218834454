"""A real broker among clients that never finish a request, and one that runs out of open files."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.broker import CALL_SECONDS, BrokerProcess
from tests.certifying import Authority
from tests.interfaces.serving import HANDSHAKE, mcp_headers, mcp_message

if sys.platform != "linux":
    pytest.skip("platform: limits of another process are Linux's", allow_module_level=True)
import resource

OPEN_FILES = 320


class Meagre(BrokerProcess):
    """A broker that may open few files, and does its imports itself."""

    def _started(self, stdout: int, stderr: int, *arguments: str) -> subprocess.Popen[bytes]:
        few = f"ulimit -Sn {OPEN_FILES // 4}; ulimit -Hn {OPEN_FILES}"
        return subprocess.Popen(
            ["/bin/sh", "-c", f'{few}; exec "$@"', "sh", *self.command(*arguments)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
        )


@pytest.fixture
def meagre(tmp_path: Path) -> Iterator[BrokerProcess]:
    with Meagre(tmp_path) as broker:
        yield broker


def listing(client: httpx.Client) -> httpx.Response:
    """A request that only the SDK can answer."""
    message = mcp_message(HANDSHAKE, "tools/list", {})
    return client.post("/mcp", json=message, headers=mcp_headers(HANDSHAKE, "tools/list"))


def test_a_broker_is_reached_by_tls_among_more_unfinished_handshakes_than_it_can_open_files(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.issue(tmp_path / "cert.pem", tmp_path / "key.pem", "localhost")
    files = {"tls_certificate_file": tmp_path / "cert.pem", "tls_key_file": tmp_path / "key.pem", "tls_port": 0}
    silent: list[socket.socket] = []
    with Meagre(tmp_path, **files) as broker:
        url = json.loads((broker.data_dir / "broker.json").read_text())["tls_url"]
        port = int(url.rpartition(":")[2])
        try:
            silent.extend(
                socket.create_connection(("127.0.0.1", port), timeout=CALL_SECONDS) for _ in range(2 * OPEN_FILES)
            )
            trusting = authority.trusting
            with httpx.Client(base_url=url, verify=trusting, timeout=CALL_SECONDS, trust_env=False) as client:
                assert client.post("/api/v1/list_projects", json={}).is_success
            with httpx.Client(base_url=broker.url, timeout=CALL_SECONDS, trust_env=False) as client:
                assert client.post("/api/v1/list_projects", json={}).is_success
        finally:
            for one in silent:
                one.close()


def test_an_import_that_failed_for_want_of_open_files_is_tried_again(meagre: BrokerProcess) -> None:
    with httpx.Client(base_url=meagre.url, timeout=CALL_SECONDS, trust_env=False) as client:
        assert client.get("/healthz").is_success  # a connection that is kept
        limits = resource.prlimit(meagre.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(meagre.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        refused = listing(client)
        assert refused.json()["error"]["code"] == "UNAVAILABLE"
        assert refused.json()["error"]["retryable"] is True
        assert client.get("/", headers={"accept": "text/html"}).status_code == httpx.codes.INTERNAL_SERVER_ERROR
        resource.prlimit(meagre.pid, resource.RLIMIT_NOFILE, limits)
        assert "create_review" in listing(client).text
        assert "Who are you?" in client.get("/you").text
