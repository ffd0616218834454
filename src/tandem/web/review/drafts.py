"""`/reviews/{review_id}/edit`: a counter-patch written on the page, looked at, and sent with a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from starlette.responses import Response

from tandem.errors import InvalidInput, NotFound, TandemError
from tandem.reviews.edits import Editable, Lines, is_applicable, opened, with_suggestions
from tandem.reviews.finding_contract import FindingView
from tandem.reviews.page_contract import CounterPatchDraft
from tandem.web.diffs.documents import DocumentDiff, compare
from tandem.web.diffs.views import FileView
from tandem.web.page import PageRequest, PageResponse, PageRoute, in_worker
from tandem.web.review.acting import JUDGING, NOTHING, FormResult
from tandem.web.review.actions import Act, act, verdict_by_form
from tandem.web.review.counter_patch import patch_views
from tandem.web.review.discussion import values
from tandem.web.review.view import ReviewView, load

MOST_FILES = 20
"""That are open at once."""


def from_form(form: Mapping[str, str]) -> list[Editable]:
    """The files that a form was sent with."""
    made: list[Editable] = []
    while (path := form.get(f"path:{len(made)}")) is not None and len(made) < MOST_FILES:
        said = {name: form.get(f"{name}:{len(made)}") for name in ("content", "original", "ends", "refused")}
        exists, delete = (form.get(f"{name}:{len(made)}") == "yes" for name in ("exists", "delete"))
        given = {name: value for name, value in said.items() if value is not None}
        made.append(Editable(path, exists=exists, delete=delete, **given))
    return made


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
class DraftResult:
    """What would become of the draft.

    Attributes:
        applies: Whether a verdict could carry it; None if nothing was changed yet.
        problem: Why not.
        files: Its changes to the round.
        document: The same for a text.
        counter_patch: What would be sent.
        is_whole: Whether the files are all of it, as its changes to the round are not known.
    """

    applies: bool | None = None
    problem: str = ""
    files: list[FileView] = field(default_factory=list[FileView])
    document: DocumentDiff | None = None
    counter_patch: str = ""
    is_whole: bool = False


async def show(request: PageRequest) -> PageResponse:
    """The editor, with the round's files open if they are few."""
    view = await load(request)
    return _page(view, request, await _fresh(request, view), DraftResult())


async def do(request: PageRequest) -> PageResponse | Response:
    """Open another file, look at what would become of it, or send it: what the form's button says."""
    view = await load(request)
    draft = _sent(request, view)
    acting = FormResult("draft", _typed(request))
    try:
        match request.form.get("do"):
            case "open":
                wider = await _opened(request, view, draft)
                return _page(
                    view, request, wider, DraftResult(), replace(acting, typed={**acting.typed, "another": ""})
                )
            case "changes_requested" | "comment" as verdict:
                return await _send(request, view, draft, verdict)
            case _:
                return _page(view, request, draft, await _result(request, view, draft), acting)
    except TandemError as error:
        return _page(view, request, draft, DraftResult(), replace(acting, error=error))


async def _fresh(request: PageRequest, view: ReviewView) -> Draft:
    suggested = _suggested(request, view)
    if view.proposal.diff is None:
        return Draft("text", text=with_suggestions(view.proposal.description or "", suggested))
    paths = [file.path for file in view.proposal.affected_files]
    named = [*request.http.query_params.getlist("path"), *(one.place.file for one in suggested if one.place)]
    asked = [path for path in named if path] or (paths if len(paths) <= _OPENED_AT_ONCE else [])
    try:
        files = await opened(_lines(request, view), asked[:MOST_FILES], suggested)
    except NotFound as error:
        return Draft("patch", text=view.proposal.diff, why=error.message)
    return Draft("files", files, others=_others(paths, files))


def _lines(request: PageRequest, view: ReviewView) -> Lines:
    return partial(request.call, "get_round_file", review_id=view.review_id, round=view.round)


def _suggested(request: PageRequest, view: ReviewView) -> list[FindingView]:
    """The findings that the address names whose suggestions can be applied."""
    asked = request.http.query_params.getlist("suggestion")
    return [one for one in view.findings if one.finding_id in asked and is_applicable(one)]


def _sent(request: PageRequest, view: ReviewView) -> Draft:
    mode = request.form.get("mode", "files")
    if mode in ("text", "patch"):
        return Draft("text" if mode == "text" else "patch", text=request.form.get("text", ""))
    files = from_form(request.form)
    return Draft("files", files, others=_others([file.path for file in view.proposal.affected_files], files))


def _others(paths: list[str], files: list[Editable]) -> list[str]:
    there = {file.path for file in files}
    return [path for path in paths if path not in there]


async def _opened(request: PageRequest, view: ReviewView, draft: Draft) -> Draft:
    path = request.form.get("another", "").strip() or request.form.get("other", "")
    if not path:
        raise InvalidInput("Name a file to open.", field="another")
    more = await opened(_lines(request, view), [path])
    files = [*draft.files, *(file for file in more if file.path not in {one.path for one in draft.files})]
    return replace(draft, files=files, others=_others(draft.others, files))


async def _send(request: PageRequest, view: ReviewView, draft: Draft, verdict: str) -> PageResponse | Response:
    """Give the verdict that carries the draft."""
    result = DraftResult()

    async def carried() -> dict[str, Any]:
        nonlocal result
        result = await _result(request, view, draft)
        if not result.applies:
            raise InvalidInput(result.problem or "Nothing is changed yet.", field="counter_patch")
        return {"verdict": verdict, "counter_patch": result.counter_patch}

    async def again(request: PageRequest, acting: FormResult) -> PageResponse:
        return _page(view, request, draft, result, acting)

    async def onward(_request: PageRequest) -> str:
        return view.base

    return await act(
        request, Act("submit_verdict", JUDGING, verdict_by_form, leaves=True, is_verdict=True), again, onward, carried
    )


async def _result(request: PageRequest, view: ReviewView, draft: Draft) -> DraftResult:
    """The answer to a verdict with the draft, and its changes to the round."""
    edits = [file.edit() for file in draft.files if file.changed]
    given = {"edits": edits} if draft.mode == "files" else {"text": draft.text}
    if draft.mode == "files" and not edits:
        return DraftResult(problem="Nothing is changed yet.")
    number = request.number("on_round")
    asked = {"review_id": view.review_id, "round": number, **given}
    found: CounterPatchDraft = await request.call("draft_counter_patch", **asked)
    patch = found.counter_patch
    made = DraftResult(found.applies, found.problem or "", counter_patch=patch, is_whole=found.interdiff is None)
    if draft.mode == "text":
        before = view.proposal.description or ""
        return replace(made, document=await in_worker(compare, before, patch, heading=4), is_whole=False)
    changes = patch if found.interdiff is None else found.interdiff
    return replace(made, files=await in_worker(patch_views, changes, "draft"))


def _typed(request: PageRequest) -> dict[str, str]:
    return {name: request.form.get(name, "") for name in ("reason", "another", "shown")}


def _page(
    view: ReviewView, request: PageRequest, draft: Draft, result: DraftResult, acting: FormResult = NOTHING
) -> PageResponse:
    given: dict[str, Any] = values(view, request) | {"view": view, "draft": draft, "result": result, "acting": acting}
    return PageResponse("review/acts_draft.html", given, acting.status, heavy=True)


_ADDRESS = "/reviews/{review_id}/edit"
ROUTES = (PageRoute(_ADDRESS, show, do),)
