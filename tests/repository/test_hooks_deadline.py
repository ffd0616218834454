"""Every hook refuses within 15 seconds when the broker does not answer, for any cause."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Thread

import pytest

from tests.broker import BrokerProcess
from tests.repository.gating import Gated, Said, gate_on, new_repository

LIMIT_SECONDS = 15
AT_ONCE = 4
"""More would wait for each other where processors are few."""

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="platform: no SIGSTOP"), pytest.mark.timeout(180)]


@contextmanager
def stopped(broker: BrokerProcess) -> Generator[None]:
    """Its process is there, and the system takes connections for it."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.pid, signal.SIGCONT)


@contextmanager
def dripping(gated: Gated) -> Generator[None]:
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


Try = tuple[Gated, Path, tuple[str, ...]]


def tries(gated: Gated) -> dict[str, Try]:
    """A command for each hook, which is refused if the broker does not answer."""
    away = f"{gated.root}.git"
    gated.git("init", "--quiet", "--bare", away)
    trees = {name: gated.linked(Path(f"{gated.root}-{name}"), name) for name in ("commit", "merge", "push")}
    gated.approved_commit({"a.txt": f"{gated.project}\n"}, cwd=trees["push"])
    gated.git("commit", "--quiet", "--allow-empty", "-m", "Ours", cwd=trees["merge"])
    gated.stage({"b.txt": "more\n"}, trees["commit"])
    return {
        "commit": (gated, trees["commit"], ("commit", "-m", "x")),
        "merge": (gated, trees["merge"], ("merge", "--no-edit", "push")),
        "forward": (gated, gated.root, ("merge", "--ff-only", "push")),
        "push": (gated, trees["push"], ("push", away, "push:main")),
    }


def attempt(tried: Try) -> tuple[float, Said]:
    began = time.monotonic()
    said = tried[0].try_git(*tried[2], cwd=tried[1])
    return time.monotonic() - began, said


def test_p7_a_broker_that_does_not_answer_refuses_within_15_seconds(own_gated: Gated, tmp_path: Path) -> None:
    own, to_another = (gate_on(own_gated.broker, new_repository(tmp_path / name)) for name in ("own", "other"))
    all_of = [tries(gated) for gated in (own_gated, own, to_another)]
    # Every hook, and for the other causes, which they do not tell apart, one on each side of git.
    tried = [*all_of[0].values(), *(each[name] for each in all_of[1:] for name in ("commit", "push"))]
    # The one that a hook would start if it were not there.
    own.rewrite(broker=None)
    refs = [gated.git("for-each-ref") for gated in (own_gated, own, to_another)]
    with stopped(own_gated.broker), dripping(to_another), ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(attempt, tried))
    for seconds, said in found:
        assert not said.ok
        assert "tandem: refused" in said.stderr
        assert "cannot be reached" in said.stderr
        assert "It has not answered for 12 s" in said.stderr
        assert seconds < LIMIT_SECONDS, said.stderr
    for gated, before in zip((own_gated, own, to_another), refs, strict=True):
        assert gated.git("for-each-ref") == before
        assert gated.git("ls-remote", f"{gated.root}.git") == ""
