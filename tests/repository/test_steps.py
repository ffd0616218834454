"""`tandem gate plan|context|verification`: whole documents, reviewed before they count. Without a gate and with one."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import socket
from pathlib import Path

import pytest

from tests.broker import BrokerProcess
from tests.commandline import NOBODY, Ended, Inside, Shell, finish
from tests.repository.gating import Gated
from tests.repository.stepping import PHASE, PLAN, PLAN_FILE, Steps, enabled, head

VERIFIED = "---\nphase: 03-uploads\nstatus: passed\n---\n# Verification\n"


@pytest.fixture
def steps(shared_broker: BrokerProcess, plain: Path, config_dir: Path) -> Steps:
    """The workflow submits, and there is no gate."""
    return enabled(shared_broker, plain)


@pytest.fixture
def under_gate(gated: Gated) -> Steps:
    """The gate is on, and nothing is said of a workflow."""
    return Steps(gated)


def test_solo_is_one_look_at_local_files(plain: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        for step in ("plan", "context", "task", "wave", "verification"):
            ended = taken_at(url, plain, step)
            assert (ended.status, head(ended)) == (0, "SOLO")
        listener.settimeout(0.01)
        with pytest.raises(TimeoutError):
            listener.accept()


def taken_at(url: str, root: Path, *arguments: str) -> Ended:
    """A step with another broker than the tests' own."""
    with contextlib.chdir(root):
        return Inside(url, root).run("gate", *arguments)


def test_an_explicit_false_is_solo_too(plain: Path) -> None:
    (plain / ".planning").mkdir()
    (plain / ".planning" / "config.json").write_text(json.dumps({"tandem_enabled": False}))
    ended = Shell(NOBODY, plain).run("gate", "plan")
    assert (ended.status, head(ended)) == (0, "SOLO")
    # The short way is the program's own; the command line behind it says the same.
    assert ended.stdout == taken_at(NOBODY, plain, "plan").stdout
    assert Shell(NOBODY, plain).run("gate", "plan", "--json").data["word"] == "SOLO"


def test_a_plan_goes_up_whole_with_its_path_and_is_approved(under_gate: Steps) -> None:
    under_gate.write(PLAN_FILE, PLAN)
    ended = under_gate.reviewed("plan")
    assert (ended.status, head(ended)) == (0, "APPROVED")
    assert "took the newest" in ended.stderr
    review = under_gate.reviews()[0]
    proposal = under_gate.proposal(review["review_id"])
    assert (proposal["path"], proposal["description"]) == (PLAN_FILE, PLAN)
    assert (review["category"], review["phase"], review["plan"], review["priority"]) == (
        "plan_review",
        "03",
        "02",
        "critical",
    )
    assert "Retry uploads" in review["intent"]
    under_gate.commit({}, "docs(03-02): plan")
    assert under_gate.gated.trailers() == [review["review_id"]]


@pytest.mark.parametrize(
    ("step", "name", "category"),
    [("context", "03-CONTEXT.md", "handoff"), ("verification", "03-VERIFICATION.md", "verification")],
)
def test_a_document_before_it_is_written(under_gate: Steps, step: str, name: str, category: str) -> None:
    path = f"{PHASE}/{name}"
    ended = under_gate.reviewed(step, path, "--content", "-", stdin=VERIFIED.encode())
    assert head(ended) == "APPROVED"
    assert not (under_gate.root / path).exists()
    review = under_gate.reviews()[0]
    assert (review["category"], review["phase"]) == (category, "03")
    assert f"tandem apply {review['review_id']}" in ended.stdout
    assert under_gate.gated.tandem("apply", review["review_id"]).status == 0
    assert (under_gate.root / path).read_text() == VERIFIED
    assert head(under_gate.run(step)) == "APPROVED"
    under_gate.commit({}, "docs(03): as approved")


def test_an_agent_stops_after_its_wait_where_nobody_reviews(under_gate: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    under_gate.write(PLAN_FILE, PLAN)
    data = under_gate.ends(under_gate.run("plan", "--timeout", "1", "--json"), "ESCALATE", 14)
    assert any(f"tandem open {data['review_id']}" in line for line in data["next"])


def test_p2_one_changed_byte_of_an_approved_document_is_up_for_review_again(under_gate: Steps) -> None:
    under_gate.write(PLAN_FILE, PLAN)
    under_gate.reviewed("plan")
    under_gate.write(PLAN_FILE, PLAN.replace("Retry", "retry"))
    ended = under_gate.run("plan", "--timeout", "0", "--json")
    data = under_gate.ends(ended, "WAITING", 12)
    assert data["round"] == 2
    under_gate.gated.git("add", PLAN_FILE)
    under_gate.gated.refused("commit", "-m", "docs(03-02): plan")


def test_what_landed_on_the_base_branch_meanwhile_goes_up_as_a_new_review(under_gate: Steps) -> None:
    git = under_gate.gated.git
    start = under_gate.gated.head()
    under_gate.write(PLAN_FILE, PLAN)
    under_gate.reviewed("plan")
    first = under_gate.reviews()[0]["review_id"]
    git("add", PLAN_FILE)
    git("commit", "--quiet", "-m", "docs(03-02): plan")
    # On a branch that does not have it yet.
    git("switch", "--quiet", "--create", "behind", start)
    under_gate.write(PLAN_FILE, PLAN.replace("Retry", "retry"))
    data = under_gate.ends(under_gate.run("plan", "--timeout", "0", "--json"), "WAITING", 12)
    assert data["round"] == 1
    assert data["review_id"] != first
    assert under_gate.status(first)["status"] == "approved"


def test_a_verification_says_whether_the_work_passed(steps: Steps) -> None:
    path = f"{PHASE}/03-VERIFICATION.md"
    steps.write(path, VERIFIED)
    steps.ends(steps.reviewed("verification", "--json"), "APPROVED", 0)
    approved = steps.reviews()[0]
    assert approved["intent"].endswith(": passed")
    assert steps.proposal(approved["review_id"])["metadata"] == {"result": "passed"}
    # The same text is not approved as a failure.
    data = steps.ends(steps.run("verification", "--failed", "--timeout", "0", "--json"), "WAITING", 12)
    assert steps.proposal(data["review_id"])["metadata"] == {"result": "failed"}


def test_a_complete_list_of_tests_with_issues_has_not_passed(steps: Steps) -> None:
    steps.write(f"{PHASE}/03-UAT.md", "---\nstatus: human_needed\n---\n")
    assert "--passed or --failed" in steps.run("verification").refusal
    steps.write(f"{PHASE}/03-UAT.md", "---\nstatus: complete\n---\n## Summary\n\npassed: 3\nissues: 1\n")
    data = steps.ends(steps.run("verification", "--timeout", "0", "--json"), "WAITING", 12)
    assert steps.proposal(data["review_id"])["metadata"] == {"result": "failed"}


def test_changes_are_told_once_and_the_next_round_is_of_the_same_review(steps: Steps) -> None:
    steps.write(PLAN_FILE, PLAN)
    comment = [{"file": PLAN_FILE, "line": 3, "body": "Which uploads?"}]
    ended = steps.reviewed("plan", "--json", verdict="changes_requested", reason="Too vague.", comments=comment)
    data = steps.ends(ended, "CHANGES", 10)
    assert (data["reason"], data["remarks"][0]["body"]) == ("Too vague.", "Which uploads?")
    told = steps.run("plan")
    assert (told.status, head(told)) == (10, "CHANGES")
    assert "reason: Too vague." in told.stdout
    assert steps.status(data["review_id"])["round"] == 1
    steps.write(PLAN_FILE, PLAN.replace("Retry", "Retry failed"))
    again = steps.ends(steps.reviewed("plan", "--json"), "APPROVED", 0)
    assert (again["review_id"], again["round"]) == (data["review_id"], 2)


def test_a_text_counter_patch_is_taken_into_the_file(under_gate: Steps) -> None:
    file = under_gate.write(PLAN_FILE, PLAN)
    better = PLAN.replace("Retry", "Retry failed")
    first = under_gate.reviewed("plan", verdict="changes_requested", counter_patch=better)
    assert "Retry failed uploads." in first.stdout
    assert "tandem gate plan --accept" in first.stdout
    ended = under_gate.reviewed("plan", "--accept")
    assert (ended.status, head(ended)) == (0, "APPROVED")
    assert file.read_text() == better
    under_gate.commit({}, "docs(03-02): plan")


def test_every_command_of_a_draft_leads_on_while_its_file_may_not_be_written(steps: Steps) -> None:
    path, draft = f"{PHASE}/03-CONTEXT.md", steps.write("draft.md", "# Vague\n")
    first = steps.reviewed("context", path, "--content", str(draft), verdict="changes_requested")
    assert "Change the draft, then run again: tandem gate context" in first.stdout
    draft.write_text("# Less vague\n", "utf-8")
    [again] = re.findall("run again: tandem gate (.*)", first.stdout)
    second = steps.reviewed(*shlex.split(again), verdict="changes_requested", counter_patch="# Clear\n")
    [accept] = re.findall("Take the counter-patch: tandem gate (.*)", second.stdout)
    waiting = steps.run(*shlex.split(accept), "--timeout", "0")
    [again] = re.findall("Run the same command again: tandem gate (.*)", waiting.stdout)
    ended = steps.reviewed(*shlex.split(again))
    assert head(ended) == "APPROVED"
    [apply] = re.findall("tandem (apply rv_.*)", ended.stdout)
    assert steps.gated.tandem(*apply.split()).status == 0
    assert (steps.root / path).read_text("utf-8") == "# Clear\n"


def test_a_draft_of_standard_input_needs_no_second_one_after_its_counter_patch(steps: Steps) -> None:
    path = f"{PHASE}/03-CONTEXT.md"
    options = ("context", path, "--content", "-")
    first = steps.reviewed(*options, stdin=b"# Vague\n", verdict="changes_requested", counter_patch="# Clear\n")
    [accept] = re.findall("Take the counter-patch: tandem gate (.*)", first.stdout)
    waiting = steps.run(*shlex.split(accept), "--timeout", "0")
    [again] = re.findall("Run the same command again: tandem gate (.*)", waiting.stdout)
    assert head(steps.reviewed(*shlex.split(again))) == "APPROVED"
    assert not (steps.root / path).exists()
    steps.gated.tandem("apply", steps.reviews()[0]["review_id"])
    assert (steps.root / path).read_text() == "# Clear\n"


def test_accepting_is_refused_when_the_file_has_changed_since(steps: Steps) -> None:
    file = steps.write(PLAN_FILE, PLAN)
    steps.reviewed("plan", verdict="changes_requested", counter_patch=PLAN + "more\n")
    file.write_text("something else\n")
    assert "nothing was done" in steps.run("plan", "--accept", "--timeout", "0").refusal
    assert file.read_text() == "something else\n"
    assert steps.reviews()[0]["status"] == "changes_requested"


def test_rejected_and_put_up_again_it_follows_the_rejected_one(steps: Steps) -> None:
    steps.write(PLAN_FILE, PLAN)
    first = steps.ends(steps.reviewed("plan", "--json", verdict="rejected"), "REJECTED", 11)
    assert head(steps.run("plan")) == "REJECTED"
    steps.write(PLAN_FILE, PLAN + "\nmore\n")
    again = steps.ends(steps.run("plan", "--timeout", "0", "--json"), "WAITING", 12)
    assert steps.proposal(again["review_id"])["parent_id"] == first["review_id"]


@pytest.mark.parametrize(
    ("verdict", "word", "closed"), [("changes_requested", "CHANGES", 0), ("rejected", "REJECTED", 2)]
)
def test_after_three_rounds_or_rejections_a_person_is_asked(steps: Steps, verdict: str, word: str, closed: int) -> None:
    ended: list[Ended] = []
    for number in range(3):
        steps.write(PLAN_FILE, PLAN + f"\nround {number}\n")
        ended.append(steps.reviewed("plan", verdict=verdict))
    assert [head(one) for one in ended] == [word, word, "ESCALATE"]
    assert ended[-1].status == 14
    steps.write(PLAN_FILE, PLAN + "\nround 4\n")
    assert head(steps.run("plan")) == "ESCALATE"
    reviews = steps.reviews()
    assert ([one["status"] for one in reviews].count("closed"), len(reviews)) == (closed, closed + 1)
    assert closed or reviews[0]["round"] == 3


def test_two_runs_at_once_make_one_review(steps: Steps) -> None:
    steps.write(PLAN_FILE, PLAN)
    both = [steps.start("plan", "--json") for _ in range(2)]
    steps.gated.decide(steps.arrival())
    ended = [finish(one) for one in both]
    assert [one.data["word"] for one in ended] == ["APPROVED", "APPROVED"]
    assert len(steps.reviews()) == 1


def test_a_question_of_the_reviewer_is_handed_on(steps: Steps) -> None:
    steps.write(PLAN_FILE, PLAN)
    waiting = steps.start("plan", "--json")
    review_id = steps.arrival()
    steps.gated.call("claim_review", review_id=review_id, reviewer_id="rev-1")
    steps.gated.call("add_message", review_id=review_id, sender_role="reviewer", reviewer_id="rev-1", body="Why?")
    data = steps.ends(finish(waiting), "WAITING", 12)
    assert data["question"] == "Why?"
    assert any("--sender-role proposer" in line for line in data["next"])


def test_a_withdrawn_review_goes_to_a_person(steps: Steps) -> None:
    steps.write(PLAN_FILE, PLAN)
    waiting = steps.start("plan", "--json")
    steps.gated.call("close_review", review_id=steps.arrival())
    steps.ends(finish(waiting), "ESCALATE", 14)


def test_a_broker_that_is_down_is_never_solo(steps: Steps) -> None:
    steps.write(PLAN_FILE, PLAN)
    for step in ("plan", "task"):
        ended = taken_at(NOBODY, steps.root, step)
        assert (ended.status, ended.stdout) == (3, "")
        assert "tandem up --background" in ended.stderr
        as_json = taken_at(NOBODY, steps.root, step, "--json")
        assert (as_json.status, as_json.envelope["error"]["code"]) == (3, "UNAVAILABLE")


def test_what_cannot_be_read_is_never_solo(plain: Path) -> None:
    (plain / ".planning").mkdir()
    (plain / ".planning" / "config.json").write_text("{")
    ended = taken_at(NOBODY, plain, "plan")
    assert ended.status != 0
    assert "SOLO" not in ended.stdout
    (plain / ".planning" / "config.json").unlink()
    (plain / ".git" / "tandem").mkdir()
    (plain / ".git" / "tandem" / "gate.json").write_text("{")
    refused = taken_at(NOBODY, plain, "plan")
    assert refused.status == 1
    assert "tandem gate on" in refused.stderr


def test_the_settings_are_those_of_the_main_working_tree(steps: Steps, tmp_path: Path) -> None:
    linked = steps.gated.linked(tmp_path / "linked", "side")
    assert not (linked / ".planning").exists()
    file = steps.write(PLAN_FILE, PLAN, linked)
    ended = steps.run("plan", "--timeout", "0", "--json", cwd=file.parent)
    assert steps.ends(ended, "WAITING", 12)["path"] == PLAN_FILE


def test_a_document_that_is_not_there_is_said(steps: Steps) -> None:
    assert "tandem gate context FILE" in steps.run("context").refusal


def test_a_misspelt_project_is_said_and_nothing_goes_up(under_gate: Steps) -> None:
    under_gate.write(PLAN_FILE, PLAN)
    ended = under_gate.run("plan", "--project", f"{under_gate.gated.project}x")
    assert (ended.status, f"Did you mean '{under_gate.gated.project}'?" in ended.stderr) == (1, True)
    assert under_gate.reviews() == []


def test_an_exempt_document_needs_nothing(steps: Steps) -> None:
    steps.write(f"{PHASE}/03-02-SUMMARY.md", "# Summary\n")
    ended = steps.run("plan", f"{PHASE}/03-02-SUMMARY.md", "--json")
    steps.ends(ended, "NOTHING", 0)
    assert steps.reviews() == []


@pytest.mark.parametrize(
    "options",
    [
        ("plan", "a.txt", "--content", "-"),
        ("plan", "--content", "a.txt"),
        ("verification", "--passed=1"),
    ],
)
def test_contradictions_are_a_usage_error(steps: Steps, options: tuple[str, ...]) -> None:
    assert steps.run(*options).status == 2
