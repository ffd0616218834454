"""Where a step runs, its arguments, whether changes are reviewed here, and which reviews it submitted before.

Only local files are read, so that a project without reviews costs one look and no network.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pydantic import BaseModel

from tandem.bridge.location import BrokerLocation, locate
from tandem.core import platforms
from tandem.core.atomic_dirs import turn
from tandem.core.files import write_atomically
from tandem.errors import ConfigInvalid, InvalidInput, Unavailable
from tandem.git.place import shell_quoted
from tandem.rulings import ask, git, planning, state, trust
from tandem.rulings.message import plan_key


@dataclass(frozen=True, slots=True)
class DocumentIdentity:
    """The work that a change belongs to; None where no caller said.

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
        """The known ones, as fields of a request."""
        return {name: value for name, value in asdict(self).items() if value is not None}

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


@dataclass(frozen=True, slots=True)
class StepRequest:
    """What a step was told.

    Attributes:
        step: `plan`, `context`, `task`, `wave` or `verification`.
        command: The command that runs it again.
        accept_command: The command that takes the counter-patch of its review.
        identity: Phase, plan and task, as far as they were named.
        file: The document.
        draft: The content that the document will get.
        result: What verifying a task or a wave gave.
        claim: Whether a verification passed: `passed` or `failed`; None for what its head says.
        staged: Whether only the content of the index is proposed.
        since: The commit that a wave is compared with.
        branches: The branches of a wave.
        accept: Whether the pending counter-patch is taken.
        timeout_seconds: How long to wait.
    """

    step: str
    command: str
    accept_command: str
    identity: DocumentIdentity = NOBODY
    file: Path | None = None
    draft: bytes | None = None
    result: str | None = None
    claim: str | None = None
    staged: bool = False
    since: str | None = None
    branches: tuple[str, ...] = ()
    accept: bool = False
    timeout_seconds: float = 0.0


def seconds_until(deadline: float) -> float:
    """The seconds that are left, by the monotonic clock; 0 when the time is over."""
    return max(0.0, deadline - time.monotonic())


@dataclass(frozen=True, slots=True)
class StepContext:
    """One working tree and what holds in it.

    Attributes:
        folder: Where the command runs.
        place: The repository; None outside of git.
        planning: What the project's files say.
        gate: The gate's switch, if it is on.
    """

    folder: Path
    place: state.HookRepository | None
    planning: planning.PlanningFile
    gate: state.GateFile | None

    @property
    def is_disabled(self) -> bool:
        """Whether nothing is reviewed here: the workflow does not submit, and no gate would refuse."""
        return planning.is_disabled(self.planning, self.gate)

    @property
    def repository(self) -> state.HookRepository:
        """The repository.

        Raises:
            InvalidInput: The command runs outside of git.
        """
        if self.place is None or self.place.top is None:
            raise InvalidInput(
                f"{self.folder} is in no working tree of git; run this inside of the project.", field="path"
            )
        return self.place

    @property
    def root(self) -> Path:
        """The top of this working tree."""
        return Path(self.repository.top or self.folder)

    @property
    def main_root(self) -> Path:
        """The top of the main working tree, where the configuration is."""
        return Path(self.planning.root)

    @property
    def branch(self) -> str | None:
        """The branch that is checked out; None if HEAD is detached.

        Raises:
            Unavailable: HEAD cannot be read.
        """
        return git.branch(self.repository)

    @property
    def is_strict_here(self) -> bool:
        """Whether the gate refuses every unapproved commit here, also against GSD's settings."""
        branch = self.branch
        return self.gate is not None and (branch is None or branch in self.gate.branches)

    def effective(self) -> planning.PlanningFile:
        """The settings that hold, after trust."""
        folder = self.gate.config_dir if self.gate else os.environ.get("TANDEM_CONFIG_DIR") or platforms.config_dir()
        return planning.effective(
            self.planning, trusted=trust.trusts(folder, planning.trusted_as(self.planning.root), self.planning.sources)
        )

    def broker(self, stated: str | None) -> BrokerLocation:
        """Where the broker is: where the person says, else where the gate says, else this user's own.

        Raises:
            Unavailable: The gate's broker has left no address.
        """
        gate = self.gate
        if stated is not None or gate is None:
            return locate(stated, str(self.folder))
        found = ask.location_of(gate)
        if found.url is None:
            raise Unavailable(
                f"The gate is on and no broker runs on {gate.data_dir}. Start it with: "
                f"tandem up --background --data-dir {shell_quoted(gate.data_dir)}",
                data_dir=gate.data_dir,
            )
        return found


def look(folder: Path) -> StepContext:
    """The situation in a folder.

    Raises:
        ConfigInvalid: The gate's switch cannot be read, so that it is unknown whether the gate is on.
    """
    here = str(folder)
    place = state.find_repository(here)
    try:
        gate = None if place is None else state.find(place)
    except state.GateUnreadable as problem:
        raise ConfigInvalid(str(problem), setting="gate", origin=problem.path) from problem
    return StepContext(folder, place, planning.read(here), gate if gate is not None and gate.enabled else None)


FILE = "steps.json"
_LOCK = "steps.lock"
_VERSION = 1
_MOST = 500
"""Of the pointers that are kept: the oldest go first."""
_PATIENCE_SECONDS = 10.0
"""Another step holds the lock for milliseconds."""


@dataclass(frozen=True, slots=True)
class StepPointer:
    """What a step proposed last.

    Attributes:
        review_id: The review.
        round: The round that was made of it.
        digest: Of the proposed content, as it was computed here.
        base: What a change was made against; None for a text.
        claim: Its result: `passed` or `failed`.
        plan_key: The plan it belongs to.
        approved: The digest that was seen approved: its review is closed once that is committed.
        is_optimistic: Whether no step waited for its verdict.
    """

    review_id: str
    round: int
    digest: str
    base: str | None = None
    claim: str | None = None
    plan_key: str | None = None
    approved: str | None = None
    is_optimistic: bool = False


class _Document(BaseModel):
    version: int = _VERSION
    pointers: dict[str, StepPointer]


class Pointers:
    """The pointers of a repository. Safe to use from several processes; a change raises Unavailable if it cannot be."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / FILE

    def find(self, key: str) -> StepPointer | None:
        """The newest proposal under a key."""
        return self.all().get(key)

    def all(self) -> dict[str, StepPointer]:
        """Every pointer by its key, oldest first; none where the file cannot be read, as nothing hangs on it."""
        try:
            return _Document.model_validate_json(self._file.read_bytes()).pointers
        except (OSError, ValueError):
            return {}

    def put(self, key: str, pointer: StepPointer) -> None:
        """Remember a pointer as the newest."""
        with self._changing() as pointers:
            pointers.pop(key, None)
            pointers[key] = pointer

    def forget(self, key: str, review_id: str) -> None:
        """Drop a pointer, unless it is another review's by now."""
        with self._changing() as pointers:
            if key in pointers and pointers[key].review_id == review_id:
                del pointers[key]

    def mark_approved(self, key: str, review_id: str, digest: str | None) -> None:
        """Remember that a review was seen approved, and with which digest where that is known."""
        with self._changing() as pointers:
            if key in pointers and pointers[key].review_id == review_id:
                pointers[key] = replace(pointers[key], approved=digest or pointers[key].digest)

    @contextmanager
    def _changing(self) -> Generator[dict[str, StepPointer]]:
        """The pointers, to be changed; one process at a time, for as long as it lives."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with turn(self._folder / _LOCK, _PATIENCE_SECONDS):
                pointers = self.all()
                yield pointers
                kept = _Document(pointers=dict(list(pointers.items())[-_MOST:])).model_dump_json(indent=1)
                write_atomically(self._file, kept.encode() + b"\n", mode=0o644, durable=False)
        except OSError as error:
            raise Unavailable(
                f"{self._file} cannot be written ({error.strerror or error}); see to the permissions of that folder, "
                "then run the same command again."
            ) from error
