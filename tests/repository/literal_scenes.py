"""Situations in which a literal agent is put, and the reviewers that it meets."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
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


def approves(reviewer: Reviewer) -> None:
    """Approve the next one."""
    reviewer.claims().decides("approved")


def wants_changes(reviewer: Reviewer) -> None:
    """Ask for changes, and approve what comes then."""
    reviewer.claims().decides("changes_requested").claims().decides("approved")


def knows_better(reviewer: Reviewer) -> None:
    """Send a counter-patch."""
    reviewer.claims().decides("changes_requested", counter_patch=COUNTER_PATCH).claims().decides("approved")


def wants_more_than_its_counter_patch(reviewer: Reviewer) -> None:
    """Send a counter-patch, and ask for changes of what comes of it."""
    reviewer.claims().decides("changes_requested", counter_patch=COUNTER_PATCH)
    reviewer.claims().decides("changes_requested").claims().decides("approved")


def asks(reviewer: Reviewer) -> None:
    """Ask something first."""
    reviewer.claims().asks("Why a digit?").decides("approved")


def comments(reviewer: Reviewer) -> None:
    """Say something first that decides nothing."""
    reviewer.claims().decides("comment", reason="Why a digit?").hears().decides("approved")


def rejects(reviewer: Reviewer) -> None:
    """Reject it, and approve another attempt."""
    reviewer.claims().decides("rejected").claims().decides("approved")


def always_rejects(reviewer: Reviewer) -> None:
    """Reject each attempt."""
    for _ in range(3):
        reviewer.claims().decides("rejected")


def closes(reviewer: Reviewer) -> None:
    """Close it, and approve another attempt."""
    reviewer.closes().claims().decides("approved")


def always_closes(reviewer: Reviewer) -> None:
    """Close each attempt."""
    for _ in range(3):
        reviewer.closes()


def never_agrees(reviewer: Reviewer) -> None:
    """Ask for changes in every round."""
    for _ in range(3):
        reviewer.claims().decides("changes_requested")


def never_comes(_: Reviewer) -> None:
    """Nobody reviews."""


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
        with getattr(self, situation)() as found:
            if found.is_staged and found.gated.try_git("diff", "--cached", "--quiet").ok:
                found.gated.stage({"a.txt": DIGITS})
            yield found

    @contextmanager
    def refused_commit(self) -> Generator[Scene]:
        yield Scene(self._gated())

    @contextmanager
    def changes_requested(self) -> Generator[Scene]:
        yield Scene(self._gated(), wants_changes, (WORDS,))

    @contextmanager
    def counter_patch(self) -> Generator[Scene]:
        yield Scene(self._gated(), knows_better)

    @contextmanager
    def counter_patch_and_changes(self) -> Generator[Scene]:
        yield Scene(self._gated(), wants_more_than_its_counter_patch, (WORDS,))

    @contextmanager
    def declined_counter_patch(self) -> Generator[Scene]:
        yield Scene(self._gated(), knows_better, (WORDS,), prefers="decline")

    @contextmanager
    def question(self) -> Generator[Scene]:
        yield Scene(self._gated(), asks)

    @contextmanager
    def comment(self) -> Generator[Scene]:
        yield Scene(self._gated(), comments)

    @contextmanager
    def rejected(self) -> Generator[Scene]:
        yield Scene(self._gated(), rejects, (WORDS,))

    @contextmanager
    def text_by_tools(self) -> Generator[Scene]:
        gated = self._gated()
        gated.stage({"docs/PLAN.md": DIGITS})
        yield Scene(gated, wants_changes, (WORDS,), path="docs/PLAN.md")

    @contextmanager
    def three_rejections(self) -> Generator[Scene]:
        yield Scene(self._gated(), always_rejects, (WORDS, ROMAN), ends="stopped")

    @contextmanager
    def closed(self) -> Generator[Scene]:
        yield Scene(self._gated(), closes, (WORDS,))

    @contextmanager
    def closed_three_times(self) -> Generator[Scene]:
        yield Scene(self._gated(), always_closes, (WORDS, ROMAN), ends="stopped")

    @contextmanager
    def three_rounds(self) -> Generator[Scene]:
        yield Scene(self._gated(), never_agrees, (WORDS, ROMAN), ends="stopped")

    @contextmanager
    def no_reviewer(self) -> Generator[Scene]:
        yield Scene(self._gated(), never_comes, ends="stopped", environment=SHORT)

    @contextmanager
    def no_reviewer_after_init(self) -> Generator[Scene]:
        gated = self._gated()
        assert gated.tandem("init", "--gate", "--yes", "--client", "claude").status == 0
        gated.git("add", "--all")
        gated.git("commit", "--quiet", "-m", "Set up Tandem")
        yield Scene(gated, never_comes, ends="stopped", environment=SHORT)

    @contextmanager
    def amended_commit(self) -> Generator[Scene]:
        gated = self._gated()
        gated.approved_commit({"a.txt": ROMAN})
        yield Scene(gated, attempt="git commit --amend --no-edit")

    @contextmanager
    def quota(self) -> Generator[Scene]:
        with self._staffed("first rate-limited") as gated:
            yield Scene(gated, never_comes)

    @contextmanager
    def long_quota(self) -> Generator[Scene]:
        with self._staffed("rate-limited 10000") as gated:
            yield Scene(gated, never_comes, ends="stopped")

    @contextmanager
    def _staffed(self, deed: str) -> Generator[Gated]:
        """A gate whose pool's program does this at every review."""
        (self._folder / "staffed").mkdir()
        command = program(self._folder / "staffed" / "notes", *deed.split())
        pool = {"command": command, "max_pool_size": 1}
        with StaffedBroker(self._folder / "staffed", pool) as broker:
            yield gate_on(broker, new_repository(self._folder / "theirs"))

    @contextmanager
    def broker_down(self) -> Generator[Scene]:
        with self._down() as scene:
            as_own(scene.gated)
            yield scene

    @contextmanager
    def recorded_broker_down(self) -> Generator[Scene]:
        with self._down() as scene:
            yield scene

    @contextmanager
    def _down(self) -> Generator[Scene]:
        (self._folder / "own").mkdir()
        with BrokerProcess(self._folder / "own") as own:
            gated = gate_on(own, new_repository(self._folder / "theirs"))
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
    def failed_check(self) -> Generator[Scene]:
        with self._checked("exit('2' in open('a.txt').read())") as gated:
            yield Scene(gated, wants_nothing_twice, (WORDS,))

    @contextmanager
    def pending_check(self) -> Generator[Scene]:
        done = self._folder / "done"
        with self._checked(f"import os, time\nwhile not os.path.exists({str(done)!r}): time.sleep(0.02)") as gated:

            def approves_first(reviewer: Reviewer) -> None:
                approves(reviewer)
                done.touch()

            yield Scene(gated, approves_first)

    @contextmanager
    def conflict_with_the_base(self) -> Generator[Scene]:
        with self._checked("exit(0)", {"a.txt": ROMAN}) as gated:
            gated.git("switch", "--quiet", "--create", "feature", "main^")
            yield Scene(gated, wants_nothing_twice, (WORDS,))

    @contextmanager
    def conflict_in_a_merge_with_checks(self) -> Generator[Scene]:
        with self._checked("exit(0)", {"a.txt": ROMAN}) as gated:
            gated.git("switch", "--quiet", "--create", "feature", "main^")
            gated.stage({"a.txt": WORDS})
            gated.git("-c", "core.hooksPath=/dev/null", "commit", "--quiet", "-m", "From before the gate")
            assert not gated.try_git("merge", "--no-edit", "main").ok
            gated.stage({"a.txt": DIGITS})
            yield Scene(gated, attempt="git commit --no-edit", ends="stopped")

    @contextmanager
    def commits_from_before_the_gate(self) -> Generator[Scene]:
        with self._checked("exit(0)") as gated:
            gated.git("switch", "--quiet", "--create", "feature")
            gated.stage({"old.txt": "old\n"})
            gated.git("-c", "core.hooksPath=/dev/null", "commit", "--quiet", "-m", "From before the gate")
            yield Scene(gated, wants_nothing_twice)

    @contextmanager
    def commit_of_all(self) -> Generator[Scene]:
        gated = self._gated()
        gated.write({"a.txt": DIGITS})
        yield Scene(gated, attempt="git commit -a -m 'Count in digits'", is_staged=False)

    @contextmanager
    def commit_of_a_file(self) -> Generator[Scene]:
        gated = self._gated()
        gated.stage({"other.txt": "other\n"})
        gated.write({"a.txt": DIGITS})
        yield Scene(gated, attempt="git commit -m 'Count in digits' a.txt")

    @contextmanager
    def part_of_what_was_approved(self) -> Generator[Scene]:
        gated = self._gated()
        gated.stage({"a.txt": DIGITS, "b.txt": "two\n"})
        gated.approve("--staged")
        gated.git("reset", "--quiet", "--", "b.txt")
        yield Scene(gated, never_comes)

    @contextmanager
    def merge(self) -> Generator[Scene]:
        with self._conflict("merge", "theirs") as gated:
            yield Scene(gated)

    @contextmanager
    def rebase(self) -> Generator[Scene]:
        with self._conflict("rebase", "theirs") as gated:
            yield Scene(gated)

    @contextmanager
    def rebase_without_a_conflict(self) -> Generator[Scene]:
        yield Scene(self._parted(), attempt="git rebase theirs", is_staged=False)

    @contextmanager
    def cherry_pick_without_a_conflict(self) -> Generator[Scene]:
        yield Scene(self._parted(), attempt="git cherry-pick theirs", is_staged=False)

    @contextmanager
    def revert(self) -> Generator[Scene]:
        gated = self._parted()
        gated.approved_commit({"n.txt": "".join(f"{number}\n" for number in "X2345678Y")})
        yield Scene(gated, attempt="git revert --no-edit HEAD~1", is_staged=False)

    def _parted(self) -> Gated:
        """Two approved commits of a file on two branches that git merges."""
        gated = self._gated()
        gated.approved_commit({"n.txt": "".join(f"{number}\n" for number in "123456789")})
        gated.git("switch", "--quiet", "--create", "theirs")
        gated.approved_commit({"n.txt": "".join(f"{number}\n" for number in "12345678Y")})
        gated.git("switch", "--quiet", "main")
        gated.approved_commit({"n.txt": "".join(f"{number}\n" for number in "X23456789")})
        return gated

    @contextmanager
    def cherry_pick(self) -> Generator[Scene]:
        with self._conflict("cherry-pick", "theirs") as gated:
            yield Scene(gated)

    @contextmanager
    def several_cherry_picks(self) -> Generator[Scene]:
        with self._conflict("cherry-pick", "theirs~2..theirs") as gated:
            yield Scene(gated)

    @contextmanager
    def first_of_several_cherry_picks(self) -> Generator[Scene]:
        with self._conflict("cherry-pick", "theirs", "theirs~1") as gated:
            yield Scene(gated)
            assert "c.txt" in gated.git("ls-tree", "--name-only", "HEAD")

    @contextmanager
    def _conflict(self, *command: str) -> Generator[Gated]:
        """A conflict of two approved commits, resolved and staged."""
        gated = self._gated()
        gated.git("switch", "--quiet", "--create", "theirs")
        gated.approved_commit({"c.txt": "three\n"})
        gated.approved_commit({"a.txt": ROMAN})
        gated.git("switch", "--quiet", "main")
        gated.approved_commit({"a.txt": WORDS})
        assert not gated.try_git(*command).ok
        gated.stage({"a.txt": DIGITS})
        yield gated

    @contextmanager
    def text(self) -> Generator[Scene]:
        yield self._plan(approves)

    @contextmanager
    def counter_patch_of_a_text(self) -> Generator[Scene]:
        def knows_better_words(reviewer: Reviewer) -> None:
            reviewer.claims().decides("changes_requested", counter_patch="# Better\n").claims().decides("approved")

        yield self._plan(knows_better_words)

    def _plan(self, reviews: Callable[[Reviewer], None]) -> Scene:
        gated = self._gated()
        gated.write({"PLAN.md": "# Plan\n"})
        return Scene(gated, reviews, attempt="tandem submit --text PLAN.md --wait -m 'Plan it'", is_staged=False)

    @contextmanager
    def update_of_a_base_branch(self) -> Generator[Scene]:
        with self._update(approves) as scene:
            yield scene

    @contextmanager
    def update_with_changes_requested(self) -> Generator[Scene]:
        with self._update(wants_changes) as scene:
            scene.changes = (WORDS,)
            yield scene

    @contextmanager
    def rejected_update(self) -> Generator[Scene]:
        with self._update(rejects) as scene:
            scene.changes = (WORDS,)
            yield scene

    @contextmanager
    def _update(self, reviews: Callable[[Reviewer], None]) -> Generator[Scene]:
        """A branch from before the gate that is to be the base branch's."""
        gated = self._gated()
        gated.git("switch", "--quiet", "--create", "feature")
        gated.stage({"a.txt": DIGITS})
        unseen = ("-c", "core.hooksPath=/dev/null", "commit", "--quiet")
        gated.git(*unseen, "-m", "From before the gate")

        def commits() -> None:
            # Told to change something and to commit it, the agent does; the gate lets it on this branch.
            gated.stage({"a.txt": WORDS})
            gated.git(*unseen, "-m", "As it was asked for")

        yield Scene(gated, reviews, attempt="git fetch . feature:main", is_staged=False, before_change=commits)

    @contextmanager
    def untrusted_checks(self) -> Generator[Scene]:
        with self._checked("exit(0)", {CHECKS_FILE: toml(check("unit tests", "exit(1)"))}) as gated:
            yield Scene(gated, ends="stopped")

    @contextmanager
    def approved_and_untrusted(self) -> Generator[Scene]:
        with self.untrusted_checks() as scene:
            scene.gated.stage({"a.txt": DIGITS})
            scene.gated.approve()
            yield scene

    @contextmanager
    def closed_before(self) -> Generator[Scene]:
        gated = self._gated()
        gated.stage({"a.txt": DIGITS})
        gated.call("close_review", review_id=gated.put_up(), reason="We do not want digits.")
        yield Scene(gated, changes=(WORDS,))

    @contextmanager
    def checks_that_nothing_runs(self) -> Generator[Scene]:
        with self._checked("exit(0)", checks_at_once=0) as gated:
            yield Scene(gated, ends="stopped")

    @contextmanager
    def unconfined_checks(self) -> Generator[Scene]:
        with self._checked("exit(0)", unconfined=False) as gated:
            yield Scene(gated, ends="stopped")

    @contextmanager
    def _checked(
        self, code: str, later: Mapping[str, str] | None = None, *, unconfined: bool = True, checks_at_once: int = 1
    ) -> Generator[Gated]:
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
            yield gated


def wants_nothing_twice(reviewer: Reviewer) -> None:
    """Approve every round."""
    reviewer.claims().decides("approved").claims().decides("approved")


SITUATIONS = (
    *("refused_commit", "changes_requested", "counter_patch", "question", "comment", "rejected", "failed_check"),
    *("pending_check", "broker_down", "three_rounds", "conflict_with_the_base", "amended_commit", "no_reviewer"),
    *("quota", "long_quota", "closed", "closed_three_times", "three_rejections", "no_reviewer_after_init"),
    *("untrusted_checks", "unconfined_checks", "checks_that_nothing_runs"),
)

IN_A_SHELL = (
    *(
        "conflict_in_a_merge_with_checks",
        "counter_patch_and_changes",
        "declined_counter_patch",
        "recorded_broker_down",
        "commits_from_before_the_gate",
        "commit_of_all",
    ),
    *(
        "commit_of_a_file",
        "part_of_what_was_approved",
        "merge",
        "rebase",
        "cherry_pick",
        "several_cherry_picks",
        "text",
    ),
    *("rebase_without_a_conflict", "cherry_pick_without_a_conflict", "revert", "first_of_several_cherry_picks"),
    *(
        "approved_and_untrusted",
        "closed_before",
        "counter_patch_of_a_text",
        "update_of_a_base_branch",
        "update_with_changes_requested",
        "rejected_update",
    ),
)
