"""One program that works through the queue by itself, over MCP: the mode `agent`."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from tandem.errors import ConfigInvalid, Unavailable
from tandem.reviewers import Finished, Provider, programs, rooms, scratch
from tandem.reviewers.job import Exit, Job
from tandem.reviewers.logs import RotatingLog
from tandem.reviewers.orders import Orders
from tandem.reviewers.prompt import AGENT, build_agent, load_template
from tandem.reviewers.reasons import last_line, one_line


def run_agent(job: Job, provider: Provider, orders: Orders, log: RotatingLog) -> tuple[Exit, str]:
    """Runs the program to its end, or until something is ordered; blocks meanwhile.

    Returns:
        The exit status, and why in a line.

    Raises:
        ConfigInvalid: The prompt's template, or a setting, cannot be used.
        OSError: The files of the run cannot be written.
    """
    prompt = build_agent(
        load_template(Path(job.prompt_template) if job.prompt_template else None, AGENT),
        reviewer_id=job.reviewer_id,
        project=job.project,
        idle_seconds=job.idle_seconds,
    )
    with rooms.folder_for_run(job.scratch) as folder:
        try:
            invocation = provider.agent(rooms.room_of(job, folder), prompt, mcp_url(job), job.access)
            scratch.lay_out(folder, invocation.files)
            finished = programs.run(
                invocation,
                rooms.limits_of(job, job.total_seconds),
                on_start=lambda process: log.note(f"{provider.name} runs as the agent, process {process.pid}"),
                cancelled=orders.drain,
                log=log.as_file(),
            )
        except (ConfigInvalid, Unavailable) as error:
            return Exit.PROGRAM_FAILED, one_line(error.message)
    return _ended(finished, job)


def mcp_url(job: Job) -> str:
    """Where the program finds the reviewers' tools, for the job's project."""
    return f"{job.broker.rstrip('/')}/mcp/reviewer?project={quote(job.project, safe='')}"


def _ended(finished: Finished, job: Job) -> tuple[Exit, str]:
    match finished.ended_by:
        case "cancelled":
            return Exit.IN_ORDER, "told to stop"
        case "timeout" if finished.seconds >= job.total_seconds:
            return Exit.IN_ORDER, f"its time of {job.total_seconds:.0f} s is up"
        case "itself" if finished.exit_code == 0:
            return Exit.IN_ORDER, "the program ended by itself"
        case "itself":
            said = last_line(finished.stderr_tail)
            return Exit.PROGRAM_FAILED, f"the program ended with status {finished.exit_code}. {said}".strip()
        case reason:
            return Exit.PROGRAM_FAILED, f"the program was ended: {reason}"
