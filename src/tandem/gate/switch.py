"""The switch of a project's gate, and the overrides of a person."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from tandem.contract.answer import shown
from tandem.contract.caller import Caller
from tandem.core.clock import MICROSECONDS, instant_us, isoformat
from tandem.errors import Forbidden, InvalidInput, NotFound
from tandem.gate import judging, queries, signing
from tandem.gate.contract import GateOverridden, GateState, GetGate, OverrideGate, PlanState, SeeOverride, SetGate
from tandem.gate.judging import changes_of, project_settings
from tandem.gate.rules import LISTS, Gate, Override, as_list, commits_of, names, names_of
from tandem.git.changes import Change
from tandem.git.raw import digest_of
from tandem.reviews import contents
from tandem.reviews.context import Services, key_of
from tandem.reviews.finding_rules import SEVERITIES, THRESHOLD, is_grave
from tandem.rulings import proof
from tandem.store import events
from tandem.store.base import Unit
from tandem.store.context import transact
from tandem.store.event import EventKind

_SHOWN_PATHS = 100
_SWITCHED = ("enabled", "commits", "threshold", *LISTS)
_CLOCKS_DIFFER_US = 86_400 * MICROSECONDS
"""How far the clock of the machine that records an override may be ahead."""


async def set_gate(services: Services, caller: Caller, request: SetGate) -> GateState:
    """Switch a gate on or off; a switch that changes nothing writes no event.

    Raises:
        Forbidden: It loosens a gate that is on, and nothing proves that a person decided that.
        NotFound: The project's folder is not registered, so that its commits could not be judged.
    """
    project = services.projects.require(request.project, caller.project)
    contents.check_text(services, "reason", request.reason)
    proved_by = await key_of(services, request.proof, proof.switch_facts(project, request.model_dump()))
    trusted_here = await asyncio.to_thread(judging.trusted_here, services, project)

    def work(unit: Unit) -> GateState:
        events.lock(unit)
        before = queries.find_gate(unit, project)
        trusted = request.trusted
        if trusted is not None and (before is None or not before.enabled):
            # Includes the contents that are trusted already in the list that this broker reads.
            trusted = [*trusted, *trusted_here]
        if request.enabled and not services.projects.is_registered(project):
            raise unknown(services, project)
        require_known(services, unit, project)
        was = {name: names_of(before, name) for name in LISTS}
        after = Gate(
            project=project,
            enabled=int(request.enabled),
            branches=as_list(was["branches"] if request.branches is None else request.branches),
            accepted=as_list(was["accepted"] if request.accepted is None else request.accepted),
            folders=as_list([*was["folders"], *filter(None, [request.folder])]),
            trusted=as_list(was["trusted"] if trusted is None else trusted),
            signers=as_list(was["signers"] if request.signers is None else request.signers),
            commits=request.commits or commits_of(before),
            threshold=request.threshold or (before.threshold if before is not None else None),
            reason=request.reason,
            switched_at=services.clock.now_us(),
            switched_by=caller.operator,
        )
        if before is not None and all(getattr(before, one) == getattr(after, one) for one in _SWITCHED):
            return _state(project, before)
        reasons = _loosened(unit, before, after)
        if not reasons:
            return _state(project, queries.put_gate(unit, before, after, None))
        since = None if before is None else isoformat(before.switched_at)
        if proved_by is None or request.since != since:
            raise _not_proved(request, project, since, reasons)
        return _state(project, queries.put_gate(unit, before, after, proved_by))

    return await transact(services, caller, work)


def _loosened(unit: Unit, before: Gate | None, after: Gate) -> list[str]:
    """How a change loosens a gate, in words."""
    was, becomes = _facts_of(before), _facts_of(after)
    # A folder is a matter for a person only where it is another gate's, that is on.
    new = set(becomes["folders"]) - set(was["folders"])
    others = queries.list_enabled(unit) if new else []
    taken = (one for other in others if other.project != after.project for one in names(other.folders))
    becomes["folders"] = [one for one in taken if one in new]
    return proof.loosened(was, becomes, is_on=before is not None and bool(before.enabled))


def _facts_of(gate: Gate | None) -> dict[str, list[str]]:
    """A gate as the table of what loosens has it."""
    listed = {name: names_of(gate, name) for name in LISTS}
    is_on = gate is not None and bool(gate.enabled)
    listed["commits"] = [*proof.PASSING[commits_of(gate)]]
    threshold = (gate and gate.threshold) or THRESHOLD
    listed["threshold"] = [one for one in SEVERITIES if not is_grave(one, threshold)]
    return {**listed, "enabled": ["on"] if is_on else [], "folders": listed["folders"] if is_on else []}


def _not_proved(request: SetGate, project: str, since: str | None, reasons: Sequence[str]) -> Forbidden:
    problem = f"This lets more through the gate ({'; '.join(reasons)}), which takes the proof that a person decided it."
    if request.proof is not None:
        problem = (
            "The proof is not for exactly this change of the gate, not by a key of this broker, or the gate was"
            " changed since."
        )
    return Forbidden(
        f"{problem} The commands ask for it at a person's terminal: tandem gate on, tandem gate off, tandem trust.",
        field="proof",
        needed="person",
        expected=since,
        project=project,
        loosens=list(reasons),
    )


async def get_gate(services: Services, caller: Caller, request: GetGate) -> GateState:
    """Whether a gate is on, and where one plan stands.

    Raises:
        ConfigInvalid: The repository's statement of it differs from the record.
        NotFound: The broker does not know the project.
    """
    project = services.projects.require(request.project, caller.project)
    await judging.require_same(services, project, request.here)
    state = await state_of(services, project, request.plan)
    (on_tip,) = await asyncio.to_thread(project_settings, services, project, "checks_on_tip")
    state = replace(state, checks_on_tip=on_tip)
    if not request.with_key:
        return state
    return replace(state, public_key=await asyncio.to_thread(signing.public_key, services.tokens, project))


async def state_of(services: Services, project: str, plan: str | None = None) -> GateState:
    """Whether a gate is on, and where one plan stands.

    Raises:
        NotFound: The broker does not know the project.
    """

    def work(unit: Unit) -> GateState:
        require_known(services, unit, project)
        standing = None if plan is None else _plan(unit, project, plan)
        return _state(project, queries.find_gate(unit, project), standing)

    return await services.store.read(work)


async def override_gate(services: Services, caller: Caller, request: OverrideGate) -> GateOverridden:
    """Let exactly this difference pass from now on; the same id again is the same override.

    Raises:
        Forbidden: Nothing proves that a person was asked and answered, or it proves another answer.
        InvalidInput: A path is named twice, the time is none, or the id is that of another difference.
        NotFound: The broker does not know the project.
    """
    project = services.projects.require(request.project, caller.project)
    contents.check_text(services, "reason", request.reason)
    changes = await asyncio.to_thread(changes_of, request.changes)
    digest = await asyncio.to_thread(digest_of, changes)
    now = services.clock.now_us()
    override_id = request.override_id or services.clock.new_id("ov")
    wanted = Override(
        project=project,
        id=override_id,
        digest=digest,
        branch=request.branch,
        reason=request.reason,
        overridden_at=now if request.at is None else _past_us(request.at, now),
        overridden_by=caller.operator,
        recorded_at=now,
    )
    proved_by = await _proved_by(services, caller, request, wanted)

    def work(unit: Unit) -> GateOverridden:
        events.lock(unit)
        require_known(services, unit, project)
        earlier = queries.find_override(unit, project, override_id)
        if earlier is None:
            data = _facts(wanted, changes, proved_by)
            about = {"kind": EventKind.GATE_OVERRIDDEN, "actor": wanted.overridden_by}
            return _overridden(queries.put_override(unit, None, wanted, data, at=now, **about))
        if earlier.digest != digest:
            raise InvalidInput(
                "This override_id let another difference through; choose a new one for a new difference.",
                field="override_id",
                expected=earlier.digest,
                actual=digest,
            )
        return _overridden(earlier)

    return await transact(services, caller, work)


async def see_override(services: Services, caller: Caller, request: SeeOverride) -> GateOverridden:
    """Note that a person has seen an override.

    Raises:
        NotFound: There is no such override in that project.
    """
    project, name = services.projects.require(request.project, caller.project), request.override_id

    def work(unit: Unit) -> GateOverridden:
        events.lock(unit)
        override = queries.find_override(unit, project, name)
        if override is None:
            raise NotFound(f"There is no override '{name}' in '{project}'.", override_id=name, project=project)
        kind, person, now = EventKind.OVERRIDE_SEEN, request.person, services.clock.now_us()
        if not events.list_after(unit, 0, 1, subject=override.subject, kind=kind, actor=person):
            data = {"override_id": name}
            queries.put_override(unit, override, override, data, kind=kind, at=now, actor=person)
        return _overridden(override)

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
    name = await key_of(services, request.proof, facts)
    if name is not None:
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
    if not services.projects.is_registered(project) and queries.find_gate(unit, project) is None:
        raise unknown(services, project)


def unknown(services: Services, project: str) -> NotFound:
    """The error for a project that is not registered."""
    return NotFound(
        f"This broker has no project '{project}'. Register its folder with: tandem project add.",
        project=project,
        allowed=services.projects.names(),
    )


def _state(project: str, gate: Gate | None, plan: PlanState | None = None) -> GateState:
    if gate is None:
        return GateState(project, False, (), (), (), (), (), None, None, None, plan)  # noqa: FBT003 - in their order
    return shown(
        GateState,
        gate,
        enabled=bool(gate.enabled),
        **{name: tuple(names_of(gate, name)) for name in LISTS},
        plan=plan,
        commits=commits_of(gate),
        threshold=gate.threshold or THRESHOLD,
    )


def _plan(unit: Unit, project: str, plan: str) -> PlanState:
    against = queries.list_against(unit, project, plan)
    rolled_back = queries.list_rolled_back(unit, project, plan)
    return PlanState(plan, "blocking" if against or rolled_back else "optimistic", against, rolled_back)


def _facts(override: Override, changes: Sequence[Change], proved_by: str) -> dict[str, object]:
    said = {name: getattr(override, name) for name in ("digest", "reason", "branch")}
    when = {"proved_by": proved_by, "overridden_at": isoformat(override.overridden_at)}
    paths = sorted(change.path for change in changes)[:_SHOWN_PATHS]
    return {"override_id": override.id, **said, **when, "paths": paths, "files": len(changes)}


def _overridden(override: Override) -> GateOverridden:
    return shown(GateOverridden, override, override_id=override.id)


def _past_us(text: str, now_us: int) -> int:
    """Microseconds since the epoch of an ISO 8601 time that has been, UTC unless it says otherwise."""
    try:
        found = instant_us(text)
    except ValueError as error:
        raise InvalidInput("at must be an ISO 8601 time, such as 2026-11-21T22:23:00Z.", field="at") from error
    if not 0 <= found <= now_us + _CLOCKS_DIFFER_US:
        raise InvalidInput("at must be a time between 1970 and now, such as 2026-11-21T22:23:00Z.", field="at")
    return found
