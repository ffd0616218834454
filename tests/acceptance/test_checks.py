"""Checks of a change before it is reviewed, and the gate that waits for them."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import cast

import pytest

from tandem.rulings.trust import CHECKS_FILE
from tests.acceptance.checking import PYTHON, Checked, check, checked, supervised, toml
from tests.acceptance.gating import staged
from tests.acceptance.reviewing import edited
from tests.acceptance.staffed import StaffedBroker, until
from tests.acceptance.tables import table
from tests.modes import VARIATION

NO_BETTER = "import sys; sys.exit('better' in open('a.txt').read())"
CALM = check("calm", "print('calm')")


def decision(project: Checked, digest: str) -> tuple[bool, str | None]:
    """The gate's answer to a digest: whether it is allowed, and the code."""
    answer = project.do("check_gate", digest=digest)
    return answer["allowed"], answer["code"]


def test_p2_a_required_check_that_failed_keeps_the_gate_closed(project: Checked) -> None:
    project.have(check("tests", NO_BETTER), CALM)
    review, digest = project.submitted(diff=edited())
    assert project.statuses(review) == {"tests": "failed", "calm": "passed"}
    assert project.log(review, "calm") == "calm\n"
    project.approve(review)
    assert project.status(review)["checks"] == "failed"
    assert decision(project, digest) == (False, "CHECK_FAILED")
    project.repo.write("a.txt", project.repo.read("a.txt").replace(b"line 2\n", b"better\n"))
    changes = staged(project.repo)
    asked = project.do("check_gate", changes=changes)
    assert (asked["allowed"], asked["code"]) == (False, "CHECK_FAILED")
    assert "'tests' failed" in asked["paths"][0]["reason"]
    # A person may let it through all the same, on record.
    project.override(changes=changes, reason="The check is wrong.")
    assert project.do("check_gate", changes=changes)["allowed"]
    # The correction passes.
    mended = project.revise(review, diff=edited(text="good"))
    assert project.statuses(review) == {"tests": "passed", "calm": "passed"}
    project.approve(review)
    assert decision(project, mended["digest"]) == (True, None)
    assert {"checks_requested", "check_started", "check_finished"} <= {*project.kinds(review)}


def test_the_gate_does_not_wait_for_a_check_that_is_not_required_or_does_not_apply(project: Checked) -> None:
    project.have(check("extra", "raise SystemExit(1)", required=False), check("docs", "1", paths=["docs/**"]))
    review, digest = project.submitted(diff=edited())
    assert project.statuses(review) == {"extra": "failed", "docs": "skipped"}
    project.approve(review)
    assert decision(project, digest) == (True, None)


def test_a_change_to_the_file_is_judged_by_the_old_one(project: Checked) -> None:
    project.have(check("old", "print('old')"))
    project.repo.write(CHECKS_FILE, toml(check("new", "print('new')")))
    project.repo.write("a.txt", "other\n")
    review = project.put_up(diff=project.repo.diff())
    assert project.statuses(review) == {"old": "passed"}


def test_an_old_base_is_no_way_around_newer_checks(project: Checked) -> None:
    old = project.repo.head()
    project.have(check("tests", NO_BETTER))
    project.do("set_gate", enabled=True, branches=["main"])
    review, digest = project.submitted(diff=edited(), base=old)
    assert project.statuses(review) == {"tests": "failed"}
    project.approve(review)
    assert decision(project, digest) == (False, "CHECK_FAILED")


def test_nothing_runs_that_nobody_has_trusted(project: Checked, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    touch = check("touch", f"open({str(ran)!r}, 'w')")
    project.have(touch, trusted=False)
    created = project.put_up_whole(diff=edited())
    [found] = project.ended(created["review_id"]).values()
    assert (found["status"], found["required"]) == ("skipped", False)
    assert "tandem trust" in found["reason"]
    project.approve(created["review_id"])
    assert decision(project, created["digest"]) == (True, None)
    # Once it was trusted, another content does not quietly stop to be run: it keeps the gate closed.
    project.trust()
    project.have(check("touch", "pass"), trusted=False)
    created = project.put_up_whole(diff=edited(text="more"))
    [found] = project.ended(created["review_id"]).values()
    assert (found["status"], found["required"]) == ("error", True)
    project.approve(created["review_id"])
    assert decision(project, created["digest"]) == (False, "CHECK_FAILED")
    project.trust()
    project.do("run_checks", review_id=created["review_id"])
    assert project.ended(created["review_id"])["touch"]["status"] == "passed"
    # The row that stood for the untrusted file is settled, too.
    assert decision(project, created["digest"]) == (True, None)
    assert not ran.exists()


def test_a_file_that_is_none_says_what_is_wrong(project: Checked) -> None:
    project.have(CALM)
    project.repo.write(CHECKS_FILE, "[[check]]\nname = 'x'\ncommand = 'make'\n")
    project.repo.commit("broken")
    [found] = project.ended(project.put_up(diff=edited())).values()
    assert found["status"] == "error"
    assert "check.0.command" in found["reason"]


def test_the_ends_of_lines_of_the_file_do_not_count(project: Checked) -> None:
    project.repo.write(".gitattributes", "*.toml text eol=crlf\n")
    project.have(CALM, trusted=False)
    (project.repo.root / CHECKS_FILE).unlink()
    project.repo.git("checkout", "--", CHECKS_FILE)
    assert b"\r\n" in project.repo.read(CHECKS_FILE)
    project.trust()
    assert project.statuses(project.put_up(diff=edited())) == {"calm": "passed"}


def test_the_same_check_of_the_same_tree_runs_once(project: Checked) -> None:
    project.have(check("count", "import time; print(time.time_ns())"))
    first = project.put_up(diff=edited())
    project.ended(first)
    second = project.put_up(diff=edited())
    found = project.ended(second)["count"]
    assert first in found["reason"]
    assert project.log(second, "count") == project.log(first, "count")
    # Asked for again, it runs.
    project.do("run_checks", review_id=second)
    project.ended(second)
    assert project.log(second, "count") != project.log(first, "count")


SARIF = """
import json, sys
text = open("a.txt").read().splitlines()
if "crash" in text:
    sys.exit("It crashed.")
found = [{"ruleId": "E1", "level": "error", "message": {"text": "No more lines."}, "locations": [{"physicalLocation":
    {"artifactLocation": {"uri": "a.txt"}, "region": {"startLine": number}}}]}
    for number, line in enumerate(text, 1) if line == "bad"]
print("one line before")
json.dump({"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "lint"}}, "results": found}]}, sys.stdout)
sys.exit(bool(found))
"""


def test_what_a_check_reports_is_found_at_its_lines_and_mended_once_it_is_gone(project: Checked) -> None:
    project.have(check("lint", SARIF))
    review = project.put_up(diff=edited(text="bad"))
    assert project.ended(review)["lint"]["status"] == "failed"
    (found,) = project.do("list_findings", review_id=review)["findings"]
    assert (found["source"], found["author"], found["severity"], found["category"]) == ("check", "lint", "major", "E1")
    assert (found["file"], found["line"], found["blocking"]) == ("a.txt", 2, False)
    other = project.put_up(diff=edited(text="bad"), phase="2")
    project.ended(other)
    assert [one["claim"] for one in project.do("list_findings", review_id=other)["findings"]] == [found["claim"]]
    project.revise(review, diff=edited(text="crash"))
    assert project.ended(review)["lint"]["status"] == "failed"
    assert [one["state"] for one in project.do("list_findings", review_id=review)["findings"]] == ["open"]
    project.revise(review, diff=edited(text="good"))
    assert project.ended(review)["lint"]["status"] == "passed"
    (corrected,) = project.do("list_findings", review_id=review)["findings"]
    assert (corrected["finding_id"], corrected["state"]) == (found["finding_id"], "verified")
    # It comes back with a content that is checked again, and with one whose result is known.
    for diff in (edited(text="bad", line=3), edited(text="good"), edited(text="bad")):
        project.revise(review, diff=diff)
        project.ended(review)
        (again,) = project.do("list_findings", review_id=review)["findings"]
        assert again["state"] == ("verified" if "good" in diff else "reopened")


def test_a_setup_is_made_once_for_each_content_of_its_files(project: Checked) -> None:
    make = (
        "import os, time; open(os.environ['TANDEM_SETUP'] + '/made', 'w').write(str(time.time_ns())); open('left', 'w')"
    )
    use = (
        "import os; folder = os.environ['TANDEM_SETUP']; print(open(folder + '/made').read(), os.path.exists('left'))\n"
        "try: open(folder + '/made', 'w')\nexcept OSError: print('read-only')"
    )
    setup = {"files": ["a.txt"], "command": [PYTHON, "-c", make]}
    project.repo.write("b.txt", "1\n")
    project.have(check("use", use, setup=setup))
    logs: list[str] = []
    for name, text in (("b.txt", "2\n"), ("b.txt", "3\n"), ("a.txt", "new\n")):
        project.repo.write(name, text)
        # Nothing of the round but the files that it names is there for a setup.
        project.repo.write("left", "of the round\n")
        project.repo.git("add", "--intent-to-add", "left")
        review = project.put_up(diff=project.repo.diff())
        assert project.statuses(review) == {"use": "passed"}, project.log(review, "use")
        logs.append(project.log(review, "use"))
        project.repo.git("reset", "--quiet", "--hard")
    assert logs[0] == logs[1] != logs[2]
    assert all(log.split()[1:] == ["True", "read-only"] for log in logs)
    fail = [PYTHON, "-c", "print('no'); raise SystemExit(3)"]
    project.have(check("use", use, setup={"files": ["a.txt"], "command": fail}))
    review = project.put_up(diff=edited())
    [found] = project.ended(review).values()
    assert (found["status"], "exit status 3" in found["reason"]) == ("error", True)
    assert project.log(review, "use") == "no\n"


SECRET = "for the broker's eyes only"
HOSTILE: dict[str, dict[str, str]] = table("hostile_checks")


@pytest.mark.timeout(300)
def test_a_hostile_check_is_stopped_and_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEM_SECRET", SECRET)
    outside = Path("/etc/tandem-was-here")
    with checked(tmp_path, check_disk_bytes=20_000_000) as project:
        port = project.broker.port

        def code(text: str) -> str:
            key = str(project.broker.secret_key)
            return text.replace("PORT", str(port)).replace("SECRET_KEY", key).replace("OUTSIDE", str(outside))

        # Long enough for a busy machine: what ends the others is not their time.
        limits = {"hangs": 2, "ignores": 2}
        project.have(
            *(check(name, code(one["code"]), timeout_seconds=limits.get(name, 90)) for name, one in HOSTILE.items())
        )
        review = project.put_up(diff=edited())
        found = project.ended(review)
        for name, wanted in HOSTILE.items():
            one = found[name]
            assert one["status"] == wanted["status"], (one, project.log(review, name))
            assert wanted["reason"] in (one["reason"] or ""), one
        assert "File too large" in project.log(review, "fills")
        assert "Connection refused" in project.log(review, "opens a socket")
        assert "Error: [Errno" in project.log(review, "reads the key")
        assert not outside.exists()
        # Nothing of them is left.
        assert not _running(project)
        assert not any((project.broker.data_dir / "checks").glob("run-*/tmp"))


def _running(project: Checked) -> bool:
    """Whether processes of checks of this project run; read from the kernel, as psutil takes a second for a look."""
    mark = str(project.broker.data_dir / "checks").encode()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in environment.read_bytes():
                return True
    return False


def test_a_check_that_a_kill_cut_short_runs_again_and_leaves_nothing_as_a_setup_at_a_stop(tmp_path: Path) -> None:
    wait = "import time; time.sleep(600)"
    with checked(tmp_path) as project:
        project.have(check("long", wait))
        review = project.put_up(diff=edited())
        until(lambda: "check_started" in project.kinds(review) and _running(project), "it runs")
        project.broker.kill()
        project.broker.start()
        until(lambda: project.kinds(review).count("check_started") >= 4 and _running(project), "it runs again")
        assert project.status(review)["checks"] == "pending"
        project.do("close_review", review_id=review)
        # Nothing comes of it any more: it is ended, and makes room for others.
        until(lambda: project.kinds(review)[-1] == "check_finished", "it is skipped")
        until(lambda: not _running(project), "it is ended")
        project.have(check("long", "pass", setup={"files": ["a.txt"], "command": [PYTHON, "-c", wait]}))
        review = project.put_up(diff=edited(text="other"))
        until(lambda: _running(project), "its setup runs")
        project.broker.stop()
        assert not _running(project)
        assert not any((project.broker.data_dir / "checks").glob("run-*"))
        project.broker.start()
        [found] = project.do("list_checks", review_id=review)["checks"]
        assert found["status"] in {"queued", "running"}


def test_without_bubblewrap_it_takes_a_trust_of_its_own(tmp_path: Path) -> None:
    with checked(tmp_path, confined=False) as project:
        project.have(CALM)
        review = project.put_up(diff=edited())
        [found] = project.ended(review).values()
        assert (found["status"], "bubblewrap" in found["reason"]) == ("error", True)
        project.trust(unconfined=True)
        project.do("run_checks", review_id=review)
        assert project.statuses(review) == {"calm": "passed"}


def test_a_pools_reviewer_waits_for_the_checks_and_is_told_of_them(tmp_path: Path) -> None:
    with checked(tmp_path, of=StaffedBroker) as project:
        broker = cast("StaffedBroker", project.broker)
        project.have(check("tests", "import time; time.sleep(2); print('the log'); raise SystemExit(7)"))
        review = project.put_up(diff=edited(), intent="approve")
        [run] = broker.runs(review) or [broker.running(review)]
        assert project.statuses(review) == {"tests": "failed"}
        assert '"exit_status": 7' in run["prompt"]
        assert "the log" in run["prompt"]


def test_of_two_brokers_one_runs_a_check(tmp_path: Path, postgres_url: str) -> None:
    with checked(tmp_path, database_url=postgres_url) as project, project.another("two") as other:
        project.have(check("tests", "import time; time.sleep(1); print('once')"), CALM)
        reviews = [desk.put_up(diff=edited(text=f"{number}")) for number, desk in enumerate((project, other))]
        for review in reviews:
            assert project.statuses(review) == {"tests": "passed", "calm": "passed"}
            events = [one["data"] for one in project.events(review) if one["kind"] == "check_started"]
            runners = {(one["check"], one["runner"]) for one in events if one["tree"]}
            assert len(runners) == 2


def test_p8_no_result_is_believed_that_the_broker_does_not_have_itself(tmp_path: Path) -> None:
    with checked(tmp_path, checks_at_once=0) as project:
        project.have(CALM)
        review, digest = project.submitted(diff=edited())
        report = {"review_id": review, "round": 1, "name": "calm", "runner": "me"}
        project.refused("FORBIDDEN", "report_check", **report, status="passed")
        assert project.do("list_checks", review_id=review)["outcome"] == "pending"
        # The gate waits for it.
        project.approve(review)
        assert decision(project, digest) == (False, "CHECK_PENDING")
        assert project.status(review)["checks"] == "pending"
        project.broker.assert_intact()
        project.broker.stop()
        with closing(sqlite3.connect(project.broker.data_dir / "tandem.db")) as database, database:
            database.execute("UPDATE checks SET status = 'passed'")
        assert project.broker.audited().status != 0


@VARIATION
def test_a_supervisor_with_a_token_runs_checks(tmp_path: Path) -> None:
    with checked(tmp_path, auth="token", checks_at_once=0) as project:
        project.have(CALM)
        review = project.put_up(diff=edited())
        token = project.do_unscoped("create_token", name="helen", roles=["supervisor"])["token"]
        with supervised(project, token):
            assert project.statuses(review) == {"calm": "passed"}
            [found] = project.ended(review).values()
            assert found["runner"].startswith("checks-")
