"""A reviewer's log is private, does not outgrow its limit, and keeps the worker's lines apart from the program's."""

from __future__ import annotations

import re
import stat
import sys
from pathlib import Path

import pytest

from tandem.core.log_files import RotatingLog


def opened(folder: Path, max_bytes: int = 0, backups: int = 0) -> RotatingLog:
    return RotatingLog(str(folder / "logs" / "r.log"), max_bytes=max_bytes, backups=backups)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted((folder / "logs").iterdir())}


@pytest.mark.parametrize(
    ("limits", "chunks", "kept"),
    [
        ((0, 0), [b"one\n", b"two\n"], {"": b"one\ntwo\n"}),
        (
            (10, 2),
            [b"1st....", b"2nd....", b"3rd....", b"4th...."],
            {"": b"4th....", ".1": b"3rd....", ".2": b"2nd...."},
        ),
        ((10, 0), [b"1st....", b"2nd...."], {"": b"2nd...."}),
        ((10, 1), [b"x" * 50, b"y" * 50], {"": b"y" * 50, ".1": b"x" * 50}),
    ],
    ids=["without a limit", "full", "full, and no others", "larger than the limit"],
)
def test_goes_on_where_it_was_and_whole_chunks_are_put_aside(
    tmp_path: Path, limits: tuple[int, int], chunks: list[bytes], kept: dict[str, bytes]
) -> None:
    for chunk in chunks:
        with opened(tmp_path, *limits) as log:
            log.write(chunk)
    assert contents(tmp_path) == {f"r.log{name}": text for name, text in kept.items()}
    if sys.platform != "win32":
        assert {stat.S_IMODE(one.stat().st_mode) for one in (tmp_path / "logs").iterdir()} == {0o600}
        assert stat.S_IMODE((tmp_path / "logs").stat().st_mode) == 0o700


def test_lines_of_the_worker_begin_on_their_own(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        log.note("begins")
        log.write(b"half a line")
        log.note("a\nb\x1b[0m\u202e")
        log.write(b"whole\n")
        log.note("ends")
    said = re.sub(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", b"T", contents(tmp_path)["r.log"])
    assert said == b"T tandem: begins\nhalf a line\nT tandem: a\\nb\\u001b[0m\\u202e\nwhole\nT tandem: ends\n"


def test_one_that_was_closed_takes_no_more(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.close()
    log.close()
    log.note("too late")
    with pytest.raises(ValueError, match="closed"):
        log.write(b"x")


@pytest.mark.skipif(sys.platform == "win32", reason="platform: links need a privilege on Windows")
def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "r.log").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic links"):
        opened(tmp_path)
    assert not (tmp_path / "victim").exists()
