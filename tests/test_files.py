"""Files that are written whole or not at all."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from tandem.core import files

WINDOWS = sys.platform == "win32"


@pytest.mark.skipif(WINDOWS, reason="platform: Windows has no modes")
@pytest.mark.parametrize("mode", [0o600, 0o755])
def test_what_was_there_is_replaced_with_its_permissions(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o666)
    files.write_atomically(path, b"new", mode=mode)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"new", mode)
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.skipif(WINDOWS, reason="platform: Windows has no modes")
def test_without_a_mode_a_file_keeps_its_own_and_a_new_one_gets_what_the_umask_leaves(tmp_path: Path) -> None:
    path, plain = tmp_path / "file", tmp_path / "plain"
    plain.touch()
    files.write_atomically(path, b"new", mode=None)
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    path.chmod(0o741)
    files.write_atomically(path, b"newer", mode=None)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"newer", 0o741)


@pytest.mark.skipif(WINDOWS, reason="platform: links need rights there")
def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    other, path = tmp_path / "other", tmp_path / "file"
    other.write_bytes(b"other")
    path.symlink_to(other)
    files.write_atomically(path, b"new")
    assert (path.is_symlink(), path.read_bytes(), other.read_bytes()) == (False, b"new", b"other")


def test_a_file_that_cannot_be_put_in_place_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.mkdir()
    with pytest.raises(OSError, match="file"):
        files.write_atomically(path, b"new")
    assert [*tmp_path.iterdir()] == [path]


def test_a_new_file_takes_nobodys_place(tmp_path: Path) -> None:
    path = tmp_path / "file"
    files.write_new(path, b"first")
    with pytest.raises(FileExistsError):
        files.write_new(path, b"second")
    assert path.read_bytes() == b"first"
