"""The git gate: a commit holds the approved content, to the byte, or it is not made."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.broker import BrokerProcess
from tests.commandline import finish
from tests.repository.gating import DIGITS, Gated, GateOptions, gate_on, new_repository
from tests.repository.landing import branched


def test_p2_a_commit_is_refused_until_exactly_it_is_approved(gated: Gated):
    gated.stage(DIGITS)
    words = gated.refused("commit", "-m", "Count in digits")
    assert "a.txt: no approved round" in words
    assert "Have it reviewed and committed: tandem commit -m " in words
    assert "tandem gate override" in words
    review = gated.submit()
    words = gated.refused("commit", "-m", "Count in digits")
    assert f"a.txt: {review}, round 1, has exactly this content" in words
    assert "tandem commit" not in words
    waiting = gated.wait_as_told(words)
    gated.decide(review)
    ended = finish(waiting)
    assert (ended.status, review in ended.stdout, "approved" in ended.stdout) == (0, True, True)
    gated.git("commit", "-m", "Count in digits")
    assert gated.message() == f"Count in digits\n\nTandem-Review: {review}"
    assert gated.trailers() == [review]


def test_p2_a_hook_that_is_started_refuses_as_one_that_is_forked(gated: Gated, tmp_path: Path):
    gated.stage(DIGITS)
    forked = gated.refused("commit", "-m", "Count in digits")
    # Where the streams are files, an interpreter is started: see `tests/forked_hooks.py`.
    with (tmp_path / "said").open("wb") as said:
        command = ["git", "commit", "-m", "Count in digits"]
        done = subprocess.run(command, cwd=gated.root, check=False, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    assert (done.returncode, (tmp_path / "said").read_text("utf-8")) == (1, forked)


def test_p2_the_first_commit_of_a_repository_is_judged(shared_broker: BrokerProcess, tmp_path: Path):
    root = tmp_path / "empty"
    root.mkdir()
    Gated(shared_broker, root, "none").git("init", "--quiet", "--initial-branch=main")
    gated = gate_on(shared_broker, root)
    gated.stage({"a.txt": "one\n"})
    assert not gated.try_git("commit", "-m", "First").ok
    review = gated.approve()
    gated.git("commit", "-m", "First")
    assert gated.trailers() == [review]
    # The first commit's amend has no parent to be compared with either.
    gated.stage({"a.txt": "two\n"})
    gated.refused("commit", "--amend", "--no-edit")


def test_p2_an_amend_is_judged_as_the_commit_that_it_makes(gated: Gated):
    gated.approved_commit(DIGITS)
    gated.stage({"b.txt": "more\n"})
    gated.refused("commit", "--amend", "--no-edit")
    # Approved against the parent of the amended commit, as commits of a range are judged.
    gated.git("reset", "--quiet", "--soft", "HEAD^")
    review = gated.approve()
    gated.git("reset", "--quiet", "--soft", "ORIG_HEAD")
    gated.git("commit", "--amend", "--no-edit")
    assert gated.trailers() == [review]


def test_a_message_is_amended_without_a_new_review(gated: Gated):
    gated.stage(DIGITS)
    review = gated.approve()
    gated.git("commit", "-m", "Count in digits")
    gated.git("commit", "--amend", "-m", "Count better")
    assert gated.message() == f"Count better\n\nTandem-Review: {review}"
    gated.git("commit", "--amend", "--no-edit")
    assert gated.trailers() == [review]
    # An empty commit passes and says nothing of reviews.
    gated.git("commit", "--allow-empty", "--date=2026-01-01T00:00:00Z", "-m", "Nothing")
    assert gated.message() == "Nothing"


def test_p2_a_merge_of_what_is_not_approved_is_refused(gated: Gated):
    gated.settings(review_granularity="per_plan")
    gated.git("switch", "--quiet", "--create", "feature")
    gated.stage(DIGITS)
    gated.git("commit", "-m", "Unreviewed")
    assert gated.trailers() == ["unreviewed"]
    gated.git("switch", "--quiet", "main")
    gated.refused("merge", "--no-ff", "-m", "Merge feature", "feature")
    gated.git("merge", "--abort")
    before = gated.git("status", "--porcelain")
    assert "bring both back" in gated.refused("merge", "--ff-only", "feature")
    gated.git("read-tree", "-m", "-u", "feature", "HEAD")
    assert gated.git("status", "--porcelain") == before
    # A commit that changes no file has nothing to bring back.
    assert "bring both back" not in gated.refused("update-ref", "refs/heads/main", "feature")


@pytest.mark.parametrize(
    "command", ["merge", "merge --autostash", "pull --ff-only .", "checkout -B main", "switch -C main"]
)
def test_the_remedy_of_a_refused_fast_forward_keeps_what_was_staged_beside_it(gated: Gated, command: str):
    gated.approved_commit({"old.txt": "old\n", "sub/kept.txt": "kept\n"})
    branched(gated, "feature", DIGITS | {"old.txt": None, "new/new.txt": "new\n"})
    gated.stage({"sub/kept.txt": "precious\n", "brandnew.txt": "brandnew\n"})
    gated.write({"b.txt": "not staged\n"})
    before = gated.git("status", "--porcelain"), gated.git("diff", "HEAD")
    [remedy] = re.findall("to bring both back: (.*)", gated.refused(*command.split(), "feature"))
    subprocess.run(remedy, shell=True, check=True, cwd=gated.root / "sub", capture_output=True)
    assert (gated.git("status", "--porcelain"), gated.git("diff", "HEAD")) == before


@pytest.mark.parametrize("command", ["reset --hard", "reset --keep", "reset --merge", "reset"])
def test_the_remedy_of_a_refused_reset_lets_the_branch_land(gated: Gated, command: str):
    gated.approved_commit({"old.txt": "old\n"})
    branched(gated, "feature", DIGITS | {"old.txt": None, "new/new.txt": "new\n"})
    gated.write({"own.txt": "mine\n"})
    words = gated.refused(*command.split(), "feature")
    [remedy] = re.findall("Git has already changed .* here; to bring (?:both|it) back: (.*)", words)
    subprocess.run(remedy, shell=True, check=True, cwd=gated.root, capture_output=True)
    assert gated.git("status", "--porcelain") == "?? own.txt"
    gated.approve("--range", "main..feature")
    assert gated.tandem("land", "feature").status == 0


def test_a_commit_that_is_refused_when_it_moves_the_branch_stays_staged(gated: Gated):
    (gated.root / ".git/hooks/prepare-commit-msg").unlink()
    gated.stage(DIGITS)
    assert "bring" not in gated.refused("commit", "-m", "Count in digits")


def test_the_remedy_of_a_merge_that_is_refused_when_it_moves_the_branch_leaves_the_merge(gated: Gated):
    branched(gated, "feature", DIGITS)
    # Else it would be refused before.
    (gated.root / ".git/hooks/prepare-commit-msg").unlink()
    words = gated.refused("merge", "--no-ff", "--no-edit", "feature")
    assert "to bring both back: git merge --abort\n" in words
    gated.git("merge", "--abort")
    assert gated.git("status", "--porcelain") == ""


@pytest.mark.parametrize("command", ["am", "pull --rebase"])
def test_a_command_that_cannot_be_run_again_is_continued_as_the_refusal_says(
    gated: Gated, tmp_path: Path, command: str
):
    branched(gated, "feature", DIGITS)
    gated.git("clone", "--quiet", "--branch", "feature", str(gated.root), str(tmp_path / "theirs"))
    (tmp_path / "patch").write_text(gated.git("format-patch", "--stdout", "-1", "feature") + "\n", "utf-8")
    gated.git("branch", "--quiet", "-D", "feature")
    gated.approved_commit({"b.txt": "mine\n"})
    named = [str(tmp_path / "theirs"), "feature"] if command.startswith("pull") else [str(tmp_path / "patch")]
    words = gated.try_git(*command.split(), *named).stderr
    [submit] = re.findall(r"tandem submit (--range \S+)", words)
    [again] = re.findall(r"when it is approved: (?:GIT_EDITOR=true )?git (.*)", words)
    review = gated.approve(*submit.split())
    assert f"git {again}\n" in gated.tandem("review", "status", review, "--wait").stdout
    gated.git(*again.split())
    assert gated.tandem("audit", "main").status == 0
    assert (gated.root / "a.txt").read_text("utf-8") == DIGITS["a.txt"]
    assert gated.git("status", "--porcelain", "--branch") == "## main"


@pytest.mark.parametrize("way", ["replayed", "fast-forward", "landed"])
def test_a_rebase_by_the_backend_apply_is_ended_as_the_refusal_says(gated: Gated, way: str):
    gated.git("config", "rebase.backend", "apply")
    gated.approved_commit({"kept.txt": "kept\n"})
    onto = branched(gated, "feature", DIGITS)
    if way == "replayed":
        gated.approved_commit({"b.txt": "mine\n"})
    if way != "landed":
        gated.git("branch", "--quiet", "-D", "feature")
    gated.write({"kept.txt": "not committed\n", "own.txt": "mine\n"})
    before = gated.git("status", "--porcelain")
    words = gated.try_git("rebase", "--autostash", onto).stderr
    if way == "landed":
        [leaving] = re.findall("reviewed as one change, and landed: (.*) && tandem land feature\n", words)
    else:
        [submit, leaving] = re.findall(r"tandem submit (--range \S+)|when it is approved: (.*)", words)
        review, leaving = gated.approve(*submit[0].split()), leaving[1]
        assert "rebase --continue" not in gated.tandem("review", "status", review, "--wait").stdout
    subprocess.run(leaving, shell=True, check=True, cwd=gated.root, capture_output=True)
    assert gated.git("status", "--porcelain", "--branch") == f"## main\n{before}"
    assert not [*gated.root.glob(".git/rebase*")]
    if way == "landed":
        gated.approve("--range", "main..feature")
        assert gated.tandem("land", "feature").status == 0
    assert gated.tandem("audit", "main").status == 0
    assert (gated.root / "a.txt").read_text("utf-8") == DIGITS["a.txt"]


def test_p2_a_repository_that_is_packed_and_names_its_objects_otherwise_is_gated_too(
    shared_broker: BrokerProcess, tmp_path: Path
):
    gated = gate_on(shared_broker, new_repository(tmp_path / "packed", options=("--object-format=sha256",)))
    gated.git("pack-refs", "--all")
    gated.git("gc", "--quiet")
    gated.stage(DIGITS)
    gated.refused("commit", "-m", "Count in digits")
    review = gated.approve()
    gated.git("commit", "-m", "Count in digits")
    assert gated.trailers() == [review]


def test_a_gate_that_is_on_for_other_branches_still_asks_for_an_approval(shared_broker: BrokerProcess, plain: Path):
    gated = gate_on(shared_broker, plain, GateOptions(branches=("release",)))
    gated.stage(DIGITS)
    gated.refused("commit", "-m", "On main")


NO_TEXT = b"caf\xe9.txt"
QUOTED = r'"caf\351.txt"'


@pytest.fixture
def strange(gated: Gated) -> Gated:
    """A repository with a file whose name is not UTF-8, which a person let in."""
    name = os.path.join(os.fsencode(gated.root), NO_TEXT)  # noqa: PTH118 - a name of bytes
    try:
        with open(name, "wb") as file:  # noqa: PTH123 - a name of bytes
            file.write(b"x\n" * 20)
    except OSError:
        pytest.skip("platform: the file system takes UTF-8 only")
    gated.git("add", "--all")
    # Such a name is never approved, and the refusal spells it.
    assert QUOTED in gated.refused("commit", "-m", "x")
    assert "not UTF-8" in gated.tandem("submit", "--staged", "-m", "x").refusal
    blob = gated.git("hash-object", "--stdin", stdin=b"x\n" * 20)
    change = {"path": QUOTED, "mode_after": "100644", "blob_after": blob}
    with gated.caller() as person:
        person.override(changes=[change], reason="It came with the import.")
    gated.git("commit", "-m", "Import")
    return gated


def test_p2_a_name_that_is_no_text_can_go(strange: Gated):
    strange.git("rm", "--quiet", NO_TEXT.decode("utf-8", "surrogateescape"))
    assert QUOTED in strange.refused("commit", "-m", "Remove it")
    review = strange.submit()
    files = strange.call("get_proposal", review_id=review)["affected_files"]
    assert [(file["path"], file["operation"]) for file in files] == [(QUOTED, "deleted")]
    strange.decide(review)
    strange.git("commit", "-m", "Remove it")
    assert strange.trailers() == [review]


def test_p2_a_name_that_is_no_text_can_be_made_one(strange: Gated):
    strange.git("mv", NO_TEXT.decode("utf-8", "surrogateescape"), "café.txt")
    strange.refused("commit", "-m", "Rename it")
    review = strange.submit()
    files = strange.call("get_proposal", review_id=review)["affected_files"]
    assert [(file["path"], file["old_path"]) for file in files] == [("café.txt", QUOTED)]
    strange.decide(review)
    strange.git("reset", "--quiet", "--hard")
    # Applying it does the same to the working tree.
    assert strange.tandem("apply", review, "--index").status == 0
    assert os.listdir(os.fsencode(strange.root)).count(NO_TEXT) == 0  # noqa: PTH208 - names of bytes
    strange.git("commit", "-m", "Rename it")
    assert strange.trailers() == [review]
    # Neither another name of these letters, nor one that is spelled as the quoted one, passes in its place.
    strange.stage({QUOTED: "x\n" * 20})
    strange.refused("commit", "-m", "x")


@pytest.mark.skipif(sys.platform == "win32", reason="platform: no symbolic links")
def test_p2_a_link_inside_of_the_repository_is_approved_and_applied(gated: Gated):
    gated.stage({"docs/guide.md": "# Guide\n"})
    (gated.root / "docs" / "latest.md").symlink_to("guide.md")
    (gated.root / "docs" / "a.txt").symlink_to("../a.txt")
    gated.git("add", "--all")
    gated.refused("commit", "-m", "Links")
    review = gated.approve()
    gated.git("reset", "--quiet", "--hard")
    assert gated.tandem("apply", review, "--index").status == 0
    assert str((gated.root / "docs" / "a.txt").readlink()) == "../a.txt"
    gated.git("commit", "-m", "Links")
    assert gated.trailers() == [review]
    # The link's target is a part of the approved content.
    (gated.root / "docs" / "latest.md").unlink()
    (gated.root / "docs" / "latest.md").symlink_to("a.txt")
    gated.git("add", "--all")
    gated.refused("commit", "-m", "Elsewhere")
