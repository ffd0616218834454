"""The trailers that the gate writes into a commit's message, and the text that it leaves alone."""

from __future__ import annotations

import re
import shlex
import sys

import pytest

from tests.commandline import Ended
from tests.modes import VARIATION
from tests.repository.gating import DIGITS, Gated


@pytest.fixture
def review(gated: Gated) -> str:
    """An approved change that is staged."""
    gated.stage(DIGITS)
    return gated.approve()


MESSAGES = {
    "Subject": "Subject\n\n",
    "Subject\n\nBody: with words after a colon\nand more.": "Subject\n\nBody: with words after a colon\nand more.\n\n",
    "Subject\n\nSigned-off-by: A <a@b.c>": "Subject\n\nSigned-off-by: A <a@b.c>\n",
    "fix: a subject like a trailer": "fix: a subject like a trailer\n\n",
    "Subject\n\nTandem-Depends-On: rv_1,\n rv_2\n": "Subject\n\nTandem-Depends-On: rv_1,\n rv_2\n",
    "Ünïcode – 审查\n\n# no comment": "Ünïcode – 审查\n\n# no comment\n\n",
    "Subject\n\nTandem-Review: REVIEW\nAcked-by: B <b@b.c>": "Subject\n\nAcked-by: B <b@b.c>\n",
    "Subject\n\nTandem-Review: rv_invented\ntandem-review: unreviewed": "Subject\n\n",
}
"""Messages, and the text in front of the trailer then: it is not doubled, and one of another review is replaced."""


@VARIATION
def test_the_trailer_stands_with_the_others_or_by_itself(gated: Gated, review: str):
    for message, before in MESSAGES.items():
        gated.git("commit", "--cleanup=whitespace", "-m", message.replace("REVIEW", review))
        assert gated.message() == f"{before}Tandem-Review: {review}"
        assert gated.trailers() == [review]
        gated.git("reset", "--quiet", "--soft", "HEAD^")


def test_what_an_editor_shows_keeps_its_comments_and_its_diff(
    gated: Gated, review: str, tmp_path_factory: pytest.TempPathFactory
):
    shown = tmp_path_factory.mktemp("editor") / "shown.txt"
    editor = shown.with_name("editor.py")
    editor.write_text(
        "import pathlib, sys\n"
        "file = pathlib.Path(sys.argv[1])\n"
        f"pathlib.Path({str(shown)!r}).write_bytes(file.read_bytes())\n"
        "file.write_text('Typed by hand\\n' + file.read_text('utf-8'), 'utf-8')\n",
        "utf-8",
    )
    gated.git("commit", "--verbose", GIT_EDITOR=shlex.join([sys.executable, str(editor)]))
    assert gated.message() == f"Typed by hand\n\nTandem-Review: {review}"
    seen = shown.read_text("utf-8")
    assert "# Please enter the commit message" in seen
    assert seen.index("Tandem-Review") < seen.index("# ---") < seen.index("diff --git")


def test_a_squash_names_what_it_holds_now(gated: Gated):
    gated.git("switch", "--quiet", "--create", "feature")
    gated.approved_commit(DIGITS)
    gated.approved_commit({"b.txt": "alpha\n"})
    gated.git("switch", "--quiet", "main")
    gated.git("merge", "--squash", "feature")
    gated.git("commit", "--no-edit")
    assert len(gated.trailers()) == len(set(gated.trailers())) == 2
    assert gated.message().startswith("Squashed commit")


def test_a_refused_commit_leaves_its_message_to_be_used_again(gated: Gated):
    gated.stage({"a.txt": "not approved\n"})
    gated.refused("commit", "-m", "A long message")
    assert (gated.root / ".git/COMMIT_EDITMSG").read_text("utf-8") == "A long message\n"


@pytest.mark.parametrize(
    ("verdict", "said", "step"),
    [
        (None, "and no verdict yet", "Wait for it: tandem review status {} --wait"),
        (
            "changes_requested",
            "wants exactly this changed: 'Because.'",
            "Change it, git add, then: tandem submit --revise {} --staged --wait",
        ),
        (
            "rejected",
            "rejected exactly this: 'Because.'",
            "Do it differently, git add, then: tandem submit --parent {} --staged --wait -m 'why'",
        ),
    ],
)
def test_a_refusal_names_the_command_for_the_review_of_these_bytes(
    gated: Gated, verdict: str | None, said: str, step: str
):
    gated.stage(DIGITS)
    review = gated.put_up()
    if verdict is not None:
        gated.decide(review, verdict)
    words = gated.refused("commit", "-m", "Digits")
    assert review in words
    assert said in words
    assert step.format(review) in words
    assert "tandem commit" not in words
    if verdict == "rejected":
        gated.call("close_review", review_id=review)
        assert step.format(review) in gated.refused("commit", "-m", "Digits")


@pytest.mark.parametrize("path", [pytest.param("a.txt", marks=VARIATION), "new.txt"])
def test_a_refusal_of_other_content_than_was_approved_says_which_and_how_to_commit_that(gated: Gated, path: str):
    gated.stage({path: "one\n  2\nthree\n"})
    review = gated.approve()
    gated.stage({path: "one\n2 (formatted)\nthree\n"})
    words = gated.refused("commit", "-m", "Digits")
    [command] = re.findall(
        rf"{path}: .*{review} approved other content for it.*: tandem (apply {review} --index)", words
    )
    assert put_away_and_applied(gated, command).status == 0
    gated.git("commit", "-m", "Digits")
    assert gated.trailers() == [review]


def put_away_and_applied(gated: Gated, command: str) -> Ended:
    """The end of a refused `tandem apply` after its remedy."""
    refused = gated.tandem(*command.split())
    [put_away] = re.findall(r"Put it away: git (.*)", refused.stderr)
    gated.git(*shlex.split(put_away))
    [again] = re.findall("Then again: tandem (.*)", refused.stderr)
    return gated.tandem(*again.split())


def test_apply_says_how_a_change_that_is_only_staged_is_put_away_and_brought_back(gated: Gated):
    lines = [f"{number}\n" for number in range(20)]
    gated.approved_commit({"a.txt": "".join(lines), "b.txt": "two\n"})
    gated.stage({"a.txt": "first\n" + "".join(lines)})
    review = gated.approve()
    gated.stage({"a.txt": "".join(lines) + "staged\n"})
    staged = gated.git("diff", "--cached", "--unified=0").splitlines()[-1]
    gated.write({"a.txt": "".join(lines), "b.txt": "not staged\n"})
    refused = gated.tandem("apply", review, "--index")
    [bring_back] = re.findall("bring it back: git (.*)", refused.stderr)
    assert put_away_and_applied(gated, f"apply {review} --index").status == 0
    gated.git("commit", "-m", "Begin")
    gated.git(*bring_back.split())
    assert gated.git("diff", "--cached", "--unified=0").splitlines()[-1] == staged == "+staged"
    assert gated.git("status", "--porcelain").splitlines() == ["MM a.txt", " M b.txt"]
    assert gated.git("stash", "list") == ""


@pytest.mark.parametrize(("path", "local"), [("mine.conf", "mine.conf"), ("build/a.txt", "build")])
def test_apply_says_how_an_ignored_file_is_put_away_and_the_approved_one_is_staged(gated: Gated, path: str, local: str):
    gated.approved_commit({".gitignore": "*.conf\nbuild\n"}, "Ignore")
    gated.write({path: "approved\n"})
    gated.git("add", "--force", "--", path)
    review = gated.approve()
    gated.git("rm", "--quiet", "--force", "--", path)
    gated.write({local: "mine\n"})
    applied = put_away_and_applied(gated, f"apply {review}")
    assert (applied.status, (gated.root / path).read_text("utf-8")) == (0, "approved\n"), applied
    assert gated.git("show", f"stash@{{0}}^3:{local}") == "mine"
    [stage] = re.findall(f"leaves them out: {path}. Stage the change with: tandem (.*)", applied.stdout)
    assert gated.tandem(*stage.split()).status == 0
    gated.git("commit", "-m", "Add it")
    assert gated.trailers() == [review]
