"""What a person does to a review: one form, one operation; refused with what was typed if the page is too old."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import orjson
from starlette.responses import JSONResponse, Response

from tandem.errors import InvalidInput, TandemError
from tandem.faces.asgi.json_body import parse_json
from tandem.faces.web.answering import Page, see
from tandem.faces.web.asking import Ask, Handler
from tandem.faces.web.persons import TOKEN_FIELD
from tandem.faces.web.review import drafts, staleness
from tandem.faces.web.review.discussion import NOTHING, Acting, values
from tandem.faces.web.review.page import whole
from tandem.faces.web.review.scripts import CONFLICT, is_script
from tandem.faces.web.review.staleness import changes_since
from tandem.faces.web.review.view import load
from tandem.faces.web.routes import PageRoute

_OWN_FIELDS = frozenset({TOKEN_FIELD, "form_name", "seen", "idempotency_key", "on_round", "claim_generation"})
"""What a form says of the page that it was on, rather than what somebody typed."""
_MOST_COMMENTS = 500

Arguments = Callable[[Ask], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Act:
    """Something that a form does.

    Attributes:
        operation: The operation.
        matters: The kinds of events that make the page too old for it.
        arguments: The operation's arguments from the form, besides the review and the key.
        keeps: Whether what was typed stays on the page after it was done: claiming comes before the verdict.
    """

    operation: str
    matters: frozenset[str]
    arguments: Arguments
    keeps: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """Where a form stands.

    Attributes:
        again: The page with the form as it came back, with its HTTP status.
        onward: The address to go on to when it was done.
    """

    again: Callable[[Ask, Acting, int], Awaitable[Page]]
    onward: Callable[[Ask], Awaitable[str]]


def _claim(ask: Ask) -> dict[str, Any]:
    return {"reviewer_id": ask.person.name}


def _held(ask: Ask) -> dict[str, Any]:
    return {"claim_generation": ask.number("claim_generation")}


def _release(ask: Ask) -> dict[str, Any]:
    return {**_held(ask), **_reason(ask)}


def _reason(ask: Ask) -> dict[str, Any]:
    return {"reason": ask.form.get("reason", "").strip() or None}


def verdict(ask: Ask) -> dict[str, Any]:
    """A verdict by the form's fields."""
    return {
        **_held(ask),
        **_reason(ask),
        "verdict": ask.form.get("verdict", "comment"),
        "comments": _comments(ask) or None,
        "reviewer_id": ask.person.name,
        "round": ask.number("on_round"),
    }


def _comment(ask: Ask) -> dict[str, Any]:
    found = _comments(ask)
    if not found:
        raise InvalidInput("Write something to say about the line.", field="comment_body")
    where = ", ".join(sorted({f"{one['file']}:{one['line']}" if "line" in one else one["file"] for one in found}))
    return {**verdict(ask), "verdict": "comment", "reason": f"On {where}."[:500], "comments": found}


def _comments(ask: Ask) -> list[dict[str, Any]]:
    """The comments on lines: those that a script collected, and the one of the fields."""
    try:
        kept: Any = parse_json((ask.form.get("comments") or "[]").encode())
    except orjson.JSONDecodeError:
        raise InvalidInput("The comments on lines cannot be read; load the page again.", field="comments") from None
    if not isinstance(kept, list):
        raise InvalidInput("The comments on lines are no list.", field="comments")
    found = [_one_comment(item) for item in cast("list[Any]", kept)[:_MOST_COMMENTS]]
    body, path = ask.form.get("comment_body", "").strip(), ask.form.get("comment_path", "")
    if body and path:
        line = ask.number("comment_line")
        found.append({"file": path, "body": body} | ({} if line is None else {"line": line}))
    return found


def _one_comment(item: Any) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise InvalidInput("A comment on a line is no object.", field="comments")
    given = cast("dict[str, Any]", item)
    return {name: given[name] for name in ("file", "line", "body") if given.get(name) is not None}


def spoken(ask: Ask, body: str) -> dict[str, Any]:
    """A message by the side that the form speaks for."""
    side = "reviewer" if ask.form.get("side") == "reviewer" else "proposer"
    found: dict[str, Any] = {"sender_role": side, "body": body}
    if side == "reviewer":
        found["reviewer_id"] = ask.person.name
        found["claim_generation"] = ask.number("claim_generation") if ask.form.get("held") else None
    return found


def _message(ask: Ask) -> dict[str, Any]:
    about = {"file": ask.form.get("file") or None, "line": ask.number("line"), "answers": ask.form.get("answers")}
    metadata = {name: value for name, value in about.items() if value is not None} or None
    return {**spoken(ask, ask.form.get("body", "")), "metadata": metadata}


def _resolve(ask: Ask) -> dict[str, Any]:
    body = ask.form.get("body", "").strip() or "Resolved."
    return {**_message(ask), "body": body, "resolves": ask.form.get("answers")}


def _answer(ask: Ask) -> dict[str, Any]:
    return _resolve(ask) if ask.form.get("settle") else _message(ask)


def _decide(ask: Ask) -> dict[str, Any]:
    return {**_reason(ask), "counter_patch_id": ask.form.get("counter_patch_id", "")}


def _nothing(_ask: Ask) -> dict[str, Any]:
    return {}


ACTS: Mapping[str, Act] = {
    "claim": Act("claim_review", staleness.CLAIMING, _claim, keeps=True),
    "release": Act("release_claim", staleness.HOLDING, _release),
    "verdict": Act("submit_verdict", staleness.JUDGING, verdict),
    "comment": Act("submit_verdict", staleness.JUDGING, _comment),
    "message": Act("add_message", staleness.TALKING, _message),
    "resolve": Act("add_message", staleness.TALKING, _answer),
    "accept": Act("accept_counter_patch", staleness.JUDGING, _decide),
    "reject": Act("reject_counter_patch", staleness.JUDGING, _decide),
    "close": Act("close_review", staleness.JUDGING, _reason),
    "retry": Act("retry_review", staleness.RETRYING, _nothing),
}


async def do(ask: Ask, act: Act, on: Form) -> Page | Response:
    """Do what a form asks for, if the page that it was on is not too old for it.

    Answers with the page as it is then: a redirection for a browser that sent the form itself, and the acting
    part alone for a script. A refusal answers with the page, too, with what was typed.

    Args:
        ask: The request.
        act: What is asked for.
        on: Where the form stands.
    """
    review_id = ask.path("review_id")
    form, typed = ask.form.get("form_name", ""), _typed(ask)
    seen = ask.form.get("seen", "")
    changes = await changes_since(ask, review_id, seen, act.matters)
    if changes:
        return await on.again(ask, Acting(form, typed, None, changes), CONFLICT)
    try:
        key = ask.form.get("idempotency_key") or None
        await ask.call(act.operation, review_id=review_id, idempotency_key=key, **act.arguments(ask))
    except TandemError as error:
        if error.status == CONFLICT:
            changes = await changes_since(ask, review_id, seen, staleness.ANYTHING)
        return await on.again(ask, Acting(form, typed, error.as_dict(), changes), error.status)
    if ask.form.get("then") == "edit":
        return _onward(ask)
    if act.keeps and any(typed.values()):
        return await on.again(ask, Acting(form, typed), 200)
    if is_script(ask):
        return await on.again(ask, NOTHING, 200)
    return see(await on.onward(ask))


async def answer(ask: Ask, acting: Acting, status: int) -> Page:
    """The page after a form: all of it, or the acting part for a script."""
    if is_script(ask):
        return await part(ask, "review/acts_all.html", acting, status)
    return await whole(ask, ask.path("review_id"), status=status, acting=acting)


async def part(ask: Ask, template: str, acting: Acting | None = None, status: int = 200) -> Page:
    """A part of the page without its diff."""
    view = await load(ask, ask.path("review_id"), content=False)
    if view.is_holder or any(
        entry["kind"] == "counter_patch" and entry["round"] == view.round for entry in view.discussion
    ):
        # Approve stands beside what is unusual in the round; a counter-patch is shown by what it changes of it.
        view = await load(ask, ask.path("review_id"))
    given = values(view, ask) | {"view": view} | ({} if acting is None else {"acting": acting})
    return Page(template, given, status=status, heavy=True)


def _typed(ask: Ask) -> dict[str, str]:
    return {name: value for name, value in ask.form.items() if name not in _OWN_FIELDS}


async def _back(ask: Ask) -> str:
    """The page as it was shown, from the address of the form."""
    query = ask.request.url.query
    page = ask.request.url.path.rpartition("/")[0]
    return page + (f"?{query}" if query and query.isprintable() else "")


def _onward(ask: Ask) -> Response:
    """To the counter-patch that the form was sent from; what is typed there is kept by the window."""
    there = ask.request.url.path.rpartition("/")[0] + "/edit"
    return Response(headers={"HX-Redirect": there}) if is_script(ask) else see(there)


def _handler(act: Act) -> Handler:
    async def handle(ask: Ask) -> Page | Response:
        return await do(ask, act, Form(answer, _back))

    return handle


async def renew(ask: Ask) -> Page | Response:
    """Extend the lease, for a person who is at work; a script is told the lease's new end.

    It has no key: each time is meant.
    """
    try:
        found = await ask.call("renew_claim", review_id=ask.path("review_id"), **_held(ask))
    except TandemError as error:
        if _wants_json(ask):
            return JSONResponse({"error": error.as_dict()}, error.status)
        changes = await changes_since(ask, ask.path("review_id"), ask.form.get("seen", ""), staleness.HOLDING)
        return await answer(ask, Acting("renew", {}, error.as_dict(), changes), error.status)
    if _wants_json(ask):
        return JSONResponse(found)
    return await answer(ask, NOTHING, 200) if is_script(ask) else see(await _back(ask))


def _wants_json(ask: Ask) -> bool:
    return ask.request.headers.get("accept") == "application/json"


async def show_bar(ask: Ask) -> Page:
    """What can be done, for a page that is brought up to date."""
    return await part(ask, "review/acts_bar.html")


async def show_stream(ask: Ask) -> Page:
    """What was said, likewise."""
    return await part(ask, "review/acts_stream.html")


async def show_threads(ask: Ask) -> Page:
    """The comments on lines, likewise."""
    return await part(ask, "review/acts_lines.html")


ROUTES: tuple[PageRoute, ...] = (
    PageRoute("/reviews/{review_id}/bar", show_bar),
    PageRoute("/reviews/{review_id}/stream", show_stream),
    PageRoute("/reviews/{review_id}/threads", show_threads),
    PageRoute("/reviews/{review_id}/renew", renew, "POST"),
    *drafts.ROUTES,
    *(PageRoute(f"/reviews/{{review_id}}/{name}", _handler(act), "POST") for name, act in ACTS.items()),
)
