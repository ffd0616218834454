"""What reviewers of the broker's own machine wrote, read through the broker a part at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tandem.core.log_files import RotatingLog
from tests.acceptance.pooling import Steward
from tests.acceptance.reviewing import Desk
from tests.broker import BrokerProcess, fresh_project
from tests.git.sandbox import Sandbox


@pytest.fixture
def shop(broker: BrokerProcess, repo: Sandbox) -> Iterator[Desk]:
    """At the first broker of several: a log is on one machine, and read by the broker there."""
    with Desk(f"http://127.0.0.1:{broker.port}", fresh_project()) as opened:
        opened.register(repo.root)
        yield opened


@pytest.fixture
def reviewer(shop: Desk) -> str:
    """A reviewer of a pool, known to run; no log of it is anywhere."""
    shop.put_up()
    steward = Steward(shop)
    steward.register()
    return steward.one()


@pytest.fixture
def path(broker: BrokerProcess, reviewer: str) -> Path:
    """Where the log of the reviewer belongs; nothing is there yet."""
    folder = broker.data_dir / "logs" / "reviewers"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{reviewer}.log"


def read(shop: Desk, reviewer: str, **more: Any) -> dict[str, Any]:
    """The log's answer."""
    return shop.do_unscoped("get_reviewer_log", reviewer_id=reviewer, **more)


def numbered(first: int, last: int) -> list[str]:
    """Lines of a log."""
    return [f"line {number}" for number in range(first, last + 1)]


def test_a_log_elsewhere_is_not_available(shop: Desk, reviewer: str):
    assert read(shop, reviewer) == {
        "reviewer_id": reviewer,
        "lines": [],
        "position": None,
        "available": False,
        "host": "a-host",
    }
    for other in ("unknown-r1-abc", "../broker", f"{reviewer}.log", f"./{reviewer}", "a-host"):
        shop.refused("UNKNOWN_REVIEWER", "get_reviewer_log", reviewer_id=other)


def test_the_last_lines_and_what_comes_after_them(shop: Desk, reviewer: str, path: Path):
    path.write_bytes("".join(f"{line}\n" for line in numbered(1, 300)).encode() + b"not ende")
    shown = read(shop, reviewer)
    assert (shown["available"], shown["lines"]) == (True, numbered(101, 300))
    assert read(shop, reviewer, lines=0)["lines"] == []
    assert read(shop, reviewer, lines=2)["lines"] == numbered(299, 300)
    place = shown["position"]
    assert read(shop, reviewer, position=place)["lines"] == []
    with path.open("ab") as log:
        log.write(b"d yet\nline 302\nli")
    more = read(shop, reviewer, position=place)
    assert more["lines"] == ["not ended yet", "line 302"]
    # Asked in small steps, every line comes once.
    found = list[str]()
    place = shown["position"]
    for _ in range(3):
        part = read(shop, reviewer, position=place, lines=1)
        place = part["position"]
        found += part["lines"]
    assert found == more["lines"]
    assert place == more["position"]


def test_it_goes_on_through_rotations(shop: Desk, reviewer: str, path: Path):
    log = RotatingLog(str(path), max_bytes=100, backups=3)
    for line in numbered(1, 5):
        log.write(f"{line}\n".encode())
    shown = read(shop, reviewer)
    for line in numbered(6, 30):
        log.write(f"{line}\n".encode())
    assert path.with_name(f"{path.name}.2").exists()
    found, place = list[str](), shown["position"]
    while part := read(shop, reviewer, position=place, lines=4)["lines"]:
        found += part
        place = read(shop, reviewer, position=place, lines=4)["position"]
    assert shown["lines"] + found == numbered(1, 30)
    # Lines rotated away too long ago are gone; none of the rest is returned twice.
    for line in numbered(31, 200):
        log.write(f"{line}\n".encode())
    late = read(shop, reviewer, position=shown["position"], lines=1000)["lines"]
    assert late == numbered(200 - len(late) + 1, 200)
    assert len(late) > 10


def test_what_programs_write_plays_no_tricks(shop: Desk, reviewer: str, path: Path):
    path.write_bytes(
        b"\x1b[2J\x1b]0;title\x07red\r\n" + "a\u202eb\u2066".encode() + b"\xff\x00\n" + b"x" * 100_000 + b"\n"
    )
    lines = read(shop, reviewer)["lines"]
    assert lines[0] == "\\u001b[2J\\u001b]0;title\\u0007red\\r"
    assert lines[1] == "a\\u202eb\\u2066\ufffd\\u0000"
    assert lines[2].startswith("xxx")
    assert len(lines[2]) < 5_000


def test_a_program_that_never_ends_a_line(shop: Desk, reviewer: str, path: Path):
    path.write_bytes(b"first\n")
    place = read(shop, reviewer)["position"]
    with path.open("ab") as log:
        log.write(b"y" * 9_000_000)
    assert read(shop, reviewer)["lines"] == []
    found = 0
    while part := read(shop, reviewer, position=place):
        if not part["lines"]:
            break
        found += len(part["lines"])
        place = part["position"]
    assert found == 2


def test_only_files_of_the_folder_are_read(shop: Desk, reviewer: str, path: Path, tmp_path: Path):
    secret = tmp_path / "secret"
    secret.write_text("not yours\n", "utf-8")
    path.symlink_to(secret)
    assert read(shop, reviewer)["available"] is False
    path.unlink()
    os.mkfifo(path)
    assert read(shop, reviewer)["available"] is False
    path.unlink()
    path.mkdir()
    assert read(shop, reviewer)["available"] is False


def test_a_position_that_is_none_is_refused(shop: Desk, reviewer: str, path: Path):
    path.write_text("line\n", "utf-8")
    for position in ("x", "0", "1-", "-1-1", "1-1", "1-1-1-1", "../1-1-1", "9" * 60 + "-1-1"):
        details = shop.refused("INVALID_INPUT", "get_reviewer_log", reviewer_id=reviewer, position=position)
        assert details["field"] == "position"
    # One that was right once, of a log that is another by now, begins at the beginning.
    assert read(shop, reviewer, position="1-99999999-7")["lines"] == ["line"]
