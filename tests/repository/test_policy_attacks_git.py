"""P2: no way of git's own gets a protected path, or the policy itself, past it: the real hooks, and `tandem land`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tandem.rulings import proof
from tandem.rulings.policy import FILE
from tests.broker import BrokerProcess
from tests.repository.gating import Gated, gate_on, new_repository
from tests.repository.landing import NO_HOOKS, approved, branched

LOGIN = "src/auth/login.py"
BAD = {LOGIN: "bad\n"}
STRICT = f"""
[[rule]]
name = "auth"
paths = ["src/auth/**", "{FILE}"]
needs = ["person"]
[[rule]]
name = "rest"
not_paths = ["src/auth/**", "{FILE}"]
needs = ["agent"]
"""
WEAK = STRICT.replace('["src/auth/**", ', "[", 1)
PERSON = '[[rule]]\nneeds = ["person"]\n'
AGENTS = ("codex", "gemini")


@pytest.fixture
def kept(shared_broker: BrokerProcess, tmp_path: Path) -> Gated:
    """A repository with a gate and a policy."""
    files = {"a.txt": b"one\ntwo\nthree\n", LOGIN: b"one\n", FILE: STRICT.encode()}
    return gate_on(shared_broker, new_repository(tmp_path / "repository", files))


def by_agents(kept: Gated, *how: str) -> str:
    """A review of the index, or of a range, that all agents approve as far as they may."""
    review = kept.submit(*how) if how else kept.put_up()
    with kept.caller() as caller:
        for agent in AGENTS:
            caller.call("submit_verdict", review_id=review, verdict="approved", reviewer_id=agent, claim=True)
    # The attempt is on record.
    events = kept.call("get_review_timeline", review_id=review)["events"]
    assert events[0]["kind"] == "review_created"
    return review


def by_person(kept: Gated, review: str) -> None:
    """A person approves it, with the proof."""
    asked = {"review_id": review, "verdict": "approved", "reviewer_id": "ann", "claim": True}
    keys = proof.keys(str(kept.broker.data_dir))
    kept.call("submit_verdict", **asked, proof=proof.prove(keys, proof.verdict_facts(asked)))


def landed(kept: Gated, files: Mapping[str, str | bytes | None]) -> str:
    """A commit of files that a person approved."""
    kept.stage(files)
    by_person(kept, by_agents(kept))
    kept.git("commit", "--quiet", "-m", "approved")
    return kept.head()


def plainly(kept: Gated) -> list[str]:
    kept.stage(BAD)
    return ["commit", "-m", "x"]


def amending(kept: Gated) -> list[str]:
    kept.approved_commit({"a.txt": "1\n"})
    kept.stage(BAD)
    return ["commit", "--amend", "-m", "x"]


def another_case(kept: Gated) -> list[str]:
    kept.git("mv", FILE, ".tandem/Policy.toml")
    return ["commit", "-m", "x"]


def copying(kept: Gated) -> list[str]:
    branched(kept, "feature", BAD)
    kept.git("cherry-pick", "--no-commit", "feature")
    return ["commit", "-m", "x"]


def resolving(kept: Gated) -> list[str]:
    approved(kept, "feature", {"a.txt": "1\n"})
    kept.approved_commit({"b.txt": "1\n"})
    kept.git("merge", "--no-commit", "--no-ff", "feature")
    kept.stage(BAD)
    return ["commit", "-m", "merged"]


WAYS = (plainly, amending, another_case, copying, resolving)


@pytest.mark.parametrize("way", WAYS)
def test_p2_no_commit_holds_what_agents_alone_approved(kept: Gated, way: Callable[[Gated], list[str]]) -> None:
    command = way(kept)
    review = by_agents(kept)
    assert "a person's review" in kept.call("get_review_status", review_id=review)["missing"][0]
    said = kept.refused(*command)
    assert LOGIN in said or FILE in said
    assert "Missing: a person's review" in said or "no verdict yet" in said or "no approved round" in said
    by_person(kept, review)
    kept.git(*command)


def fast_forward(kept: Gated) -> list[str]:
    branched(kept, "feature", BAD)
    return ["merge", "--ff-only", "feature"]


def hidden(kept: Gated) -> list[str]:
    """Among documents that are approved, by a merge of branches that no hook has seen."""
    branched(kept, "side", BAD)
    branched(kept, "feature", {"a.txt": "1\n"})
    kept.git("switch", "--quiet", "feature")
    kept.git(*NO_HOOKS, "merge", "--quiet", "--no-edit", "side")
    kept.git("switch", "--quiet", "main")
    return ["merge", "--ff-only", "feature"]


def made_lax(kept: Gated) -> list[str]:
    """The policy first, and then the change that it frees."""
    branched(kept, "feature", {FILE: WEAK}, BAD)
    return ["merge", "--ff-only", "feature"]


@pytest.mark.parametrize("way", [fast_forward, hidden, made_lax])
def test_p2_no_branch_moves_to_what_agents_alone_approved(kept: Gated, way: Callable[[Gated], list[str]]) -> None:
    command = way(kept)
    review = by_agents(kept, "--range", "main...feature")
    said = kept.refused(*command)
    assert LOGIN in said or FILE in said
    kept.git("reset", "--quiet", "--merge")
    by_person(kept, review)
    kept.git(*command)
    assert kept.head("main") == kept.head("feature")


# --------------------------------------------------------------------------------- the policy's own past


def test_p2_a_revert_of_the_policy_needs_a_person(kept: Gated) -> None:
    landed(kept, {FILE: WEAK})
    landed(kept, {FILE: STRICT})
    assert FILE in kept.refused("revert", "--no-edit", "HEAD")
    kept.git("revert", "--no-commit", "HEAD")
    by_person(kept, by_agents(kept))
    kept.git("commit", "-m", "reverted")


def test_p2_the_base_branch_does_not_go_back_behind_its_policy(kept: Gated) -> None:
    weak = landed(kept, {FILE: WEAK})
    strict = landed(kept, {FILE: STRICT})
    for command in (["reset", "--hard", weak], ["update-ref", "refs/heads/main", weak]):
        said = kept.refused(*command)
        assert FILE in said
        assert "says how changes are judged" in said
    kept.git("reset", "--quiet", "--hard")
    kept.stage(BAD)
    assert LOGIN in kept.refused("commit", "-m", "bad")
    assert kept.head("main") == strict
    # A commit on other paths may be undone, and so may the policy by a person's approval.
    kept.git("reset", "--quiet", "--hard")
    kept.approved_commit({"a.txt": "1\n"})
    kept.git("reset", "--quiet", "--hard", strict)
    by_person(kept, by_agents(kept, "--range", f"{strict}..{weak}"))
    kept.git("reset", "--quiet", "--hard", weak)


def test_p2_a_base_branch_with_a_policy_is_not_deleted_to_be_made_at_an_older_commit(kept: Gated) -> None:
    weak = landed(kept, {FILE: WEAK})
    strict = landed(kept, {FILE: STRICT})
    kept.git("switch", "--quiet", "--create", "side", weak)
    for command in (["branch", "-D", "main"], ["update-ref", "-d", "refs/heads/main"]):
        assert "with a policy: it is not deleted" in kept.refused(*command)
    assert kept.head("main") == strict
    kept.git("branch", "other")
    kept.git("branch", "-D", "other")
    kept.git("branch", "--move", "main", "aside")
    kept.git("branch", "--move", "aside", "main")
    for packing in (["pack-refs", "--all"], ["gc", "--quiet"], ["pack-refs", "--all", "--no-prune"]):
        kept.git(*packing)
        assert kept.head("main") == strict
        assert "it is not deleted" in kept.refused("branch", "-D", "main")
        kept.git("switch", "--quiet", "main")
        kept.approved_commit({"a.txt": " ".join(packing)})
        strict = kept.head("main")
        kept.git("switch", "--quiet", "side")
        assert "it is not deleted" in kept.refused("branch", "-D", "main")


def test_p2_no_merge_leaves_the_policy_out(kept: Gated) -> None:
    weak = landed(kept, {FILE: WEAK})
    strict = landed(kept, {FILE: STRICT})
    kept.git("switch", "--quiet", "--create", "side", weak)
    kept.git("merge", "--quiet", "-s", "ours", "-m", "ours", "main")
    kept.approved_commit({"a.txt": "1\n"})
    kept.git("switch", "--quiet", "main")
    assert FILE in kept.refused("merge", "--ff-only", "side")
    kept.git("reset", "--quiet", "--merge")
    assert FILE in kept.refused("merge", "--no-ff", "--no-edit", "side")
    kept.git("reset", "--quiet", "--merge")
    # The audit sees where a branch has gone round the hooks.
    kept.git(*NO_HOOKS, "update-ref", "refs/heads/main", "side")
    audit = kept.tandem("audit", "main")
    assert audit.status != 0
    assert FILE in audit.stdout
    kept.git(*NO_HOOKS, "update-ref", "refs/heads/main", strict)
    kept.git("reset", "--quiet", "--hard")
    # A merge that keeps it is one.
    kept.git("switch", "--quiet", "--create", "other", weak)
    kept.approved_commit({"b.txt": "1\n"})
    kept.git("merge", "--quiet", "--no-edit", "main")
    kept.git("switch", "--quiet", "main")
    kept.git("merge", "--quiet", "--ff-only", "other")
    assert kept.tandem("audit", "main").status == 0


def test_p2_the_audit_finds_a_branch_that_git_puts_over_the_base_branch(kept: Gated) -> None:
    branched(kept, "feature", BAD)
    review = by_agents(kept, "--range", "main...feature")
    kept.git("switch", "--quiet", "feature")
    # Git asks no hook about that name, and loses both branches where the deletion is refused.
    kept.git("branch", "--quiet", "--move", "--force", "feature", "main")
    audit = kept.tandem("audit", "main")
    assert audit.status != 0
    assert "unapproved" in audit.stdout
    by_person(kept, review)
    assert kept.tandem("audit", "main").status == 0


# ---------------------------------------------------------------------------------------------- landings


def test_p2_of_two_that_race_the_later_one_is_judged_by_the_policy_that_landed(kept: Gated) -> None:
    change = approved(kept, "feature", {"a.txt": "1\n"})
    branched(kept, "strict", {FILE: PERSON})
    by_person(kept, by_agents(kept, "--range", "main...strict"))
    assert kept.tandem("land", "strict", "--timeout", "0").status == 0
    before, refused = kept.head("main"), kept.tandem("land", "feature", "--timeout", "0")
    assert refused.status != 0
    assert "a person's review" in refused.stdout
    assert kept.head("main") == before
    assert "a person's review" in kept.tandem("audit", "main..feature").stdout
    assert kept.call("get_review_status", review_id=change)["status"] == "approved"
    kept.submit("--range", "main...feature", "--revise", change)
    by_person(kept, change)
    assert kept.tandem("land", "feature", "--timeout", "0").status == 0
