"""Lists, feeds, statistics and proposals: what operators and agents read, page by page."""

from __future__ import annotations

import string
from random import Random
from typing import Any

import pytest

from tests.acceptance.reviewing import OTHER, REVIEWER, WHY, Desk, edited
from tests.broker import fresh_project
from tests.databases import ON_BOTH_DATABASES
from tests.git.sandbox import Sandbox, new_file


@ON_BOTH_DATABASES
def test_the_queue_is_by_priority_and_age_whatever_the_size_of_a_page(desk: Desk):
    kinds: list[dict[str, Any]] = [{"category": "verification"}, {}, {"agent_type": "planner"}]
    reviews = [desk.put_up(**kind) for kind in kinds * 3]
    expected = reviews[2::3] + reviews[1::3] + reviews[0::3]
    for limit in (1, 2, 4, 9, 50):
        found = desk.rows("list_reviews", "reviews", limit=limit)
        assert [row["review_id"] for row in found] == expected
        assert [row["priority"] for row in found] == ["critical"] * 3 + ["normal"] * 3 + ["low"] * 3


def test_the_queue_by_state_category_priority_and_turn(desk: Desk):
    plan = desk.put_up(category="plan_review", agent_type="planner")
    approved = desk.put_up_approved(category="code_change", diff=edited())
    claimed = desk.put_up_claimed(category="code_change", diff=edited())

    def ids(**filters: Any) -> list[str]:
        return [row["review_id"] for row in desk.rows("list_reviews", "reviews", limit=1, **filters)]

    assert ids(status="pending") == [plan]
    assert ids(status="approved") == [approved]
    assert ids(category="code_change") == [approved, claimed]
    assert ids(category="code_change", status="claimed") == [claimed]
    assert ids(priority="critical") == [plan]
    assert ids(turn="reviewer") == [plan, claimed]
    assert ids(turn="proposer") == [approved]
    assert ids(attention=True) == []
    assert ids(attention=False) == [plan, approved, claimed]
    assert ids(status="closed", turn="proposer") == []


@ON_BOTH_DATABASES
def test_a_page_goes_on_where_it_was_though_the_queue_moves(desk: Desk):
    reviews = [desk.put_up() for _ in range(4)]
    first = desk.do("list_reviews", limit=2)
    desk.approve(reviews[0])
    urgent = desk.put_up(agent_type="planner")
    rest = desk.do("list_reviews", limit=50, page=first["next_page"])
    assert [row["review_id"] for row in rest["reviews"]] == reviews[2:]
    assert urgent not in {row["review_id"] for row in rest["reviews"]}


@ON_BOTH_DATABASES
def test_the_feed_is_by_latest_activity_with_its_event(desk: Desk):
    reviews = [desk.put_up() for _ in range(5)]
    desk.claim(reviews[1])
    desk.say(reviews[3], "proposer")
    expected = [reviews[3], reviews[1], reviews[4], reviews[2], reviews[0]]
    for limit in (1, 2, 5):
        found = desk.rows("get_activity_feed", "entries", limit=limit)
        assert [entry["review"]["review_id"] for entry in found] == expected
        assert [entry["last_event"]["kind"] for entry in found[:2]] == ["message_sent", "review_claimed"]


@ON_BOTH_DATABASES
def test_statistics_count_what_happened(desk: Desk):
    approved, rejected, revised, withdrawn = (desk.put_up() for _ in range(4))
    desk.approve(approved)
    desk.claim(rejected, OTHER)
    desk.verdict(rejected, "comment")
    desk.say(rejected, "proposer")
    desk.verdict(rejected, "rejected")
    desk.decide(revised, "changes_requested")
    desk.revise(revised)
    desk.do("close_review", review_id=withdrawn)
    desk.do("close_review", review_id=approved)
    told = desk.do("get_review_stats")
    total = told["total"]
    counts = ("submitted", "revised", "claimed", "approved", "changes_requested", "rejected", "comments")
    assert [total[name] for name in counts] == [4, 1, 3, 1, 1, 1, 1]
    assert (total["closed"], total["withdrawn"], total["approval_rate"]) == (2, 1, pytest.approx(1 / 3))
    assert total["mean_seconds_to_claim"] >= 0
    assert total["mean_seconds_to_verdict"] >= 0
    assert {name: count for name, count in told["open"].items() if count} == {"pending": 1, "rejected": 1, "closed": 2}
    by_reviewer = {name: tally["approved"] + tally["rejected"] for name, tally in told["by_reviewer"].items()}
    assert by_reviewer == {REVIEWER: 1, OTHER: 1}
    assert told["by_category"].keys() == {"plan_review"}
    assert (told["by_project"], told["by_day"]) == ({desk.project: total}, {})
    since = desk.do("get_review_stats", since="2001-01-01")
    assert since["total"] == total
    # The test may have gone on over midnight.
    assert 1 <= len(since["by_day"]) <= 2
    assert all(len(day) == len("2026-01-01") for day in since["by_day"])
    assert sum(tally["submitted"] for tally in since["by_day"].values()) == 4
    assert sum(tally["approved"] for tally in since["by_day"].values()) == 1
    assert since["by_project"] == {desk.project: total}
    never = desk.do("get_review_stats", since="2999-01-01")
    assert (never["total"]["submitted"], never["by_day"], never["by_project"]) == (0, {}, {})


def test_statistics_of_all_projects_tell_them_apart(desk: Desk):
    desk.put_up()
    with Desk(desk.url, fresh_project()) as other:
        # Where just one is registered, a request that names none means that one.
        for each in (desk, other):
            each.do_unscoped("register_project", name=each.project)
        approved = other.put_up()
        other.put_up()
        other.approve(approved)
        told = other.do("get_review_stats", project=None)["by_project"]
        counts = {name: (told[name]["submitted"], told[name]["approved"]) for name in (desk.project, other.project)}
    assert counts == {desk.project: (1, 0), other.project: (2, 1)}


def test_a_long_path_is_reviewed_read_and_passes_the_gate(shop: Desk, repo: Sandbox):
    """As random as can be: what compresses well would fit an index that this does not."""
    letters = Random(7)
    folders = ["".join(letters.choices(string.ascii_letters + string.digits, k=203)) for _ in range(5)]
    path = "/".join(folders)
    review = shop.put_up(diff=new_file(path))
    assert path in shop.do("get_proposal", review_id=review, files=[path])["diff"]
    shop.decide(review, "comment", comments=[{"file": path, "body": "What a name."}])
    shop.verdict(review, "approved")
    blob = repo.git("hash-object", "--stdin", stdin=b"hello\n").strip()
    change = {"path": path, "mode_after": "100644", "blob_after": blob}
    assert shop.do("check_gate", changes=[change])["allowed"]
    longer = new_file(path + "/deeper")
    refused = shop.call("create_review", intent=WHY, agent_type="a", diff=longer)["error"]
    assert refused["code"] == "INVALID_DIFF"
    assert "1024 bytes" in refused["message"]
