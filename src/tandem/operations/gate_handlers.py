"""From a typed request on a gate to the one service function that does it."""

from __future__ import annotations

from tandem.contract.caller import Caller
from tandem.contract.request import ProjectRequest
from tandem.domain import gate_answers as answers
from tandem.domain.answers import GateDecision
from tandem.domain.gates import Change
from tandem.errors import InvalidInput
from tandem.operations import gate_requests as ask
from tandem.operations.handlers import call_of
from tandem.operations.requests import CheckGate, GateChange
from tandem.services import commits, gate_switch, gates
from tandem.services.commits import NewCommit, NewRollback, Wanted
from tandem.services.context import Services
from tandem.services.gate_switch import NewOverride, Position


async def check_gate(services: Services, request: CheckGate, _caller: Caller) -> GateDecision:
    """Whether exactly this content may pass."""
    if (request.digest is None) == (request.changes is None):
        raise InvalidInput("Send either changes or digest.", field="changes")
    if request.digest is not None:
        return await gates.check_digest(services, request.project, request.digest)
    asked = gates.Asked(_changes(request.changes), request.head, request.base)
    return await gates.check_changes(services, request.project, asked)


async def set_gate(services: Services, request: ask.SetGate, caller: Caller) -> answers.GateState:
    """Switch it."""
    wanted = Position(request.enabled, request.branches, request.accepted, request.reason)
    return await gate_switch.switch(services, call_of(caller), _project(services, request, caller), wanted)


async def get_gate(services: Services, request: ask.GetGate, caller: Caller) -> answers.GateState:
    """How it stands."""
    return await gate_switch.state(services, _project(services, request, caller), request.plan)


async def override_gate(services: Services, request: ask.OverrideGate, caller: Caller) -> answers.GateOverridden:
    """Let something through."""
    new = NewOverride(_changes(request.changes), request.reason, request.override_id, request.branch, request.at)
    return await gate_switch.override(services, call_of(caller), _project(services, request, caller), new)


async def record_commit(services: Services, request: ask.RecordCommit, caller: Caller) -> answers.CommitRecord:
    """Remember a commit."""
    new = NewCommit(
        id=request.commit,
        parent=request.parent,
        branch=request.branch,
        phase=request.phase,
        plan=request.plan,
        task=request.task,
        review_ids=request.review_ids,
        unreviewed=request.unreviewed,
        replaces=request.replaces,
        depends_on=request.depends_on,
        changes=None if request.changes is None else _changes(request.changes),
    )
    return await commits.record(services, call_of(caller), _project(services, request, caller), new)


async def list_commits(services: Services, request: ask.ListCommits, caller: Caller) -> answers.CommitPage:
    """What was recorded."""
    wanted = Wanted(request.plan, request.review_id, request.commits)
    project = _project(services, request, caller)
    return await commits.list_page(services, project, wanted, limit=request.limit, page=request.page)


async def record_rollback(services: Services, request: ask.RecordRollback, caller: Caller) -> answers.RollbackRecorded:
    """Remember what was rolled back."""
    new = NewRollback(
        branch=request.branch,
        head_before=request.head_before,
        head_after=request.head_after,
        reverted=[(one.commit, one.reverted_by) for one in request.reverted],
        carried=[(one.commit, one.becomes) for one in request.carried],
        rework=request.rework,
    )
    return await commits.record_rollback(services, call_of(caller), request.review_id, request.project, new)


def _project(services: Services, request: ProjectRequest, caller: Caller) -> str:
    return services.projects.require(request.project, caller.project)


def _changes(sent: list[GateChange] | None) -> list[Change]:
    return [Change(**change.model_dump()) for change in sent or ()]
