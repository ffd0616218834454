"""Programs inside WSL: straight to the program, and ended inside, without touching anything else there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tandem.errors import ConfigInvalid
from tandem.pool.reviewers import Invocation, wsl
from tests.reviewers.running import ACTS, START_SECONDS, acts, is_gone, number_in, run, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="platform: what WSL has inside is a Linux")

TOKEN = "0123456789abcdef"


@pytest.fixture
def distro(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts a stand-in for `wsl.exe` on PATH; the file where it notes its arguments."""
    folder = tmp_path / "windows"
    folder.mkdir()
    shutil.copy(ACTS.with_name("wsl.py"), folder / "wsl")
    (folder / "wsl").chmod(0o700)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return folder / "wsl-notes.jsonl"


@pytest.fixture
def bystander(tmp_path: Path) -> Iterator[int]:
    """Somebody else's process of the distribution."""
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as process:
        yield process.pid
        process.kill()


def inside(invocation: Invocation) -> Invocation:
    return replace(invocation, wsl_distro="Ubuntu")


def test_goes_straight_to_the_program_and_keeps_keys_off_the_command_line() -> None:
    given = Invocation(
        argv=("codex", "exec", "a b"),
        environment={"PATH": "/ours", "HOME": "/tmp/s/home", "CODEX_API_KEY": "sk-secret"},
        folder="/mnt/c/project",
        stdin=b"",
        files={},
        wsl_distro="Ubuntu",
    )
    windows = {"SystemRoot": "C:\\Windows", "PATH": "C:\\bin", "SECRET": "theirs"}
    argv, environment = wsl.wrapped(given, "Ubuntu", TOKEN, windows)
    assert argv == [
        "wsl", "-d", "Ubuntu", "--cd", "/mnt/c/project", "--exec", "setsid", "--fork", "--wait",
        "env", f"TANDEM_RUN={TOKEN}", "HOME=/tmp/s/home", "codex", "exec", "a b",
    ]  # fmt: skip
    assert environment == {
        "SystemRoot": "C:\\Windows",
        "PATH": "C:\\bin",
        "CODEX_API_KEY": "sk-secret",
        "WSLENV": "CODEX_API_KEY/u",
        "WSL_UTF8": "1",
    }


def test_runs_a_program_inside(tmp_path: Path, distro: Path) -> None:
    folder = tmp_path / "a $(touch x) ; `touch x`\n folder"
    folder.mkdir()
    nasty = ["$(touch x)", "`touch x`", "; touch x", "a\nb", "$HOME"]
    done = run(inside(acts("show-arguments", *nasty, folder=folder)))
    assert (done.exit_code, done.stderr_tail) == (0, b"")
    assert done.stdout.decode().splitlines() == [repr(one) for one in nasty]
    assert list(folder.iterdir()) == []


def test_gives_it_the_prompt_and_the_environment(tmp_path: Path, distro: Path) -> None:
    given = inside(acts("echo", "show-environment", "leave", "5", folder=tmp_path, stdin=b"the prompt"))
    given = replace(given, environment={**given.environment, "HOME": "/clean", "CODEX_API_KEY": "sk"})
    done = run(given)
    first, *lines = done.stdout.decode().splitlines()
    variables = dict(line.split("=", 1) for line in lines)
    assert (first, done.exit_code) == ("10 the prompt", 5)
    assert variables.pop("TANDEM_RUN")
    assert {name: variables[name] for name in variables if name not in {"PATH", "LC_CTYPE"}} == {
        "HOME": "/clean",
        "CODEX_API_KEY": "sk",
        "TANDEM_REVIEWER": "tests-r1-abcdef",
    }


def test_ends_what_runs_inside_and_nobody_else(tmp_path: Path, distro: Path, bystander: int) -> None:
    deeds = acts(
        "stubborn-child", str(tmp_path / "child"), "note", str(tmp_path / "pid"), "sleep", "300", folder=tmp_path
    )
    argv, environment = wsl.wrapped(inside(deeds), "Ubuntu", TOKEN, os.environ)
    with subprocess.Popen(argv, env=environment) as outer:
        numbers = [number_in(tmp_path / "pid"), number_in(tmp_path / "child")]
        wsl.signal_all("Ubuntu", "another", "KILL", environment)
        assert not any(is_gone(number) for number in numbers)
        wsl.signal_all("Ubuntu", TOKEN, "KILL", environment)
        for _ in until("all of it is gone"):
            if all(is_gone(number) for number in numbers):
                break
        outer.wait()
    assert not is_gone(bystander)
    killed = [json.loads(line) for line in distro.read_text().splitlines()][-1]
    assert killed[:6] == ["-d", "Ubuntu", "--exec", "kill", "-s", "KILL"]
    assert f"-{numbers[0]}" in killed, "the program's own process group"


def test_a_run_that_takes_too_long_is_asked_and_then_killed_inside(tmp_path: Path, distro: Path) -> None:
    deeds = acts("ignore-sigterm", "note", str(tmp_path / "pid"), "sleep", "300", folder=tmp_path)
    done = run(inside(deeds), total_seconds=START_SECONDS, grace_seconds=0.5)
    assert done.ended_by == "timeout"
    assert is_gone(number_in(tmp_path / "pid"))
    calls = [json.loads(line)[3:6] for line in distro.read_text().splitlines()]
    assert ["kill", "-s", "TERM"] in calls
    assert ["kill", "-s", "KILL"] in calls


def test_a_folder_of_the_distribution_has_two_names() -> None:
    assert wsl.inside("\\\\wsl.localhost\\Ubuntu\\tmp\\run 1", "Ubuntu") == "/tmp/run 1"
    assert wsl.inside("\\\\wsl$\\ubuntu\\tmp\\x", "Ubuntu") == "/tmp/x"
    assert wsl.inside("/tmp/x", "Ubuntu") == "/tmp/x"
    assert wsl.from_windows("/home/a/.codex", "Ubuntu") == "\\\\wsl.localhost\\Ubuntu\\home\\a\\.codex"


@pytest.mark.parametrize("path", ["C:\\Temp\\x", "\\\\wsl.localhost\\Debian\\tmp\\x", "relative"])
def test_paths_of_windows_are_never_translated(path: str) -> None:
    with pytest.raises(ConfigInvalid, match="not in the WSL distribution"):
        wsl.inside(path, "Ubuntu")
