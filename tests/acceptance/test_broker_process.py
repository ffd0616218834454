"""The broker as a process: one to a data folder, found, stopped, and never the wrong one ended."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.broker import CALL_SECONDS
from tests.commandline import Ended, Inside
from tests.forked import run_tandem
from tests.interfaces.broker_process import WatchedBroker, watched_broker

POSIX_ONLY = pytest.mark.skipif(sys.platform == "win32", reason="platform: Windows sends processes no signals")


def tandem(*arguments: str, **environment: str) -> Ended:
    """The command in a process of its own."""
    ended = run_tandem(arguments, Path.cwd(), {**os.environ, **environment}, seconds=CALL_SECONDS)
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def inside(*arguments: str, **environment: str) -> Ended:
    """The command in this process, for calls that start no broker and do not become one."""
    return Inside("", Path.cwd()).run(*arguments, stdin=b"", **environment)


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    """A data folder on which no broker is left running."""
    folder = tmp_path / "data"
    yield folder
    inside("down", "--data-dir", str(folder), "--timeout", "5")


@pytest.fixture
def broker(data_dir: Path) -> Iterator[WatchedBroker]:
    with watched_broker(data_dir.parent) as running:
        yield running


def test_a_second_broker_on_the_same_data_is_refused_and_the_first_goes_on(broker: WatchedBroker) -> None:
    second = tandem("up", "--port", "0", "--data-dir", str(broker.data_dir))
    assert second.status == 1
    assert f"process {broker.pid}, port {broker.url.rpartition(':')[2]}" in second.unwrapped
    assert f"tandem down --data-dir {broker.data_dir}" in second.unwrapped
    assert broker.health()["pid"] == broker.pid
    # No other user can look into the data.
    for path in (broker.data_dir, broker.data_dir / "tandem.db", broker.data_dir / "logs" / "broker.jsonl"):
        assert path.stat().st_mode & 0o077 == 0 or sys.platform == "win32"


def test_a_taken_port_is_refused_before_any_data_is_touched(data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        refused = tandem("up", "--port", port, "--data-dir", str(data_dir))
    assert refused.status == 1
    assert f"Port {port} at 127.0.0.1 cannot be had" in refused.unwrapped
    assert "--port" in refused.unwrapped
    assert not list(data_dir.glob("*.db*"))
    assert not (data_dir / "broker.json").exists()


@pytest.mark.parametrize("how", [[], ["--background"]], ids=["foreground", "background"])
def test_an_address_that_others_can_reach_is_refused(data_dir: Path, how: list[str]) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.invalid"):
        refused = inside("up", *how, "--host", host, "--port", "0", "--data-dir", str(data_dir))
        assert refused.status == 1
        assert "without access tokens" in refused.unwrapped
        assert not data_dir.exists()


@pytest.mark.parametrize("arguments", [["up", "--port", "high"], ["up", "--prot", "1"], ["logs", "-n", "-1"]])
def test_a_wrong_call_is_a_matter_of_usage(arguments: list[str]) -> None:
    assert inside(*arguments).status == 2


def test_a_wrong_setting_is_refused_with_its_place(data_dir: Path) -> None:
    refused = inside("up", "--data-dir", str(data_dir), TANDEM_SWEEP_INTERVAL_SECONDS="soon")
    assert refused.status == 1
    assert "TANDEM_SWEEP_INTERVAL_SECONDS must be a number" in refused.unwrapped


@POSIX_ONLY
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order_and_leaves_the_data_tidy(broker: WatchedBroker, number: int) -> None:
    broker.ask("create_review", intent="last", agent_type="test", description="words")
    broker.signal(number)
    assert broker.ended() == 0
    left = {path.name for path in broker.data_dir.iterdir()}
    assert "broker.json" not in left
    wal = broker.data_dir / "tandem.db-wal"
    assert not wal.exists() or wal.stat().st_size == 0
    # The log shows what the process did.
    where = ("--data-dir", str(broker.data_dir))
    lines = [json.loads(line) for line in tandem("logs", "--json", *where).stdout.splitlines()]
    events = [line["event"] for line in lines]
    assert events.index("ready") < events.index("stopping") < events.index("stopped")
    assert all(line["timestamp"].endswith("Z") and line["level"] for line in lines)
    last = tandem("logs", "-n", "1", *where).stdout
    assert (last.count("\n"), "stopped" in last) == (1, True)


@POSIX_ONLY
def test_a_broker_that_does_not_stop_is_killed_when_the_time_is_up(broker: WatchedBroker) -> None:
    ended = tandem("down", "--json", "--timeout", "0", "--data-dir", str(broker.data_dir))
    assert (ended.status, ended.data["ended"]) == (0, "killed")
    # On a busy machine it may just have stopped.
    assert broker.ended() in {-signal.SIGKILL, 0}


def test_a_process_that_merely_has_the_number_of_a_dead_broker_is_left_alone(data_dir: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as bystander:
        hour_ago_us = round((psutil.Process(bystander.pid).create_time() - 3600) * 1_000_000)
        data_dir.mkdir()
        stale = {"url": "http://127.0.0.1:9", "pid": bystander.pid, "started_us": hour_ago_us}
        (data_dir / "broker.json").write_text(json.dumps({**stale, "version": "0", "instance_id": "x"}))
        assert tandem("down", "--json", "--data-dir", str(data_dir)).data["ended"] == "not_running"
        assert bystander.poll() is None
        bystander.communicate(b"\n")


def test_a_broken_runtime_file_is_no_broker(data_dir: Path) -> None:
    data_dir.mkdir()
    for text in ("", "{", "[]", '{"url": 1}', '{"pid": "x", "url": "u"}'):
        (data_dir / "broker.json").write_text(text)
        assert inside("status", "--data-dir", str(data_dir)).status == 3, text


@pytest.mark.parametrize("how", [[], ["--background"]], ids=["foreground", "background"])
def test_a_broker_that_cannot_use_its_data_says_why(data_dir: Path, how: list[str]) -> None:
    data_dir.mkdir()
    (data_dir / "tandem.db").write_bytes(b"this is no database" * 100)
    refused = tandem("up", *how, "--port", "0", "--data-dir", str(data_dir))
    assert refused.status == 1
    assert "refused: " in refused.unwrapped
    assert "tandem.db" in refused.unwrapped
    assert "Traceback" not in refused.unwrapped
    assert not (data_dir / "broker.json").exists()


def test_a_log_can_be_followed(data_dir: Path) -> None:
    command = [sys.executable, "-m", "tandem", "logs", "--follow", "--json", "--data-dir", str(data_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        with watched_broker(data_dir.parent):
            assert json.loads(following.stdout.readline())["event"] == "ready"
        following.terminate()


OWN_DISK = 'mount -t tmpfs -o size=4m tmpfs "$1" && { cat /dev/zero > "$1/filler" 2> "$2"; shift 2; exec "$@"; }'
"""Runs a command that alone sees a disk of its own at a folder, without room."""


@pytest.mark.skipif(sys.platform != "linux", reason="platform: only Linux lets a process have a disk of its own")
def test_a_broker_that_starts_on_a_full_disk_says_so_and_comes_back_by_itself(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    alone = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", OWN_DISK, "sh", str(disk), os.devnull]
    if subprocess.run([*alone, "true"], check=False, capture_output=True, timeout=CALL_SECONDS).returncode:
        pytest.skip("platform: this machine does not permit mounts")
    command = [*alone, sys.executable, "-m", "tandem", "up", "--json", "--port", "0", "--data-dir", str(disk / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        assert broker.stderr is not None
        try:
            assert "is full. Make room" in broker.stderr.readline()
            Path(f"/proc/{broker.pid}/root{disk}/filler").unlink()
            url = json.loads(broker.stdout.readline())["data"]["url"]
            assert httpx.get(f"{url}/healthz", timeout=CALL_SECONDS).json()["data"]["phase"] == "ready"
        finally:
            broker.terminate()
        assert "Traceback" not in broker.stderr.read()
