"""What every test stands on: a clean environment, the event loop, a real PostgreSQL."""

from __future__ import annotations

import contextlib
import gc
import importlib
import inspect
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import certifi
import httpx
import psutil
import pytest

from tests.forked_hooks import forked_hooks
from tests.git.sandbox import GITCONFIG
from tests.postgres import PostgresServer, running_postgres

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

pytest_plugins = ["tests.no_skips", "tests.fuzzing", "tests.databases", "tests.modes", "tests.sentences.elsewhere"]

HERE = Path(__file__).resolve().parent
# Variables from a person's shell, a git hook around the tests or a broker on this machine that would disturb tests.
_FOREIGN = ("GIT_", "TANDEM_", "XDG_", "PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGSERVICE", "PGDATABASE", "SHELL")
CLIENT_FOLDERS = (".claude", ".codex", ".gemini", ".config/opencode", ".cursor")
"""Where the clients that `tandem init` knows keep their settings: their being there says that they are used."""

_END_SECONDS = 20
_ANSWER_SECONDS = 60
_DAY_SECONDS = 86_400
_OF_A_DAY_SECONDS = 30


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collecting makes a million objects that all stay: nothing to look for meanwhile, nor among them later."""
    gc.disable()
    try:
        _import_own_share(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def _import_own_share(config: pytest.Config) -> None:
    """Import some modules before all of them are collected in order, as one of several workers.

    Pytest rewrites each module's assertions, which takes longer than all else, and keeps the result. In the same order
    all workers at once would do the work for each module.
    """
    number, many = (os.environ.get(f"PYTEST_XDIST_WORKER{more}", "") for more in ("", "_COUNT"))
    if not number or config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    modules = sorted(HERE.rglob("test_*.py"))
    for path in modules[int(number.removeprefix("gw")) :: int(many)]:
        # Errors in a module are reported when it is collected.
        with contextlib.suppress(Exception):
            importlib.import_module(".".join(path.relative_to(HERE.parent).with_suffix("").parts))


@pytest.fixture(scope="session", autouse=True)
def heeding_interrupts() -> None:
    """What tests start can be interrupted, also where a shell that runs them in the background had that ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def clean_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home folder of the tests' own, no foreign settings, `tandem` on PATH; gives the home folder."""
    home = tmp_path_factory.mktemp("home")
    (home / ".gitconfig").write_text(GITCONFIG, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(_FOREIGN)]:
            patch.delenv(name)
        patch.setenv("HOME", str(home))
        patch.setenv("USERPROFILE", str(home))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
        # Brokers speak plain HTTP, and yet each of the thousands of clients would read all certificates that there are.
        first, end, _ = certifi.contents().partition("-----END CERTIFICATE-----")
        (home / "one.pem").write_text(f"{first}{end}\n", "utf-8")
        patch.setenv("SSL_CERT_FILE", str(home / "one.pem"))
        # Read by clients that do not look at the environment.
        patch.setattr(certifi, "where", lambda: str(home / "one.pem"))
        # After the five seconds of httpx a machine that was busy with something else would look like a broken broker.
        usual: httpx.Timeout = inspect.signature(httpx.get).parameters["timeout"].default
        for phase in ("connect", "read", "write", "pool"):
            patch.setattr(usual, phase, _ANSWER_SECONDS)
        yield home
    _refuse_left_brokers(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session", autouse=True)
def quick_hooks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The hooks of gates are forked, where that is possible."""
    with forked_hooks(tmp_path_factory.mktemp("hooks")):
        yield


@pytest.fixture(autouse=True)
def homes_without_clients(clean_environment: Path) -> Iterator[None]:
    """Agents' folders that a test leaves in the shared home folder are not found by the next one."""
    absent = [folder for folder in (clean_environment / name for name in CLIENT_FOLDERS) if not folder.exists()]
    yield
    for folder in absent:
        shutil.rmtree(folder, ignore_errors=True)


def _refuse_left_brokers(folder: Path) -> None:
    """Insist that no test has left a broker that a hook, the bridge or a command started in the background."""
    deadline = time.monotonic() + _END_SECONDS
    while left := [one for one in psutil.process_iter(["cmdline"]) if _is_started_below(folder, one.info["cmdline"])]:
        if time.monotonic() > deadline:
            for one in left:
                one.kill()
            pytest.fail(f"tests left brokers behind: {[one.info['cmdline'] for one in left]}")
        # One that was not needed ends by itself.
        time.sleep(0.1)


def _is_started_below(folder: Path, command: list[str] | None) -> bool:
    words = command or []
    return "--unless-running" in words and any(Path(word).is_relative_to(folder) for word in words)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Tests marked `anyio` run on asyncio, as the broker does."""
    return "asyncio"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One PostgreSQL for each process of tests, started by the first test that asks; never stopped by a test."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A fresh, empty database."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A server of the test's own, with PostgreSQL's own durability, to stop, crash and start again."""
    with running_postgres(durable=True) as server:
        yield server


@pytest.fixture
def within_a_day() -> None:
    """No midnight of UTC comes in the next half minute: for tests of counts per day."""
    left = _DAY_SECONDS - time.time() % _DAY_SECONDS
    if left < _OF_A_DAY_SECONDS:
        time.sleep(left)


@pytest.fixture
def config_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's configuration folder, empty."""
    folder = tmp_path / "config"
    folder.mkdir()
    monkeypatch.setenv("TANDEM_CONFIG_DIR", str(folder))
    return folder
