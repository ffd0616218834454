"""One broker and one repository with its gate on for all of these tests: each has a branch and content of its own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.broker import BrokerProcess
from tests.commandline import Inside
from tests.repository.gating import Gated, gate_on, new_repository
from tests.repository.ranges.works import MODES, Auditor, Work

_NUMBERS = count(1)
_UNFINISHED = {
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
}


@pytest.fixture(scope="session")
def user_config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The user's configuration folder."""
    return tmp_path_factory.mktemp("config")


@pytest.fixture(scope="session")
def repository(shared_broker: BrokerProcess, user_config: Path, tmp_path_factory: pytest.TempPathFactory) -> Gated:
    """The repository with its gate on."""
    root = new_repository(tmp_path_factory.mktemp("gated") / "repository")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TANDEM_CONFIG_DIR", str(user_config))
        return gate_on(shared_broker, root)


@pytest.fixture
def shared(repository: Gated, user_config: Path, monkeypatch: pytest.MonkeyPatch) -> Gated:
    """The repository, for a test that is in it, with the strictest settings."""
    monkeypatch.setenv("TANDEM_CONFIG_DIR", str(user_config))
    monkeypatch.chdir(repository.root)
    repository.settings(tandem_enabled=True)
    return repository


@pytest.fixture
def mode(request: pytest.FixtureRequest, shared: Gated) -> str:
    """The mode that the test is parametrized with, which a person has trusted."""
    planning: dict[str, Any] = {"tandem_enabled": True, **MODES[request.param]}
    shared.settings(**planning)
    return request.param


@pytest.fixture
def work(shared: Gated, tmp_path: Path) -> Iterator[Work]:
    """A branch at the start, checked out."""
    name = f"work-{next(_NUMBERS)}"
    (start,) = shared.call("get_gate")["accepted"]
    shared.git("switch", "--quiet", "--create", name, start)
    yield Work(shared, name, name, shared.root, start, tmp_path)
    for sign, operation in _UNFINISHED.items():
        if (shared.root / ".git" / sign).exists():
            shared.try_git(operation, "--abort")
    shared.git("reset", "--quiet", "--hard")
    shared.git("clean", "--quiet", "-fd")
    shared.git("switch", "--quiet", "--detach", start)
    if shared.try_git("rev-parse", "--quiet", "--verify", "refs/heads/main").stdout.strip() != start:
        # Back to where the gate began: that is always let be.
        shared.git("update-ref", "refs/heads/main", start)


@pytest.fixture
def remote(work: Work) -> Iterator[Path]:
    """A bare repository with the start of the work; `origin` here."""
    folder = work.folder / "remote.git"
    work.git("clone", "--quiet", "--bare", "--no-local", "--single-branch", str(work.gated.root), str(folder))
    work.gated.git("update-ref", "refs/heads/main", work.start, cwd=folder)
    work.git("remote", "add", "origin", str(folder))
    yield folder
    work.git("remote", "remove", "origin")


@pytest.fixture
def auditor(shared: Gated) -> Auditor:
    """`tandem audit` in the repository."""
    return Auditor(Inside(shared.broker.url, shared.root))
