"""P2 through the gate of a real repository: an approval opens it for exactly the approved content, on any branch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.modes import VARIATION
from tests.repository.gating import START
from tests.repository.ranges.works import Auditor, Work


def test_p2_the_same_content_on_a_rebased_branch_passes(work: Work, auditor: Auditor):
    work.stage(work.change)
    review = work.approve(work.start, work.made(work.change, work.start))
    work.git("commit", "-m", "As approved")
    other = work.approved(work.other, work.start)
    assert work.offer(other)
    work.git("rebase", "main")
    assert work.head("HEAD^") == other
    (commit,) = auditor.judge("main..HEAD")["commits"]
    assert (commit["verdict"], commit["review_ids"]) == ("approved", [review])
    assert work.offer(work.head())


def test_p2_an_approval_on_other_content_before_does_not_count_for_the_branch(work: Work):
    """A change approved on one content is another change on top of other content."""
    work.approve(work.start, work.made(work.change, work.start))
    assert work.offer(work.approved({"a.txt": f"1\n{work.name}!\n3\n"}, work.start))
    commit = work.made(work.change, work.head("main"))
    assert not work.offer(commit)


def test_p2_what_lies_hidden_in_the_past_of_the_base_branch_never_becomes_its_end(work: Work, auditor: Auditor):
    """A change and its revert cancel each other; that does not make the change itself approved."""
    hidden = work.made(work.change, work.start, "Hidden")
    back = work.made({"a.txt": START["a.txt"]}, hidden, "Revert it")
    assert auditor.verdicts(f"{work.start}..{back}") == ["rollback", "rollback"]
    assert work.offer(back)
    assert not work.offer(hidden)
    on_top = work.approved(work.other, hidden)
    assert not work.offer(on_top)
    # A merge brings only what the side adds, and that is approved.
    tree = work.git("merge-tree", "--write-tree", back, on_top)
    merge = work.git("commit-tree", tree, "-p", back, "-p", on_top, "-m", "Merge")
    assert work.offer(merge)
    assert work.git("show", "main:a.txt") == START["a.txt"].decode().strip()
    # Unless the merge says that it brings more than it does.
    kept = work.git("commit-tree", f"{on_top}^{{tree}}", "-p", on_top, "-p", back, "-m", "Merge, ours")
    assert not work.offer(kept)


def test_p2_a_merge_that_adds_something_of_its_own_is_a_change(work: Work, auditor: Auditor):
    one, two = work.approved(work.change, work.start), work.approved(work.other, work.start)
    clean = work.git("merge-tree", "--write-tree", one, two)
    merge = work.git("commit-tree", clean, "-p", one, "-p", two, "-m", "Merge")
    more = work.made({"smuggled.txt": "x"}, merge)
    evil = work.git("commit-tree", f"{more}^{{tree}}", "-p", one, "-p", two, "-m", "Merge")
    assert not work.offer(evil)
    assert auditor.verdicts(f"{work.start}..{evil}")[-1] == "unapproved"
    # Also where the repository is told to merge like that.
    work.git("config", "merge.mine.driver", "cp smuggled.txt %A")
    work.git("config", "merge.default", "mine")
    assert not work.offer(evil)
    work.git("config", "--remove-section", "merge.mine")
    work.git("config", "--unset", "merge.default")
    assert work.offer(merge)


def test_p2_what_was_approved_amend_by_amend_passes_where_it_is_one_commit(work: Work, auditor: Auditor):
    reviews: list[str] = []
    for number in (1, 2, 3):
        files = {"a.txt": f"one\n{work.name}, {number}\nthree\n"}
        work.stage(files)
        reviews.append(work.approve("HEAD", work.made(files, work.head())))
        work.git("commit", "-m", "A change", *(["--amend"] if number > 1 else []))
    assert work.head("HEAD^") == work.start
    (commit,) = auditor.judge("main..HEAD")["commits"]
    assert (commit["verdict"], commit["review_ids"]) == ("approved", reviews)
    assert work.offer(work.head())


SQUASHES: dict[str, Callable[[Work, str], object]] = {
    "merge --squash": lambda work, tip: (work.git("merge", "--squash", tip), work.git("commit", "-m", "All of it")),
    "reset --soft": lambda work, tip: (
        work.jump(tip),
        work.git("reset", "--soft", work.start),
        work.git("commit", "-m", "All of it"),
    ),
    "rebase -i": lambda work, tip: (
        work.jump(tip),
        work.git("rebase", "-i", work.start, GIT_SEQUENCE_EDITOR="sed -i.bak -e '2,$s/^pick/fixup/'"),
    ),
    "pulled": lambda work, tip: work.jump(
        work.git("commit-tree", f"{tip}^{{tree}}", "-p", work.start, "-m", "PR (#7)")
    ),
}


@pytest.mark.parametrize(
    "squash",
    [
        pytest.param(squash, id=name, marks=VARIATION if name in {"reset --soft", "pulled"} else [])
        for name, squash in SQUASHES.items()
    ],
)
def test_a_squash_of_approved_commits_passes_as_one(
    work: Work, auditor: Auditor, squash: Callable[[Work, str], object]
):
    tip, reviews = work.start, list[str]()
    for number, files in enumerate((["a.txt"], ["a.txt", "b.txt"], ["b.txt", "new.txt"])):
        made = work.made(dict.fromkeys(files, f"{work.name} {number}\n"), tip)
        reviews.append(work.approve(tip, made))
        tip = made
    squash(work, tip)
    assert work.head("HEAD^") == work.start
    (commit,) = auditor.judge(f"{work.start}..HEAD")["commits"]
    assert (commit["verdict"], sorted(commit["review_ids"])) == ("approved", sorted(reviews))
    assert work.offer(work.head())


def test_the_refusal_says_what_happened_and_the_shortest_way_on(work: Work):
    def numbered(line: int) -> dict[str, str]:
        return {"l.txt": "".join(f"{work.name if number == line else number}\n" for number in range(30))}

    base = work.approved(numbered(-1), work.start)
    main = work.approved(numbered(20), base)
    # A formatter ran between review and commit.
    work.jump(base)
    work.stage(numbered(2))
    review = work.gated.approve()
    work.stage({"l.txt": "formatted\n"})
    assert f"l.txt: no approved round has this content at this path; {review} approved other" in work.refused(
        "commit", "-m", "x"
    )
    work.stage(numbered(2))
    work.git("commit", "-m", "As approved")
    # The branch has gone on in the same file: the content is another one.
    words = work.refused("rebase", main)
    assert f"Its message names {review}, which did not approve this content" in words
    assert "and when it is approved: GIT_EDITOR=true git rebase --continue" in words
    work.gated.approve()
    work.git("rebase", "--continue")
    assert work.offer(work.head())
    # Git merges with a driver whose result has not been reviewed.
    other = work.approved(numbered(1), base)
    (work.gated.root / ".git/info/attributes").write_text("l.txt merge=union\n")
    words = work.refused("merge", "--no-edit", other)
    (work.gated.root / ".git/info/attributes").unlink()
    assert "A merge needs no review only if git made it from approved sides" in words
    assert "Have it reviewed and committed: tandem commit --no-edit" in words
    work.gated.approve()
    work.git("merge", "--continue")
    assert work.offer(work.head())


@VARIATION
def test_a_rejected_change_and_its_taking_back_leave_the_approved_ones_between(work: Work, auditor: Auditor):
    rejected = work.made(work.change, work.start, "Rejected")
    work.gated.decide(work.put_up(work.start, rejected), "rejected")
    one = work.approved({"b.txt": f"alpha\n{work.name} 1\n"}, rejected)
    two = work.approved({"b.txt": f"alpha\n{work.name} 2\n"}, one)
    assert not work.offer(two)
    back = work.made({"a.txt": START["a.txt"]}, two, "Revert it")
    assert auditor.verdicts(f"{work.start}..{back}") == ["rollback", "approved", "approved", "rollback"]
    assert work.offer(back)


def test_a_change_on_top_of_what_is_not_approved_is_not_good_by_its_own_approval(work: Work, auditor: Auditor):
    bad = work.made(work.change, work.start, "Not approved")
    on_it = work.approved({"a.txt": f"1\n{work.name}\n3\n"}, bad)
    assert not work.offer(on_it)
    assert auditor.verdicts(f"{work.start}..{on_it}") == ["unapproved", "approved"]
    work.approve(work.start, on_it)
    assert auditor.verdicts(f"{work.start}..{on_it}") == ["approved", "approved"]
    assert work.offer(on_it)
