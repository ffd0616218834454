"""Runs one PostgreSQL for as long as somebody holds the other end of standard input.

The first line is the order, as JSON: `command`, `environment`, `folder` and `account`. The answer is `ready`,
or `failed` and the server's own words. Then a word is awaited: `stop` (orderly) and `crash`
keep the folder; the end of the input, which comes however the tests end, stops the server and removes it.

Run with `-I -S`, by path: the standard library only, and no coverage of a program that is no part of Tandem.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from typing import IO, Any

READY = "ready to accept connections"
STOP_SECONDS = 20
_WINDOWS = os.name == "nt"


def main() -> int:
    """Starts, waits for the word, stops."""
    order: dict[str, Any] = json.loads(sys.stdin.readline())
    server = subprocess.Popen(
        order["command"],
        cwd=order["folder"],
        env=order["environment"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        **order["account"],
    )
    assert server.stderr is not None
    words = _wait_until_ready(server.stderr)
    if words is not None:
        server.wait()
        print(f"failed\n{words}", flush=True)
        return 1
    # Its log goes on being read, or the server would stand still when the pipe is full.
    threading.Thread(target=_drain, args=(server.stderr,), daemon=True).start()
    print("ready", flush=True)
    _end(server, order["command"], order["folder"], sys.stdin.readline().strip())
    return 0


def _wait_until_ready(log: IO[str]) -> str | None:
    """None once connections are accepted; all that the server said when it ended instead."""
    lines: list[str] = []
    for line in log:
        if READY in line:
            return None
        lines.append(line)
    return "".join(lines)


def _drain(log: IO[str]) -> None:
    for _ in log:
        pass


def _end(server: subprocess.Popen[str], command: list[str], folder: str, word: str) -> None:
    # SIGINT cuts the connections and writes everything; SIGQUIT leaves it to recovery.
    mode, number = ("fast", signal.SIGINT) if word == "stop" else ("immediate", getattr(signal, "SIGQUIT", 0))
    if _WINDOWS:
        control = os.path.join(os.path.dirname(command[0]), "pg_ctl.exe")  # noqa: PTH118, PTH120 - no pathlib needed here
        subprocess.run([control, "stop", "-D", command[2], "-m", mode], check=False, capture_output=True)
    else:
        server.send_signal(number)
    try:
        server.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    if not word:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
