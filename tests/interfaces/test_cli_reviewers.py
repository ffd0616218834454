"""Reviewers from the command line: of the broker's own pool, and of a supervisor that runs beside a broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import psutil
import pytest

from tandem import examples
from tandem.cli.main import OFFERS
from tests.commandline import Inside, Shell, repository
from tests.forked import Started, start_tandem
from tests.interfaces.broker_process import WatchedBroker, watched_broker

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="platform: reviewers run in WSL there")

PROGRAM = str(files(examples).joinpath("scripted_reviewer.py"))
CAP = 2
PATIENCE_SECONDS = 60
POOL: dict[str, Any] = {
    "enabled": True,
    "provider": "custom",
    "command": [sys.executable, PROGRAM],
    "max_pool_size": CAP,
    "spawn_cooldown_seconds": 0,
    "retry_delay_seconds": 0.05,
    "grace_seconds": 1,
    "drain_seconds": 1,
}
WRAPPED = """\
import runpy, shutil, sys

shutil.copy(".git/objects/info/alternates", sys.argv[1])
runpy.run_path(sys.argv[2], run_name="__main__")
"""
"""Notes whose history the folder has that the program is run in, and is the program."""

HOW_TO = "tandem reviewers setup"
BROKER = {"reviewer_pool": json.dumps(POOL)}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchedBroker]:
    """A broker that has none."""
    with watched_broker(tmp_path_factory.mktemp("bare")) as running:
        yield running


@pytest.fixture
def tandem(tandem: Inside, broker: WatchedBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inside]:
    """The command line in a project of its own, and a pool without reviewers."""
    monkeypatch.setenv("TANDEM_DATA_DIR", str(broker.data_dir))
    yield tandem
    tandem.run("reviewers", "pause")
    # Those of other projects, too: they count against the pool's limit.
    until("all reviewers have ended", lambda: not sum(pool["active"] for pool in broker_pools(tandem)))
    # A review that is left in the queue would start a reviewer during the next test.
    for review in tandem.run("review", "list", "--status", "pending", "--json").data["reviews"]:
        tandem.run("review", "close", review["review_id"])
    assert tandem.run("reviewers", "resume").status == 0


@pytest.fixture
def alone(bare: WatchedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inside:
    """The command line in a project of its own at the broker without a pool."""
    root = repository(tmp_path / tmp_path.name)
    monkeypatch.chdir(root)
    bare.register(root, root.name)
    return Inside(bare.url, root)


def until(what: str, condition: Callable[[], object]) -> None:
    """Wait for a condition that comes true by itself."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.02)


def running(tandem: Inside) -> list[dict[str, Any]]:
    """Reviewers of the project that have not ended."""
    listed = tandem.run("reviewers", "list", "--json").data["reviewers"]
    return [one for one in listed if one["ended_at"] is None]


def broker_pools(tandem: Inside) -> list[dict[str, Any]]:
    """The broker's own pool; those of supervisors elsewhere end with their tests."""
    pools = tandem.run("reviewers", "list", "--json").data["pools"]
    return [pool for pool in pools if pool["state"] in {"running", "paused", "circuit_open"}]


def submitted(tandem: Inside, intent: str, line: str, *options: str) -> tuple[int, str]:
    """Propose a change to the file; the exit status and the output."""
    (tandem.cwd / "a.txt").write_text(f"one\ntwo\n{line}\n", "utf-8")
    ended = tandem.run("submit", "-m", intent, *options)
    return ended.status, ended.stdout


def newest(tandem: Inside) -> str:
    return str(tandem.run("review", "list", "--json").data["reviews"][0]["review_id"])


def test_only_reviewers_of_the_project_are_listed_but_every_pool(tandem: Inside, tmp_path: Path) -> None:
    other = repository(tmp_path / f"{tmp_path.name}-other")
    tandem.run("project", "add", str(other))
    made = tandem.run("reviewers", "spawn", "--project", other.name, "--json").data
    assert made["project"] == other.name
    listed = tandem.run("reviewers", "list", "--json").data
    assert (listed["reviewers"], len(listed["pools"])) == ([], 1)
    listed = tandem.run("reviewers", "list", "--project", other.name, "--json").data
    assert [one["reviewer_id"] for one in listed["reviewers"]] == [made["reviewer_id"]]


def test_reviewers_are_started_and_ended_by_hand(tandem: Inside) -> None:
    made = tandem.run("reviewers", "spawn", "--json").data
    assert (made["state"], made["pid"] > 0) == ("active", True)
    assert "pid" in tandem.run("reviewers", "spawn").stdout
    refused = tandem.run("reviewers", "spawn", "--json")
    assert (refused.status, refused.envelope["error"]["code"]) == (1, "POOL_CAP_REACHED")
    assert [offer[0] for offer in offered(tandem, made["reviewer_id"][:10])][:1] == [made["reviewer_id"]]
    by_name = tandem.run("reviewers", "kill", made["name"], "--json").data
    assert (by_name["reviewer_id"], by_name["drain_reason"]) == (made["reviewer_id"], "manual")
    until("it has ended", lambda: made["reviewer_id"] not in {one["reviewer_id"] for one in running(tandem)})
    assert not psutil.pid_exists(made["pid"])
    again = tandem.run("reviewers", "kill", made["reviewer_id"], "--force")
    assert (again.status, "terminated" in again.stdout) == (0, True)
    ended = tandem.run("reviewers", "kill", made["name"], "--json").data
    assert (ended["reviewer_id"], ended["state"]) == (made["reviewer_id"], "terminated")
    unknown = tandem.run("reviewers", "kill", "custom-r999")
    assert (unknown.status, "UNKNOWN_REVIEWER" in unknown.stderr) == (1, True)
    assert tandem.run("reviewers", "kill").status == 2
    assert tandem.run("reviewers", "kill", "custom-r1", "--reviewer-id", "custom-r2").status == 2


def offered(tandem: Inside, incomplete: str) -> list[tuple[str, str]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TANDEM_BROKER", tandem.url)
        return OFFERS["reviewer"](incomplete)


def test_logs_are_those_of_this_machine(tandem: Inside, broker: WatchedBroker) -> None:
    made = tandem.run("reviewers", "spawn", "--json").data
    until("it has begun", lambda: "begins" in tandem.run("reviewers", "logs", made["reviewer_id"]).stdout)
    for named in ((), (made["name"],)):
        [line] = tandem.run("reviewers", "logs", *named, "-n", "1").stdout.splitlines()
        assert made["reviewer_id"] in line
    secret = broker.data_dir / "logs" / "custom-r1-aaaaaa.log"
    secret.write_text("not a reviewer's\n", "utf-8")
    for named in ("../custom-r1-aaaaaa", str(secret), "..", made["reviewer_id"] + ".log", ""):
        refused = tandem.run("reviewers", "logs", named)
        assert (refused.status, refused.stdout, "UNKNOWN_REVIEWER" in refused.stderr) == (1, "", True)
    elsewhere = str(tandem.cwd.parent / "none")
    refused = tandem.run("reviewers", "logs", made["name"], "--data-dir", elsewhere)
    assert (refused.status, f"{made['reviewer_id']} runs on {made['host']}" in refused.stderr) == (1, True)
    assert tandem.run("reviewers", "logs", "--data-dir", elsewhere).status == 1
    refused = tandem.run("reviewers", "logs", "custom-r99999", "--broker", "http://127.0.0.1:9")
    assert (refused.status, "cannot be reached" in refused.stderr) == (1, True)


def test_a_log_is_followed_as_it_is_written(tandem: Inside) -> None:
    made = tandem.run("reviewers", "spawn", "--json").data
    until("it has begun", lambda: "begins" in tandem.run("reviewers", "logs", made["reviewer_id"]).stdout)
    command = [sys.executable, "-m", "tandem", "reviewers", "logs", made["name"], "--follow"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ)) as following:
        assert following.stdout is not None
        assert "begins" in told_until(made["reviewer_id"], following.stdout.readline)[-1]
        tandem.run("reviewers", "kill", made["reviewer_id"])
        told_until("told to stop", following.stdout.readline)
        following.send_signal(signal.SIGINT)
        assert following.wait(PATIENCE_SECONDS) == 0


# ------------------------------------------------------------------------------------ a supervisor elsewhere


@contextmanager
def supervisor(
    tandem: Inside, folder: Path, *options: str, environment: Mapping[str, str] = {}, **pool: Any
) -> Generator[tuple[Started, Callable[[], str]]]:
    """One that runs in the foreground; gives the process, and what gives its next line."""
    settings = {**POOL, "enabled": False, **pool}
    words = ["reviewers", "run", "--broker", tandem.url, "--data-dir", str(folder), *options]
    own = {**os.environ, **environment, "TANDEM_REVIEWER_POOL": json.dumps(settings)}
    pipe = subprocess.PIPE
    with start_tandem(words, Path.cwd(), own, stdout=pipe, stderr=pipe, session="own") as process:
        output = process.stdout
        assert output is not None
        try:
            yield process, lambda: output.readline().decode()
        finally:
            if process.poll() is None:
                process.kill()


def told_until(mark: str, line: Callable[[], str]) -> list[str]:
    """The lines up to the one with a mark."""
    found: list[str] = []
    while not found or mark not in found[-1]:
        found.append(line())
        assert found[-1], f"it ended without {mark}:\n{''.join(found)}"
    return found


def test_without_a_pool_it_is_said_how_to_get_one(alone: Inside, bare: WatchedBroker) -> None:
    if not bare.ask("list_reviewers")["pools"]:
        assert HOW_TO in alone.run("reviewers", "list").stdout
    for command in ("spawn", "pause"):
        refused = alone.run("reviewers", command)
        assert (refused.status, "POOL_DISABLED" in refused.stderr) == (1, True)


def test_a_supervisor_elsewhere_reviews_with_the_history_of_the_folder_that_it_is_given(
    alone: Inside, tmp_path: Path
) -> None:
    submitted(alone, "Add three", "three")
    review_id = newest(alone)
    # As on another machine: the registered folder is not there, and a copy is in another place.
    copy = alone.cwd.rename(tmp_path / "copy")
    note = tmp_path / "history"
    wrapped = tmp_path / "wrapped.py"
    wrapped.write_text(WRAPPED, "utf-8")
    options = ("--project", alone.project, "--workspace", str(copy), "--json")
    command = [sys.executable, str(wrapped), str(note), PROGRAM]
    with supervisor(alone, tmp_path / "data", *options, command=command) as (process, line):
        ready = json.loads(line())["data"]
        assert (ready["projects"], ready["max_pool_size"]) == ([alone.project], CAP)
        assert alone.run("review", "status", review_id, "--wait", "--timeout", "60").status == 0
        assert note.read_text("utf-8") == f"{copy / '.git' / 'objects'}\n"
        told = [json.loads(one) for one in told_until("reviewer_outcome", line)]
        kinds = [one["kind"] for one in told]
        assert kinds == ["reviewer_spawned", "review_claimed", "reviewer_outcome"]
        pid = next(one["data"]["pid"] for one in told if one["kind"] == "reviewer_spawned")
        second = ("reviewers", "--broker", alone.url, "--data-dir", str(tmp_path / "data"), "--json")
        refused = Shell(alone.url, tmp_path).run(*second)
        assert (refused.status, refused.envelope["error"]["code"]) == (1, "UNAVAILABLE")
        process.terminate()
        told_until("reviewer_terminated", line)
        assert process.wait(PATIENCE_SECONDS) == 0
    assert not psutil.pid_exists(pid)
    assert list((tmp_path / "data" / "logs" / "reviewers").glob("custom-r1-*.log"))
    assert alone.run("reviewers", "list", "--json").data["pools"][-1]["state"] == "ended"


def test_a_second_signal_ends_the_reviewers_at_once(alone: Inside, tmp_path: Path) -> None:
    with supervisor(alone, tmp_path / "data", "--project", "nobodys", drain_seconds=600) as (process, line):
        told_until("has no project 'nobodys' yet", line)
        process.send_signal(signal.SIGINT)
        told_until("stopping", line)
        assert process.wait(PATIENCE_SECONDS) == 0
    with supervisor(alone, tmp_path / "data", drain_seconds=600, grace_seconds=600) as (process, line):
        assert "all projects" in line()
        submitted(alone, "Have it HANG", "three")
        review_id = newest(alone)
        told_until(f"reviews {review_id}", line)
        [reviewer] = running(alone)
        process.send_signal(signal.SIGINT)
        told_until("stopping", line)
        assert psutil.pid_exists(reviewer["pid"])
        process.send_signal(signal.SIGINT)
        told_until("ended (0 reviews done)", line)
        assert process.wait(PATIENCE_SECONDS) == 0
    assert not psutil.pid_exists(reviewer["pid"])
    assert [one for one in psutil.process_iter() if PROGRAM in words(one) and str(alone.cwd) in folder_of(one)] == []
    assert alone.run("review", "status", review_id, "--json").data["status"] == "pending"
    alone.run("review", "close", review_id)


def words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def folder_of(process: psutil.Process) -> str:
    try:
        return process.cwd()
    except psutil.Error:
        return ""


def test_it_is_refused_what_cannot_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEM_REVIEWER_POOL", json.dumps(POOL))
    away = Inside("http://127.0.0.1:9", tmp_path)
    run = ("reviewers", "--data-dir", str(tmp_path / "data"), "--json", "--broker", away.url)
    ended = Shell(away.url, tmp_path).run(*run)
    assert (ended.status, ended.envelope["error"]["code"]) == (3, "UNAVAILABLE")
    ended = away.run(*run, "--project", "a", "--workspace", str(tmp_path / "none"))
    assert (ended.status, ended.envelope["error"]["code"]) == (1, "CONFIG_INVALID")
    for usage in (
        ("--json",),
        ("--broker", away.url, "--workspace", str(tmp_path)),
        ("--broker", away.url, "--project", "a", "--project", "b", "--workspace", str(tmp_path)),
        ("--broker", away.url, "list"),
    ):
        assert away.run("reviewers", *usage).status == 2, usage
    shown = away.run("reviewers")
    assert "--workspace" in shown.stdout + shown.stderr
