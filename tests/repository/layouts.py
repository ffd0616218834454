"""Layouts of repositories: where git folder and working trees are."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.commandline import Ended, git
from tests.interfaces.bridging import bridge
from tests.repository.gating import START, Gated, new_repository
from tests.repository.routes.tables import rows

Environment = Mapping[str, str]


@dataclass(frozen=True)
class Laid:
    """A repository as it was laid out.

    Attributes:
        first: The working tree where `init` runs.
        common: Its common git folder.
        second: Another working tree of the same repository; None if it has none.
        main: The main working tree, if the git folder is in it.
        environment: Variables for every command.
    """

    first: Path
    common: Path
    second: Path | None = None
    main: Path | None = None
    environment: Environment = field(default_factory=dict[str, str])

    @property
    def root(self) -> str:
        """The folder that the project is registered for."""
        return str(self.main or self.common)


def source(folder: Path) -> Path:
    """A repository that lets itself be cloned in part, with a folder that a sparse checkout can leave out."""
    made = new_repository(folder / "source", {**START, "far/c.txt": b"far\n"})
    git(made, "config", "uploadpack.allowFilter", "true")
    return made


ROWS = {row.name: row for row in rows("../layouts.txt")}


def lay(name: str, folder: Path) -> Laid:
    """Make the repository of a row below a folder."""
    places, *commands = ROWS[name].steps
    made = {"SOURCE": str(source(folder)), "OUTER": str(new_repository(folder / "outer"))}
    script = ["sh", "-euc", "\n".join(commands)]
    subprocess.run(script, cwd=folder, env=os.environ | made, check=True, capture_output=True)
    stated = {key: folder / place for key, _, place in (one.partition("=") for one in places.split())}
    environment = {key: str(stated.pop(key)) for key in list(stated) if key.isupper()}
    return Laid(**stated, environment=environment)


def work_through(here: Gated, top: Path, text: str, *, looks: bool = True) -> None:
    """Refused, proposed, approved, committed, and nothing else with it; nothing is wrong then, if doctor looks."""
    here.stage({"a.txt": f"one\n{text}\nthree\n"}, top)
    assert "not approved" in here.refused("commit", "-m", "x", cwd=top)
    here.decide(here.submit(cwd=top))
    here.stage({"b.txt": f"{text}\n"}, top)
    here.refused("commit", "-m", "x", cwd=top)
    here.git("reset", "--quiet", "b.txt", cwd=top)
    here.git("checkout", "--quiet", "--", "b.txt", cwd=top)
    here.git("commit", "--quiet", "-m", text, cwd=top)
    if looks:
        looked = here.tandem("doctor", "--json", cwd=top).data["findings"]
        assert [one for one in looked if one["state"] == "problem"] == []


def let_an_agent_in(here: Gated, top: Path, text: str) -> None:
    """An agent's server in a working tree has its project, and the commit checked out there as the base."""
    known = here.call("list_reviews")["reviews"][0]["review_id"]
    diff = f"--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-{text}\n+by an agent\n three\n"
    with bridge("--broker", here.broker.url, folder=top, **here.environment) as agent:
        assert known in str(agent.tool("list_reviews"))
        created = agent.tool("create_review", intent="by an agent", agent_type="tests", diff=diff)
    assert created["ok"], created
    assert here.call("get_proposal", review_id=created["data"]["review_id"])["base_commit"] == here.head(cwd=top)


def paths_of(proposed: Ended) -> list[str]:
    """The files of a proposal that was just made."""
    return [one["path"] for one in proposed.data["affected_files"]]


def roots(here: Gated) -> list[str]:
    """The folders that the broker has under the project's name, and of others in the same place."""
    listed = here.tandem("project", "list", "--json").data["projects"]
    base = str(here.root.parent)
    return [one["root"] for one in listed if one["project"] == here.project or one["root"].startswith(base)]


def fix_of(here: Gated) -> str:
    """Returns the fix that doctor proposes for the project."""
    found = here.tandem("doctor", "--json").data["findings"]
    [fix] = [one["fix"] for one in found if one["check"] == "project" and one["state"] == "problem"]
    return fix


def add_submodule(here: Gated) -> Path:
    """A staged submodule `libs/part`."""
    origin = new_repository(here.root.parent / "origin")
    here.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(origin), "libs/part")
    return here.root / "libs" / "part"
