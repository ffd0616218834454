"""Repositories with the gate on, and the actions of agents, reviewers and people in them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tandem.client import TandemClient
from tandem.errors import Forbidden
from tandem.rulings.state import REVIEWED
from tandem.setup import gate_switch, trust
from tandem.setup.gate_switch import GateOptions
from tests.acceptance.checking import Checked, check
from tests.broker import BrokerProcess, Caller, fresh_project
from tests.commandline import Ended, Inside, Shell, repository
from tests.forked import Started
from tests.repository.terminal import at_a_terminal

START = {"a.txt": b"one\ntwo\nthree\n", "b.txt": b"alpha\nbeta\n"}
"""The files that a repository of `gated` begins with."""

DIGITS = {"a.txt": "one\n2\nthree\n"}
"""A change of it."""

RUN_SECONDS = 60


class GitRefused(AssertionError):
    """A git command that had to succeed did not."""


@dataclass(frozen=True)
class Said:
    """The result of a git command.

    Attributes:
        status: Its exit status.
        stdout: Its output.
        stderr: The messages of the command and its hooks.
    """

    status: int
    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        """Whether it succeeded."""
        return self.status == 0


@dataclass
class Gated:
    """A repository whose gate is switched on, its project at the broker, and both sides of a review.

    Attributes:
        broker: The broker.
        root: The main working tree.
        project: Its name.
        environment: Variables for every command, beside the process's own.
    """

    broker: BrokerProcess
    root: Path
    project: str
    environment: dict[str, str] = field(default_factory=dict[str, str])

    # The gate's file, as somebody with an editor has it.

    @property
    def gate_file(self) -> Path:
        """Where the switch is."""
        return self.root / ".git/tandem/gate.json"

    @property
    def switch(self) -> dict[str, Any]:
        """Its facts."""
        return json.loads(self.gate_file.read_text("utf-8"))

    def rewrite(self, **facts: object) -> None:
        """Have it say something else."""
        self.gate_file.write_text(json.dumps(self.switch | facts), "utf-8")

    # Git commands.

    def try_git(self, *arguments: str, cwd: Path | None = None, stdin: bytes = b"", **environment: str) -> Said:
        """Run git, which may fail; `GIT_EDITOR` is `true` unless another one is given."""
        done = subprocess.run(
            ["git", *arguments],
            cwd=cwd or self.root,
            env={**os.environ, "GIT_EDITOR": "true", **self.environment, **environment},
            input=stdin,
            capture_output=True,
            check=False,
            timeout=RUN_SECONDS,
        )
        return Said(done.returncode, done.stdout.decode(), done.stderr.decode())

    def git(self, *arguments: str, cwd: Path | None = None, stdin: bytes = b"", **environment: str) -> str:
        """Run git, which must succeed; its output without the last line end."""
        said = self.try_git(*arguments, cwd=cwd, stdin=stdin, **environment)
        if not said.ok:
            raise GitRefused(f"git {' '.join(arguments)}: {said.status}\n{said.stdout}{said.stderr}")
        return said.stdout.rstrip("\n")

    def refused(self, *arguments: str, cwd: Path | None = None, **environment: str) -> str:
        """Run git, which the gate must refuse: nothing moves. Its words, which name the way on."""
        head = self.try_git("rev-parse", "HEAD", cwd=cwd).stdout
        said = self.try_git(*arguments, cwd=cwd, stdin=b"", **environment)
        assert not said.ok, f"git {' '.join(arguments)} was not refused:\n{said.stdout}{said.stderr}"
        assert "tandem: refused" in said.stderr, said.stderr
        assert self.try_git("rev-parse", "HEAD", cwd=cwd).stdout == head
        return said.stderr

    def write(self, files: Mapping[str, str | bytes | None], root: Path | None = None) -> None:
        """Write files of the working tree; None deletes one."""
        for name, content in files.items():
            path = (root or self.root) / name
            if content is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)

    def stage(self, files: Mapping[str, str | bytes | None], root: Path | None = None) -> None:
        """Write files and stage everything that differs."""
        self.write(files, root)
        self.git("add", "--all", cwd=root)

    def head(self, revision: str = "HEAD", cwd: Path | None = None) -> str:
        """A commit's id."""
        return self.git("rev-parse", "--verify", f"{revision}^{{commit}}", cwd=cwd)

    def message(self, revision: str = "HEAD", cwd: Path | None = None) -> str:
        """A commit's message."""
        return self.git("log", "-1", "--format=%B", revision, cwd=cwd).rstrip("\n")

    def trailers(self, name: str = "Tandem-Review", revision: str = "HEAD", cwd: Path | None = None) -> list[str]:
        """The values of a trailer, as git itself reads it."""
        found = self.git("log", "-1", f"--format=%(trailers:key={name},valueonly)", revision, cwd=cwd)
        return [line for line in found.splitlines() if line]

    # Actions of the proposer and the reviewer.

    def submit(self, *options: str, cwd: Path | None = None, intent: str = "An improvement") -> str:
        """Propose a change with `tandem submit`, by default the staged one; the review's id."""
        chosen = options or ("--staged",)
        return self.tandem("submit", "-m", intent, *chosen, "--json", cwd=cwd).data["review_id"]

    def put_up(self, cwd: Path | None = None, intent: str = "An improvement", **more: Any) -> str:
        """Propose the staged change, without a command's start; the review's id."""
        diff = self.git("diff", "--cached", "--binary", "--full-index", "--no-ext-diff", cwd=cwd) + "\n"
        base = self.try_git("rev-parse", "--quiet", "--verify", "HEAD", cwd=cwd).stdout.strip()
        at = {"base": base} if base else {}
        return self.call("create_review", intent=intent, agent_type="tests", diff=diff, **at, **more)["review_id"]

    def caller(self, agent: str | None = None) -> Caller:
        """A client for the project; close it, or use it as a context."""
        return Caller(self.broker.url, self.project, agent)

    def call(self, operation: str, **arguments: Any) -> Any:
        """Call an operation for the project; its data."""
        with self.caller() as caller:
            return caller.do(operation, **arguments)

    def decide(self, review_id: str, verdict: str = "approved", reason: str = "Because.", **more: Any) -> None:
        """Claim a review and give a verdict."""
        generation = self.call("claim_review", review_id=review_id, reviewer_id="rev-1")["claim_generation"]
        why = {} if verdict == "approved" else {"reason": reason}
        self.call("submit_verdict", review_id=review_id, verdict=verdict, claim_generation=generation, **why, **more)

    def approve(self, *options: str, cwd: Path | None = None, intent: str = "An improvement") -> str:
        """Propose a change, by default the staged one, and have it approved; the review's id."""
        review_id = self.submit(*options, cwd=cwd, intent=intent) if options else self.put_up(cwd, intent)
        self.decide(review_id)
        return review_id

    def approved_commit(
        self, files: Mapping[str, str | bytes | None], subject: str = "An improvement", cwd: Path | None = None
    ) -> str:
        """Change files, have that approved and commit it; the commit's id."""
        self.stage(files, cwd)
        self.approve(cwd=cwd, intent=subject)
        self.git("commit", "--quiet", "-m", subject, cwd=cwd)
        return self.head(cwd=cwd)

    def wait_as_told(self, refusal: str) -> Started:
        """Run the command that a refusal names for content that is under review already, word by word."""
        [command] = re.findall("Wait for it: tandem (.*)", refusal)
        return Shell(self.broker.url, self.root).start(*shlex.split(command), **self.environment)

    # Actions of a person.

    def loosen(self, **arguments: Any) -> Any:
        """Have the gate at the broker let more through; its data."""
        with self.caller() as caller:
            return caller.loosen(**arguments)

    def tandem(self, *arguments: str, cwd: Path | None = None, stdin: bytes = b"", **environment: str) -> Ended:
        """Run `tandem …` in the repository, in this process: that costs no start of Python."""
        # As the person has it whose broker this is.
        environment = {"TANDEM_DATA_DIR": str(self.broker.data_dir), **self.environment, **environment}
        with contextlib.chdir(cwd or self.root):
            return Inside(self.broker.url, self.root).run(*arguments, stdin=stdin, **environment)

    def person(self, *arguments: str, cwd: Path | None = None, **environment: str) -> Said:
        """Run `tandem …` as a person at a terminal does, who types the project's name where a gate would loosen."""
        environment = {
            "TANDEM_DATA_DIR": str(self.broker.data_dir),
            "TANDEM_BROKER": self.broker.url,
            **self.environment,
            **environment,
        }
        typed, after = f"{self.project}\n", "if that is meant: "
        status, shown = at_a_terminal(arguments, cwd or self.root, typed=typed, after=after, **environment)
        return Said(status, shown, "")

    def settings(self, *, trusted: bool = True, **planning: Any) -> None:
        """Write `.planning/config.json`, which git is told to ignore; a person has looked at it and trusts it."""
        self.write({".planning/config.json": json.dumps(planning)})
        exclude = Path(self.git("rev-parse", "--git-path", "info/exclude"))
        exclude = exclude if exclude.is_absolute() else self.root / exclude
        exclude.parent.mkdir(exist_ok=True)
        exclude.write_text(".planning/config.json\n", "utf-8")
        if trusted:
            config_dir = Path(os.environ["TANDEM_CONFIG_DIR"])
            trust.add(config_dir, trust.Project.at(str(self.root), config_dir).candidates())

    def linked(self, folder: Path, branch: str) -> Path:
        """A linked working tree on a new branch."""
        self.git("worktree", "add", "--quiet", "-b", branch, str(folder))
        return folder


def guarded(project: Checked, code: str) -> Gated:
    """The project with a check and a gate."""
    project.have(check("unit tests", code), unconfined=True)
    gated = Gated(project.broker, project.repo.root, project.project)
    on = gated.tandem("gate", "on")
    assert on.status == 0, on.stderr
    return gated


def new_repository(root: Path, files: Mapping[str, bytes] | None = None, options: Sequence[str] = ()) -> Path:
    """A repository with one commit on `main`, without a gate."""
    return repository(root, START if files is None else files, options)


def gate_on(broker: BrokerProcess, root: Path, wish: GateOptions | None = None) -> Gated:
    """Switch the gate of a repository on, as `tandem gate on` does; its project gets a name of its own.

    Every commit is reviewed, unless the wish says otherwise.
    """
    gated = Gated(broker, root, fresh_project())
    asyncio.run(_switch_on(gated, wish or GateOptions()))
    return gated


async def _switch_on(gated: Gated, wish: GateOptions) -> None:
    commits = wish.commits or REVIEWED
    wish = replace(wish, project=gated.project, broker=gated.broker.url, commits=commits)
    async with TandemClient(gated.broker.url) as client:
        # As the person has it whose broker this is, who agrees to all that they are asked.
        with pytest.MonkeyPatch.context() as person:
            person.setenv("TANDEM_DATA_DIR", str(gated.broker.data_dir))
            agreed: list[str] = []
            while True:
                try:
                    await gate_switch.switch_on(client.data, gate_switch.place_at(gated.root), wish, agreed)
                except Forbidden as error:
                    agreed += error.details["loosens"]
                else:
                    return
