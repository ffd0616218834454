"""Nothing that others write acts on the terminal that shows it, or passes there for Tandem's own words."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.main import load
from tandem.cli.tree import TREE
from tandem.core.visible import visible
from tests.acceptance.reviewing import Desk
from tests.commandline import Inside
from tests.git.sandbox import Sandbox
from tests.interfaces.broker_process import watched_broker

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="platform: such names cannot be made there")

ACTS = "x\x1b[2K\r\u202e[bold]b[/bold]\u200b\x07\x9b\u3164"
SHOWN = r"x\u001b[2K\r\u202e[bold]b[/bold]\u200b\u0007\u009b\u3164"
FORGED = "tandem: allowed"
LINE = f"{ACTS}\n{FORGED}"
"""The value of every text that others write."""
PROPOSER = f"{LINE} proposer"
BRANCH = "x\u202e\u200b\u3164"
DIFF = """\
diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1,3 +1,3 @@
 line 1
-line 2
+line \u202e2
 line 3
"""
NO_TEXT_OF_OTHERS = {
    "demo": "has a repository and a broker of its own",
    "down": "stops the broker; it says where that was",
    "init": "writes into the settings of the person's agents",
    "mcp": "speaks to a program",
    "open": "starts a browser",
    "reviewers": "runs until it is stopped",
    "reviewers run": "runs until it is stopped",
    "uninit": "undoes init",
    "up": "starts a broker",
}
FULL_SCREEN = {"review screen": "draws: tests/interfaces/test_review_screen_content.py"}
WRONGLY_CALLED = 2
TOLD = (Path(__file__).with_name("hostile_commands.txt")).read_text("utf-8").splitlines()
ARGUMENTS = {
    name: given.split() for name, _, given in (line.partition(": ") for line in TOLD if line and line[0] != "#")
}
"""The arguments of the commands that need some; these run in this order, before all the others."""


def commands(group: Any, name: str) -> Iterator[str]:
    """The names of all commands."""
    verbs = getattr(group, "commands", {})
    if not verbs or name == "reviewers":
        yield name
    for verb, command in verbs.items():
        yield from commands(command, f"{name} {verb}")


@pytest.fixture(scope="module")
def everything() -> list[str]:
    """Every command that may print what others wrote."""
    known = [name for first in TREE for name in commands(load(first), first)]
    left_out = NO_TEXT_OF_OTHERS.keys() | FULL_SCREEN.keys()
    assert (ARGUMENTS.keys() | left_out) <= set(known)
    return [*ARGUMENTS, *(name for name in known if name not in ARGUMENTS.keys() | left_out)]


def test_no_command_hands_a_clients_text_to_the_terminal_as_it_is(
    tmp_path: Path, repo: Sandbox, everything: list[str], monkeypatch: pytest.MonkeyPatch
):
    repo.write(LINE, "new\n")
    commit = repo.commit(LINE)
    repo.write(LINE, "newer\n")
    monkeypatch.chdir(repo.root)
    (tmp_path / "broker").mkdir()
    with watched_broker(tmp_path / "broker") as broker, Desk(broker.url, LINE) as desk:
        monkeypatch.setenv("TANDEM_DATA_DIR", str(broker.data_dir))
        desk.register(repo.root)
        review = desk.put_up(intent=LINE, diff=DIFF, proposer_id=PROPOSER, agent_type=LINE, phase=LINE, plan=LINE)
        comments = [{"file": LINE, "line": 1, "body": LINE}]
        patch = DIFF.replace("+line", "+other")
        generation = desk.claim(review, LINE)
        sent = {"reason": LINE, "comments": comments, "counter_patch": patch, "reviewer_id": LINE}
        desk.verdict(review, "changes_requested", generation, **sent)
        tandem = Inside(broker.url, repo.root)
        known = {"review": review, "other": desk.put_up(), "commit": commit, "folder": tmp_path / "exported"}
        known["finding"] = desk.do("list_findings", review_id=review)["findings"][0]["finding_id"]
        known |= {"line": LINE, "acts": ACTS, "branch": BRANCH, "diff": DIFF, "secret": "s" * 32}
        whole = ""
        faults: dict[str, str] = {}
        # The second time, what the first wrote is there to be read.
        for name in [*ARGUMENTS, *everything]:
            given = [argument.format_map(known) for argument in ARGUMENTS.get(name, [])]
            ended = tandem.run(*name.split(), *given, TANDEM_PSK=LINE)
            said = ended.stdout + ended.stderr
            lines = said.split("\n")
            is_forged = any(line.startswith(FORGED) for line in lines)
            if ended.status == WRONGLY_CALLED or visible(said) != said or is_forged:
                faults[name] = said
            whole += said
    assert faults == {}
    assert SHOWN in whole
