"""A real broker as a process of its own, to be killed and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

PATIENCE_SECONDS = 60.0


class BrokerProcess:
    """`tandem up` on a data folder; keeps its port over restarts."""

    def __init__(self, data_dir: Path, **environment: str) -> None:
        self.data_dir = data_dir
        self.url = ""
        self._environment = {**os.environ, **environment}
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it and wait until it answers."""
        port = self.url.rpartition(":")[2] or "0"
        command = [sys.executable, "-m", "tandem", "up", "--port", port, "--data-dir", str(self.data_dir), "--json"]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=self._environment, text=True
        )
        assert self._process.stdout is not None
        self.url = json.loads(self._process.stdout.readline())["data"]["url"]

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGKILL if sys.platform != "win32" else signal.SIGTERM)

    def stop(self) -> int:
        """Ask it to stop; gives the exit status."""
        return self._end(signal.SIGTERM)

    def wait(self) -> int:
        """Wait for it to end by itself."""
        assert self._process is not None
        assert self._process.stdout is not None
        with self._process.stdout:
            return self._process.wait(PATIENCE_SECONDS)

    def end(self) -> None:
        """Make sure that it is gone."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def ask(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """Call an operation over HTTP; gives the envelope's data."""
        url = f"{self.url}/api/v1/{operation}"
        request = Request(url, json.dumps(arguments).encode(), {"Content-Type": "application/json"})
        with urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            return json.loads(answer.read())["data"]

    def health(self) -> dict[str, Any] | None:
        """What it says of itself; null if nobody answers."""
        try:
            with urlopen(f"{self.url}/healthz", timeout=PATIENCE_SECONDS) as answer:
                return json.loads(answer.read())["data"]
        except (URLError, ConnectionError):
            return None

    def await_waiting(self, count: int) -> None:
        """Return once so many calls are parked in it."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (self.health() or {}).get("waiting") != count:
            assert time.monotonic() < deadline, f"{count} calls never waited"
            time.sleep(0.01)

    def _end(self, number: int) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        return self.wait()


@contextmanager
def broker_process(data_dir: Path, **environment: str) -> Iterator[BrokerProcess]:
    """A running broker that ends with the test."""
    broker = BrokerProcess(data_dir, **environment)
    try:
        broker.start()
        yield broker
    finally:
        broker.end()
