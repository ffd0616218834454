"""What the checks look at: this machine, this user, this repository, and the broker if it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tandem.hooks.state import GateFile, Place
from tandem.workflow import gate_switch
from tandem.workflow.gate_switch import Call


@dataclass
class Circumstances:
    """Where the doctor was called.

    Attributes:
        folder: The folder that it was called in.
        home: The user's home folder.
        environment: The user's variables.
        broker: The URL that was named; null for the broker that runs for this user.
        place: The repository; null outside of one.
        url: Where the broker answers; null if it does not. Set by the broker's check, which comes first.
        call: Calls an operation of it; null if it does not answer.
        facts: What the broker says of itself; empty if it says nothing. Set by the broker's check.
    """

    folder: Path
    home: Path
    environment: Mapping[str, str]
    broker: str | None
    place: Place | None
    url: str | None = None
    call: Call | None = None
    facts: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def gate(self) -> GateFile | None:
        """The gate's switch here, if it can be read."""
        return gate_switch.switch(self.place) if self.place is not None else None

    @property
    def root(self) -> Path | None:
        """The main working tree; null outside of a repository."""
        return gate_switch.main_worktree(self.place) if self.place is not None else None
