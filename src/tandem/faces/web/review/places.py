"""Which file of a change an address names."""

from __future__ import annotations

from tandem.errors import NotFound
from tandem.faces.web.asking import Ask
from tandem.faces.web.diffs.outline import Outline


def place(ask: Ask, found: Outline) -> int:
    """The file that the address names.

    Raises:
        NotFound: The change has no such file.
    """
    text = ask.path("index")
    if not (text.isascii() and text.isdigit() and int(text) < len(found.files)):
        raise NotFound(
            f"This round changes {len(found.files)} files; there is none at place {text[:20]}.", index=text[:20]
        )
    return int(text)
