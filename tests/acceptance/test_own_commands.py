"""An agent does not review its own work by commands, whatever name it gives; a person and another agent do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.acceptance.pooling import Steward
from tests.acceptance.reviewing import REVIEWER, Desk
from tests.commandline import Ended, Shell, finish
from tests.forked import Started
from tests.git.sandbox import Sandbox

# What decides here is on the caller's side, so that one database is enough.

CLAUDE = {"CLAUDECODE": "1"}
CODEX = {"CODEX_THREAD_ID": "thread-1"}


class Work:
    """A working tree of a project, with agents and people in it."""

    def __init__(self, shop: Desk, root: Path) -> None:
        self._shell = Shell(shop.url, root)
        self._project = ("--project", shop.project)

    def run(self, *arguments: str, **environment: str) -> Ended:
        return finish(self.starts(*arguments, **environment))

    def starts(self, *arguments: str, **environment: str) -> Started:
        return self._shell.start(*arguments, *self._project, **environment)

    def submitted(self, **environment: str) -> str:
        ended = self.run("submit", "-m", "Improve it", "--json", **environment)
        return ended.data["review_id"]

    def claims(self, review: str, **environment: str) -> Ended:
        return self.run("review", "claim", review, "--reviewer-id", REVIEWER, "--json", **environment)

    def approves(self, review: str, **environment: str) -> Ended:
        given = ("--verdict", "approved", "--reviewer-id", REVIEWER, "--json")
        return self.run("review", "verdict", review, *given, **environment)


@pytest.fixture
def work(shop: Desk, repo: Sandbox) -> Work:
    repo.write("a.txt", "changed\n")
    return Work(shop, repo.root)


def refused(ended: Ended) -> str:
    assert (ended.status, ended.envelope["error"]["code"]) == (1, "SELF_APPROVAL"), ended
    assert ended.envelope["error"]["details"]["next_action"] == "escalate"
    return ended.envelope["error"]["message"]


@pytest.mark.parametrize(
    ("environment", "shared"),
    [(CLAUDE, "folder"), ({"AI_AGENT": "other"}, "folder")],
)
def test_an_agent_in_the_same_folder_is_refused(shop: Desk, work: Work, environment: dict[str, str], shared: str):
    review = work.submitted(**CLAUDE)
    assert shop.do("get_proposal", review_id=review)["proposer_id"] == "claude-code"
    with shop.unchanged(review):
        assert shared in refused(work.claims(review, **environment))
    # Nor does it help to have somebody else's command claim it.
    shop.claim(review)
    with shop.unchanged(review):
        refused(work.approves(review, **environment))
    # A person in the same folder is not their agent.
    assert work.approves(review).status == 0
    assert shop.is_open_for(shop.status(review)["digest"])


def test_elsewhere_it_is_the_client_and_the_session_that_count(shop: Desk, work: Work, repo: Sandbox, tmp_path: Path):
    review = work.submitted(**CODEX)
    shutil.copytree(repo.root, tmp_path / "elsewhere")
    elsewhere = Work(shop, tmp_path / "elsewhere")
    assert "session" in refused(elsewhere.claims(review, **CODEX))
    assert "client (codex)" in refused(elsewhere.claims(review, CODEX_THREAD_ID="thread-2"))
    # One agent that another has started has the marks of both.
    refused(elsewhere.claims(review, CODEX_THREAD_ID="thread-2", **CLAUDE))
    assert elsewhere.claims(review, **CLAUDE).status == 0
    assert elsewhere.approves(review, **CLAUDE).status == 0


def test_what_an_agent_proposed_over_mcp_is_known_by_what_its_client_is_called(shop: Desk, work: Work):
    with Desk(shop.url, shop.project, agent="claude-code") as agent:
        review = agent.do("create_review", intent="Improve it", agent_type="helper", description="So.")["review_id"]
    assert "client (claude-code)" in refused(work.claims(review, **CLAUDE))
    assert work.claims(review, **CODEX).status == 0


def test_what_comes_next_is_given_back(shop: Desk, work: Work):
    review = work.submitted(**CLAUDE)
    refused(work.run("review", "claim", "--reviewer-id", REVIEWER, "--json", **CODEX))
    assert shop.status(review)["status"] == "pending"


def test_a_pools_reviewer_is_nobodys_own_agent(shop: Desk, work: Work):
    review = work.submitted(**CLAUDE)
    assert work.claims(review, **CLAUDE, TANDEM_REVIEWER=REVIEWER).status == 0
    assert work.approves(review, **CLAUDE, TANDEM_REVIEWER=REVIEWER).status == 0


@pytest.mark.parametrize(("environment", "is_agent"), [(CLAUDE, True), ({}, False)])
def test_who_waits_for_a_verdict_that_does_not_come_is_told_what_is_theirs_to_do(
    shop: Desk, work: Work, environment: dict[str, str], is_agent: bool
):
    steward = Steward(shop)
    steward.register()
    waiting = work.starts("submit", "-m", "Improve it", "--wait", **environment)
    page = shop.do("list_reviews", wait=True, timeout_s=40)
    assert len(page["reviews"]) == 1
    reviewer = steward.one()
    for _ in range(3):
        steward.fail(reviewer)
    ended = finish(waiting)
    assert "or have it tried again: tandem review retry" in ended.stderr
    assert ("tell the person" in ended.stderr) == is_agent
    assert ended.status == 14
    again = work.run("review", "status", page["reviews"][0]["review_id"], "--wait", **environment)
    assert again.status == 14
