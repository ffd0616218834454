"""An agent does not review its own work by commands under any name; a person and another agent do."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.pooling import Steward
from tests.acceptance.reviewing import REVIEWER, Desk
from tests.commandline import Ended, Shell, finish

# What decides here is on the caller's side, so that one database is enough.

CLAUDE: dict[str, Any] = {"CLAUDECODE": "1"}
CODEX: dict[str, Any] = {"CODEX_THREAD_ID": "thread-1"}


def submitted(shell: Shell, **environment: Any) -> str:
    return shell.run("submit", "-m", "Improve it", "--json", **environment).data["review_id"]


def claims(shell: Shell, review: str, **environment: Any) -> Ended:
    return shell.run("review", "claim", review, "--reviewer-id", REVIEWER, "--json", **environment)


def approves(shell: Shell, review: str, **environment: Any) -> Ended:
    given = ("--verdict", "approved", "--reviewer-id", REVIEWER, "--json")
    return shell.run("review", "verdict", review, *given, **environment)


@pytest.fixture
def shell(shell: Shell) -> Shell:
    """With something to submit."""
    (shell.cwd / "a.txt").write_bytes(b"changed\n")
    return shell


def refused(ended: Ended) -> str:
    assert (ended.status, ended.envelope["error"]["code"]) == (1, "SELF_APPROVAL"), ended
    assert ended.envelope["error"]["details"]["next_action"] == "escalate"
    return ended.envelope["error"]["message"]


@pytest.mark.parametrize(
    ("environment", "shared"),
    [(CLAUDE, "folder"), ({"AI_AGENT": "other"}, "folder")],
)
def test_an_agent_in_the_same_folder_is_refused(shell: Shell, others: Desk, environment: dict[str, Any], shared: str):
    review = submitted(shell, **CLAUDE)
    assert others.do("get_proposal", review_id=review)["proposer_id"] == "claude-code"
    with others.unchanged(review):
        assert shared in refused(claims(shell, review, **environment))
    # Nor does it help to have somebody else's command claim it.
    others.claim(review)
    with others.unchanged(review):
        refused(approves(shell, review, **environment))
        for name in ("alice", "bob"):
            settled = ("findings", "answer", review, "fn_1", "verified", "--agent", name, "--json")
            refused(shell.run(*settled, **environment))
    removed = shell.run("lessons", "remove", "fn_1", "--json", **environment)
    assert (removed.status, removed.envelope["error"]["code"]) == (1, "FORBIDDEN"), removed
    # A person in the same folder is not their agent.
    assert approves(shell, review).status == 0
    assert others.is_open_for(others.status(review)["digest"])


def test_elsewhere_it_is_the_client_and_the_session_that_count(shell: Shell, others: Desk, tmp_path: Path):
    review = submitted(shell, **CODEX)
    elsewhere = shell.at(shutil.copytree(shell.cwd, tmp_path / "elsewhere"))
    assert "session" in refused(claims(elsewhere, review, **CODEX))
    assert "client (codex)" in refused(claims(elsewhere, review, CODEX_THREAD_ID="thread-2"))
    # One agent that another has started has the marks of both.
    refused(claims(elsewhere, review, CODEX_THREAD_ID="thread-2", **CLAUDE))
    assert claims(elsewhere, review, **CLAUDE).status == 0
    assert approves(elsewhere, review, **CLAUDE).status == 0


def test_what_an_agent_proposed_over_mcp_is_known_by_what_its_client_is_called(shell: Shell, others: Desk):
    with Desk(others.url, others.project, agent="claude-code") as agent:
        review = agent.do("create_review", intent="Improve it", agent_type="helper", description="So.")["review_id"]
    assert "client (claude-code)" in refused(claims(shell, review, **CLAUDE))
    assert claims(shell, review, **CODEX).status == 0


def test_what_comes_next_is_given_back(shell: Shell, others: Desk):
    review = submitted(shell, **CLAUDE)
    refused(shell.run("review", "claim", "--reviewer-id", REVIEWER, "--json", **CODEX))
    assert others.status(review)["status"] == "pending"


def test_a_pools_reviewer_is_nobodys_own_agent(shell: Shell, others: Desk):
    review = submitted(shell, **CLAUDE)
    assert claims(shell, review, **CLAUDE, TANDEM_REVIEWER=REVIEWER).status == 0
    assert approves(shell, review, **CLAUDE, TANDEM_REVIEWER=REVIEWER).status == 0


@pytest.mark.parametrize(("environment", "is_agent"), [(CLAUDE, True), ({}, False)])
def test_who_waits_for_a_verdict_that_does_not_come_is_told_what_is_theirs_to_do(
    shell: Shell, others: Desk, environment: dict[str, Any], is_agent: bool
):
    steward = Steward(others)
    steward.register()
    waiting = shell.start("submit", "-m", "Improve it", "--wait", **environment)
    page = others.do("list_reviews", wait=True, timeout_s=40)
    assert len(page["reviews"]) == 1
    reviewer = steward.one()
    for _ in range(3):
        steward.fail(reviewer)
    ended = finish(waiting)
    assert "or have it tried again: tandem review retry" in ended.stderr
    assert ("tell the person" in ended.stderr) == is_agent
    assert ended.status == 14
    again = shell.run("review", "status", page["reviews"][0]["review_id"], "--wait", **environment)
    assert again.status == 14
