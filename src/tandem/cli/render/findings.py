"""Findings in words: their numbers in a line, and each with its place, its answer and its suggestion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandem.cli.render.parts import STYLES, ago, block, facts, more_pages, plain, renders
from tandem.present.findings import BEFORE, met, together
from tandem.present.text import Framed, Group, Text
from tandem.reviews.finding_rules import OPEN, headline

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tandem.present.text import Drawable
    from tandem.reviews.finding_contract import FindingPage, FindingView, LessonPage, LessonView


def where(one: FindingView) -> str:
    """Where it stands in the round, as far as it stands anywhere: `src/a.py:3-5`."""
    place = one.place or one
    file = place.file or one.file
    if file is None:
        return "the whole change"
    last = f"-{place.end_line}" if place.end_line not in {None, place.line} else ""
    old = " before the change" if one.side == "old" else ""
    return file if place.line is None else f"{file}:{place.line}{last}{old}"


def line(one: FindingView) -> str:
    """What its proposer has to know of it, as a remark."""
    marks = ", ".join([one.severity, *(["blocking"] if one.blocking else []), *([BEFORE] if one.pre_existing else [])])
    said = [f"{one.finding_id} ({marks}) {where(one)}: {one.claim}"]
    said += [f"how it fails: {one.failure}"] if one.failure else []
    said += [f"suggestion:\n{one.suggestion}"] if one.suggestion is not None else []
    return "\n".join(said)


@renders
def _(answer: FindingPage) -> Drawable:
    is_of_project = answer.counts is None
    told = _all_told(answer.findings, with_review=is_of_project)
    return Group(Text(headline(answer.findings, answer.counts)), *told, more_pages(answer.next_page))


def listed(found: Sequence[FindingView]) -> list[Drawable]:
    """All findings of a review below their numbers; nothing if it has none."""
    return [Text(headline(found)), *_all_told(found)] if found else []


def _all_told(found: Sequence[FindingView], *, with_review: bool = False) -> Iterator[Drawable]:
    """Each of them, those on the same lines below one heading."""
    for group in together(found):
        told = [_told(one, with_review=with_review) for one in group]
        if len(told) == 1:
            yield from told
        else:
            yield Framed(Group(plain(met(group)), Framed(Group(*told), left=2)), before=1)


def _told(one: FindingView, *, with_review: bool = False) -> Drawable:
    head = Text.assemble(
        (f"{one.severity}  ", "bold red" if one.blocking else "bold"),
        (one.state, STYLES.get(one.state, "")),
        ("  blocking" if one.blocking else "", "bold red"),
        (f"  {BEFORE}" if one.pre_existing else "", "yellow"),
        plain(f"  {where(one)}"),
        ("  changed since" if one.place is not None and one.place.changed else "", "yellow"),
        (f"  {one.finding_id}", "dim"),
        plain(f"  {one.review_id}  round {one.round}" if with_review else "", "dim"),
        plain(f"  {one.author}, {ago(one.created_at)}", "dim"),
    )
    # Whose words they are stands before each, so that none is mistaken for another's.
    answered = one.answer and f"{one.answered_by}: {one.answer}"
    settled = one.settled_by and f"{one.settled_by}{f': {one.settled_reason}' if one.settled_reason else ''}"
    suggestion = "delete the lines" if one.suggestion == "" else one.suggestion
    more = [("kind", one.category), ("how it fails", one.failure), ("suggestion", suggestion)]
    more += [("answer", answered), ("settled by" if one.state not in OPEN else "reopened by", settled)]
    about = facts((name, block(value)) for name, value in more if value)
    return Framed(Group(head, Framed(Group(block(one.claim), about), left=2)), before=1)


@renders
def _(answer: LessonPage) -> Drawable:
    if not answer.lessons:
        return Text("No lessons.", style="dim")
    told = [Framed(Group(_lesson(one), Framed(block(one.claim), left=2)), after=1) for one in answer.lessons]
    return Group(*told, more_pages(answer.next_page))


def _lesson(one: LessonView) -> Text:
    why = f"  {one.settled_by} agreed: {one.answer}"
    return Text.assemble(plain(one.finding_id, "bold"), plain(f"  {one.file}"), plain(why, "dim"))
