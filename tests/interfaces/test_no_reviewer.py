"""Why no reviewer answers: each reason has its own words and what helps, and reaches the proposer at once."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.cycling import Crew
from tests.acceptance.databases import run_sql
from tests.acceptance.pooling import Steward
from tests.acceptance.reviewing import Desk
from tests.acceptance.staffed import Counter, StaffedBroker, counter, only_posix, until
from tests.broker import fresh_project
from tests.commandline import Shell, finish
from tests.repository.gating import Gated
from tests.repository.stepping import PLAN, PLAN_FILE, Steps

pytestmark = only_posix
AGENT = {"CLAUDECODE": "1"}
EVENTS = {
    "login": [
        {"type": "error", "message": "Reconnecting... 5/5 (unexpected status 401 Unauthorized: Incorrect API key)"},
        {"type": "turn.failed", "error": {"message": "unexpected status 401 Unauthorized: Incorrect API key"}},
    ],
    "broken": [{"type": "turn.failed", "error": {"message": "the model does not exist"}}],
    "costly": [{"type": "turn.completed", "usage": {"input_tokens": 5000, "output_tokens": 1}}],
}
"""What Codex 0.169 prints. Its standard error ends with a warning of something else."""

GATED = {"gated": {"like": "frontend-backend", "mode": "approval"}}

CODEX = """\
import json, pathlib, sys, time
mood = pathlib.Path(sys.argv[1]).read_text()
sys.stdin.read()
print(json.dumps({"type": "turn.started"}), flush=True)
if mood == "hang":
    time.sleep(300)
for event in json.loads(pathlib.Path(sys.argv[1]).with_name("events.json").read_text())[mood]:
    print(json.dumps(event), flush=True)
print("warning: ignoring .codex/config.toml of an untrusted project", file=sys.stderr)
sys.exit(mood != "costly")
"""


class Pool(Counter):
    """A project whose pool runs a Codex that does as it is told."""

    @property
    def program(self) -> Path:
        """The program."""
        return self.broker.folder / "codex"

    def becomes(self, mood: str) -> None:
        """Have the program behave so from now on, and the pool start again."""
        (self.broker.folder / "mood").write_text(mood)
        self.do("resume_reviewers")

    def why(self, reason: str) -> dict[str, Any]:
        """The status of a new review, once no reviewer takes it for this reason."""
        review = self.ask("approve")

        def is_it(status: dict[str, Any]) -> bool:
            return status["no_reviewer"] is not None and status["no_reviewer"]["reason"] == reason

        return self.when(review, is_it, f"is not reviewed: {reason}")


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """A broker with a pool of one reviewer, whose Codex is a script."""
    folder = tmp_path_factory.mktemp("none")
    program = folder / "codex"
    (folder / "code.py").write_text(CODEX)
    (folder / "events.json").write_text(json.dumps(EVENTS))
    (folder / "mood").write_text("login")
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -I -S {folder}/code.py {folder}/mood\n")
    program.chmod(0o755)
    settings = {"provider": "codex", "command": [str(program)], "max_pool_size": 1, "silence_seconds": 1}
    with (
        StaffedBroker(folder, {**settings, "token_budget_per_day": 5000}, workflows=json.dumps(GATED)) as broker,
        counter(broker, folder / "repository") as opened,
        Pool(broker, opened.root, opened.project) as found,
    ):
        yield found


@pytest.fixture(autouse=True)
def _nothing_waits(pool: Pool) -> Iterator[None]:
    yield
    for row in pool.do("list_reviews", status="pending")["reviews"]:
        pool.do("close_review", review_id=row["review_id"])


def test_a_program_that_is_not_logged_in_says_so_in_its_own_words(pool: Pool) -> None:
    pool.becomes("login")
    status = pool.why("not_logged_in")
    none = status["no_reviewer"]
    assert "unexpected status 401 Unauthorized: Incorrect API key" in none["message"]
    assert "warning" not in none["message"]
    assert "codex login" in none["remedy"]
    assert (status["next_action"], none["needs_person"]) == ("escalate", True)
    # The next proposer hears it with the answer.
    created = pool.put_up_whole(intent="approve", description="x")
    assert created["no_reviewer"]["reason"] == "not_logged_in"


def test_a_program_that_is_missing(pool: Pool) -> None:
    aside = pool.program.rename(pool.program.with_name("aside"))
    try:
        pool.becomes("login")
        none = pool.why("program_missing")["no_reviewer"]
    finally:
        aside.rename(pool.program)
    assert str(pool.program) in none["message"]
    assert "PATH of the broker" in none["remedy"]


def test_a_program_that_hangs_is_ended_for_its_silence_and_the_proposer_told(pool: Pool) -> None:
    pool.becomes("hang")
    status = pool.why("failed")
    none = status["no_reviewer"]
    assert "The reviewer took too long (The program hung: it fell silent" in none["message"]
    assert re.search(r"\. Next try (now|in \d+ s)\.$", none["message"])
    assert (status["next_action"], none["needs_person"]) == ("wait", False)
    pool.do("close_review", review_id=status["review_id"])


def test_a_budget_that_is_used_up(pool: Pool) -> None:
    pool.becomes("costly")
    none = pool.why("budget")["no_reviewer"]
    assert "paused until midnight UTC" in none["message"]
    assert "budget_per_day" in none["remedy"]


@pytest.fixture(scope="module")
def on_paper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StaffedBroker]:
    """A broker without a pool of its own."""
    with StaffedBroker(tmp_path_factory.mktemp("paper"), {"enabled": False}) as broker:
        yield broker


@pytest.fixture
def desk(on_paper: StaffedBroker, tmp_path: Path) -> Iterator[Counter]:
    """A registered project of it."""
    with counter(on_paper, tmp_path / "repository") as opened:
        yield opened


def test_a_pools_quiet_hours_are_waited_for(desk: Counter) -> None:
    steward = Steward(desk)
    steward.register()
    steward.beat(quiet=True)
    status = desk.status(desk.ask("approve"))
    none = status["no_reviewer"]
    assert (none["reason"], none["needs_person"], status["next_action"]) == ("quiet_hours", False, "wait")
    assert none["remedy"] == f"Wait: tandem review status {status['review_id']} --wait"


def test_a_pool_whose_supervisor_was_not_heard_of_is_lost(desk: Counter, on_paper: StaffedBroker) -> None:
    steward = Steward(desk)
    steward.register()
    review = desk.ask("approve")
    assert desk.status(review)["no_reviewer"] is None
    long_ago = "last_seen_at = last_seen_at - 180000000"
    run_sql(on_paper, {}, f"UPDATE pools SET {long_ago} WHERE id = '{steward.supervisor_id}'")
    status = desk.status(review)
    none = status["no_reviewer"]
    assert (none["reason"], none["needs_person"], status["next_action"]) == ("pool_lost", True, "escalate")
    assert none["message"] == "The reviewer pool on a-host does not answer; it was last heard of 3 min ago."
    assert f"tandem open {review}" in none["remedy"]
    steward.beat()
    assert desk.status(review)["no_reviewer"] is None


def test_a_project_that_no_pool_serves_waits_for_others(pool: Pool) -> None:
    with Desk(pool.broker.url, fresh_project()) as desk:
        created = desk.put_up_whole()
        status = desk.status(created["review_id"])
    assert created["no_reviewer"] == status["no_reviewer"]
    none = status["no_reviewer"]
    assert (none["reason"], status["next_action"]) == ("no_pool", "wait")
    assert none["remedy"].endswith(f"A person reviews it: tandem open {created['review_id']}")


def test_a_try_that_came_to_nothing_is_told_with_when_the_next_one_is(desk: Counter) -> None:
    steward = Steward(desk, retry_delay_seconds=100)
    steward.register()
    review = desk.ask("approve")
    steward.fail(steward.one(), "unreadable", reason="The program's answer cannot be used: it is empty")
    assert desk.status(review)["no_reviewer"] == {
        "reason": "failed",
        "needs_person": False,
        "message": (
            "The reviewer gave no usable answer (The program's answer cannot be used: it is empty). Next try in 2 min."
        ),
        "remedy": f"Wait: tandem review status {review} --wait",
    }


def test_every_command_that_a_message_names_works(desk: Counter, on_paper: StaffedBroker) -> None:
    steward = Steward(desk)
    steward.register()
    review = desk.ask("approve")
    reviewer = steward.one()
    for _ in range(3):
        steward.fail(reviewer)
    none = desk.status(review)["no_reviewer"]
    assert (none["reason"], none["needs_person"]) == ("failed", True)
    assert none["remedy"].startswith("Tell your person: review it (tandem open ")
    works(on_paper, desk, none["remedy"])
    assert desk.status(review)["attention"] is None
    desk.do("pause_reviewers", reason="Ada is on the train")
    none = desk.status(review)["no_reviewer"]
    assert none["message"].startswith("The reviewer pool is paused: Ada is on the train (by ")
    works(on_paper, desk, none["remedy"])
    assert steward.pool()["state"] == "running"


def works(broker: StaffedBroker, desk: Counter, text: str) -> None:
    """Runs each of Tandem's commands in a text to the letter."""
    for command in re.findall(r"tandem (?:open|reviewe?r?s? [a-z]+)(?: rv_\w+)?", text):
        ended = finish(Shell(broker.url, desk.root).start(*command.split()[1:], BROWSER="true"))
        assert ended.status == 0, (command, ended.stderr)


def shell(pool: Pool) -> Shell:
    (pool.root / "a.txt").write_text("changed\n")
    return Shell(pool.broker.url, pool.root)


@pytest.fixture
def paused(pool: Pool) -> Iterator[Callable[[], None]]:
    """Pauses the pool when called, until no reviewer is left that could take another review; ends that at the end."""

    def pause() -> None:
        pool.do("pause_reviewers", reason="Ada is on the train")
        until(lambda: all(one["state"] == "terminated" for one in pool.do("list_reviewers")["reviewers"]), "all ended")

    pool.becomes("costly")
    yield pause
    pool.do("resume_reviewers")


def test_an_agents_wait_ends_at_once_where_a_person_paused_the_pool_and_the_page_says_it_too(
    pool: Pool, paused: Callable[[], None]
) -> None:
    paused()
    ended = finish(shell(pool).start("submit", "-m", "m", "--wait", "--json", **AGENT))
    assert (ended.status, ended.data["no_reviewer"]["reason"]) == (14, "paused")
    assert "No reviewer comes: The reviewer pool is paused: Ada is on the train (by " in ended.stderr
    assert "tandem reviewers resume" in ended.stderr
    assert "Stop here and tell the person you work for." in ended.stderr
    page = httpx.get(f"{pool.broker.url}/reviews/{ended.data['review_id']}", timeout=60).text
    assert "Ada is on the train" in page
    # Where a terminal has a command, the page has a link.
    assert "What helps: resume it, or review it." in page
    assert 'href="/reviewers">Reviewers</a>' in page


def test_an_agents_wait_for_its_turn_ends_where_the_hand_off_gets_no_reviewer(
    pool: Pool, paused: Callable[[], None]
) -> None:
    with Crew(pool.broker.url, pool.project, "gated") as crew:
        crew.prepare().start()
        paused()
        crew.hand_over("codex")
    waits = ("cycle", "status", "--workflow", "gated", "--role", "codex", "--wait", "--json")
    ended = finish(Shell(pool.broker.url, pool.root).start(*waits, **AGENT))
    assert (ended.status, ended.data["review"]["no_reviewer"]["reason"]) == (14, "paused")


def test_a_step_of_gsd_stops_and_asks_the_person(
    pool: Pool, paused: Callable[[], None], config_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    steps = Steps(Gated(pool.broker, pool.root, pool.project))
    steps.gated.settings(tandem_enabled=True)
    steps.write(PLAN_FILE, PLAN)
    paused()
    data = steps.ends(steps.run("plan", "--json"), "ESCALATE", 14)
    assert "Ada is on the train" in data["reason"]
    assert any("tandem reviewers resume" in line for line in data["next"])


def test_a_persons_wait_goes_on_as_they_may_review_it_themselves(pool: Pool, paused: Callable[[], None]) -> None:
    paused()
    waiting = shell(pool).start("submit", "-m", "m", "--wait")
    assert waiting.stderr is not None
    while "Ada is on the train" not in (said := waiting.stderr.readline().decode()):
        assert said, "it has ended"
    [row] = pool.do("list_reviews", status="pending")["reviews"]
    pool.approve(row["review_id"])
    assert finish(waiting).status == 0
