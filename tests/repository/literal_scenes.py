"""Situations in which a literal agent is put, and the reviewers that it meets."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any, Literal

from tandem.rulings.trust import CHECKS_FILE
from tandem.settings.instance import find_running
from tests.acceptance.checking import check, checked, toml
from tests.acceptance.staffed import StaffedBroker, program
from tests.broker import BrokerProcess, Caller
from tests.repository.gating import Gated, gate_on, new_repository
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
    """Reviews what comes, as a test has it."""

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
        """Give a verdict on what is claimed."""
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
    """The steps of a reviewer, each about the next proposal: a verdict, or one of these.

    `patched` sends a counter-patch, `closed` closes the review, `asked` asks something before it approves, and
    `commented` says something that decides nothing.
    """

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
            elif step == "commented":
                reviewer.decides("comment", reason="Why a digit?").hears().decides("approved")
            else:
                reviewer.decides(step)

    return review


approves = reviewing("approved")
never_comes = reviewing()


@dataclass
class Scene:
    """A repository with a gate, and what happens there.

    Attributes:
        gated: The repository; the agent's change is staged.
        reviews: What the reviewer does.
        changes: What the agent writes, each time that it is asked to change something.
        attempt: The command that it begins with.
        ends: How it ends.
        environment: What its client sets besides.
        before_change: What it does before each change.
        prefers: A word of the other way that it takes.
        path: The file that it changes; one that is no `a.txt` is proposed as a text.
        is_staged: Whether the agent's change is staged when it begins.
    """

    gated: Gated
    reviews: Callable[[Reviewer], None] = approves
    changes: tuple[str, ...] = ()
    attempt: str = "git commit -m 'Count in digits'"
    ends: Literal["committed", "stopped"] = "committed"
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    before_change: Callable[[], None] = lambda: None
    prefers: str = ""
    path: str = "a.txt"
    is_staged: bool = True

    def edits(self) -> Iterator[Callable[[], None]]:
        """What the agent does when it is told to change something."""
        for text in self.changes:
            yield lambda text=text: self._edit(text)

    def _edit(self, text: str) -> None:
        self.before_change()
        self.gated.write({self.path: text})


class Stage:
    """Sets the scene of each situation."""

    def __init__(self, gated: Callable[[], Gated], folder: Path) -> None:
        self._gated = gated
        self._folder = folder

    @contextmanager
    def scene(self, situation: str) -> Generator[Scene]:
        """The scene of a situation, ready for the agent."""
        setting, facts = (ANYWHERE | IN_A_SHELL | WITH_TOOLS)[situation]
        with setting(self) as made:
            found = replace(made, **facts)
            if found.is_staged and found.gated.try_git("diff", "--cached", "--quiet").ok:
                found.gated.stage({"a.txt": DIGITS})
            yield found

    @contextmanager
    def plain(self) -> Generator[Scene]:
        yield Scene(self._gated())

    @contextmanager
    def initialised(self) -> Generator[Scene]:
        """After `tandem init`, of which the gate lets the files pass."""
        gated = self._gated()
        assert gated.tandem("init", "--gate", "--yes", "--client", "claude").status == 0
        gated.git("add", "--all")
        gated.git("commit", "--quiet", "-m", "Set up Tandem")
        yield Scene(gated)

    @contextmanager
    def with_commit(self) -> Generator[Scene]:
        gated = self._gated()
        gated.approved_commit({"a.txt": ROMAN})
        yield Scene(gated)

    @contextmanager
    def with_files(self, **files: str) -> Generator[Scene]:
        """Files are written, and not staged."""
        gated = self._gated()
        gated.write(files)
        yield Scene(gated)

    @contextmanager
    def with_another_staged(self) -> Generator[Scene]:
        gated = self._gated()
        gated.stage({"other.txt": "other\n"})
        gated.write({"a.txt": DIGITS})
        yield Scene(gated)

    @contextmanager
    def with_text(self) -> Generator[Scene]:
        gated = self._gated()
        gated.stage({"docs/PLAN.md": DIGITS})
        yield Scene(gated)

    @contextmanager
    def with_part_of_what_was_approved(self) -> Generator[Scene]:
        gated = self._gated()
        gated.stage({"a.txt": DIGITS, "b.txt": "two\n"})
        gated.approve("--staged")
        gated.git("reset", "--quiet", "--", "b.txt")
        yield Scene(gated)

    @contextmanager
    def closed_before(self) -> Generator[Scene]:
        gated = self._gated()
        gated.stage({"a.txt": DIGITS})
        gated.call("close_review", review_id=gated.put_up(), reason="We do not want digits.")
        yield Scene(gated)

    @contextmanager
    def staffed(self, deed: str) -> Generator[Scene]:
        """A gate whose pool's program does this at every review."""
        (self._folder / "staffed").mkdir()
        command = program(self._folder / "staffed" / "notes", *deed.split())
        pool = {"command": command, "max_pool_size": 1}
        with StaffedBroker(self._folder / "staffed", pool) as broker:
            yield Scene(gate_on(broker, new_repository(self._folder / "theirs")), never_comes)

    @contextmanager
    def broker_down(self, *, is_own: bool) -> Generator[Scene]:
        (self._folder / "own").mkdir()
        with BrokerProcess(self._folder / "own") as own:
            gated = gate_on(own, new_repository(self._folder / "theirs"))
            if is_own:
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
    def with_checks(
        self,
        code: str = "exit(0)",
        later: Mapping[str, str] | None = None,
        *,
        unconfined: bool = True,
        checks_at_once: int = 1,
    ) -> Generator[Scene]:
        """A gate with a check; the base branch has a later commit."""
        (self._folder / "checking").mkdir()
        place, root = self._folder / "checking", self._folder / "checked"
        with checked(place, confined=False, root=root, checks_at_once=checks_at_once) as project:
            project.repo.write("a.txt", "one\ntwo\nthree\n")
            project.have(check("unit tests", code), unconfined=unconfined)
            gated = Gated(project.broker, project.repo.root, project.project)
            if later:
                gated.stage(later)
                gated.git("commit", "--quiet", "-m", "Later")
            assert gated.tandem("gate", "on").status == 0
            yield Scene(gated)

    @contextmanager
    def pending_check(self) -> Generator[Scene]:
        done = self._folder / "done"
        with self.with_checks(f"import os, time\nwhile not os.path.exists({str(done)!r}): time.sleep(0.02)") as scene:

            def approves_first(reviewer: Reviewer) -> None:
                approves(reviewer)
                done.touch()

            yield replace(scene, reviews=approves_first)

    @contextmanager
    def parted_from_its_base(self, unseen: Mapping[str, str] | None = None) -> Generator[Scene]:
        """The base branch has gone on, with checks; this one has a commit from before the gate."""
        with self.with_checks(later={"a.txt": ROMAN}) as scene:
            scene.gated.git("switch", "--quiet", "--create", "feature", "main^")
            if unseen:
                self._unseen(scene.gated, unseen)
                assert not scene.gated.try_git("merge", "--no-edit", "main").ok
                scene.gated.stage({"a.txt": DIGITS})
            yield scene

    @contextmanager
    def with_checks_and_unseen(self) -> Generator[Scene]:
        with self.with_checks() as scene:
            scene.gated.git("switch", "--quiet", "--create", "feature")
            self._unseen(scene.gated, {"old.txt": "old\n"})
            yield scene

    @contextmanager
    def approved_and_untrusted(self) -> Generator[Scene]:
        with self.with_checks(later=UNTRUSTED) as scene:
            scene.gated.stage({"a.txt": DIGITS})
            scene.gated.approve()
            yield scene

    def _unseen(self, gated: Gated, files: Mapping[str, str]) -> None:
        """Commit without a hook."""
        gated.stage(files)
        gated.git("-c", "core.hooksPath=/dev/null", "commit", "--quiet", "-m", "From before the gate")

    @contextmanager
    def parted(self) -> Generator[Scene]:
        """Two approved commits of a file on two branches that git merges."""
        gated = self._gated()
        gated.approved_commit({"n.txt": _numbers("123456789")})
        gated.git("switch", "--quiet", "--create", "theirs")
        gated.approved_commit({"n.txt": _numbers("12345678Y")})
        gated.git("switch", "--quiet", "main")
        gated.approved_commit({"n.txt": _numbers("X23456789")})
        yield Scene(gated)

    @contextmanager
    def gone_on(self) -> Generator[Scene]:
        """The same with a commit more."""
        with self.parted() as scene:
            scene.gated.approved_commit({"n.txt": _numbers("X2345678Y")})
            yield scene

    @contextmanager
    def conflict(self, *command: str, brings: str = "a.txt") -> Generator[Scene]:
        """A conflict of two approved commits, resolved and staged."""
        gated = self._gated()
        gated.git("switch", "--quiet", "--create", "theirs")
        gated.approved_commit({"c.txt": "three\n"})
        gated.approved_commit({"a.txt": ROMAN})
        gated.git("switch", "--quiet", "main")
        gated.approved_commit({"a.txt": WORDS})
        assert not gated.try_git(*command).ok
        gated.stage({"a.txt": DIGITS})
        yield Scene(gated)
        assert brings in gated.git("ls-tree", "--name-only", "HEAD")

    @contextmanager
    def update(self) -> Generator[Scene]:
        """A branch from before the gate that the base branch has to get."""
        gated = self._gated()
        gated.git("switch", "--quiet", "--create", "feature")
        self._unseen(gated, {"a.txt": DIGITS})
        # Told to change something and to commit it, the agent does; the gate lets it on this branch.
        yield Scene(gated, before_change=lambda: self._unseen(gated, {"a.txt": WORDS}))


def _numbers(digits: str) -> str:
    return "".join(f"{digit}\n" for digit in digits)


Situation = tuple[Callable[[Stage], AbstractContextManager[Scene]], dict[str, Any]]
"""What sets the scene, and what else is so in it."""

CHANGES = reviewing("changes_requested", "approved")
REJECTS = reviewing("rejected", "approved")
TWICE = reviewing("approved", "approved")
KNOWS_BETTER = reviewing("patched", "approved")
UNTRUSTED = {CHECKS_FILE: toml(check("unit tests", "exit(1)"))}
STOPS = {"ends": "stopped"}
NO_REVIEWER = {"reviews": never_comes, "environment": SHORT, **STOPS}
UPDATE = {"attempt": "git fetch . feature:main", "is_staged": False}
PLAN = {"attempt": "tandem submit --text PLAN.md --wait -m 'Plan it'", "is_staged": False}


def _knows_better_words(reviewer: Reviewer) -> None:
    reviewer.claims().decides("changes_requested", counter_patch="# Better\n").claims().decides("approved")


ANYWHERE: dict[str, Situation] = {
    "refused_commit": (Stage.plain, {}),
    "changes_requested": (Stage.plain, {"reviews": CHANGES, "changes": (WORDS,)}),
    "counter_patch": (Stage.plain, {"reviews": KNOWS_BETTER}),
    "question": (Stage.plain, {"reviews": reviewing("asked")}),
    "comment": (Stage.plain, {"reviews": reviewing("commented")}),
    "rejected": (Stage.plain, {"reviews": REJECTS, "changes": (WORDS,)}),
    "failed_check": (
        lambda stage: stage.with_checks("exit('2' in open('a.txt').read())"),
        {"reviews": TWICE, "changes": (WORDS,)},
    ),
    "pending_check": (Stage.pending_check, {}),
    "broker_down": (lambda stage: stage.broker_down(is_own=True), {}),
    "three_rounds": (
        Stage.plain,
        {"reviews": reviewing(*["changes_requested"] * 3), "changes": (WORDS, ROMAN), **STOPS},
    ),
    "conflict_with_the_base": (Stage.parted_from_its_base, {"reviews": TWICE, "changes": (WORDS,)}),
    "amended_commit": (Stage.with_commit, {"attempt": "git commit --amend --no-edit"}),
    "no_reviewer": (Stage.plain, NO_REVIEWER),
    "quota": (lambda stage: stage.staffed("first rate-limited"), {}),
    "long_quota": (lambda stage: stage.staffed("rate-limited 10000"), STOPS),
    "closed": (Stage.plain, {"reviews": reviewing("closed", "approved"), "changes": (WORDS,)}),
    "closed_three_times": (
        Stage.plain,
        {"reviews": reviewing(*["closed"] * 3), "changes": (WORDS, ROMAN), **STOPS},
    ),
    "three_rejections": (
        Stage.plain,
        {"reviews": reviewing(*["rejected"] * 3), "changes": (WORDS, ROMAN), **STOPS},
    ),
    "no_reviewer_after_init": (Stage.initialised, NO_REVIEWER),
    "untrusted_checks": (lambda stage: stage.with_checks(later=UNTRUSTED), STOPS),
    "unconfined_checks": (lambda stage: stage.with_checks(unconfined=False), STOPS),
    "checks_that_nothing_runs": (lambda stage: stage.with_checks(checks_at_once=0), STOPS),
}
"""Played by an agent with a shell and by one with tools."""

IN_A_SHELL: dict[str, Situation] = {
    "conflict_in_a_merge_with_checks": (
        lambda stage: stage.parted_from_its_base({"a.txt": WORDS}),
        {"attempt": "git commit --no-edit", **STOPS},
    ),
    "counter_patch_and_changes": (
        Stage.plain,
        {"reviews": reviewing("patched", "changes_requested", "approved"), "changes": (WORDS,)},
    ),
    "declined_counter_patch": (Stage.plain, {"reviews": KNOWS_BETTER, "changes": (WORDS,), "prefers": "decline"}),
    "recorded_broker_down": (lambda stage: stage.broker_down(is_own=False), {}),
    "commits_from_before_the_gate": (Stage.with_checks_and_unseen, {"reviews": TWICE}),
    "commit_of_all": (
        lambda stage: stage.with_files(**{"a.txt": DIGITS}),
        {"attempt": "git commit -a -m 'Count in digits'", "is_staged": False},
    ),
    "commit_of_a_file": (Stage.with_another_staged, {"attempt": "git commit -m 'Count in digits' a.txt"}),
    "part_of_what_was_approved": (Stage.with_part_of_what_was_approved, {"reviews": never_comes}),
    "merge": (lambda stage: stage.conflict("merge", "theirs"), {}),
    "rebase": (lambda stage: stage.conflict("rebase", "theirs"), {}),
    "cherry_pick": (lambda stage: stage.conflict("cherry-pick", "theirs"), {}),
    "several_cherry_picks": (lambda stage: stage.conflict("cherry-pick", "theirs~2..theirs"), {}),
    "first_of_several_cherry_picks": (
        lambda stage: stage.conflict("cherry-pick", "theirs", "theirs~1", brings="c.txt"),
        {},
    ),
    "text": (lambda stage: stage.with_files(**{"PLAN.md": "# Plan\n"}), PLAN),
    "counter_patch_of_a_text": (
        lambda stage: stage.with_files(**{"PLAN.md": "# Plan\n"}),
        {"reviews": _knows_better_words, **PLAN},
    ),
    "rebase_without_a_conflict": (Stage.parted, {"attempt": "git rebase theirs", "is_staged": False}),
    "cherry_pick_without_a_conflict": (Stage.parted, {"attempt": "git cherry-pick theirs", "is_staged": False}),
    "revert": (Stage.gone_on, {"attempt": "git revert --no-edit HEAD~1", "is_staged": False}),
    "approved_and_untrusted": (Stage.approved_and_untrusted, STOPS),
    "closed_before": (Stage.closed_before, {"changes": (WORDS,)}),
    "update_of_a_base_branch": (Stage.update, UPDATE),
    "update_with_changes_requested": (Stage.update, {"reviews": CHANGES, "changes": (WORDS,), **UPDATE}),
    "rejected_update": (Stage.update, {"reviews": REJECTS, "changes": (WORDS,), **UPDATE}),
}

WITH_TOOLS: dict[str, Situation] = {
    "commits_from_before_the_gate": IN_A_SHELL["commits_from_before_the_gate"],
    "text_by_tools": (Stage.with_text, {"reviews": CHANGES, "changes": (WORDS,), "path": "docs/PLAN.md"}),
}
