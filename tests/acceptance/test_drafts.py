"""Counter-patches made from edits, and judged without being sent: what a verdict with them then is told."""

from __future__ import annotations

import json
from typing import Any

from tests.acceptance.gated import Team
from tests.acceptance.reviewing import REVIEWER, WHY, Desk, edited
from tests.acceptance.tables import table
from tests.broker import fresh_project
from tests.git.sandbox import Sandbox, edit, new_file

OUTSIDE: list[str] = table("paths")["outside"]
pytest_plugins = ["tests.acceptance.gated_brokers"]


def edits(*sent: tuple[str, str | None]) -> list[dict[str, Any]]:
    """Edits as they are sent."""
    return [{"path": path, "content": content} for path, content in sent]


def draft(desk: Desk, review: str, *sent: tuple[str, str | None]) -> dict[str, Any]:
    """A draft that would be taken."""
    with desk.unchanged(review):
        made = desk.do("draft_counter_patch", review_id=review, edits=edits(*sent))
    assert (made["applies"], made["problem"]) == (True, None)
    return made


def offered(desk: Desk, review: str, patch: str) -> dict[str, Any]:
    """The counter-patch as it is pending after a verdict that carries it."""
    desk.decide(review, "changes_requested", counter_patch=patch)
    return desk.do("get_proposal", review_id=review)["counter_patch"]


def applied(repo: Sandbox, patch: str) -> None:
    """Have git itself put a diff into the working tree."""
    repo.git("apply", "--whitespace=nowarn", stdin=patch.encode())


def test_a_draft_is_the_rounds_change_with_the_edits(shop: Desk, repo: Sandbox):
    review = shop.put_up(diff=edited())
    made = draft(shop, review, ("b.txt", "one\ntwo\n"), ("sub/new file.txt", "ünï\n"), ("run.sh", "#!/bin/sh\n"))
    assert [file["path"] for file in made["affected_files"]] == ["a.txt", "b.txt", "run.sh", "sub/new file.txt"]
    assert [file["operation"] for file in made["affected_files"]] == ["modified", "modified", "modified", "added"]
    applied(repo, made["counter_patch"])
    assert repo.read("a.txt").decode().splitlines()[1] == "better"
    assert repo.read("b.txt") == b"one\ntwo\n"
    assert repo.read("sub/new file.txt") == "ünï\n".encode()
    # An edit keeps the file's mode.
    assert (repo.root / "run.sh").stat().st_mode & 0o111
    repo.git("add", "--all")
    assert made["digest"] == repo.index_digest("HEAD")
    pending = offered(shop, review, made["counter_patch"])
    assert {name: pending[name] for name in ("diff", "digest", "affected_files", "round")} == {
        "diff": made["counter_patch"],
        "digest": made["digest"],
        "affected_files": made["affected_files"],
        "round": made["round"],
    }
    accepted = shop.do("accept_counter_patch", review_id=review, counter_patch_id=pending["id"])
    assert accepted["digest"] == made["digest"]


def test_edits_of_what_the_round_itself_changed(shop: Desk, repo: Sandbox):
    long = "".join(f"here is line {number}\n" for number in range(30))
    repo.write("moved.txt", long)
    repo.write("picture.bin", bytes(range(256)))
    repo.commit()
    (repo.root / "moved.txt").rename(repo.root / "there.txt")
    repo.write("picture.bin", bytes(range(255, -1, -1)))
    repo.write("new.txt", "new\n")
    (repo.root / "b.txt").unlink()
    repo.git("add", "--all")
    review = shop.put_up(diff=repo.diff("--cached", "--find-renames"))
    repo.git("reset", "--quiet", "--hard")
    made = draft(
        shop,
        review,
        ("there.txt", long.replace("line 7\n", "line seven\n")),
        ("new.txt", None),
        ("b.txt", "it stays, shorter\n"),
        ("a.txt", None),
    )
    assert {(file["path"], file["operation"], file["old_path"]) for file in made["affected_files"]} == {
        ("a.txt", "deleted", None),
        ("b.txt", "modified", None),
        ("picture.bin", "modified", None),
        ("there.txt", "renamed", "moved.txt"),
    }
    applied(repo, made["counter_patch"])
    assert repo.read("there.txt").decode() == long.replace("line 7\n", "line seven\n")
    assert repo.read("picture.bin") == bytes(range(255, -1, -1))
    assert repo.read("b.txt") == b"it stays, shorter\n"
    assert not {"a.txt", "new.txt", "moved.txt"} & {path.name for path in repo.root.iterdir()}


TEXTS = (
    "one\r\ntwo\r\n",
    "no end",
    "",
    "\n\n",
    "old mac\rline\r",
    "a\u2028b\x0c\u202e\x1b[31m\n",
    "+++ b/x\n@@ -1 +1 @@\n",
)


def test_every_text_arrives_byte_for_byte(shop: Desk, repo: Sandbox):
    repo.write("crlf.txt", "one\r\nold\r\n")
    repo.commit()
    review = shop.put_up(diff=edited())
    for text in TEXTS:
        made = draft(shop, review, ("crlf.txt", text), ("fresh.txt", text))
        applied(repo, made["counter_patch"])
        assert repo.read("crlf.txt") == repo.read("fresh.txt") == text.encode()
        shown = shop.do("get_round_file", review_id=shop.put_up(diff=made["counter_patch"]), path="fresh.txt")
        assert "\n".join(shown["lines"]) + "\n" * shown["ends_with_newline"] == text
        repo.git("reset", "--quiet", "--hard")
        repo.git("clean", "--quiet", "--force")


def test_the_branch_may_have_moved(shop: Desk, repo: Sandbox):
    review = shop.put_up(diff=edited())
    repo.write("a.txt", "nothing is as it was\n")
    repo.commit()
    repo.write("a.txt", "and not committed\n")
    made = draft(shop, review, ("b.txt", "x\n"))
    assert "+better" in made["counter_patch"]
    assert offered(shop, review, made["counter_patch"])["digest"] == made["digest"]
    assert repo.read("a.txt") == b"and not committed\n"


def test_nothing_left_is_said(shop: Desk, repo: Sandbox):
    review = shop.put_up(diff=edited())
    made = shop.do("draft_counter_patch", review_id=review, edits=edits(("a.txt", repo.read("a.txt").decode())))
    assert (made["counter_patch"], made["applies"], made["digest"], made["affected_files"]) == ("", False, None, [])
    assert "nothing is left" in made["problem"]


# ------------------------------------------------------------------------------------------------- refused


def test_no_edit_leads_out_of_the_repository(shop: Desk):
    review = shop.put_up(diff=edited())
    with shop.unchanged(review):
        for path in (*OUTSIDE, "x" * 5000):
            shop.refused("INVALID_INPUT", "draft_counter_patch", review_id=review, edits=edits((path, "x\n")))


def test_what_cannot_be_edited_as_text_is_refused(shop: Desk, repo: Sandbox):
    (repo.root / "link").symlink_to("/etc/passwd")
    repo.write("nul.bin", b"a\0b")
    repo.write("latin.txt", "größer".encode("latin-1"))
    repo.commit()
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{repo.head()},module")
    repo.git("commit", "--quiet", "--no-verify", "-m", "a module")
    review = shop.put_up(diff=edited())
    refused = [("link", "x"), ("link", None), ("module", "x"), ("nul.bin", "x"), ("latin.txt", "x"), ("none.txt", None)]
    for path, text in refused:
        details = shop.refused("INVALID_INPUT", "draft_counter_patch", review_id=review, edits=edits((path, text)))
        assert (details["field"], details["path"]) == ("edits", path)
    # A file that is deleted need not be text.
    assert len(draft(shop, review, ("nul.bin", None), ("latin.txt", None))["affected_files"]) == 3


def test_edits_have_to_go_with_the_round_and_with_each_other(shop: Desk):
    diff = shop.put_up(diff=edited())
    text = shop.put_up(path="plan.md", description="# Plan\n")
    sent = edits(("b.txt", "x\n"))
    wrong: list[dict[str, Any]] = [
        {"review_id": diff},
        {"review_id": diff, "text": "x", "edits": sent},
        {"review_id": diff, "edits": []},
        {"review_id": diff, "edits": [*sent, *sent]},
        {"review_id": diff, "edits": edits(("new", "x\n"), ("new/file", "x\n"))},
        {"review_id": diff, "edits": [{"path": "b.txt"}]},
        {"review_id": text, "edits": sent},
        {"review_id": text},
    ]
    for arguments in wrong:
        shop.refused("INVALID_INPUT", "draft_counter_patch", **arguments)
    skipped = shop.put_up(diff=edited(), skip_diff_validation=True)
    shop.refused("NOT_FOUND", "draft_counter_patch", review_id=skipped, edits=sent)
    shop.refused("NOT_FOUND", "draft_counter_patch", review_id="rv_nothing", edits=sent)
    shop.refused("NOT_FOUND", "draft_counter_patch", review_id=diff, edits=sent, project=fresh_project())


def test_a_round_that_is_over_is_refused(shop: Desk):
    review = shop.put_up(diff=edited())
    shop.revise(review, diff=edited(text="best"))
    details = shop.refused(
        "STALE_ROUND", "draft_counter_patch", review_id=review, round=1, edits=edits(("b.txt", "x\n"))
    )
    assert (details["expected"], details["actual"]) == (2, 1)
    shop.refused("STALE_ROUND", "draft_counter_patch", review_id=review, round=1, text=edited())
    made = shop.do("draft_counter_patch", review_id=review, round=2, edits=edits(("b.txt", "x\n")))
    assert (made["round"], "+best" in made["counter_patch"]) == (2, True)


# ------------------------------------------------------------------------------ the same as a verdict is told

BODIES = {
    "whole": edited(text="best"),
    "another file": edited("b.txt"),
    "without its last newline": edited(end=""),
    "no diff": "not a diff at all",
    "blank": " \n",
    "other lines": edit("a.txt", "line nine", "x"),
    "out of the repository": new_file("../x"),
    "into git's folder": new_file(".git/hooks/pre-commit"),
    "a link": new_file("link", "/etc/passwd", mode="120000"),
    "below a file": new_file("a.txt/x"),
    "twice": edited() + edited(line=8),
}


def test_a_check_says_what_a_verdict_is_told(shop: Desk):
    review = shop.put_up_claimed(diff=edited())
    for name, body in BODIES.items():
        with shop.unchanged(review):
            checked = shop.do("draft_counter_patch", review_id=review, text=body)
        sent = {"review_id": review, "verdict": "comment", "reason": WHY, "reviewer_id": REVIEWER}
        told = shop.call("submit_verdict", **sent, counter_patch=body)
        assert checked["applies"] is told["ok"], name
        if told["ok"]:
            pending = shop.do("get_proposal", review_id=review)["counter_patch"]
            assert (checked["digest"], checked["affected_files"]) == (pending["digest"], pending["affected_files"])
            assert checked["problem"] is None
            assert checked["interdiff"] == pending["interdiff"]
            assert ("+best" in pending["interdiff"]) is (name == "whole")
        else:
            assert told["error"]["code"] == "INVALID_DIFF"
            assert (checked["digest"], checked["affected_files"]) == (None, [])
            assert checked["problem"] == told["error"]["message"]


def test_a_draft_that_git_does_not_take_is_a_draft_all_the_same(shop: Desk):
    review = shop.put_up(diff=edited())
    made = shop.do("draft_counter_patch", review_id=review, edits=edits(("b.txt/below.txt", "x\n")))
    assert (made["applies"], made["digest"]) == (False, None)
    assert "b.txt" in made["problem"]
    assert "+++ b/b.txt/below.txt" in made["counter_patch"]
    again = shop.do("draft_counter_patch", review_id=review, text=made["counter_patch"])
    assert again["problem"] == made["problem"]


def test_texts(shop: Desk, repo: Sandbox):
    review = shop.put_up(path="plan.md", description="# Plan\n")
    text = "# A better plan\r\n"
    made = shop.do("draft_counter_patch", review_id=review, text=text)
    blob = repo.git("hash-object", "--stdin", "--no-filters", stdin=text.encode()).strip()
    assert (made["counter_patch"], made["digest"], made["applies"]) == (text, f"{blob}:plan.md", True)
    assert offered(shop, review, made["counter_patch"])["digest"] == made["digest"]
    # HEAD may have a folder there by now.
    repo.write("plan.md/x", "x\n")
    repo.commit()
    late = shop.do("draft_counter_patch", review_id=review, text=text)
    assert (late["applies"], "folder" in late["problem"]) == (False, True)


def test_a_label_project_knows_no_files_but_checks(desk: Desk):
    review = desk.put_up(diff=edited())
    desk.refused("NOT_FOUND", "draft_counter_patch", review_id=review, edits=edits(("a.txt", "x\n")))
    checked = desk.do("draft_counter_patch", review_id=review, text=edited("b.txt"))
    assert (checked["applies"], checked["digest"], checked["interdiff"]) == (True, None, None)
    assert [file["path"] for file in checked["affected_files"]] == ["b.txt"]
    assert not desk.do("draft_counter_patch", review_id=review, text="nonsense")["applies"]
    text = desk.put_up(description="Words.")
    made = desk.do("draft_counter_patch", review_id=text, text="Better words.")
    assert (made["applies"], made["counter_patch"]) == (True, "Better words.")


def test_sizes_are_those_of_a_verdict(desk: Desk, shop: Desk):
    text = desk.put_up(description="Words.")
    desk.refused("TOO_LARGE", "draft_counter_patch", review_id=text, text="x" * 256_001)
    review = shop.put_up(diff=edited())
    large = edits(("large.txt", "0123456\n" * 700_000))
    details = shop.refused("TOO_LARGE", "draft_counter_patch", review_id=review, edits=large)
    assert details["limit"] == 5_000_000


def test_a_handoff_takes_nothing_but_a_payload(writers: Team):
    writers.begin()
    sent = writers.handing("writer", "editor")
    review = writers.do("handoff_write", **sent)["review_id"]
    for body in ("not JSON", "{}", json.dumps({**sent["payload"], "producer": "editor"})):
        checked = writers.do("draft_counter_patch", review_id=review, text=body)
        assert not checked["applies"]
        writers.claim(review)
        refused = {"review_id": review, "verdict": "comment", "reason": WHY, "reviewer_id": REVIEWER}
        envelope = writers.call("submit_verdict", **refused, counter_patch=body)
        assert (envelope["error"]["code"], envelope["error"]["message"]) == ("SCHEMA_INVALID", checked["problem"])
    better = json.dumps({**sent["payload"], "notes": ["better"]})
    assert writers.do("draft_counter_patch", review_id=review, text=better)["applies"]
