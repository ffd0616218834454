"""`tandem land`: a branch goes to its base branch, approved and checked as the merge that it becomes."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import pytest

from tests.acceptance.checking import Checked, check
from tests.broker import BrokerProcess
from tests.commandline import Ended, finish, repository
from tests.forked import Started
from tests.modes import VARIATION
from tests.repository.gating import DIGITS, Gated, gate_on, guarded, new_repository
from tests.repository.landing import approved, branched, clean, landings, mainline, named, run_git, started

KILLS = int(os.environ.get("TANDEM_LAND_KILLS", "2"))
"""How often a landing is killed; 100 take some minutes."""

AGENTS, BRANCHES = (int(number) for number in os.environ.get("TANDEM_LAND_AGENTS", "2x2").split("x"))
"""How many land how many branches at the same time; 8x20 take some minutes."""

SECONDS = 60.0

HeldUp = tuple[Gated, "Future[tuple[Ended, float]]"]


@pytest.fixture(scope="module", autouse=True)
def held_up(shared_broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Generator[HeldUp]:
    """A landing behind one whose process has died: the other tests here run while it waits."""
    folder = tmp_path_factory.mktemp("held-up")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TANDEM_CONFIG_DIR", str(folder))
        gated = gate_on(shared_broker, new_repository(folder / "repository"))
        approved(gated, "feature", DIGITS)
        gated.call("report_landing", state="waiting", branch="main", source="dead", head=gated.head())
        began, process = time.monotonic(), started(gated, "feature", "--json")
    with ThreadPoolExecutor(1) as pool:
        yield gated, pool.submit(lambda: (finish(process), time.monotonic() - began))


def until(found: Callable[[], bool]) -> None:
    """Wait for the effect of a process that does not report it."""
    deadline = time.monotonic() + SECONDS
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_branch_that_is_approved_as_one_change_lands_as_a_merge(gated: Gated) -> None:
    review = approved(gated, "feature", DIGITS, {"new.txt": "new\n"})
    gated.approved_commit({"b.txt": "other\n"}, "Meanwhile")
    tip = gated.head()
    landed = gated.tandem("land", "feature")
    assert landed.status == 0, landed
    assert landed.stdout == f"Landed as {gated.head()[:10]} on main.\n"
    assert gated.git("log", "-1", "--format=%P").split() == [tip, gated.head("feature")]
    assert gated.trailers() == [review]
    assert clean(gated)
    assert (gated.root / "new.txt").read_text("utf-8") == "new\n"
    closed = gated.call("get_review_status", review_id=review)
    assert (closed["status"], closed["outcome"]) == ("closed", "approved")
    [row] = landings(gated)
    assert (row["state"], row["source"], row["commit"]) == ("landed", "feature", gated.head())
    assert gated.tandem("audit", "main").status == 0
    again = gated.tandem("land", "feature")
    assert (again.status, again.stdout) == (0, f"Landed already, as {gated.head()[:10]} on main.\n")
    listed = gated.tandem("landing", "list")
    assert "feature" in listed.stdout
    assert "landed" in listed.stdout
    page = httpx.get(f"{gated.broker.url}/projects/{gated.project}").text
    assert "feature" in page[page.index("Landings") :]


def test_a_branch_that_nobody_approved_is_submitted_and_lands_when_it_is(gated: Gated) -> None:
    branched(gated, "feature", DIGITS)
    before = gated.head()
    waits = gated.tandem("land", "feature", "--timeout", "0")
    assert waits.status == 12, waits
    assert "Go on waiting with: tandem" in waits.stderr
    [review] = [one["review_id"] for one in gated.call("list_reviews", status="pending")["reviews"]]
    gated.decide(review, "changes_requested", "Use words.")
    asked = gated.tandem("land", "feature")
    assert asked.status == 10, asked
    assert "Use words." in asked.stdout
    assert "Then: tandem land feature" in asked.stderr
    assert gated.head() == before

    gated.git("switch", "--quiet", "feature")
    gated.stage({"a.txt": "one\ntwo\ndrei\n"})
    gated.git("-c", f"core.hooksPath={os.devnull}", "commit", "--quiet", "-m", "Use words")
    with started(gated, "--json") as process:
        until(lambda: gated.call("get_review_status", review_id=review)["round"] == 2)
        gated.decide(review)
        landed = finish(process)
    assert (landed.status, landed.data["review_ids"]) == (0, [review]), landed
    assert gated.git("show", "main:a.txt").endswith("drei")
    # It was not checked out here.
    assert gated.git("branch", "--show-current") == "feature"


def test_a_conflict_ends_with_its_paths_and_the_line_is_free(gated: Gated) -> None:
    approved(gated, "feature", DIGITS)
    gated.approved_commit({"a.txt": "one\nzwei\nthree\n"}, "Meanwhile")
    before = gated.head()
    refused = gated.tandem("land", "feature")
    assert refused.status == 10, refused
    said = "feature does not merge with main: conflict in a.txt. Nothing moved. Take it in: "
    assert f"{said}git switch feature && git merge main" in " ".join(refused.stdout.split())
    told = gated.tandem("land", "feature", "--json")
    assert (told.status, told.data["state"], told.data["paths"]) == (10, "failed", ["a.txt"])
    assert gated.head() == before
    assert all(one["place"] is None for one in landings(gated))


def test_p2_a_squash_of_what_the_base_branch_changed_too_needs_an_approval_of_the_result(gated: Gated) -> None:
    lines = [f"{number}\n" for number in range(9)]
    gated.approved_commit({"a.txt": "".join(lines)}, "Many lines")
    approved(gated, "feature", {"a.txt": "".join(["first\n", *lines[1:]])})
    gated.approved_commit({"a.txt": "".join([*lines[:8], "last\n"])}, "Meanwhile")
    before = gated.head()
    waits = gated.tandem("land", "feature", "--strategy", "squash", "--timeout", "0")
    assert (waits.status, gated.head()) == (12, before), waits
    [review] = [one["review_id"] for one in gated.call("list_reviews", status="pending")["reviews"]]
    gated.decide(review)
    assert gated.tandem("land", "feature", "--strategy", "squash").status == 0
    assert gated.git("show", "main:a.txt").split() == ["first", *map(str, range(1, 8)), "last"]
    assert gated.trailers() == [review]


def test_a_fast_forward_is_nothing_else(gated: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEM_LANDING_STRATEGY", "ff")
    approved(gated, "feature", DIGITS)
    approved(gated, "other", {"b.txt": "other\n"})
    assert gated.tandem("land", "feature").status == 0
    assert gated.head() == gated.head("feature")
    assert clean(gated)
    moved_on = gated.tandem("land", "other")
    assert "git switch other && git rebase main" in " ".join(moved_on.refusal.split())
    gated.git("switch", "--quiet", "other")
    stated = gated.tandem("land", "--strategy", "ff").refusal
    assert "it in: git rebase main Then again: tandem land --strategy ff other" in " ".join(stated.split())


def test_what_lands_is_signed_where_git_signs_commits(gated: Gated, tmp_path: Path) -> None:
    signs = tmp_path / "signs"
    signature = "-----BEGIN PGP SIGNATURE-----\\n\\nmine\\n-----END PGP SIGNATURE-----\\n"
    signs.write_text(f"#!/bin/sh\ncat >/dev/null; echo '[GNUPG:] SIG_CREATED ' >&2; printf -- '{signature}'\n")
    signs.chmod(0o755)
    approved(gated, "feature", DIGITS)
    gated.git("config", "commit.gpgSign", "true")
    gated.git("config", "gpg.program", "false")
    tip = gated.head()
    refused = gated.tandem("land", "feature", "--strategy", "squash")
    assert (refused.status, "failed to sign" in refused.stderr, gated.head()) == (1, True, tip), refused
    gated.git("config", "gpg.program", str(signs))
    assert gated.tandem("land", "feature", "--strategy", "squash").status == 0
    assert "\n mine\n" in gated.git("cat-file", "commit", "main")


def test_a_submodule_stays_at_its_commit_as_under_git_merge(gated: Gated, tmp_path: Path) -> None:
    library, lib = repository(tmp_path / "library"), gated.root / "lib"
    gated.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
    gated.approved_commit({}, "A library")
    before = gated.head(cwd=lib)
    for number in range(2):
        gated.git("commit", "--quiet", "--allow-empty", "-m", f"{number}", cwd=lib)
        approved(gated, f"feature{number}", {})
        gated.git("checkout", "--quiet", before, cwd=lib)
        landed = gated.tandem("land", f"feature{number}")
        assert landed.status == 0, landed
        assert (gated.head(cwd=lib), gated.git("status", "--porcelain")) == (before, " M lib")


def test_local_changes_in_a_checkout_of_the_base_branch_are_never_lost(gated: Gated) -> None:
    approved(gated, "feature", DIGITS)
    before = gated.head()
    gated.write({"a.txt": "mine\n", "b.txt": "mine, too\n", "own.txt": "mine\n"})
    refused = gated.tandem("land", "feature")
    assert "would change files that have local changes: a.txt. Nothing was changed." in refused.refusal
    assert "Then again: tandem land feature" in refused.refusal
    assert gated.head() == before
    assert landings(gated)[0]["state"] == "failed"

    gated.git("checkout", "--", "a.txt")
    assert gated.tandem("land", "feature").status == 0
    assert (gated.root / "a.txt").read_text("utf-8") == DIGITS["a.txt"]
    assert gated.git("status", "--porcelain").splitlines() == [" M b.txt", "?? own.txt"]
    assert (gated.root / "b.txt").read_text("utf-8") == "mine, too\n"


def test_what_changes_in_a_checkout_while_it_lands_stays_and_is_told(gated: Gated) -> None:
    review, new = approved(gated, "feature", {**DIGITS, "new.txt": "new\n"}), gated.root / "new.txt"
    # When git has moved the branch, somebody writes a file of the landing.
    chained = gated.root / ".git/tandem/chained/reference-transaction"
    chained.parent.mkdir(exist_ok=True)
    chained.write_text(f'#!/bin/sh\n[ "$1" = committed ] || exit 0\necho mine >"{new}"\n', "utf-8")
    chained.chmod(0o755)
    landed = gated.tandem("land", "feature")
    chained.unlink()
    for ended in (landed, gated.tandem("land", "feature")):
        assert (ended.status, "new.txt" in ended.unwrapped, "then run this again" in ended.unwrapped) == (0, True, True)
        assert f"as {gated.head()[:10]} on main" in ended.stdout
        assert new.read_text("utf-8") == "mine\n"
    assert gated.call("get_review_status", review_id=review)["status"] == "closed"
    gated.git("clean", "-fq")
    last = gated.tandem("land", "feature")
    assert (last.status, last.stderr, clean(gated)) == (0, "", True)
    assert [one["state"] for one in landings(gated)] == ["landed"]


def test_while_the_base_branch_is_rebased_nothing_lands_that_the_end_of_it_would_undo(
    gated: Gated, tmp_path: Path
) -> None:
    branched(gated, "feature", DIGITS)
    before, other = gated.head(), gated.linked(tmp_path / "other", "other")
    refused = gated.try_git("rebase", "feature")
    assert "landed: git rebase --abort && tandem land feature\n" in refused.stderr
    gated.approve("--range", "main...feature")
    for folder, abort in ((None, "git rebase --abort"), (other, f"git -C {gated.root} rebase --abort")):
        said = gated.tandem("land", "feature", cwd=folder)
        assert (said.status, f"Leave it first: {abort} (or" in said.refusal) == (1, True), said
    assert (gated.head("main"), landings(gated)) == (before, [])
    gated.git("rebase", "--abort")
    assert gated.tandem("land", "feature").status == 0
    assert clean(gated)


def test_while_another_program_has_locked_the_index_nothing_lands(gated: Gated) -> None:
    approved(gated, "feature", DIGITS)
    before = gated.head()
    lock = gated.root / ".git/index.lock"
    lock.write_text("held", "utf-8")
    for _ in range(2):
        refused = gated.tandem("land", "feature")
        assert f"{lock} is there: another program writes the index" in refused.refusal
        assert (gated.head(), lock.read_text("utf-8")) == (before, "held")
    lock.unlink()
    assert gated.tandem("land", "feature").status == 0
    assert clean(gated)


def test_without_a_branch_or_a_base_branch_it_says_so(gated: Gated) -> None:
    assert "'nope' is no branch here." in gated.tandem("land", "nope").refusal
    assert "Name the branch that lands on main" in gated.tandem("land").refusal
    gated.gate_file.unlink()
    assert "Switch it on: tandem gate on" in gated.tandem("land", "main").refusal


def cut_off(gated: Gated, review: str, *, with_files: bool) -> str:
    """Leaves a landing as if it was killed just after the branch moved; returns its commit."""
    found = gated.call("report_landing", state="waiting", branch="main", source="feature", head=gated.head("feature"))
    tip = gated.head()
    tree = gated.git("merge-tree", "--write-tree", "main", "feature")
    commit = gated.git("commit-tree", tree, "-p", tip, "-p", "feature", "-m", f"Land\n\nTandem-Review: {review}")
    place = named(found)
    gated.call("report_landing", **place, state="landing", tip=tip, commit=commit, review_ids=[review])
    gated.git("update-ref", "refs/heads/main", commit, tip)
    if with_files:
        gated.git("read-tree", "-m", "-u", tip, commit)
    return commit


@pytest.mark.parametrize("with_files", [False, pytest.param(True, marks=VARIATION)])
def test_one_that_was_killed_after_the_branch_moved_is_ended_by_the_next_run(gated: Gated, with_files: bool) -> None:
    review = approved(gated, "feature", DIGITS)
    commit = cut_off(gated, review, with_files=with_files)
    assert clean(gated) is with_files
    again = gated.tandem("land", "feature")
    assert (again.status, again.stdout) == (0, f"Landed already, as {commit[:10]} on main.\n")
    assert clean(gated)
    assert (gated.root / "a.txt").read_text("utf-8") == DIGITS["a.txt"]
    assert gated.call("get_review_status", review_id=review)["status"] == "closed"
    assert [one["state"] for one in landings(gated)] == ["landed"]


def test_ctrl_c_leaves_the_line(gated: Gated) -> None:
    approved(gated, "feature", DIGITS)
    first = gated.call("report_landing", state="waiting", branch="main", source="other", head=gated.head())
    with started(gated, "feature") as process:
        until(lambda: len(landings(gated)) == 2)
        process.send_signal(signal.SIGINT)
        assert "Interrupted. Go on with: tandem land feature" in finish(process).stderr
    assert [(one["source"], one["state"]) for one in landings(gated)] == [("other", "waiting"), ("feature", "failed")]
    place = named(first)
    gated.call("report_landing", **place, state="failed", reason="Enough.")


def test_the_time_is_up_in_the_line_and_the_same_command_keeps_the_place(gated: Gated) -> None:
    approved(gated, "feature", DIGITS)
    holder = gated.call("report_landing", state="waiting", branch="main", source="holder", head=gated.head())
    waits = gated.tandem("land", "feature", "--timeout", "0", "--json")
    assert (waits.status, waits.data["state"]) == (12, "waiting"), waits
    mine = next(one for one in landings(gated) if one["source"] == "feature")
    place = named(holder)
    gated.call("report_landing", **place, state="failed", reason="Go on.")
    assert gated.tandem("land", "feature").status == 0
    [landed] = [one for one in landings(gated) if one["source"] == "feature"]
    assert (landed["landing_id"], landed["generation"]) == (mine["landing_id"], 2)


@pytest.fixture
def distant(gated: Gated, tmp_path: Path) -> Path:
    """A remote of the repository with its `main`."""
    bare = tmp_path / "remote.git"
    gated.git("clone", "--quiet", "--bare", str(gated.root), str(bare))
    gated.git("remote", "add", "origin", str(bare))
    gated.git("fetch", "--quiet", "origin")
    return bare


def test_a_remotes_branch_moves_by_a_push_with_lease(gated: Gated, distant: Path, tmp_path: Path) -> None:
    approved(gated, "feature", DIGITS)
    # Somebody else has pushed a change that is approved.
    gated.approved_commit({"b.txt": "other\n"}, "Meanwhile")
    other = gated.head()
    gated.git("push", "--quiet", "origin", "main")
    gated.git("update-ref", "refs/heads/main", "main~1")
    gated.git("reset", "--quiet", "--hard", "main")
    landed = gated.tandem("land", "feature", "--remote", "origin")
    assert landed.status == 0, landed
    assert run_git(distant, "rev-parse", "main") == gated.head()
    assert gated.git("log", "-1", "--format=%P").split()[0] == other
    assert clean(gated)

    # It refuses, where the remote does.
    (distant / "hooks" / "update").write_text("#!/bin/sh\necho 'not today' >&2\nexit 1\n")
    (distant / "hooks" / "update").chmod(0o755)
    approved(gated, "second", {"c.txt": "c\n"})
    before = gated.head()
    refused = gated.tandem("land", "second", "--remote", "origin")
    assert "origin did not take it into main; nothing was changed." in refused.refusal
    assert "not today" in refused.refusal
    assert gated.head() == before == run_git(distant, "rev-parse", "main")
    del tmp_path


def test_a_base_branch_that_is_only_at_the_remote_is_made_here(gated: Gated, distant: Path) -> None:
    approved(gated, "feature", DIGITS)
    gated.git("switch", "--quiet", "feature")
    gated.git("branch", "--quiet", "-D", "main")
    assert "There is no branch main here" in gated.tandem("land").refusal
    landed = gated.tandem("land", "--remote", "origin")
    assert landed.status == 0, landed
    assert run_git(distant, "rev-parse", "main") == gated.head("main")
    assert gated.git("log", "-1", "--format=%P", "main").split()[1] == gated.head("feature")


def test_commits_that_the_remote_lacks_are_not_landed_by_the_way(gated: Gated, distant: Path) -> None:
    approved(gated, "feature", DIGITS)
    gated.approved_commit({"b.txt": "other\n"}, "Meanwhile")
    refused = gated.tandem("land", "feature", "--remote", "origin")
    assert "main has commits here that origin lacks" in refused.refusal
    assert run_git(distant, "rev-parse", "main") != gated.head()


# With checks.


TOGETHER = """
import os
names = [name for name in ("left", "right") if os.path.exists(name)]
print(*names)
exit(len(names) == 2)
"""


def test_p10_branches_that_break_only_together_leave_the_base_branch_green(project: Checked) -> None:
    gated = guarded(project, TOGETHER)
    for name in ("left", "right"):
        review = approved(gated, name, {name: "here\n"})
        assert project.statuses(review) == {"unit tests": "passed"}
    assert gated.tandem("land", "left").status == 0
    before = gated.head()
    refused = gated.tandem("land", "right")
    assert refused.status == 10, refused
    said = "A required check has not passed on the merge with main. Nothing moved. Correct that in right."
    assert f"{said}\nThen, once it is committed: tandem land right" in refused.stdout
    assert landings(gated)[0]["reason"] == said
    assert "left right" in refused.stderr
    assert gated.head() == before
    assert [(one["source"], one["state"]) for one in landings(gated)] == [("right", "failed"), ("left", "landed")]
    assert clean(gated)
    # Commits that are approved one by one are checked as what lands, too.
    gated.git("switch", "--quiet", "--create", "feature")
    for name in ("x.txt", "y.txt"):
        by_hand(project, gated, {name: "here\n"})
    gated.git("switch", "--quiet", "main")
    landed = gated.tandem("land", "feature", "--json")
    assert landed.data["state"] == "landed", landed
    [run] = gated.call("list_checks", review_id=landed.data["review_ids"][-1])["checks"]
    assert run["tree"] == gated.git("rev-parse", "main^{tree}")


def test_p10_when_the_base_branch_moves_while_checks_run_they_run_again(project: Checked, tmp_path: Path) -> None:
    go, log = tmp_path / "go", tmp_path / "log"
    go.touch()
    waits = (
        f"import os, time\nwith open({str(log)!r}, 'a') as log: log.write('with' if os.path.exists('b.txt') else 'a')"
    )
    waits += f"\nwhile 'two' not in open('a.txt').read() and not os.path.exists({str(go)!r}): time.sleep(0.02)"
    gated = guarded(project, waits)
    by_hand(project, gated, {"a.txt": "one\ntwo\nthree\n"})
    project.ended(approved(gated, "feature", DIGITS))
    by_hand(project, gated, {"x.txt": "x\n"})
    go.unlink()
    log.unlink()
    with started(gated, "feature", "--json") as process:
        until(log.exists)
        other = by_hand(project, gated, {"b.txt": "b\n"})
        go.touch()
        landed = finish(process)
    assert landed.data["state"] == "landed", landed
    assert {"b.txt", "x.txt", "a.txt"} <= set(gated.git("ls-tree", "--name-only", "main").split())
    assert gated.git("log", "-1", "--format=%P").split()[0] == other
    assert log.read_text("utf-8").endswith("with")


def test_p10_checks_that_still_run_on_an_earlier_base_branch_run_again_in_turn(
    project: Checked, tmp_path: Path
) -> None:
    waits = f"""
import os, time
for name in () if os.path.exists("first") else ("breaks", "fits"):
    while os.path.exists(name) and not os.path.exists(f"{tmp_path}/{{name}}"): time.sleep(0.02)
exit(os.path.exists("first") and os.path.exists("breaks"))
"""
    gated = guarded(project, waits)
    names = ("first", "breaks", "fits")
    reviews = [approved(gated, name, {name: "here\n"}) for name in names]
    project.ended(reviews[0])
    assert gated.tandem("land", "first").status == 0
    processes: list[Started] = []
    for number, name in enumerate(names[1:], 2):
        processes.append(started(gated, name))
        until(lambda number=number: len(landings(gated)) == number)
    for name, process in zip(names[1:], processes, strict=True):
        assert process.stderr is not None
        assert any(b"check 'unit tests' runs" in line for line in process.stderr)
        (tmp_path / name).touch()
    broken, fits = [finish(process) for process in processes]
    assert (broken.status, fits.status) == (10, 0), (broken, fits)
    assert broken.stdout.endswith("Then, once it is committed: tandem land breaks\n")
    assert mainline(gated) == ["checks", "Merge branch 'first'", "Merge branch 'fits'"]
    [run] = project.ended(reviews[2]).values()
    assert (run["status"], run["tree"]) == ("passed", gated.git("rev-parse", "main^{tree}"))


def by_hand(project: Checked, gated: Gated, files: dict[str, str]) -> str:
    """A commit as somebody makes it without a landing, approved and checked; its id."""
    gated.stage(files)
    review = gated.put_up()
    gated.decide(review)
    project.ended(review)
    gated.git("commit", "--quiet", "-m", "By hand")
    return gated.head()


def test_p10_checks_of_some_files_alone_take_a_review_of_the_branch_as_one_change(project: Checked) -> None:
    project.have(check("x", "", paths=["x.txt"]), check("y", "", paths=["y.txt"]), unconfined=True)
    gated = Gated(project.broker, project.repo.root, project.project)
    assert gated.tandem("gate", "on").status == 0
    gated.git("switch", "--quiet", "--create", "feature")
    for name in ("x.txt", "y.txt"):
        by_hand(project, gated, {name: "here\n"})
    gated.git("switch", "--quiet", "main")
    waits = gated.tandem("land", "feature", "--timeout", "0")
    assert waits.status == 12, waits
    [review] = [one["review_id"] for one in gated.call("list_reviews", status="pending")["reviews"]]
    gated.decide(review)
    assert project.statuses(review) == {"x": "passed", "y": "passed"}
    landed = gated.tandem("land", "feature", "--json")
    assert landed.data["state"] == "landed", landed


PAIRS = """
import os
names = {name for name in os.listdir() if name.startswith("pair-")}
broken = [name for name in names if name.endswith("a") and name[:-1] + "b" in names]
print(*broken)
exit(bool(broken))
"""


@pytest.mark.timeout(60 + 20 * AGENTS * BRANCHES)
def test_p10_agents_that_land_all_at_once_leave_the_base_branch_green_at_every_commit(
    project: Checked, tmp_path: Path
) -> None:
    """Every second branch is one half of a pair that breaks, whose halves two agents have."""
    gated = guarded(project, PAIRS)
    names = {(agent, number): f"branch-{agent}-{number}" for agent in range(AGENTS) for number in range(BRANCHES)}
    halves = 0
    for (agent, number), name in names.items():
        file = f"pair-{agent // 2}-{number}{'ab'[agent % 2]}" if number % 2 else f"file-{agent}-{number}"
        halves += bool(number % 2)
        approved(gated, name, {file: "here\n"})

    def all_of(agent: int) -> list[Ended]:
        tree = tmp_path / f"agent-{agent}"
        gated.git("worktree", "add", "--quiet", "--detach", str(tree))
        return [finish(started(gated, names[agent, number], "--json", cwd=tree)) for number in range(BRANCHES)]

    with ThreadPoolExecutor(AGENTS) as pool:
        ended = [one for each in pool.map(all_of, range(AGENTS)) for one in each]
    landed = [one for one in ended if one.status == 0]
    assert {one.status for one in ended} <= {0, 10}, ended
    assert len(landed) == len(names) - halves + sum(-(-AGENTS // 2) for number in range(BRANCHES) if number % 2)
    assert mainline(gated)[0] == "checks"
    assert len(mainline(gated)) == len(landed) + 1
    for commit in gated.git("rev-list", "--first-parent", "main").splitlines():
        files = {name for name in gated.git("ls-tree", "--name-only", commit).split() if name.startswith("pair-")}
        assert not [name for name in files if name.endswith("a") and f"{name[:-1]}b" in files]
    assert clean(gated)
    assert gated.tandem("audit", "main").status == 0
    assert {one["state"] for one in landings(gated, limit=200)} <= {"landed", "failed"}


@pytest.mark.timeout(60 + 20 * KILLS)
def test_a_landing_that_is_killed_at_any_moment_ends_right_when_it_is_run_again(project: Checked) -> None:
    gated = guarded(project, "import time; time.sleep(0.2)")
    chance = random.Random(29)
    for number in range(KILLS):
        name = f"feature-{number}"
        branched(gated, name, {f"{name}.txt": "here\n"})
        gated.decide(gated.submit("--range", f"main...{name}"))
        before = gated.head()
        with started(gated, name) as process:
            after = chance.uniform(0.2, 3.5)
            time.sleep(after)
            if number % 2:
                # Any of them may end by itself meanwhile.
                with suppress(psutil.NoSuchProcess):
                    for child in psutil.Process(process.pid).children(recursive=True):
                        with suppress(psutil.NoSuchProcess):
                            child.kill()
            process.kill()
            finish(process)
        where = gated.head()
        assert where == before or gated.git("log", "-1", "--format=%P").split()[0] == before
        ended = gated.tandem("land", name, "--json")
        assert (ended.status, ended.data["state"]) == (0, "landed"), (number, after, ended)
        assert clean(gated), (number, after)
        assert (gated.root / f"{name}.txt").exists()
    assert len(mainline(gated)) >= KILLS
    assert gated.tandem("audit", "main").status == 0
    assert all(one["place"] is None for one in landings(gated))
    project.broker.assert_intact()


def test_one_that_dies_first_in_line_holds_up_the_next_no_longer_than_its_lease(held_up: HeldUp) -> None:
    gated, waiting = held_up
    landed, seconds = waiting.result()
    assert landed.data["state"] == "landed", landed
    assert 15 < seconds < 40
    dead = next(one for one in landings(gated) if one["source"] == "dead")
    assert (dead["state"], dead["reason"]) == ("failed", "Its process has ended without a word.")
