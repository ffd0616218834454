"""Git missing, hanging or dying, and repositories that go away."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import psutil
import pytest

from tandem.errors import InvalidDiff, TimedOut, TooLarge, Unavailable
from tandem.git import runner
from tandem.git.repository import Repository
from tandem.git.runner import Git
from tests.git.sandbox import Sandbox, edit, new_file

PATIENCE_SECONDS = 60


def fake_git(folder: Path, script: str) -> str:
    program = folder / "fake-git"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE}


def test_a_git_that_hangs_is_ended_with_its_children(sandbox: Sandbox, tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    os.mkfifo(alive)
    program = fake_git(tmp_path, f"exec 9>'{alive}'; sleep 300 & sleep 300")
    reader = os.open(alive, os.O_RDONLY | os.O_NONBLOCK)
    started = time.monotonic()
    with Repository(sandbox.root, Git(program, 0.5)) as repository, pytest.raises(TimedOut):
        repository.validate_diff(new_file("x"))
    assert time.monotonic() - started < PATIENCE_SECONDS
    # The end of the file comes when the last process that could write is gone.
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""
    os.close(reader)


@pytest.mark.parametrize("command", ["cat-file", "apply"])
def test_a_step_that_hangs_is_a_time_out_and_the_next_try_is_fresh(
    sandbox: Sandbox, tmp_path: Path, command: str
) -> None:
    sandbox.write("thing", "one\n")
    sandbox.commit()
    hang = tmp_path / "hang"
    hang.touch()
    program = fake_git(tmp_path, f"""if [ -e '{hang}' ] && [ "$1" = {command} ]; then sleep 300; fi; exec git "$@\"""")
    before = children()
    with Repository(sandbox.root, Git(program, 4)) as repository:
        with pytest.raises(TimedOut):
            repository.validate_diff(edit("thing", "one", "two"))
        hang.unlink()
        assert repository.validate_diff(edit("thing", "one", "two")).validated
    assert children() <= before


def test_an_outgrown_answer_is_too_large(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "OUTPUT_LIMIT_BYTES", 1000)
    program = fake_git(tmp_path, "exec yes")
    with Repository(sandbox.root, Git(program)) as repository, pytest.raises(TooLarge) as refused:
        repository.resolve_base(None)
    assert refused.value.details["limit"] == 1000


def test_a_reader_that_died_is_replaced(sandbox: Sandbox, repository: Repository) -> None:
    sandbox.write("thing", "one\n")
    base = sandbox.commit()
    before = children()
    assert repository.resolve_base(None) == base
    (reader,) = children() - before
    os.kill(reader, signal.SIGKILL)
    assert repository.resolve_base(None) == base
    assert repository.validate_diff(edit("thing", "one", "two")).base_commit == base


def test_an_object_that_is_lost_is_said(sandbox: Sandbox, repository: Repository) -> None:
    sandbox.write("deep/thing", "one\n")
    sandbox.commit()
    tree = sandbox.git("rev-parse", "HEAD:deep").strip()
    (sandbox.root / ".git/objects" / tree[:2] / tree[2:]).unlink()
    with pytest.raises(Unavailable, match=tree):
        repository.validate_diff(edit("deep/thing", "one", "two"))


def test_many_threads_get_their_own_answers(sandbox: Sandbox, repository: Repository) -> None:
    for number in range(20):
        sandbox.write(f"folder{number}/file", f"{number}\n")
    sandbox.commit()
    wrong: list[str] = []

    def work(number: int) -> None:
        for _ in range(5):
            content = repository.validate_diff(edit(f"folder{number}/file", f"{number}", "x"))
            if [file.path for file in content.affected_files] != [f"folder{number}/file"]:
                wrong.append(content.content)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("in_memory", [True, False])
def test_no_temporary_file_is_left(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, in_memory: bool
) -> None:
    scratch, memory = tmp_path / "scratch", tmp_path / "memory"
    scratch.mkdir()
    if in_memory:
        memory.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    monkeypatch.setattr("tandem.git.runner._MEMORY", memory)
    sandbox.write("thing", "one\n")
    base = sandbox.commit()
    with Repository(sandbox.root) as repository:
        diff = edit("thing", "one", "two")
        assert repository.validate_diff(diff).validated
        with pytest.raises(InvalidDiff):
            repository.validate_diff(edit("thing", "three", "two"))
        repository.text_change("thing", "four")
        repository.interdiff((diff, base), (diff, base))
        repository.working_diff()
        repository.apply_to_worktree(diff)
    assert list(scratch.iterdir()) == []
    assert not in_memory or list(memory.iterdir()) == []


def test_a_full_disk_is_no_fault_of_the_diff(sandbox: Sandbox, tmp_path: Path) -> None:
    program = fake_git(
        tmp_path,
        """if [ "$1" = apply ]; then echo "error: unable to write file x: No space left on device" >&2; exit 1; fi
exec git "$@\"""",
    )
    with Repository(sandbox.root, Git(program)) as repository, pytest.raises(Unavailable, match="No space left"):
        repository.validate_diff(new_file("x"))
