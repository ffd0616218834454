"""From a typed request on the inbox, the search or a mark to the one service function that does it."""

from __future__ import annotations

from tandem.contract.caller import Caller
from tandem.domain import inbox_answers as answers
from tandem.operations import inbox_requests as ask
from tandem.operations.handlers import call_of
from tandem.services import inbox, search, viewed
from tandem.services.context import Services
from tandem.services.search import Wanted
from tandem.services.viewed import Place


async def get_inbox(services: Services, request: ask.GetInbox, caller: Caller) -> answers.Inbox:
    """What waits for whom; of every project unless one is named."""
    return await inbox.show(services, request.person, project=request.project or caller.project, limit=request.limit)


async def search_reviews(services: Services, request: ask.SearchReviews, caller: Caller) -> answers.SearchPage:
    """Reviews that were looked for; of every project unless one is named."""
    wanted = Wanted(
        project=request.project or caller.project,
        status=request.status,
        category=request.category,
        priority=request.priority,
        turn=request.turn,
        attention=request.attention,
        proposer=request.proposer,
        reviewer=request.reviewer,
        text=request.text,
        path=request.path,
    )
    return await search.find_page(services, wanted, sort=request.sort, limit=request.limit, page=request.page)


async def mark_viewed(services: Services, request: ask.MarkViewed, caller: Caller) -> answers.ViewedFiles:
    """Mark a file."""
    place = Place(request.review_id, request.round, request.person, request.project)
    return await viewed.mark(services, call_of(caller), place, request.path, is_viewed=request.viewed)


async def list_viewed(services: Services, request: ask.ListViewed, _caller: Caller) -> answers.ViewedFiles:
    """The files that are marked."""
    return await viewed.list_all(services, Place(request.review_id, request.round, request.person, request.project))
