"""Which plan a commit belongs to: by its subject, by the environment, else by its branch."""

from __future__ import annotations

import os
import re

_SUBJECT = re.compile(r"[a-z]+\((?P<phase>\d+(?:\.\d+)*[A-Za-z]?)-(?P<plan>\d+)(?:-(?P<task>\d+))?\)!?:")
_LONGEST_NAME = 200
"""Of the names that the contract takes."""


class Belonging:
    """The phase, plan and task of a commit; null where nobody said.

    Attributes:
        phase: E.g. `03`.
        plan: E.g. `02`.
        task: E.g. `1`.
    """

    __slots__ = ("phase", "plan", "task")

    def __init__(self, phase: str | None = None, plan: str | None = None, task: str | None = None) -> None:
        self.phase = phase
        self.plan = plan
        self.task = task

    def facts(self) -> dict[str, str]:
        """What is known, as fields of a request."""
        stated = {"phase": self.phase, "plan": self.plan, "task": self.task}
        return {name: value for name, value in stated.items() if value is not None}


def belonging(subject: str) -> Belonging:
    """What a commit's subject such as `feat(03-02): retry uploads` says; the environment fills in the rest.

    `TANDEM_PHASE`, `TANDEM_PLAN` and `TANDEM_TASK` are how an agent names them for commits with free subjects.
    """
    found = _SUBJECT.match(subject)
    said = Belonging(found["phase"], found["plan"], found["task"]) if found else Belonging()
    return Belonging(
        said.phase or _stated("TANDEM_PHASE"), said.plan or _stated("TANDEM_PLAN"), said.task or _stated("TANDEM_TASK")
    )


def plan_key(phase: str | None, plan: str | None, branch: str | None) -> str:
    """The one name of a plan with the broker: `PHASE-PLAN`, or the branch where there is none."""
    if plan is not None:
        return plan if phase is None or plan == phase or plan.startswith(f"{phase}-") else f"{phase}-{plan}"
    return branch or "HEAD"


def _stated(variable: str) -> str | None:
    return os.environ.get(variable, "").strip()[:_LONGEST_NAME] or None
