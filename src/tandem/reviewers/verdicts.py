"""What a reviewer program answered, read strictly, and what became of its run.

Whatever is not plainly an answer is refused: a refused run is tried again, a wrong approval stands.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, cast

from tandem.domain.texts import json_kind
from tandem.reviewers.answer_schema import (
    ANSWER_LIMIT_BYTES,
    COMMENT_FIELDS,
    COMMENT_LIMIT,
    DECISIONS,
    FIELDS,
    SCHEMA,
    TEXT_LIMIT_BYTES,
    WITH_COUNTER_PATCH,
    Decision,
)
from tandem.reviewers.answer_text import QUOTED_LENGTH, Unreadable, check_text, only_object, quoted

__all__ = ["SCHEMA", "Answer", "Decision", "LineComment", "Outcome", "Unreadable", "WrongDigest"]
__all__ += ["outcome_of", "read_answer"]

_PATH_LENGTH = 4096
_LAST_LINE = 2**31 - 1
"""As long and as large as the broker takes them."""


class WrongDigest(Exception):
    """The answer is about other content than was to be reviewed; the message names both."""


@dataclass(frozen=True, slots=True)
class LineComment:
    """A finding at its place; `line` is null when it concerns the whole file."""

    file: str
    line: int | None
    body: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a reviewer decided, as `submit_verdict` takes it."""

    verdict: Decision
    reason: str | None
    comments: tuple[LineComment, ...] = ()
    counter_patch: str | None = None

    def arguments(self) -> dict[str, Any]:
        """Those arguments of `submit_verdict` that come from the answer."""
        comments = [{"file": one.file, "line": one.line, "body": one.body} for one in self.comments]
        return {
            "verdict": self.verdict,
            "reason": self.reason,
            "comments": comments,
            "counter_patch": self.counter_patch,
        }


def read_answer(text: str, *, nonce: str, digest: str | None, files: frozenset[str] | None) -> Answer:
    """The answer that a program gave: one JSON object and nothing else, with the nonce of its run.

    A proposal can hold whole answers, and a program may quote them. It cannot hold the nonce, which is drawn when the
    round is fixed already.

    A comment on a file that the change does not touch moves into the reason, as does the summary: that
    something elsewhere breaks is worth saying, but there is no line of the change to show it at.

    Args:
        text: What the program wrote.
        nonce: What its prompt told this run to name.
        digest: The digest of the round that was reviewed; null if it has none.
        files: The paths that the change touches; null if every file may be commented on.

    Raises:
        Unreadable: It is not one object alone, does not have the schema's form, or lacks the nonce.
        WrongDigest: The answer is about other content.
    """
    check_text("the answer", text, ANSWER_LIMIT_BYTES)
    found = only_object(text)
    _check_names("the answer", found, FIELDS)
    if not secrets.compare_digest(_text(found, "nonce").encode(), nonce.encode()):
        raise Unreadable("nonce is not the one that this run was told to name: this is no answer of its own")
    verdict = _verdict(found)
    reason = _text(found, "reason")
    comments = _comments(found.get("comments", []))
    summary = _text_or_none(found, "summary")
    counter_patch = _text_or_none(found, "counter_patch", ANSWER_LIMIT_BYTES)
    named = _text_or_none(found, "digest")
    if verdict != "approved" and not reason.strip():
        raise Unreadable(f"reason is empty, and {verdict} needs one that the proposer can act on")
    if counter_patch is not None and verdict != WITH_COUNTER_PATCH:
        # To approve one content and to offer another is to approve neither.
        raise Unreadable(f"a counter_patch goes with {WITH_COUNTER_PATCH}, not with {verdict}")
    _check_digest(named, digest)
    inside, outside = _by_place(comments, files)
    return Answer(verdict, _whole_reason(reason, summary, outside), inside, counter_patch)


def _verdict(found: dict[str, Any]) -> Decision:
    stated = _text(found, "verdict")
    for decision in DECISIONS:
        if stated == decision:
            return decision
    why = "decides nothing" if stated == "comment" else "is unknown"
    raise Unreadable(f"the verdict {quoted(stated)} {why}; it must be one of {', '.join(DECISIONS)}")


def _comments(stated: Any) -> list[LineComment]:
    if not isinstance(stated, list):
        raise Unreadable(f"comments must be an array, not {json_kind(stated)}")
    entries = cast("list[Any]", stated)
    if len(entries) > COMMENT_LIMIT:
        raise Unreadable(f"there are {len(entries)} comments; {COMMENT_LIMIT} is the most")
    return [_comment(f"comments[{place}]", entry) for place, entry in enumerate(entries)]


def _comment(where: str, stated: Any) -> LineComment:
    if not isinstance(stated, dict):
        raise Unreadable(f"{where} must be an object, not {json_kind(stated)}")
    found = cast("dict[str, Any]", stated)
    _check_names(where, found, COMMENT_FIELDS)
    file = _text(found, "file", prefix=f"{where}.")
    body = _text(found, "body", prefix=f"{where}.")
    if not file.strip() or not body.strip():
        raise Unreadable(f"{where}.{'body' if file.strip() else 'file'} is empty")
    if len(file) > _PATH_LENGTH:
        raise Unreadable(f"{where}.file has {len(file)} characters; {_PATH_LENGTH} is the most")
    return LineComment(file, _line(where, found.get("line")), body)


def _line(where: str, stated: Any) -> int | None:
    if stated is None:
        return None
    # Python counts the truth values among the whole numbers; JSON does not.
    if not isinstance(stated, int) or isinstance(stated, bool):
        raise Unreadable(f"{where}.line must be a whole number or null, not {json_kind(stated)}")
    if not 1 <= stated <= _LAST_LINE:
        raise Unreadable(f"{where}.line must be from 1 to {_LAST_LINE}, or null")
    return stated


def _text(found: dict[str, Any], name: str, limit_bytes: int = TEXT_LIMIT_BYTES, *, prefix: str = "") -> str:
    where = prefix + name
    if name not in found:
        raise Unreadable(f"{where} is missing")
    stated = found[name]
    if not isinstance(stated, str):
        raise Unreadable(f"{where} must be a text, not {json_kind(stated)}")
    check_text(where, stated, limit_bytes)
    return stated


def _text_or_none(found: dict[str, Any], name: str, limit_bytes: int = TEXT_LIMIT_BYTES) -> str | None:
    """A text that may be null. Models that no schema holds leave it out or empty: they mean the same."""
    if found.get(name) is None:
        return None
    text = _text(found, name, limit_bytes)
    return text if text.strip() else None


def _check_names(where: str, found: dict[str, Any], allowed: tuple[str, ...]) -> None:
    unknown = next((name for name in found if name not in allowed), None)
    if unknown is not None:
        raise Unreadable(f"{where} has the property {quoted(unknown)}; it may have {', '.join(allowed)}")


def _check_digest(named: str | None, digest: str | None) -> None:
    if named == digest:
        return
    said, meant = (
        "no digest" if one is None else f"the digest {quoted(one, QUOTED_LENGTH // 2)}" for one in (named, digest)
    )
    raise WrongDigest(f"the answer names {said}; what was to be reviewed has {meant}")


def _by_place(
    comments: list[LineComment], files: frozenset[str] | None
) -> tuple[tuple[LineComment, ...], list[LineComment]]:
    """The comments on files of the change, by their names there, and those on other files."""
    if files is None:
        return tuple(comments), []
    inside: list[LineComment] = []
    outside: list[LineComment] = []
    for one in comments:
        known = next((name for name in _spellings(one.file) if name in files), None)
        if known is None:
            outside.append(one)
        else:
            inside.append(LineComment(known, one.line, one.body))
    return tuple(inside), outside


def _spellings(file: str) -> Iterator[str]:
    """A file's name, then without what models take over from the headers of a diff and from other systems."""
    yield file
    slashed = file.replace("\\", "/")
    yield slashed
    yield from (slashed.removeprefix(prefix) for prefix in ("./", "a/", "b/"))


def _whole_reason(reason: str, summary: str | None, outside: list[LineComment]) -> str | None:
    parts = [reason] if reason.strip() else []
    if summary is not None:
        parts.append(f"Checked: {summary}")
    if outside:
        places = ((one, f"{one.file}:{one.line}" if one.line else one.file) for one in outside)
        parts.append("On files outside the change:\n" + "\n".join(f"- {place}: {one.body}" for one, place in places))
    whole = "\n\n".join(parts)
    check_text("the reason, with the summary and the comments outside the change,", whole, TEXT_LIMIT_BYTES)
    return whole or None


class Outcome(StrEnum):
    """How a reviewer's run ended. Only a verdict changes the review."""

    VERDICT = "verdict"
    """The program answered, and the answer counts."""
    NO_VERDICT = "no_verdict"
    """The program ended in order and said nothing."""
    UNREADABLE = "unreadable"
    """It said something that is no answer, or not to what it was asked."""
    TIMEOUT = "timeout"
    """It took too long, or was silent for too long."""
    CRASHED = "crashed"
    """It ended with an error, or by a signal."""
    CANCELLED = "cancelled"
    """It was ended because its verdict was not wanted any more."""


class Ended(Protocol):
    """What has to be known of a program that has run."""

    @property
    def exit_code(self) -> int | None:
        """Its exit status; null if there is none."""
        ...

    @property
    def ended_by(self) -> str:
        """`itself`, `timeout`, `silence`, `cancelled` or `too_much_output`."""
        ...

    @property
    def output_was_cut(self) -> bool:
        """Whether some of what it wrote was dropped."""
        ...


_ENDED_BY_US: dict[str, Outcome] = {
    "cancelled": Outcome.CANCELLED,
    "timeout": Outcome.TIMEOUT,
    "silence": Outcome.TIMEOUT,
    "too_much_output": Outcome.UNREADABLE,
}


def outcome_of(finished: Ended, answer: Answer | Unreadable | WrongDigest | None) -> Outcome:
    """What became of a run. How the program ended counts first: no answer makes up for a failure.

    Args:
        finished: How the program ended.
        answer: What `read_answer` made of its words, or raised; null if it wrote none at all.
    """
    if finished.ended_by != "itself":
        return _ENDED_BY_US.get(finished.ended_by, Outcome.CRASHED)
    if finished.exit_code != 0:
        return Outcome.CRASHED
    if answer is None:
        return Outcome.NO_VERDICT
    return Outcome.VERDICT if isinstance(answer, Answer) and not finished.output_was_cut else Outcome.UNREADABLE
