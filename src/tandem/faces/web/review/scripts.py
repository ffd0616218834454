"""Whether a form was sent by a script of the page, which puts the answer into the page that is open."""

from __future__ import annotations

from tandem.faces.web.asking import Ask

CONFLICT = 409
"""The status of a form of a page that was too old."""


def is_script(ask: Ask) -> bool:
    """Whether htmx sent the request."""
    return ask.request.headers.get("hx-request") == "true"
