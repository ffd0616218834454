"""What a person could approve without having seen it: it is shown, it opens, or it is named beside Approve."""

from __future__ import annotations

import re
import struct
import zlib

import httpx
from playwright.sync_api import Page, expect

from tests.acceptance.reviewing import Desk
from tests.broker import BrokerProcess
from tests.git.sandbox import Sandbox
from tests.pages.changes import held, staged
from tests.pages.conftest import Check, Shot
from tests.pages.test_every_page import assert_fits

HIDDEN = '; __import__("os").system("id")'
SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>\0"


def png(colour: bytes) -> bytes:
    """A small image of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress((b"\0" + colour * 24) * 24)
    header = struct.pack(">IIBBBBB", 24, 24, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def hiding(repo: Sandbox) -> str:
    """A change in which nearly everything is hidden from who reads its beginning."""
    repo.write("min.js", "a" * 5_000 + ";\n")
    repo.write("logo.png", png(b"\xc0\x20\x20"))
    repo.write("mark.svg", SVG)
    repo.write("as-binary.txt", "one\ntwo\n")
    repo.write("tool.sh", "exit 0\n")
    repo.commit("more")
    repo.write("min.js", "a" * 4_000 + HIDDEN + "a" * 1_000 + ";\n")
    repo.write("logo.png", png(b"\x20\x20\xc0"))
    repo.write("mark.svg", SVG * 2)
    repo.write(".gitattributes", "*.txt -diff\n")
    repo.write("as-binary.txt", "one\nsmuggled\n")
    repo.write("far.py", "x = 1" + " " * 400 + ";import os\nadmin\u200b = 1\n\u0430dmin = 2\na = b \u01c3= c\n")
    repo.write("d\u043ecs.md", "one\n")
    (repo.root / "tool.sh").chmod(0o755)
    return staged(repo)


def shows_what_is_binary(page: Page) -> None:
    """An image is shown as it was and as it is; what only looks like one is not; a text that is sent as binary is."""
    logo = page.locator('.file[data-path="logo.png"]')
    logo.scroll_into_view_if_needed()
    expect(logo.locator("img")).to_have_count(2)
    for image in logo.locator("img").all():
        image.scroll_into_view_if_needed()
        expect(image).to_have_js_property("naturalWidth", 24)
    expect(logo).to_contain_text(re.compile("Before: [0-9]+ bytes, SHA-256 [0-9a-f]{64}"))
    mark = page.locator('.file[data-path="mark.svg"]')
    mark.scroll_into_view_if_needed()
    expect(mark).to_contain_text("SHA-256")
    expect(mark.locator("img")).to_have_count(0)
    sent = page.locator('.file[data-path="as-binary.txt"]')
    sent.scroll_into_view_if_needed()
    expect(sent.locator("tr.added")).to_contain_text("smuggled")


def test_what_cannot_be_seen_is_named_beside_approve_opens_and_takes_more_than_a_key(
    page: Page, shop: Desk, repo: Sandbox, axe: Check, shot: Shot
) -> None:
    review = held(page, shop, diff=hiding(repo))
    named = page.locator("#verdict-form .remarks")
    for words in (
        "2 binary files: logo.png, mark.svg",
        "1 file becomes a program: tool.sh",
        "2 lines longer than 2,000 characters: min.js:1 (before), min.js:1",
        "1 invisible character (ZERO WIDTH SPACE): far.py:2",
        "1 word with letters that look like Latin ones (CYRILLIC SMALL LETTER A): far.py:3",
        "1 character that looks like a plain one (LATIN LETTER RETROFLEX CLICK): far.py:4",
        "1 file name with letters that look like Latin ones (CYRILLIC SMALL LETTER O): d\u043ecs.md",
        "1 line with something after a long blank: far.py:1",
    ):
        expect(named).to_contain_text(words)

    # What differs is seen at once; the rest of the line opens where it stands, by the keyboard too.
    added = page.locator('.file[data-path="min.js"] tr.added td.code')
    expect(added.locator("ins")).to_have_text(HIDDEN)
    expect(added.locator("ins")).to_be_visible()
    rest = added.locator("summary").first
    expect(rest).to_have_text("1,940 more characters")
    rest.focus()
    page.keyboard.press("Enter")
    expect(added.locator("details").first).to_have_attribute("open", "")

    shows_what_is_binary(page)
    # At once, and not by the key, after which the page still scrolls: axe checks a page that stands still.
    page.evaluate("scrollTo({top: 0, behavior: 'instant'})")
    page.wait_for_function("scrollY === 0")
    axe(page)
    shot(page, "review-unseen")
    page.emulate_media(color_scheme="dark")
    shot(page, "review-unseen-dark")
    page.set_viewport_size({"width": 360, "height": 800})
    assert_fits(page)
    axe(page, colours_only=True)
    shot(page, "review-unseen-narrow")
    page.emulate_media(color_scheme="light")

    named.get_by_role("link", name="far.py:2").focus()
    page.keyboard.press("Enter")
    expect(page.locator("tr:target")).to_contain_text("\\u200b")
    page.goto(f"/reviews/{review}")
    page.keyboard.press("Shift+A")
    expect(page.locator("#notice")).to_contain_text("Not sent yet: look at the list above Approve first.")
    expect(page.get_by_label("Your verdict on round 1")).to_be_focused()
    assert shop.status(review)["status"] == "claimed"


def test_the_bytes_of_a_file_are_never_a_page_of_ours(shop: Desk, repo: Sandbox, broker: BrokerProcess) -> None:
    whole = shop.put_up(diff=hiding(repo))
    names = ["as-binary.txt", "logo.png", "mark.svg"]
    listed = [one["path"] for one in shop.do("get_proposal", review_id=whole)["affected_files"]]
    kinds: dict[str, str] = {}
    for name in names:
        answer = httpx.get(
            f"{broker.url}/reviews/{whole}/files/{listed.index(name)}/content?side=after", timeout=60, trust_env=False
        ).raise_for_status()
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
        assert answer.headers["content-disposition"].startswith("attachment;")
        kinds[name] = answer.headers["content-type"]
    assert kinds == {
        "as-binary.txt": "application/octet-stream",
        "logo.png": "image/png",
        "mark.svg": "application/octet-stream",
    }
