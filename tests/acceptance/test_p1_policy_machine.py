"""P1, P2: no gate opens with a requirement unmet, under policies, proposals and approvals in any order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tandem.rulings import proof
from tandem.rulings.policy import FILE
from tests.acceptance.checking import Checked
from tests.acceptance.reviewing import WHY, edited
from tests.broker import BrokerProcess, fresh_project

NEEDS: dict[str, tuple[str, ...]] = {
    "": ("review",),
    'needs = ["agent"]': ("agent",),
    'needs = ["person"]': ("person",),
    'needs = ["agent", "person"]': ("agent", "person"),
    'needs = ["agent", "agent:codex", "person"]': ("agent", "codex", "person"),
    'needs = ["agent:other-provider"]': ("other",),
    "needs = 3": ("nothing meets it",),
}
"""The needs of policies of one rule; without a rule there is no file."""
WHO = ("codex", "claude-code", "gemini", "ann", "ben")
CONTENTS = {name: edited(text=name) for name in ("better", "best")}


def meets(need: str, who: str, *, is_person: bool) -> bool:
    """Whether somebody's approval of what `claude-code` proposed can meet a need, in the fewest words."""
    if need == "nothing meets it":
        return False
    return is_person or need in ("review", "agent", who) or (need == "other" and who in ("codex", "gemini"))


class PolicyMachine(RuleBasedStateMachine):
    """Keeps the approvals that the broker took, and judges them by itself."""

    reviews: Bundle[str] = Bundle("reviews")
    project: Checked

    def __init__(self) -> None:
        super().__init__()
        self.policy = ""
        self.seats: dict[str, dict[str, bool]] = {}
        self.digests: dict[str, str] = {}
        self.ruled: dict[str, bool] = {}
        """Whether there was a policy when the round was submitted: without one no proof is kept of who is a person."""
        self.claims: dict[tuple[str, str], int] = {}
        self.objected: set[str] = set()
        """Reviews of which a round has an objection and has not ended."""

    @initialize()
    def begin(self) -> None:
        self.project.project = fresh_project()
        self.project.register(self.project.repo.root)
        self.have("")

    @rule(policy=st.sampled_from(sorted(NEEDS)))
    def have(self, policy: str) -> None:
        self.policy = policy
        self.project.repo.write(FILE, f"[[rule]]\n{policy}\n")
        if not policy:
            (self.project.repo.root / FILE).unlink()
        self.project.repo.git("add", "--all")
        self.project.repo.git("commit", "--quiet", "--allow-empty", "-m", "policy")

    @rule(target=reviews, content=st.sampled_from(sorted(CONTENTS)))
    def propose(self, content: str) -> str:
        created = self.project.put_up_whole(diff=CONTENTS[content], proposer_id="claude-code")
        review = created["review_id"]
        self.seats[review], self.digests[review], self.ruled[review] = {}, created["digest"], bool(self.policy)
        return review

    @rule(review=reviews, content=st.sampled_from(sorted(CONTENTS)))
    def revise(self, review: str, content: str) -> None:
        asked = {"review_id": review, "intent": WHY, "agent_type": "claude-code", "agent_role": "proposer"}
        answer = self.project.call("create_review", **asked, proposer_id="claude-code", diff=CONTENTS[content])
        if not answer["ok"]:
            return
        self.ruled[review] = bool(self.policy)
        self.objected.discard(review)
        if answer["data"]["digest"] != self.digests[review]:
            self.seats[review], self.digests[review] = {}, answer["data"]["digest"]

    @rule(review=reviews, who=st.sampled_from(WHO), is_proved=st.booleans())
    def approve(self, review: str, who: str, *, is_proved: bool) -> None:
        before = self.project.status(review)
        answer = self.project.approved_by(review, who, proved=is_proved)
        if answer["ok"]:
            assert who != "claude-code", "the proposer"
            assert self.may_take(review, who, is_proved=is_proved)
            self.seats[review][who] = is_proved and who in ("ann", "ben") and self.ruled[review]
        else:
            assert self.project.status(review) == before

    def may_take(self, review: str, who: str, *, is_proved: bool) -> bool:
        """One principal takes one seat, and may prove later that it is a person's."""
        seats = self.seats[review]
        return who not in seats or (is_proved and not seats[who])

    @rule(review=reviews, who=st.sampled_from(WHO))
    def claim(self, review: str, who: str) -> None:
        answer = self.project.call("claim_review", review_id=review, reviewer_id=who)
        if not answer["ok"]:
            return
        assert who != "claude-code", "the proposer"
        number = answer["data"]["claim_generation"]
        others = {name: given for (of, name), given in self.claims.items() if of == review and name != who}
        assert number not in others.values(), "no number is given twice"
        assert number >= self.claims.get((review, who), number)
        self.claims[review, who] = number

    @rule(
        held=st.randoms(use_true_random=False),
        said=st.sampled_from(("approved", "approved", "changes_requested", "release")),
        is_proved=st.booleans(),
    )
    def conclude(self, held: Random, said: str, *, is_proved: bool) -> None:
        """End one of the claims, of which several may be held, in any order."""
        if not self.claims:
            return
        review, who = held.choice(sorted(self.claims))
        asked = {"review_id": review, "claim_generation": self.claims.pop((review, who)), "reason": WHY}
        if said == "release":
            self.project.call("release_claim", **asked)
            return
        asked |= {"verdict": said, "reviewer_id": who}
        stated = {"proof": self.project.sealed(proof.verdict_facts(asked))} if is_proved else {}
        if not self.project.call("submit_verdict", **asked, **stated)["ok"]:
            return
        if said == "approved":
            assert self.may_take(review, who, is_proved=is_proved) or not self.ruled[review]
            self.seats[review][who] = is_proved and who in ("ann", "ben") and self.ruled[review]
        else:
            self.seats[review].pop(who, None)
            self.objected.add(review)

    @invariant()
    def p6_a_round_with_an_objection_is_not_approved(self) -> None:
        for review in [*self.objected]:
            status = self.project.status(review)
            assert status["status"] != "approved"
            if status["status"] not in ("claimed", "in_review"):
                assert status["status"] == "changes_requested"
                assert status["beside"] == []
                self.objected.remove(review)

    @rule(review=reviews, who=st.sampled_from(("operator", *WHO)))
    def withdraw(self, review: str, who: str) -> None:
        """All approvals end with one that was the review's; before that only the caller's own."""
        is_approved = self.project.status(review)["status"] == "approved"
        if self.project.call("withdraw_approval", review_id=review, reason=WHY, withdrawn_by=who)["ok"]:
            kept = {} if is_approved else self.seats[review]
            self.seats[review] = {name: given for name, given in kept.items() if name != who}
            assert is_approved or len(self.seats[review]) < len(kept)

    @invariant()
    def p2_the_gate_is_open_for_what_has_all_that_is_needed_now(self) -> None:
        for digest in {*self.digests.values()}:
            of_it = [review for review, known in self.digests.items() if known == digest]
            is_justified = any(self._has_all(review) for review in of_it)
            is_open = self.project.do("check_gate", digest=digest)["allowed"]
            assert is_open <= is_justified
            approved = (one for one in of_it if self.project.status(one)["status"] == "approved")
            assert is_open or not any(map(self._has_all, approved))

    def _has_all(self, review: str) -> bool:
        needs, seats = NEEDS[self.policy], self.seats[review]
        return any(
            all(meets(need, who, is_person=seats[who]) for need, who in zip(needs, those, strict=True))
            for those in permutations(seats, len(needs))
        )


@pytest.fixture
def project(broker: BrokerProcess, tmp_path: Path) -> Iterator[Checked]:
    """A project on each database."""
    with Checked(broker, tmp_path / "repository", tmp_path) as opened:
        yield opened


def test_p1_p2_no_gate_opens_with_a_requirement_unmet(project: Checked) -> None:
    machine = type("Machine", (PolicyMachine,), {"project": project})
    run_state_machine_as_test(machine, settings=settings(max_examples=4, stateful_step_count=25, deadline=None))
