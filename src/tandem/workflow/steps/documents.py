"""The documents of a workflow: which file a step is about, and which phase and plan a file belongs to."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

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
_FRONT_LINE = re.compile(r"^(?P<key>[a-z_]+):[ \t]*(?P<value>[^#\n]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Identity:
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

    def over(self, other: Identity) -> Identity:
        """This one, with the other's where nothing is said here."""
        return Identity(self.phase or other.phase, self.plan or other.plan, self.task or other.task)

    @property
    def words(self) -> str:
        """For a sentence: `plan 03-02`, `phase 03`; empty when nothing is known."""
        if self.plan is not None:
            return f"plan {self.key(None)}"
        return "" if self.phase is None else f"phase {self.phase}"


NOBODY = Identity()
"""Of what nobody said anything about."""


def stated(phase: str | None, plan: str | None, task: str | None) -> Identity:
    """What was said on the command line; a plan may be said with its phase, as `03-02`."""
    match = _PLAN_AND_PHASE.fullmatch(plan) if plan and phase is None else None
    if match:
        return Identity(match["phase"], match["plan"], task)
    if plan and phase and plan.startswith(f"{phase}-"):
        plan = plan.removeprefix(f"{phase}-")
    return Identity(phase, plan, task)


def identify(file: Path, text: str) -> Identity:
    """What a document belongs to, by its name, its head and its folder."""
    named = _PLAN_NAME.fullmatch(file.name)
    if named:
        return Identity(named["phase"], named["plan"])
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
    return Identity(phase, head.get("plan") or None)


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


def find_plan(identity: Identity, planning_dirs: Sequence[Path]) -> Path | None:
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
