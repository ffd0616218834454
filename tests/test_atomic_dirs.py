"""Folders are there whole or not at all: after kills, next to each other, on a disk that is full."""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from collections.abc import Mapping
from itertools import count
from pathlib import Path

import pytest

from tandem.core import atomic_dirs
from tandem.core.atomic_dirs import write_whole
from tandem.errors import Unavailable
from tests.modes import VARIATION
from tests.racing import PATIENCE_SECONDS, all_at_once, await_ready, go_on, start, survives

NAME = "2026-11-21-login-k3f9"
VERSIONS = [
    {"manifest.json": "one", "state.json": "s" * 20_000, "handoffs/001-codex.json": "{}", "handoffs/002-a.json": "x"},
    {"manifest.json": "two", "lock.json": "l" * 9_000, "handoffs/001-codex.json": "{}"},
    {"manifest.json": "three", "handoffs/001-gemini.json": "[]", "notes/a": "", "state.json": "t"},
]
ONE, TWO, THREE = ({name: text.encode() for name, text in version.items()} for version in VERSIONS)

DIE = """
import json, sys
from pathlib import Path
from tandem.core.atomic_dirs import write_whole
from tests.racing import die_before_change

files = {name: text.encode() for name, text in json.loads(sys.argv[3]).items()}
die_before_change(int(sys.argv[4]))
write_whole(Path(sys.argv[1]), sys.argv[2], files)
"""
WRITE_WITH_OTHERS = """
import json, sys
from pathlib import Path
from tandem.core.atomic_dirs import write_whole
from tests.racing import wait_for_start

files = {name: text.encode() for name, text in json.loads(sys.argv[3]).items()}
wait_for_start()
for _ in range(15):
    write_whole(Path(sys.argv[1]), sys.argv[2], files)
"""
HOLD_THE_TURN = """
import os, sys
from tandem.core import platforms
from tests.racing import wait_for_start

assert platforms.lock_file(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT))
wait_for_start()
"""
OPEN_THE_LOCK_AND_PAUSE = """
import sys
from pathlib import Path
from tandem import errors
from tandem.core import atomic_dirs
from tests.racing import pause_before

atomic_dirs._PATIENCE_SECONDS = 0.05
pause_before("fcntl.flock")
try:
    atomic_dirs.write_whole(Path(sys.argv[1]), sys.argv[2], {})
except errors.Unavailable as error:
    print(error.message)
"""


def held(folder: Path) -> dict[str, bytes] | None:
    """Every file of a folder by its name from there; None if there is no such folder."""
    if not folder.is_dir():
        return None
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def left_over(parent: Path) -> set[str]:
    """The hidden files there, apart from the lock that Windows keeps."""
    hidden = {path.name for path in parent.iterdir() if path.name.startswith(".")}
    return {name for name in hidden if not name.endswith(".lock")} if sys.platform == "win32" else hidden


def test_a_folder_holds_exactly_its_files(tmp_path: Path) -> None:
    folder = write_whole(tmp_path, NAME, ONE)
    assert folder == tmp_path / NAME
    assert held(folder) == ONE
    assert write_whole(tmp_path, NAME, TWO) == folder
    assert held(folder) == TWO
    assert held(write_whole(tmp_path, "empty", {})) == {}
    assert left_over(tmp_path) == set()


@pytest.mark.skipif(sys.platform == "win32", reason="platform: Windows has no modes")
def test_only_the_user_can_look_into_it(tmp_path: Path) -> None:
    parent = tmp_path / "archive"
    before = os.umask(0)
    try:
        folder = write_whole(parent, NAME, ONE)
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (parent, folder, *folder.rglob("*"))}
    assert modes == {path: 0o700 if path.is_dir() else 0o600 for path in modes}


@pytest.mark.parametrize("before", [pytest.param(None, id="new", marks=VARIATION), pytest.param(TWO, id="replaced")])
def test_a_kill_at_any_step_leaves_nothing_the_old_or_the_new_and_the_next_write_works(
    tmp_path: Path, before: Mapping[str, bytes] | None
) -> None:
    seen: list[dict[str, bytes] | None] = []
    for step in count(1):
        parent = tmp_path / str(step)
        parent.mkdir()
        if before is not None:
            write_whole(parent, NAME, before)
        if survives(DIE, str(parent), NAME, json.dumps(VERSIONS[0]), str(step)):
            break
        seen.append(held(parent / NAME))
        write_whole(parent, NAME, THREE)
        assert held(parent / NAME) == THREE
        assert left_over(parent) == set()
    # In the order of the steps: the old state, for a replaced folder nothing for a moment, then the new one.
    order = [before, None, ONE]
    places = [order.index(state) for state in seen]
    assert places == sorted(places)
    assert set(places) == {order.index(state) for state in (before, None, ONE)}


def test_processes_that_write_the_same_folder_take_turns(tmp_path: Path) -> None:
    parent = tmp_path / "not" / "yet" / "there"
    all_at_once(WRITE_WITH_OTHERS, [(str(parent), NAME, json.dumps(version)) for version in (*VERSIONS, VERSIONS[0])])
    assert held(parent / NAME) in (ONE, TWO, THREE)
    assert left_over(parent) == set()


def test_who_does_not_finish_is_waited_for_so_long_and_a_kill_ends_his_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic_dirs, "_PATIENCE_SECONDS", 0.05)
    with start(HOLD_THE_TURN, str(tmp_path / f".{NAME}.lock")) as other:
        await_ready(other)
        with pytest.raises(Unavailable, match=r"another process has been writing it for 0\.05 seconds"):
            write_whole(tmp_path, NAME, ONE)
        assert held(write_whole(tmp_path, "another", TWO)) == TWO
        other.kill()
    monkeypatch.setattr(atomic_dirs, "_PATIENCE_SECONDS", PATIENCE_SECONDS)
    assert held(write_whole(tmp_path, NAME, ONE)) == ONE


@pytest.mark.skipif(sys.platform == "win32", reason="platform: Windows removes no lock that is open")
def test_a_lock_that_its_last_holder_removed_gives_no_turn(tmp_path: Path) -> None:
    path = tmp_path / f".{NAME}.lock"
    with start(OPEN_THE_LOCK_AND_PAUSE, str(tmp_path), NAME) as late:
        await_ready(late)
        # The last holder removes the file that the late one has open, and the next one makes another.
        path.unlink()
        with start(HOLD_THE_TURN, str(path)) as holder:
            await_ready(holder)
            said = late.communicate("go\n", timeout=PATIENCE_SECONDS)[0]
            go_on(holder)
    assert "another process has been writing it" in said
    assert held(tmp_path / NAME) is None


def full_disk(_descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("place", [NAME, f".{NAME}.old"], ids=["in-place", "set-aside-by-a-crash"])
def test_a_full_disk_is_unavailable_and_what_was_there_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    write_whole(tmp_path, NAME, ONE).rename(tmp_path / place)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_disk)
        with pytest.raises(Unavailable) as refused:
            write_whole(tmp_path, NAME, TWO)
    folder = tmp_path / NAME
    assert refused.value.message.startswith(f"{folder} cannot be written: {os.strerror(errno.ENOSPC)}; ")
    assert refused.value.details == {"folder": str(folder)}
    assert held(folder) == ONE
    assert left_over(tmp_path) == set()


def test_a_folder_that_cannot_be_put_in_place_leaves_the_old_one_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_whole(tmp_path, NAME, ONE)
    really = os.rename

    def refuse_the_new_one(source: Path, target: Path) -> None:
        if source.name.endswith(".new"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        really(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refuse_the_new_one)
        with pytest.raises(Unavailable, match=os.strerror(errno.EACCES)):
            write_whole(tmp_path, NAME, TWO)
    assert held(folder) == ONE
    assert left_over(tmp_path) == set()


def test_a_parent_that_is_a_file_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "archive").write_text("")
    with pytest.raises(Unavailable, match="cannot be written"):
        write_whole(tmp_path / "archive", NAME, ONE)


def test_a_file_in_the_way_is_replaced(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("in the way")
    assert held(write_whole(tmp_path, NAME, ONE)) == ONE


@pytest.mark.skipif(sys.platform == "win32", reason="platform: Windows lets not every user make links")
def test_a_link_in_the_way_is_replaced_and_never_followed(tmp_path: Path) -> None:
    elsewhere = write_whole(tmp_path, "elsewhere", TWO)
    for link in (NAME, f".{NAME}.new", f".{NAME}.old"):
        (tmp_path / link).symlink_to(elsewhere)
    folder = write_whole(tmp_path, NAME, THREE)
    assert not folder.is_symlink()
    assert (held(folder), held(elsewhere)) == (THREE, TWO)
    assert left_over(tmp_path) == set()


@pytest.mark.skipif(sys.platform == "win32", reason="platform: Windows flushes no folders")
def test_all_of_it_is_on_the_disk_before_it_gets_its_name_and_then_the_name_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = tmp_path / "archive"
    flushed: list[int] = []
    flushed_before_the_name: set[int] = set()
    fsync, rename = os.fsync, os.rename

    def flush(descriptor: int) -> None:
        fsync(descriptor)
        flushed.append(os.fstat(descriptor).st_ino)

    def note_rename(source: Path, target: Path) -> None:
        flushed_before_the_name.update(flushed)
        flushed.clear()
        rename(source, target)

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(os, "rename", note_rename)
    folder = write_whole(parent, NAME, ONE)
    assert {path.stat().st_ino for path in (tmp_path, folder, *folder.rglob("*"))} <= flushed_before_the_name
    assert flushed == [parent.stat().st_ino]


UNSAFE = ["", ".", "..", ".hidden", "-f", "a..b", "a/b", "/a", "a\\b", "a b", "a\n", "ä", "a:b", "a\0", "a" * 201]


@pytest.mark.parametrize("name", UNSAFE, ids=ascii)
def test_a_folder_with_an_unsafe_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is not a safe name for a folder"):
        write_whole(tmp_path, name, ONE)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", [*(name for name in UNSAFE if name != "a/b"), "a/b/c", "a/../b", "a/", "a//b", "a/.b"], ids=ascii
)
def test_a_file_with_an_unsafe_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is not a safe name for a file"):
        write_whole(tmp_path, NAME, {"manifest.json": b"", name: b""})
    assert list(tmp_path.iterdir()) == []


def test_a_name_is_that_of_a_file_or_of_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'handoffs' cannot be both"):
        write_whole(tmp_path, NAME, {"handoffs/001.json": b"", "handoffs": b""})
    assert held(write_whole(tmp_path, "a" * 200, {f"{'b' * 200}/{'c' * 200}": b"1"})) is not None
