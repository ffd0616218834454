"""The exit statuses of the command line. They are part of the contract: scripts and agents branch on them."""

from __future__ import annotations

from enum import IntEnum

from tandem.errors import TandemError


class Exit(IntEnum):
    """How a command ended."""

    DONE = 0
    """Done, or approved."""
    REFUSED = 1
    """The broker, or the command itself, refused; the code is printed."""
    USAGE = 2
    """The command was called wrongly."""
    UNREACHABLE = 3
    """No broker answers."""
    CHANGES_REQUESTED = 10
    REJECTED = 11
    WAITING = 12
    """No verdict or turn yet: the time was up, or it is the caller's turn to answer."""
    CLOSED = 13
    """Closed without approval; of a cycle, over before it was the waiting role's turn."""


def of_review(status: str, outcome: str | None) -> Exit:
    """The exit status of a wait for a verdict."""
    match status:
        case "approved":
            return Exit.DONE
        case "changes_requested":
            return Exit.CHANGES_REQUESTED
        case "rejected":
            return Exit.REJECTED
        case "closed" if outcome == "approved":
            return Exit.DONE
        case "closed":
            return Exit.CLOSED
        case _:
            return Exit.WAITING


def of_error(error: TandemError) -> Exit:
    """The exit status of a refusal."""
    # Late: a broker that starts needs its exit statuses, but no client.
    from tandem.client import Unreachable

    return Exit.UNREACHABLE if isinstance(error, Unreachable) else Exit.REFUSED
