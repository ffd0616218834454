"""`tandem audit RANGE`: every commit of a range, its verdict and its review."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker import BrokerProcess
from tests.commandline import Inside
from tests.repository.gating import new_repository
from tests.repository.ranges.works import Auditor, Work


def test_says_of_each_commit_what_it_is_and_by_which_review(work: Work, auditor: Auditor):
    first = work.made(work.change, work.start, "Count in digits")
    review = work.approve(work.start, first)
    last = work.made(work.other, first, "Something [bold]else[/bold]\n\nTandem-Review: unreviewed")
    ended = auditor.run(f"{work.start}..{last}")
    assert ended.status == 1
    lines = ended.stdout.splitlines()
    assert any(line.split() == [first[:10], "Count", "in", "digits", "approved", review] for line in lines)
    assert any(last[:10] in line and "Something [bold]else[/bold]" in line and "unreviewed" in line for line in lines)
    assert f"{last[:10]}  b.txt: no approved round has this content at this path" in ended.stdout
    assert "not approved  1 of 2 commits" in ended.stdout
    assert f"tandem submit --range {work.start[:10]}..{last[:10]}" in ended.stdout
    work.approve(first, last)
    ended = auditor.run(f"{work.start}..{last}")
    assert ended.status == 0
    assert "approved  2 commits" in ended.stdout


def test_says_the_same_to_programs(work: Work, auditor: Auditor):
    first = work.approved(work.change, work.start, "One")
    last = work.made(work.other, first, "Two")
    said = auditor.judge(f"{work.start}..{last}")
    assert (said["project"], said["old"], said["new"]) == (work.gated.project, work.start, last)
    one, two = said["commits"]
    assert (one["commit"], one["subject"], one["verdict"], one["paths"]) == (first, "One", "approved", [])
    assert two["verdict"] == "unapproved"
    assert [path["path"] for path in two["paths"]] == ["b.txt"]


def test_each_kind_of_commit_has_its_word(work: Work, auditor: Auditor):
    empty = work.made({}, work.start, "Nothing")
    exempt = work.made({".planning/STATE.md": work.name}, empty, "State")
    change = work.approved(work.change, exempt)
    other = work.approved(work.other, exempt)
    tree = work.git("merge-tree", "--write-tree", change, other)
    merge = work.git("commit-tree", tree, "-p", change, "-p", other, "-m", "Merge")
    assert sorted(auditor.verdicts(f"{work.start}..{merge}")) == ["approved", "approved", "empty", "exempt", "merge"]


def test_a_merge_that_leaves_out_a_side_has_no_review_and_says_what_it_leaves_out(work: Work, auditor: Auditor):
    side = work.approved(work.change, work.start, "Side")
    main = work.approved(work.other, work.start, "Main")
    bad = work.made({"c.txt": "not approved"}, side, "Bad")

    def merged(kept: str, *parents: str) -> tuple[str, list[str]]:
        merge = work.git("commit-tree", f"{kept}^{{tree}}", *(f"-p{one}" for one in parents), "-m", "Merge")
        judged = auditor.judge(f"{work.start}..{merge}")
        last = judged["commits"][-1]
        assert judged["approved"]
        assert last["review_ids"] == []
        assert last["reason"].partition("; ")[2] in auditor.run(f"{work.start}..{merge}").stdout
        return last["reason"], [commit["verdict"] for commit in judged["commits"]]

    lost, kept = "leaves out what {} has in {}", "it is {} as it is; "
    a, b = lost.format(side[:10], "a.txt"), lost.format(main[:10], "b.txt")
    assert merged(main, main, side) == (kept.format(main[:10]) + a, ["approved", "approved", "merge"])
    assert merged(side, main, side) == (kept.format(side[:10]) + b, ["approved", "approved", "merge"])
    assert merged(work.start, main, side)[0].endswith(f"; {b}; {a}")
    # Neither does a merge of three lead back unseen.
    empty = work.git("commit-tree", f"{work.start}^{{tree}}", "-p", work.start, "-m", "Empty")
    assert merged(work.start, empty, main, side)[0].endswith(f"; {b}; {a}")
    assert merged(work.start, work.start, empty, main)[0].endswith(f"; {b}")
    # The merge leaves out content that was never approved, and the audit does not say that it was.
    reason, verdicts = merged(main, main, bad)
    assert reason == kept.format(main[:10]) + lost.format(bad[:10], "a.txt, c.txt")
    assert sorted(verdicts) == ["approved", "approved", "merge", "rollback"]


def test_takes_a_range_as_git_does(work: Work, auditor: Auditor):
    here = work.approved(work.change, work.start)
    there = work.made(work.other, work.start)
    work.git("update-ref", f"refs/heads/{work.branch}-there", there)
    work.jump(here)
    assert auditor.verdicts(f"{work.start}..") == ["approved"]
    assert auditor.verdicts(f"{work.branch}-there..HEAD") == ["approved"]
    assert auditor.verdicts(f"{work.branch}...{work.branch}-there") == ["unapproved"]
    assert auditor.verdicts("HEAD..HEAD") == []
    # A branch alone: all of it since the gate was switched on.
    said = auditor.judge("HEAD")
    assert [commit["commit"] for commit in said["commits"]] == [here]
    assert said["left_out"] == int(work.git("rev-list", "--count", work.start))
    assert "not judged: 1 more, from before the gate" in auditor.run("HEAD").stdout


def test_goes_on_after_a_merge_as_it_was_before_it(work: Work, auditor: Auditor):
    """An audit in CI looks at the base branch after the fact."""
    one = work.made(work.change, work.start)
    two = work.made(work.other, one)
    work.approve(work.start, two)
    assert work.offer(two)
    assert auditor.verdicts(f"{work.start}..main") == ["approved", "approved"]
    assert auditor.judge("main")["approved"]


@pytest.mark.timeout(240)
def test_judges_hundreds_of_commits_in_one_go(work: Work, auditor: Auditor):
    lines: list[str] = []
    for number in range(1, 201):
        lines += [f"commit refs/heads/{work.branch}-long", f"mark :{number}", "committer A <a@b> 1700000000 +0000"]
        lines += ["data 1", "x", f"from {work.start if number == 1 else f':{number - 1}'}"]
        lines += [f"M 100644 inline f{number % 50}.txt", f"data {len(str(number))}", str(number), ""]
    work.git("fast-import", "--quiet", stdin="\n".join(lines).encode())
    tip = f"{work.branch}-long"
    assert auditor.verdicts(f"{work.start}..{tip}") == ["unapproved"] * 200
    work.approve(work.start, tip)
    assert auditor.verdicts(f"{work.start}..{tip}") == ["approved"] * 200


def test_the_help_teaches_both_audits(auditor: Auditor):
    said = auditor.run("--help").stdout
    assert "tandem audit main..HEAD" in said
    assert "tandem audit verify" in said
    assert "commits" in said
    assert "A..B" in auditor.run("commits", "--help").stdout


def test_what_is_neither_a_command_nor_a_commit_is_refused(work: Work, auditor: Auditor):
    for word in ("verfy", "HEAD..nowhere", "--output=x"):
        ended = auditor.run(word)
        assert ended.status in (1, 2), word
        assert ended.stderr
    assert "neither a command of 'tandem audit' nor a commit" in auditor.run("verfy").stderr


def test_needs_its_broker_and_says_how_to_start_it(work: Work, auditor: Auditor):
    ended = auditor.run(f"{work.start}..{work.made(work.change, work.start)}", "--broker", "http://127.0.0.1:9")
    assert ended.status == 3
    assert "tandem up" in ended.stderr


def test_what_a_remote_has_is_asked_of_the_remote(work: Work, auditor: Auditor, remote: Path):
    """A person who pushes with `--no-verify` can also write the local ref of the remote's branch."""
    good = work.approved(work.change, work.start)
    bad = work.made(work.other, good, "Slip by")
    work.git("push", "--quiet", "--no-verify", "origin", f"{bad}:main")
    tracking = "refs/remotes/origin/main"
    assert auditor.verdicts("origin/main") == ["approved", "unapproved"]
    work.git("update-ref", tracking, good)
    # Nor does a branch or a tag of the same name get in between.
    work.git("update-ref", "refs/heads/origin/main", good)
    try:
        for name in ("origin/main", "remotes/origin/main", tracking):
            assert auditor.verdicts(f"{work.start}..{name}") == ["approved", "unapproved"], name
    finally:
        work.git("update-ref", "-d", "refs/heads/origin/main")
    assert f"has {bad[:10]} as refs/heads/main, which is judged" in auditor.run("origin/main").stderr
    assert auditor.verdicts(f"{work.start}..origin/main~1") == ["approved"]
    assert auditor.verdicts(f"origin/main..{bad}") == []
    work.git("update-ref", tracking, bad)
    assert auditor.run("origin/main", "--offline").status == 1
    # A colleague's push is not here yet.
    theirs = work.gated.git("commit-tree", f"{good}^{{tree}}", "-p", bad, "-m", "Theirs", cwd=remote)
    work.gated.git("update-ref", "refs/heads/main", theirs, cwd=remote)
    ended = auditor.run(f"{work.start}..origin/main")
    assert (ended.status, "Run: git fetch origin" in ended.stderr) == (1, True)
    work.git("fetch", "--quiet", "origin")
    assert auditor.verdicts(f"{work.start}..origin/main") == ["approved", "rollback", "rollback"]


def test_a_remote_that_cannot_be_asked_is_no_approval(work: Work, auditor: Auditor, remote: Path):
    work.git("push", "--quiet", "origin", f"{work.approved(work.change, work.start)}:main")
    assert auditor.run("origin/main").status == 0
    remote.rename(remote.with_suffix(".away"))
    ended = auditor.run("origin/main")
    assert (ended.status, "origin does not say which commit" in ended.stderr, "--offline" in ended.stderr) == (
        1,
        True,
        True,
    )
    assert auditor.run("origin/main", "--offline").status == 0
    work.git("update-ref", "refs/remotes/elsewhere/main", work.start)
    assert "git remote add" in auditor.run("elsewhere/main").stderr
    work.git("update-ref", "-d", "refs/remotes/elsewhere/main")


def test_works_in_a_clone_that_has_no_gate(
    shared_broker: BrokerProcess, work: Work, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    commit = work.approved(work.change, work.start)
    bad = work.made(work.other, commit)
    clone = new_repository(tmp_path / "clone")
    work.git("push", "--quiet", "--no-verify", str(clone), f"{bad}:refs/heads/theirs")
    monkeypatch.chdir(clone)
    inside = Inside(shared_broker.url, clone)
    assert inside.run("audit", f"{work.start}..{commit}", "--project", work.gated.project).status == 0
    assert inside.run("audit", f"{work.start}..theirs", "--project", work.gated.project).status == 1
    misspelt = inside.run("audit", f"{work.start}..{commit}", "--project", f"{work.gated.project}x")
    assert (misspelt.status, f"Did you mean '{work.gated.project}'?" in misspelt.stderr) == (1, True)
    assert "tandem project add" in inside.run("audit", f"{work.start}..theirs").refusal
