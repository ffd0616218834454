"""Agents that know nothing of Tandem: each does what the last message says, word by word, and nothing else.

They find commands at the end of a line, behind a colon or in backquotes, and operations by the names of the tools that
they were given. A line that begins with "or" is another way, which they take only where there is no first one; a line
about a person is the person's.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.interfaces.bridging import BridgeProcess
from tests.repository.committing import run_inside

MOST_STEPS = 12
STOPPED = 14
_SENTENCE = "It does the task."
_COMMAND = re.compile(
    r"(?P<words>[^\n]*?)(?:: +|`)(?P<command>(?:tandem|(?:GIT_EDITOR=true )?git) [^`\n]+?)\s*(?:`|$)", re.MULTILINE
)
_CHANGES = re.compile(r"\b(?<!one )(?:change|differently|resolve)\b", re.IGNORECASE)
_COMMITS = re.compile(r"\b(?:commit (?:again|exactly)|git command again)\b", re.IGNORECASE)
_COMMITTING = re.compile(r"(?:GIT_EDITOR=true )?git (?:commit|\S+ --continue)\b|tandem commit\b")
_IN_A_SENTENCE = r"(?<=: )(?:tandem|git) .+?(?=, then|\.(?: |$))"
_PERSONS = re.compile(r"\bperson\b", re.IGNORECASE)
_DOINGS = {
    "Change": "change",
    "Resolve": "change",
    "differently": "change",
    "Commit": "commit",
    "git command again": "commit",
}
_USAGE = 2
_SECONDS = 110


@dataclass
class LiteralAgent:
    """An agent with a shell.

    Attributes:
        root: The working tree.
        edit: Its edits, one for each time that it is told to change something.
        environment: What its client sets.
        attempt: How it commits.
        said: Its commands and their answers.
        prefers: A word in the alternative that it takes; empty for the first one.
        stopped: Its message to its person when it stopped; None before.
        has_committed: Whether its change is committed.
    """

    root: Path
    edit: Iterator[Callable[[], None]]
    environment: dict[str, str]
    attempt: str = "git commit -m 'Do the task'"
    said: list[str] = field(default_factory=list[str])
    prefers: str = ""
    stopped: str | None = None
    has_committed: bool = False

    @property
    def is_done(self) -> bool:
        """Whether it has come to an end."""
        return self.has_committed or self.stopped is not None

    def begins(self, command: str) -> LiteralAgent:
        """Run a command, and then what each message says, until it has committed or stops."""
        self.attempt = command
        self.follows(command)
        assert self.is_done, self.told("the message names no command")
        return self

    def follows(self, command: str) -> None:
        """Run a command, and then what each message says, as long as it says something."""
        orders = [("", command)]
        while orders and not self.is_done:
            words, now = orders.pop(0)
            orders = self.step(words, now) or orders

    def step(self, words: str, command: str) -> list[tuple[str, str]]:
        """Do as a line of a message says; the lines of the answer that name commands."""
        assert len(self.said) < MOST_STEPS, self.told(f"not done after {MOST_STEPS} steps")
        if _CHANGES.search(words):
            self.change()
        status, output = self.run(command.replace("'…'", f"'{_SENTENCE}'"))
        self.said.append(f"$ {command}\n{output}[{status}]")
        assert status != _USAGE, self.told("refused for its form")
        if status == STOPPED:
            [self.stopped] = re.findall(r"(?:Stop|Tell).*tandem open rv_\w+", output)[-1:] or [None]
            assert self.stopped, self.told("it stops and tells the person nothing")
        is_attempt = command.startswith(("git", "tandem commit")) and command == self.attempt
        is_commit = is_attempt or _COMMITTING.match(command) is not None
        self.has_committed = status == 0 and is_commit
        return self.named(output)

    def named(self, output: str) -> list[tuple[str, str]]:
        """The lines that name a command, or say to commit again, but for a person's and other ways."""
        found: list[tuple[str, str]] = []
        for line in output.splitlines():
            if (one := _COMMAND.search(line)) is not None:
                found.append((one["words"], one["command"]))
            elif _COMMITS.search(line):
                found.append((line, self.attempt))
        if self.prefers and (others := [line for line in found if self.prefers in line[0]]):
            return others
        return [line for line in found if not _PERSONS.search(line[0]) and not _alternative(line[0])]

    def change(self) -> None:
        """Make the next change, and stage it."""
        make = next(self.edit, None)
        assert make is not None, self.told("it is told to change more than was asked for")
        make()
        subprocess.run(["git", "add", "--all"], cwd=self.root, check=True)

    def run(self, command: str) -> tuple[int, str]:
        """Run a command in the working tree; its exit status, and all that it printed."""
        is_for_a_shell = any(sign in command for sign in ("&&", "$(")) or command.startswith("GIT_EDITOR=")
        words = ["sh", "-c", command] if is_for_a_shell else shlex.split(command)
        # An agent has no editor.
        environment = {**os.environ, "GIT_EDITOR": "false", **self.environment}
        if words[0] == "tandem":
            ended = run_inside("", self.root, *words[1:], **environment)
            return ended.status, ended.stdout + ended.stderr
        done = subprocess.run(
            words, cwd=self.root, env=environment, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
        return done.returncode, done.stdout + done.stderr

    def told(self, fault: str) -> str:
        """Returns the commands and answers, and the fault below them."""
        return "\n".join([*self.said, fault])


def _alternative(words: str) -> bool:
    return re.match(r"(?:tandem: )?\s*(?:- )?or\b", words.strip(), re.IGNORECASE) is not None


@dataclass
class ToolAgent(LiteralAgent):
    """An agent with the tools of `tandem mcp`, whose commits still go through git.

    Attributes:
        tools: The schemas of their arguments, by name.
        last: The newest value of each field that an answer had: what "this cursor" means.
    """

    client: BridgeProcess | None = None
    tools: dict[str, Any] = field(default_factory=dict[str, Any])
    last: dict[str, Any] = field(default_factory=lambda: {"agent_type": "literal", "intent": "Count in digits"})

    def begins_with(self, tool: str, **more: str) -> ToolAgent:
        """Call a tool, and then do what each message says, until it has committed or stops."""
        assert self.client is not None
        listed = self.client.call("tools/list")["result"]["tools"]
        self.tools = {one["name"]: one["inputSchema"] for one in listed}
        orders: list[tuple[str, dict[str, str]]] = [(tool, more or {"diff": ""})]
        while not self.is_done:
            assert orders, self.told("the message names no tool")
            name, stated = orders.pop(0)
            orders = self.tool_step(name, stated) or orders
        return self

    def tool_step(self, name: str, stated: dict[str, str]) -> list[tuple[str, dict[str, str]]]:
        """Follow one instruction of a message; returns the instructions of the answer."""
        assert len(self.said) < MOST_STEPS, self.told(f"not done after {MOST_STEPS} steps")
        if name == "change":
            self.change()
            return []
        if name == "shell":
            self.follows(stated["command"])
            return []
        if name == "commit":
            # The hook's instructions are followed in the shell that git runs in.
            self.begins(self.attempt)
            return []
        assert self.client is not None
        given = self.arguments(name, stated)
        envelope = self.client.tool(name, **given)
        self.said.append(f"> {name} {json.dumps(given)}\n{json.dumps(envelope)[:1500]}")
        if not envelope["ok"]:
            message = envelope["error"]["message"]
            assert envelope["error"]["code"] != "INVALID_INPUT", self.told("refused for its form")
            found = self.named(message)
            for words, command in found:
                self.step(words, command)
            assert found, self.told("the refusal says nothing to do")
            return [(name, stated)]
        data = envelope["data"]
        self.last |= {key: value for key, value in data.items() if isinstance(value, str)}
        if data.get("next_action") == "escalate":
            self.stopped = data["message"]
            assert re.search(r"[Tt]ell your person: tandem open rv_", data["message"]), self.told("no sentence")
        return self.orders(data.get("message") or "")

    def orders(self, message: str) -> list[tuple[str, dict[str, str]]]:
        """Returns the instructions of a message in their order, each with the arguments that it states."""
        first = re.split(r"[;.] or\b", message, flags=re.IGNORECASE)[0]
        words = "|".join([*self.tools, *_DOINGS])
        found = [*re.finditer(rf"{_IN_A_SENTENCE}|\b(?:{words})\b", first)]
        ends = [*(one.start() for one in found), len(first)][1:]
        made: list[tuple[str, dict[str, str]]] = []
        for one, end in zip(found, ends, strict=True):
            clause = first[one.end() : end]
            stated = dict(re.findall(r"\b(\w+)=([\w./-]*\w)", clause))
            stated |= {name: "" for name in ("diff", "cursor") if re.search(rf"\b(?:the|this) {name}\b", clause)}
            stated |= {"description": ""} if "its whole text as description" in clause else {}
            name = _DOINGS.get(one[0], one[0])
            made.append((name, stated) if " " not in name else ("shell", {"command": name}))
        return made

    def arguments(self, name: str, stated: dict[str, str]) -> dict[str, Any]:
        """Returns the arguments of a call: the stated ones, and the others that its schema requires."""
        schema = self.tools[name]
        given: dict[str, Any] = {}
        for one in {*schema.get("required", ()), *stated}:
            value = stated.get(one) or self.last.get(one)
            if one == "description":
                value = (self.root / stated["path"]).read_text("utf-8")
            given[one] = (self.diff() if one == "diff" else value or _SENTENCE) if value != "true" else True
        if given.get("wait"):
            # How long its client lets a call take.
            given["timeout_s"] = 2
        return given

    def diff(self) -> str:
        """Returns the staged diff."""
        command = ["git", "diff", "--cached", "--binary", "--full-index"]
        return subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=True).stdout
