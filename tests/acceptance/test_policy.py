"""The project's policy: what a change needs before the gate opens, and who gave what of it."""

from __future__ import annotations

from pathlib import Path

from tandem.rulings.policy import FILE
from tests.acceptance.checking import Checked, check, checked
from tests.acceptance.finding import MAJOR, NIT, answered, found
from tests.acceptance.reviewing import OTHER, PROPOSER, REVIEWER, AgentDesk, Desk, edited
from tests.commandline import ShellInside
from tests.databases import ON_BOTH_DATABASES

BOTH = '[[rule]]\nname = "both"\nneeds = ["agent", "person"]\n'
DOCUMENTS = '[[rule]]\nname = "documents"\npaths = ["*.txt"]\nneeds = ["checks"]\n'


def have(project: Checked, policy: str) -> None:
    """Commit a policy to the base branch."""
    project.repo.write(FILE, policy)
    project.repo.commit("policy")


def allowed(project: Checked, digest: str) -> tuple[bool, str | None]:
    """The gate's answer to a digest."""
    answer = project.do("check_gate", digest=digest)
    return answer["allowed"], answer["code"]


@ON_BOTH_DATABASES
def test_p1_an_agent_and_a_person_both_approve_before_the_gate_opens(project: Checked) -> None:
    have(project, BOTH)
    review, digest = project.submitted(diff=edited())
    assert len(project.status(review)["missing"]) == 2
    assert project.approved_by(review, "codex")["data"]["status"] == "pending"
    status = project.status(review)
    assert [one.split(" (")[0] for one in status["missing"]] == ["a person's review"]
    assert (status["next_action"], status["verdict"]) == ("escalate", "approved")
    assert "codex approved" in status["attention"]
    assert allowed(project, digest) == (False, None)
    # No second agent, nor the same one, nor a person's name without the proof.
    assert project.approved_by(review, "claude-code")["error"]["code"] == "REQUIREMENT_MISSING"
    assert project.approved_by(review, "ann")["error"]["code"] == "FORBIDDEN"
    assert project.status(review)["claim_generation"] == status["claim_generation"]
    assert project.approved_by(review, "ann", proved=True)["data"]["status"] == "approved"
    assert project.status(review)["missing"] == []
    assert allowed(project, digest) == (True, None)


def test_an_owner_of_the_paths_approves(tmp_path: Path) -> None:
    with checked(tmp_path, owners="@org/crew=ben,@org/crew=eve") as project:
        project.repo.write("CODEOWNERS", "*.txt @org/crew\n*.md @ann\n")
        have(project, '[[rule]]\nneeds = ["owner"]\n')
        review, digest = project.submitted(diff=edited())
        assert "@org/crew" in project.status(review)["missing"][0]
        assert project.approved_by(review, "codex")["error"]["code"] == "REQUIREMENT_MISSING"
        assert project.approved_by(review, "ann", proved=True)["error"]["code"] == "REQUIREMENT_MISSING"
        assert project.approved_by(review, "eve", proved=True)["data"]["status"] == "approved"
        assert allowed(project, digest) == (True, None)
        project.broker.assert_intact()


def test_a_binary_file_is_larger_than_any_size(project: Checked) -> None:
    have(project, '[[rule]]\nname = "large"\nlines = ">=900000000"\nneeds = ["person"]\n')
    (project.repo.root / "a.bin").write_bytes(b"\0")
    project.repo.git("add", "--all")
    diff = project.repo.git("diff", "--cached", "--binary", "--full-index") + "\n"
    project.repo.git("reset", "--quiet", "--hard")
    review, _ = project.submitted(diff=diff)
    assert project.status(review)["missing"] == ["a person's review (rule 'large': a.bin)"]


def test_a_policy_that_is_made_stricter_holds_for_what_was_approved_before(project: Checked) -> None:
    review, digest = project.submitted(diff=edited())
    project.approved_by(review, "codex")
    assert allowed(project, digest) == (True, None)
    have(project, BOTH)
    assert allowed(project, digest) == (False, "REQUIREMENT_MISSING")
    status = project.status(review)
    assert (status["status"], status["next_action"]) == ("approved", "revise")
    assert status["missing"] == ["a person's review (rule 'both': a.txt)"]
    assert f"create_review with review_id={review}" in status["message"]
    assert project.do("get_review", review_id=review)["status"]["missing"] == status["missing"]
    have(project, '[[rule]]\nneeds = ["agent"]\n')
    assert allowed(project, digest) == (True, None)
    assert project.status(review)["next_action"] == "apply_and_close"
    # A new round of the same content keeps the first approval.
    have(project, BOTH)
    project.revise(review, diff=edited())
    assert project.status(review)["next_action"] == "escalate"
    assert project.approved_by(review, "ann", proved=True)["data"]["status"] == "approved"
    assert project.status(review)["next_action"] == "apply_and_close"


def test_a_repository_that_cannot_be_read_makes_no_approval_incomplete(project: Checked) -> None:
    review, _ = project.submitted(diff=edited())
    project.approved_by(review, "codex")
    (project.repo.root / ".git").rename(project.repo.root / "away")
    assert project.status(review)["next_action"] == "apply_and_close"


def test_without_a_check_that_has_passed_no_rule_approves(project: Checked) -> None:
    have(project, DOCUMENTS)
    review, digest = project.submitted(diff=edited())
    assert project.status(review)["status"] == "pending"
    assert allowed(project, digest) == (False, None)
    # A reviewer is more than the rule asks for.
    project.approved_by(review, "codex")
    assert allowed(project, digest) == (True, None)
    have(project, '[[rule]]\nneeds = ["checks", "agent"]\n')
    assert allowed(project, digest) == (False, "REQUIREMENT_MISSING")


def test_a_new_round_needs_all_anew_but_of_the_same_content(project: Checked) -> None:
    have(project, BOTH)
    review, digest = project.submitted(diff=edited())
    project.approved_by(review, "codex")
    project.revise(review, diff=edited(), intent="Other words")
    assert len(project.status(review)["missing"]) == 1
    project.approved_by(review, "ann", proved=True)
    project.revise(review, diff=edited(), intent="Once more")
    assert (project.status(review)["status"], allowed(project, digest)) == ("approved", (True, None))
    project.revise(review, diff=edited(text="other"))
    status = project.status(review)
    assert (len(status["missing"]), status["attention"]) == (2, None)
    assert project.approved_by(review, "codex")["ok"]


def test_a_rule_sets_from_which_severity_on_findings_count_and_after_how_many_rounds_a_person_decides(
    project: Checked,
) -> None:
    have(project, '[[rule]]\nneeds = ["review"]\nthreshold = "minor"\nrounds = 1\n')
    review, _ = project.submitted(diff=edited())
    minor = [{"file": "a.txt", "line": 2, "severity": "minor", "claim": "It is wrong."}]
    asked = {"review_id": review, "reviewer_id": "codex", "claim": True, "findings": minor}
    project.do("submit_verdict", verdict="changes_requested", reason="See there.", **asked)
    status = project.status(review)
    assert (status["status"], status["next_action"]) == ("changes_requested", "escalate")
    assert project.call("submit_verdict", **{**asked, "findings": []}, verdict="approved")["error"] is not None


def test_a_person_finds_in_the_inbox_that_only_their_approval_is_missing(project: Checked) -> None:
    have(project, BOTH)
    review, _ = project.submitted(diff=edited())

    def places(person: str) -> list[tuple[str, str]]:
        found = project.do("get_inbox", person=person, project=project.project)
        trays = ("your_turn", "waiting", "problems")
        return [(tray, one["why"]) for tray in trays for one in found[tray] if one["review"]["review_id"] == review]

    assert places("ann") == [("your_turn", "review")]
    project.approved_by(review, "codex")
    assert places("ann") == [("your_turn", "approve")]
    assert places("codex") == [("waiting", "queued")]
    assert "codex approved" in project.status(review)["attention"]
    # What follows it begins without that.
    with Desk(project.broker.url, project.project, agent=PROPOSER) as proposer:
        proposer.do("close_review", review_id=review)
        again = proposer.put_up(diff=edited(text="other"), parent_id=review)
    assert project.status(again)["attention"] is None
    assert project.approved_by(again, "codex")["data"]["status"] == "pending"


def test_who_asked_is_named_although_somebody_approved_since(project: Checked) -> None:
    have(project, BOTH)
    review, _ = project.submitted(diff=edited())
    generation = project.claim(review, "codex")
    blocker = {**MAJOR, "severity": "blocker"}
    project.verdict(review, "comment", generation, reason="Who calls it?", reviewer_id="codex", findings=[blocker])
    project.approved_by(review, "alice", proved=True)
    said = ShellInside(project.broker.url, project.repo.root).run("review", "status", review)
    assert "codex asks: Who calls it?" in said.stderr
    assert "alice asks" not in said.stderr


def test_who_approved_may_come_back_and_object(project: Checked) -> None:
    have(project, BOTH)
    review, _ = project.submitted(diff=edited())
    project.approved_by(review, "ann", proved=True)
    asked = {"review_id": review, "reviewer_id": "ann", "claim": True}
    project.do("submit_verdict", verdict="changes_requested", reason="It is wrong.", **asked)
    assert len(project.status(review)["missing"]) == 2


def test_what_a_person_has_claimed_and_gives_back_is_approved_by_its_checks(project: Checked) -> None:
    project.have(check("slow", "import time; time.sleep(2)"))
    have(project, DOCUMENTS)
    review, _ = project.submitted(diff=edited())
    generation = project.claim(review, "ann")
    project.ended(review)
    assert project.status(review)["status"] == "claimed"
    project.do("release_claim", review_id=review, claim_generation=generation)
    assert project.status(review)["status"] == "approved"


def test_p2_each_base_branch_asks_by_its_own_rules(project: Checked) -> None:
    project.repo.git("branch", "-M", "main")
    have(project, '[[rule]]\nbranches = ["release"]\nneeds = ["person"]\n')
    project.repo.git("branch", "release")
    project.do("set_gate", enabled=True, branches=["main", "release"])
    review, digest = project.submitted(diff=edited())
    project.approved_by(review, "codex")
    asked = {"digest": digest}
    assert project.do("check_gate", **asked, branch="main")["allowed"]
    assert project.do("check_gate", **asked, branch="release")["code"] == "REQUIREMENT_MISSING"


def test_p2_a_first_policy_needs_a_person(project: Checked) -> None:
    project.repo.write(FILE, DOCUMENTS)
    project.repo.git("add", "--all")
    diff = project.repo.git("diff", "--cached", "--full-index") + "\n"
    project.repo.git("rm", "--quiet", "--cached", FILE)
    review, digest = project.submitted(diff=diff)
    project.approved_by(review, "codex")
    assert allowed(project, digest) == (False, None)
    project.approved_by(review, "ann", proved=True)
    assert allowed(project, digest) == (True, None)


def test_p2_what_a_diff_is_called_lowers_nothing(project: Checked) -> None:
    have(project, '[[rule]]\ncategories = ["code_change"]\nneeds = ["person"]\n')
    review, digest = project.submitted(diff=edited(), category="verification")
    project.approved_by(review, "codex")
    assert allowed(project, digest) == (False, None)


def test_checks_that_are_trusted_later_approve_by_rule(project: Checked) -> None:
    project.have(check("calm", "print('calm')"), trusted=False)
    have(project, DOCUMENTS)
    review, digest = project.submitted(diff=edited())
    project.trust()
    project.do("run_checks", review_id=review)
    project.ended(review)
    status = project.status(review)
    assert (status["status"], status["reviewer_id"]) == ("approved", "rule")
    assert "documents" in status["verdict_reason"]
    assert allowed(project, digest) == (True, None)


def test_checks_alone_that_fail_ask_for_another_round(project: Checked) -> None:
    project.have(check("bad", "raise SystemExit(1)"))
    have(project, DOCUMENTS)
    review, _ = project.submitted(diff=edited())
    project.ended(review)
    assert project.status(review)["next_action"] == "revise"


def test_what_has_landed_is_judged_by_the_policy_of_then(project: Checked) -> None:
    project.repo.git("branch", "-M", "main")
    project.do("set_gate", enabled=True, branches=["main"])
    review, digest = project.submitted(diff=edited())
    project.approved_by(review, "codex")
    project.repo.write("a.txt", project.repo.read("a.txt").replace(b"line 2\n", b"better\n"))
    project.repo.commit("better")
    have(project, BOTH)
    assert allowed(project, digest) == (True, None)
    other, later = project.submitted(diff=edited(line=4))
    project.approved_by(other, "codex")
    assert not allowed(project, later)[0]


def test_no_small_finding_holds_up_what_checks_alone_approve(project: Checked) -> None:
    project.have(check("calm", "print('calm')"))
    have(project, DOCUMENTS)
    with AgentDesk(project.broker.url, project.project) as agents:
        review, digest = project.submitted(diff=edited())
        generation = agents.claim(review)
        agents.verdict(review, "comment", generation, findings=[NIT])
        project.ended(review)
        agents.do("release_claim", review_id=review, claim_generation=generation)
        assert project.status(review)["status"] == "approved"
        assert allowed(project, digest) == (True, None)
        # Nor where it goes on with another review.
        other, _ = project.submitted(diff=edited(text="best"), phase="2")
        generation = agents.claim(other)
        agents.verdict(other, "comment", generation, findings=[NIT, {**MAJOR, "line": 9}])
        project.ended(other)
        agents.do("release_claim", review_id=other, claim_generation=generation)
        # A grave one says who can do something, and has a reviewer wanted.
        grave = next(one for one in found(project, other) if one["severity"] == "major")["finding_id"]
        status = project.status(other)
        assert (status["status"], status["checks"]) == ("pending", "passed")
        assert status["missing"] == [f"{grave} (major, a.txt:9, by {REVIEWER}) settled by a reviewer"]
        assert "answer_finding" in status["message"]
        assert agents.do("claim_review", reviewer_id=OTHER)["review_id"] == other
        released = {"review_id": other, "claim_generation": project.status(other)["claim_generation"]}
        agents.do("release_claim", **released)
        answered(project, other, grave, "verified", reviewer_id="ann")
        assert project.status(other)["status"] == "approved"
        child, _ = project.submitted(diff=edited(text="last"), parent_id=other)
        assert [one["severity"] for one in found(project, child)] == ["nit"]
        project.ended(child)
        assert project.status(child)["status"] == "approved"


def test_what_a_person_found_waits_for_a_person_where_checks_alone_approve(project: Checked) -> None:
    project.have(check("calm", "print('calm')"))
    have(project, DOCUMENTS)
    review, _ = project.submitted(diff=edited())
    generation = project.claim(review, "ann")
    project.verdict(review, "comment", generation, findings=[NIT], reviewer_id="ann")
    project.ended(review)
    project.do("release_claim", review_id=review, claim_generation=generation)
    status = project.status(review)
    assert status["status"] == "pending"
    assert [one.endswith("by ann) settled by a person") for one in status["missing"]] == [True]
    answered(project, review, found(project, review)[0]["finding_id"], "verified", reviewer_id="ann")
    assert project.status(review)["status"] == "approved"
