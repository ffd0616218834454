"""The real broker, for tests that watch its process and what waits in it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.broker import CALL_SECONDS, STOP_SECONDS, BrokerProcess, Caller


class WatchedBroker(BrokerProcess):
    """A broker whose end and whose waits can be watched."""

    @property
    def is_running(self) -> bool:
        """Whether it was started, and has not been ended since."""
        return self._process is not None

    def ask(self, operation: str, **arguments: Any) -> Any:
        """Call an operation over HTTP; gives the envelope's data."""
        with Caller(self.url, "label") as caller:
            return caller.do(operation, **arguments)

    def register(self, root: Path, name: str) -> None:
        """Register a folder as a project."""
        with Caller(self.url, "") as caller:
            body = json.dumps({"root": str(root), "name": name}).encode()
            assert caller.send("register_project", body).status_code == 200

    def await_waiting(self, count: int) -> None:
        """Return once so many calls are parked in it."""
        deadline = time.monotonic() + CALL_SECONDS
        while self.health()["waiting"] != count:
            assert time.monotonic() < deadline, f"there were never {count} calls waiting"
            time.sleep(0.01)

    def signal(self, number: int) -> None:
        """Send it a signal, and do not wait."""
        os.kill(self.pid, number)

    def ended(self) -> int:
        """Wait for it to end by itself; gives the exit status."""
        process, self._process = self._process, None
        assert process is not None
        with process:
            return process.wait(STOP_SECONDS)

    def stop_in_order(self) -> int:
        """Ask it to stop; gives the exit status."""
        self.signal(signal.SIGTERM)
        return self.ended()


@contextmanager
def watched_broker(folder: Path, **settings: object) -> Generator[WatchedBroker]:
    """A running broker that ends with the test; its data is in `folder/data`."""
    with WatchedBroker(folder, **settings) as broker:
        yield broker
