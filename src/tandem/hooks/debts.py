"""What is not approved yet on a line of commits, path by path: taken back or approved later, it is settled.

A debt remembers of each path the last content that was good and the content that it has now. An approved change on
other paths leaves it as it is. One that touches it was approved on top of what was not, so it becomes a part of it.
"""

from __future__ import annotations

TYPE_CHECKING = False  # every commit waits for what is imported here; see `tuples`
if TYPE_CHECKING:
    from collections.abc import Iterable

    from tandem.hooks.checks import Finding
    from tandem.hooks.git import Change

    Entry = tuple[str, str]
    """Mode and blob of a path."""

    Entries = dict[str, tuple[Entry, Entry]]
    """By path: what it was, and what it is."""

_UNNAMEABLE = ""
"""Stands for a path that cannot be named, so that nothing settles it."""

_NOWHERE = (("", ""), ("", "-"))


class Debt:
    """What is not approved at one commit. Never changed: a commit makes a new one."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Entries | None = None) -> None:
        self._entries: Entries = entries or {}

    def __bool__(self) -> bool:
        return bool(self._entries)

    def after(self, changes: list[Change] | str, finding: Finding) -> Debt:
        """The debt after a commit.

        Args:
            changes: What it changes; a sentence if that cannot be said.
            finding: What is known of that by itself.
        """
        if isinstance(changes, str):
            return Debt({**self._entries, _UNNAMEABLE: _NOWHERE})
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
        return Debt(entries)

    def less(self, paths: Iterable[str]) -> Debt:
        """What is left when the changes of these paths are approved as they are."""
        settled = set(paths)
        return Debt({path: entry for path, entry in self._entries.items() if path not in settled})

    def changes(self) -> list[Change] | None:
        """All of it as one change; null if it cannot be said."""
        return None if _UNNAMEABLE in self._entries else _changes(self._entries)


class Net:
    """What changed over several commits, put together from the newest back."""

    def __init__(self) -> None:
        self._entries: Entries = {}

    def precede(self, changes: list[Change]) -> None:
        """Put the changes of the commit before in front."""
        for change in changes:
            before, now = _sides(change)
            path = change["path"]
            self._entries[path] = (before, self._entries[path][1] if path in self._entries else now)

    def changes(self) -> list[Change]:
        """All of it as one change."""
        return _changes(self._entries)


def _sides(change: Change) -> tuple[Entry, Entry]:
    return (change["mode_before"], change["blob_before"]), (change["mode_after"], change["blob_after"])


def _changes(entries: Entries) -> list[Change]:
    return [
        {"path": path, "mode_before": was[0], "blob_before": was[1], "mode_after": now[0], "blob_after": now[1]}
        for path, (was, now) in sorted(entries.items())
        if was != now
    ]
