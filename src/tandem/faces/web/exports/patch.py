"""The patch itself, and what the exported files are called."""

from __future__ import annotations

import re
from typing import Any, Literal

from tandem.errors import InvalidInput

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 80


def patch(proposal: dict[str, Any]) -> bytes:
    """The round's diff, to the byte.

    Raises:
        InvalidInput: The round is a text and has no diff.
    """
    diff = proposal.get("diff")
    if not diff:
        raise InvalidInput(
            "This review is about a text and has no diff; export it as Markdown or as a page.",
            field="format",
            review_id=proposal.get("review_id"),
        )
    return str(diff).encode()


def file_name(proposal: dict[str, Any], kind: Literal["md", "patch", "html"]) -> str:
    """A name for the exported file: plain ASCII, nothing that a header or a file system could misread."""
    name = _NOT_IN_NAMES.sub("-", f"{proposal['project']}-{proposal['review_id']}").strip(".-") or "review"
    return f"{name[-_LONGEST_NAME:].lstrip('.-')}-round-{int(proposal['round'])}.{kind}"
