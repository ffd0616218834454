"""Waivers, their reviews after the fact and withdrawals at a terminal are about the round that was shown."""

from __future__ import annotations

import sys

import pytest

from tests.acceptance.checking import Checked
from tests.acceptance.reviewing import edited
from tests.acceptance.test_policy import have
from tests.acceptance.test_waivers import PERSON, WHY, in_a_line, waive


@pytest.mark.skipif(sys.platform == "win32", reason="platform: there are no pseudo-terminals")
def test_waivers_and_withdrawals_are_about_the_round_that_was_shown(project: Checked) -> None:
    have(project, PERSON)
    review, _ = project.submitted(diff=edited())
    assert waive(project, review, "person")["ok"]

    def at_terminal(*command: str) -> tuple[int, str]:
        return in_a_line(project, *command, "--agent", "bob")

    assert at_terminal("review", "show", review)[0] == 0
    project.revise(review, diff=edited(line=4))
    refused = "STALE_ROUND: You decide about round 1, which you were shown, and round 2 is the current one."
    status, shown = at_terminal("waive", review, "person", "--until", "3d", "--reason", WHY)
    assert (status, refused in shown) == (1, True), shown
    assert waive(project, review, "person")["ok"]
    settling, withdrawing = ("review", "settle", review, "approved"), ("review", "withdraw", review, "--reason", "Bad")
    for command in (settling, withdrawing):
        status, shown = at_terminal(*command)
        assert (status, refused in shown) == (1, True), shown
    after = project.status(review)
    assert (after["status"], len(after["owed"])) == ("approved", 1)
    assert at_terminal(*settling, "--round", "2")[0] == 0
    assert at_terminal("review", "show", review)[0] == 0
    assert at_terminal(*withdrawing)[0] == 0
