"""What a page answers: a template with its values, or a response that is ready."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from starlette.responses import RedirectResponse, Response

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""On every answer of the pages, refusals included."""


@dataclass(frozen=True, slots=True)
class Page:
    """A template and its values, rendered by the site.

    Attributes:
        template: A file under `templates/`.
        values: What the template is given, besides the person, the form's token and the inbox's count.
        status: The HTTP status.
        heavy: Whether it takes long enough to be rendered in a thread.
        bare: Whether it is a part of a page, which has no navigation.
        headers: In the place of those that every page has.
    """

    template: str
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    status: int = 200
    heavy: bool = False
    bare: bool = False
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def local(address: str) -> str:
    """An address of ours; never another site's, whatever the query string says."""
    parts = urlsplit(address)
    is_ours = address.startswith("/") and not address.startswith(("//", "/\\")) and not parts.netloc
    return address if is_ours and address.isprintable() else "/"


def see(address: str) -> Response:
    """Send the browser on after a form was done, so that reloading does not send it again."""
    return RedirectResponse(address, status_code=303)
