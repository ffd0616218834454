"""A person's actions on a review: one form, one operation; a page that is too old gets its text back.

`/reviews/{review_id}/drafts` has what the person has written there and not sent, for the page's script.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, cast

import orjson
from starlette.responses import JSONResponse, Response

from tandem.errors import InvalidInput, TandemError
from tandem.reviews import rounds
from tandem.reviews.answers import ClaimRenewed
from tandem.reviews.finding_contract import GivenFinding
from tandem.reviews.finding_rules import ANSWERS, SAID_BY_FINDINGS, SEE_FINDINGS
from tandem.reviews.page_contract import Draft, DraftPage
from tandem.server.asgi.calls import parse_json
from tandem.web.page import PageRequest, PageResponse, PageRoute, see
from tandem.web.person import TOKEN_FIELD
from tandem.web.review.acting import (
    ANYTHING,
    CLAIMING,
    CONFLICT,
    HOLDING,
    JUDGING,
    NOTHING,
    RERUNNING,
    RETRYING,
    SETTLING,
    TALKING,
    FormResult,
    changes_since,
    is_script,
)
from tandem.web.review.page import parts, whole
from tandem.web.review.view import load

_OWN_FIELDS = frozenset(
    {TOKEN_FIELD, "form_name", "seen", "idempotency_key", "on_round", "claim_generation"}
    | {"draft_id", "draft_texts", "draft_at"}
)
"""What a form says of the page that it was on, rather than what somebody typed."""
_SAY_FIRST = "Say first what the fault is; nothing is sent yet."
_SETTLED = "settled:"
"""What the fields of earlier findings in the form of a verdict begin with."""

Arguments = Callable[[PageRequest], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Act:
    """Something that a form does.

    Attributes:
        operation: The operation.
        matters: The kinds of events that make the page too old for it.
        arguments: The operation's arguments from the form, besides the review and the key.
        keeps: Whether the typed text stays on the page after it was done: claiming comes before the verdict.
        leaves: Whether a script, too, goes on to another page when it was done.
        is_verdict: Whether it waits until the person has seen all that they have written there and not sent.
    """

    operation: str
    matters: frozenset[str]
    arguments: Arguments
    keeps: bool = False
    leaves: bool = False
    is_verdict: bool = False


Again = Callable[[PageRequest, FormResult], Awaitable[PageResponse]]
"""Makes the page with the form as it came back."""


def _held(request: PageRequest) -> dict[str, Any]:
    return {"claim_generation": request.number("claim_generation")}


def _reason(request: PageRequest) -> dict[str, Any]:
    return {"reason": request.form.get("reason", "").strip() or None}


def verdict_by_form(request: PageRequest) -> dict[str, Any]:
    """A verdict by the form's fields."""
    found, said = _findings(request), request.form.get("verdict", "comment")
    reason = request.form.get("reason", "").strip()
    if found and said in SAID_BY_FINDINGS:
        reason = reason or SEE_FINDINGS
    verdict = "approved" if said == "all_verified" else said
    return {
        **_held(request),
        "reason": reason or None,
        "verdict": verdict,
        "findings": found or None,
        "answers": _settled(request, reason or None, all_verified=said == "all_verified") or None,
        "reviewer_id": request.person.name,
        "round": request.number("on_round"),
    }


def _settled(request: PageRequest, reason: str | None, *, all_verified: bool) -> list[dict[str, Any]]:
    """What the form says of the earlier findings that it shows; one that is reopened takes the verdict's reason."""
    otherwise = "verified" if all_verified else ""
    said = {
        name.removeprefix(_SETTLED): value or otherwise
        for name, value in request.form.items()
        if name.startswith(_SETTLED)
    }
    return [
        {"finding_id": name, "answer": answer, "reason": reason if answer == "reopened" else None}
        for name, answer in said.items()
        if answer
    ]


def _finding(request: PageRequest) -> dict[str, Any]:
    found = _findings(request)
    if not found:
        raise InvalidInput(_SAY_FIRST, field="comment_body")
    places = {":".join(str(one[at]) for at in ("file", "line") if at in one) or "the whole change" for one in found}
    said = verdict_by_form(request)
    return {
        **said,
        "verdict": "comment",
        "reason": f"On {', '.join(sorted(places))}."[:500],
        "findings": found,
        "answers": None,
    }


def _findings(request: PageRequest) -> list[dict[str, Any]]:
    """The findings: those that a script collected, and the one of the fields, on the whole change without a file."""
    try:
        kept: Any = parse_json((request.form.get("findings") or "[]").encode())
    except orjson.JSONDecodeError:
        raise InvalidInput("The findings on lines cannot be read; load the page again.", field="findings") from None
    if not isinstance(kept, list):
        raise InvalidInput("The findings on lines are no list.", field="findings")
    found = [_one_finding(item) for item in cast("list[Any]", kept)]
    path, line, body = request.form.get("comment_path", ""), request.number("comment_line"), _remark(request)
    details = _details(request)
    if not body and any(details[name] is not None for name in ("category", "failure", "suggestion")):
        raise InvalidInput(_SAY_FIRST, field="comment_body")
    if body:
        severity, side = request.form.get("severity", "minor"), request.form.get("comment_side", "new")
        one = {"file": path or None, "line": line, "side": side, "severity": severity, "claim": body}
        found.append(_one_finding(one | details))
    return found


def _details(request: PageRequest) -> dict[str, Any]:
    """What else the fields say; the lines as they were are no suggestion."""
    form, first, end = request.form, request.number("comment_line") or 0, request.number("end_line") or 0
    if form.get("end_line", "").strip() and (not end or end < first):
        raise InvalidInput(f"“To line” takes the number of a line from {first} on.", field="end_line")
    said = {name: form.get(name, "").strip() or None for name in ("category", "failure")}
    suggestion = form.get("suggestion") if form.get("suggestion") != form.get("original") else None
    return {
        **said,
        "suggestion": suggestion,
        "end_line": end if end > first else None,
        "pre_existing": "pre_existing" in form,
    }


def _remark(request: PageRequest) -> str:
    """The words of the fields; on a line that is not kept itself, behind what the line said."""
    body = request.form.get("comment_body", "").strip()
    quote = request.form.get("quote")
    return f"{quote}\n\n{body}" if quote and body else body


def _one_finding(item: Any) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise InvalidInput("A finding on a line is no object.", field="findings")
    given = cast("dict[str, Any]", item)
    return {name: given[name] for name in GivenFinding.model_fields if given.get(name) is not None}


def _settle(request: PageRequest) -> dict[str, Any]:
    """What a reviewer, or the proposer's side, says of one finding."""
    said = request.form.get("answer", "")
    found: dict[str, Any] = {
        "finding_id": request.form.get("answers", ""),
        "answer": said,
        "reason": request.form.get("body", "").strip() or None,
    }
    if said not in ANSWERS:
        found["reviewer_id"] = request.person.name
        found["claim_generation"] = request.number("claim_generation") if request.form.get("held") else None
    return found


def _message(request: PageRequest) -> dict[str, Any]:
    """A message by the side that the form speaks for, perhaps about a line or a finding."""
    side = "reviewer" if request.form.get("side") == "reviewer" else "proposer"
    about = {
        "file": request.form.get("file") or request.form.get("comment_path") or None,
        "line": request.number("line") or request.number("comment_line"),
        "answers": request.form.get("answers"),
    }
    found: dict[str, Any] = {
        "sender_role": side,
        "body": request.form.get("body") or _remark(request),
        "metadata": {name: value for name, value in about.items() if value is not None} or None,
    }
    if side == "reviewer":
        found["reviewer_id"] = request.person.name
        found["claim_generation"] = request.number("claim_generation") if request.form.get("held") else None
    return found


def _answer(request: PageRequest) -> dict[str, Any]:
    said = _message(request)
    if request.form.get("settle"):
        said |= {"body": request.form.get("body", "").strip() or "Resolved.", "resolves": request.form.get("answers")}
    return said


def _decide(request: PageRequest) -> dict[str, Any]:
    return {**_reason(request), "counter_patch_id": request.form.get("counter_patch_id", "")}


def _withdrawal(request: PageRequest) -> dict[str, Any]:
    return {**_reason(request), "withdrawn_by": request.person.name, "round": request.number("on_round")}


def _waiver(request: PageRequest) -> dict[str, Any]:
    # By full hours, so that the form sent twice says the same, and none of the days is cut short.
    hours = min((request.number("days") or 0) * 24 + 1, rounds.MOST_WAIVED_DAYS * 24)
    due = datetime.now(tz=UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=hours)
    stated = {"need": request.form.get("need", "").strip(), "until": due.isoformat()}
    return {**_reason(request), **stated, "waived_by": request.person.name, "round": request.number("on_round")}


def _settlement(request: PageRequest) -> dict[str, Any]:
    stated = {"verdict": request.form.get("verdict", ""), "need": request.form.get("need") or None}
    return {**_reason(request), **stated, "reviewer_id": request.person.name, "round": request.number("on_round")}


def _checks(request: PageRequest) -> dict[str, Any]:
    name = request.form.get("check")
    return {"checks": [name] if name else None}


ACTS: Mapping[str, Act] = {
    "claim": Act("claim_review", CLAIMING, lambda request: {"reviewer_id": request.person.name}, keeps=True),
    "take": Act(
        "claim_review", CLAIMING, lambda request: {"reviewer_id": request.person.name, "take_over": True}, keeps=True
    ),
    "release": Act("release_claim", HOLDING, lambda request: _held(request) | _reason(request)),
    "verdict": Act("submit_verdict", JUDGING, verdict_by_form, is_verdict=True),
    "comment": Act("submit_verdict", JUDGING, _finding),
    "settle": Act("answer_finding", SETTLING, _settle),
    "message": Act("add_message", TALKING, _message),
    "resolve": Act("add_message", TALKING, _answer),
    "accept": Act("accept_counter_patch", JUDGING, _decide),
    "reject": Act("reject_counter_patch", JUDGING, _decide),
    "withdraw": Act("withdraw_approval", JUDGING, _withdrawal),
    "waive": Act("waive_requirement", JUDGING, _waiver),
    "owed": Act("settle_waiver", JUDGING, _settlement),
    "close": Act("close_review", JUDGING, _reason),
    "checks": Act("run_checks", RERUNNING, _checks),
    "retry": Act("retry_review", RETRYING, lambda _: {}),
}


async def act(
    request: PageRequest,
    one: Act,
    again: Again,
    onward: Callable[[PageRequest], Awaitable[str]],
    besides: Callable[[], Awaitable[dict[str, Any]]] | None = None,
) -> PageResponse | Response:
    """Do what a form asks for, if the page that it was on is not too old for it.

    Answers with the page as it is then: a redirection for a browser that sent the form itself, and the acting
    part alone for a script. A refusal answers with the page, too, with the typed text.

    Args:
        request: The request.
        one: The act.
        again: Makes the page that the form stands on.
        onward: Gives the address to go on to when it was done.
        besides: Makes the arguments that take more than reading the form, once the page is known not to be too old.
    """
    review_id = request.path("review_id")
    form, typed = request.form.get("form_name", ""), _typed(request)
    seen = request.form.get("seen", "")
    changes = await changes_since(request, review_id, seen, one.matters)
    unseen = await _unseen_drafts(request) if one.is_verdict else ()
    if changes or unseen:
        typed |= {"shown": _shown_with(request, unseen)}
        return await again(request, FormResult(form, typed, None, changes, unseen))
    arguments: dict[str, Any] = {}
    try:
        arguments = one.arguments(request) | (await besides() if besides else {})
        await request.call(one.operation, review_id=review_id, idempotency_key=_key(request), **arguments)
    except TandemError as error:
        if not (one.is_verdict and error.status == CONFLICT and await _is_given(request, arguments)):
            if error.status == CONFLICT:
                changes = await changes_since(request, review_id, seen, ANYTHING)
            return await again(request, FormResult(form, typed, error, changes))
    if not one.keeps:
        await _discard_sent(request)
    if one.leaves or request.form.get("then") == "edit":
        there = await onward(request) if one.leaves else _editor(request)
        return Response(headers={"HX-Redirect": there}) if is_script(request) else see(there)
    if one.keeps and any(typed.values()):
        return await again(request, FormResult(form, typed))
    if is_script(request):
        return await again(request, NOTHING)
    return see(await onward(request))


def _key(request: PageRequest) -> str | None:
    """The key of a form: that of the drafts that it sends as they are kept, so that another window's is the same."""
    drafts = sorted(set(zip(request.lists.get("draft_id", ()), request.lists.get("draft_at", ()), strict=False)))
    if drafts and all(at for _, at in drafts):
        return hashlib.sha256(orjson.dumps([request.path("review_id"), drafts])).hexdigest()
    return request.form.get("idempotency_key") or None


async def _is_given(request: PageRequest, said: dict[str, Any]) -> bool:
    """Whether the person has given a verdict before, on the same round, with the same words and no more."""
    if any(said.get(name) for name in ("findings", "answers", "counter_patch")):
        return False
    own = ("verdict", request.person.name, *map(said.get, ("round", "verdict", "reason")))
    given = (await load(request)).discussion
    return any((one.kind, one.author, one.round, one.verdict, one.body) == own for one in given)


async def answer(request: PageRequest, acting: FormResult) -> PageResponse:
    """The page after a form; for a script, only what follows the review."""
    return await (parts if is_script(request) else whole)(request, acting)


def _typed(request: PageRequest) -> dict[str, str]:
    return {name: value for name, value in request.form.items() if name not in _OWN_FIELDS}


async def _back(request: PageRequest) -> str:
    """The page as it was shown, from the address of the form."""
    query = request.http.url.query
    page = request.http.url.path.rpartition("/")[0]
    return page + (f"?{query}" if query and query.isprintable() else "")


def _editor(request: PageRequest) -> str:
    """The counter-patch that the form was sent from; the window keeps the text there."""
    return request.http.url.path.rpartition("/")[0] + "/edit"


async def renew(request: PageRequest) -> PageResponse | Response:
    """Extend the lease, for a person who is at work; a script is told the lease's new end.

    It has no key: each time is meant.
    """
    try:
        found: ClaimRenewed = await request.call("renew_claim", review_id=request.path("review_id"), **_held(request))
    except TandemError as error:
        if _wants_json(request):
            return JSONResponse({"error": error.as_dict()}, error.status)
        changes = await changes_since(request, request.path("review_id"), request.form.get("seen", ""), HOLDING)
        return await answer(request, FormResult("renew", {}, error, changes))
    if _wants_json(request):
        return Response(orjson.dumps(found), media_type="application/json")
    return await answer(request, NOTHING) if is_script(request) else see(await _back(request))


def _wants_json(request: PageRequest) -> bool:
    return request.http.headers.get("accept") == "application/json"


_DRAFT_TEXTS = ("kind", "body", "file", "side", "severity", "category", "failure", "suggestion")
_DRAFT_NUMBERS = ("round", "line", "end_line")
_DRAFT_CONTENT = ("body", "severity", "category", "failure", "suggestion", "line", "end_line")


async def list_drafts(request: PageRequest) -> Response:
    """All drafts of the person on the review, as JSON."""
    return _as_json({"drafts": await _all_drafts(request) if request.person.known else []})


def _as_json(found: dict[str, Any]) -> Response:
    return Response(orjson.dumps(found), media_type="application/json", headers={"cache-control": "no-store"})


async def _all_drafts(request: PageRequest) -> list[Draft]:
    asked: dict[str, Any] = {"review_id": request.path("review_id"), "person": request.person.name}
    page: DraftPage = await request.call("list_drafts", **asked)
    found = [*page.drafts]
    while page.next_page is not None:
        page = await request.call("list_drafts", **asked, page=page.next_page)
        found += page.drafts
    return found


async def keep_draft(request: PageRequest) -> Response:
    """Save a draft as it is now, or discard it; answers with the draft as it is kept, or with none.

    Raises:
        NotFound: There is no such review or round, or its contents were removed.
        TooLarge: The text is too long, or they are too many.
    """
    review_id, person = request.path("review_id"), request.person.name
    draft_id, expected = request.form.get("draft_id", ""), request.form.get("expected")
    if request.form.get("do") == "discard":
        asked: dict[str, Any] = {"review_id": review_id, "person": person, "draft_ids": [draft_id]}
        await request.call("discard_draft", **asked, expected=expected)
        return _as_json({"draft": None})
    written: dict[str, Any] = {name: request.form.get(name) for name in _DRAFT_TEXTS}
    written |= {name: request.number(name) for name in _DRAFT_NUMBERS}
    written |= {"pre_existing": request.form.get("pre_existing") == "true", "expected": expected}
    written |= {"review_id": review_id, "person": person, "draft_id": draft_id}
    return _as_json({"draft": await request.call("save_draft", **written)})


async def _discard_sent(request: PageRequest) -> None:
    """Discard the drafts that a form has taken along, once it was done; one that stays is shown, and lost is none.

    Words that another window has written meanwhile were not sent, and stay.
    """
    taken: dict[str, list[str]] = {}
    for name, texts in zip(request.lists.get("draft_id", ()), request.lists.get("draft_texts", ()), strict=False):
        taken.setdefault(name, []).append(texts)
    if taken:
        with suppress(TandemError):
            found = await _all_drafts(request)
            done = [one for one in found if any(_has_all(text, one) for text in taken.get(one.draft_id, ()))]
            if done:
                await request.call(
                    "discard_draft",
                    review_id=request.path("review_id"),
                    person=request.person.name,
                    draft_ids=[one.draft_id for one in done],
                    expected=max(one.updated_at for one in done),
                )


async def _unseen_drafts(request: PageRequest) -> list[Draft]:
    """The person's drafts on the review that the form's window did not show, or showed before they were changed."""
    shown = _shown_drafts(request)
    return [
        one
        for one in await _all_drafts(request)
        if not {one.updated_at, _draft_content(one)} & {*shown.get(one.draft_id, ())}
    ]


def _shown_with(request: PageRequest, more: Sequence[Draft]) -> str:
    """What the form's window showed before, and shows now, for its next try."""
    return orjson.dumps(_shown_drafts(request) | {one.draft_id: [one.updated_at] for one in more}).decode()


def _shown_drafts(request: PageRequest) -> dict[str, list[str]]:
    """By drafts, their versions that the window showed: when each was saved, or its content while it is being saved."""
    try:
        found = parse_json((request.form.get("shown") or "{}").encode())
    except orjson.JSONDecodeError:
        return {}
    given = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    return {name: [str(one) for one in cast("list[Any]", of)] for name, of in given.items() if isinstance(of, list)}


def _draft_content(draft: Draft) -> str:
    """As the page's script writes it, in `contentOf`."""
    return orjson.dumps([str(getattr(draft, name) or "") for name in _DRAFT_CONTENT]).decode()


def _has_all(texts: str, draft: Draft) -> bool:
    """Whether texts that were sent have all that a draft says."""
    try:
        given = parse_json(texts.encode())
    except orjson.JSONDecodeError:
        return False
    own = (draft.body, draft.failure or "", draft.suggestion or "", draft.category or "")
    return isinstance(given, list) and all(
        text.strip() in str(there) for text, there in zip(own, cast("list[Any]", given), strict=False)
    )


ROUTES: tuple[PageRoute, ...] = (
    PageRoute("/reviews/{review_id}/renew", post=renew),
    PageRoute("/reviews/{review_id}/drafts", list_drafts, keep_draft, inbox_rows=0),
    *(
        PageRoute(f"/reviews/{{review_id}}/{name}", post=partial(act, one=one, again=answer, onward=_back))
        for name, one in ACTS.items()
    ),
)
