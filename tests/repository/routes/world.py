"""The repository that routes and flows start from, made once, and the small language of their steps.

It has a gate, a remote, a colleague's clone and unapproved content.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

import pytest

from tandem.rulings.git import staged
from tandem.rulings.state import REVIEWED
from tandem.setup.gate_switch import GateOptions, place_at
from tests.broker import BrokerProcess
from tests.repository.gating import Gated, Said, gate_on, new_repository

MAIN = "refs/heads/main"
EVIL = "one\nEVIL\nthree\n"
REFUSED = "tandem: refused"
ATTEMPT = "--"
"""The line between a route's preparation and its attempt."""

NONE = "0" * 40


@dataclass(repr=False)
class World:
    """The folder of all repositories, and the results of one row's steps there.

    Attributes:
        gated: The repository with its gate on, `repository`; beside it are `bare.git`, its remote, and `clone`, a
            colleague's clone without a gate.
        name: Unique, so that an approval of this row's content counts for no other row.
        variables: Values that steps name as `$word`: by default the commits `start`, `evil` (not approved), `good` and
            `side` (approved, on `start`), and `theirs` (not approved, in the colleague's clone).
        known: The tree entries that were there before the gate, or have been approved since.
        said: The output of each git step.
    """

    gated: Gated
    name: str
    variables: dict[str, str]
    known: set[str]
    said: list[Said] = field(default_factory=list[Said])

    @property
    def folder(self) -> Path:
        """The folder of all repositories."""
        return self.gated.root.parent

    @property
    def root(self) -> Path:
        """The gated repository."""
        return self.gated.root

    @property
    def words(self) -> str:
        """The output of the steps so far."""
        return "".join(said.stdout + said.stderr for said in self.said)

    # Steps.

    def do(self, steps: Sequence[str]) -> None:
        """Run steps one after another; failures do not stop them."""
        for step in steps:
            self.step(step)

    def step(self, step: str) -> Said | None:
        """Run a step; returns git's output for a git step."""
        words = [_text(word) for word in shlex.split(Template(step).substitute(self.variables | {"me": self.name}))]
        into = words[0][1:] if step.startswith("=") else None
        words = words[1:] if into else words
        environment: dict[str, str] = {}
        while "=" in words[0] and words[0].split("=")[0].isidentifier():
            name, _, environment[name] = words.pop(0).partition("=")
        verb, *arguments = words
        if verb != "git":
            return getattr(self, verb)(*arguments, **environment)
        stdin = ""
        if "<" in arguments:
            at = arguments.index("<")
            arguments, stdin = arguments[:at], "".join(arguments[at + 1 :])
        said = self.run(*arguments, stdin=stdin.encode("utf-8", "surrogateescape"), **environment)
        if into:
            self.variables[into] = said.stdout.strip()
        return said

    def run(self, *arguments: str, stdin: bytes = b"", **environment: str) -> Said:
        """Run git in the repository; it may fail."""
        self.said.append(self.gated.try_git(*arguments, cwd=None, stdin=stdin, **environment))
        return self.said[-1]

    # The other steps, by the first word of a line.

    def write(self, path: str, text: str = EVIL, **_: str) -> None:
        """Write a file, by default with unapproved content, and replace a file or folder in its place."""
        file = self.root / path
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        else:
            file.unlink(missing_ok=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode("utf-8", "surrogateescape"))

    def script(self, path: str, *lines: str) -> None:
        """Write a program for the shell."""
        self.write(path, "\n".join(["#!/bin/sh", *lines, ""]))
        (self.root / path).chmod(0o755)

    def stage(self, path: str, text: str = EVIL) -> None:
        """Write a file and stage everything that differs."""
        self.write(path, text)
        self.gated.git("add", "--all")

    def remove(self, *paths: str) -> None:
        """Delete files or folders."""
        for path in paths:
            if (self.root / path).is_dir():
                shutil.rmtree(self.root / path)
            else:
                (self.root / path).unlink()

    def move(self, source: str, target: str) -> None:
        """Rename a file or folder."""
        (self.root / source).rename(self.root / target)

    def mode(self, octal: str, *paths: str) -> None:
        """Set the mode of files."""
        for path in paths:
            (self.root / path).chmod(int(octal, 8))

    def link(self, target: str, path: str) -> None:
        """Make a symbolic link."""
        (self.root / path).unlink(missing_ok=True)
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).symlink_to(target)

    def know(self, folder: str = ".", commit: str | None = None) -> None:
        """Count the staged entries, or those of a commit, as approved from now on."""
        if commit is not None:
            self.known |= self._tree(commit)
            return
        staged_now = self.gated.git("-C", folder, "ls-files", "--stage").replace(" 0\t", "\t")
        head = self.gated.try_git("-C", folder, "rev-parse", "--quiet", "--verify", "HEAD").stdout.strip()
        self.known |= _entries(staged_now) - (self._tree(head) if head else set())

    def approve(self) -> None:
        """Have the staged change approved."""
        self.know()
        self.variables["review"] = self.gated.approve(intent=self.name)

    def approve_range(self, before: str, after: str) -> None:
        """Have the difference of two commits approved."""
        self.known |= self._tree(after)
        diff = self.gated.git("diff", "--binary", "--full-index", before, after) + "\n"
        arguments = {"intent": self.name, "agent_type": "tests", "base": self.gated.head(before), "diff": diff}
        self.variables["review"] = self.gated.call("create_review", **arguments)["review_id"]
        self.gated.decide(self.variables["review"])

    def approve_of(self, folder: str) -> None:
        """Have everything that differs in another working tree approved."""
        self.gated.git("-C", folder, "add", "--all")
        self.know(folder)
        self.gated.approve(cwd=self.root / folder, intent=self.name)

    def put_up(self) -> None:
        """Propose the staged change."""
        self.variables["review"] = self.gated.put_up(intent=self.name)

    def decide(self, verdict: str = "approved") -> None:
        """Give a verdict on the newest review."""
        self.know()
        self.gated.decide(self.variables["review"], verdict)

    def override(self) -> None:
        """Have a person override the gate for the staged change."""
        self.know()
        changes = staged(place_at(self.root), "HEAD")
        with self.gated.caller() as person:
            person.override(changes=changes, reason="The shop is down.")

    def settings(self, *chosen: str) -> None:
        """Choose a mode, which a person has trusted."""
        wanted: dict[str, Any] = dict(one.split("=") for one in chosen)
        self.gated.settings(tandem_enabled=True, **wanted)

    def plumb(self, path: str, text: str = EVIL) -> None:
        """Commit without a hook."""
        self.stage(path, text)
        self.gated.git("-c", "core.hooksPath=/nowhere", "commit", "--quiet", "-m", "x")

    def fill(self, path: str, lines: str) -> None:
        """Write a file of many lines."""
        self.write(path, "".join(f"{self.name} {number}\n" for number in range(int(lines) // 10)))

    def commit(self, path: str, text: str) -> None:
        """Change a file, have that approved and commit it."""
        self.stage(path, text)
        self.approve()
        self.gated.git("commit", "--quiet", "-m", self.name)

    def tandem(self, *arguments: str, **environment: str) -> None:
        """Run `tandem` without a terminal."""
        ended = self.gated.tandem(*arguments, cwd=None, stdin=b"", **environment)
        self.said.append(Said(ended.status, ended.stdout, ended.stderr))
        for review_id in re.findall(r"rv_\w+", ended.stdout)[:1]:
            self.variables["review"] = review_id

    def switch(self, *facts: str) -> None:
        """Change the gate's file as somebody with an editor would: `name=value`, the value as JSON."""
        self.gated.rewrite(**{name: json.loads(value) for name, value in (fact.split("=", 1) for fact in facts)})

    def ask(self, operation: str, arguments: str = "{}") -> None:
        """Call an operation; it may fail."""
        with self.gated.caller("an agent") as caller:
            envelope = caller.call(operation, **json.loads(arguments))
        self.said.append(Said(int(not envelope["ok"]), "", json.dumps(envelope)))

    def imitate(self, folder: str) -> None:
        """Make a git that shows every hook the approved commit in the place of the other one."""
        real = shutil.which("git")
        evil, good = self.variables["evil"], self.variables["good"]
        lie = f'sed s/{evil}/{good}/g | {real} "$@" | sed s/{good}/{evil}/g'
        self.script(f"{folder}/git", f'case "$*" in *--stdin*) {lie} ;; *) exec {real} "$@" ;; esac')

    def forge(self, folder: str, oid: str, other: str) -> None:
        """Make a folder of objects that has the bytes of another commit's tree and files under a commit's id."""
        objects = self.root / folder
        (objects / "info").mkdir(parents=True)
        (objects / "info/alternates").write_text(f"{self.root}/.git/objects\n", "utf-8")
        ids = [self.gated.git("rev-parse", f"{one}^{{tree}}") for one in (oid, other)]
        copied = self.root / ".git/objects" / ids[1][:2] / ids[1][2:]
        forged = objects / ids[0][:2] / ids[0][2:]
        forged.parent.mkdir()
        shutil.copyfile(copied, forged)

    def overwrite(self, blob: str) -> None:
        """Replace the bytes of an object, whose id stays as it is."""
        evil = self.gated.git("hash-object", "-w", "--stdin", stdin=EVIL.encode())
        objects = self.root / ".git/objects"
        target = objects / blob[:2] / blob[2:]
        target.unlink()
        shutil.copyfile(objects / evil[:2] / evil[2:], target)

    # Results.

    def tip(self, repository: str = ".", ref: str = MAIN) -> str:
        """The commit that a base branch is at; zeros if it does not exist."""
        return self.gated.try_git("-C", repository, "rev-parse", "--quiet", "--verify", ref).stdout.strip() or NONE

    def tips(self) -> tuple[str, str]:
        """Where the base branch is here and at the remote."""
        return self.tip(), self.tip("../bare.git")

    def unapproved(self, before: tuple[str, str]) -> bool:
        """Whether the base branch, here or at the remote, has moved to unapproved content."""
        return any(
            tip not in {NONE, former} and not self._tree(tip, repository) <= self.known
            for repository, tip, former in zip((".", "../bare.git"), self.tips(), before, strict=True)
        )

    def _tree(self, commit: str, repository: str = ".") -> set[str]:
        listed = self.gated.git("--no-replace-objects", "-C", repository, "ls-tree", "-r", commit)
        return _entries(listed.replace(" blob ", " ").replace(" commit ", " "))

    def audited(self, what: str = "main") -> dict[str, Any]:
        """Returns the report of `tandem audit`."""
        ended = self.gated.tandem("audit", what, "--json")
        assert ended.status in (0, 1), ended.stdout + ended.stderr
        said = ended.data
        assert said["approved"] == (ended.status == 0)
        return said


def _entries(listed: str) -> set[str]:
    return set(listed.splitlines())


def _text(word: str) -> str:
    r"""A word with `\n`, `\0` and the like as Python has them; `\udce9` is a byte that is no text."""
    return codecs.decode(word.encode("ascii", "backslashreplace"), "unicode_escape") if "\\" in word else word


@dataclass(frozen=True)
class SavedWorld:
    """A world as it was made, to begin each row with.

    Attributes:
        gated: The repository with its gate on.
        copy: Where the folder is kept as it was.
        variables: As `World` has them.
        known: As `World` has them.
    """

    gated: Gated
    copy: Path
    variables: dict[str, str]
    known: set[str]

    def begun(self, name: str) -> World:
        """A fresh world, in the folder of the one before: the gate knows where it is."""
        folder = self.gated.root.parent
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.copy, folder, symlinks=True)
        # The copies are other files than the index knows.
        self.gated.git("update-index", "-q", "--refresh")
        return World(self.gated, re.sub(r"\W+", "-", name), dict(self.variables), set(self.known))


def make_world(broker: BrokerProcess, folder: Path, commits: str) -> SavedWorld:
    """Make a world below a folder; `TANDEM_CONFIG_DIR` is `config` beside its repository.

    Args:
        broker: The broker.
        folder: Where it is.
        commits: What its gate makes of commits on other branches.
    """
    world = folder / "world"
    (world / "config").mkdir(parents=True)
    root = new_repository(world / "repository")
    shutil.rmtree(root / ".git/hooks")
    plain = Gated(broker, root, "none")
    plain.git("clone", "--quiet", "--bare", "--template=", str(root), str(world / "bare.git"))
    plain.git("clone", "--quiet", "--template=", str(world / "bare.git"), str(world / "clone"))
    plain.git("remote", "add", "origin", "../bare.git")
    plain.git("fetch", "--quiet", "origin")
    variables = {
        "root": str(root),
        "path": os.environ["PATH"],
        "start": plain.head(),
        "blob_of_a": plain.git("rev-parse", "HEAD:a.txt"),
        "blob_of_evil": plain.git("hash-object", "--stdin", stdin=EVIL.encode()),
    }
    for name, files in {
        "evil": {"a.txt": EVIL},
        "good": {"a.txt": "one\n2\nthree\n"},
        "side": {"b.txt": "alpha\ngamma\n"},
    }.items():
        plain.git("switch", "--quiet", "--create", name, variables["start"])
        plain.stage(files)
        plain.git("commit", "--quiet", "-m", name)
        variables[name] = plain.head()
    plain.git("switch", "--quiet", "main")
    (world / "evil.patch").write_text(plain.git("format-patch", "--stdout", "-1", "evil") + "\n", "utf-8")
    plain.git("bundle", "create", "--quiet", str(world / "evil.bundle"), "start..evil".replace("start", "main"))
    clone = world / "clone"
    plain.stage({"theirs.txt": "EVIL\n"}, clone)
    plain.git("commit", "--quiet", "-m", "theirs", cwd=clone)
    variables["theirs"] = plain.head(cwd=clone)
    gated = gate_on(broker, root, GateOptions(commits=commits))
    made = World(gated, "template", variables, set())
    made.known |= made._tree("main")
    for name in ("good", "side"):
        made.approve_range("main", name)
    variables["gate_off"] = json.dumps(gated.switch | {"enabled": False}).replace("\\", "\\\\")
    copy = folder / "as-made"
    shutil.copytree(world, copy, symlinks=True)
    return SavedWorld(gated, copy, variables, made.known)


@pytest.fixture(name="saved_world", scope="session")
def make_saved_world(
    shared_broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], SavedWorld]:
    """Returns the world that each row begins with, by its gate's mode for commits on other branches."""

    @cache
    def saved(commits: str) -> SavedWorld:
        folder = tmp_path_factory.mktemp("routes")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TANDEM_CONFIG_DIR", str(folder / "world/config"))
            return make_world(shared_broker, folder, commits)

    return saved


@pytest.fixture(name="world")
def make_world_of_a_row(
    saved_world: Callable[[str], SavedWorld], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> World:
    """A fresh world for one row; the test's parameter `commits` is its gate's mode for commits on other branches."""
    saved = saved_world(request.node.callspec.params.get("commits", REVIEWED))
    monkeypatch.setenv("TANDEM_CONFIG_DIR", str(saved.gated.root.parent / "config"))
    # A row that is run once more, on another git, is approved by itself.
    file = str(request.node.nodeid).partition("::")[0].rpartition("/")[2]
    return saved.begun(f"{file} {request.node.callspec.id}")
