"""Findings in the output of a check: what a tool says in SARIF 2.1.0, or in reviewdog's rdjson or rdjsonl.

The output comes from a program that ran on code under review, so it may say anything. Parts that cannot be read are
left out; nothing here raises.
"""

from __future__ import annotations

import io
import json
import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple, cast
from urllib.parse import unquote

from tandem.git.raw import decode_path, unsafe_reason
from tandem.reviews.finding_rules import ReportedFinding

MOST_FINDINGS: Final = 500
LONGEST_TEXT: Final = 4_000
_LONGEST_CATEGORY = 100
_LARGEST_LINE = 10_000_000
_MOST_FAULTS = 20
"""After so many braces that begin no JSON the rest is not looked at: each may be read to the end of the output."""
_MOST_EDITS = 50
_LONGEST_REPLACED = 20_000
_LONGEST_NUMBER = 20
_NEAR_LINES = 3
"""How far from the finding's lines a suggestion may change something: it replaces those between, too."""

_BEGINS = re.compile(r"^\ufeff?[ \t]*(?=\{)", re.MULTILINE)
_FILE = re.compile(r"file:(?://(?:localhost)?)?(?:/(?=[A-Za-z]:/)|(?=/))")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_PLACES = re.compile(r"\{\{|\}\}|\{\d+\}")
_CRITICAL = re.compile(r"(?:9|10)(?:\.\d+)?")
"""Of the scores of `security-severity`, from 0 to 10."""
_DECODER = json.JSONDecoder()
_LEVELS = {"error": "major", "warning": "minor", "note": "nit", "none": "nit"}
_SEVERITIES = {"ERROR": "major", 1: "major", "WARNING": "minor", 2: "minor", "INFO": "nit", 3: "nit"}
_WHOLE_CHANGE = (None, "", ".")
"""The paths of rdjson that name no file: the last is the one that Tandem writes, as reviewdog needs one."""
_CODE_POINTS, _UTF_16, _UTF_8 = ("utf-32-le", 4), ("utf-16-le", 2), ("utf-8", 1)
"""What a column counts: an encoding, and the bytes of its unit."""


class _Region(NamedTuple):
    """A part of a file; a column of None is the beginning of the first line, or the end of the last one."""

    line: int
    column: int | None
    end_line: int
    end_column: int | None

    @property
    def last_line(self) -> int:
        """The last line of which it has something."""
        return self.end_line - (self.end_column == 1 and self.end_line > self.line)


class _Tree(NamedTuple):
    """The files that the check ran on: their folder, and the lines of each; none where they cannot be read."""

    folder: str
    lines: Callable[[str], list[str]]

    def path(self, given: Any) -> str | None:
        """A path in the repository; None if it does not lie there, or cannot."""
        if not isinstance(given, str) or _text(given) != given or _SCHEME.match(given):
            return None
        path = decode_path(posixpath.normpath(given).removeprefix(f"{self.folder}/").encode())
        return None if unsafe_reason(path) else path


def read_findings(output: str, folder: str, content: Callable[[str], str | None]) -> list[ReportedFinding]:
    """The findings that the output of a check has, at most 500.

    Args:
        output: All that it wrote; other lines may stand before and behind the documents.
        folder: Where it ran, an absolute path with slashes and without links: the root of the repository.
        content: Gives the text of a file of the reviewed tree by its path; None if it is no text that can be read.
            It raises `FileNotFoundError` where there is no such file.
    """

    @lru_cache(maxsize=8)
    def lines(path: str) -> list[str]:
        return list(io.StringIO(content(path) or "", newline="\n"))

    return list(islice(_findings(output, _Tree(folder.rstrip("/"), lines)), MOST_FINDINGS))


def _findings(output: str, tree: _Tree) -> Iterator[ReportedFinding]:
    for document in _documents(output):
        if document.get("version") == "2.1.0":
            for run in _list(document, "runs"):
                yield from _of_run(run, tree)
        else:
            # Each line of rdjsonl is a diagnostic.
            for one in _list(document, "diagnostics") if "diagnostics" in document else [document]:
                yield from _of_diagnostic(one, tree, document.get("severity"))


def _documents(output: str) -> Iterator[dict[str, Any]]:
    """The JSON objects that begin at the beginning of a line."""
    at = faults = 0
    while faults < _MOST_FAULTS and (begin := _BEGINS.search(output, at)):
        try:
            value, at = _DECODER.raw_decode(output, begin.end())
        except (ValueError, RecursionError):
            at, faults = begin.end() + 1, faults + 1
        else:
            yield value


def _at(value: Any, *way: Any) -> Any:
    """The value within a value of JSON, by keys and indexes; None if there is none."""
    for step in way:
        if isinstance(value, dict) and isinstance(step, str):
            value = cast("dict[str, Any]", value).get(step)
        elif isinstance(value, list) and type(step) is int and 0 <= step < len(cast("list[Any]", value)):
            value = cast("list[Any]", value)[step]
        else:
            return None
    return value


def _list(value: Any, *way: Any) -> list[Any]:
    found = _at(value, *way)
    return cast("list[Any]", found) if isinstance(found, list) else []


def _text(value: Any) -> str:
    """A text as it can be stored; empty if it is none."""
    return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _short(value: Any, most: int) -> str | None:
    text = _text(value).strip()
    return (text if len(text) <= most else f"{text[: most - 1]}…") or None


def _number(value: Any) -> int | None:
    return value if type(value) is int and 1 <= value <= _LARGEST_LINE else None


def _region(line: Any, column: Any, end_line: Any, end_column: Any) -> _Region | str | None:
    """The part that is meant; in words where it cannot be, None where none is named."""
    first = _number(line)
    if first is None:
        told = _short(str(line), _LONGEST_NUMBER) if type(line) in (str, int, float) else None
        return f"Line {told}" if told else None
    region = _Region(first, _number(column), _number(end_line) or first, _number(end_column))
    return region if region.end_line >= first else f"Lines {first}–{region.end_line}"


def _finding(
    tree: _Tree, file: str | None, region: _Region | str | None, severity: str, category: Any, claim: Any
) -> ReportedFinding | None:
    """A finding without a suggestion; None if it says nothing. A place that is not there is told in its words."""
    said = _short(claim, LONGEST_TEXT)
    if said is None:
        return None
    line, end = (region.line, region.last_line) if isinstance(region, _Region) and file else (None, None)
    said = f"{region}: {said}" if isinstance(region, str) and file else said
    try:
        total = len(tree.lines(file)) if file else 0
    except FileNotFoundError:
        said, file, line, end = f"{file}{f':{line}' if line else ''}: {said}", None, None, None
    else:
        if total and line and line > total:
            said, line, end = f"Line {line}: {said}", None, None
        end = end and min(end, total or end)
    kind = _short(category, _LONGEST_CATEGORY)
    return ReportedFinding(file, line, end, severity, kind, _short(said, LONGEST_TEXT) or said)


# SARIF


def _of_run(run: Any, tree: _Tree) -> Iterator[ReportedFinding]:
    rules = _list(run, "tool", "driver", "rules")
    by_id = {name: rule for rule in rules if isinstance(name := _at(rule, "id"), str)}
    unit = _UTF_16 if _at(run, "columnKind") == "utf16CodeUnits" else _CODE_POINTS
    for result in _list(run, "results"):
        place = _at(result, "locations", 0, "physicalLocation")
        file = None if place is None else _sarif_path(place, run, tree)
        if _is_settled(result) or (place is not None and file is None):
            continue
        name = _at(result, "ruleId") or _at(result, "rule", "id")
        rule = _at(by_id, name) or _at(rules, _at(result, "ruleIndex"))
        claim = _at(result, "message", "text") or _at(rule, "messageStrings", _at(result, "message", "id"), "text")
        claim = _filled(claim, _list(result, "message", "arguments"))
        region = _sarif_region(_at(place, "region"))
        finding = _finding(tree, file, region, _sarif_severity(result, rule), name or _at(rule, "id"), claim)
        if finding is None:
            continue
        # Further fixes are other ways. One that changes several files is no suggestion for these lines.
        changes = _list(result, "fixes", 0, "artifactChanges")
        if len(changes) == 1 and file and finding.line and _sarif_path(changes[0], run, tree) == file:
            parts = _list(changes[0], "replacements")
            edits = [(_sarif_region(_at(one, "deletedRegion")), _at(one, "insertedContent", "text")) for one in parts]
            finding = _with_suggestion(finding, edits, tree.lines(file), unit)
        yield finding


def _filled(claim: Any, arguments: list[Any]) -> Any:
    """A message with its arguments in their places; those are told apart from doubled braces."""
    if not arguments or not isinstance(claim, str):
        return claim
    kept = {"{{": "{", "}}": "}", **{f"{{{at}}}": _text(one) for at, one in enumerate(arguments)}}
    return _PLACES.sub(lambda found: kept.get(found[0], found[0]), claim)


def _is_settled(result: Any) -> bool:
    """Whether the tool says that there is nothing to do."""
    accepted = (_at(one, "status") in (None, "accepted") for one in _list(result, "suppressions"))
    nothing = _at(result, "kind") in ("pass", "notApplicable") or _at(result, "baselineState") == "absent"
    return nothing or any(accepted)


def _sarif_severity(result: Any, rule: Any) -> str:
    score = _at(result, "properties", "security-severity") or _at(rule, "properties", "security-severity")
    if isinstance(score, str | int | float) and _CRITICAL.fullmatch(str(score)):
        return "blocker"
    level = _at(result, "level") or _at(rule, "defaultConfiguration", "level")
    return _LEVELS.get(level, "minor") if isinstance(level, str) else "minor"


def _sarif_path(place: Any, run: Any, tree: _Tree) -> str | None:
    """The file of a location, by an absolute address, or by one below a base of the run or the repository."""
    uri, base = _at(place, "artifactLocation", "uri"), _at(place, "artifactLocation", "uriBaseId")
    above = _at(run, "originalUriBaseIds", base, "uri")
    if not isinstance(uri, str):
        return None
    if isinstance(above, str) and not _SCHEME.match(uri) and not uri.startswith("/"):
        uri = f"{above.rstrip('/')}/{uri}"
    bare = _FILE.sub("", uri, count=1) if uri.startswith("file:") else uri
    return tree.path(unquote(bare))


def _sarif_region(region: Any) -> _Region | str | None:
    return _region(*(_at(region, name) for name in ("startLine", "startColumn", "endLine", "endColumn")))


# rdjson


def _of_diagnostic(one: Any, tree: _Tree, severity: Any) -> Iterator[ReportedFinding]:
    path = _at(one, "location", "path")
    file = tree.path(path)
    given = _at(one, "severity") or severity
    grade = _SEVERITIES.get(given, "minor") if isinstance(given, str | int) else "minor"
    region = _rdjson_region(_at(one, "location", "range"))
    finding = _finding(tree, file, region, grade, _at(one, "code", "value"), _at(one, "message"))
    if finding is None or (file is None and path not in _WHOLE_CHANGE):
        return
    # Several may be parts of one suggestion, or different ones: tools do either.
    offered = _list(one, "suggestions")
    if len(offered) == 1 and file and finding.line:
        edit = _rdjson_region(_at(offered[0], "range")), _at(offered[0], "text")
        finding = _with_suggestion(finding, [edit], tree.lines(file), _UTF_8)
    yield finding


def _rdjson_region(given: Any) -> _Region | str | None:
    start, end = _at(given, "start"), _at(given, "end") or _at(given, "start")
    return _region(_at(start, "line"), _at(start, "column"), _at(end, "line"), _at(end, "column"))


# Suggestions


def _with_suggestion(
    finding: ReportedFinding, edits: list[tuple[_Region | str | None, Any]], lines: list[str], unit: tuple[str, int]
) -> ReportedFinding:
    """The finding with a text for whole lines, which may be a few more than it named; without one where that fails."""
    line, end = finding.line, finding.end_line
    regions = [region for region, _ in edits if isinstance(region, _Region)]
    if line is None or end is None or len(regions) != len(edits) or not 0 < len(edits) <= _MOST_EDITS:
        return finding
    first = min(line, *(one.line for one in regions))
    last = max(end, *(one.last_line for one in regions))
    before = "".join(lines[first - 1 : last])
    is_near = line - first <= _NEAR_LINES and last - end <= _NEAR_LINES
    if not is_near or last > len(lines) or len(before) > _LONGEST_REPLACED:
        return finding
    try:
        # With one more line, for a region that ends at its beginning.
        spans = _spans(lines[first - 1 : last + 1], first, regions, unit)
        text = _replaced(before, [(*span, _text(new)) for span, (_, new) in zip(spans, edits, strict=True)])
    except ValueError:
        return finding
    if text and not text.endswith("\n") and last < len(lines):
        # Else the next line would be joined to it.
        before, text, last = before + lines[last], text + lines[last], last + 1
    if text == before or len(text) > LONGEST_TEXT:
        return finding
    return replace(finding, line=first, end_line=last, suggestion=text)


def _spans(lines: list[str], first: int, regions: list[_Region], unit: tuple[str, int]) -> Iterator[tuple[int, int]]:
    """Where the regions begin and end in the text of lines, of which the first has that number."""
    for one in regions:
        start = _offset(lines, one.line - first, one.column or 1, unit)
        yield start, _offset(lines, one.end_line - first, one.end_column, unit)


def _replaced(text: str, spans: list[tuple[int, int, str]]) -> str:
    """The text with spans of it replaced.

    Raises:
        ValueError: They overlap.
    """
    parts, at = list[str](), 0
    for start, stop, new in sorted(spans, key=lambda span: span[:2]):
        if not at <= start <= stop:
            raise ValueError("It begins before the last one ends.")
        parts, at = [*parts, text[at:start], new], stop
    return "".join([*parts, text[at:]])


def _offset(lines: list[str], index: int, column: int | None, unit: tuple[str, int]) -> int:
    """Where a place lies in the text of the lines.

    Raises:
        ValueError: The column lies behind the line, or within a character.
    """
    before = sum(map(len, lines[:index]))
    if column == 1:
        return before
    if column is None:
        return before + len(lines[index].rstrip("\r\n"))
    (encoding, size), count = unit, column - 1
    data = lines[index].encode(encoding)
    if count * size > len(data):
        raise ValueError("The line is shorter.")
    return before + len(data[: count * size].decode(encoding))
