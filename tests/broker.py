"""The real broker as a process of its own, on both databases, and a client that talks to it over HTTP."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Literal, Self
from urllib.parse import urlencode, urlsplit

import httpx
import orjson
import pytest

from tandem.core.secret_key import Tokens, load_or_make
from tandem.errors import by_code
from tandem.git.raw import FIELDS, digest_of
from tandem.rulings import proof
from tandem.store.event import Seal
from tests.commandline import Ended, Inside
from tests.forked import Forked, run_tandem, start_tandem
from tests.ports import HeldPort
from tests.postgres import PostgresServer, settle

STOP_SECONDS = 60
CALL_SECONDS = 60

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Brokers speak plain HTTP: the thousands of clients need not read certificates each."""

STATUS_OF = {code: kind.status for code, kind in by_code().items()}
"""The statuses of section 6 of the contract, as `tandem/errors.py` draws them at its top."""


BROKERS = int(os.environ.get("TESTED_BROKERS", "1"))
"""How many brokers share the PostgreSQL that most acceptance tests use: `make acceptance BROKERS=3`."""

DATA_DIRS: dict[str, Path] = {}
"""The data folders of the brokers that these tests have started, by URL."""

DATABASES: dict[str, str] = {}
"""The URLs of the databases of those that have one on a server."""

TO_CALL = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
TO_THE_SDK = [("X-Twice", "1"), ("X-Twice", "2")]
"""Headers with which no call takes the fast path."""

ABSENT = {"mode_before": "000000", "blob_before": "0" * 40, "mode_after": "000000", "blob_after": "0" * 40}

_SHARED_KEY = Path(mkdtemp(prefix="tandem-key-")) / "secret.key"


class BrokerProcess:
    """`python -m tandem up` in the foreground, with settings from its environment.

    Its port stays the same over restarts, as the data does. It is forked where that is possible (`tests/forked.py`):
    tests of a broker's start and of its imports start it themselves.
    """

    def __init__(self, folder: Path, **settings: object) -> None:
        self.folder = folder
        self.data_dir = folder / "data"
        self._port = HeldPort()
        if "database_url" in settings:
            # Brokers that share a database need the same key, and tests copy databases.
            settings.setdefault("secret_key_file", _SHARED_KEY)
        # PATH is as it is called; all else is a setting.
        self._settings = {
            name if name == "PATH" else f"TANDEM_{name.upper()}": str(value) for name, value in settings.items()
        }
        self._process: Forked | subprocess.Popen[bytes] | None = None

    @property
    def data_dirs(self) -> list[Path]:
        """The folder of the data that is not in the database; several where several brokers stand for one."""
        return [self.data_dir]

    @property
    def port(self) -> int:
        """Where it listens, once it has been started; no one else is given it until the test is over."""
        return self._port.number

    @property
    def url(self) -> str:
        """Where it listens, once it has been started."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process that runs now."""
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._port.release()

    def command(self, *arguments: str) -> list[str]:
        """`tandem …` on this broker's data."""
        return [sys.executable, "-m", "tandem", *arguments, "--data-dir", str(self.data_dir)]

    @property
    def environment(self) -> dict[str, str]:
        """The environment that it runs in."""
        return {**os.environ, **self._settings}

    @property
    def secret_key(self) -> Path:
        """The file of its secret."""
        return Path(self._settings.get("TANDEM_SECRET_KEY_FILE", self.data_dir / "secret.key"))

    @property
    def seal(self) -> Seal:
        """How this broker hashes events, for a forger who has read its secret."""
        return Tokens(load_or_make(self.secret_key)).seal_event

    def start(self) -> None:
        """Return once it answers."""
        errors, port = self.folder / "stderr.txt", str(self._port.hold())
        with errors.open("ab") as stderr:
            self._process = self._started(subprocess.PIPE, stderr.fileno(), "up", "--json", "--port", port)
        assert self._process.stdout is not None
        ready = self._process.stdout.readline()
        if not ready.startswith(b'{"ok":true'):
            self._end("kill")
            # One that cannot start says so there, too.
            pytest.fail(f"the broker did not start:\n{ready!r}\n{errors.read_text('utf-8')}")
        self._known()

    def move(self) -> None:
        """Take another port at the next start."""
        left, self._port = self._port, HeldPort()
        self._port.hold()
        left.release()

    def _known(self) -> None:
        """Have its clients find what belongs to its address."""
        DATA_DIRS[self.url] = self.data_dir
        DATABASES[self.url] = self._settings.get("TANDEM_DATABASE_URL", "")

    def _started(self, stdout: int, stderr: int, *arguments: str) -> Forked | subprocess.Popen[bytes]:
        where = ("--data-dir", str(self.data_dir))
        return start_tandem([*arguments, *where], self.folder, self.environment, stdout=stdout, stderr=stderr)

    def kill(self) -> None:
        """`kill -9`: no warning, nothing tidied up."""
        self._end("kill")

    def stop(self) -> None:
        """An orderly end; twice is safe."""
        self._end("terminate")

    def _end(self, how: Literal["kill", "terminate"]) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with process:
            (process.kill if how == "kill" else process.terminate)()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise

    def health(self) -> dict[str, Any]:
        """The facts of `/healthz`."""
        return httpx.get(f"{self.url}/healthz", timeout=CALL_SECONDS, verify=NO_TLS).json()["data"]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `tandem …` on this broker's data to its end."""
        where = ("--data-dir", str(self.data_dir))
        return run_tandem([*arguments, *where], self.folder, self.environment, seconds=CALL_SECONDS)

    def audited(self, *, as_json: bool = True) -> Ended:
        """`tandem audit verify --json` on this broker's data, in this process: it reads only the database."""
        where = ("--data-dir", str(self.data_dir))
        return Inside(self.url, self.folder).run(
            "audit", "verify", *["--json"][:as_json], *where, stdin=b"", **self._settings
        )

    def assert_intact(self) -> None:
        """P8: after any acts of tests in any order, the log is consistent and the state follows from it."""
        verified = self.audited()
        assert verified.status == 0, verified.stdout + verified.stderr


def database_of(request: pytest.FixtureRequest, stack: ExitStack) -> dict[str, object]:
    """Settings for a fixture's own database: SQLite, or a fresh one on PostgreSQL if the parameter says so."""
    if request.param != "postgresql":
        return {}
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = server.create_database()
    stack.callback(server.drop_database, url)
    return {"database_url": url}


class Poster:
    """POSTs to one broker, each thread over a connection of its own.

    By the standard library: httpx takes four times as long for each of the tens of thousands of calls.

    Attributes:
        headers: Sent with every request that has no others of these names.
    """

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self.headers = headers
        self._address = urlsplit(url).netloc
        self._connections: dict[threading.Thread, HTTPConnection] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def post(
        self,
        path: str,
        *,
        content: bytes | None = None,
        json: object = None,
        params: Mapping[str, str] | None = None,
        headers: Iterable[tuple[str, str]] = (),
    ) -> httpx.Response:
        """One POST, as httpx has it.

        Raises:
            TransportError: No answer came, or not all of it.
        """
        given = [*headers]
        if content is None:
            content = orjson.dumps(json)
            given.append(("Content-Type", "application/json"))
        names = {name.lower() for name, _ in given}
        given += [(name, value) for name, value in self.headers.items() if name.lower() not in names]
        target = f"{path}?{urlencode(params)}" if params else path
        connection = self._connection()
        try:
            connection.putrequest("POST", target, skip_accept_encoding=True)
            for name, value in [*given, ("Content-Length", str(len(content)))]:
                connection.putheader(name, value.encode())
            # A broker that refuses a request need not have read it.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.endheaders(content)
            answer = connection.getresponse()
            return httpx.Response(answer.status, headers=answer.getheaders(), content=answer.read())
        except (OSError, HTTPException) as error:
            connection.close()
            raise httpx.TransportError(str(error)) from error
        finally:
            # Of a thread that was about to ask when the test hung up.
            if self._is_closed:
                connection.close()

    def close(self) -> None:
        """Hang up, for every thread."""
        self._is_closed = True
        for connection in self._connections.values():
            connection.close()

    def _connection(self) -> HTTPConnection:
        """The thread's own, which is made again if the broker has hung up."""
        with self._lock:
            for thread in [thread for thread in self._connections if not thread.is_alive()]:
                self._connections.pop(thread).close()
            fresh = HTTPConnection(self._address, timeout=CALL_SECONDS)
            connection = self._connections.setdefault(threading.current_thread(), fresh)
        if connection.sock is not None and select.select([connection.sock], [], [], 0)[0]:
            connection.close()
        return connection


class Caller:
    """A client of a broker for one project, over the HTTP face.

    Attributes:
        project: Sent with every call that names none.
        agent: Sent as `Tandem-Agent`, if there is one.
    """

    def __init__(self, url: str, project: str, agent: str | None = None) -> None:
        self.url = url
        self.project = project
        self.agent = agent
        self._http = Poster(url, {} if agent is None else {"Tandem-Agent": agent})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._http.close()

    def admitted_as(self, other: Caller) -> Self:
        """The same, with the token of another client if that has one."""
        self._http.headers = {**other._http.headers, **self._http.headers}
        return self

    def send(self, operation: str, body: bytes, **headers: str) -> httpx.Response:
        """One POST, as it stands."""
        sent = {"Content-Type": "application/json", **headers}
        return self._http.post(f"/api/v1/{operation}", content=body, headers=sent.items())

    def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """One call; its envelope, with the HTTP status checked against it."""
        response = self.send(operation, orjson.dumps({"project": self.project, **arguments}))
        envelope: dict[str, Any] = response.json()
        if envelope["ok"]:
            assert response.status_code == 200
        else:
            assert response.status_code == STATUS_OF[envelope["error"]["code"]], envelope
        return envelope

    def over_mcp(
        self, operation: str, arguments: dict[str, Any], role: str | None = None, *, fast: bool = True
    ) -> dict[str, Any]:
        """The envelope of a tool call with these arguments, answered by the fast path or by the SDK."""
        params = {"name": operation, "arguments": arguments}
        response = self.post_mcp("tools/call", params, role, fast=fast)
        data = next(line for line in response.text.splitlines() if line.startswith("data: "))
        result = json.loads(data.removeprefix("data: "))["result"]
        envelope: dict[str, Any] = result["structuredContent"]
        assert json.loads(result["content"][0]["text"]) == envelope
        assert result["isError"] is not envelope["ok"]
        return envelope

    def post_mcp(
        self, method: str, params: dict[str, Any], role: str | None = None, *, fast: bool = True
    ) -> httpx.Response:
        """One message of MCP."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = [*TO_CALL.items(), *([] if fast else TO_THE_SDK)]
        return self._http.post("/mcp" if role is None else f"/mcp/{role}", json=message, headers=headers)

    def do(self, operation: str, **arguments: Any) -> Any:
        """A call that must succeed; its data. A log is read once it tells all."""
        if operation in {"get_audit_log", "get_activity_feed"} and not arguments.get("wait"):
            settle(DATABASES.get(self.url, ""))
        envelope = self.call(operation, **arguments)
        assert envelope["ok"], f"{operation}: {envelope['error']}"
        return envelope["data"]

    def override(self, **arguments: Any) -> Any:
        """An override with the proof that a person answered, which takes this broker's key; its data."""
        return self.do("override_gate", **self.proved(**arguments))

    def proved(self, **arguments: Any) -> dict[str, Any]:
        """The request of an override, with the proof as a hook makes it."""
        project = arguments.setdefault("project", self.project)
        digest = digest_of(
            tuple(change.get(name) or ABSENT[name] for name in FIELDS) for change in arguments["changes"]
        )
        named = [arguments.get(name) for name in ("override_id", "reason", "branch", "at")]
        keys = {proof.PERSON: (DATA_DIRS[self.url] / proof.FILE).read_text().strip()}
        return {**arguments, "proof": proof.prove(keys, (project, digest, *named, self.agent))}

    def loosen(self, **arguments: Any) -> Any:
        """Have a gate that is on let more through, as a person decides it; its data."""
        return self.do("set_gate", **self.loosening(**arguments))

    def loosening(self, **arguments: Any) -> dict[str, Any]:
        """The request that does that, with the proof as a command makes it."""
        stated = {"since": self.do("get_gate")["switched_at"], **arguments}
        keys = {proof.PERSON: (DATA_DIRS[self.url] / proof.FILE).read_text().strip()}
        return {**stated, "proof": proof.prove(keys, proof.switch_facts(self.project, stated))}

    def refused(self, code: str, operation: str, **arguments: Any) -> dict[str, Any]:
        """A call that must be refused with this code; the error's details."""
        envelope = self.call(operation, **arguments)
        assert not envelope["ok"], f"{operation} was not refused: {envelope['data']}"
        error = envelope["error"]
        assert error["code"] == code, error
        # What to do next, in a sentence.
        assert len(error["message"]) > 15
        assert error["message"].rstrip()[-1] in ".!?", error["message"]
        return error["details"]


StartBroker = Callable[..., BrokerProcess]


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all tests that only need a project of their own; on each database."""
    with ExitStack() as stack:
        settings = database_of(request, stack)
        folders = [tmp_path_factory.mktemp("broker") for _ in range(BROKERS)]
        if BROKERS > 1 and settings:
            from tests.round_robin import BrokersAtOneAddress  # it builds on this module

            started = stack.enter_context(BrokersAtOneAddress(folders, **settings))
        else:
            started = stack.enter_context(BrokerProcess(folders[0], **settings))
        yield started
        started.assert_intact()


@pytest.fixture
def start_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartBroker]:
    """Starts brokers of the test's own on SQLite: `start_broker(claim_timeout_seconds=1)`."""
    with ExitStack() as stack:

        def start(**settings: object) -> BrokerProcess:
            return stack.enter_context(BrokerProcess(tmp_path_factory.mktemp("broker"), **settings))

        yield start


@pytest.fixture(params=["sqlite", "postgresql"])
def database_settings(request: pytest.FixtureRequest) -> dict[str, object]:
    """Settings with which a broker of the test's own uses one database, then the other."""
    if request.param == "postgresql":
        return {"database_url": request.getfixturevalue("postgres_url")}
    return {}


def fresh_project() -> str:
    """A name that no other test uses."""
    return f"project-{secrets.token_hex(4)}"
