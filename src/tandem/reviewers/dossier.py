"""What a prompt needs besides the proposal: the project's conventions, and what became of earlier rounds."""

from __future__ import annotations

import os
import stat
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from tandem.reviewers import wsl
from tandem.reviewers.lease import Claimed
from tandem.reviewers.logs import RotatingLog
from tandem.reviewers.wire import Refused, Wire

CONVENTION_FILES: Final = ("AGENTS.md", "CLAUDE.md", "CONTRIBUTING.md")
"""At the root of a project; in this order, since the prompt has room for the beginning."""

FILE_LIMIT_BYTES: Final = 64 * 1024
"""What is read of each: more than the prompt has room for."""

_PAGE = 50
_PAGES = 100
_KEPT = 1000
"""Entries of a discussion: the newest; the prompt has room for fewer."""

_DECIDED = "verdict"
_SAID_BY_VERDICT = "comment"
_PATCH = "counter_patch"
_OPENING = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""No link at the last moment, and no waiting for whoever writes into a pipe."""


@dataclass(frozen=True, slots=True)
class Dossier:
    """What is known of a review beside its round.

    Attributes:
        earlier: Verdicts with their reasons, and what became of counter-patches; oldest first.
        open_comments: Messages and comments that nothing has resolved, oldest first.
        interdiff: What changed since the last round that was reviewed; null if none was, or it cannot be told.
        conventions: What the project tells those who work on it.
    """

    earlier: tuple[dict[str, Any], ...] = ()
    open_comments: tuple[dict[str, Any], ...] = ()
    interdiff: str | None = None
    conventions: str | None = None


def gather(
    wire: Wire, claimed: Claimed, workspace: str, wsl_distro: str | None, *, given_up: threading.Event, log: RotatingLog
) -> Dossier:
    """Everything that can be had. A broker that refuses a part of it costs that part: the proposal is what counts.

    Args:
        wire: To the broker.
        claimed: The review.
        workspace: The project's folder.
        wsl_distro: The distribution of WSL that the folder is in.
        given_up: Ends the calls.
        log: Where refusals are noted.

    Raises:
        Away: The broker does not answer.
        GivenUp: `given_up` is set.
    """
    conventions = read_conventions(workspace if wsl_distro is None else wsl.from_windows(workspace, wsl_distro))
    try:
        said = list(_entries(wire, claimed, given_up))
        interdiff = _interdiff(wire, claimed, said, given_up)
    except Refused as error:
        log.note(f"the broker refuses what the prompt would say of earlier rounds: {error.code}")
        return Dossier(conventions=conventions)
    earlier = [_decision(entry) for entry in said if _is_decision(entry)]
    still_open = [_remark(entry) for entry in said if not _is_decision(entry) and entry.get("resolved_by") is None]
    return Dossier(tuple(earlier), tuple(still_open), interdiff, conventions)


# ------------------------------------------------------------------------------------------ earlier rounds


def _entries(wire: Wire, claimed: Claimed, given_up: threading.Event) -> Iterator[dict[str, Any]]:
    """The newest of what was said, oldest first."""
    newest: deque[dict[str, Any]] = deque(maxlen=_KEPT)
    page: Any = None
    for _ in range(_PAGES):
        asked = {"review_id": claimed.review_id, "project": claimed.project, "limit": _PAGE, "page": page}
        answer = wire.call("get_discussion", asked, until=given_up)
        newest.extend(cast("list[dict[str, Any]]", answer.get("entries") or []))
        page = answer.get("next_page")
        if page is None:
            break
    yield from newest


def _interdiff(wire: Wire, claimed: Claimed, said: list[dict[str, Any]], given_up: threading.Event) -> str | None:
    rounds = [entry["round"] for entry in said if entry.get("kind") == _DECIDED and entry["round"] < claimed.round]
    if not rounds:
        return None
    asked: dict[str, Any] = {
        "review_id": claimed.review_id,
        "project": claimed.project,
        "round": claimed.round,
        "since_round": max(rounds),
        # None of the whole diff again.
        "files": [],
    }
    found = wire.call("get_proposal", asked, until=given_up).get("interdiff")
    return found if isinstance(found, str) else None


def _is_decision(entry: dict[str, Any]) -> bool:
    if entry.get("kind") == _PATCH:
        return True
    return entry.get("kind") == _DECIDED and entry.get("verdict") != _SAID_BY_VERDICT


def _decision(entry: dict[str, Any]) -> dict[str, Any]:
    """A verdict, or what became of a counter-patch; without its diff, which is another's or has become a round."""
    decided = {"counter_patch": entry.get("status")} if entry.get("kind") == _PATCH else {}
    return {**_picked(entry, "round", "at", "author", "verdict"), **decided, "reason": entry.get("body")}


def _remark(entry: dict[str, Any]) -> dict[str, Any]:
    return _picked(entry, "round", "at", "author", "sender_role", "file", "line", "body")


def _picked(entry: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: entry[name] for name in names if entry.get(name) is not None}


# --------------------------------------------------------------------------------------------- conventions


def read_conventions(workspace: str) -> str | None:
    """What stands in the project's files for those who work on it; null if it has none.

    Only regular files of the project itself are read. A link to one of them is as good as that; one that leads
    out of the folder, or into git's, is passed over.
    """
    root = os.path.realpath(workspace)
    parts: list[str] = []
    seen: set[str] = set()
    for name in CONVENTION_FILES:
        path = os.path.realpath(os.path.join(root, name))  # noqa: PTH118 - a text, as given
        if path in seen or not _is_of_project(path, root):
            continue
        seen.add(path)
        if content := _beginning(path):
            parts.append(f"[{name}]\n\n{content.strip()}\n")
    return "\n".join(parts) or None


def _is_of_project(path: str, root: str) -> bool:
    try:
        below = os.path.relpath(path, root)
    except ValueError:
        # Another drive of Windows.
        return False
    first = below.replace("\\", "/").split("/")[0]
    return first != os.pardir and first.lower() != ".git"


def _beginning(path: str) -> str:
    """The first part of a regular file as text; nothing if there is none to be had."""
    try:
        with open(path, "rb", opener=lambda name, _: os.open(name, _OPENING)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return ""
            content = file.read(FILE_LIMIT_BYTES + 1)
    except OSError:
        return ""
    cut = f"\n[cut at {FILE_LIMIT_BYTES} bytes]" if len(content) > FILE_LIMIT_BYTES else ""
    return content[:FILE_LIMIT_BYTES].decode("utf-8-sig", "replace") + cut
