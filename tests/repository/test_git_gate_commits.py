"""Commits on other branches are free, followed or reviewed. No base branch takes unapproved content."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tandem.rulings import pending
from tandem.rulings.next_steps import BY_COMMIT
from tandem.rulings.planning import ENFORCED
from tandem.rulings.state import COMMITS
from tandem.setup import gate_switch
from tandem.setup.gate_switch import GateOptions
from tests.broker import BrokerProcess
from tests.commandline import finish
from tests.modes import VARIATION
from tests.repository.committing import NOT_YET, commit, start
from tests.repository.gating import DIGITS, Gated, gate_on, new_repository
from tests.repository.landing import branched

OTHERS = ("free", "followed")


def gated_as(broker: BrokerProcess, root: Path, commits: str) -> Gated:
    return gate_on(broker, new_repository(root), GateOptions(commits=commits))


@pytest.fixture(params=OTHERS)
def other(request: pytest.FixtureRequest, shared_broker: BrokerProcess, tmp_path: Path) -> Gated:
    """A gate in whose repository commits on other branches pass."""
    return gated_as(shared_broker, tmp_path / "repository", request.param)


@pytest.fixture
def free(shared_broker: BrokerProcess, tmp_path: Path) -> Gated:
    return gated_as(shared_broker, tmp_path / "repository", "free")


@pytest.fixture
def followed(shared_broker: BrokerProcess, tmp_path: Path) -> Gated:
    gated = gated_as(shared_broker, tmp_path / "repository", "followed")
    gated.git("switch", "--quiet", "--create", "feature")
    return gated


@pytest.fixture(params=OTHERS)
def own_other(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """As `other`, with a broker of its own."""
    (tmp_path / "broker").mkdir()
    with BrokerProcess(tmp_path / "broker") as broker:
        yield gated_as(broker, tmp_path / "repository", request.param)


def reviews(gated: Gated) -> list[dict[str, Any]]:
    return gated.call("list_reviews")["reviews"]


def paths(proposal: dict[str, Any]) -> list[str]:
    return sorted(one["path"] for one in proposal["affected_files"])


def changed(gated: Gated, files: dict[str, str], subject: str) -> str:
    """Commit a change; the review that its message names, if any."""
    gated.stage(files)
    gated.git("commit", "--quiet", "-m", subject)
    return (gated.trailers() or [""])[0]


@pytest.mark.parametrize("command", ["merge", "cherry-pick", "revert --no-edit"])
def test_a_refusal_in_the_middle_of_a_merge_or_pick_names_no_other_branch(free: Gated, command: str):
    tip = branched(free, "feature", DIGITS)
    free.approved_commit({"a.txt": "one\nzwei\nthree\n"})
    if command.startswith("revert"):
        tip = free.head()
        free.approved_commit({"a.txt": "one\ndue\nthree\n"})
    free.try_git(*command.split(), tip)
    free.stage({"a.txt": "one\nresolved\nthree\n"})
    words = free.refused("commit", "--no-edit")
    assert "git switch" not in words
    assert "Have it reviewed and committed: tandem commit --no-edit\n" in words
    free.approve()
    free.git("commit", "--no-edit")
    assert len(free.git("log", "-1", "--format=%P").split()) == 1 + (command == "merge")


def test_p2_the_base_branch_is_closed_however_commits_on_others_are_judged(other: Gated):
    other.stage(DIGITS)
    words = other.refused("commit", "--no-verify", "-m", "Digits")
    assert "On another branch it passes: git switch -c NAME" in words
    other.git("switch", "--quiet", "--create", "feature")
    other.git("commit", "--quiet", "-m", "Digits")
    changed(other, {"c.txt": "more\n"}, "More")
    tip = other.head()
    other.git("switch", "--quiet", "main")
    # The tables of `routes` have all other commands in each mode.
    for words in (["merge", "--ff-only", "feature"], ["push", "--quiet", ".", "feature:main"]):
        base = other.head("main")
        said = other.try_git(*words)
        assert (said.ok, "tandem: refused" in said.stderr, other.head("main")) == (False, True, base), said
        other.git("reset", "--quiet", "--hard", "main")
    bare = other.root.parent / "bare.git"
    other.git("init", "--quiet", "--bare", str(bare))
    other.git("push", "--quiet", str(bare), "main", "feature")
    assert "refs/heads/main is not pushed" in other.try_git("push", str(bare), "feature:main").stderr
    # Approved as one change it is merged.
    other.git("switch", "--quiet", "feature")
    other.approve("--range", f"main..{tip}")
    other.git("switch", "--quiet", "main")
    other.git("merge", "--quiet", "--ff-only", "feature")
    assert other.tandem("audit", "main").status == 0


def test_a_refused_merge_of_a_branch_names_the_command_that_lands_it(free: Gated):
    free.git("switch", "--quiet", "--create", "feature")
    free.stage(DIGITS)
    free.git("commit", "--quiet", "-m", "Digits")
    free.git("switch", "--quiet", "main")
    told = free.refused("merge", "--no-ff", "--no-edit", "feature").splitlines()
    way = "Leave the merge, and have the branch reviewed and landed: git merge --abort && tandem land feature"
    [line] = [one.removeprefix("tandem: ").strip() for one in told if "tandem land" in one]
    assert line == way
    assert any("tandem commit --no-edit" in one for one in told)
    # A merge by hand would be lost.
    assert "merge --abort" not in free.refused("commit", "--no-edit")
    # Played as it is said; it waits for the review that it has made.
    free.git("merge", "--abort")
    assert free.tandem("land", "feature", "--timeout", "0").status == 12
    [review] = reviews(free)
    free.decide(review["review_id"])
    assert free.tandem("land", "feature").status == 0
    assert free.git("show", "main:a.txt") == DIGITS["a.txt"].strip()


def test_a_free_commit_is_made_without_a_trailer_and_without_python(free: Gated):
    free.rewrite(python="/nowhere")
    hook = free.root / ".git/hooks/prepare-commit-msg"
    hook.write_text(hook.read_text("utf-8").replace("\npython=", "\npython=/nowhere "), "utf-8")
    free.git("switch", "--quiet", "--create", "feature")
    changed(free, DIGITS, "Digits")
    assert free.message() == "Digits"
    free.git("checkout", "--quiet", "--detach")
    changed(free, {"c.txt": "more\n"}, "More")
    tree = free.linked(free.root.parent / "linked", "other")
    free.stage({"d.txt": "yet more\n"}, tree)
    free.git("commit", "--quiet", "-m", "Yet more", cwd=tree)
    free.git("commit", "--quiet", "--amend", "-m", "Even more", cwd=tree)
    assert reviews(free) == []
    assert free.call("list_commits")["commits"] == []


def test_commits_on_other_branches_are_made_while_the_broker_is_away(own_other: Gated):
    own_other.git("switch", "--quiet", "--create", "feature")
    # It cannot be started either.
    (Path(own_other.switch["config_dir"]) / "config.toml").write_text("nonsense", "utf-8")
    own_other.broker.kill()
    own_other.stage(DIGITS)
    is_followed = own_other.switch["commits"] == "followed"
    said = commit(own_other, "-m", "Digits") if is_followed else own_other.try_git("commit", "-m", "Digits")
    assert said.status == (3 if is_followed else 0), said
    told = "not submitted for review, as no broker answered. Have the branch reviewed: tandem submit --branch --wait"
    assert (told in " ".join(said.stderr.split())) == is_followed
    bare = own_other.root.parent / "bare.git"
    own_other.git("init", "--quiet", "--bare", str(bare))
    assert own_other.try_git("push", "--quiet", str(bare), "feature").ok
    own_other.git("switch", "--quiet", "main")
    own_other.refused("merge", "--ff-only", "feature")
    (Path(own_other.switch["config_dir"]) / "config.toml").unlink()
    own_other.broker.start()
    own_other.git("reset", "--quiet", "--hard", "main")
    assert ("submitted when it is back" in said.stderr) == is_followed
    assert len(pending.waiting(gate_switch.place_at(own_other.root))) == int(is_followed)
    own_other.git("switch", "--quiet", "feature")
    changed(own_other, {"c.txt": "more\n"}, "More")
    assert sorted(one["intent"] for one in reviews(own_other)) == (["Digits", "More"] if is_followed else [])
    for review in reviews(own_other):
        own_other.decide(review["review_id"])
    own_other.git("switch", "--quiet", "main")
    assert own_other.try_git("merge", "--ff-only", "feature").ok == is_followed


def test_p7_an_edited_file_loosens_nothing_while_the_broker_is_away(own_gated: Gated):
    own_gated.git("switch", "--quiet", "--create", "feature")
    own_gated.broker.kill()
    own_gated.stage(DIGITS)
    own_gated.rewrite(commits="free")
    words = own_gated.refused("commit", "-m", "Digits")
    assert "cannot be reached" in words
    assert "tandem up --background" in words
    own_gated.git("-c", f"core.hooksPath={os.devnull}", "commit", "--quiet", "-m", "Digits")
    bare = own_gated.root.parent / "bare.git"
    own_gated.git("init", "--quiet", "--bare", str(bare))
    assert "refused" in own_gated.try_git("push", str(bare), "feature").stderr


def test_p7_an_edited_list_of_base_branches_opens_none_while_the_broker_is_away(own_other: Gated):
    own_other.broker.kill()
    own_other.stage(DIGITS)
    own_other.rewrite(branches=["another"])
    assert "cannot be judged" in own_other.refused("commit", "-m", "Digits")


def test_p2_a_record_of_a_submission_that_somebody_else_wrote_is_refused(followed: Gated):
    place = gate_switch.place_at(followed.root)
    arguments = {"intent": "Mine", "agent_type": "git", "diff": "", "seal": f"person.{'0' * 64}"}
    pending.keep(place, "create_review", arguments)
    ended = followed.tandem("gate", "status")
    assert (ended.status, "It is not what a hook writes" in " ".join(ended.stdout.split())) == (1, True)
    assert reviews(followed) == []


def test_a_followed_commit_that_answers_a_finding_is_a_new_round(followed: Gated):
    review = changed(followed, DIGITS, "Digits")
    more = changed(followed, {"c.txt": "more\n"}, "More")
    followed.decide(review, "changes_requested")
    # A commit that another hook refuses belongs to the same round when it is tried again.
    hook = followed.root / ".git/hooks/commit-msg"
    hook.write_text("#!/bin/sh\nexit 1\n", "utf-8")
    hook.chmod(0o755)
    followed.stage({"a.txt": "one\n2\n3\n"})
    assert not followed.try_git("commit", "-m", "All of them").ok
    hook.unlink()
    followed.git("commit", "--quiet", "-m", "All of them")
    assert followed.trailers() == [review]
    status = followed.call("get_review_status", review_id=review)
    assert (status["status"], status["round"]) == ("pending", 2)
    proposal = followed.call("get_proposal", review_id=review)
    assert (proposal["intent"], proposal["description"]) == ("Digits", "All of them")
    assert paths(proposal) == ["a.txt", "c.txt"]
    assert len(reviews(followed)) == 2
    # It is all of the branch as one change: with its approval the branch may be merged.
    followed.decide(review)
    followed.git("switch", "--quiet", "main")
    followed.git("merge", "--quiet", "--ff-only", "feature")
    assert more != review


ANSWER = f"commit it on its branch, as its next round: {BY_COMMIT}"


def told(gated: Gated, review: str) -> str:
    """Returns the message to the proposer of a review, on one line."""
    return " ".join(gated.tandem("review", "status", review).stdout.split())


def lands(gated: Gated) -> None:
    """The base branch takes the branch."""
    gated.git("switch", "--quiet", "main")
    gated.git("merge", "--quiet", "--ff-only", "feature")


@pytest.mark.parametrize("program", ["git", "tandem"])
def test_what_is_said_after_changes_were_requested_ends_in_one_review_and_an_open_base(followed: Gated, program: str):
    followed.stage(DIGITS)
    if program == "tandem":
        first = commit(followed, "-m", "Digits")
        [review] = followed.trailers()
        assert first.status == NOT_YET, first
        assert f"Go on waiting with: tandem review status {review} --wait" in first.unwrapped
    else:
        review = changed(followed, DIGITS, "Digits")
    followed.decide(review, "changes_requested")
    assert f"Change it, {ANSWER}" in told(followed, review)
    by_tool = followed.call("get_review_status", review_id=review)["message"]
    assert f"then {ANSWER}." in by_tool
    followed.stage({"a.txt": "one\ntwo, in words\nthree\n"})
    if program == "tandem":
        waiting = start(followed, "-m", "In words")
        assert waiting.stderr is not None
        assert next((line for line in waiting.stderr if b"in the queue" in line), None) is not None
        followed.decide(review)
        ended = finish(waiting)
        assert (ended.status, f"approved by {review}" in ended.stderr) == (0, True), ended
        assert followed.call("get_review_status", review_id=review)["status"] == "closed"
    else:
        followed.git("commit", "--quiet", "-m", "In words")
        followed.decide(review)
        assert f"next Go on, then: tandem review close {review}" in told(followed, review)
        assert followed.call("get_review_status", review_id=review)["message"] == "Go on, then close_review."
    assert [(one["review_id"], one["round"]) for one in reviews(followed)] == [(review, 2)]
    lands(followed)


BETTER = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+II\n three\n"
"""A counter-patch, which replaces the whole round: the file that it adds goes."""


def counter(gated: Gated, review: str) -> None:
    """Request changes with a counter-patch, which is accepted."""
    gated.decide(review, "changes_requested", counter_patch=BETTER)
    patch = gated.call("get_review_status", review_id=review)["counter_patch_id"]
    with gated.caller("another") as proposer:
        proposer.do("accept_counter_patch", review_id=review, counter_patch_id=patch)


@pytest.mark.parametrize("amend", [(), pytest.param(("--amend",), marks=VARIATION)])
def test_an_accepted_counter_patch_to_a_followed_commit_is_brought_into_the_branch_and_lands(
    followed: Gated, amend: tuple[str, ...]
):
    review = changed(followed, {**DIGITS, "c.txt": "more\n"}, "Digits")
    counter(followed, review)
    followed.decide(review)
    bring = f"tandem apply {review} --index"
    assert f" content: {bring} Commit exactly this: git commit" in told(followed, review)
    # Local work is not lost, here as elsewhere.
    followed.write({"a.txt": "not committed\n"})
    assert "git stash push" in followed.tandem("apply", review, "--index").refusal
    followed.git("checkout", "--quiet", "--", "a.txt")
    brought = followed.tandem("apply", review, "--index", "--json").data
    assert (brought["written"], brought["deleted"]) == (["a.txt"], ["c.txt"])
    followed.git("commit", "--quiet", *amend, "-m", "Better")
    assert followed.trailers() == [review]
    status = followed.call("get_review_status", review_id=review)
    assert (status["status"], status["round"]) == ("approved", 2)
    assert followed.tandem("review", "close", review).status == 0
    assert (len(reviews(followed)), followed.call("get_review_status", review_id=review)["outcome"]) == (1, "approved")
    lands(followed)


def test_an_accepted_counter_patch_to_commits_of_a_branch_is_brought_into_it_and_lands(free: Gated):
    free.git("switch", "--quiet", "--create", "feature")
    changed(free, {**DIGITS, "c.txt": "more\n"}, "Digits")
    review = free.submit("--range", "main..HEAD")
    counter(free, review)
    free.decide(review, "changes_requested")
    assert f"Bring your files to the round: tandem apply {review} " in told(free, review)
    assert free.tandem("apply", review).status == 0
    assert "Already there" in free.tandem("apply", review).stdout
    free.decide(review)
    assert f" content: tandem apply {review} --index" in told(free, review)
    assert free.tandem("apply", review, "--index").status == 0
    free.git("commit", "--quiet", "-m", "Better")
    lands(free)


def test_a_commit_by_tandem_says_what_its_reviewer_wants(followed: Gated):
    followed.stage(DIGITS)
    waiting = start(followed, "-m", "Digits", "--json")
    assert waiting.stderr is not None
    assert next((line for line in waiting.stderr if b"in the queue" in line), None) is not None
    [review] = followed.trailers()
    followed.decide(review, "changes_requested")
    asked = finish(waiting)
    outcome = (asked.data["done"], asked.data["state"], asked.data["commit"], asked.data["exit_status"])
    assert outcome == (["committed"], "changes_requested", followed.head(), asked.status)
    assert asked.data["next"][0].endswith(ANSWER)
    # A commit without a review passes all the same, and so does an approved one. In the same second as the one before
    # it, a commit without changes looks like an amend.
    assert commit(followed, "--allow-empty", "--date", "1600000000 +0200", "-m", "Nothing").status == 0
    followed.stage({"c.txt": "more\n"})
    followed.approve()
    assert commit(followed, "-m", "More").status == 0
    assert commit(followed, "-m", "Nothing").status == 1


def test_a_commit_by_tandem_that_is_run_again_waits_for_its_verdict_and_closes_its_review(followed: Gated):
    followed.stage(DIGITS)
    assert commit(followed, "-m", "Digits").status == NOT_YET
    [review] = followed.trailers()
    hook = followed.root / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\necho 'line 3 is too long' >&2\nexit 7\n", "utf-8")
    hook.chmod(0o755)
    followed.stage({"c.txt": "more\n"})
    refused = commit(followed, "-m", "More")
    assert (refused.status, refused.stderr.strip()) == (1, "line 3 is too long")
    hook.unlink()
    followed.git("reset", "--quiet", "c.txt")
    assert commit(followed, "-m", "Digits").status == NOT_YET
    followed.decide(review)
    ended = commit(followed, "-m", "Digits")
    assert (ended.status, f"approved by {review}" in ended.stderr) == (0, True), ended
    assert followed.call("get_review_status", review_id=review)["status"] == "closed"
    assert commit(followed, "-m", "Digits").status == 1


def test_after_a_rejection_the_branch_is_submitted_as_one_change(followed: Gated):
    review = changed(followed, DIGITS, "Digits")
    followed.decide(review, "rejected")
    words, by_tool = told(followed, review), followed.call("get_review_status", review_id=review)["message"]
    for said in (words, by_tool):
        assert "Do it differently, " in said
        assert "commit it on its branch, and submit all of that: tandem submit --branch --wait -m 'why'" in said
    changed(followed, {"a.txt": "one\nII\nthree\n"}, "Roman")
    followed.approve("--branch", intent="why")
    lands(followed)


@pytest.mark.parametrize("way", ["amend", "question", "merge"])
def test_an_answer_comes_in_any_form(followed: Gated, way: str):
    review = changed(followed, DIGITS, "Digits")
    if way == "question":
        generation = followed.call("claim_review", review_id=review, reviewer_id="rev-1")["claim_generation"]
        asked: dict[str, Any] = {"sender_role": "reviewer", "reviewer_id": "rev-1", "body": "Why?"}
        followed.call("add_message", review_id=review, claim_generation=generation, **asked)
    else:
        followed.decide(review, "changes_requested")
    if way == "merge":
        followed.git("switch", "--quiet", "main")
        followed.approved_commit({"b.txt": "alpha\n"})
        followed.git("switch", "--quiet", "feature")
        followed.git("merge", "--quiet", "--no-edit", "main")
    followed.stage({"a.txt": "one\n2\n3\n"})
    followed.git("commit", "--quiet", *(["--amend", "--no-edit"] if way == "amend" else ["-m", "All of them"]))
    assert followed.trailers() == [review]
    status = followed.call("get_review_status", review_id=review)
    assert (status["status"], status["round"]) == ("pending", 2)
    assert paths(followed.call("get_proposal", review_id=review)) == ["a.txt"]
    followed.decide(review)
    followed.git("switch", "--quiet", "main")
    followed.git("merge", "--quiet", "--no-edit", "feature")


def test_an_answer_is_of_the_branch_that_the_review_is_of(followed: Gated):
    review = changed(followed, DIGITS, "Digits")
    followed.decide(review, "changes_requested")
    followed.git("switch", "--quiet", "--create", "elsewhere")
    assert changed(followed, {"c.txt": "more\n"}, "More") not in {review, ""}


def test_a_rebase_submits_nothing_and_keeps_the_reviews(followed: Gated):
    review = changed(followed, DIGITS, "Digits")
    followed.decide(review, "changes_requested")
    changed(followed, {"a.txt": "one\n2\n3\n"}, "All of them")
    followed.git("switch", "--quiet", "main")
    followed.approved_commit({"b.txt": "alpha\n"})
    followed.git("switch", "--quiet", "feature")
    followed.git("rebase", "--quiet", "main")
    assert [one["review_id"] for one in reviews(followed) if one["intent"] != "An improvement"] == [review]
    assert [followed.trailers(revision=one) for one in ("HEAD", "HEAD~1")] == [[review], [review]]
    followed.decide(review)
    followed.git("switch", "--quiet", "main")
    followed.git("merge", "--quiet", "--ff-only", "feature")


@VARIATION
def test_a_rejected_followed_commit_is_no_plans_and_holds_up_nobody(followed: Gated):
    review = changed(followed, DIGITS, "feat(03-02): digits")
    followed.decide(review, "rejected")
    other = changed(followed, {"c.txt": "more\n"}, "feat(03-02): more")
    followed.decide(other)
    followed.git("switch", "--quiet", "main")
    followed.refused("merge", "--ff-only", "feature")


def test_a_rollback_where_commits_are_followed_speaks_of_no_mode_of_a_plan(followed: Gated):
    review = changed(followed, DIGITS, "Count")
    followed.decide(review, "rejected")
    done = followed.tandem("rollback", review)
    assert (done.status, "Rolled back" in done.stdout, "blocking mode" in done.stdout) == (0, True, False), done
    assert followed.git("diff", "main") == ""


def test_a_commit_that_no_review_takes_passes_and_says_so(followed: Gated):
    followed.stage({"large.txt": "0123456789abcde\n" * 400_000})
    said = commit(followed, "-m", "Large")
    assert (said.status, followed.message()) == (1, "Large"), said
    assert "as the broker took no review of it" in said.unwrapped


PLANNINGS: dict[str, dict[str, Any]] = {
    "strict": {"tandem_enabled": True},
    "per_plan": {"tandem_enabled": True, "review_granularity": "per_plan"},
    "optimistic": {"tandem_enabled": True, "execution_mode": "optimistic"},
    "solo": {"tandem_enabled": False},
}


@pytest.mark.parametrize("commits", COMMITS)
def test_gsds_settings_tighten(shared_broker: BrokerProcess, tmp_path: Path, commits: str):
    gated = gated_as(shared_broker, tmp_path / "repository", commits)
    for mode, planning in PLANNINGS.items():
        gated.settings(**planning)
        gated.git("switch", "--quiet", "--create", mode, "main")
        gated.stage({"a.txt": f"one\n{mode}\nthree\n"})
        said = gated.try_git("commit", "--quiet", "-m", "Digits")
        expected = ENFORCED[commits].get(mode, "strict")
        assert said.ok == (expected != "strict"), said.stderr
        if said.ok:
            named = (gated.trailers() or ["none"])[0]
            assert {"per_plan": named == "unreviewed", "free": named == "none"}.get(expected, named.startswith("rv_"))
        gated.git("reset", "--quiet", "--hard")


@VARIATION
def test_steps_of_gsd_that_go_alone_do_so_where_no_gate_refuses(other: Gated):
    step = ("gate", "task", "--plan", "03-02", "--task", "1")
    other.stage(DIGITS)
    assert not other.tandem(*step, "--timeout", "1").stdout.startswith("SOLO")
    other.git("switch", "--quiet", "--create", "feature")
    assert other.tandem(*step).stdout.startswith("SOLO")
    # Doctor fires the hooks there.
    findings = other.tandem("doctor", "--deep", "--json").data["findings"]
    assert [one["state"] for one in findings if one["check"] in {"gate", "hooks"}] == ["ok"] * 4


def test_the_reference_has_the_table_of_modes():
    text = (Path(__file__).parents[2] / "docs/reference/gate.md").read_text("utf-8")
    columns = ("solo", "strict", "per_plan", "optimistic")
    rows = {f"| `{one}` | {' | '.join(ENFORCED[one].get(name, 'strict') for name in columns)} |" for one in COMMITS}
    assert rows <= {*text.splitlines()}


def test_p2_a_file_that_says_something_looser_than_the_record_gains_nothing(gated: Gated):
    gated.git("switch", "--quiet", "--create", "feature")
    for commits in OTHERS:
        gated.rewrite(commits=commits)
        gated.stage(DIGITS)
        words = gated.refused("commit", "-m", "Digits")
        assert f"commits on other branches are {commits} there, and reviewed at the broker" in words
        bare = gated.root.parent / f"{commits}.git"
        gated.git("init", "--quiet", "--bare", str(bare))
        assert "differs from the record" in gated.try_git("push", str(bare), "feature").stderr
        for command in (["gate", "status"], ["doctor"], ["audit", "main"])[:: 2 if commits == "free" else 1]:
            ended = gated.tandem(*command)
            assert ended.status == 1
            assert f"are {commits} there" in " ".join((ended.stdout + ended.stderr).split())
    gated.rewrite(commits="anything")
    assert "gate.json is not what" in gated.refused("commit", "-m", "Digits")
    # The record is restored, by anyone.
    gated.rewrite(commits="free")
    assert gated.tandem("gate", "on").status == 0
    assert gated.switch["commits"] == "reviewed"


def test_a_file_that_says_something_stricter_than_the_record_holds(followed: Gated):
    followed.rewrite(commits="reviewed")
    followed.stage(DIGITS)
    followed.refused("commit", "-m", "Digits")
    ended = followed.tandem("gate", "status")
    assert ended.status == 1
    assert "reviewed here, and followed at the broker" in " ".join(ended.stdout.split())


def test_a_person_loosens_step_by_step_and_anybody_tightens(gated: Gated):
    for commits in ("followed", "free"):
        ended = gated.tandem("gate", "on", "--commits", commits)
        assert ended.status != 0
        assert "commits on other branches would pass" in ended.stderr
        assert gated.switch["commits"] != commits
        assert gated.person("gate", "on", "--commits", commits).ok
        assert (gated.switch["commits"], gated.call("get_gate")["commits"]) == (commits, commits)
    # The same again takes no decision.
    assert gated.tandem("gate", "on").status == 0
    for commits in ("followed", "reviewed"):
        assert gated.tandem("gate", "on", "--commits", commits).status == 0
        assert gated.tandem("gate", "status", "--json").data["commits"] == commits
    gated.git("switch", "--quiet", "--create", "feature")
    gated.stage(DIGITS)
    gated.refused("commit", "-m", "Digits")


def test_a_gate_of_an_earlier_version_reviews_every_commit(gated: Gated):
    gated.gate_file.write_text(json.dumps({name: one for name, one in gated.switch.items() if name != "commits"}))
    assert gated.call("get_gate")["commits"] == "reviewed"
    gated.git("switch", "--quiet", "--create", "feature")
    gated.stage(DIGITS)
    gated.refused("commit", "-m", "Digits")
    assert gated.tandem("gate", "on").status == 0
    assert gated.switch["commits"] == "reviewed"


def test_from_which_severity_on_findings_keep_an_approval_back_a_person_loosens_and_anybody_tightens(gated: Gated):
    def kept() -> str:
        return gated.tandem("gate", "status", "--json").data["threshold"]

    assert kept() == "major"
    ended = gated.tandem("gate", "on", "--threshold", "blocker")
    assert ended.status != 0
    assert "open findings of severity major would keep no approval back" in ended.stderr
    assert kept() == "major"
    assert gated.person("gate", "on", "--threshold", "blocker").ok
    # It is on the record alone, and stays where it is not named.
    assert gated.tandem("gate", "on").status == 0
    assert (kept(), "threshold" in gated.switch) == ("blocker", False)
    assert gated.tandem("gate", "on", "--threshold", "nit").status == 0
    status = gated.tandem("gate", "status").stdout
    assert "an open finding of nit or above keeps an approval back" in " ".join(status.split())
