"""Running client programs as reviewers: prompts and answers, one provider for each program, processes.

    RunContext ─▶ provider ─▶ Invocation ─▶ programs.run ─▶ Finished ─▶ provider ─▶ Reply

The records that pass between them are here. Programs, models and prompts come from trusted
configuration only; what a client of the broker says reaches a program through its standard input, and
never becomes an argument, a path or a variable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

Effort = Literal["low", "medium", "high"]
EndedBy = Literal["itself", "timeout", "silence", "cancelled", "too_much_output"]

REENTRY_VARIABLE: Final = "TANDEM_REVIEWER"
"""In the environment of every program that reviews: the reviewer's id. Where it is set, no reviewer starts."""

SUPERVISOR_VARIABLE: Final = "TANDEM_SUPERVISOR"
"""In the environment of every process that a supervisor starts, and of all that these start: the supervisor's id."""

RUN_VARIABLE: Final = "TANDEM_RUN"
"""In the environment of every program that reviews, and so of all that it starts: a token of this run alone."""

HOME_FOLDER: Final = "home"
"""Below a run's scratch folder: the home folder that the program sees, with nothing of the user's but a login."""

DESK_FOLDER: Final = "desk"
"""Below a run's scratch folder: empty, for programs that must not start in the repository."""

GIVEN_FOLDER: Final = "given"
"""Below a run's scratch folder: what the program may read besides the repository, such as a long diff."""

TEMPORARY_FOLDER: Final = "tmp"
"""Below a run's scratch folder: the program's temporary files."""

ELSEWHERE = ""
"""The workspace of a project that is on another machine."""


class Broker(Protocol):
    """What supervisors and runners of checks talk to."""

    async def call(self, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The data of an operation's answer. A call may be cancelled; the same is then asked again.

        Raises:
            TandemError: The refusal, as its own type.
        """
        ...


@dataclass(frozen=True, slots=True)
class RunContext:
    r"""What one run of a program is given.

    Attributes:
        workspace: The folder that the program reads, absolute: the round's own, or for an agent the project's. With
            `wsl_distro` its path inside the distribution.
        scratch: A private folder for this run alone, absolute; see `reviewers.programs.lay_out`. With
            `wsl_distro` a folder of the distribution: `\\wsl.localhost\DISTRO\tmp\…`.
        model: The model's name, in the program's own words; None for the program's default.
        effort: How hard the model thinks, where the program can be told.
        schema: The JSON schema of the answer.
        environment: The supervisor's environment, of which the program gets a small part.
        reviewer_id: Who runs it; the program's children find it in `TANDEM_REVIEWER`.
        wsl_distro: On Windows: the distribution of WSL that the program is run in.
        project_folder: The project's own folder, which no program is run from; None if that is the workspace.
        objects: Folders besides the workspace that git there reads: the project's history.
    """

    workspace: str
    scratch: str
    model: str | None
    effort: Effort
    schema: dict[str, Any]
    environment: Mapping[str, str] = field(repr=False)
    reviewer_id: str
    wsl_distro: str | None = None
    project_folder: str | None = None
    objects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Invocation:
    """How a program is run once.

    Attributes:
        argv: The program and its arguments; never a line for a shell.
        environment: All of its environment. It may hold keys: never to be shown or logged.
        folder: Where it starts.
        stdin: Its input; the prompt.
        files: Files that must be below the scratch folder before it starts, by relative path. They may hold a login.
        talks: Whether it writes something while it works. The limit on its start is for those that do.
        wsl_distro: The distribution of WSL that all of this is inside of.
    """

    argv: tuple[str, ...]
    environment: dict[str, str] = field(repr=False)
    folder: str
    stdin: bytes = field(repr=False)
    files: Mapping[str, bytes] = field(repr=False)
    talks: bool = True
    wsl_distro: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """What one run may take.

    Attributes:
        start_seconds: From the start to its first output; None for no limit.
        total_seconds: From the start to its end.
        silence_seconds: Without output and without using the processor; None for no limit.
        output_bytes: How much of its standard output is kept: the end of it. A program that writes more than
            64 MB and more than sixteen times as much is ended.
        grace_seconds: From the request to end to the kill.
    """

    start_seconds: float | None = None
    total_seconds: float
    silence_seconds: float | None = None
    output_bytes: int
    grace_seconds: float


@dataclass(frozen=True, slots=True)
class Finished:
    """How a run ended.

    Attributes:
        exit_code: The exit status, or the negative number of the signal that ended it; None if it never started.
        stdout: The end of its standard output, up to the limit.
        stderr_tail: The last 16 kB of its standard error.
        ended_by: Itself, or the reason why it was ended.
        seconds: How long it ran.
        output_was_cut: Whether the beginning of its output is missing.
    """

    exit_code: int | None
    stdout: bytes
    stderr_tail: bytes
    ended_by: EndedBy
    seconds: float
    output_was_cut: bool


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """What a program's output says.

    Attributes:
        text: The model's answer; None if there is none.
        tokens_in: Tokens that the model read, cached ones included; None if the program does not say.
        tokens_out: Tokens that the model wrote, thoughts included; None if the program does not say.
        cost_usd: The cost in US dollars, by the program's own account; None if it does not say.
        error: What went wrong, where the program says so among its events and not on standard error.
    """

    text: str | None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None
    error: str | None = None
