"""`tandem service`: systemd or launchd starts the broker at login, with what the shell had that installed it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tandem.settings.instance import find_running
from tandem.setup.service import BrokerStart, Systemd
from tests.commandline import Ended, running_broker
from tests.forked import run_tandem
from tests.interfaces import login_system

pytestmark = pytest.mark.skipif(os.name == "nt", reason="platform: neither systemd nor launchd, which are scripts here")

UNIT = "tandem.service"
AGENT = f"gui/{os.getuid()}/io.github.tandem-broker.tandem" if os.name != "nt" else ""


@dataclass
class Person:
    """A person with a home of their own, and folders whose names systemd has to have escaped."""

    folder: Path
    managers: Path
    home: Path = field(init=False)
    data_dir: Path = field(init=False)
    config_dir: Path = field(init=False)

    def __post_init__(self) -> None:
        self.home = self.folder / "a home"
        self.data_dir = self.folder / 'the %h "data" of $USER'
        self.config_dir = self.folder / "my %config"
        for made in (self.home, self.config_dir):
            made.mkdir()
        (self.config_dir / "config.toml").write_text("port = 0\n", "utf-8")

    def environment(self, **more: str) -> dict[str, str]:
        path = os.pathsep.join((str(self.managers), os.environ["PATH"]))
        places = {"TANDEM_DATA_DIR": str(self.data_dir), "TANDEM_CONFIG_DIR": str(self.config_dir)}
        return {**os.environ, "HOME": str(self.home), "PATH": path, **places, **more}

    def run(self, *words: str, **more: str) -> Ended:
        ended = run_tandem(words, self.folder, self.environment(**more), seconds=90)
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def service(self, verb: str, **more: str) -> dict[str, Any]:
        ended = self.run("service", verb, "--json", **more)
        assert ended.status == 0, (ended.stdout, ended.stderr)
        return ended.data

    def state(self) -> tuple[bool, bool, bool]:
        said = self.service("status")
        return said["installed"], said["enabled"], said["running"]

    def asked(self) -> list[str]:
        return login_system.asked(self.folder)

    def end(self) -> None:
        assert self.run("down").status == 0


@pytest.fixture
def person(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Person]:
    manager = getattr(request, "param", "systemctl")
    if manager == "systemctl" and shutil.which("launchctl"):
        pytest.skip("platform: launchd is this system's")
    found = Person(tmp_path, login_system.scripts(tmp_path, manager))
    yield found
    found.end()


BOTH = pytest.mark.parametrize(
    ("person", "installed", "again", "removed"),
    [
        (
            "systemctl",
            [f"systemctl --user enable --now {UNIT}"],
            [f"systemctl --user enable --now {UNIT}", f"systemctl --user restart {UNIT}"],
            f"systemctl --user disable --now {UNIT}",
        ),
        (
            "launchctl",
            [f"launchctl enable {AGENT}", f"launchctl bootstrap {AGENT.rpartition('/')[0]} FILE"],
            [
                f"launchctl bootout {AGENT}",
                f"launchctl enable {AGENT}",
                f"launchctl bootstrap {AGENT.rpartition('/')[0]} FILE",
            ],
            f"launchctl bootout {AGENT}",
        ),
    ],
    ids=["systemd", "launchd"],
    indirect=["person"],
)


@BOTH
def test_the_broker_is_started_at_login_and_nothing_is_left_when_that_is_taken_back(
    person: Person, installed: list[str], again: list[str], removed: str
) -> None:
    assert person.state() == (False, False, False)

    first = person.service("install", TANDEM_LOG_LEVEL="debug")
    assert first["left_out"] == ["TANDEM_LOG_LEVEL"]
    asked = [line.replace(first["file"], "FILE") for line in person.asked()]
    assert (asked, first["changed"], first["runs_already"]) == (installed, True, False)
    health = httpx.get(f"{first['url']}/healthz").json()
    assert (health["ok"], health["data"]["pid"]) == (True, first["pid"])
    assert find_running(person.data_dir) is not None
    assert person.state() == (True, True, True)
    assert "running    yes\n" in person.run("service", "status").stdout

    # As it is: nothing happens to the broker. With another PATH, by which it finds its reviewers' programs: it does.
    same = person.service("install")
    assert (same["changed"], same["pid"]) == (False, first["pid"])
    person.asked()
    more = person.service("install", PATH=f"{person.managers}:{os.environ['PATH']}:/opt/reviewers' programs/100%")
    assert [line.replace(first["file"], "FILE") for line in person.asked()] == again
    assert (more["changed"], more["runs_already"]) == (True, False)
    assert more["pid"] != first["pid"]

    # Stopped by a person, it stays down, and is still there for the next login.
    assert person.run("down").status == 0
    assert person.state() == (True, True, False)
    assert person.service("remove") == {"removed": True, "stopped": False, "file": first["file"]}
    assert removed in person.asked()
    assert list(person.home.iterdir()) == []
    assert find_running(person.data_dir) is None
    assert person.state() == (False, False, False)
    assert person.service("remove")["removed"] is False


def test_a_broker_that_runs_already_goes_on_and_the_doctor_names_a_program_that_is_gone(person: Person) -> None:
    with running_broker(person.data_dir) as url:
        said = person.run("service", "install", TANDEM_LOG_LEVEL="debug")
        assert "The service does not have this shell's TANDEM_LOG_LEVEL. Put lasting settings" in said.stderr
        running = find_running(person.data_dir)
        assert said.status == 0
        assert running is not None
        assert (running.url, f"One runs already (process {running.pid})" in said.stderr) == (url, True)
        again = person.service("install")
        assert (again["runs_already"], again["pid"]) == (True, running.pid)
    # Stopped as the service's installation said, and now it is the service's.
    assert person.service("install")["runs_already"] is False
    assert person.state() == (True, True, True)
    # The doctor names a service whose program is gone.
    file = Path(again["file"])
    found = {one["check"]: one for one in person.run("doctor", "--json").data["findings"]}
    assert found["service"]["state"] == "ok"
    file.write_text(file.read_text("utf-8").replace(sys.executable, f"{sys.executable}-gone"), "utf-8")
    found = {one["check"]: one for one in person.run("doctor", "--json").data["findings"]}
    assert found["service"]["state"] == "problem"
    assert f"starts {sys.executable}-gone, which is gone" in found["service"]["message"]
    assert found["service"]["fix"] == "tandem service install"
    assert person.service("remove")["stopped"] is True


def test_where_systemd_does_not_answer_it_says_what_to_do_and_changes_nothing(person: Person) -> None:
    (person.folder / "state" / "--user show-environment.fails").write_text("Failed to connect to bus: No medium found")
    refused = person.run("service", "install")
    assert (refused.status, "CONFIG_INVALID" in refused.stderr) == (1, True)
    assert "Failed to connect to bus: No medium found. Log in as this user" in refused.stderr
    assert "tandem up --background" in refused.stderr
    assert (person.asked(), list(person.home.iterdir()), person.data_dir.exists()) == ([], [], False)


def test_where_there_is_neither_systemd_nor_launchd_it_says_what_to_do(person: Person, tmp_path: Path) -> None:
    for verb in ("install", "status", "remove"):
        refused = person.run("service", verb, PATH=str(tmp_path))
        assert (refused.status, "neither systemctl nor launchctl is on PATH" in refused.stderr) == (1, True)
        assert "tandem up --background" in refused.stderr


def test_a_service_that_systemd_refuses_is_taken_back(person: Person) -> None:
    (person.folder / "state" / f"{UNIT}.fails").write_text(f"Unit {UNIT} is masked")
    refused = person.run("service", "install", "--json")
    assert refused.envelope["error"]["message"] == f"systemctl --user enable --now {UNIT} failed: Unit {UNIT} is masked"
    assert list(person.home.iterdir()) == []


def test_systemd_understands_the_unit_whatever_the_folders_are_called(tmp_path: Path) -> None:
    command = ["/opt/a b/$c %d/python", "-P", "up", "--data-dir", '/home/é \\ "x" $y ${z} %h']
    unit = Systemd("systemctl", tmp_path, {})
    unit.file.parent.mkdir(parents=True)
    unit.file.write_bytes(unit.content(BrokerStart(command, {"PATH": "/a b:/50%:/$x"}, tmp_path / "log", 25)))
    assert unit.command() == command
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return
    # The program has to be there.
    command[0] = str(tmp_path / "a b $c %d" / "python")
    Path(command[0]).parent.mkdir()
    Path(command[0]).symlink_to(sys.executable)
    unit.file.write_bytes(unit.content(BrokerStart(command, {"PATH": "/a b:/50%:/$x"}, tmp_path / "log", 25)))
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(
        [analyze, "--user", "verify", unit.file], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if UNIT in line]) == (0, [])
