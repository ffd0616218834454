"""What a prompt needs besides the proposal: the project's conventions, and what became of earlier rounds."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol, cast

from tandem.errors import InvalidInput, TandemError, TooLarge
from tandem.pool.reviewers.broker_client import Claimed
from tandem.pool.reviewers.prompt import Dossier, Listed, Task
from tandem.pool.reviewers.proof import paths_of
from tandem.present.findings import together
from tandem.reviews.finding_rules import ADVICE, SEVERITIES

CONVENTION_FILES: Final = ("REVIEW.md", "AGENTS.md", "CLAUDE.md", "CONTRIBUTING.md")
"""At the root of the base branch; in this order, since the prompt has room for the beginning."""

_PAGE = 50
_KEPT = 1000
"""Entries of a discussion: the newest; the prompt has room for fewer."""

_DECIDED = "verdict"
_PATCH = "counter_patch"
_FINDING = "finding"
_OF_AGENTS = ("agent", ADVICE)
_OF_CHECK = ("name", "status", "reason", "required", "command", "exit_status", "seconds", "commit", "moved_to", "doubt")
_LOG_CHARACTERS = 6_000

_LONG_PAGE = 200
_LESSON_PAGES = 10
_LESSON_FILES = 1000
"""The broker takes no more at once."""
_LEAST_ROOM = 12_000
"""Characters of findings and lessons that the shortest prompt has room for."""
_SHARE = 10
"""Beyond that they are at most such a part of the rest of the prompt."""
_TEXTS = (4_000, 1_000, 300, 80)
"""Characters of each of their texts: the most for which all of them have room."""


_NO_PART: Final = Task()


class Ask(Protocol):
    """A call to the broker, which the end of the review ends."""

    def __call__(self, operation: str, arguments: dict[str, Any], *, insist: bool = True) -> dict[str, Any]:
        """The data of the answer.

        Raises:
            TandemError: The broker refuses.
            BrokerUnreachable: It does not answer.
            CallCancelled: The answer is not wanted any more.
        """
        ...


def gather(
    ask: Ask, claimed: Claimed, note: Callable[[str], None], task: Task = _NO_PART, sections: Sequence[str] = ()
) -> Dossier:
    """The history and surroundings of a review. A broker that refuses a part costs that part: the proposal counts.

    Args:
        ask: To the broker.
        claimed: The review.
        note: Is told of refusals, and of sections that are not there.
        task: What the reviewer is asked besides.
        sections: The headings in `REVIEW.md` whose sections are wanted.

    Raises:
        BrokerUnreachable: The broker does not answer.
        CallCancelled: The review is given up.
    """
    parts, checks = _conventions(ask, claimed), _checks(ask, claimed)
    asked = {name: _section(parts.get(CONVENTION_FILES[0], ""), name) for name in sections}
    if lacks := [name for name, text in asked.items() if text is None]:
        note(f"review {claimed.review_id}: REVIEW.md of the base branch has no section {', '.join(map(repr, lacks))}")
    conventions = "\n".join(f"[{name}]\n\n{text}" for name, text in parts.items()) or None
    known = _with_findings(
        ask, claimed, Dossier(conventions=conventions, checks=checks, task=task._replace(sections=asked)), note
    )
    try:
        # The newest, oldest first.
        said = [*deque(_rows(ask, "get_discussion", "entries", claimed.request(limit=_PAGE)), _KEPT)]
        interdiff = _interdiff(ask, claimed, said)
    except TandemError as error:
        note(f"the broker refuses what the prompt would say of earlier rounds: {error.code}")
        return known
    earlier = tuple(_decision(entry) for entry in said if _is_decision(entry))
    remarks = (
        entry
        for entry in said
        if not _is_decision(entry) and entry["kind"] != _FINDING and entry.get("resolved_by") is None
    )
    messages = tuple(_picked(one, "round", "at", "author", "sender_role", "body") for one in remarks)
    return known._replace(earlier=earlier, messages=messages, interdiff=interdiff)


# ------------------------------------------------------------------------------------------------- checks


def _checks(ask: Ask, claimed: Claimed) -> tuple[dict[str, Any], ...]:
    """The round's checks, those that did not pass with the end of their log."""
    asked = claimed.request(round=claimed.round)
    shown: list[dict[str, Any]] = []
    try:
        for one in ask("list_checks", asked)["checks"]:
            shown.append(_picked(one, *_OF_CHECK))
            if one["has_log"] and one["status"] != "passed":
                log: str = ask("get_check_log", {**asked, "name": one["name"]})["log"]
                shown[-1]["end_of_log"] = log[-_LOG_CHARACTERS:]
    except TandemError:
        # A refusal costs this part only.
        return ()
    return tuple(shown)


# ----------------------------------------------------------------------------------------------- findings


def _with_findings(ask: Ask, claimed: Claimed, known: Dossier, note: Callable[[str], None]) -> Dossier:
    """The dossier with the open findings, and the lessons of the change's files, as far as there is room for them."""

    def rows(name: str, asked: dict[str, Any], most_pages: int | None = None) -> list[dict[str, Any]]:
        try:
            return [*_rows(ask, f"list_{name}", name, {**asked, "limit": _LONG_PAGE}, most_pages)]
        except TandemError as error:
            note(f"the broker refuses the {name} that the prompt would show: {error.code}")
            return []

    listed = rows("findings", claimed.request(round=claimed.round, status="open"))
    gravest_first = sorted(listed, key=lambda one: SEVERITIES.index(one["severity"]))
    found = [one for group in together(gravest_first) for one in group]
    files = sorted(paths_of(claimed.proposal))[:_LESSON_FILES]
    lessons = rows("lessons", {"project": claimed.project, "files": files}, _LESSON_PAGES) if files else []
    read = sum(len(str(claimed.proposal.get(name) or "")) for name in ("diff", "description"))
    room = max(_LEAST_ROOM, (read + len(json.dumps(claimed.proposal.get("affected_files") or []))) // _SHARE)
    findings, used = _fitted([_open(one) for one in found if one["source"] in _OF_AGENTS], room * 7 // 10)
    of_persons, more = _fitted([_open(one) for one in found if one["source"] == "person"], room * 8 // 10 - used)
    taught = [_picked(one, "file", "category", "claim", "answer", "lines") for one in reversed(lessons)]
    return known._replace(findings=findings, of_persons=of_persons, lessons=_fitted(taught, room - used - more)[0])


def _rows(
    ask: Ask, operation: str, name: str, asked: dict[str, Any], most_pages: int | None = None
) -> Iterator[dict[str, Any]]:
    """The rows of a list that comes by pages."""
    page, pages = None, 0
    while pages != most_pages:
        answer = ask(operation, {**asked, "page": page})
        yield from cast("list[dict[str, Any]]", answer[name])
        page, pages = answer.get("next_page"), pages + 1
        if page is None:
            return


def _open(finding: dict[str, Any]) -> dict[str, Any]:
    """An earlier finding as the prompt shows it: where it stands now, and the answer to it."""
    said = ("finding_id", "severity", "state", "author", "round", "category", "claim", "failure", "answer")
    place = finding["place"] or finding
    where = place if place["file"] is not None else finding
    is_gone = where is not place and finding["file"] is not None
    return {
        **_picked(finding, *said, "settled_reason"),
        **_picked(where, "file", "line", "end_line"),
        **({"pre_existing": True} if finding["pre_existing"] else {}),
        **_picked(finding, "found_in"),
        **({"file_is_gone": True} if is_gone else _picked(place, "changed")),
    }


def _fitted(entries: Sequence[dict[str, Any]], room: int) -> tuple[Listed, int]:
    """The first entries that there is room for, all of them if shorter texts make that possible; and their size."""
    shown: list[dict[str, Any]] = []
    sizes: list[int] = []
    for most in _TEXTS:
        shown = [{name: _cut(value, most) for name, value in one.items()} for one in entries]
        sizes = [len(json.dumps(one, ensure_ascii=False)) + 2 for one in shown]
        if sum(sizes) <= room:
            break
    while sum(sizes) > room:
        sizes.pop()
    return Listed(tuple(shown[: len(sizes)]), len(entries) - len(sizes)), sum(sizes)


def _cut(value: Any, most: int) -> Any:
    is_long = isinstance(value, str) and len(value) > most
    return f"{value[: most - 1]}…" if is_long else value


# ------------------------------------------------------------------------------------------ earlier rounds


def _interdiff(ask: Ask, claimed: Claimed, said: list[dict[str, Any]]) -> str | None:
    rounds = [entry["round"] for entry in said if entry.get("kind") == _DECIDED and entry["round"] < claimed.round]
    if not rounds:
        return None
    # None of the whole diff again.
    asked = claimed.request(round=claimed.round, since_round=max(rounds), files=[])
    return ask("get_proposal", asked).get("interdiff")


def _is_decision(entry: dict[str, Any]) -> bool:
    kind = entry.get("kind")
    return kind == _PATCH or (kind == _DECIDED and entry.get("verdict") != "comment")


def _decision(entry: dict[str, Any]) -> dict[str, Any]:
    """A verdict, or what became of a counter-patch; without its diff, which is another's or has become a round."""
    decided = {"counter_patch": entry.get("status")} if entry.get("kind") == _PATCH else {}
    return {**_picked(entry, "round", "at", "author", "verdict"), **decided, "reason": entry.get("body")}


def _picked(entry: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: entry[name] for name in names if entry.get(name) is not None}


# --------------------------------------------------------------------------------------------- conventions


def _conventions(ask: Ask, claimed: Claimed) -> dict[str, str]:
    """What the files of the base branch say to those who work on the project, by their names.

    Never those of the working folder or of the round's base: its proposer may have written them a moment ago. Links,
    and files that are no text in UTF-8, are passed over.
    """
    parts: dict[str, str] = {}
    for name in CONVENTION_FILES:
        asked = claimed.request(round=claimed.round, path=name, side="tip")
        try:
            found = ask("get_round_file", asked, insist=False)
        except (InvalidInput, TooLarge):
            # A link, or a large file.
            continue
        except TandemError:
            # There is no base commit, or the broker cannot read the repository now: the review goes on without.
            break
        lines = cast("list[str]", found.get("lines") or [])
        if content := "\n".join(lines).removeprefix("\ufeff").strip():
            left = int(found.get("total_lines") or 0) - len(lines)
            parts[name] = f"{content}\n" + (f"[{left} more lines]\n" if left > 0 else "")
    return parts


_HEADING: Final = re.compile(r"(?P<marks>#{1,6})[ \t]+(?P<title>.*?)(?:[ \t]+#+)?[ \t]*")
_FENCE: Final = re.compile(r" {0,3}(?:```|~~~)")


def _section(text: str, name: str) -> str | None:
    """The section of a Markdown text below a heading, with it and its own subsections; None without that heading."""
    found: list[str] = []
    depth, is_code = 0, False
    for line in text.split("\n"):
        is_code ^= _FENCE.match(line) is not None
        heading = None if is_code else _HEADING.fullmatch(line)
        if heading is not None and depth and len(heading["marks"]) <= depth:
            break
        if heading is not None and not depth and heading["title"].casefold() == name.strip().casefold():
            depth = len(heading["marks"])
        if depth:
            found.append(line)
    return "\n".join(found).strip() or None
