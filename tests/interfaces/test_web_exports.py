"""A review to take away: complete, exact, and harmless wherever it is opened."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tandem.errors import InvalidInput
from tandem.git.changes import AffectedFile
from tandem.reviews.answers import DiscussionEntry, EventView, Proposal
from tandem.reviews.finding_contract import GivenFinding, view
from tandem.reviews.finding_rules import Finding
from tandem.web.exports import file_name, markdown, page, patch
from tests.git.sandbox import new_file
from tests.interfaces.diff_pages import FORBIDDEN, HIDDEN, HOSTILE, VOID, read

DIFF = (
    "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n"
    " x = 1\r\n-y = '```'\n+y = 2\t\n\\ No newline at end of file\n"
)


def proposal(**other: Any) -> Proposal:
    known: dict[str, Any] = {
        "review_id": "rev-1", "project": "shop", "status": "approved", "round": 2, "current_round": 3,
        "intent": "Count from two", "category": "code_change", "priority": "normal", "agent_type": "coder",
        "agent_role": "proposer", "phase": None, "plan": "P-1", "task": None, "proposer_id": "ada", "author": "ada",
        "origin": "proposal", "description": "Because *one* is small.\n\n- really\n", "diff": DIFF, "base": "HEAD",
        "base_commit": "0" * 40, "path": None, "metadata": {}, "digest": "sha256:abc", "validated": True,
        "affected_files": (AffectedFile("a.py", "modified", 1, 1),),
        "parent_id": None, "child_ids": (), "counter_patch": None, "created_at": "2026-01-02T03:04:05Z",
        "submitter": "ada",
    }  # fmt: skip
    return Proposal(**known | other)


def entry(**other: Any) -> DiscussionEntry:
    known: dict[str, Any] = {
        "kind": "message", "id": "m1", "round": 2, "at": "2026-01-02T04:00:00Z", "author": "bob",
        "sender_role": "reviewer", "body": "Why two?", "verdict": None, "file": None, "line": None, "status": None,
        "diff": None, "description": None, "resolved_by": None,
    }  # fmt: skip
    return DiscussionEntry(**known | other)


def happening(at: str, actor: str, kind: str, old: str | None, new: str) -> EventView:
    return EventView(1, at, "shop", "rev-1", actor, kind, old, new, {}, "")


DISCUSSION = (
    entry(),
    entry(kind="finding", file="a.py", line=2, body="A `name` here", severity="minor", status="verified"),
    entry(kind="verdict", verdict="changes_requested", body="Not yet"),
    entry(kind="counter_patch", body=None, description="Like this", diff=DIFF, status="accepted"),
)
TIMELINE = (
    happening("2026-01-02T03:04:05Z", "ada", "review_created", None, "pending"),
    happening("2026-01-02T04:04:05Z", "bob", "verdict_submitted", "claimed", "approved"),
)


def test_the_patch_is_the_diff_to_the_byte() -> None:
    assert patch(proposal()) == DIFF.encode()
    assert patch(proposal(diff="--- a/ü\r\n")) == "--- a/ü\r\n".encode()
    with pytest.raises(InvalidInput, match="no diff"):
        patch(proposal(diff=None))


def test_names_of_files_are_plain() -> None:
    assert file_name(proposal(), "md") == "shop-rev-1-round-2.md"
    for odd in ('../../etc/passwd"\r\nX: y', "ü" * 300, "x" * 300, "..", ""):
        assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}\.html", file_name(proposal(project=odd), "html"))


def test_markdown_tells_the_whole_review() -> None:
    text = markdown(proposal(), DISCUSSION, TIMELINE)
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    headings = [tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open"]
    assert headings[:5] == ["Count from two", "Description", "Files", "Changes", "Discussion"]
    assert headings[-1] == "Timeline"
    fences = [token.content for token in tokens if token.type == "fence" and token.info == "diff"]
    assert fences == [DIFF.replace("\r\n", "\n")] * 2
    assert DIFF in text
    for words in ("2 of 3", "> Because *one* is small.", "bob (reviewer) reported a finding (minor) on a.py, line 2",
                  "*verified*", "decided: changes\\_requested", "> Like this",
                  "claimed → approved"):  # fmt: skip
        assert words in text, words


ODD = st.one_of(
    st.sampled_from(HOSTILE),
    st.lists(st.sampled_from(["# h\n", "```", "~~~", "> ", "\n\n", "---\n", "| a |", "<b>", "</td>", "`", "[a]: x\n",
                              "\r", "x"])).map("".join),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
)  # fmt: skip


@settings(max_examples=80)
@given(texts=st.lists(ODD, min_size=8, max_size=8))
def test_no_text_breaks_out_of_its_place_in_the_markdown(texts: list[str]) -> None:
    given_ = proposal(intent=texts[0], description=texts[1], proposer_id=texts[2], diff=texts[3], plan=texts[4],
                      affected_files=(AffectedFile(texts[5], "added", None, None),))  # fmt: skip
    talk = [entry(body=texts[6], author=texts[7], diff=texts[3], file=texts[5], line=1)]
    text = markdown(given_, talk, TIMELINE)
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    assert not [token for token in tokens if token.type == "html_block"]
    inline = [child for token in tokens for child in token.children or []]
    assert not [child for child in inline if child.type == "html_inline"]
    own = [token for token in tokens if token.level == 0 and token.type == "heading_open"]
    parts = 1 + bool(texts[1]) + 1 + bool(texts[3]) + 2 + 1
    assert len(own) == parts


def test_the_page_is_complete_and_asks_nobody_for_anything() -> None:
    html = page(proposal(), DISCUSSION, TIMELINE)
    found = read(html.removeprefix("<!doctype html>\n").strip())
    (style,) = found.find("style")
    (policy,) = [meta.attributes["content"] or "" for meta in found.find("meta") if "http-equiv" in meta.attributes]
    digest = base64.b64encode(hashlib.sha256(style.text.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; form-action 'none'; base-uri 'none'"
    assert not re.search(r"url\(|@import", style.text)
    assert not [one for one in found.all() if "src" in one.attributes or "srcset" in one.attributes]
    assert found.by_id("f0-R2").find("td", "code")[0].text.startswith("y = 2")
    assert found.by_id("c3-f0-R2")
    for words in ("Count from two", "Because one is small.", "bob (reviewer) decided: changes_requested", "accepted"):
        assert words in found.text, words
    assert len({one.attributes["id"] for one in found.all() if "id" in one.attributes}) == html.count(" id=")


@settings(max_examples=30)
@given(texts=st.lists(ODD, min_size=8, max_size=8))
def test_hostile_texts_never_come_out_as_markup_of_the_page(texts: list[str]) -> None:
    given_ = proposal(intent=texts[0], description=texts[1], proposer_id=texts[2], diff=texts[3], plan=texts[4])
    talk = [entry(body=texts[6], author=texts[7], diff=texts[3], file=texts[5], line=1)]
    found = read(page(given_, talk, TIMELINE).removeprefix("<!doctype html>\n").strip())
    for element in found.all():
        assert element.tag not in FORBIDDEN - VOID, element.tag
        assert element.tag not in {"img", "link", "base"}
        assert not any(name.startswith("on") or name == "style" for name in element.attributes)
        assert (element.attributes.get("href") or "#").startswith(("#", "http://", "https://", "mailto:"))
    (body,) = found.find("body")
    assert not HIDDEN & set(body.text)


def test_p12_a_page_of_very_many_files_has_a_limit_and_says_what_it_leaves_out() -> None:
    files = 20_000
    html = page(proposal(diff="".join(new_file(f"src/{number}.py") for number in range(files))), (), ())
    assert len(html) < 10_000_000
    listed = html.count('<details class="file"')
    assert 2_000 < listed < files
    assert f"{files - listed:,} more files follow: the patch has them" in html


def test_p9_both_exports_say_what_git_did_that_the_diff_did_not_say() -> None:
    note = "a.py: hunk 1 is at line 4, where its lines are, not at line 56."
    noted = proposal(notes=(note,))
    assert f"| **Look at this** | {note} |" in markdown(noted, (), ())
    assert note in read(page(noted, (), ()).removeprefix("<!doctype html>\n").strip()).text


def test_both_exports_have_the_facts_of_others_and_what_each_event_says() -> None:
    facts = {"ticket": "X-1", "status": ["a", None, True]}
    told = proposal(metadata=facts)
    event = EventView(
        1, "2026-01-02T03:04:05Z", "shop", "rev-1", "bob", "claim_released", "claimed", "pending",
        {"reason": "I | am away", "again": False, "proved_by": None, "checks": ["a", "b"]}, "",
    )  # fmt: skip
    text = markdown(told, [entry(metadata={"see": "X-2"})], [event])
    html = read(page(told, [entry(metadata={"see": "X-2"})], [event]).removeprefix("<!doctype html>\n").strip()).text
    assert "| **Metadata ticket** | X-1 |" in text
    assert "| **Round submitted** | 2026-01-02T03:04:05Z |" in text
    assert "| reason I \\| am away; again no; checks a, b |" in text
    for words in (
        "Metadata status",
        '["a", null, true]',
        "metadata see X-2",
        "reason I | am away; again no; checks a, b",
    ):
        assert words in html, words
    assert "None" not in text + html


def test_an_export_says_the_state_of_a_finding_once_and_what_it_lacks() -> None:
    asked = GivenFinding(severity="blocker", claim="It ends.", category="limits", pre_existing=True)
    stated: dict[str, Any] = {**dict.fromkeys(Finding._fields[:23]), **asked.model_dump()}
    stated |= {"id": "fn_1", "state": "open", "created_at": 0}
    known = view(Finding(**stated), "major")
    of_it = entry(kind="finding", id="fn_1", body="It ends.", severity="blocker", status="open")
    text = markdown(proposal(), [of_it], TIMELINE, [known, replace(known, finding_id="fn_2")], is_cut=True)
    assert "*open; limits; was there before the change*" in text
    missing = "of the 2 findings 1. All of it: tandem review discussion rev-1, tandem findings rev-1"
    assert f"*More was said than fits here, {missing}*" in text
    html = page(proposal(), [of_it], TIMELINE, [known, replace(known, finding_id="fn_2")], is_cut=True)
    assert missing in html


def test_a_text_and_an_odd_diff_are_exported_too() -> None:
    html = page(proposal(diff=None), (), ())
    assert "<h2>Changes</h2>" not in html
    assert "just &lt;words&gt;" in page(proposal(diff="just <words>"), (), ())
    assert "## Changes" not in markdown(proposal(diff=None), (), ())
