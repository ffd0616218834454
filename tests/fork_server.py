"""A process that has imported what Tandem needs, and forks for every `tandem` that a test wants to start.

    python -m tests.fork_server DESCRIPTOR

Imports are most of the cost of a start, and the tests start many hundred brokers. A fork is still a process of its
own, with the arguments, the environment, the folder and the streams that were ordered. Orders come over
the socket of that descriptor; see `tests/forked.py`, which is the other side. The server ends when it is closed.

It has a single thread: what a fork leaves behind of others is in no defined state.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import gc
import json
import os
import runpy
import select
import signal
import socket
import struct
import sys
import threading
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

PRELOADED = (
    "tandem.app",
    "tandem.audit.audit",
    "tandem.cli.apply",
    "tandem.cli.audit",
    "tandem.cli.broker",
    "tandem.cli.commit",
    "tandem.cli.commit_review",
    "tandem.cli.cycle",
    "tandem.cli.data",
    "tandem.cli.doctor",
    "tandem.cli.findings",
    "tandem.cli.gate_steps",
    "tandem.cli.gsd",
    "tandem.cli.init",
    "tandem.cli.land",
    "tandem.cli.main",
    "tandem.cli.open",
    "tandem.cli.policy",
    "tandem.cli.program",
    "tandem.cli.project",
    "tandem.cli.reviewers_run",
    "tandem.cli.rollback",
    "tandem.cli.settings",
    "tandem.cli.submit",
    "tandem.core.secret_key",
    "tandem.hooks.agent",
    "tandem.hooks.agent_commands",
    "tandem.hooks.agent_files",
    "tandem.hooks.main",
    "tandem.logs",
    "tandem.pool.reviewers.dossier",
    "tandem.pool.reviewers.broker_client",
    "tandem.pool.reviewers.outcomes",
    "tandem.pool.reviewers.prompt",
    "tandem.pool.reviewers.providers",
    "tandem.pool.reviewers.verdicts",
    "tandem.pool.reviewers.wsl",
    "tandem.rulings.override",
    "tandem.server.mcp.server",
    "tandem.setup.githooks",
    "tandem.store.postgres",
    "tandem.web.site",
    "anyio._backends._asyncio",
    "encodings.ascii",
    "encodings.idna",
    "encodings.utf_8_sig",
    "httpcore",
    "httpx",
    "psutil",
    "rich.table",
    "typer._adapters",
    "typer.rich_utils",
    "uvicorn.lifespan.on",
    "uvloop",
)
NUMBER = struct.Struct("=i")
"""How a process's id, and later its exit status, is told: negative is the number of a signal."""

STREAMS = 3
_MOST_DESCRIPTORS = 1024
_MOST_MOVES = 9
"""One event moves fewer counters than that, mostly."""


@dataclass(frozen=True)
class Order:
    """A `tandem` to start.

    Attributes:
        wanted: Its `module`, `arguments`, `environment`, `folder` and `session`.
        streams: Descriptors for standard input, output and error.
        report: A pipe for its id and, at its end, its exit status.
    """

    wanted: dict[str, Any]
    streams: list[int]
    report: int


def main() -> None:
    """Serve, and in each child become the ordered process."""
    gc.disable()
    for name in PRELOADED:
        __import__(name)
    prepare()
    if (python := os.environ.get("FORKED_HOOKS")) is not None:
        # As the process of the tests writes them: see `tests/forked_hooks.py`.
        sys.modules["tandem.setup.githooks"].__dict__["sys"] = SimpleNamespace(executable=python)
    # Keys of roles are hashed as always, but not slowly: `tests/test_tokens.py` insists on the real parameters.
    sys.modules["tandem.core.secret_key"].__dict__["_COST"] = 2
    # Collecting would write to pages that parent and children share.
    gc.freeze()
    order = serve(socket.socket(fileno=int(sys.argv[1])))
    if order is not None:
        become(order)


def prepare() -> None:
    """Compile what each child would compile at its first call of a kind: tables, statements, requests."""
    from tandem.schema import TANDEM  # as late as all that is preloaded
    from tandem.server.catalogue import REGISTRY
    from tandem.store.ledger import moving
    from tandem.store.statement import POSTGRESQL, SQLITE, Statement

    for dialect in (SQLITE, POSTGRESQL):
        TANDEM.ddl(dialect)
    for one in gc.get_objects():
        if isinstance(one, Statement):
            _ = one.sqlite, one.postgresql
    for count in range(1, _MOST_MOVES):
        _ = moving(count).sqlite
    for operation in REGISTRY:
        operation.request.model_rebuild()


def serve(channel: socket.socket) -> Order | None:
    """Fork for each order; returns in the child with its order, in the parent with None when no more can come."""
    heard, told = os.pipe()
    for end in (heard, told):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(told)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    # Ctrl-C in a terminal is for the tests; they end the processes that they started.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reports: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([channel, heard], [], [])
        if heard in ready:
            os.read(heard, 4096)
            reap(reports)
        if channel in ready:
            order = receive(channel)
            if order is None:
                return None
            pid = os.fork()
            if pid == 0:
                # The descriptor is closed with all others; an object that is still there would close it once more.
                channel.detach()
                return order
            reports[pid] = order.report
            tell(order.report, pid)
            for stream in order.streams:
                os.close(stream)


def receive(channel: socket.socket) -> Order | None:
    """The next order; None at the end."""
    head, descriptors, _, _ = socket.recv_fds(channel, NUMBER.size, STREAMS + 1)
    if not head:
        return None
    (left,) = NUMBER.unpack(head)
    body = b""
    while len(body) < left:
        piece = channel.recv(left - len(body))
        if not piece:
            return None
        body += piece
    return Order(json.loads(body), descriptors[:STREAMS], descriptors[STREAMS])


def reap(reports: dict[int, int]) -> None:
    """Tell of all children that have ended."""
    while reports:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        report = reports.pop(pid)
        tell(report, os.waitstatus_to_exitcode(status))
        os.close(report)


def tell(report: int, number: int) -> None:
    """Write a number, if anybody still listens."""
    with contextlib.suppress(BrokenPipeError):
        os.write(report, NUMBER.pack(number))


def become(order: Order) -> None:
    """Run `python -m MODULE` as if this process had been started for it."""
    if order.wanted["session"] != "tests":
        os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # So a test that waits for its end in vain can ask where it stands.
    faulthandler.register(signal.SIGUSR1)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        os.dup2(order.streams[number], number)
        stream = open(number, mode, buffering=1, encoding="utf-8", closefd=False)  # noqa: SIM115 - open for good
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    os.closerange(STREAMS, _MOST_DESCRIPTORS)
    if order.wanted["session"] == "terminal":
        import fcntl  # There is none on Windows, where the other side imports this module, too.
        import termios

        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(order.wanted["folder"])
    os.environ.clear()
    os.environ.update(order.wanted["environment"])
    sys.path[0] = order.wanted["folder"]
    sys.argv = ["tandem", *order.wanted["arguments"]]
    try:
        runpy.run_module(order.wanted["module"], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        leave(end.code or 0)
    leave(0)


def leave(status: int) -> None:
    """End as an interpreter does, but take nothing apart: that would copy every page that is shared with the parent.

    Most of what a short command costs is saved.
    """
    threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] not in the stubs
    atexit._run_exitfuncs()
    # What cannot be written is for the interpreter to complain about.
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    main()
