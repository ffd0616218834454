"""`tandem mcp`: MCP on standard input and output, forwarded to the broker.

One thread reads, a bounded number of threads forward, so that a call that waits holds up no other. The
bridge never ends because the broker went away.
"""

from __future__ import annotations

import os
import queue
import re
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

from tandem.bridge import messages
from tandem.bridge.broker import BrokerLocator
from tandem.bridge.forward import Forwarder, PendingRequest, Route
from tandem.bridge.project import ProjectFinder
from tandem.git.place import deleted_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from tandem.bridge.messages import Message

USAGE = """\
Usage: tandem mcp [--role ROLE] [--project NAME] [--broker URL]

Speaks MCP on standard input and output and forwards to the Tandem broker, which it starts
in the background when none runs.

  --role ROLE      offer only this role's tools: proposer, reviewer, operator, or handoff
                   for the tools of hand-off cycles, which are offered nowhere else
  --project NAME   the project of all calls; default: the registered one of the folder
  --broker URL     the broker to talk to, or several on one database as URL,URL; default:
                   TANDEM_BROKER, else the one running for this user. A broker that is named
                   here is never started, only awaited.

TANDEM_AGENT states the agent's identity to the broker. TANDEM_TOKEN is the access token, where the
broker asks for one; the broker's own user needs none on this machine.

For hand-off cycles, a call of session_open that leaves out its key gets the one in TANDEM_PSK, else the
first line of the file that TANDEM_PSK_FILE names; a role that it leaves out is the one in TANDEM_ROLE.
So the model never sees the key.
"""
THREADS = 64
"""Requests under way at once; further ones wait their turn."""

FINISH_SECONDS = 5.0
"""How long requests may go on after the client has closed its end."""

_USAGE_STATUS = 2
_ROLE = re.compile(r"[a-z]+")


def run(arguments: list[str]) -> NoReturn:
    """Bridge until the client closes its end; ends the process, with status 2 if the options are wrong."""
    if arguments and arguments[-1] in {"-h", "--help"}:
        sys.stdout.write(USAGE)
        sys.exit(0)
    if (deleted := deleted_folder()) is not None:
        sys.exit(f"tandem mcp: {deleted[0]}")
    try:
        options = parse(arguments)
        folder = os.environ.get("CLAUDE_PROJECT_DIR") or os.getcwd()
        broker = BrokerLocator(options.get("broker"), folder)
    except ValueError as error:
        sys.stderr.write(f"tandem mcp: {error}\n\n{USAGE}")
        sys.exit(_USAGE_STATUS)
    output = Output(sys.stdout.fileno())
    # Nothing but the protocol may reach standard output.
    sys.stdout = sys.stderr
    finder = ProjectFinder(folder)
    route = Route(options.get("role"), options.get("project"), finder, os.environ.get("TANDEM_AGENT"))
    bridge = Bridge(Forwarder(broker, route, output.write), output.write)
    try:
        bridge.serve(sys.stdin.buffer)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(0)


def parse(arguments: list[str]) -> dict[str, str]:
    """The options that were given, by name. By hand: argparse would cost each start as much as all the rest.

    Raises:
        ValueError: One is unknown, lacks its value or has one that cannot be.
    """
    options: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if name not in {"--role", "--project", "--broker"}:
            raise ValueError(f"there is no option '{argument}'")
        if not equals:
            value = next(rest, "")
        if not value:
            raise ValueError(f"{name} needs a value")
        options[name.removeprefix("--")] = value
    role = options.get("role")
    if role is not None and not _ROLE.fullmatch(role):
        raise ValueError(f"'{role}' is not a role")
    return options


class Output:
    """Standard output, one whole line at a time."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def write(self, line: bytes) -> None:
        """Write a message; in silence if the client is gone, whose end of input follows."""
        left = memoryview(line + b"\n")
        with self._lock:
            try:
                while left:
                    left = left[os.write(self._descriptor, left) :]
            except OSError:
                return


class Workers:
    """Threads that run the calls given to them: started when needed, kept, never more than `THREADS`."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._spare = 0

    def run(self, work: Callable[[], None]) -> None:
        """Have it run, now or when a thread is free."""
        with self._lock:
            self._spare -= 1
            if self._spare < 0 and self._threads < THREADS:
                self._threads += 1
                self._spare += 1
                threading.Thread(target=self._work_on, daemon=True).start()
        self._work.put(work)

    def _work_on(self) -> None:
        while True:
            self._work.get()()
            with self._lock:
                self._spare += 1


class Bridge:
    """Reads the client's messages and sees to each."""

    def __init__(self, forwarder: Forwarder, write: Callable[[bytes], None]) -> None:
        self._forwarder = forwarder
        self._write = write
        self._workers = Workers()
        self._ended = threading.Condition()
        self._pending: dict[bytes, PendingRequest] = {}

    def serve(self, lines: BinaryIO) -> None:
        """Take every line, then let the running requests end, for `FINISH_SECONDS` at most."""
        for line in lines:
            if line.strip():
                self._take(line)
        deadline = time.monotonic() + FINISH_SECONDS
        with self._ended:
            self._ended.wait_for(lambda: not self._pending, deadline - time.monotonic())
            late = list(self._pending.values())
        for request in late:
            request.exchange.abort()

    def _take(self, line: bytes) -> None:
        try:
            message = messages.parse(line)
        except messages.Malformed as error:
            self._write(messages.error(None, error.code, str(error)))
            return
        if message.method == "notifications/cancelled":
            self._cancel(message)
        elif message.method == "ping" and message.is_request and message.modern_version is None:
            # Asks whether this process lives, which has nothing to do with the broker.
            self._write(messages.encode({"jsonrpc": "2.0", "id": message.id, "result": {}}))
        elif message.is_request:
            self._start(message)
        elif message.method is not None:
            self._workers.run(lambda: self._forwarder.notify(message))

    def _start(self, message: Message) -> None:
        key = messages.encode(message.id)
        request = PendingRequest(message)
        with self._ended:
            self._pending[key] = request
        self._workers.run(lambda: self._answer(key, request))

    def _answer(self, key: bytes, request: PendingRequest) -> None:
        try:
            self._forwarder.answer(request)
        except Exception as error:  # noqa: BLE001 the edge: the client is owed an answer in any case
            sys.stderr.write(f"tandem mcp: {type(error).__name__}: {error}\n")
            self._write(messages.error(request.message.id, messages.INTERNAL_ERROR, "The bridge failed on this call"))
        finally:
            with self._ended:
                if self._pending.get(key) is request:
                    del self._pending[key]
                self._ended.notify_all()

    def _cancel(self, message: Message) -> None:
        wanted: Any = message.params.get("requestId")
        with self._ended:
            request = self._pending.get(messages.encode(wanted))
        # A call that has ended already is cancelled now and then; that is normal.
        if request is not None:
            request.exchange.abort()
