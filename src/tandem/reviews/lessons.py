"""Lessons: findings that were false alarms, which reviewers are told; listed, and ended."""

from __future__ import annotations

from tandem.contract.caller import Caller
from tandem.reviews import finding_queries, writing
from tandem.reviews import queries as reviews
from tandem.reviews.context import Services
from tandem.reviews.finding_contract import LessonPage, LessonRemoved, ListLessons, RemoveLesson, lesson_view
from tandem.reviews.writing import Rows
from tandem.store import pages
from tandem.store.base import Unit
from tandem.store.context import transact
from tandem.store.event import EventKind


async def list_lessons(services: Services, caller: Caller, request: ListLessons) -> LessonPage:
    """A page of the lessons of a project.

    Raises:
        InvalidInput: The page token is none of ours.
    """
    pages.check_limit(services, request.limit)
    place = pages.decode(services, request.page, int, int) if request.page else finding_queries.BEFORE_ALL
    project = services.projects.require(request.project, caller.project)
    found = await services.store.read(
        lambda unit: finding_queries.list_lessons(unit, project, after=place, limit=request.limit + 1)
    )
    listed, following = pages.cut(services, found, request.limit, lambda one: (one.seq, one.position))
    wanted = None if request.files is None else frozenset(request.files)
    shown_ = (one for one in listed if wanted is None or one.file in wanted)
    return LessonPage(tuple(map(lesson_view, shown_)), following)


async def remove_lesson(services: Services, caller: Caller, request: RemoveLesson) -> LessonRemoved:
    """End a lesson; one that is none stays as it is.

    Raises:
        NotFound: There is no such finding.
    """

    def work(unit: Unit) -> LessonRemoved:
        finding = finding_queries.get(unit, request.finding_id)
        if request.project not in (None, finding.project):
            raise finding_queries.unknown(finding.id)
        before = reviews.get(unit, finding.review_id, lock=True)
        finding = finding_queries.get(unit, request.finding_id)
        if finding.lesson:
            writing.change_review(
                unit,
                before,
                before._replace(updated_at=services.clock.now_us()),
                actor=caller.operator,
                kind=EventKind.LESSON_REMOVED,
                data={"finding_id": finding.id},
                rows=Rows(findings=(finding._replace(lesson=0),)),
            )
        return LessonRemoved(finding.id)

    return await transact(services, caller, work)
