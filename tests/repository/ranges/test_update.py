"""`reference-transaction`: a base branch moves only to approved content, by any command."""

from __future__ import annotations

from pathlib import Path

from tests.broker import BrokerProcess
from tests.repository.gating import gate_on, new_repository
from tests.repository.ranges.works import Work

MAIN = "refs/heads/main"


def test_the_refusal_says_what_is_wrong_and_what_to_do(work: Work):
    commit = work.made(work.change, work.start, "Count in digits")
    words = work.refused("update-ref", MAIN, commit)
    short = f"{work.start[:10]}..{commit[:10]}"
    assert "main stays where it is: 1 of 1 commits are not approved." in words
    assert f"{commit[:10]} Count in digits: unapproved" in words
    assert "a.txt: no approved round has this content at this path" in words
    assert f"tandem audit {short}" in words
    assert f"tandem submit --range {short} --wait" in words


def test_a_transaction_is_let_be_or_refused_as_a_whole(work: Work):
    good, bad = work.approved(work.change, work.start), work.made(work.other, work.start)
    other = f"refs/heads/{work.branch}-other"
    lines = f"start\ncreate {other} {good}\nupdate {MAIN} {bad}\nprepare\ncommit\n"
    work.refused("update-ref", "--stdin", stdin=lines.encode())
    work.git("update-ref", "--stdin", stdin=f"create {other} {bad}\nupdate {MAIN} {good}\n".encode())
    assert (work.head("main"), work.head(other)) == (good, bad)


def test_p2_a_base_branch_does_not_go_back_into_a_plan_that_was_approved_as_a_whole(work: Work):
    one = work.made(work.change, work.start)
    two = work.made(work.other, one)
    work.approve(work.start, two)
    assert work.offer(two)
    assert not work.offer(one)
    words = work.words
    assert f"{one[:10]} A change: unapproved" in words


def test_what_a_person_accepts_is_taken_as_it_is_with_all_before_it_and_nothing_after_it(
    shared_broker: BrokerProcess, tmp_path: Path
):
    gated = gate_on(shared_broker, new_repository(tmp_path / "repository"))
    start = gated.head()
    work = Work(gated, "main", "accepted", gated.root, start, tmp_path)
    theirs = work.made(work.change, start, "Theirs")
    remote = tmp_path / "remote.git"
    gated.git("init", "--quiet", "--bare", str(remote))
    gated.git("remote", "add", "origin", str(remote))
    gated.git("push", "--quiet", "--no-verify", "origin", f"{theirs}:refs/heads/main")
    assert not work.offer(theirs)
    assert "tandem gate on --accept refs/remotes/origin/main" in work.words
    accepting = ("gate", "on", "--accept", "refs/remotes/origin/main")
    assert "at a terminal" in gated.tandem(*accepting).stderr
    asked = gated.person(*accepting).stdout
    assert f"refs/remotes/origin/main, now {theirs[:10]}, would be taken as it is" in asked
    assert gated.call("get_gate")["accepted"] == [theirs]
    # Later values of the ref are judged: fetching or writing it accepts nothing.
    later = work.made({"c.txt": "later\n"}, theirs, "Later")
    work.git("update-ref", "refs/remotes/origin/main", later)
    assert not work.offer(later)
    written = gated.tandem("gate", "on", "--accept", "origin/main")
    assert "git fetch origin" in written.stderr
    assert work.offer(theirs)
    # Ours beside theirs, merged as git does it.
    ours = work.made(work.other, start, "Ours")
    tree = work.git("merge-tree", "--write-tree", ours, theirs)
    merge = work.git("commit-tree", tree, "-p", ours, "-p", theirs, "-m", "Merge")
    assert not work.offer(merge)
    work.approve(start, ours)
    assert work.offer(merge)


def test_without_its_broker_the_base_branch_stays_and_says_how_to_start_it(work: Work):
    commit = work.approved(work.change, work.start)
    before = work.gated.switch
    work.gated.rewrite(broker="http://127.0.0.1:9")
    try:
        assert "tandem up --background" in work.refused("update-ref", MAIN, commit)
        # The user who moves it does not choose the broker.
        refused = work.gated.try_git("update-ref", MAIN, commit, TANDEM_BROKER=work.gated.broker.url)
        assert not refused.ok
    finally:
        work.gated.rewrite(**before)
    assert work.offer(commit)


def test_what_a_person_let_through_gets_onto_the_base_branch(work: Work):
    commit = work.made(work.change, work.start)
    raw = work.git("diff-tree", "-r", "--raw", "--no-renames", "--full-index", work.start, commit)
    facts, path = raw.split("\t")
    before, after, old, new, _ = facts[1:].split()
    change = {"path": path, "mode_before": before, "blob_before": old, "mode_after": after, "blob_after": new}
    with work.gated.caller() as person:
        person.override(changes=[change], reason="The release burns.", override_id=f"ov_{work.name}")
    assert work.offer(commit)


def test_a_path_that_is_not_utf_8_is_named_as_git_quotes_it(work: Work):
    blob = work.git("hash-object", "-w", "--stdin", stdin=b"x")
    tree = work.git("mktree", "-z", stdin=f"100644 blob {blob}\t".encode() + b"\xff.txt\0")
    commit = work.git("commit-tree", tree, "-p", work.start, "-m", "A strange name")
    assert r'"\377.txt"' in work.refused("update-ref", MAIN, commit)
