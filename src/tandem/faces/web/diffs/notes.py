"""What is to be said of a file in a diff beside its lines."""

from __future__ import annotations

from tandem.domain.hunks import FileDiff

_MODES = {"100644": "file", "100755": "program", "120000": "symbolic link", "160000": "submodule", "040000": "folder"}


def notes(file: FileDiff) -> tuple[str, ...]:
    """Short remarks: modes, binary content, line ends, and that nothing but the name changed."""
    return tuple(_notes(file))


def _notes(file: FileDiff) -> list[str]:
    said: list[str] = []
    old, new = file.old_mode, file.new_mode
    if old and new and old != new:
        said.append(f"mode {_mode(old)} → {_mode(new)}")
    elif (only := new or old) and only not in {"100644", "040000"}:
        said.append(_mode(only))
    if file.binary:
        said.append("binary content")
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
