"""An inbox as people read it, on pages and at a terminal: its sections in their order, and the words of a row."""

from __future__ import annotations

from tandem.present.words import WHY

TYPE_CHECKING = False  # as in `text`
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Final

FOLDED_ABOVE: Final = 10
"""Of a project's rows that are not the person's, so many stand unfolded."""

_HELPS: Final = {
    "paused": "tandem reviewers resume",
    "rate_limited": "tandem reviewers resume",
    "circuit_open": "tandem reviewers resume",
}


class Section:
    """A section of an inbox.

    Attributes:
        name: Its name in addresses and styles.
        title: Its title.
        items: Its items; where they are not the person's, by project.
        count: How many there are, in digits; with a + where there are more.
    """

    __slots__ = ("count", "items", "name", "title")

    def __init__(self, name: str, title: str, items: Sequence[Any], *, is_cut: bool) -> None:
        self.name, self.title, self.items = name, title, items
        self.count = f"{len(items)}+" if is_cut else str(len(items))

    @property
    def groups(self) -> list[tuple[str, Sequence[Any]]]:
        """The items by project; in one group without a name where they are for the person to act on."""
        if self.name in ("problems", "your_turn"):
            return [("", self.items)] if self.items else []
        found: dict[str, list[Any]] = {}
        for item in self.items:
            found.setdefault(item.review.project, []).append(item)
        return sorted(found.items())


def sections(found: Any) -> list[Section]:
    """An inbox in the order in which it is read: what is wrong, what needs the person, what nobody holds, the rest."""
    yours, free = _divided(found.your_turn, "review")
    others, queued = _divided(found.waiting, "queued")
    cut = {name: getattr(found.counts, name) > len(getattr(found, name)) for name in ("your_turn", "waiting")}
    return [
        Section("problems", "Problems", found.problems, is_cut=found.counts.problems > len(found.problems)),
        Section("your_turn", "Needs you", yours, is_cut=cut["your_turn"] and not free),
        Section("unclaimed", "Unclaimed", [*free, *queued], is_cut=any(cut.values())),
        Section("waiting", "Waiting on others", others, is_cut=cut["waiting"]),
    ]


def _divided(items: Sequence[Any], why: str) -> tuple[list[Any], list[Any]]:
    return [one for one in items if one.why != why], [one for one in items if one.why == why]


def said(item: Any) -> str:
    """What happened, or what the item waits for, in a line."""
    if item.cause:
        return item.cause
    words = WHY["review"] if item.why == "queued" and not item.who else WHY.get(item.why, item.why)
    return f"{words}: {item.who}" if item.who else words


def helps(item: Any) -> str | None:
    """The command that helps against a cause; None for a review, which one opens."""
    if item.review is not None:
        return None
    if item.pool is not None and item.kind == "reviewer":
        return f"tandem reviewers kill {item.who} --force"
    return _HELPS.get(item.why, "tandem reviewers list")


def size(item: Any) -> str:
    """How large the change is, and what is open about it: `+12 −3, 2 files, 1 open`."""
    files = f"{item.files} file{'s' if item.files > 1 else ''}" if item.files else ""
    lines = f"+{item.added} −{item.removed}" if item.files else ""
    findings = f"{item.open_findings} open" if item.open_findings else ""
    return ", ".join(filter(None, (lines, files, findings)))
