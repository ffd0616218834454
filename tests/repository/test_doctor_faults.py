"""`tandem doctor` finds each fault that people have met, names its remedy, and finds all well once that was applied.

All faults share two brokers and three repositories, whose files are put back after each. Those that have nothing to
do with each other are planted together: looking at a repository takes longest.
"""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.broker import BrokerProcess
from tests.repository.faults import FAULTS, FIX, Desk, Fault
from tests.repository.faults_of_brokers import OF_BROKERS
from tests.repository.gating import Gated, gate_on, new_repository

TOGETHER = (
    (
        "an open data folder",
        "a dead hook of commits",
        "a record that the broker has refused",
        "settings of GSD that cannot be read",
        "checks that nobody trusts",
    ),
    ("an open secret", "a dead hook of pushes", "checks that cannot be read"),
    (
        "no server in a client's file",
        "a client that is not logged in",
        "no instructions",
        "a hook of an agent that does nothing",
    ),
)


def cases() -> list[Any]:
    """All faults: the groups of `TOGETHER`, and each of the others alone."""
    named = {fault.name: fault for fault in (*FAULTS, *OF_BROKERS)}
    groups = [*TOGETHER, *((name,) for name in named if not any(name in group for group in TOGETHER))]
    return [pytest.param([named[name] for name in group], id=", ".join(group)) for group in groups]


def told(found: dict[str, Any], fault: Fault) -> list[dict[str, Any]]:
    """The findings of a fault."""
    return [
        one
        for one in found["findings"]
        if one["check"] == fault.check and one["state"] == fault.state and fault.words in one["message"]
    ]


@contextmanager
def put_back(*folders: Path, keep: Path) -> Generator[None]:
    """Whatever happens in these folders, they are afterwards as they are now."""
    keep.mkdir()
    for number, folder in enumerate(folders):
        shutil.copytree(folder, keep / str(number), symlinks=True)
    try:
        yield
    finally:
        for number, folder in enumerate(folders):
            shutil.rmtree(folder)
            shutil.copytree(keep / str(number), folder, symlinks=True)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, clean_environment: Path) -> Iterator[Path]:
    """The folder of them all, with the user's configuration folder for everything that runs meanwhile."""
    folder = tmp_path_factory.mktemp("doctor")
    (folder / "config").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TANDEM_CONFIG_DIR", str(folder / "config"))
        yield folder


def desk_in(place: Path, broker: BrokerProcess, name: str) -> Desk:
    home = place / f"home-{name}"
    for folder in (".claude", ".codex"):
        (home / folder).mkdir(parents=True)
    (home / ".gitconfig").write_text("[user]\n\tname = A\n\temail = a@example.invalid\n", "utf-8")
    gated = gate_on(broker, new_repository(place / name))
    environment = {"HOME": str(home), "USERPROFILE": str(home), "TANDEM_DATA_DIR": str(broker.data_dir)}
    return Desk(replace(gated, environment=environment), home, place / "config", {})


@pytest.fixture(scope="module")
def broker(place: Path) -> Iterator[BrokerProcess]:
    (place / "broker").mkdir()
    with BrokerProcess(place / "broker") as started:
        yield started


@pytest.fixture(scope="module")
def plain_desk(place: Path, broker: BrokerProcess) -> Desk:
    """A repository with nothing but the gate."""
    return desk_in(place, broker, "plain")


@pytest.fixture(scope="module")
def full_desk(place: Path, broker: BrokerProcess) -> Desk:
    """A repository in which clients were set up, too."""
    desk = desk_in(place, broker, "full")
    assert desk.run("init", "--gate", "--yes").status == 0
    found = desk.doctor()
    assert found["healthy"], found
    return desk


@pytest.fixture(scope="module")
def own_desk(place: Path) -> Iterator[Desk]:
    """A registered repository and a broker that may be stopped, without a gate."""
    (place / "own-broker").mkdir()
    with BrokerProcess(place / "own-broker") as started:
        home, root = place / "home-own", new_repository(place / "own")
        home.mkdir()
        variables = {"HOME": str(home), "TANDEM_DATA_DIR": str(started.data_dir), "TANDEM_BROKER": ""}
        desk = Desk(Gated(started, root, "own", variables), home, place / "config", {})
        assert desk.run("project", "add").status == 0
        yield desk
        desk.run("down")


@pytest.mark.parametrize("faults", cases())
def test_p2_a_fault_is_found_with_the_remedy_that_mends_it(
    faults: list[Fault], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    name = "own_desk" if faults[0] in OF_BROKERS else "full_desk" if faults[0].clients else "plain_desk"
    desk: Desk = request.getfixturevalue(name)
    with put_back(desk.root, desk.home, desk.config, keep=tmp_path / "kept"):
        for fault in faults:
            fault.plant(desk)
        found = desk.doctor()
        for fault in faults:
            findings = told(found, fault)
            assert len(findings) == 1, (fault.name, found["findings"])
            assert fault.fix in findings[0]["fix"], fault.name
        by_hand = [fault.remedy for fault in faults if fault.remedy != FIX]
        for remedy in by_hand:
            desk.apply(remedy)
        after = desk.doctor(*FIX[1:]) if len(by_hand) < len(faults) else desk.doctor()
        assert [one for one in after["findings"] if one["state"] == "problem"] == []
    desk.variables.clear()
    desk.there = None
