"""From the edits that are wanted to the changes that files need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tandem.errors import InternalError
from tandem.workflow.edits.blocks import MarkedBlock
from tandem.workflow.edits.edit import Edit, Planned
from tandem.workflow.edits.manifest import Manifest, Record
from tandem.workflow.edits.places import content_of, located, name_in
from tandem.workflow.edits.whole import WholeFile

_NESTED = {"json_member", "json_items"}


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one file.

    Attributes:
        path: The file itself, links followed.
        key: Its path from the tree.
        name: How it is shown.
        before: What it holds; null if there is none.
        after: What it will hold; null if it goes.
        records: What the manifest will say about it.
        remarks: What a person should know.
        executable: Whether it may be run, if it is new.
    """

    path: Path
    key: str
    name: str
    before: bytes | None
    after: bytes | None
    records: tuple[Record, ...]
    remarks: tuple[str, ...] = ()
    executable: bool = False

    @property
    def alters(self) -> bool:
        """Whether the file itself changes."""
        return self.before != self.after


def changes(edits: Iterable[Edit], manifest: Manifest, *, owner: str) -> list[Change]:
    """What has to be changed so that exactly these edits are there for an owner; nothing is changed yet.

    What the owner had put in before and does not want any more is taken out.

    Args:
        edits: All that the owner wants in this tree.
        manifest: The tree, and what was put in before.
        owner: For whom; others' edits stay.

    Raises:
        ConfigInvalid: A file cannot be read as what it should be, or is outside of the tree.
    """
    wanted: dict[str, list[Edit]] = {}
    for edit in edits:
        wanted.setdefault(name_in(located(edit.path, manifest.tree), manifest.tree), []).append(edit)
    had = {name for name, records in manifest.files.items() if any(owner in record.owners for record in records)}
    planned = [_change(name, wanted.get(name, []), manifest, owner) for name in [*wanted, *sorted(had - set(wanted))]]
    return [one for one in planned if one.alters or one.remarks or one.records != manifest.files.get(one.key, ())]


def removals(manifest: Manifest, *, owner: str) -> list[Change]:
    """What has to be changed so that nothing of an owner's is left, but what others want too.

    Raises:
        ConfigInvalid: A file cannot be read as what it should be.
    """
    return changes([], manifest, owner=owner)


def _change(name: str, edits: Sequence[Edit], manifest: Manifest, owner: str) -> Change:
    path = located(manifest.tree / name, manifest.tree)
    before = content_of(path)
    work = _Work(path, before, list(manifest.files.get(name, ())), owner)
    work.drop(edits)
    for edit in edits:
        work.add(edit)
    executable = any(isinstance(edit, WholeFile) and edit.executable for edit in edits)
    return Change(
        path, name, manifest.label + name, before, work.content, tuple(work.records), tuple(work.remarks), executable
    )


class _Work:
    """A file while its edits are taken out and put in."""

    def __init__(self, path: Path, content: bytes | None, records: list[Record], owner: str) -> None:
        self.content = content
        self.records = records
        self.remarks: list[str] = []
        self._path = path
        self._owner = owner

    def drop(self, wanted: Sequence[Edit]) -> None:
        """Take out what the owner does not want any more, the latest first."""
        described = [edit.described() for edit in wanted]
        blocks = {edit.name for edit in wanted if isinstance(edit, MarkedBlock)}
        for record in self.records.copy():
            others = tuple(one for one in record.owners if one != self._owner)
            if record.edit not in described and others and others != record.owners:
                self.records[self.records.index(record)] = replace(record, owners=others)
        old = [one for one in self.records if one.owners == (self._owner,) and one.edit not in described]
        # A newer text of a block takes the older one's place.
        old = [one for one in old if one.edit["kind"] != "marked_block" or one.edit["name"] not in blocks]
        if any(one.edit["kind"] in _NESTED for one in old):
            self._unwind(old)
        else:
            for record in reversed(old):
                self._undo(record)
                self._hand_on(record)

    def _unwind(self, old: list[Record]) -> None:
        """Take everything out and put in again what others want; what is wanted anew follows.

        The members of a JSON file stand in objects that an earlier edit may have made: each can be taken out to
        the byte only when the later ones are out.
        """
        records = self.records.copy()
        for record in reversed(records):
            self._undo(record)
        for record in records:
            if record not in old and record.owners != (self._owner,):
                planned = record.on(self._path).plan(self.content)
                self.content = planned.after if planned.note is not None else self.content
                self.records += [] if planned.note is None else [replace(record, note=planned.note)]

    def _undo(self, record: Record) -> None:
        undone = record.on(self._path).undo(self.content, record.note)
        self.content = undone.content
        self._remark(undone.remark)
        self.records.remove(record)

    def _hand_on(self, record: Record) -> None:
        """Have another record remember that the file was made by us."""
        if record.note.get("made") and self.content is not None and self.records:
            self.records[0] = replace(self.records[0], note={**self.records[0].note, "made": True})

    def add(self, edit: Edit) -> None:
        """Put in what is not there yet."""
        described = edit.described()
        planned = edit.plan(self.content)
        known = next((one for one in self.records if one.edit == described), None)
        if planned.note is None:
            self._remark(planned.remark)
            if known is not None and self._owner not in known.owners:
                owners = (*known.owners, self._owner)
                self.records[self.records.index(known)] = replace(known, owners=owners)
            return
        self._check(edit, planned)
        older = known or self._older(edit)
        note = older.note if older is not None and "was" in planned.note else planned.note
        record = Record(described, note, tuple({*(known.owners if known else ()), self._owner}))
        if older is not None:
            self.records[self.records.index(older)] = record
        else:
            self.records.append(record)
        self.content = planned.after

    def _older(self, edit: Edit) -> Record | None:
        """The record of an earlier text of a block: the block keeps its place."""
        if not isinstance(edit, MarkedBlock):
            return None
        return next((one for one in self.records if one.edit.get("name") == edit.name), None)

    def _check(self, edit: Edit, planned: Planned) -> None:
        """See that it can be taken back to the byte, before anything is written."""
        if planned.note is not None and edit.undo(planned.after, planned.note).content != self.content:
            raise InternalError(
                f"{self._path}: what would be put in could not be taken out again to the byte. Nothing was changed;"
                " report this with the file.",
                file=str(self._path),
            )

    def _remark(self, remark: str) -> None:
        if remark and remark not in self.remarks:
            self.remarks.append(remark)
