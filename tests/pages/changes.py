"""Changes that the review page is tried on: of every kind, long ones, and ones of many files."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

from playwright.sync_api import Locator, Page, Response, expect

from tests.acceptance.reviewing import Desk, edited
from tests.git.sandbox import Sandbox

LONG = 120
"""Lines of `long.py`, long enough that a diff leaves most of it out."""


def shown(page: Page, shop: Desk, **proposal: Any) -> str:
    """A review on the page, of a small change unless something else is proposed."""
    review = shop.put_up(**(proposal or {"diff": edited()}))
    page.goto(f"/reviews/{review}")
    return review


def held(page: Page, shop: Desk, **proposal: Any) -> str:
    """The same, which Ada holds."""
    review = shop.put_up(**(proposal or {"diff": edited()}))
    shop.claim(review, "ada")
    page.goto(f"/reviews/{review}")
    expect(page.get_by_text("You hold it.")).to_be_visible()
    return review


def keeps(page: Page, text: str, *, field: str = "body") -> Any:
    """A block that ends when the broker has the draft with this text: an earlier state of it may be on its way."""

    def has_text(one: Response) -> bool:
        is_saved = one.url.endswith("/drafts") and one.request.method == "POST" and one.ok
        return is_saved and text in parse_qs(one.request.post_data or "").get(field, [])

    return page.expect_response(has_text)


def line(page: Page, number: int, *, side: str = "after") -> Locator:
    """The link in a line's number."""
    return page.locator(f'table.diff a[data-side="{side}"][data-line="{number}"]')


def code(lines: int = LONG) -> list[str]:
    """A module, line by line."""
    return [f"value_{number} = {number}" for number in range(1, lines + 1)]


def staged(repo: Sandbox) -> str:
    """The diff of everything in the working tree; the tree is put back."""
    repo.git("add", "--all")
    diff = repo.diff("--cached", "-M", "HEAD")
    repo.git("reset", "--quiet", "--hard")
    return diff


def with_long_file(repo: Sandbox) -> None:
    """Commit `long.py`."""
    repo.write("long.py", "\n".join(code()) + "\n")
    repo.commit("long")


def long_edited(repo: Sandbox, word: str = "changed") -> str:
    """Two lines of `long.py` far from each other, and from both of its ends."""
    lines = code()
    lines[19] = f"value_20 = {word}"
    lines[99] = f"value_100 = {word}"
    repo.write("long.py", "\n".join(lines) + "\n")
    return staged(repo)


def every_kind(repo: Sandbox) -> str:
    """A file modified, one added, one deleted, one renamed, one binary, and one whose mode alone changes."""
    repo.write("old name.txt", "".join(f"stays {number}\n" for number in range(20)))
    repo.write("logo.png", b"\x89PNG\r\n\x1a\n\0\0\0one")
    repo.write("gone.txt", "one\ntwo\n")
    repo.write("tool.sh", "exit 0\n")
    repo.commit("more")
    repo.write("a.txt", repo.read("a.txt").replace(b"line 3", b"a better line 3"))
    repo.write("docs/new.md", "# New\n\nText.\n")
    (repo.root / "gone.txt").unlink()
    (repo.root / "old name.txt").rename(repo.root / "new name.txt")
    repo.write("logo.png", b"\x89PNG\r\n\x1a\n\0\0\0two")
    repo.write("tool.sh", "exit 0\n", executable=True)
    return staged(repo)


def many_files(repo: Sandbox, files: int = 50, changed: int = 20) -> str:
    """That many files, in each of which that many lines are replaced: twice as many changed lines."""
    names = [f"src/part_{number // 10}/module_{number:02}.py" for number in range(files)]
    for name in names:
        repo.write(name, "\n".join(f"def function_{line}(value): return value + {line}" for line in range(100)) + "\n")
    repo.commit("many")
    for name in names:
        body = repo.read(name).decode().split("\n")
        for line in range(0, changed * 4, 4):
            body[line] = body[line].replace("value +", "value * 2 +")
        repo.write(name, "\n".join(body))
    return staged(repo)
