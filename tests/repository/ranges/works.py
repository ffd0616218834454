"""One piece of work in a repository with its gate on: a branch of its own, a change of its own, and its approval."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.commandline import Ended, Inside
from tests.repository.gating import Gated, Said

Files = Mapping[str, str | bytes | None]
MODES: dict[str, dict[str, str]] = {
    "per_task": {},
    "per_plan": {"review_granularity": "per_plan"},
    "optimistic": {"execution_mode": "optimistic"},
}
"""The project's settings in each mode."""


@dataclass
class Work:
    """One branch with one change to come.

    Attributes:
        gated: The repository; it is shared.
        branch: The branch that is checked out in `cwd`.
        name: Unique; part of the change, because an approval is of content.
        cwd: Where git runs.
        start: The commit that the branch begins at.
        folder: For further files.
        said: The output of the operations under test.
    """

    gated: Gated
    branch: str
    name: str
    cwd: Path
    start: str
    folder: Path
    said: list[Said] = field(default_factory=list[Said])

    @property
    def change(self) -> Files:
        """The change under test."""
        return {"a.txt": f"one\n{self.name}\nthree\n"}

    @property
    def other(self) -> Files:
        """A change of another file, which is approved wherever it is needed."""
        return {"b.txt": f"alpha\n{self.name}\n"}

    def git(self, *arguments: str, stdin: bytes = b"", **environment: str) -> str:
        """Git, which must succeed."""
        return self.gated.git(*arguments, cwd=self.cwd, stdin=stdin, **environment)

    def run(self, *arguments: str, stdin: bytes = b"") -> bool:
        """An operation that the gate may refuse: whether it went through."""
        said = self.gated.try_git(*arguments, cwd=self.cwd, stdin=stdin)
        self.said.append(said)
        return said.ok

    def refused(self, *arguments: str, stdin: bytes = b"") -> str:
        """Returns the output of an operation that the gate must refuse: no branch moves."""
        before = self.git("for-each-ref")
        self.said.clear()
        assert not self.run(*arguments, stdin=stdin), self.words
        assert "tandem: refused" in self.words
        assert self.git("for-each-ref") == before
        return self.words

    @property
    def words(self) -> str:
        """The output of the operations."""
        return "".join(said.stdout + said.stderr for said in self.said)

    def head(self, revision: str = "HEAD") -> str:
        """A commit's id."""
        return self.gated.head(revision, self.cwd)

    def made(self, files: Files, parent: str, subject: str = "A change", *, mode: str = "100644") -> str:
        """A commit that no branch has, made without a hook; None deletes a file."""
        index = str(self.folder / "made.index")
        self.git("read-tree", parent, GIT_INDEX_FILE=index)
        for name, content in files.items():
            if content is None:
                self.git("update-index", "--force-remove", name, GIT_INDEX_FILE=index)
                continue
            data = content.encode() if isinstance(content, str) else content
            blob = self.git("hash-object", "-w", "--stdin", stdin=data)
            self.git("update-index", "--add", "--cacheinfo", f"{mode},{blob},{name}", GIT_INDEX_FILE=index)
        return self.git("commit-tree", self.git("write-tree", GIT_INDEX_FILE=index), "-p", parent, "-m", subject)

    def put_up(self, before: str, after: str) -> str:
        """Propose the difference of two commits; returns the review's id."""
        diff = self.git("diff", "--binary", "--no-ext-diff", before, after) + "\n"
        return self.gated.call("create_review", intent="A change", agent_type="codex", base=before, diff=diff)[
            "review_id"
        ]

    def approve(self, before: str, after: str) -> str:
        """Have the difference of two commits approved; the review's id."""
        review = self.put_up(self.head(before), after)
        self.gated.decide(review)
        return review

    def approved(self, files: Files, parent: str, subject: str = "An approved change") -> str:
        """As `made`, and approved."""
        commit = self.made(files, parent, subject)
        self.approve(parent, commit)
        return commit

    def jump(self, commit: str) -> None:
        """Move the branch to a commit that may be unapproved."""
        self.git("reset", "--quiet", "--hard", commit)

    def stage(self, files: Files) -> None:
        """Change files and stage them."""
        self.gated.write(files, self.cwd)
        self.git("add", "--all")

    def offer(self, commit: str) -> bool:
        """Whether the base branch takes a commit; otherwise it stays where it is, and git says why."""
        before = self.head("main")
        done = self.run("update-ref", "refs/heads/main", commit)
        assert self.head("main") == (commit if done else before)
        assert done or "tandem: refused: main stays where it is" in self.words, self.words
        return done


@dataclass
class Auditor:
    """`tandem audit`, in this process."""

    inside: Inside

    def run(self, *arguments: str) -> Ended:
        """Run it to its end."""
        return self.inside.run("audit", *arguments)

    def judge(self, revisions: str, *options: str) -> dict[str, Any]:
        """Returns the report on a range, which must agree with the exit status."""
        ended = self.run(revisions, *options, "--json")
        assert ended.status in (0, 1), ended.stdout + ended.stderr
        said: dict[str, Any] = json.loads(ended.stdout)["data"]
        assert said["approved"] == (ended.status == 0)
        return said

    def verdicts(self, revisions: str) -> list[str]:
        """The verdicts on the commits of a range, oldest first."""
        return [commit["verdict"] for commit in self.judge(revisions)["commits"]]
