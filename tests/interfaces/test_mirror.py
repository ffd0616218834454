"""A broker that keeps a mirror of a project's repository, which is no folder on its machine."""

from __future__ import annotations

import html
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tandem.git.base_files import MOST_FILES
from tandem.rulings.trust import CHECKS_FILE
from tandem.setup import trust
from tests.acceptance.accessing import Bearer
from tests.acceptance.checking import check, checked
from tests.broker import CALL_SECONDS, BrokerProcess, Caller
from tests.commandline import Ended, Shell, finish, git, repository
from tests.interfaces.broker_process import WatchedBroker, watched_broker
from tests.interfaces.test_remote import FILES, Gate, Machine, approve, edit, reviewed, sent
from tests.modes import VARIATION


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with watched_broker(tmp_path_factory.mktemp("broker"), auth="token") as started:
        yield started


@dataclass
class Forge:
    """A bare repository that the broker can fetch, and people push to."""

    folder: Path

    @property
    def url(self) -> str:
        return self.folder.as_uri()

    def leave(self) -> None:
        """Be away."""
        self.folder.rename(self.folder.with_suffix(".away"))

    def come_back(self) -> None:
        self.folder.with_suffix(".away").rename(self.folder)


@pytest.fixture
def forge(tmp_path: Path) -> Forge:
    first = repository(tmp_path / "first", FILES)
    git(tmp_path, "clone", "--quiet", "--bare", str(first), "shop.git")
    return Forge(tmp_path / "shop.git")


@pytest.fixture
def owner(broker: BrokerProcess, forge: Forge) -> Iterator[Bearer]:
    """The broker's owner, who has registered a project with a mirror."""
    with Bearer.owner(broker) as desk:
        made = desk.plain("register_project", name=desk.project, mirror=forge.url)["data"]
        assert (made["root"], made["mirror"]["problem"]) == ("", None), made
        yield desk


@pytest.fixture
def machine(broker: BrokerProcess, owner: Bearer, forge: Forge, tmp_path: Path) -> Iterator[Machine]:
    """Somebody's clone of the forge's repository."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".gitconfig").write_text("[user]\n\tname = Far\n\temail = far@example.com\n")
    git(tmp_path, "clone", "--quiet", str(forge.folder), "elsewhere")
    root = tmp_path / "elsewhere"
    git(root, "config", "user.name", "Far")
    git(root, "config", "user.email", "far@example.com")
    with owner.give(f"m-{owner.project}", "proposer", "reviewer", bound=True) as desk:
        yield Machine(broker, desk.project, tmp_path / "home", root, desk.token)


@pytest.fixture
def rita(owner: Bearer) -> Iterator[Bearer]:
    """A reviewer who is not the proposer."""
    with owner.give(f"r-{owner.project}", "reviewer", bound=True) as desk:
        yield desk


def test_p2_a_change_on_a_pushed_base_is_validated_in_the_mirror(machine: Machine, rita: Bearer) -> None:
    edit(machine.root)
    made = machine.submit()
    assert (made["validated"], made["digest"]) == (True, machine.committed_digest())
    whole = rita.do("get_round_file", review_id=made["review_id"], path="untouched.txt", side="after")
    assert whole["lines"] == ["not touched"]


def test_p2_a_base_that_was_pushed_just_now_is_fetched(machine: Machine, rita: Bearer) -> None:
    (machine.root / "untouched.txt").write_bytes(b"somebody's\n")
    git(machine.root, "commit", "--all", "--quiet", "--message", "pushed")
    git(machine.root, "push", "--quiet", "origin", "HEAD")
    edit(machine.root)
    made = machine.submit()
    assert (made["validated"], made["digest"]) == (True, machine.committed_digest())
    whole = rita.do("get_round_file", review_id=made["review_id"], path="untouched.txt", side="before")
    assert whole["lines"] == ["somebody's"]


def test_p2_of_a_base_that_was_not_pushed_the_touched_files_count(machine: Machine, rita: Bearer) -> None:
    git(machine.root, "commit", "--quiet", "--allow-empty", "--message", "not pushed")
    edit(machine.root)
    made = machine.submit()
    assert (made["validated"], made["digest"]) == (True, machine.committed_digest())
    refused = rita.plain("get_round_file", review_id=made["review_id"], path="untouched.txt", side="after")["error"]
    assert refused["code"] == "NOT_FOUND"


def test_p2_of_a_pushed_base_a_change_may_touch_more_files_than_are_sent(machine: Machine) -> None:
    for number in range(MOST_FILES + 1):
        (machine.root / f"{number}.txt").write_bytes(b"one\n")
    git(machine.root, "add", "--all")
    git(machine.root, "commit", "--quiet", "--message", "many")
    git(machine.root, "push", "--quiet", "origin", "HEAD")
    for number in range(MOST_FILES + 1):
        (machine.root / f"{number}.txt").write_bytes(b"two\n")
    made = machine.submit()
    assert (made["validated"], made["digest"]) == (True, machine.committed_digest())


def test_the_claim_says_whether_a_change_still_fits_what_was_pushed(
    machine: Machine, rita: Bearer, forge: Forge, tmp_path: Path
) -> None:
    edit(machine.root)
    first, second = machine.submit()["review_id"], machine.submit()["review_id"]
    assert rita.do("claim_review", reviewer_id="rita", review_id=first)["applies_to_head"] is True
    git(tmp_path, "clone", "--quiet", str(forge.folder), "another")
    another = tmp_path / "another"
    (another / "a.txt").write_bytes(b"of another\n")
    named = ("-c", "user.name=A", "-c", "user.email=a@example.com")
    git(another, *named, "commit", "--all", "--quiet", "--message", "first")
    git(another, "push", "--quiet", "origin", "HEAD")
    assert rita.do("claim_review", reviewer_id="rita", review_id=second)["applies_to_head"] is False


def test_without_the_forge_what_is_here_is_still_used(
    machine: Machine, owner: Bearer, rita: Bearer, forge: Forge
) -> None:
    edit(machine.root)
    base = git(machine.root, "rev-parse", "HEAD").strip()
    forge.leave()
    made = machine.submit()
    assert (made["validated"], made["digest"]) == (True, machine.committed_digest())
    claim = rita.do("claim_review", reviewer_id="rita", review_id=made["review_id"])
    assert claim["applies_to_head"] is None
    # The broker cannot judge a commit that is not here: it may have been pushed.
    unknown = git(machine.root, "rev-parse", "HEAD").strip()
    diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    proposal = {"project": owner.project, "intent": "it", "agent_type": "x", "diff": diff}
    before = owner.do("list_reviews")["cursor"]
    refused = owner.plain("create_review", **proposal, base=unknown)["error"]
    assert (refused["code"], refused["retryable"]) == ("UNAVAILABLE", True)
    assert forge.url in refused["message"]
    assert owner.do("list_reviews")["cursor"] == before
    assert owner.plain("create_review", **proposal, base=base)["data"]["validated"]
    forge.come_back()
    again = owner.plain("register_project", name=owner.project, mirror=forge.url)["data"]
    assert again["mirror"]["problem"] is None


def test_p2_the_gate_opens_for_what_was_approved_in_the_mirror(machine: Machine, owner: Bearer, rita: Bearer) -> None:
    gate = Gate(machine)
    gate.switch_on(owner)
    edit(machine.root)
    git(machine.root, "add", "--all")
    review_id = machine.submit()["review_id"]
    assert "no verdict yet" in gate.commit()
    approve(rita, review_id)
    assert gate.commit() == ""
    assert machine.run("audit", "HEAD~1..HEAD", "--json").status == 0


NO_REPOSITORIES = (
    "ext::sh -c 'touch {hit}'",
    "ext::touch%20{hit}",
    "fd::17/foo",
    "git://forge.example.com/shop.git",
    "http://forge.example.com/shop.git",
    "ftp://forge.example.com/shop.git",
    "https://ada:se-cret@forge.example.com/shop.git",
    "https://se-cret@forge.example.com/shop.git",
    "ssh://git:se-cret@forge.example.com/shop.git",
    "ssh://-oProxyCommand=touch{hit}/shop.git",
    "ssh://git@-oProxyCommand=touch/shop.git",
    "-oProxyCommand=touch@host:shop.git",
    "git@-oProxyCommand=x:shop.git",
    "git@forge.example.com:-shop.git",
    "--upload-pack=touch {hit}",
    "--upload-pack=touch{hit}",
    "file://forge.example.com/shop.git",
    "file:relative",
    "/srv/git/shop.git",
    "https:///shop.git",
    "https://forge.example.com/",
    "https://forge.example.com/shop.git?token=se-cret",
    "https://forge.example.com/shop.git#se-cret",
    "https://forge.example.com/shop.git\nhttps://b",
    "https://forge.example.com:port/shop.git",
    "https://[::1/shop.git",
    "https://forge.example.com/" + "a" * 3000,
    "",
)


def test_a_url_that_is_no_plain_repository_is_refused(broker: BrokerProcess, owner: Bearer, tmp_path: Path) -> None:
    before = owner.plain("list_projects")
    for url in NO_REPOSITORIES:
        refused = owner.plain("register_project", name="hostile", mirror=url.replace("{hit}", str(tmp_path / "hit")))
        assert refused["error"]["code"] == "INVALID_INPUT", refused
        assert "se-cret" not in str(refused)
    assert owner.plain("list_projects") == before
    assert not (tmp_path / "hit").exists()
    assert "se-cret" not in "".join(one.read_text("utf-8") for one in broker.data_dir.glob("logs/*.jsonl"))


def test_a_mirror_goes_with_its_project(broker: BrokerProcess, forge: Forge) -> None:
    with Bearer.owner(broker) as owner:
        made = owner.plain("register_project", mirror=forge.url, name=f"{owner.project} ../x")["data"]
        folder = Path(made["mirror"]["folder"])
        assert (folder.parent, folder.is_dir()) == (broker.data_dir / "mirrors", True)
        assert (folder.with_suffix(".key").stat().st_mode & 0o777) == 0o600
        assert owner.plain("remove_project", name=made["project"])["ok"]
        assert not [one for one in folder.parent.iterdir() if one.name.startswith(folder.name)]


def test_the_mirror_is_read_by_those_who_may_read_the_project_and_written_by_nobody(
    broker: BrokerProcess, owner: Bearer, machine: Machine, tmp_path: Path
) -> None:
    def asked(project: str, token: str | None, *command: str) -> subprocess.CompletedProcess[str]:
        header = [] if token is None else ["-c", f"http.extraHeader=Authorization: Bearer {token}"]
        address = f"{broker.url}/git/{project}"
        environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_GLOBAL": os.devnull}
        asking = ["git", *header, *(word.replace("{address}", address) for word in command)]
        return subprocess.run(
            asking, cwd=machine.root, env=environment, check=False, capture_output=True, text=True, timeout=60
        )

    read = asked(owner.project, machine.token, "clone", "--quiet", "{address}", str(tmp_path / "clone"))
    assert read.returncode == 0, read
    assert (tmp_path / "clone" / "untouched.txt").read_bytes() == FILES["untouched.txt"]
    listing = ("ls-remote", "{address}")
    assert asked(owner.project, None, *listing).returncode != 0
    assert asked(owner.project, "tdm_wrong", *listing).returncode != 0
    assert asked("another", machine.token, *listing).returncode != 0
    pushed = asked(owner.project, machine.token, "push", "{address}", "HEAD:refs/heads/mine")
    assert pushed.returncode != 0
    made = owner.plain("create_token", name=f"w-{owner.project}", roles=["monitor"])["data"]
    assert asked(owner.project, made["token"], *listing).returncode != 0


SSH = """\
#!{python}
import os, subprocess, sys
from pathlib import Path

forge = Path({forge!r})
arguments = sys.argv[1:]
host, command = arguments[-2:]
with (forge / "asked").open("a") as asked:
    asked.write(f"{{arguments}}\\n")
if (forge / "hangs").exists():
    Path(forge, "pid").write_text(f"{{os.getpid()}}\\n")
    sys.stdin.read()
    import time
    time.sleep(600)
key = arguments[arguments.index("-i") + 1]
assert os.stat(key).st_mode & 0o777 == 0o600
shown = subprocess.run(["ssh-keygen", "-y", "-f", key], check=True, capture_output=True, text=True).stdout.split()
known = (forge / "authorized_keys").read_text().splitlines() if (forge / "authorized_keys").exists() else []
if not any(line.split()[:2] == shown[:2] for line in known):
    sys.exit("git@forge: Permission denied (publickey).")
os.execvp("sh", ["sh", "-c", command])
"""
"""A forge behind ssh: lets those in whose key it knows."""


@contextmanager
def own_broker(folder: Path, **settings: object) -> Generator[WatchedBroker]:
    """A broker of the test's own that trusts everybody."""
    folder.mkdir()
    with watched_broker(folder, **settings) as started:
        yield started


@dataclass
class Guarded:
    """A forge that lets known keys in, over ssh.

    Attributes:
        folder: Holds its keys and the id of its process.
        url: Its repository.
        path: The `PATH` with which it is reached.
    """

    folder: Path
    url: str
    path: str

    def let_in(self, key: str) -> None:
        (self.folder / "authorized_keys").write_text(f"{key}\n")

    @property
    def pid(self) -> int:
        """The process that hangs, once it does."""
        return int(await_line(self.folder / "pid"))


@pytest.fixture
def guarded(tmp_path: Path, forge: Forge) -> Guarded:
    if sys.platform == "win32":
        pytest.skip("platform: git for Windows brings an ssh of its own")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "ssh").write_text(SSH.format(python=sys.executable, forge=str(tmp_path)), "utf-8")
    (programs / "ssh").chmod(0o755)
    path = os.pathsep.join((str(programs), os.environ["PATH"]))
    return Guarded(tmp_path, f"ssh://git@forge.example.com{forge.folder}", path)


def ended(pid: int) -> None:
    """Return once a process is gone."""
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(CALL_SECONDS)


def await_line(file: Path) -> str:
    """The line of a file, once it is there."""
    deadline = time.monotonic() + CALL_SECONDS
    while not (file.exists() and file.read_text("utf-8").endswith("\n")):
        assert time.monotonic() < deadline, f"{file.name} was never written"
        time.sleep(0.01)
    return file.read_text("utf-8").strip()


def run(broker: BrokerProcess, *arguments: str) -> Ended:
    """A command of the person who runs the broker, in a folder that is no repository."""
    environment = {"TANDEM_DATA_DIR": str(broker.data_dir), "TANDEM_BROKER": broker.url}
    return finish(Shell(broker.url, broker.folder).start(*arguments, **environment))


def added(broker: BrokerProcess, url: str) -> dict[str, Any]:
    """The mirror that `tandem project add --mirror` answers."""
    return run(broker, "project", "add", "--mirror", url, "--json").data["mirror"]


def listed_mirror(broker: BrokerProcess) -> dict[str, Any]:
    """The mirror of the only project."""
    (found,) = run(broker, "project", "list", "--json").data["projects"]
    return found["mirror"]


def test_a_private_repository_is_fetched_with_the_projects_deploy_key(guarded: Guarded) -> None:
    with own_broker(guarded.folder / "with a blank", PATH=guarded.path) as broker:
        first = added(broker, guarded.url)
        assert "does not let the project's deploy key in" in first["problem"]
        key = first["deploy_key"]
        assert key in run(broker, "project", "add", "--mirror", guarded.url).stdout
        page = httpx.get(f"{broker.url}/projects", timeout=CALL_SECONDS).text
        assert "not fetched: " in page
        assert key in html.unescape(page)
        finding = run(broker, "doctor").stdout
        assert "The broker cannot fetch its mirror of 'shop'" in finding
        assert key in finding.replace("\n", " ")
        guarded.let_in(key)
        second = added(broker, guarded.url)
        assert (second["problem"], second["deploy_key"]) == (None, key)
        assert "A mirror, fetched " in httpx.get(f"{broker.url}/projects", timeout=CALL_SECONDS).text
        assert "Every mirror of a project can be fetched (1)." in run(broker, "doctor").stdout
    options = (guarded.folder / "asked").read_text("utf-8")
    for one in ("BatchMode=yes", "IdentitiesOnly=yes", "IdentityAgent=none", "StrictHostKeyChecking=accept-new"):
        assert one in options


def test_a_fetch_that_takes_too_long_is_ended(guarded: Guarded) -> None:
    (guarded.folder / "hangs").touch()
    with own_broker(guarded.folder / "broker", PATH=guarded.path, mirror_timeout_seconds=1) as broker:
        assert "was not fetched within 1 s" in added(broker, guarded.url)["problem"]
        ended(guarded.pid)


def test_a_fetch_goes_on_without_who_asked_and_ends_with_the_broker(guarded: Guarded) -> None:
    (guarded.folder / "hangs").touch()
    with own_broker(guarded.folder / "broker", PATH=guarded.path) as broker:
        asking = Shell(broker.url, guarded.folder).start("project", "add", "--mirror", guarded.url)
        hanging = guarded.pid
        assert listed_mirror(broker)["fetching"] is True
        broker.stop()
        finish(asking)
        ended(hanging)


def test_after_a_kill_within_a_fetch_the_next_one_works(guarded: Guarded) -> None:
    (guarded.folder / "hangs").touch()
    with own_broker(guarded.folder / "broker", PATH=guarded.path) as broker:
        asking = Shell(broker.url, guarded.folder).start("project", "add", "--mirror", guarded.url)
        hanging = guarded.pid
        mirror = listed_mirror(broker)
        broker.kill()
        finish(asking)
        os.kill(hanging, signal.SIGKILL)
        (guarded.folder / "hangs").unlink()
        guarded.let_in(mirror["deploy_key"])
        (Path(mirror["folder"]) / ".git" / "packed-refs.lock").touch()
        broker.start()
        assert added(broker, guarded.url)["problem"] is None


def test_a_mirror_that_a_loss_of_power_has_damaged_is_fetched_anew(tmp_path: Path, forge: Forge) -> None:
    with own_broker(tmp_path / "broker") as broker:
        folder = Path(added(broker, forge.url)["folder"])
        for damaged in ("objects/pack/*.pack", "HEAD", "refs/heads/*", "index"):
            for file in (folder / ".git").glob(damaged):
                file.chmod(0o600)
                file.write_bytes(b"\0" * file.stat().st_size)
            broker.stop()
            broker.start()
            assert added(broker, forge.url)["problem"] is None, damaged
            git(folder, "fsck", "--strict", "--full")


def test_a_repository_over_the_limit_is_not_kept(tmp_path: Path, forge: Forge) -> None:
    with own_broker(tmp_path / "small", mirror_limit_bytes=200) as broker:
        made = added(broker, forge.url)
        assert "raise mirror_limit_bytes" in made["problem"]
        assert not Path(made["folder"]).exists()
    git(tmp_path, "init", "--quiet", "--bare", "--object-format=sha256", "empty.git")
    with own_broker(tmp_path / "none") as broker:
        assert "has no commit yet" in added(broker, (tmp_path / "empty.git").as_uri())["problem"]


def test_settings_of_a_mirror_are_those_of_its_newest_commit(machine: Machine, owner: Bearer) -> None:
    (machine.root / ".tandem").mkdir()
    (machine.root / ".tandem" / "config.toml").write_text('gate_exempt = ["docs/**"]\nclaim_timeout_seconds = 77\n')
    git(machine.root, "add", "--all")
    git(machine.root, "commit", "--quiet", "--message", "settings")
    git(machine.root, "push", "--quiet", "origin", "HEAD")
    edit(machine.root)
    assert machine.submit()["validated"]
    settings = owner.do("get_project_settings")["settings"]
    found = {one["name"]: one["value"] for one in settings}
    assert found["claim_timeout_seconds"] == 77


def test_checks_run_on_a_round_of_a_mirror(tmp_path: Path) -> None:
    shows = "import subprocess as s; print(s.check_output(['git', 'show', 'HEAD~1:a.txt'], text=True)[:6])"
    with checked(tmp_path) as project:
        project.have(check("reads", shows, required=True), trusted=False)
        body = json.dumps({"name": "far", "mirror": project.repo.root.as_uri()}).encode()
        mirror = project.send("register_project", body).json()["data"]["mirror"]
        here = trust.Project.at(mirror["folder"], project.config_dir)
        trust.add(project.config_dir, [one for one in here.candidates() if one.file == CHECKS_FILE])
        diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1,4 +1,4 @@\n-line 1\n+line one\n line 2\n line 3\n line 4\n"
        made = project.do("create_review", project="far", intent="it", agent_type="x", diff=diff)
        ended = project.ended(made["review_id"], project="far")
        assert {name: one["status"] for name, one in ended.items()} == {"reads": "passed"}, ended
        assert "line 1" in project.do("get_check_log", project="far", review_id=made["review_id"], name="reads")["log"]
        # The checks of a mirror that never was there are unknown.
        body = json.dumps({"name": "away", "mirror": (tmp_path / "away").as_uri()}).encode()
        away = Path(project.send("register_project", body).json()["data"]["mirror"]["folder"])
        files = [sent("a.txt", b"one\n")]
        proposal = {"project": "away", "intent": "it", "agent_type": "x", "base": "1" * 40, "base_files": files}
        proposal["diff"] = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+1\n"
        assert project.do("create_review", **proposal)["validated"]
        (away / CHECKS_FILE).parent.mkdir()
        shutil.copy(project.repo.root / CHECKS_FILE, away / CHECKS_FILE)
        trust.add(project.config_dir, trust.Project.at(str(away), project.config_dir).candidates())
        assert project.call("create_review", **proposal)["error"]["code"] == "UNAVAILABLE"


@VARIATION
def test_each_broker_on_a_database_keeps_a_mirror_of_its_own_with_the_same_key(
    tmp_path: Path, guarded: Guarded, postgres_url: str
) -> None:
    shared = {"PATH": guarded.path, "database_url": postgres_url}
    with own_broker(tmp_path / "one", **shared) as one, own_broker(tmp_path / "two", **shared) as two:
        guarded.let_in(added(one, guarded.url)["deploy_key"])
        with Caller(two.url, "shop") as caller:
            diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
            made = caller.do("create_review", project="shop", intent="it", agent_type="x", diff=diff)
            assert made["validated"]
        folder = Path(listed_mirror(two)["folder"])
        assert folder.is_relative_to(two.data_dir)
        assert folder.is_dir()


@pytest.mark.skipif(sys.platform == "win32", reason="platform: reviewers run in WSL there")
def test_a_reviewer_on_a_third_machine_reads_the_whole_tree(machine: Machine, owner: Bearer, tmp_path: Path) -> None:
    edit(machine.root)
    seen = reviewed(machine, owner, tmp_path / "third", "run")
    assert "It holds exactly what this round comes to" in seen["prompt"]
    assert seen["files"] == {
        "a.txt": [False, "one\nTWO\nthree\n"],
        "inner/moved.txt": [False, "deep\n"],
        "new.txt": [False, "new\n"],
        "pixel.bin": [False, bytes(reversed(range(256))).decode("latin-1")],
        "untouched.txt": [False, "not touched\n"],
    }
