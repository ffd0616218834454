"""The rows of the tables that depend most on git itself, on a second version of it."""

from __future__ import annotations

import os
import subprocess

import pytest

from tandem.rulings.state import REVIEWED
from tests.repository.routes import test_flows, test_routes
from tests.repository.routes.second_git import NoSecondGit, second_git
from tests.repository.routes.tables import Row, cases
from tests.repository.routes.world import World

REFUSED = {
    "merge with a driver of one's own",
    "rebase --update-refs",
    "fetch --atomic",
    "push to oneself",
    "checkout -B",
    "update-ref of a transaction in steps",
    "replace, then merge",
    "commit of a file that a hook has swapped for approved content",
    "refs in tables",
    "push",
}
FOUND = {"branch --move by force", "symbolic-ref of the base branch", "hooks off by GIT_CONFIG_COUNT"}
FLOWS = {"commit with a hook that writes the index", "merge with a conflict", "tidy up", "per plan"}


@pytest.fixture(autouse=True)
def use_second_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every git of a test is the second one, those in hooks and of commands too."""
    first = _version()
    try:
        monkeypatch.setenv("PATH", str(second_git()), prepend=os.pathsep)
    except NoSecondGit as reason:
        pytest.skip(f"platform: {reason}")
    assert _version() != first


def _version() -> str:
    return subprocess.run(["git", "version"], check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("route", cases("refused.txt", only=REFUSED))
def test_p2_what_nobody_approved_is_refused(world: World, route: Row):
    test_routes.test_p2_what_nobody_approved_is_refused(world, route, REVIEWED)


@pytest.mark.parametrize("route", cases("found.txt", only=FOUND))
def test_p2_what_bypasses_the_hooks_is_found(world: World, route: Row):
    test_routes.test_p2_what_bypasses_the_hooks_is_found_and_admitted(world, route)


@pytest.mark.parametrize("flow", cases("flows.txt", only=FLOWS))
def test_daily_work_passes_or_is_told_what_to_do(world: World, flow: Row):
    test_flows.test_daily_work_passes_or_is_told_what_to_do(world, flow, REVIEWED)
