"""The broker's log: JSON lines, no secrets, rotated, tailed and followed, and readable where somebody watches."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from tandem import logs
from tandem.core.log_files import follow, last_part


def logged(path: Path, script: str, *, level: str = "info", max_bytes: int = 1_000_000, backups: int = 2) -> str:
    """Run a script that logs, in a process of its own; gives its standard error."""
    program = (
        "import logging, sys, warnings; from pathlib import Path; from tandem import logs\n"
        f"logs.begin(Path({str(path)!r}), level={level!r}, max_bytes={max_bytes}, backups={backups})\n"
        f"log = logging.getLogger('tandem.test')\n{script}\nlogs.end()\nlogs.end()\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    return ended.stderr


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_line_is_json_with_event_level_logger_facts_and_time(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "log"
    before = datetime.now(UTC)
    errors = logged(path, "log.info('swept %s', 'claims', extra={'count': 3}); logging.warning('ü', extra={'y': None})")
    first, second = lines(path)
    assert list(first.items())[:-1] == [
        ("event", "swept claims"),
        ("level", "info"),
        ("logger", "tandem.test"),
        ("count", 3),
    ]
    at = first["timestamp"]
    # Microseconds always: texts of one length sort as times do.
    assert (len(at), at[-1]) == (len("2026-11-22T20:00:00.123456Z"), "Z")
    assert timedelta(seconds=-1) < datetime.fromisoformat(at) - before < timedelta(seconds=60)
    del second["timestamp"]
    assert second == {"event": "ü", "level": "warning", "logger": "root", "y": None}
    # No one watches a pipe.
    assert errors == ""


def test_a_fault_keeps_its_trace_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    logged(
        path, "try:\n    1 / 0\nexcept ZeroDivisionError:\n    log.exception('failed', extra={'reference': 'err_1'})"
    )
    [line] = lines(path)
    assert (line["event"], line["level"], line["reference"]) == ("failed", "error", "err_1")
    assert line["exception"].startswith("Traceback (most recent call last):\n")
    assert line["exception"].endswith("\nZeroDivisionError: division by zero")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("'one\\ntwo \\x1b[31m'", "one\ntwo \x1b[31m"),
        ("Path('a')", "a"),
        ("{1: (2, 3)}", {"1": [2, 3]}),
        ("{4}", "{4}"),
        ("b'x'", "b'x'"),
        # What orjson refuses.
        ("'name \\udcff'", "name \udcff"),
        ("2**70", 2**70),
        ("{(1, 2): 3, 'a': 4}", {"a": 4}),
    ],
)
def test_whatever_is_logged_is_one_line_of_json(tmp_path: Path, value: str, told: object) -> None:
    path = tmp_path / "log"
    assert logged(path, f"log.info('x', extra={{'value': {value}}}); log.info(str({value})); log.info('next')") == ""
    first, second, third = lines(path)
    assert first["value"] == told
    assert (second["level"], third["event"]) == ("info", "next")
    if isinstance(told, str):
        assert second["event"] == told


def test_warnings_of_python_are_in_the_log(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert logged(path, "warnings.simplefilter('always'); warnings.warn('beware')") == ""
    [line] = lines(path)
    assert (line["level"], line["logger"]) == ("warning", "py.warnings")
    assert "UserWarning: beware" in line["event"]


def test_bodies_and_secrets_are_left_out_whoever_logs_them(tmp_path: Path) -> None:
    path = tmp_path / "log"
    facts = dict.fromkeys(logs.NEVER_LOGGED, "hunter2")
    logged(path, f"log.info('x', extra={facts!r}); logging.getLogger('mcp').warning('x', extra={facts!r})")
    assert "hunter2" not in path.read_text("utf-8")
    for line in lines(path):
        assert {line[name] for name in logs.NEVER_LOGGED} == {"(not logged)"}
    assert len(lines(path)) == 2


def test_less_than_the_level_is_not_logged_nor_what_libraries_tell(tmp_path: Path) -> None:
    path = tmp_path / "log"
    logged(path, "log.info('no'); log.warning('yes'); logging.getLogger('other').info('no')", level="warning")
    logged(path, "logging.getLogger('uvicorn.error').info('no'); logging.getLogger('uvicorn.error').error('yes')")
    assert [line["event"] for line in lines(path)] == ["yes", "yes"]


class Terminal(StringIO):
    """A standard error that somebody watches."""

    def isatty(self) -> bool:
        return True


def test_who_watches_reads_the_same_with_the_trace_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, terminal, root = tmp_path / "log", Terminal(), logging.getLogger()
    handlers, level = root.handlers[:], root.level
    # `begin` closes the handlers that it finds, and pytest's are still needed.
    root.handlers.clear()
    monkeypatch.setattr("sys.stderr", terminal)
    try:
        logs.begin(path, level="info", max_bytes=1_000_000, backups=1)
        log = logging.getLogger("tandem.test")
        log.info("swept %s", "claims", extra={"count": 3, "token": "hunter2"})
        log.warning("from \x1b[2J outside")
        try:
            raise ValueError("told twice")
        except ValueError:
            log.exception("failed", extra={"reference": "err_1"})
    finally:
        logs.end()
        logging.captureWarnings(capture=False)
        root.handlers[:] = handlers
        root.setLevel(level)
    first, second, third, *trace = terminal.getvalue().splitlines()
    in_file = lines(path)
    assert first == f"{in_file[0]['timestamp'][:19]}Z info     swept claims  count=3 token=(not logged)"
    assert second[21:] == r"warning  from \u001b[2J outside"
    assert third[21:] == "error    failed  reference=err_1"
    assert "\n".join(trace) == in_file[2]["exception"]
    assert trace[-1] == "ValueError: told twice"


def test_the_log_is_rotated_by_size_and_old_ones_go(tmp_path: Path) -> None:
    path = tmp_path / "log"
    logged(path, "for n in range(100): log.info('line %03d', n)", max_bytes=1000, backups=2)
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["log", "log.1", "log.2"]
    assert all(file.stat().st_size <= 1000 for file in files)
    assert lines(path)[-1]["event"] == "line 099"
    if sys.platform != "win32":
        assert all(file.stat().st_mode & 0o077 == 0 for file in files)


def test_the_last_part_is_the_last_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert last_part(path, 5).lines == ()
    path.write_text("".join(f"{n:05d}{'x' * 95}\n" for n in range(2000)) + "unfinished", "utf-8")
    assert [line[:5] for line in last_part(path, 3).lines] == ["01997", "01998", "01999"]
    assert last_part(path, 0).lines == ()
    assert len(last_part(path, 5000).lines) == 2000


def until_quiet(following: Iterator[tuple[str, ...]]) -> list[str]:
    """The lines that can be followed right now."""
    found: list[str] = []
    while part := next(following):
        found += part
    return found


def test_following_begins_with_the_last_lines_and_goes_on_through_rotation(tmp_path: Path) -> None:
    path = tmp_path / "log"
    following = follow(path, 2)
    assert until_quiet(following) == []
    path.write_text("zero\none\ntw", "utf-8")
    assert until_quiet(following) == ["zero", "one"]
    assert next(follow(path, 1)) == ("one",)
    with path.open("a", encoding="utf-8") as log:
        log.write("o\nthree\n")
    assert until_quiet(following) == ["two", "three"]
    with path.open("a", encoding="utf-8") as log:
        log.write("four\n")
    path.rename(tmp_path / "log.1")
    path.write_text("five\n", "utf-8")
    assert until_quiet(following) + until_quiet(following) == ["four", "five"]
