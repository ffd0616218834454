"""Real repositories to try git on, out of reach of the configuration of the person who runs the tests."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

RAW = ("--raw", "-z", "--no-renames", "--full-index", "--ignore-submodules=none", "--ita-invisible-in-index")

GITCONFIG = """\
[user]
    name = Test Person
    email = person@example.invalid
[init]
    defaultBranch = main
[commit]
    gpgSign = false
[gc]
    auto = 0
[maintenance]
    auto = false
"""
"""The settings of the person whom tests run git as."""


class Sandbox:
    """A repository, made unless it is there, with shorthands for the tests' actions."""

    def __init__(self, root: Path, object_format: str = "sha1") -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        if (root / ".git").exists():
            # A copy of one that was made before.
            return
        self.git("init", "--quiet", f"--object-format={object_format}", "--initial-branch=main")
        # As `git config` would write it, twice, in each of hundreds of repositories.
        with (root / ".git/config").open("a", encoding="utf-8") as config:
            config.write("[user]\n\tname = Ada\n\temail = ada@example.org\n")

    def run(
        self, *arguments: str, stdin: bytes = b"", check: bool = True, index: Path | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        environment |= {} if index is None else {"GIT_INDEX_FILE": str(index)}
        return subprocess.run(
            ["git", *arguments], cwd=self.root, env=environment, input=stdin, capture_output=True, check=check
        )

    def git(self, *arguments: str, stdin: bytes = b"") -> str:
        return self.run(*arguments, stdin=stdin).stdout.decode("utf-8", "surrogateescape")

    def write(self, path: str, content: bytes | str, *, executable: bool = False) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        file.chmod(0o755 if executable else 0o644)
        return file

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def commit(self, message: str = "a commit") -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--no-verify", "-m", message)
        return self.head()

    def head(self) -> str:
        return self.git("rev-parse", "HEAD").strip()

    def empty_tree(self) -> str:
        return self.git("hash-object", "-t", "tree", "--stdin").strip()

    def diff(self, *arguments: str) -> str:
        return self.git("diff", "--binary", "--no-ext-diff", *arguments)

    def index_digest(self, base: str) -> str:
        return hashlib.sha256(self.run("diff-index", "--cached", *RAW, base).stdout).hexdigest()

    def commit_digest(self, base: str, commit: str) -> str:
        raw = self.run("diff-tree", "-r", "--raw", "-z", "--no-renames", "--full-index", base, commit).stdout
        return hashlib.sha256(raw).hexdigest()

    def exact_digest(self, diff: str, base: str) -> str:
        """The digest of git's result for a diff, with every hunk at the very line that it names."""
        index = self.root / ".git/exact-index"
        index.unlink(missing_ok=True)
        self.run("read-tree", base, index=index)
        applying = ("apply", "--cached", "--whitespace=nowarn", "--verbose", "-p1")
        said = self.run(*applying, stdin=diff.encode(), index=index).stderr
        assert b"offset" not in said, said
        return hashlib.sha256(self.run("diff-index", "--cached", *RAW, base, index=index).stdout).hexdigest()

    def clear(self) -> None:
        """Empties the working tree."""
        for child in self.root.iterdir():
            if child.name == ".git":
                continue
            if child.is_dir() and not child.is_symlink():
                shutil.rmtree(child)
            else:
                child.unlink()

    def fingerprint(self) -> dict[str, tuple[int, str]]:
        """Returns time and content of every file in the git folder; equal when nothing was written.

        Leaves out the times of objects and shared indexes: git renews those that it uses, to keep them from `git gc`.
        """
        folder = self.root / ".git"
        files = {file.relative_to(folder): file for file in sorted(folder.rglob("*")) if file.is_file()}
        return {
            str(name): (
                0 if name.parts[0].startswith(("objects", "sharedindex")) else file.stat().st_mtime_ns,
                hashlib.sha256(file.read_bytes()).hexdigest(),
            )
            for name, file in files.items()
        }


def new_file(path: str, line: str = "hello", mode: str = "100644") -> str:
    """A diff that adds a one-line file, written without git."""
    return f"diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{line}\n"


def edit(path: str, old: str, new: str) -> str:
    """A diff that replaces the only line of a file, written without git."""
    return f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{old}\n+{new}\n"
