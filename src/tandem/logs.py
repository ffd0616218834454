"""The broker's log: JSON lines in a file that is rotated, and readable lines where somebody watches.

What passes through is made of names, ids and numbers. Bodies and secrets have no business here, so the
fields that could carry them are dropped whoever logs them.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import sys
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson
import structlog

from tandem import platforms

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping
    from pathlib import Path

    from structlog.typing import Processor

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
_BLOCK_BYTES = 65_536
_QUIET = ("asyncio", "httpcore", "httpx", "mcp", "uvicorn")
"""Libraries that tell of their own work below the level of a warning."""


def _without_secrets(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name in NEVER_LOGGED.intersection(event):
        event[name] = "(not logged)"
    return event


_SHARED: tuple[Processor, ...] = (
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    _without_secrets,
)


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
    platforms.make_private(str(path.parent))
    file = _PrivateRotatingFile(path, maxBytes=max_bytes, backupCount=backups, encoding="utf-8")
    file.setFormatter(_formatter(_json_line))
    handlers: list[logging.Handler] = [file]
    if sys.stderr.isatty():
        console = logging.StreamHandler(sys.stderr)
        console.setFormatter(_formatter(structlog.dev.ConsoleRenderer()))
        handlers.append(console)
    logging.basicConfig(level=level.upper(), handlers=handlers, force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger().level))
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    logging.captureWarnings(capture=True)


def end() -> None:
    """Write out and close what `begin` opened; twice is safe."""
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()


class _PrivateRotatingFile(logging.handlers.RotatingFileHandler):
    """A rotating file that only its user can read."""

    def _open(self) -> Any:
        return os.fdopen(
            os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), self.mode, encoding="utf-8"
        )


def _formatter(renderer: Processor) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_SHARED,
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            renderer,
        ],
    )


def _json_line(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    return orjson.dumps(event, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


def tail(path: Path, lines: int) -> tuple[list[str], int]:
    """The last whole lines of a log, oldest first, and the position where the next one begins.

    Args:
        path: The log; none is as good as an empty one.
        lines: How many.
    """
    read = b""
    try:
        with path.open("rb") as file:
            end = position = file.seek(0, os.SEEK_END)
            while position > 0 and read.count(b"\n") <= lines:
                step = min(_BLOCK_BYTES, position)
                position = file.seek(position - step)
                read = file.read(step) + read
    except FileNotFoundError:
        return [], 0
    *whole, unfinished = read.split(b"\n")
    last = whole[len(whole) - lines :] if lines < len(whole) else whole
    return [line.decode(errors="replace") for line in last], end - len(unfinished)


def follow(path: Path, position: int) -> Iterator[str | None]:
    """The lines after a position, through rotations; null whenever there is none for the moment."""
    file: BinaryIO | None = None
    rest = b""
    try:
        while True:
            if file is None and path.exists():
                file, rest = path.open("rb"), b""
                file.seek(position)
                position = 0
            read = file.read(_BLOCK_BYTES) if file is not None else b""
            *lines, rest = (rest + read).split(b"\n")
            yield from (line.decode(errors="replace") for line in lines)
            if not read:
                if file is not None and _was_rotated(file, path):
                    file.close()
                    file = None
                yield None
    finally:
        if file is not None:
            file.close()


def _was_rotated(file: BinaryIO, path: Path) -> bool:
    """Whether another file has the log's name by now, or the file was emptied."""
    try:
        now = path.stat()
    except FileNotFoundError:
        return True
    ours = os.fstat(file.fileno())
    return (now.st_ino, now.st_dev) != (ours.st_ino, ours.st_dev) or now.st_size < file.tell()
