"""Checks at the command line: as they run, how they ended, and what a wait for a verdict makes of them."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.acceptance.checking import Checked, check, checked
from tests.commandline import Inside, Shell, finish
from tests.forked import Started

PASSES = "print('all is well')"
FAILS = "print(*range(40), sep='\\n'); print('3 is not \\x1b[31m4'); raise SystemExit(3)"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Checked]:
    """A project whose checks run as the broker does, so that they see what a test makes."""
    with checked(tmp_path, confined=False) as found:
        monkeypatch.chdir(found.repo.root)
        yield found


@pytest.fixture
def tandem(project: Checked) -> Inside:
    return Inside(project.broker.url, project.repo.root)


def until(path: Path) -> str:
    """A program that ends once there is a file."""
    return f"import pathlib, time\nwhile not pathlib.Path({str(path)!r}).exists(): time.sleep(0.02)"


def begun(project: Checked, *options: str) -> Started:
    """A submitted change whose verdict is waited for."""
    project.repo.write("a.txt", "better\n")
    shell = Shell(project.broker.url, project.repo.root)
    return shell.start("submit", "-m", "Better", "--wait", "--timeout", "60", *options)


def waiting_review(project: Checked) -> str:
    """The review that was just submitted."""
    found = project.do("list_reviews", status="pending")
    while not found["reviews"]:
        found = project.do("list_reviews", status="pending", wait=True, cursor=found["cursor"], timeout_s=10)
    return found["reviews"][0]["review_id"]


def test_a_wait_shows_the_checks_and_ends_with_what_failed_and_they_are_listed_read_and_run_again(
    project: Checked, tandem: Inside
) -> None:
    project.have(
        check("unit tests", FAILS),
        check("lint", PASSES),
        check("docs", PASSES, paths=["docs/**"]),
        check("style", "raise SystemExit(1)", required=False),
        unconfined=True,
    )
    process = begun(project)
    review = waiting_review(project)
    assert project.statuses(review) == {
        "unit tests": "failed", "lint": "passed", "docs": "skipped", "style": "failed"
    }  # fmt: skip
    project.approve(review)
    ended = finish(process)
    assert ended.status == 10, ended.stderr
    said = ended.stderr
    assert "check 'unit tests' failed" in said
    assert "check 'lint' passed" in said
    assert "check 'style' failed" in said
    end = said[said.index("The gate stays closed") :]
    assert "The gate stays closed: check 'unit tests' failed" in end
    assert "exit status 3" in end
    assert "\n  39\n  3 is not \\u001b[31m4\n" in end
    assert "\n  20\n" not in end
    assert f"tandem checks log {review} 'unit tests'" in end
    assert f"tandem checks run {review}" in ended.stdout
    assert "style" not in end
    assert re.search(r"^checks +failed *$", ended.stdout, re.MULTILINE), ended.stdout
    listed = tandem.run("checks", "list", review)
    assert listed.status == 0
    row = next(line for line in listed.stdout.splitlines() if "exit status 3" in line)
    assert row.split()[:4] == ["unit", "tests", "failed", "required"]
    assert "The change touches none of its paths." in listed.stdout
    assert f"tandem checks log {review} 'unit tests'" in listed.stdout
    assert tandem.run("checks", "list", review, "--wait").status == 10
    log = tandem.run("checks", "log", review, "unit tests").stdout
    assert log.startswith("unit tests  failed")
    assert log.endswith("39\n3 is not \\u001b[31m4\n")
    again = tandem.run("checks", "run", review, "--checks", "unit tests", "--json").data
    assert {one["name"]: one["reason"] for one in again["checks"]}["unit tests"] == "It was asked for again."
    project.ended(review)
    for command in (("review", "status"), ("review", "show")):
        shown = tandem.run(*command, review).stdout
        assert "unit tests" in shown
        assert "exit status 3" in shown
    unknown = tandem.run("checks", "log", review, "nothing")
    assert (unknown.status, "unit tests, lint, docs, style" in unknown.stderr) == (1, True)
    unknown = tandem.run("checks", "run", review, "--checks", "lin", "--checks", "docs")
    said = f"There is no check 'lin' in .tandem/checks.toml of the base branch of '{review}'; it has: docs, lint, style"
    assert (unknown.status, f"{said}, unit tests. Did you mean 'lint'?" in unknown.unwrapped) == (1, True), unknown
    refused = tandem.run("checks", "list", "--cursor", "bogus")
    assert (refused.status, "This is no cursor" in refused.stderr) == (1, True)
    misused = tandem.run("checks", "list", "--wait", "--timeout", "nan")
    assert (misused.status, "--timeout" in misused.stderr) == (2, True)


def test_an_approval_counts_once_the_required_checks_have_passed(
    project: Checked, tandem: Inside, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    project.have(check("tests", until(go)), unconfined=True)
    waiting = begun(project, "--json")
    review = waiting_review(project)
    project.approve(review)
    assert tandem.run("review", "status", review, "--wait", "--timeout", "0.2").status == 12
    pending = tandem.run("checks", "list", review, "--wait", "--timeout", "0.2")
    assert pending.status == 12
    assert "the gate stays closed" in pending.stdout
    go.touch()
    ended = finish(waiting)
    assert (ended.status, ended.data["status"], ended.data["checks"]) == (0, "approved", "passed"), ended.stderr
    assert "check 'tests' runs" in ended.stderr
    assert "check 'tests' passed" in ended.stderr
    assert tandem.run("checks", "list", review, "--wait").status == 0
    assert tandem.run("review", "status", review, "--wait").status == 0


@pytest.mark.parametrize(
    ("trusted_before", "status", "why"), [(False, 0, ""), (True, 14, "It changed since it was trusted")]
)
def test_a_wait_says_that_the_checks_are_not_trusted(
    project: Checked, *, trusted_before: bool, status: int, why: str
) -> None:
    if trusted_before:
        project.have(check("tests", PASSES), unconfined=True)
    project.have(check("tests", FAILS), trusted=False)
    process = begun(project)
    project.approve(waiting_review(project))
    ended = finish(process)
    assert ended.status == status
    assert f"the checks of .tandem/checks.toml do not run: {why}" in ended.stderr
    assert ("The gate stays closed" in ended.stderr) == trusted_before
    assert "tandem trust" in ended.stderr
