"""The checks of a review on its page: as they run, their logs, what the gate makes of them, and running them again."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, Request, expect

from tests.acceptance.checking import Checked, check
from tests.acceptance.reviewing import edited
from tests.modes import VARIATION
from tests.pages.changes import shown
from tests.pages.conftest import Check, OpenWindows, Shot
from tests.pages.plain import Plain
from tests.pages.test_every_page import assert_fits
from tests.pages.windows import Windows

FAILS = "print('<b>3</b> is \\x1b[31mnot\\u202e 4'); raise SystemExit(3)"


@pytest.fixture
def windows(checking: Checked, kept_windows: OpenWindows) -> Generator[Windows]:
    """Windows on that broker."""
    with kept_windows(checking.broker.url) as found:
        yield found


@pytest.fixture
def page(windows: Windows) -> Page:
    """A window of Ada's."""
    return windows.open()


def until(path: Path, status: int = 0) -> str:
    """A program that ends once there is a file."""
    return f"import pathlib, time\nwhile not pathlib.Path({str(path)!r}).exists(): time.sleep(0.02)\nexit({status})"


def row(page: Page, name: str) -> Locator:
    """A check's row."""
    return page.locator("#checks .check").filter(
        has=page.locator("strong", has_text=re.compile(f"^{re.escape(name)}$"))
    )


def test_checks_are_shown_as_they_run_and_their_logs_when_they_are_opened(
    page: Page, project: Checked, windows: Windows, tmp_path: Path, axe: Check, shot: Shot
) -> None:
    go = tmp_path / "go"
    project.have(
        check("unit tests", until(go, 0)), check("lint", FAILS, required=False), check("docs", "", paths=["docs/**"]),
        unconfined=True,
    )  # fmt: skip
    review = shown(page, project)
    expect(row(page, "unit tests")).to_contain_text("running")
    expect(row(page, "lint")).to_contain_text("failed")
    expect(row(page, "lint")).to_contain_text("not required")
    expect(row(page, "lint")).to_contain_text("exit status 3")
    expect(row(page, "docs")).to_contain_text("The change touches none of its paths.")
    closed = page.locator("#acts").get_by_text(
        "The gate stays closed until the required check “unit tests” has passed."
    )
    expect(closed).to_be_visible()

    asked: list[str] = []
    listener: Callable[[Request], None] = lambda request: asked.append(request.url)  # noqa: E731 - removed by name
    page.on("request", listener)
    row(page, "lint").get_by_text("Log", exact=False).first.click()
    log = row(page, "lint").locator("pre")
    expect(log).to_have_text("<b>3</b> is \\x1b[31mnot\\u202e 4\n")
    assert len([url for url in asked if "/checks/lint" in url]) == 1
    axe(page, "#checks")
    assert_fits(page)
    shot(page, "review-checks")

    go.touch()
    expect(row(page, "unit tests")).to_contain_text("passed")
    expect(closed).to_have_count(0)
    expect(log).to_be_visible()
    assert len([url for url in asked if "/checks/lint" in url]) == 1
    page.remove_listener("request", listener)
    expect(page.locator("#review-head")).to_contain_text("1 of 2 passed")
    dark = windows.open("grace", width=390, height=844, scheme="dark", at=f"/reviews/{review}")
    expect(row(dark, "lint")).to_contain_text("failed")
    axe(dark, "#checks", colours_only=True)
    shot(dark, "review-checks-narrow")


@VARIATION
def test_who_approves_reads_that_the_gate_stays_closed_and_runs_the_check_again(
    page: Page, project: Checked, tmp_path: Path, axe: Check, shot: Shot
) -> None:
    mended = tmp_path / "fixed"
    project.have(
        check("tests", f"import os; exit(not os.path.exists({str(mended)!r}))"), check("lint", ""), unconfined=True
    )
    created = project.put_up_whole(diff=edited())
    review = created["review_id"]
    project.ended(review)
    page.goto(f"/reviews/{review}")
    page.keyboard.press("c")
    acts = page.locator("#acts")
    expect(acts).to_contain_text("The gate stays closed: the required check “tests” has not passed. You can approve it")
    shot(page, "review-checks-verdict")
    axe(page, "#acts")
    page.keyboard.press("Shift+A")
    expect(acts).to_contain_text("Approved by ada")
    expect(acts).to_contain_text("The gate stays closed: the required check “tests” has not passed.")
    assert not project.is_open_for(created["digest"])

    mended.touch()
    row(page, "tests").get_by_role("button", name="Run again").click()
    expect(row(page, "tests")).to_contain_text("passed")
    expect(acts).not_to_contain_text("The gate stays closed")
    assert project.is_open_for(created["digest"])
    requested = [one for one in project.events(review) if one["kind"] == "checks_requested"]
    assert [(one["actor"], one["data"]["checks"]) for one in requested] == [
        ("broker", ["tests", "lint"]),
        ("ada", ["tests"]),
    ]
    stream = page.locator("#stream")
    expect(stream).to_contain_text("ada had checks run again: tests")
    expect(stream).to_contain_text("The check tests failed")


@VARIATION
def test_checks_that_nobody_trusts_say_what_to_do(page: Page, project: Checked, shot: Shot, axe: Check) -> None:
    project.have(check("tests", ""), trusted=False)
    shown(page, project)
    found = row(page, ".tandem/checks.toml")
    expect(found).to_contain_text("not run")
    expect(found).to_contain_text("No one has trusted its commands")
    expect(found).to_contain_text("tandem trust")
    expect(page.locator("#acts")).not_to_contain_text("The gate stays closed")
    axe(page, "#checks")
    shot(page, "review-checks-untrusted")
    project.trust(unconfined=True)
    page.get_by_role("button", name="Run the checks").click()
    expect(row(page, "tests")).to_contain_text("passed")


def test_checks_that_were_changed_keep_the_gate_closed_until_a_person_has_looked(page: Page, project: Checked) -> None:
    project.have(check("tests", ""), unconfined=True)
    project.have(check("tests", "print(1)"), trusted=False)
    shown(page, project)
    found = row(page, ".tandem/checks.toml")
    expect(found).to_contain_text("It changed since it was trusted")
    expect(found).to_contain_text("required")
    told = "The gate stays closed: the checks of .tandem/checks.toml cannot run."
    expect(page.locator("#acts")).to_contain_text(told)


def test_logs_are_read_and_checks_run_again_without_a_script(project: Checked) -> None:
    project.have(check("unit tests", FAILS), unconfined=True)
    review = project.put_up(diff=edited())
    project.ended(review)
    with Plain(project.url) as plain:
        plain.goto(f"/reviews/{review}").follow("Show the end of its output")
        assert plain.text("#check-log") == "<b>3</b> is \\x1b[31mnot\\u202e 4"
        plain.follow("Back to the review").press("Run again", within="#checks .check", told="unit tests")
        assert plain.url.endswith(f"/reviews/{review}")
    requested = [one["actor"] for one in project.events(review) if one["kind"] == "checks_requested"]
    assert requested == ["broker", "ada"]


@VARIATION
def test_a_review_without_checks_says_nothing_of_them(page: Page, project: Checked) -> None:
    shown(page, project)
    expect(page.locator("#acts")).to_be_visible()
    expect(page.locator("#checks")).to_be_empty()
