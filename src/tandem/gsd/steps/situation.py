"""Where a step runs and what it was told: which repository, under which settings, and whether anybody reviews here.

Only local files are read, so that solo mode costs one look and no network.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from tandem.bridge.location import BrokerLocation, locate
from tandem.core import platforms
from tandem.errors import ConfigInvalid, InvalidInput, Unavailable
from tandem.gsd.steps.documents import NOBODY, DocumentIdentity
from tandem.rulings import ask, git, planning, state, trust


@dataclass(frozen=True, slots=True)
class StepRequest:
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
    identity: DocumentIdentity = NOBODY
    file: Path | None = None
    draft: bytes | None = None
    result: str | None = None
    claim: str | None = None
    staged: bool = False
    since: str | None = None
    branches: tuple[str, ...] = ()
    accept: bool = False
    timeout_seconds: float | None = None


class Deadline:
    """Until when to wait; without seconds for as long as it takes."""

    def __init__(self, seconds: float | None) -> None:
        """Begins now."""
        self._at = None if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float | None:
        """Seconds from now; null without an end."""
        return None if self._at is None else max(0.0, self._at - time.monotonic())


@dataclass(frozen=True, slots=True)
class StepContext:
    """One working tree and what holds in it.

    Attributes:
        folder: Where the command runs.
        place: The repository; null outside of git.
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
        """The branch that is checked out; null if HEAD is detached.

        Raises:
            Unavailable: HEAD cannot be read.
        """
        return git.branch(self.repository)

    @property
    def is_strict_here(self) -> bool:
        """Whether the gate takes no commit here that is not approved, whatever the settings: as its hook decides."""
        branch = self.branch
        return self.gate is not None and (branch is None or branch in self.gate.branches)

    def effective(self) -> planning.EffectiveSettings:
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
                f"tandem up --background --data-dir {gate.data_dir}",
                data_dir=gate.data_dir,
            )
        return found


def look(folder: Path) -> StepContext:
    """The situation in a folder.

    Raises:
        ConfigInvalid: The gate's switch cannot be read, so that nobody knows whether the gate is on.
    """
    here = str(folder)
    place = state.find_repository(here)
    try:
        gate = None if place is None else state.find(place)
    except state.GateUnreadable as problem:
        raise ConfigInvalid(str(problem), setting="gate", origin=problem.path) from problem
    return StepContext(folder, place, planning.read(here), gate if gate is not None and gate.enabled else None)
