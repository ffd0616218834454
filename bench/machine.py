"""The machine that is measured on: processors shared out, limits raised, facts written down."""

from __future__ import annotations

import contextlib
import os
import platform
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from typing import Any

if sys.platform != "win32":
    import resource

_SOCKETS = 4_096


def _processors() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []


_ALL = _processors()
CAN_PIN = len(_ALL) > 1
"""Whether servers and clients are kept apart."""


def pin_client() -> None:
    """Leave all processors but the last to the servers."""
    if sys.platform == "linux" and CAN_PIN:
        os.sched_setaffinity(0, _ALL[-1:])


@contextlib.contextmanager
def starting_a_server(*, pinned: bool = True) -> Generator[None]:
    """Processes started meanwhile run where no client does (or, not pinned, anywhere), with all their threads."""
    if sys.platform != "linux" or not CAN_PIN:
        yield
        return
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, _ALL[:-1] if pinned else _ALL)
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def raise_socket_limit() -> None:
    """Let this process and its children have sockets for a thousand clients."""
    if sys.platform != "win32":
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _SOCKETS if hard == resource.RLIM_INFINITY else min(_SOCKETS, hard)
        if soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def children_cpu_ms() -> float:
    """Processor time, user and system, of all processes that this one started and saw end."""
    if sys.platform == "win32":
        return 0.0
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1000


def facts() -> dict[str, Any]:
    """What a reader needs to know to compare two runs."""
    git = subprocess.run(["git", "--version"], check=True, capture_output=True, text=True).stdout.strip()
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
        "pinned_apart": CAN_PIN,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "git": git.removeprefix("git version "),
        "load_at_start": round(os.getloadavg()[0], 1) if sys.platform != "win32" else None,
    }
