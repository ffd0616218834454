"""After a failure or a kill in the middle of an edit, files are as before, or the next command finishes it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tandem.errors import ConfigInvalid, Unavailable
from tandem.setup.edits import install, plan
from tests.repository.trees import Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


class Failing:
    """Has the system refuse one of the steps in which files are put in place or deleted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
        self.left = step
        monkeypatch.setattr(os, "replace", self._counted(os.replace))
        monkeypatch.setattr(Path, "unlink", self._counted(Path.unlink))

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(path: Path | str, *arguments: Any, **named: Any) -> Any:
            self.left -= not str(path).endswith(".lock")
            if self.left == 0:
                self.left = -1
                raise OSError(28, "No space left on device", str(path))
            return real(path, *arguments, **named)

        return step


@pytest.mark.parametrize("step", range(1, 7))
def test_a_failure_in_the_middle_leaves_everything_as_it_was(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    tree.write(".mcp.json", b'{"a": 1}')
    tree.write("CLAUDE.md", b"# Mine")
    before = tree.all()
    with monkeypatch.context() as patch:
        Failing(patch, step)
        with pytest.raises(Unavailable, match="No space left on device; everything is as it was"):
            tree.put(*tree.of_every_kind())
    assert tree.all() == before
    assert not tree.file.parent.exists()
    tree.put(*tree.of_every_kind())
    there, kept = tree.all(), tree.file.read_bytes()
    with monkeypatch.context() as patch:
        Failing(patch, step)
        with pytest.raises(Unavailable, match="No space left on device; everything is as it was"):
            tree.take()
    assert (tree.all(), tree.file.read_bytes()) == (there, kept)
    tree.take()
    assert tree.all() == before


DIES = """
import os, signal, sys
from pathlib import Path
from tests.repository.trees import Tree
tree = Tree.__new__(Tree)
tree.root, tree.file = Path(sys.argv[1]) / "tree", Path(sys.argv[1]) / "state" / "installed.json"
left, real = int(sys.argv[2]), os.replace
def dies(*arguments, **named):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments, **named)
os.replace = dies
Path.replace = lambda path, target: dies(path, target)
tree.put(*tree.of_every_kind())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="platform: no SIGKILL")
@pytest.mark.parametrize("step", [2, 4, 6])
def test_what_was_killed_in_the_middle_is_finished_or_taken_back_later(tree: Tree, step: int) -> None:
    tree.write(".mcp.json", b'{"a": 1}')
    before = tree.all()
    command = [sys.executable, "-c", DIES, str(tree.root.parent), str(step)]
    root = Path(__file__).resolve().parents[2]
    died = subprocess.run(command, cwd=root, check=False, capture_output=True, timeout=60)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    if step == 4:
        tree.put(*tree.of_every_kind())
        assert b"tandem:review" in (tree.root / "CLAUDE.md").read_bytes()
    tree.take()
    assert tree.all() == before
    assert not tree.file.parent.exists()


def test_what_changed_in_between_is_not_overwritten(tree: Tree) -> None:
    path = tree.write(".mcp.json", b"{}")
    planned = plan(tree.of_every_kind(), tree.manifest, owner="init")
    path.write_bytes(b'{"new": 1}')
    with pytest.raises(Unavailable, match=r"\.mcp\.json"):
        install(planned)
    assert tree.all() == {".mcp.json": b'{"new": 1}'}


def test_a_manifest_that_is_damaged_is_named(tree: Tree) -> None:
    tree.put(*tree.of_every_kind())
    there = tree.all()
    for content in (b"", b"{}", b'{"version": 9}', b"[]", b'{"version": 2, "files": {"a": 1}, "folders": []}'):
        tree.file.write_bytes(content)
        with pytest.raises(ConfigInvalid, match=r"installed\.json"):
            tree.take()
    assert tree.all() == there
