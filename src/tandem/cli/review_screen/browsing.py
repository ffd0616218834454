"""Opening a page in the person's browser, if that is one with a window of its own."""

from __future__ import annotations

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
