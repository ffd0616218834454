"""The answer of a reviewer's program: the form that it is asked for, and reading it, strictly.

A text that is not plainly an answer is refused: a refused run is tried again, a wrong approval stands.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar, cast, get_args

from tandem.core.texts import json_kind
from tandem.core.visible import is_blank
from tandem.pool.reviewers import Finished, ProgramOutput
from tandem.pool.reviewers.proof import Part, RunProof, paths_of
from tandem.reviews.finding_rules import SEVERITIES, STEPS, ReportedFinding, Settling, severity_of

Decision = Literal["approved", "changes_requested", "rejected"]

DECISIONS: Final[tuple[Decision, ...]] = ("approved", "changes_requested", "rejected")
_WITH_COUNTER_PATCH: Final[Decision] = "changes_requested"
"""The only one that a counter-patch goes with."""

ANSWER_LIMIT_BYTES: Final = 1_000_000
TEXT_LIMIT_BYTES: Final = 64_000
"""Of the reason and of each text of a finding; a counter-patch has the whole answer's limit."""

FINDING_LIMIT: Final = 200
_SETTLINGS: Final = get_args(Settling)
_NAMED = 5
"""So many earlier findings a refusal names."""
_MOST: Final = {"findings": FINDING_LIMIT, "answers": 500, "files": 20_000}


def _one(kind: str, description: str, **more: Any) -> dict[str, Any]:
    """A property that has to be there."""
    return {"type": kind, **more, "description": description}


def _maybe(kind: str, description: str) -> dict[str, Any]:
    """A property that may say nothing: providers want all of them named."""
    return {"type": [kind, "null"], "description": description}


def _several(items: dict[str, Any], description: str) -> dict[str, Any]:
    return {"type": "array", "description": description, "items": _closed(items)}


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    """An object with exactly these properties, as the strictest of the providers wants it declared."""
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


_READ: Final = {
    "file": _one("integer", "The file's number in the task."),
    "nonce": _maybe("string", "The nonce that stands behind the file, exactly."),
    "looked_at": _maybe("string", "In a few words, what you looked at in it."),
    "unread": _maybe("string", "Only for a binary or generated file: why it cannot be read. Else null."),
}

_FINDING: Final = {
    "file": _maybe("string", "The file's path from the root of the repository; null for the whole change."),
    "line": _maybe("integer", "The first line, from 1, as the change leaves the file; null for the whole file."),
    "end_line": _maybe("integer", "The last line; null for only one."),
    "severity": _one("string", "How much harm it does, as the task defines the words.", enum=[*SEVERITIES]),
    "category": _maybe("string", "Its kind in a word, such as security or tests."),
    "claim": _one("string", "The defect, in a sentence or two."),
    "failure": _maybe("string", "What triggers it, and what then happens."),
    "suggestion": _maybe(
        "string", "The exact lines to put in place of line to end_line; null if you are not sure of them."
    ),
    "pre_existing": _maybe("boolean", "true if the same was wrong before this change, and is not made worse by it."),
}

_SETTLING: Final = {
    "finding_id": _one("string", "The id that the task names, exactly."),
    "answer": _one(
        "string",
        "verified: it is corrected. reopened: it is still wrong. upheld: the proposer is right.",
        enum=[*_SETTLINGS],
    ),
    "reason": _maybe("string", "What you saw; reopened needs it."),
}

# What leads to the verdict stands before it: a model writes the fields in this order.
SCHEMA: Final[dict[str, Any]] = _closed(
    {
        # Its value stands in the prompt alone: a schema is an argument of some programs, which others can read.
        "nonce": _one("string", "The nonce that the task tells you to name, exactly."),
        "digest": _maybe("string", "The digest that the task tells you to name, exactly; null if it says null."),
        "files": _several(_READ, "What you read, an entry for each file of the task, in their order."),
        "summary": _maybe("string", "What you read and checked, in a sentence or two."),
        "answers": _several(
            _SETTLING, "An entry for each earlier finding that the task asks about; empty if there is none."
        ),
        "findings": _several(
            _FINDING, f"All that you found, the gravest first, at most {FINDING_LIMIT}; empty if there is none."
        ),
        "reason": _one(
            "string", "Why, so that the proposer can act on it; never empty unless the verdict is approved."
        ),
        "verdict": {"type": "string", "enum": [*DECISIONS]},
        "counter_patch": _maybe(
            "string", "Only with changes_requested: the full replacement of the proposal. Else null."
        ),
    }
)
"""Within what structured outputs of all providers support: no lengths, no ranges."""

_KINDS: Final = {
    "object": (dict, "an object"),
    "array": (list, "an array"),
    "string": (str, "a text"),
    "integer": (int, "a whole number or null"),
    "boolean": (bool, "true, false or null"),
}
EXAMPLE: Final[dict[str, Any]] = {
    "nonce": "the nonce of that task",
    "digest": "the digest of that change",
    "files": [
        {
            "file": 1,
            "nonce": "the nonce behind that file",
            "looked_at": "parse_amount, its callers, what a comma does",
            "unread": None,
        }
    ],
    "summary": "Read the change and the three callers of parse_amount; no test passes a comma.",
    "answers": [],
    "findings": [
        {
            "file": "src/amounts.py",
            "line": 42,
            "end_line": None,
            "severity": "major",
            "category": "correctness",
            "claim": "An amount with a comma raises ValueError, which the import in orders.py no longer catches.",
            "failure": "An order with the amount '1,50' stops the whole import; the orders behind it are lost.",
            "suggestion": "    return Decimal(text.replace(',', '.'))",
            "pre_existing": False,
        }
    ],
    "reason": "An amount with a comma now stops the import of orders. Handle it, and add a test that imports one.",
    "verdict": "changes_requested",
    "counter_patch": None,
}
"""For the prompt. A model that only copies it names a nonce and a digest of no review."""


_QUOTED_LENGTH: Final = 200
"""A refusal quotes at most so many characters of the answer."""

_AROUND_FAULT = 60
_FENCED = re.compile(r"```(?:json)?[ \t]*\r?\n(?P<inside>.*)\n[ \t]*```", re.DOTALL)
"""A fence around the whole answer is not a word beside it: models that no schema holds cannot leave it out."""


class Unreadable(Exception):
    """The text holds no answer that could be acted on; the message says why."""


def _quoted(text: str, most: int = _QUOTED_LENGTH) -> str:
    """The start of a text in quotes, at most so many characters, with escapes for what cannot be shown."""
    shown = repr(text[:most])
    whole = len(text) <= most and len(shown) <= most
    return shown if whole else f"{shown[: most - 1]}…"


def _check_output(output: bytes) -> None:
    """Refuse what a program wrote unless all of it is text in UTF-8, without NUL.

    Raises:
        Unreadable: It is not.
    """
    try:
        output.decode()
    except UnicodeDecodeError as error:
        raise Unreadable(f"its output is not UTF-8 (byte {error.start + 1}); have the program write UTF-8") from None
    if (nul := output.find(b"\0")) >= 0:
        said = f"there is a NUL character in its output (byte {nul + 1}), as in text that is UTF-16"
        raise Unreadable(f"{said}; have the program write UTF-8 without any")


def _check_text(where: str, text: str, limit_bytes: int) -> None:
    """Refuse a text that cannot be stored; `where` names it in the refusal.

    Raises:
        Unreadable: It has NUL characters or lone surrogates, or is over the limit.
    """
    if "\0" in text:
        raise Unreadable(f"there is a NUL character in {where}")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        around = _quoted(text[max(0, error.start - _AROUND_FAULT) :])
        raise Unreadable(f"there is a lone surrogate in {where}, or a byte that is not UTF-8: {around}") from None
    if size > limit_bytes:
        raise Unreadable(f"{where} has {size} bytes; {limit_bytes} is the most")


def _only_object(text: str) -> dict[str, Any]:
    """The JSON object that a text is, white space around it and one fence around all of it aside.

    An object between words is refused: it may be one that the program quotes.

    Raises:
        Unreadable: It is anything else, or the object is broken, has a property twice or a number that JSON does not
            know.
    """
    bare = text.removeprefix("\ufeff").strip()
    fenced = _FENCED.fullmatch(bare)
    if fenced is not None:
        bare = fenced["inside"].strip()
    if not bare:
        raise Unreadable("it is empty")
    if not bare.startswith("{"):
        raise Unreadable(f"it is not one JSON object and nothing else: {_quoted(bare)}")
    try:
        found, end = _DECODER.raw_decode(bare)
    except json.JSONDecodeError as error:
        half = error.pos >= len(bare) or error.msg.startswith("Unterminated")
        fault = "the text ends before its JSON object does" if half else f"this is no JSON ({error.msg})"
        raise Unreadable(f"{fault}: {_quoted(bare[max(0, error.pos - _AROUND_FAULT) :])}") from None
    except RecursionError:
        raise Unreadable("the JSON object is nested too deeply") from None
    except ValueError:
        # What Python refuses to make of thousands of digits.
        raise Unreadable("a number in the JSON object is too long to be read") from None
    if rest := bare[end:].strip():
        raise Unreadable(f"something follows the JSON object, which has to stand alone: {_quoted(rest)}")
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise Unreadable(f"the property {_quoted(twice)} is there twice")
    return found


def _no_number(name: str) -> Any:
    raise Unreadable(f"{name} is no number of JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_number)


_PATH_LENGTH = 4096
_LAST_LINE = 2**31 - 1
"""As long and as large as the broker takes them."""


@dataclass(frozen=True, slots=True)
class SettledFinding:
    """What becomes of an earlier finding, as `submit_verdict` takes it."""

    finding_id: str
    answer: str
    reason: str | None


_Said = TypeVar("_Said", ReportedFinding, SettledFinding)


def _hidden(said: tuple[_Said, ...], hide: Callable[[str], str]) -> tuple[_Said, ...]:
    return tuple(
        replace(one, **{name: hide(text) for name, text in asdict(one).items() if isinstance(text, str)})
        for one in said
    )


@dataclass(frozen=True, slots=True)
class ReviewerAnswer:
    """What a reviewer decided, as `submit_verdict` takes it."""

    verdict: Decision
    reason: str | None
    findings: tuple[ReportedFinding, ...] = ()
    counter_patch: str | None = None
    answers: tuple[SettledFinding, ...] = ()
    read_all: bool = True

    def hiding(self, hide: Callable[[str], str]) -> ReviewerAnswer:
        """The answer without the numbers of its run in its words.

        Raises:
            Unreadable: Its counter-patch has one, which cannot be left out.
        """
        if self.counter_patch is not None and hide(self.counter_patch) != self.counter_patch:
            raise Unreadable("the counter_patch quotes a nonce")
        findings, answers = _hidden(self.findings, hide), _hidden(self.answers, hide)
        return replace(self, reason=self.reason and hide(self.reason), findings=findings, answers=answers)

    def arguments(self) -> dict[str, Any]:
        """Those arguments of `submit_verdict` that come from the answer."""
        return asdict(self)


def answer_in(
    finished: Finished, reply: ProgramOutput, proposal: dict[str, Any], proof: RunProof
) -> ReviewerAnswer | Unreadable | None:
    """What a program's words are; None if it had none."""
    try:
        if not finished.output_was_cut:
            _check_output(finished.stdout)
        if reply.text is None:
            return None
        digest = proposal.get("digest")
        known: dict[str, Any] = {"digest": digest, "parts": proof.parts, "asked": proof.asked}
        answer = read_answer(reply.text, nonce=proof.nonce, files=frozenset(paths_of(proposal)), **known)
        return answer.hiding(proof.hidden.hide_in)
    except Unreadable as error:
        return error


def read_answer(
    text: str,
    *,
    nonce: str,
    digest: str | None,
    files: frozenset[str] | None,
    parts: Sequence[Part] = (),
    asked: Mapping[str, str] = MappingProxyType({}),
) -> ReviewerAnswer:
    """The answer that a program gave: one JSON object and nothing else, with the nonce of its run.

    A proposal can hold whole answers, and a program may quote them. It cannot hold the nonce, which is drawn when the
    round is fixed already.

    Args:
        text: What the program wrote.
        nonce: What its prompt told this run to name.
        digest: The digest of the round that was reviewed; None if it has none.
        files: The paths that the change touches; None if it touches none.
        parts: What an approval has to have read to the end.
        asked: The states of the earlier findings that it has to answer, by their ids.

    Raises:
        Unreadable: It is not one object alone, does not have the schema's form, or lacks the nonce; or it is about
            other content, leaves out an earlier finding, or approves a file that it does not show to have read.
    """
    _check_text("the answer", text, ANSWER_LIMIT_BYTES)
    found = _checked("", _only_object(text), SCHEMA)
    if not secrets.compare_digest(found["nonce"].encode(), nonce.encode()):
        raise Unreadable("nonce is not the one that this run was told to name: this is no answer of its own")
    verdict, reason, counter_patch = found["verdict"], found["reason"], found["counter_patch"]
    if verdict not in DECISIONS:
        why = "decides nothing" if verdict == "comment" else "is unknown"
        raise Unreadable(f"the verdict {_quoted(verdict)} {why}; it must be one of {', '.join(DECISIONS)}")
    findings = tuple(_finding(f"findings[{at}]", entry, files) for at, entry in enumerate(found["findings"]))
    if verdict != "approved" and is_blank(reason):
        raise Unreadable(f"reason is empty, and {verdict} needs one that the proposer can act on")
    if counter_patch is not None and verdict != _WITH_COUNTER_PATCH:
        # An approval of one content beside an offer of another approves neither.
        raise Unreadable(f"a counter_patch goes with {_WITH_COUNTER_PATCH}, not with {verdict}")
    _check_digest(found["digest"], digest)
    answers = _settlings(found["answers"], asked)
    try:
        unread, read_all = _check_read(found["files"], parts), True
    except Unreadable:
        if verdict == "approved":
            raise
        unread, read_all = [], False
    whole = _whole_reason(reason, found["summary"], unread)
    return ReviewerAnswer(verdict, whole, findings, counter_patch, answers, read_all)


def _checked(where: str, value: Any, schema: dict[str, Any]) -> Any:
    """A value that has the form of a schema, with optional properties filled in.

    Models that no schema holds leave out, or leave empty, optional properties: both mean None.

    Raises:
        Unreadable: It has another form, or a text that cannot be stored; `where` names the place.
    """
    kind, *nullable = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    if value is None and nullable:
        return None
    expected, words = _KINDS[kind]
    # Python counts the truth values among the whole numbers; JSON does not.
    if not isinstance(value, expected) or (isinstance(value, bool) and kind != "boolean"):
        raise Unreadable(f"{where} must be {words}, not {json_kind(value)}")
    if isinstance(value, str):
        _check_text(where, value, ANSWER_LIMIT_BYTES if where == "counter_patch" else TEXT_LIMIT_BYTES)
        return None if nullable and is_blank(value) else value
    if kind == "array":
        entries = cast("list[Any]", value)
        if len(entries) > _MOST[where]:
            raise Unreadable(f"there are {len(entries)} {where}; {_MOST[where]} is the most")
        return [_checked(f"{where}[{place}]", entry, schema["items"]) for place, entry in enumerate(entries)]
    if kind == "object":
        return _checked_object(where, cast("dict[str, Any]", value), schema["properties"])
    return cast("int", value)


def _checked_object(where: str, found: dict[str, Any], properties: dict[str, Any]) -> dict[str, Any]:
    for name in found:
        if name not in properties:
            allowed = ", ".join(properties)
            raise Unreadable(f"{where or 'the answer'} has the property {_quoted(name)}; it may have {allowed}")
    read: dict[str, Any] = {}
    for name, schema in properties.items():
        place = f"{where}.{name}" if where else name
        if name not in found and isinstance(schema["type"], str) and schema["type"] != "array":
            raise Unreadable(f"{place} is missing")
        read[name] = _checked(place, found.get(name, [] if schema["type"] == "array" else None), schema)
    return read


def _finding(where: str, found: dict[str, Any], files: frozenset[str] | None) -> ReportedFinding:
    file, line, end_line = found["file"], found["line"], found["end_line"]
    severity = severity_of(found["severity"])
    if severity is None:
        raise Unreadable(f"{where}.severity is {_quoted(found['severity'])}; it must be one of {', '.join(SEVERITIES)}")
    if is_blank(found["claim"]):
        raise Unreadable(f"{where}.claim is empty")
    if file is not None and len(file) > _PATH_LENGTH:
        raise Unreadable(f"{where}.file has {len(file)} characters; {_PATH_LENGTH} is the most")
    for name in ("line", "end_line"):
        if found[name] is not None and not 1 <= found[name] <= _LAST_LINE:
            raise Unreadable(f"{where}.{name} must be from 1 to {_LAST_LINE}, or null")
    if line is None and (end_line is not None or found["suggestion"] is not None):
        raise Unreadable(f"{where}.line is null; end_line and suggestion go with a line")
    if line is not None and file is None:
        raise Unreadable(f"{where}.file is null; a line is one of a file")
    if end_line is not None and end_line < line:
        raise Unreadable(f"{where}.end_line is before its line")
    known = file if file is None else next((name for name in _spellings(file) if name in (files or ())), file)
    found |= {"file": known, "severity": severity, "pre_existing": bool(found["pre_existing"])}
    return ReportedFinding(**found)


def _settlings(found: list[dict[str, Any]], asked: Mapping[str, str]) -> tuple[SettledFinding, ...]:
    """What becomes of the earlier findings, of which none may be left out.

    Raises:
        Unreadable: One is left out, is there twice, was not asked about, or is in no state that takes the answer.
    """
    left = dict(asked)
    answers: list[SettledFinding] = []
    for at, entry in enumerate(found):
        one, where = SettledFinding(**entry), f"answers[{at}]"
        state = left.pop(one.finding_id, None)
        if state is None:
            twice = "is answered twice" if one.finding_id in asked else "is none that the task asks about"
            raise Unreadable(f"{where}.finding_id {_quoted(one.finding_id)} {twice}")
        if one.answer == "reopened" and state in {"open", "reopened"}:
            # It stays as it is.
            continue
        if one.answer not in _SETTLINGS or state not in STEPS[one.answer]:
            raise Unreadable(f"{where}.answer is {_quoted(one.answer)}, which a finding that is {state} does not take")
        if one.answer == "reopened" and one.reason is None:
            raise Unreadable(f"{where}.reason is missing: reopened needs one")
        answers.append(one)
    if left:
        raise Unreadable(f"answers says nothing of {len(left)} earlier findings: {', '.join([*left][:_NAMED])}")
    return tuple(answers)


def _check_digest(named: str | None, digest: str | None) -> None:
    if named == digest:
        return
    said, meant = (
        "no digest" if one is None else f"the digest {_quoted(one, _QUOTED_LENGTH // 2)}" for one in (named, digest)
    )
    raise Unreadable(f"the answer names {said}; the round under review has {meant}")


def _check_read(found: list[dict[str, Any]], parts: Sequence[Part]) -> list[str]:
    """Insist that every part was read to its end; those that cannot be read, with the reason.

    Raises:
        Unreadable: One was not, or is not shown to have been.
    """
    named = {entry["file"]: entry for entry in found}
    unread: list[str] = []
    for number, part in enumerate(parts, 1):
        entry = named.get(number)
        which = f"file {number} of {len(parts)}" + (f", {_quoted(part.path)}" if part.path else "")
        if entry is None:
            raise Unreadable(f"it approves without a word on {which}: a file that was not read cannot be approved")
        if entry["unread"] is not None:
            if not part.may_be_unread:
                raise Unreadable(f"it approves {which}, unread, although that has lines to read")
            unread.append(f"- {part.path}: {entry['unread']}")
            continue
        if not secrets.compare_digest((entry["nonce"] or "").encode(), part.nonce.encode()):
            raise Unreadable(f"it approves {which} without the nonce behind it: it was not read to its end")
        if entry["looked_at"] is None:
            raise Unreadable(f"it approves {which} and does not say which parts were looked at")
    return unread


def _spellings(file: str) -> Iterator[str]:
    """A file's name, then without what models take over from the headers of a diff and from other systems."""
    yield file
    slashed = file.replace("\\", "/")
    yield slashed
    yield from (slashed.removeprefix(prefix) for prefix in ("./", "a/", "b/"))


def _whole_reason(reason: str, summary: str | None, unread: list[str]) -> str | None:
    parts = [] if is_blank(reason) else [reason]
    if summary is not None:
        parts.append(f"Checked: {summary}")
    if unread:
        parts.append("\n".join(["Not read:", *unread]))
    whole = "\n\n".join(parts)
    _check_text("the reason, with the summary,", whole, TEXT_LIMIT_BYTES)
    return whole or None
