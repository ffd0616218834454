"""The broker's log: JSON lines, no secrets, rotated, tailed and followed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tandem import logs


def logged(path: Path, script: str, *, level: str = "info", max_bytes: int = 1_000_000, backups: int = 2) -> str:
    """Run a script that logs, in a process of its own; gives its standard error."""
    program = (
        "import logging, sys, warnings, structlog; from pathlib import Path; from tandem import logs\n"
        f"logs.begin(Path({str(path)!r}), level={level!r}, max_bytes={max_bytes}, backups={backups})\n"
        f"log = logging.getLogger('tandem.test')\n{script}\nlogs.end()\nlogs.end()\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    return ended.stderr


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_line_is_json_with_time_level_logger_event_and_facts(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "log"
    errors = logged(path, "log.info('swept %s', 'claims', extra={'count': 3}); structlog.get_logger().info('x', y='ü')")
    first, second = lines(path)
    assert first.pop("timestamp").endswith("Z")
    assert first == {"event": "swept claims", "level": "info", "logger": "tandem.test", "count": 3}
    assert (second["event"], second["y"], second["level"]) == ("x", "ü", "info")
    # Nobody watches a pipe.
    assert errors == ""


def test_a_fault_keeps_its_trace_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    logged(
        path, "try:\n    1 / 0\nexcept ZeroDivisionError:\n    log.exception('failed', extra={'reference': 'err_1'})"
    )
    [line] = lines(path)
    assert line["reference"] == "err_1"
    assert "ZeroDivisionError" in line["exception"]


def test_bodies_and_secrets_are_left_out_whoever_logs_them(tmp_path: Path) -> None:
    path = tmp_path / "log"
    facts = dict.fromkeys(logs.NEVER_LOGGED, "hunter2")
    logged(path, f"log.info('x', extra={facts!r}); structlog.get_logger('y').warning('x', **{facts!r})")
    assert len(lines(path)) == 2
    assert "hunter2" not in path.read_text("utf-8")


def test_less_than_the_level_is_not_logged_nor_what_libraries_tell(tmp_path: Path) -> None:
    path = tmp_path / "log"
    script = "log.info('no'); log.warning('yes'); structlog.get_logger().info('no')"
    logged(path, script, level="warning")
    logged(path, "logging.getLogger('uvicorn.error').info('no'); logging.getLogger('uvicorn.error').error('yes')")
    assert [line["event"] for line in lines(path)] == ["yes", "yes"]


def test_the_log_is_rotated_by_size_and_old_ones_go(tmp_path: Path) -> None:
    path = tmp_path / "log"
    logged(path, "for n in range(100): log.info('line %03d', n)", max_bytes=1000, backups=2)
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["log", "log.1", "log.2"]
    assert all(file.stat().st_size <= 1000 for file in files)
    assert lines(path)[-1]["event"] == "line 099"
    if sys.platform != "win32":
        assert all(file.stat().st_mode & 0o077 == 0 for file in files)


def test_the_tail_is_the_last_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert logs.tail(path, 5) == ([], 0)
    text = "".join(f"{n:05d}{'x' * 95}\n" for n in range(2000))
    path.write_text(text + "unfinished", "utf-8")
    last, position = logs.tail(path, 3)
    assert [line[:5] for line in last] == ["01997", "01998", "01999"]
    assert position == len(text)
    assert logs.tail(path, 0)[0] == []
    assert len(logs.tail(path, 5000)[0]) == 2000


def until_quiet(following: Iterator[str | None]) -> list[str]:
    """What there is to follow right now."""
    found: list[str] = []
    while (line := next(following)) is not None:
        found.append(line)
    return found


def test_following_goes_on_through_rotation(tmp_path: Path) -> None:
    path = tmp_path / "log"
    following = logs.follow(path, 0)
    assert until_quiet(following) == []
    path.write_text("one\ntw", "utf-8")
    assert until_quiet(following) == ["one"]
    with path.open("a", encoding="utf-8") as log:
        log.write("o\nthree\n")
    assert until_quiet(following) == ["two", "three"]
    with path.open("a", encoding="utf-8") as log:
        log.write("four\n")
    path.rename(tmp_path / "log.1")
    path.write_text("five\n", "utf-8")
    assert until_quiet(following) + until_quiet(following) == ["four", "five"]


def test_following_begins_where_the_tail_ended(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\ntwo\n", "utf-8")
    _, position = logs.tail(path, 1)
    with path.open("a", encoding="utf-8") as log:
        log.write("three\n")
    assert until_quiet(logs.follow(path, position)) == ["three"]
