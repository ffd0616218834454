"""Is the overlay still in GSD's files? GSD's updater writes them anew; a session's start looks at one number each."""

from __future__ import annotations

import json
import os
from typing import Any, cast

STORE = "gsd-overlay.json"
"""In the data folder: the installations that have the overlay, written by `tandem gsd overlay`."""

VERSION = 1
VERSION_FILE = os.path.join("get-shit-done", "VERSION")


def stale(data_dir: str) -> list[str]:
    """The folders whose GSD has another version than when the overlay was put in; `tandem gsd overlay --refresh`."""
    try:
        with open(os.path.join(data_dir, STORE), "rb") as stream:
            stored = installs(stream.read())
    except (OSError, ValueError):
        return []
    return [folder for folder, facts in stored.items() if version_of(folder) not in {None, facts.get("version")}]


def installs(content: bytes) -> dict[str, dict[str, Any]]:
    """What is kept of each installation, by its folder.

    Raises:
        ValueError: It cannot be understood.
    """
    try:
        document: Any = json.loads(content)
        if document["version"] != VERSION:
            raise ValueError("it was written by another version of Tandem")
        stored: Any = document["installs"]
        if not all(isinstance(facts["files"], dict) for facts in stored.values()):
            raise ValueError("it has files that are none")
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it is damaged ({type(error).__name__})") from error
    return cast("dict[str, dict[str, Any]]", stored)


def version_of(folder: str) -> str | None:
    """The version of GSD that a client's folder has; null if it has none."""
    try:
        with open(os.path.join(folder, VERSION_FILE), encoding="utf-8", errors="replace") as stream:
            return stream.read(100).strip() or None
    except OSError:
        return None
