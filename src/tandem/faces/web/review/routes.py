"""Every address under `/reviews`."""

from __future__ import annotations

from tandem.faces.web.review import (
    actions,
    binary,
    context,
    counter_patch,
    exporting,
    files,
    line_comment,
    page,
    viewed,
)

ROUTES = (
    *page.ROUTES,
    *files.ROUTES,
    *binary.ROUTES,
    *context.ROUTES,
    *line_comment.ROUTES,
    *counter_patch.ROUTES,
    *exporting.ROUTES,
    *viewed.ROUTES,
    *actions.ROUTES,
)
