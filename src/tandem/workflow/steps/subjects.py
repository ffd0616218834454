"""What a step puts up: exactly which content, and under which name it is found again."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from tandem.domain.gates import Change
from tandem.git import Repository, digest_of
from tandem.git.patch import only_files
from tandem.workflow.steps.documents import Identity
from tandem.workflow.steps.outcomes import Outcome, Word

ROLES = {
    "plan": "planner",
    "context": "discusser",
    "task": "executor",
    "wave": "executor",
    "verification": "verifier",
}
"""Who does a step, unless the caller says: `planner` is what makes a review critical."""

CATEGORIES = {
    "plan": "plan_review",
    "context": "handoff",
    "task": "code_change",
    "wave": "code_change",
    "verification": "verification",
}
"""The category of each step's reviews."""


def document_key(step: str, path: str) -> str:
    """What the pointer to a document's review is kept under."""
    return json.dumps([CATEGORIES[step], path])


@dataclass(frozen=True, slots=True)
class Subject:
    """One content with everything that is said about it.

    Attributes:
        step: `plan`, `context`, `task`, `wave` or `verification`.
        identity: What it belongs to.
        intent: What it is for, in a line.
        description: The text itself where there is a path; else what is said beside the diff.
        changes: The raw difference: what the gate is asked about.
        digest: What an approval of it binds to.
        command: The command that runs the step again.
        accept_command: The command that takes the reviewer's counter-patch.
        path: The file whose whole content it is.
        diff: The change; null for a text.
        base: What the change is made against; null for a text.
        branch: The branch it is on; null if HEAD is detached.
        metadata: Facts for the reviewer, and for whoever reads the log.
        claim: What is said of the content that an approval must be of as well: `passed` or `failed`.
        is_draft: Whether the text is not in its file yet.
        is_committed: Whether the content is in a commit already.
        is_optimistic: Whether nobody waits for its verdict: then each content is a review of its own.
    """

    step: str
    identity: Identity
    intent: str
    description: str
    changes: tuple[Change, ...]
    digest: str
    command: str
    accept_command: str
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
    def category(self) -> str:
        """The category of its review."""
        return CATEGORIES[self.step]

    @property
    def plan_key(self) -> str:
        """The plan's one name."""
        return self.identity.key(self.branch)

    @property
    def key(self) -> str:
        """What its pointer is kept under: a text by its path, a change by what it belongs to."""
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
        stated: dict[str, Any] = {"intent": self.intent, "category": self.category, "description": self.description}
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

    def outcome(self, word: Word, **facts: Any) -> Outcome:
        """An outcome of the step with what is known of the content."""
        known: dict[str, Any] = {
            "phase": self.identity.phase,
            "plan": self.identity.plan,
            "task": self.identity.task,
            "path": self.path,
            "files": self.paths,
        }
        return Outcome(word, self.step, **(known | facts))
