"""Where a file that is to be edited really is, and what it holds."""

from __future__ import annotations

import os
from pathlib import Path

from tandem.workflow.edits.edit import unusable


def located(path: Path, tree: Path) -> Path:
    """The file itself, links followed to inside of the tree only.

    Raises:
        ConfigInvalid: It is outside, a link to nothing, no file, or below something that is no folder.
    """
    real, root = Path(os.path.realpath(path)), Path(os.path.realpath(tree))
    if not real.is_relative_to(root):
        problem = f"it is a link to {real}, outside of {tree}" if path.is_relative_to(tree) else f"it is not in {tree}"
        raise unusable(path, problem)
    if path.is_symlink() and not real.exists():
        raise unusable(path, f"it is a link to {real}, which is not there")
    if real.exists() and not real.is_file():
        raise unusable(path, "it is not a file")
    nearest = next((folder for folder in real.parents if os.path.lexists(folder)), root)
    if not nearest.is_dir():
        raise unusable(path, f"{nearest} is not a folder")
    return real


def content_of(path: Path) -> bytes | None:
    """What a file holds; null if there is none.

    Raises:
        ConfigInvalid: It cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unusable(path, f"it cannot be read: {error.strerror or error}") from error


def name_in(path: Path, tree: Path) -> str:
    """A file's path from the tree, with slashes."""
    return path.relative_to(os.path.realpath(tree)).as_posix()
