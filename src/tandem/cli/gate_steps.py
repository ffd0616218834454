"""`tandem gate plan|context|task|wave|verification`: the one command that a step of a workflow needs."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

from tandem.cli.calls import Inputs
from tandem.cli.connection_options import (
    ConnectionOptions,
    need_project,
)
from tandem.cli.declared import Argument, Misused, Option, without
from tandem.cli.render.parts import block, plain
from tandem.cli.terminal import Exit, progress, say, tell
from tandem.client import TandemClient
from tandem.gsd.steps import StepRun, without_network
from tandem.gsd.steps.outcomes import StepResult, StepWord
from tandem.gsd.steps.situation import StepRequest, look
from tandem.gsd.steps.subjects import ROLES, stated
from tandem.present.text import Text, Whole
from tandem.rulings.person import answer_seconds, wait_seconds

EXITS: dict[StepWord, Exit] = {
    StepWord.SOLO: Exit.DONE,
    StepWord.APPROVED: Exit.DONE,
    StepWord.GO: Exit.DONE,
    StepWord.NOTHING: Exit.DONE,
    StepWord.CHANGES: Exit.CHANGES_REQUESTED,
    StepWord.REJECTED: Exit.REJECTED,
    StepWord.WAITING: Exit.WAITING,
    StepWord.ESCALATE: Exit.PERSON,
    StepWord.ROLLBACK: Exit.CHANGES_REQUESTED,
}
"""The exit status of each word; part of the contract."""

_STYLES = {
    StepWord.APPROVED: "bold green",
    StepWord.CHANGES: "bold magenta",
    StepWord.REJECTED: "bold red",
    StepWord.ESCALATE: "bold red",
    StepWord.ROLLBACK: "bold red",
    StepWord.WAITING: "bold yellow",
}
_TIMEOUT_SECONDS = 540.0


@dataclass(frozen=True, slots=True)
class StepOptions:
    """What every step is told."""

    accept: Annotated[bool, Option(help="Take the reviewer's counter-patch, into the files as well.")] = False
    timeout: Annotated[
        float | None,
        Option(
            min=0,
            metavar="SECONDS",
            help=f"How long to wait for the verdict; 0: not at all; default: {_TIMEOUT_SECONDS:g}, or less where an"
            " agent's client ends commands sooner.",
        ),
    ] = None
    agent_type: Annotated[
        str | None, Option(metavar="NAME", variable="TANDEM_AGENT", help="Who does it; default: by the step.")
    ] = None


@dataclass(frozen=True, slots=True)
class DocumentOptions:
    """Which document is reviewed, and its new content if that is not in it yet."""

    file: Annotated[Path | None, Argument(metavar="FILE", help="The document; default: the newest in .planning.")] = (
        None
    )
    content: Annotated[
        str | None, Option(metavar="DRAFT", help="The content of FILE before it is written: a file, or -.")
    ] = None


@dataclass(frozen=True, slots=True)
class WorkOptions:
    """Whose work is reviewed, and what verifying it gave."""

    phase: Annotated[str | None, Option(metavar="NAME", variable="TANDEM_PHASE", help="The phase it belongs to.")] = (
        None
    )
    plan: Annotated[
        str | None, Option(metavar="NAME", variable="TANDEM_PLAN", help="The plan it belongs to: 03-02, or 02.")
    ] = None
    task: Annotated[
        str | None, Option(metavar="NAME", variable="TANDEM_TASK", help="The task: its number or name.")
    ] = None
    result: Annotated[
        str | None, Option(metavar="TEXT", help="What verifying it gave: text, @FILE or - for standard input.")
    ] = None

    @property
    def words(self) -> list[str]:
        """The words that say again whose work it is."""
        pairs = (("--phase", self.phase), ("--plan", self.plan), ("--task", self.task))
        return [word for name, value in pairs if value is not None for word in (name, value)]

    def read_result(self) -> str | None:
        """What verifying it gave; reads the file or the standard input that has it."""
        return None if self.result is None else Inputs().text("--result", self.result)


def show_outcome(outcome: StepResult, *, as_json: bool) -> Exit:
    """Print an outcome; answers with the exit status."""
    status = EXITS[outcome.word]
    tell({**asdict(outcome), "exit_status": int(status)}, Whole(*_lines(outcome)), as_json=as_json)
    return status


def _lines(outcome: StepResult) -> Iterator[Text]:
    head = f"{outcome.word} {outcome.review_id}" if outcome.word is StepWord.ROLLBACK else str(outcome.word)
    yield Text(head, style=_STYLES.get(outcome.word, "bold"))
    if outcome.review_id is not None and outcome.round is not None:
        yield plain(f"{outcome.review_id}, round {outcome.round}: {outcome.status}")
    yield from _labelled("reason", outcome.reason)
    for remark in outcome.remarks:
        where = ":".join(str(part) for part in (remark.file, remark.line) if part is not None)
        yield from _labelled(where or "remark", remark.body)
    yield from _labelled("the reviewer asks", outcome.question)
    patch = outcome.counter_patch
    if patch is not None:
        yield plain(f"counter-patch {patch.id} by {patch.author}: {', '.join(patch.files)}")
        long = f"(long; read it with: tandem review proposal {outcome.review_id})"
        content = patch.content if patch.content is not None else long
        yield from (block(f"  {line}") for line in content.splitlines())
    for step in outcome.next:
        yield plain(f"- {step}")
    for part in outcome.parts:
        yield Text("")
        yield from _lines(part)


def _labelled(label: str, text: str | None) -> Iterator[Text]:
    """A text by others under a label, its further lines indented so that none is mistaken for ours."""
    first, *rest = (text or "").splitlines() or [""]
    if first or rest:
        yield plain(f"{label}: {first}")
        yield from (block(f"  {line}") for line in rest)


def plan(*, document: DocumentOptions, asked: StepOptions, options: ConnectionOptions) -> Exit:
    """Have a whole PLAN.md reviewed before it is committed or carried out."""
    return _review("plan", document, None, asked, options)


def context(*, document: DocumentOptions, asked: StepOptions, options: ConnectionOptions) -> Exit:
    """Have a whole CONTEXT.md reviewed before it is written or committed."""
    return _review("context", document, None, asked, options)


def verification(
    *,
    passed: Annotated[
        bool | None, Option("--passed/--failed", help="Whether the work passed; default: what its head says.")
    ] = None,
    document: DocumentOptions,
    asked: StepOptions,
    options: ConnectionOptions,
) -> Exit:
    """Have a whole VERIFICATION.md or UAT.md reviewed, and whether the work passed."""
    claim = None if passed is None else "passed" if passed else "failed"
    return _review("verification", document, claim, asked, options)


def task(
    *,
    work: WorkOptions,
    staged: Annotated[bool, Option(help="What the index holds, not the whole working tree.")] = False,
    asked: StepOptions,
    options: ConnectionOptions,
) -> Exit:
    """Have a task's change reviewed before its commit, with what its plan says of it."""
    commands = _commands("task", work.words + (["--staged"] if staged else []), None)
    identity = stated(work.phase, work.plan, work.task)
    order = StepRequest("task", *commands, identity, result=work.read_result(), staged=staged)
    return _step(order, asked, options)


@without("task")
def wave(
    branches: Annotated[
        list[str] | None,
        Argument(metavar="BRANCH", help="Default: this one; on a base branch those of linked worktrees."),
    ] = None,
    *,
    since: Annotated[
        str | None, Option(metavar="REV", help="Begin after it; default: the plan's first commit.")
    ] = None,
    work: WorkOptions,
    asked: StepOptions,
    options: ConnectionOptions,
) -> Exit:
    """Have all that a plan did reviewed as one change, before its branch is merged."""
    named = tuple(branches or ())
    commands = _commands("wave", [*named, *(["--since", since] if since else []), *work.words], None)
    identity = stated(work.phase, work.plan, None)
    order = StepRequest("wave", *commands, identity, result=work.read_result(), since=since, branches=named)
    return _step(order, asked, options)


def _review(
    step: str,
    document: DocumentOptions,
    claim: str | None,
    asked: StepOptions,
    options: ConnectionOptions,
) -> Exit:
    file = document.file
    draft, words = _document(file, document.content)
    # Standard input cannot be read again.
    commands = _commands(step, words, file if "-" in words else None, *([f"--{claim}"] if claim else []))
    return _step(StepRequest(step, *commands, file=file, draft=draft, claim=claim), asked, options)


def _document(file: Path | None, content: str | None) -> tuple[bytes | None, list[str]]:
    """A document's new content if that is not in it yet, and the words that say so again."""
    words = [] if file is None else [str(file)]
    if content is None:
        return None, words
    if file is None:
        raise Misused("Name the file that it is for.", "FILE")
    return _draft(content), [*words, "--content", content]


def _draft(content: str) -> bytes:
    try:
        found = sys.stdin.buffer.read() if content == "-" else Path(content).read_bytes()
    except OSError as error:
        raise Misused(f"Cannot read {content}: {error.strerror}.", "--content") from error
    if content == "-" and not found.strip():
        # A command that is run again finds its input read already.
        raise Misused("Standard input has nothing to review; give the text again.", "--content")
    return found


def _commands(step: str, words: list[str], document: Path | None, *options: str) -> tuple[str, str]:
    """The command that runs a step again, and the one that takes the counter-patch, which needs no draft again."""
    start = ["tandem", "gate", step]
    named = words if document is None else [str(document)]
    return shlex.join([*start, *words, *options]), shlex.join([*start, *named, *options, "--accept"])


def _step(order: StepRequest, asked: StepOptions, options: ConnectionOptions) -> Exit:
    usual_seconds = min(_TIMEOUT_SECONDS, wait_seconds() or _TIMEOUT_SECONDS)
    seconds = usual_seconds if asked.timeout is None else asked.timeout
    order = replace(order, accept=asked.accept, timeout_seconds=seconds)
    situation = look(Path.cwd())
    say(*(f"{problem}." for problem in situation.planning.problems))
    for key in situation.effective().refused if not situation.is_disabled else ():
        say(f"{key} is not taken before a person has trusted .planning/config.json: tandem trust")
    known = without_network(order, situation)
    if known is not None:
        return show_outcome(known, as_json=options.as_json)
    # With the gate on, commits are judged by its broker, not by one that the environment names; an option still counts.
    is_of_environment = situation.gate is not None and options.broker == os.environ.get("TANDEM_BROKER")
    stated = None if is_of_environment else options.broker
    # By the name that it proposes under: else who accepts a counter-patch might be its author.
    agent_type = asked.agent_type or ROLES[order.step]
    broker = TandemClient(situation.broker(stated), agent=options.agent or agent_type, answer_s=answer_seconds())

    async def carried_out() -> StepResult:
        async with broker as client:
            project = need_project(client.session, options, situation.gate)
            return await StepRun(order, situation, client, project, say, agent_type).outcome()

    with progress(f"gate {order.step}"):
        outcome = asyncio.run(carried_out())
    return show_outcome(outcome, as_json=options.as_json)
