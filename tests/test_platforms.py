"""Behaviour that differs between platforms, on the one that the tests run on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest

from tandem.core import platforms
from tandem.core.platforms import ProcessIdentity

TAKE_THE_LOCK = """
import os, sys
from tandem.core import platforms
lock = os.open(sys.argv[1], os.O_RDWR)
print(platforms.lock_file(lock), os.pread(lock, 100, 0) if hasattr(os, "pread") else os.read(lock, 100), flush=True)
sys.stdin.read()
"""


def in_another_process(path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", TAKE_THE_LOCK, str(path)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def says(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "lock"
    path.write_text("who")
    return path


def test_folders_are_where_the_platform_keeps_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert platforms.data_dir() == platformdirs.user_state_dir("tandem", appauthor=False)
    assert platforms.config_dir() == platformdirs.user_config_dir("tandem", appauthor=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert platforms.data_dir() == platformdirs.user_state_dir("tandem", appauthor=False)
    assert platforms.config_dir() == platformdirs.user_config_dir("tandem", appauthor=False)


@pytest.mark.skipif(sys.platform in {"win32", "darwin"}, reason="platform: XDG is for the others")
def test_a_relative_xdg_folder_is_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "here")
    assert platforms.data_dir() == os.path.expanduser("~/.local/state/tandem")  # noqa: PTH111 - a text, as the answer


def test_a_lock_is_had_by_one_process_and_read_by_all(lock: Path) -> None:
    ours = os.open(lock, os.O_RDWR)
    try:
        assert platforms.lock_file(ours)
        with in_another_process(lock) as other:
            assert "False b'who'" in says(other)
            other.communicate()
        platforms.unlock_file(ours)
        with in_another_process(lock) as other:
            assert "True" in says(other)
            assert not platforms.lock_file(ours)
            other.communicate()
        assert platforms.lock_file(ours)
    finally:
        os.close(ours)


def test_a_lock_ends_with_its_process_however_that_ends(lock: Path) -> None:
    with in_another_process(lock) as other:
        assert "True" in says(other)
        other.kill()
    ours = os.open(lock, os.O_RDWR)
    try:
        assert platforms.lock_file(ours)
    finally:
        os.close(ours)


def test_a_process_is_told_from_a_later_one_with_its_number() -> None:
    ours = platforms.this_process()
    assert ours.pid == os.getpid()
    assert platforms.is_alive(ours)
    assert not platforms.is_alive(ProcessIdentity(ours.pid, ours.started_us - 60_000_000))
    assert not platforms.ask_to_stop(ProcessIdentity(ours.pid, ours.started_us - 60_000_000))
    platforms.kill(ProcessIdentity(ours.pid, ours.started_us - 60_000_000))


def test_a_dead_process_is_gone_before_anybody_has_reaped_it() -> None:
    said = "own = platforms.this_process(); print(own.pid, own.started_us, flush=True); input()"
    script = f"from tandem.core import platforms; {said}"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        pid, started_us = map(int, says(child).split())
        identity = ProcessIdentity(pid, started_us)
        assert platforms.is_alive(identity)
        assert not platforms.wait_until_gone(identity, 0.05)
        platforms.kill(identity)
        assert platforms.wait_until_gone(identity, 10)
        assert not platforms.is_alive(identity)


def test_a_detached_process_outlives_its_parent(tmp_path: Path) -> None:
    told = tmp_path / "told"
    child = f"import os, time; time.sleep(0.3); open({str(told)!r}, 'w').write(str(os.getppid()))"
    parent = (
        "import subprocess, sys; from tandem.core import platforms;"
        f"subprocess.Popen([sys.executable, '-c', {child!r}], **platforms.detached())"
    )
    subprocess.run([sys.executable, "-c", parent], check=True, timeout=60)
    waiting = platforms.this_process()
    while not told.exists() or not told.read_text():
        assert not platforms.wait_until_gone(waiting, 0.02)
    if sys.platform != "win32":
        assert int(told.read_text()) != os.getpid()
