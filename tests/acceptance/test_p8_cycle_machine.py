"""Hand-off cycles under anything that roles and reviewers can do, in any order, against a model in a few lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.acceptance.gated import DIRECT, PHASES, ROLES, UNDECIDED, Team, check_story, to_idle
from tests.acceptance.model import ModelReview, Refused, Round, codes_of
from tests.acceptance.reviewing import WHY
from tests.databases import ON_BOTH_DATABASES

pytest_plugins = ["tests.acceptance.gated_brokers"]

pytestmark = ON_BOTH_DATABASES

NOBODY = "stranger"


def refuse(*codes: str) -> NoReturn:
    raise Refused(*codes)


@dataclass
class ModelCycle:
    """A project and workflow as the contract describes them. Methods raise `Refused`, or change it.

    Attributes:
        phase: None while no cycle is under way.
        role: Whose turn it is.
        rotation: How often the lock has changed hands, over all cycles.
        review: The review of the hand-off that was written last and has not advanced the cycle, by its id.
        note: What the hand-off says that waits for approval.
        read: The note of the latest hand-off to each role.
        reviews: Every review there was, with the target of its hand-off.
    """

    workflow: str
    phase: str | None = None
    role: str | None = None
    rotation: int = 0
    review: str | None = None
    read: dict[str, str] = field(default_factory=dict[str, str])
    reviews: dict[str, ModelReview] = field(default_factory=dict[str, ModelReview])
    targets: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def gated(self) -> bool:
        return self.workflow != DIRECT

    @property
    def waiting(self) -> ModelReview | None:
        return self.reviews[self.review] if self.review else None

    def _require_active(self) -> None:
        if self.phase is None:
            refuse("NO_ACTIVE_CYCLE")

    def _refuse_undecided(self) -> None:
        if self.waiting is not None and self.waiting.state in UNDECIDED:
            refuse("INVALID_PHASE")

    def _move(self, phase: str | None, role: str | None) -> None:
        self.rotation += role != self.role
        self.phase, self.role, self.review = phase, role, None

    def start(self) -> None:
        if self.phase is not None:
            refuse("CYCLE_ALREADY_ACTIVE")
        self.phase = next(iter(PHASES[self.workflow]))
        self.role = PHASES[self.workflow][self.phase][0]
        self.rotation += 1
        self.read.clear()

    def lock(self, role: str) -> None:
        self._require_active()
        if role != self.role:
            refuse("LOCK_DENIED")

    def check_write(self, role: str, target: str, *, is_token: bool, is_sound: bool) -> None:
        self._require_active()
        if target not in ROLES[self.workflow]:
            refuse("INVALID_TARGET")
        producer, ways, _ = PHASES[self.workflow].get(self.phase or "", ("", {}, False))
        if target not in ways:
            refuse("INVALID_PHASE")
        self._refuse_undecided()
        if role != producer or not is_token:
            refuse("LOCK_DENIED")
        if not is_sound:
            refuse("SCHEMA_INVALID")

    def written(self, target: str, note: str, review: str | None) -> None:
        """A hand-off that was let through, and the review that it became."""
        assert (review is not None) == self.gated
        assert self.role is not None
        if review is None:
            self._hand_over(target, note)
            return
        before = self.waiting
        if before is not None and before.state == "changes_requested":
            assert self.review is not None
            if self.targets[self.review] == target:
                assert review == self.review
                before.revise(self.role, note)
                return
            before.close()
        assert review not in self.reviews
        self.reviews[review] = ModelReview(self.role, [Round(note, self.role)])
        self.review, self.targets[review] = review, target

    def _hand_over(self, target: str, note: str) -> None:
        assert self.phase is not None
        self.read[target] = note
        self._move(PHASES[self.workflow][self.phase][1][target], target)

    def complete(self, role: str, *, is_token: bool) -> None:
        self._require_active()
        if not PHASES[self.workflow].get(self.phase or "", ("", {}, False))[2]:
            refuse("INVALID_PHASE")
        self._refuse_undecided()
        if role != self.role or not is_token:
            refuse("LOCK_DENIED")
        if self.waiting is not None and self.waiting.state != "closed":
            self.waiting.close()
        self._move("complete", role)

    def archive(self, role: str, *, is_token: bool) -> None:
        if self.phase != "complete":
            refuse("ARCHIVE_NOT_ALLOWED")
        if role != self.role or not is_token:
            refuse("LOCK_DENIED")
        self.phase = self.role = None
        self.read.clear()

    def verdict(self, review: str, generation: int, verdict: str) -> None:
        about = self.reviews[review]
        about.verdict(generation, verdict, None)
        if verdict == "approved":
            assert review == self.review
            self._hand_over(self.targets[review], about.rounds[-1].content)


class CycleMachine(RuleBasedStateMachine):
    """Every rule asks the model first, then the broker, and expects the same of both."""

    teams: ClassVar[dict[str, Team]]

    @initialize(workflow=st.sampled_from(sorted(PHASES)))
    def take_over(self, workflow: str) -> None:
        self.team = self.teams[workflow]
        to_idle(self.team)
        self.model = ModelCycle(workflow)
        self.roles = ROLES[workflow]
        self.locks: dict[int, str] = {}
        self.notes = 0

    def _role(self, number: int) -> str:
        """A role; mostly the active one."""
        return self.model.role if number < 0 and self.model.role else self.roles[number % len(self.roles)]

    def _lock_token(self, behind: int) -> str:
        """The lock's token, one of before, or none."""
        if behind == 0 and self.model.role is not None and self.model.rotation not in self.locks:
            self.locks[self.model.rotation] = self.team.lock(self.model.role)
        return self.locks.get(self.model.rotation - behind, "lock_none")

    def _both(self, codes: tuple[str, ...], operation: str, **arguments: Any) -> Any:
        """The same step for the broker; its data, or None when both refuse."""
        envelope = self.team.call(operation, **arguments)
        assert envelope["ok"] == (not codes), envelope
        if envelope["ok"]:
            return envelope["data"]
        assert envelope["error"]["code"] in codes
        return None

    @rule(choices=st.lists(st.integers(0, 11), min_size=1, max_size=5))
    def go_on(self, choices: list[int]) -> None:
        """Steps that are due, so that histories get somewhere."""
        for choice in choices:
            phase, waiting = self.model.phase, self.model.waiting
            if phase is None:
                self.start()
            elif phase == "complete":
                self.archive(-1, 0)
            elif waiting is not None and waiting.state in UNDECIDED:
                self.claim(-1, waiting.holder or "rev-1")
                self.verdict(-1, ("approved", "approved", "approved", "changes_requested", "rejected")[choice % 5], 0)
            elif PHASES[self.model.workflow][phase][2] and choice % 3 == 0:
                self.complete(-1, 0)
            else:
                self.write(-1, -1 - choice, 0, is_sound=True)

    @rule()
    def start(self) -> None:
        self.notes += 1
        started = self._both(codes_of(self.model.start), "cycle_start", feature=f"Feature {self.notes}")
        if started:
            self.team.cycle_id, self.team.feature = started["cycle_id"], started["feature"]
            self.locks[self.model.rotation] = started["lock_token"]

    @rule(who=st.integers(-2, 2))
    def lock(self, who: int) -> None:
        role = self._role(who)
        codes = codes_of(lambda: self.model.lock(role))
        taken = self._both(codes, "lock_acquire", session_token=self.team.sessions[role])
        if taken:
            assert self.locks.setdefault(self.model.rotation, taken["lock_token"]) == taken["lock_token"]

    @rule(
        who=st.integers(-6, 2),
        way=st.integers(-6, 3),
        behind=st.sampled_from([0, 0, 0, 0, 1]),
        is_sound=st.sampled_from([True, True, True, False]),
    )
    def write(self, who: int, way: int, behind: int, *, is_sound: bool) -> None:
        role = self._role(who)
        ways = sorted(PHASES[self.model.workflow].get(self.model.phase or "", ("", {}, False))[1])
        target = ways[way % len(ways)] if way < 0 and ways else [*self.roles, NOBODY][way % (len(self.roles) + 1)]
        self.notes += 1
        note = f"note {self.notes}"
        token = self._lock_token(behind)
        codes = codes_of(
            lambda: self.model.check_write(role, target, is_token=behind == 0, is_sound=is_sound),
        )
        payload = self.team.payload(role, target, notes=[note])
        if not is_sound:
            del payload["todos"]
        sent = {"target": target, "payload": payload, "lock_token": token}
        written = self._both(codes, "handoff_write", session_token=self.team.sessions[role], **sent)
        if written:
            self.model.written(target, note, written["review_id"])
            assert (written["phase"], written["active_role"]) == (self.model.phase, self.model.role)

    @rule(who=st.integers(-6, 2), behind=st.sampled_from([0, 0, 0, 1]))
    def complete(self, who: int, behind: int) -> None:
        self._end("cycle_complete", who, behind)

    @rule(who=st.integers(-6, 2), behind=st.sampled_from([0, 0, 0, 1]))
    def archive(self, who: int, behind: int) -> None:
        self._end("cycle_archive", who, behind)

    def _end(self, operation: str, who: int, behind: int) -> None:
        role = self._role(who)
        token = self._lock_token(behind)
        step = self.model.complete if operation == "cycle_complete" else self.model.archive
        codes = codes_of(lambda: step(role, is_token=behind == 0))
        self._both(codes, operation, session_token=self.team.sessions[role], lock_token=token)

    def _review(self, number: int) -> str | None:
        """A review; mostly the one that the cycle waits for."""
        known = list(self.model.reviews)
        return self.model.review if number < 0 or not known else known[number % len(known)]

    @rule(which=st.integers(-5, 3), reviewer=st.sampled_from(["rev-1", "rev-1", "rev-2", "gemini"]))
    def claim(self, which: int, reviewer: str) -> None:
        review = self._review(which)
        if review is not None:
            codes = codes_of(lambda: self.model.reviews[review].claim(reviewer))
            self._both(codes, "claim_review", review_id=review, reviewer_id=reviewer)

    @rule(
        which=st.integers(-5, 3),
        verdict=st.sampled_from(["approved", "approved", "approved", "changes_requested", "rejected", "comment"]),
        behind=st.sampled_from([0, 0, 0, 0, 1]),
    )
    def verdict(self, which: int, verdict: str, behind: int) -> None:
        review = self._review(which)
        if review is None:
            return
        generation = max(0, self.model.reviews[review].generation - behind)
        codes = codes_of(lambda: self.model.verdict(review, generation, verdict))
        sent = {"review_id": review, "verdict": verdict, "reason": WHY, "claim_generation": generation}
        self._both(codes, "submit_verdict", **sent)

    @rule(which=st.integers(-5, 3), behind=st.sampled_from([0, 0, 1]))
    def release(self, which: int, behind: int) -> None:
        review = self._review(which)
        if review is not None:
            generation = max(0, self.model.reviews[review].generation - behind)
            codes = codes_of(lambda: self.model.reviews[review].release(generation))
            self._both(codes, "release_claim", review_id=review, claim_generation=generation)

    @rule(which=st.integers(-3, 3))
    def close(self, which: int) -> None:
        review = self._review(which)
        if review is not None:
            self.model.reviews[review].close()
            self.team.do("close_review", review_id=review)

    @invariant()
    def broker_and_model_agree(self) -> None:
        model, status = self.model, self.team.where()
        assert (status["phase"], status["active_role"]) == (model.phase, model.role)
        assert status["lock"]["role"] == model.role
        assert {role for role, one in status["handoffs"].items() if one["status"] == "present"} == set(model.read)
        for role in self.roles:
            assert self.team.do("handoff_read", target=role).get("notes", [None])[0] == model.read.get(role)
        told, waiting = status["review"], model.waiting
        assert (told is None) == (waiting is None)
        if waiting is not None and told is not None:
            assert (told["review_id"], told["target"]) == (model.review, model.targets[told["review_id"]])
            assert (told["status"], told["round"]) == (waiting.state, waiting.round)


@pytest.mark.timeout(300)
def test_p8_any_history_of_cycles(crews: Callable[[str], Team]):
    class Machine(CycleMachine):
        teams: ClassVar = {workflow: crews(workflow) for workflow in PHASES}

    for team in Machine.teams.values():
        to_idle(team)
        team.from_now_on()
    # No shrinking: the steps of a failure can be read as they are, and each try costs a hundred calls.
    phases = set(Phase) - {Phase.shrink, Phase.explain}
    run_state_machine_as_test(Machine, settings=settings(max_examples=6, stateful_step_count=30, phases=phases))
    for team in Machine.teams.values():
        check_story(team)
