"""`tandem findings`: what reviewers found, for people and in the formats of other tools."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tandem.bridge.operations import OPERATIONS
from tandem.cli.calls import call, given, with_project
from tandem.cli.connection_options import ConnectionOptions
from tandem.cli.declared import Argument, Misused, Option
from tandem.cli.render import render
from tandem.cli.terminal import Exit, progress, show
from tandem.present.findings import formatted
from tandem.present.shape import record

if TYPE_CHECKING:
    from tandem.bridge.session import Session

_PAGE = 200


def listed(
    review_id: Annotated[
        str | None, Argument(metavar="REVIEW", completes="review", help="Default: the open ones of the project.")
    ] = None,
    *,
    status: Annotated[
        Literal["open", "blocking", "all"] | None,
        Option(help="Those that no one settled, those that keep an approval back, or all."),
    ] = None,
    number: Annotated[int | None, Option("--round", metavar="N", min=1, help="Their places in this round.")] = None,
    at: Annotated[str | None, Option(metavar="COMMIT", help="Their places in the files of a commit.")] = None,
    form: Annotated[
        Literal["json", "markdown", "rdjson", "sarif"] | None,
        Option("--format", help="Print a document for other tools."),
    ] = None,
    limit: Annotated[int | None, Option(min=1, help="Findings a page; default: all of them.")] = None,
    page: Annotated[str | None, Option(help="The token with which an answer goes on.")] = None,
    options: ConnectionOptions,
) -> Exit:
    """List the findings of a review with their places in its current round, or those of a project."""
    shown = status or ("open" if review_id is None else "all")
    asked = given(review_id=review_id, status=shown, round=number, at=at, limit=limit, page=page)
    operation = OPERATIONS["list_findings"]
    if options.as_json:
        if form is not None:
            raise Misused("Choose one of --format and --json.", "--format")
        return call(operation, asked, options)
    with options.session() as session, progress("findings list"):
        asked = with_project(operation, asked, session, options)
        found = _read(session, asked, is_whole=limit is None and page is None)
    if form is None:
        show(render("FindingPage", record(found)))
    else:
        sys.stdout.write(formatted(form, found["findings"], version("tandem-broker")))
    return Exit.DONE


def _read(session: Session, asked: dict[str, Any], *, is_whole: bool) -> dict[str, Any]:
    """A page of findings; or all pages as one."""
    found = session.data("list_findings", {"limit": _PAGE, **asked})
    while is_whole and found["next_page"] is not None:
        more = session.data("list_findings", {"limit": _PAGE, **asked, "page": found["next_page"]})
        found = {**more, "findings": [*found["findings"], *more["findings"]]}
    return found
