"""What a proposer says of a change: the description, and what else was sent with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from markupsafe import Markup

from tandem.faces.web.diffs.markdown import markdown
from tandem.faces.web.review.document import pretty_json

_DESCRIPTION_LEVEL = 3


def about(text: str | None) -> Markup | None:
    """A description as HTML: a document, or JSON with one value a line."""
    if not text or not text.strip():
        return None
    laid_out = pretty_json(text)
    return markdown(f"```json\n{laid_out}\n```" if laid_out else text, heading=_DESCRIPTION_LEVEL)


def metadata(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What came with a proposal, as texts."""
    return [
        (name, value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())
        for name, value in values.items()
    ]
