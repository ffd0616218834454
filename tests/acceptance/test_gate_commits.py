"""What hooks tell of commits and rollbacks, and where that leaves a plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.acceptance.gating import PLAN, Branch, changed_by
from tests.acceptance.reviewing import Desk, at_once, edited
from tests.broker import fresh_project
from tests.databases import ON_BOTH_DATABASES
from tests.git.sandbox import Sandbox


def made_up(number: int) -> str:
    """The id of a commit that no repository has."""
    return f"{number:040x}"


def told(desk: Desk, number: int, *reviews: str, **more: Any) -> dict[str, Any]:
    """Tell of a made-up commit of the plan."""
    return desk.do(
        "record_commit", **{"commit": made_up(number), "plan": PLAN, "branch": "f", "review_ids": list(reviews), **more}
    )


def listed(desk: Desk, **wanted: Any) -> list[str]:
    """The ids of recorded commits."""
    return [commit["commit"] for commit in desk.do("list_commits", **wanted)["commits"]]


def take_back(desk: Desk, review: str, **facts: Any) -> dict[str, Any]:
    """Tell of a rollback."""
    usual = {"branch": "f", "head_before": made_up(900), "head_after": made_up(901)}
    return desk.do("record_rollback", review_id=review, **{**usual, **facts})


# -------------------------------------------------------------------------------------------------- commits


def test_a_commit_is_kept_as_it_was_told(feature: Branch, repo: Sandbox):
    review = feature.desk.put_up(diff=edited())
    commit = feature.commit("a.txt", "better\n")
    record = feature.record(commit, review, phase="03", task="2", depends_on=["rv_other", made_up(7)])
    assert record == {
        "project": feature.desk.project,
        "commit": commit,
        "parent": repo.git("rev-parse", "HEAD^").strip(),
        "branch": "feature",
        "phase": "03",
        "plan": "03-02",
        "task": "2",
        "review_ids": [review],
        "unreviewed": False,
        "depends_on": ["rv_other", made_up(7)],
        "replaces": None,
        "recorded_at": record["recorded_at"],
        "recorded_by": "git",
        "replaced_by": None,
        "rolled_back_by": None,
    }
    assert feature.desk.do("list_commits", commits=[commit])["commits"] == [record]
    (event,) = feature.desk.do("get_audit_log", kind="commit_recorded")["events"]
    assert (event["subject"], event["actor"]) == (f"commit:{feature.desk.project}/{commit}", "git")
    assert event["data"]["review_ids"] == [review]


def test_a_commit_without_a_plan_is_of_its_branch(shop: Desk):
    assert told(shop, 1, plan=None)["plan"] == "f"
    assert told(shop, 2, plan=None, branch=None)["plan"] is None
    assert listed(shop, plan="f") == [made_up(1)]


@ON_BOTH_DATABASES
def test_p4_a_commit_that_is_told_twice_is_one(shop: Desk):
    review = shop.put_up()

    def tell() -> dict[str, Any]:
        with Desk(shop.url, shop.project) as mine:
            return told(mine, 1, review, review)

    answers = at_once([tell] * 6)
    assert all(answer == answers[0] for answer in answers)
    assert answers[0]["review_ids"] == [review]
    # The first word stands.
    assert told(shop, 1, plan="other", unreviewed=True) == answers[0]
    assert len(shop.do("get_audit_log", kind="commit_recorded")["events"]) == 1


@ON_BOTH_DATABASES
def test_commits_are_found_by_plan_by_review_and_by_id_in_their_order(shop: Desk):
    reviews = [shop.put_up(), shop.put_up()]
    for number in range(1, 6):
        told(shop, number, reviews[number % 2], plan=PLAN if number != 3 else "03-03")
    everything = [made_up(number) for number in range(1, 6)]
    assert listed(shop) == everything
    assert listed(shop, plan=PLAN) == [made_up(number) for number in (1, 2, 4, 5)]
    assert listed(shop, review_id=reviews[1]) == [made_up(number) for number in (1, 3, 5)]
    assert listed(shop, commits=[made_up(4), made_up(99), made_up(2), made_up(4)]) == [made_up(2), made_up(4)]
    assert listed(shop, plan="unknown") == listed(shop, review_id="rv_unknown") == listed(shop, commits=[]) == []
    with Desk(shop.url, fresh_project()) as elsewhere:
        assert listed(elsewhere) == listed(elsewhere, review_id=reviews[1]) == []


@ON_BOTH_DATABASES
def test_pages_follow_on_each_other(shop: Desk):
    for number in range(1, 6):
        told(shop, number, "rv_shared")
    wanted: list[dict[str, Any]] = [{}, {"plan": PLAN}, {"review_id": "rv_shared"}]
    for one in wanted:
        pages = shop.pages("list_commits", limit=2, **one)
        found = [[commit["commit"] for commit in page["commits"]] for page in pages]
        assert found == [[made_up(1), made_up(2)], [made_up(3), made_up(4)], [made_up(5)]]


def test_an_amend_replaces_a_commit(shop: Desk):
    told(shop, 1)
    assert told(shop, 2, replaces=made_up(1))["replaces"] == made_up(1)
    told(shop, 3, replaces=made_up(2))
    became = {commit["commit"]: commit["replaced_by"] for commit in shop.do("list_commits")["commits"]}
    assert became == {made_up(1): made_up(2), made_up(2): made_up(3), made_up(3): None}


# ---------------------------------------------------------------------------------------------------- plans


@pytest.mark.parametrize("verdict", ["changes_requested", "rejected"])
def test_a_verdict_against_a_change_puts_its_plan_in_blocking_mode(feature: Branch, verdict: str):
    feature.optimistic("a.txt", "one\n")
    _, review = feature.optimistic("b.txt", "two\n")
    assert feature.plan() == {"plan": PLAN, "mode": "optimistic", "against": [], "rolled_back": []}
    feature.decide(review, verdict)
    assert feature.plan() == {"plan": PLAN, "mode": "blocking", "against": [review], "rolled_back": []}
    assert feature.plan("03-03")["mode"] == "optimistic"


def test_a_commit_that_is_told_of_after_the_verdict_counts_as_well(shop: Desk):
    shop.do("set_gate", enabled=True, branches=["main"])
    review = shop.put_up()
    shop.decide(review, "rejected")
    told(shop, 1, review)
    assert shop.do("get_gate", plan=PLAN)["plan"]["against"] == [review]


def test_a_comment_leaves_a_plan_as_it_is(feature: Branch):
    _, review = feature.optimistic("a.txt", "one\n")
    feature.decide(review, "comment")
    assert feature.plan()["mode"] == "optimistic"


def test_a_rejected_change_stays_against_its_plan_when_its_review_is_closed(feature: Branch):
    _, review = feature.optimistic("a.txt", "one\n")
    feature.decide(review, "rejected")
    feature.desk.do("close_review", review_id=review)
    assert feature.plan()["against"] == [review]


def test_a_change_stays_against_its_plan_while_it_is_looked_at_again(feature: Branch):
    _, review = feature.optimistic("a.txt", "one\n")
    feature.decide(review, "changes_requested")
    feature.desk.claim(review)
    assert feature.plan()["against"] == [review]
    feature.desk.verdict(review, "approved")
    assert feature.plan()["mode"] == "optimistic"


def test_a_revision_is_decided_afresh(feature: Branch, repo: Sandbox):
    _, review = feature.optimistic("a.txt", "one\n")
    feature.decide(review, "changes_requested")
    feature.desk.revise(review, intent="Better words.", diff=repo.diff("HEAD^", "HEAD"), base="HEAD^")
    assert feature.plan()["mode"] == "optimistic"
    feature.decide(review, "rejected")
    assert feature.plan()["against"] == [review]


def test_an_amended_commit_counts_no_more_and_what_it_became_does(feature: Branch, repo: Sandbox):
    commit, review = feature.optimistic("a.txt", "one\n")
    feature.decide(review, "changes_requested")
    repo.write("a.txt", "corrected\n")
    repo.git("commit", "--quiet", "--all", "--amend", "-m", "corrected")
    again = feature.desk.put_up(diff=repo.diff("HEAD^", "HEAD"), base="HEAD^")
    feature.record(repo.head(), again, replaces=commit)
    assert feature.plan()["mode"] == "optimistic"
    feature.decide(again, "rejected")
    assert feature.plan()["against"] == [again]


def test_reviews_of_another_project_mean_nothing_here(shop: Desk):
    with Desk(shop.url, fresh_project()) as elsewhere:
        review = elsewhere.put_up()
        told(shop, 1, review)
        elsewhere.decide(review, "rejected")
    assert shop.do("get_gate", plan=PLAN)["plan"]["mode"] == "optimistic"


@ON_BOTH_DATABASES
def test_whichever_comes_first_the_verdict_or_the_record_the_plan_blocks(shop: Desk):
    """Each review is decided against at the very moment at which its commit is recorded."""
    reviews = [shop.put_up() for _ in range(6)]
    for review in reviews:
        shop.claim(review)

    def with_desk(do: Callable[[Desk], Any]) -> Callable[[], Any]:
        def call() -> Any:
            with Desk(shop.url, shop.project) as mine:
                return do(mine)

        return call

    for number, review in enumerate(reviews, 1):
        decide = with_desk(lambda mine, review=review: mine.verdict(review, "rejected", 1))
        record = with_desk(lambda mine, review=review, number=number: told(mine, number, review, plan=f"p-{number}"))
        at_once([decide, record])
        assert shop.do("get_gate", plan=f"p-{number}")["plan"]["against"] == [review]


# ------------------------------------------------------------------------------------------------ rollbacks


def test_a_rollback_is_told_on_the_reviews_own_timeline(feature: Branch, repo: Sandbox):
    first, kept = feature.optimistic("b.txt", "kept\n")
    commit, review = feature.optimistic("a.txt", "one\n")
    feature.decide(review, "rejected")
    facts: dict[str, Any] = {
        "branch": "feature",
        "head_before": repo.head(),
        "head_after": made_up(50),
        "reverted": [{"commit": commit, "reverted_by": made_up(49)}],
        "carried": [{"commit": first, "becomes": made_up(50)}],
        "rework": [made_up(48)],
    }
    told_of = feature.desk.do("record_rollback", review_id=review, **facts)
    stamps = {"rolled_back_at": told_of["rolled_back_at"], "rolled_back_by": "git"}
    assert told_of == {"review_id": review, "project": feature.desk.project, "plan": PLAN, **facts, **stamps}
    event = feature.desk.events(review)[-1]
    assert (event["kind"], event["old"], event["new"]) == ("change_rolled_back", "rejected", "rejected")
    assert (event["data"]["reverted"], event["data"]["carried"], event["data"]["rework"]) == (1, 1, 1)
    plan = feature.plan()
    assert (plan["mode"], plan["against"], plan["rolled_back"]) == ("blocking", [], [review])
    became = {one["commit"]: one for one in feature.desk.do("list_commits", plan=PLAN)["commits"]}
    assert (became[commit]["rolled_back_by"], became[commit]["replaced_by"]) == (made_up(49), None)
    assert (became[first]["rolled_back_by"], became[first]["replaced_by"]) == (None, made_up(50))
    # The rest of the plan goes on in blocking mode, however its other reviews end.
    feature.decide(kept, "approved")
    assert feature.plan()["mode"] == "blocking"
    # And the review can still be closed.
    assert feature.desk.do("close_review", review_id=review)["outcome"] == "rejected"
    assert feature.plan()["rolled_back"] == [review]


@ON_BOTH_DATABASES
def test_p4_a_rollback_that_is_told_twice_is_one(shop: Desk):
    review = shop.put_up()
    told(shop, 1, review)

    def tell() -> dict[str, Any]:
        with Desk(shop.url, shop.project) as mine:
            return take_back(mine, review, reverted=[{"commit": made_up(1), "reverted_by": made_up(901)}])

    answers = at_once([tell] * 6)
    assert all(answer == answers[0] for answer in answers)
    assert shop.kinds(review).count("change_rolled_back") == 1
    # Reverted once more, elsewhere: that is another one.
    take_back(shop, review, branch="other", head_after=made_up(902))
    assert shop.kinds(review).count("change_rolled_back") == 2
    assert shop.do("get_gate", plan=PLAN)["plan"]["rolled_back"] == [review]


def test_a_dependent_commit_that_went_with_it_is_not_held_against_the_plan(shop: Desk):
    first, second = shop.put_up(), shop.put_up()
    told(shop, 1, first)
    told(shop, 2, second)
    pairs = [{"commit": made_up(number), "reverted_by": made_up(900 + number)} for number in (2, 1)]
    take_back(shop, first, reverted=pairs)
    shop.decide(second, "rejected")
    plan = shop.do("get_gate", plan=PLAN)["plan"]
    assert (plan["against"], plan["rolled_back"]) == ([], [first])


def test_a_rollback_of_what_was_never_recorded_blocks_its_branch(shop: Desk):
    review = shop.put_up()
    assert take_back(shop, review)["plan"] == "f"
    assert shop.do("get_gate", plan="f")["plan"]["mode"] == "blocking"


def test_a_rollback_needs_a_review_of_the_project(shop: Desk):
    review = shop.put_up()
    usual = {"branch": "f", "head_before": made_up(1), "head_after": made_up(2)}
    shop.refused("NOT_FOUND", "record_rollback", review_id="rv_nothing", **usual)
    shop.refused("NOT_FOUND", "record_rollback", review_id=review, project=fresh_project(), **usual)
    with shop.unchanged(review):
        one = {"commit": made_up(1), "reverted_by": made_up(2)}
        shop.refused("INVALID_INPUT", "record_rollback", review_id=review, **usual, reverted=[one, one])


# -------------------------------------------------------------------------------------------- what cannot be


def test_pages_and_lists_of_ids_have_their_limits(shop: Desk):
    assert shop.refused("TOO_LARGE", "list_commits", limit=201)["limit"] == 200
    ids = [made_up(number) for number in range(201)]
    assert shop.refused("TOO_LARGE", "list_commits", commits=ids)["limit"] == 200
    assert listed(shop, commits=ids[:200]) == []


def test_the_names_of_branches_may_be_what_git_takes(feature: Branch, repo: Sandbox):
    repo.git("switch", "--quiet", "--create", "Änderung/#1@ü")
    commit = feature.commit("a.txt", "one\n")
    assert feature.record(commit, branch="Änderung/#1@ü", plan=None)["plan"] == "Änderung/#1@ü"
    assert listed(feature.desk, plan="Änderung/#1@ü") == [commit]
    assert changed_by(repo, commit)
