"""The switch of a project's gate, and what a person lets through it."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import orjson

from tandem.contract.answer import shown
from tandem.contract.caller import Caller
from tandem.core.clock import MICROSECONDS, isoformat
from tandem.errors import Forbidden, InvalidInput, NotFound
from tandem.gate import commit_queries as commits
from tandem.gate import queries as gates
from tandem.gate.contract import GateOverridden, GateState, GetGate, OverrideGate, PlanState, SetGate
from tandem.gate.judging import changes_of, check_paths
from tandem.gate.rules import Gate, Override
from tandem.git.changes import Change
from tandem.git.raw import digest_of
from tandem.hooks import proof
from tandem.reviews import contents
from tandem.store import events
from tandem.store.base import Unit
from tandem.store.context import Services, transact

_SHOWN_PATHS = 100
_CLOCKS_DIFFER_US = 86_400 * MICROSECONDS
"""How far the clock of whoever tells of an override may be ahead."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


async def set_gate(services: Services, caller: Caller, request: SetGate) -> GateState:
    """Switch a gate on or off; how it stands already stays without an event.

    Raises:
        NotFound: The project's folder is not registered, so that nobody could judge its commits.
    """
    project = services.projects.require(request.project, caller.project)
    contents.check_text(services, "reason", request.reason)

    def work(unit: Unit) -> GateState:
        events.lock(unit)
        before = gates.find(unit, project)
        if request.enabled and services.projects.root(project) is None:
            raise _unknown(services, project)
        require_known(services, unit, project)
        after = Gate(
            project=project,
            enabled=int(request.enabled),
            branches=_listed(request.branches, before.branches if before else "[]"),
            accepted=_listed(request.accepted, before.accepted if before else "[]"),
            reason=request.reason,
            switched_at=services.clock.now_us(),
            switched_by=caller.operator,
        )
        if before is not None and before[:4] == after[:4]:
            return _state(project, before)
        return _state(project, gates.put(unit, before, after))

    return await transact(services, caller, work)


async def get_gate(services: Services, caller: Caller, request: GetGate) -> GateState:
    """Whether a gate is on, and where one plan stands.

    Raises:
        NotFound: The broker does not know the project.
    """
    return await state_of(services, services.projects.require(request.project, caller.project), request.plan)


async def state_of(services: Services, project: str, plan: str | None = None) -> GateState:
    """Whether a gate is on, and where one plan stands.

    Raises:
        NotFound: The broker does not know the project.
    """

    def work(unit: Unit) -> GateState:
        require_known(services, unit, project)
        standing = None if plan is None else _plan(unit, project, plan)
        return _state(project, gates.find(unit, project), standing)

    return await services.store.read(work)


async def override_gate(services: Services, caller: Caller, request: OverrideGate) -> GateOverridden:
    """Let exactly this difference pass from now on; the same id again is the same override.

    Raises:
        Forbidden: Nothing proves that a person was asked and answered, or it proves another answer.
        InvalidInput: A path is named twice, the time is none, or the id is that of another difference.
        NotFound: The broker does not know the project.
    """
    project = services.projects.require(request.project, caller.project)
    changes = changes_of(request.changes)
    contents.check_text(services, "reason", request.reason)
    check_paths(changes)
    digest = digest_of(changes)
    now = services.clock.now_us()
    override_id = request.override_id or services.clock.new_id("ov")
    wanted = Override(
        project=project,
        id=override_id,
        digest=digest,
        branch=request.branch,
        reason=request.reason,
        overridden_at=now if request.at is None else _instant_us(request.at, now),
        overridden_by=caller.operator,
        recorded_at=now,
    )
    proved_by = await _proved_by(services, caller, request, wanted)

    def work(unit: Unit) -> GateOverridden:
        events.lock(unit)
        require_known(services, unit, project)
        earlier = gates.find_override(unit, project, override_id)
        if earlier is None:
            return _overridden(gates.add_override(unit, wanted, _facts(wanted, changes, proved_by)))
        if earlier.digest != digest:
            raise InvalidInput(
                "This override_id let another difference through; choose a new one for a new difference.",
                field="override_id",
                expected=earlier.digest,
                actual=digest,
            )
        return _overridden(earlier)

    return await transact(services, caller, work)


async def _proved_by(services: Services, caller: Caller, request: OverrideGate, wanted: Override) -> str:
    """The key that seals the person's answer: `person`, or an access token's id.

    Raises:
        Forbidden: None does.
    """
    who = caller.agent
    if who is not None and caller.access is not None and not caller.access.is_owner:
        # The hook states the user alone; the token's name was put in front.
        who = who.removeprefix(f"{caller.access.name}/")
    facts = (wanted.project, wanted.digest, request.override_id, wanted.reason, wanted.branch, request.at, who)
    for stated in (request.proof or "").split():
        name, _, sealed = stated.partition(".")
        key = services.tokens.person_key() if name == proof.PERSON else await services.authenticator.key_of(name)
        if key is not None and hmac.compare_digest(sealed, proof.seal(key, facts)):
            return name
    problem = (
        "An override needs the proof that a person was asked and answered."
        if request.proof is None
        else "The proof of this override is not for this difference, reason, branch, time and person, or not by a key"
        " of this broker."
    )
    raise Forbidden(
        f"{problem} The hook makes it when a person at a terminal runs 'tandem gate override'.",
        field="proof",
        needed="person",
    )


def require_known(services: Services, unit: Unit, project: str) -> None:
    """Refuse a project that is neither registered nor has a gate.

    Raises:
        NotFound: It is a mere label.
    """
    if services.projects.root(project) is None and gates.find(unit, project) is None:
        raise _unknown(services, project)


def _unknown(services: Services, project: str) -> NotFound:
    return NotFound(
        f"This broker has no project '{project}'. Register its folder with: tandem project add.",
        project=project,
        allowed=services.projects.names(),
    )


def _listed(wanted: Sequence[str] | None, before: str) -> str:
    return before if wanted is None else orjson.dumps(list(dict.fromkeys(wanted))).decode()


def _state(project: str, gate: Gate | None, plan: PlanState | None = None) -> GateState:
    if gate is None:
        return GateState(project, False, (), (), None, None, None, plan)  # noqa: FBT003 - by the order of the fields
    return shown(
        GateState,
        gate,
        enabled=bool(gate.enabled),
        branches=tuple(orjson.loads(gate.branches)),
        accepted=tuple(orjson.loads(gate.accepted)),
        plan=plan,
    )


def _plan(unit: Unit, project: str, plan: str) -> PlanState:
    against = commits.list_against(unit, project, plan)
    rolled_back = commits.list_rolled_back(unit, project, plan)
    return PlanState(plan, "blocking" if against or rolled_back else "optimistic", against, rolled_back)


def _facts(override: Override, changes: Sequence[Change], proved_by: str) -> dict[str, object]:
    return {
        "override_id": override.id,
        "digest": override.digest,
        "reason": override.reason,
        "branch": override.branch,
        "proved_by": proved_by,
        "overridden_at": isoformat(override.overridden_at),
        "paths": sorted(change.path for change in changes)[:_SHOWN_PATHS],
        "files": len(changes),
    }


def _overridden(override: Override) -> GateOverridden:
    return shown(GateOverridden, override, override_id=override.id)


def _instant_us(text: str, now_us: int) -> int:
    """Microseconds since the epoch of an ISO 8601 time that has been, UTC unless it says otherwise."""
    try:
        stated = datetime.fromisoformat(text)
        aware = stated if stated.tzinfo is not None else stated.replace(tzinfo=UTC)
        found = (aware - _EPOCH) // timedelta(microseconds=1)
    except (ValueError, OverflowError) as error:
        raise InvalidInput("at must be an ISO 8601 time, such as 2026-11-21T22:23:00Z.", field="at") from error
    if not 0 <= found <= now_us + _CLOCKS_DIFFER_US:
        raise InvalidInput("at must be a time between 1970 and now, such as 2026-11-21T22:23:00Z.", field="at")
    return found
