"""Clients on other machines than the broker, which has no repository and gets the needed files with each change."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tandem import examples
from tandem.git.raw import digest_of, parse_raw
from tandem.setup import trust
from tests.acceptance.accessing import Bearer
from tests.broker import BrokerProcess
from tests.commandline import Ended, Shell, finish, git, repository
from tests.interfaces.bridging import bridge
from tests.interfaces.broker_process import watched_broker

SCRIPTED = str(files(examples).joinpath("scripted_reviewer.py"))
FILES = {
    "a.txt": b"one\ntwo\nthree\n",
    "inner/deep.txt": b"deep\n",
    "pixel.bin": bytes(range(256)),
    "gone.txt": b"to be deleted\n",
    "untouched.txt": b"not touched\n",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with watched_broker(tmp_path_factory.mktemp("broker"), auth="token") as started:
        yield started


@dataclass
class Machine:
    """Another machine: a home, a repository and a token of its own."""

    broker: BrokerProcess
    project: str
    home: Path
    root: Path
    token: str

    @property
    def environment(self) -> dict[str, str]:
        home = str(self.home)
        return {
            "HOME": home,
            "XDG_STATE_HOME": home,
            "XDG_CONFIG_HOME": home,
            "TANDEM_DATA_DIR": f"{home}/data",
            "TANDEM_CONFIG_DIR": f"{home}/config",
            "TANDEM_TOKEN": self.token,
        }

    def run(self, *arguments: str, **more: str) -> Ended:
        """Run a command in the repository."""
        environment = {**self.environment, "TANDEM_BROKER": self.broker.url, **more}
        return finish(Shell(self.broker.url, self.root).start(*arguments, **environment))

    def submit(self, *options: str) -> dict[str, Any]:
        """Submit the working tree's change; the answer's data."""
        return self.run("submit", "-m", "a change", "--json", *options).data

    def committed_digest(self) -> str:
        """The digest of the commit that is made of the working tree now."""
        git(self.root, "add", "--all")
        git(self.root, "commit", "--quiet", "--message", "it")
        return digest(self.root)


def digest(root: Path) -> str:
    """The digest of the newest commit, from git itself."""
    raw = git(root, "diff-tree", "-r", "--raw", "-z", "--no-renames", "--full-index", "HEAD~1", "HEAD")
    return digest_of(parse_raw(raw.encode()))


@pytest.fixture
def owner(broker: BrokerProcess) -> Iterator[Bearer]:
    """The broker's owner, who has registered a project without a folder."""
    with Bearer.owner(broker) as desk:
        assert desk.plain("register_project", name=desk.project)["data"]["root"] == ""
        yield desk


@pytest.fixture
def machine(broker: BrokerProcess, owner: Bearer, tmp_path: Path) -> Iterator[Machine]:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".gitconfig").write_text("[user]\n\tname = Far\n\temail = far@example.com\n")
    with owner.give(f"m-{owner.project}", "proposer", "reviewer", bound=True) as desk:
        yield Machine(broker, desk.project, tmp_path / "home", repository(tmp_path / "elsewhere", FILES), desk.token)


@pytest.fixture
def rita(owner: Bearer) -> Iterator[Bearer]:
    """A reviewer who is not the proposer."""
    with owner.give(f"r-{owner.project}", "reviewer", bound=True) as desk:
        yield desk


def edit(root: Path) -> None:
    (root / "a.txt").write_bytes(b"one\nTWO\nthree\n")
    (root / "inner" / "deep.txt").rename(root / "inner" / "moved.txt")
    (root / "pixel.bin").write_bytes(bytes(reversed(range(256))))
    (root / "gone.txt").unlink()
    (root / "new.txt").write_bytes(b"new\n")


def test_p2_a_submitted_change_has_the_digest_of_its_commit(machine: Machine) -> None:
    edit(machine.root)
    made = machine.submit()
    assert made["validated"] is True
    assert made["digest"] == machine.committed_digest()


def approve(rita: Bearer, review_id: str) -> None:
    claim = rita.do("claim_review", reviewer_id="rita", review_id=review_id)
    generation = claim["claim_generation"]
    rita.do("submit_verdict", review_id=review_id, verdict="approved", claim_generation=generation)


def test_an_agent_that_gives_a_diff_alone_has_the_bridge_send_what_it_stands_on(machine: Machine) -> None:
    edit(machine.root)
    git(machine.root, "add", "--all")
    diff = git(machine.root, "diff", "--cached", "--binary", "HEAD")
    proposal = {"intent": "a change", "agent_type": "claude"}
    with bridge("--broker", machine.broker.url, folder=machine.root, **machine.environment) as agent:
        made = agent.tool("create_review", diff=diff, **proposal)["data"]
        plan = {"path": "PLAN.md", "description": "first this\n"}
        text = agent.tool("create_review", **plan, **proposal)["data"]
        again = agent.tool("create_review", path="a.txt", description="all new\n", **proposal)["data"]
    assert (made["validated"], made["digest"]) == (True, machine.committed_digest())
    assert (text["validated"], text["digest"]) == (True, git_id(b"first this\n") + ":PLAN.md")
    assert again["affected_files"][0] == {
        "path": "a.txt",
        "operation": "modified",
        "added": 1,
        "removed": 3,
        "old_path": None,
        "generated": False,
    }


def test_a_broker_without_the_repository_says_what_it_needs(owner: Bearer) -> None:
    diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+1\n"
    proposal = {"project": owner.project, "intent": "it", "agent_type": "x"}
    refused = owner.plain("create_review", diff=diff, **proposal)["error"]
    assert (refused["code"], refused["details"]["field"]) == ("INVALID_INPUT", "base_files")
    assert "tandem submit" in refused["message"]
    # A diff that is not validated needs no files, and opens no gate.
    made = owner.plain("create_review", diff=diff, skip_diff_validation=True, **proposal)["data"]
    assert made["digest"] is None


def sent(path: str, content: bytes, mode: str = "100644", blob: str | None = None) -> dict[str, str]:
    oid = blob or git_id(content)
    return {"path": path, "mode": mode, "blob": oid, "content": base64.b64encode(content).decode()}


def git_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0%s" % (len(content), content)).hexdigest()


CHANGE = "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
BASE = "1" * 40
A = sent("a.txt", b"one\ntwo\n")
OTHER = sent("b.txt", b"other\n")


@pytest.mark.parametrize(
    ("sent_files", "base", "code"),
    [
        pytest.param([{**A, "blob": git_id(b"else\n")}], BASE, "INVALID_INPUT", id="another content than its id says"),
        pytest.param([{**A, "content": "####"}], BASE, "INVALID_INPUT", id="no base64"),
        pytest.param([{**A, "mode": "040000"}], BASE, "INVALID_INPUT", id="a folder"),
        pytest.param([A, A], BASE, "INVALID_INPUT", id="twice"),
        pytest.param([A, OTHER], BASE, "INVALID_INPUT", id="untouched"),
        pytest.param([A, {**OTHER, "path": "../b.txt"}], BASE, "INVALID_INPUT", id="outside"),
        pytest.param([A, {**OTHER, "path": ".git/config"}], BASE, "INVALID_INPUT", id="git's own"),
        pytest.param([A, {**OTHER, "path": "a.txt/b"}], BASE, "INVALID_INPUT", id="below a file"),
        pytest.param([A], "HEAD", "INVALID_INPUT", id="a name for a base"),
        pytest.param([A], "1" * 64, "INVALID_INPUT", id="ids of another kind"),
        pytest.param([], BASE, "INVALID_DIFF", id="not there"),
        pytest.param([sent("a.txt", b"one\nzwei\n")], BASE, "INVALID_DIFF", id="other content"),
        pytest.param([sent("a.txt", b"/etc/passwd", "120000")], BASE, "INVALID_DIFF", id="a link"),
        pytest.param([sent("a.txt", b"", "160000", "2" * 40)], BASE, "INVALID_DIFF", id="a submodule"),
        pytest.param([sent(f"{n}", b"") for n in range(2001)], BASE, "TOO_LARGE", id="too many"),
        pytest.param([sent("a.txt", b"x" * 10_000_001)], BASE, "TOO_LARGE", id="too large"),
    ],
)
def test_files_that_are_no_base_of_the_change_are_refused(
    sent_files: list[dict[str, str]], base: str, code: str, owner: Bearer
) -> None:
    before = owner.do("list_reviews")["cursor"]
    made = owner.plain(
        "create_review",
        project=owner.project,
        intent="it",
        agent_type="x",
        diff=CHANGE,
        base=base,
        base_files=sent_files,
    )
    assert made["error"]["code"] == code, made
    assert owner.do("list_reviews")["cursor"] == before


def test_a_link_is_only_its_text(owner: Bearer, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("one\ntwo\n")
    link = str(secret).encode()
    diff = (
        f"diff --git a/a.txt b/a.txt\ndeleted file mode 120000\n--- a/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-{secret}\n"
    )
    diff += "\\ No newline at end of file\n"
    made = owner.plain(
        "create_review",
        project=owner.project,
        intent="it",
        agent_type="x",
        diff=diff,
        base=BASE,
        base_files=[sent("a.txt", link, "120000")],
    )["data"]
    assert made["digest"] == digest_of([("a.txt", "120000", git_id(link), "000000", "0" * 40)])


def test_files_of_a_round_are_read_as_they_were_sent(machine: Machine, rita: Bearer) -> None:
    edit(machine.root)
    review_id = machine.submit()["review_id"]
    before = rita.do("get_round_file", review_id=review_id, path="a.txt", side="before")
    after = rita.do("get_round_file", review_id=review_id, path="a.txt", side="after")
    assert [before["lines"], after["lines"]] == [["one", "two", "three"], ["one", "TWO", "three"]]
    moved = rita.do("get_round_file", review_id=review_id, path="inner/moved.txt", side="after")
    assert moved["lines"] == ["deep"]
    refused = rita.plain("get_round_file", review_id=review_id, path="untouched.txt", side="after")["error"]
    assert refused["code"] == "NOT_FOUND"
    assert "only the files that it touches" in refused["message"]


def test_rounds_on_different_bases_are_compared(machine: Machine, rita: Bearer) -> None:
    edit(machine.root)
    review_id = machine.submit()["review_id"]
    git(machine.root, "commit", "--quiet", "--allow-empty", "--message", "something else")
    (machine.root / "a.txt").write_bytes(b"one\nzwei\nthree\n")
    made = machine.run("submit", "--revise", review_id, "--json").data
    assert made["validated"]
    found = rita.do("get_proposal", review_id=review_id, since_round=1)["interdiff"]
    assert "-TWO\n+zwei\n" in found
    assert "pixel.bin" not in found


def test_a_counter_patch_is_held_against_what_was_sent(machine: Machine, rita: Bearer) -> None:
    (machine.root / "a.txt").write_bytes(b"one\nTWO\nthree\n")
    review_id = machine.submit()["review_id"]
    claim = rita.do("claim_review", reviewer_id="rita", review_id=review_id)
    better = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n"
    wrong = better.replace("-two", "-TWO")
    say = {"review_id": review_id, "verdict": "changes_requested", "reason": "in German"}
    generation = claim["claim_generation"]
    refused = rita.plain("submit_verdict", **say, counter_patch=wrong, claim_generation=generation)
    assert refused["error"]["code"] == "INVALID_DIFF"
    patch = rita.do("submit_verdict", **say, counter_patch=better, claim_generation=generation)["counter_patch_id"]
    accepted = machine.run("review", "patch", "accept", review_id, patch, "--json").data
    (machine.root / "a.txt").write_bytes(b"one\nzwei\nthree\n")
    assert accepted["digest"] == machine.committed_digest()


@dataclass
class Gate:
    """The gate of a repository on another machine."""

    machine: Machine

    def switch_on(self, owner: Bearer) -> None:
        """By a person who has a token for that."""
        made = owner.plain("create_token", name=f"a-{owner.project}", roles=["admin", "operator"])["data"]
        options = ("--broker", self.machine.broker.url, "--project", self.machine.project)
        on = self.machine.run("gate", "on", *options, "--json", TANDEM_TOKEN=made["token"])
        assert on.status == 0, on

    def commit(self) -> str:
        """What refuses a commit of the working tree; empty if nothing does."""
        command = ["git", "commit", "--all", "--quiet", "--message", "it"]
        environment = {**os.environ, **self.machine.environment}
        ended = subprocess.run(
            command, cwd=self.machine.root, env=environment, check=False, capture_output=True, text=True
        )
        return ended.stderr if ended.returncode else ""


def test_p2_the_gate_judges_commits_on_another_machine(machine: Machine, owner: Bearer, rita: Bearer) -> None:
    gate = Gate(machine)
    gate.switch_on(owner)
    (machine.root / "a.txt").write_bytes(b"one\nTWO\nthree\n")
    review_id = machine.submit()["review_id"]
    assert "has exactly this content and no verdict yet" in gate.commit()
    approve(rita, review_id)
    assert gate.commit() == ""
    audited = machine.run("audit", "HEAD~1..HEAD", "--json")
    assert audited.status == 0, audited
    (machine.root / "a.txt").write_bytes(b"one\nother\nthree\n")
    assert "not approved" in gate.commit()


def test_a_commit_that_is_reviewed_after_takes_along_what_it_stands_on(machine: Machine, owner: Bearer) -> None:
    planning = machine.root / ".planning" / "config.json"
    planning.parent.mkdir()
    planning.write_text('{"tandem_enabled": true, "execution_mode": "optimistic"}')
    (machine.root / ".git" / "info" / "exclude").write_text(".planning/\n")
    config_dir = Path(machine.environment["TANDEM_CONFIG_DIR"])
    trust.add(config_dir, trust.Project.at(str(machine.root), config_dir).candidates())
    gate = Gate(machine)
    gate.switch_on(owner)
    git(machine.root, "switch", "--quiet", "--create", "work")
    (machine.root / "a.txt").write_bytes(b"one\nTWO\nthree\n")
    assert gate.commit() == ""
    (recorded,) = owner.do("list_commits")["commits"]
    assert recorded["commit"] == git(machine.root, "rev-parse", "HEAD").strip()
    status = owner.do("get_review_status", review_id=recorded["review_ids"][0])
    assert status["digest"] == digest(machine.root)


WATCHER = """\
import json, os, runpy, sys

note, program = sys.argv[1:3]
prompt = sys.stdin.buffer.read()
found = {}
for place, folders, names in os.walk("."):
    folders[:] = [one for one in folders if one != ".git"]
    for name in names:
        path = os.path.relpath(os.path.join(place, name), ".")
        with open(path, "rb") as file:
            found[path] = [os.path.islink(path), file.read().decode("latin-1")]
with open(note, "w") as file:
    json.dump({"files": found, "prompt": prompt.decode()}, file)
read, write = os.pipe()
if not os.fork():
    os.close(read)
    with open(write, "wb") as file:
        file.write(prompt)
    os._exit(0)
os.close(write)
os.dup2(read, 0)
sys.argv[1:] = [os.path.dirname(note)]
runpy.run_path(program, run_name="__main__")
"""
"""Notes the files and the prompt that a reviewer gets, and is the reviewer."""


@pytest.mark.skipif(sys.platform == "win32", reason="platform: reviewers run in WSL there")
def test_a_reviewer_on_a_third_machine_reads_the_touched_files(machine: Machine, owner: Bearer, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("not for reviewers")
    (machine.root / "link").symlink_to(secret)
    git(machine.root, "add", "link")
    git(machine.root, "commit", "--quiet", "--message", "a link")
    edit(machine.root)
    # A change of the link's own: at its place there is still only its text.
    (machine.root / "link").unlink()
    (machine.root / "link").symlink_to("a.txt")
    seen = reviewed(machine, owner, tmp_path / "third")
    assert seen["files"] == {
        "a.txt": [False, "one\nTWO\nthree\n"],
        "inner/moved.txt": [False, "deep\n"],
        "link": [False, "a.txt"],
        "new.txt": [False, "new\n"],
        "pixel.bin": [False, bytes(reversed(range(256))).decode("latin-1")],
    }
    assert "It holds only the files that this round touches" in seen["prompt"]


def reviewed(machine: Machine, owner: Bearer, host: Path, *options: str) -> dict[str, Any]:
    """Submit the working tree's change, and have it reviewed on a third machine; what the reviewer was given there."""
    review_id = machine.submit()["review_id"]
    host.mkdir()
    (host / "watcher.py").write_text(WATCHER, "utf-8")
    note = host / "note.json"
    command = [sys.executable, str(host / "watcher.py"), str(note), SCRIPTED]
    hasty = {"spawn_cooldown_seconds": 0, "grace_seconds": 1, "drain_seconds": 1}
    made = owner.plain("create_token", name=f"s-{owner.project}", roles=["supervisor", "operator", "reviewer"])["data"]
    environment = {
        **machine.environment,
        "TANDEM_TOKEN": made["token"],
        "TANDEM_DATA_DIR": str(host / "data"),
        "TANDEM_REVIEWER_POOL": json.dumps({"enabled": True, "provider": "custom", "command": command, **hasty}),
    }
    arguments = ("reviewers", *options, "--broker", machine.broker.url, "--project", machine.project, "--json")
    running = Shell(machine.broker.url, host).start(*arguments, **environment)
    try:
        status = owner.do("get_review_status", review_id=review_id)
        while status["status"] in {"pending", "claimed", "in_review"} and status["attention"] is None:
            asked = {"review_id": review_id, "wait": True, "wake_on": "any", "cursor": status["cursor"]}
            status = owner.do("get_review_status", **asked)
    finally:
        running.terminate()
        ended = finish(running)
    assert status["status"] == "approved", (status, ended)
    seen: dict[str, Any] = json.loads(note.read_text("utf-8"))
    return seen


def test_where_a_name_is_needed_the_tokens_is_taken(machine: Machine, owner: Bearer) -> None:
    author = owner.give(f"a-{owner.project}", "proposer", bound=True)
    with author, owner.give(f"n-{owner.project}", "proposer", "reviewer", "operator", bound=True) as named:
        name = f"n-{owner.project}"

        def run(*arguments: str) -> Ended:
            ended = machine.run(*arguments, "--json", TANDEM_TOKEN=named.token)
            assert ended.status == 0, ended
            return ended

        asked = {"intent": "A plan", "agent_type": "planner", "category": "plan_review", "description": "Do it."}
        claimed, decided, answered = (author.plain("create_review", **asked)["data"]["review_id"] for _ in range(3))
        assert run("me").data["source"] == "TANDEM_TOKEN"
        run("review", "claim", claimed)
        assert named.plain("get_review_status", review_id=claimed)["data"]["reviewer_id"] == name
        run("review", "message", claimed, "--sender-role", "reviewer", "--body", "Why?")
        run("review", "verdict", claimed, "--verdict", "changes_requested", "--reason", "It is wrong.")
        run("review", "verdict", answered, "--claim", "--verdict", "approved")
        run("review", "approve", decided)
        assert named.plain("get_review_status", review_id=decided)["data"]["reviewer_id"] == name
        assert run("inbox", "show").data["person"] == name
        # Without any, the name is asked for.
        assert "tandem me NAME" in machine.run("review", "claim", decided, TANDEM_TOKEN="").refusal
