"""What was proposed: limits, validation in the repository, digest. Before any transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import orjson

from tandem.errors import InvalidInput, TandemError, TooLarge
from tandem.git.changes import ValidatedContent
from tandem.git.paths import unsafe_reason
from tandem.git.repository import Repository
from tandem.git.rounds import RoundPatch
from tandem.git.validation import parse_only
from tandem.hooks import trust
from tandem.projects.registry import ProjectMoved
from tandem.reviews.check_rules import CheckStatus, PlannedCheck, unusable
from tandem.reviews.requests import CreateReview
from tandem.reviews.rounds import Round
from tandem.settings import checks
from tandem.settings.config import user_file
from tandem.store.base import Unit
from tandem.store.context import Services

HEAD = "HEAD"
_DIFF_LIMIT = "diff_limit_bytes"


Checks = tuple[PlannedCheck, ...]


@dataclass(frozen=True, slots=True)
class Content(ValidatedContent):
    """What was proposed, as it is written.

    Attributes:
        registration: Which registration of the project's folder it was validated in; null if in none.
        checks: What is to be run on it.
    """

    registration: int | None = None
    checks: Checks = ()


def check_text(services: Services, field: str, text: str | None) -> None:
    """Refuse a text over the limit.

    Raises:
        TooLarge: It is.
    """
    _check_size(field, text, services.policy.text_limit_bytes, "text_limit_bytes")


def check_metadata(services: Services, metadata: dict[str, Any] | None) -> str:
    """The JSON text of an object from a client, within the limit.

    Raises:
        TooLarge: It is over the limit.
    """
    try:
        text = orjson.dumps(metadata or {}).decode()
    except orjson.JSONEncodeError as error:
        raise InvalidInput(f"metadata cannot be stored as JSON: {error}.", field="metadata") from error
    check_text(services, "metadata", text)
    return text


def _check_size(field: str, text: str | None, limit: int, setting: str) -> None:
    # A text of n characters has n to 4n bytes: encode only where that leaves it open.
    if text is None or len(text) * 4 <= limit:
        return
    actual = len(text.encode())
    if actual > limit:
        raise TooLarge(
            f"{field} is over the limit of {limit} bytes; send less, or raise {setting} in the broker's configuration.",
            field=field,
            limit=limit,
            actual=actual,
            setting=setting,
        )


async def validate(services: Services, project: str, request: CreateReview) -> Content:
    """Check a proposal's content and compute its digest, in the project's repository if it has one.

    Raises:
        InvalidInput: The fields do not go together, or a path or base is unusable.
        InvalidDiff: The diff does not apply, or leaves the repository.
        TooLarge: It is over a limit.
        ProjectMoved: Another folder was registered for the project meanwhile.
    """
    _check_size("diff", request.diff, services.policy.diff_limit_bytes, _DIFF_LIMIT)
    check_text(services, "description", request.description)
    # Before git is asked: what is registered while git runs is then noticed when the proposal is written.
    registration = services.projects.registration(project)
    try:
        content = await _validated(services, project, request)
    except TandemError:
        if await services.projects.has_moved(project, registration):
            raise ProjectMoved(project) from None
        raise
    looked_at = request.path is not None or (request.diff is not None and not request.skip_diff_validation)
    return replace(content, registration=registration) if looked_at else content


async def _validated(services: Services, project: str, request: CreateReview) -> Content:
    if request.path is not None:
        if request.diff is not None:
            raise InvalidInput("Send either a diff, or path with the file's whole text in description.", field="path")
        if request.description is None:
            raise InvalidInput("path names the file whose whole text description is; send description.", field="path")
        return await text_facts(services, project, request.path, request.description)
    if request.diff is None:
        if request.base is not None:
            raise InvalidInput("base says what a diff is against; send the diff too.", field="base")
        return Content("")
    return await diff_facts(services, project, request.diff, request.base, skip_validation=request.skip_diff_validation)


async def diff_facts(
    services: Services, project: str, diff: str, base: str | None, *, skip_validation: bool = False
) -> Content:
    """What a diff does to its base; only parsed where there is no repository or it was asked for."""
    repository = await services.projects.repository(project)
    async with services.validations:
        if repository is None or skip_validation:
            return _content(await asyncio.to_thread(parse_only, diff))
        return await _with_checks(services, project, repository, lambda: repository.validate_diff(diff, base))


async def text_facts(services: Services, project: str, path: str, text: str) -> Content:
    """The digest of a text that is a file's whole content; none for a label project."""
    repository = await services.projects.repository(project)
    if repository is None:
        reason = unsafe_reason(path)
        if reason is not None:
            raise InvalidInput(f"The path {path!r} {reason}; name a file of the repository.", field="path")
        return Content(text)
    async with services.validations:
        return await _with_checks(services, project, repository, lambda: repository.text_change(path, text))


def _content(validated: ValidatedContent, checks: Checks = ()) -> Content:
    stated = {one.name: getattr(validated, one.name) for one in fields(ValidatedContent)}
    return Content(**stated, checks=checks)


async def _with_checks(
    services: Services, project: str, repository: Repository, validate: Callable[[], ValidatedContent]
) -> Content:
    """What was validated, and what is to be run on it."""
    branches = await protected_branches(services, project, repository)

    def work() -> Content:
        found = validate()
        paths = [change.path for change in found.changes]
        return _content(found, planned(repository, found.base_commit, branches, paths))

    content = await asyncio.to_thread(work)
    if content.checks:
        services.checks_wanted.set()
    return content


async def protected_branches(services: Services, project: str, repository: Repository) -> tuple[str, ...]:
    """The branches whose checks count whatever a change's base is; none where no checks were ever trusted."""
    if not await asyncio.to_thread(checks.has_trusted, user_file().parent, str(repository.root)):
        return ()

    def look(unit: Unit) -> tuple[str, ...]:
        return tuple(name for one in services.participants for name in one.protected_branches(unit, project))

    return await services.store.read(look)


def planned(repository: Repository, base: str | None, branches: Sequence[str], paths: Sequence[str]) -> Checks:
    """What is to be run on a change; blocks.

    The file of its base says so, and that of the branches that it is to get into: else an old base would be a way
    around newer checks.

    Args:
        repository: The project's.
        base: The commit that it was validated against; null for none.
        branches: The branches that nothing gets into unless it was approved.
        paths: The files that it touches.
    """
    files = [_checks_file(repository, base)] if base is not None else []
    for branch in branches:
        with suppress(InvalidInput):
            files.append(_checks_file(repository, repository.resolve_base(f"refs/heads/{branch}")))
    found: dict[str, PlannedCheck] = {}
    for file in dict.fromkeys(one for one in files if one is not None):
        of_file = _planned_by(file, repository, paths)
        if any(one.definition for one in of_file):
            # What stands for a file of the base that cannot be used: a protected branch has one that can.
            found.pop(checks.FILE, None)
        found |= {one.name: one for one in of_file}
    return tuple(found.values())


def _checks_file(repository: Repository, commit: str) -> bytes | None:
    return repository.file_of_round(RoundPatch(commit, None, ()), checks.FILE, after=False)


def _planned_by(file: bytes, repository: Repository, paths: Sequence[str]) -> Checks:
    source = trust.digest(checks.FILE, file)
    standing = checks.standing(user_file().parent, str(repository.root), file)
    try:
        definitions = checks.parsed(file)
    except ValueError as error:
        return (unusable(standing, str(error), source),)
    if standing is not checks.Standing.TRUSTED:
        return (unusable(standing, None, source),)
    passed_over = "The change touches none of its paths."
    return tuple(
        PlannedCheck(one, CheckStatus.QUEUED, None, one.required, source)
        if one.applies_to(paths)
        else PlannedCheck(one, CheckStatus.SKIPPED, passed_over, required=False, source=source)
        for one in definitions
    )


async def replacement_facts(
    services: Services, project: str, replaced: Round, body: str, *, base: str | None
) -> Content:
    """What a counter-patch would be as the content of a round.

    Args:
        services: The services.
        project: The review's project.
        replaced: The round whose content it replaces.
        body: The whole new diff, or text.
        base: What a diff is validated against.
    """
    if replaced.path is not None:
        check_text(services, "counter_patch", body)
        return await text_facts(services, project, replaced.path, body)
    if replaced.diff_id is None:
        check_text(services, "counter_patch", body)
        return Content(body)
    _check_size("counter_patch", body, services.policy.diff_limit_bytes, _DIFF_LIMIT)
    # What its proposer had not validated stays without a digest: a reviewer cannot open a gate for it.
    return await diff_facts(services, project, body, base, skip_validation=not replaced.validated)


def files_json(facts: ValidatedContent) -> str:
    """Affected files in their stored form."""
    return orjson.dumps([asdict(file) for file in facts.affected_files]).decode()


def changes_json(facts: ValidatedContent) -> str:
    """Raw entries in their stored form."""
    return orjson.dumps([change._asdict() for change in facts.changes]).decode()
