"""The tasks of a PLAN.md: what a task was to do, so that its reviewer knows without opening the plan."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1[ \t]*$", re.DOTALL | re.MULTILINE)
_TASK = re.compile(r"<task\b[^>]*>(?P<body>.*?)</task>", re.DOTALL)
_NUMBER = re.compile(r"(?:task[ \t]*)?(?P<number>\d+)\b", re.IGNORECASE)
_LAST_NUMBER = re.compile(r"(\d+)(?!.*\d)", re.DOTALL)
_OBJECTIVE = re.compile(r"<objective>(?P<body>.*?)</objective>", re.DOTALL)
_LONGEST_CHARACTERS = 60_000


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


def find(plan: str, wanted: str) -> Task | None:
    """A task by its number (`2`, `03-02-2`, `Task 2`) or its name; null when the plan has none such."""
    known = tasks(plan)
    by_name = next((task for task in known if task.name.casefold() == wanted.strip().casefold()), None)
    number = _LAST_NUMBER.search(wanted)
    if by_name is not None or number is None:
        return by_name
    return next((task for task in known if task.number == int(number[1])), None)


def touching(plan: str, paths: Collection[str]) -> tuple[Task, ...]:
    """The tasks that say they touch any of these paths."""
    return tuple(task for task in tasks(plan) if _meets(task.files, paths))


def description(plan: str | None, task: Task | None, label: str | None, result: str | None) -> str:
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
