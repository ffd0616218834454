"""P10 over random small histories: all that a gate opens for was checked on a tree of approved or held commits only.

What a check ran on is read from its log and held against the histories by a rule of its own: every line that is
written is another one, so that each line of the tree, and each that is missing, has exactly one commit that made it so.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.acceptance.checking import PYTHON, Checked

FILES = ("a.txt", "f/one.txt", "f/two.txt")
LINES = 9
SHOWS = {"name": "shows", "command": [PYTHON, "-c", f"for one in {FILES!r}: print(open(one).read(), end='')"]}

edits = st.tuples(st.sampled_from(FILES), st.integers(0, LINES - 1))
steps = st.one_of(
    st.tuples(st.just("main"), edits),
    st.tuples(st.just("side"), edits),
    st.tuples(st.just("approved"), edits),
    st.tuples(st.sampled_from(["fork", "update", "drop"]), st.none()),
)
histories = st.tuples(
    st.lists(steps, max_size=6),
    st.sampled_from(["main", "main~1", "side", "side~1"]),
    edits,
    st.sampled_from(["nothing", "approve", "land"]),
)
Entries = Counter[str]


@dataclass
class Written:
    """What commits and changes add and remove, line by line."""

    added: Entries = field(default_factory=Counter[str])
    removed: Entries = field(default_factory=Counter[str])


class History:
    """A repository of its own with main and a branch beside it."""

    def __init__(self, project: Checked) -> None:
        self.project = project
        self.repo = project.repo
        self.count = 0
        self.approved: set[str] = set()
        self.beside: list[str] = []
        self.drops: list[str] = []
        for path in FILES:
            self.repo.write(path, "".join(f"{path} {number}\n" for number in range(LINES)))
        project.have(SHOWS)
        self.repo.commit("another")
        self.repo.git("branch", "side")
        project.do("set_gate", enabled=True, branches=["main"])

    def edit(self, path: str, line: int) -> None:
        """Replace a line of the working tree by one that is nowhere else."""
        lines = self.repo.read(path).decode().splitlines(keepends=True)
        self.count += 1
        lines[line] = f"new {self.count}\n"
        self.repo.write(path, "".join(lines))

    def step(self, kind: str, edit: tuple[str, int] | None) -> None:
        """One commit, or what moves the branch beside main."""
        self.repo.git("switch", "--quiet", "main" if kind == "main" else "side")
        if edit is not None:
            self.edit(*edit)
            made = self.repo.commit(kind)
            if kind == "approved":
                self.approve(made)
            elif kind == "side":
                self.beside.append(made)
        elif kind == "fork":
            self.repo.git("reset", "--quiet", "--hard", "main")
        elif kind == "drop":
            # A merge that leaves out all that main has.
            self.repo.git("merge", "--quiet", "--no-edit", "--strategy=ours", "main")
            if self.repo.run("rev-parse", "--verify", "--quiet", "HEAD^2", check=False).returncode == 0:
                self.drops.append(self.repo.head())
        elif self.repo.run("merge", "--quiet", "--no-edit", "main", check=False).returncode:
            self.repo.git("merge", "--abort")

    def approve(self, commit: str) -> None:
        """Have what a commit changes approved."""
        diff = self.repo.diff(f"{commit}~1", commit)
        review = self.project.put_up(diff=diff, base=f"{commit}~1")
        self.project.approve(review)
        self.approved.add(commit)

    def lines(self, commit: str) -> Entries:
        """The lines of all files."""
        return Counter("".join(self.repo.git("show", f"{commit}:{path}") for path in FILES).splitlines())

    def has(self, commit: str, other: str) -> bool:
        """Whether a commit has another one."""
        return self.repo.run("merge-base", "--is-ancestor", other, commit, check=False).returncode == 0

    def written(self, base: str) -> Written:
        """What commits that a base has and that are approved, or on main by now, add and remove."""
        found = Written()
        for commit in (*self.approved, *self.beside):
            if self.has(base, commit) and (commit in self.approved or self.has("main", commit)):
                self.count_lines(found, f"{commit}~1", commit)
        for merge in {*self.drops}:
            if self.has(base, merge) and self.has("main", merge):
                self.count_lines(found, f"{merge}^2", merge)
        return found

    def count_lines(self, found: Written, before: str, after: str) -> None:
        """Count what one commit has otherwise than another."""
        old, new = self.lines(before), self.lines(after)
        found.added += new - old
        found.removed += old - new


def play(project: Checked, history: tuple[Any, ...]) -> tuple[bool, bool]:
    """Live a history to its end, and insist on P10; whether the gate opened, and whether it had to."""
    happened, base_name, edit, then = history
    told = History(project)
    repo = told.repo
    for kind, where in happened:
        told.step(kind, where)
    repo.git("checkout", "--quiet", "--force", base_name)
    base, tip = repo.head(), repo.git("rev-parse", "main").strip()
    told.edit(*edit)
    created = project.put_up_whole(diff=repo.diff(), base=base)
    repo.git("checkout", "--quiet", "--force", "main")
    review = created["review_id"]
    [ran] = project.ended(review).values()
    project.approve(review)
    if then == "approve" and told.beside:
        told.approve(told.beside[-1])
    elif then == "land":
        repo.run("merge", "--quiet", "--no-edit", "side", check=False)
        repo.run("merge", "--abort", check=False)
    allowed: bool = project.do("check_gate", digest=created["digest"], branch="main")["allowed"]
    if not allowed:
        return False, told.has("main", base) and ran["status"] == "passed"
    assert ran["tip"] == tip
    tree, at_tip, by_now = (Counter(project.log(review, "shows").splitlines()), told.lines(tip), told.lines("main"))
    diff = project.do("get_proposal", review_id=review)["diff"].splitlines()
    may = told.written(base)
    may.added += Counter(line[1:] for line in diff if line[0] == "+" and line[:3] != "+++")
    may.removed += Counter(line[1:] for line in diff if line[0] == "-" and line[:3] != "---")
    assert not tree - at_tip - may.added - by_now, history
    assert not (at_tip - tree - may.removed) & by_now, history
    return True, True


def test_p10_a_gate_opens_only_for_what_ran_on_nothing_unanswered(tmp_path: Path, checking: Checked) -> None:
    count = itertools.count()

    @settings(max_examples=6)
    @given(history=histories)
    def holds(history: tuple[Any, ...]) -> None:
        with Checked(checking.broker, tmp_path / f"repository-{next(count)}", checking.config_dir) as project:
            opened, had_to = play(project, history)
        assert opened or not had_to

    holds()
