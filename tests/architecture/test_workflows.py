"""GitHub's workflows and our action: the schema, the platforms and versions, pinned actions."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from typing import Any

import pytest
import yaml

import advisories
from tests.architecture.source import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
SYSTEMS = {"Linux": "ubuntu-latest", "MacOS": "macos-latest", "Windows": "windows-latest"}


@pytest.mark.parametrize(
    ("schema", "paths"), [("github-workflows", WORKFLOWS), ("github-actions", [ROOT / "action.yml"])]
)
def test_github_takes(schema: str, paths: list[str]) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *paths]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_platform_and_python_that_the_package_names_is_tested() -> None:
    matrix = loaded("test")["jobs"]["test"]["strategy"]["matrix"]
    classifiers = " ".join(PROJECT["classifiers"])
    assert set(matrix["python"]) == set(re.findall(r"Python :: (3\.\d+)", classifiers))
    assert set(matrix["os"]) == {SYSTEMS[name] for name in SYSTEMS if name in classifiers}


def loaded(name: str) -> dict[str, Any]:
    return yaml.safe_load((ROOT / f".github/workflows/{name}.yml").read_text("utf-8"))


def test_every_action_is_pinned_to_a_commit_and_says_its_version() -> None:
    uses = [line for path in WORKFLOWS for line in re.findall(r"uses: (.*)", path.read_text("utf-8"))]
    assert uses
    assert [line for line in uses if not re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)] == []


def test_scripts_and_targets_of_a_workflow_are_there() -> None:
    runs = [line for path in WORKFLOWS for line in re.findall(r"run: (.*)", path.read_text("utf-8"))]
    scripts = [name for line in runs for name in re.findall(r"tools/\w+\.py", line)]
    targets = [line.split()[-1] for line in runs if line.startswith("$MAKE")]
    assert scripts
    assert [name for name in scripts if not (ROOT / name).is_file()] == []
    assert [name for name in targets if f"\n{name}:" not in (ROOT / "Makefile").read_text("utf-8")] == []


def test_an_advisory_is_named_and_a_package_without_an_answer_too() -> None:
    report: dict[str, Any] = {
        "dependencies": [
            {"name": "one", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"]}]},
            {"name": "two", "version": "2.0", "vulns": []},
            {"name": "three", "skip_reason": "not found"},
        ]
    }
    read = advisories.read(report)
    assert read == (["one 1.0: PYSEC-1, fixed in ['1.1']"], 2, ["three"])
    assert advisories.pinned("# Pins.\none==1.0\ntwo==2.0 ; sys_platform == 'win32'\n") == ["one==1.0", "two==2.0"]
