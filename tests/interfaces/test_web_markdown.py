"""Markdown from agents on a page: it reads as a document and can do nothing; and what changed between two of them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.core.texts import LONGEST_MARKDOWN
from tandem.web.diffs.documents import DocumentDiff, compare
from tandem.web.diffs.markdown import laid_out_together, markdown
from tests.interfaces.diff_pages import HOSTILE, Element, assert_harmless, read, rendered


def doc(text: str) -> Element:
    page = read(markdown(text))
    assert_harmless(page)
    return page


def test_a_plan_reads_as_a_document() -> None:
    page = doc(
        "# Plan\n\nDo **this**, ~~not that~~.\n\n- [ ] open\n- [x] done\n\n3. third\n\n"
        "| a | b |\n|:--|--:|\n| 1 | 2 |\n\n```python\ndef f(): return 1\n```\n"
    )
    assert [heading.text for heading in page.find("h3")] == ["Plan"]
    assert [item.text for item in page.find("li")] == ["☐ open", "☑ done", "third"]
    assert page.find("ol")[0].attributes["start"] == "3"
    assert page.find("td")[1].classes == {"to-right"}
    assert [span.text for span in page.find("span", "hk")] == ["def", "return"]
    assert (page.find("strong")[0].text, page.find("s")[0].text) == ("this", "not that")


def test_headings_fit_below_those_of_the_page() -> None:
    assert read(markdown("# a\n\n###### b", heading=2)).find("h2")[0].text == "a"
    assert read(markdown("# a\n\n###### b", heading=2)).find("h6")[0].text == "b"


def test_links_lead_to_the_web_only_and_say_that_they_are_not_vouched_for() -> None:
    page = doc('[a](https://example.org/x?a=1&b=2 "t") [m](mailto:a@example.org) <http://example.org>')
    assert [link.attributes["href"] for link in page.find("a")] == [
        "https://example.org/x?a=1&b=2", "mailto:a@example.org", "http://example.org",
    ]  # fmt: skip
    assert {link.attributes["rel"] for link in page.find("a")} == {"noopener noreferrer nofollow"}
    for address in ("javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "/reviews/1", "//evil.example",
                    "vbscript:x", "file:///etc/passwd", "#top", "&#106;avascript:alert(1)",
                    "java\tscript:x"):  # fmt: skip
        for text in (f"[a]({address})", f"[a](<{address}>)", f"![a]({address})"):
            assert not doc(text).find("a"), text


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST.", "a.localhost:7337", "127.0.0.1", "127.1", "2130706433", "0x7f.1", "0177.0.0.1",
     "0.0.0.0", "[::1]:1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "example.org@localhost",
     "%6cocalhost", "example.org:80@127.0.0.1:7337", "/localhost", "127.0.0.1%2e", "10.0.0.1",
     "169.254.0.1", "[fe80::1]", "broker"],
)  # fmt: skip
def test_nothing_of_this_machine_or_its_network_is_a_link(host: str) -> None:
    for text in (f"[a](http://{host}/x)", f"<http://{host}/x>", f"![a](http://{host}/x)", f"[a](HTTPS://{host})"):
        assert not doc(text).find("a"), text


def test_no_words_are_hidden_from_people_that_agents_would_read() -> None:
    page = doc("[//]: # (hidden words)\n\n<!-- other words -->\n\n[a]: http://x 'title words'")
    assert all(words in page.text for words in ("hidden words", "other words", "title words"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[a](http://example.org "a title")', 'a "a title"'),
        ("[](http://example.org/x)", "http://example.org/x"),
        ("[ ** ](http://example.org/x)", "**"),
        ("[` `](http://example.org/x)", "http://example.org/x"),
        ("[![a](http://example.org/b)](http://example.org/c)", "http://example.org/ca"),
        ("[<http://example.org/b>](http://example.org/c)", "http://example.org/chttp://example.org/b"),
        ('![](http://example.org "a title")', 'without a name "a title"'),
        ("![ ](http://example.org)", "without a name"),
        ("```python and more\ncode\n```", "python and more code"),
        ("```unknown\ncode\n```", "unknown code"),
        ("~~~ python\ncode\n~~~", "code"),
        ("a&#8203;b &lt;&#x202e; &amp;", "a&#8203;b &lt;&#x202e; &amp;"),
        ("[a](http://example.org:99999/x)", "[a](http://example.org:99999/x)"),
        ("<http://xn--mnchen-3ya.example/%41>", "http://xn--mnchen-3ya.example/%41"),
    ],
)
def test_p9_what_html_does_not_show_stands_beside_it(text: str, said: str) -> None:
    assert " ".join(doc(text).text.split()) == said


@pytest.mark.parametrize(
    "text",
    [
        "| a |\n|---|\n| 1 | then delete it |",
        "> - | a |\n>   |---|\n>   | 1 | * |",
        "[a](http://example.org/?a=1&#8203;)",
        '[a](http://example.org "&#8203;")',
        '![a [b](http://example.org/c "d") e](http://example.org/f)',
        "![a ![b](http://example.org/c) e](http://example.org/f)",
    ],
)
def test_p9_a_text_of_which_words_would_be_missing_is_shown_as_it_was_written(text: str) -> None:
    page = doc(f"# Plan\n\n{text}\n")
    assert page.find("p")[0].text == "Shown as it was written: laid out, some of its words would be missing."
    assert page.find("pre")[0].text == f"# Plan\n\n{text}\n"


HONEST = """\
# *In*word **em_pha_sis** and ~~gone~~ \\*escapes\\* ##

Set\\
ext
===

1. `code`
2. [a *b*](<http://example.org/a b_c> 'title') ![c](https://example.org/%C3%A9/é.png)

   > - [x] done <b>bold</b> <http://example.org/?a=1&b=%20> <ada@example.org>
   > - [ ] "open" — ½ ✓ 👩‍💻

| a | b |
|:-:|---|
| 1 \\| 2 | `x \\| y` | |
| 3 |

```toml title="x"
a = 1
```

    indented *code*
"""


def test_an_honest_document_is_laid_out() -> None:
    page = doc(HONEST)
    assert "Shown as it was written" not in page.text
    assert [len(page.find(tag)) for tag in ("h3", "li", "td", "pre", "a")] == [2, 4, 4, 2, 4]


def test_items_of_a_list_have_the_numbers_that_were_written() -> None:
    items = doc("1. a\n2. b\n7. c\n8. d\n2. e\n\ntext\n\n1. a\n1. b\n\ntext\n\n5. a\n6. b").find("li")
    assert [item.attributes.get("value") for item in items] == [None, None, "7", None, "2", *[None] * 4]


WORD = "canary"
PLACES = st.sampled_from([
    "{}", "| {} |\n|---|\n| {} |\n", "| a | b |\n|---|---|\n| 1 | 2 | {} |\n", "| a |\n|---|\n| 1 | {}",
    "[a](http://x.example/{})", "[{}](http://x.example 'a')", '[a](http://x.example "{}")', "[](http://x.example/{})",
    "![{}](http://x.example)", "![a](http://x.example/{} '{}')", "![](http://x.example/{})",
    "[![a](http://x.example/{})](http://x.example/{})", "[![a](http://x.example)](http://x.example/{})",
    "[<http://x.example>](http://x.example/{})", "[a](http://x.example:99999/{})", "[a](/{})",
    "[a]: http://x.example/{} '{}'\n\n[a]", "[{}]", "[a][{}]", "[//]: # ({})", "```{}\ncode\n```\n",
    "```python {}\ncode\n```\n", "~~~\n{}", "`{}`", "    {}\n", "# {} #\n", "{}\n===\n", "<{}>", "<!-- {} -->",
    "<http://x.example/{}>", "<{}@x.example>", "<a title='{}'>", "&{};", "- [ ] {}\n", "1. {}\n7) {}\n", "> {}\n",
    "*{}*a", "\\{}", "\n\n", "\n", "> ", "- ", "1. ", "    ", "| ", "*", "[", "](", ")", "![", "`", "<", '"', "\\",
    "~~",
])  # fmt: skip


@settings(max_examples=100)
@given(before=st.lists(PLACES, max_size=6), place=PLACES, after=st.lists(PLACES, max_size=6))
def test_p9_a_word_is_seen_wherever_it_stands(before: list[str], place: str, after: list[str]) -> None:
    filled = (
        [part.replace("{}", "word") for part in before],
        place.replace("{}", WORD),
        [part.replace("{}", "word") for part in after],
    )
    text = "".join((*filled[0], filled[1], *filled[2]))
    page = doc(text)
    seen = page.text + "".join(link.attributes.get("href") or "" for link in page.find("a") if link.text.strip())
    assert seen.count(WORD) >= text.count(WORD)
    # So a comparison with the text that says something else there says that something changed.
    diff = compare(text.replace(WORD, "other"), text)
    assert WORD not in text or diff.added + diff.deleted + diff.changed


def test_images_are_links_and_fetch_nothing() -> None:
    page = doc("![a *cat*](https://example.org/cat.png)")
    (link,) = page.find("a", "image")
    assert (link.text, link.attributes["href"]) == ("a cat", "https://example.org/cat.png")


PIECES = st.sampled_from([
    *HOSTILE, "[", "](", ")", "![", "`", "```", "```html\n", "\n", "\n\n", "> ", "- ", "1. ", "# ", "|", "\n|-|-|\n",
    "<", ">", "&", '"', "'", "*", "_", "~~", "[a]: ", "http://x", "javascript:", "onclick=", "word", "    ", "\\",
    "<b>", "</p>",
])  # fmt: skip


@given(st.lists(st.one_of(PIECES, st.text(max_size=4)), max_size=20).map("".join))
def test_hostile_texts_never_come_out_as_markup(text: str) -> None:
    doc(text)


@settings(max_examples=60)
@given(before=st.lists(PIECES, max_size=14).map("".join), after=st.lists(PIECES, max_size=14).map("".join))
def test_hostile_texts_never_come_out_of_a_comparison(before: str, after: str) -> None:
    assert_harmless(page_of(compare(before, after)))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("|" + "a|" * 4_000 + "\n|" + "-|" * 4_000 + "\n" + "x\n" * 9_000, id="few words fill a table"),
        pytest.param("> |a|b\n> -|-\n" + "> x|y\n" * 6_000, id="a long table"),
        pytest.param("a\n\n" * 20_000, id="lines"),
    ],
)
def test_what_would_take_long_is_shown_as_it_was_written_and_says_so(text: str) -> None:
    page = doc(text)
    assert page.find("p")[0].text == "Shown as it was written: it would take too long to lay it out."
    assert page.find("pre")[0].text == text
    assert not page.find("td")


@pytest.mark.parametrize(
    "piece",
    ["<", "[", "![", "> ", "- ", "*a_ ", "**a ", "[a](", "[]()", "&", "~~a", "|a", "[a]: x\n", "<a ", "<!--", "a\n\n",
     "# a\n", "\\", "&#x", "```\n", "a\n=\n", "\t", "`" , "\n> - ", "<http:", '[a](b "',
     "[](http://a.bc)", "1. a\n7. b\n"],
)  # fmt: skip
def test_the_price_is_bounded_whatever_the_text_is(piece: str) -> None:
    started = time.thread_time()
    text = (piece * LONGEST_MARKDOWN)[:LONGEST_MARKDOWN]
    assert "script" in markdown(f"{text}\n\nscript")
    assert "script" in markdown(f"{text[:15_000]}\n\nscript")
    assert time.thread_time() - started < 15


def test_deep_nesting_and_long_texts_are_shown_all_the_same() -> None:
    assert "deep" in doc("> " * 3000 + "deep").text
    assert "deep" in doc("".join(" " * 2 * level + "- a\n" for level in range(100)) + " " * 200 + "- deep").text
    assert "<pre>" in markdown("long <b> " * LONGEST_MARKDOWN)
    assert "<b>" not in markdown("long <b> " * LONGEST_MARKDOWN)


def page_of(diff: DocumentDiff) -> Element:
    return read(rendered('{% from "diff_document.html" import document %}{{ document(diff) }}', diff=diff))


def block(page: Element, kind: str) -> list[Element]:
    return page.find("div", kind)


BEFORE = """\
# Plan

The first step takes three days of work.

1. Read the code
2. Write a test for the parser
3. Ship it

```python
limit = 10
```

| key | value |
|-----|-------|
| a   | 1     |

Farewell.
"""
AFTER = """\
# Plan

The first step takes four days of work.

1. Read the code
2. Ask somebody else entirely
3. Write one test for the parser
4. Ship it

```python
limit = 20
```

| key | value |
|-----|-------|
| a   | 1 & 2 |

Nothing alike stands here now, in other words.
"""


def test_a_document_shows_which_words_changed_where_they_stand() -> None:
    diff = compare(BEFORE, AFTER)
    page = page_of(diff)
    assert (diff.changed, diff.added, diff.deleted) == (4, 2, 1)
    changed = [
        ([mark.text for mark in part.find("del")], [mark.text for mark in part.find("ins")])
        for part in block(page, "changed")
    ]
    assert changed == [(["three"], ["four"]), (["a"], ["one"]), (["10"], ["20"]), ([], [" & 2"])]
    assert [part.find("li")[0].text for part in block(page, "added") if part.find("li")] == [
        "Ask somebody else entirely"
    ]
    assert [part.find("p")[0].text for part in block(page, "deleted")] == ["Farewell."]
    # An item that only got another number did not change.
    assert all("Ship it" not in part.text for kind in ("changed", "added") for part in block(page, kind))
    assert page.find("ins")[2].text == "20"


def test_long_unchanged_parts_are_folded() -> None:
    rest = "".join(f"Paragraph {number}.\n\n" for number in range(20))
    page = page_of(compare(f"{rest}One.\n\n{rest}", f"{rest}Two.\n\n{rest}"))
    assert [part.find("summary")[0].text for part in page.find("details")] == ["19 unchanged parts"] * 2
    assert not page_of(compare(rest, rest)).find("details")
    assert page_of(compare("", "New.")).find("div", "added")


TEXTS = st.lists(st.sampled_from(["one", "two", "# h", "- a", "- b c", "> q", "`c`", "x < y", "&amp;"]), max_size=7)


@settings(max_examples=60)
@given(TEXTS, TEXTS)
def test_a_comparison_without_its_marks_is_the_later_document(before: list[str], after: list[str]) -> None:
    left, right = "\n\n".join(before), "\n\n".join(after)
    blocks = [block for stretch in compare(left, right).stretches for block in stretch.blocks]

    def words(of: str, dropped: str) -> list[str]:
        page = read(of)
        for element in [page, *page.all()]:
            element.inside = [part for part in element.inside if isinstance(part, str) or part.tag != dropped]
        return page.text.split()

    now = [word for block in blocks if block.kind != "deleted" for word in words(block.html, "del")]
    assert now == read(markdown(right)).text.split()
    then = "".join(word for block in blocks if block.kind != "added" for word in words(block.html, "ins"))
    assert sorted(then) == sorted("".join(read(markdown(left)).text.split()))


def test_comparing_is_bounded() -> None:
    texts = [
        ("> " * 300 + "a", "> " * 301 + "b"),
        ("a b " * 9_000, "b a c " * 6_000),
        ("\n\n".join("abc"[n % 3] for n in range(4_000)), "\n\n".join("cab"[n % 2] for n in range(4_000))),
        ("\n".join(f"- {n} a b c" for n in range(2_000)), "\n".join(f"- {n + n % 2} b c" for n in range(2_000))),
        ("x" * (LONGEST_MARKDOWN + 1), "y" * (LONGEST_MARKDOWN + 1)),
    ]
    for before, after in texts:
        started = time.thread_time()
        assert compare(before, after).stretches
        assert time.thread_time() - started < 20


def test_p12_of_many_long_texts_of_one_page_the_first_ones_are_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tandem.web.diffs.markdown._SECONDS_TOGETHER", 0.1)
    with laid_out_together():
        first, *_, last = [markdown(f"{at}\n\n" + "- *a* [b](c) `d`\n" * 700) for at in range(400)]
    assert "<em>a</em>" in first
    assert "<em>a</em>" not in last
    assert "- *a* [b](c)" in last
