"""Approved changes that a check keeps back: the answers of git's hook, the agents' hook and the steps of GSD."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.acceptance.checking import Checked, broken, bubblewrap, check, checked
from tests.acceptance.reviewing import edited
from tests.modes import VARIATION
from tests.repository.agents import Agent
from tests.repository.committing import NOT_YET, commit, review_of
from tests.repository.gating import Gated, guarded
from tests.repository.stepping import PHASE, Steps, head
from tests.repository.terminal import at_a_terminal

DIGITS = {"a.txt": "line 1\n2\nline 3\n"}


@pytest.fixture
def mended(tmp_path: Path) -> Path:
    """The check fails as long as this file is not there."""
    return tmp_path / "repaired"


def approved(project: Checked, gated: Gated) -> str:
    """Have the staged change approved, with its check at an end; the review's id."""
    review = gated.put_up()
    project.ended(review)
    gated.decide(review)
    return review


def failing(mended: Path) -> str:
    return f"import os; print('3 is not 4'); exit(not os.path.exists({str(mended)!r}))"


def waiting(mended: Path) -> str:
    return f"import os, time\nwhile not os.path.exists({str(mended)!r}): time.sleep(0.02)"


@pytest.mark.parametrize("works_for", ["the person", "the broker"])
def test_trust_asks_for_what_the_checks_take_where_the_broker_runs_them(tmp_path: Path, works_for: str) -> None:
    by_broker = works_for == "the broker"
    with checked(tmp_path, confined=by_broker) as project:
        project.have(check("unit tests", ""), trusted=False)
        # The person who trusts has the opposite on their path.
        path = f"{broken(tmp_path) if by_broker else bubblewrap()}{os.pathsep}{os.environ['PATH']}"
        mine = {"PATH": path, "TANDEM_BROKER": project.broker.url, "TANDEM_CONFIG_DIR": str(project.config_dir)}
        status, shown = at_a_terminal(("trust",), project.repo.root, typed="yes\n", after="Type yes: ", **mine)
        assert status == 0, shown
        assert ("does not work for the broker" in " ".join(shown.split())) is not by_broker
        assert project.statuses(project.put_up(diff=edited())) == {"unit tests": "passed"}


def test_a_commit_that_a_failed_check_keeps_back(project: Checked, mended: Path) -> None:
    gated = guarded(project, failing(mended))
    gated.stage(DIGITS)
    review = approved(project, gated)
    said = gated.refused("commit", "-m", "Count in digits")
    assert "unit tests: failed, exit status 1" in said
    assert "(CHECK_FAILED)" in said
    assert f"tandem checks log {review} 'unit tests'" in said
    assert f"tandem checks run {review}" in said
    assert "tandem gate override" in said
    assert f"tandem submit --revise {review} --staged --wait" in said
    assert gated.tandem("gate", "check", "--staged").status == 1
    applied = gated.tandem("apply", review)
    assert "A required check has not passed: the gate refuses to commit it." in applied.stdout

    mended.touch()
    assert gated.tandem("checks", "run", review).status == 0
    project.ended(review)
    gated.git("commit", "-m", "Count in digits")
    assert gated.trailers() == [review]


def test_a_commit_that_has_to_wait_for_a_check(project: Checked, mended: Path) -> None:
    gated = guarded(project, waiting(mended))
    gated.stage(DIGITS)
    review = gated.approve()
    said = gated.refused("commit", "-m", "Count in digits")
    assert "(CHECK_PENDING)" in said
    assert f"tandem review status {review} --wait" in said
    assert "tandem checks log" not in said
    mended.touch()
    project.ended(review)
    gated.git("commit", "-m", "Count in digits")


def test_the_steps_out_of_a_conflict_with_the_base_branch_commit_what_was_staged_alone(project: Checked) -> None:
    gated = guarded(project, "exit(0)")
    assert gated.tandem("gate", "on", "--commits", "reviewed").status == 0
    for files in ({"a.txt": "one\n", "settings.txt": "debug=0\n"}, {"a.txt": "uno\n"}):
        gated.stage(files)
        gated.git("-c", "core.hooksPath=/dev/null", "commit", "--quiet", "-m", "Begin")
    gated.git("switch", "--quiet", "--create", "feature", "HEAD~1")
    gated.stage({"a.txt": "1\n"})
    gated.write({"settings.txt": "debug=1\n", "notes.txt": "mine\n"})
    review = review_of(commit(gated, "-m", "Count"))
    project.ended(review)
    gated.decide(review)
    steps = [line.partition(": ")[2] for line in commit(gated).stdout.splitlines() if ": git " in line]
    assert [" ".join(one.split()[1:3]) for one in steps] == ["stash push", "merge --no-edit", "stash pop", "stash drop"]
    for step in steps[:3]:
        subprocess.run(["sh", "-c", step], cwd=gated.root, check=False, capture_output=True)
    gated.write({"a.txt": "uno, 1\n"})
    gated.git("add", "a.txt")
    assert commit(gated).status == NOT_YET
    project.ended(review)
    gated.decide(review)
    assert commit(gated).status == 0
    assert gated.git("show", "--format=", "--name-only") == "a.txt"
    assert gated.git("status", "--porcelain").split() == ["M", "settings.txt", "??", "notes.txt"]
    subprocess.run(["sh", "-c", steps[3]], cwd=gated.root, check=True, capture_output=True)
    assert gated.git("stash", "list") == ""


def test_an_optimistic_commit_of_what_a_check_keeps_back_names_its_review(project: Checked, mended: Path) -> None:
    gated = guarded(project, failing(mended))
    gated.settings(tandem_enabled=True, execution_mode="optimistic")
    gated.git("switch", "--quiet", "--create", "feature")
    gated.stage(DIGITS)
    review = approved(project, gated)
    gated.git("commit", "-m", "Count in digits")
    assert gated.trailers() == [review]
    assert len(gated.call("list_reviews")["reviews"]) == 1


def test_a_merge_of_commits_that_a_check_keeps_back(project: Checked, mended: Path) -> None:
    gated = guarded(project, failing(mended))
    gated.settings(tandem_enabled=True, execution_mode="optimistic")
    gated.git("switch", "--quiet", "--create", "feature")
    gated.stage(DIGITS)
    gated.git("commit", "-m", "Count in digits")
    [review] = gated.trailers()
    gated.decide(review)
    project.ended(review)
    gated.git("switch", "--quiet", "main")
    said = gated.refused("merge", "--ff-only", "feature")
    assert "1 of 1 commits are approved, and kept back by a required check." in said
    assert "Count in digits: CHECK_FAILED" in said
    assert "its required check 'unit tests' failed" in said
    assert f"tandem checks list {review}" in said
    assert "tandem commit" not in said
    audited = gated.tandem("audit", "main..feature")
    assert (audited.status, "its required check 'unit tests' failed" in audited.stdout) == (1, True)
    mended.touch()
    project.do("run_checks", review_id=review)
    project.ended(review)
    gated.git("merge", "--ff-only", "feature")


def test_a_step_says_what_a_check_found_and_puts_nothing_up_again(project: Checked, mended: Path) -> None:
    gated = guarded(project, failing(mended))
    steps = Steps(gated)
    gated.stage(DIGITS)
    review = approved(project, gated)
    ended = steps.run("task", "--timeout", "0")
    assert (ended.status, head(ended)) == (10, "CHANGES"), ended.stdout
    assert "It is approved, but a required check has not passed." in ended.stdout
    assert f"tandem checks list {review}" in ended.stdout
    assert f"tandem checks run {review}, then run again: tandem gate task" in ended.stdout
    assert [one["review_id"] for one in steps.reviews()] == [review]
    assert steps.status(review)["round"] == 1
    mended.touch()
    project.do("run_checks", review_id=review)
    project.ended(review)
    assert head(steps.run("task", "--timeout", "0")) == "APPROVED"


@VARIATION
def test_a_step_waits_for_the_checks_of_what_is_approved(project: Checked, mended: Path) -> None:
    steps = Steps(guarded(project, waiting(mended)))
    steps.gated.stage(DIGITS)
    with ThreadPoolExecutor(1) as pool:
        taken = pool.submit(steps.run, "task", "--timeout", "60")
        review = steps.arrival(taken)
        steps.gated.decide(review)
        mended.touch()
        ended = taken.result(60)
    assert (ended.status, head(ended)) == (0, "APPROVED"), ended.stdout


def test_a_step_whose_time_is_up_says_to_wait_for_the_checks(project: Checked, mended: Path) -> None:
    steps = Steps(guarded(project, waiting(mended)))
    steps.gated.stage(DIGITS)
    review = steps.gated.approve()
    for seconds in ("0", "0.3"):
        ended = steps.run("task", "--timeout", seconds)
        assert (ended.status, head(ended)) == (12, "WAITING"), ended.stdout
        assert f"Wait for the checks: tandem checks list {review} --wait" in ended.stdout
    assert len(steps.reviews()) == 1
    mended.touch()
    project.ended(review)


def test_a_document_that_a_check_keeps_back_is_not_written(project: Checked, mended: Path) -> None:
    gated = guarded(project, failing(mended))
    path, text = f"{PHASE}/03-CONTEXT.md", "# Context\n"
    request = {"intent": "The context", "agent_type": "tests", "category": "handoff", "path": path}
    review = gated.call("create_review", description=text, **request)["review_id"]
    gated.decide(review)
    project.ended(review)
    said = Agent("claude", gated.root).writes(path, text).words
    assert f"tandem checks log {review} 'unit tests'" in said
    assert "(CHECK_FAILED)" in said
    assert "have it reviewed" not in said


def test_p10_a_commit_and_a_push_whose_checks_ran_elsewhere(project: Checked, tmp_path: Path) -> None:
    project.have(check("unit tests", "print('passed')"), unconfined=True)
    project.repo.git("branch", "release")
    project.repo.write("c.txt", "later\n")
    project.repo.commit("later")
    gated = Gated(project.broker, project.repo.root, project.project)
    assert gated.tandem("gate", "on", "--branch", "main", "--branch", "release").status == 0
    gated.git("switch", "--quiet", "release")
    gated.stage(DIGITS)
    review = approved(project, gated)
    server = tmp_path / "server.git"
    gated.git("clone", "--quiet", "--bare", str(gated.root), str(server))
    assert gated.tandem("gate", "server-hook", str(server), "--project", gated.project).status == 0
    gated.git("commit", "-m", "Count in digits")
    assert gated.tandem("audit", "release~1..release").status == 0
    gated.git("push", "--quiet", str(server), "release")
    # The same content is no content of main's before its checks ran there.
    gated.git("switch", "--quiet", "--detach", "main")
    gated.stage(DIGITS)
    moved = gated.git("commit-tree", gated.git("write-tree"), "-p", "main", "-m", "The same on main").strip()
    gated.git("reset", "--quiet", "--hard")
    refused = gated.refused("push", str(server), f"{moved}:main")
    assert "its required check 'unit tests' ran on release at" in refused
    assert "run it with --branch main" in refused
    assert "kept back by a required check" in gated.refused("update-ref", "refs/heads/main", moved)
    gated.git("switch", "--quiet", "main")
    merging = gated.refused("merge", "--no-ff", "--no-edit", "release")
    assert "its required check 'unit tests' ran on release at" in merging
    assert f"Run again: tandem checks run {review} --branch main" in merging
    gated.git("reset", "--quiet", "--merge")
    gated.stage(DIGITS)
    said = gated.refused("commit", "-m", "Count in digits")
    assert "(CHECK_PENDING)" in said
    assert f"tandem checks run {review} --branch main" in said
    assert gated.tandem("checks", "run", review, "--branch", "main").status == 0
    project.ended(review)
    gated.git("commit", "-m", "Count in digits")
    gated.git("merge", "--no-ff", "--no-edit", "release")
    gated.git("push", "--quiet", str(server), "main")
    assert gated.tandem("audit", "main~2..main").status == 0
    audited = gated.tandem("audit", "release~1..release")
    assert (audited.status, "run it with --branch release" in audited.stdout) == (1, True)


def test_p10_the_commands_of_a_refusal_lead_out_where_approvals_build_on_each_other(project: Checked) -> None:
    project.repo.write(".tandem/config.toml", "checks_on_tip = true\n")
    gated = guarded(project, "print('passed')")

    def landed(files: dict[str, str]) -> None:
        gated.stage(files)
        approved(project, gated)
        gated.git("commit", "-m", "Next")

    gated.git("switch", "--quiet", "--create", "feature")
    for number in range(3):
        landed({"a.txt": f"line 1\n{number}\nline 3\n"})
    gated.git("switch", "--quiet", "main")
    landed({"c.txt": "meanwhile\n"})
    named: list[str] = []
    while not (said := gated.try_git("merge", "--no-ff", "--no-edit", "feature")).ok:
        gated.git("reset", "--quiet", "--merge")
        [command] = {line.split(": ")[-1] for line in said.stderr.splitlines() if "tandem checks run" in line}
        assert gated.tandem(*command.split()[1:]).status == 0
        named.append(command.split()[3])
        project.ended(named[-1])
        assert len({*named}) == len(named)
    assert len(named) == 3
