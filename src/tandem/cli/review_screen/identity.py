"""The name under which a person reviews at the terminal: asked once, kept in their configuration folder."""

from __future__ import annotations

import getpass
import json
import os
from pathlib import Path

from tandem.core import platforms
from tandem.core.files import write_atomically
from tandem.errors import InvalidInput
from tandem.settings.config import user_file

FILE = "person.json"
_VERSION = 1
_LONGEST = 200
"""The longest name that the broker takes, in characters."""


def checked(name: str) -> str:
    """A name as it may be used.

    Raises:
        InvalidInput: It is empty, too long, or holds characters that cannot be seen.
    """
    stripped = name.strip()
    if not stripped:
        raise InvalidInput("A name is needed, so that others know who decided.", field="--as")
    if len(stripped) > _LONGEST:
        raise InvalidInput(f"A name has at most {_LONGEST} characters.", field="--as", limit=_LONGEST)
    if not stripped.isprintable():
        raise InvalidInput("A name has only characters that can be seen.", field="--as")
    return stripped


def remembered() -> str | None:
    """The name that was given once; null if there is none that can be read."""
    try:
        return checked(json.loads(_path().read_text("utf-8"))["name"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, InvalidInput):
        # Whatever is wrong with it, asking again mends it.
        return None


def remember(name: str) -> None:
    """Keep a name for the next time.

    Raises:
        OSError: It cannot be written.
    """
    path = _path()
    platforms.make_private(str(path.parent))
    content = json.dumps({"version": _VERSION, "name": name}, ensure_ascii=False) + "\n"
    write_atomically(path, content.encode(), durable=False)


def suggested() -> str:
    """What the system calls the person; empty if it does not say."""
    try:
        return checked(getpass.getuser())
    except (OSError, KeyError, ImportError, InvalidInput):
        return os.environ.get("USERNAME", "").strip()


def _path() -> Path:
    return user_file().parent / FILE
