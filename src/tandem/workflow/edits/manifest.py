"""What was put into which files of a tree, and for whom, so that it can be taken out again."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from tandem.errors import ConfigInvalid
from tandem.workflow.edits.blocks import MarkedBlock
from tandem.workflow.edits.edit import Edit, Note
from tandem.workflow.edits.json_items import JsonItems
from tandem.workflow.edits.json_member import JsonMember
from tandem.workflow.edits.toml_table import TomlTable
from tandem.workflow.edits.whole import WholeFile

_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Record:
    """An edit that was made.

    Attributes:
        edit: As the edit describes itself.
        note: What it needs to take itself back.
        owners: Who wants it; it is taken out when nobody does.
    """

    edit: dict[str, Any]
    note: Note
    owners: tuple[str, ...]

    def on(self, path: Path) -> Edit:
        """The edit, for a file."""
        return restored(path, self.edit)


@dataclass
class Manifest:
    """The edits that were made in a tree: a repository's working tree, or the user's home folder.

    Attributes:
        file: Where it is kept, outside of what is edited.
        tree: The folder that all the files are in; links are followed only to inside of it.
        label: What stands before the names of files when they are shown, such as `~/`.
        files: The records by the file's path from the tree, with slashes, in the order in which they were made.
        folders: The folders that were made for the files, from the tree, with slashes.
    """

    file: Path
    tree: Path
    label: str = ""
    files: dict[str, tuple[Record, ...]] = field(default_factory=dict[str, tuple[Record, ...]])
    folders: tuple[str, ...] = ()
    loaded: bytes | None = None

    @classmethod
    def load(cls, file: Path, tree: Path, label: str = "") -> Manifest:
        """Read it; an empty one if there is none.

        Raises:
            ConfigInvalid: It cannot be read.
        """
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            return cls(file, tree, label)
        except OSError as error:
            raise _unreadable(file, error.strerror or str(error)) from error
        try:
            data = json.loads(content)
            if data["version"] != _VERSION:
                raise _unreadable(file, f"it was written by another version of Tandem ({data['version']!r})")
            files = {
                name: tuple(Record(one["edit"], one["note"], tuple(one["owners"])) for one in records)
                for name, records in data["files"].items()
            }
            return cls(file, tree, label, files, tuple(data["folders"]), content)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _unreadable(file, "it is damaged") from error

    def content(self) -> bytes | None:
        """What its file has to hold; null if there is nothing to remember."""
        if not self.files and not self.folders:
            return None
        records = {
            name: [{"edit": one.edit, "note": one.note, "owners": list(one.owners)} for one in of_file]
            for name, of_file in sorted(self.files.items())
        }
        data = {"version": _VERSION, "files": records, "folders": sorted(self.folders)}
        return json.dumps(data, indent=1, ensure_ascii=False).encode() + b"\n"

    def owners(self) -> set[str]:
        """Everybody who had something put in."""
        return {owner for records in self.files.values() for record in records for owner in record.owners}


def restored(path: Path, described: dict[str, Any]) -> Edit:
    """The edit that described itself so, for a file.

    Raises:
        ConfigInvalid: There is no such kind.
    """
    values: dict[str, Any] = {name: _frozen(value) for name, value in described.items() if name != "kind"}
    match described["kind"]:
        case "json_member":
            return JsonMember(path, values["keys"], described["value"])
        case "json_items":
            return JsonItems(path, **values)
        case "toml_table":
            return TomlTable(path, **values)
        case "marked_block":
            return MarkedBlock(path, **values)
        case "whole_file":
            # Its note has the digest, and that is all that taking it out needs.
            return WholeFile(path, b"", executable=values["executable"])
        case kind:
            raise ConfigInvalid(
                f"There is no kind of edit {kind!r}; use the version of Tandem that made it.", kind=str(kind)
            )


def _frozen(value: Any) -> Any:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


def _unreadable(file: Path, problem: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"{file} cannot be used: {problem}. It says what Tandem put into your files; restore it, or delete it and"
        " take out by hand what is named gsdreview or tandem.",
        file=str(file),
    )
