"""Which files of a round a person has looked at: marked by a form, and told to their other windows."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from tandem.errors import InvalidInput
from tandem.faces.web.answering import see
from tandem.faces.web.asking import Ask
from tandem.faces.web.review.view import load
from tandem.faces.web.routes import PageRoute

_NO_CONTENT = 204


async def mark(ask: Ask) -> Response:
    """Mark a file as viewed, or as not; a script is told nothing, a browser goes back to where it was.

    Raises:
        InvalidInput: The form is not complete.
    """
    review_id = ask.path("review_id")
    number, path, viewed = ask.number("round"), ask.form.get("path"), ask.form.get("viewed")
    if number is None or path is None or viewed not in ("yes", "no"):
        raise InvalidInput(
            "Say which file of which round is viewed: round, path, and viewed=yes or no.", field="viewed"
        )
    await ask.call(
        "mark_viewed",
        review_id=review_id,
        round=number,
        path=path,
        viewed=viewed == "yes",
        person=ask.person.name,
    )
    if ask.form.get("quiet"):
        return Response(status_code=_NO_CONTENT)
    view = await load(ask, review_id, content=False)
    index = ask.number("index")
    return see(view.link() + ("" if index is None else f"#f{index}"))


async def listed(ask: Ask) -> Response:
    """The paths that the person has marked in a round, for a window that was not looked at for a while."""
    paths: list[str] = []
    if ask.person.known:
        found = await ask.call(
            "list_viewed", review_id=ask.path("review_id"), round=ask.number("round") or 1, person=ask.person.name
        )
        paths = found["paths"]
    return JSONResponse({"paths": paths}, headers={"cache-control": "no-store"})


ROUTES = (
    PageRoute("/reviews/{review_id}/viewed", listed),
    PageRoute("/reviews/{review_id}/viewed", mark, "POST"),
)
