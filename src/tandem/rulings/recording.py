"""What the broker is told of a commit that was made before its review."""

from __future__ import annotations

from tandem.rulings import git, message, plans

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from typing import Any

    from tandem.git.place import HookRepository

OPERATION = "record_commit"


def record_request(
    place: HookRepository, commit: str, branch: str | None, replaces: str | None = None
) -> dict[str, Any]:
    """What `record_commit` is told of a commit.

    Raises:
        TandemError: It cannot be read.
    """
    parents, text = git.read_commit(place, commit)
    belongs = message.belonging(message.subject(text))
    named = message.values(text, message.REVIEW)
    parent = parents[0] if parents else None
    changes = git.between(place, parent or git.empty_tree(place), commit)
    belongs = plans.with_task(place, belongs, [change["path"] for change in changes], parent)
    stated: dict[str, Any] = {
        "commit": commit,
        "parent": parent,
        "branch": branch,
        "phase": belongs.get("phase"),
        "plan": message.plan_key(belongs.get("phase"), belongs.get("plan"), branch),
        "task": belongs.get("task"),
        "review_ids": [name for name in named if name != message.UNREVIEWED],
        "unreviewed": message.UNREVIEWED in named,
        "replaces": replaces,
        "depends_on": message.values(text, message.DEPENDS_ON),
        "changes": changes,
    }
    return {name: value for name, value in stated.items() if value is not None}
