"""P11 under anything that a proposer of several names, two agents and a person can do, in any order, against a model.

Once on a trusted broker, where the endpoint says who is an agent, and once with access tokens, where the proposer has
several, an operator's among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.acceptance.accessing import Bearer
from tests.acceptance.finding_model import (
    ANSWERS,
    CONTENTS,
    GRAVITY,
    SETTLINGS,
    TALKED,
    UNSETTLED,
    Actor,
    Fault,
    ModelFinding,
    Reviewed,
    Said,
    Shop,
    fresh,
)
from tests.acceptance.model import Patch, codes_of
from tests.acceptance.reviewing import WHY, AgentDesk, Desk, ProposerDesk
from tests.broker import BrokerProcess, fresh_project
from tests.git.sandbox import Sandbox

pytest_plugins = ["tests.acceptance.accessing_brokers"]

AGENTS = ("rev-1", "rev-2")
PERSON = "ann"
OWN = ("own", "other name", "other session", "operator")
"""The proposer's names."""
NOT_THEIRS = {
    "FORBIDDEN",
    "SELF_APPROVAL",
    "NOT_CLAIMANT",
    "INVALID_TRANSITION",
    "STALE_ROUND",
    "ALREADY_CLAIMED",
    "NOT_FOUND",
}
"""With which a reviewer's step is refused to the proposer; there may be no tool for it where they are."""

PLACES = st.sampled_from([("a.txt", 2), ("a.txt", 9), ("a.txt", None), (None, None), ("b.txt", 2)])
FAULTS = st.builds(
    Fault,
    st.sampled_from(["blocker", "major", "major", "major", "minor", "nit"]),
    PLACES,
    st.sampled_from(["logic", None]),
    st.sampled_from(["It is wrong.", "It is slow."]),
    pre_existing=st.sampled_from([False, False, False, True]),
)
CONTENT = st.sampled_from(sorted(CONTENTS))
VERDICTS = st.sampled_from(["approved", "approved", "changes_requested", "changes_requested", "comment", "rejected"])
NUMBER = st.integers(0, 5)
# Below zero: of those that are open.
WHICH = st.integers(-4, 3)

Crew = dict[str, tuple[Actor, Desk]]


class FindingsMachine(RuleBasedStateMachine):
    """Every rule asks the model first, then the broker, and expects the same of both."""

    crew: ClassVar[Crew]
    repo: ClassVar[Sandbox]
    has_tokens: ClassVar[bool]

    @initialize(content=CONTENT)
    def open_shop(self, content: str) -> None:
        project = fresh_project()
        for _, desk in self.crew.values():
            desk.project = project
        self.desk = self.crew[PERSON][1]
        self.desk.register(self.repo.root)
        self.shop = Shop(has_tokens=self.has_tokens)
        self.digests: dict[str, str] = {}
        self.seen: dict[str, tuple[ModelFinding, str]] = {}
        self.acted: list[Actor] = []
        for _ in range(2):
            self.put_up("own", content, None)

    # ------------------------------------------------------------------------------------------- both

    def _call(self, who: str, operation: str, **sent: Any) -> dict[str, Any]:
        actor, desk = self.crew[who]
        self.acted.append(actor)
        return desk.call(operation, **sent)

    def _both(
        self, who: str, review: str, change: Callable[[Reviewed, Actor], None], operation: str, **sent: Any
    ) -> Any:
        """The same step for model and broker; the broker's data, or None when both refuse."""
        model = self.shop.reviews[review]
        codes = codes_of(lambda: change(model, self.crew[who][0]))
        named = {} if operation == "remove_lesson" else {"review_id": review}
        envelope = self._call(who, operation, **named, **sent)
        assert envelope["ok"] == (not codes), (envelope, codes)
        if codes:
            assert envelope["error"]["code"] in codes, (envelope, codes)
            return None
        model.touched = next(self.shop.clock)
        return envelope["data"]

    def _refused(self, who: str, operation: str, **sent: Any) -> None:
        """A step that is never the proposer's."""
        envelope = self._call(who, operation, **sent)
        assert not envelope["ok"], envelope
        assert envelope["error"]["code"] in NOT_THEIRS, envelope

    def _learn(self, review: str, made: list[ModelFinding]) -> None:
        """Give the model's new findings the ids that the broker gave them."""
        model = self.shop.reviews[review]
        if made:
            rows = self.desk.rows("list_findings", "findings", review_id=review, limit=200)
            new = [row for row in rows if row["finding_id"] not in model.findings]
            assert [facts(row) for row in new] == [told(one) for one in made]
            born = (replace(one, born=next(self.shop.clock)) for one in made)
            model.findings.update(zip((row["finding_id"] for row in new), born, strict=True))

    def _review(self, number: int) -> str:
        """A review; mostly the newest that is not over."""
        known = list(self.shop.reviews)
        still = [name for name in known if self.shop.reviews[name].state in TALKED]
        return still[-1] if number < 0 and still else known[number % len(known)]

    def _finding(self, review: str, number: int) -> str | None:
        """A finding of it; mostly one that is open."""
        known = self.shop.reviews[review].findings
        still = [name for name, one in known.items() if one.state in UNSETTLED] if number < 0 else []
        names = still or list(known)
        return names[number % len(names)] if names else None

    def _name(self, who: str) -> str:
        return self.crew[who][0].name

    def _holder(self, review: str) -> str:
        """Who holds a review, else the first agent."""
        holder = self.shop.reviews[review].holder
        return next((who for who, (actor, _) in self.crew.items() if actor.name == holder), AGENTS[0])

    # ------------------------------------------------------------------------------------------- the proposer

    @rule(who=st.sampled_from(OWN), content=CONTENT, follows=st.sampled_from([None, None, -1, 0, 1, 2]))
    def put_up(self, who: str, content: str, follows: int | None) -> None:
        actor, desk = self.crew[who]
        parent = None if follows is None else self._review(follows)
        created = desk.put_up_whole(proposer_id=actor.name, diff=CONTENTS[content], parent_id=parent)
        self.acted.append(actor)
        assert self.digests.setdefault(content, created["digest"]) == created["digest"]
        review, carried = created["review_id"], self.shop.going_on(content, parent)
        stopped_after = self.shop.stopped_after(content, parent)
        self.shop.reviews[review] = model = fresh(actor.name, content)
        model.attention, model.objections = stopped_after is not None, stopped_after or 0
        model.touched = next(self.shop.clock)
        self._learn(review, carried)

    @rule(which=WHICH, who=st.sampled_from(OWN), content=CONTENT)
    def revise(self, which: int, who: str, content: str) -> None:
        sent = {"intent": "Again", "agent_type": "claude-code", "proposer_id": self._name(who)}
        sent |= {"diff": CONTENTS[content]}
        revised = self._both(
            who, self._review(which), lambda model, by: model.revise(by.name, content), "create_review", **sent
        )
        if revised:
            assert self.digests.setdefault(content, revised["digest"]) == revised["digest"]

    @rule(
        which=WHICH, who=st.sampled_from((*OWN, *OWN, PERSON, "rev-1")), number=WHICH, answer=st.sampled_from(ANSWERS)
    )
    def answer(self, which: int, who: str, number: int, answer: str) -> None:
        review = self._review(which)
        if name := self._finding(review, number):
            sent = {"finding_id": name, "answer": answer, "reason": WHY}
            self._both(
                who, review, lambda model, by: model.answer(self.shop, by, name, answer), "answer_finding", **sent
            )

    @rule(which=WHICH, who=st.sampled_from(OWN), step=st.sampled_from(["accept", "reject", "close"]))
    def decide(self, which: int, who: str, step: str) -> None:
        """Decide about a counter-patch, or withdraw the change."""
        review = self._review(which)
        patch = self.shop.reviews[review].patch
        if step == "close":
            self._both(who, review, Reviewed.close_by, "close_review")
        elif patch is not None and step == "accept":
            sent = {"counter_patch_id": patch.id}
            self._both(who, review, lambda model, by: model.accept(patch.id, by.name), "accept_counter_patch", **sent)
        elif patch is not None:
            sent = {"counter_patch_id": patch.id}
            self._both(who, review, lambda model, _: model.reject(patch.id), "reject_counter_patch", **sent)

    @rule(
        which=WHICH,
        who=st.sampled_from((*OWN, "as reviewer")),
        number=WHICH,
        step=st.sampled_from(["claim", "approve", *SETTLINGS, "threshold"]),
    )
    def trespass(self, which: int, who: str, number: int, step: str) -> None:
        """What a proposer would do to get an approval alone."""
        review = self._review(which)
        name, model = self._name(who), self.shop.reviews[review]
        held = {"review_id": review, "claim_generation": model.generation}
        found = self._finding(review, number)
        match step:
            case "claim":
                self._refused(who, "claim_review", review_id=review, reviewer_id=name)
            case "approve":
                still = [one for one, finding in model.findings.items() if finding.state in UNSETTLED]
                said = Said("approved", (), dict.fromkeys(still, "verified"))
                self._refused(who, "submit_verdict", **held, **said.sent)
            case "threshold":
                for looser in GRAVITY[GRAVITY.index(self.shop.threshold) + 1 :]:
                    self._refused(who, "set_gate", enabled=False, threshold=looser)
            case _ if found:
                said = {"finding_id": found, "answer": step, "reason": WHY}
                for stated in (name, PERSON):
                    self._refused(who, "answer_finding", review_id=review, reviewer_id=stated, **said)
                self._refused(who, "answer_finding", **held, **said)
            case _:
                pass

    # ------------------------------------------------------------------------------------------- reviewers

    @rule(which=WHICH, who=st.sampled_from((*AGENTS, PERSON)))
    def claim(self, which: int, who: str) -> None:
        self._both(who, self._review(which), Reviewed.claim_by, "claim_review", reviewer_id=self._name(who))

    @rule(
        which=WHICH,
        who=st.sampled_from((*AGENTS, PERSON)),
        behind=st.sampled_from([0, 0, 0, 0, 1]),
        verdict=VERDICTS,
        found=st.lists(FAULTS, max_size=3),
        number=WHICH,
        answer=st.sampled_from([*SETTLINGS, "due", "due", "due"]),
        more=st.sampled_from([None, "read all", "read all", *CONTENTS]),
    )
    def verdict(
        self,
        which: int,
        who: str,
        behind: int,
        verdict: str,
        found: list[Fault],
        number: int,
        answer: str,
        more: str | None,
    ) -> None:
        """A verdict, mostly of who claims it; sometimes by one who has read all, sometimes with a counter-patch."""
        review = self._review(which)
        if which < 0 and not self.shop.reviews[review].held:
            self.claim(which, who)
        name = self._finding(review, number)
        answers = self._due(review) if answer == "due" else {name: answer} if name else {}
        patch = more if more in CONTENTS and verdict in ("changes_requested", "comment") else None
        self._judge(review, Said(verdict, found, answers, read_all=more == "read all", patch=patch), behind)

    def _due(self, review: str) -> dict[str, str]:
        """The answers of a reviewer who agrees with the proposer in everything."""
        by, known = self.crew[self._holder(review)][0], self.shop.reviews[review].findings
        settling = {"refuted": "upheld", "deferred": "upheld"}
        return {
            name: settling.get(one.state, "verified")
            for name, one in known.items()
            if one.blocks(self.shop.threshold) and (by.is_person or not one.is_person)
        }

    def _judge(self, review: str, said: Said, behind: int = 0) -> None:
        who, model = self._holder(review), self.shop.reviews[review]
        generation = max(0, model.generation - behind)
        sent = {**said.sent, "claim_generation": generation}
        given = self._both(
            who, review, lambda model, by: model.judge(self.shop, by, generation, said), "submit_verdict", **sent
        )
        if given is not None:
            assert given["status"] == model.state, given
            if said.patch:
                model.offered(Patch(given["counter_patch_id"], said.patch, self._name(who), self._name(who)))
            self._learn(review, model.new)

    @rule(which=WHICH, who=st.sampled_from((*AGENTS, PERSON)), number=WHICH, answer=st.sampled_from(SETTLINGS))
    def settle(self, which: int, who: str, number: int, answer: str) -> None:
        review = self._review(which)
        if found := self._finding(review, number):
            sent = {"finding_id": found, "answer": answer, "reason": WHY, "reviewer_id": self._name(who)}
            self._both(
                who, review, lambda model, by: model.settle(self.shop, by, found, answer), "answer_finding", **sent
            )

    @rule(
        which=WHICH,
        who=st.sampled_from((PERSON, "operator", "rev-1")),
        step=st.sampled_from(["release", "withdraw", "retry", "lesson", "threshold"]),
        number=NUMBER,
    )
    def administer(self, which: int, who: str, step: str, number: int) -> None:
        """What operators do, and who gives a claim back."""
        review = self._review(which)
        generation, found = self.shop.reviews[review].generation, self._finding(review, number)
        match step:
            case "release":
                who, sent = self._holder(review), {"claim_generation": generation}
                self._both(who, review, lambda model, _: model.release(generation), "release_claim", **sent)
            case "withdraw":
                if self._both(who, review, Reviewed.withdraw, "withdraw_approval", reason=WHY):
                    self._learn(review, self.shop.reviews[review].new)
            case "retry":
                self._both(who, review, Reviewed.retry, "retry_review")
            case "lesson" if found:
                sent = {"finding_id": found}
                self._both(who, review, lambda model, by: model.forget_lesson(by, found), "remove_lesson", **sent)
            case "threshold":
                self.acted.append(self.crew[PERSON][0])
                self.shop.threshold = GRAVITY[number % len(GRAVITY)]
                self.desk.loosen(enabled=False, threshold=self.shop.threshold)
            case _:
                pass

    @rule(
        which=WHICH,
        choices=st.lists(st.integers(0, 11), min_size=3, max_size=9),
        found=st.lists(FAULTS, min_size=1, max_size=3),
    )
    def go_on(self, which: int, choices: list[int], found: list[Fault]) -> None:
        """Steps that are due, so that histories get somewhere."""
        for choice in choices:
            review = self._review(which)
            model = self.shop.reviews[review]
            at = list(self.shop.reviews).index(review)
            if model.state == "pending":
                self.claim(at, PERSON if model.attention else (*AGENTS, PERSON)[choice % 3])
            elif model.held and model.claim_round != model.round:
                self.administer(at, PERSON, "release", 0)
            elif model.held and choice % 2:
                self._judge(review, Said("approved", (), self._due(review)))
            elif model.held:
                self._judge(review, Said("changes_requested", found, read_all=choice % 4 == 0))
            elif model.state == "changes_requested" and choice % 3 == 0:
                self.revise(at, OWN[choice % 2], sorted(CONTENTS)[choice % 2])
            elif model.state == "changes_requested":
                for number in range(len(model.findings)):
                    self.answer(at, "own", number, ANSWERS[choice % 3])
            else:
                self.put_up("other name", model.content, at if choice % 2 else None)

    # ------------------------------------------------------------------------------------------- promises

    @invariant()
    def broker_and_model_agree(self) -> None:
        rows = {row["review_id"]: row for row in self.desk.rows("list_reviews", "reviews", limit=200)}
        assert rows.keys() == self.shop.reviews.keys()
        for review, model in self.shop.reviews.items():
            row = rows[review]
            assert (row["status"], row["round"]) == (model.state, model.round), row
            assert (row["attention"] is not None) == model.attention, row
        newest = self._review(-1)
        if (model := self.shop.reviews[newest]).state != "closed":
            assert self.desk.status(newest)["objections"] == model.objections
        known = {name: one for model in self.shop.reviews.values() for name, one in model.findings.items()}
        shown = {row["finding_id"]: row for row in self.desk.rows("list_findings", "findings", limit=200)}
        assert {name: facts(row) for name, row in shown.items()} == {name: told(one) for name, one in known.items()}
        for name, one in known.items():
            assert shown[name]["blocking"] == one.blocks(self.shop.threshold), shown[name]
        self._nobody_settled_what_is_not_theirs(shown)
        self.seen = {name: (one, shown[name]["state"]) for name, one in known.items()}
        self.acted.clear()

    def _nobody_settled_what_is_not_theirs(self, shown: dict[str, Any]) -> None:
        """P11, in the broker's own words since the last look."""
        for name, (before, state) in self.seen.items():
            # Nothing is lost, however it was settled.
            row = shown[name]
            if all(actor.is_proposer for actor in self.acted):
                assert row["blocking"] >= before.blocks(self.shop.threshold), row
            if before.is_person and not any(actor.is_person for actor in self.acted):
                # A round that brings its lines back opens it again.
                assert row["state"] in (state, "reopened") or row["state"] not in SETTLINGS, row

    @invariant()
    def p11_nothing_passes_while_a_finding_is_open_that_keeps_it_back(self) -> None:
        approved = [model for model in self.shop.reviews.values() if model.approved is not None]
        for model in approved:
            # A threshold that is tightened later leaves an approval alone.
            assert not any(one.blocks(model.approved_at) for one in model.findings.values())
        standing = {model.approved.content for model in approved if model.approved is not None}
        opened = {content for content, digest in self.digests.items() if self.desk.is_open_for(digest)}
        # Of a counter-patch alone that was approved no answer said the digest.
        assert opened == standing & self.digests.keys()


def facts(row: dict[str, Any]) -> tuple[object, ...]:
    """What the broker says of a finding."""
    said = (row["severity"], (row["file"], row["line"]), row["category"], row["claim"], row["pre_existing"])
    return (*said, row["author"], row["source"], row["state"], row["answered_by"], row["suppressed_by"] is not None)


def told(one: ModelFinding) -> tuple[object, ...]:
    """What the model says of it."""
    source = "person" if one.is_person else "agent"
    return (*one.fault, one.author, source, one.state, one.answered_by, one.state == "suppressed")


def run_machine(crew: Crew, repo: Sandbox, examples: int, *, has_tokens: bool = False) -> None:
    class Machine(FindingsMachine):
        pass

    Machine.crew, Machine.repo, Machine.has_tokens = crew, repo, has_tokens
    # No shrinking: the steps of a failure can be read as they are, and each try costs a hundred calls.
    phases = set(Phase) - {Phase.shrink, Phase.explain}
    run_state_machine_as_test(Machine, settings=settings(max_examples=examples, stateful_step_count=30, phases=phases))


PROPOSES, REVIEWS = frozenset({"proposer"}), frozenset({"reviewer"})


@pytest.fixture
def trusting(broker: BrokerProcess) -> Iterator[Crew]:
    """Agents at the endpoints of their roles, and calls at none."""
    with ExitStack() as stack:

        def enter(kind: type[Desk], name: str) -> Desk:
            return stack.enter_context(kind(broker.url, "", agent=name))

        yield {
            "own": (Actor("prop-1", is_proposer=True, roles=PROPOSES), enter(ProposerDesk, "prop-1")),
            "other name": (Actor("prop-1", is_proposer=True, roles=PROPOSES), enter(ProposerDesk, "prop-1")),
            "other session": (Actor("prop-1", is_proposer=True), enter(Desk, "prop-1")),
            "operator": (Actor("prop-1", is_proposer=True, is_person=True), enter(Desk, "prop-1")),
            "as reviewer": (Actor("prop-1", is_proposer=True, roles=REVIEWS), enter(AgentDesk, "prop-1")),
            **{who: (Actor(who, roles=REVIEWS), enter(AgentDesk, who)) for who in AGENTS},
            PERSON: (Actor(PERSON, is_person=True), enter(Desk, PERSON)),
        }


@pytest.mark.timeout(300)
def test_p11_any_history_of_findings(trusting: Crew, repo: Sandbox):
    run_machine(trusting, repo, 4)


@pytest.fixture
def bearers(owner: Bearer) -> Iterator[Crew]:
    """Holders of tokens; the proposer has four."""
    with ExitStack() as stack:

        def enter(name: str, *roles: str) -> tuple[Actor, Desk]:
            token = name.partition("/")[0]
            actor = Actor(name, "operator" in roles, token == "alice", frozenset(roles))
            return actor, stack.enter_context(owner.give(token, *roles, agent=name))

        everything = ("proposer", "reviewer", "operator", "admin")
        yield {
            "own": enter("alice/bot1", "proposer", "reviewer"),
            "other name": enter("alice/bot2", "proposer", "reviewer"),
            "other session": enter("alice", "proposer"),
            "operator": enter("alice/hand", *everything),
            "as reviewer": enter("alice/eye", "reviewer"),
            "rev-1": enter("bob/bot", "reviewer"),
            "rev-2": enter("carol", "reviewer"),
            PERSON: enter("dora", *everything),
        }


@pytest.mark.timeout(300)
def test_p11_any_history_of_findings_where_the_proposer_has_tokens(bearers: Crew, repo: Sandbox):
    run_machine(bearers, repo, 3, has_tokens=True)
