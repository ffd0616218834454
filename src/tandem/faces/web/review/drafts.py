"""`/reviews/{review_id}/edit`: a counter-patch written on the page, looked at, and sent with a verdict."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from starlette.responses import Response

from tandem.errors import InvalidInput, NotFound, TandemError
from tandem.faces.web.answering import Page, see
from tandem.faces.web.asking import Ask
from tandem.faces.web.diffs.documents import DocumentDiff, compare
from tandem.faces.web.diffs.views import FileView
from tandem.faces.web.review import staleness
from tandem.faces.web.review.discussion import NOTHING, Acting, values
from tandem.faces.web.review.editing import Editable, from_form, read_all
from tandem.faces.web.review.patches import patch_views
from tandem.faces.web.review.scripts import CONFLICT, is_script
from tandem.faces.web.review.staleness import changes_since
from tandem.faces.web.review.view import ReviewView, load
from tandem.faces.web.routes import PageRoute
from tandem.faces.web.workers import in_worker

Mode = Literal["files", "text", "patch"]

_OPENED_AT_ONCE = 5


@dataclass(frozen=True, slots=True)
class Draft:
    """A counter-patch that is being written.

    Attributes:
        mode: `files` are edited one by one; a `text` as a whole; where no files can be read, the `patch` itself is.
        files: The open files.
        text: The whole text or patch, in the other modes.
        others: Files of the round that are not open.
        why: Why the files themselves cannot be edited.
    """

    mode: Mode
    files: list[Editable] = field(default_factory=list[Editable])
    text: str = ""
    others: list[str] = field(default_factory=list[str])
    why: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """What would become of the draft.

    Attributes:
        applies: Whether a verdict could carry it; null if nothing was changed yet.
        problem: Why not.
        files: What it changes of the round.
        document: The same for a text.
        counter_patch: What would be sent.
    """

    applies: bool | None = None
    problem: str = ""
    files: list[FileView] = field(default_factory=list[FileView])
    document: DocumentDiff | None = None
    counter_patch: str = ""


async def show(ask: Ask) -> Page:
    """The editor, with the round's files open if they are few."""
    view = await load(ask, ask.path("review_id"))
    return _page(view, ask, await _fresh(ask, view), Result())


async def do(ask: Ask) -> Page | Response:
    """Open another file, look at what would become of it, or send it: what the form's button says."""
    view = await load(ask, ask.path("review_id"))
    draft = _sent(ask, view)
    match ask.form.get("do"):
        case "open":
            return await _opened(ask, view, draft)
        case "changes_requested" | "comment" as verdict:
            return await _send(ask, view, draft, verdict)
        case _:
            return await _check(ask, view, draft)


async def _fresh(ask: Ask, view: ReviewView) -> Draft:
    if view.proposal["diff"] is None:
        return Draft("text", text=view.proposal["description"] or "")
    paths = [file["path"] for file in view.proposal["affected_files"]]
    asked = ask.request.query_params.getlist("path") or (paths if len(paths) <= _OPENED_AT_ONCE else [])
    try:
        files = await read_all(ask, view.review_id, view.round, asked)
    except NotFound as error:
        return Draft("patch", text=view.proposal["diff"], why=error.message)
    return Draft("files", files, others=_others(paths, files))


def _sent(ask: Ask, view: ReviewView) -> Draft:
    mode = ask.form.get("mode", "files")
    if mode in ("text", "patch"):
        return Draft("text" if mode == "text" else "patch", text=ask.form.get("text", ""))
    files = from_form(ask.form)
    return Draft("files", files, others=_others([file["path"] for file in view.proposal["affected_files"]], files))


def _others(paths: list[str], files: list[Editable]) -> list[str]:
    there = {file.path for file in files}
    return [path for path in paths if path not in there]


async def _opened(ask: Ask, view: ReviewView, draft: Draft) -> Page:
    path = ask.form.get("another", "").strip() or ask.form.get("other", "")
    try:
        if not path:
            raise InvalidInput("Name a file to open.", field="another")
        more = await read_all(ask, view.review_id, view.round, [path])
    except TandemError as error:
        return _page(view, ask, draft, Result(), Acting("draft", _typed(ask), error.as_dict()), error.status)
    files = [*draft.files, *(file for file in more if file.path not in {one.path for one in draft.files})]
    opened = replace(draft, files=files, others=_others(draft.others, files))
    return _page(view, ask, opened, Result(), Acting("draft", _typed(ask) | {"another": ""}))


async def _check(ask: Ask, view: ReviewView, draft: Draft) -> Page:
    try:
        result = await _result(ask, view, draft)
    except TandemError as error:
        return _page(view, ask, draft, Result(), Acting("draft", _typed(ask), error.as_dict()), error.status)
    return _page(view, ask, draft, result, Acting("draft", _typed(ask)))


async def _send(ask: Ask, view: ReviewView, draft: Draft, verdict: str) -> Page | Response:
    """Give the verdict that carries the draft."""
    changes = await changes_since(ask, view.review_id, ask.form.get("seen", ""), staleness.JUDGING)
    result = Result()
    if not changes:
        try:
            result = await _result(ask, view, draft)
            if not result.applies:
                raise InvalidInput(result.problem or "Nothing is changed yet.", field="counter_patch")
            await ask.call(
                "submit_verdict",
                review_id=view.review_id,
                verdict=verdict,
                reason=ask.form.get("reason", "").strip() or None,
                counter_patch=result.counter_patch,
                reviewer_id=ask.person.name,
                claim_generation=ask.number("claim_generation"),
                round=ask.number("on_round"),
                idempotency_key=ask.form.get("idempotency_key") or None,
            )
        except TandemError as error:
            if error.status == CONFLICT:
                changes = await changes_since(ask, view.review_id, ask.form.get("seen", ""), staleness.ANYTHING)
            acting = Acting("draft", _typed(ask), error.as_dict(), changes)
            return _page(view, ask, draft, result, acting, error.status)
        if is_script(ask):
            return Response(status_code=200, headers={"HX-Redirect": view.base})
        return see(view.base)
    return _page(view, ask, draft, result, Acting("draft", _typed(ask), None, changes), CONFLICT)


async def _result(ask: Ask, view: ReviewView, draft: Draft) -> Result:
    """What a verdict with the draft would be told, and what it changes of the round."""
    number = ask.number("on_round")
    if draft.mode == "patch":
        judged = await ask.call("check_counter_patch", review_id=view.review_id, counter_patch=draft.text, round=number)
        found: dict[str, Any] = {**judged, "counter_patch": draft.text}
    elif draft.mode == "text":
        found = await ask.call("draft_counter_patch", review_id=view.review_id, text=draft.text, round=number)
    else:
        edits = [file.edit() for file in draft.files if file.changed and not file.refused]
        if not edits:
            return Result(problem="Nothing is changed yet.")
        found = await ask.call("draft_counter_patch", review_id=view.review_id, edits=edits, round=number)
    body: str = found["counter_patch"]
    made = Result(found["applies"], found["problem"] or "", counter_patch=body)
    if draft.mode == "text":
        before = view.proposal["description"] or ""
        return replace(made, document=await in_worker(compare, before, body, heading=4))
    return replace(made, files=await in_worker(patch_views, body, view.proposal["diff"], "draft"))


def _typed(ask: Ask) -> dict[str, str]:
    return {name: ask.form.get(name, "") for name in ("reason", "another")}


def _page(
    view: ReviewView, ask: Ask, draft: Draft, result: Result, acting: Acting = NOTHING, status: int = 200
) -> Page:
    given: dict[str, Any] = values(view, ask) | {"view": view, "draft": draft, "result": result, "acting": acting}
    return Page("review/acts_draft.html", given, status, heavy=True)


_ADDRESS = "/reviews/{review_id}/edit"
ROUTES = (PageRoute(_ADDRESS, show), PageRoute(_ADDRESS, do, "POST"))
