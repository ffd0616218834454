"""Who may import whom, beyond the layers that import-linter checks (pyproject.toml)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.architecture.source import Import, Module, imports, package_modules

# Who calls operations, over whatever protocol, knows of a subject only what it declares and decides.
CALLERS = ("cli", "client", "gsd", "server.app", "server.asgi", "server.http", "server.mcp", "setup", "web")
SUBJECTS = ("access", "cycles", "gate", "inbox", "pool", "projects", "reviews", "webhooks")
DECLARED = (
    "answers", "archives", "check_contract", "check_rules", "claim_rules", "contract", "operations", "page_contract",
    "payloads", "requests", "rounds", "rules", "unusual",
)  # fmt: skip

# What a package must not import itself; that something it imports does so is what layers are for.
NOT_DIRECTLY = {
    # What git finds (`git.changes`) they may show; to ask it is not their work.
    "tandem.server.http": ("tandem.store", "tandem.git.repository", "tandem.git.runner"),
    "tandem.server.mcp": ("tandem.store", "tandem.git.repository", "tandem.git.runner"),
    "tandem.web": ("tandem.store", "tandem.git.repository", "tandem.git.runner"),
    "tandem.client": ("tandem.settings", "tandem.git"),
}

# Imports that wait until they are needed: (importer, imported) and why. Never to dodge a circle.
LATE_IMPORTS = {
    ("tandem.store.*", "psycopg*"): "only a broker on PostgreSQL pays for its driver",
    ("tandem.store.*", "alembic*"): "a database that is current starts without the migrations",
    ("tandem.store.*", "sqlalchemy*"): "as alembic: statements are compiled already, only migrations need its engine",
    ("tandem.store.*", "tandem.store.migrations*"): "as alembic",
    ("tandem.store.*", "tandem.store.postgres*"): "as psycopg",
    ("tandem.app", "tandem.server.mcp*"): "the port opens while the SDK is still being imported",
    ("tandem.app", "tandem.pool.reviewers*"): "a broker without a pool starts the sooner for it",
    ("tandem.app", "tandem.server.tracing"): "an extra, which only a broker that traces needs",
    ("tandem.app", "tandem.pool.check_runner"): "as the reviewers: few brokers have checks to run",
    ("tandem.server.http.metrics", "tandem.server.http.exposition"): "most brokers are never scraped",
    ("tandem.server.*", "mcp*"): "as tandem.app: 0.8 s that the first request need not wait for",
    ("tandem.server.*", "tandem.server.mcp*"): "as mcp",
    ("tandem.__main__", "*"): "the hooks and the bridge start here in milliseconds",
    ("tandem.cli*", "*"): "a command imports what it needs, so that the others start quickly",
    ("tandem.bridge*", "*"): "as tandem.__main__, and it imports the standard library only",
    ("tandem.hooks*", "*"): "as tandem.bridge: every commit waits for a start, and most need little",
    ("tandem.core.platforms", "*"): "some of the standard library exists on one platform only",
    ("tandem.core*", "*"): "as tandem.core.platforms, and as tandem.hooks",
    ("tandem.gate.signing", "cryptography*"): "seven megabytes, and most brokers neither sign nor verify",
    ("tandem.projects.mirrors", "cryptography*"): "as tandem.gate.signing: few brokers keep a mirror",
    ("tandem.settings.certificates", "cryptography*"): "as tandem.gate.signing: few brokers have a certificate",
    ("tandem.git.raw", "*"): "as tandem.hooks, which import it",
    ("tandem.git.place", "*"): "as tandem.git.raw",
    ("tandem.git.runner", "*"): "as tandem.git.raw",
}


# What starts in milliseconds, and what of ours it may load.
LIGHT = [
    ("core", ("core", "errors")),
    ("bridge", ("bridge", "core", "errors", "git")),
    ("git", ("core", "errors", "git")),
    ("hooks", ("bridge", "core", "errors", "git", "hooks")),
]


def within(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def is_listed(pairs: Iterable[tuple[str, str]], module: Module, one: Import) -> bool:
    return any(fnmatchcase(module.name, importer) and fnmatchcase(one.name, imported) for importer, imported in pairs)


def test_a_package_asks_only_its_neighbours() -> None:
    wrong = [
        f"{module.where}:{one.line} imports {one.name}"
        for package, forbidden in NOT_DIRECTLY.items()
        for module in package_modules()
        if module.inside(package)
        for one in imports(module)
        if within(one.name, *forbidden)
    ]
    assert wrong == []


def test_who_calls_operations_knows_their_declarations_only() -> None:
    wrong = [
        f"{module.where}:{one.line} imports {one.name}"
        for module in package_modules()
        if any(module.inside(f"tandem.{caller}") for caller in CALLERS)
        for one in imports(module)
        if within(one.name, *(f"tandem.{subject}" for subject in SUBJECTS))
        and set(one.name.split(".")[2:3]) - set(DECLARED)
        # The processes of a pool, which commands start and show.
        and not (module.inside("tandem.cli") and within(one.name, "tandem.pool.reviewers", "tandem.pool.check_runner"))
    ]
    assert wrong == []


def test_imports_are_at_the_top_unless_a_reason_is_listed() -> None:
    late = [
        f"{module.where}:{one.line} imports {one.name}"
        for module in package_modules()
        for one in imports(module)
        if one.inside_function and not is_listed(LATE_IMPORTS, module, one)
    ]
    assert late == []


@pytest.mark.parametrize(("package", "packages"), LIGHT)
def test_core_git_the_bridge_and_the_hooks_stand_on_the_standard_library_alone(
    package: str, packages: tuple[str, ...]
) -> None:
    allowed = [f"tandem.{name}" for name in packages]
    foreign = [
        f"{module.where}:{one.line} imports {one.name}"
        for module in package_modules()
        if module.inside(f"tandem.{package}")
        for one in imports(module)
        if not within(one.name, *allowed)
        and one.name.partition(".")[0] not in sys.stdlib_module_names
        and not (module.name == "tandem.core.platforms" and within(one.name, "psutil", "uvloop"))
    ]
    assert foreign == []


@pytest.mark.parametrize(("package", "packages"), LIGHT)
def test_starting_one_of_them_loads_nothing_else(package: str, packages: tuple[str, ...]) -> None:
    allowed = [f"tandem.{name}" for name in packages]
    modules = [one for one in package_modules() if one.inside(f"tandem.{package}")]
    names = [one.name for one in modules if not one.name.endswith("__main__")]
    script = f"import json, sys, tandem\nfor name in {names!r}: __import__(name)\nprint(json.dumps([*sys.modules]))"
    command = [sys.executable, "-c", script]
    loaded: list[str] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    ours = {name for name in loaded if within(name, "tandem") and not within(name, *allowed)}
    assert ours == {"tandem"}
    assert {"pydantic", "httpx", "anyio", "mcp", "sqlalchemy", "starlette", "typer"}.isdisjoint(loaded)


def test_a_broker_that_starts_loads_nothing_that_only_others_need(tmp_path: Path) -> None:
    """What is imported at the start stays in memory for as long as the broker runs."""
    command = [sys.executable, "-X", "importtime", "-m", "tandem", "up", "--json", "--port", "0"]
    told = tmp_path / "stderr.txt"
    with (
        told.open("wb") as errors,
        subprocess.Popen([*command, "--data-dir", str(tmp_path / "data")], stdout=subprocess.PIPE, stderr=errors) as up,
    ):
        assert up.stdout is not None
        ready = up.stdout.readline()
        up.terminate()
    assert ready, told.read_text("utf-8")
    reported = [line for line in told.read_text("utf-8").splitlines() if line.startswith("import time:")]
    loaded = {line.rpartition("|")[2].strip() for line in reported}
    assert {"tandem.app", "tandem.logs", "uvicorn"} <= loaded
    # Elsewhere than on Linux only psutil knows when a process began.
    unneeded = ["alembic", "psycopg", "pygments", "rich.progress", "rich.traceback", "textual"]
    assert [name for name in loaded if within(name, *unneeded, *(["psutil"] if sys.platform == "linux" else []))] == []
