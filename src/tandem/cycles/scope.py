"""Whose cycle a call is about: the project, the workflow, and the session that vouches for a role."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Protocol

from tandem.contract.caller import Caller
from tandem.cycles import queries as cycles
from tandem.cycles.rules import Cycle, Session, workflow_of
from tandem.errors import ConfigInvalid, InvalidInput, InvalidSession, NoActiveCycle
from tandem.reviews.context import Services
from tandem.settings.workflows import BUILT_IN, Workflow, quoted
from tandem.store.base import Unit


class WorkflowScope(Protocol):
    """What requests say of the project and workflow that they are about; None where they name none."""

    project: str | None
    workflow: str | None


class SessionScope(WorkflowScope, Protocol):
    """What requests say that a session vouches for."""

    session_token: str


@dataclass(frozen=True, slots=True)
class CycleScope:
    """What a call stands on.

    Attributes:
        project: The project.
        workflow: The running cycle's own workflow, or the one a new cycle would have.
        cycle: The newest cycle, under way or archived; None if there was none yet.
    """

    project: str
    workflow: Workflow
    cycle: Cycle | None

    @property
    def active(self) -> Cycle | None:
        """The cycle under way."""
        return self.cycle if self.cycle is not None and self.cycle.archived_at is None else None

    def require_active(self) -> Cycle:
        """The cycle under way.

        Raises:
            NoActiveCycle: There is none.
        """
        if self.active is None:
            raise NoActiveCycle(
                f"No cycle of '{self.workflow.name}' is under way in '{self.project}'; begin one with cycle_start.",
                project=self.project,
                workflow=self.workflow.name,
            )
        return self.active


def look(unit: Unit, services: Services, caller: Caller, request: WorkflowScope) -> CycleScope:
    """The project and workflow of a call that needs no session.

    Raises:
        InvalidInput: The project is not clear, or there is no such workflow.
    """
    project = services.projects.require(request.project, caller.project)
    return _standing(unit, services, project, request.workflow, lock=False)


def enter(
    unit: Unit, services: Services, caller: Caller, request: SessionScope, *, lock: bool = True
) -> tuple[CycleScope, Session]:
    """The standing of a call by a session; without project and workflow they are the session's own.

    Args:
        unit: The unit of work.
        services: The services.
        caller: Who calls.
        request: Names its session, project and workflow.
        lock: Whether to lock the cycle.

    Raises:
        InvalidInput: The project is not clear, or there is no such workflow.
        ConfigInvalid: A role of the workflow has no key.
        InvalidSession: There is no such session, or it has ended, or is for another project or workflow.
    """
    token = request.session_token
    session = _session(unit, services, token)
    own = (session.project, session.workflow) if session else (None, None)
    project = services.projects.resolve(request.project, own[0], caller.project)
    if project is None:
        raise _no_session(services, token)
    standing = _standing(unit, services, project, request.workflow or own[1], lock=lock)
    require_keys(unit, standing)
    if session is None:
        raise _no_session(services, token)
    if session.ended_at is not None or session.idle(services.clock.now_us(), services.policy.session_idle_seconds):
        raise _ended(session, session.end_reason or "idle")
    if (session.project, session.workflow) != (standing.project, standing.workflow.name):
        raise InvalidSession(
            f"This session is for '{session.workflow}' in '{session.project}', not for '{standing.workflow.name}' in"
            f" '{standing.project}'; open one there with session_open.",
            expected={"project": standing.project, "workflow": standing.workflow.name},
            actual={"project": session.project, "workflow": session.workflow},
        )
    return standing, session


def used(unit: Unit, services: Services, session: Session) -> None:
    """Note that a session was used: the last statement of a unit, as its row is locked after the log head.

    Raises:
        InvalidSession: It was ended while the unit waited for its turn; nothing of the unit is kept.
    """
    if not cycles.touch_session(unit, session.id, services.clock.now_us()):
        raise _ended(session, "closed")


def without_key(unit: Unit, standing: CycleScope) -> list[str]:
    """The roles that have no key, or one that was revoked."""
    keys = cycles.list_keys(unit, standing.project, standing.workflow.name)
    return [role for role in standing.workflow.roles if role not in keys or keys[role].revoked_at is not None]


def making_keys(standing: CycleScope) -> str:
    """The command by which a person makes the keys that there are not."""
    return f"tandem cycle init --project {shlex.quote(standing.project)} --workflow {standing.workflow.name}"


def require_keys(unit: Unit, standing: CycleScope) -> None:
    """Refuse everything sensitive while a role has no key: no session could take its turn.

    Raises:
        ConfigInvalid: A role has none, or its key was revoked.
    """
    missing = without_key(unit, standing)
    if missing:
        raise ConfigInvalid(
            f"No key for {' and '.join(missing)} of '{standing.workflow.name}' in '{standing.project}'. Make the keys"
            f" with: {making_keys(standing)}",
            setting="keys",
            missing=missing,
            project=standing.project,
            workflow=standing.workflow.name,
        )


def _standing(unit: Unit, services: Services, project: str, workflow: str | None, *, lock: bool) -> CycleScope:
    name = workflow
    if name is None:
        prepared = cycles.list_workflows_with_keys(unit, project)
        name = prepared[0] if len(prepared) == 1 else BUILT_IN.name
    # Rows are locked in one order: cycle, review, log head, session. So no two units wait for each other.
    newest = cycles.find_newest(unit, project, name, lock=lock)
    if newest is not None and newest.archived_at is None:
        return CycleScope(project, workflow_of(newest), newest)
    found = services.workflows.get(name)
    if found is None:
        raise InvalidInput(
            f"{quoted(name)} is no workflow; declare it in the configuration, or use one of: "
            f"{', '.join(services.workflows)}.",
            field="workflow",
            allowed=list(services.workflows),
        )
    return CycleScope(project, found, newest)


def _session(unit: Unit, services: Services, token: str) -> Session | None:
    session_id = services.tokens.session_id_of(token)
    return cycles.find_session(unit, session_id) if session_id else None


def _ended(session: Session, why: str) -> InvalidSession:
    return InvalidSession(
        f"This session of {session.role} has ended ({why}); open a new one with session_open.",
        role=session.role,
        reason=why,
    )


def _no_session(services: Services, token: str) -> InvalidSession:
    if services.tokens.made_by_another_key(token):
        return InvalidSession(
            "This session was opened by a broker with another secret key. Open a new one with session_open; brokers on"
            " one database need the same secret_key_file."
        )
    return InvalidSession("There is no such session; open one with session_open and send its session_token.")
