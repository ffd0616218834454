"""The three settings in GSD's `config.json`: their places, their merging, and those that count without trust."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tandem.rulings import planning
from tests.commandline import repository
from tests.repository.gsd_package import NEWEST, install, tools

SESSION = "CLAUDE_SESSION_ID"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("GSD_WORKSTREAM", *planning._SESSIONS, "TTY", "SSH_TTY"):
        monkeypatch.delenv(name, raising=False)
    return repository(tmp_path / "shop")


def say(root: Path, workstream: str | None = None, **settings: Any) -> Path:
    folder = root / ".planning" / (f"workstreams/{workstream}" if workstream else "")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"mode": "yolo", **settings}), "utf-8")
    return folder / "config.json"


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (b"{", "cannot be read"),
        (b"[]", "not an object"),
        (b"\xff\xfe{}", "cannot be read"),
        (b'{"tandem_enabled": "yes"}', 'tandem_enabled is "yes"; write true or false'),
        (b'{"tandem_enabled": true, "review_granularity": "per_phase"}', "write per_task or per_plan"),
        (b'{"tandem_enabled": true, "execution_mode": null}', "write blocking or optimistic"),
        (b'{"tandem_enabled": true, "reviewer_pool": 3}', "reviewer_pool is 3"),
        (b"[" * 100_000, "nested too deeply"),
        (b" " * 1_000_001, "more than"),
    ],
)
def test_a_file_that_cannot_be_understood_is_no_solo_mode(root: Path, written: bytes, problem: str) -> None:
    (root / ".planning").mkdir()
    (root / ".planning" / "config.json").write_bytes(written)
    found = planning.read(str(root))
    assert found.tandem_enabled
    assert found.found
    assert (found.granularity, found.mode) == ("per_task", "blocking")
    [told] = found.problems
    assert problem in told
    assert told.startswith(".planning/config.json")


def test_a_workstreams_file_is_merged_over_the_projects(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = {"enabled": True, "max_pool_size": 3}
    say(root, tandem_enabled=True, execution_mode="optimistic", reviewer_pool=pool)
    say(root, "pay", execution_mode="blocking", reviewer_pool={"max_pool_size": 1})
    assert planning.read(str(root)).workstream is None
    monkeypatch.setenv("GSD_WORKSTREAM", "pay")
    found = planning.read(str(root))
    assert (found.tandem_enabled, found.mode, found.workstream) == (True, "blocking", "pay")
    assert found.reviewer_pool == {"enabled": True, "max_pool_size": 1}
    assert found.origins["tandem_enabled"] == ".planning/config.json"
    assert found.origins["execution_mode"] == ".planning/workstreams/pay/config.json"
    monkeypatch.setenv("GSD_WORKSTREAM", "../../elsewhere")
    assert planning.read(str(root)).workstream is None


def test_the_active_workstream_is_the_one_that_gsd_itself_keeps(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    (home / "project").mkdir(parents=True)
    install(NEWEST, "claude", "user", home)
    say(root)
    folder = home / ".claude"
    for name in ("pay", "ship"):
        tools(folder, "workstream", "create", name, home=home, cwd=root)
        say(root, name)
    tools(folder, "workstream", "set", "pay", home=home, cwd=root)
    tools(folder, "workstream", "set", "ship", home=home, cwd=root, **{SESSION: "s 1/2"})
    monkeypatch.setenv("TMPDIR", str(home))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert planning.read(str(root)).workstream == "pay"
    monkeypatch.setenv(SESSION, "s 1/2")
    assert planning.read(str(root)).workstream == "ship"


def test_solo_mode_is_one_local_read(root: Path) -> None:
    """No process, no socket, and nothing imported that a commit would have to wait for."""
    say(root)
    script = (
        "import sys\n"
        "def seen(event, arguments):\n"
        "    if event.startswith(('socket.', 'subprocess.', 'os.exec', 'os.fork', 'os.posix_spawn')): sys.exit(event)\n"
        "sys.addaudithook(seen)\n"
        "from tandem.rulings import planning, trust\n"
        "found = planning.read(sys.argv[1])\n"
        "assert trust.trusts('/nowhere', found.root, found.sources) and not found.tandem_enabled and found.found\n"
        "slow = {'hashlib', 'tempfile', 'subprocess', 'socket', 'pathlib', 'dataclasses'} & set(sys.modules)\n"
        "sys.exit(f'imported {slow}' if slow else 0)\n"
    )
    source = str(Path(planning.__file__).parents[2])
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {source!r})\n{script}", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
