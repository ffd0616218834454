"""A reviewer process's job: the one line of JSON that its supervisor writes to it, and how it says that it ended."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Any, Final, Literal

from tandem.reviewers import Effort

Mode = Literal["worker", "agent"]

DRAIN_LINE: Final = b"drain"
"""A line on standard input after the job: end after the review under way."""

CANCEL_LINE: Final = b"cancel"
"""A line on standard input after the job: end that review too."""


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
    """The job that `Job.line` wrote."""
    stated: dict[str, Any] = json.loads(line)
    stated["command"] = tuple(stated["command"])
    return Job(**stated)
