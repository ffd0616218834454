"""Every address under `/reviews`."""

from __future__ import annotations

from tandem.faces.web.review import actions, context, counter_patch, exporting, files, page, viewed

ROUTES = (
    *page.ROUTES,
    *files.ROUTES,
    *context.ROUTES,
    *counter_patch.ROUTES,
    *exporting.ROUTES,
    *viewed.ROUTES,
    *actions.ROUTES,
)
