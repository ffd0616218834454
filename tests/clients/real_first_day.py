"""The real client programs from an empty home to a landed change, with nothing but what the README says.

A person installs, answers, and gives the task; the model's script does what the skill says. Between the submission and
the verdict no model is called, however long that takes: `TANDEM_LATE_SECONDS=600` has the late verdict come after ten
minutes, with the limits that the clients have by default. In the suite it comes after more than one of the client's own
limits, which are set as short as that.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tandem import examples
from tandem.git.place import find_repository
from tandem.git.raw import FIELDS, digest_of
from tandem.rulings import git
from tests.clients import dialects
from tests.clients.models import ScriptedModel, serving
from tests.clients.real_clients import LATE_SECONDS, SECONDS, run_program
from tests.clients.real_gate import COMMANDS, shell
from tests.clients.real_init import CHOSEN, trusted
from tests.clients.real_tasks import at_terminal

MESSAGE = "Wait between the attempts of an upload"
TEXT = "ATTEMPTS = 3\nPAUSE_SECONDS = 2\n"
WRITE = "printf 'ATTEMPTS = 3\\nPAUSE_SECONDS = 2\\n' > upload.py"
REVIEWER = str(files(examples).joinpath("scripted_reviewer.py"))
POOL = "[reviewer_pool]\nenabled = true\nprovider = 'custom'\ncommand = {command}\n"


@dataclass
class Timed(ScriptedModel):
    """A model that notes when it was called.

    Attributes:
        times: Seconds since 1970 of each call, of any kind.
    """

    times: list[float] = field(default_factory=list[float])

    def say(self, path: str, text: str) -> tuple[str, bytes] | None:
        """As the script has it."""
        if any(one.speaks(path) for one in dialects.ALL):
            self.times.append(time.time())
        return super().say(path, text)

    def between(self, begin: float, end: float) -> int:
        """How many calls there were in a time."""
        return sum(begin < one < end for one in self.times)


@dataclass
class Person:
    """A person with an empty home, who works with a client in a fresh repository.

    Attributes:
        client: The client.
        home: The home folder.
        root: The repository.
    """

    client: str
    home: Path
    root: Path

    def run(self, *command: str, **environment: str) -> str:
        """What a program says, which must not fail."""
        return run_program(command, self.root, self.home, TANDEM_PORT="0", **environment)

    def data(self, *command: str) -> Any:
        """What a command of Tandem's answers."""
        return json.loads(self.run("tandem", *command, "--json"))["data"]

    def set_up(self) -> None:
        """What the README's first minute says."""
        self.run("git", "init", "--initial-branch=main", ".")
        # Not with --global: Gemini CLI hides the user's own configuration from the git that it runs.
        for name, value in (("name", "Ada"), ("email", "ada@example.org")):
            self.run("git", "config", f"user.{name}", value)
        # As `tandem init` and `tandem doctor` say: a login shell, such as that of Codex, has another PATH.
        (self.home / ".profile").write_text(f"export PATH={Path(sys.executable).parent}:$PATH\n", "utf-8")
        trusted(self.home, self.root)
        self.run("tandem", "init", "--gate", "--yes")
        self.run("git", "add", "--all")
        self.run("git", "commit", "--allow-empty", "-m", "Set up Tandem")

    def work(self, model: ScriptedModel, **environment: str) -> None:
        """Have the client work until its model is done."""
        command, variables = COMMANDS[self.client](model.address)
        self.run(*command, "go", **variables, **environment)

    def head(self, revision: str = "HEAD") -> str:
        """The id of a commit."""
        return self.run("git", "rev-parse", revision).strip()

    def ensure_landed(self, before: str, review: str) -> None:
        """Insist that the base branch is exactly the one commit that was approved, and that the audit agrees."""
        assert (self.head("main^"), self.run("git", "status", "--porcelain")) == (before, "")
        assert self.run("git", "show", "main:upload.py") == TEXT
        assert self.run("git", "show", "--format=%B", "--no-patch").splitlines()[:3] == [
            MESSAGE,
            "",
            f"Tandem-Review: {review}",
        ]
        place = find_repository(str(self.root))
        assert place is not None
        changes = git.between(place, before, self.head("main"))
        approved = self.data("review", "status", review)
        assert approved["digest"] == digest_of(tuple(change[name] for name in FIELDS) for change in changes)
        self.run("tandem", "audit", "main")


@dataclass
class LateReviewer:
    """Another person, who approves the review late.

    Attributes:
        person: Whose change it is.
        seconds: How late.
        review: The review, once it is there.
        times: When it was there, and when it was approved.
    """

    person: Person
    seconds: float
    review: str = ""
    times: list[float] = field(default_factory=list[float])
    done: threading.Event = field(default_factory=threading.Event)

    def work(self) -> None:
        """Wait for the review, then for the time, and approve."""
        found: list[dict[str, Any]] = []
        while not found and not self.done.wait(1):
            found = self.person.data("review", "list")["reviews"]
        self.review = found[0]["review_id"] if found else ""
        self.times.append(time.time())
        # The time itself is what the test is about.
        self.done.wait(self.seconds)
        self.times.append(time.time())
        if self.review:
            self.person.data("review", "approve", self.review, "--agent", "alice")

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Work meanwhile."""
        thread = threading.Thread(target=self.work)
        thread.start()
        try:
            yield
        except BaseException:
            self.done.set()
            raise
        finally:
            thread.join()


@pytest.fixture(params=CHOSEN)
def person(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Person]:
    home, root = tmp_path / "home", tmp_path / "shop"
    home.mkdir()
    root.mkdir()
    person = Person(request.param, home, root)
    try:
        yield person
    finally:
        person.run("tandem", "down")


def test_from_an_empty_home_to_a_landed_change(person: Person) -> None:
    settings = person.home / ".config" / "tandem" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(POOL.format(command=json.dumps([sys.executable, REVIEWER])), "utf-8")
    person.set_up()
    before = person.head()
    # Codex gives a command back after 10 s unless it is told otherwise.
    patience = {"yield_time_ms": 30_000} if person.client == "codex" else {}
    commit = f"git add upload.py && tandem commit -m '{MESSAGE}'"
    steps = [shell(person.client, WRITE), shell(person.client, commit, **patience)]
    model = Timed(steps, {"done": True})
    with serving(model):
        person.work(model)
    # One call of a tool, and so none of the model, from the submission to the commit.
    made = re.search(r"rv_\w+ is up, round 1.*committed \w+, approved by (rv_\w+)", model.results[1], re.DOTALL)
    assert made is not None, model.results
    person.ensure_landed(before, made[1])


@pytest.mark.timeout(1500)
def test_a_late_verdict_costs_no_call_of_the_model(person: Person) -> None:
    person.set_up()
    before = person.head()
    way = WAYS[person.client]
    late = LateReviewer(person, LATE_SECONDS or way.late_seconds)
    commit = f"git add upload.py && tandem commit --timeout {way.timeout} -m '{MESSAGE}'"
    steps = [shell(person.client, WRITE), shell(person.client, commit, **way.arguments)]
    limits = {} if LATE_SECONDS else way.limits
    model = Timed(steps, {"done": True})
    with serving(model), late.waiting():
        way.work(person, model, late, **limits)
    submitted, approved = late.times
    shown = [round(one - submitted, 1) for one in model.times]
    # For a run by hand, which shows it with -rP.
    sys.stdout.write(f"{person.client}: {approved - submitted:.0f} s, calls at {shown}\n")
    # Where the client does something else meanwhile, the call that ends its turn is no wait.
    ended = submitted if way.waits else submitted + late.seconds / 2
    assert model.between(ended, approved) == 0, (submitted, approved, model.times)
    if not way.goes_on:
        # The message was that of another session.
        again = Timed([shell(person.client, f"tandem commit -m '{MESSAGE}'")], {"done": True})
        with serving(again):
            person.work(again)
    person.ensure_landed(before, late.review)


def _headless(person: Person, model: Timed, late: LateReviewer, **limits: str) -> None:
    person.work(model, **limits)


def _at_terminal(person: Person, model: Timed, late: LateReviewer, **limits: str) -> None:
    options = ("--permission-mode", "acceptEdits", "--allowedTools", "Bash,Write")
    with at_terminal(person.home, person.root, model, *options, TANDEM_PORT="0", **limits) as terminal:
        # It hears of the end of the command, and its model is called with that.
        terminal.until(lambda: len(late.times) > 1 and model.times[-1] > late.times[1], SECONDS)


class Way(NamedTuple):
    """How a client waits for a verdict that comes late, as the skill says.

    Attributes:
        work: Has it work.
        waits: Whether the call of its tool lasts until the verdict; else the turn ends.
        goes_on: Whether it goes on by itself.
        timeout: How long `tandem commit` waits.
        arguments: More arguments of that call.
        limits: Its own limits, shortened, as variables.
        late_seconds: How late the verdict comes then.
    """

    work: Callable[..., None]
    waits: bool = True
    goes_on: bool = True
    timeout: int = 3600
    arguments: dict[str, object] = {}  # noqa: RUF012 - a default, which is never changed
    limits: dict[str, str] = {}  # noqa: RUF012 - as above
    late_seconds: float = 10.0


WAYS = {
    "claude": Way(
        _at_terminal,
        waits=False,
        arguments={"run_in_background": True},
        limits={"BASH_DEFAULT_TIMEOUT_MS": "3000", "BASH_MAX_TIMEOUT_MS": "3000"},
    ),
    # A command of its shell comes back after 30 s at most, and its model has to look again: so its turn ends.
    "codex": Way(_headless, waits=False, goes_on=False, timeout=0),
    # It counts from the last line of output, and there is one every 20 s.
    "gemini": Way(_headless, late_seconds=25.0),
    "opencode": Way(
        _headless, arguments={"timeout": 3_600_000}, limits={"OPENCODE_EXPERIMENTAL_BASH_DEFAULT_TIMEOUT_MS": "3000"}
    ),
}
