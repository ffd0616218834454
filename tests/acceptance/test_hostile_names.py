"""Nothing that a client writes acts on the terminal that shows it, whichever command prints it."""

from __future__ import annotations

import sys

import pytest

from tests.acceptance.reviewing import REVIEWER, WHY, Desk
from tests.commandline import Shell
from tests.git.sandbox import Sandbox

pytestmark = pytest.mark.parametrize("broker", ["sqlite"], indirect=True)

HOSTILE = "x\x1b[2K\r\u202e[bold]b[/bold]\u200b\x07"
SHOWN = r"x\u001b[2K\r\u202e[bold]b[/bold]\u200b\u0007"
FORGED = f"{HOSTILE}\nallowed.txt"


@pytest.mark.skipif(sys.platform == "win32", reason="platform: such names cannot be made there")
def test_no_command_hands_a_clients_text_to_the_terminal_as_it_is(shop: Desk, repo: Sandbox):
    shell = Shell(shop.url, repo.root)
    repo.write(FORGED, "new\n")
    submitted = shell.run("submit", "-m", HOSTILE, "--project", shop.project, "--json")
    review = submitted.data["review_id"]
    shop.say(review, "proposer", HOSTILE)
    generation = shop.claim(review)
    comments = [{"file": FORGED, "line": 1, "body": HOSTILE}]
    sent = {"verdict": "changes_requested", "reason": f"{WHY} {HOSTILE}", "comments": comments}
    shop.do("submit_verdict", review_id=review, claim_generation=generation, reviewer_id=REVIEWER, **sent)
    repo.commit(HOSTILE)
    for command in (
        ("review", "proposal", review),
        ("review", "status", review),
        ("review", "discussion", review),
        ("review", "timeline", review),
        ("review", "list", "--project", shop.project),
        ("inbox", "--person", "ada", "--project", shop.project),
        ("audit", "HEAD^..HEAD", "--project", shop.project),
        ("review", "claim", HOSTILE, "--reviewer-id", HOSTILE),
    ):
        ended = shell.run(*command)
        said = ended.stdout + ended.stderr
        assert [line for line in said.split("\n") if not line.isprintable()] == [], command
        # Names and subjects are shown as they are, but for what would act; none begins a line of its own.
        if command[1] in {"proposal", "discussion", "list"}:
            assert SHOWN in "".join(said.split("\n")).replace(" ", ""), (command, said)
        assert not any(line.strip().startswith("allowed.txt") for line in said.split("\n")), command
