"""GSD's plans: where the file of one is, its tasks, and which of them a commit does."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from tandem.rulings import git, message, planning, state

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from typing import Any

    from tandem.rulings.state import HookRepository

FOLDER = ".planning"
RECORDING = "record_commit"
PHASE = r"(?P<phase>(?:[A-Z]+-)?\d+(?:\.\d+)*[A-Za-z]?)"
NAME = re.compile(rf"{PHASE}-(?P<plan>\d+)-[A-Z]+\.md")
"""The name of a document, with its phase and plan."""

PLAN = re.compile(r"(?:.+-)?PLAN\.md")
# Folders of finished work or of no phase: archived milestones, notes on the code, quick looks.
_PASSED_OVER = frozenset({"milestones", "archive", "codebase", "research", "spikes", "sketches", "debug", "tmp"})
_MOST_FILES = 20_000
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1[ \t]*$", re.DOTALL | re.MULTILINE)
_TASK = re.compile(r"<task\b[^>]*>(?P<body>.*?)</task>", re.DOTALL)
_NUMBER = re.compile(r"(?:task[ \t]*)?(?P<number>\d+)\b", re.IGNORECASE)


class Task(NamedTuple):
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


def with_task(
    place: HookRepository, belongs: dict[str, str], paths: Collection[str], parent: str | None
) -> dict[str, str]:
    """What a commit belongs to, with its task, which GSD's subjects such as `feat(03-02): …` leave out.

    It is the plan's one task that names any of the paths. Where there is none, or several, their order decides: GSD
    makes a commit for each task, one after the other.

    Args:
        place: The repository.
        belongs: The `phase`, `plan` and `task` that somebody said.
        paths: Those that the commit changes.
        parent: The commit before it; None if it is the first.

    Raises:
        TandemError: The plan's earlier commits cannot be counted.
    """
    phase, plan = belongs.get("phase"), belongs.get("plan")
    if phase is None or plan is None or "task" in belongs or all(path.startswith(f"{FOLDER}/") for path in paths):
        return belongs
    known = tasks(read(find(phase, plan, _folders(place))) or "")
    fitting = touching(known, paths)
    if len(fitting) == 1:
        return {**belongs, "task": str(fitting[0].number)}
    number = _commits_before(place, phase, plan, parent) + 1
    named = [task.number for task in fitting or known] or [number]
    return {**belongs, "task": str(next((one for one in named if one >= number), named[-1]))}


def record_request(
    place: HookRepository, commit: str, branch: str | None, replaces: str | None = None
) -> dict[str, Any]:
    """What `record_commit` is told of a commit.

    Raises:
        TandemError: It cannot be read.
    """
    parents, text = git.read_commit(place, commit)
    belongs = message.belonging(message.subject(text))
    parent = parents[0] if parents else None
    changes = git.between(place, parent, commit)
    belongs = with_task(place, belongs, [change["path"] for change in changes], parent)
    stated: dict[str, Any] = {
        "commit": commit,
        "parent": parent,
        "branch": branch,
        "phase": belongs.get("phase"),
        "plan": message.plan_key(belongs.get("phase"), belongs.get("plan"), branch),
        "task": belongs.get("task"),
        "review_ids": message.reviews(text),
        "unreviewed": message.UNREVIEWED in message.values(text, message.REVIEW),
        "replaces": replaces,
        "depends_on": message.values(text, message.DEPENDS_ON),
        "changes": changes,
    }
    return {name: value for name, value in stated.items() if value is not None}


def _commits_before(place: HookRepository, phase: str, plan: str, parent: str | None) -> int:
    """How many commits of a plan there are that no base branch has."""
    if parent is None:
        return 0
    gate = state.find(place)
    tips = [git.resolve(place, f"refs/heads/{branch}") for branch in gate.branches] if gate is not None else []
    subject = rf"^[a-z]+\({re.escape(f'{phase}-{plan}')}(-[0-9]+)?\)!?:"
    command = ["rev-list", "--count", "--no-merges", "--extended-regexp", f"--grep={subject}", parent, "--not"]
    return int(git.run(place, [*command, *(tip for tip in tips if tip is not None), "--"]).text)


def _folders(place: HookRepository) -> list[Path]:
    root = place.top or place.git_dir
    main_root = planning.project_root(root)
    return folders(Path(root), Path(main_root), planning.active_workstream(os.path.join(main_root, FOLDER)))


def folders(root: Path, main_root: Path, workstream: str | None) -> list[Path]:
    """Where a working tree's documents are, then the main one's: a linked tree may lack an ignored `.planning`."""
    inner = [Path("workstreams", workstream)] if workstream else []
    found = [one / FOLDER / part for one in (root, main_root) for part in (*inner, Path())]
    return [folder for folder in dict.fromkeys(found) if folder.is_dir()]


def find(phase: str | None, plan: str | None, planning_dirs: Sequence[Path]) -> Path | None:
    """The file of a plan, of the phase if that is said; None when there is none by that name."""
    for folder in planning_dirs:
        for file in documents(PLAN, folder):
            known = NAME.fullmatch(file.name)
            if known and _alike(known["plan"], plan) and (phase is None or _alike(known["phase"], phase)):
                return file
    return None


def read(file: Path | None) -> str | None:
    """What a plan says; None if there is none, or it cannot be read: the change is judged without it."""
    try:
        return None if file is None else file.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def documents(name: re.Pattern[str], planning_dir: Path) -> list[Path]:
    """The documents whose names are of a kind, the one written last first."""
    return sorted((file for file in _walk(planning_dir) if name.fullmatch(file.name)), key=_age)


def tasks(plan: str) -> tuple[Task, ...]:
    """The tasks of a plan, in order; those in comments and in examples are none."""
    return tuple(_task(place, match["body"]) for place, match in enumerate(_TASK.finditer(bare(plan)), 1))


def touching(known: Collection[Task], paths: Collection[str]) -> tuple[Task, ...]:
    """The tasks that say they touch any of these paths."""
    return tuple(task for task in known if _meets(task.files, paths))


def bare(plan: str) -> str:
    """A plan without its comments and examples."""
    return _FENCE.sub("", _COMMENT.sub("", plan))


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
    for folder, inner, names in os.walk(planning_dir):
        inner[:] = sorted(name for name in inner if name not in _PASSED_OVER and not name.startswith("."))
        for name in sorted(names):
            seen += 1
            if seen > _MOST_FILES:
                return
            if name.endswith(".md"):
                yield Path(folder, name)


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
