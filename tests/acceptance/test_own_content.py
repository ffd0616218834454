"""No one gives the verdict on content that they wrote, however it came in and under any name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.accessing import Bearer
from tests.acceptance.gated import Team
from tests.acceptance.reviewing import OTHER, PROPOSAL, REVIEWER, WHY, Desk, edited
from tests.git.sandbox import Sandbox

pytest_plugins = ["tests.acceptance.accessing_brokers", "tests.acceptance.gated_brokers"]

BETTER = edited(text="better")
BEST = edited(text="best")
ROLES = ("proposer", "reviewer", "operator")


def offered(desk: Desk, review: str, reviewer: str = REVIEWER) -> dict[str, str]:
    """A counter-patch that a reviewer sends with changes requested: what names it."""
    given = desk.verdict(review, "changes_requested", desk.claim(review, reviewer), counter_patch=BEST)
    return {"review_id": review, "counter_patch_id": given["counter_patch_id"]}


def check_refused(desk: Desk, review: str, reviewer: str) -> None:
    """A reviewer may not claim it, the gate stays closed, and the queue passes over it."""
    with desk.unchanged(review):
        desk.refused("SELF_APPROVAL", "claim_review", review_id=review, reviewer_id=reviewer)
    assert not desk.is_open_for(desk.status(review)["digest"])
    assert desk.do("claim_review", reviewer_id=reviewer)["review"] is None


@pytest.fixture
def review(shop: Desk) -> str:
    return shop.put_up(diff=BETTER)


@pytest.fixture
def alone(shop: Desk) -> Iterator[Desk]:
    """Somebody who states a name."""
    with Desk(shop.url, shop.project, agent="mallory") as desk:
        yield desk


@pytest.mark.parametrize("name", ["mallory", REVIEWER])
def test_nobody_accepts_their_own_counter_patch(alone: Desk, review: str, name: str):
    patch = offered(alone, review, name)
    with alone.unchanged(review):
        details = alone.refused("SELF_APPROVAL", "accept_counter_patch", **patch)
    assert (details["author"], details["sent_by"]) == (name, "mallory")
    # To take it back is no approval of it.
    alone.do("reject_counter_patch", **patch)


def test_who_revises_by_their_kind_alone_does_not_review_it(shop: Desk, review: str):
    shop.do("create_review", review_id=review, intent=WHY, agent_type="codex", diff=BEST)
    check_refused(shop, review, "codex")


def test_whoever_accepts_without_a_name_may_be_its_author(shop: Desk, review: str):
    shop.do("accept_counter_patch", **offered(shop, review))
    assert shop.do("get_proposal", review_id=review)["accepted_by"] is None
    check_refused(shop, review, REVIEWER)
    shop.approve(review, OTHER)
    assert shop.is_open_for(shop.status(review)["digest"])


def test_what_becomes_the_holders_own_while_they_hold_it_gets_no_verdict_of_theirs(shop: Desk, review: str):
    generation = shop.claim(review, REVIEWER)
    given = shop.verdict(review, "comment", generation, counter_patch=BEST)
    shop.do("accept_counter_patch", review_id=review, counter_patch_id=given["counter_patch_id"])
    sent = {"review_id": review, "claim_generation": generation, "round": 2, "reason": WHY}
    with shop.unchanged(review):
        for verdict in ("approved", "changes_requested", "rejected", "comment"):
            shop.refused("SELF_APPROVAL", "submit_verdict", verdict=verdict, **sent)
    assert not shop.is_open_for(shop.status(review)["digest"])


def test_an_author_may_approve_what_somebody_else_accepted(shop: Desk, alone: Desk, review: str):
    alone.do("accept_counter_patch", **offered(shop, review))
    assert shop.do("get_proposal", review_id=review)["accepted_by"] == "mallory"
    taken = shop.do("claim_review", reviewer_id=REVIEWER)
    assert taken["review_id"] == review
    shop.verdict(review, "approved", taken["claim_generation"])
    assert shop.is_open_for(shop.status(review)["digest"])


def test_who_revised_a_review_may_not_approve_a_counter_patch_to_it(shop: Desk, alone: Desk, review: str):
    """They accepted it in the proposer's place, as the proposer would, and the proposer may not either."""
    shop.revise(review, proposer_id="mallory", diff=edited(text="great"))
    alone.do("accept_counter_patch", **offered(shop, review))
    check_refused(alone, review, "mallory")
    shop.approve(review)


def test_without_tokens_a_name_is_compared_as_a_whole(shop: Desk):
    review = shop.put_up(diff=BETTER, proposer_id="alice")
    shop.approve(review, "alice/bot2")
    assert shop.is_open_for(shop.status(review)["digest"])


def test_what_a_client_calls_itself_counts_beside_the_reviewers_name(shop: Desk):
    with Desk(shop.url, shop.project, agent="session-17") as agent:
        review = agent.do("create_review", intent="Improve it", agent_type="claude-code", diff=BETTER)["review_id"]
        check_refused(agent, review, "somebody-else")
    shop.approve(review)


HIDDEN = (0xAD, 0x34F, 0x61C, 0x115F, 0x17B4, 0x180B, 0x200D, 0x2060, 0x3164, 0xFE0F, 0xFFA0, 0xFFF0, 0x1D173, 0xE0FFF)
"""Of each range of Default_Ignorable_Code_Point in Unicode's DerivedCoreProperties.txt."""


def test_a_character_that_cannot_be_seen_makes_no_other_name(shop: Desk):
    review = shop.put_up(diff=BETTER, proposer_id="ren\xe9")
    for hidden in (*map(chr, HIDDEN), "\u2800"):
        for name in (f"ren\xe9{hidden}", f"{hidden}r{hidden}en\xe9", f"rene{hidden}\u0301"):
            shop.refused("SELF_APPROVAL", "claim_review", review_id=review, reviewer_id=name)


def test_who_answered_a_finding_does_not_settle_it_under_the_same_name_with_a_hidden_character(shop: Desk):
    review = shop.put_up(diff=BETTER, proposer_id="codex")
    shop.decide(review, "changes_requested", findings=[{"severity": "major", "claim": "It fails."}])
    [fault] = shop.do("list_findings", review_id=review)["findings"]
    asked = {"review_id": review, "finding_id": fault["finding_id"]}
    shop.do("answer_finding", **asked, answer="refuted", reason="It does not.")
    for name in ("codex\ufe0f", "codex\u034f", "codex\u3164"):
        with shop.unchanged(review):
            assert not shop.call("answer_finding", **asked, answer="upheld", reviewer_id=name)["ok"]
            said = [{"finding_id": fault["finding_id"], "answer": "upheld"}]
            told = {"review_id": review, "verdict": "approved", "claim": True, "answers": said}
            shop.refused("SELF_APPROVAL", "submit_verdict", **told, reviewer_id=name)


@pytest.fixture
def guarded_shop(owner: Bearer, repo: Sandbox) -> Bearer:
    owner.register(repo.root)
    return owner


@pytest.mark.parametrize(("proposer", "reviewer"), [(None, "bot2"), ("bot1", "bot2"), ("bot1", None), ("bot1", "bot1")])
def test_with_tokens_the_tokens_own_name_decides(guarded_shop: Bearer, proposer: str | None, reviewer: str | None):
    owner = guarded_shop
    sent = {**PROPOSAL, "proposer_id": proposer, "diff": BETTER}
    with owner.give("alice", *ROLES) as alice, owner.give("alice", *ROLES, agent="bot3") as again:
        review = alice.do("create_review", **sent)["review_id"]
        for hers in (alice, again):
            check_refused(hers, review, reviewer or "alice")
    # An agent that may review her work has a token of its own, and so has somebody whose name only begins like hers.
    with owner.give("alice2", *ROLES) as other:
        other.approve(review, "alice")
    assert owner.is_open_for(owner.status(review)["digest"])


def test_with_tokens_a_counter_patch_is_its_authors_under_every_label(guarded_shop: Bearer):
    owner = guarded_shop
    review = owner.put_up(diff=BETTER)
    with owner.give("alice", *ROLES) as alice, owner.give("bob", *ROLES) as bob:
        patch = offered(alice, review, "bot1")
        with owner.unchanged(review):
            alice.refused("SELF_APPROVAL", "accept_counter_patch", **patch)
        bob.do("accept_counter_patch", **patch)
        assert owner.do("get_proposal", review_id=review)["accepted_by"] == "bob"
        alice.approve(review, "bot2")


def test_with_tokens_an_inbox_offers_nobody_their_agents_work(guarded_shop: Bearer):
    owner = guarded_shop
    with owner.give("alice", *ROLES) as alice, owner.give("bob", *ROLES) as bob:
        review = alice.do("create_review", **{**PROPOSAL, "proposer_id": "bot1"}, diff=BETTER)["review_id"]

        def offers(desk: Bearer) -> list[str]:
            return [item["review"]["review_id"] for item in desk.do("get_inbox")["your_turn"]]

        assert (offers(alice), offers(bob)) == ([], [review])
        alice.refused("SELF_APPROVAL", "claim_review", review_id=review, reviewer_id="bot2")


def test_who_writes_a_handoff_does_not_approve_it_whatever_role_they_wrote_it_as(newcomers: Team):
    newcomers.begin()
    with Desk(newcomers.url, newcomers.project, agent="session-9") as session:
        sent = newcomers.handing("gemini", "codex")
        review = session.do("handoff_write", **sent)["review_id"]
        with newcomers.unmoved():
            session.refused("SELF_APPROVAL", "claim_review", review_id=review, reviewer_id="somebody-else")
    newcomers.approve(review, "codex")
    assert newcomers.where()["phase"] == "backend"


def test_p11_a_name_that_looks_the_same_is_no_other_principal(shop: Desk) -> None:
    review = shop.put_up(proposer_id="codex", diff=edited())
    for name in ("CODEX", " codex", "codex ", "codex\u00a0", "co\u200bdex", "\uff23\uff2f\uff24\uff25\uff38"):
        for operation, asked in (("claim_review", {}), ("submit_verdict", {"verdict": "approved", "claim": True})):
            shop.refused("SELF_APPROVAL", operation, review_id=review, reviewer_id=name, **asked)


@pytest.mark.parametrize("name", ["codex", "CODEX", "codex ", "co\u200bdex", "\uff23\uff2f\uff24\uff25\uff38"])
def test_the_next_review_is_one_that_the_caller_may_review_however_their_name_is_written(shop: Desk, name: str) -> None:
    own = [shop.put_up(proposer_id="codex", diff=edited(text=text)) for text in ("first", "second")]
    other = shop.put_up(diff=BETTER)
    assert shop.do("claim_review", reviewer_id=name)["review_id"] == other
    with shop.unchanged(own[0]):
        assert shop.do("claim_review", reviewer_id=name)["review"] is None


def test_with_tokens_the_next_review_is_of_another_name(guarded_shop: Bearer) -> None:
    owner = guarded_shop
    with owner.give("alice", *ROLES) as alice, owner.give("Alice", *ROLES) as again:
        alice.do("create_review", **{**PROPOSAL, "proposer_id": "bot1"}, diff=BETTER)
        other = owner.put_up(diff=BEST)
        assert again.do("claim_review", reviewer_id="bot2")["review_id"] == other
