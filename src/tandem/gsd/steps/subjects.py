"""What a step proposes: its file, phase and plan, exactly which content, and under which name that is kept."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tandem.errors import InvalidInput
from tandem.git.changes import Change
from tandem.git.hunks import only_files
from tandem.git.raw import digest_of
from tandem.git.repository import Repository
from tandem.git.snapshot import Scope
from tandem.gsd.steps.situation import NOBODY, DocumentIdentity, StepContext, StepRequest
from tandem.rulings import plans
from tandem.rulings.plans import Task

_NAMES = {
    "plan": (plans.PLAN, "PLAN.md"),
    "context": (re.compile(r"(?:.+-)?CONTEXT\.md"), "CONTEXT.md"),
    "verification": (re.compile(r"(?:.+-)?(?:VERIFICATION|UAT)\.md"), "VERIFICATION.md or UAT.md"),
}
"""How each step's documents are called, and in words."""
_SUMMARY = re.compile(r"PLAN\.md$")
_PHASE_NAME = re.compile(rf"{plans.PHASE}(?:-.*)?-?[A-Z]+\.md")
_PHASE_FOLDER = re.compile(rf"{plans.PHASE}-.+")
_PLAN_AND_PHASE = re.compile(rf"{plans.PHASE}-(?P<plan>\d+)")
_LAST_NUMBER = re.compile(r"(\d+)(?!.*\d)", re.DOTALL)
_OBJECTIVE = re.compile(r"<objective>(?P<body>.*?)</objective>", re.DOTALL)
_LONGEST_CHARACTERS = 60_000
_FRONT_LINE = re.compile(r"^(?P<key>[a-z_]+):[ \t]*(?P<value>[^#\n]*)", re.MULTILINE)


def stated(phase: str | None, plan: str | None, task: str | None) -> DocumentIdentity:
    """The options of the command line; a plan may be said with its phase, as `03-02`."""
    match = _PLAN_AND_PHASE.fullmatch(plan) if plan and phase is None else None
    if match:
        return DocumentIdentity(match["phase"], match["plan"], task)
    if plan and phase and plan.startswith(f"{phase}-"):
        plan = plan.removeprefix(f"{phase}-")
    return DocumentIdentity(phase, plan, task)


def identify(file: Path, text: str) -> DocumentIdentity:
    """What a document belongs to, by its name, its head and its folder."""
    named = plans.NAME.fullmatch(file.name)
    if named:
        return DocumentIdentity(named["phase"], named["plan"])
    head = front_matter(text)
    phase = next(
        (
            match["phase"]
            for match in (
                _PHASE_NAME.fullmatch(file.name) if file.name[:1].isdigit() else None,
                re.match(plans.PHASE, head.get("phase", "")),
                _PHASE_FOLDER.fullmatch(file.parent.name),
            )
            if match
        ),
        None,
    )
    return DocumentIdentity(phase, head.get("plan") or None)


def front_matter(text: str) -> dict[str, str]:
    """The plain lines of a document's head, between its first two `---`."""
    if not text.startswith("---"):
        return {}
    head = text.split("\n---", 1)[0]
    return {match["key"]: match["value"].strip().strip("\"'") for match in _FRONT_LINE.finditer(head)}


def newest(step: str, planning_dirs: Sequence[Path]) -> Path:
    """The document that a step is about when none is named: the one written last.

    Args:
        step: `plan`, `context` or `verification`.
        planning_dirs: Where to look; the first that has one counts.

    Raises:
        InvalidInput: There is none.
    """
    name, kind = _NAMES[step]
    for folder in planning_dirs:
        if found := plans.documents(name, folder):
            return found[0]
    places = " or ".join(str(folder) for folder in planning_dirs)
    raise InvalidInput(f"There is no {kind} in {places}; name the file: tandem gate {step} FILE", field="file")


def plans_under_way(planning_dir: Path) -> list[Path]:
    """The plans that have no summary yet, the one written last first; all of them when every one has."""
    found = plans.documents(plans.PLAN, planning_dir)
    return [plan for plan in found if not plan.with_name(_SUMMARY.sub("SUMMARY.md", plan.name)).exists()] or found


def objective(plan: str) -> str | None:
    """What a plan is for, in one line; None when it does not say."""
    found = _OBJECTIVE.search(plans.bare(plan))
    lines = (line.strip() for line in found["body"].splitlines()) if found else iter(())
    return next((line for line in lines if line), None)


def find_task(plan: str, wanted: str) -> Task | None:
    """A task by its number (`2`, `03-02-2`, `Task 2`) or its name; None when the plan has none such."""
    known = plans.tasks(plan)
    by_name = next((task for task in known if task.name.casefold() == wanted.strip().casefold()), None)
    number = _LAST_NUMBER.search(wanted)
    if by_name is not None or number is None:
        return by_name
    return next((task for task in known if task.number == int(number[1])), None)


def task_description(plan: str | None, task: Task | None, label: str | None, result: str | None) -> str:
    """What a reviewer is told beside the diff: the task as the plan has it, and what its verification gave."""
    if task is not None:
        what = f"## Task {task.number}: {task.name}\n\n{task.body}" if task.name else f"## Task\n\n{task.body}"
    elif plan is not None:
        heading = f"## The plan (task: {label})" if label else "## The plan"
        what = f"{heading}\n\n{plan.strip()}"
    else:
        what = f"## Task\n\n{label}" if label else ""
    gave = result.strip() if result else "The proposer did not say what verifying it gave."
    return f"{what[:_LONGEST_CHARACTERS]}\n\n## Verification\n\n{gave[:_LONGEST_CHARACTERS]}".strip()


ROLES = {
    "plan": "planner",
    "context": "discusser",
    "task": "executor",
    "wave": "executor",
    "verification": "verifier",
}
"""Who does a step, unless the caller says: a review by `planner` is critical."""

CATEGORIES = {
    "plan": "plan_review",
    "context": "handoff",
    "task": "code_change",
    "wave": "code_change",
    "verification": "verification",
}
"""The category of each step's reviews."""

PASSED, FAILED = "passed", "failed"
_PASSED = frozenset({"passed", "pass", "complete", "completed", "verified"})
# A complete UAT.md is one whose tests all have a result, good or bad.
_ISSUES = re.compile(r"^issues:[ \t]*[1-9]", re.MULTILINE)
_FAILED = frozenset({"failed", "fail", "gaps_found", "diagnosed", "issues_found"})
_NAMED_PATHS = 3


def document_key(step: str, path: str) -> str:
    """What the pointer to a document's review is kept under."""
    return json.dumps([CATEGORIES[step], path])


@dataclass(frozen=True, slots=True)
class Subject:
    """One content with everything that is said about it.

    Attributes:
        order: What the step was told.
        identity: The work that it belongs to.
        intent: Its purpose, in a line.
        description: The text itself where there is a path; else the words beside the diff.
        changes: The raw difference: what the gate is asked about.
        digest: What an approval of it binds to.
        path: The file whose whole content it is.
        diff: The change; None for a text.
        base: What the change is made against; None for a text.
        branch: The branch it is on; None if HEAD is detached.
        metadata: Facts for the reviewer and for readers of the log.
        claim: The result that an approval must be of as well: `passed` or `failed`.
        is_draft: Whether the text is not in its file yet.
        is_committed: Whether the content is in a commit already.
        is_optimistic: Whether no step waits for its verdict: then each content is a review of its own.
    """

    order: StepRequest
    identity: DocumentIdentity
    intent: str
    description: str
    changes: tuple[Change, ...]
    digest: str
    path: str | None = None
    diff: str | None = None
    base: str | None = None
    branch: str | None = None
    metadata: dict[str, Any] | None = None
    claim: str | None = None
    is_draft: bool = False
    is_committed: bool = False
    is_optimistic: bool = False

    @property
    def step(self) -> str:
        """The step that puts it up."""
        return self.order.step

    @property
    def command(self) -> str:
        """The command that runs the step again."""
        return self.order.command

    @property
    def plan_key(self) -> str:
        """The plan's one name."""
        return self.identity.key(self.branch)

    @property
    def key(self) -> str:
        """The key of its pointer: of a text its path, of a change the work that it belongs to."""
        if self.path is not None:
            return document_key(self.step, self.path)
        named = [self.step, self.plan_key, self.identity.task]
        return json.dumps([*named, self.digest] if self.is_optimistic else named)

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths that it changes."""
        return (self.path,) if self.path is not None else tuple(change.path for change in self.changes)

    def content(self) -> dict[str, Any]:
        """The fields of `create_review`, without those of a new review alone."""
        stated: dict[str, Any] = {
            "intent": self.intent,
            "category": CATEGORIES[self.step],
            "description": self.description,
        }
        stated |= self.identity.fields()
        stated |= {"path": self.path} if self.path is not None else {"diff": self.diff, "base": self.base}
        return stated | ({"metadata": self.metadata} if self.metadata else {})

    def without(self, repository: Repository, paths: Collection[str]) -> Subject:
        """The same change without some paths, which need no review of their own here."""
        left = [change for change in self.changes if change.path not in paths]
        if len(left) == len(self.changes) or self.diff is None:
            return self
        if not left:
            return replace(self, diff="", changes=())
        diff = only_files(self.diff, [change.path for change in left])
        changes = repository.validate_diff(diff, self.base).changes
        return replace(self, diff=diff, changes=changes, digest=digest_of(changes))


@dataclass(frozen=True, slots=True)
class StepDocument:
    """A document to propose.

    Attributes:
        file: Where it is, or will be.
        text: Its content.
        is_draft: Whether the text is not in the file yet.
    """

    file: Path
    text: str
    is_draft: bool


def planning_dirs(situation: StepContext) -> list[Path]:
    """Where this working tree's documents are, then the main one's."""
    return plans.folders(situation.root, situation.main_root, situation.planning.workstream)


def read_document(situation: StepContext, step: str, file: Path | None, draft: bytes | None) -> StepDocument:
    """The document that a step is about.

    Args:
        situation: Where the command runs.
        step: `plan`, `context` or `verification`.
        file: The file that was named; by default the newest of its kind.
        draft: The content that the file will get, when that is not in it yet.

    Raises:
        InvalidInput: There is no such file, or it is not UTF-8.
    """
    if file is None:
        file = newest(step, planning_dirs(situation) or [situation.root / plans.FOLDER])
    file = _absolute(situation, file)
    try:
        present = file.read_bytes() if draft is None or file.is_file() else None
        content = present if draft is None else draft
        text = (content or b"").decode()
    except OSError as error:
        words = f"{file} cannot be read: {error.strerror}. Name the file to review."
        raise InvalidInput(words, field="file") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file.name} is not UTF-8; write it as UTF-8 text.", field="file") from error
    return StepDocument(file, text, is_draft=draft is not None and draft != present)


def repository_of(situation: StepContext, document: StepDocument) -> Repository:
    """The working tree that a document is in: this one, else the main one.

    Raises:
        InvalidInput: It is in neither.
    """
    for root in dict.fromkeys((situation.root, situation.main_root)):
        if document.file.is_relative_to(root.resolve()):
            return Repository(root)
    raise InvalidInput(
        f"{document.file} is not in the repository at {situation.root}; name a file of it.", field="file"
    )


def document_subject(
    situation: StepContext, repository: Repository, order: StepRequest, document: StepDocument, claim: str | None
) -> Subject:
    """The proposal of a document, with the claim made of it: an approval is then of that as well."""
    path = document.file.relative_to(repository.root.resolve()).as_posix()
    identity = order.identity.over(identify(document.file, document.text))
    content = repository.text_change(path, document.text)
    change = content.changes[0]
    return Subject(
        order=order,
        identity=identity,
        intent=_intent(order.step, identity, document) + (f": {claim}" if claim else ""),
        description=document.text,
        changes=content.changes,
        digest=content.digest or "",
        path=path,
        branch=situation.branch,
        metadata={"result": claim} if claim else None,
        claim=claim,
        is_draft=document.is_draft,
        is_committed=not document.is_draft and change.blob_before == change.blob_after,
    )


def missing_path(situation: StepContext, file: Path) -> str | None:
    """The path from the root of a document that is not in its file yet; None if it is, or is not in the repository."""
    file = _absolute(situation, file)
    root = situation.root.resolve()
    return file.relative_to(root).as_posix() if file.is_relative_to(root) and not file.exists() else None


def _absolute(situation: StepContext, file: Path) -> Path:
    """The file's own name is kept: a link is refused by the broker, not followed here."""
    file = situation.folder / file.expanduser()
    return file.parent.resolve() / file.name


def claim_of(document: StepDocument, stated: str | None) -> str:
    """Whether a verification says that the work passed.

    Raises:
        InvalidInput: Neither the caller nor the document's head says it.
    """
    if stated is not None:
        return stated
    status = front_matter(document.text).get("status", "").casefold()
    if status in _FAILED or (status in _PASSED and _ISSUES.search(document.text)):
        return FAILED
    if status in _PASSED:
        return PASSED
    raise InvalidInput(
        f"{document.file.name} does not say in its head whether the work passed (status: {status or 'none'}); "
        "say it: --passed or --failed",
        field="result",
    )


def _intent(step: str, identity: DocumentIdentity, document: StepDocument) -> str:
    subject = identity.words or document.file.name
    if step != "plan":
        return f"{step.capitalize()} of {subject}"
    goal = objective(document.text)
    return f"{subject[:1].upper()}{subject[1:]}" + (f": {goal[:200]}" if goal else "")


@dataclass(frozen=True, slots=True)
class StepChange:
    """A change that was found.

    Attributes:
        diff: As git writes it; empty when there is none.
        base: The commit that it is made against.
        changes: Its raw entries.
        remarks: What a person should hear of it.
    """

    diff: str
    base: str
    changes: tuple[Change, ...]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskContext:
    """The work that a change does, as far as it is known.

    Attributes:
        identity: The work that it belongs to.
        plan_text: The plan's text; None when no plan was found.
        task: The task; None when it cannot be told which.
        remarks: The choices that were made where nothing was named.
    """

    identity: DocumentIdentity
    plan_text: str | None
    task: Task | None
    remarks: tuple[str, ...] = ()


def difference(repository: Repository, scope: Scope) -> StepChange:
    """The difference to propose.

    Raises:
        InvalidInput: A revision names nothing, or conflicts are unresolved.
    """
    working = repository.working_diff(scope)
    changes = repository.validate_diff(working.diff, working.base).changes if working.diff else ()
    remarks = tuple(f"left out: {one}" for one in working.left_out)
    return StepChange(working.diff, working.base, changes, remarks)


def work(situation: StepContext, said: DocumentIdentity, found: StepChange) -> TaskContext:
    """The plan and the task of a change: as they were named, else those that name its files."""
    paths = [change.path for change in found.changes]
    folders = planning_dirs(situation)
    remarks: tuple[str, ...] = ()
    if said.plan is not None:
        file = plans.find(said.phase, said.plan, folders)
    else:
        file = _likely(folders, said, paths)
        if file is not None:
            remarks = (f"no plan was named; took the newest that fits: {file.name}",)
    text = plans.read(file)
    # The file's spelling is that of the plan's commits: 03-02, where 3-2 was said.
    named = NOBODY if file is None else identify(file, text or "")
    task = _task(text, said.task, paths)
    found_task = DocumentIdentity(task=str(task.number)) if task is not None else NOBODY
    return TaskContext(named.over(said).over(found_task), text, task, remarks)


def change_subject(situation: StepContext, found: StepChange, known: TaskContext, order: StepRequest) -> Subject:
    """The proposal of a task's change."""
    task, label = known.task, known.identity.task
    what = task.name if task is not None and task.name else f"task {label}" if label else _files(found)
    where = known.identity.words
    return Subject(
        order=order,
        identity=known.identity,
        intent=f"{where[:1].upper()}{where[1:]}, task: {what}" if where else what[:1].upper() + what[1:],
        description=task_description(known.plan_text, task, label, order.result),
        changes=found.changes,
        digest=digest_of(found.changes),
        diff=found.diff,
        base=found.base,
        branch=situation.branch,
    )


def _likely(folders: list[Path], said: DocumentIdentity, paths: list[str]) -> Path | None:
    """The plan under way that names most of the files, the newest of equals."""
    for folder in folders:
        under_way = [
            plan for plan in plans_under_way(folder) if said.phase is None or identify(plan, "").phase == said.phase
        ]
        if under_way:
            known = {plan: plans.tasks(plans.read(plan) or "") for plan in under_way}
            return max(under_way, key=lambda plan: sum(bool(plans.touching(known[plan], [path])) for path in paths))
    return None


def _task(plan: str | None, wanted: str | None, paths: list[str]) -> Task | None:
    if plan is None:
        return None
    if wanted is not None:
        return find_task(plan, wanted)
    fitting = plans.touching(plans.tasks(plan), paths)
    return fitting[0] if len(fitting) == 1 else None


def _files(found: StepChange) -> str:
    paths = [change.path for change in found.changes]
    more = f" and {len(paths) - _NAMED_PATHS} more" if len(paths) > _NAMED_PATHS else ""
    return f"change to {', '.join(paths[:_NAMED_PATHS])}{more}"
