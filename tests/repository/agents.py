"""Agents' hooks as the clients call them, fed with recorded calls of the real clients."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from typer.testing import CliRunner

from tandem.hooks import main
from tests.repository.gating import Gated

Client = Literal["claude", "codex", "gemini"]
CLIENTS: tuple[Client, ...] = ("claude", "codex", "gemini")
RECORDED: dict[str, dict[str, dict[str, Any]]] = json.loads(
    Path(__file__).with_name("recorded_calls.json").read_text("utf-8")
)
"""By client and kind. Recorded from Claude Code 2.1.330, Codex 0.169 and Gemini CLI 0.61; words in capitals are
replaced.
"""


@dataclass(frozen=True)
class Answer:
    """The answer of a hook.

    Attributes:
        status: 0 lets the tool run, 2 does not.
        stdout: Its output.
        stderr: The message to the agent.
    """

    status: int
    stdout: str
    stderr: str

    @property
    def passes(self) -> bool:
        """Whether the tool may be used, in silence."""
        assert self.status in {0, 2}, self
        assert (self.status == 0) == (not self.stderr), self
        return self.status == 0

    @property
    def words(self) -> str:
        """The text of a refusal."""
        assert not self.passes, self
        assert self.stderr.startswith("tandem: refused: "), self.stderr
        return self.stderr


def account(client: Client, kind: str, folder: Path, **words: str) -> dict[str, Any]:
    """Returns a recorded call of a client, with the test's own command, path and texts."""

    def filled(value: Any) -> Any:
        if value in {"COMMAND", "PATH", "CONTENT", "OLD", "NEW"}:
            return words[value.lower()]
        return value.replace("ROOT", str(folder)) if isinstance(value, str) else value

    said = {name: filled(value) for name, value in RECORDED[client][kind].items() if name != "tool_input"}
    given: dict[str, Any] = RECORDED[client][kind].get("tool_input", {})
    return said | ({"tool_input": {name: filled(value) for name, value in given.items()}} if given else {})


def hook(said: dict[str, Any] | bytes, *arguments: str, cwd: Path, name: str = "agent", **environment: str) -> Answer:
    """Run `tandem hook NAME …` in this process: there are hundreds of calls. `test_teaching.py` starts processes."""
    told = said if isinstance(said, bytes) else json.dumps(said).encode()
    with contextlib.chdir(cwd), CliRunner(charset="utf-8").isolation(told, environment) as (out, err, _):
        status = main.run([name, *arguments])
        sys.stdout.flush()
        sys.stderr.flush()
        return Answer(status, out.getvalue().decode(), err.getvalue().decode())


@dataclass(frozen=True)
class Agent:
    """A client that works in a repository, as far as its hook sees it."""

    client: Client
    root: Path

    @property
    def git(self) -> str:
        """How it has to call git: Gemini CLI switches git's hooks off, and its agents have to switch ours on again."""
        if self.client != "gemini":
            return "git"
        common = subprocess.run(
            ["git", "rev-parse", "--git-common-dir"], cwd=self.root, check=True, capture_output=True, text=True
        ).stdout.strip()
        gate = json.loads((self.root / common / "tandem" / "gate.json").read_text("utf-8"))
        return f"git -c core.hooksPath={gate['hooks']['directory']}"

    def asks(self, kind: str, *, cwd: Path | None = None, **words: str) -> Answer:
        """Have the hook judge a call of this kind."""
        folder = cwd or self.root
        return hook(account(self.client, kind, folder, **words), "--client", self.client, cwd=folder)

    def runs(self, command: str, *, cwd: Path | None = None) -> Answer:
        """The agent is about to run a shell command."""
        return self.asks("shell", cwd=cwd, command=command)

    def writes(self, path: str, content: str) -> Answer:
        """The agent is about to write a whole new file."""
        if self.client == "codex":
            added = "".join(f"+{line}\n" for line in content.splitlines())
            return self.asks("patch", content=f"*** Begin Patch\n*** Add File: {path}\n{added}*** End Patch\n")
        return self.asks("write", path=str(self.root / path), content=content)

    def edits(self, path: str, old: str, new: str) -> Answer:
        """The agent is about to replace a whole line of a file."""
        if self.client == "codex":
            change = f"*** Update File: {path}\n@@\n-{old}\n+{new}\n"
            return self.asks("patch", content=f"*** Begin Patch\n{change}*** End Patch\n")
        return self.asks("edit", path=str(self.root / path), old=old, new=new)


def approve_text(gated: Gated, path: str, text: str, category: str = "handoff") -> None:
    """Have a whole text approved that is not on disk."""
    created = gated.call(
        "create_review", intent="A text", agent_type="agent", category=category, path=path, description=text
    )
    gated.decide(created["review_id"])
