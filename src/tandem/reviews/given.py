"""What a verdict says of findings, with what git and the lines of its round say of it; before any transaction."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import NamedTuple

from tandem.errors import InvalidInput, ReasonRequired, TandemError
from tandem.git import hunks
from tandem.git.travel import Excerpt, Spot
from tandem.reviews import again, contents, files, finding_queries
from tandem.reviews import queries as reviews
from tandem.reviews.claim_rules import seen_by
from tandem.reviews.context import Services
from tandem.reviews.finding_contract import GivenFinding
from tandem.reviews.queries import RoundContent
from tandem.reviews.requests import SubmitVerdict
from tandem.reviews.rounds import Round
from tandem.store.base import Unit

_SAYS_NO_MORE = frozenset({"approved", "approve", "comment"})
"""Verdicts that bring no finding of their own."""


class Given(NamedTuple):
    """A finding as a reviewer gives it, with what only git can tell.

    Attributes:
        id: The id that it gets.
        asked: The finding as it was sent.
        seen: The lines that it is on, where they can be read.
        is_unchanged: Whether they are as the round had them that was decided on before.
        blob: Id of its file's blob as the round leaves it; None if the round does not touch it.
        telling: By what its lines are found again, or those of its file or change.
    """

    id: str
    asked: GivenFinding
    seen: Excerpt = Excerpt()
    is_unchanged: bool = False
    blob: str | None = None
    telling: str | None = None


class Prepared(NamedTuple):
    """What git and the lines of a round say of a verdict on it.

    Attributes:
        found: What the verdict finds.
        telling: By what the change as a whole is found again.
        again: Ids of findings of other reviews whose lines it makes, too.
    """

    found: tuple[Given, ...] = ()
    telling: str | None = None
    again: frozenset[str] = frozenset()


def given_in(services: Services, request: SubmitVerdict) -> dict[str, GivenFinding]:
    """All that a verdict finds, by its place in the request; the comments of older clients included, which are minor.

    Raises:
        InvalidInput: A severity is none, or lines are named without their file, or backwards.
        TooLarge: A text is over the limit.
        ReasonRequired: Something is reopened without a reason.
    """
    found = {f"findings.{at}": one for at, one in enumerate(request.findings or ())}
    for at, said in enumerate(request.comments or ()):
        contents.check_text(services, f"comments.{at}.body", said.body)
        found[f"comments.{at}"] = GivenFinding(file=said.file, line=said.line, severity="minor", claim=said.body)
    for where, one in found.items():
        contents.check_finding(services, one, where)
    for at, settled in enumerate(request.answers or ()):
        check_reason(services, settled.answer, settled.reason, f"answers.{at}.reason")
    named = [one.finding_id for one in request.answers or ()]
    if twice := next((one for one in named if named.count(one) > 1), None):
        raise InvalidInput(f"answers says two things of {twice}: say one.", field="answers", finding_id=twice)
    return found


async def prepare(services: Services, request: SubmitVerdict) -> Prepared:
    """What a verdict finds, with what git says of its places, and what else its lines bring; before any transaction.

    Raises:
        InvalidInput: A place is none of the round; one of a pool's reviewer is moved instead, as a refused answer costs
            another run.
    """
    found = given_in(services, request)
    is_plain = not found and request.verdict in _SAYS_NO_MORE
    if is_plain and not services.has_findings.is_set():
        return Prepared()

    def look(unit: Unit) -> tuple[Round, int | None, bool, str | None] | None:
        review = reviews.get(unit, request.review_id, request.project)
        has_any = finding_queries.has_any(unit, review.project)
        if is_plain and not has_any:
            return None
        number = request.round or review.round
        decided = (one for one, verdict in reviews.list_verdicts(unit, review.id) if verdict != "comment")
        holder = seen_by(review, request.claim_generation, request.reviewer_id).reviewer_id
        of_pool = services.pool.project_of(unit, holder or "") is not None
        earlier = max((one for one in decided if one < number), default=None)
        # One that is still to come is refused later, as any other than the current one.
        current = reviews.get_round(unit, review.id, min(number, review.round))
        return current, earlier, of_pool, review.project if has_any else None

    known = await services.store.read(look)
    if known is None:
        return Prepared()
    current, earlier, of_pool, project = known
    if project is not None:
        services.has_findings.set()
    number = current.round
    made, comes_again = await again.made_by(services, request.review_id, number), frozenset[str]()
    if project is not None:
        changes = await asyncio.to_thread(current.entries)
        comes_again = frozenset(await again.found(services, project, current.digest, changes, made, request.review_id))
    blobs = {change.path: change.blob_after for change in await asyncio.to_thread(current.entries)}
    seen = await files.excerpts(services, request.review_id, _spots(found, number), again.AROUND)
    placed = {name: _placed(name, one, seen.get(name), moves=of_pool) for name, one in found.items()}
    old = frozenset[str]()
    # What a change took away was on its old side all along.
    in_files = [one for one in _spots(placed, number) if one.file is not None and one.side == "after"]
    if earlier is not None and in_files:
        old = await _unchanged(services, request.review_id, in_files, earlier)

    def given(name: str, one: GivenFinding) -> Given:
        lines = seen.get(name, Excerpt())
        if lines.lines is None and one.file is not None and one.line is not None:
            # Of a label there is only the diff.
            lines = lines._replace(lines=made.text((one.file, one.side), one.line, one.end_line or one.line))
        first, last = one.line or 1, one.end_line or one.line or 0
        telling = made.telling_at((one.file or "", one.side), first, last) or made.telling(one.file)
        blob = blobs.get(one.file or "")
        return Given(services.clock.new_id("fn"), one, lines, name in old, blob, telling or made.telling(None))

    return Prepared(tuple(given(*one) for one in placed.items()), made.telling(None), comes_again)


async def _unchanged(services: Services, review_id: str, spots: list[Spot], earlier: int) -> frozenset[str]:
    """Ids of the spots, all of one round, that are as an earlier round had them; in doubt, one is not among them.

    Git may tell otherwise of lines that were moved when it is asked the other way round: what readers see counts, too.
    """
    found = await files.places(services, review_id, spots, earlier)
    old = frozenset(name for name, place in found.items() if place.changed is False)
    if not old:
        return old

    def look(unit: Unit) -> tuple[Round, RoundContent]:
        later = reviews.get_content(unit, review_id, number=spots[0].round)
        return reviews.get_round(unit, review_id, earlier), later

    before, later = await services.store.read(look)
    if (before.path is None) != (later.round.path is None):
        return frozenset()
    with suppress(TandemError):
        new = await asyncio.to_thread(_added, await files.interdiff(services, before, later))
        lines = {one.id: range(one.line or 0, (one.end_line or one.line or 0) + 1) for one in spots}
        return old & {one.id for one in spots if new.isdisjoint((one.file, number) for number in lines[one.id])}
    return frozenset()


def _added(diff: str) -> set[tuple[str | None, int | None]]:
    lines = ((file.path, line) for file in hunks.parse(diff) for hunk in file.hunks for line in hunk.walk())
    return {(path, line.new_number) for path, line in lines if line.kind == "added"}


def _spots(found: dict[str, GivenFinding], number: int) -> list[Spot]:
    return [Spot(name, number, files.SIDES[one.side], one.file, one.line, one.end_line) for name, one in found.items()]


def _placed(where: str, one: GivenFinding, seen: Excerpt | None, *, moves: bool) -> GivenFinding:
    """The finding at a place that its round has: else it is refused, or about the whole file or change."""
    if seen is None or (seen.total is not None and max(one.line or 0, one.end_line or 0) <= seen.total):
        return one
    wrong = "file" if seen.total is None else "line" if (one.line or 0) > seen.total else "end_line"
    if not moves:
        side = "as the change leaves it" if one.side == "new" else "before the change"
        has = f"There is no {one.file}" if seen.total is None else f"{one.file} has {seen.total} lines"
        raise InvalidInput(f"{has} {side}.", field=f"{where}.{wrong}", lines=seen.total)
    if wrong == "end_line":
        return one.model_copy(update={"end_line": seen.total})
    said = one.model_copy(update={"line": None, "end_line": None, "suggestion": None})
    return said.model_copy(update={"file": None, "claim": f"{one.file}: {one.claim}"}) if wrong == "file" else said


def check_reason(services: Services, answer: str, reason: str | None, field: str = "reason") -> None:
    """Refuse an answer without the reason that it needs.

    Raises:
        ReasonRequired: It needs one.
        TooLarge: It is over the limit.
    """
    contents.check_text(services, field, reason)
    if answer in ("refuted", "deferred", "reopened") and not (reason or "").strip():
        raise ReasonRequired(f"Say why it is {answer}: who reads it next has to judge that.", field=field)
