"""The page of mistakes has the answers of a real broker and the command line; each mistake is made once.

`MISTAKES=write pytest tests/interfaces/test_mistakes.py` writes the page again.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tests.commandline import DIFF, Ended, Inside, repository, running_broker
from tests.interfaces.mistakes import MISTAKES, Mistake

PAGE = ROOT / "docs" / "mistakes.md"
HEAD = """\
<!-- Written by `MISTAKES=write pytest tests/interfaces/test_mistakes.py`; edits here are lost. -->

# Mistakes, and what Tandem says

What people mistype, forget or mix up, with the answer of a real broker, to the letter. A test makes each of them.
"""
CONFIGURATIONS = {
    "misspelt": "claim_timeout_second = 60\n",
    "wrong": 'claim_timeout_seconds = "long"\n',
    "pool": "[reviewer_pool]\nmax_pool = 2\n",
    "provider": '[reviewer_pool]\nprovider = "copilot"\n',
    "workflow": '[workflows.docs]\nmode = "direct"\n',
    "broken": "claim_timeout_seconds 60\n",
}
CHANGED = "one\n2\n"


class World:
    """A broker, folders and reviews in which mistakes are made.

    Attributes:
        url: The broker.
        folders: Where something can be typed, by name.
        names: What the braces of a mistake stand for.
    """

    def __init__(self, url: str, base: Path) -> None:
        self.url, self.base = url, base
        self.folders = {name: repository(base / name) for name in ("shop", "clean", "unregistered", "loose")}
        self.folders["elsewhere"] = base / "elsewhere"
        self.folders["elsewhere"].mkdir()
        self.names: dict[str, str] = {"stranger": str(base / "stranger")}
        for name, text in CONFIGURATIONS.items():
            (base / name).mkdir()
            (base / name / "config.toml").write_text(text, "utf-8")
            self.names[name] = str(base / name)
        for name in ("shop", "clean", "loose"):
            self.run("project add", folder=name)
        (self.folders["loose"] / ".tandem").mkdir()
        (self.folders["loose"] / ".tandem" / "config.toml").write_text("diff_limit_bytes = 9000000\n", "utf-8")
        shop = self.folders["shop"]
        (shop / "change.diff").write_text(DIFF, "utf-8")
        (shop / "other.diff").write_text(DIFF.replace("-two", "-three"), "utf-8")
        self.run("me alice")

    def run(self, typed: str, environment: Mapping[str, str] = {}, *, folder: str = "shop") -> Ended:
        """Type something."""
        previous = Path.cwd()
        os.chdir(self.folders[folder])
        try:
            return Inside(self.url, self.folders[folder]).run(*shlex.split(typed), stdin=b"", **environment)
        finally:
            os.chdir(previous)

    def create(self, name: str, agent: str = "carol") -> str:
        """Propose a change, and give it a name."""
        made = self.run(f"review create --intent 'Retry uploads' --diff @change.diff --agent {agent} --json")
        self.names[name] = made.data["review_id"]
        return self.names[name]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Generator[World]:
    base = tmp_path_factory.mktemp("mistakes")
    with running_broker(base / "data") as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TANDEM_CONFIG_DIR", str(base / "config"))
        # What the system calls the person.
        patch.setenv("LOGNAME", "alice")
        patch.setenv("TANDEM_DATA_DIR", str(base / "data"))
        made = World(url, base)
        made.create("review", "alice")
        made.create("other")
        claimed = made.create("claimed")
        made.run(f"review claim {claimed} --reviewer-id rita")
        spoken = made.create("spoken", "alice")
        made.run(f"review message {spoken} --sender-role proposer --body First")
        closed = made.create("closed")
        made.run(f"review close {closed}")
        made.names["agents"] = made.run(
            "review create --intent 'Retry uploads' --diff @change.diff --json", {"CLAUDECODE": "1"}
        ).data["review_id"]
        patched = made.create("patched")
        made.run(f"review claim {patched} --reviewer-id rita")
        given = made.run(
            f"review verdict {patched} --verdict changes_requested --reviewer-id rita --reason Roman"
            " --counter-patch @change.diff --json"
        )
        made.names["patch"] = given.data["counter_patch_id"]
        made.names["keys"] = str(base / "keys")
        made.run(f"cycle init --write-to {made.names['keys']}", folder="clean")
        made.run("review create --intent first --diff @change.diff --idempotency-key once")
        yield made


def answered(world: World, mistake: Mistake) -> str:
    """The command and its answer, without the parts that differ from run to run."""
    typed = mistake.typed.format_map(world.names)
    environment = {name: value.format_map(world.names) for name, value in mistake.environment.items()}
    ended = world.run(typed, environment, folder=mistake.folder)
    assert ended.status, f"{typed} is no mistake: {ended}"
    variables = "".join(f"{name}={value} " for name, value in environment.items())
    return steady(world, f"$ {variables}tandem {typed}\n{ended.stdout}{ended.stderr}exit status {int(ended.status)}")


def steady(world: World, text: str) -> str:
    """A text without the names that this run has made."""
    for name, value in world.names.items():
        if value.startswith(("rv_", "cp_")):
            text = text.replace(value, f"{value[:3]}{name}")
    text = text.replace(str(world.base), "/home/alice").replace(world.url, "http://127.0.0.1:8321")
    text = re.sub(r"\b(?:[0-9a-f]{40}|[0-9a-f]{12})\b", "1f3c5a7", text)
    # Git says it like this where the folder is on a file system of its own, such as /dev/shm.
    text = re.sub(
        r"any parent up to mount point [^)]*\)\n\s*Stopping at filesystem boundary [^\n]*",
        "any of the parent directories): .git",
        text,
    )
    return "\n".join(line.rstrip() for line in text.splitlines())


def page(world: World) -> Iterator[str]:
    yield HEAD
    for heading, mistakes in MISTAKES.items():
        yield f"\n## {heading}\n"
        for mistake in mistakes:
            yield f"\n{mistake.about}:\n\n```text\n{answered(world, mistake)}\n```\n"


def test_each_mistake_is_answered_as_the_page_says(world: World) -> None:
    text = "".join(page(world))
    if os.environ.get("MISTAKES") == "write":
        PAGE.write_text(text, "utf-8")
    assert PAGE.read_text("utf-8") == text
