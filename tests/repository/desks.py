"""Repositories and home folders as people have them, and `tandem init` in them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tandem.rulings import proof
from tests.broker import BrokerProcess, fresh_project
from tests.commandline import Ended, Inside
from tests.forked import run_tandem
from tests.repository.terminal import at_a_terminal

CLIENTS = ("claude", "codex", "gemini", "opencode", "cursor")
SERVER_FILES = {".mcp.json", ".codex/config.toml", ".gemini/settings.json", "opencode.json", ".cursor/mcp.json"}
THEIRS = {
    ".mcp.json": b'{\r\n\t"mcpServers": {\r\n\t\t"other": {"command": "x"}\r\n\t}\r\n}',
    ".claude/settings.json": b'\xef\xbb\xbf{\n  // mine\n  "permissions": {"allow": ["Bash(ls:*)"], },\n}\n',
    ".codex/config.toml": b'model = "x" # mine\n[mcp_servers.other]\ncommand="x"\nargs = [\n  "[x]",\n]',
    ".gemini/settings.json": b"",
    "opencode.json": b'{"permission":{"*":"ask"}}',
    ".cursor/mcp.json": b"{}\n",
    "CLAUDE.md": b"# Notes\r\n\r\n- caf\xe9\r\n",
    "AGENTS.md": b"no final newline",
}


@dataclass
class Desk:
    """A repository, a home folder, and the command line in them.

    Attributes:
        root: The working tree.
        home: The user's home folder.
        name: The project's name.
    """

    inside: Inside
    root: Path
    home: Path
    name: str

    def run(self, *arguments: str, **environment: str) -> Ended:
        return self.inside.run(*arguments, stdin=b"", **environment)

    def person(self, *arguments: str, **environment: str) -> str:
        """Returns a command's output at a terminal, where a person types the project's name if the gate loosens."""
        typed, after = f"{self.name}\n", "if that is meant: "
        environment = {"TANDEM_BROKER": self.inside.url, **environment}
        status, shown = at_a_terminal(arguments, Path.cwd(), typed=typed, after=after, **environment)
        assert status == 0, shown
        return shown

    def init(self, *options: str, **environment: str) -> Ended:
        return self.run("init", "--yes", "--name", self.name, *options, **environment)

    def for_all(self, *options: str) -> Ended:
        return self.init(*(word for name in CLIENTS for word in ("--client", name)), *options)

    def all(self) -> dict[str, bytes | str]:
        """Every file, folder and link of both, and the parts of the git folder that a person could notice."""
        found: dict[str, bytes | str] = {}
        for top in (self.root, self.home):
            for path in sorted(top.rglob("*")):
                name = f"{top.name}/{path.relative_to(top).as_posix()}"
                if "/.git/" not in name:
                    found[name] = path.read_bytes() if path.is_file() else "folder"
        for path in (self.root / ".git" / "hooks").glob("*"):
            found[f".git/hooks/{path.name}"] = path.read_bytes()
        for path in (self.root / ".git").glob("tandem/**/*"):
            found[path.relative_to(self.root).as_posix()] = path.read_bytes() if path.is_file() else "folder"
        found[".git/config"] = (self.root / ".git" / "config").read_bytes()
        return found

    def times(self) -> dict[str, int]:
        paths = [*self.root.rglob("*"), *self.home.rglob("*")]
        # Git looks at the repository, which refreshes its index, and the times of objects that it would have written.
        kept = (path for path in paths if path.name not in {"index", ".git"} and "/objects/" not in path.as_posix())
        return {str(path): path.lstat().st_mtime_ns for path in kept}

    def write(self, files: dict[str, bytes]) -> None:
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def projects(self) -> dict[str, str]:
        listed = json.loads(self.inside.post("list_projects", {}))["data"]["projects"]
        return {one["project"]: one["root"] for one in listed}


@pytest.fixture(name="desk")
def make_desk(
    shared_broker: BrokerProcess, plain: Path, tmp_path: Path, config_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> Desk:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = Test\n\temail = test@example.invalid\n", "utf-8")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    # The records of init there belong to this test alone; the key by which a person decides is the broker's.
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    shutil.copy(shared_broker.data_dir / proof.FILE, data_dir)
    monkeypatch.setenv("TANDEM_DATA_DIR", str(data_dir))
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.defpath]))
    for name in ("CLAUDECODE", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "VIRTUAL_ENV"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(plain)
    return Desk(Inside(shared_broker.url, plain), plain, home, fresh_project())


def server_of(root: Path, name: str) -> dict[str, Any]:
    """Our server in a client's file."""
    text = (root / name).read_text("utf-8-sig")
    data = tomllib.loads(text) if name.endswith(".toml") else json.loads(text)
    return next(data[key]["tandem"] for key in ("mcpServers", "mcp_servers", "mcp") if key in data)


def command_of(root: Path, name: str) -> list[str]:
    """Returns the command that a client starts."""
    server = server_of(root, name)
    whole: list[str] = server["command"] if name == "opencode.json" else [server["command"], *server["args"]]
    return whole


def process(desk: Desk, *arguments: str, **environment: str) -> Ended:
    """A command as a process of its own, with no terminal."""
    ended = run_tandem(arguments, desk.root, {**os.environ, **environment}, seconds=60, session="own")
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def commit(desk: Desk) -> subprocess.CompletedProcess[str]:
    command = ["git", "commit", "--all", "--quiet", "--message", "new"]
    return subprocess.run(command, cwd=desk.root, check=False, capture_output=True, text=True, timeout=60)
