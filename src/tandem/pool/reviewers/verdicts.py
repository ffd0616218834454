"""The answer of a reviewer's program: the form that it is asked for, and reading it, strictly.

A text that is not plainly an answer is refused: a refused run is tried again, a wrong approval stands.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal, cast

from tandem.core.texts import json_kind
from tandem.core.visible import is_blank
from tandem.git.hunks import split_files
from tandem.pool.reviewers import Finished, ProgramOutput

Decision = Literal["approved", "changes_requested", "rejected"]

DECISIONS: Final[tuple[Decision, ...]] = ("approved", "changes_requested", "rejected")
_WITH_COUNTER_PATCH: Final[Decision] = "changes_requested"
"""The only one that a counter-patch goes with."""

ANSWER_LIMIT_BYTES: Final = 1_000_000
TEXT_LIMIT_BYTES: Final = 64_000
"""Of the reason and of each comment; a counter-patch has the whole answer's limit."""

COMMENT_LIMIT: Final = 200
_MOST: Final = {"comments": COMMENT_LIMIT, "files": 20_000}


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    """An object with exactly these properties, as the strictest of the providers wants it declared."""
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


_READ: dict[str, Any] = _closed(
    {
        "file": {"type": "integer", "description": "The file's number in the task."},
        "nonce": {"type": ["string", "null"], "description": "The nonce that stands behind the file, exactly."},
        "looked_at": {"type": ["string", "null"], "description": "In a few words, what you looked at in it."},
        "unread": {
            "type": ["string", "null"],
            "description": "Only for a binary or generated file: why it cannot be read. Else null.",
        },
    }
)

_COMMENT: dict[str, Any] = _closed(
    {
        "file": {"type": "string", "description": "The file's path from the root of the repository."},
        "line": {
            "type": ["integer", "null"],
            "description": "The line, from 1, as the change leaves the file; null for the file as a whole.",
        },
        "body": {"type": "string", "description": "The defect, its consequence, and the remedy."},
    }
)

# What leads to the verdict stands before it: a model writes the fields in this order.
SCHEMA: Final[dict[str, Any]] = _closed(
    {
        # Its value stands in the prompt alone: a schema is an argument of some programs, which others can read.
        "nonce": {"type": "string", "description": "The nonce that the task tells you to name, exactly."},
        "digest": {
            "type": ["string", "null"],
            "description": "The digest that the task tells you to name, exactly; null if it says null.",
        },
        "files": {
            "type": "array",
            "description": "What you read, an entry for each file of the task, in their order.",
            "items": _READ,
        },
        "summary": {
            "type": ["string", "null"],
            "description": "What you read and checked, in a sentence or two.",
        },
        "comments": {
            "type": "array",
            "description": f"Every finding that has a place, at most {COMMENT_LIMIT}; empty if there is none.",
            "items": _COMMENT,
        },
        "reason": {
            "type": "string",
            "description": "Why, so that the proposer can act on it; never empty unless the verdict is approved.",
        },
        "verdict": {"type": "string", "enum": [*DECISIONS]},
        "counter_patch": {
            "type": ["string", "null"],
            "description": "Only with changes_requested: the full replacement of the proposal. Else null.",
        },
    }
)
"""Within what structured outputs of all providers support: no lengths, no ranges."""

_KINDS: Final = {
    "object": (dict, "an object"),
    "array": (list, "an array"),
    "string": (str, "a text"),
    "integer": (int, "a whole number or null"),
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
    "comments": [
        {
            "file": "src/amounts.py",
            "line": 42,
            "body": "parse_amount('1,50') raises ValueError here, which the import in orders.py no longer catches: "
            "one such line stops the whole import. Catch it there and count the line as refused.",
        }
    ],
    "reason": "An amount with a comma now stops the import of orders (see src/amounts.py:42). "
    "Handle it, and add a test that imports one.",
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
class Part:
    """One file of the round, or a text that is all of it.

    Attributes:
        path: The file; None for a text that is no file's.
        text: The file's part of the diff, or the text.
        nonce: The number behind it in the prompt, and nowhere else: a model that names it got as far as that.
        may_be_unread: Whether it has no lines that anybody reads: it is binary, or generated by a program.
    """

    path: str | None
    text: str
    nonce: str
    may_be_unread: bool = False


_NONCE_BYTES = 16
_PART_NONCE_BYTES = 6


def parts_of(
    diff: str | None, text: str | None, path: str | None = None, unread: Collection[str] = ()
) -> tuple[Part, ...]:
    """What a round consists of, each part with a nonce that was drawn just now.

    Args:
        diff: The whole diff; None for a round that is a text.
        text: The text of such a round; None for one that has none.
        path: Its file, if it has one.
        unread: The files that need not be read.
    """

    def part(path: str | None, text: str) -> Part:
        return Part(path, text, secrets.token_hex(_PART_NONCE_BYTES), path in unread)

    if diff is None:
        return () if text is None else (part(path, text),)
    return tuple(part(file.path, its) for file, its in split_files(diff)) or (part(None, diff),)


_PIECE = 8
"""Digits: so many in a row that belong to a number of this run are hidden."""
_NUMBER = 64
"""Digits: no number has more."""
_LONGEST = 512
"""Digits: more in a row are no text, and not looked through."""

_DIGITS = re.compile(rb"[0-9a-fA-F]{%d,}" % _PIECE)
_DIGITS_ALONE = bytes(code if chr(code) in "0123456789abcdefABCDEF" else ord(" ") for code in range(256))
_AT_END = re.compile(rb"[0-9a-fA-F]+\Z")


class Redactor:
    """Writes stars for the one-time numbers of one run, which are kept out of all that is written down.

    They prove that an answer is the run's own, and that it was read to its end: while a program runs, no one else may
    know them. A program may write them anywhere, in pieces too, as models stream their words.
    """

    def __init__(self, numbers: Iterable[str] = ()) -> None:
        """Know the numbers, which are hexadecimal digits."""
        self._pieces: set[bytes] = set()
        self.add(numbers)

    def add(self, numbers: Iterable[str]) -> None:
        """Know further numbers."""
        texts = [one.encode() for one in numbers]
        self._pieces |= {one[at : at + _PIECE] for one in texts for at in range(len(one) - _PIECE + 1)}

    def hide(self, text: bytes) -> bytes:
        """The text with as many stars in place of each number, and of each recognisable piece of one."""
        # A program may write megabytes, and the expression is the slow part.
        if not self._pieces or not any(len(run) >= _PIECE for run in text.translate(_DIGITS_ALONE).split()):
            return text
        return _DIGITS.sub(self._starred, text)

    def hide_in(self, text: str) -> str:
        """As `hide`, in a text."""
        return self.hide(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def ready(self, chunk: bytes) -> tuple[bytes, bytes]:
        """The part of a stream's chunk that can be written, hidden; and its end that may go on in the next chunk."""
        found = _AT_END.search(chunk[-_NUMBER:])
        end = len(chunk) - (len(found.group()) if found else 0)
        return self.hide(chunk[:end]), chunk[end:]

    def _starred(self, found: re.Match[bytes]) -> bytes:
        shown, digits = bytearray(found.group()), found.group().lower()
        if len(digits) > _LONGEST:
            return b"*" * len(digits)
        for at in range(len(digits) - _PIECE + 1):
            if digits[at : at + _PIECE] in self._pieces:
                shown[at : at + _PIECE] = b"*" * _PIECE
        return bytes(shown)


@dataclass(frozen=True, slots=True)
class RunProof:
    """By what an answer proves that it is that of one run.

    Attributes:
        nonce: What the answer has to name.
        parts: What an approval has to have read to the end.
        hidden: Knows the numbers of the run, which nothing that is kept may have.
    """

    nonce: str
    parts: tuple[Part, ...]
    hidden: Redactor

    @classmethod
    def draw(cls, proposal: dict[str, Any]) -> RunProof:
        """One for a run on a round, as `get_proposal` answers it."""
        touched = cast("list[dict[str, Any]]", proposal.get("affected_files") or [])
        is_known = bool(proposal.get("drawn"))
        # By what the broker knows of their bytes, and the project's attributes.
        unread = [one["path"] for one in touched if is_known and (one.get("generated") or one["added"] is None)]
        diff, text, path = (proposal.get(name) for name in ("diff", "description", "path"))
        nonce, parts = secrets.token_hex(_NONCE_BYTES), parts_of(diff, text, path, frozenset(unread))
        return cls(nonce, parts, Redactor([nonce, *(part.nonce for part in parts)]))


@dataclass(frozen=True, slots=True)
class AnswerComment:
    """A finding at its place; `line` is None when it concerns the whole file."""

    file: str
    line: int | None
    body: str


@dataclass(frozen=True, slots=True)
class ReviewerAnswer:
    """What a reviewer decided, as `submit_verdict` takes it."""

    verdict: Decision
    reason: str | None
    comments: tuple[AnswerComment, ...] = ()
    counter_patch: str | None = None

    def hiding(self, hide: Callable[[str], str]) -> ReviewerAnswer:
        """The answer without the numbers of its run in its words.

        Raises:
            Unreadable: Its counter-patch has one, which cannot be left out.
        """
        if self.counter_patch is not None and hide(self.counter_patch) != self.counter_patch:
            raise Unreadable("the counter_patch quotes a nonce")
        comments = tuple(AnswerComment(hide(one.file), one.line, hide(one.body)) for one in self.comments)
        return replace(self, reason=self.reason and hide(self.reason), comments=comments)

    def arguments(self) -> dict[str, Any]:
        """Those arguments of `submit_verdict` that come from the answer."""
        return asdict(self)


def answer_in(
    finished: Finished, reply: ProgramOutput, proposal: dict[str, Any], proof: RunProof
) -> ReviewerAnswer | Unreadable | None:
    """What a program's words are; None if it had none."""
    touched = cast("list[dict[str, Any]]", proposal.get("affected_files") or [])
    names = {file.get(name) for file in touched for name in ("path", "old_path")} | {proposal.get("path")}
    # None where the proposal has no file.
    files = frozenset(name for name in names if name) or None
    try:
        if not finished.output_was_cut:
            _check_output(finished.stdout)
        if reply.text is None:
            return None
        digest = proposal.get("digest")
        answer = read_answer(reply.text, nonce=proof.nonce, digest=digest, files=files, parts=proof.parts)
        return answer.hiding(proof.hidden.hide_in)
    except Unreadable as error:
        return error


def read_answer(
    text: str, *, nonce: str, digest: str | None, files: frozenset[str] | None, parts: Sequence[Part] = ()
) -> ReviewerAnswer:
    """The answer that a program gave: one JSON object and nothing else, with the nonce of its run.

    A proposal can hold whole answers, and a program may quote them. It cannot hold the nonce, which is drawn when the
    round is fixed already.

    A comment on a file that the change does not touch moves into the reason, as does the summary: that
    something elsewhere breaks is worth saying, but there is no line of the change to show it at.

    Args:
        text: What the program wrote.
        nonce: What its prompt told this run to name.
        digest: The digest of the round that was reviewed; None if it has none.
        files: The paths that the change touches; None if every file may be commented on.
        parts: What an approval has to have read to the end.

    Raises:
        Unreadable: It is not one object alone, does not have the schema's form, or lacks the nonce; or it is about
            other content, or approves a file that it does not show to have read.
    """
    _check_text("the answer", text, ANSWER_LIMIT_BYTES)
    found = _checked("", _only_object(text), SCHEMA)
    if not secrets.compare_digest(found["nonce"].encode(), nonce.encode()):
        raise Unreadable("nonce is not the one that this run was told to name: this is no answer of its own")
    verdict, reason, counter_patch = found["verdict"], found["reason"], found["counter_patch"]
    if verdict not in DECISIONS:
        why = "decides nothing" if verdict == "comment" else "is unknown"
        raise Unreadable(f"the verdict {_quoted(verdict)} {why}; it must be one of {', '.join(DECISIONS)}")
    comments = [_comment(f"comments[{place}]", entry) for place, entry in enumerate(found["comments"])]
    if verdict != "approved" and is_blank(reason):
        raise Unreadable(f"reason is empty, and {verdict} needs one that the proposer can act on")
    if counter_patch is not None and verdict != _WITH_COUNTER_PATCH:
        # An approval of one content beside an offer of another approves neither.
        raise Unreadable(f"a counter_patch goes with {_WITH_COUNTER_PATCH}, not with {verdict}")
    _check_digest(found["digest"], digest)
    unread = _check_read(found["files"], parts) if verdict == "approved" else []
    inside, outside = _by_place(comments, files)
    return ReviewerAnswer(verdict, _whole_reason(reason, found["summary"], unread, outside), inside, counter_patch)


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
    if not isinstance(value, expected) or isinstance(value, bool):
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


def _comment(where: str, found: dict[str, Any]) -> AnswerComment:
    for name in ("file", "body"):
        if is_blank(found[name]):
            raise Unreadable(f"{where}.{name} is empty")
    if len(found["file"]) > _PATH_LENGTH:
        raise Unreadable(f"{where}.file has {len(found['file'])} characters; {_PATH_LENGTH} is the most")
    if found["line"] is not None and not 1 <= found["line"] <= _LAST_LINE:
        raise Unreadable(f"{where}.line must be from 1 to {_LAST_LINE}, or null")
    return AnswerComment(**found)


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


def _by_place(
    comments: list[AnswerComment], files: frozenset[str] | None
) -> tuple[tuple[AnswerComment, ...], list[AnswerComment]]:
    """The comments on files of the change, by their names there, and those on other files."""
    if files is None:
        return tuple(comments), []
    inside: list[AnswerComment] = []
    outside: list[AnswerComment] = []
    for one in comments:
        known = next((name for name in _spellings(one.file) if name in files), None)
        if known is None:
            outside.append(one)
        else:
            inside.append(AnswerComment(known, one.line, one.body))
    return tuple(inside), outside


def _spellings(file: str) -> Iterator[str]:
    """A file's name, then without what models take over from the headers of a diff and from other systems."""
    yield file
    slashed = file.replace("\\", "/")
    yield slashed
    yield from (slashed.removeprefix(prefix) for prefix in ("./", "a/", "b/"))


def _whole_reason(reason: str, summary: str | None, unread: list[str], outside: list[AnswerComment]) -> str | None:
    parts = [] if is_blank(reason) else [reason]
    if summary is not None:
        parts.append(f"Checked: {summary}")
    if unread:
        parts.append("\n".join(["Not read:", *unread]))
    if outside:
        places = ((one, f"{one.file}:{one.line}" if one.line else one.file) for one in outside)
        parts.append("On files outside the change:\n" + "\n".join(f"- {place}: {one.body}" for one, place in places))
    whole = "\n\n".join(parts)
    _check_text("the reason, with the summary and the comments outside the change,", whole, TEXT_LIMIT_BYTES)
    return whole or None
