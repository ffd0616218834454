"""Agents that take the steps of a workflow, and the reviewer on the other side."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.acceptance.reviewing import Desk
from tests.broker import BrokerProcess, fresh_project
from tests.commandline import COMMAND_SECONDS, Ended, Inside, Shell
from tests.forked import Started
from tests.repository.gating import Gated

PHASE = ".planning/phases/03-uploads"
PLAN_FILE = f"{PHASE}/03-02-PLAN.md"
PLAN = """\
---
phase: 03-uploads
plan: 02
---
<objective>
Retry uploads.
</objective>

<tasks>
<!-- <task><name>Task 1: a comment</name></task> -->
<task type="auto">
  <name>Task 1: Count in words</name>
  <files>a.txt</files>
  <action>Write the numbers as words.</action>
</task>

<task type="auto">
  <name>Task 2: Greek letters</name>
  <files>b.txt, greek/*.txt</files>
  <action>Add gamma.</action>
</task>
</tasks>
"""


class EndedEarly(Exception):
    """A step ended before it proposed anything."""


def head(ended: Ended) -> str:
    """The first line of what a step printed."""
    assert ended.stdout, ended.stderr
    return ended.stdout.splitlines()[0]


@dataclass
class Steps:
    """A repository in which steps are taken, and its reviews."""

    gated: Gated

    @property
    def root(self) -> Path:
        """The main working tree."""
        return self.gated.root

    def run(self, *arguments: str, stdin: bytes = b"", cwd: Path | None = None) -> Ended:
        """Take a step in this process, which costs no start of Python; `start` takes one in its own process."""
        with contextlib.chdir(cwd or self.root):
            return Inside(self.gated.broker.url, self.root).run(
                "gate", *arguments, stdin=stdin, **self.gated.environment
            )

    def start(self, *arguments: str, cwd: Path | None = None) -> Started:
        """Begin a step in a process of its own."""
        shell = Shell(self.gated.broker.url, cwd or self.root)
        return shell.start("gate", *arguments, **self.gated.environment)

    def reviewed(
        self, *arguments: str, verdict: str = "approved", cwd: Path | None = None, stdin: bytes = b"", **more: Any
    ) -> Ended:
        """Take a step that waits for its review while a reviewer decides."""
        with ThreadPoolExecutor(1) as pool:
            taken = pool.submit(self.run, *arguments, "--timeout", "60", stdin=stdin, cwd=cwd)
            try:
                self.gated.decide(self.arrival(taken), verdict, **more)
            except EndedEarly:
                raise AssertionError(f"nothing was proposed: {taken.result()}") from None
            return taken.result(COMMAND_SECONDS)

    def arrival(self, taken: Future[Ended] | None = None) -> str:
        """The project's review that waits for a reviewer, once it is there."""
        with self.gated.caller() as caller:
            answer = caller.do("list_reviews", status="pending")
            while not answer["reviews"]:
                if taken is not None and taken.done():
                    raise EndedEarly
                answer = caller.do("list_reviews", status="pending", wait=True, cursor=answer["cursor"], timeout_s=2)
        assert len(answer["reviews"]) == 1, answer
        return answer["reviews"][0]["review_id"]

    def reviews(self) -> list[dict[str, Any]]:
        """All reviews of the project."""
        return self.gated.call("list_reviews")["reviews"]

    def proposal(self, review_id: str) -> dict[str, Any]:
        """Returns the proposal as a reviewer reads it."""
        return self.gated.call("get_proposal", review_id=review_id)

    def status(self, review_id: str) -> dict[str, Any]:
        """Returns the status of a review."""
        return self.gated.call("get_review_status", review_id=review_id)

    def write(self, path: str, text: str, root: Path | None = None) -> Path:
        """Write a file of the working tree."""
        self.gated.write({path: text}, root)
        return (root or self.root) / path

    def commit(self, files: Mapping[str, str | bytes | None], subject: str, root: Path | None = None) -> str:
        """Commit these files and all that differs, which the gate must let through; the commit's id."""
        self.gated.stage(files, root)
        self.gated.git("commit", "--quiet", "-m", subject, cwd=root)
        return self.gated.head(cwd=root)

    def ends(self, ended: Ended, word: str, status: int) -> dict[str, Any]:
        """Check how a step ended with `--json`; its data."""
        assert (ended.data["word"], ended.status) == (word, status), ended.stdout + ended.stderr
        assert ended.data["exit_status"] == status
        return ended.data


def enabled(broker: BrokerProcess, root: Path, **planning: Any) -> Steps:
    """A registered repository whose workflow submits, without a gate; a person trusts its settings."""
    gated = Gated(broker, root, fresh_project())
    with Desk(broker.url, gated.project) as desk:
        desk.register(root)
    gated.settings(tandem_enabled=True, **planning)
    return Steps(gated)
