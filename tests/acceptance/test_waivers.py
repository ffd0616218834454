"""Requirements of the policy that a person waives: the gate opens, and the debt stands until it is reviewed."""

from __future__ import annotations

import json
import os
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tandem.reviews.rounds import Waiver
from tandem.rulings import proof
from tests.acceptance.checking import Checked, check, checked
from tests.acceptance.reviewing import PROPOSER, edited
from tests.acceptance.test_policy import BOTH, DOCUMENTS, allowed, have
from tests.commandline import Shell, ShellInside
from tests.databases import ON_BOTH_DATABASES
from tests.interfaces.test_review_screen_terminal import TERMINALS, terminal
from tests.repository.terminal import at_a_terminal, without_agents

PERSON = '[[rule]]\nname = "person"\nneeds = ["person"]\n'
WHY = "The shop is down"


def due(**ahead: int) -> str:
    """A time to come."""
    return (datetime.now(tz=UTC) + timedelta(**ahead or {"days": 3})).isoformat()


def waive(project: Checked, review: str, need: str, *, proved: bool = True, **more: Any) -> dict[str, Any]:
    """A waiver by ann for the current round; its envelope."""
    stated: dict[str, Any] = {"review_id": review, "need": need, "until": due(), "reason": WHY, "waived_by": "ann"}
    stated |= {"round": project.status(review)["round"], **more}
    if proved:
        names = ("review_id", "need", "round", "until", "waived_by", "reason")
        stated["proof"] = project.sealed(proof.waiver_facts(*(stated[name] for name in names)))
    return project.call("waive_requirement", **stated)


def settle(
    project: Checked, review: str, verdict: str, reviewer: str, *, proved: bool = False, **more: Any
) -> dict[str, Any]:
    """A review after the fact; its envelope."""
    facts = proof.settling_facts(review, more.get("need"), verdict, reviewer, more.get("reason"))
    stated = {"proof": project.sealed(facts)} if proved else {}
    return project.call("settle_waiver", review_id=review, verdict=verdict, reviewer_id=reviewer, **stated, **more)


def owing(project: Checked, person: str = "bob", tray: str = "your_turn") -> list[tuple[str, str]]:
    """The debts in a person's inbox: review, and details."""
    found = project.do("get_inbox", person=person)[tray]
    return [(one["review"]["review_id"], one["detail"]) for one in found if one["why"] == "owed"]


def improve(project: Checked, line: int) -> None:
    """Commit what `edited` proposes for a line."""
    project.repo.write("a.txt", project.repo.read("a.txt").replace(b"line %d\n" % line, b"better\n"))
    project.repo.commit(f"Improve line {line}")


def audited(project: Checked, commits: str) -> tuple[int, dict[str, Any]]:
    """The exit status of an audit, and its answer."""
    shell = ShellInside(project.broker.url, project.repo.root)
    done = shell.run("audit", commits, "--project", project.project, "--json")
    return done.status, json.loads(done.stdout.splitlines()[-1])["data"]


def at_its_terminal(project: Checked, *command: str, **more: str) -> tuple[int, str]:
    """The exit status of a command at a terminal in the project's folder, and all that it shows."""
    known = {"TANDEM_BROKER": project.broker.url, "TANDEM_DATA_DIR": str(project.broker.data_dir)}
    return at_a_terminal(command, project.repo.root, **more, **known)


def in_a_line(project: Checked, *command: str, **more: str) -> tuple[int, str]:
    """The same, shown as one line."""
    status, shown = at_its_terminal(project, *command, **more)
    return status, " ".join(shown.split())


def objected_to(project: Checked, person: str) -> tuple[str, str]:
    """A review approved by an agent, a person's review waived, and somebody's objection to that; its id and digest."""
    have(project, BOTH)
    review, digest = project.submitted(diff=edited())
    project.approved_by(review, "codex")
    waive(project, review, "person")
    settle(project, review, "objects", person, proved=True, reason="It loses uploads")
    return review, digest


def code(envelope: dict[str, Any]) -> str | None:
    """The code of a refusal."""
    return None if envelope["ok"] else envelope["error"]["code"]


@ON_BOTH_DATABASES
def test_a_person_waives_the_last_requirement_and_the_debt_stands_until_it_is_reviewed(
    tmp_path: Path, database_settings: dict[str, Any]
) -> None:
    with checked(tmp_path, **database_settings) as project:
        have(project, BOTH)
        review, digest = project.submitted(diff=edited())
        project.approved_by(review, "codex")
        assert allowed(project, digest)[0] is False
        answer = waive(project, review, "person")
        assert answer["data"]["status"] == "approved"
        status = project.status(review)
        assert (status["reviewer_id"], status["missing"], status["attention"]) == ("ann", [], None)
        assert "Waived by ann: a person's review" in status["verdict_reason"]
        [debt] = status["owed"]
        assert (debt["need"], debt["waived_by"], debt["reason"], debt["overdue"]) == ("person", "ann", WHY, False)
        assert allowed(project, digest) == (True, None)
        assert project.kinds(review)[-2:] == ["requirement_waived", "verdict_submitted"]
        # It does not go away with the review.
        project.do("close_review", review_id=review)
        [(named, detail)] = owing(project)
        assert named == review
        assert detail.startswith("a person's review is owed until ")
        assert owing(project, PROPOSER) == []
        assert owing(project, PROPOSER, "waiting") == [(review, detail)]
        # Neither an agent, nor a name without the proof, nor its author.
        assert code(settle(project, review, "approved", "claude-code")) == "REQUIREMENT_MISSING"
        assert code(settle(project, review, "approved", "bob")) == "FORBIDDEN"
        assert code(settle(project, review, "approved", PROPOSER, proved=True)) == "SELF_APPROVAL"
        assert code(settle(project, review, "objects", "bob", proved=True)) == "REASON_REQUIRED"
        objected = settle(project, review, "objects", "bob", proved=True, reason="It loses uploads")["data"]
        assert objected["attention"] == "bob objects: It loses uploads"
        assert len(objected["owed"]) == 1
        settled = settle(project, review, "approved", "bob", proved=True)["data"]
        assert (settled["owed"], settled["attention"]) == ([], None)
        assert owing(project) == []
        assert code(settle(project, review, "approved", "bob", proved=True)) == "INVALID_TRANSITION"
        assert allowed(project, digest) == (True, None)
        project.broker.assert_intact()


def test_no_agent_waives_and_a_proof_is_for_one_waiver(project: Checked) -> None:
    have(project, PERSON)
    review, digest = project.submitted(diff=edited())
    assert code(waive(project, review, "person", proved=False)) == "FORBIDDEN"
    assert code(waive(project, review, "person", waived_by="codex")) == "FORBIDDEN"
    made = project.sealed(proof.waiver_facts(review, "person", 1, due(days=1), "ann", WHY))
    assert code(waive(project, review, "person", proved=False, proof=made)) == "FORBIDDEN"
    stated = {"review_id": review, "need": "person", "until": due(days=1), "reason": WHY, "waived_by": "ann"}
    round_one = project.sealed(proof.waiver_facts(review, "person", 1, stated["until"], "ann", WHY))
    project.revise(review, diff=edited(text="other"))
    assert code(project.call("waive_requirement", **stated, round=1, proof=round_one)) == "STALE_ROUND"
    assert code(project.call("waive_requirement", **stated, round=2, proof=round_one)) == "FORBIDDEN"
    assert allowed(project, digest)[0] is False


def test_only_missing_requirements_are_waived_and_for_a_while(project: Checked) -> None:
    have(project, BOTH)
    review, _ = project.submitted(diff=edited())
    for need in ("owner", "checks", "nonsense"):
        refused = waive(project, review, need)
        assert code(refused) == "INVALID_TRANSITION"
        assert "agent, person" in refused["error"]["message"]
    for until in ("tomorrow", due(days=-1), due(days=91)):
        assert code(waive(project, review, "person", until=until)) == "INVALID_INPUT"
    assert waive(project, review, "person")["data"]["status"] == "pending"
    assert code(waive(project, review, "person")) == "INVALID_TRANSITION"
    # Without an approval nothing is owed.
    assert project.status(review)["owed"] == []
    assert code(settle(project, review, "approved", "bob", proved=True)) == "INVALID_TRANSITION"
    project.verdict(review, "changes_requested", project.claim(review, "codex"))
    assert code(waive(project, review, "agent")) == "INVALID_TRANSITION"
    # Other content needs it again, or a waiver of its own.
    project.revise(review, diff=edited(text="other"))
    assert len(project.status(review)["missing"]) == 2


def test_a_waiver_ends_the_claim_of_who_would_have_given_it(project: Checked) -> None:
    have(project, '[[rule]]\nneeds = ["agent"]\n')
    review, digest = project.submitted(diff=edited())
    generation = project.claim(review, "codex")
    assert waive(project, review, "agent")["data"]["status"] == "approved"
    assert allowed(project, digest) == (True, None)
    project.refused("STALE_CLAIM", "submit_verdict", review_id=review, verdict="approved", claim_generation=generation)
    assert settle(project, review, "approved", "codex")["data"]["owed"] == []


def test_a_waiver_is_no_approval_when_the_policy_asks_for_more(project: Checked) -> None:
    have(project, PERSON)
    review, digest = project.submitted(diff=edited())
    waive(project, review, "person")
    assert allowed(project, digest) == (True, None)
    have(project, BOTH)
    assert allowed(project, digest) == (False, "REQUIREMENT_MISSING")
    have(project, PERSON)
    assert allowed(project, digest) == (True, None)
    project.do("withdraw_approval", review_id=review, reason="It was wrong", withdrawn_by="ann")
    assert project.status(review)["owed"] == []
    assert owing(project) == []


def test_what_a_later_policy_adds_is_waived_without_a_new_round(project: Checked) -> None:
    have(project, PERSON)
    review, digest = project.submitted(diff=edited())
    assert waive(project, review, "person")["data"]["status"] == "approved"
    have(project, BOTH)
    assert allowed(project, digest) == (False, "REQUIREMENT_MISSING")
    assert project.status(review)["missing"] == ["an agent's review (rule 'both': a.txt)"]
    assert code(waive(project, review, "owner")) == "INVALID_TRANSITION"
    assert code(waive(project, review, "agent", proved=False)) == "FORBIDDEN"
    answer = waive(project, review, "agent")["data"]
    assert [one["need"] for one in answer["owed"]] == ["person", "agent"]
    assert allowed(project, digest) == (True, None)
    assert project.status(review)["next_action"] == "apply_and_close"
    assert code(waive(project, review, "agent")) == "INVALID_TRANSITION"


def test_open_findings_keep_back_an_approval_by_waiver(project: Checked) -> None:
    have(project, BOTH)
    review, _ = project.submitted(diff=edited())
    found = [{"file": "a.txt", "line": 2, "severity": "blocker", "claim": "It loses uploads", "failure": "Always"}]
    generation = project.claim(review, "claude-reviewer")
    project.verdict(review, "comment", generation, findings=found)
    project.do("release_claim", review_id=review, claim_generation=generation)
    assert waive(project, review, "person")["ok"]
    error = waive(project, review, "agent")["error"]
    assert (error["code"], "answers" in error["message"]) == ("OPEN_FINDINGS", False)
    assert (
        f"Settle each first, and waive it then; answer_finding settles one; see list_findings (review_id={review})"
        in (error["message"])
    )


@pytest.mark.skipif(sys.platform == "win32", reason="platform: there are no pseudo-terminals")
def test_who_waives_at_a_terminal_over_open_findings_is_told_how_to_settle_them(project: Checked) -> None:
    have(project, BOTH)
    review, _ = project.submitted(diff=edited())
    found = [{"severity": "blocker", "claim": "It loses uploads"}]
    generation = project.claim(review, "claude-reviewer")
    project.verdict(review, "comment", generation, findings=found)
    project.do("release_claim", review_id=review, claim_generation=generation)
    assert waive(project, review, "person")["ok"]

    def at_terminal(*command: str, **typed: str) -> tuple[int, str]:
        return in_a_line(project, *command, **typed)

    asked = ("waive", review, "agent", "--until", "3d", "--reason", WHY, "--agent", "ann")
    confirmed = {"typed": f"{project.project}\n", "after": "if that is meant: "}
    status, shown = at_terminal(*asked, **confirmed)
    assert (status != 0, "--answers" in shown) == (True, False), shown
    assert f"'tandem findings answer' settles one; see 'tandem findings list {review}'." in shown
    [fault] = project.do("list_findings", review_id=review)["findings"]
    settled = ("findings", "answer", review, fault["finding_id"], "verified", "--agent", "ann")
    status, shown = at_terminal(*settled)
    assert status == 0, shown
    status, shown = at_terminal(*asked, **confirmed)
    assert status == 0, shown
    assert project.status(review)["status"] == "approved"


def test_checks_are_waived_where_none_is_required(project: Checked) -> None:
    have(project, DOCUMENTS)
    review, digest = project.submitted(diff=edited())
    assert waive(project, review, "checks")["data"]["status"] == "approved"
    assert allowed(project, digest) == (True, None)
    project.have(check("wrong", "raise SystemExit(1)"))
    other, _ = project.submitted(diff=edited(text="other"))
    project.ended(other)
    assert code(waive(project, other, "checks")) == "INVALID_TRANSITION"


def test_an_objection_closes_the_gate_until_the_content_has_landed(project: Checked) -> None:
    have(project, PERSON)
    project.repo.git("branch", "-M", "main")
    project.do("set_gate", enabled=True, branches=["main"])
    review, digest = project.submitted(diff=edited())
    waive(project, review, "person")
    assert allowed(project, digest) == (True, None)
    settle(project, review, "objects", "bob", proved=True, reason="It loses uploads")
    assert allowed(project, digest) == (False, "REQUIREMENT_MISSING")
    answer = project.do("check_gate", digest=digest)
    assert "a requirement was waived, and bob objects: It loses uploads" in answer["reason"]
    assert settle(project, review, "approved", "bob", proved=True)["ok"]
    assert allowed(project, digest) == (True, None)
    other, landed = project.submitted(diff=edited(line=4))
    waive(project, other, "person")
    project.repo.write("a.txt", project.repo.read("a.txt").replace(b"line 4\n", b"better\n"))
    project.repo.commit("better")
    settle(project, other, "objects", "bob", proved=True, reason="It loses uploads")
    assert allowed(project, landed) == (True, None)


def test_the_approval_that_was_waived_settles_an_objection_of_the_same_person(project: Checked) -> None:
    review, digest = objected_to(project, "alice")
    why = project.do("check_gate", digest=digest)["reason"]
    assert f"tandem review settle {review} approved" in why
    project.revise(review, diff=edited())
    assert project.status(review)["attention"] == "alice objects: It loses uploads"
    # A name without the proof approves for no person: the gate stays closed, the review says so, and the proof helps.
    assert project.approved_by(review, "alice")["data"]["status"] == "approved"
    assert project.status(review)["attention"] == "alice objects: It loses uploads"
    assert allowed(project, digest) == (False, "REQUIREMENT_MISSING")
    assert settle(project, review, "approved", "alice", proved=True)["data"]["owed"] == []
    assert allowed(project, digest) == (True, None)
    # With the proof, the verdict alone is enough.
    other, content = project.submitted(diff=edited(line=4))
    project.approved_by(other, "codex")
    waive(project, other, "person")
    settle(project, other, "objects", "alice", proved=True, reason="It loses uploads")
    project.revise(other, diff=edited(line=4))
    assert project.approved_by(other, "alice", proved=True)["data"]["status"] == "approved"
    status = project.status(other)
    assert (status["owed"], status["attention"], status["next_action"]) == ([], None, "apply_and_close")
    assert allowed(project, content) == (True, None)
    project.broker.assert_intact()


def test_one_approval_settles_one_of_two_waived_requirements(project: Checked) -> None:
    have(project, BOTH)
    review, digest = project.submitted(diff=edited())
    waive(project, review, "person")
    waive(project, review, "agent")
    for need in ("person", "agent"):
        settle(project, review, "objects", "alice", proved=True, reason="It loses uploads", need=need)
    project.revise(review, diff=edited())
    assert project.approved_by(review, "alice", proved=True)["data"]["status"] == "approved"
    [debt] = project.status(review)["owed"]
    assert allowed(project, digest) == (False, "REQUIREMENT_MISSING")
    assert code(settle(project, review, "approved", "alice", proved=True)) == "REQUIREMENT_MISSING"
    assert settle(project, review, "approved", "bob", proved=True, need=debt["need"])["data"]["owed"] == []
    assert allowed(project, digest) == (True, None)


def test_a_waiver_is_told_as_one_and_the_next_step_is_the_review_that_is_owed(project: Checked) -> None:
    have(project, PERSON)
    review, _ = project.submitted(diff=edited())
    assert waive(project, review, "person")["ok"]
    assert project.status(review)["waived_by"] == "ann"
    [row] = project.do("list_reviews", project=project.project, status="approved")["reviews"]
    assert row["waived_by"] == "ann"
    assert row["owed"].endswith(f"ann waived it ({WHY})")
    refused = project.call("claim_review", review_id=review, reviewer_id="bob")
    assert f"'tandem review settle {review} approved'" in refused["error"]["message"]
    assert settle(project, review, "approved", "bob", proved=True)["ok"]
    assert project.status(review)["waived_by"] == "ann"
    assert project.do("list_reviews", project=project.project, status="approved")["reviews"][0]["owed"] is None
    refused = project.call("claim_review", review_id=review, reviewer_id="bob")
    assert "settle" not in refused["error"]["message"]


@TERMINALS
def test_a_person_gives_the_review_that_is_owed_on_the_screen(
    project: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    have(project, PERSON)
    review, _ = project.submitted(diff=edited())
    assert waive(project, review, "person")["ok"]
    for name in set(os.environ) - without_agents().keys():
        monkeypatch.delenv(name)
    shell = Shell(project.broker.url, project.repo.root)
    with terminal(shell, "review", "--as", "bob", TANDEM_DATA_DIR=str(project.broker.data_dir)) as at:
        at.until("a review is owed")
        at.type("\r")
        at.until("ann waived the last missing requirement on round 1, and approved nothing.")
        at.type("O")
        at.until("The review that is owed")
        at.type("\x13")
        at.until("Sent.")
        at.type("qq")
        assert at.end() == 0
    assert project.status(review)["owed"] == []


def test_a_debt_says_when_it_is_overdue() -> None:
    debt = Waiver("agent:security", "ann", WHY, waived_at=0, until=60_000_000)
    words = "a review by the agent security is owed until 1970-01-01 00:01 UTC"
    assert debt.words(60_000_000) == f"{words}: ann waived it ({WHY})"
    assert debt.words(60_000_001) == f"{words}, overdue: ann waived it ({WHY})"


@pytest.mark.skipif(sys.platform == "win32", reason="platform: there are no pseudo-terminals")
def test_a_person_waives_at_a_terminal_and_audit_counts_the_debt_until_it_is_settled(project: Checked) -> None:
    have(project, PERSON)
    project.repo.git("branch", "-M", "main")
    project.do("set_gate", enabled=True, branches=["main"])
    review, digest = project.submitted(diff=edited())
    asked = ("waive", review, "person", "--until", "3d", "--reason", WHY, "--agent", "ann")

    def at_terminal(*command: str, typed: str = "", **more: str) -> tuple[int, str]:
        after = "if that is meant: " if typed else ""
        return at_its_terminal(project, *command, typed=typed, after=after, **more)

    for said, more in (("yes\n", {}), (f"{project.project}\n", {"CLAUDECODE": "1"})):
        status, shown = at_terminal(*asked, typed=said, **more)
        assert status != 0, shown
    assert allowed(project, digest)[0] is False
    status, shown = at_terminal(*asked, typed=f"{project.project}\n")
    assert status == 0, shown
    assert f"{review}, round 1, without a person's review, owed until " in shown
    assert allowed(project, digest) == (True, None)
    content = (project.repo.root / "a.txt").read_text("utf-8")
    project.repo.write("a.txt", content.replace("line 2\n", "better\n"))
    project.repo.commit("Improve it")
    audit = ("audit", "HEAD~1..HEAD", "--project", project.project)

    def audited() -> str:
        status, shown = at_terminal(*audit)
        assert status == 0, shown
        return " ".join(shown.split())

    assert f"owed 1 look after the fact {review}: a person's review is owed until " in audited()
    status, shown = at_terminal("review", "status", review)
    assert "a person's review is owed until " in " ".join(shown.split())
    settling = ("review", "settle", review)
    status, shown = at_terminal(*settling, "objects", "--reason", "It loses uploads", "--agent", "bob")
    assert status == 0, shown
    assert "bob objects: It loses uploads" in audited()
    status, shown = at_terminal(*settling, "approved", "--agent", "bob")
    assert status == 0, shown
    assert "owed" not in audited()
    # One whose time is over fails.
    late, _ = project.submitted(diff=edited(line=4))
    assert waive(project, late, "person", until=due(seconds=1))["ok"]
    project.repo.write("a.txt", project.repo.read("a.txt").replace(b"line 4\n", b"better\n"))
    project.repo.commit("Improve it again")
    while not project.status(late)["owed"][0]["overdue"]:
        time.sleep(0.1)
    status, shown = at_terminal(*audit)
    assert status == 1, shown
    assert f"overdue 1 Review it, then: 'tandem review settle {late} approved'" in " ".join(shown.split())
    facts = json.loads(at_terminal(*audit, "--json")[1].splitlines()[-1])
    assert [one.split(":")[0] for one in facts["data"]["overdue"]] == [late]
    assert settle(project, late, "approved", "bob", proved=True)["ok"]
    audited()


def test_an_objection_after_the_content_has_landed_keeps_nothing_back_when_its_file_goes_on(project: Checked) -> None:
    have(project, PERSON)
    project.repo.git("branch", "-M", "main")
    project.do("set_gate", enabled=True, branches=["main"])
    review, landed = project.submitted(diff=edited())
    waive(project, review, "person")
    improve(project, 2)
    settle(project, review, "objects", "bob", proved=True, reason="It loses uploads")
    other, _ = project.submitted(diff=edited(line=4))
    project.approved_by(other, "bob", proved=True)
    improve(project, 4)
    assert allowed(project, landed) == (True, None)
    status, facts = audited(project, "HEAD~2..HEAD")
    assert (status, [one["verdict"] for one in facts["commits"]]) == (0, ["approved", "approved"])
    assert ["bob objects: It loses uploads" in one for one in facts["owed"]] == [True]
    # Neither does a stricter policy, of any approval.
    have(project, BOTH)
    improve(project, 6)
    assert allowed(project, landed) == (True, None)
    # Where its change is undone, it would have to land again.
    project.repo.git("checkout", "--quiet", "HEAD~4", "--", "a.txt")
    project.repo.commit("back")
    assert allowed(project, landed) == (False, "REQUIREMENT_MISSING")


def test_an_objection_closes_the_gate_for_its_content_in_whichever_review_that_was_waived(project: Checked) -> None:
    have(project, PERSON)
    first, digest = project.submitted(diff=edited())
    second = project.put_up(diff=edited(), proposer_id="dave")
    waive(project, first, "person")
    waive(project, second, "person")
    settle(project, first, "objects", "bob", proved=True, reason="It loses uploads")
    assert allowed(project, digest) == (False, "REQUIREMENT_MISSING")
    said = f"bob objects: It loses uploads (in {first})"
    status = project.status(second)
    assert (status["attention"], status["next_action"]) == (said, "escalate")
    assert said in status["owed"][0]["words"]
    problems = {one["review"]["review_id"]: one["detail"] for one in project.do("get_inbox", person="eve")["problems"]}
    assert problems[second] == said
    # Neither does a close and another waiver open it, nor a waiver of something else.
    for name in (first, second):
        project.do("close_review", review_id=name)
    third = project.put_up(diff=edited())
    assert waive(project, third, "person")["data"]["attention"] == said
    refused = project.do("check_gate", digest=digest)
    assert (refused["allowed"], refused["review_ids"]) == (False, [third])
    assert refused["reason"] == (
        f"approved, but a requirement was waived, and {said}. An approval of the kind that was waived ends this:"
        f" 'tandem review settle {third} approved' (REQUIREMENT_MISSING)"
    )
    # The objector's own word ends it in each of them, and an approval by itself.
    assert settle(project, first, "approved", "bob", proved=True)["ok"]
    assert allowed(project, digest) == (True, None)
    settle(project, second, "objects", "bob", proved=True, reason="It does")
    assert project.status(third)["attention"] == f"bob objects: It does (in {second})"
    assert settle(project, third, "approved", "eve", proved=True)["data"]["attention"] is None
    assert allowed(project, digest) == (True, None)
    # Elsewhere nothing is objected to.
    other, content = project.submitted(diff=edited(line=4))
    waive(project, other, "person")
    assert allowed(project, content) == (True, None)
    project.broker.assert_intact()


def test_an_objection_stands_for_its_content_when_its_review_goes_on(project: Checked) -> None:
    have(project, PERSON)
    gone, same = project.submitted(diff=edited(line=6))
    left = project.put_up(diff=edited(line=6), proposer_id="dave")
    kept = project.put_up(diff=edited(line=6), proposer_id="carol")
    for name in (gone, left, kept):
        waive(project, name, "person")
    settle(project, gone, "objects", "bob", proved=True, reason="No")
    project.revise(gone, diff=edited(line=6, text="other"))
    assert allowed(project, same) == (False, "REQUIREMENT_MISSING")
    settle(project, left, "objects", "eve", proved=True, reason="Never")
    project.do("withdraw_approval", review_id=left, reason="It was wrong", withdrawn_by="ann")
    assert project.status(kept)["attention"] == f"eve objects: Never (in {left}); bob objects: No (in {gone})"
    assert settle(project, kept, "approved", "eve", proved=True)["ok"]
    assert allowed(project, same) == (True, None)


def test_an_objection_to_one_need_leaves_a_review_alone_that_has_an_approval_for_it(project: Checked) -> None:
    _, digest = objected_to(project, "bob")
    second = project.put_up(diff=edited(), proposer_id="dave")
    project.approved_by(second, "eve", proved=True)
    waive(project, second, "agent")
    assert project.do("check_gate", digest=digest)["review_ids"] == [second]
    assert project.status(second)["attention"] is None


def test_a_waived_review_keeps_its_waiver_in_a_new_round_of_the_same_content(project: Checked) -> None:
    have(project, PERSON)
    review, digest = project.submitted(diff=edited())
    waive(project, review, "person")
    project.revise(review, diff=edited(), intent="Other words")
    status = project.status(review)
    assert (status["status"], status["round"], status["next_action"]) == ("approved", 2, "apply_and_close")
    assert [one["need"] for one in status["owed"]] == ["person"]
    assert allowed(project, digest) == (True, None)
    # It is no approval there, either.
    have(project, '[[rule]]\nneeds = ["review", "person"]\n')
    assert allowed(project, digest) == (False, "REQUIREMENT_MISSING")
    assert project.status(review)["missing"] == ["a review by somebody other than its author (rule 'rule 1': a.txt)"]
    project.revise(review, diff=edited(), intent="Once more")
    assert (project.status(review)["status"], len(project.status(review)["missing"])) == ("pending", 1)
    # Other content has none.
    project.revise(review, diff=edited(text="other"))
    assert len(project.status(review)["missing"]) == 2
    project.broker.assert_intact()


def test_the_proposer_settles_findings_that_keep_back_a_waived_round(project: Checked) -> None:
    have(project, BOTH)
    review, _ = project.submitted(diff=edited())
    fault = [{"file": "a.txt", "line": 2, "severity": "blocker", "claim": "It loses uploads", "failure": "Always"}]
    generation = project.claim(review, "codex")
    project.verdict(review, "comment", generation, findings=fault)
    project.do("release_claim", review_id=review, claim_generation=generation)
    waive(project, review, "person")
    have(project, PERSON)
    project.revise(review, diff=edited(), intent="Other words")
    assert (project.status(review)["status"], project.status(review)["next_action"]) == ("changes_requested", "revise")


def test_no_retry_ends_an_objection(project: Checked) -> None:
    have(project, PERSON)
    review, _ = project.submitted(diff=edited())
    waive(project, review, "person")
    settle(project, review, "objects", "bob", proved=True, reason="It loses uploads")

    def retried(way: str) -> None:
        refused = project.call("retry_review", review_id=review)["error"]
        assert refused["code"] == "REQUIREMENT_MISSING"
        assert refused["message"] == (
            "No retry helps: bob objects: It loses uploads. An approval of the kind that was waived ends this:"
            f" 'tandem review {way}'."
        )
        status = project.status(review)
        assert (status["attention"], status["next_action"]) == ("bob objects: It loses uploads", "escalate")
        assert project.do("get_inbox", person="eve")["problems"][0]["why"] == "attention"

    retried(f"settle {review} approved")
    project.revise(review, diff=edited(), intent="Other words")
    retried(f"approve {review}")
    assert project.approved_by(review, "eve", proved=True)["data"]["status"] == "approved"
    assert project.status(review)["next_action"] == "apply_and_close"


def test_who_objects_without_a_proof_is_told_how_to_object(project: Checked) -> None:
    have(project, PERSON)
    review, _ = project.submitted(diff=edited())
    waive(project, review, "person")
    for verdict, command in (("objects", "objects --reason WHY"), ("approved", "approved")):
        refused = settle(project, review, verdict, "bob", reason="It loses uploads")["error"]
        assert f"run 'tandem review settle {review} {command}' at a terminal" in refused["message"]
