"""A diff as a whole: its files, its size, and the tree of its folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from markupsafe import Markup

from tandem.git.hunks import FileDiff, parse
from tandem.reviews.unusual import Unusual, of_diff
from tandem.web.diffs.code import shown

_MODES = {"100644": "file", "100755": "program", "120000": "symbolic link", "160000": "submodule", "040000": "folder"}


def notes(file: FileDiff) -> list[str]:
    """Short remarks: modes, binary content, line ends, and that nothing but the name changed."""
    said: list[str] = []
    old, new = file.old_mode, file.new_mode
    if old and new and old != new:
        said.append(f"mode {_mode(old)} → {_mode(new)}")
    elif (only := new or old) and only not in {"100644", "040000"}:
        said.append(_mode(only))
    if file.binary:
        said.append("binary content")
    elif file.latin_1:
        said.append("not UTF-8: shown as Latin-1")
    elif not file.hunks and file.kind in {"renamed", "copied"}:
        said.append("content unchanged")
    elif not file.hunks and file.kind in {"added", "deleted"}:
        said.append("empty file")
    ends = {line.endswith("\r") for hunk in file.hunks for line in hunk.body if line[:1] != "\\"}
    if ends == {True}:
        said.append("CRLF line ends")
    elif ends == {True, False}:
        said.append("mixed line ends: \\x0d marks a carriage return")
    return said


def _mode(mode: str) -> str:
    return f"{mode} ({_MODES[mode]})" if mode in _MODES else mode


_DEEPEST = 24
"""Folders within folders; what lies deeper is shown with the rest of its path as its name."""
_KEPT_CHARACTERS = 1_000_000


@dataclass(frozen=True, slots=True)
class OutlineFolder:
    """A line of the tree: a folder or a file.

    Attributes:
        name: As HTML; folders that hold one folder only are one line (`src/app/`).
        path: From the repository's root.
        file: The file's place in the diff; None for a folder.
        closes: How many folders end with this line.
    """

    name: Markup
    path: str
    file: int | None
    closes: int


@dataclass(frozen=True, slots=True)
class Outline:
    """A diff as a whole.

    Attributes:
        files: In the diff's order.
        added: Lines added.
        deleted: Lines deleted.
        tree: The lines of the tree, folders before files at each level.
        unusual: What is named beside Approve.
    """

    files: tuple[FileDiff, ...]
    added: int
    deleted: int
    tree: tuple[OutlineFolder, ...]
    unusual: tuple[Unusual, ...]


def outline(diff: str) -> Outline:
    """A diff as a whole; the last few of usual size are kept, so that each of their files can be asked for cheaply."""
    return _kept(diff) if len(diff) <= _KEPT_CHARACTERS else _kept_large(diff)


def _outline(diff: str) -> Outline:
    files = parse(diff)
    added, deleted = sum(file.added for file in files), sum(file.deleted for file in files)
    return Outline(files, added, deleted, tree(files, range(len(files))), of_diff(files))


_kept, _kept_large = lru_cache(maxsize=16)(_outline), lru_cache(maxsize=1)(_outline)


@dataclass(slots=True)
class _Folder:
    path: str
    name: str
    folders: dict[str, _Folder] = field(default_factory=dict[str, "_Folder"])
    files: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])


def tree(files: tuple[FileDiff, ...], indexes: Iterable[int]) -> tuple[OutlineFolder, ...]:
    """The lines of a tree of some files, made without recursion, because a path may have any number of folders."""
    root = _Folder("", "")
    for index in indexes:
        *folders, name = files[index].path.split("/", _DEEPEST)
        at = root
        for folder in folders:
            below = at.folders.get(folder)
            if below is None:
                below = at.folders[folder] = _Folder(f"{at.path}{folder}/", folder)
            at = below
        at.files.append((name, index))
    return tuple(_lines(root, files))


def _lines(root: _Folder, files: tuple[FileDiff, ...]) -> Iterator[OutlineFolder]:
    """Goes down with a stack; each entry is a folder or a file, and how many folders it closes."""
    stack = _entries(root, 0)
    while stack:
        entry, closes = stack.pop()
        if isinstance(entry, _Folder):
            name = entry.name
            while len(entry.folders) == 1 and not entry.files:
                (entry,) = entry.folders.values()
                name += f"/{entry.name}"
            yield OutlineFolder(shown(f"{name}/"), entry.path, None, 0)
            stack += _entries(entry, closes + 1)
        else:
            name, index = entry
            yield OutlineFolder(shown(name), files[index].path, index, closes)


def _entries(folder: _Folder, closes: int) -> list[tuple[_Folder | tuple[str, int], int]]:
    """What is in a folder, last first; the last one closes the folder and those that end with it."""
    inside: list[_Folder | tuple[str, int]] = [
        *(below for _, below in sorted(folder.folders.items())),
        *sorted(folder.files),
    ]
    return [(entry, closes if at == 0 else 0) for at, entry in enumerate(reversed(inside))]
