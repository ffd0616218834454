"""`tandem commit`: git commit with a review in front of it, the same command until it is done."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tandem.rulings.policy import FILE
from tests.broker import BrokerProcess
from tests.commandline import Ended, Shell, finish
from tests.modes import VARIATION
from tests.repository.committing import (
    NOT_YET,
    commit,
    environment,
    facts,
    picture,
    review_of,
    reviewed,
    reviews,
    start,
)
from tests.repository.foreign_hooks import FORMATTERS, called
from tests.repository.gating import DIGITS, Gated, gate_on, new_repository
from tests.repository.terminal import Terminal, without_agents

FIXED: dict[str, Any] = {"GIT_AUTHOR_DATE": "1700000000 +0000", "GIT_COMMITTER_DATE": "1700000000 +0000"}
SAME = {
    "all, and a file's message": ["-a", "-F", "../message"],
    "all in one word": ["-am", "Count"],
    "a path": ["-m", "Count", "--", "b.txt"],
    "a path without dashes, and another's message": ["b.txt", "-C", "HEAD"],
    "a squash, and a path": ["-i", "--squash=HEAD", "-m", "Count", "b.txt"],
    "paths of a file, and standard input's message": ["-F", "-", "--pathspec-from-file=../paths"],
    "paths of standard input": ["-m", "Count", "--pathspec-from-file=-"],
    "standard input's message in one word": ["-saF-"],
    "who, when, and several paragraphs": [
        *("--author", "Ann <ann@example.org>", "--date", "1600000000 +0200", "-s", "--trailer", "Seen-By: ann"),
        *("-m", "Count", "-m", "In digits.\n\nNot in words."),
    ],
    "a fixup": ["--fixup", "HEAD"],
    "amended": ["--amend", "--no-edit"],
    "amended with a message": ["--amend", "-m", "Count"],
    "without hooks": ["-nqm", "Count"],
    "verbose, verbatim": ["-v", "--cleanup=verbatim", "-m", "Count  \n\n# in digits"],
    "words like ours": ["-m", "--json", "--", "b.txt"],
}


def change(root: Path, gated: Gated) -> None:
    """Something staged, something not, something new; with an empty diff in front of it."""
    gated.write({"../message": "Count\n\nIn digits.\n", "../paths": "b.txt\n"}, root)
    gated.write({**DIGITS, "b.txt": "alpha\n2\n", "new.txt": "new\n"}, root)
    gated.git("add", "a.txt", "new.txt", cwd=root)


STDIN = b"b.txt\n"
ALIKE = {
    "all in one word",
    "a path without dashes, and another's message",
    "paths of standard input",
    "standard input's message in one word",
    "amended with a message",
    "verbose, verbatim",
}
"""Those that another one has, too, option by option."""


@pytest.mark.parametrize(
    "words", [pytest.param(words, id=name, marks=VARIATION if name in ALIKE else []) for name, words in SAME.items()]
)
def test_it_makes_the_commit_that_git_makes_of_the_same_options(gated: Gated, words: list[str]) -> None:
    twin = new_repository(gated.root.parent / "twin")
    for root in (gated.root, twin):
        change(root, gated)
    gated.git("commit", *words, cwd=twin, stdin=STDIN, **FIXED)
    first = commit(gated, *words, stdin=STDIN, **FIXED)
    assert first.status == NOT_YET, first
    head = gated.head()
    gated.decide(review_of(first))
    assert gated.head() == head
    done = commit(gated, *words, stdin=STDIN, **FIXED)
    assert done.status == 0, done
    made, wanted = picture(gated.root, gated), picture(twin, gated)
    assert {**made, "commit": made["commit"].split()[0]} == {**wanted, "commit": wanted["commit"].split()[0]}
    assert made["commit"].split()[1:-1] == wanted["commit"].split()[1:-1]
    assert (gated.trailers(), reviews(gated)) == ([review_of(first)], ["closed"])
    assert facts(gated) == []


def test_what_makes_no_commit_submits_nothing_and_ends_as_git_does(gated: Gated) -> None:
    gated.stage(DIGITS)
    for words in (["--dry-run"], ["--short"], ["-m", "x", "--", "none.txt"], ["--unknown"]):
        wanted = gated.try_git("commit", *words)
        ended = commit(gated, *words)
        assert (ended.status, ended.stdout) == (wanted.status, wanted.stdout), words
    # Parts are chosen before.
    for words in (["--patch", "-m", "x"], ["-apm", "x"], ["-p"]):
        ended = commit(gated, *words)
        assert (ended.status, "git add --patch" in ended.stderr) == (2, True), words
    assert reviews(gated) == []


def test_a_message_given_once_is_kept_and_a_new_one_replaces_it(gated: Gated) -> None:
    gated.stage(DIGITS)
    first = review_of(commit(gated, "-m", "Count", "-m", "In digits."))
    assert gated.call("get_proposal", review_id=first)["description"] == "In digits."
    gated.stage({"a.txt": "one\ntwo, in words\nthree\n"})
    second = commit(gated)
    assert (second.status, review_of(second)) == (NOT_YET, first)
    assert gated.call("get_proposal", review_id=first)["intent"] == "Count"
    gated.decide(first)
    assert commit(gated).status == 0
    assert gated.message() == f"Count\n\nIn digits.\n\nTandem-Review: {first}"
    gated.stage(DIGITS)
    assert "Say what the change is for" in commit(gated).stderr
    reviewed(gated, "-m", "Count")
    assert commit(gated, "-m", "Count in digits").status == 0
    assert gated.message().startswith("Count in digits\n")


@pytest.mark.parametrize("is_heard", [False, pytest.param(True, marks=VARIATION)])
def test_the_message_of_a_closed_review_is_not_that_of_an_unrelated_change(gated: Gated, *, is_heard: bool) -> None:
    gated.stage(DIGITS)
    first = review_of(commit(gated, "-m", "Count"))
    gated.call("close_review", review_id=first, reason="Not wanted.")
    if is_heard:
        assert first in commit(gated).stdout
    gated.git("reset", "--quiet", "--hard")
    gated.stage({"b.txt": "alpha\n2\n"})
    unrelated = commit(gated)
    assert f"{first} was closed, and shares no file with this. Give a message." in unrelated.stderr
    assert "Say what the change is for" in commit(gated).stderr
    reviewed(gated, "-m", "Letters")
    assert commit(gated).status == 0
    assert gated.message().startswith("Letters\n")


def test_a_message_for_the_editor_is_kept_without_the_words_of_git_in_it(gated: Gated) -> None:
    gated.stage(DIGITS)
    first = review_of(commit(gated, "-em", "Count", "-m", "In digits.", GIT_EDITOR="sleep 600 #"))
    assert gated.call("get_proposal", review_id=first)["description"] == "In digits."
    gated.decide(first)
    assert commit(gated).status == 0
    assert gated.message() == f"Count\n\nIn digits.\n\nTandem-Review: {first}"


@VARIATION
def test_the_message_of_an_amend_is_kept_and_no_editor_opens_without_a_terminal(gated: Gated) -> None:
    gated.approved_commit(DIGITS, "Two")
    gated.stage({"b.txt": "alpha\n2\n"})
    first = commit(gated, "--amend", "-m", "Three")
    gated.decide(review_of(first))
    assert commit(gated, *first.stderr.splitlines()[-1].split()[-1:]).status == 0
    assert gated.message() == f"Three\n\nTandem-Review: {review_of(first)}"
    # An editor would stay open: HEAD's message stays, also beside the message of another change that waits.
    gated.stage(DIGITS)
    commit(gated, "-m", "Four")
    for words in (("--amend",), ("--amend", "--no-edit")):
        gated.stage({"c.txt": " ".join(words)})
        gated.decide(review_of(commit(gated, *words)))
        assert commit(gated, *words, GIT_EDITOR="sleep 600 #").status == 0
        assert gated.message().startswith("Three\n")
    # The message of a named commit counts before the kept one.
    for words in (("-aCHEAD",), ("--reedit-message", "HEAD")):
        gated.stage({"c.txt": " ".join(words)})
        gated.decide(review_of(commit(gated, "--amend", "-m", "Five")))
        assert commit(gated, "--amend", *words).status == 0
        assert gated.message().startswith("Three\n")


def test_an_empty_message_is_none(gated: Gated) -> None:
    gated.stage(DIGITS)
    for words in (["-m", ""], ["-F", "-"]):
        refused = commit(gated, *words)
        assert (refused.status, "The message is empty" in refused.stderr, reviews(gated)) == (2, True, [])
    review = reviewed(gated, "-F", "-", "--allow-empty-message")
    assert commit(gated, "-m", "", "--allow-empty-message").status == 0
    assert gated.message() == f"Tandem-Review: {review}"


@pytest.mark.usefixtures("config_dir")
def test_who_says_their_name_meanwhile_goes_on_with_the_same_commit(gated: Gated) -> None:
    gated.write(DIGITS)
    gated.git("add", "a.txt")
    review = review_of(commit(gated, "-m", "Count"))
    said = Shell(gated.broker.url, gated.root).run("me", "alice", stdin=b"", **environment(gated))
    assert said.status == 0, said
    gated.decide(review)
    done = commit(gated)
    assert (done.status, gated.git("log", "-1", "--format=%s").strip()) == (0, "Count"), done


def test_a_commit_of_another_approved_change_leaves_the_open_review_as_it_is(gated: Gated) -> None:
    gated.stage({"b.txt": "alpha\n2\n"})
    review = review_of(commit(gated, "-m", "Letters"))
    gated.git("restore", "--staged", "b.txt")
    gated.write(DIGITS)
    gated.git("add", "a.txt")
    other = gated.approve()
    assert commit(gated, "-m", "Count").status == 0
    assert commit(gated, "--allow-empty", "-m", "Nothing").status == 0
    assert gated.trailers(revision="HEAD^") == [other]
    assert gated.call("get_review_status", review_id=other)["status"] == "closed"
    gated.git("add", "b.txt")
    waits = commit(gated)
    assert (waits.status, "Go on waiting with: tandem commit" in waits.stderr) == (NOT_YET, True), waits
    # No other command waits without committing.
    assert ("Wait: tandem commit. " in waits.unwrapped, "--wait" in waits.unwrapped) == (True, False)
    gated.decide(review)
    assert commit(gated).status == 0
    assert gated.message() == f"Letters\n\nTandem-Review: {review}"
    assert (reviews(gated), facts(gated)) == (["closed", "closed"], [])


def test_an_unrelated_commit_has_a_review_of_its_own_and_ends_no_approval(gated: Gated) -> None:
    gated.stage(DIGITS)
    review = reviewed(gated, "-m", "Count")
    gated.git("stash", "--quiet")
    gated.write({"b.txt": "alpha\n2\n"})
    other = commit(gated, "-am", "Hotfix")
    assert f"{review} shares no file with this, and stays as it is." in other.unwrapped
    assert "goes on by: tandem commit -m Count" in other.unwrapped
    gated.decide(review_of(other))
    assert commit(gated, "-a").status == 0
    assert gated.message() == f"Hotfix\n\nTandem-Review: {review_of(other)}"
    gated.git("stash", "pop", "--quiet", "--index")
    assert commit(gated, "-m", "Count").status == 0
    assert gated.message() == f"Count\n\nTandem-Review: {review}"
    assert (reviews(gated), facts(gated)) == (["closed", "closed"], [])


def test_a_policy_made_stricter_since_the_approval_is_said_and_opens_no_second_review(gated: Gated) -> None:
    gated.write(DIGITS)
    gated.git("add", "--all")
    review = reviewed(gated, "-m", "Count")
    gated.write({FILE: '[[rule]]\nname = "two"\nneeds = ["agent", "person"]\n'})
    gated.git("add", FILE)
    gated.git("-c", "core.hooksPath=/dev/null", "commit", "--quiet", "-m", "policy", "--", FILE)
    ended = commit(gated, "-m", "Count")
    assert ended.status == 10, ended
    assert "The policy asks for more since it was approved: a person's review (rule 'two': " in ended.stdout
    assert f"tandem submit --revise {review} --staged --wait" in ended.stdout
    assert reviews(gated) == ["approved"]


def test_ctrl_c_says_how_to_go_on_and_the_next_run_does(gated: Gated) -> None:
    gated.stage(DIGITS)
    process = start(gated, "-sm", "Count")
    assert process.stderr is not None
    review = next(line.decode().split()[0] for line in process.stderr if b" is up, round " in line)
    process.send_signal(signal.SIGINT)
    ended = finish(process)
    assert (ended.status, ended.stderr.splitlines()[-1]) == (130, "Interrupted. Go on with: tandem commit -s"), ended
    gated.decide(review)
    assert commit(gated, "-s").status == 0
    assert gated.trailers() == [review]
    assert gated.message().startswith("Count\n\nSigned-off-by: ")


def test_a_message_is_written_in_the_editor_before_the_review(gated: Gated, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "Count\\n\\n# a remark\\n" >"$1.new"; cat "$1" >>"$1.new"; mv "$1.new" "$1"\n')
    editor.chmod(0o755)
    gated.stage(DIGITS)
    person = {**without_agents(), **environment(gated), "TANDEM_BROKER": gated.broker.url, "GIT_EDITOR": str(editor)}
    with Terminal(["commit", "-v", "--timeout", "0"], gated.root, person) as terminal:
        assert terminal.wait() == NOT_YET, terminal.shown
    [review] = [one["review_id"] for one in facts(gated)]
    assert gated.call("get_proposal", review_id=str(review))["intent"] == "Count"
    gated.decide(str(review))
    assert commit(gated).status == 0
    assert gated.message() == f"Count\n\nTandem-Review: {review}"


@pytest.mark.parametrize("cleanup", ["whitespace", pytest.param("strip", marks=VARIATION)])
def test_of_a_message_git_tidies_up_what_it_is_told_to_and_the_trailer_is_added(gated: Gated, cleanup: str) -> None:
    twin = new_repository(gated.root.parent / "twin")
    told = "\nCount  \n\n\n# in digits\r\nand not in words  \n  \n"
    words = [f"--cleanup={cleanup}", "-m", told]
    for root in (gated.root, twin):
        gated.stage(DIGITS, root)
    gated.git("commit", "--quiet", *words, cwd=twin)
    review = reviewed(gated, *words)
    assert commit(gated, *words[:1]).status == 0
    made, wanted = (gated.git("cat-file", "commit", "HEAD", cwd=one).partition("\n\n")[2] for one in (gated.root, twin))
    assert made.replace(f"\n\nTandem-Review: {review}", "") == wanted != made


@pytest.mark.parametrize(
    ("options", "has_gate"), [([], False), pytest.param(["-v"], True, marks=VARIATION), (["-a"], True)]
)
def test_a_hook_sees_the_message_in_front_of_the_editor_as_under_git(
    shared_broker: BrokerProcess, plain: Path, tmp_path: Path, options: list[str], *, has_gate: bool
) -> None:
    hook = plain / ".git/hooks/prepare-commit-msg"
    hook.write_text(
        '#!/bin/sh\nshift; echo "$@." >>../ran; cd ..; git -C "$OLDPWD" add b.txt\n'
        '[ -n "$1" ] || sed -i "1s/^/TICKET-1: /" "$OLDPWD/.git/COMMIT_EDITMSG"\n'
    )
    hook.chmod(0o755)
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "1s/$/Count/" "$1"\n')
    editor.chmod(0o755)
    gated = gate_on(shared_broker, plain)
    if not has_gate:
        assert gated.person("gate", "off").status == 0
    gated.stage(DIGITS)
    gated.write({} if "-a" in options else {"b.txt": "more\n"})
    person = {**without_agents(), **environment(gated), "TANDEM_BROKER": gated.broker.url, "GIT_EDITOR": str(editor)}
    with Terminal(["commit", *options, "--timeout", "0"], gated.root, person) as terminal:
        assert terminal.wait() == NOT_YET, terminal.shown
    [review] = [str(one["review_id"]) for one in facts(gated)]
    assert gated.call("get_proposal", review_id=review)["intent"] == "TICKET-1: Count"
    gated.decide(review)
    assert commit(gated, *options).status == 0
    assert gated.message() == "TICKET-1: Count" + f"\n\nTandem-Review: {review}" * has_gate
    assert (plain.parent / "ran").read_text() == ".\n"
    assert gated.git("show", "--format=", "--name-only") == "a.txt"


def test_git_alone_may_make_the_commit_and_the_next_change_has_a_review_of_its_own(gated: Gated) -> None:
    gated.git("switch", "--quiet", "--create", "side")
    gated.stage(DIGITS)
    first = reviewed(gated, "-m", "Count")
    gated.git("commit", "--quiet", "-m", "Count")
    gated.stage({"b.txt": "alpha\n2\n"})
    second = reviewed(gated, "-m", "Count on")
    assert (second != first, sorted(reviews(gated))) == (True, ["approved", "closed"])
    assert commit(gated).status == 0
    assert gated.message() == f"Count on\n\nTandem-Review: {second}"


def test_a_client_that_switches_hooks_off_for_its_commands_passes_by_none(gated: Gated) -> None:
    off: dict[str, Any] = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.hooksPath",
        "GIT_CONFIG_VALUE_0": "/dev/null",
    }
    gated.stage(DIGITS)
    first = commit(gated, "-m", "Count", cwd=None, **off)
    assert first.status == NOT_YET
    gated.decide(review_of(first))
    assert commit(gated, "-m", "Count", cwd=None, **off).status == 0
    assert gated.trailers() == [review_of(first)]


def test_the_first_commit_of_a_repository_is_reviewed_like_any_other(gated: Gated, tmp_path: Path) -> None:
    root = tmp_path / "young"
    root.mkdir()
    gated.git("init", "--quiet", "--initial-branch=main", cwd=root)
    gated.stage({"a.txt": "one\n"}, root)
    young = Gated(gated.broker, root, "young")
    assert young.tandem("project", "add").status == 0
    reviewed(young, "-m", "Begin")
    assert commit(young).status == 0
    assert young.git("log", "--format=%s") == "Begin"


def test_an_envelope_says_what_was_done_and_what_to_do(gated: Gated) -> None:
    gated.stage(DIGITS)
    first = commit(gated, "-m", "Count", "--json")
    review = first.data["review_id"]
    assert (first.status, first.data) == (
        NOT_YET,
        {
            "done": ["submitted"],
            "review_id": review,
            "state": "pending",
            "commit": None,
            "next": ["Wait for it: tandem commit"],
            "exit_status": NOT_YET,
        },
    )
    gated.decide(review, "changes_requested")
    asked = commit(gated, "--json")
    assert (asked.status, asked.data["next"][0]) == (10, "Change it, git add, then: tandem commit")
    assert "answer each finding" in asked.data["next"][1]
    gated.stage({"a.txt": "one\ntwo, in words\nthree\n"})
    assert commit(gated, "--json").data["done"] == ["submitted"]
    gated.decide(review)
    done = commit(gated, "--json")
    assert (done.status, done.data["done"], done.data["commit"]) == (0, ["committed", "closed"], gated.head())
    nothing = commit(gated, "--json")
    assert (nothing.status, nothing.envelope["error"]["details"]) == (1, {"exit_status": 1})


def test_a_wait_ends_with_the_commit(gated: Gated) -> None:
    gated.stage(DIGITS)
    waiting = start(gated, "-m", "Count")
    with gated.caller() as caller:
        listed = caller.do("list_reviews", wait=True, timeout_s=40)["reviews"]
    gated.call("claim_review", review_id=listed[0]["review_id"], reviewer_id="rev-1")
    # When a verdict follows at once, the command does not mention the reviewer.
    assert waiting.stderr is not None
    assert next((line for line in waiting.stderr if b"rev-1 reviews it" in line), None) is not None
    gated.decide(listed[0]["review_id"])
    ended = finish(waiting)
    assert ended.status == 0, ended
    assert gated.trailers() == [listed[0]["review_id"]]


def test_of_two_that_wait_in_one_working_tree_the_one_that_submitted_last_commits(gated: Gated) -> None:
    gated.write(DIGITS)
    first = start(gated, "-am", "Count")
    assert first.stderr is not None
    review = next(line.decode().split()[0] for line in first.stderr if b" is up, round 1" in line)
    gated.write({"b.txt": "alpha\n2\n"})
    second = start(gated, "-am", "Count letters, too")
    assert second.stderr is not None
    assert next((line for line in second.stderr if f"{review} is up, round 2".encode() in line), None) is not None
    gated.decide(review)
    overtaken, done = finish(first), finish(second)
    assert (overtaken.status, f"has gone on with {review}" in overtaken.unwrapped) == (1, True), overtaken
    assert done.status == 0, done
    assert gated.message() == f"Count letters, too\n\nTandem-Review: {review}"


def test_what_is_staged_while_it_waits_is_neither_committed_nor_lost(gated: Gated) -> None:
    gated.stage(DIGITS)
    reviewed(gated, "-m", "Count")
    gated.stage({"b.txt": "alpha\n2\n"})
    again = commit(gated)
    assert again.status == NOT_YET
    assert gated.git("diff", "--cached", "--name-only").split() == ["a.txt", "b.txt"]
    gated.git("reset", "--quiet", "b.txt")
    assert (commit(gated).status, reviews(gated)) == (NOT_YET, ["pending"])


@VARIATION
def test_two_working_trees_and_two_agents_keep_their_reviews_apart(gated: Gated, tmp_path: Path) -> None:
    gated.git("switch", "--quiet", "--create", "side")
    other = tmp_path / "other"
    gated.git("worktree", "add", "--quiet", "--force", str(other), "side")
    found: list[str] = []
    for cwd, agent, text in ((gated.root, "ann", "2"), (gated.root, "bob", "II"), (other, "ann", "zwei")):
        gated.stage({"a.txt": f"one\n{text}\nthree\n"}, cwd)
        found.append(review_of(commit(gated, "-m", f"By {agent}", "--agent", agent, cwd=cwd)))
    assert len(set(found)) == 3
    gated.decide(found[0])
    gated.decide(found[2])
    assert commit(gated, "--agent", "ann", cwd=other).status == 0
    assert gated.trailers(cwd=other) == [found[2]]


def test_without_a_gate_it_reviews_in_a_registered_project_and_says_how_to_get_there_in_others(
    gated: Gated, tmp_path: Path
) -> None:
    assert gated.person("gate", "off").status == 0
    gated.stage(DIGITS)
    reviewed(gated, "-m", "Count")
    assert commit(gated).status == 0
    lonely = new_repository(tmp_path / "lonely")
    gated.stage(DIGITS, lonely)
    refused = commit(gated, "-m", "Count", cwd=lonely)
    assert (refused.status, "Register it with: tandem project add" in refused.stderr) == (1, True)
    gated.write({".planning/config.json": json.dumps({"workflow": {}})}, lonely)
    plain = commit(gated, "-m", "Count", cwd=lonely)
    assert (plain.status, "Committing as git does" in plain.stderr) == (0, True), plain


def test_without_a_broker_it_says_how_to_start_one(tmp_path: Path, config_dir: Path) -> None:
    root = new_repository(tmp_path / "lonely")
    (root / "a.txt").write_text("changed\n")
    ended: Ended = Shell("http://127.0.0.1:9", root).run("commit", "-a", "-m", "x", "--json")
    assert (ended.status, ended.envelope["ok"], config_dir.is_dir()) == (3, False, True)
    assert "broker" in ended.envelope["error"]["message"]


def test_hooks_run_once_each_in_gits_order_by_their_own_paths(gated: Gated) -> None:
    hooks = gated.root / ".git/hooks"
    for name in ("pre-commit", "commit-msg", "post-commit"):
        (hooks / "post-commit.d").mkdir(exist_ok=True)
        former = hooks / name
        if name == "post-commit":
            # The gate has one of its own there, which calls this one first.
            former = gated.root / ".git/tandem/chained/post-commit"
            former.parent.mkdir(exist_ok=True)
        former.write_text(
            f'#!/bin/sh\nls "${{0%/*}}" >/dev/null && echo "{name} $GIT_CONFIG_PARAMETERS" >>"$PWD/../ran"\n'
        )
        former.chmod(0o755)
    gated.stage(DIGITS)
    reviewed(gated, "-m", "Count")
    assert (gated.root.parent / "ran").read_text().split() == ["pre-commit"]
    (gated.root.parent / "ran").unlink()
    assert commit(gated, "-m", "Count").status == 0
    assert (gated.root.parent / "ran").read_text().split() == ["pre-commit", "commit-msg", "post-commit"]


def test_a_hook_that_fails_ends_it_with_its_words_and_gits_status(gated: Gated) -> None:
    hook = gated.root / ".git/hooks/pre-commit"
    hook.write_text("#!/bin/sh\necho 'line 3 is too long' >&2\nexit 7\n")
    hook.chmod(0o755)
    gated.stage(DIGITS)
    nobody: dict[str, Any] = {
        "GIT_AUTHOR_NAME": "Ann",
        "GIT_AUTHOR_EMAIL": "ann@example.org",
        "GIT_COMMITTER_NAME": "",
        "GIT_COMMITTER_EMAIL": "",
    }
    # The hook refuses first, also where git knows no committer.
    for more in ({}, nobody):
        ended = commit(gated, "-m", "Count", **more)
        assert (ended.status, ended.stderr.strip(), reviews(gated)) == (1, "line 3 is too long", [])
    hook.unlink()
    unknown = commit(gated, "-m", "Count", **nobody)
    assert (unknown.status, "Git does not know who commits here" in unknown.unwrapped) == (1, True), unknown
    hook = gated.root / ".git/hooks/commit-msg"
    hook.write_text("#!/bin/sh\ngrep -q '^feat: ' \"$1\" || { echo 'no type' >&2; exit 1; }\n")
    hook.chmod(0o755)
    review = reviewed(gated, "-m", "Count")
    refused = commit(gated)
    assert (refused.status, refused.stderr.strip(), reviews(gated)) == (1, "no type", ["approved"])
    assert commit(gated, "-m", "feat: count").status == 0
    assert gated.trailers() == [review]


def test_a_hook_that_changes_the_commit_afterwards_is_noticed(gated: Gated) -> None:
    assert gated.person("gate", "off").status == 0
    hook = gated.root / ".git/hooks/post-commit"
    hook.write_text(
        "#!/bin/sh\n[ -e .git/once ] || { touch .git/once; echo x >b.txt; git commit -qam more --amend; }\n"
    )
    hook.chmod(0o755)
    gated.stage(DIGITS)
    reviewed(gated, "-m", "Count")
    ended = commit(gated)
    assert (ended.status, "differs from the approved content" in ended.unwrapped) == (1, True)


@pytest.mark.parametrize(
    ("manager", "words"),
    [
        *(pytest.param(name, (), marks=VARIATION if name in ("husky", "lefthook") else []) for name in FORMATTERS),
        ("plain", ("-a",)),
        pytest.param("lint-staged", ("-a",), marks=VARIATION),
    ],
)
def test_a_formatter_in_a_hook_costs_one_review_one_approval_one_commit(
    shared_broker: BrokerProcess, plain: Path, manager: str, words: tuple[str, ...]
) -> None:
    FORMATTERS[manager](plain)
    gated = gate_on(shared_broker, plain)
    gated.write({"a.txt": "one  \n2\t\nthree\n"})
    if not words:
        gated.git("add", "a.txt")
        gated.write({"b.txt": "not staged  \n"})
    first = commit(gated, "-m", "Count", *words)
    if manager == "pre-commit":
        assert (first.status, "files were modified by this hook" in first.stdout + first.stderr) == (1, True), first
        gated.git("add", "a.txt")
        first = commit(gated, "-m", "Count", *words)
    assert first.status == NOT_YET, first
    assert "+2\n" in gated.call("get_proposal", review_id=review_of(first))["diff"]
    gated.decide(review_of(first))
    called(gated.root)
    done = commit(gated, *words)
    assert done.status == 0, done
    assert called(gated.root) == ["ran"]
    assert gated.git("show", "HEAD:a.txt") == "one\n2\nthree"
    assert (gated.trailers(), reviews(gated)) == ([review_of(first)], ["closed"])
    assert gated.git("diff", "--name-only").split() == ([] if words else ["b.txt"])
    assert gated.git("diff", "--cached", "--name-only") == ""


def test_a_change_over_limits_is_taken_after_the_step_that_the_refusal_names(
    own_gated: Gated, config_dir: Path
) -> None:
    def restarted(names: set[str], limit_bytes: int) -> None:
        own_gated.broker.stop()
        (config_dir / "config.toml").write_text("".join(f"{name} = {limit_bytes}\n" for name in names), "utf-8")
        own_gated.broker.start()

    restarted({"body_limit_bytes", "diff_limit_bytes"}, 20_000)
    own_gated.stage({"large.txt": "A line.\n" * 4_000})
    refused = commit(own_gated, "-m", "Large")
    assert "TOO_LARGE" in refused.refusal
    assert "and restart the broker" in refused.unwrapped
    restarted(set(re.findall(r"\w+_limit_bytes", refused.unwrapped)), 100_000)
    assert commit(own_gated, "-m", "Large").status == NOT_YET
