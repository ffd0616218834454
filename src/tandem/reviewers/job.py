"""A reviewer process's job: the one line of JSON that its supervisor writes to it, and how it says that it ended."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import IntEnum
from typing import Any, Final, Literal, cast
from urllib.parse import urlsplit

from tandem.errors import ConfigInvalid
from tandem.reviewers import Effort

Mode = Literal["worker", "agent"]

JOB_LIMIT_BYTES: Final = 256 * 1024
DRAIN_LINE: Final = b"drain"
"""A line on standard input after the job: end after the review under way."""

CANCEL_LINE: Final = b"cancel"
"""A line on standard input after the job: end that review too."""

_REVIEWER_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ACCESS = re.compile(r"[\x21-\x7e]{1,4096}")
_URL = re.compile(r"https?://(?:\[[0-9a-fA-F:.]+\]|[^\s/:?#@\[\]]+)(?::\d{1,5})?(?:/[^\s?#@]*)?")


class Exit(IntEnum):
    """The exit status of a reviewer process."""

    IN_ORDER = 0
    """It was told to end, or the agent's program ended by itself."""
    FAULT = 1
    """A fault of ours; its log has the traceback."""
    BAD_JOB = 2
    """The job cannot be done as it is written; the last line of standard error says why."""
    PROGRAM_FAILED = 3
    """The program cannot be started, or failed at once."""
    SUPERVISOR_GONE = 4
    """Standard input ended."""
    BROKER_GONE = 5
    """The broker refuses it, or stays away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    r"""What one reviewer process is to do. The names are those of the JSON.

    Attributes:
        broker: The broker's URL, without the operation.
        access: The token that the broker lets it in with; null for a broker that trusts everybody.
        reviewer_id: Who it is.
        project: Whose reviews it takes.
        workspace: The project's folder, absolute; with `wsl_distro` its path inside the distribution.
        wsl_distro: On Windows: the distribution of WSL that the program runs in.
        mode: One run for each review, or one program that loops by itself.
        provider: The client program's name in the settings.
        command: How it is called, if not by its name.
        model: The model's name; null for the program's default.
        effort: How hard the model thinks.
        prompt_template: A template of the person's own; null for ours.
        idle_seconds: How long an agent waits for a review before it ends itself.
        attempt_seconds: What one run may take.
        start_seconds: From a run's start to its first output; null for no limit.
        silence_seconds: Between two outputs; null for no limit.
        grace_seconds: From the request to end to the kill.
        total_seconds: What an agent may take for its whole life.
        output_bytes: How much of a run's output is kept.
        log_file: Its log; the folder is there.
        log_max_bytes: The size at which that is rotated.
        log_backups: How many rotated logs are kept.
        scratch: A private folder for it alone; with `wsl_distro` in that distribution (`\\wsl.localhost\…`).
    """

    broker: str
    access: str | None = field(default=None, repr=False)
    reviewer_id: str
    project: str
    workspace: str
    wsl_distro: str | None = None
    mode: Mode = "worker"
    provider: str
    command: tuple[str, ...] = ()
    model: str | None = None
    effort: Effort = "high"
    prompt_template: str | None = None
    idle_seconds: int
    attempt_seconds: float
    start_seconds: float | None = None
    silence_seconds: float | None = None
    grace_seconds: float
    total_seconds: float
    output_bytes: int
    log_file: str
    log_max_bytes: int
    log_backups: int
    scratch: str

    def line(self) -> bytes:
        """The job as it is written to the process, with its line end."""
        return json.dumps(asdict(self)).encode() + b"\n"


def read_job(line: bytes) -> Job:
    """The job that a line says.

    Raises:
        ConfigInvalid: It is no JSON object, or a field is missing, unknown or cannot be used; the message names it.
    """
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise _refused("job", "is no JSON") from None
    if not isinstance(found, dict):
        raise _refused("job", "is no JSON object")
    stated = cast("dict[str, Any]", found)
    unknown = sorted(set(stated) - set(_CHECKS))
    if unknown:
        raise _refused(unknown[0][:100], "is unknown")
    return Job(**{name: check(name, stated) for name, check in _CHECKS.items()})


def _refused(field: str, problem: str) -> ConfigInvalid:
    return ConfigInvalid(f"The reviewer's job cannot be done: {field} {problem}.", setting=field, origin="job")


# ------------------------------------------------------------------------------------------------ its fields

_Check = Callable[[str, Mapping[str, Any]], Any]


def _text(name: str, stated: Mapping[str, Any]) -> str:
    value = stated.get(name)
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise _refused(name, "must be a text that is not empty")
    return value


def _like(pattern: re.Pattern[str], what: str) -> _Check:
    def check(name: str, stated: Mapping[str, Any]) -> str:
        value = _text(name, stated)
        if not pattern.fullmatch(value):
            raise _refused(name, f"must be {what}")
        return value

    return check


def _url(name: str, stated: Mapping[str, Any]) -> str:
    value: str = _like(_URL, "an http(s) URL without credentials or query")(name, stated)
    try:
        _ = urlsplit(value).port
    except ValueError:
        raise _refused(name, "must have a port from 0 to 65535") from None
    return value


def _one_of(*allowed: str) -> _Check:
    def check(name: str, stated: Mapping[str, Any]) -> str:
        value = _text(name, stated)
        if value not in allowed:
            raise _refused(name, f"must be one of {', '.join(allowed)}")
        return value

    return check


def _absolute(name: str, stated: Mapping[str, Any]) -> str:
    value = _text(name, stated)
    # A path of a distribution begins with a slash, which Windows does not call absolute.
    if not (os.path.isabs(value) or value.startswith("/")):  # noqa: PTH117 - a text, which may be of another system
        raise _refused(name, "must be an absolute path")
    return value


def _or_null(check: _Check) -> _Check:
    def checked(name: str, stated: Mapping[str, Any]) -> Any:
        return None if stated.get(name) is None else check(name, stated)

    return checked


def _seconds(name: str, stated: Mapping[str, Any]) -> float:
    value = stated.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < float("inf"):
        raise _refused(name, "must be a number of seconds")
    return float(value)


def _count(name: str, stated: Mapping[str, Any]) -> int:
    value = stated.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _refused(name, "must be a whole number, 0 or more")
    return value


def _whole_seconds(name: str, stated: Mapping[str, Any]) -> int:
    return round(_seconds(name, stated))


def _words(name: str, stated: Mapping[str, Any]) -> tuple[str, ...]:
    value = stated.get(name)
    if value is None:
        return ()
    words = cast("list[Any]", value) if isinstance(value, list) else [value]
    if not isinstance(value, list) or not all(isinstance(word, str) and "\0" not in word for word in words):
        raise _refused(name, "must be a list of a program and its arguments")
    return tuple(words)


_CHECKS: Final[dict[str, _Check]] = {
    "broker": _url,
    "access": _or_null(_like(_ACCESS, "a token")),
    "reviewer_id": _like(_REVIEWER_ID, "1 to 64 letters, digits and . _ -"),
    "project": _text,
    "workspace": _absolute,
    "wsl_distro": _or_null(_text),
    "mode": _one_of("worker", "agent"),
    "provider": _text,
    "command": _words,
    "model": _or_null(_text),
    "effort": _one_of("low", "medium", "high"),
    "prompt_template": _or_null(_absolute),
    "idle_seconds": _whole_seconds,
    "attempt_seconds": _seconds,
    "start_seconds": _or_null(_seconds),
    "silence_seconds": _or_null(_seconds),
    "grace_seconds": _seconds,
    "total_seconds": _seconds,
    "output_bytes": _count,
    "log_file": _absolute,
    "log_max_bytes": _count,
    "log_backups": _count,
    "scratch": _absolute,
}
if set(_CHECKS) != {one.name for one in fields(Job)}:
    raise TypeError("every field of a job has its check")
