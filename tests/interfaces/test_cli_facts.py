"""Everything that an answer says reaches the terminal: what an event tells, a review's rounds, others' own facts."""

from __future__ import annotations

import json
import re
import sys

import pytest

from tandem.bridge.operations import OPERATIONS
from tandem.cli.table import COMMANDS
from tests.commandline import DIFF, Inside, git
from tests.modes import VARIATION
from tests.repository.terminal import at_a_terminal

METADATA = {"ticket": "X-1", "status": "approved\nby me", "parts": ["a", True, None]}
PYTHON = re.compile(r"\bNone\b|\bTrue\b|\bFalse\b|\['")
OPTIONS = ("--diff", DIFF, "--metadata", json.dumps(METADATA))


def lines(text: str) -> list[str]:
    """The lines, with single blanks."""
    return [" ".join(line.split()) for line in text.splitlines()]


def countered(tandem: Inside) -> str:
    """A review whose second round is a counter-patch by carol that dora accepted."""
    created = tandem.run("review", "create", "--intent", "Count in digits", *OPTIONS, "--agent", "bot", "--json")
    review: str = created.data["review_id"]
    tandem.run("review", "claim", review, "--reviewer-id", "carol")
    stated = ("--verdict", "changes_requested", "--reviewer-id", "carol", "--reason", "Not quite\nyet")
    given = tandem.run("review", "verdict", review, *stated, "--counter-patch", DIFF.replace("+2", "+3"), "--json").data
    assert tandem.run("review", "patch", "accept", review, given["counter_patch_id"], "--agent", "dora").status == 0
    return review


def test_the_log_and_the_timeline_show_what_each_event_says(tandem: Inside) -> None:
    review = countered(tandem)
    claim = str(tandem.run("review", "claim", review, "--reviewer-id", "carol", "--json").data["claim_generation"])
    released = tandem.run("review", "release", review, "--claim-generation", claim, "--reason", "I am away")
    assert released.status == 0, released
    for command in (("review", "timeline", review), ("audit", "log")):
        shown = tandem.run(*command).stdout
        (verdict,) = (line for line in lines(shown) if " verdict_submitted " in line)
        (given_back,) = (line for line in lines(shown) if " claim_released " in line)
        assert "verdict changes_requested reason Not quite\\nyet round 1" in verdict
        assert "reason I am away" in given_back
        assert "validated yes" in shown
        assert not PYTHON.search(shown), shown


def test_a_review_is_shown_with_its_rounds_and_who_accepted_a_counter_patch(tandem: Inside) -> None:
    shown = lines(tandem.run("review", "show", countered(tandem)).stdout)
    head = shown.index("round origin author accepted by created decision")
    assert [re.sub(r"\d+ s ago", "now", line) for line in shown[head + 2 : head + 4]] == [
        "1 proposal bot now changes_requested",
        "2 counter_patch carol dora now",
    ]
    assert "│ accepted by dora │" in shown
    (entry,) = (line for line in shown if "carol reviewer, round 1" in line and "counter-patch" in line)
    assert entry.endswith(" accepted")


def test_facts_that_the_proposer_added_are_shown_and_are_none_of_ours(tandem: Inside) -> None:
    review = countered(tandem)
    for command in ("show", "proposal"):
        shown = lines(tandem.run("review", command, review, "--round", "1").stdout)
        assert "│ metadata ticket X-1 │" in shown
        assert '│ metadata parts ["a", true, null] │' in shown
        assert "│ metadata status approved │" in shown
    said = ("--sender-role", "proposer", "--body", "So it is", "--metadata", '{"see": "X-2"}')
    assert tandem.run("review", "message", review, *said).status == 0
    assert "metadata see X-2" in lines(tandem.run("review", "discussion", review).stdout)


def test_a_gate_says_in_words_that_a_path_was_approved_only_with_others(tandem: Inside) -> None:
    both = DIFF + "diff --git a/b.txt b/b.txt\nnew file mode 100644\n--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1 @@\n+b\n"
    created = tandem.run("review", "create", "--intent", "Both", "--diff", both, "--agent", "bot", "--json")
    review = created.data["review_id"]
    assert tandem.run("review", "approve", review, "--agent", "alice").status == 0
    (tandem.cwd / "a.txt").write_bytes(b"one\n2\n")
    git(tandem.cwd, "add", "a.txt")
    shown = tandem.run("gate", "check").stdout
    assert f"in part  a.txt  {review}  approved by" in shown
    assert not PYTHON.search(shown)


def test_closed_reviews_are_not_counted_as_open(tandem: Inside) -> None:
    tandem.created()
    tandem.run("review", "close", tandem.created())
    assert "open now 1 pending" in lines(tandem.run("review", "stats").stdout)


def test_a_setting_without_a_value_says_so(tandem: Inside) -> None:
    shown = lines(tandem.run("project", "settings", "--project", tandem.project).stdout)
    assert {"database_url (none) default", "fast_path true default"} <= {*shown}
    assert "gate_exempt .planning/STATE.md, .planning/ROADMAP.md, " in "\n".join(shown)


def test_the_path_of_a_login_is_alone_in_its_line(tandem: Inside) -> None:
    assert tandem.run("token", "login").stdout == "/\n"


def test_facts_with_the_names_of_a_dictionarys_methods_are_shown_as_any_others(tandem: Inside) -> None:
    odd = {name: {name: 1} for name in ("items", "get", "keys", "__class__", "at")}
    created = tandem.run("review", "create", "--intent", "x", "--diff", DIFF, "--metadata", json.dumps(odd), "--json")
    shown = tandem.run("review", "show", created.data["review_id"])
    assert shown.status == 0, shown
    for name in odd:
        assert f'│ metadata {name} {{"{name}": 1}} │' in lines(shown.stdout)


@VARIATION
def test_the_help_of_every_command_fits_a_narrow_terminal_and_an_operations_teaches_by_example(tandem: Inside) -> None:
    operations = {f"{one.noun} {one.verb}" for one in OPERATIONS.values()}
    assert operations <= COMMANDS.keys()
    for words, command in COMMANDS.items():
        ended = tandem.run(*words.split(), "--help", COLUMNS="80", TERMINAL_WIDTH="80")
        assert ended.status == 0, words
        shown = ended.stdout
        missing = {name for one in command.parameters if not one.hidden for name in one.names if name not in shown}
        assert missing == set(), words
        for one in command.parameters:
            if one.needed and not one.names:
                assert f"[{one.metavar}]" not in shown
        if words in operations:
            assert f"tandem {words}" in shown.partition("Examples")[2], words
            assert "--json" in shown, words


def test_a_name_cannot_break_its_line(tandem: Inside) -> None:
    review = tandem.created("--proposer-id", "eve\nrv_0 approved")
    row = next(line for line in tandem.run("review", "list").stdout.splitlines() if review in line)
    assert "eve\\nrv_0 approved" in row


WIDE = (
    ("review", "stats"),
    ("review", "list", "--all"),
    ("review", "feed"),
    ("review", "search"),
    ("audit", "log"),
    ("inbox", "show", "--person", "ann"),
    ("cycle", "list"),
    ("reviewers", "list"),
)


@pytest.mark.skipif(sys.platform == "win32", reason="platform: there are no pseudo-terminals")
@pytest.mark.parametrize("width", [40, pytest.param(100, marks=VARIATION)])
def test_a_table_fits_the_terminal_with_its_head_over_its_columns(tandem: Inside, width: int) -> None:
    review = countered(tandem)
    environment = {"TERM": "dumb", "TANDEM_BROKER": tandem.url, "COLUMNS": str(width)}
    for command in (*WIDE, ("review", "timeline", review)):
        status, shown = at_a_terminal(command, tandem.cwd, **environment)
        found = shown.splitlines()
        assert status == 0, shown
        assert [line for line in found if len(line) > width] == [], command
        if command[0] == "review" and command[1] in {"list", "feed", "search"}:
            assert review in shown, command
    status, shown = at_a_terminal(("review", "stats"), tandem.cwd, **environment)
    head = next(line for line in shown.splitlines() if line.strip().startswith("submitted"))
    row = next(line for line in shown.splitlines() if line.startswith("all"))
    assert row.index("1") - head.index("submitted") == 0
