"""What is approved of the differences between commits: each is computed and asked about once."""

from __future__ import annotations

from tandem.hooks import history
from tandem.hooks.ask import Refused

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from tandem.hooks.git import Change
    from tandem.hooks.state import HookRepository

    Check = Callable[[list[Change]], dict[str, Any]]
    """Asks `check_gate` about changes; the data of its answer. Without `head`: what takes a commit back is found here,
    where all commits of a range are known, not by the broker's look at one."""

    Pair = tuple[str | None, str]
    """The commits before and after; null where there was nothing before."""

    Entry = tuple[str, str]
    """Mode and blob of a path."""

    Entries = dict[str, tuple[Entry, Entry]]
    """By path: what it was, and what it is."""

UNREVIEWED = "unreviewed"
UNAPPROVED = "unapproved"
ROLLBACK = "rollback"
_EXEMPT = "exempt"
_OVERRIDDEN = "overridden"
_UNANSWERABLE = frozenset({"INVALID_INPUT", "TOO_LARGE"})
_UNNAMEABLE = ""
"""Stands for a path that cannot be named, so that nothing settles it."""

_NOWHERE = (("", ""), ("", "-"))


class Finding:
    """What is known of one difference.

    Attributes:
        verdict: `approved`, `exempt`, `merge`, `rollback`, `overridden`, `empty`; or `unapproved`, or, of a commit
            that was marked so when it was made, `unreviewed`, which do not pass.
        reason: In words.
        review_ids: The reviews that let it through, or a part of it, or that it names.
        paths: Of what does not pass, with the reason for each.
        exempt: The paths that need no review.
    """

    __slots__ = ("exempt", "paths", "reason", "review_ids", "verdict")

    def __init__(
        self,
        verdict: str,
        reason: str,
        review_ids: tuple[str, ...] = (),
        paths: tuple[tuple[str, str], ...] = (),
        exempt: frozenset[str] = frozenset(),
    ) -> None:
        self.verdict = verdict
        self.reason = reason
        self.review_ids = review_ids
        self.paths = paths
        self.exempt = exempt

    @property
    def passes(self) -> bool:
        """Whether everything in it may be as it is."""
        return self.verdict not in {UNREVIEWED, UNAPPROVED}


_NOTHING = Finding("empty", "it changes nothing")


class Checks:
    """The findings of one repository, remembered."""

    def __init__(self, place: HookRepository, check: Check) -> None:
        self._place = place
        self._check = check
        self._changes: dict[Pair, list[Change] | str] = {}
        self._found: dict[Pair, Finding] = {}
        self._answers: dict[frozenset[tuple[str, ...]], Finding] = {}

    def prepare(self, pairs: Iterable[Pair]) -> None:
        """Have git compute these differences at once, as each call of it costs more than a difference.

        Raises:
            TandemError: A commit is not there.
        """
        wanted = [pair for pair in dict.fromkeys(pairs) if pair not in self._changes]
        self._changes.update(zip(wanted, history.differences(self._place, wanted), strict=True))

    def changes(self, before: str | None, after: str) -> list[Change] | str:
        """The difference of two commits, or why it cannot be named.

        Raises:
            TandemError: A commit is not there.
        """
        self.prepare([(before, after)])
        return self._changes[before, after]

    def finding(self, before: str | None, after: str) -> Finding:
        """Whether the difference of two commits passes.

        Raises:
            TandemError: A commit is not there.
            Refused: The broker refuses the question as such.
            Unreachable: No broker answers.
        """
        pair = (before, after)
        if pair not in self._found:
            self._found[pair] = self.asked(self.changes(before, after))
        return self._found[pair]

    def asked(self, changes: list[Change] | str) -> Finding:
        """Whether some changes pass.

        Raises:
            Refused: The broker refuses the question as such.
            Unreachable: No broker answers.
        """
        if not changes:
            return _NOTHING
        if isinstance(changes, str):
            return Finding(UNAPPROVED, changes)
        asked = frozenset(tuple(change.values()) for change in changes)
        if asked not in self._answers:
            try:
                self._answers[asked] = _found(self._check(changes))
            except Refused as refusal:
                if refusal.code not in _UNANSWERABLE:
                    raise
                self._answers[asked] = Finding(UNAPPROVED, str(refusal))
        return self._answers[asked]


def _found(decision: dict[str, Any]) -> Finding:
    """What an answer of `check_gate` says."""
    reviews = tuple(decision["review_ids"])
    exempt = frozenset(one["path"] for one in decision["paths"] if one["allowed"] and one["kind"] == _EXEMPT)
    # That one commit is taken back says nothing of what it comes back to: a `Debt` looks at both.
    refused = [one for one in decision["paths"] if not one["allowed"] or one["kind"] == ROLLBACK]
    if decision["allowed"] is not True or refused:
        paths = tuple((one["path"], one["reason"]) for one in refused)
        return Finding(UNAPPROVED, decision["reason"], reviews, paths, exempt)
    kinds = {one["kind"] for one in decision["paths"]}
    verdict = _OVERRIDDEN if _OVERRIDDEN in kinds else _EXEMPT if kinds == {_EXEMPT} else "approved"
    return Finding(verdict, decision["reason"], reviews, exempt=exempt)


class UnapprovedContent:
    """What is not approved at one commit, path by path: the last content that was good, and the present one.

    Taken back or approved later, it is settled. An approved change on other paths leaves it as it is; one that
    touches it was approved on top of what was not, so it becomes a part of it. Never changed: a commit makes a new
    one.
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: Entries | None = None) -> None:
        self._entries: Entries = entries or {}

    def __bool__(self) -> bool:
        return bool(self._entries)

    def after(self, changes: list[Change] | str, finding: Finding) -> UnapprovedContent:
        """The debt after a commit.

        Args:
            changes: What it changes; a sentence if that cannot be said.
            finding: What is known of that by itself.
        """
        if isinstance(changes, str):
            return UnapprovedContent({**self._entries, _UNNAMEABLE: _NOWHERE})
        touched = any(change["path"] in self._entries for change in changes)
        if finding.passes and not touched:
            return self
        refused = {path for path, _ in finding.paths}
        entries = dict(self._entries)
        for change in changes:
            path = change["path"]
            before, now = _sides(change)
            if path in entries:
                entries[path] = (entries[path][0], now)
            elif path not in finding.exempt and (touched or not refused or path in refused):
                entries[path] = (before, now)
            if path in entries and entries[path][0] == now:
                del entries[path]
        return UnapprovedContent(entries)

    def less(self, paths: Iterable[str]) -> UnapprovedContent:
        """What is left when the changes of these paths are approved as they are."""
        settled = set(paths)
        return UnapprovedContent({path: entry for path, entry in self._entries.items() if path not in settled})

    def changes(self) -> list[Change] | None:
        """All of it as one change; null if it cannot be said."""
        return None if _UNNAMEABLE in self._entries else all_changes(self._entries)


def prepend(entries: Entries, changes: list[Change]) -> None:
    """Put the changes of an earlier commit in front of what changed since."""
    for change in changes:
        before, now = _sides(change)
        path = change["path"]
        entries[path] = (before, entries[path][1] if path in entries else now)


def _sides(change: Change) -> tuple[Entry, Entry]:
    return (change["mode_before"], change["blob_before"]), (change["mode_after"], change["blob_after"])


def all_changes(entries: Entries) -> list[Change]:
    """Entries as one change."""
    return [
        {"path": path, "mode_before": was[0], "blob_before": was[1], "mode_after": now[0], "blob_after": now[1]}
        for path, (was, now) in sorted(entries.items())
        if was != now
    ]
