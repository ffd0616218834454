"""What an agent is about to write: the gate's own files never, documents of GSD if exactly that is approved."""

from __future__ import annotations

import os
import re
from functools import partial

from tandem.core.stand_ins import NamedTuple
from tandem.errors import TandemError
from tandem.hooks.commit import kept_back
from tandem.rulings import git, next_steps, planning, state
from tandem.rulings.ask import GateClient
from tandem.rulings.broker_errors import Refused, Unreachable
from tandem.rulings.state import FOLLOWED, FREE
from tandem.rulings.trust import OPTIMISTIC

TYPE_CHECKING = False  # as in `rulings.git`
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

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
        content: Gives its new content; None if it would be gone. May raise `UnknownContent` or OSError.
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
        unfinished: How it begins as long as it is no report yet; None if it is one from the first line on.
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
    """Why a tool may not write, and what to do; None if it may.

    Args:
        tool: Its name, with the client that has it.
        given: Its input.
        folder: Where the agent works.

    Raises:
        UnknownContent: A patch cannot be read.
        GateUnreadable: Whether the gate is on cannot be read.
    """
    for writing in _writings(tool, given, folder):
        if any(map(state.own_gate, state.places(writing.path))):
            return [
                f"{writing.path} is the gate's own, and no part of your work.",
                "Leave it alone: 'tandem gate status' shows its settings, and a person changes it.",
            ]
        for document, kind in _documents(writing.path).items():
            gate = state.find_enabled(os.path.dirname(document))
            if gate is None or (kind.when_strict and not gate.strict):
                continue
            try:
                with GateClient(gate, starts=True) as asker:
                    reasons = _ruling(gate, asker, kind, document, writing)
            except (Unreachable, Refused, TandemError, OSError) as error:
                reasons = _trouble(error)
            if reasons is not None:
                return reasons
    return None


def _documents(path: str) -> dict[str, DocumentKind]:
    """The documents that a path may mean, by their names in resolved folders; mostly none."""
    found: dict[str, DocumentKind] = {}
    for place in state.places(path):
        if (kind := _kind_of(place)) is not None:
            folder, name = os.path.split(place)
            found[os.path.join(os.path.realpath(folder), name)] = kind
    return found


def _kind_of(path: str) -> DocumentKind | None:
    folders = path.replace("\\", "/").split("/")
    if FOLDER not in (folder.lower() for folder in folders[:-1]):
        return None
    return next((kind for kind in _KINDS if kind.pattern.fullmatch(folders[-1])), None)


def _ruling(
    gate: GateFile, asker: GateClient, kind: DocumentKind, document: str, writing: PendingWrite
) -> list[str] | None:
    mode = planning.enforcement(gate, git.branch(gate.place))
    if mode == OPTIMISTIC or (mode in {FREE, FOLLOWED} and not gate.strict):
        return None
    path = os.path.relpath(document, os.path.realpath(gate.place.top or gate.root)).replace(os.sep, "/")
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
        return kept_back(asker, decision, f"What {path} would hold", "write exactly that text")
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
        "Repair that, or ask the person who works here.",
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
_FILE = re.compile(r"\*\*\* (Add File|Delete File|Update File|Move to): (.*)")
_MOVED, _HUNK, _AT_END = "Move to", "@@", "*** End of File"
_CHANGES_FOLDER = re.compile(r"\s*cd\s+(?:'([^']*)'|\"([^\"]*)\"|(\S+))\s*(?:&&|;)")


def _patched(text: str, folder: str) -> Iterator[PendingWrite]:
    """The files of the patches in a text, which may be a command that changes the folder first.

    Raises:
        UnknownContent: A patch in it is not whole.
    """
    if (moved := _CHANGES_FOLDER.match(text)) is not None:
        folder = os.path.join(folder, next(part for part in moved.groups() if part is not None))
    is_inside = False
    kind, path, source, lines = "", "", "", list[str]()
    named_before = set[str]()
    for line in (line.removesuffix("\r") for line in text.split("\n")):
        is_end = line.strip().startswith(_END)
        named = None if is_end or not is_inside else _FILE.match(line)
        if kind and (named or is_end):
            yield PendingWrite(path, partial(_after, kind, source, lines))
            kind = ""
        if not is_inside or is_end:
            is_inside = not is_inside and line.strip().endswith(_BEGIN)
        elif named is not None:
            kind, path, lines = named[1], os.path.join(folder, named[2].strip()), []
            real = state.folded(path)
            # A file that moves is named in the line before. One that was named before is not on the disk as it will be.
            source = source if kind == _MOVED else "" if real in named_before else path
            named_before.add(real)
        elif kind:
            lines.append(line)
        elif line.strip():
            raise UnknownContent("the patch does not begin with a file")
    if is_inside:
        raise UnknownContent("the patch has no end")


def _after(kind: str, source: str, lines: Sequence[str]) -> bytes | None:
    """What a file would hold; None if it would be gone.

    Raises:
        UnknownContent: The patch does not say all of it.
    """
    if kind == "Delete File":
        return None
    if kind != "Add File":
        return _changed(source, lines)
    if any(not line.startswith("+") for line in lines):
        raise UnknownContent("the patch does not have all of it")
    return "".join(f"{line[1:]}\n" for line in lines).encode()


def _changed(path: str, lines: Sequence[str]) -> bytes:
    """What a file holds after the hunks of a patch.

    Raises:
        UnknownContent: It does not have each line exactly: Codex then looks for the place in other ways.
    """
    if not path:
        raise UnknownContent("the patch names the file twice")
    text, line_end = _lines_of(path)
    done, left = "", text.removesuffix("\n") + "\n"
    hunks: list[tuple[str, list[str]]] = [("", [])]
    for line in lines:
        if line.startswith(_HUNK):
            hunks.append((line.removeprefix(_HUNK).removeprefix(" "), []))
        else:
            hunks[-1][1].append(line or " ")
    for after, hunk in hunks if hunks[0][1] else hunks[1:]:
        is_last = hunk[-1:] == [_AT_END]
        body = hunk[:-1] if is_last else hunk
        old, new = ("".join(f"{line[1:]}\n" for line in body if line[0] in signs) for signs in (" -", " +"))
        anchor = rf"^{re.escape(after)}\n.*?" if after else ""
        place = rf"(.*?{anchor})^{re.escape(old)}" + (r"\Z" if is_last else "")
        found = re.match(place, left, re.DOTALL | re.MULTILINE)
        if line_end != "\n" or not old or found is None or any(line[0] not in " +-" for line in body):
            raise UnknownContent("the patch does not fit the file exactly")
        done, left = done + found[1] + new, left[found.end() :]
    return (done + left).encode()
