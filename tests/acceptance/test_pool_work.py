"""What a pool of real reviewers gets done: many proposals at once, several projects, agents that loop alone."""

from __future__ import annotations

import json
from pathlib import Path

from tests.acceptance.staffed import StaffedBroker, counter, only_posix, program, until
from tests.modes import VARIATION

pytestmark = only_posix


@VARIATION
def test_each_project_gets_its_own_reviewer_in_its_own_folder(tmp_path: Path) -> None:
    with (
        StaffedBroker(tmp_path) as broker,
        counter(broker, tmp_path / "one") as one,
        counter(broker, tmp_path / "other") as other,
    ):
        reviews = {project: project.ask("where") for project in (one, other)}
        for project, review in reviews.items():
            status = project.decided(review)
            assert status["status"] == "approved"
            # It ran in a folder of its own, which is not the project's.
            assert Path(status["verdict_reason"]).name == "tree"
            assert project.member(status["reviewer_id"])["project"] == project.project
        # What one of them is for does not wait until the other has time.
        held = one.ask("hold busy")
        one.claimed(held)
        other.approved()
        broker.let("busy")
        one.decided(held)
        assert len(one.do("list_reviewers", project=None)["reviewers"]) == 2


def agent(broker: StaffedBroker, reviewer_id: str) -> dict[str, str]:
    """What an agent noted of itself, once it has begun."""
    file = broker.notes / f"agent-{reviewer_id}.json"
    until(file.exists, f"the agent {reviewer_id} begins")
    return json.loads(file.read_text("utf-8"))


def test_an_agent_works_through_the_queue_by_itself_and_ends_when_it_is_drained(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    pool = {"mode": "agent", "command": program(notes, name="agent.py")}
    with StaffedBroker(tmp_path, pool) as broker, counter(broker, tmp_path / "repository") as project:
        reviews = [project.ask(deed) for deed in ("approve", "reject", "approve")]
        statuses = [project.decided(review) for review in reviews]
        assert [one["status"] for one in statuses] == ["approved", "rejected", "approved"]
        [member] = project.team()
        reviewer = member["reviewer_id"]
        assert {one["reviewer_id"] for one in statuses} == {reviewer}
        assert statuses[0]["verdict_reason"] == f"By the agent {reviewer}."
        assert (member["mode"], member["reviews_completed"]) == ("agent", 3)
        assert (member["approvals"], member["rejections"], member["outcomes"]) == (2, 1, {"verdict": 3})
        tally = project.do("get_review_stats")["by_reviewer"][reviewer]
        assert (tally["claimed"], tally["approved"], tally["rejected"]) == (3, 2, 1)
        about = agent(broker, reviewer)
        assert about["url"].startswith(f"{broker.url}/mcp/")
        assert about["folder"] == str(project.root)
        assert "submit_verdict" in about["tools"]
        assert "close_review" not in about["tools"]

        # It holds nothing: it is ended, and the next review gets another.
        project.do("kill_reviewer", reviewer_id=reviewer)
        until(lambda: project.member(reviewer)["state"] == "terminated", "the idle agent has ended")
        assert project.member(reviewer)["exit_code"] == 0
        assert broker.programs() == []

        # It holds a review: that is finished first.
        held = project.ask("hold held")
        busy = project.claimed(held)["reviewer_id"]
        assert busy != reviewer
        project.do("kill_reviewer", reviewer_id=busy)
        assert project.member(busy)["state"] == "draining"
        next_one = project.ask("approve")
        broker.let("held")
        assert project.decided(held)["reviewer_id"] == busy
        until(lambda: project.member(busy)["state"] == "terminated", "the agent has ended")
        assert project.decided(next_one)["reviewer_id"] not in {reviewer, busy}
