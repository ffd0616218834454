"""What a prompt needs besides the proposal is read safely, and as far as it is to be had."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tandem.reviewers.dossier import FILE_LIMIT_BYTES, Dossier, gather, read_conventions
from tandem.reviewers.lease import Claimed
from tandem.reviewers.logs import RotatingLog
from tandem.reviewers.wire import Wire
from tests.reviewers.peer import Peer, Refusal, proposal

needs_links = pytest.mark.skipif(sys.platform == "win32", reason="platform: links need a privilege on Windows")


def entry(kind: str, number: int, **values: Any) -> dict[str, Any]:
    usual = {
        "kind": kind,
        "id": "x",
        "round": number,
        "at": f"2026-11-2{number}",
        "author": "a",
        "body": f"body {number}",
    }
    return {**usual, "sender_role": "reviewer", "resolved_by": None, "verdict": None, "diff": None, **values}


def gathered(peer: Peer, folder: Path, number: int = 3) -> Dossier:
    claimed = Claimed("rv_1", "shop", 4, number, 0, proposal())
    wire = Wire(peer.url, agent="custom-r1-abcdef")
    with RotatingLog(str(folder / "log"), max_bytes=0, backups=0) as log:
        found = gather(wire, claimed, str(folder), None, given_up=threading.Event(), log=log)
    wire.close()
    return found


# ---------------------------------------------------------------------------------------------- earlier rounds


def test_nothing_was_said_yet(peer: Peer, tmp_path: Path) -> None:
    assert gathered(peer, tmp_path) == Dossier()
    assert peer.all("get_proposal") == []


def test_verdicts_and_what_is_open_are_told_apart(peer: Peer, tmp_path: Path) -> None:
    peer.script["get_discussion"] += [
        {
            "entries": [
                entry("verdict", 1, verdict="changes_requested"),
                entry("comment", 1, file="src/a.py", line=3),
                entry("comment", 1, body="settled", resolved_by="ms_9"),
                entry("counter_patch", 1, status="rejected", body="It breaks the build.", diff="+much"),
            ],
            "next_page": "more",
        },
        {"entries": [entry("message", 2, sender_role="proposer"), entry("verdict", 2, verdict="comment")]},
    ]
    found = gathered(peer, tmp_path)
    assert found.earlier == (
        {"round": 1, "at": "2026-11-21", "author": "a", "verdict": "changes_requested", "reason": "body 1"},
        {"round": 1, "at": "2026-11-21", "author": "a", "counter_patch": "rejected", "reason": "It breaks the build."},
    )
    open_comments = [(one["round"], one["sender_role"], one.get("line"), one["body"]) for one in found.open_comments]
    assert open_comments == [
        (1, "reviewer", 3, "body 1"),
        (2, "proposer", None, "body 2"),
        (2, "reviewer", None, "body 2"),
    ]
    assert peer.wait_for("get_discussion", 2)["page"] == "more"


def test_the_difference_is_since_the_round_that_was_reviewed_last(peer: Peer, tmp_path: Path) -> None:
    said = [entry("verdict", number, verdict="changes_requested") for number in (1, 2, 4)]
    peer.script["get_discussion"].append({"entries": [*said, entry("comment", 3)]})
    peer.script["get_proposal"].append(proposal(interdiff="+since"))
    assert gathered(peer, tmp_path, number=4).interdiff == "+since"
    assert peer.wait_for("get_proposal")["since_round"] == 2


@pytest.mark.parametrize("operation", ["get_discussion", "get_proposal"])
def test_a_refusal_costs_only_what_was_refused(peer: Peer, tmp_path: Path, operation: str) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    if operation == "get_proposal":
        peer.script["get_discussion"].append({"entries": [entry("verdict", 1, verdict="rejected")]})
    peer.script[operation].append(Refusal("INTERNAL_ERROR", "secret words"))
    found = gathered(peer, tmp_path)
    assert found.conventions is not None
    assert found.interdiff is None
    said = (tmp_path / "log").read_text()
    assert "INTERNAL_ERROR" in said
    assert "secret words" not in said


# ------------------------------------------------------------------------------------------------- conventions


def test_a_project_may_have_none(tmp_path: Path) -> None:
    assert read_conventions(str(tmp_path)) is None
    assert read_conventions(str(tmp_path / "gone")) is None


def test_all_of_them_are_read_in_order(tmp_path: Path) -> None:
    for name, text in (("CONTRIBUTING.md", "three"), ("AGENTS.md", "\ufeffone é\n"), ("CLAUDE.md", "two\n\n")):
        (tmp_path / name).write_text(text, "utf-8")
    assert (
        read_conventions(str(tmp_path)) == "[AGENTS.md]\n\none é\n\n[CLAUDE.md]\n\ntwo\n\n[CONTRIBUTING.md]\n\nthree\n"
    )


def test_of_a_long_one_the_beginning_is_read(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_bytes(b"\xff" + b"x" * (2 * FILE_LIMIT_BYTES))
    found = read_conventions(str(tmp_path))
    assert found is not None
    assert len(found) < FILE_LIMIT_BYTES + 100
    assert found.endswith(f"x\n[cut at {FILE_LIMIT_BYTES} bytes]\n")


@needs_links
def test_a_link_within_the_project_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Use tabs.")
    (tmp_path / "CLAUDE.md").symlink_to("AGENTS.md")
    assert read_conventions(str(tmp_path)) == "[AGENTS.md]\n\nUse tabs.\n"


@needs_links
def test_a_project_may_be_reached_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "AGENTS.md").write_text("Use tabs.")
    (tmp_path / "link").symlink_to("real")
    assert read_conventions(str(tmp_path / "link")) is not None


@needs_links
@pytest.mark.parametrize("target", ["../secret", "/etc/hostname", ".git/config", ".GIT/config", "docs/../../secret"])
def test_what_is_not_the_projects_is_not_read(tmp_path: Path, target: str) -> None:
    root = tmp_path / "root"
    for folder in (root / ".git", root / ".GIT", root / "docs"):
        folder.mkdir(parents=True, exist_ok=True)
    for file in (tmp_path / "secret", root / ".git" / "config", root / ".GIT" / "config"):
        file.write_text("a key")
    (root / "AGENTS.md").symlink_to(target)
    assert read_conventions(str(root)) is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="platform: pipes with names are of POSIX")
def test_what_is_no_file_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "AGENTS.md")
    (tmp_path / "CLAUDE.md").mkdir()
    (tmp_path / "CONTRIBUTING.md").write_text("three")
    assert read_conventions(str(tmp_path)) == "[CONTRIBUTING.md]\n\nthree\n"
