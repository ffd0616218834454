"""The processes that are measured: the broker, and the bare server beside it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import psutil

from bench import machine

ROOT = Path(__file__).resolve().parent.parent
_STOP_SECONDS = 30
# Without the last, each start would compile all that it imports, which users do not wait for.
_FOREIGN = ("TANDEM_", "GIT_", "COVERAGE_", "COV_", "PYTHONDONTWRITEBYTECODE")
_python = ContextVar("python", default=sys.executable)


def python() -> str:
    """The interpreter of the environment whose Tandem is measured."""
    return _python.get()


@contextlib.contextmanager
def measuring(interpreter: Path) -> Generator[None]:
    """Brokers and commands that are started meanwhile are those that this interpreter's environment has."""
    token = _python.set(str(interpreter))
    try:
        yield
    finally:
        _python.reset(token)


def environment(data_dir: Path, **settings: object) -> dict[str, str]:
    """An environment in which neither this user's configuration nor a surrounding git hook is found."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    stated = {f"TANDEM_{name.upper()}": str(value) for name, value in settings.items()}
    return {**kept, "TANDEM_CONFIG_DIR": str(data_dir / "no-config"), "TANDEM_DATA_DIR": str(data_dir), **stated}


def free_port() -> int:
    """A port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


class Server:
    """A server process that prints one line when it answers.

    Attributes:
        port: Where it listens.
        process: For its processor time and memory.
    """

    def __init__(self, command: Sequence[str], env: dict[str, str], *, pinned: bool = True) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process, and ends in `stop`
        with machine.starting_a_server(pinned=pinned):
            self._popen = subprocess.Popen(
                command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._errors
            )
        self.process = psutil.Process(self._popen.pid)
        self.port: int = 0

    def wait_until_ready(self) -> str:
        """The line that the server prints.

        Raises:
            RuntimeError: It ended instead.
        """
        assert self._popen.stdout is not None
        line = self._popen.stdout.readline().decode()
        if not line:
            self._errors.seek(0)
            raise RuntimeError(f"the server did not start: {self._errors.read().decode()[-2000:]}")
        return line

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def cpu_ms(self) -> float:
        """Processor time used so far, user and system, children not counted."""
        times = self.process.cpu_times()
        return (times.user + times.system) * 1000

    def rss_bytes(self) -> int:
        """Memory that it has now."""
        return self.process.memory_info().rss

    def stop(self) -> None:
        """End it in order; twice is safe."""
        with self._popen as popen:
            if popen.poll() is None:
                popen.terminate()
                try:
                    popen.wait(_STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    popen.kill()
        self._errors.close()


class Broker(Server):
    """`python -m tandem up` on data of its own."""

    def __init__(self, data_dir: Path, *, port: int = 0, pinned: bool = True, **settings: object) -> None:
        self.data_dir = data_dir
        command = [python(), "-m", "tandem", "up", "--json", "--port", str(port), "--data-dir", str(data_dir)]
        super().__init__(command, environment(data_dir, **settings), pinned=pinned)
        self.port = port

    @classmethod
    @contextlib.contextmanager
    def starting(cls, data_dir: Path, port: int) -> Generator[Self]:
        """A broker that is not waited for."""
        broker = cls(data_dir, port=port)
        try:
            yield broker
        finally:
            broker.stop()

    def __enter__(self) -> Self:
        url: str = json.loads(self.wait_until_ready())["data"]["url"]
        self.port = urlsplit(url).port or 0
        return self


class BareServer(Server):
    """The floor: one Starlette route that parses JSON and answers with JSON."""

    def __init__(self) -> None:
        super().__init__([sys.executable, "-m", "bench.bare"], dict(os.environ))

    def __enter__(self) -> Self:
        self.port = int(self.wait_until_ready())
        return self
