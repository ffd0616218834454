"""`tandem doctor` names each fault that people have met, alone, and the fix that it prints ends the fault.

The fix is run as it stands, by a shell; where it is no command, the fault has what a person does who reads it. Faults
of gates and clients share a broker and two repositories, whose files are put back after each. Those that have nothing
to do with each other are planted together: looking at a repository takes longest.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tandem.rulings import state
from tandem.setup.doctor import DoctorContext, clients, examine
from tests.acceptance.staffed import until
from tests.broker import BrokerProcess
from tests.commandline import NOBODY
from tests.repository.faults import IDENTITY, RUN_SECONDS, Desk, Fault, faults
from tests.repository.gating import Gated, gate_on, new_repository

MOST_FIXES = 3
CLIENTS = ("claude", "codex", "gemini", "opencode")

TOGETHER = (
    {
        "an open data folder",
        "a dead hook of commits",
        "a record that the broker has refused",
        "settings of GSD that cannot be read",
        "checks that are not trusted",
    },
    {"an open secret", "a dead hook of pushes", "checks that cannot be read"},
    {"settings that cannot be read", "a git configuration that cannot be read"},
    {"a misspelt variable", "no identity for commits"},
    {"a client that is not logged in", "no instructions", "a hook of an agent that does nothing"},
    {"a misspelt command in a client's file", "no hook of an agent"},
)


def rounds(section: list[Fault]) -> list[list[Fault]]:
    """The faults of a section in their order; those of `TOGETHER` that follow each other are one round."""
    found: list[list[Fault]] = []
    for fault in section:
        if found and any({found[-1][-1].name, fault.name} <= group for group in TOGETHER):
            found[-1].append(fault)
        else:
            found.append([fault])
    return found


@contextmanager
def put_back(*folders: Path, keep: Path) -> Generator[None]:
    """Restores these folders at the end as they were at the start."""
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
        # A machine that is busy with other tests is no fault.
        patch.setattr(clients, "PROBE_SECONDS", 60.0)
        yield folder


@pytest.fixture(autouse=True)
def _own_settings(place: Path) -> None:
    """All of them have the one configuration folder, which is put back after each."""


def desk_in(place: Path, broker: BrokerProcess, name: str) -> Desk:
    home = place / f"home-{name}"
    for folder in (".claude", ".codex"):
        (home / folder).mkdir(parents=True)
    (home / ".gitconfig").write_text(IDENTITY, "utf-8")
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
    settled(desk)
    found = desk.doctor()
    assert found["healthy"], found
    return desk


@pytest.fixture
def own_desk(place: Path, tmp_path: Path) -> Iterator[Desk]:
    """A registered repository and a broker that may be stopped, without a gate."""
    with BrokerProcess(tmp_path) as started:
        home, root = tmp_path / "home", new_repository(tmp_path / "own")
        home.mkdir()
        (home / ".gitconfig").write_text(IDENTITY, "utf-8")
        variables = {"HOME": str(home), "TANDEM_DATA_DIR": str(started.data_dir), "TANDEM_BROKER": ""}
        desk = Desk(Gated(started, root, "own", variables), home, place / "config", {})
        assert desk.run("project", "add").status == 0
        try:
            yield desk
        finally:
            if desk.port is not None:
                desk.port.close()
            desk.variables.clear()
            # Any broker, started by any command in any folder.
            desk.run("down")


@pytest.mark.parametrize("section", faults())
def test_p2_a_fault_alone_is_found_with_the_fix_that_ends_it(
    section: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    desk: Desk = request.getfixturevalue(f"{section.split(maxsplit=1)[0]}_desk")
    has_all = request.config.getoption("every_mode")
    with put_back(desk.root, desk.home, desk.config, keep=tmp_path / "kept"), desk.undisturbed():
        settled(desk)
        last: list[Fault] = []
        for planted in rounds([one for one in faults()[section] if has_all or not one.is_variation]):
            end(desk, last)
            find(desk, planted)
            last = planted
        for fault in last:
            desk.take(fault.remedy)
        # What the fix brings to light is fixed as it is told, too.
        for _ in range(MOST_FIXES):
            if desk.doctor()["healthy"]:
                break
            for one in desk.problems:
                desk.obey(one["fix"])
        assert desk.problems == []


def settled(desk: Desk) -> None:
    """Wait until the broker has read its settings again, which a test before this one has changed and put back."""
    until(lambda: not desk.broker.health()["settings_changed"], "the settings are as they were")


def find(desk: Desk, planted: list[Fault]) -> None:
    """Plant faults: each is named once, and nothing else."""
    for fault in planted:
        desk.take(fault.plant)
    desk.doctor()
    assert len(desk.problems) == len(planted), (planted, desk.problems)
    for fault in planted:
        found = named(desk, fault)
        assert fault.fix in found["fix"]
        # One way out, not two.
        assert "Start it with" not in found["message"]


def named(desk: Desk, fault: Fault) -> dict[str, Any]:
    found = [one for one in desk.problems if one["check"] == fault.check and fault.words in one["message"]]
    assert len(found) == 1, (fault.name, desk.problems)
    return found[0]


def end(desk: Desk, planted: list[Fault]) -> None:
    """Do what ends these faults, before others of the section are planted; a broker need not start."""
    for fault in planted:
        desk.take(fault.remedy)
    for fix in [named(desk, fault)["fix"] for fault in planted if not fault.remedy]:
        if "tandem up" not in fix:
            desk.obey(fix)
    desk.there, desk.is_common = None, False


def test_proxies_of_the_environment_are_no_fault(plain_desk: Desk) -> None:
    with plain_desk.undisturbed():
        settled(plain_desk)
        plain_desk.set(**dict.fromkeys(("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"), NOBODY))
        assert plain_desk.doctor()["healthy"], plain_desk.problems


SMALL_DISK = """
mount -t tmpfs -o size=150m,mode=700 tmpfs "$1" || exit 77
tandem up --background --port 0 && { tandem doctor --json; mount -o remount,size=1g "$1"; tandem doctor --json; }
tandem down
"""
"""With a disk of its own at a folder, which has little room, and then, as doctor says, has more."""


@pytest.mark.skipif(sys.platform != "linux", reason="platform: only Linux lets a process have a disk of its own")
def test_a_disk_that_is_nearly_full_is_found_and_that_there_is_room_again(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir(mode=0o700)
    (tmp_path / ".gitconfig").write_text(IDENTITY, "utf-8")
    environment = {**os.environ, "HOME": str(tmp_path), "TANDEM_DATA_DIR": str(disk)}
    alone = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", SMALL_DISK, "sh", str(disk)]
    done = subprocess.run(
        alone, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=RUN_SECONDS
    )
    if not done.stdout:
        pytest.skip("platform: this machine allows no mounts")
    full, roomy = (json.loads(line)["data"] for line in done.stdout.splitlines() if line.startswith("{"))
    (one,) = [one for one in full["findings"] if one["state"] == "problem"]
    assert one["message"].endswith(f"MB are free where {disk} is.")
    assert one["fix"] == f"free some space on the disk of {disk}"
    assert roomy["healthy"], roomy


def test_clients_that_never_answer_keep_doctor_no_longer_than_ten_seconds(
    full_desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "PROBE_SECONDS", 2.0)
    with put_back(full_desk.root, full_desk.home, keep=tmp_path / "kept"), full_desk.undisturbed():
        folder = full_desk.home / "bin"
        folder.mkdir()
        for name in CLIENTS:
            (full_desk.home / f".{name}").mkdir(exist_ok=True)
            (folder / name).write_text("#!/bin/sh\nexec sleep 60\n", "utf-8")
            (folder / name).chmod(0o755)
        full_desk.set(PATH=f"{folder}{os.pathsep}{os.environ['PATH']}")
        assert full_desk.run("init", "--gate", "--yes", *[f"--client={name}" for name in CLIENTS]).status == 0
        began = time.monotonic()
        full_desk.doctor()
        # One after the other they would take twice as long.
        assert time.monotonic() - began < 10
        silent = [one["message"] for one in full_desk.found["findings"] if "has not said its version" in one["message"]]
        assert len(silent) == len(CLIENTS)


def test_people_are_told_what_doctor_does_meanwhile(plain_desk: Desk) -> None:
    words: list[str] = []

    async def look() -> None:
        place = state.find_repository(str(plain_desk.root))
        here = DoctorContext(plain_desk.root, plain_desk.home, os.environ, None, place, tell=words.append)
        async for _ in examine(here):
            pass

    asyncio.run(look())
    assert words[0] == "checking: programs"
    assert any("servers" in one for one in words)
