"""Diffs on a page: every line is there with its number and its anchor, and nothing in it can do anything."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import Markup

from tandem.git.hunks import FileDiff, Gap, gaps, parse, widened
from tandem.git.raw import decode_path
from tandem.git.word_changes import changed_words, pairs
from tandem.reviews.unusual import of_text
from tandem.web.diffs.code import shown, spelled
from tandem.web.diffs.syntax import CLASSES, LONGEST_TEXT, Budget, highlighted, language_of
from tandem.web.diffs.views import Layout, Outline, context_rows, outline, view
from tests.interfaces.diff_pages import HOSTILE, WEB, Element, assert_harmless, read, rendered

DIFF = """\
diff --git a/src/greet.py b/src/greet.py
index 111..222 100644
--- a/src/greet.py
+++ b/src/greet.py
@@ -10,6 +10,7 @@ class Greeter:
     def greet(self):
         \"\"\"Says
-        hello.
+        good morning.
+        Every day.
         \"\"\"
         name = "world"
         return name
@@ -40,3 +41,2 @@
 a = 1
-b = 2
 c = 3
"""
IMPORT = '{% from "diff.html" import file, heading, unified_rows, split_rows %}'


def one(diff: str) -> FileDiff:
    (file,) = parse(diff)
    return file


def page_of(file: FileDiff, layout: Layout = "unified", **given: object) -> Element:
    names = ", ".join(f"{name}={name}" for name in given)
    made = view(file, 3, layout=layout, budget=Budget(60))
    page = read(rendered(f"{IMPORT}{{{{ heading(view) }}}}{{{{ file(view, {names}) }}}}", view=made, **given))
    assert_harmless(page)
    return page


def test_a_unified_diff_shows_numbers_signs_and_anchors() -> None:
    page = page_of(one(DIFF))
    rows = [(row.find("td")[0].text, row.find("td")[1].text, row.find("td")[2].text) for row in page.find("tr", "line")]
    assert rows[:6] == [
        ("10", "10", ""), ("11", "11", ""), ("12", "", "−"), ("", "12", "+"), ("", "13", "+"), ("13", "14", ""),
    ]  # fmt: skip
    assert page.by_id("f3-L12").find("td", "code")[0].text == "        hello."
    added = page.by_id("f3-R13")
    (link,) = added.find("a")
    assert added.classes >= {"added"}
    assert (link.attributes["href"], link.attributes["data-side"], link.attributes["data-line"]) == (
        "#f3-R13", "after", "13",
    )  # fmt: skip
    assert page.find("table")[0].attributes["data-path"] == "src/greet.py"
    assert "+2" in page.text
    assert "−2" in page.text


def test_side_by_side_puts_counterparts_beside_each_other() -> None:
    page = page_of(one(DIFF), "split")
    rows = [[cell.text for cell in row.find("td")] for row in page.find("tr", "line")]
    assert ["12", "−", "        hello.", "12", "+", "        good morning."] in rows
    assert ["", "", "", "13", "+", "        Every day."] in rows
    assert ["41", "−", "b = 2", "", "", ""] in rows
    assert page.by_id("f3-L12").text == "12"
    assert page.by_id("f3-R12").text == "12"


def test_words_that_changed_are_marked_and_syntax_goes_on_across_lines() -> None:
    diff = "--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n text = '''\n-  if this was one\n+  if that was one\n '''\n"
    page = page_of(one(diff))
    assert [mark.text for mark in page.find("ins")] == ["that"]
    assert [mark.text for mark in page.find("del")] == ["this"]
    for anchor in ("f3-L2", "f3-R2"):
        # `if` is no keyword here, because the string began a line before.
        assert {span.attributes["class"] for span in page.by_id(anchor).find("span")} == {"hs"}


def said_by(said: dict[tuple[str, str, int], Markup]) -> Callable[[str, str, int], Markup]:
    return lambda path, side, line: said.get((path, side, line), Markup())


@pytest.mark.parametrize("layout", ["unified", "split"])
def test_what_was_said_about_a_line_stands_below_it(layout: Layout) -> None:
    said = {("src/greet.py", "after", 13): Markup("<p>why?</p>"), ("src/greet.py", "before", 41): Markup("<p>no</p>")}
    for threads in (said, said_by(said)):
        page = page_of(one(DIFF), layout, threads=threads, comment="/say/{1}/{2}".format)
        below = page.find("tr", "threads")
        assert [row.text.strip() for row in below] == ["why?", "no"]
        rows = [row for row in page.find("tr") if row.classes & {"line", "threads"}]
        before = rows[rows.index(below[0]) - 1]
        assert before.find("a")[-1].attributes["href"] == "/say/after/13"


@pytest.mark.parametrize("layout", ["unified", "split"])
def test_gaps_say_what_they_leave_out_and_can_be_filled(layout: Layout) -> None:
    file = one(DIFF)
    page = page_of(file, layout, expand="/lines/{1.new_first}".format)
    links = page.find("a", "expand")
    assert [link.text for link in links] == ["Show 9 unchanged lines", "Show 24 unchanged lines"]
    assert links[1].attributes["href"] == "/lines/17"
    assert (links[1].attributes["data-new-first"], links[1].attributes["data-new-last"]) == ("17", "40")
    assert (links[1].attributes["data-old-first"], links[1].attributes["data-old-last"]) == ("16", "39")
    texts = [f"line {number}" for number in range(17, 41)]
    wide = page_of(widened(file, 17, texts), layout)
    assert wide.by_id("f3-R40").text.endswith("line 40") or layout == "split"
    assert "line 17" in wide.text
    gap = Gap(16, 17, 24)
    assert gaps(file)[1] == gap
    rows = context_rows(file.path, 3, texts, gap, layout=layout)
    macro = f"{layout}_rows"
    alone = read(rendered(f"{IMPORT}<table>{{{{ {macro}(path, rows) }}}}</table>", path=file.path, rows=rows))
    assert len(alone.find("tr", "line")) == 24
    assert alone.find("tr", "line")[0].find("td")[0].text == "16"
    assert "Class" not in page_of(file, layout).find("tr", "hunk")[0].text
    assert "class Greeter:" in page_of(file, layout).find("tr", "hunk")[0].text


def test_a_long_file_comes_in_parts() -> None:
    file = one("--- /dev/null\n+++ b/f\n@@ -0,0 +1,5000 @@\n" + "".join(f"+line {n}\n" for n in range(1, 5001)))
    first = view(file, 0, limit=2000)
    assert (len([row for row in first.rows if row.kind == "line"]), first.next_start) == (2000, 2000)
    page = read(rendered(IMPORT + "{{ file(view, more=more) }}", view=first, more="/from/{1}".format))
    (link,) = page.find("a", "more-lines")
    assert (link.attributes["href"], link.text) == ("/from/2000", "Show more: 3000 of 5000 lines are left")
    last = view(file, 0, start=4000, limit=2000)
    assert [row.left.line for row in last.rows if row.left] == list(range(4001, 5001))
    assert last.next_start is None


def test_line_ends_are_told_once_or_marked_where_they_differ() -> None:
    same = page_of(one("--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n"))
    assert "CRLF" in same.text
    assert not same.find("span", "hidden-char")
    mixed = page_of(one("--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+b\r\n"))
    assert [mark.text for mark in mixed.find("span", "hidden-char")] == ["\\x0d"]
    assert mixed.by_id("f3-R2").find("ins")


def test_lines_outside_of_hunks_are_shown() -> None:
    page = page_of(one(DIFF + "?? smuggled\n"))
    assert "?? smuggled" in page.find("tr", "stray")[0].text


ODD = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n")))


@settings(max_examples=40)
@given(
    path=ODD.filter(lambda text: bool(text.strip())),
    lines=st.lists(st.tuples(st.sampled_from(" +-"), ODD), min_size=1, max_size=12),
    heading=ODD,
    suffix=st.sampled_from(["", ".py", ".js", ".html", ".md", ".sh", ".json", ".php", ".c"]),
    layout=st.sampled_from(["unified", "split"]),
)
def test_hostile_texts_never_come_out_as_markup(
    path: str, lines: list[tuple[str, str]], heading: str, suffix: str, layout: Layout
) -> None:
    name = path.replace("\t", " ").replace("\r", "") + suffix
    old = sum(sign != "+" for sign, _ in lines)
    new = sum(sign != "-" for sign, _ in lines)
    body = "".join(f"{sign}{text}\n" for sign, text in lines)
    file = one(f"diff --git a/x b/x\n--- a/{name}\n+++ b/{name}\n@@ -1,{old} +1,{new} @@ {heading}\n{body}")
    page = page_of(file, layout, threads="".format, expand="#x".format)
    assert page.find("table")[0].attributes["data-path"] == decode_path(name.encode())
    cells = [cell.text for cell in page.find("td", "code") if not cell.find("span", "cut")]
    for _, text in lines:
        if len(text) < 1000 and not text.endswith("\r"):
            assert any(cell == read(str(shown(text))).text for cell in cells)


def test_hidden_characters_are_named_and_emoji_stay() -> None:
    assert [mark.attributes["title"] for mark in read(shown("a\u202eb")).find("span")] == ["RIGHT-TO-LEFT OVERRIDE"]
    for text in (
        "tag\U000e0041",
        "soft\u00adhyphen",
        "a\u00a0b",
        "a\u200db",
        "a\ufe0fb",
        "0\ufe00",
        "1\ufe0f",
        "é\ufe0f",
        "x\u3164y",
    ):
        assert "hidden-char" in shown(text), text
    for text in ("👩\u200d💻 ❤\ufe0f 1\ufe0f\u20e3", "ffi — ünïcödé 語", "tab\there", "\u0645\u06cc\u200c\u062e\u0648"):
        assert shown(text) == text
    assert spelled("a\u202e\x1b\xa0") == "a\\u202e\\x1b\xa0"


@pytest.mark.parametrize("layout", ["unified", "split"])
def test_the_price_is_bounded_whatever_the_diff_is(layout: Layout) -> None:
    def hunk(old: str, new: str) -> str:
        before, after = old.count("\n"), new.count("\n")
        body = re.sub("(?m)^(?=.)", "-", old) + re.sub("(?m)^(?=.)", "+", new)
        return f"--- a/x.py\n+++ b/x.py\n@@ -1,{before} +1,{after} @@\n{body}"

    diffs = [
        hunk("a" * 2_500_000 + "\n", "b" * 2_500_000 + "\n"),
        hunk("a b " * 249 + "\n", "b a " * 249 + "\n"),
        hunk("a b\n" * 50_000, "b a\n" * 50_000),
        hunk("".join(f"a{n} b c d e f\n" for n in range(500)), "".join(f"z{n} b x d y f\n" for n in range(900))),
        hunk("<<<<<<< a\n=======\n" * 900, ">>>>>>> b\n" * 900),
        hunk('"""\n' * 900, "'''\"\"\"\n" * 900),
        hunk("\u202e" * 900 + "\n", "\u202d" * 990 + "\n"),
    ]
    for diff in diffs:
        started = time.thread_time()
        made = view(one(diff), 0, layout=layout)
        html = rendered(IMPORT + "{{ file(view) }}", view=made)
        assert time.thread_time() - started < 10, diff[:100]
        assert len(html) < 4_000_000
    assert "more characters" in rendered(IMPORT + "{{ file(view) }}", view=view(one(diffs[0]), 0, layout=layout))


def test_highlighting_stops_when_its_time_is_over_and_goes_on_when_asked_again() -> None:
    file = one(DIFF.replace("greet.py", "later.py").replace("world", "another world"))
    late = view(file, 0, budget=Budget(-1))
    assert late.plain
    assert "data-plain" in rendered(IMPORT + "{{ file(view) }}", view=late)
    assert not view(file, 0, budget=Budget(60)).plain
    again = view(file, 0, budget=Budget(-1))
    assert not again.plain
    assert "<span" in "".join(row.left.code for row in again.rows if row.left)


def test_large_texts_and_unknown_files_stay_plain() -> None:
    budget = Budget(60)
    assert highlighted("python", ["x = 1"] * (LONGEST_TEXT // 4), budget) is None
    assert highlighted("python", ["x" * 1_001], budget) is None
    assert language_of("data.unknown") is None
    assert [language_of(path) for path in ("a/Makefile", "x.TSX", "Dockerfile", "a.b/c", ".bashrc")] == [
        "make", "typescript", "docker", None, "bash",
    ]  # fmt: skip


WORDS = st.lists(st.sampled_from(["a", "b", "c", " ", "("]), max_size=14)


@given(WORDS, WORDS)
def test_what_is_not_marked_is_the_same_on_both_sides(left: list[str], right: list[str]) -> None:
    before, after = "".join(left), "".join(right)
    gone, new = changed_words(before, after)
    if gone or new:
        kept = ["", ""]
        for at, (text, marks) in enumerate(((before, gone), (after, new))):
            end = 0
            for mark in marks:
                kept[at] += text[end : mark.start]
                end = mark.end
            kept[at] += text[end:]
        assert kept[0].replace(" ", "") == kept[1].replace(" ", "")


@given(st.lists(st.text("ab ", max_size=5), max_size=30), st.lists(st.text("ab ", max_size=5), max_size=30))
def test_every_line_has_its_place_once_and_in_order(deleted: list[str], added: list[str]) -> None:
    found = pairs(deleted, added)
    assert [left for left, _ in found if left is not None] == list(range(len(deleted)))
    assert [right for _, right in found if right is not None] == list(range(len(added)))


def test_the_tree_folds_folders() -> None:
    def new(path: str, lines: int) -> str:
        return f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{lines} @@\n" + "+x\n" * lines

    found = outline(new("src/app/core/a.py", 2) + new("src/app/core/b.py", 3) + new("src/app/z.py", 1) + new("R.md", 4))
    page = drawn_tree(found, viewed={"R.md"})
    assert [(branch.name, branch.file) for branch in found.tree] == [
        ("src/app/", None), ("core/", None), ("a.py", 0), ("b.py", 1), ("z.py", 2), ("R.md", 3),
    ]  # fmt: skip
    assert [len(part.find("ul")) for part in page.find("ul", "diff-tree")] == [2]
    assert [link.attributes["href"] for link in page.find("a")] == ["#f0", "#f1", "#f2", "#f3"]
    assert [link.find("span", "diff-added")[0].text for link in page.find("a")] == ["+2", "+3", "+1", "+4"]
    assert "viewed" in page.find("a")[3].classes


def drawn_tree(found: Outline, viewed: Collection[str] = ()) -> Element:
    parts = [
        {
            "anchor": f"f{index}", "file": file, "lines": file.added + file.deleted,
            "viewed": file.path in viewed, "findings": 0,
        }
        for index, file in enumerate(found.files)
    ]  # fmt: skip
    source = '{% from "review/tree.html" import tree %}{{ tree(branches, parts) }}'
    return read(rendered(source, branches=found.tree, parts=parts))


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_everything_can_be_read_on_everything_that_may_be_behind_it() -> None:
    css = (WEB / "static" / "diff.css").read_text("utf-8")
    named = dict(re.findall(r"--diff-([\w-]+): (?:var\(--[\w-]+, )?light-dark\((#\w{6}, #\w{6})\)", css))
    grounds = [named[name].split(", ") for name in ("ground", "quiet", "add", "add-word", "del", "del-word")]
    inks = {name: named[name].split(", ") for name in ("ink", "soft", "link", "add-ink", "del-ink")}
    words = (WEB / "static" / "syntax.css").read_text("utf-8")
    coloured = re.findall(r"^\.(h\w) \{ color: light-dark\((#\w{6}), (#\w{6})\)", words, re.MULTILINE)
    assert {name for name, *_ in coloured} == set(CLASSES)
    inks |= {name: pair for name, *pair in coloured}
    # What only ever stands on some of the grounds.
    elsewhere = {"link": (0, 1), "soft": (0, 1, 2, 4), "add-ink": (0, 1, 2, 3), "del-ink": (0, 1, 4, 5)}
    for name, ink in inks.items():
        for at in elsewhere.get(name, range(len(grounds))):
            for theme in (0, 1):
                bright, dark = sorted((luminance(ink[theme]), luminance(grounds[at][theme])), reverse=True)
                assert (bright + 0.05) / (dark + 0.05) >= 4.5, (name, ink[theme], grounds[at][theme])


@pytest.mark.parametrize("at", [0, 49_900, 49_995, 50_000, 99_950, 119_000])
@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ("\u200b", "1 invisible character"),
        ("p\u0430ssword", "1 word with letters that look like Latin ones"),
        ("\u05d0", "written from right to left"),
        (" " * 110 + "x", "1 line with something after a long blank"),
    ],
)
def test_p12_a_very_long_line_is_looked_at_in_pieces_and_none_is_passed_over(at: int, odd: str, said: str) -> None:
    line = "words " * 20_000
    found = of_text("a.txt", f"{line[:at]}{odd}{line[at:]}")
    assert [one.what for one in found if said in one.what], found
    assert all("1 line longer" in one.what or said in one.what for one in found), found
