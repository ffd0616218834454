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
"""What every text by others is."""
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
    "uninit": "takes back what init did",
    "up": "starts a broker",
}
FULL_SCREEN = {"review screen": "draws: tests/interfaces/test_review_screen_content.py"}
WRONGLY_CALLED = 2
ID = "{review}"
CYCLE = ("--workflow", "frontend-backend")
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "submit": ("-m", LINE),
    "apply": (ID,),
    "review checkout": (ID,),
    "rollback": (ID,),
    "inbox show": ("--person", "ada"),
    "review create": ("--intent", LINE, "--description", LINE, "--proposer-id", LINE, "--phase", LINE, "--plan", LINE),
    "review renew": (ID, "--claim-generation", "1"),
    "review release": (ID, "--claim-generation", "1", "--reason", LINE),
    "review claim": (ID, "--reviewer-id", LINE),
    "review verdict": (ID, "--verdict", "comment", "--reason", LINE, "--claim-generation", "2"),
    "review approve": (ID, "--agent", "ada"),
    "review reject": (ID, "--reason", LINE, "--agent", "ada"),
    "me": (LINE,),
    "review withdraw": ("{other}", "--reason", LINE),
    "review patch accept": (ID, LINE),
    "review patch reject": (ID, LINE),
    "review message": (ID, "--sender-role", "proposer", "--body", LINE),
    "review file": (ID, "--path", LINE),
    "review patch draft": (ID, "--text", LINE),
    "review patch check": (ID, "--counter-patch", DIFF),
    "review search": ("--text", "allowed"),
    "review mark": (ID, "--path", LINE, "--round", "1", "--viewed", "--person", LINE),
    "review viewed": (ID, "--round", "1", "--person", LINE),
    **{f"review {verb}": (ID,) for verb in ("show", "status", "proposal", "discussion", "timeline", "retry")},
    "review base-files": (ID,),
    "review close": ("{other}",),
    "webhook add": (f"http://127.0.0.1:9/{LINE}", "--events", LINE),
    **{f"webhook {verb}": (LINE,) for verb in ("remove", "test", "deliveries")},
    **{f"checks {verb}": (ID,) for verb in ("list", "run")},
    "checks log": (ID, LINE),
    "checks report": (ID, LINE, "--round", "1", "--runner", LINE, "--status", "queued", "--reason", LINE),
    "gate check": ("--staged",),
    "gate on": ("--yes", "--reason", LINE),
    "gate override": ("--reason", LINE),
    "gate set": ("--enabled", "--branches", BRANCH, "--reason", LINE),
    "gate record-override": ("--changes", "[]", "--reason", LINE),
    "gate task": ("--timeout", "0"),
    "gate wave": ("--phase", "1", "--plan", "2", "--timeout", "0"),
    "commit record": ("--commit", "{commit}", "--branch", BRANCH, "--plan", LINE, "--task", LINE, "--changes", "[]"),
    "commit rolled-back": (
        ID, "--branch", BRANCH, "--head-before", "{commit}", "--head-after", "{commit}",
    ),
    "audit commits": ("HEAD^..HEAD",),
    "data backup": (f"{{folder}}{ACTS}",),
    "data export": (f"{{folder}}{ACTS}.jsonl",),
    "data restore": (f"{{folder}}{ACTS}",),
    "data import": (f"{{folder}}{ACTS}",),
    "data copy": ("sqlite:///{folder}" + ACTS,),
    "reviewers kill": (LINE,),
    "reviewers output": ("--reviewer-id", LINE),
    "cycle init": CYCLE,
    "cycle start": (LINE, *CYCLE),
    "cycle export": ("--to", "{folder}"),
    "cycle rotate": ("gemini",),
    "cycle revoke": (LINE,),
    **{f"cycle {verb}": ("--session-token", LINE, "--lock-token", LINE) for verb in ("complete", "archive")},
    "session open": (LINE,),
    "session close": ("--session-token", LINE),
    "lock acquire": ("--session-token", LINE),
    "handoff write": ("codex", "--payload", "{{}}", "--session-token", LINE, "--lock-token", LINE),
    "handoff read": ("codex",),
    "project add": (".", "--name", LINE),
    "project move": (LINE,),
    "project settings": ("--project", LINE),
    "project remove": (LINE + "2",),
    "token revoke": (LINE,),
    "token create": ("ada", "--role", "reviewer"),
    "supervisor register": (
        "--secret", "s" * 32, "--incarnation", "first", "--host", LINE, "--provider", BRANCH, "--mode", "worker",
    ),
    "supervisor heartbeat": ("--secret", "s" * 32, "--incarnation", "first"),
    "supervisor outcome": (ID, "--reviewer-id", LINE, "--claim-generation", "1", "--outcome", "crashed"),
}  # fmt: skip
"""What each command is given that cannot be called without; in this order, before all the others."""


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
        whole = ""
        faults: dict[str, str] = {}
        # The second time, what the first wrote is there to be read.
        for name in [*everything, *everything]:
            given = [argument.format_map(known) for argument in ARGUMENTS.get(name, ())]
            ended = tandem.run(*name.split(), *given, TANDEM_PSK=LINE)
            said = ended.stdout + ended.stderr
            lines = said.split("\n")
            is_forged = any(line.startswith(FORGED) for line in lines)
            if ended.status == WRONGLY_CALLED or visible(said) != said or is_forged:
                faults[name] = said
            whole += said
    assert faults == {}
    assert SHOWN in whole
