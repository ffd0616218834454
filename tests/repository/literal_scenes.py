"""Situations in which a literal agent is put, as `scenes.txt` has them, and the reviewers that it meets."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tandem.rulings.trust import CHECKS_FILE
from tandem.settings.instance import find_running
from tests.acceptance.checking import Checked, check, checked, toml
from tests.acceptance.staffed import StaffedBroker, program
from tests.broker import BrokerProcess, Caller
from tests.modes import VARIATION
from tests.repository.gating import Gated, gate_on, new_repository
from tests.repository.routes.tables import rows
from tests.repository.test_hooks_start_broker import as_own, end

DIGITS = "one\n2\nthree\n"
WORDS = "one\ntwo, in words\nthree\n"
ROMAN = "one\nII\nthree\n"
AGENT = {"CLAUDECODE": "1", "BASH_DEFAULT_TIMEOUT_MS": "60000", "TANDEM_AGENT": "literal"}
SHORT = {"BASH_DEFAULT_TIMEOUT_MS": "2000"}
COUNTER_PATCH = """\
diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1,3 +1,3 @@
 one
-two
+II
 three
"""


class Reviewer:
    """Reviews the proposals, as a test has it."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self.review: dict[str, Any] = {}
        self.is_over = Event()

    def claims(self) -> Reviewer:
        """Wait for a review, and claim it."""
        self.review = self._caller.do("claim_review", review_id=self.waits(), reviewer_id="rita")
        return self

    def waits(self) -> str:
        """Wait for a review; its id."""
        listed = self._caller.do("list_reviews", status="pending")
        while not listed["reviews"]:
            at = {"cursor": listed["cursor"], "wait": True, "timeout_s": 2}
            assert not self.is_over.is_set()
            listed = self._caller.do("list_reviews", status="pending", **at)
        return listed["reviews"][0]["review_id"]

    def closes(self) -> Reviewer:
        """Wait for a review, and close it."""
        self._caller.do("close_review", review_id=self.waits(), reason="We do not want digits.")
        return self

    def decides(self, verdict: str, **more: Any) -> Reviewer:
        """Give a verdict on the claimed review."""
        self._held("submit_verdict", verdict=verdict, **{"reason": "Write it in words.", **more})
        return self

    def asks(self, body: str) -> Reviewer:
        """Ask something, and wait for the answer."""
        self._held("add_message", sender_role="reviewer", body=body)
        return self.hears()

    def hears(self) -> Reviewer:
        """Wait until the proposer has answered."""
        status = self._caller.do("get_review_status", review_id=self.review["review_id"])
        while status["turn"] != "reviewer":
            at = {"cursor": status["cursor"], "wake_on": "any", "wait": True, "timeout_s": 2}
            assert not self.is_over.is_set()
            status = self._caller.do("get_review_status", review_id=self.review["review_id"], **at)
        return self

    def _held(self, operation: str, **more: Any) -> None:
        held = {name: self.review[name] for name in ("review_id", "claim_generation")}
        self._caller.do(operation, **held, **more)


def reviewing(*steps: str) -> Callable[[Reviewer], None]:
    """The steps of a reviewer, each about the next proposal: see `scenes.txt`."""

    def review(reviewer: Reviewer) -> None:
        for step in steps:
            if step == "closed":
                reviewer.closes()
                continue
            reviewer.claims()
            if step == "patched":
                reviewer.decides("changes_requested", counter_patch=COUNTER_PATCH)
            elif step == "asked":
                reviewer.asks("Why a digit?").decides("approved")
            elif step == "corrected":
                reviewer.decides("changes_requested", counter_patch="# Better\n")
            elif step == "commented":
                reviewer.decides("comment", reason="Why a digit?").hears().decides("approved")
            else:
                reviewer.decides(step)

    return review


approves = reviewing("approved")
never_comes = reviewing()


UNTRUSTED = toml(check("unit tests", "exit(1)"))
TEXTS = {"DIGITS": DIGITS, "WORDS": WORDS, "ROMAN": ROMAN, "UNTRUSTED": UNTRUSTED}
SCENES = {row.name: row for row in list(rows("../scenes.txt"))}


BEHIND_TOOLS = {"broker_down", "pending_check", "long_quota"}
"""Scenes in which the tools answer as in others; the messages differ for an agent with a shell."""


def played(section: str, *more: str) -> list[Any]:
    """The names of the scenes of a section, of those `anywhere`, and more, for a test that plays each."""
    alike = BEHIND_TOOLS if section == "tools" else set[str]()
    return [
        pytest.param(name, marks=[VARIATION] if row.is_variation or name in alike else [])
        for name, row in SCENES.items()
        if row.section in {"anywhere", section} or name in more
    ]


@dataclass
class Scene:
    """A repository with a gate, and the events there: see `scenes.txt`."""

    gated: Gated
    reviews: Callable[[Reviewer], None] = approves
    changes: tuple[str, ...] = ()
    attempt: str = "git commit -m 'Count in digits'"
    stops: bool = False
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    before_change: str = ""
    prefers: str = ""
    path: str = "a.txt"
    brings: str = ""
    leaves: str = ""
    is_staged: bool = True

    def edits(self) -> Iterator[Callable[[], None]]:
        """Yields the agent's edits, one for each time that it is told to change something."""
        for text in self.changes:
            yield lambda text=text: self._edit(text)

    def _edit(self, text: str) -> None:
        if self.before_change:
            self.take(self.before_change)
        self.gated.write({self.path: text})

    def take(self, step: str) -> None:
        """A step, or what else is so."""
        word, _, rest = step.partition(" ")
        match word:
            case "attempt" | "prefers" | "path" | "brings" | "leaves" | "before_change":
                setattr(self, word, rest)
            case "reviews":
                self.reviews = reviewing(*rest.split())
            case "changes":
                self.changes = tuple(map(TEXTS.__getitem__, rest.split()))
            case "stops":
                self.stops = True
            case "impatient":
                self.environment = {**self.environment, **SHORT}
            case "unstaged":
                self.is_staged = False
            case _:
                self._act(word, shlex.split(rest))

    def _act(self, word: str, words: list[str]) -> None:
        gated = self.gated
        match word:
            case "git":
                gated.git(*words)
            case "!":
                assert not gated.try_git(*words[1:]).ok, words
            case "tandem":
                assert gated.tandem(*words).status == 0, words
            case "approve":
                gated.approve(*words)
            case "closed":
                gated.call("close_review", review_id=gated.put_up(), reason="We do not want digits.")
            case "write" | "stage":
                getattr(gated, word)(_file(*words))
            case "approved":
                gated.approved_commit(_file(*words))
            case _:
                assert word == "unseen", word
                gated.stage(_file(*words))
                gated.git("-c", "core.hooksPath=/dev/null", "commit", "--quiet", "-m", "From before the gate")


def _file(path: str, text: str) -> dict[str, str | bytes | None]:
    if path == "n.txt":
        # A line each, so that git can merge them.
        text = "\n".join(text)
    return {CHECKS_FILE if path == "CHECKS" else path: TEXTS.get(text) or f"{text}\n"}


class Stage:
    """Sets the scene of each situation."""

    def __init__(self, gated: Callable[[], Gated], project: Callable[[], Checked], folder: Path) -> None:
        self._gated = gated
        self._project = project
        self._folder = folder

    @contextmanager
    def scene(self, situation: str) -> Generator[Scene]:
        """The scene of a situation, ready for the agent."""
        steps = SCENES[situation].steps
        setting, *words = shlex.split(steps[0]) if steps else [""]
        if setting in {"staffed", "broker_down", "with_checks", "pending_check"}:
            set_up, steps = getattr(self, setting)(*words), steps[1:]
        else:
            set_up = nullcontext(Scene(self._gated()))
        with set_up as scene:
            for step in steps:
                scene.take(step)
            if scene.is_staged and scene.gated.try_git("diff", "--cached", "--quiet").ok:
                scene.gated.stage({"a.txt": DIGITS})
            yield scene
            assert scene.brings in scene.gated.git("ls-tree", "--name-only", "HEAD")

    @contextmanager
    def staffed(self, *deed: str) -> Generator[Scene]:
        """A gate whose pool's program does this at every review."""
        (self._folder / "staffed").mkdir()
        command = program(self._folder / "staffed" / "notes", *deed)
        pool = {"command": command, "max_pool_size": 1}
        with StaffedBroker(self._folder / "staffed", pool) as broker:
            yield Scene(gate_on(broker, new_repository(self._folder / "theirs")), never_comes)

    @contextmanager
    def broker_down(self, whose: str) -> Generator[Scene]:
        (self._folder / "own").mkdir()
        with BrokerProcess(self._folder / "own") as own:
            gated = gate_on(own, new_repository(self._folder / "theirs"))
            if whose == "own":
                as_own(gated)
            own.stop()

            def comes_later(reviewer: Reviewer) -> None:
                while find_running(own.data_dir) is None:
                    assert not reviewer.is_over.wait(0.1)
                approves(reviewer)

            own_port = {"TANDEM_PORT": str(own.port), "TANDEM_DATA_DIR": str(own.data_dir)}
            try:
                yield Scene(gated, comes_later, environment=own_port)
            finally:
                end(own)

    @contextmanager
    def with_checks(self, *options: str) -> Generator[Scene]:
        """A gate with a check; the base branch has a later commit."""
        place = self._folder / "checking"
        place.mkdir()
        stated = dict(option.split("=", 1) for option in options)
        is_unconfined = "unconfined" not in stated
        own = checked(place, confined=False, checks_at_once=0) if "at_once" in stated else nullcontext(self._project())
        with own as project:
            project.repo.write("a.txt", "one\ntwo\nthree\n")
            project.have(check("unit tests", stated.get("code", "exit(0)")), unconfined=is_unconfined)
            gated = Gated(project.broker, project.repo.root, project.project)
            if "later" in stated:
                gated.stage(_file(*stated["later"].split("=")))
                gated.git("commit", "--quiet", "-m", "Later")
            assert gated.tandem("gate", "on", "--commits", "reviewed").status == 0
            yield Scene(gated)

    @contextmanager
    def pending_check(self) -> Generator[Scene]:
        done = self._folder / "done"
        waits = f"code=import os, time\nwhile not os.path.exists({str(done)!r}): time.sleep(0.02)"
        with self.with_checks(waits) as scene:

            def approves_first(reviewer: Reviewer) -> None:
                approves(reviewer)
                done.touch()

            scene.reviews = approves_first
            yield scene
