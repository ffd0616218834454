"""Every hook refuses within 15 seconds when the broker does not answer, for any cause."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from threading import Thread

import pytest

from tests.broker import BrokerProcess
from tests.repository.gating import DIGITS, Gated, Said

LIMIT_SECONDS = 15

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="platform: no SIGSTOP"),
    pytest.mark.timeout(180),
]


@contextmanager
def stopped(broker: BrokerProcess, _gated: Gated) -> Generator[None]:
    """Its process is there, and the system takes connections for it."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


@contextmanager
def own_stopped(broker: BrokerProcess, gated: Gated) -> Generator[None]:
    """It is the one that a hook would start if it were not there."""
    gated.rewrite(broker=None)
    with stopped(broker, gated):
        yield


@contextmanager
def dripping(_broker: BrokerProcess, gated: Gated) -> Generator[None]:
    """A listener in the broker's place answers with a letter a second, for ever."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        gated.rewrite(broker=f"http://127.0.0.1:{listener.getsockname()[1]}")
        gated.environment["TANDEM_TOKEN"] = "tdm_of-another-broker"

        def drip(connection: socket.socket) -> None:
            with closing(connection):
                try:
                    while True:
                        connection.sendall(b"H")
                        time.sleep(1)
                except OSError:
                    return

        def serve() -> None:
            while True:
                try:
                    connection = listener.accept()[0]
                except OSError:
                    return
                Thread(target=drip, args=(connection,), daemon=True).start()

        Thread(target=serve, daemon=True).start()
        yield
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("silence", [stopped, own_stopped, dripping])
def test_p7_a_broker_that_does_not_answer_refuses_within_15_seconds(
    own_gated: Gated, tmp_path: Path, silence: Callable[[BrokerProcess, Gated], AbstractContextManager[None]]
):
    own_gated.git("init", "--quiet", "--bare", str(tmp_path / "away.git"))
    trees = {name: own_gated.linked(tmp_path / name, name) for name in ("commit", "merge", "push")}
    own_gated.approved_commit(DIGITS, cwd=trees["push"])
    own_gated.git("commit", "--quiet", "--allow-empty", "-m", "Ours", cwd=trees["merge"])
    own_gated.stage({"b.txt": "more\n"}, trees["commit"])
    tries: list[tuple[tuple[str, ...], Path]] = [
        (("commit", "-m", "x"), trees["commit"]),
        (("merge", "--no-edit", "push"), trees["merge"]),
        (("merge", "--ff-only", "push"), own_gated.root),
        (("push", str(tmp_path / "away.git"), "push:main"), trees["push"]),
    ]

    def attempt(tried: tuple[tuple[str, ...], Path]) -> tuple[float, Said]:
        began = time.monotonic()
        said = own_gated.try_git(*tried[0], cwd=tried[1])
        return time.monotonic() - began, said

    before = own_gated.git("for-each-ref")
    with silence(own_gated.broker, own_gated), ThreadPoolExecutor(len(tries)) as pool:
        found = list(pool.map(attempt, tries))
    for seconds, said in found:
        assert not said.ok
        assert "tandem: refused" in said.stderr
        assert "cannot be reached" in said.stderr
        assert "It has not answered for 12 s" in said.stderr
        assert seconds < LIMIT_SECONDS, said.stderr
    assert own_gated.git("for-each-ref") == before
    assert own_gated.git("ls-remote", str(tmp_path / "away.git")) == ""
