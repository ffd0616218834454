"""Findings in the output of checks: the documents of tools are read, and hostile output does no harm."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tandem.git.raw import unsafe_reason
from tandem.reviews.check_findings import LONGEST_TEXT, MOST_FINDINGS, read_findings
from tandem.reviews.finding_rules import ReportedFinding

ROOT = "/srv/checks/run-0/tree"
CODE = "import os\n\n\ndef twice(x):\n    if x == None:\n        return 0\n    return x * 2\n"
FILES = {"a.py": CODE, "ü/ß.py": 'x = "𐐀é" == None\nlast', "crlf.txt": "one\r\ntwo\r\n"}


def read(document: Any, *, before: str = "", after: str = "") -> list[ReportedFinding]:
    text = document if isinstance(document, str) else json.dumps(document)
    return read_findings(before + text + after, ROOT, FILES.get)


def sarif(*results: dict[str, Any], rules: list[Any] | None = None, **run: Any) -> dict[str, Any]:
    tool = {"driver": {"name": "t", "rules": rules or []}}
    return {"version": "2.1.0", "runs": [{"tool": tool, "results": list(results), **run}]}


def result(uri: str = "a.py", region: dict[str, int] | None = None, **more: Any) -> dict[str, Any]:
    location = {"artifactLocation": {"uri": uri}, "region": region or {"startLine": 5}}
    return {"message": {"text": "wrong"}, "locations": [{"physicalLocation": location}], **more}


def fix(text: str | None, uri: str = "a.py", **region: int) -> dict[str, Any]:
    replacement: dict[str, Any] = {"deletedRegion": region}
    if text is not None:
        replacement["insertedContent"] = {"text": text}
    return {"fixes": [{"artifactChanges": [{"artifactLocation": {"uri": uri}, "replacements": [replacement]}]}]}


def diagnostic(path: str = "a.py", line: int = 5, **more: Any) -> dict[str, Any]:
    return {"message": "wrong", "location": {"path": path, "range": {"start": {"line": line}}}, **more}


# Documents of tools


@pytest.mark.parametrize("form", ["sarif", "rdjson"])
def test_the_findings_of_a_real_linter_come_with_its_suggestions(form: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(CODE, "utf-8")
    linter = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--no-cache",
        "--select=E7,F",
        "--output-format",
        form,
    ]
    output = subprocess.run(linter, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    unused, compared = read_findings(output, tmp_path.resolve().as_posix(), FILES.get)
    severity = "major" if form == "sarif" else "minor"
    assert unused == ReportedFinding("a.py", 1, 1, severity, "F401", "`os` imported but unused", "")
    assert (compared.file, compared.line, compared.severity, compared.category) == ("a.py", 5, severity, "E711")
    assert compared.suggestion == "    if x is None:\n"


def test_each_line_of_rdjsonl_is_a_finding() -> None:
    lines = "\n".join(json.dumps(diagnostic(line=line, severity="INFO", code={"value": "C1"})) for line in (2, 3))
    assert read(f"running\n{lines}\ndone") == [ReportedFinding("a.py", n, n, "nit", "C1", "wrong") for n in (2, 3)]


@pytest.mark.parametrize("indent", [None, 2])
def test_other_lines_around_a_document_do_not_hide_it(indent: int | None) -> None:
    text = json.dumps(sarif(result()), indent=indent)
    for before, after in [("", ""), ("warning: {old}\n{ not json\n", "\nFound 1 error.\n"), ("\ufeff", "\n}")]:
        assert [one.claim for one in read(text, before=before, after=after)] == ["wrong"]


@pytest.mark.parametrize(
    ("more", "severity"),
    [
        ({"level": "error"}, "major"),
        ({"level": "warning"}, "minor"),
        ({"level": "note"}, "nit"),
        ({"level": "none", "kind": "informational"}, "nit"),
        ({}, "minor"),
        ({"ruleId": "grave"}, "blocker"),
        ({"ruleIndex": 0}, "blocker"),
        ({"ruleId": "usual"}, "nit"),
        ({"level": "error", "properties": {"security-severity": "8.9"}}, "major"),
        ({"properties": {"security-severity": 9.5}}, "blocker"),
    ],
)
def test_the_severity_is_that_of_the_result_or_of_its_rule(more: dict[str, Any], severity: str) -> None:
    rules = [
        {"id": "grave", "properties": {"security-severity": "9.0"}},
        {"id": "usual", "defaultConfiguration": {"level": "note"}},
    ]
    assert [one.severity for one in read(sarif(result(**more), rules=rules))] == [severity]


def test_a_result_takes_its_category_and_words_from_its_rule() -> None:
    rules = [{"id": "R1", "messageStrings": {"m": {"text": "from the rule"}}}]
    found = read(sarif(result(ruleIndex=0, message={"id": "m"}), rules=rules))
    assert [(one.category, one.claim) for one in found] == [("R1", "from the rule")]


@pytest.mark.parametrize(
    "more",
    [
        {"suppressions": [{"kind": "inSource"}]},
        {"suppressions": [{"kind": "external", "status": "accepted"}]},
        {"kind": "pass"},
        {"baselineState": "absent"},
        {"message": {"text": " \n"}},
    ],
)
def test_what_a_tool_has_settled_is_no_finding(more: dict[str, Any]) -> None:
    assert read(sarif(result(**more))) == []


def test_a_suppression_that_is_not_accepted_settles_nothing() -> None:
    assert len(read(sarif(result(suppressions=[{"kind": "external", "status": "underReview"}])))) == 1


def test_a_message_has_its_arguments_in_their_places() -> None:
    said = {"text": "{0} is not {1}, {{0}} {2}", "arguments": ["one", "two"]}
    assert [one.claim for one in read(sarif(result(message=said)))] == ["one is not two, {0} {2}"]


def test_a_result_without_a_place_is_about_the_whole_change() -> None:
    placed = [{"message": "wrong", "location": {"path": path}} for path in ("", ".")]
    for document in (sarif({"message": {"text": "wrong"}}), {"diagnostics": [{"message": "wrong"}]}, *placed):
        assert read(document) == [ReportedFinding(None, None, None, "minor", None, "wrong")]


def test_a_place_that_is_not_there_is_told_in_words() -> None:
    def content(path: str) -> str:
        if path not in FILES:
            raise FileNotFoundError(path)
        return FILES[path]

    more = fix("x", startLine=99, startColumn=1, endLine=99, endColumn=3)
    given = (
        result(region={"startLine": 99}, **more),
        result("gone.py"),
        result(region={"startLine": 7, "endLine": 99}),
    )
    found = read_findings(json.dumps(sarif(*given)), ROOT, content)
    assert [(one.file, one.line, one.end_line, one.claim, one.suggestion) for one in found] == [
        ("a.py", None, None, "Line 99: wrong", None),
        (None, None, None, "gone.py:5: wrong", None),
        ("a.py", 7, 7, "wrong", None),
    ]


@pytest.mark.parametrize(
    ("line", "end", "said"),
    [
        (0, None, "Line 0"),
        (-5, None, "Line -5"),
        (1e30, None, "Line 1e+30"),
        (10**30, None, "Line 1000000000000000000…"),
        ("five", None, "Line five"),
        (5, 3, "Lines 5–3"),
        (99, None, "Line 99"),
    ],
)
def test_lines_that_cannot_be_are_told_in_front_of_the_words(line: Any, end: int | None, said: str) -> None:
    ends = {} if end is None else {"end": {"line": end}}
    rdjson = diagnostic()
    rdjson["location"]["range"] = {"start": {"line": line}, **ends}
    region = {"startLine": line, **({} if end is None else {"endLine": end})}
    for document in ({"diagnostics": [rdjson]}, sarif(result(region=region))):
        (found,) = read(document)
        assert (found.file, found.line, found.end_line, found.claim) == ("a.py", None, None, f"{said}: wrong")


@pytest.mark.parametrize("line", [None, True, [], {}])
def test_a_file_without_a_line_is_meant_as_a_whole(line: Any) -> None:
    (found,) = read(diagnostic(line=line))
    assert (found.file, found.line, found.claim) == ("a.py", None, "wrong")


def test_a_range_that_ends_where_a_line_begins_ends_before_that_line() -> None:
    place = {"start": {"line": 2, "column": 1}, "end": {"line": 4, "column": 1}}
    (found,) = read({"diagnostics": [{"message": "m", "location": {"path": "a.py", "range": place}}]})
    assert (found.line, found.end_line) == (2, 3)


# Paths


@pytest.mark.parametrize(
    ("uri", "file"),
    [
        ("a.py", "a.py"),
        ("./src//b.py", "src/b.py"),
        (f"{ROOT}/src/b.py", "src/b.py"),
        (f"file://{ROOT}/src/b%20c.py", "src/b c.py"),
        (f"file://localhost{ROOT}/b.py", "b.py"),
        (f"file:{ROOT}/b.py", "b.py"),
        ("%C3%BC/%C3%9F.py", "ü/ß.py"),
    ],
)
def test_paths_are_those_of_the_repository(uri: str, file: str) -> None:
    assert [one.file for one in read(sarif(result(uri)))] == [file]


@pytest.mark.parametrize(
    "uri",
    [
        "",
        ".",
        "../a.py",
        "src/../../a.py",
        "/etc/passwd",
        f"{ROOT}-2/a.py",
        f"{ROOT}/../a.py",
        f"file://elsewhere{ROOT}/a.py",
        "file:///etc/passwd",
        "https://example.org/a.py",
        ".git/config",
        "src/.GIT/hooks/pre-commit",
        "C:\\a.py",
        "file:///C:/a.py",
        "..%2f..%2fa.py",
        "a%00b",
        "a" * 1_100,
    ],
)
def test_a_finding_outside_of_the_repository_is_left_out(uri: str) -> None:
    assert read(sarif(result(uri))) == []
    assert read({"diagnostics": [diagnostic(uri)]}) == [] or "%" in uri or uri in ("", ".")


def test_a_path_may_stand_below_a_base_of_the_run() -> None:
    bases = {"SRC": {"uri": f"file://{ROOT}/src/"}, "AWAY": {"uri": "file:///usr/lib/"}}
    for base, files in [("SRC", ["src/b.py"]), ("AWAY", []), ("%SRCROOT%", ["b.py"])]:
        found = result()
        found["locations"][0]["physicalLocation"]["artifactLocation"] = {"uri": "b.py", "uriBaseId": base}
        assert [one.file for one in read(sarif(found, originalUriBaseIds=bases))] == files


def test_windows_paths_are_found_below_a_windows_folder() -> None:
    for uri in ("file:///C:/run/tree/src/a.py", "C:/run/tree/src/a.py"):
        (found,) = read_findings(json.dumps(sarif(result(uri))), "C:/run/tree", FILES.get)
        assert found.file == "src/a.py"


# Suggestions


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        # The whole line; a part of it; an insertion before it; its deletion.
        (fix("    if not x:", startLine=5), (5, 5, "    if not x:\n")),
        (fix("is", startLine=5, startColumn=10, endColumn=12), (5, 5, "    if x is None:\n")),
        (fix("    # why\n", startLine=5, startColumn=1, endColumn=1), (5, 5, "    # why\n    if x == None:\n")),
        (fix(None, startLine=5, startColumn=1, endLine=6, endColumn=1), (5, 5, "")),
        # A line more on either side, and one that would be joined to the next.
        (fix("\n", startLine=4, startColumn=14, endLine=5, endColumn=17), (4, 5, "def twice(x):\n:\n")),
        (
            fix("", startLine=5, startColumn=18, endLine=6, endColumn=9),
            (5, 6, "    if x == None:return 0\n"),
        ),
        (
            fix("    if not x: ", startLine=5, startColumn=1, endLine=6, endColumn=1),
            (5, 6, "    if not x:         return 0\n"),
        ),
    ],
)
def test_a_fix_becomes_the_text_of_whole_lines(more: dict[str, Any], expected: tuple[int, int, str]) -> None:
    (found,) = read(sarif(result(**more)))
    assert (found.line, found.end_line, found.suggestion) == expected


@pytest.mark.parametrize(
    "more",
    [
        fix("x", startLine=1),  # far away
        fix("x", "b.py", startLine=5),  # another file
        fix("x", startLine=5, startColumn=900),
        fix("x", startLine=5, startColumn=9, endColumn=3),
        fix("x", startLine=5, endLine=4),
        fix("x", startLine=8, endLine=9),
        fix("x", charOffset=4),
        fix("==", startLine=5, startColumn=10, endColumn=12),  # as it is
        fix("x" * LONGEST_TEXT, startLine=5),
        {"fixes": []},
    ],
)
def test_a_fix_that_is_none_for_these_lines_is_left_out(more: dict[str, Any]) -> None:
    (found,) = read(sarif(result(**more)))
    assert found == ReportedFinding("a.py", 5, 5, "minor", None, "wrong")


def test_a_fix_of_several_parts_is_made_whole_unless_they_overlap() -> None:
    def fixed(*columns: tuple[int, int, str]) -> str | None:
        parts = [
            {
                "deletedRegion": {"startLine": 5, "startColumn": start, "endColumn": end},
                "insertedContent": {"text": text},
            }
            for start, end, text in columns
        ]
        changes = [{"artifactLocation": {"uri": "a.py"}, "replacements": parts}]
        return read(sarif(result(fixes=[{"artifactChanges": changes}])))[0].suggestion

    assert fixed((10, 12, "is"), (8, 9, "y")) == "    if y is None:\n"
    assert fixed((8, 10, "y"), (9, 12, "is")) is None


@pytest.mark.parametrize(
    ("document", "columns"),
    [
        ("utf16CodeUnits", (11, 13)),
        ("unicodeCodePoints", (10, 12)),
        (None, (14, 16)),  # rdjson, in bytes
    ],
)
def test_columns_count_in_the_unit_of_the_format(document: str | None, columns: tuple[int, int]) -> None:
    start, end = columns
    if document is None:
        place = {"start": {"line": 1, "column": start}, "end": {"line": 1, "column": end}}
        found = read(diagnostic("ü/ß.py", 1, suggestions=[{"range": place, "text": "is"}]))
    else:
        edit = fix("is", "ü/ß.py", startLine=1, startColumn=start, endColumn=end)
        found = read(sarif(result("ü/ß.py", {"startLine": 1}, **edit), columnKind=document))
    assert [one.suggestion for one in found] == ['x = "𐐀é" is None\n']


def test_a_column_within_a_character_is_none() -> None:
    place = {"start": {"line": 1, "column": 7}, "end": {"line": 1, "column": 8}}
    (found,) = read(diagnostic("ü/ß.py", 1, suggestions=[{"range": place, "text": "is"}]))
    assert found.suggestion is None


def test_line_ends_that_are_not_replaced_stay() -> None:
    (found,) = read(diagnostic("crlf.txt", 2, suggestions=[{"range": {"start": {"line": 2}}, "text": "zwei"}]))
    assert found.suggestion == "zwei\r\n"
    (found,) = read(diagnostic("ü/ß.py", 2, suggestions=[{"range": {"start": {"line": 2}}, "text": "end"}]))
    assert found.suggestion == "end"


def test_of_several_suggestions_none_is_taken_for_the_tools_own() -> None:
    offered = [{"range": {"start": {"line": 5}}, "text": text} for text in ("a", "b")]
    assert [one.suggestion for one in read(diagnostic(suggestions=offered))] == [None]


# Hostile output


def test_there_are_at_most_so_many_findings_and_so_much_text() -> None:
    found = read(sarif(*[result(message={"text": "m" * 9_000}, ruleId="r" * 9_000)] * 600))
    assert len(found) == MOST_FINDINGS
    assert {len(one.claim) for one in found} == {LONGEST_TEXT}
    assert {len(one.category or "") for one in found} == {100}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{" * 100_000,
        '{"a":' * 100_000,
        '{"version": "2.1.0", "runs": ' + "[" * 100_000,
        '{"version": "2.1.0", "runs": [{"results": [{"ruleId": ' + "[" * 900 + "]" * 900 + ', "message": 1}]}]}',
        '{"diagnostics": {"a": [NaN, 1e999]}}',
        '{"line": ' + "9" * 5_000 + "}",
        "{\n" * 50_000,
        '{"version": "2.1.0", "runs": [null, 1, {"results": [null, [], {"message": null, "locations": {}}]}]}',
        '{"version": "2.1.0", "runs": [{"results": [',
        "\0" * 1_000,
    ],
)
def test_an_output_that_is_no_document_has_no_findings(text: str) -> None:
    assert read(text) == []


def test_a_hostile_document_takes_no_long_time() -> None:
    edits = [{"deletedRegion": {"startLine": 1, "startColumn": n, "endColumn": n}} for n in range(2, 50)]
    change = {"artifactLocation": {"uri": "a.py"}, "replacements": edits}
    each = result(region={"startLine": 1, "endLine": 9_999_999}, fixes=[{"artifactChanges": [change]}])
    for content in ("x" * 500_000, "x\n" * 100_000):
        found = read_findings(json.dumps(sarif(*[each] * 100)), ROOT, {"a.py": content}.get)
        assert {one.suggestion for one in found} == {None}


def test_texts_are_such_as_can_be_stored() -> None:
    (found,) = read(sarif(result(message={"text": "a\0b\ud800"}, ruleId="\ud800", **fix("\0", startLine=5))))
    assert (found.claim, found.category, found.suggestion) == ("a\ufffdb?", "?", "\ufffd\n")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from(["a.py", "../a.py", "error", "ERROR", "2.1.0", f"file://{ROOT}/a.py", "\ud800", "9.1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
WHOLE = [
    sarif(
        result(ruleId="R", ruleIndex=0, **fix("x", startLine=5, startColumn=1, endLine=5, endColumn=3)),
        rules=[{"id": "R"}],
    ),
    {"diagnostics": [diagnostic(suggestions=[{"range": {"start": {"line": 5, "column": 2}}, "text": "x"}])]},
    diagnostic(severity="ERROR", code={"value": "C"}, suggestions=[{"range": {"start": {"line": 5}}, "text": "x"}]),
]


def places(value: Any) -> list[tuple[Any, str | int]]:
    """Every container within a value with a key or an index of it."""
    entries: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        entries = list(cast("dict[str | int, Any]", value).items())
    elif isinstance(value, list):
        entries = list(enumerate(cast("list[Any]", value)))
    own = cast("list[tuple[Any, str | int]]", [(value, key) for key, _ in entries])
    return own + [place for _, inner in entries for place in places(inner)]


@st.composite
def outputs(draw: st.DrawFn) -> str:
    document = json.loads(json.dumps(draw(st.sampled_from(WHOLE))))
    for _ in range(draw(st.integers(0, 4))):
        if found := places(document):
            container, key = draw(st.sampled_from(found))
            container[key] = draw(VALUES)
    text = json.dumps(document, indent=draw(st.sampled_from([None, 1])))
    start, end = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
    return text[:start] + draw(st.text(max_size=4)) + text[end:] if draw(st.booleans()) else text


@given(outputs())
@example(json.dumps(WHOLE[0]).replace('"R"', '["R"]'))
def test_every_finding_of_any_output_can_be_kept(text: str) -> None:
    for one in read(text):
        assert one.claim.strip()
        assert one.severity in {"blocker", "major", "minor", "nit"}
        assert one.file is None or unsafe_reason(one.file) is None
        assert (one.line is None) == (one.end_line is None)
        assert one.line is None or one.file is not None
        assert one.line is None or 1 <= one.line <= (one.end_line or 0)
        kept = [one.file, one.claim, one.category, one.suggestion]
        assert all(
            part.encode() is not None and "\0" not in part and len(part) <= LONGEST_TEXT for part in kept if part
        )
        assert one.suggestion is None or one.line is not None
