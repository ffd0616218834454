"""`tools/browser.py` on machines of each kind: with a browser, with a stand-in for one, with none, with none to get."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.source import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="platform: programs are scripts, and Debian's tools")


class Machine:
    """A machine with nothing on its PATH but what a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.programs = folder / "bin"
        self.calls = folder / "calls.txt"
        self.environment = {"PATH": str(self.programs), "HOME": str(folder), "PYTHONPATH": str(folder / "python")}
        self.programs.mkdir()
        for name in ("env", "cat", "chmod"):
            (self.programs / name).symlink_to(str(shutil.which(name)))
        # Playwright would ask the network.
        playwright = folder / "python" / "playwright"
        playwright.mkdir(parents=True)
        (playwright / "__init__.py").touch()
        said = f"import sys, pathlib\nwith pathlib.Path({str(self.calls)!r}).open('a') as calls:\n"
        (playwright / "__main__.py").write_text(
            f"{said}    calls.write('playwright ' + ' '.join(sys.argv[1:]) + '\\n')\nsys.exit(1)\n", "utf-8"
        )

    def has(self, name: str, script: str = "exit 0") -> Path:
        """Put a program on the PATH."""
        path = self.programs / name
        path.write_text(f"#!/bin/sh\necho {name} $@ >> {self.calls}\n{script}\n", "utf-8")
        path.chmod(0o755)
        return path

    def may_install(self, script: str) -> None:
        """Be one of Debian's, where we are root or sudo does not ask."""
        self.has("apt-get", script)
        self.has("sudo", 'shift\nexec "$@"')

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(ROOT / "tools" / "browser.py"), *arguments],
            env={**self.environment, **environment},
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def called(self, program: str) -> list[str]:
        lines = self.calls.read_text("utf-8").splitlines() if self.calls.exists() else []
        return [line for line in lines if line.startswith(f"{program} ")]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_browser_that_is_there_is_taken_and_nothing_is_installed(machine: Machine) -> None:
    machine.may_install("exit 1")
    chromium = machine.has("chromium")
    done = machine.run()
    assert (done.returncode, done.stdout) == (0, f"{chromium}\n")
    assert machine.called("apt-get") == machine.called("playwright") == []


def test_the_named_browser_is_taken_before_all_others(machine: Machine) -> None:
    machine.has("chromium")
    mine = machine.has("my-browser")
    assert machine.run(TANDEM_BROWSER=str(mine)).stdout == f"{mine}\n"
    done = machine.run(TANDEM_BROWSER="no-browser")
    assert (done.returncode, done.stdout) == (1, "")
    assert "TANDEM_BROWSER=no-browser is no browser that runs" in done.stderr


def test_a_stand_in_that_does_not_run_is_no_browser(machine: Machine) -> None:
    machine.has("chromium-browser", "echo 'install the snap first' >&2\nexit 1")
    chrome = machine.has("google-chrome")
    assert machine.run("--find").stdout == f"{chrome}\n"


def test_debian_is_asked_for_one(machine: Machine) -> None:
    new = machine.programs / "chromium-headless-shell"
    machine.may_install(f'case "$*" in *install*) printf "#!/bin/sh\\n" > {new}; chmod 755 {new};; esac')
    done = machine.run()
    assert (done.returncode, done.stdout) == (0, f"{new}\n")
    assert "installing chromium" in done.stderr
    [install] = [call for call in machine.called("apt-get") if " install " in call]
    assert install.endswith("install --yes --no-install-recommends chromium-headless-shell fonts-dejavu-core")
    assert machine.called("playwright") == []


def test_lists_that_are_too_old_are_renewed_once(machine: Machine) -> None:
    new, lists = machine.programs / "chromium-headless-shell", machine.programs.parent / "lists"
    machine.may_install(
        f'case "$*" in *update*) echo > {lists};; *)\n'
        f'[ -e {lists} ] || exit 100\nprintf "#!/bin/sh\\n" > {new}; chmod 755 {new};; esac'
    )
    assert machine.run().stdout == f"{new}\n"
    assert len([call for call in machine.called("apt-get") if call.endswith(" update")]) == 1


def test_where_none_can_be_had_it_says_what_to_install(machine: Machine) -> None:
    machine.may_install("echo 'no network' >&2\nexit 100")
    done = machine.run()
    assert (done.returncode, done.stdout) == (1, "")
    assert "no network" in done.stderr
    assert "apt install chromium" in done.stderr.splitlines()[-1]
    assert machine.called("playwright") == ["playwright install --with-deps chromium"]
