"""Findings in the formats of other tools: SARIF 2.1.0, rdjson of reviewdog, Markdown and JSON.

A finding is an entry of the answer of `list_findings`. Formats that name lines name those of the newest round, where
the finding stands now; a line of the old side has no place in them, and is told beside. A suggestion goes along while
its lines are as they were: it is the text for whole lines, and deletes them if it is empty.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import quote

from tandem.core.texts import escaped, fence, quoted
from tandem.core.visible import visible, visible_line

Finding = Mapping[str, Any]
_T = TypeVar("_T")

FORMATS: Final = ("json", "markdown", "rdjson", "sarif")

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
# The gravest first.
_LEVELS = {"blocker": "error", "major": "error", "minor": "warning", "nit": "note"}
_SEVERITIES = {"error": "ERROR", "warning": "WARNING", "note": "INFO"}
_SUPPRESSED = {"suppressed": "accepted", "upheld": "accepted", "refuted": "underReview"}
"""States in which a finding does not count, or may not: as the status of a suppression."""
_SETTLED = frozenset({"suppressed", "upheld", "verified"})
_UNNAMED = "finding"
"""The rule of findings without a category."""
_KEPT = (
    *("finding_id", "review_id", "round", "source", "author", "severity", "state", "side", "pre_existing"),
    "found_in",
    *("answered_by", "answer", "settled_by", "settled_reason"),
)
"""Fields that SARIF has no place for."""
BEFORE: Final = "was there before the change"


def formatted(form: str, findings: Sequence[Finding], version: str) -> str:
    """The findings as a document, with a line end behind it.

    Args:
        form: One of `FORMATS`.
        findings: In the order of the document; rdjson has only those that still stand, as it knows no states.
        version: Of Tandem.
    """
    match form:
        case "markdown":
            return _markdown(findings)
        case "rdjson":
            document = _rdjson(findings)
        case "sarif":
            document = _sarif(findings, version)
        case _:
            document = {"findings": findings}
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def together(findings: Iterable[_T]) -> list[list[_T]]:
    """All of the findings, those of one category whose lines meet as one group; without a category is one, too.

    The groups are in the order of their first findings, each with the gravest first.

    Args:
        findings: Entries of the answer of `list_findings`, as mappings or as views.
    """
    known = list(findings)
    alike: dict[tuple[object, ...], list[tuple[int, int, int]]] = {}
    for at, one in enumerate(known):
        place = _read(one, "place") or one
        first = _read(place, "line")
        category = (_read(one, "category") or "").strip().casefold()
        file = _read(place, "file") or _read(one, "file")
        key = (_read(one, "review_id"), file, _read(one, "side"), category, first is None)
        alike.setdefault(key, []).append((first or 0, _read(place, "end_line") or first or 0, at))
    groups: list[list[int]] = []
    for spans in alike.values():
        end = -1
        for first, last, at in sorted(spans):
            if first > end:
                groups.append([])
            groups[-1].append(at)
            end = max(end, last)
    gravity = [list(_LEVELS).index(_read(one, "severity")) for one in known]
    return [[known[at] for at in sorted(group, key=lambda at: (gravity[at], at))] for group in sorted(groups, key=min)]


def _read(one: Any, name: str) -> Any:
    return one.get(name) if isinstance(one, Mapping) else getattr(one, name)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] any answer


def come_from(finding: Any) -> str:
    """Which other review it was found in, as a mapping or as a view; empty for one of its own review."""
    known = _read(finding, "found_in")
    return f"found in {known}" if known else ""


def met(group: Sequence[Any]) -> str:
    """How many findings stand together, and as what; empty for a single one."""
    category = _read(group[0], "category")
    return f"{len(group)} findings on the same lines{f': {category}' if category else ''}" if len(group) > 1 else ""


def _place(finding: Finding) -> tuple[str | None, int | None, int | None]:
    """File, first and last line where it stands now."""
    place: Finding = finding.get("place") or finding
    line = place.get("line")
    return place.get("file") or finding["file"], line, place.get("end_line") or line


def _in_new(finding: Finding) -> tuple[str | None, int | None, int | None]:
    """As `_place`, without lines of the old side."""
    file, line, end = _place(finding)
    return (file, None, None) if finding["side"] == "old" else (file, line, end)


def _suggestion(finding: Finding) -> str | None:
    """The text for its lines as they are now; None if there is none, empty to delete them."""
    place: Finding = finding.get("place") or {}
    return None if place.get("changed") or _in_new(finding)[1] is None else finding.get("suggestion")


def _message(finding: Finding) -> str:
    return "\n\n".join(filter(None, (finding["claim"], finding.get("failure"))))


def _lines(finding: Finding) -> str:
    """Its lines in words; empty for a whole file."""
    _, line, end = _place(finding)
    lines = "" if line is None else f"line {line}" if line == end else f"lines {line}–{end}"
    return f"{lines} of the old file" if lines and finding["side"] == "old" else lines


def _standing(finding: Finding) -> str:
    """Its state, and what else tells how much it counts."""
    place: Finding = finding.get("place") or {}
    marks = (BEFORE if finding["pre_existing"] else None, "changed since" if place.get("changed") else None)
    return ", ".join(filter(None, (finding["state"], *marks, come_from(finding))))


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


# SARIF


def _sarif(findings: Sequence[Finding], version: str) -> dict[str, Any]:
    rules = list(dict.fromkeys(one.get("category") or _UNNAMED for one in findings))
    driver = {
        "name": "Tandem",
        "version": version,
        "rules": [{"id": rule, "shortDescription": {"text": f"Finding of category {rule}."}} for rule in rules],
    }
    results = [_result(one, rules) for one in findings]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(finding: Finding, rules: list[str]) -> dict[str, Any]:
    rule = finding.get("category") or _UNNAMED
    state, mark = finding["state"], finding.get("fingerprint")
    status = _SUPPRESSED.get(state)
    file, line, end = _in_new(finding)
    region = {"startLine": line, "endLine": end} if line else None
    location = _without_none(artifactLocation=file and _artifact(file), region=region)
    told = {} if region else dict(zip(("line", "end_line"), _place(finding)[1:], strict=True))
    return _without_none(
        ruleId=rule,
        ruleIndex=rules.index(rule),
        level=_LEVELS[finding["severity"]],
        message={"text": _message(finding)},
        locations=[{"physicalLocation": location}] if file else [],
        partialFingerprints={"tandem/v1": mark} if mark else None,
        baselineState="absent" if state == "verified" else "unchanged" if finding["pre_existing"] else "new",
        # An empty list says that it is not suppressed, a missing one that this is not known.
        suppressions=[_without_none(kind="external", status=status, justification=finding.get("answer"))]
        if status
        else [],
        fixes=_fixes(finding),
        properties=_without_none(**{name: finding.get(name) for name in _KEPT}, **told),
    )


def _artifact(file: str) -> dict[str, str]:
    return {"uri": quote(file), "uriBaseId": "%SRCROOT%"}


def _fixes(finding: Finding) -> list[dict[str, Any]] | None:
    text, (file, line, end) = _suggestion(finding), _in_new(finding)
    if text is None or file is None or line is None or end is None:
        return None
    region = {"startLine": line, "endLine": end}
    # A region of lines ends before the last line end; deleting them takes it along.
    gone = {"startLine": line, "startColumn": 1, "endLine": end + 1, "endColumn": 1}
    content = {"text": text.removesuffix("\n")}
    replacement = {"deletedRegion": region if text else gone, "insertedContent": content}
    return [{"artifactChanges": [{"artifactLocation": _artifact(file), "replacements": [replacement]}]}]


# rdjson


def _rdjson(findings: Sequence[Finding]) -> dict[str, Any]:
    standing = [_diagnostic(one) for one in findings if one["state"] not in _SETTLED]
    return {"source": {"name": "Tandem"}, "diagnostics": standing}


def _diagnostic(finding: Finding) -> dict[str, Any]:
    file, line, end = _in_new(finding)
    lines = {"start": {"line": line}, "end": {"line": end}}
    category, text = finding.get("category"), _suggestion(finding)
    counts = not finding["pre_existing"] and finding["state"] != "late"
    # It has no fields for these.
    about = ["" if counts else finding["severity"], _lines(finding) if finding["side"] == "old" else ""]
    told = f"({', '.join(filter(None, (*about, _standing(finding))))})"
    # As in SARIF.
    gone = {"start": {"line": line, "column": 1}, "end": {"line": (end or 0) + 1, "column": 1}}
    return _without_none(
        message=_message(finding) + ("" if told == "(open)" else f"\n\n{told}"),
        # reviewdog ends at a diagnostic without a location; to it, this path is no file's.
        location=_without_none(path="." if file is None else file, range=lines if file and line else None),
        severity=_SEVERITIES[_LEVELS[finding["severity"]]] if counts else "INFO",
        code={"value": category} if category else None,
        suggestions=None if text is None else [{"range": lines if text else gone, "text": text.removesuffix("\n")}],
    )


# Markdown


def _markdown(findings: Sequence[Finding]) -> str:
    files: dict[str | None, list[Finding]] = {}
    for one in findings:
        files.setdefault(_place(one)[0], []).append(one)
    parts = ["# Findings" if findings else "No findings."]
    for file, there in files.items():
        parts.append(f"## {words(file or 'The whole change')}")
        for group in together(there):
            parts += [f"### {words(met(group))}"] if len(group) > 1 else []
            for one in group:
                parts += _told(one, "####" if len(group) > 1 else "###")
    return "\n\n".join(parts) + "\n"


def _told(finding: Finding, level: str) -> list[str]:
    head = ", ".join(filter(None, (finding["severity"].capitalize(), _lines(finding))))
    about = [finding.get("category"), f"by {finding['author']}", f"round {finding['round']}", finding["review_id"]]
    parts = [
        f"{level} {head}: {_standing(finding)}",
        " · ".join(words(one) for one in (finding["finding_id"], *about) if one),
        prose(finding["claim"]),
    ]
    for name, title in (("failure", "How it fails:"), ("answer", "Answer:"), ("settled_reason", "Settled:")):
        if finding.get(name):
            parts += [title, prose(finding[name])]
    if finding.get("suggestion") is not None:
        parts += ["Suggestion:", fence(visible(finding["suggestion"]))]
    return parts


def words(text: str) -> str:
    """A text as one line without meaning for Markdown."""
    return escaped(visible_line(" ".join(text.split())))


def prose(text: str) -> str:
    """A text in a quotation; in a fence where HTML in it would reach beyond that."""
    readable = visible(text.replace("\r\n", "\n")).strip("\n")
    return fence(readable, "markdown") if "<" in readable else quoted(readable)
