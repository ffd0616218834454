"""A hook that finds no broker starts the one on its gate's data, waits a moment, and has it judge; else it refuses."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tandem.core.platforms import lock_file
from tandem.rulings import ask, starting, state
from tandem.settings.instance import LOCK_FILE, find_running
from tests.broker import BrokerProcess
from tests.repository.agents import account, hook
from tests.repository.gating import DIGITS, Gated, gate_on, new_repository

GREEK = {"a.txt": "alpha\n2\nthree\n"}
STARTED = "tandem: The broker does not run: it is being started.\n"
AT_ONCE = 3
PATIENCE_SECONDS = 60
CONTEXT = ".planning/phases/01-x/01-CONTEXT.md"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """The person's own broker; stopped in the end, even if a hook has started it."""
    with BrokerProcess(tmp_path_factory.mktemp("own")) as broker:
        yield broker
        end(broker)


def end(broker: BrokerProcess) -> None:
    """Stop it, and also each broker that was started too late and takes its place."""
    broker.stop()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while brokers(broker):
        assert time.monotonic() < deadline
        assert broker.run("down").returncode == 0


@pytest.fixture
def here(own: BrokerProcess, tmp_path: Path, config_dir: Path) -> Gated:
    """A repository whose gate asks any broker that runs on the data of `own`; `DIGITS` is staged and approved."""
    end(own)
    own.start()
    gated = gate_on(own, new_repository(tmp_path / "repository"))
    as_own(gated)
    # A free port: commits use the settings of the person's shell.
    gated.environment["TANDEM_PORT"] = "0"
    gated.stage(DIGITS)
    gated.approve()
    assert config_dir.is_dir()
    return gated


def as_own(gated: Gated) -> None:
    """Have the gate ask whichever broker runs on its data, as `tandem gate on` has it without `--broker`."""
    gated.rewrite(broker=None, data_dir=str(gated.broker.data_dir), usual_url=None)


def brokers(broker: BrokerProcess) -> list[int]:
    """The processes that are, or are about to be, a broker on that data."""
    folder = str(broker.data_dir)
    return [one.pid for one in psutil.process_iter(["cmdline"]) if folder in (one.info["cmdline"] or ())]


def test_p7_commits_at_the_same_time_start_one_broker(here: Gated, own: BrokerProcess, tmp_path: Path):
    trees = [here.linked(tmp_path / f"tree{number}", f"branch{number}") for number in range(AT_ONCE)]
    for tree in trees:
        here.write(GREEK, tree)
        here.git("add", "--all", cwd=tree)
    own.kill()
    assert (own.data_dir / "broker.json").exists()

    def commit(tree: Path) -> str:
        return here.refused("commit", "-m", "x", cwd=tree)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        said = list(pool.map(commit, trees))
    assert ["no approved round" in words for words in said] == [True] * AT_ONCE, said
    running = find_running(own.data_dir)
    assert running is not None
    assert brokers(own) == [running.pid]


def test_p7_an_agents_hook_starts_it_too_and_so_does_the_start_of_a_session(here: Gated, own: BrokerProcess):
    own.stop()
    writes = account("claude", "write", here.root, path=str(here.root / CONTEXT), content="It is decided.\n")
    answer = hook(writes, "--client", "claude", cwd=here.root, **here.environment)
    assert (answer.status, answer.stderr.startswith(STARTED)) == (2, True), answer
    assert "may be written when exactly this content is approved" in answer.stderr
    assert own.run("down").returncode == 0
    session = account("claude", "start", here.root)
    answer = hook(session, "--client", "claude", cwd=here.root, name="session", **here.environment)
    assert (answer.status, answer.stderr.startswith(STARTED)) == (0, True), answer
    assert "The broker runs." in answer.stdout


def test_p7_a_commit_starts_the_broker_that_is_down_and_where_it_does_not_the_refusal_says_why(
    here: Gated, own: BrokerProcess, tmp_path: Path
):
    named = gate_on(own, new_repository(tmp_path / "named"))
    named.stage(DIGITS)
    own.stop()
    before = _log_of_starts(own)
    words = named.refused("commit", "-m", "x")
    assert ("cannot be reached" in words, "being started" in words) == (True, False)
    # Who commits does not choose the settings of the broker that is started.
    words = here.refused("commit", "-m", "x", TANDEM_CONFIG_DIR=str(tmp_path / "loose"))
    record = os.environ["TANDEM_CONFIG_DIR"]
    assert f"It is not started from here: the gate's record has the settings in {record}" in words
    assert f"Start it with: TANDEM_CONFIG_DIR={record} tandem up --background --data-dir {own.data_dir}" in words
    assert (_log_of_starts(own), brokers(own)) == (before, [])
    for moved, reason in (
        (own.data_dir / "tandem.db", "tandem.db is gone, or empty"),
        (own.data_dir / "logs", "File exists"),
        (own.data_dir, f"there is no folder {own.data_dir}"),
    ):
        away = moved.rename(moved.with_name("away"))
        if moved.name == "logs":
            moved.touch()
        words = here.refused("commit", "-m", "x")
        assert "cannot be reached (none runs on" in words
        assert reason in words
        assert "tandem up --background" in words
        if moved.name == "logs":
            moved.unlink()
        away.rename(moved)
    # All is as it was, and the commit is judged by the broker that it starts, which has the record's settings.
    here.stage(GREEK)
    words = here.refused("commit", "-m", "x", TANDEM_GATE_EXEMPT='["**"]')
    assert words.startswith(STARTED)
    assert "no approved round" in words
    running = find_running(own.data_dir)
    assert running is not None
    here.stage(DIGITS)
    said = here.try_git("commit", "-m", "x")
    assert (said.status, "being started" in said.stderr) == (0, False), said.stderr
    assert len(here.trailers()) == 1
    assert find_running(own.data_dir) == running


def test_p7_a_hook_waits_only_a_moment_for_a_broker_that_does_not_come(
    here: Gated, own: BrokerProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    own.stop()
    monkeypatch.setattr(ask, "PATIENCE_SECONDS", 1)
    monkeypatch.setattr(starting, "_TELL_SECONDS", 0)
    monkeypatch.setenv("TANDEM_PORT", "0")
    gate = state.find_enabled(str(here.root))
    assert gate is not None
    lock = os.open(own.data_dir / LOCK_FILE, os.O_RDWR)
    try:
        assert lock_file(lock)
        with ask.GateClient(gate, starts=True) as asker, pytest.raises(ask.Unreachable) as refused:
            asker.check_gate([])
        assert "did not answer within 1 s" in str(refused.value)
        assert "tandem: Waiting for the broker (" in capsys.readouterr().err
    finally:
        os.close(lock)
    # The broker that the hook started takes its place now.
    with ask.GateClient(gate, starts=True) as asker:
        monkeypatch.setattr(ask, "PATIENCE_SECONDS", PATIENCE_SECONDS)
        assert asker.check_gate([])["allowed"] is True


def _log_of_starts(broker: BrokerProcess) -> bytes:
    log = broker.data_dir / "logs" / "start.log"
    return log.read_bytes() if log.exists() else b""
