"""`tandem open`: the browser that the person has gets the address of the page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.commandline import Inside, Shell, finish
from tests.modes import VARIATION

NO_DISPLAY: dict[str, Any] = {"BROWSER": "", "DISPLAY": "", "WAYLAND_DISPLAY": "", "SSH_CONNECTION": ""}
OVER_SSH: dict[str, Any] = {**NO_DISPLAY, "SSH_CONNECTION": "192.0.2.7 51234 192.0.2.1 22"}

pytestmark = pytest.mark.skipif(os.name == "nt", reason="platform: a script is the browser")


class Person:
    """Somebody whose browser notes the addresses that it is given."""

    def __init__(self, folder: Path) -> None:
        self.notes = folder / "addresses.txt"
        self.browser = folder / "browser"
        self.browser.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> {self.notes}\n', "utf-8")
        self.browser.chmod(0o755)

    @property
    def visited(self) -> list[str]:
        return self.notes.read_text("utf-8").splitlines() if self.notes.exists() else []


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


def test_opens_the_inbox_and_says_where_it_is(tandem: Inside, person: Person) -> None:
    done = finish(Shell(tandem.url, tandem.cwd).start("open", BROWSER=str(person.browser)))
    assert (done.status, done.stdout, done.stderr) == (0, f"{tandem.url}/\n", "")
    assert person.visited == [f"{tandem.url}/"]


def test_opens_a_review_by_its_id(tandem: Inside, person: Person) -> None:
    review_id = tandem.created()
    done = finish(Shell(tandem.url, tandem.cwd).start("open", review_id, "--json", BROWSER=str(person.browser)))
    address = f"{tandem.url}/reviews/{review_id}"
    assert done.data == {"url": address, "opened": True, "started": False}
    assert person.visited == [address]


def test_a_review_that_is_not_there_opens_nothing(tandem: Inside, person: Person) -> None:
    done = finish(Shell(tandem.url, tandem.cwd).start("open", "nowhere", BROWSER=str(person.browser)))
    assert (done.status, done.stdout, person.visited) == (1, "", [])
    assert "NOT_FOUND" in done.stderr


def test_only_prints_the_address_when_told_so(tandem: Inside, person: Person) -> None:
    tandem.run("review", "create", "--intent", "i", "--project", "web shop & more", "--new")
    done = tandem.run("open", "--print", "--project", "web shop & more", BROWSER=str(person.browser))
    assert (done.status, done.stdout) == (0, f"{tandem.url}/?project=web+shop+%26+more\n")
    misspelt = tandem.run("open", "--project", f"{tandem.project}x", BROWSER=str(person.browser))
    assert (misspelt.status, misspelt.stdout) == (1, "")
    assert (f"Did you mean '{tandem.project}'?" in misspelt.stderr, "--new" in misspelt.stderr) == (True, False)
    assert person.visited == []


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        pytest.param(
            NO_DISPLAY,
            "no display here",
            marks=pytest.mark.skipif("sys.platform == 'darwin'", reason="platform: there always is a display"),
        ),
        (OVER_SSH, "ssh -N -L {port}:127.0.0.1:{port}"),
        ({"BROWSER": "/no/browser"}, "No browser could be started"),
    ],
)
def test_where_no_browser_opens_the_address_is_printed_with_the_reason(
    tandem: Inside, environment: dict[str, Any], said: str
) -> None:
    done = finish(Shell(tandem.url, tandem.cwd).start("open", **environment))
    assert (done.status, done.stdout) == (0, f"{tandem.url}/\n")
    assert said.format(port=httpx.URL(tandem.url).port) in done.stderr


@VARIATION
def test_a_broker_that_does_not_run_is_started_first(tmp_path: Path, person: Person) -> None:
    own = {"TANDEM_DATA_DIR": str(tmp_path / "data"), "TANDEM_PORT": "0", "BROWSER": str(person.browser)}
    shell = Shell("", tmp_path)
    try:
        done = finish(shell.start("open", "--json", **own))
        assert done.data["started"] is True
        assert person.visited == [done.data["url"]]
        assert httpx.get(f"{done.data['url']}healthz", trust_env=False).json()["ok"] is True
    finally:
        assert finish(shell.start("down", **own)).status == 0


def test_a_broker_that_was_named_and_is_away_is_not_started(tmp_path: Path, person: Person) -> None:
    done = finish(Shell("http://127.0.0.1:9", tmp_path).start("open", BROWSER=str(person.browser)))
    assert (done.status, person.visited) == (3, [])
    assert "http://127.0.0.1:9" in done.stderr


def test_a_review_and_a_project_are_one_too_many(tandem: Inside) -> None:
    assert tandem.run("open", "some-review", "--project", "shop").status == 2
