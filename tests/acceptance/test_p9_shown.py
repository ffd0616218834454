"""P9: reviewers see exactly the content that they approve, for any text that a client sent."""

from __future__ import annotations

import pytest

from tests.acceptance.databases import run_sql
from tests.acceptance.reviewing import OTHER, Desk, drawn, edited
from tests.acceptance.tables import table
from tests.broker import BrokerProcess, StartBroker, fresh_project
from tests.git.sandbox import Sandbox, new_file

MODULE = "".join(f"def filler_{number}(u):\n    return {number}\n\n\n" for number in range(14))
AUTH = "import os\n\n\ndef is_admin(u):\n    return u.root\n\n\n" + MODULE + "def debug_only(u):\n    return u.debug\n"
LYING = """\
diff --git a/auth.py b/auth.py
--- a/auth.py
+++ b/auth.py
@@ -56,2 +56,3 @@ def debug_only(u):
 def is_admin(u):
+    return True
     return u.root
"""


def shown(desk: Desk, review: str, **asked: object) -> str:
    """The diff as a reviewer reads it."""
    return desk.do("get_proposal", review_id=review, **asked)["diff"]


def test_p9_a_hunk_is_shown_where_it_changes_the_file_and_the_offset_is_said(shop: Desk, repo: Sandbox) -> None:
    repo.write("auth.py", AUTH)
    repo.commit()
    created = shop.put_up_whole(diff=LYING)
    note = "auth.py: hunk 1 is at line 4, where its lines are, not at line 56."
    assert created["notes"] == [note]
    proposal = shop.do("get_proposal", review_id=created["review_id"])
    assert (proposal["drawn"], proposal["notes"]) == (True, [note])
    assert "@@ -2,6 +2,7 @@ import os\n" in proposal["diff"]
    assert "debug_only" not in proposal["diff"]
    assert repo.exact_digest(proposal["diff"], "HEAD") == created["digest"]


def test_p9_lines_that_no_count_covers_are_refused_with_hunk_and_line(shop: Desk) -> None:
    diff = "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,3 @@\n line 1\n+one\n line 2\n+two\n"
    error = shop.call("create_review", intent="x", agent_type="x", diff=diff)["error"]
    assert error["code"] == "INVALID_DIFF"
    assert "hunk 1 (line 4 of the diff) says 2 lines before and 3 after, and 2 and 4 follow" in error["message"]


def test_p9_a_copy_is_shown_with_all_its_lines(shop: Desk, repo: Sandbox) -> None:
    repo.write("vendor/util.py", "".join(f"step({number})\n" for number in range(40)))
    hidden = repo.commit()
    repo.git("reset", "--quiet", "--hard", "HEAD~1")
    diff = (
        "diff --git a/vendor/util.py b/app.py\nsimilarity index 100%\ncopy from vendor/util.py\ncopy to app.py\n"
        "diff --git a/a.txt b/b2.txt\nsimilarity index 100%\nrename from a.txt\nrename to b2.txt\n"
    )
    created = shop.put_up_whole(diff=diff, base=hidden)
    files = {file["path"]: (file["operation"], file["added"], file["removed"]) for file in created["affected_files"]}
    assert files == {"app.py": ("added", 40, 0), "b2.txt": ("renamed", 0, 0)}
    assert "+step(39)\n" in shown(shop, created["review_id"])
    # Who asks for the renamed file alone gets both, with all their lines.
    part = shop.do("get_proposal", review_id=created["review_id"], files=["b2.txt"])["diff"]
    assert ("+line 10\n" in part, "-line 10\n" in part, "app.py" in part) == (True, True, False)


def test_p9_a_text_that_becomes_binary_elsewhere_is_deleted_as_a_file_of_its_own(shop: Desk, repo: Sandbox) -> None:
    body = "".join(f"line {number}\n" for number in range(100))
    repo.write("notes.txt", body)
    repo.commit()
    (repo.root / "notes.txt").unlink()
    repo.write("notes.bin", f"{body}\0")
    repo.git("add", "--all")
    files = shop.put_up_whole(diff=repo.diff("--cached", "--no-renames"))["affected_files"]
    assert [(one["path"], one["operation"], one["removed"]) for one in files] == [
        ("notes.bin", "added", None), ("notes.txt", "deleted", 100),
    ]  # fmt: skip


def test_p9_text_is_shown_as_text_however_it_was_sent(shop: Desk, repo: Sandbox) -> None:
    repo.write(".gitattributes", "*.py -diff\n")
    repo.commit()
    repo.write("job.py", "import os\n")
    repo.write("old.py", "# caf\xe9\n".encode("latin-1"))
    repo.write("logo.png", b"\x89PNG\0\1")
    repo.git("add", "--all")
    sent = repo.diff("--cached")
    assert "import os" not in sent
    diff = shown(shop, shop.put_up(diff=sent))
    assert "+import os\n" in diff
    # Only a binary patch has the exact bytes of a file that is not UTF-8; its lines follow for the reader.
    assert "# Not UTF-8. Its lines as Latin-1:\n# @@ -0,0 +1 @@\n# +# caf\xe9\n" in diff
    assert repo.exact_digest(diff, "HEAD") == repo.index_digest("HEAD")


def test_p9_a_diff_without_prefixes_changes_the_files_that_it_names(shop: Desk, repo: Sandbox) -> None:
    for name in ("README.md", "docs/README.md"):
        repo.write(name, "one\ntwo\n")
    repo.commit()
    hunk = "@@ -1,2 +1,2 @@\n-one\n+three\n two\n"
    for diff in (
        f"--- docs/README.md\n+++ docs/README.md\n{hunk}",
        f"diff --git docs/README.md docs/README.md\n--- docs/README.md\n+++ docs/README.md\n{hunk}",
        f"--- a/docs/README.md\n+++ b/docs/README.md\n{hunk}",
    ):
        assert [one["path"] for one in shop.put_up_whole(diff=diff)["affected_files"]] == ["docs/README.md"]
    for diff in (
        f"--- docs/README.md.orig\n+++ docs/README.md\n{hunk}",
        f"--- docs/README.md\n+++ docs/README.md\n{hunk}" + edited(),
    ):
        shop.refused("INVALID_DIFF", "create_review", intent="x", agent_type="x", diff=diff)


def test_a_line_that_looks_like_a_header_is_none(shop: Desk, repo: Sandbox) -> None:
    repo.write("a.sql", "-- one\r\n-- two\r\n++ x\r\nselect 1\r\n")
    repo.commit()
    repo.write("a.sql", "select 1\r\n++ y\r\n")
    created = shop.put_up_whole(diff=repo.diff())
    repo.git("add", "--all")
    assert created["digest"] == repo.index_digest("HEAD")


REFUSED: dict[str, dict[str, str]] = table("refused_diffs")


def test_texts_around_the_files_of_a_diff_are_passed_over(shop: Desk) -> None:
    odd = "Only in it: x\nBinary files a and b differ\ndiff --cc x\n"
    mail = (
        f"From 1234567 Mon Sep 17 00:00:00 2001\nSubject: x\n\n{odd}- a list\n+ a list\n @ a list\n---\n a | 2 +-\n\n"
    )
    log = "commit 1234567\nAuthor: x\n\n    - a list\n\n"
    diffs = [f"{mail}{edited()}-- \n2.39.5\n\n{mail}{new_file('n.txt')}-- \n2.39.5\n\n"]
    diffs += [f"{log}{edited()}\n{log}{new_file('n.txt')}", f"```diff\n{edited()}{new_file('n.txt')}```\n"]
    assert len({shop.put_up_whole(diff=diff)["digest"] for diff in diffs}) == 1


def test_a_refused_diff_is_told_what_is_wrong_with_it(shop: Desk, repo: Sandbox) -> None:
    repo.write("dos.txt", "line 1\r\nline 2\r\nline 3\r\n")
    repo.write("twice.txt", "x\nno\ny\nno\n")
    repo.commit()
    for what, row in REFUSED.items():
        error = shop.call("create_review", intent="x", agent_type="x", diff=row["diff"])["error"]
        assert error["code"] == "INVALID_DIFF", what
        assert row["says"] in error["message"], what
        assert "git diff" in error["message"], what
        assert "allow" not in error["message"], what


def test_p9_counter_patches_and_interdiffs_are_drawn_too(shop: Desk, repo: Sandbox) -> None:
    repo.write("auth.py", AUTH)
    repo.commit()
    review = shop.put_up(diff=edited())
    generation = shop.claim(review)
    given = shop.verdict(review, "changes_requested", generation, counter_patch=LYING)
    assert given["notes"] == ["auth.py: hunk 1 is at line 4, where its lines are, not at line 56."]
    patch = shop.do("get_proposal", review_id=review)["counter_patch"]
    assert "@@ -2,6 +2,7 @@ import os\n" in patch["diff"]
    shop.accept(review, patch["id"])
    assert shown(shop, review) == patch["diff"]
    assert shown(shop, review, round=1) == drawn()
    since = shop.do("get_proposal", review_id=review, since_round=1)["interdiff"]
    assert "@@ -2,6 +2,7 @@ import os\n" in since
    page = shop.claim(review, OTHER)
    shop.verdict(review, "approved", page)


def test_p9_a_round_that_an_earlier_version_kept_is_marked_as_not_drawn(
    start_broker: StartBroker, repo: Sandbox
) -> None:
    repo.write("auth.py", AUTH)
    repo.commit()
    broker: BrokerProcess = start_broker()
    with Desk(broker.url, fresh_project()) as desk:
        desk.register(repo.root)
        review = desk.put_up(diff=LYING)
        text = LYING.replace("'", "''")
        run_sql(
            broker,
            {},
            f"INSERT INTO contents (id, body) VALUES ('earlier', '{text}')",
            f"UPDATE rounds SET diff_id = 'earlier', notes = NULL WHERE review_id = '{review}'",
        )
        proposal = desk.do("get_proposal", review_id=review)
        assert (proposal["diff"], proposal["drawn"]) == (LYING, False)


def test_p9_only_the_base_branch_says_which_files_nobody_has_to_read(shop: Desk, repo: Sandbox) -> None:
    repo.write(".gitattributes", "*.lock linguist-generated\n/vendor/** -diff\n")
    repo.write("vendor/a.c", "".join(f"a{number}\n" for number in range(50)))
    repo.write("b.c", "".join(f"b{number}\n" for number in range(50)))
    tip = repo.commit()
    shop.do("set_gate", enabled=True, branches=["main"])

    def unread(base: str, attributes: str) -> set[str]:
        repo.git("checkout", "--quiet", "--detach", base)
        for name in ("app.min.js", "deps.lock", "vendor/lib.c", "app.py"):
            repo.write(name, "x\n")
        repo.write(".gitattributes", attributes)
        repo.git("add", "--all")
        diff = repo.diff("--cached")
        repo.git("reset", "--quiet", "--hard")
        created = shop.put_up_whole(diff=diff, base=base)
        return {one["path"] for one in created["affected_files"] if one["generated"]}

    assert unread(tip, "* linguist-generated\n") == {"deps.lock", "vendor/lib.c"}
    repo.git("checkout", "--quiet", "--detach", tip)
    # Of a renamed file both have to be of that kind.
    repo.git("mv", "vendor/a.c", "vendor/c.c")
    repo.git("mv", "b.c", "vendor/b.c")
    moved = shop.put_up_whole(diff=repo.diff("--cached"), base=tip)["affected_files"]
    assert [(one["path"], one["generated"]) for one in moved] == [("vendor/b.c", False), ("vendor/c.c", True)]
    repo.git("reset", "--quiet", "--hard")
    repo.write(".gitattributes", "* linguist-generated\n")
    own = repo.commit("a base of the proposer's own")
    assert unread(own, "* linguist-generated -diff\n") == {"deps.lock", "vendor/lib.c"}


@pytest.mark.parametrize("line", ["File x" + " is a" * 700_000, "Submodule x" + " aaaa.." * 500_000])
def test_p12_a_long_line_that_nearly_names_a_file_is_read_once(shop: Desk, line: str) -> None:
    """In the square of its length it would take hours, in which no other thread runs."""
    error = shop.call("create_review", intent="x", agent_type="x", diff=f"{edited()}{line}\n")["error"]
    assert (error["code"], "is in no hunk" in error["message"]) == ("INVALID_DIFF", True)


def test_p12_a_file_with_too_many_hunks_is_refused_before_git_is_asked(shop: Desk) -> None:
    hunks = "".join(f"@@ -{at},3 +{at},3 @@\n line\n-line\n+row\n line\n" for at in range(1, 40_004, 4))
    diff = f"diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n{hunks}"
    details = shop.refused("TOO_LARGE", "create_review", intent="x", agent_type="x", diff=diff)
    assert (details["limit"], details["actual"]) == (10_000, 10_001)
