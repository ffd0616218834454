"""The plugins in the repository, installed by the real programs with their own commands."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tests.clients.codex_hooks import CodexHooks
from tests.clients.real_clients import BIN, run_program


class Machine:
    """A home folder, and the programs in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        home.mkdir()
        (home / ".codex").mkdir()

    def run(self, *command: str) -> str:
        """What a program says."""
        return run_program(command, self.home, self.home)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "home")


@pytest.mark.client("claude")
def test_claude_code_validates_and_installs_the_plugin(machine: Machine) -> None:
    machine.run("claude", "plugin", "validate", "--strict", str(ROOT))
    machine.run("claude", "plugin", "validate", "--strict", str(ROOT / "plugins" / "tandem"))
    machine.run("claude", "plugin", "marketplace", "add", str(ROOT))
    machine.run("claude", "plugin", "install", "tandem@tandem")
    [installed] = json.loads(machine.run("claude", "plugin", "list", "--json"))
    assert (installed["id"], installed["enabled"]) == ("tandem@tandem", True)
    details = machine.run("claude", "plugin", "details", "tandem")
    skills = re.search(r"Skills \(3\) +(.+)", details)
    assert skills is not None, details
    assert set(skills[1].split(", ")) == {"review", "status", "tandem-review"}
    assert re.search(r"Hooks \(3\) +PreToolUse, SessionStart, Stop", details)
    assert re.search(r"MCP servers \(1\) +tandem", details)
    machine.run("claude", "plugin", "uninstall", "tandem@tandem")
    assert json.loads(machine.run("claude", "plugin", "list", "--json")) == []


@pytest.mark.client("codex")
def test_codex_installs_the_plugin(machine: Machine) -> None:
    machine.run("codex", "plugin", "marketplace", "add", str(ROOT))
    machine.run("codex", "plugin", "add", "tandem@tandem")
    assert re.search(r"tandem@tandem +installed, enabled", machine.run("codex", "plugin", "list"))
    assert re.search(r"tandem +tandem +mcp", machine.run("codex", "mcp", "list"))
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    with CodexHooks(machine.home, {**os.environ, "PATH": path, "HOME": str(machine.home)}) as hooks:
        assert [(one.event, one.command, one.trust) for one in hooks.listed()] == [
            ("preToolUse", "tandem hook agent --client codex", "untrusted"),
            ("sessionStart", "tandem hook session --client codex", "untrusted"),
            ("stop", "tandem hook turn --client codex", "untrusted"),
        ]
    skills = sorted(path.parent.name for path in (machine.home / ".codex" / "plugins").rglob("SKILL.md"))
    assert skills == ["tandem-review", "tandem-status"]
    machine.run("codex", "plugin", "remove", "tandem@tandem")
    assert "not installed" in machine.run("codex", "plugin", "list")
