"""The inbox: every open review is in exactly one list of each person, and says why."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.acceptance.databases import run_sql
from tests.acceptance.gated import Team
from tests.acceptance.gating import staged
from tests.acceptance.pooling import Steward, ended
from tests.acceptance.reviewing import OTHER, PROPOSER, REVIEWER, WHY, Desk, edited
from tests.broker import BrokerProcess, fresh_project
from tests.databases import ON_BOTH_DATABASES
from tests.git.sandbox import Sandbox
from tests.modes import VARIATION

pytest_plugins = ["tests.acceptance.gated_brokers"]
BYSTANDER = "somebody"
PERSON = "anna-of-one-review"
TRAYS = ("your_turn", "waiting", "problems")
COMMIT = "1" * 40


def inbox(desk: Desk, person: str, **more: Any) -> dict[str, Any]:
    return desk.do("get_inbox", person=person, **more)


def item(desk: Desk, person: str, review: str) -> tuple[str, dict[str, Any]]:
    """In which list a review is, and how; it has to be in exactly one."""
    shown = inbox(desk, person)
    [found] = [
        (tray, one) for tray in TRAYS for one in shown[tray] if one["review"] and one["review"]["review_id"] == review
    ]
    return found


def place(desk: Desk, person: str, review: str) -> tuple[str, str, str | None]:
    """In which list a review is, why, and whom it waits for."""
    tray, found = item(desk, person, review)
    assert found["kind"] == "review"
    return tray, found["why"], found["who"]


def pools(desk: Desk) -> list[tuple[str, str]]:
    """The pools of the desk's project that are a problem, each with why."""
    shown = [one for one in inbox(desk, BYSTANDER)["problems"] if one["kind"] == "pool"]
    return [(one["pool"]["supervisor_id"], one["why"]) for one in shown]


def causes(desk: Desk, person: str = BYSTANDER) -> list[tuple[str, list[str]]]:
    """What holds up reviews, in a line, and which ones."""
    shown = [one for one in inbox(desk, person)["problems"] if one["review"] is None]
    assert [one["held_up"] for one in shown] == [len(one["holds_up"]) for one in shown]
    return [(one["cause"], [held["review_id"] for held in one["holds_up"]]) for one in shown]


def everywhere(desk: Desk, review: str) -> dict[str, tuple[str, str, str | None]]:
    return {person: place(desk, person, review) for person in (PROPOSER, REVIEWER, BYSTANDER)}


# ------------------------------------------------------------------------------------------- whose turn


def test_a_new_review_is_everybodys_to_take_but_its_proposers(desk: Desk):
    review = desk.put_up()
    assert everywhere(desk, review) == {
        PROPOSER: ("waiting", "queued", None),
        REVIEWER: ("your_turn", "review", None),
        BYSTANDER: ("your_turn", "review", None),
    }
    assert item(desk, BYSTANDER, review)[1]["since"] == desk.do("get_proposal", review_id=review)["created_at"]


def test_a_claimed_review_is_its_holders_until_somebody_asks(desk: Desk):
    review = desk.put_up_claimed()
    others = ("waiting", "reviewing", REVIEWER)
    holder = ("your_turn", "verdict", None)
    assert everywhere(desk, review) == {PROPOSER: others, REVIEWER: holder, BYSTANDER: others}
    desk.say(review, "reviewer")
    asked = ("waiting", "proposer", PROPOSER)
    proposer = ("your_turn", "answer", None)
    assert everywhere(desk, review) == {PROPOSER: proposer, REVIEWER: asked, BYSTANDER: asked}
    desk.say(review, "proposer")
    assert everywhere(desk, review) == {PROPOSER: others, REVIEWER: holder, BYSTANDER: others}


@pytest.mark.parametrize("patch", [None, "Another text."])
def test_after_changes_were_requested_it_is_the_proposers(desk: Desk, patch: str | None):
    review = desk.put_up_claimed()
    generation = desk.status(review)["claim_generation"]
    desk.verdict(review, "changes_requested", generation, counter_patch=patch)
    others = ("waiting", "proposer", PROPOSER)
    mine = ("your_turn", "revise" if patch is None else "decide", None)
    assert everywhere(desk, review) == {PROPOSER: mine, REVIEWER: others, BYSTANDER: others}


def test_an_approved_review_waits_until_it_is_applied_and_closed(desk: Desk):
    review = desk.put_up_approved()
    others = ("waiting", "proposer", PROPOSER)
    assert everywhere(desk, review) == {PROPOSER: ("your_turn", "apply", None), REVIEWER: others, BYSTANDER: others}
    # A question about it goes to who approved it.
    desk.say(review, "proposer", "May I apply it tomorrow?")
    asked = ("waiting", "reviewing", REVIEWER)
    assert everywhere(desk, review) == {PROPOSER: asked, REVIEWER: ("your_turn", "answer", None), BYSTANDER: asked}
    desk.do("close_review", review_id=review)
    for person in (PROPOSER, REVIEWER, BYSTANDER):
        assert inbox(desk, person)["counts"] == dict.fromkeys(TRAYS, 0)


def test_nobody_is_asked_to_judge_their_own_round(desk: Desk):
    review = desk.put_up()
    desk.revise(review, proposer_id=OTHER)
    assert place(desk, OTHER, review) == ("waiting", "queued", None)
    assert place(desk, BYSTANDER, review) == ("your_turn", "review", None)


# --------------------------------------------------------------------------------------------- problems


def test_after_too_many_rounds_a_person_has_to_step_in(desk: Desk):
    review = desk.put_up()
    for number in (1, 2, 3):
        desk.decide(review, "changes_requested")
        if number < 3:
            assert place(desk, PROPOSER, review)[:2] == ("your_turn", "revise")
            desk.revise(review, description=f"Try {number}.")
    assert set(everywhere(desk, review).values()) == {("problems", "escalate", None)}
    assert item(desk, BYSTANDER, review)[1]["detail"] == WHY


def test_a_rejected_change_is_a_problem_as_long_as_its_commits_stand(shop: Desk):
    unapplied, applied = shop.put_up(), shop.put_up()
    shop.do("record_commit", commit=COMMIT, plan="03-02", review_ids=[applied], unreviewed=True)
    for review in (unapplied, applied):
        shop.decide(review, "rejected")
    assert place(shop, PROPOSER, unapplied) == ("your_turn", "revert", None)
    assert place(shop, BYSTANDER, unapplied) == ("waiting", "proposer", PROPOSER)
    assert set(everywhere(shop, applied).values()) == {("problems", "revert", None)}
    heads = {"head_before": COMMIT, "head_after": "2" * 40}
    reverted = [{"commit": COMMIT, "reverted_by": "2" * 40}]
    shop.do("record_rollback", review_id=applied, branch="feature", reverted=reverted, **heads)
    assert place(shop, PROPOSER, applied) == ("your_turn", "revert", None)


def test_reviews_that_reviewers_failed_at_for_one_reason_are_one_problem(shop: Desk):
    steward = Steward(shop)
    steward.register()
    late = shop.put_up()
    reviewer = steward.one()
    for _ in range(3):
        steward.fail(reviewer)
    slow = ("3 reviewers gave no verdict: it took too long; 1 review waits", [late])
    assert causes(shop) == causes(shop, PROPOSER) == [slow]
    failed = [shop.put_up() for _ in range(5)]
    for number in range(15):
        said = f'status 1: {{"request":{number},"error":{{"message":"Overloaded, request {number}"}}}}'
        steward.fail(reviewer, "crashed", reason=said)
    first, second = causes(shop)
    assert (first, second[1]) == (slow, failed)
    assert re.fullmatch(r"3 reviewers gave no verdict: Overloaded, request \d+; 5 reviews wait", second[0])
    [problem] = [one for one in inbox(shop, BYSTANDER)["problems"] if one["held_up"] == 5]
    assert (problem["kind"], problem["why"], problem["who"]) == ("failure", "attention", None)
    assert problem["pool"]["supervisor_id"] == steward.supervisor_id
    for review in failed[1:]:
        shop.do("retry_review", review_id=review)
    assert [held for _, held in causes(shop)] == [[late], failed[:1]]


@ON_BOTH_DATABASES
def test_an_override_of_the_gate_is_a_problem_of_each_person_until_they_have_seen_it(shop: Desk, repo: Sandbox):
    repo.write("a.txt", "a hot fix\n")
    with Desk(shop.url, shop.project, agent="ann") as ann:
        override = ann.override(changes=staged(repo), reason="The shop\nis down.", branch="main")["override_id"]
    for person in (BYSTANDER, "ann"):
        [problem] = inbox(shop, person)["problems"]
        assert (problem["why"], problem["who"]) == ("overridden", f"{shop.project}/{override}")
        assert problem["cause"] == f"ann overrode the gate of {shop.project} on main: The shop is down."
    for _ in range(2):
        shop.do("see_override", override_id=override, person=BYSTANDER)
    assert inbox(shop, BYSTANDER)["problems"] == []
    assert len(inbox(shop, "ann")["problems"]) == 1
    [seen] = shop.do("get_audit_log", kind="override_seen")["events"]
    assert (seen["subject"], seen["actor"]) == (f"override:{shop.project}/{override}", BYSTANDER)
    shop.refused("NOT_FOUND", "see_override", override_id="another", person=BYSTANDER)


# ------------------------------------------------------------------------------------------------ pools


def test_what_a_running_pool_takes_is_no_persons_turn(shop: Desk, desk: Desk):
    steward = Steward(shop)
    steward.register()
    review, elsewhere = shop.put_up(), desk.put_up()
    assert place(shop, BYSTANDER, review) == ("waiting", "queued", "codex on a-host")
    assert pools(shop) == []
    # The pool is for one project only.
    assert place(desk, BYSTANDER, elsewhere) == ("your_turn", "review", None)
    shop.do("pause_reviewers", supervisor_id=steward.supervisor_id, reason="The model is being changed.")
    said = "codex on a-host is paused: The model is being changed; 1 review waits"
    assert causes(shop) == causes(shop, PROPOSER) == [(said, [review])]
    assert pools(shop) == [(steward.supervisor_id, "paused")]
    [paused] = inbox(shop, BYSTANDER)["problems"]
    assert (paused["review"], paused["pool"]["state"]) == (None, "paused")
    assert "The model is being changed." in paused["detail"]
    assert pools(desk) == []
    shop.do("resume_reviewers", supervisor_id=steward.supervisor_id)
    assert place(shop, BYSTANDER, review) == ("waiting", "queued", "codex on a-host")
    assert causes(shop) == []


def test_what_a_pool_that_stands_still_holds_up_is_one_problem_but_for_what_needs_the_person(shop: Desk):
    steward = Steward(shop)
    steward.register()
    urgent, drafted, second = (shop.put_up(**kind) for kind in ({"agent_type": "planner"}, {}, {}))
    draft = {"draft_id": "d1", "round": 1, "kind": "finding", "body": "Why?"}
    shop.do("save_draft", review_id=drafted, person=BYSTANDER, **draft)
    shop.do("pause_reviewers", supervisor_id=steward.supervisor_id)
    assert inbox(shop, BYSTANDER)["counts"] == {"your_turn": 1, "waiting": 0, "problems": 1}
    assert place(shop, BYSTANDER, drafted) == ("your_turn", "draft", None)
    [(_, held)] = causes(shop)
    assert held == [urgent, second]
    assert causes(shop, REVIEWER)[0][1] == [urgent, drafted, second]
    # One that somebody takes is not held up by it any more.
    shop.claim(urgent)
    assert place(shop, REVIEWER, urgent) == ("your_turn", "verdict", None)
    assert causes(shop)[0][1] == [second]


@pytest.mark.parametrize(
    ("ended_so", "told"),
    [
        ('status 1: stream error 429 {"error":{"code":429,"message":"slow down"}}', "were rate limited (429)"),
        ('status 1: {"error":{"message":"No such model: o9.","param":null}}', "ended at once: No such model: o9"),
        ("The program is not logged in: run it", "were not logged in"),
    ],
)
def test_why_reviewers_fail_is_a_sentence_without_json(shop: Desk, ended_so: str, told: str):
    steward = Steward(shop)
    steward.register()
    review = shop.put_up()
    for _ in range(4):
        steward.beat(ended(steward.one(), 1, quick=True, error=ended_so))
    steward.beat()
    said = f"codex on a-host: 4 reviewers in a row {told}; next try in 5 min; 1 review waits"
    assert causes(shop) == [(said, [review])]
    assert pools(shop) == [(steward.supervisor_id, "circuit_open")]
    [circuit] = [one for one in inbox(shop, BYSTANDER)["problems"] if one["kind"] == "pool"]
    assert circuit["detail"]
    assert circuit["since"] < circuit["pool"]["circuit_open_until"]


def test_what_a_full_pool_of_silent_reviewers_does_not_take_waits_for_the_reviewer(shop: Desk):
    steward = Steward(shop, max_pool_size=1)
    steward.register()
    held, *queued = (shop.put_up() for _ in range(4))
    name = steward.one()
    shop.do("claim_review", reviewer_id=name)
    ago_us = int((datetime.now(UTC) - timedelta(minutes=24)).timestamp() * 1_000_000)
    steward.activity[name] = {"output_us": ago_us, "silent_us": ago_us}
    steward.beat()
    for person in (PROPOSER, BYSTANDER):
        assert causes(shop, person) == [("codex-r1 has been silent for 24 min; 4 reviews wait", [held, *queued])]
        assert inbox(shop, person)["counts"] == {"your_turn": 0, "waiting": 0, "problems": 1}
    # Another pool takes them.
    Steward(shop).register(host="b-host")
    assert place(shop, BYSTANDER, queued[0]) == ("waiting", "queued", "codex on b-host")
    assert causes(shop) == [("codex-r1 has been silent for 24 min; 1 review waits", [held])]


def test_a_pool_takes_nothing_of_a_project_without_a_folder(desk: Desk):
    Steward(desk).register()
    assert place(desk, BYSTANDER, desk.put_up())[:2] == ("your_turn", "review")


# ------------------------------------------------------------------------------------------------- time


def test_what_should_have_happened_long_ago_is_stuck(
    tmp_path_factory: pytest.TempPathFactory, repo: Sandbox, database_settings: dict[str, object]
):
    folder = tmp_path_factory.mktemp("broker")
    with (
        # No sweep reclaims a claim that has run out.
        BrokerProcess(folder, sweep_interval_seconds=3600, **database_settings) as broker,
        Desk(broker.url, fresh_project()) as desk,
    ):
        desk.register(repo.root)
        stewards = [Steward(desk) for _ in range(3)]
        for steward in stewards:
            steward.register()
        _running, lost, gone = (steward.supervisor_id for steward in stewards)
        old, new, overdue, late = (desk.put_up() for _ in range(4))
        desk.claim(overdue)
        desk.claim(late)
        minute = 60_000_000
        run_sql(
            broker,
            database_settings,
            f"UPDATE reviews SET created_at = created_at - {31 * minute} WHERE id = '{old}'",
            f"UPDATE reviews SET created_at = created_at - {29 * minute} WHERE id = '{new}'",
            f"UPDATE reviews SET lease_expires_at = claimed_at - {2 * minute} WHERE id = '{overdue}'",
            f"UPDATE reviews SET lease_expires_at = claimed_at WHERE id = '{late}'",
            f"UPDATE pools SET last_seen_at = last_seen_at - {3 * minute} WHERE id = '{lost}'",
            f"UPDATE pools SET last_seen_at = last_seen_at - {25 * 60 * minute} WHERE id = '{gone}'",
        )
        assert place(desk, BYSTANDER, new) == ("waiting", "queued", "codex on a-host")
        # One that was not heard of for a day is not coming back; the running one holds up the review.
        for person in (PROPOSER, REVIEWER, BYSTANDER):
            assert sorted(causes(desk, person)) == [
                ("codex on a-host has been silent for 3 min", []),
                ("codex on a-host has taken nothing for 31 min; 1 review waits", [old]),
                (f"{REVIEWER} has been silent for 2 min; 1 review waits", [overdue]),
            ]
        assert place(desk, REVIEWER, late) == ("your_turn", "verdict", None)
        assert pools(desk)[0] == (lost, "lost")


# --------------------------------------------------------------------------------------- lists and counts


@ON_BOTH_DATABASES
def test_lists_are_in_queue_order_and_counted_one_beyond_the_limit(desk: Desk):
    kinds: list[dict[str, Any]] = [{"category": "verification"}, {}, {"agent_type": "planner"}]
    reviews = [desk.put_up(**kind) for kind in kinds * 2]
    expected = [reviews[place] for place in (2, 5, 1, 4, 0, 3)]
    for person, tray in ((BYSTANDER, "your_turn"), (PROPOSER, "waiting")):
        for limit in (1, 5, 6, 7):
            shown = inbox(desk, person, limit=limit)
            assert [one["review"]["review_id"] for one in shown[tray]] == expected[:limit]
            assert shown["counts"] == {**dict.fromkeys(TRAYS, 0), tray: min(6, limit + 1)}
    assert inbox(desk, BYSTANDER)["person"] == BYSTANDER
    desk.refused("TOO_LARGE", "get_inbox", person=BYSTANDER, limit=201)


@VARIATION
def test_a_row_says_how_large_the_change_is_and_how_many_findings_are_open(shop: Desk):
    reviews = [shop.put_up(diff=edited()) for _ in range(51)]
    finding = {"severity": "major", "file": "a.txt", "line": 1, "claim": "This is wrong."}
    shop.verdict(reviews[0], "changes_requested", shop.claim(reviews[0]), findings=[finding])
    sized = [
        (one["files"], one["added"], one["removed"], one["open_findings"])
        for one in inbox(shop, BYSTANDER, limit=60)["your_turn"]
    ]
    assert sized == [(1, 1, 1, 0)] * 50
    asked = item(shop, BYSTANDER, reviews[0])[1]
    assert (asked["files"], asked["added"], asked["removed"], asked["open_findings"]) == (1, 1, 1, 1)


def test_what_a_person_has_to_do_with_comes_first(desk: Desk):
    urgent, own, held, last = (
        desk.put_up(**kind) for kind in ({"agent_type": "planner"}, {"proposer_id": OTHER}, {}, {})
    )
    desk.claim(held, OTHER)
    shown = inbox(desk, OTHER)
    assert [one["review"]["review_id"] for one in shown["your_turn"]] == [held, urgent, last]
    assert [one["review"]["review_id"] for one in shown["waiting"]] == [own]
    desk.claim(urgent)
    desk.claim(last)
    assert [one["review"]["review_id"] for one in inbox(desk, OTHER)["waiting"]] == [own, urgent, last]


def test_the_inbox_is_of_every_project_unless_one_is_named(broker: BrokerProcess, desk: Desk):
    review = desk.put_up(proposer_id=PERSON)
    with Desk(broker.url, fresh_project()) as other:
        assert inbox(other, f"stranger-{other.project}")["counts"] == dict.fromkeys(TRAYS, 0)
        # A person's own reviews come first; of the shared broker's other reviews there may be more than are shown.
        shown = inbox(other, PERSON, project=None, limit=200)
        assert review in {one["review"]["review_id"] for tray in TRAYS for one in shown[tray] if one["review"]}


def test_the_inbox_says_up_to_which_event_it_is_so(desk: Desk):
    before = inbox(desk, BYSTANDER)["cursor"]
    review = desk.put_up()
    waited = desk.do("list_reviews", wait=True, cursor=before, timeout_s=20)
    assert [one["review_id"] for one in waited["reviews"]] == [review]
    assert inbox(desk, BYSTANDER)["cursor"] >= waited["cursor"]


def test_a_handoff_that_waits_for_its_approval_is_of_its_cycle(writers: Team):
    writers.begin()
    review = writers.do("handoff_write", **writers.handing("writer", "editor"))["review_id"]
    tray, waiting = item(writers, "anna", review)
    assert (tray, waiting["kind"], waiting["why"]) == ("your_turn", "cycle", "review")
    assert waiting["detail"] == "writer hands draft over to editor"
    tray, own = item(writers, "writer", review)
    assert (tray, own["kind"], own["why"]) == ("waiting", "cycle", "queued")
    writers.do("submit_verdict", review_id=review, verdict="approved", claim_generation=writers.claim(review))
    # The cycle has gone on: no one has anything to do with it any more, and nothing has to be closed.
    for person in ("anna", "writer", REVIEWER):
        shown = inbox(writers, person)
        assert review not in {one["review"] and one["review"]["review_id"] for tray in TRAYS for one in shown[tray]}


def test_a_round_that_is_only_a_diff_is_no_cycle(shop: Desk):
    review = shop.put_up(diff=edited(), category="handoff")
    assert place(shop, BYSTANDER, review)[:2] == ("your_turn", "review")
