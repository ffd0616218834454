"""The step whose content is a task's change: the working tree's difference, with what the plan says of the task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tandem.domain.gates import Change
from tandem.git import Repository, Scope, digest_of
from tandem.workflow.steps import documents, tasks
from tandem.workflow.steps.documents import Identity
from tandem.workflow.steps.orders import Order
from tandem.workflow.steps.situation import Situation
from tandem.workflow.steps.subjects import Subject
from tandem.workflow.steps.texts import planning_dirs

_NAMED_PATHS = 3


@dataclass(frozen=True, slots=True)
class Difference:
    """A change that was found.

    Attributes:
        diff: As git writes it; empty when there is none.
        base: What it is made against.
        changes: Its raw entries.
        remarks: What a person should hear of it.
    """

    diff: str
    base: str
    changes: tuple[Change, ...]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Work:
    """What is known of the work that a change does.

    Attributes:
        identity: What it belongs to.
        plan_text: The plan's text; null when no plan was found.
        task: The task; null when nobody can say which.
        remarks: What was taken where nothing was named.
    """

    identity: Identity
    plan_text: str | None
    task: tasks.Task | None
    remarks: tuple[str, ...] = ()


def difference(repository: Repository, scope: Scope) -> Difference:
    """What there is to put up.

    Raises:
        InvalidInput: A revision names nothing, or conflicts are unresolved.
    """
    working = repository.working_diff(scope)
    changes = repository.validate_diff(working.diff, working.base).changes if working.diff else ()
    remarks = tuple(f"left out: {folder} is a git repository of its own" for folder in working.left_out)
    return Difference(working.diff, working.base, changes, remarks)


def work(situation: Situation, said: Identity, found: Difference) -> Work:
    """The plan and the task of a change: as they were named, else those that name its files."""
    paths = [change.path for change in found.changes]
    folders = planning_dirs(situation)
    remarks: tuple[str, ...] = ()
    if said.plan is not None:
        file = documents.find_plan(said, folders)
    else:
        file = _likely(folders, said, paths)
        if file is not None:
            remarks = (f"no plan was named; took the newest that fits: {file.name}",)
    text = _text(file)
    # The file's spelling is that of the plan's commits: 03-02, where 3-2 was said.
    named = documents.NOBODY if file is None else documents.identify(file, text or "")
    identity = Identity(named.phase or said.phase, named.plan or said.plan, said.task)
    task = _task(text, said.task, paths)
    if task is not None and identity.task is None:
        identity = Identity(identity.phase, identity.plan, str(task.number))
    return Work(identity, text, task, remarks)


def subject(situation: Situation, found: Difference, known: Work, order: Order) -> Subject:
    """What is put up for a task's change."""
    task, label = known.task, known.identity.task
    what = task.name if task is not None and task.name else f"task {label}" if label else _files(found)
    where = known.identity.words
    return Subject(
        step="task",
        identity=known.identity,
        intent=f"{where[:1].upper()}{where[1:]}, task: {what}" if where else what[:1].upper() + what[1:],
        description=tasks.description(known.plan_text, task, label, order.result),
        changes=found.changes,
        digest=digest_of(found.changes),
        command=order.command,
        accept_command=order.accept_command,
        diff=found.diff,
        base=found.base,
        branch=situation.branch,
    )


def _likely(folders: list[Path], said: Identity, paths: list[str]) -> Path | None:
    """The plan under way that names most of the files, the newest of equals."""
    for folder in folders:
        plans = [
            plan
            for plan in documents.plans_under_way(folder)
            if said.phase is None or documents.identify(plan, "").phase == said.phase
        ]
        if plans:
            return max(plans, key=lambda plan: _named(plan, paths))
    return None


def _named(plan: Path, paths: list[str]) -> int:
    text = _text(plan) or ""
    return sum(bool(tasks.touching(text, [path])) for path in paths)


def _text(file: Path | None) -> str | None:
    try:
        return None if file is None else file.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        # What cannot be read is left to its own review; the change is put up without it.
        return None


def _task(plan: str | None, wanted: str | None, paths: list[str]) -> tasks.Task | None:
    if plan is None:
        return None
    if wanted is not None:
        return tasks.find(plan, wanted)
    fitting = tasks.touching(plan, paths)
    return fitting[0] if len(fitting) == 1 else None


def _files(found: Difference) -> str:
    paths = [change.path for change in found.changes]
    more = f" and {len(paths) - _NAMED_PATHS} more" if len(paths) > _NAMED_PATHS else ""
    return f"change to {', '.join(paths[:_NAMED_PATHS])}{more}"
