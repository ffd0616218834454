"""An inbox as people read it, on pages and at a terminal: its sections in their order, and the words of a row."""

from __future__ import annotations

from tandem.present.words import PRIORITIES, WHY, reviewer_name

TYPE_CHECKING = False  # as in `text`
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Final

_FOLDED_ABOVE: Final = 10
"""Of a project's rows that are not the person's, so many stand unfolded."""
_OF_OTHERS: Final = ("unclaimed", "waiting")

PAUSED: Final = ("paused", "rate_limited", "circuit_open")
"""The states of a pool that a person can end: it is resumed."""

TO_BEGIN: Final = ("tandem init --gate", "tandem commit")
"""What prepares a repository, and what submits a change."""


class Section:
    """A section of an inbox, with its items by project where they are not for the person to act on."""

    def __init__(self, name: str, title: str, items: Sequence[Any], *, is_cut: bool) -> None:
        self.name, self.title, self.items = name, title, items
        self.count = f"{len(items)}+" if is_cut else str(len(items))
        groups: dict[str, list[Any]] = {}
        for item in items:
            groups.setdefault(item.review.project if name in _OF_OTHERS else "", []).append(item)
        self.groups = sorted(groups.items())

    def unfolded(self, group: list[Any]) -> list[Any]:
        """The items of a project that are shown at once."""
        return group[:_FOLDED_ABOVE] if self.name in _OF_OTHERS else group


def sections(found: Any) -> list[Section]:
    """An inbox in the order in which it is read: problems, work for the person, unclaimed reviews, the rest."""
    yours = [one for one in found.your_turn if one.why != "review"]
    others = [one for one in found.waiting if one.why != "queued"]
    # The person's own wait for others as well: in the order in which reviewers take them.
    free = sorted(
        (one for one in (*found.your_turn, *found.waiting) if one.why in ("review", "queued")),
        key=lambda one: (PRIORITIES.index(one.review.priority), one.review.created_at, one.review.review_id),
    )
    cut = {
        name: getattr(found.counts, name) > len(getattr(found, name)) for name in ("your_turn", "waiting", "problems")
    }
    return [
        Section("problems", "Problems", found.problems, is_cut=cut["problems"]),
        Section("your_turn", "Needs you", yours, is_cut=cut["your_turn"] and len(yours) == len(found.your_turn)),
        Section("unclaimed", "Unclaimed", free, is_cut=bool(free) and (cut["your_turn"] or cut["waiting"])),
        Section("waiting", "Waiting on others", others, is_cut=cut["waiting"]),
    ]


def needing(shown: Sequence[Section]) -> int:
    """How many items need the person: all but those that others could take or have."""
    return sum(len(one.items) + one.count.endswith("+") for one in shown if one.name not in _OF_OTHERS)


def for_person(found: Any) -> list[Any]:
    """The reviews that are the person's turn or wrong, those at which reviewers failed among them."""
    items = (one for one in (*found.problems, *found.your_turn) if one.review or one.kind == "failure")
    return [review for one in items for review in ((one.review,) if one.review else one.holds_up)]


def said(item: Any) -> str:
    """What happened, or what the item waits for, in a line."""
    if item.cause:
        return item.cause
    words = WHY["review"] if item.why == "queued" and not item.who else WHY.get(item.why, item.why)
    return f"{words}: {reviewer_name(item.who)}" if item.who else words


def helps(item: Any) -> str | None:
    """The command that helps against a cause; None for a review, which one opens."""
    if item.review is not None:
        return None
    if item.kind == "failure":
        retry = f"tandem review retry {item.holds_up[0].review_id}"
        return f"{retry}, and so for each of the {item.held_up}" if item.held_up > 1 else retry
    if item.kind == "override":
        project, _, override_id = item.who.rpartition("/")
        return f"tandem gate seen --override-id {override_id} --project {project}"
    if item.pool is not None and item.kind == "reviewer":
        return f"tandem reviewers kill {item.who} --force"
    return "tandem reviewers resume" if item.why in PAUSED else "tandem reviewers list"


def size(item: Any) -> str:
    """How large the change is, and its open findings: `+12 −3, 2 files, 1 finding`."""
    counts = ((item.files, "file"), (item.open_findings, "finding"))
    lines = [f"+{item.added} −{item.removed}"] if item.files else []
    return ", ".join([*lines, *(f"{count} {name}{'s' if count > 1 else ''}" for count, name in counts if count)])
