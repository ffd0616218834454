"""A review to take away: as Markdown, as a patch, and as a page that needs nothing else.

In the Markdown, what agents and people wrote cannot break out of its place: prose stands in quotations, or in a fence
when there is HTML in it; single lines are escaped. The page has its styles inside, and its own policy lets it ask
no one for anything.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from jinja2 import Template
from markupsafe import Markup
from starlette.responses import Response

from tandem.core.texts import fence
from tandem.errors import InvalidInput, NotFound
from tandem.git.changes import origins_of
from tandem.present.facts import details, given
from tandem.present.facts import facts as answer_facts
from tandem.present.findings import BEFORE, come_from, prose, words
from tandem.reviews.answers import DiscussionEntry, EventView, Proposal
from tandem.reviews.finding_contract import FindingView
from tandem.web.diffs.syntax import Budget
from tandem.web.diffs.views import FileView, outline, views
from tandem.web.page import PageRequest, PageRoute, in_worker
from tandem.web.rendering import environment, sentence
from tandem.web.review.view import ReviewView, load

_IN_PLACES_OF_THEIR_OWN = frozenset({"block", "diff", "files", "table", "json"})
_NOT_IN_FACTS = ("counter_patch", "ground", "intent", "notes", "round", "current_round", "validated", "drawn")
"""Fields that stand elsewhere, or are told in words of their own."""
_SAID = {
    "message": "wrote",
    "question": "asked the proposer",
    "finding": "reported",
    "verdict": "decided",
    "counter_patch": "proposed a counter-patch",
}


class DiscussionRow(NamedTuple):
    """An entry of the discussion.

    Attributes:
        title: Who did what, where and when, in one line.
        body: The words; may be empty.
        diff: A counter-patch's content.
        remark: What became of it.
    """

    title: str
    body: str
    diff: str | None
    remark: str | None


def facts(proposal: Proposal) -> list[tuple[str, str]]:
    """Names and values of the facts above the texts, by the labels and kinds of the fields."""
    told = answer_facts("Proposal", proposal, but=_NOT_IN_FACTS)
    found = [(sentence(one.label), one.words) for one in told if one.kind not in _IN_PLACES_OF_THEIR_OWN]
    found.insert(3, ("Round", f"{proposal.round} of {proposal.current_round}"))
    if (ground := proposal.ground) is not None:
        found += [("Stands on", ground.stands_on), *(("Look at this", note) for note in ground.notes)]
    found += [("Look at this", note) for note in proposal.notes]
    if proposal.diff and not proposal.validated:
        found.append(("Validated", "no: it was not tried whether the diff applies"))
    return found


def said(entry: DiscussionEntry, finding: FindingView | None = None) -> DiscussionRow:
    """An entry of the discussion in words; of a finding all that it says, and what became of it."""
    title = f"{entry.author} ({entry.sender_role}) {_SAID.get(entry.kind, entry.kind)}"
    if entry.kind == "finding":
        title += f" a finding ({entry.severity})"
    if entry.kind == "verdict" and entry.verdict:
        title += f": {entry.verdict}"
    if entry.file:
        title += f" on {entry.file}" + (f", line {entry.line}" if entry.line else "")
    remarks = [f"resolved by {entry.resolved_by}"] if entry.resolved_by else []
    if entry.status:
        remarks = [entry.status, *filter(None, [come_from(entry)])]
    if finding is not None:
        remarks += filter(None, [finding.category, BEFORE if finding.pre_existing else None])
    remarks += [f"{one.label} {one.words}" for one in given("metadata", entry.metadata or {})]
    return DiscussionRow(
        f"{title}, round {entry.round}, {entry.at}",
        entry.body or entry.description or "" if finding is None else _whole(finding),
        entry.diff,
        "; ".join(remarks) or None,
    )


def _whole(finding: FindingView) -> str:
    suggestion = None if finding.suggestion is None else fence(finding.suggestion)
    parts = {
        "How it fails:": finding.failure,
        "Suggestion:": suggestion,
        f"{finding.answered_by}:": finding.answer,
        f"{finding.settled_by}:": finding.settled_reason,
    }
    return "\n\n".join([finding.claim, *(f"{title}\n\n{text}" for title, text in parts.items() if text)])


def happened(event: EventView) -> tuple[str, str, str, str]:
    """When somebody did what, with the details."""
    what = event.kind.replace("_", " ")
    if event.new and event.old != event.new:
        what += f": {event.old or 'new'} → {event.new}"
    return event.at, event.actor, what, "; ".join(f"{one.label} {one.words}" for one in details(event.data))


def markdown(
    proposal: Proposal,
    entries: Sequence[DiscussionEntry],
    events: Sequence[EventView],
    findings: Sequence[FindingView] = (),
    *,
    is_cut: bool = False,
) -> str:
    """The whole review: a round, everything that was said and everything that happened."""
    return _template("export.md").render(
        proposal=proposal,
        facts=facts(proposal),
        entries=_told(entries, findings),
        cut=_cut(proposal, entries, findings) if is_cut else None,
        events=map(happened, events),
        line=words,
        prose=prose,
        fence=fence,
    )


def _told(entries: Sequence[DiscussionEntry], findings: Sequence[FindingView]) -> list[DiscussionRow]:
    known = {one.finding_id: one for one in findings}
    return [said(entry, known.get(entry.id)) for entry in entries]


def _cut(proposal: Proposal, entries: Sequence[DiscussionEntry], findings: Sequence[FindingView]) -> str:
    missing = len({one.finding_id for one in findings} - {one.id for one in entries})
    told = f", of the {len(findings)} findings {missing}" if missing else ""
    name = proposal.review_id
    return f"More was said than fits here{told}. All of it: tandem review discussion {name}, tandem findings {name}"


_HIGHLIGHT_SECONDS = 1.0
_MOST_LINES = 200_000
_MOST_MARKUP = 8_000_000
_STYLES = ("export.css", "diff.css", "syntax.css")


def page(
    proposal: Proposal,
    entries: Sequence[DiscussionEntry],
    events: Sequence[EventView],
    findings: Sequence[FindingView] = (),
    *,
    is_cut: bool = False,
) -> str:
    """The whole review as a document of its own. Takes up to seconds for a large diff: call it in a thread.

    Send it as an attachment: its styles stand inside it, where the policy of the broker's own pages allows none.
    """
    budget = Budget(_HIGHLIGHT_SECONDS, _MOST_MARKUP)
    told = [(entry, _views(entry.diff, budget, f"c{at}-")) for at, entry in enumerate(_told(entries, findings))]
    return _template("export.html").render(
        style=_style(),
        policy=_policy(),
        proposal=proposal,
        facts=facts(proposal),
        views=_views(proposal.diff, budget, "", origins_of(proposal.affected_files)),
        entries=told,
        cut=_cut(proposal, entries, findings) if is_cut else None,
        events=[happened(event) for event in events],
    )


def _views(diff: str | None, budget: Budget, prefix: str, origins: Mapping[str, str] | None = None) -> list[FileView]:
    found = outline(diff or "").files
    # Both files of a rename have all their lines; the heading of the new one says where it comes from.
    said = (
        replace(one, kind="renamed", old_path=was)
        if one.kind == "added" and (was := (origins or {}).get(one.path))
        else one
        for one in found
    )
    return views(tuple(said), budget, prefix, _MOST_LINES)


@lru_cache(maxsize=2)
def _template(name: str) -> Template:
    return environment().get_template(name)


@lru_cache(maxsize=1)
def _style() -> Markup:
    folder = Path(str(files("tandem.web") / "static"))
    return Markup("\n".join((folder / name).read_text("utf-8") for name in _STYLES))  # noqa: S704 - our own files


def _policy() -> str:
    """Nothing but the style above, by its digest."""
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode("ascii")
    return f"default-src 'none'; style-src 'sha256-{digest}'; form-action 'none'; base-uri 'none'"


_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 80


def patch(proposal: Proposal) -> bytes:
    """The round's diff, to the byte.

    Raises:
        InvalidInput: The round is a text and has no diff.
    """
    if not proposal.diff:
        raise InvalidInput(
            "This review is about a text and has no diff; export it as Markdown or as a page.",
            field="format",
            review_id=proposal.review_id,
        )
    return proposal.diff.encode()


def file_name(proposal: Proposal, kind: str) -> str:
    """A name for the exported file: plain ASCII, nothing that a header or a file system could misread."""
    name = _NOT_IN_NAMES.sub("-", f"{proposal.project}-{proposal.review_id}").strip(".-") or "review"
    return f"{name[-_LONGEST_NAME:].lstrip('.-')}-round-{proposal.round}.{kind}"


def _of_view(make: Callable[..., str], view: ReviewView) -> str:
    return make(view.proposal, view.discussion, view.timeline, view.findings, is_cut=view.discussion_cut)


_KINDS: dict[str, tuple[Callable[[ReviewView], str | bytes], str]] = {
    "md": (partial(_of_view, markdown), "text/markdown; charset=utf-8"),
    "patch": (lambda view: patch(view.proposal), "text/x-diff; charset=utf-8"),
    "html": (partial(_of_view, page), "text/html; charset=utf-8"),
}


async def export(request: PageRequest) -> Response:
    """The file; never opened as a page of ours, because it is an attachment.

    Raises:
        NotFound: There is no such kind of file.
        InvalidInput: A patch was asked for, and the review has no diff.
    """
    kind = request.path("kind")
    if kind not in _KINDS:
        raise NotFound(f"A review is exported as {', '.join(_KINDS)}.", kind=kind[:20])
    make, media_type = _KINDS[kind]
    view = await load(request, events=True)
    body = await in_worker(make, view)
    headers = {
        "content-disposition": f'attachment; filename="{file_name(view.proposal, kind)}"',
        "cache-control": "no-store",
    }
    return Response(body, media_type=media_type, headers=headers)


ROUTES = (PageRoute("/reviews/{review_id}/export.{kind}", export, inbox_rows=0),)
