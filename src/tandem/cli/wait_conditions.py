"""What a command waits for, and the exit status of what it saw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tandem.cli.exits import Exit, of_review
from tandem.client.waits import Condition, has_changed, is_proposers_turn
from tandem.domain.workflows import COMPLETE

_UNDECIDED = frozenset({"pending", "claimed", "in_review"})


@dataclass(frozen=True, slots=True)
class WaitCondition:
    """One wait.

    Attributes:
        ready: Whether what is so at its beginning ends it at once; asked only when it has no cursor.
        done: Whether a later answer ends it.
        status: The exit status for its last answer.
    """

    ready: Condition
    done: Condition
    status: Callable[[dict[str, Any]], Exit]


def wait_condition(operation: str, arguments: dict[str, Any]) -> WaitCondition:
    """What the wait of an operation is for."""
    match operation:
        case "get_review_status" if arguments.get("wake_on") == "any":
            return WaitCondition(_is_over, has_changed, verdict_status)
        case "get_review_status":
            return WaitCondition(is_proposers_turn, has_changed, verdict_status)
        case "list_reviews":
            return WaitCondition(_has_reviews, _has_reviews, _list_status)
        case "cycle_status" if arguments.get("role") is not None:
            turn = _Turn(arguments["role"])
            return WaitCondition(turn.ends, turn.ends, turn.status)
        case _:
            return WaitCondition(_never, has_changed, _news_status)


def verdict_status(data: dict[str, Any]) -> Exit:
    """The exit status of a wait for a verdict."""
    return of_review(data["status"], data["outcome"])


class _Turn:
    """Waits for a role's turn in a cycle, but not beyond the end of one that it saw under way."""

    def __init__(self, role: str) -> None:
        self._role = role
        self._was_under_way = False

    def ends(self, data: dict[str, Any]) -> bool:
        """Whether it is the role's turn, or the cycle is over."""
        under_way = data.get("cycle_id") is not None and data.get("phase") != COMPLETE
        self._was_under_way = self._was_under_way or under_way
        return self._is_turn(data) or (self._was_under_way and not under_way)

    def status(self, data: dict[str, Any]) -> Exit:
        """Done when it is the role's turn; closed when there will be none in this cycle."""
        if self._is_turn(data):
            return Exit.DONE
        return Exit.CLOSED if self.ends(data) else Exit.WAITING

    def _is_turn(self, data: dict[str, Any]) -> bool:
        review = data.get("review")
        waits_for_review = bool(review) and review["status"] in _UNDECIDED
        return data.get("active_role") == self._role and not waits_for_review


def _list_status(data: dict[str, Any]) -> Exit:
    return Exit.DONE if _has_reviews(data) or has_changed(data) else Exit.WAITING


def _news_status(data: dict[str, Any]) -> Exit:
    return Exit.DONE if has_changed(data) else Exit.WAITING


def _is_over(data: dict[str, Any]) -> bool:
    return data.get("status") == "closed"


def _has_reviews(data: dict[str, Any]) -> bool:
    return bool(data.get("reviews"))


def _never(_data: dict[str, Any]) -> bool:
    return False
