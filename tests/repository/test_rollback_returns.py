"""A rejection ends when its content is gone: by hand, by a reset, with its branch, or by a person's word."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.modes import VARIATION
from tests.repository.rolling_back import BASE, BRANCH, UNHOOKED, Plan, Task, with_lines
from tests.repository.terminal import Terminal

WHY = "we keep it"


def go_on(plan: Plan) -> str:
    """Returns the gate's refusal of the plan's next change."""
    plan.gated.stage({"next.txt": "next\n"})
    words = plan.gated.refused("commit", "-m", "feat(03-02): go on")
    plan.git("rm", "--quiet", "-f", "next.txt")
    return words


def settled(plan: Plan, task: Task) -> list[str]:
    """How the rejection ended, by the log; its plan goes on in blocking mode then."""
    events = plan.gated.call("get_review_timeline", review_id=task.review)["events"]
    ended = [event["data"]["how"] for event in events if event["kind"] == "change_rolled_back"]
    state = plan.gated.call("get_gate", plan="03-02")["plan"]
    standing, gone = ("rolled_back", "against") if ended else ("against", "rolled_back")
    assert (state[standing], state[gone], state["mode"]) == ([task.review], [], "blocking")
    return ended


def reset(plan: Plan) -> None:
    plan.git("reset", "--quiet", "--keep", "HEAD^")


def lose_altogether(plan: Plan) -> None:
    plan.git("switch", "--quiet", "-c", "other", "HEAD^")
    plan.git("branch", "--quiet", "-D", BRANCH)
    plan.git("reflog", "expire", "--expire-unreachable=now", "--all")
    plan.git("gc", "--quiet", "--prune=now")


def revert_and_change_the_same_line(plan: Plan) -> None:
    plan.git(*UNHOOKED, "revert", "--no-edit", "HEAD")
    plan.foreign({"f.txt": with_lines(l3="drei"), "new.txt": "another\n"})


def undo_in_parts(plan: Plan) -> None:
    plan.foreign({"f.txt": BASE})
    plan.foreign({"new.txt": None})


@pytest.mark.parametrize("taken_back", [lose_altogether, revert_and_change_the_same_line, undo_in_parts])
def test_the_plan_is_not_held_up_by_what_is_gone(plan: Plan, task: Task, taken_back: Callable[[Plan], None]) -> None:
    assert f"tandem rollback {task.review}" in go_on(plan)
    taken_back(plan)
    words = go_on(plan)
    assert "was reverted: approval comes first" in words
    assert "tandem rollback" not in words
    assert settled(plan, task) == ["observed"]
    before = plan.head
    assert plan.rollback(task.review).status == 0
    assert (plan.head, settled(plan, task)) == (before, ["observed"])


def change_the_same_line(plan: Plan) -> None:
    plan.foreign({"f.txt": with_lines(l3="drei"), "new.txt": None})


def revert_the_revert(plan: Plan) -> None:
    for _ in range(2):
        plan.git(*UNHOOKED, "revert", "--no-edit", "HEAD")
    plan.foreign({"f.txt": with_lines(l3="three", l18="eighteen")})


def rename_the_branch(plan: Plan) -> None:
    plan.git("branch", "--move", "renamed")
    plan.git("switch", "--quiet", "-c", "other", "HEAD^")


@VARIATION
@pytest.mark.parametrize("kept", [change_the_same_line, revert_the_revert, rename_the_branch])
def test_the_plan_is_held_up_by_what_stands_anywhere(plan: Plan, task: Task, kept: Callable[[Plan], None]) -> None:
    kept(plan)
    assert f"Roll it back first: tandem rollback {task.review}" in go_on(plan)
    assert settled(plan, task) == []


def test_a_rollback_of_what_is_gone_settles_it(plan: Plan, task: Task) -> None:
    reset(plan)
    before = plan.snapshot()
    assert plan.rolled_back(task.review)["settled"] == "observed"
    assert settled(plan, task) == ["observed"]
    assert plan.rollback(task.review).status == 0
    assert (plan.snapshot(), settled(plan, task)) == (before, ["observed"])


def test_what_was_never_committed_is_no_rollback(plan: Plan) -> None:
    plan.gated.stage({"f.txt": with_lines(l3="three")})
    review = plan.gated.put_up()
    plan.gated.git("reset", "--quiet", "--hard")
    plan.reject(review)
    error = plan.refused(review, code="NOT_FOUND")
    assert "git revert" in error["message"]
    assert plan.gated.call("get_gate", plan=BRANCH)["plan"]["mode"] == "optimistic"


def test_a_person_at_a_terminal_settles_it_for_good(plan: Plan, task: Task) -> None:
    change_the_same_line(plan)
    with terminal(plan, task) as shown:
        assert WHY in shown.read_until("Type yes: ")
        shown.type("no")
        assert shown.wait() == 1
    assert settled(plan, task) == []
    with terminal(plan, task) as shown:
        shown.read_until("Type yes: ")
        shown.type("yes")
        assert shown.wait() == 0, shown.read_all()
    assert settled(plan, task) == ["settled"]
    event = plan.gated.call("get_review_timeline", review_id=task.review)["events"][-1]
    assert (event["data"]["reason"], event["data"]["proved_by"]) == (WHY, "person")
    assert "tandem rollback" not in go_on(plan)


def test_an_agent_does_not_say_that_it_is_settled(plan: Plan, task: Task) -> None:
    with terminal(plan, task, GEMINI_CLI="1") as shown:
        assert shown.wait() == 1
        assert "GEMINI_CLI" in shown.read_all()
    assert plan.refused(task.review, "--settled", "-m", WHY, code="FORBIDDEN")["details"]["needed"] == "person"
    facts = {"branch": BRANCH, "head_before": plan.head, "head_after": plan.head, "how": "settled", "reason": WHY}
    with plan.gated.caller() as caller:
        caller.refused("FORBIDDEN", "record_rollback", review_id=task.review, **facts)
        caller.refused("FORBIDDEN", "record_rollback", review_id=task.review, **facts, proof=f"person.{'0' * 64}")
    assert settled(plan, task) == []


def test_nothing_is_settled_that_was_not_decided_against(plan: Plan) -> None:
    task = plan.commit({"f.txt": with_lines(l3="three")}, "feat(03-02): count")
    reset(plan)
    facts = {"branch": BRANCH, "head_before": plan.head, "head_after": plan.head}
    with plan.gated.caller() as caller:
        caller.refused("INVALID_TRANSITION", "record_rollback", review_id=task.review, how="observed", **facts)


def terminal(plan: Plan, task: Task, **environment: str) -> Terminal:
    arguments = ("rollback", task.review, "--settled", "-m", WHY)
    return Terminal(arguments, Path(plan.root), {**os.environ, "TANDEM_BROKER": plan.gated.broker.url, **environment})
