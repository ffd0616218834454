"""P1 and P2 under anything that two proposers and three reviewers can do, in any order, against the model.

Once on a trusted broker, where names are compared as they are, and once with access tokens, where some of them are
the same person's.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.acceptance.accessing import Bearer
from tests.acceptance.model import ModelReview, Patch, Round, codes_of
from tests.acceptance.reviewing import WHY, Desk, edited
from tests.broker import BrokerProcess, fresh_project
from tests.git.sandbox import Sandbox

pytest_plugins = ["tests.acceptance.accessing_brokers"]

CONTENTS = {name: edited(text=name) for name in ("better", "best", "great")} | {"other": edited("b.txt")}
PROPOSERS = st.sampled_from(["prop-1", "prop-2"])
# A proposer who takes reviews too, now and then.
REVIEWERS = st.sampled_from(["rev-1", "rev-2", "rev-3", "prop-1"])
DECIDERS = st.sampled_from([None, "prop-1", "rev-1", "rev-2"])
BEARERS = {
    "prop-1": "alice/bot1",
    "prop-2": "bob",
    "rev-1": "alice/bot2",
    "rev-2": "carol",
    "rev-3": "bob/bot2",
}
"""Their names with tokens: two people have two each."""
CONTENT = st.sampled_from(sorted(CONTENTS))
# Mostly the current generation, else one from before.
BEHIND = st.sampled_from([0, 0, 0, 1, 2])


class ReviewMachine(RuleBasedStateMachine):
    """Every rule asks the model first, then the broker, and expects the same of both."""

    reviews: Bundle[str] = Bundle("reviews")
    patches: Bundle[tuple[str, str]] = Bundle("patches")
    desk: Desk
    bearers: dict[str, Bearer]
    """The desks of those who have tokens; empty on a trusted broker."""
    repo: Sandbox

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[str, ModelReview] = {}
        self.digests: dict[str, str] = {}

    @initialize()
    def open_desk(self) -> None:
        # A project of this run's own, for the same folder: `claim_review` without an id sees only its reviews.
        self.desk = copy.copy(self.desk)
        self.desk.project = fresh_project()
        self.desk.register(self.repo.root)

    def _name(self, who: str) -> str:
        return BEARERS[who] if self.bearers else who

    @contextmanager
    def _as(self, who: str | None, *, named: bool = False) -> Generator[None]:
        """Call as somebody: with their token; without tokens only where `named` asks for it."""
        before = self.desk
        with ExitStack() as stack:
            if who is not None and self.bearers:
                self.desk = copy.copy(self.bearers[who])
                self.desk.project = before.project
            elif who is not None and named:
                self.desk = stack.enter_context(Desk(before.url, before.project, agent=who))
            try:
                yield
            finally:
                self.desk = before

    def teardown(self) -> None:
        for review, model in self.model.items():
            events = self.desk.events(review)
            given = [event["data"]["claim_generation"] for event in events if event["kind"] == "verdict_submitted"]
            assert Counter(given) == model.effective
            assert all(count == 1 for count in Counter(given).values())

    def _both(self, review: str, change: Callable[[ModelReview], None], operation: str, **arguments: Any) -> Any:
        """The same step for model and broker; the broker's data, or None when both refuse."""
        before = self.desk.status(review)
        codes = codes_of(lambda: change(self.model[review]))
        if not codes:
            return self.desk.do(operation, review_id=review, **arguments)
        envelope = self.desk.call(operation, review_id=review, **arguments)
        assert not envelope["ok"], envelope
        assert envelope["error"]["code"] in codes
        assert self.desk.status(review) == before
        return None

    def _generation(self, review: str, behind: int) -> int:
        return max(0, self.model[review].generation - behind)

    @rule(target=reviews, proposer=PROPOSERS, content=CONTENT)
    def put_up(self, proposer: str, content: str) -> str:
        with self._as(proposer):
            proposer = self._name(proposer)
            created = self.desk.put_up_whole(proposer_id=proposer, diff=CONTENTS[content])
        self.model[created["review_id"]] = ModelReview(proposer, [Round(content, proposer)])
        # The same content has the same digest, with any proposer and however often.
        assert self.digests.setdefault(content, created["digest"]) == created["digest"]
        return created["review_id"]

    @rule(review=reviews, author=PROPOSERS, content=CONTENT)
    def revise(self, review: str, author: str, content: str) -> None:
        name = self._name(author)
        sent = {"intent": "Again", "agent_type": "claude-code", "proposer_id": name, "diff": CONTENTS[content]}
        with self._as(author):
            revised = self._both(review, lambda model: model.revise(name, content), "create_review", **sent)
        if revised:
            assert self.digests.setdefault(content, revised["digest"]) == revised["digest"]

    @rule(review=reviews, reviewer=REVIEWERS)
    def claim(self, review: str, reviewer: str) -> None:
        name = self._name(reviewer)
        with self._as(reviewer):
            self._both(review, lambda model: model.claim(name), "claim_review", reviewer_id=name)

    @rule(reviewer=REVIEWERS)
    def claim_next(self, reviewer: str) -> None:
        # Dictionaries keep the order in which the reviews were proposed, which is the queue's.
        name = self._name(reviewer)
        offered = [review for review, model in self.model.items() if model.is_offered_to(name)]
        with self._as(reviewer):
            taken = self.desk.do("claim_review", reviewer_id=name)["review_id"]
        assert taken == (offered[0] if offered else None)
        if offered:
            self.model[offered[0]].claim(name)

    @rule(review=reviews, behind=BEHIND)
    def renew(self, review: str, behind: int) -> None:
        generation = self._generation(review, behind)
        self._both(review, lambda model: model.renew(generation), "renew_claim", claim_generation=generation)

    @rule(review=reviews, behind=BEHIND)
    def release(self, review: str, behind: int) -> None:
        generation = self._generation(review, behind)
        self._both(review, lambda model: model.release(generation), "release_claim", claim_generation=generation)

    @rule(
        review=reviews,
        behind=BEHIND,
        verdict=st.sampled_from(["approved", "approved", "changes_requested", "rejected", "comment"]),
        names_round=st.booleans(),
    )
    def verdict(self, review: str, behind: int, verdict: str, names_round: bool) -> None:
        generation = self._generation(review, behind)
        number = self.model[review].round if names_round else None
        sent = {"verdict": verdict, "reason": WHY, "claim_generation": generation, "round": number}
        self._both(review, lambda model: model.verdict(generation, verdict, number), "submit_verdict", **sent)

    @rule(
        target=patches,
        review=reviews,
        behind=BEHIND,
        verdict=st.sampled_from(["changes_requested", "comment"]),
        content=CONTENT,
    )
    def counter_patch(self, review: str, behind: int, verdict: str, content: str) -> tuple[str, str]:
        generation = self._generation(review, behind)
        author = self.model[review].holder
        sent = {"verdict": verdict, "reason": WHY, "claim_generation": generation, "counter_patch": CONTENTS[content]}
        given = self._both(review, lambda model: model.verdict(generation, verdict, None), "submit_verdict", **sent)
        if given is None:
            return review, "cp_none"
        assert author is not None
        self.model[review].offered(Patch(given["counter_patch_id"], content, author))
        return review, given["counter_patch_id"]

    @rule(offered=patches, who=DECIDERS, accepts=st.booleans())
    def decide(self, offered: tuple[str, str], who: str | None, accepts: bool) -> None:
        review, patch = offered
        if patch == "cp_none":
            return
        operation = "accept_counter_patch" if accepts else "reject_counter_patch"
        name = None if who is None else self._name(who)

        def change(model: ModelReview) -> None:
            if accepts:
                model.accept(patch, name)
            else:
                model.reject(patch)

        with self._as(who, named=True):
            self._both(review, change, operation, counter_patch_id=patch)

    @rule(review=reviews, side=st.sampled_from(["proposer", "reviewer"]), behind=BEHIND)
    def speak(self, review: str, side: str, behind: int) -> None:
        generation = self._generation(review, behind)
        who = {"claim_generation": generation} if side == "reviewer" else {}

        def change(model: ModelReview) -> None:
            if side == "reviewer":
                model.reviewer_message(generation)
            else:
                model.proposer_message()

        self._both(review, change, "add_message", sender_role=side, body="A word.", **who)

    @rule(review=reviews)
    def close(self, review: str) -> None:
        self._both(review, ModelReview.close, "close_review")

    @invariant()
    def broker_and_model_agree(self) -> None:
        for review, model in self.model.items():
            status = self.desk.status(review)
            told = (status["status"], status["round"], status["claim_generation"])
            assert told == (model.state, model.round, model.generation)
            assert status["reviewer_id"] == (model.holder or model.last_reviewer)
            assert (status["counter_patch_status"] == "pending") == (model.patch is not None)

    @invariant()
    def p2_the_gate_is_open_for_what_stands_approved_and_nothing_else(self) -> None:
        standing = {model.approved.content for model in self.model.values() if model.approved is not None}
        opened = {content for content, digest in self.digests.items() if self.desk.is_open_for(digest)}
        assert opened == standing


def run_machine(desk: Desk, repo: Sandbox, bearers: dict[str, Bearer], examples: int) -> None:
    class Machine(ReviewMachine):
        pass

    Machine.desk, Machine.repo, Machine.bearers = desk, repo, bearers
    run_state_machine_as_test(Machine, settings=settings(max_examples=examples, stateful_step_count=30))


@pytest.mark.timeout(300)
def test_p1_p2_any_history_of_reviews(broker: BrokerProcess, repo: Sandbox):
    with Desk(broker.url, fresh_project()) as opened:
        run_machine(opened, repo, {}, 5)


@pytest.mark.timeout(300)
def test_p1_p2_any_history_where_somebody_has_two_names(owner: Bearer, repo: Sandbox):
    with ExitStack() as stack:
        bearers = {
            who: stack.enter_context(owner.give(name.partition("/")[0], "proposer", "reviewer", "operator", agent=name))
            for who, name in BEARERS.items()
        }
        run_machine(owner, repo, bearers, 4)
