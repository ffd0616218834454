"""A `tandem commit` that is killed at any step leaves no second review and loses nothing; run again, it ends right."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.commandline import Ended, finish
from tests.forked import start_tandem
from tests.modes import VARIATION
from tests.repository.committing import NOT_YET, commit, environment, facts, review_of, reviews
from tests.repository.gating import Gated
from tests.repository.test_rollback_crash import STEP

KILLS = int(os.environ.get("TANDEM_COMMIT_KILLS", "3"))
"""At how many steps of each run it is killed; with 100 at every one."""
MOST_STEPS = 60
HOOKS = {"pre-commit": "h", "commit-msg": "h", "post-index-change": "i", "reference-transaction": "r"}
"""Git hooks that count as steps, beside the steps of `counting_steps`."""
_KILLED = (-9, 137)


class Killed:
    """A repository in which `tandem commit` is killed.

    Attributes:
        folder: Where the steps are counted.
    """

    def __init__(self, gated: Gated, folder: Path) -> None:
        self.gated, self.folder = gated, folder
        folder.mkdir()
        for name, letter in HOOKS.items():
            # The gate's own call these first.
            chained = gated.root / ".git/tandem/chained" / name
            file = chained if name == "reference-transaction" else gated.root / ".git/hooks" / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(STEP.format(folder=shlex.quote(str(folder)), letter=letter, last="exit 0"), "utf-8")
            file.chmod(0o755)

    def run(self, at: int | str, *words: str, with_git: bool) -> Ended:
        """Run it, and kill it at a step, or at steps like these, together with git where that takes the step."""
        (self.folder / "steps").unlink(missing_ok=True)
        (self.folder / "at").write_text(at if isinstance(at, str) else "?" * at)
        (self.folder / "kill").write_text("kill -9 $(cat pid)\n" + "kill -9 0\n" * with_git)
        command = [str(self.folder), *[str(self.gated.root)] * 2, "commit", "--timeout", "0", *words]
        said = {**os.environ, **environment(self.gated), "TANDEM_BROKER": self.gated.broker.url}
        pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
        module = "tests.repository.counting_steps"
        return finish(start_tandem(command, self.gated.root, said, **pipes, module=module, session="own"))


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("stage", "with_git"),
    [
        pytest.param("before", False, id="before-tandem", marks=VARIATION),
        pytest.param("before", True, id="before-all"),
        pytest.param("after", False, id="after-tandem"),
        pytest.param("after", True, id="after-all", marks=VARIATION),
    ],
)
def test_killed_at_any_step_and_run_again_it_ends_right(
    gated: Gated, tmp_path: Path, *, with_git: bool, stage: str
) -> None:
    killed = Killed(gated, tmp_path / "steps")
    ended = False
    for at in range(1, MOST_STEPS):
        if at % max(1, MOST_STEPS // KILLS // 2) and KILLS < MOST_STEPS:
            continue
        text = {"a.txt": f"one\n{at}\nthree\n"}
        gated.write(text)
        gated.git("add", "a.txt")
        gated.write({"b.txt": f"not staged {at}\n"})
        before, known = gated.head(), len(reviews(gated))
        first = killed.run(at, "-m", "Count", with_git=with_git) if stage == "before" else None
        (killed.folder / "at").unlink(missing_ok=True)
        waiting = commit(gated, "-m", "Count")
        assert waiting.status == NOT_YET, (at, waiting)
        assert gated.git("diff", "--cached", "--name-only") == "a.txt", at
        [review] = [str(one["review_id"]) for one in facts(gated)]
        gated.decide(review)
        last = killed.run(at, with_git=with_git) if first is None else first
        ended = last.status not in _KILLED
        (killed.folder / "at").unlink(missing_ok=True)
        done = last if ended and first is None else commit(gated)
        assert (done.status, gated.head("HEAD^")) == (0, before), (at, done)
        assert gated.git("show", "HEAD:a.txt") == text["a.txt"].strip(), at
        assert (gated.trailers(), facts(gated)) == ([review], []), at
        assert reviews(gated)[known:] == ["closed"], at
        assert gated.git("status", "--porcelain") == " M b.txt", at
        if ended:
            break
    assert ended, "it has more steps"
    assert list((gated.root / ".git").rglob("*.lock")) == []


def test_what_is_changed_after_a_kill_is_no_second_review(gated: Gated, tmp_path: Path) -> None:
    killed = Killed(gated, tmp_path / "steps")
    for at in range(12, 26, 4):
        gated.stage({"a.txt": f"one\n{at}\nthree\n"})
        killed.run(at, "-m", "Count", with_git=False)
        (killed.folder / "at").unlink(missing_ok=True)
        gated.stage({"a.txt": f"one\n{at}, or so\nthree\n"})
        assert commit(gated, "-m", "Count").status == NOT_YET
        assert reviews(gated) == ["pending"], at


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("-a",), id="all", marks=VARIATION),
        pytest.param(("--", "a.txt"), id="a path"),
        pytest.param((), id="staged"),
    ],
)
def test_of_the_locks_after_a_kill_only_those_of_the_killed_git_are_removed(
    gated: Gated, tmp_path: Path, words: tuple[str, ...]
) -> None:
    killed = Killed(gated, tmp_path / "steps")
    lock = gated.root / ".git/index.lock"
    gated.write({"a.txt": "one\n2\nthree\n"})
    if not words:
        gated.git("add", "a.txt")
    assert killed.run("*h", "-m", "Count", *words, with_git=True).status in _KILLED
    assert lock.exists() == bool(words)
    # Another git works here by now, also where the first one's lock was in its way and somebody removed it.
    lock.unlink(missing_ok=True)
    lock.write_text("")
    refused = commit(gated, "-m", "Count", *words)
    assert (refused.status, "index.lock': File exists" in refused.stderr, lock.exists()) == (128, True, True), refused
    lock.unlink()
    assert killed.run("*h", "-m", "Count", *words, with_git=True).status in _KILLED
    gated.decide(review_of(commit(gated, "-m", "Count", *words)))
    assert killed.run("*r", *words, with_git=True).status in _KILLED
    assert (gated.root / ".git/HEAD.lock").exists()
    assert (commit(gated, *words).status, gated.git("log", "-1", "--format=%s")) == (0, "Count")
    assert list((gated.root / ".git").rglob("*.lock")) == []
