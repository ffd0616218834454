"""Retention: reviews closed long ago lose their contents, and the audit notices if more of the log is missing."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.cycling import Crew
from tests.acceptance.databases import run_sql
from tests.acceptance.gated import Team, config_dir
from tests.acceptance.reviewing import Desk
from tests.acceptance.tables import table
from tests.acceptance.test_p8_audit import whole_history
from tests.broker import NO_TLS, BrokerProcess, StartBroker, fresh_project
from tests.commandline import Inside
from tests.git.sandbox import Sandbox

SOON = {"retention_days": 0.000001, "sweep_interval_seconds": 0.05}
"""A closed review keeps its contents for less than a second."""
WAIT_SECONDS = 60
TEXT = "What only this review says."


def until_removed(desk: Desk, review: str) -> dict[str, Any]:
    """The status of a review that has lost its contents."""
    status, deadline = desk.status(review), time.monotonic() + WAIT_SECONDS
    while not status["removed_at"]:
        assert time.monotonic() < deadline, status
        later = {"wait": True, "wake_on": "any", "cursor": status["cursor"], "timeout_s": 5}
        status = desk.do("get_review_status", review_id=review, **later)
    return status


@pytest.mark.both_databases
def test_p8_closed_reviews_and_archived_cycles_lose_their_contents_and_the_log_verifies(
    start_broker: StartBroker, database_settings: dict[str, object], repo: Sandbox
):
    broker = start_broker(**SOON, **database_settings)
    with (
        Desk(broker.url, fresh_project()) as desk,
        Crew(broker.url, fresh_project()).prepare() as crew,
        Desk(broker.url, crew.project) as beside,
    ):
        early = {one.project: one.do("get_audit_log")["cursor"] for one in (desk, beside)}
        full, digest = removed_review(broker, desk, repo)
        removed_cycles(broker, crew, beside)
    broker.stop()
    assert TEXT not in broker.run("data", "export").stdout
    assert broker.audited().data["problems"] == []
    broker.start()
    for project, cursor in early.items():
        with Desk(broker.url, project) as again:
            # A reader with an earlier cursor has to begin again.
            again.refused("CURSOR_EXPIRED", "get_audit_log", cursor=cursor)
    with Desk(broker.url, desk.project) as again:
        again.do("get_audit_log", cursor=again.do("get_audit_log")["cursor"])
        assert again.do("withdraw_approval", review_id=full, reason="It was wrong.", withdrawn_by="rev-1")
        assert not again.is_open_for(digest)
    assert broker.audited().data["problems"] == []


def removed_review(broker: BrokerProcess, desk: Desk, repo: Sandbox) -> tuple[str, str]:
    """A review that has lost its contents, and its digest; the gate, the log and the statistics have their part."""
    desk.register(repo.root)
    full = whole_history(desk)
    digest = desk.status(full)["digest"]
    removed = until_removed(desk, full)
    facts = ("status", "outcome", "verdict", "verdict_reason", "digest")
    assert [removed[name] for name in facts] == ["closed", "approved", "approved", None, digest]
    assert desk.is_open_for(digest)
    assert desk.kinds(full)[-1] == "contents_removed"
    assert {entry["body"] for entry in desk.discussion(full) if entry["kind"] == "message"} == {"(removed)"}
    proposal = desk.do("get_proposal", review_id=full)
    assert (proposal["diff"], proposal["description"]) == (None, None)
    page = httpx.get(f"{broker.url}/reviews/{full}", verify=NO_TLS)
    assert f'<dd>removed <time datetime="{removed["removed_at"]}"' in page.text
    assert "removed by retention_days" in Inside(broker.url, repo.root).run("review", "status", full).stdout
    return full, digest


def removed_cycles(broker: BrokerProcess, crew: Crew, desk: Desk) -> None:
    """Two archived cycles that have lost their payloads; the archive has them."""

    def archived() -> tuple[str, Path]:
        crew.start()
        for target in ("codex", "gemini"):
            crew.hand_over(target, notes=[TEXT])
        crew.complete()
        folder = crew.archive()
        return crew.cycle["cycle_id"], folder

    def removed(cycle_id: str) -> dict[str, Any]:
        deadline, cursor = time.monotonic() + WAIT_SECONDS, None
        while not (found := crew.do("get_cycle", cycle_id=cycle_id))["cycle"]["removed_at"]:
            assert time.monotonic() < deadline, found
            cursor = desk.do("get_audit_log", cursor=cursor, wait=cursor is not None, timeout_s=5)["cursor"]
        return found

    (older, folder), (newer, _) = archived(), archived()
    for cycle_id in (newer, older):
        handoffs = removed(cycle_id)["handoffs"]
        assert [(one["number"], one["target"], one["payload"]) for one in handoffs] == [
            (1, "codex", {}),
            (2, "gemini", {}),
        ]
    # The cycle archived last is still the last, though an event of another cycle may be newer.
    assert crew.do("get_cycle")["cycle"]["cycle_id"] == newer
    assert TEXT in (folder / "handoffs" / "001-codex.json").read_text("utf-8")
    page = httpx.get(f"{broker.url}/cycles/{crew.project}/{older}", verify=NO_TLS)
    assert re.search(r"payloads removed</span>\s*<time", page.text)
    assert "removed" in Inside(broker.url, broker.folder).run("cycle", "show", older).stdout


def test_reviews_of_hand_offs_and_drafts_end_too_and_what_another_review_needs_stays(
    start_broker: StartBroker, tmp_path: Path
):
    broker = start_broker(**SOON, config_dir=config_dir(tmp_path / "config"))
    with Team(broker.url, fresh_project()) as team:
        team.enrol()
        team.begin()
        reviews: list[str] = []
        for producer, target in (("gemini", "codex"), ("codex", "gemini")):
            reviews.append(team.put_forward(producer, target, notes=[TEXT]))
            team.approve(reviews[-1])
        team.finish("gemini")
        assert [until_removed(team, review)["outcome"] for review in reviews] == ["approved", "approved"]
        assert [one["payload"] for one in team.history()["handoffs"]] == [{}, {}]
    with Desk(broker.url, fresh_project()) as desk:
        closed, still_open = (desk.put_up(description=TEXT) for _ in range(2))
        draft = {"review_id": closed, "draft_id": "d1", "person": "anna", "round": 1, "kind": "message", "body": TEXT}
        desk.do("save_draft", **draft)
        desk.do("close_review", review_id=closed)
        until_removed(desk, closed)
        assert desk.rows("list_drafts", "drafts", person="anna") == []
        desk.refused("NOT_FOUND", "save_draft", **{**draft, "draft_id": "d2"})
        assert desk.do("get_proposal", review_id=still_open)["description"] == TEXT
        desk.do("close_review", review_id=still_open)
        until_removed(desk, still_open)
    broker.stop()
    assert TEXT not in broker.run("data", "export").stdout
    assert broker.audited().data["problems"] == []


def test_without_the_setting_everything_stays(start_broker: StartBroker):
    broker = start_broker(sweep_interval_seconds=0.05)
    with Desk(broker.url, fresh_project()) as desk:
        review = desk.put_up(description=TEXT)
        desk.do("close_review", review_id=review)
        broker.stop()
        broker.start()
    with Desk(broker.url, desk.project) as desk:
        assert desk.do("get_proposal", review_id=review)["description"] == TEXT


FORGERIES: dict[str, str] = table("forgeries")["removed"]


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> tuple[BrokerProcess, dict[str, str]]:
    """A stopped broker, a review without its contents and another one."""
    broker = BrokerProcess(tmp_path_factory.mktemp("left"), **SOON)
    with broker, Desk(broker.url, fresh_project()) as desk:
        removed, other = desk.put_up(), desk.put_up()
        desk.approve(removed)
        desk.do("close_review", review_id=removed)
        desk.approve(other)
        until_removed(desk, removed)
    return broker, {"removed": removed, "other": other}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_p8_a_change_to_what_is_left_is_detected(left: tuple[BrokerProcess, dict[str, str]], forgery: str):
    broker, names = left
    database = broker.data_dir / "tandem.db"
    before = database.read_bytes()
    try:
        run_sql(broker, {}, FORGERIES[forgery].format_map(names))
        assert broker.audited().data["problems"] != []
    finally:
        database.write_bytes(before)
        for ending in ("-wal", "-shm"):
            database.with_name(database.name + ending).unlink(missing_ok=True)
    assert broker.audited().data["problems"] == []
