"""Looking something up in a client's own files, which are only read, and need not be in order."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, cast

from tandem.workflow.edits.jsonc import parse


def says(file: Path, *keys: str) -> Any:
    """What a JSON or TOML file says at a place; null if there is no such file or place, or it cannot be read."""
    try:
        text = file.read_text("utf-8-sig")
        root = tomllib.loads(text) if file.suffix == ".toml" else parse(text)
    except (OSError, ValueError):
        return None
    found: Any = root if isinstance(root, dict) or root is None else root.plain
    for key in keys:
        if not isinstance(found, dict):
            return None
        found = cast("dict[str, Any]", found).get(key)
    return found
