"""What a prompt needs besides the proposal: the project's conventions, and what became of earlier rounds."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Final, cast

from tandem.core.log_files import RotatingLog
from tandem.errors import InvalidInput, TandemError, TooLarge
from tandem.pool.reviewers.broker_client import BrokerClient
from tandem.pool.reviewers.lease import Claimed
from tandem.pool.reviewers.prompt import Dossier

CONVENTION_FILES: Final = ("REVIEW.md", "AGENTS.md", "CLAUDE.md", "CONTRIBUTING.md")
"""At the root of the base branch; in this order, since the prompt has room for the beginning."""

_PAGE = 50
_KEPT = 1000
"""Entries of a discussion: the newest; the prompt has room for fewer."""

_DECIDED = "verdict"
_SAID_BY_VERDICT = "comment"
_PATCH = "counter_patch"
_OF_CHECK = ("name", "status", "reason", "required", "command", "exit_status", "seconds", "commit", "moved_to", "doubt")
_LOG_CHARACTERS = 6_000


def gather(broker: BrokerClient, claimed: Claimed, *, given_up: threading.Event, log: RotatingLog) -> Dossier:
    """Everything that can be had. A broker that refuses a part of it costs that part: the proposal is what counts.

    Args:
        broker: To the broker.
        claimed: The review.
        given_up: Ends the calls.
        log: Where refusals are noted.

    Raises:
        BrokerUnreachable: The broker does not answer.
        CallCancelled: `given_up` is set.
    """
    conventions, checks = _conventions(broker, claimed, given_up), _checks(broker, claimed, given_up)
    try:
        said = _entries(broker, claimed, given_up)
        interdiff = _interdiff(broker, claimed, said, given_up)
    except TandemError as error:
        log.note(f"the broker refuses what the prompt would say of earlier rounds: {error.code}")
        return Dossier(conventions=conventions, checks=checks)
    earlier = [_decision(entry) for entry in said if _is_decision(entry)]
    still_open = [_remark(entry) for entry in said if not _is_decision(entry) and entry.get("resolved_by") is None]
    return Dossier(tuple(earlier), tuple(still_open), interdiff, conventions, checks)


# ------------------------------------------------------------------------------------------------- checks


def _checks(broker: BrokerClient, claimed: Claimed, given_up: threading.Event) -> tuple[dict[str, Any], ...]:
    """The round's checks, those that did not pass with the end of their log."""
    asked = claimed.request(round=claimed.round)
    try:
        found: list[dict[str, Any]] = broker.call("list_checks", asked, until=given_up)["checks"]
        return tuple(_check(one, broker, asked, given_up) for one in found)
    except TandemError:
        # An older broker has none.
        return ()


def _check(
    one: dict[str, Any], broker: BrokerClient, asked: dict[str, Any], given_up: threading.Event
) -> dict[str, Any]:
    shown = _picked(one, *_OF_CHECK)
    if one["has_log"] and one["status"] != "passed":
        log: str = broker.call("get_check_log", {**asked, "name": one["name"]}, until=given_up)["log"]
        shown["end_of_log"] = log[-_LOG_CHARACTERS:]
    return shown


# ------------------------------------------------------------------------------------------ earlier rounds


def _entries(broker: BrokerClient, claimed: Claimed, given_up: threading.Event) -> list[dict[str, Any]]:
    """The newest entries of the discussion, oldest first."""
    newest: deque[dict[str, Any]] = deque(maxlen=_KEPT)
    asked = claimed.request(limit=_PAGE)
    while True:
        answer = broker.call("get_discussion", asked, until=given_up)
        newest.extend(cast("list[dict[str, Any]]", answer.get("entries") or []))
        if (page := answer.get("next_page")) is None:
            return [*newest]
        asked["page"] = page


def _interdiff(
    broker: BrokerClient, claimed: Claimed, said: list[dict[str, Any]], given_up: threading.Event
) -> str | None:
    rounds = [entry["round"] for entry in said if entry.get("kind") == _DECIDED and entry["round"] < claimed.round]
    if not rounds:
        return None
    # None of the whole diff again.
    asked = claimed.request(round=claimed.round, since_round=max(rounds), files=[])
    return broker.call("get_proposal", asked, until=given_up).get("interdiff")


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


def _conventions(broker: BrokerClient, claimed: Claimed, given_up: threading.Event) -> str | None:
    """What the files of the base branch say to those who work on the project; None if there are none.

    Never those of the working folder or of the round's base: its proposer may have written them a moment ago. Links,
    and files that are no text in UTF-8, are passed over.
    """
    parts: list[str] = []
    for name in CONVENTION_FILES:
        asked = claimed.request(round=claimed.round, path=name, side="tip")
        try:
            found = broker.call("get_round_file", asked, until=given_up, insist=False)
        except (InvalidInput, TooLarge):
            # A link, or a large file.
            continue
        except TandemError:
            # There is no base commit, or the broker cannot read the repository now: the review goes on without.
            break
        lines = cast("list[str]", found.get("lines") or [])
        if content := "\n".join(lines).removeprefix("\ufeff").strip():
            left = int(found.get("total_lines") or 0) - len(lines)
            parts.append(f"[{name}]\n\n{content}\n" + (f"[{left} more lines]\n" if left > 0 else ""))
    return "\n".join(parts) or None
