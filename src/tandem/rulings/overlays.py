"""Where the overlay of GSD's commands was put in, as `tandem gsd overlay` writes it down."""

from __future__ import annotations

import json
import os

from tandem.core.stand_ins import cast

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from typing import Any

FILE = "gsd-overlay.json"
"""In the data folder."""

VERSION = 1
_GSD_VERSION_FILE = os.path.join("get-shit-done", "VERSION")


def outdated(data_dir: str) -> list[str]:
    """The folders whose GSD has another version than when the overlay was put in; `tandem gsd overlay --refresh`."""
    try:
        with open(os.path.join(data_dir, FILE), "rb") as stream:
            stored = read(stream.read())
    except (OSError, ValueError):
        return []
    return [folder for folder, facts in stored.items() if gsd_version(folder) not in {None, facts.get("version")}]


def read(content: bytes) -> dict[str, dict[str, Any]]:
    """The record of each installation, by its folder.

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


def gsd_version(folder: str) -> str | None:
    """The version of GSD that a client's folder has; None if it has none."""
    try:
        with open(os.path.join(folder, _GSD_VERSION_FILE), encoding="utf-8", errors="replace") as stream:
            return stream.read(100).strip() or None
    except OSError:
        return None
