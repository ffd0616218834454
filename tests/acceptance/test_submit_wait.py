"""Waiting on the command line: it ends when there is a verdict, with an exit status for each."""

from __future__ import annotations

import re
import shlex
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.reviewing import Desk
from tests.broker import BrokerProcess
from tests.commandline import Inside, Shell, finish, repository
from tests.interfaces.broker_process import watched_broker
from tests.modes import VARIATION


@pytest.fixture
def shell(shell: Shell) -> Shell:
    """With something to submit."""
    (shell.cwd / "a.txt").write_bytes(b"changed\n")
    return shell


def arrival(others: Desk) -> str:
    """The project's first review, once it is there."""
    return others.do("list_reviews", wait=True, timeout_s=40)["reviews"][0]["review_id"]


def decide(others: Desk, verdict: str) -> str:
    """A verdict on the project's first review; the review."""
    review = arrival(others)
    others.verdict(review, verdict, others.claim(review, "rita"))
    return review


def ask(others: Desk, review: str) -> None:
    """The reviewer asks something."""
    others.claim(review, "rita")
    others.say(review, "reviewer", "why?", reviewer_id="rita")


def test_submit_ends_with_the_verdicts_own_exit_status(shell: Shell, others: Desk) -> None:
    waiting = shell.start("submit", "-m", "m", "--wait")
    review_id = decide(others, "changes_requested")
    ended = finish(waiting)
    assert ended.status == 10
    assert review_id in ended.stdout
    assert re.search(r"^verdict +changes_requested$", ended.stdout, re.MULTILINE)


def test_submit_ends_with_13_when_the_review_is_withdrawn(shell: Shell, others: Desk) -> None:
    waiting = shell.start("submit", "-m", "m", "--wait", "--json")
    others.do("close_review", review_id=arrival(others))
    ended = finish(waiting)
    assert ended.status == 13
    assert ended.data["outcome"] == "withdrawn"


def test_submit_ends_with_12_when_the_time_is_up(shell: Shell) -> None:
    ended = shell.run("submit", "-m", "m", "--wait", "--timeout", "0.5", "--json")
    assert ended.status == 12
    assert ended.data["status"] == "pending"


def test_an_agents_wait_ends_before_its_client_ends_it_and_names_the_command_to_go_on_with(
    shell: Shell, others: Desk
) -> None:
    client: dict[str, Any] = {"CLAUDECODE": "1", "BASH_DEFAULT_TIMEOUT_MS": "1500"}
    review_id = shell.run("submit", "-m", "m", "--json").data["review_id"]
    others.claim(review_id)
    ended = shell.run("submit", "-m", "m", "--wait", "--json", **client)
    assert (ended.status, ended.data["status"]) == (12, "pending")
    assert "still waiting for the verdict: " in ended.stderr
    go_on = f"tandem review status {ended.data['review_id']} --wait"
    assert ended.stderr.endswith(f"{go_on}\n")
    again = finish(shell.start(*shlex.split(go_on)[1:], **client))
    assert (again.status, again.stderr.endswith(f"{go_on}\n")) == (12, True)


def test_the_time_that_an_agent_states_comes_before_its_clients_limit(shell: Shell, others: Desk) -> None:
    client = {"CLAUDECODE": "1", "BASH_DEFAULT_TIMEOUT_MS": "300"}
    waiting = shell.start("submit", "-m", "m", "--wait", "--timeout", "60", **client)
    assert waiting.stderr is not None
    while not re.search("still waiting for the verdict: [1-9]", said := waiting.stderr.readline().decode()):
        assert said, "it has ended"
    decide(others, "approved")
    assert finish(waiting).status == 0


def test_submit_ends_with_12_when_the_reviewer_asks_and_says_what_and_how_to_answer_and_go_on(
    shell: Shell, others: Desk
) -> None:
    waiting = shell.start("submit", "-m", "m", "--wait")
    review_id = arrival(others)
    ask(others, review_id)
    ended = finish(waiting)
    assert (ended.status, "rita asks: why?" in ended.stderr) == (12, True)
    assert f"tandem review discussion {review_id}\n" in re.sub(" +\n", "\n", ended.stdout)
    [answer] = re.findall(r"Answer: tandem (.*'…')", ended.stdout)
    answered = shell.run(*shlex.split(answer))
    assert answered.status == 0
    [go_on] = re.findall(r"Wait for it: tandem (.*--wait)", answered.stdout)
    others.verdict(review_id, "approved")
    assert shell.run(*shlex.split(go_on)).status == 0


@pytest.mark.parametrize(
    ("verdict", "action"),
    [(None, "wait"), ("changes_requested", "revise"), pytest.param("approved", "apply_and_close", marks=VARIATION)],
)
def test_the_same_state_has_the_same_next_action_in_every_answer(
    shell: Shell, others: Desk, verdict: str | None, action: str
) -> None:
    created = shell.run("submit", "-m", "m", "--json").data
    if verdict is not None:
        decide(others, verdict)
    review_id = created["review_id"]
    again = shell.run("submit", "-m", "m", "--json").data
    status = shell.run("review", "status", review_id, "--json").data
    page = shell.run("review", "show", review_id, "--json").data["status"]
    assert again["existed"]
    said = {(one["next_action"], one["message"]) for one in (again, status, page)}
    assert [one for one, _ in said] == [action]
    assert "next_action" not in (status["no_reviewer"] or {})


def test_a_status_without_waiting_is_an_answer_and_a_wait_for_what_came_first_its_verdict(
    shell: Shell, others: Desk
) -> None:
    review_id = shell.run("submit", "-m", "m", "--json").data["review_id"]
    decide(others, "rejected")
    assert shell.run("review", "status", review_id).status == 0
    assert shell.run("review", "status", review_id, "--wait").status == 11


def test_a_status_wait_wakes_for_the_proposers_turn_without_calling_it_approved(shell: Shell, others: Desk) -> None:
    review_id = shell.run("submit", "-m", "m", "--json").data["review_id"]
    waiting = shell.start("review", "status", review_id, "--wait", "--json")
    ask(others, review_id)
    ended = finish(waiting)
    assert ended.status == 12
    assert ended.data["next_action"] == "answer_message"


def test_a_revision_that_changes_nothing_is_no_round_and_ends_no_approval(shell: Shell, others: Desk) -> None:
    review_id = shell.run("submit", "-m", "m", "--json").data["review_id"]
    decide(others, "changes_requested")
    again = shell.run("submit", "--revise", review_id, "--wait", "--json")
    assert (again.status, again.data["round"], again.data["status"]) == (10, 1, "changes_requested")
    # With another word it is a round, for the reviewer to look again.
    said = shell.run("submit", "--revise", review_id, "--description", "It is meant so.", "--json").data
    assert (said["round"], said["existed"]) == (2, False)
    decide(others, "approved")
    again = shell.run("submit", "--revise", review_id, "--wait", "--json")
    assert (again.status, again.data["round"], again.data["status"]) == (0, 2, "approved")


def test_the_same_content_again_is_the_review_that_is_there_with_its_verdict(shell: Shell, others: Desk) -> None:
    first = shell.run("submit", "-m", "m", "--json").data
    again = shell.run("submit", "-m", "said differently", "--json").data
    assert (again["review_id"], again["round"], again["existed"]) == (first["review_id"], 1, True)
    assert "is there already" in shell.run("submit", "-m", "m").stdout
    # Not another proposer's change, or another kind of change.
    options = (("--agent", "other"), ("--category", "verification"))
    made = {shell.run("submit", "-m", "m", *other, "--json").data["review_id"] for other in options}
    assert len(made | {first["review_id"]}) == 3
    waiting = shell.start("submit", "-m", "m", "--wait", "--json")
    others.approve(first["review_id"])
    # An approval that exists is told at once.
    for ended in (finish(waiting), shell.run("submit", "-m", "m", "--wait", "--json")):
        assert (ended.status, ended.data["review_id"], ended.data["status"]) == (0, first["review_id"], "approved")
    shell.run("review", "close", first["review_id"])
    assert not shell.run("submit", "-m", "m", "--json").data["existed"]


def test_a_status_wait_for_any_event_ends_with_the_next_one(shell: Shell, others: Desk) -> None:
    created = shell.run("submit", "-m", "m", "--json").data
    options = ("--wake-on", "any", "--cursor", created["cursor"], "--json")
    waiting = shell.start("review", "status", created["review_id"], "--wait", *options)
    others.claim(created["review_id"])
    ended = finish(waiting)
    assert (ended.status, ended.data["status"]) == (12, "claimed")


def test_other_waits_end_with_the_next_event(shell: Shell, others: Desk) -> None:
    ended = shell.run("review", "list", "--wait", "--timeout", "0.3", "--json")
    assert (ended.status, ended.data["reviews"]) == (12, [])
    cursor = others.do("get_audit_log")["cursor"]
    waits = [("review", "list", "--status", "pending"), ("review", "feed"), ("audit", "log")]
    waiting = [shell.start(*words, "--wait", "--cursor", cursor, "--json") for words in waits]
    created = shell.run("submit", "-m", "m", "--json").data
    first, *others_ = map(finish, waiting)
    assert [row["review_id"] for row in first.data["reviews"]] == [created["review_id"]]
    assert [(ended.status, ended.data["changed"]) for ended in (first, *others_)] == [(0, True)] * 3


@pytest.mark.skipif(sys.platform == "win32", reason="platform: there is no SIGKILL")
@pytest.mark.timeout(180)
def test_p6_a_wait_goes_on_across_a_restart_of_the_broker(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as broker, Desk(broker.url, "shop") as shop:
        shell = Shell(broker.url, repository(tmp_path / "shop"))
        shop.register(shell.cwd)
        (shell.cwd / "a.txt").write_bytes(b"changed\n")
        waiting = shell.start("submit", "-m", "m", "--wait", "--json")
        arrival(shop)
        broker.kill()
        broker.start()
        decide(shop, "approved")
        assert finish(waiting).status == 0


@pytest.mark.skipif(sys.platform == "win32", reason="platform: there is no SIGKILL")
@pytest.mark.timeout(180)
def test_p6_a_wait_says_that_the_broker_is_away_and_finds_it_at_another_port(tmp_path: Path) -> None:
    with watched_broker(tmp_path) as broker:
        shell = Shell(broker.url, repository(tmp_path / "shop"))
        unnamed = {"TANDEM_BROKER": "", "TANDEM_DATA_DIR": str(broker.data_dir)}
        (shell.cwd / "a.txt").write_bytes(b"changed\n")
        with Desk(broker.url, "shop") as shop:
            shop.register(shell.cwd)
            submitting = shell.start("submit", "-m", "m", "--wait", "--json", **unnamed)
            review_id = arrival(shop)
        asking = shell.start("review", "status", review_id, "--wait", "--json", **unnamed)
        broker.await_waiting(2)
        broker.kill()
        away = f"No broker answers at {broker.url}".encode()
        for process in (submitting, asking):
            assert process.stderr is not None
            assert any(line.startswith(away) for line in process.stderr)
        broker.move()
        broker.start()
        with Desk(broker.url, "shop") as shop:
            decide(shop, "approved")
        for process in (submitting, asking):
            ended = finish(process)
            assert (ended.status, ended.data["status"]) == (0, "approved"), ended
            assert f"The broker is back at {broker.url}." in ended.unwrapped


def test_an_agents_wait_for_a_silent_broker_ends_before_its_client_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tandem.rulings.person._LEAST_ANSWER_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        shell = Inside(f"http://127.0.0.1:{silent.getsockname()[1]}", tmp_path)
        client: dict[str, Any] = {"CLAUDECODE": "1", "BASH_DEFAULT_TIMEOUT_MS": "1200"}
        ended = shell.run("review", "status", "rv_0000000000000000", "--wait", **client)
    assert ended.status == 3
    assert "is silent: no answer within 1 s" in ended.stderr
