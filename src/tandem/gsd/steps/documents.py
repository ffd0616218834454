"""The documents of a workflow: which file a step is about, which phase and plan it belongs to, a plan's tasks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tandem.errors import InvalidInput
from tandem.rulings import plans
from tandem.rulings.message import plan_key
from tandem.rulings.plans import Task

_NAMES = {
    "plan": plans.PLAN,
    "context": re.compile(r"(?:.+-)?CONTEXT\.md"),
    "verification": re.compile(r"(?:.+-)?(?:VERIFICATION|UAT)\.md"),
}
_SUMMARY = re.compile(r"PLAN\.md$")
_PHASE_NAME = re.compile(rf"{plans.PHASE}(?:-.*)?-?[A-Z]+\.md")
_PHASE_FOLDER = re.compile(rf"{plans.PHASE}-.+")
_PLAN_AND_PHASE = re.compile(rf"{plans.PHASE}-(?P<plan>\d+)")
_LAST_NUMBER = re.compile(r"(\d+)(?!.*\d)", re.DOTALL)
_OBJECTIVE = re.compile(r"<objective>(?P<body>.*?)</objective>", re.DOTALL)
_LONGEST_CHARACTERS = 60_000
_FRONT_LINE = re.compile(r"^(?P<key>[a-z_]+):[ \t]*(?P<value>[^#\n]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class DocumentIdentity:
    """What a change belongs to; None where nobody said.

    Attributes:
        phase: E.g. `03`.
        plan: E.g. `02`, without its phase.
        task: E.g. `1`.
    """

    phase: str | None = None
    plan: str | None = None
    task: str | None = None

    def key(self, branch: str | None) -> str:
        """The plan's one name with the broker, as the hooks have it."""
        return plan_key(self.phase, self.plan, branch)

    def fields(self) -> dict[str, str]:
        """What is known, as fields of a request."""
        stated = {"phase": self.phase, "plan": self.plan, "task": self.task}
        return {name: value for name, value in stated.items() if value is not None}

    def over(self, other: DocumentIdentity) -> DocumentIdentity:
        """This one, with the other's where nothing is said here."""
        return DocumentIdentity(self.phase or other.phase, self.plan or other.plan, self.task or other.task)

    @property
    def words(self) -> str:
        """For a sentence: `plan 03-02`, `phase 03`; empty when nothing is known."""
        if self.plan is not None:
            return f"plan {self.key(None)}"
        return "" if self.phase is None else f"phase {self.phase}"


NOBODY = DocumentIdentity()
"""Of a change of which nothing is known."""


def stated(phase: str | None, plan: str | None, task: str | None) -> DocumentIdentity:
    """What was said on the command line; a plan may be said with its phase, as `03-02`."""
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
    for folder in planning_dirs:
        found = plans.documents(_NAMES[step], folder)
        if found:
            return found[0]
    kind = {"plan": "PLAN.md", "context": "CONTEXT.md", "verification": "VERIFICATION.md or UAT.md"}[step]
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
