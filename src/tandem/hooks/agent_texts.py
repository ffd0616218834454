"""Texts of GSD that an agent is about to write: what they would hold, and whether exactly that is approved."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from tandem.hooks import git, modes
from tandem.hooks.agent_gate import TROUBLE, gate_of, in_words
from tandem.hooks.ask import Asker
from tandem.hooks.writings import Unclear

if TYPE_CHECKING:
    from tandem.hooks.state import GateFile
    from tandem.hooks.writings import Writing

FOLDER = ".planning"
_LARGEST_BYTES = 2_000_000
_ABSENT = "000000"
_REGULAR = "100644"


class Kind(NamedTuple):
    """A kind of text that is reviewed before it is written.

    Attributes:
        pattern: The file's name.
        step: The command `tandem gate …` that puts it up.
        category: Of the review.
        when_strict: Whether only a strict hook asks for it.
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
    Kind(_named("CONTEXT"), "context", "handoff"),
    Kind(_named("VERIFICATION"), "verification", "verification"),
    Kind(_named("UAT"), "verification", "verification", unfinished=_TESTING),
    Kind(_named("PLAN"), "plan", "plan_review", when_strict=True),
)


def kind_of(path: str, *, strict: bool) -> Kind | None:
    """The kind of text that a path is to hold; null if it is none that is reviewed before it is written."""
    folders = os.path.normpath(path).replace("\\", "/").split("/")
    if FOLDER not in (folder.lower() for folder in folders[:-1]):
        return None
    found = next((kind for kind in _KINDS if kind.pattern.fullmatch(folders[-1])), None)
    return found if found is not None and (strict or not found.when_strict) else None


def refusal(writing: Writing, *, strict: bool) -> list[str] | None:
    """Why a file may not be written, and what to do; null if it may.

    Args:
        writing: The file.
        strict: Whether plans are asked for too.

    Raises:
        GateUnreadable: Whether the gate is on cannot be read.
    """
    kind = kind_of(writing.path, strict=strict)
    gate = gate_of(os.path.dirname(writing.path)) if kind is not None else None
    if kind is None or gate is None:
        return None
    asker = Asker(gate)
    try:
        return _ruling(gate, asker, kind, writing)
    except TROUBLE as error:
        return in_words(gate, error)
    finally:
        asker.close()


def _ruling(gate: GateFile, asker: Asker, kind: Kind, writing: Writing) -> list[str] | None:
    if modes.leniency(gate, git.branch(gate.place)) == modes.OPTIMISTIC:
        return None
    path = _from_top(gate, writing.path)
    try:
        content = writing.content()
    except Unclear as error:
        return [f"What {path} would hold cannot be told: {error}.", "Write the whole file instead, as it was approved."]
    if content is None or content == _present(writing.path):
        return None
    if kind.unfinished is not None and kind.unfinished.match(content):
        return None
    if len(content) > _LARGEST_BYTES:
        return [f"{path} would have more than {_LARGEST_BYTES} bytes, which no review takes. Make it shorter."]
    decision = asker.call("check_gate", changes=[_change(gate, path, content)])
    return None if decision["allowed"] is True else _explained(kind, path, decision)


def _from_top(gate: GateFile, path: str) -> str:
    real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    return os.path.relpath(real, os.path.realpath(gate.place.top or gate.root)).replace(os.sep, "/")


def _present(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read(_LARGEST_BYTES + 1)
    except OSError:
        return None


def _change(gate: GateFile, path: str, content: bytes) -> dict[str, str]:
    """The text as a new file: an approved text is asked for by its path and bytes alone."""
    blob = git.run(gate.place, ["hash-object", "-t", "blob", "--stdin"], stdin=content).text
    return {
        "path": path,
        "mode_before": _ABSENT,
        "blob_before": "0" * len(blob),
        "mode_after": _REGULAR,
        "blob_after": blob,
    }


def _explained(kind: Kind, path: str, decision: dict[str, Any]) -> list[str]:
    reason = next((one["reason"] for one in decision["paths"] if not one["allowed"]), decision["reason"])
    return [
        f"{path} may be written when exactly this content is approved; it is not: {reason}.",
        "Write the text to a file outside of .planning, have it reviewed, and wait for the verdict:",
        f"  tandem gate {kind.step} {path} --content FILE",
        f"(over MCP: create_review with category={kind.category}, path={path}, description=the whole text.)",
        "When it is approved, write exactly that text. The skill tandem-review has the rest.",
    ]
