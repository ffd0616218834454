"""The README's first page, played to the letter: what it says to type is typed, what it shows is printed."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.architecture.pages import Block, Page
from tests.architecture.source import ROOT
from tests.repository.terminal import without_agents

FIRST_PAGE = "## 60 seconds"
ENDED = "this was the command, with status"
REVIEW = re.compile(r"rv_\w+")
STUB = "#!/bin/sh\necho '9.9.9 (a stub)'\n"
# Only the loopback is left, as on a machine without a network; the broker's usual port is then free, too.
OFFLINE = """
import fcntl, os, socket, struct, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as loopback:
    fcntl.ioctl(loopback, 0x8914, struct.pack("16sh", b"lo", 0x41))
os.execvp(sys.argv[1], sys.argv[1:])
"""
EVERY = os.environ.get("TANDEM_EVERY_PYTHON")
PYTHONS = sorted(Path.home().glob(".pyenv/versions/3.1[1-4]*/bin/python3")) if EVERY else [Path(sys.executable)]


class Shell:
    """A person's shell, in which one command after another is typed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.review = "REVIEW"

    def type(self, command: str) -> tuple[int, str]:
        """Run it; its exit status, and all that it printed."""
        assert self._process.stdin
        assert self._process.stdout
        command = command.replace("REVIEW", self.review)
        self._process.stdin.write(f'{{ {command}\n}} </dev/null 2>&1; echo "{ENDED} $?"\n')
        self._process.stdin.flush()
        printed = ""
        for line in self._process.stdout:
            if line.startswith(ENDED):
                self.review = (REVIEW.findall(printed) or [self.review])[0]
                return int(line.removeprefix(ENDED)), printed
            printed += line
        raise AssertionError(f"the shell ended at {command!r}: {printed}")


@contextmanager
def shell(folder: Path, environment: dict[str, str], *, online: bool) -> Generator[Shell]:
    """A shell in a folder, without any network where the system has namespaces for it."""
    command = ["bash", "--noprofile", "--norc"]
    if (
        not online
        and shutil.which("unshare")
        and subprocess.run(["unshare", "-rn", "true"], check=False).returncode == 0
    ):
        command = ["unshare", "-rn", sys.executable, "-c", OFFLINE, *command]
    elif not online:
        environment = {**environment, "TANDEM_PORT": "0", "ALL_PROXY": "http://127.0.0.1:9"}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield Shell(process)
    finally:
        try:
            process.communicate("tandem down\n" if not online else "", 60)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)


def first_page() -> list[Block]:
    readme = Page(ROOT / "README.md")
    section = readme.text.split(FIRST_PAGE)[1].split("\n## ")[0]
    return [block for block in readme.blocks if block.language == "console" and block.text in section]


def typed(block: Block) -> list[tuple[str, list[str]]]:
    """Its commands, each with the lines that it is shown to print; the first page has no command of two lines."""
    marked = any(line.startswith("$ ") for line in block.text.splitlines())
    found: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if not marked or line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        else:
            found[-1][1].append(line)
    return found


@pytest.mark.skipif(os.name == "nt", reason="platform: the first page is typed into a shell of POSIX")
@pytest.mark.timeout(600)  # Each Python installs anew, from the network.
@pytest.mark.parametrize("agents", [("claude", "codex"), ()], ids=["agents", "no agent"])
@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: path.parts[-3])
def test_the_first_page_leads_from_install_to_a_refused_and_an_approved_commit(
    python: Path, agents: tuple[str, ...], tmp_path: Path
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in agents:
        (programs / name).write_text(STUB, "utf-8")
        (programs / name).chmod(0o755)
    (programs / "python3").symlink_to(python)
    (tmp_path / ".gitconfig").write_text("[user]\n    name = Ann\n    email = ann@example.invalid\n", "utf-8")
    path = os.pathsep.join([str(programs), "/usr/local/bin", "/usr/bin", "/bin"])
    environment = {**without_agents(), "HOME": str(tmp_path), "PATH": path}
    install, *blocks = first_page()
    if EVERY:
        with shell(ROOT, environment, online=True) as online:
            for command, _ in typed(install):
                status, printed = online.type(command)
                assert status == 0, printed
    else:
        (tmp_path / ".tandem-venv").symlink_to(sys.prefix)
    with shell(tmp_path, environment, online=False) as offline:
        offline.type(typed(install)[-1][0])
        commits: list[tuple[int, str]] = []
        for command, shown in (one for block in blocks for one in typed(block)):
            status, printed = offline.type(command)
            assert [line for line in shown if line not in printed.splitlines()] == [], printed
            if shlex.split(command)[:2] == ["git", "commit"]:
                commits.append((status, printed))
            else:
                assert status == 0, f"{command}\n{printed}"
        assert [status for status, _ in commits] == [0, 1, 0]
        assert offline.type("git log --format=%s")[1] == "Upload\nSet up Tandem\n"
        assert "tandem doctor" in [command for command, _ in typed(blocks[-1])]
