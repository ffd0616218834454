"""What a step is told to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tandem.workflow.steps.documents import NOBODY, Identity


@dataclass(frozen=True, slots=True)
class Order:
    """What a step was told.

    Attributes:
        step: `plan`, `context`, `task`, `wave` or `verification`.
        command: The command that runs it again.
        accept_command: The command that takes the counter-patch of its review.
        identity: What was said of phase, plan and task.
        file: The document.
        draft: What the document is to hold.
        result: What verifying a task or a wave gave.
        claim: Whether a verification passed: `passed` or `failed`; null for what its head says.
        staged: Whether only what the index holds is put up.
        since: The commit that a wave is compared with.
        branches: The branches of a wave.
        accept: Whether the pending counter-patch is taken.
        timeout_seconds: How long to wait; null for as long as it takes.
    """

    step: str
    command: str
    accept_command: str
    identity: Identity = NOBODY
    file: Path | None = None
    draft: bytes | None = None
    result: str | None = None
    claim: str | None = None
    staged: bool = False
    since: str | None = None
    branches: tuple[str, ...] = ()
    accept: bool = False
    timeout_seconds: float | None = None
