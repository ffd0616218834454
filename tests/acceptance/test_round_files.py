"""Files before and after a round: from the repository at the round's base, in any state of the working tree."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.acceptance.reviewing import Desk, edited
from tests.acceptance.tables import table
from tests.broker import fresh_project
from tests.git.sandbox import Sandbox

TEN = [f"line {number}" for number in range(1, 11)]


def of(desk: Desk, review: str, path: str, **more: Any) -> dict[str, Any]:
    """The file's answer."""
    return desk.do("get_round_file", review_id=review, path=path, **more)


def content(desk: Desk, review: str, path: str, **more: Any) -> str | None:
    """The file's whole content, put together as its lines say; None if it is not there."""
    shown = of(desk, review, path, **more)
    assert not shown["binary"]
    assert shown["total_lines"] == len(shown["lines"])
    if not shown["exists"]:
        assert not shown["lines"]
        return None
    return "\n".join(shown["lines"]) + ("\n" if shown["ends_with_newline"] else "")


def both(desk: Desk, review: str, path: str) -> tuple[str | None, str | None]:
    """Before and after."""
    return content(desk, review, path, side="before"), content(desk, review, path)


def change(repo: Sandbox) -> str:
    """The diff of the working tree against HEAD, to which the tree is reset."""
    repo.git("add", "--all")
    diff = repo.diff("--cached", "--find-renames", "HEAD")
    repo.git("reset", "--quiet", "--hard")
    return diff


def test_both_sides_of_a_change(shop: Desk, repo: Sandbox):
    review = shop.put_up(diff=edited())
    after = of(shop, review, "a.txt")
    assert after == {
        "review_id": review,
        "round": 1,
        "path": "a.txt",
        "side": "after",
        "exists": True,
        "binary": False,
        "lines": ["line 1", "better", *TEN[2:]],
        "first_line": 1,
        "total_lines": 10,
        "ends_with_newline": True,
        "size_bytes": 71,
        "sha256": "8b5576de907460a7438a183d849c7a5e75f2e4e664fffe28dbf36ef04f79a71e",
        "base64": None,
    }
    before = of(shop, review, "a.txt", side="before")
    assert (before["lines"], before["side"]) == (TEN, "before")
    # Untouched files are the same on both sides; missing ones are on neither.
    assert of(shop, review, "b.txt")["lines"] == of(shop, review, "b.txt", side="before")["lines"] == TEN
    assert both(shop, review, "nowhere/c.txt") == (None, None)
    # Neither the working tree nor where the branch is by now has a say.
    repo.write("a.txt", "something else\n")
    repo.commit()
    repo.write("a.txt", "still something else\n")
    assert of(shop, review, "a.txt") == after
    assert of(shop, review, "a.txt", side="before") == before


def test_some_lines_and_at_most_two_thousand(shop: Desk, repo: Sandbox):
    repo.write("long.txt", "".join(f"{number}\n" for number in range(1, 4502)))
    repo.commit()
    review = shop.put_up(diff=edited())
    some = of(shop, review, "long.txt", first_line=3, last_line=5)
    assert (some["lines"], some["first_line"], some["total_lines"]) == (["3", "4", "5"], 3, 4501)
    place, found = 1, []
    while place <= some["total_lines"]:
        part = of(shop, review, "long.txt", first_line=place, last_line=100_000)
        assert part["first_line"] == place
        assert 0 < len(part["lines"]) <= 2000
        found += part["lines"]
        place += len(part["lines"])
    assert found == [str(number) for number in range(1, 4502)]
    beyond = of(shop, review, "long.txt", first_line=5000)
    assert (beyond["lines"], beyond["exists"], beyond["total_lines"]) == ([], True, 4501)
    assert shop.refused("INVALID_INPUT", "get_round_file", review_id=review, path="a.txt", first_line=5, last_line=4)


def test_every_kind_of_change(shop: Desk, repo: Sandbox):
    repo.write("crlf.txt", "one\r\ntwo\r\n")
    repo.write("open.txt", "no end")
    repo.write("moved.txt", "".join(f"here is line {number}\n" for number in range(30)))
    repo.write("spaced name/ümlaut.txt", "ü\n")
    repo.write("empty.txt", "")
    repo.commit()
    moved = repo.read("moved.txt").decode()
    repo.write("crlf.txt", "one\r\nzwei\r\n")
    repo.write("open.txt", "still no end")
    (repo.root / "moved.txt").rename(repo.root / "there.txt")
    repo.write("there.txt", moved.replace("line 7\n", "line seven\n"))
    repo.write("spaced name/ümlaut.txt", "ö\u2028\x0c\rü\n")
    repo.write("new.txt", "new\n\n")
    repo.write("empty.txt", "\n")
    (repo.root / "b.txt").unlink()
    repo.write("run.sh", "#!/bin/sh\nexit 1\n", executable=True)
    diff = change(repo)
    assert "rename from moved.txt" in diff
    review = shop.put_up(diff=diff)
    assert both(shop, review, "crlf.txt") == ("one\r\ntwo\r\n", "one\r\nzwei\r\n")
    assert both(shop, review, "open.txt") == ("no end", "still no end")
    assert both(shop, review, "moved.txt") == (moved, None)
    assert both(shop, review, "there.txt") == (None, moved.replace("line 7\n", "line seven\n"))
    assert both(shop, review, "spaced name/ümlaut.txt") == ("ü\n", "ö\u2028\x0c\rü\n")
    assert both(shop, review, "new.txt") == (None, "new\n\n")
    assert both(shop, review, "empty.txt") == ("", "\n")
    assert both(shop, review, "b.txt") == ("".join(f"{line}\n" for line in TEN), None)
    assert both(shop, review, "run.sh") == ("#!/bin/sh\nexit 0\n", "#!/bin/sh\nexit 1\n")
    # A folder is no file.
    assert both(shop, review, "spaced name") == (None, None)


def test_a_file_whose_name_comes_in_another_files_part_of_the_diff(shop: Desk, repo: Sandbox):
    repo.write("list.txt", "a\n")
    repo.commit()
    repo.write("list.txt", "a\ndiff --git a/a.txt b/a.txt\n--- a/a.txt\n")
    repo.write("a.txt", "short\n")
    review = shop.put_up(diff=change(repo))
    assert content(shop, review, "a.txt") == "short\n"
    assert content(shop, review, "list.txt") == "a\ndiff --git a/a.txt b/a.txt\n--- a/a.txt\n"


def test_each_round_is_its_own(shop: Desk):
    review = shop.put_up(diff=edited())
    shop.revise(review, diff=edited(text="best"))
    assert of(shop, review, "a.txt")["lines"][1] == "best"
    assert of(shop, review, "a.txt")["round"] == 2
    assert of(shop, review, "a.txt", round=1)["lines"][1] == "better"
    shop.refused("NOT_FOUND", "get_round_file", review_id=review, path="a.txt", round=3)
    shop.refused("NOT_FOUND", "get_round_file", review_id="rv_nothing", path="a.txt")
    shop.refused("NOT_FOUND", "get_round_file", review_id=review, path="a.txt", project=fresh_project())


def test_what_is_no_text_has_no_lines(shop: Desk, repo: Sandbox):
    repo.write("nul.bin", b"a\0b\n")
    repo.write("latin.txt", "größer\n".encode("latin-1"))
    repo.commit()
    repo.write("nul.bin", b"a\0c\n")
    review = shop.put_up(diff=change(repo))
    for path in ("nul.bin", "latin.txt"):
        for side in ("before", "after"):
            shown = of(shop, review, path, side=side)
            assert (shown["exists"], shown["binary"], shown["lines"], shown["total_lines"]) == (True, True, [], 0)


OUTSIDE: list[str] = table("paths")["outside"]


def test_no_path_leads_out_of_the_repository(shop: Desk):
    review = shop.put_up(diff=edited())
    for path in OUTSIDE:
        for side in ("before", "after"):
            details = shop.refused("INVALID_INPUT", "get_round_file", review_id=review, path=path, side=side)
            assert details["field"] == "path", path


def test_links_and_submodules_are_not_followed(shop: Desk, repo: Sandbox, tmp_path: Path):
    secret = tmp_path / "secret.txt"
    secret.write_text("not yours\n", "utf-8")
    (repo.root / "link").symlink_to(secret)
    (repo.root / "folder").symlink_to(tmp_path)
    repo.commit()
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{repo.head()},module")
    repo.git("commit", "--quiet", "--no-verify", "-m", "a module")
    review = shop.put_up(diff=edited())
    for path, word in (("link", "symbolic link"), ("module", "submodule")):
        envelope = shop.call("get_round_file", review_id=review, path=path)
        assert envelope["error"]["code"] == "INVALID_INPUT"
        assert word in envelope["error"]["message"]
        assert "not yours" not in str(envelope)
    assert both(shop, review, "folder/secret.txt") == (None, None)


def test_a_file_that_nobody_reads_is_refused(shop: Desk, repo: Sandbox):
    repo.write("huge.txt", b"0123456\n" * 1_100_000)
    repo.commit()
    review = shop.put_up(diff=edited())
    details = shop.refused("TOO_LARGE", "get_round_file", review_id=review, path="huge.txt", last_line=3)
    assert details["actual"] == 8_800_000
    shop.refused(
        "TOO_LARGE", "draft_counter_patch", review_id=review, edits=[{"path": "huge.txt", "content": "small\n"}]
    )


def test_the_base_is_gone(shop: Desk, repo: Sandbox):
    first = repo.head()
    repo.write("a.txt", "\n".join(["one", *TEN]) + "\n")
    repo.commit()
    repo.write("a.txt", "\n".join(["two", *TEN]) + "\n")
    review = shop.put_up(diff=change(repo))
    assert of(shop, review, "a.txt")["lines"][0] == "two"
    repo.git("reset", "--quiet", "--hard", first)
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "--quiet", "--prune=now")
    for path in ("a.txt", "b.txt"):
        details = shop.refused("NOT_FOUND", "get_round_file", review_id=review, path=path)
        assert len(details["base"]) == 40
    edits = [{"path": "a.txt", "content": "x\n"}]
    shop.refused("NOT_FOUND", "draft_counter_patch", review_id=review, edits=edits)
    shutil.rmtree(repo.root)
    shop.refused("UNAVAILABLE", "get_round_file", review_id=review, path="b.txt")


def test_texts(shop: Desk, repo: Sandbox):
    repo.write("plan.md", "# Old\n")
    repo.commit()
    review = shop.put_up(path="plan.md", description="# New\n\nText")
    assert both(shop, review, "plan.md") == ("# Old\n", "# New\n\nText")
    assert both(shop, review, "a.txt") == ("".join(f"{line}\n" for line in TEN),) * 2
    nowhere = shop.put_up(path="other.md", description="# Other\n")
    assert both(shop, nowhere, "other.md") == (None, "# Other\n")


def test_without_a_repository_only_a_text_can_be_shown(desk: Desk):
    text = desk.put_up(path="plan.md", description="# Plan\n")
    assert content(desk, text, "plan.md") == "# Plan\n"
    desk.refused("NOT_FOUND", "get_round_file", review_id=text, path="plan.md", side="before")
    nameless = desk.put_up(description="Words.")
    desk.refused("NOT_FOUND", "get_round_file", review_id=nameless, path="plan.md")
    diff = desk.put_up(diff=edited())
    details = desk.refused("NOT_FOUND", "get_round_file", review_id=diff, path="a.txt")
    assert details["project"] == desk.project


def test_what_was_not_validated_has_no_known_base(shop: Desk):
    review = shop.put_up(diff=edited(), skip_diff_validation=True)
    shop.refused("NOT_FOUND", "get_round_file", review_id=review, path="a.txt")


def test_a_repository_with_long_ids(broker: Any, tmp_path: Path):
    made = Sandbox(tmp_path / "long", "sha256")
    made.write("a.txt", "".join(f"{line}\n" for line in TEN))
    made.commit()
    with Desk(broker.url, fresh_project()) as desk:
        desk.register(made.root)
        review = desk.put_up(diff=edited())
        assert of(desk, review, "a.txt")["lines"][1] == "better"
        edits = [{"path": "a.txt", "content": "x\n"}, {"path": "b.txt", "content": "y"}]
        assert desk.do("draft_counter_patch", review_id=review, edits=edits)["applies"]


def test_before_the_first_commit(broker: Any, tmp_path: Path):
    made = Sandbox(tmp_path / "unborn")
    made.write("a.txt", "first\n")
    made.git("add", "--all")
    diff = made.diff("--cached")
    with Desk(broker.url, fresh_project()) as desk:
        desk.register(made.root)
        review = desk.put_up(diff=diff)
        assert both(desk, review, "a.txt") == (None, "first\n")
        draft = desk.do("draft_counter_patch", review_id=review, edits=[{"path": "a.txt", "content": "second\n"}])
        assert draft["applies"]
        assert "+second" in draft["counter_patch"]
