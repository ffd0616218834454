"""Files before and after a round's change, where findings stand in them, and which of them people have viewed."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Final, Literal, TypeVar

from tandem.contract.caller import Caller
from tandem.core.recent import Recent
from tandem.core.stand_ins import hex_digest
from tandem.errors import InvalidInput, NotFound, TandemError
from tandem.git.changes import AffectedFile, origins_of
from tandem.git.drawing import text_of
from tandem.git.ground import Ground
from tandem.git.repository import Repository
from tandem.git.rounds import RoundPatch
from tandem.git.travel import Excerpt, Place, Spot, Version, as_said
from tandem.git.word_changes import text_diff
from tandem.reviews import contents, grounds, views
from tandem.reviews import queries as reviews
from tandem.reviews.answers import BaseFiles, BaseFileView
from tandem.reviews.contents import Content
from tandem.reviews.context import Services
from tandem.reviews.finding_rules import Finding
from tandem.reviews.page_contract import GetRoundFile, MarkViewed, RoundFile, ViewedFiles
from tandem.reviews.queries import RoundContent
from tandem.reviews.requests import GetBaseFiles
from tandem.reviews.rounds import Round
from tandem.store.base import Unit
from tandem.store.context import transact

MOST_LINES = 2_000
"""Of one answer."""
MOST_BYTES = 4_000_000
"""Of a file that is answered in base64."""


async def get_round_file(services: Services, _caller: Caller, request: GetRoundFile) -> RoundFile:
    """Lines of a file before or after a round's change.

    Raises:
        NotFound: There is no such review or round, or nowhere to read the file from.
        InvalidInput: The path is no file's, or the last line is before the first.
        TooLarge: The file is larger than anyone reads.
    """
    first, last, path = request.first_line, request.last_line, request.path
    after = request.side == "after"
    if last is not None and last < first:
        raise InvalidInput("last_line must not be before first_line.", field="last_line", expected=first)
    found = await _content(services, request)
    if found.text is not None and path == found.round.path and after:
        content: bytes | None = found.text.encode()
    else:
        async with readable(services, found) as (repository, patch), services.validations:
            content = await asyncio.to_thread(_read, repository, patch, found.round.ground, request)
    text = "" if content is None else await asyncio.to_thread(text_of, content)
    whole = _split(text or "")
    return RoundFile(
        review_id=found.review.id,
        round=found.round.round,
        path=path,
        side=request.side,
        exists=content is not None,
        binary=text is None,
        lines=tuple(whole[first - 1 : min(last or len(whole), first - 1 + MOST_LINES)]),
        first_line=first,
        total_lines=len(whole),
        ends_with_newline=bool(text and text.endswith("\n")),
        size_bytes=len(content or b""),
        sha256=None if content is None else await asyncio.to_thread(hex_digest, content),
        base64=await asyncio.to_thread(_base64, content) if request.as_base64 and content is not None else None,
    )


def _read(repository: Repository, patch: RoundPatch, ground: str | None, request: GetRoundFile) -> bytes | None:
    """A file as the change has it, or as what the round stands on where neither that nor the base touches it."""
    stands, path = grounds.parsed(ground), request.path
    branch = None if stands is None else stands.branch
    if request.side == "tip":
        tip = patch.base if branch is None else repository.tip(branch)
        if tip is None:
            raise NotFound(f"The repository has no branch {branch} any more; make it, or fetch it.", branch=branch)
        patch = RoundPatch(tip, None, ())
    else:
        commit, touched = beside(repository, patch, stands)
        patch = patch if path in touched else RoundPatch(commit, None, ())
    return repository.file_of_round(patch, path, after=request.side == "after")


def beside(repository: Repository, patch: RoundPatch, ground: Ground | None) -> tuple[str, frozenset[str]]:
    """The commit that a round's files are read at, and those that are not: files of the change, and others of its base.

    Args:
        repository: The project's.
        patch: The round's change.
        ground: What the round stands on; None where that is unknown.
    """
    touched = frozenset(change.path for change in patch.changes)
    if ground is None or ground.tip is None or ground.net is None or not repository.has_base(ground.tip):
        return patch.base, touched
    return ground.tip, touched.union(change.path for change in ground.net)


async def interdiff(services: Services, earlier: Round, later: RoundContent) -> str:
    """What changed from one round's result to another's, as readers see it.

    Raises:
        TandemError: Git cannot say.
    """
    current = later.round

    def texts(unit: Unit) -> tuple[str, str]:
        body = reviews.find_content(unit, earlier.diff_id)
        description = reviews.find_content(unit, earlier.description_id)
        return body or "", description or ""

    diff, description = await services.store.read(texts)
    comparable = earlier.validated and current.validated and earlier.path is None and current.path is None
    if comparable and earlier.base_commit and current.base_commit and later.diff is not None:
        first, second = (diff, earlier.base_commit), (later.diff, current.base_commit)
        async with contents.repository_of(services, later.review.project, earlier, current) as repository:
            if repository is not None:
                async with services.validations:
                    return await asyncio.to_thread(repository.interdiff, first, second)
    if later.diff is not None or earlier.diff_id is not None:
        return await asyncio.to_thread(text_diff, diff, later.diff or "", "diff")
    path, before = current.path or "description", earlier.path or "description"
    return await asyncio.to_thread(text_diff, description, later.text or "", path, before)


async def changes_to(services: Services, found: RoundContent, diff: str | None) -> str | None:
    """What a counter-patch changes of a round; None for a text, and where git cannot tell."""
    if diff is None or not found.round.validated:
        return None
    with suppress(TandemError):
        return await interdiff(services, found.round, replace(found, diff=diff))
    return None


async def get_base_files(services: Services, _caller: Caller, request: GetBaseFiles) -> BaseFiles:
    """What a round's base has at the paths that it touches.

    Raises:
        NotFound: There is no such review or round, or no one knows its base.
        TooLarge: They are too many, or too large.
    """
    found = await _content(services, request)
    path = found.round.path
    async with readable(services, found) as (repository, patch), services.validations:
        base, files = await asyncio.to_thread(repository.base_files, found.diff, path, patch.base)
    views = tuple(BaseFileView(**one.as_json()) for one in files)
    return BaseFiles(found.review.id, found.round.round, base, only_touched=True, files=views)


async def _content(services: Services, asked: GetRoundFile | GetBaseFiles) -> RoundContent:
    which = (asked.review_id, asked.project, asked.round)
    return await services.store.read(lambda unit: reviews.get_content(unit, *which))


def _base64(content: bytes) -> str | None:
    return b64encode(content).decode("ascii") if len(content) <= MOST_BYTES else None


@asynccontextmanager
async def readable(services: Services, found: RoundContent) -> AsyncGenerator[tuple[Repository, RoundPatch]]:
    """For a block, the repository that a round's files are read from, and its change.

    Raises:
        NotFound: There is none, or no one knows what the round was made against.
    """
    current, project = found.round, found.review.project
    facts = {"review_id": found.review.id, "round": current.round}
    if current.diff_id is None and current.path is None:
        raise NotFound(
            f"Round {current.round} of '{found.review.id}' is a text that names no file; get_proposal has it as"
            " description.",
            **facts,
        )
    async with contents.repository_of(services, project, current) as repository:
        if repository is None:
            raise NotFound(
                f"The project '{project}' has no folder on this broker to read files from. Register it with: tandem"
                " project add.",
                project=project,
                allowed=services.projects.names(),
            )
        if not current.validated or current.base_commit is None:
            raise NotFound(
                f"Round {current.round} of '{found.review.id}' was proposed without validation, so the files that it"
                " was made against are unknown; have it proposed again.",
                **facts,
            )
        changes = await asyncio.to_thread(current.entries)
        yield repository, RoundPatch(current.base_commit, found.diff, changes)


def _split(text: str) -> list[str]:
    """The lines as git counts them: only a line feed ends one."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


_SHOWN_PATHS = 100


async def mark_viewed(services: Services, caller: Caller, request: MarkViewed) -> ViewedFiles:
    """Mark a file of a round as viewed, or take the mark away.

    Raises:
        NotFound: There is no such review (in that project), round, or file in it.
    """

    def work(unit: Unit) -> ViewedFiles:
        review = reviews.get(unit, request.review_id, request.project)
        paths = _paths(reviews.get_round(unit, review.id, request.round))
        if request.path not in paths:
            raise NotFound(
                f"Round {request.round} of '{request.review_id}' touches no such file; get_proposal lists those it"
                " does.",
                review_id=request.review_id,
                round=request.round,
                path=request.path,
                allowed=paths[:_SHOWN_PATHS],
            )
        if request.viewed:
            reviews.mark_viewed(
                unit, request.review_id, request.round, request.person, request.path, services.clock.now_us()
            )
        else:
            reviews.unmark_viewed(unit, request.review_id, request.round, request.person, request.path)
        marked = reviews.list_viewed(unit, review.id, request.round, request.person)
        return ViewedFiles(review.id, request.round, request.person, tuple(marked))

    return await transact(services, caller, work)


def _paths(found: Round) -> list[str]:
    paths = [file.path for file in views.files_from(found.affected_files)]
    return paths if found.path is None else list(dict.fromkeys((*paths, found.path)))


T = TypeVar("T")
_AT = 0
"""The number of no round: that of a commit."""
_kept = Recent[tuple[str, int, Spot], Place](20_000, lambda _: 1)
"""Places that were found, by review, round and spot: rounds do not change."""


SIDES: Final[dict[str, Literal["before", "after"]]] = {"old": "before", "new": "after"}
"""By the sides of findings."""


def spot_of(one: Finding) -> Spot:
    """The lines that a finding names."""
    return Spot(one.id, one.round, SIDES[one.side], one.file, one.line, one.end_line)


async def places(
    services: Services, review_id: str, spots: Iterable[Spot], target: int | None = None, at: str | None = None
) -> dict[str, Place]:
    """Where spots of a review stand in a round of it, by default the current one, or at a commit, by their ids.

    Where that cannot be found out a place is as it was said, with `changed` None.

    Raises:
        NotFound: There is no such review or round.
        InvalidInput: There is no such commit.
    """
    wanted = list(spots)
    if not wanted:
        return {}
    if at is not None:
        target = _AT
    elif target is None:
        target = (await services.store.read(lambda unit: reviews.get(unit, review_id))).round
    to = target
    kept = {spot.id: place for spot in wanted if at is None and (place := _kept.get((review_id, to, spot)))}
    asked = [spot for spot in wanted if spot.id not in kept]
    from_rounds = {spot.round for spot in asked if spot.file is not None} - {to}

    def find(repository: Repository, versions: Mapping[int, Version]) -> dict[str, Place]:
        if at is not None:
            commit = repository.resolve_base(at, "at")
            versions = {**versions, _AT: Version(RoundPatch(commit, None, ()), commit)}
        return repository.find_places(versions, asked, to)

    # Of spots that stay in their own round there is nothing to read.
    found = await _looked_at(services, review_id, {*from_rounds, to} - {_AT}, find) if from_rounds else None
    if found is None:
        return kept | {spot.id: as_said(spot, to) for spot in asked}
    for spot in asked if at is None else ():
        if found[spot.id].changed is not None:
            _kept.put((review_id, to, spot), found[spot.id])
    return kept | found


async def places_in(
    services: Services, review_id: str, spots: Iterable[Spot], content: Content, *, is_text: bool
) -> dict[str, Place]:
    """Where spots of a review stand in a content that is no round yet; as they were said where that is unknown."""
    asked = list(spots)
    numbers = {spot.round for spot in asked if spot.file is not None}
    found = None
    if numbers and content.validated:
        patch = RoundPatch(content.base_commit or "", None if is_text else content.content, content.changes)
        text = content.content if is_text else None

        def find(repository: Repository, versions: Mapping[int, Version]) -> dict[str, Place]:
            there = _version(repository, patch, content.ground, content.affected_files, text)
            return repository.find_places({**versions, _AT: there}, asked, _AT)

        found = await _looked_at(services, review_id, numbers, find)
    return found or {spot.id: as_said(spot, _AT) for spot in asked}


async def excerpts(services: Services, review_id: str, spots: Iterable[Spot], around: int) -> dict[str, Excerpt]:
    """The lines that spots name in their own rounds, by their ids; those that cannot be read are left out.

    At most 50 lines and 8,000 bytes of each, without the line feed that ends the last one; and those with so many more
    lines around them.

    Raises:
        NotFound: There is no such review or round.
    """
    asked = [spot for spot in spots if spot.file is not None]
    if not asked:
        return {}
    numbers = {spot.round for spot in asked}
    found = await _looked_at(services, review_id, numbers, lambda git, of: git.read_excerpts(of, asked, around))
    return found or {}


async def _looked_at(
    services: Services, review_id: str, numbers: set[int], work: Callable[[Repository, Mapping[int, Version]], T]
) -> T | None:
    """What git says of some rounds; None where their files cannot be read."""

    def look(unit: Unit) -> list[RoundContent]:
        return [reviews.get_content(unit, review_id, None, number) for number in sorted(numbers)]

    found = [one for one in await services.store.read(look) if one.round.validated and one.round.base_commit]
    if not found:
        return None
    try:
        rounds = (one.round for one in found)
        async with contents.repository_of(services, found[0].review.project, *rounds) as repository:
            if repository is None:
                return None
            async with services.validations:
                return await asyncio.to_thread(
                    lambda: work(repository, {one.round.round: _version_of(repository, one) for one in found})
                )
    except TandemError as error:
        if error.details.get("field") == "at":
            raise
        # A reader still sees the findings where they were made.
        return None


def _version_of(repository: Repository, found: RoundContent) -> Version:
    current = found.round
    patch = RoundPatch(current.base_commit or "", found.diff, current.entries())
    text = None if current.path is None else found.text
    return _version(repository, patch, grounds.parsed(current.ground), views.files_from(current.affected_files), text)


def _version(
    repository: Repository, patch: RoundPatch, ground: Ground | None, affected: Iterable[AffectedFile], text: str | None
) -> Version:
    commit, touched = beside(repository, patch, ground)
    return Version(patch, commit, touched, origins_of(affected), text)
