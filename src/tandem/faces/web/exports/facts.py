"""What every export says of a review, once."""

from __future__ import annotations

from typing import Any, NamedTuple

_FACTS = (
    ("Review", "review_id"),
    ("Project", "project"),
    ("State", "status"),
    ("Category", "category"),
    ("Priority", "priority"),
    ("Proposer", "proposer_id"),
    ("Agent", "agent_type"),
    ("Role", "agent_role"),
    ("Phase", "phase"),
    ("Plan", "plan"),
    ("Task", "task"),
    ("Document", "path"),
    ("Base", "base"),
    ("Base commit", "base_commit"),
    ("Digest", "digest"),
    ("Put up at", "created_at"),
    ("Follows", "parent_id"),
)
_SAID = {"message": "wrote", "comment": "commented", "verdict": "decided", "counter_patch": "proposed a counter-patch"}


class Said(NamedTuple):
    """An entry of the discussion.

    Attributes:
        title: Who did what, where and when, in one line.
        body: What was said; may be empty.
        diff: A counter-patch's content.
        remark: What became of it.
    """

    title: str
    body: str
    diff: str | None
    remark: str | None


class Happened(NamedTuple):
    """An event."""

    at: str
    actor: str
    what: str


def facts(proposal: dict[str, Any]) -> list[tuple[str, str]]:
    """Names and values, in the order in which people ask for them."""
    found = [(name, str(proposal[key])) for name, key in _FACTS if proposal.get(key)]
    current = proposal.get("current_round") or proposal["round"]
    found.insert(3, ("Round", f"{proposal['round']} of {current}"))
    if proposal.get("diff") and not proposal.get("validated"):
        found.append(("Validated", "no: nobody has tried whether the diff applies"))
    return found


def said(discussion: dict[str, Any]) -> list[Said]:
    """The discussion, oldest first."""
    return [_entry(entry) for entry in discussion.get("entries") or ()]


def _entry(entry: dict[str, Any]) -> Said:
    kind, author, at = str(entry["kind"]), entry.get("author"), entry.get("at")
    title = f"{author} ({entry.get('sender_role')}) {_SAID.get(kind, kind)}"
    if kind == "verdict" and entry.get("verdict"):
        title += f": {entry['verdict']}"
    if entry.get("file"):
        title += f" on {entry['file']}" + (f", line {entry['line']}" if entry.get("line") else "")
    remark = f"resolved by {entry['resolved_by']}" if entry.get("resolved_by") else None
    if kind == "counter_patch" and entry.get("status"):
        remark = str(entry["status"])
    body = entry.get("body") or entry.get("description") or ""
    return Said(f"{title}, round {entry.get('round')}, {at}", str(body), entry.get("diff"), remark)


def happened(timeline: dict[str, Any]) -> list[Happened]:
    """The events, oldest first."""
    return [
        Happened(str(event.get("at")), str(event.get("actor")), _what(event)) for event in timeline.get("events") or ()
    ]


def _what(event: dict[str, Any]) -> str:
    what = str(event.get("kind")).replace("_", " ")
    old, new = event.get("old"), event.get("new")
    return f"{what}: {old or 'new'} → {new}" if new and old != new else what
