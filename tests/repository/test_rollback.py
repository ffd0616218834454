"""`tandem rollback` reverts commits that were made before their review and then rejected, and nothing else."""

from __future__ import annotations

import json

import pytest

from tests.modes import VARIATION
from tests.repository.gating import Gated
from tests.repository.rolling_back import BASE, Plan, Task, optimistic, with_lines


def test_takes_back_the_rejected_change_once_and_keeps_history(plan: Plan, task: Task) -> None:
    ended = plan.gated.tandem("rollback", task.review, "--json")
    assert (ended.status, ended.stderr) == (0, "")
    done = json.loads(ended.stdout)["data"]
    assert (done["changed"], done["how"]) == (True, "record")
    assert plan.read("f.txt") == BASE
    assert plan.git("rev-list", "--count", f"{task.commit}^..HEAD") == "2"
    assert done["reverted"][0]["commit"] == task.commit
    assert done["reverted"][0]["reverted_by"] == plan.head == done["head_after"]
    assert plan.gated.trailers("Tandem-Review") == [task.review]
    assert plan.gated.trailers("Tandem-Rollback") == [task.review]
    assert f"This reverts commit {task.commit}." in plan.gated.message()
    assert plan.git("log", "-1", "--format=%an <%ae>") == "Test Person <person@example.invalid>"
    assert plan.is_clean()
    # The second call does nothing, and says so.
    before = plan.snapshot()
    ended = plan.rollback(task.review)
    assert ended.status == 0
    assert ended.stdout.startswith("Already rolled back")
    assert plan.rolled_back(task.review)["already"] == [done["head_after"]]
    assert plan.snapshot() == before
    # The rest of the plan is in blocking mode.
    state = plan.gated.call("get_gate", plan="03-02")["plan"]
    assert (state["mode"], state["rolled_back"], state["against"]) == ("blocking", [task.review], [])
    plan.gated.stage({"f.txt": with_lines(l4="four")})
    plan.gated.refused("commit", "-m", "feat(03-02): once more")


@VARIATION
def test_a_dependent_whose_content_changed_is_put_up_again(plan: Plan) -> None:
    first, second = plan.build_upon()
    plan.approve(second.review)
    plan.reject(first.review)
    done = plan.rolled_back(first.review)
    assert plan.read("f.txt") == with_lines(l18="eighteen")
    assert [one["approval"] for one in done["carried"]] == ["re_review"]
    again = done["re_reviews"][0]
    assert (again["review_id"], again["round"], again["commit"]) == (second.review, 2, plan.head)
    found = plan.status(second.review)
    assert (found["status"], found["round"]) == ("pending", 2)
    proposal = plan.gated.call("get_proposal", review_id=second.review)
    assert proposal["digest"] != plan.gated.call("get_proposal", review_id=second.review, round=1)["digest"]
    assert proposal["base_commit"] == plan.gated.head("HEAD^")
    # The broker knows what became of each commit.
    records = {one["commit"]: one for one in plan.gated.call("list_commits", plan="03-02")["commits"]}
    assert records[first.commit]["rolled_back_by"] == done["reverted"][1]["reverted_by"]
    assert records[second.commit]["replaced_by"] == done["carried"][0]["becomes"] == plan.head
    assert records[plan.head]["review_ids"] == [second.review]
    kinds = [event["kind"] for event in plan.gated.call("get_review_timeline", review_id=first.review)["events"]]
    assert kinds[-1] == "change_rolled_back"


def test_a_declared_dependent_on_another_path_keeps_its_approval(plan: Plan) -> None:
    first = plan.commit({"f.txt": with_lines(l3="three")}, "feat(03-02-1): ünïcode")
    second = plan.commit({"new.txt": "new\n"}, "feat(03-02-2): two", "Tandem-Depends-On: 03-02-1")
    third = plan.commit({"more.txt": "more\n"}, "feat(03-02-3): three", "Tandem-Depends-On: 2")
    fourth = plan.commit({"apart.txt": "apart\n"}, "feat(03-02-4): four", f"Tandem-Depends-On: {third.review}")
    plan.commit({"other.txt": "other\n"}, "feat(03-02-5): five", "Tandem-Depends-On: 9")
    plan.approve(fourth.review)
    plan.reject(first.review)
    done = plan.rolled_back(first.review)
    reverted = {one["commit"]: one["because"] for one in done["reverted"]}
    assert [*reverted] == [fourth.commit, third.commit, second.commit, first.commit]
    assert [*reverted.values()][1:3] == ["depends on 2", "depends on 03-02-1"]
    assert plan.git("log", "-1", "--format=%s", done["reverted"][3]["reverted_by"]) == 'Revert "feat(03-02-1): ünïcode"'
    assert (fourth.commit, "carried") in [(one["commit"], one["approval"]) for one in done["carried"]]
    assert (plan.read("apart.txt"), plan.read("f.txt")) == ("apart\n", BASE)
    assert plan.gated.message() == plan.gated.message(fourth.commit)
    found = plan.status(fourth.review)
    assert (found["status"], found["round"]) == ("approved", 1)
    assert plan.gated.call("check_gate", digest=found["digest"])["allowed"]


def test_a_closed_dependent_gets_a_new_review(plan: Plan) -> None:
    first, second = plan.build_upon()
    plan.approve(second.review)
    plan.gated.call("close_review", review_id=second.review)
    plan.reject(first.review)
    again = plan.rolled_back(first.review)["re_reviews"][0]
    assert again["replaces"] == second.review
    assert again["review_id"] != second.review
    assert plan.gated.call("get_proposal", review_id=again["review_id"])["parent_id"] == second.review


@VARIATION
def test_what_does_not_apply_any_more_is_rework(plan: Plan) -> None:
    first = plan.commit({"f.txt": with_lines(l3="three")}, "feat(03-02): one")
    second = plan.commit({"f.txt": with_lines(l3="three and more")}, "feat(03-02): two")
    plan.reject(first.review)
    ended = plan.rollback(first.review)
    assert ended.status == 0
    assert "03-02 goes on in blocking mode" in ended.stdout
    assert "rework" in ended.stdout
    assert "does not apply any more: f.txt" in ended.stdout
    assert plan.read("f.txt") == BASE
    done = plan.gated.call("list_commits", plan="03-02")["commits"]
    assert next(one for one in done if one["commit"] == second.commit)["rolled_back_by"] is not None


def test_dependents_are_taken_transitively_and_others_stay(plan: Plan) -> None:
    first = plan.commit({"f.txt": with_lines(l3="three")}, "feat(03-02): one")
    apart = plan.commit({"apart.txt": "apart\n"}, "feat(03-02): apart")
    second = plan.commit({"f.txt": with_lines(l3="three", l18="x"), "g.txt": "g\n"}, "feat(03-02): two")
    third = plan.commit({"g.txt": "g\nand more\n"}, "feat(03-02): three")
    other = plan.commit({"other.txt": "other\n"}, "feat(04-01): another plan's")
    plan.reject(first.review)
    done = plan.rolled_back(first.review)
    assert [one["commit"] for one in done["reverted"]] == [third.commit, second.commit, first.commit]
    for kept in (apart, other):
        assert plan.status(kept.review)["round"] == 1
    assert plan.read("g.txt") == "g\nand more\n"
    assert plan.read("other.txt") == "other\n"


def test_a_dependent_that_was_decided_against_too_is_not_replayed(plan: Plan) -> None:
    first, second = plan.build_upon()
    plan.reject(first.review)
    plan.reject(second.review)
    done = plan.rolled_back(first.review)
    assert plan.read("f.txt") == BASE
    assert done["carried"] == []
    assert second.review in done["rework"][0]["reason"]
    assert plan.rolled_back(second.review)["already"] != []


def test_stops_where_somebody_else_built_upon_the_same_lines(plan: Plan) -> None:
    first = plan.commit({"f.txt": with_lines(l3="three")}, "feat(03-02): one")
    foreign = plan.foreign({"f.txt": with_lines(l3="three, as I like it")}, "my own way")
    plan.reject(first.review)
    error = plan.refused(first.review, code="INVALID_INPUT")
    assert error["details"]["paths"] == ["f.txt"]
    assert error["details"]["commits"] == [foreign]
    assert "my own way" in error["message"]


@VARIATION
def test_the_accepted_counter_patch_becomes_a_commit_of_its_own(plan: Plan) -> None:
    task = plan.commit({"f.txt": with_lines(l3="three")}, "feat(03-02): count")
    plan.want_changes(task.review, plan.better({"f.txt": with_lines(l3="drei")}))
    done = plan.rolled_back(task.review)
    assert plan.read("f.txt") == with_lines(l3="drei")
    patch = done["counter_patch"]
    assert (patch["round"], patch["commit"], patch["exact"]) == (2, plan.head, True)
    assert plan.git("rev-list", "--count", f"{task.commit}..HEAD") == "2"
    assert plan.gated.trailers() == [task.review]
    assert plan.is_clean()
    # The branch now has round 2, which no reviewer decided against.
    assert plan.rolled_back(task.review)["already"] != []
    plan.reject(task.review)
    assert plan.rolled_back(task.review)["reverted"][0]["commit"] == patch["commit"]
    assert plan.read("f.txt") == BASE


@VARIATION
def test_dependents_come_back_upon_the_counter_patch(plan: Plan) -> None:
    first = plan.commit({"f.txt": with_lines(l3="three")}, "feat(03-02): one")
    better = plan.better({"f.txt": with_lines(l3="drei")})
    plan.commit({"f.txt": with_lines(l3="three", l18="x")}, "feat(03-02): two")
    plan.want_changes(first.review, better)
    done = plan.rolled_back(first.review)
    assert plan.read("f.txt") == with_lines(l3="drei", l18="x")
    assert [one["approval"] for one in done["carried"]] == ["re_review"]


def test_a_pending_counter_patch_is_not_applied(plan: Plan) -> None:
    task = plan.commit({"f.txt": with_lines(l3="three")}, "feat(03-02): count")
    plan.want_changes(task.review, plan.better({"f.txt": with_lines(l3="drei")}), accept=False)
    assert plan.rolled_back(task.review)["counter_patch"] is None
    assert plan.read("f.txt") == BASE
    found = plan.status(task.review)
    plan.gated.call("accept_counter_patch", review_id=task.review, counter_patch_id=found["counter_patch_id"])
    ended = plan.rollback(task.review)
    assert ended.status == 0
    assert f"tandem apply {task.review} --index" in ended.stdout


def test_dry_run_shows_everything_and_changes_nothing(plan: Plan) -> None:
    first, second = plan.build_upon()
    third = plan.commit({"f.txt": with_lines(l3="three, really", l18="eighteen")}, "feat(03-02): three")
    plan.reject(first.review)
    before = plan.snapshot()
    ended = plan.rollback(first.review, "--dry-run")
    assert ended.status == 0
    assert plan.snapshot() == before
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("Nothing was changed.")
    reverts = [line.split()[1] for line in lines if line.startswith("reverted")]
    assert reverts == [task.commit[:10] for task in (third, second, first)]
    assert [line.split()[1] for line in lines if line.startswith("replayed")] == [second.commit[:10]]
    assert [line.split()[1] for line in lines if line.startswith("rework")] == [third.commit[:10]]
    assert "file      f.txt" in lines
    assert plan.status(second.review)["round"] == 1
    assert plan.gated.call("get_gate", plan="03-02")["plan"]["rolled_back"] == []


def test_the_summary_of_the_plan_gets_a_section(plan: Plan, task: Task) -> None:
    name = ".planning/phases/03-counting/03-02-SUMMARY.md"
    plan.foreign({name: "# Summary\r\n\r\nAll is well.\r\n"}, "docs: summary")
    done = plan.rolled_back(task.review)
    assert done["summary"] == name
    text = (plan.root / name).read_bytes().decode()
    assert text.startswith("# Summary\r\n\r\nAll is well.\r\n\r\n## Reverted")
    assert "\n" not in text.replace("\r\n", "")
    assert task.commit[:10] in text
    assert done["head_after"][:10] in text
    assert plan.git("status", "--porcelain") == f" M {name}"


def test_says_when_it_is_time_to_ask_a_person(plan: Plan) -> None:
    task = plan.commit({"f.txt": with_lines(l3="three")}, "feat(03-02): count")
    for again in ("drei", "trois", "tre"):
        plan.want_changes(task.review)
        diff = plan.better({"f.txt": with_lines(l3=again)})
        if again != "tre":
            base = plan.gated.head("HEAD^")
            plan.gated.call(
                "create_review", review_id=task.review, intent="again", agent_type="tests", diff=diff, base=base
            )
    ended = plan.rollback(task.review)
    assert ended.status == 0
    assert "ask a person" in ended.stdout
    assert plan.read("f.txt") == BASE


def test_a_rejected_plan_is_taken_back_as_a_whole(gated: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = optimistic(gated, monkeypatch.chdir, mode="blocking", review_granularity="per_plan")
    start = plan.head
    ids: list[str] = []
    for number, path in enumerate(("f.txt", "g.txt", "f.txt")):
        plan.gated.stage({path: with_lines(l3=f"{number}")})
        plan.git("commit", "--quiet", "-m", f"feat(03-02): task {number}")
        ids.append(plan.head)
    foreign = plan.foreign({"theirs.txt": "theirs\n"})
    review = plan.propose_plan(start, ids[-1])
    plan.reject(review)
    done = plan.rolled_back(review)
    assert [one["commit"] for one in done["reverted"]] == ids[::-1]
    assert plan.git("diff", "--stat", start, "HEAD", "--", "f.txt", "g.txt") == ""
    assert plan.read("theirs.txt") == "theirs\n"
    assert plan.git("merge-base", foreign, "HEAD") == foreign
    assert done["carried"] == done["rework"] == []
    assert plan.rolled_back(review)["already"] != []


def test_a_rejected_plan_is_found_by_its_marks_when_nobody_recorded_it(
    gated: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = optimistic(gated, monkeypatch.chdir, mode="blocking", review_granularity="per_plan")
    start = plan.head
    for number in (1, 2):
        subject = f"feat(03-02): task {number}\n\nTandem-Review: unreviewed"
        plan.foreign({f"{number}.txt": "x\n"}, subject)
    review = plan.propose_plan(start, "HEAD")
    plan.foreign({"theirs.txt": "theirs\n"})
    plan.foreign({"3.txt": "x\n"}, "feat(04-01): another plan's\n\nTandem-Review: unreviewed")
    plan.reject(review)
    done = plan.rolled_back(review)
    assert (done["how"], len(done["reverted"])) == ("plan", 2)
    assert plan.git("diff", "--name-only", start, "HEAD").split() == ["3.txt", "theirs.txt"]
