"""Scratch folders go with their block; those of processes that were killed are swept by the broker's next start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tandem.core.scratch import ScratchFolder, sweep
from tandem.git.runner import memory_folder
from tests.broker import BrokerProcess
from tests.reviewers.running import until

HOLDS = """\
import sys, time
from tandem.core.scratch import ScratchFolder
folder = ScratchFolder("git", sys.argv[1])
print(folder.name, flush=True)
time.sleep(300)
"""


def killed(parent: str) -> Path:
    """The scratch folder of a process that was killed."""
    with subprocess.Popen([sys.executable, "-c", HOLDS, parent], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        (folder / "objects").mkdir()
        (folder / "objects" / "pack").write_bytes(b"x")
        process.kill()
    assert folder.is_dir()
    return folder


@pytest.mark.parametrize("place", ["disk", "memory"])
def test_a_brokers_start_sweeps_what_the_killed_left_and_nothing_of_the_living(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    parent = str(tmp_path) if place == "disk" else memory_folder()
    if parent is None:
        pytest.skip("platform: there is no folder in memory")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    left = killed(parent)
    kept = tmp_path / "tandem-demo-kept-abcdefgh"
    kept.mkdir()
    with ScratchFolder("hook", parent) as living:
        with BrokerProcess(tmp_path):
            for _ in until(f"{left} is swept"):
                if not left.exists():
                    break
        assert Path(living).is_dir()
    assert not Path(living).exists()
    assert kept.is_dir()


def test_links_and_folders_without_their_lock_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "tandem-git-abcdefgh").symlink_to(tmp_path / "precious")
    (tmp_path / "tandem-merge-abcdefgh").mkdir()
    (tmp_path / "tandem-something-abcdefgh").mkdir()
    assert sweep([str(tmp_path)]) == 0
    assert len(list(tmp_path.iterdir())) == 4
    assert sweep([str(tmp_path / "gone")]) == 0


def test_no_sweep_takes_a_folder_in_the_moment_it_is_made(tmp_path: Path) -> None:
    sweeper = "import sys\nfrom tandem.core.scratch import sweep\nwhile True: sweep([sys.argv[1]])"
    with subprocess.Popen([sys.executable, "-c", sweeper, str(tmp_path)]) as process:
        try:
            for _ in range(300):
                with ScratchFolder("index", str(tmp_path)) as folder:
                    Path(folder, "index").write_bytes(b"x")
        finally:
            process.kill()
    assert list(tmp_path.iterdir()) == []
