"""The documents of a workflow: which file a step is about, which phase and plan it belongs to, a plan's tasks."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tandem.errors import InvalidInput
from tandem.hooks.message import plan_key

FOLDER = ".planning"
_NAMES = {
    "plan": re.compile(r"(?:.+-)?PLAN\.md"),
    "context": re.compile(r"(?:.+-)?CONTEXT\.md"),
    "verification": re.compile(r"(?:.+-)?(?:VERIFICATION|UAT)\.md"),
}
_SUMMARY = re.compile(r"PLAN\.md$")
# What is over, and what is no phase's: archived milestones, notes on the code, quick looks.
_PASSED_OVER = frozenset({"milestones", "archive", "codebase", "research", "spikes", "sketches", "debug", "tmp"})
_MOST_FILES = 20_000
_PHASE = r"(?P<phase>(?:[A-Z]+-)?\d+(?:\.\d+)*[A-Za-z]?)"
_PLAN_NAME = re.compile(rf"{_PHASE}-(?P<plan>\d+)-[A-Z]+\.md")
_PHASE_NAME = re.compile(rf"{_PHASE}(?:-.*)?-?[A-Z]+\.md")
_PHASE_FOLDER = re.compile(rf"{_PHASE}-.+")
_PLAN_AND_PHASE = re.compile(rf"{_PHASE}-(?P<plan>\d+)")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1[ \t]*$", re.DOTALL | re.MULTILINE)
_TASK = re.compile(r"<task\b[^>]*>(?P<body>.*?)</task>", re.DOTALL)
_NUMBER = re.compile(r"(?:task[ \t]*)?(?P<number>\d+)\b", re.IGNORECASE)
_LAST_NUMBER = re.compile(r"(\d+)(?!.*\d)", re.DOTALL)
_OBJECTIVE = re.compile(r"<objective>(?P<body>.*?)</objective>", re.DOTALL)
_LONGEST_CHARACTERS = 60_000
_FRONT_LINE = re.compile(r"^(?P<key>[a-z_]+):[ \t]*(?P<value>[^#\n]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class DocumentIdentity:
    """What a change belongs to; null where nobody said.

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
"""Of what nobody said anything about."""


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
    named = _PLAN_NAME.fullmatch(file.name)
    if named:
        return DocumentIdentity(named["phase"], named["plan"])
    head = front_matter(text)
    phase = next(
        (
            match["phase"]
            for match in (
                _PHASE_NAME.fullmatch(file.name) if file.name[:1].isdigit() else None,
                re.match(_PHASE, head.get("phase", "")),
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
        found = candidates(step, folder)
        if found:
            return found[0]
    kind = {"plan": "PLAN.md", "context": "CONTEXT.md", "verification": "VERIFICATION.md or UAT.md"}[step]
    places = " or ".join(str(folder) for folder in planning_dirs)
    raise InvalidInput(f"There is no {kind} in {places}; name the file: tandem gate {step} FILE", field="file")


def candidates(step: str, planning_dir: Path) -> list[Path]:
    """The documents of a kind, the one written last first."""
    name = _NAMES[step]
    return sorted((file for file in _walk(planning_dir) if name.fullmatch(file.name)), key=_age)


def plans_under_way(planning_dir: Path) -> list[Path]:
    """The plans that have no summary yet, the one written last first; all of them when every one has."""
    plans = candidates("plan", planning_dir)
    return [plan for plan in plans if not plan.with_name(_SUMMARY.sub("SUMMARY.md", plan.name)).exists()] or plans


def find_plan(identity: DocumentIdentity, planning_dirs: Sequence[Path]) -> Path | None:
    """The file of a plan; null when there is none by that name."""
    for folder in planning_dirs:
        for file in candidates("plan", folder):
            known = identify(file, "")
            if _alike(known.plan, identity.plan) and (identity.phase is None or _alike(known.phase, identity.phase)):
                return file
    return None


def _alike(one: str | None, other: str | None) -> bool:
    """Whether two numbers are the same but for leading zeros."""
    return one is not None and other is not None and one.lstrip("0") == other.lstrip("0")


def _age(file: Path) -> tuple[float, str]:
    """For sorting, newest first; equal times, as after a checkout, by name."""
    try:
        return (-file.stat().st_mtime_ns, file.as_posix())
    except OSError:
        return (0, file.as_posix())


def _walk(planning_dir: Path) -> Iterator[Path]:
    seen = 0
    for folder, folders, names in os.walk(planning_dir):
        folders[:] = sorted(name for name in folders if name not in _PASSED_OVER and not name.startswith("."))
        for name in sorted(names):
            seen += 1
            if seen > _MOST_FILES:
                return
            if name.endswith(".md"):
                yield Path(folder, name)


@dataclass(frozen=True, slots=True)
class Task:
    """One task of a plan.

    Attributes:
        number: Its place in the plan, from 1, or the number in its name.
        name: Its name; empty when it has none.
        files: The paths that it says it touches.
        body: All that the plan says of it.
    """

    number: int
    name: str
    files: tuple[str, ...]
    body: str


def tasks(plan: str) -> tuple[Task, ...]:
    """The tasks of a plan, in order; those in comments and in examples are none."""
    return tuple(_task(place, match["body"]) for place, match in enumerate(_TASK.finditer(_bare(plan)), 1))


def objective(plan: str) -> str | None:
    """What a plan is for, in one line; null when it does not say."""
    found = _OBJECTIVE.search(_bare(plan))
    lines = (line.strip() for line in found["body"].splitlines()) if found else iter(())
    return next((line for line in lines if line), None)


def find_task(plan: str, wanted: str) -> Task | None:
    """A task by its number (`2`, `03-02-2`, `Task 2`) or its name; null when the plan has none such."""
    known = tasks(plan)
    by_name = next((task for task in known if task.name.casefold() == wanted.strip().casefold()), None)
    number = _LAST_NUMBER.search(wanted)
    if by_name is not None or number is None:
        return by_name
    return next((task for task in known if task.number == int(number[1])), None)


def tasks_touching(plan: str, paths: Collection[str]) -> tuple[Task, ...]:
    """The tasks that say they touch any of these paths."""
    return tuple(task for task in tasks(plan) if _meets(task.files, paths))


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


def _bare(plan: str) -> str:
    return _FENCE.sub("", _COMMENT.sub("", plan))


def _task(place: int, body: str) -> Task:
    name = re.sub(r"^Task\s*\d+\s*:\s*", "", _element("name", body), flags=re.IGNORECASE)
    numbered = _NUMBER.match(_element("name", body)) if _element("name", body).casefold().startswith("task") else None
    listed = re.split(r"[,\n]", _element("files", body))
    files = tuple(file.strip().strip("`") for file in listed if file.strip())
    return Task(int(numbered["number"]) if numbered else place, name, files, body.strip())


def _element(name: str, body: str) -> str:
    found = re.search(rf"<{name}>(.*?)</{name}>", body, re.DOTALL)
    return found[1].strip() if found else ""


def _meets(named: Sequence[str], paths: Collection[str]) -> bool:
    return any(path == one or PurePosixPath(path).match(one) for one in named for path in paths)
