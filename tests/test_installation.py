from __future__ import annotations

from pathlib import Path

import pytest

from tandem.core.atomic_dirs import Installation


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def test_a_file_comes_with_its_mode_and_its_folders(root: Path) -> None:
    Installation(root).write(root / "a/b/c", b"new", mode=0o755)
    assert (root / "a/b/c").read_bytes() == b"new"
    assert (root / "a/b/c").stat().st_mode & 0o777 == 0o755


def test_a_deleted_file_takes_its_empty_folders_along(root: Path) -> None:
    (root / "a/b").mkdir(parents=True)
    (root / "a/b/gone").touch()
    (root / "a/stays").touch()
    Installation(root).delete(root / "a/b/gone")
    assert [file.name for file in (root / "a").iterdir()] == ["stays"]


def test_everything_can_be_taken_back(root: Path) -> None:
    (root / "folder").mkdir()
    (root / "folder/file").write_bytes(b"old")
    (root / "folder/file").chmod(0o640)
    (root / "link").symlink_to("folder")
    (root / "replaced").write_bytes(b"kept")
    installation = Installation(root)
    installation.delete(root / "folder/file")
    installation.delete(root / "link")
    installation.write(root / "folder", b"new")
    installation.write(root / "link/now/deep", b"new")
    installation.write(root / "replaced", b"new")
    assert installation.undo() == []
    assert (root / "folder/file").read_bytes() == b"old"
    assert (root / "folder/file").stat().st_mode & 0o777 == 0o640
    assert (root / "link").readlink() == Path("folder")
    assert (root / "replaced").read_bytes() == b"kept"
    assert installation.undo() == []


def test_a_link_in_the_way_is_not_followed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (root / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(FileExistsError):
        Installation(root).write(root / "link/file", b"new")
    assert not list((tmp_path / "outside").iterdir())


def test_what_cannot_be_put_back_is_named(root: Path) -> None:
    (root / "file").write_bytes(b"old")
    installation = Installation(root)
    installation.delete(root / "file")
    (root / "file").mkdir()
    (root / "file/in the way").touch()
    assert installation.undo() == [root / "file"]
