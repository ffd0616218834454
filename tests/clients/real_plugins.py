"""The plugins in the repository, installed by the real programs with their own commands."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tests.clients.codex_hooks import CodexHooks
from tests.clients.real_clients import BIN

SECONDS = 120


class Machine:
    """A home folder, and the programs in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        home.mkdir()
        (home / ".codex").mkdir()
        self.environment = {
            "PATH": os.pathsep.join([BIN, os.environ["PATH"]]),
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }

    def run(self, *command: str) -> str:
        """Run a program, which must succeed; its output."""
        done = subprocess.run(
            command,
            cwd=self.home,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=SECONDS,
        )
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout.decode()}{done.stderr.decode()}"
        return done.stdout.decode()


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
    assert re.search(r"Hooks \(2\) +PreToolUse, SessionStart", details)
    assert re.search(r"MCP servers \(1\) +tandem", details)
    machine.run("claude", "plugin", "uninstall", "tandem@tandem")
    assert json.loads(machine.run("claude", "plugin", "list", "--json")) == []


@pytest.mark.client("codex")
def test_codex_installs_the_plugin(machine: Machine) -> None:
    machine.run("codex", "plugin", "marketplace", "add", str(ROOT))
    machine.run("codex", "plugin", "add", "tandem@tandem")
    assert re.search(r"tandem@tandem +installed, enabled", machine.run("codex", "plugin", "list"))
    assert re.search(r"tandem +tandem +mcp", machine.run("codex", "mcp", "list"))
    with CodexHooks(machine.home, machine.environment) as hooks:
        assert [(one.event, one.command, one.trust) for one in hooks.listed()] == [
            ("preToolUse", "tandem hook agent --client codex", "untrusted"),
            ("sessionStart", "tandem hook session --client codex", "untrusted"),
        ]
    skills = sorted(path.parent.name for path in (machine.home / ".codex" / "plugins").rglob("SKILL.md"))
    assert skills == ["tandem-review", "tandem-status"]
    machine.run("codex", "plugin", "remove", "tandem@tandem")
    assert "not installed" in machine.run("codex", "plugin", "list")
