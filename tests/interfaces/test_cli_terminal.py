"""What a person at a terminal sees, and what a pipe is spared."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime

import pytest

from tandem.cli.render import parts
from tests.commandline import Shell
from tests.repository.terminal import at_a_terminal

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def shown_at_a_terminal(shell: Shell, *arguments: str, **more: str) -> tuple[int, str]:
    """Run a command at a pseudo-terminal with colours; its exit status and everything that was shown."""
    told = {"TERM": "xterm-256color", "TANDEM_BROKER": shell.url, **more}
    return at_a_terminal(arguments, shell.cwd, **told)


@pytest.mark.skipif(sys.platform == "win32", reason="platform: there are no pseudo-terminals")
def test_diffs_are_coloured_at_a_terminal_only(shell: Shell) -> None:
    review_id = shell.run("submit", "-m", "m", "--json").data["review_id"]
    status, shown = shown_at_a_terminal(shell, "review", "proposal", review_id)
    assert status == 0
    assert "\x1b[32m+2" in shown
    assert "\x1b[31m-two" in shown
    piped = shell.run("review", "proposal", review_id).stdout
    assert "\x1b" not in piped
    assert "\n-two\n+2\n" in piped.replace(" \n", "\n").replace(" ", "")


@pytest.mark.skipif(sys.platform == "win32", reason="platform: there are no pseudo-terminals")
def test_long_waits_show_that_they_are_alive_at_a_terminal_only(shell: Shell) -> None:
    status, shown = shown_at_a_terminal(shell, "submit", "-m", "m", "--wait", "--timeout", "2")
    assert status == 12
    assert "waiting for the verdict" in shown
    assert "0:00:0" in shown
    piped = shell.run("submit", "-m", "m", "--wait", "--timeout", "2")
    assert piped.status == 12
    assert "waiting for the verdict" not in piped.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="platform: there are no pseudo-terminals")
def test_a_key_is_asked_for_without_being_shown_and_its_token_is_not_broken(shell: Shell) -> None:
    place = ("--project", "prompting", "--new")
    status, made = shown_at_a_terminal(shell, "cycle", "init", *place, COLUMNS="30")
    assert status == 0
    [gemini, _] = re.findall(r"psk_[\w-]{43}", made)
    options = ("session", "open", "gemini", *place)
    status, opened = shown_at_a_terminal(shell, *options, typed=f"{gemini}\n", after="Key of gemini: ", COLUMNS="30")
    assert (status, "Key of gemini: " in opened, gemini in opened) == (0, True, False)
    [token] = re.findall(r"sess_[0-9a-z_]{90,}", opened)
    assert shell.run("session", "close", "--session-token", token, *place).status == 0


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("2026-11-21T11:59:58Z", "2 s ago"),
        ("2026-11-21T11:57:00Z", "3 min ago"),
        ("2026-11-21T12:20:00Z", "in 20 min"),
        ("2026-11-21T09:00:00Z", "3 h ago"),
        ("2026-11-19T12:00:00Z", "2 d ago"),
        ("2026-01-02T12:00:00Z", "2026-01-02"),
        (None, ""),
    ],
)
def test_times_are_said_as_people_say_them(at: str | None, said: str) -> None:
    assert parts.ago(at, now=NOW) == said


def test_a_digest_is_shortened_but_a_texts_is_not() -> None:
    assert parts.digest("0123456789abcdef" * 4) == "0123456789ab"
    assert parts.digest("0" * 40 + ":PLAN.md") == "0" * 40 + ":PLAN.md"
    assert parts.digest(None) == "none"
