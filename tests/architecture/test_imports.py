"""Who may import whom, beyond the layers that import-linter checks (pyproject.toml)."""

from __future__ import annotations

import json
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.architecture.source import comments, imported_modules, imports, package_modules

# Callers of operations, over any protocol, import only a subject's declarations and decisions.
CALLERS = ("cli", "client", "gsd", "server.app", "server.asgi", "server.http", "server.mcp", "setup", "web")
SUBJECTS = ("access", "cycles", "gate", "inbox", "landings", "pool", "projects", "reviews", "webhooks")
DECLARED = (
    "answers", "check_contract", "check_rules", "claim_rules", "contract", "edits", "finding_contract",
    "finding_rules", "page_contract", "payloads", "requests", "rounds", "rules", "tally_contract", "unusual",
)  # fmt: skip

# Direct imports that are forbidden to a package; the layers limit its indirect imports.
NOT_DIRECTLY = {
    # They may show the findings of git (`git.changes`), but not run git.
    "tandem.server.http": ("tandem.store", "tandem.git.repository", "tandem.git.runner"),
    "tandem.server.mcp": ("tandem.store", "tandem.git.repository", "tandem.git.runner"),
    "tandem.web": ("tandem.store", "tandem.git.repository", "tandem.git.runner"),
    "tandem.client": ("tandem.settings", "tandem.git"),
}

MOST_LATE_IMPORTS = 40
"""Imports inside functions: for a start that somebody waits for, an extra, or a platform. The number only falls."""

# Packages that start in milliseconds, and our packages that each may load.
LIGHT = [
    ("core", ("core", "errors")),
    ("bridge", ("bridge", "core", "errors", "git")),
    ("git", ("core", "errors", "git")),
    ("rulings", ("bridge", "core", "errors", "git", "rulings")),
    ("hooks", ("bridge", "core", "errors", "git", "hooks", "rulings")),
]


def within(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


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
        # The processes of a pool, which commands start and show, and what doctor reads as they do.
        and not (module.inside("tandem.cli") and within(one.name, "tandem.pool.reviewers", "tandem.pool.check_runner"))
        and not (module.inside("tandem.setup.doctor") and within(one.name, "tandem.pool.reviewers.prompt"))
    ]
    assert wrong == []


def test_no_modules_import_each_other_not_even_for_their_types() -> None:
    names = {module.name for module in package_modules()}
    graph = {module.name: {one for one in imported_modules(module) if one in names} for module in package_modules()}
    # A circle is named by the error that this raises.
    TopologicalSorter(graph).prepare()


def test_an_import_inside_a_function_says_why_in_a_comment_there_or_above() -> None:
    late = [(module, one) for module in package_modules() for one in imports(module) if one.inside_function]
    reasons = {module.name: {line for line, _ in comments(module)} for module, _ in late}
    unreasoned = [
        f"{module.where}:{one.line} imports {one.name}"
        for module, one in late
        if reasons[module.name].isdisjoint((one.line, one.line - 1))
    ]
    assert unreasoned == []
    assert len({(module.name, one.line) for module, one in late}) <= MOST_LATE_IMPORTS


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
    """A module that is imported at the start stays in memory for as long as the broker runs."""
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
