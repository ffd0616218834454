"""A project under attack: its proposer's attempts, the gate's answers to them, and the record of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tandem.rulings.policy import FILE
from tests.acceptance.checking import Checked
from tests.acceptance.gating import Change, parsed
from tests.git.sandbox import RAW, Sandbox

POLICY = """
[risk]
auth = ["src/auth/**", "src/caf\u00e9/**", "**/migrations/**"]
[[rule]]
name = "auth"
risk = ["auth"]
needs = ["agent", "person"]
[[rule]]
name = "documents"
paths = ["docs/**"]
needs = ["checks"]
[[rule]]
name = "owned"
paths = ["owned/**"]
needs = ["owner"]
[[rule]]
name = "small"
paths = ["lib/**"]
lines = "<=20"
needs = ["checks"]
[[rule]]
name = "large"
paths = ["lib/**"]
not_paths = ["lib/made/**"]
lines = ">20"
needs = ["person"]
[[rule]]
name = "made"
generated = true
needs = ["checks"]
"""
LAX = '[[rule]]\nneeds = ["checks"]\npaths = ["**"]\n'
PERSON = '[[rule]]\nneeds = ["person"]\n'
PROPOSER = "claude-code"
AGENTS = ("codex", "gemini", "opencode")
TWO = "one\ntwo\n"
FILES = {
    "src/auth/login.py": TWO,
    "src/other.py": TWO,
    "docs/guide.md": TWO,
    "owned/a.txt": TWO,
    "docs/big.md": "".join(f"word {number}\n" for number in range(60)),
    "lib/big.py": "".join(f"line {number}\n" for number in range(60)),
    "CODEOWNERS": "owned/ @ann\n",
    ".gitattributes": "lib/made/** linguist-generated\n",
}
"""The project's files, beside its policy, its checks, a program and a link."""

Alter = Callable[[Sandbox], object]
"""Changes the working tree, and stages that."""


def files(**changed: bytes | str | None) -> Alter:
    """Writes files; None removes one."""

    def alter(repo: Sandbox) -> None:
        for path, content in changed.items():
            if content is None:
                (repo.root / path).unlink()
            else:
                repo.write(path, content)
        repo.git("add", "--all")

    return alter


def linked(path: str, target: str, **beside: str | None) -> Alter:
    """Puts a link in place of a file or folder."""

    def alter(repo: Sandbox) -> None:
        files(**beside)(repo)
        repo.git("rm", "-r", "--quiet", "--ignore-unmatch", "-f", path)
        (repo.root / path).parent.mkdir(parents=True, exist_ok=True)
        (repo.root / path).symlink_to(target)
        repo.git("add", "--all")

    return alter


def submodule(path: str) -> Alter:
    """Puts a submodule in place of a file."""

    def alter(repo: Sandbox) -> None:
        repo.git("rm", "-r", "--quiet", "--ignore-unmatch", "-f", path)
        repo.git("update-index", "--add", "--cacheinfo", f"160000,{repo.head()},{path}")

    return alter


class Victim(Checked):
    """A project with a gate, a policy, and a check that passes."""

    def begin(self, policy: str = POLICY) -> None:
        """Have all that; nothing of it changes in a test that takes care of it."""
        for path, content in FILES.items():
            self.repo.write(path, content)
        self.repo.write("docs/run.sh", "#!/bin/sh\n", executable=True)
        (self.repo.root / "docs/way").symlink_to("../src/auth")
        self.repo.write(FILE, policy)
        self.have({"name": "calm", "command": ["true"]})
        self.do("set_gate", enabled=True, branches=["main"])

    def drawn(self, alter: Alter, *how: str) -> tuple[str, list[Change]]:
        """The diff of an alteration, and its raw changes; afterwards the working tree is as it was."""
        alter(self.repo)
        changes = parsed(self.repo.run("diff-index", "--cached", *RAW, "HEAD").stdout)
        diff = self.repo.diff("--cached", "--full-index", *(how or ("--no-renames",)))
        self.repo.git("reset", "--quiet", "--hard")
        self.repo.git("clean", "-ffdxq")
        return diff, changes

    def attempt(self, alter: Alter, *how: str, **more: Any) -> tuple[str, list[Change]]:
        """A review of it once its checks have ended, and its changes for the gate."""
        diff, changes = self.drawn(alter, *how)
        review = self.put_up_whole(diff=diff, proposer_id=PROPOSER, **more)["review_id"]
        self.ended(review)
        return review, changes

    def refusal(self, changes: list[Change], branch: str = "main") -> dict[str, Any]:
        """The gate's answer to a change that it has to refuse."""
        answer = self.do("check_gate", changes=changes, branch=branch)
        assert not answer["allowed"], answer
        return answer

    def passes(self, changes: list[Change], branch: str = "main") -> None:
        """The gate lets it through."""
        answer = self.do("check_gate", changes=changes, branch=branch)
        assert answer["allowed"], answer

    def agents_fail(self, review: str, changes: list[Change], need: str = "person") -> None:
        """Agents approve it, under any name, and neither the review nor the gate takes that for enough."""
        took = [agent for agent in AGENTS[:1] if self.approved_by(review, agent)["ok"]]
        refused = self.approved_by(review, AGENTS[1])["error"]
        assert refused["code"] == "REQUIREMENT_MISSING"
        assert need in [one["need"] for one in refused["details"]["missing"]]
        for name in ("ann", PROPOSER):
            assert self.approved_by(review, name)["error"]["code"] in ("FORBIDDEN", "REQUIREMENT_MISSING")
        self.refusal(changes)
        # The attempt is on record, and who stood up for it.
        events = self.events(review)
        assert (events[0]["kind"], events[0]["actor"]) == ("review_created", PROPOSER)
        assert [one["actor"] for one in events if one["kind"] == "verdict_submitted"] == took

    def person_may(self, review: str, changes: list[Change]) -> None:
        """The same with a person's approval passes: the honest twin."""
        if self.approved_by(review, "ann", proved=True)["data"]["status"] != "approved":
            # An owner and a person are two.
            self.approved_by(review, "ben", proved=True)
        assert self.status(review)["missing"] == []
        self.passes(changes)


def victims(checking: Checked, root: Path) -> Iterator[Victim]:
    """One that is made, for a fixture."""
    with Victim(checking.broker, root, checking.config_dir) as made:
        made.begin()
        yield made
