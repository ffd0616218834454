"""What an agent is about to write: the gate's own files never, documents of GSD if exactly that is approved."""

from __future__ import annotations

import os
import re
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from tandem.errors import TandemError
from tandem.rulings import enforcement, git, next_steps, state
from tandem.rulings.ask import GateClient, Refused, Unreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tandem.rulings.state import GateFile

FOLDER = ".planning"
_LARGEST_BYTES = 2_000_000
_ABSENT = "000000"
_REGULAR = "100644"


class UnknownContent(Exception):
    """What a file would hold cannot be told before it is written; the text says why."""


class PendingWrite(NamedTuple):
    """A file that would be written.

    Attributes:
        path: Absolute.
        content: Gives what it would hold; null if it would be gone. May raise `UnknownContent` or OSError.
    """

    path: str
    content: Callable[[], bytes | None]


class DocumentKind(NamedTuple):
    """A kind of document that is reviewed before it is written.

    Attributes:
        pattern: The file's name.
        step: The command `tandem gate …` that submits it.
        category: Of the review.
        when_strict: Whether only a strict gate asks for it.
        unfinished: How it begins as long as it is no report yet; null if it is one from the first line on.
    """

    pattern: re.Pattern[str]
    step: str
    category: str
    when_strict: bool = False
    unfinished: re.Pattern[bytes] | None = None


def _named(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?:.*-)?(?:{words})\.md", re.IGNORECASE)


# GSD notes each result of a test in it while a person tests, and sets another status in the end.
_TESTING = re.compile(rb"---\r?\n(?:(?!---)[^\n]*\n)*?status:[ \t]*testing[ \t]*\r?\n")

_KINDS = (
    DocumentKind(_named("CONTEXT"), "context", "handoff"),
    DocumentKind(_named("VERIFICATION"), "verification", "verification"),
    DocumentKind(_named("UAT"), "verification", "verification", unfinished=_TESTING),
    DocumentKind(_named("PLAN"), "plan", "plan_review", when_strict=True),
)


def refusal(tool: str, given: dict[str, Any], folder: str) -> list[str] | None:
    """Why a tool may not write, and what to do; null if it may.

    Args:
        tool: Its name, with the client that has it.
        given: Its input.
        folder: Where the agent works.

    Raises:
        Unclear: A patch cannot be read.
        GateUnreadable: Whether the gate is on cannot be read.
    """
    for writing in _writings(tool, given, folder):
        if state.own_gate(writing.path) is not None:
            return [
                f"{writing.path} is the gate's own, and no part of your work.",
                "Leave it alone: 'tandem gate status' shows what it holds, and a person changes it.",
            ]
        kind = _kind_of(writing.path)
        gate = state.find_enabled(os.path.dirname(writing.path)) if kind is not None else None
        if kind is None or gate is None or (kind.when_strict and not gate.strict):
            continue
        try:
            with GateClient(gate, starts=True) as asker:
                reasons = _ruling(gate, asker, kind, writing)
        except (Unreachable, Refused, TandemError, OSError) as error:
            reasons = _trouble(error)
        if reasons is not None:
            return reasons
    return None


def _kind_of(path: str) -> DocumentKind | None:
    folders = os.path.normpath(path).replace("\\", "/").split("/")
    if FOLDER not in (folder.lower() for folder in folders[:-1]):
        return None
    return next((kind for kind in _KINDS if kind.pattern.fullmatch(folders[-1])), None)


def _ruling(gate: GateFile, asker: GateClient, kind: DocumentKind, writing: PendingWrite) -> list[str] | None:
    if enforcement.enforcement(gate, git.branch(gate.place)) == enforcement.OPTIMISTIC:
        return None
    real = os.path.join(os.path.realpath(os.path.dirname(writing.path)), os.path.basename(writing.path))
    path = os.path.relpath(real, os.path.realpath(gate.place.top or gate.root)).replace(os.sep, "/")
    try:
        content = writing.content()
    except UnknownContent as error:
        return [f"What {path} would hold cannot be told: {error}.", "Write the whole file instead, as it was approved."]
    is_unfinished = kind.unfinished is not None and content is not None and kind.unfinished.match(content)
    if content is None or content == _present(writing.path) or is_unfinished:
        return None
    if len(content) > _LARGEST_BYTES:
        return [f"{path} would have more than {_LARGEST_BYTES} bytes, which no review takes. Make it shorter."]
    blob = git.run(gate.place, ["hash-object", "-t", "blob", "--stdin"], stdin=content).text
    # As a new file: an approved text is asked for by its path and bytes alone.
    before = {"mode_before": _ABSENT, "blob_before": "0" * len(blob)}
    decision = asker.check_gate([{"path": path, **before, "mode_after": _REGULAR, "blob_after": blob}])
    return None if decision["allowed"] is True else _refused(asker, decision, kind, path)


def _refused(asker: GateClient, decision: dict[str, Any], kind: DocumentKind, path: str) -> list[str]:
    if decision.get("code") is not None:
        from tandem.hooks import checks  # few projects have any

        return checks.explained(asker, decision, f"What {path} would hold", "write exactly that text")
    reason = next((one["reason"] for one in decision["paths"] if not one["allowed"]), decision["reason"])
    refused = f"{path} may be written when exactly this content is approved; it is not: {reason}."
    waiting = [next_steps.wait(one["review_id"]) for one in asker.concerned(decision) if one["next_action"] == "wait"]
    if waiting:
        return [refused, *(f"Wait for it: {one}" for one in waiting), "When it is approved, write exactly that text."]
    return [
        refused,
        "Write the text to a file outside of .planning, have it reviewed, and wait for the verdict:",
        f"  tandem gate {kind.step} {path} --content FILE",
        f"(over MCP: create_review with category={kind.category}, path={path}, description=the whole text.)",
        "When it is approved, write exactly that text. The skill tandem-review has the rest.",
    ]


def _trouble(error: Exception) -> list[str]:
    """What keeps an answer away, and what to do: nothing passes then."""
    if isinstance(error, Unreachable):
        return [f"The gate is on and cannot be asked. {error}", "Until the broker answers, nothing passes."]
    if isinstance(error, Refused):
        return [f"The broker refuses: {error}"]
    return [
        f"Whether this is approved cannot be found out: {error}",
        "Mend that, or ask the person who works here.",
    ]


def _present(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read(_LARGEST_BYTES + 1)
    except OSError:
        return None


def _writings(tool: str, given: dict[str, Any], folder: str) -> Iterator[PendingWrite]:
    """The files that a call of a tool would write; none for a tool that does not write."""
    if tool == "apply_patch":
        yield from _patched(given["command"], folder)
    elif tool in {"Write", "write_file"}:
        yield PendingWrite(os.path.join(folder, given["file_path"]), given["content"].encode)
    elif tool in {"Edit", "MultiEdit", "replace"}:
        path = os.path.join(folder, given["file_path"])
        yield PendingWrite(path, lambda: _edited(path, given.get("edits", [given])))


def _edited(path: str, edits: list[dict[str, Any]]) -> bytes:
    """What a file holds after texts in it are replaced."""
    text, line_end = _lines_of(path)
    for edit in edits:
        old, new = edit["old_string"], edit["new_string"]
        if not old:
            if text:
                raise UnknownContent("an edit without an old text is for a file that is not there yet")
            text = new
            continue
        if old not in text:
            # The clients then look for something like it.
            raise UnknownContent("the old text is not in the file exactly")
        everywhere = bool(edit.get("replace_all") or edit.get("allow_multiple"))
        # Of several places the clients refuse one edit themselves.
        text = text.replace(old, new) if everywhere else text.replace(old, new, 1)
    return text.replace("\n", line_end).encode()


def _lines_of(path: str) -> tuple[str, str]:
    """A file's text with the line ends that the clients see, and the one that they write."""
    try:
        with open(path, "rb") as file:
            text = file.read().decode()
    except FileNotFoundError:
        return "", "\n"
    except UnicodeDecodeError as error:
        raise UnknownContent("the file is not UTF-8") from error
    return text.replace("\r\n", "\n"), "\r\n" if "\r\n" in text else "\n"


# Codex's patches.

_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_FILE = re.compile(r"\*\*\* (Add|Delete|Update) File: (.*)")
_MOVE, _END_OF_FILE = "*** Move to: ", "*** End of File"
_HUNK = "@@"
_CHANGES_FOLDER = re.compile(r"\s*cd\s+(?:'([^']*)'|\"([^\"]*)\"|(\S+))\s*(?:&&|;)")


class _Section:
    """What a patch says of one file; `path` becomes `moved_to` where that is set."""

    def __init__(self, kind: str, path: str) -> None:
        self.kind = kind
        self.path = path
        self.moved_to: str | None = None
        self.lines: list[str] = []


def _patched(text: str, folder: str) -> Iterator[PendingWrite]:
    """The files of the patches in a text, which may be a command that changes the folder first.

    Raises:
        Unclear: A patch in it is not whole.
    """
    if (moved := _CHANGES_FOLDER.match(text)) is not None:
        folder = os.path.join(folder, next(part for part in moved.groups() if part is not None))
    for section in _sections(text):
        path = os.path.join(folder, section.path)
        target = os.path.join(folder, section.moved_to or section.path)
        if section.moved_to:
            yield PendingWrite(path, lambda: None)
        yield PendingWrite(target, partial(_after, section, path))


def _sections(text: str) -> list[_Section]:
    found: list[_Section] = []
    section: _Section | None = None
    is_inside = False
    for line in (line.removesuffix("\r") for line in text.split("\n")):
        if not is_inside or line.strip().startswith(_END):
            is_inside, section = not is_inside and line.strip().endswith(_BEGIN), None
        elif (named := _FILE.match(line)) is not None:
            section = _Section(named[1], named[2].strip())
            found.append(section)
        elif section is not None and line.startswith(_MOVE):
            section.moved_to = line.removeprefix(_MOVE).strip()
        elif section is not None:
            section.lines.append(line)
        elif line.strip():
            raise UnknownContent("the patch does not begin with a file")
    if is_inside:
        raise UnknownContent("the patch has no end")
    return found


def _after(section: _Section, path: str) -> bytes | None:
    """What a file would hold; null if it would be gone.

    Raises:
        Unclear: The patch does not fit exactly: Codex then looks for the nearest place.
    """
    if section.kind == "Delete":
        return None
    if section.kind == "Add":
        if any(not line.startswith("+") for line in section.lines):
            raise UnknownContent(f"a line of the new file {section.path} does not begin with +")
        return "".join(f"{line[1:]}\n" for line in section.lines).encode()
    lines = _lines_of(path)[0].split("\n")
    if not lines[-1]:
        lines.pop()
    at = 0
    for anchor, hunk, at_end in _hunks(section):
        if anchor is not None:
            at = _find(lines, [anchor], at, section.path) + 1
        old = [line[1:] for line in hunk if line[:1] != "+"]
        new = [line[1:] for line in hunk if line[:1] != "-"]
        if not old:
            at = len(lines)
        else:
            at = _find(lines, old, max(at, len(lines) - len(old)) if at_end else at, section.path)
        lines[at : at + len(old)] = new
        at += len(new)
    return "".join(f"{line}\n" for line in lines).encode()


def _hunks(section: _Section) -> list[tuple[str | None, list[str], bool]]:
    """Each hunk: the line that it comes after, its lines, whether it ends the file."""
    found: list[tuple[str | None, list[str], bool]] = []
    for line in section.lines:
        if line.startswith(_HUNK):
            found.append((line.removeprefix(_HUNK).removeprefix(" ") or None, [], False))
        elif line == _END_OF_FILE:
            if found:
                found[-1] = (*found[-1][:2], True)
        elif line[:1] in {" ", "+", "-"} or not line:
            if not found:
                found.append((None, [], False))
            found[-1][1].append(line or " ")
        else:
            raise UnknownContent(f"a line of the change to {section.path} begins with neither a space nor + nor -")
    return found


def _find(lines: Sequence[str], wanted: Sequence[str], start: int, path: str) -> int:
    for at in range(start, len(lines) - len(wanted) + 1):
        if list(lines[at : at + len(wanted)]) == list(wanted):
            return at
    raise UnknownContent(f"the patch does not fit {path} exactly")
