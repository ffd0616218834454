"""What the shell offers for ids and names, asked of the broker within a fraction of a second."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tandem.bridge.session import data_of
from tandem.cli.connection_options import ConnectionOptions
from tandem.core.visible import visible_line
from tandem.errors import TandemError
from tandem.examples import examples

_LIMIT_SECONDS = 0.5
_ROWS = 50
Offers = list[tuple[str, str]]


def _asking(operation: str, pairs: Callable[[Any], Offers], **request: Any) -> Callable[[str], Offers]:
    """Offers what of an answer begins so; nothing when the broker is away or slow: a shell must not be kept waiting."""

    def complete(incomplete: str) -> Offers:
        try:
            with ConnectionOptions(os.environ.get("TANDEM_BROKER")).session() as session:
                offers = pairs(data_of(session.call(operation, request, within_s=_LIMIT_SECONDS)))
        except (TandemError, LookupError, TypeError, ValueError):
            # The last three: a broker of another version answers otherwise.
            return []
        return [(visible_line(name), visible_line(about)) for name, about in offers if name.startswith(incomplete)]

    return complete


def _roles(data: Any) -> Offers:
    """Roles of all workflows, each with the workflows that have it."""
    having: dict[str, list[str]] = {}
    for workflow in data["workflows"]:
        for role in workflow["roles"]:
            having.setdefault(role, []).append(workflow["name"])
    return [(role, ", ".join(names)) for role, names in having.items()]


OFFERS: dict[str, Callable[[str], Offers]] = {
    # Latest activity first.
    "review": _asking(
        "get_activity_feed",
        lambda data: [(one["review"]["review_id"], one["review"]["intent"]) for one in data["entries"]],
        limit=_ROWS,
    ),
    "project": _asking("list_projects", lambda data: [(one["project"], one["root"]) for one in data["projects"]]),
    "cycle": _asking(
        "list_cycles", lambda data: [(one["cycle_id"], one["feature"]) for one in data["cycles"]], limit=_ROWS
    ),
    "workflow": _asking(
        "list_cycles", lambda data: [(one["name"], ", ".join(one["roles"])) for one in data["workflows"]], limit=1
    ),
    "role": _asking("list_cycles", _roles, limit=1),
    # Those that run first.
    "reviewer": _asking(
        "list_reviewers",
        lambda data: [(one["reviewer_id"], f"{one['state']}, {one['project']}") for one in data["reviewers"]],
    ),
    "example": lambda incomplete: [(name, "") for name in examples() if name.startswith(incomplete)],
}
"""What each kind of value is offered by."""
