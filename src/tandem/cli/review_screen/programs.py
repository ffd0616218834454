"""Programs of the person: their editor, and their browser."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import webbrowser
from pathlib import Path

_OF_THE_TERMINAL = frozenset({"www-browser", "links", "elinks", "lynx", "w3m"})


def open_in_window(url: str) -> bool:
    """Open an address; false if only a browser is there that would take the terminal, or none. Blocks."""
    try:
        found = webbrowser.get()
    except webbrowser.Error:
        return False
    # What BROWSER names is a plain `GenericBrowser` unless it runs in the background.
    takes_terminal = type(found) is webbrowser.GenericBrowser or Path(found.name).name in _OF_THE_TERMINAL
    return not takes_terminal and found.open(url)


def edited(text: str, path: str) -> str:
    """A text as the person's editor leaves it. Blocks, and takes the terminal.

    Args:
        text: The text.
        path: The file that it is, by whose name an editor knows its language.

    Raises:
        OSError: There is no such program, or it failed.
    """
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ("notepad" if sys.platform == "win32" else "vi")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, Path(path).name or "text.md")
        file.write_bytes(text.encode())
        ended = subprocess.run([*shlex.split(editor, posix=sys.platform != "win32"), str(file)], check=False)
        if ended.returncode:
            raise OSError(f"'{editor}' failed: {ended.returncode}. Nothing was taken over.")
        return file.read_text("utf-8").replace("\r\n", "\n")
