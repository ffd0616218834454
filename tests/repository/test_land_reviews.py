"""`tandem land`, the reviews that a branch has already, and the command to go on with."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tandem.setup.gate_switch import GateOptions
from tests.broker import BrokerProcess
from tests.commandline import finish
from tests.modes import VARIATION
from tests.repository.gating import DIGITS, Gated, gate_on
from tests.repository.landing import NO_HOOKS, branched, landings, run_git, started


def under_review(gated: Gated) -> dict[str, tuple[str, str, int]]:
    """Returns purpose, state and round of the project's open reviews."""
    listed = gated.call("list_reviews", status="open")["reviews"]
    return {one["review_id"]: (one["intent"], one["status"], one["round"]) for one in listed}


@VARIATION
def test_the_claim_of_a_reviewer_outlasts_a_landing_that_has_nothing_new(gated: Gated) -> None:
    branched(gated, "feature", DIGITS)
    review = gated.tandem("submit", "--branch", "feature", "-m", "The purpose", "--json").data["review_id"]
    gated.call("claim_review", review_id=review, reviewer_id="rev-1")
    for words in ([], ["-m", "The purpose"], ["--strategy", "squash"]):
        assert gated.tandem("land", "feature", "--timeout", "0", *words).status == 12
        assert under_review(gated) == {review: ("The purpose", "claimed", 1)}
    assert gated.tandem("land", "feature", "--timeout", "0", "-m", "Another").status == 12
    assert under_review(gated) == {review: ("Another", "pending", 2)}

    gated.git("switch", "--quiet", "feature")
    gated.stage({"a.txt": "one\ntwo\ndrei\n"})
    gated.git(*NO_HOOKS, "commit", "--quiet", "-m", "Use words")
    assert gated.tandem("land", "--timeout", "0").status == 12
    assert under_review(gated) == {review: ("Another", "pending", 3)}
    gated.decide(review)
    assert gated.tandem("land", "--strategy", "squash").status == 0
    assert gated.git("log", "-1", "--format=%s", "main") == "Another"

    # Later commits have a purpose of their own.
    gated.git("reset", "--quiet", "--hard", "main")
    gated.stage({"c.txt": "c\n"})
    gated.git(*NO_HOOKS, "commit", "--quiet", "-m", "Add a file")
    assert gated.tandem("land", "--timeout", "0").status == 12
    assert list(under_review(gated).values()) == [("Add a file", "pending", 1)]


@pytest.fixture
def followed(shared_broker: BrokerProcess, plain: Path) -> Gated:
    """A gate that submits each commit; `feature` has two of them."""
    gated = gate_on(shared_broker, plain, GateOptions(commits="followed"))
    gated.git("switch", "--quiet", "--create", "feature")
    for files in (DIGITS, {"new.txt": "new\n"}):
        gated.stage(files)
        gated.git("commit", "--quiet", "-m", f"Write {', '.join(files)}")
    gated.git("switch", "--quiet", "main")
    return gated


def test_open_reviews_of_its_commits_are_waited_for_and_no_other_is_made(followed: Gated) -> None:
    reviews = under_review(followed)
    with started(followed, "feature") as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        assert set(re.findall(r"rv_\w+", str(said))) == set(reviews), said
        for review in reviews:
            followed.decide(review)
        landed = finish(process)
    assert landed.status == 0, landed
    assert under_review(followed) == {}
    assert len(followed.call("list_reviews", limit=200)["reviews"]) <= len(reviews)
    assert sorted(landings(followed)[0]["review_ids"]) == sorted(reviews)


@pytest.mark.parametrize("asks", [True, pytest.param(False, marks=VARIATION)])
def test_what_an_open_review_of_a_commit_wants_ends_the_wait(followed: Gated, asks: bool) -> None:
    first, second = sorted(under_review(followed))
    with started(followed, "feature") as process:
        assert process.stderr is not None
        process.stderr.readline()
        # Of the second, as nothing holds up the first.
        generation = followed.call("claim_review", review_id=second, reviewer_id="rev-1")["claim_generation"]
        by: dict[str, object] = {"review_id": second, "reviewer_id": "rev-1", "claim_generation": generation}
        if asks:
            followed.call("add_message", **by, sender_role="reviewer", body="Why digits?")
        else:
            followed.call("submit_verdict", **by, verdict="changes_requested", reason="Why digits?")
        told = finish(process)
    assert (told.status, "Then: tandem land feature" in told.stderr) == (12 if asks else 10, True), told
    assert "Why digits?" in told.stdout + told.stderr
    assert set(under_review(followed)) == {first, second}
    assert followed.tandem("land", "feature").status == told.status


@pytest.mark.parametrize("whole", [True, False])
def test_what_is_left_open_of_it_is_closed(followed: Gated, whole: bool) -> None:
    others = under_review(followed)
    if whole:
        followed.approve("--range", "main...feature")
    else:
        [*others] = [followed.tandem("submit", "--branch", "feature", "-m", "All", "--json").data["review_id"]]
        for review in under_review(followed).keys() - set(others):
            followed.decide(review)
    # A message may name the review of something else.
    followed.git("switch", "--quiet", "--create", "other", "main")
    followed.stage({"c.txt": "c\n"})
    followed.git("commit", "--quiet", "-m", "Add a file")
    [other] = followed.trailers()
    facts = {"intent": "Elsewhere", "agent_type": "git", "agent_role": "proposer", "category": "plan_review"}
    facts |= {"description": "Words", "metadata": {"branch": "feature"}, "project": "elsewhere"}
    elsewhere = followed.call("create_review", **facts)["review_id"]
    followed.git("switch", "--quiet", "feature")
    text = f"Mention them\n\nTandem-Review: {other}, {elsewhere}"
    followed.git(*NO_HOOKS, "commit", "--quiet", "--allow-empty", "-m", text)
    landed = followed.tandem("land", "feature", "--json")
    assert landed.status == 0, landed
    assert not set(others) & set(landed.data["review_ids"])
    assert [*under_review(followed)] == [other]
    status = followed.call("get_review_status", review_id=elsewhere, project="elsewhere")["status"]
    assert status == "pending"
    # The next work on a branch of this name is not that of the landed one.
    followed.git("reset", "--quiet", "--hard", "main")
    followed.stage({"d.txt": "d\n"})
    followed.git(*NO_HOOKS, "commit", "--quiet", "-m", "Add another")
    assert followed.tandem("land", "--timeout", "0").status == 12
    [new] = set(under_review(followed)) - {other}
    proposal = followed.call("get_proposal", review_id=new)
    assert (proposal["intent"], proposal["parent_id"]) == ("Add another", None)


def test_the_line_that_it_prints_lands_where_it_was_told_to(
    shared_broker: BrokerProcess, plain: Path, tmp_path: Path
) -> None:
    run_git(plain, "branch", "release")
    bare = tmp_path / "remote.git"
    run_git(plain, "clone", "--quiet", "--bare", str(plain), str(bare))
    run_git(plain, "remote", "add", "origin", str(bare))
    gated = gate_on(shared_broker, plain, GateOptions(branches=("main", "release")))
    main = gated.head()
    branched(gated, "feature", DIGITS, start="release")
    options = ["--onto", "release", "--strategy", "squash", "--remote", "origin", "-m", "Count in 'digits'"]
    options += ["--broker", gated.broker.url, "--agent", "ann", "--timeout", "30"]
    assert gated.tandem("land", "feature", *options[:-2], "--timeout", "0").status == 12
    [review] = [one["review_id"] for one in gated.call("list_reviews", status="pending")["reviews"]]
    gated.decide(review, "changes_requested", "Use words.")
    told = gated.tandem("land", "feature", *options)
    commands = re.findall(r"(?:Then|then): tandem (.*)", told.stdout + told.stderr)
    assert commands == [shlex.join(["land", "feature", *options])] * 2, told

    gated.git("switch", "--quiet", "feature")
    gated.stage({"a.txt": "one\ntwo\ndrei\n"})
    gated.git(*NO_HOOKS, "commit", "--quiet", "-m", "Use words")
    without_branch = gated.tandem("land", *options[:-1], "0")
    words = shlex.join(["tandem", "land", *options[:-1], "0", "feature"])
    assert (without_branch.status, words in without_branch.stderr) == (12, True), without_branch
    gated.decide(review)
    assert gated.tandem(*shlex.split(commands[0])).status == 0
    assert (gated.head("main"), run_git(bare, "rev-parse", "main")) == (main, main)
    assert run_git(bare, "rev-parse", "release") == gated.head("release")
    assert gated.git("log", "-1", "--format=%P %s", "release") == f"{main} Count in 'digits'"

    branched(gated, "other", {"a.txt": "eins\n"}, start="main")
    conflict = gated.tandem("land", "other", *options)
    assert (conflict.status, shlex.join(["tandem", "land", "other", *options]) in conflict.stdout) == (10, True)
