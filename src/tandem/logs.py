"""The broker's log: JSON lines in a file that is rotated, and readable lines where somebody watches.

What passes through is made of names, ids and numbers. Bodies and secrets have no business here, so the
fields that could carry them are dropped from every record.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import TYPE_CHECKING, Any

import orjson

from tandem.core.clock import MICROSECONDS, isoformat
from tandem.core.log_files import RotatingLog
from tandem.core.visible import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

NEVER_LOGGED = frozenset(
    {
        "arguments",
        "authorization",
        "body",
        "cookie",
        "counter_patch",
        "database_url",
        "description",
        "diff",
        "lock_token",
        "password",
        "payload",
        "psk",
        "secret",
        "session_token",
        "token",
    }
)
_QUIET = ("asyncio", "httpcore", "httpx", "mcp", "uvicorn")
"""Libraries that tell of their own work below the level of a warning."""

_OF_EVERY_RECORD = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime"})
"""Fields that are no facts of the caller's; the last two are those that other formatters leave on a record."""

_HEAD = frozenset({"timestamp", "level", "logger", "event", "stack_info", "exception"})
"""What a readable line has in places of its own, or leaves out."""


def begin(path: Path, *, level: str, max_bytes: int, backups: int) -> None:
    """Log to a file from now on, and to standard error if that is a terminal.

    Args:
        path: The file; its folder is created.
        level: The least level, e.g. `info`.
        max_bytes: Size at which the file is rotated.
        backups: Rotated files that are kept.

    Raises:
        OSError: The file cannot be written.
    """
    file = _LogFile(RotatingLog(os.path.realpath(path), max_bytes=max_bytes, backups=backups))
    file.setFormatter(_Formatter(_json_line))
    handlers: list[logging.Handler] = [file]
    if sys.stderr.isatty():
        console = logging.StreamHandler(sys.stderr)
        console.setFormatter(_Formatter(_readable_line))
        handlers.append(console)
    logging.basicConfig(handlers=handlers, force=True)
    set_level(level)
    logging.captureWarnings(capture=True)


def set_level(level: str) -> None:
    """Log from this level on, e.g. `info`."""
    logging.getLogger().setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))


def end() -> None:
    """Write out and close what `begin` opened; twice is safe."""
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()


class _LogFile(logging.Handler):
    """Writes each record as one chunk, so that none is torn by a rotation."""

    def __init__(self, log: RotatingLog) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._log.write(f"{self.format(record)}\n".encode("utf-8", "backslashreplace"))
        except Exception:  # noqa: BLE001 - as every handler: what cannot be logged is no reason to fail
            self.handleError(record)

    def close(self) -> None:
        self._log.close()
        super().close()


class _Formatter(logging.Formatter):
    """Writes the facts of each record in one of the two forms."""

    def __init__(self, write: Callable[[dict[str, Any]], str]) -> None:
        super().__init__()
        self._write = write

    def format(self, record: logging.LogRecord) -> str:
        """A record's line; the record stays as it is, because other handlers format it too."""
        facts: dict[str, Any] = {"event": record.getMessage()}
        if record.stack_info:
            facts["stack_info"] = record.stack_info
        facts |= {"level": record.levelname.lower(), "logger": record.name}
        facts |= {name: value for name, value in vars(record).items() if name not in _OF_EVERY_RECORD}
        facts["timestamp"] = isoformat(round(record.created * MICROSECONDS))
        facts |= dict.fromkeys(NEVER_LOGGED.intersection(facts), "(not logged)")
        if record.exc_info and record.exc_info[0]:
            facts["exception"] = self.formatException(record.exc_info)
        return self._write(facts)


def _json_line(facts: dict[str, Any]) -> str:
    """A line of the file."""
    try:
        return orjson.dumps(facts, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except orjson.JSONEncodeError:
        # Half a character in a file's name, a number of more than 64 bits: unusual, but no line is lost.
        return json.dumps(facts, default=str, skipkeys=True, separators=(",", ":"))


def _readable_line(facts: dict[str, Any]) -> str:
    """A line for a terminal: as `tandem logs` prints it, with what plays tricks on terminals spelled out."""
    return visible(readable(facts))


def readable(facts: Mapping[str, Any]) -> str:
    """A line of the log for people, with its trace below it; nothing of what others wrote is spelled out.

    Raises:
        KeyError: It is not a line of the log.
        TypeError: Likewise.
    """
    head = f"{facts['timestamp'][:19]}Z {facts['level']!s:<8} {facts['event']}"
    rest = " ".join(f"{name}={value}" for name, value in facts.items() if name not in _HEAD)
    below = "".join(f"\n{facts[name]}" for name in ("stack_info", "exception") if name in facts)
    return f"{head}  {rest}".rstrip() + below
