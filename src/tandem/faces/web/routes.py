"""How a page says where it is."""

from __future__ import annotations

from dataclasses import dataclass

from tandem.faces.web.asking import Handler


@dataclass(frozen=True, slots=True)
class PageRoute:
    """An address and who answers it.

    Attributes:
        path: As Starlette writes them, e.g. `/reviews/{review_id}`.
        handler: Answers a Page or a response.
        method: GET (which answers HEAD, too) or POST.
        needs_broker: Whether it waits until the broker takes new work.
        is_open: Whether it answers people who are not logged in, too.
    """

    path: str
    handler: Handler
    method: str = "GET"
    needs_broker: bool = True
    is_open: bool = False
