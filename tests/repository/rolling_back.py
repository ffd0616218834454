"""A plan in optimistic mode: committed first, reviewed after, and reverted when a reviewer rejects it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tests.commandline import Ended, Inside
from tests.repository.gating import Gated

BRANCH = "work"
UNHOOKED = ("-c", "core.hooksPath=/dev/null")
"""Options with which git commits round the hooks."""
BASE = "".join(f"line {number}\n" for number in range(1, 21))
"""A file that is long enough for changes that do not touch each other."""


def with_lines(**changed: str) -> str:
    """`BASE` with other lines: `with_lines(l3="third")`."""
    lines = BASE.splitlines()
    for name, text in changed.items():
        lines[int(name[1:]) - 1] = text
    return "".join(f"{line}\n" for line in lines)


class Task(NamedTuple):
    """A task's commit, and its review."""

    commit: str
    review: str


@dataclass
class Plan:
    """The branch `work` of a gated repository, whose changes are reviewed after they are committed."""

    gated: Gated
    chdir: Callable[[Path], None]

    @property
    def root(self) -> Path:
        return self.gated.root

    def git(self, *arguments: str) -> str:
        return self.gated.git(*arguments)

    @property
    def head(self) -> str:
        return self.gated.head()

    def read(self, path: str) -> str:
        return (self.root / path).read_text("utf-8")

    def commit(self, files: Mapping[str, str | bytes | None], subject: str, body: str = "") -> Task:
        """Commit through the hooks, which submit it for review."""
        self.gated.stage(files)
        self.git("commit", "--quiet", "-m", subject, *(["-m", body] if body else []))
        return Task(self.head, self.gated.trailers()[-1])

    def foreign(self, files: Mapping[str, str | bytes | None], subject: str = "Somebody else's") -> str:
        """A commit that belongs to no plan, made round the hooks."""
        self.gated.stage(files)
        self.git(*UNHOOKED, "commit", "--quiet", "-m", subject)
        return self.head

    def reject(self, review: str) -> None:
        self.gated.decide(review, "rejected")

    def approve(self, review: str) -> None:
        self.gated.decide(review, "approved")

    def want_changes(self, review: str, counter_patch: str | None = None, *, accept: bool = True) -> None:
        """Ask for changes; with a counter-patch, which the proposer accepts."""
        more = {} if counter_patch is None else {"counter_patch": counter_patch}
        self.gated.decide(review, "changes_requested", **more)
        if counter_patch is not None and accept:
            found = self.gated.call("get_review_status", review_id=review)
            with self.gated.caller("the-proposer") as proposer:
                proposer.do("accept_counter_patch", review_id=review, counter_patch_id=found["counter_patch_id"])

    def better(self, files: Mapping[str, str | bytes | None]) -> str:
        """A counter-patch from the parent of HEAD to these contents."""
        self.gated.write(files)
        diff = self.git("diff", "--binary", "--full-index", "HEAD^", "--", *files)
        self.git("checkout", "--", *files)
        return diff + "\n"

    def build_upon(self) -> tuple[Task, Task]:
        """A change, and another one of the same file that builds upon it."""
        first = self.commit({"f.txt": with_lines(l3="three")}, "feat(03-02): one")
        return first, self.commit({"f.txt": with_lines(l3="three", l18="eighteen")}, "feat(03-02): two")

    def propose_plan(self, since: str, until: str) -> str:
        """Propose all commits of the plan 03-02 as one change; its review."""
        diff = self.git("diff", since, until) + "\n"
        facts = {"intent": "the plan", "agent_type": "tests", "phase": "03", "plan": "02", "category": "code_change"}
        return self.gated.call("create_review", diff=diff, base=since, **facts)["review_id"]

    def verify_by(self, *argv: str) -> Path:
        """Have the user's configuration, which is returned, name a verify command."""
        config = Path(os.environ["TANDEM_CONFIG_DIR"]) / "config.toml"
        config.write_text(f"verify_command = {json.dumps(argv)}\n", "utf-8")
        return config

    def status(self, review: str) -> dict[str, Any]:
        return self.gated.call("get_review_status", review_id=review)

    def rollback(self, *arguments: str, at: Path | None = None) -> Ended:
        """`tandem rollback`, in this process."""
        self.chdir(at or self.root)
        return Inside(self.gated.broker.url, at or self.root).run("rollback", *arguments)

    def rolled_back(self, review: str, *options: str) -> dict[str, Any]:
        """Returns the report of a rollback that must succeed."""
        ended = self.rollback(review, *options, "--json")
        assert ended.status == 0, ended.stdout + ended.stderr
        return ended.data

    def refused(self, review: str, *options: str, code: str) -> dict[str, Any]:
        """A rollback that must be refused and change nothing; the error."""
        before = self.snapshot()
        ended = self.rollback(review, *options, "--json")
        assert ended.status == 1, ended.stdout
        error = ended.envelope["error"]
        assert error["code"] == code, error
        assert self.snapshot() == before
        return error

    def snapshot(self) -> dict[str, Any]:
        """Everything of the repository that a rollback may touch, and everything that it must clean up."""
        files = sorted(path for path in self.root.rglob("*") if ".git" not in path.relative_to(self.root).parts)
        common = self.root / ".git"
        return {
            "refs": self.git("for-each-ref"),
            "head": (common / "HEAD").read_text("ascii"),
            "index": self.git("ls-files", "--stage"),
            "files": {str(path): _content(path) for path in files},
            "worktrees": self.git("worktree", "list", "--porcelain"),
            "locks": [str(path) for path in common.rglob("*.lock") if path.name != "rollback.lock"],
            "note": (common / "tandem" / "rollback.json").exists(),
        }

    def is_clean(self) -> bool:
        """Whether index and working tree are as in HEAD, and nothing of a rollback is left."""
        left = self.snapshot()
        return (
            self.git("status", "--porcelain") == ""
            and left["worktrees"].count("worktree ") == 1
            and left["locks"] == []
            and not left["note"]
        )


def optimistic(gated: Gated, chdir: Callable[[Path], None], mode: str = "optimistic", **more: str) -> Plan:
    """An optimistic plan on the branch `work`; `f.txt` has twenty lines."""
    planning: dict[str, Any] = {"tandem_enabled": True, "execution_mode": mode, **more}
    gated.settings(**planning)
    gated.git("switch", "--quiet", "-c", BRANCH)
    plan = Plan(gated, chdir)
    plan.foreign({"f.txt": BASE}, "the file")
    return plan


def _content(path: Path) -> object:
    if path.is_symlink():
        return path.readlink()
    return (path.stat().st_mode, path.read_bytes()) if path.is_file() else None
