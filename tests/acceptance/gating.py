"""What tests of gates share: what hooks would ask and tell, in a real repository with a branch of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.acceptance.reviewing import Desk
from tests.git.sandbox import RAW, Sandbox

Change = dict[str, str]
PLAN = "03-02"


def parsed(raw: bytes) -> list[Change]:
    """Git's own raw output as a hook sends it."""
    parts = raw.decode().split("\0")[:-1]
    names = ("mode_before", "mode_after", "blob_before", "blob_after")
    return [
        {"path": path, **dict(zip(names, facts.removeprefix(":").split()[:4], strict=True))}
        for facts, path in zip(parts[::2], parts[1::2], strict=True)
    ]


def staged(repo: Sandbox, base: str = "HEAD") -> list[Change]:
    """The changes that a commit would have now, everything in the working tree included."""
    repo.git("add", "--all")
    return parsed(repo.run("diff-index", "--cached", *RAW, base).stdout)


def changed_by(repo: Sandbox, commit: str) -> list[Change]:
    """The changes of a commit with one parent."""
    return parsed(repo.run("diff-tree", "-r", *RAW, f"{commit}^", commit).stdout)


def inverted(changes: Sequence[Change]) -> list[Change]:
    """The changes that revert these."""
    other = {"mode_before": "mode_after", "mode_after": "mode_before"}
    other |= {"blob_before": "blob_after", "blob_after": "blob_before"}
    return [{other.get(name, name): value for name, value in change.items()} for change in changes]


class Branch:
    """A plan's branch of a registered project whose gate guards `main`."""

    def __init__(self, desk: Desk, repo: Sandbox, name: str = "feature") -> None:
        self.desk = desk
        self.repo = repo
        self.name = name
        desk.do("set_gate", enabled=True, branches=["main"])
        repo.git("switch", "--quiet", "--create", name)

    def commit(self, path: str, content: str, message: str = "a change") -> str:
        """A commit without an approval; its id."""
        self.repo.write(path, content)
        return self.repo.commit(message)

    def record(self, commit: str, *reviews: str, **more: Any) -> dict[str, Any]:
        """Tell of a commit as the hook does."""
        told = {"parent": self.repo.git("rev-parse", f"{commit}^").strip(), "branch": self.name, "plan": PLAN}
        told |= {"changes": changed_by(self.repo, commit), "review_ids": list(reviews)}
        return self.desk.do("record_commit", commit=commit, **{**told, **more})

    def optimistic(self, path: str, content: str) -> tuple[str, str]:
        """A commit that is proposed when it is made, and recorded; commit and review."""
        self.repo.write(path, content)
        self.repo.git("add", "--all")
        diff = self.repo.diff("--cached")
        review = self.desk.put_up(diff=diff, metadata={"optimistic": True})
        commit = self.repo.commit()
        self.record(commit, review)
        return commit, review

    def check(self, changes: Sequence[Change], **more: Any) -> dict[str, Any]:
        """The gate's answer to a difference against HEAD."""
        return self.desk.do("check_gate", changes=list(changes), **{"head": self.repo.head(), **more})

    def plan(self, plan: str = PLAN) -> dict[str, Any]:
        """Where the plan stands."""
        return self.desk.do("get_gate", plan=plan)["plan"]

    def decide(self, review: str, verdict: str) -> None:
        """A reviewer's verdict."""
        self.desk.decide(review, verdict)
