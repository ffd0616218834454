"""The content of a proposal: limits, validation in the repository, digest. Before any transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import orjson

from tandem.core.recent import Recent
from tandem.errors import InvalidInput, TandemError, TooLarge
from tandem.git import base_files
from tandem.git.base_files import BaseFile
from tandem.git.changes import ValidatedContent
from tandem.git.ground import Ground
from tandem.git.raw import encode_path, unsafe_reason
from tandem.git.repository import Repository
from tandem.git.reviewed_tree import RoundContent
from tandem.git.rounds import RoundPatch
from tandem.git.travel import Place
from tandem.git.validation import parse_only
from tandem.projects.registry import ProjectMoved
from tandem.reviews import finding_rules, grounds, queries
from tandem.reviews.check_rules import CheckStatus, PlannedCheck, unusable
from tandem.reviews.context import Services
from tandem.reviews.finding_contract import GivenFinding
from tandem.reviews.requests import CreateReview
from tandem.reviews.rounds import Round
from tandem.rulings import trust
from tandem.rulings.owners import PLACES
from tandem.rulings.policy import FILE as POLICY_FILE
from tandem.settings import checks
from tandem.settings.config import user_file
from tandem.store.base import Unit

_DIFF_LIMIT = "diff_limit_bytes"
_DRAWN_TIMES = 4
"""A drawn diff may be this many times the limit of a sent one: a rename is short when sent, long when drawn."""
_DOCUMENTS = frozenset({".md", ".markdown", ".rst", ".adoc", ".asciidoc", ".org"})


Checks = tuple[PlannedCheck, ...]


class SentBase(NamedTuple):
    """A base, and what a client says that the change touches there."""

    base: str
    files: tuple[BaseFile, ...]


@dataclass(frozen=True, slots=True)
class Content(ValidatedContent):
    """The content of a proposal, as it is written.

    Attributes:
        registration: Which registration of the project's folder it was validated in; None if in none.
        checks: The checks to run on it.
        base_files: The touched files at the base, as JSON, where it was applied to those; else None.
        ground: Its ground; None where there is no repository.
        places: Where the findings of other reviews stand in it that it goes on with, by their ids.
        policy: The project's policy, as the base branch's tip has it; None if it has none.
        again: The findings of other reviews that are not approved, whose lines it makes again, by their ids: where.
        returned: The findings of its own review whose lines it brings back, by their ids, each with the file.
        rebases: The round of its review that it is a rebase of, where approvals carry over to one; else None.
    """

    registration: int | None = None
    checks: Checks = ()
    base_files: str | None = None
    ground: Ground | None = None
    policy: grounds.Rules | None = None
    places: Mapping[str, Place] = field(default_factory=dict[str, Place])
    again: Mapping[str, tuple[Place, ...]] = field(default_factory=dict[str, "tuple[Place, ...]"])
    returned: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    rebases: int | None = None


def check_text(services: Services, field: str, text: str | None) -> None:
    """Refuse a text over the limit.

    Raises:
        TooLarge: It is.
    """
    _check_size(field, text, services.policy.text_limit_bytes, "text_limit_bytes")


def check_finding(services: Services, one: GivenFinding, where: str) -> None:
    """Refuse a finding whose severity or place is none, with its place in the request.

    Raises:
        InvalidInput: It is.
        TooLarge: A text is over the limit.
    """
    for name in ("claim", "failure", "suggestion"):
        check_text(services, f"{where}.{name}", getattr(one, name))
    check_severity(one.severity, f"{where}.severity")
    if one.file is not None and (reason := unsafe_reason(one.file)) is not None:
        raise InvalidInput(f"The path {one.file!r} {reason}; name a file of the repository.", field=f"{where}.file")
    if one.line is None and (one.end_line is not None or one.suggestion is not None):
        raise InvalidInput("Say where it begins: end_line and suggestion go with line.", field=f"{where}.line")
    if one.line is not None and one.file is None:
        raise InvalidInput("A line is one of a file: send file, too.", field=f"{where}.file")
    if one.end_line is not None and one.line is not None and one.end_line < one.line:
        raise InvalidInput("end_line is before line.", field=f"{where}.end_line")


def check_severity(severity: str | None, field: str) -> None:
    """Refuse a word that means no severity, as `InvalidInput`."""
    if severity is not None and finding_rules.severity_of(severity) is None:
        raise InvalidInput(
            f"'{severity}' is no severity: say blocker, major, minor or nit.",
            field=field,
            allowed=list(finding_rules.SEVERITIES),
        )


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
    # Before git is asked: a folder registered while git runs is then noticed when the proposal is written.
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
        sent = await asyncio.to_thread(_sent, request)
        as_diff = not is_document(request.path)
        return await text_facts(services, project, request.path, request.description, sent, as_diff=as_diff)
    if request.diff is None:
        if request.base is not None:
            raise InvalidInput("base says what a diff is against; send the diff too.", field="base")
        return Content(request.description or "")
    sent = None if request.skip_diff_validation else await asyncio.to_thread(_sent, request)
    return await diff_facts(
        services, project, request.diff, request.base, sent, skip_validation=request.skip_diff_validation
    )


def _sent(request: CreateReview) -> SentBase | None:
    """The base's files that came along; None if none did.

    Raises:
        InvalidInput: They are no files of a base, or others than the change touches.
        TooLarge: They are too many, or too large.
    """
    if request.base_files is None:
        return None
    base_files.format_of(request.base or "")
    files = tuple(base_files.parse([one.model_dump() for one in request.base_files]))
    touched = base_files.touched(request.diff, request.path)
    others = sorted(one.path for one in files if encode_path(one.path) not in touched)
    if others:
        raise InvalidInput(
            f"The change does not touch {others[0]!r}; send the base's files at the paths of the diff only.",
            field=base_files.FIELD,
            path=others[0],
        )
    return SentBase(request.base or "", files)


async def diff_facts(
    services: Services,
    project: str,
    diff: str,
    base: str | None,
    sent: SentBase | None = None,
    *,
    skip_validation: bool = False,
) -> Content:
    """What a diff does to its base; only parsed where the base is not known or it was asked for."""
    if not skip_validation:
        found = await _looked_at(services, project, base, sent, lambda one: one.validate_diff(diff, base))
        if found is not None:
            limit = _DRAWN_TIMES * services.policy.diff_limit_bytes
            _check_size("The diff, with all lines of renamed files,", found.content, limit, _DIFF_LIMIT)
            return found
    async with services.validations:
        return _content(await asyncio.to_thread(parse_only, diff))


async def text_facts(
    services: Services, project: str, path: str, text: str, sent: SentBase | None = None, *, as_diff: bool = False
) -> Content:
    """The digest of a text that is a file's whole content, or of its diff; none where its base is not known."""
    base = sent.base if sent is not None else None

    def validate(one: Repository) -> ValidatedContent:
        # In the project's own repository a text is held against its HEAD.
        against = base if one.bases is not None else None
        return (one.file_change if as_diff else one.text_change)(path, text, against)

    found = await _looked_at(services, project, None, sent, validate)
    if found is not None:
        return found
    reason = unsafe_reason(path)
    if reason is not None:
        raise InvalidInput(f"The path {path!r} {reason}; name a file of the repository.", field="path")
    return Content(text)


def is_document(path: str) -> bool:
    """Whether a file is one that people read as a text."""
    return PurePosixPath(path).suffix.lower() in _DOCUMENTS


def as_code(request: CreateReview) -> CreateReview:
    """The proposal of a file's whole text as one of code, unless the file is a document."""
    is_text = request.path is None or is_document(request.path)
    return request if is_text else request.model_copy(update={"category": "code_change"})


def as_change(request: CreateReview, content: Content) -> CreateReview:
    """The proposal of a file's whole text as the diff that it was validated to be, unless the file is a document."""
    if request.path is None or is_document(request.path) or not content.validated:
        return request
    stated = {"diff": content.content, "base": content.base_commit, "path": None, "description": None}
    return request.model_copy(update=stated)


async def _looked_at(
    services: Services,
    project: str,
    base: str | None,
    sent: SentBase | None,
    validate: Callable[[Repository], ValidatedContent],
) -> Content | None:
    """A change, validated in the project's repository, else on the base's files that were sent along.

    None for a label that came without files.

    Raises:
        InvalidInput: The project has no repository here, and no files were sent along.
    """
    repository = await _repository(services, project, base, sent)
    mirror = services.projects.mirror(project)
    async with services.validations:
        if repository is not None and (sent is None or await asyncio.to_thread(repository.has_base, base)):
            try:
                return await _with_checks(services, project, repository, lambda: validate(repository))
            except InvalidInput as error:
                if mirror is not None and mirror.problem is not None and error.details.get("field") == "base":
                    raise mirror.unavailable() from error
                raise
        if sent is None:
            return None

        def work() -> ValidatedContent:
            with Repository.of_files({sent.base: sent.files}, services.projects.git) as partial:
                return validate(partial)

        stored = orjson.dumps([one.as_json() for one in sent.files]).decode()
        if repository is None:
            return replace(_content(await asyncio.to_thread(work)), base_files=stored)
        return replace(await _with_checks(services, project, repository, work), base_files=stored)


async def _repository(services: Services, project: str, base: str | None, sent: SentBase | None) -> Repository | None:
    """The project's repository, as far as it is here; None where a change is looked at without.

    Raises:
        InvalidInput: It is nowhere here, and no files were sent along.
        Unavailable: It is needed, and was not fetched.
    """
    # Changes stand on the newest commits that there are, on any base.
    repository = await services.projects.repository(project, base or grounds.HEAD, grounds.HEAD)
    mirror = services.projects.mirror(project)
    if repository is not None:
        return repository
    if mirror is not None:
        trusted = await asyncio.to_thread(checks.has_trusted, user_file().parent, str(mirror.folder))
        if sent is None or trusted:
            # It holds the list of checks to run.
            raise mirror.unavailable()
    elif sent is None and services.projects.is_registered(project):
        raise InvalidInput(
            f"This broker has no repository of '{project}'. Send what the touched files are at the base, as"
            f" {base_files.FIELD}: tandem submit and tandem mcp do, with --broker, where they run in the repository.",
            field=base_files.FIELD,
        )
    return None


def _content(validated: ValidatedContent, **more: Any) -> Content:
    return Content(**{one.name: getattr(validated, one.name) for one in fields(ValidatedContent)}, **more)


@asynccontextmanager
async def repository_of(services: Services, project: str, *rounds: Round) -> AsyncGenerator[Repository | None]:
    """Where the bases of some rounds can be read, for a block: the project's repository, else the files sent along.

    Yields None where they cannot be read.
    """
    repository = await services.projects.repository(project, *(one.base_commit for one in rounds))
    names = {one.base_commit for one in rounds if one.base_files_id is not None}
    if not names or (repository is not None and await asyncio.to_thread(lambda: all(map(repository.has_base, names)))):
        yield repository
        return

    def look(unit: Unit) -> dict[str, list[BaseFile]]:
        bases: dict[str, list[BaseFile]] = {}
        for one in rounds:
            if one.base_commit is not None:
                kept = orjson.loads(queries.find_content(unit, one.base_files_id) or "[]")
                bases.setdefault(one.base_commit, []).extend(base_files.parse(kept))
        return bases

    with ExitStack() as stack:
        opened = Repository.of_files(await services.store.read(look), services.projects.git)
        yield await asyncio.to_thread(stack.enter_context, opened)


async def _with_checks(
    services: Services, project: str, repository: Repository, validate: Callable[[], ValidatedContent]
) -> Content:
    """The validated content, with its ground and the checks to run on it."""
    known = await services.store.read(lambda unit: grounds.base_branches(unit, services, project))

    def work() -> Content:
        found = validate()
        # The digest of a text names its path.
        diff = None if ":" in (found.digest or "") else found.content
        stands = repository.ground(RoundContent(found.base_commit or "", found.digest, diff), found.changes, *known)
        paths = [one.path for one in found.changes]
        if stands.tip is not None and (unread := repository.unread(stands.tip, paths)):
            # A renamed file stands for both.
            files = tuple(
                replace(one, generated={one.path, one.old_path or one.path} <= unread) for one in found.affected_files
            )
            found = replace(found, affected_files=files)
        runs = planned(repository, stands, known.names, paths)
        return _content(found, checks=runs, ground=stands, policy=_of_tip(repository, _base(repository, stands)).policy)

    content = await asyncio.to_thread(work)
    if content.checks:
        services.checks_wanted.set()
    return content


def planned(repository: Repository, ground: Ground, branches: Sequence[str], paths: Sequence[str]) -> Checks:
    """The checks to run on a change; blocks.

    The file of the base branch's tip names them: the base of a change is its proposer's word.

    Args:
        repository: The project's.
        ground: The ground of the change.
        branches: The project's base branches.
        paths: The files that it touches.
    """
    if branches and ground.tip is None:
        # The checks are unknown. Removing the branch must not mean that there are none.
        known = checks.has_trusted(user_file().parent, str(repository.root))
        return (PlannedCheck(None, CheckStatus.ERROR, ground.problem, required=True, source=""),) if known else ()
    file = _of_tip(repository, _base(repository, ground)).checks
    found = () if file is None else _planned_by(file, repository, paths)
    if ground.problem is None:
        return found
    return tuple(
        one._replace(status=CheckStatus.ERROR, reason=ground.problem) if one.status is CheckStatus.QUEUED else one
        for one in found
    )


def _base(repository: Repository, ground: Ground) -> str:
    """The commit whose files say how a change is judged: the base branch's tip."""
    return ground.tip or (ground.base if repository.has_base(ground.base) else repository.resolve_base(None))


class OfTip(NamedTuple):
    """What a commit of a base branch asks for.

    Attributes:
        checks: Its file of checks, or something in its place; None if there is neither.
        policy: Its policy, with the owners of paths where that names them; None if it has none.
    """

    checks: bytes | None
    policy: grounds.Rules | None


_ANYTHING = OfTip(b"", grounds.Rules(b"\0", None))
"""What cannot be read may ask for anything."""


async def of_tips(services: Services, project: str, branches: Iterable[str]) -> dict[str, OfTip]:
    """What the tips of base branches ask for, as far as the branches are known here."""
    wanted = [*branches]
    repository = await services.projects.repository(project) if wanted else None
    if repository is None:
        return {}

    def look(branch: str) -> OfTip | None:
        try:
            tip = repository.tip(branch)
            return None if tip is None else _of_tip(repository, tip)
        except TandemError:
            return _ANYTHING

    def work() -> dict[str, OfTip]:
        return {branch: found for branch in wanted if (found := look(branch)) is not None}

    return await asyncio.to_thread(work)


async def asked_by_now(services: Services, project: str) -> grounds.Asked:
    """What the gate would be asked by now about changes of a project, as far as its policies can be read."""
    known = await services.store.read(lambda unit: grounds.base_branches(unit, services, project).names)
    found = await of_tips(services, project, known or (grounds.HEAD,))
    return grounds.Asked(policies={name: one.policy for name, one in found.items() if one is not _ANYTHING})


_known_tips = Recent[tuple[str, str], OfTip](100, lambda _: 1)
"""By repository and commit, which never changes."""


def _of_tip(repository: Repository, tip: str) -> OfTip:
    key = (str(repository.root), tip)
    if (known := _known_tips.get(key)) is not None:
        return known

    def read(path: str) -> bytes | None:
        try:
            return repository.file_of_round(RoundPatch(tip, None, ()), path, after=False)
        except InvalidInput:
            # A link or a submodule in its place: no file that can be read, and its correction must stay possible.
            return b"\0"

    policy = read(POLICY_FILE)
    owners = map(read, PLACES if policy is not None and b"owner" in policy else ())
    rules = None if policy is None else grounds.Rules(policy, next((one for one in owners if one is not None), None))
    found = OfTip(read(checks.FILE), rules)
    _known_tips.put(key, found)
    return found


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
        return await text_facts(services, project, replaced.path, body, await _kept(services, replaced))
    if replaced.diff_id is None:
        check_text(services, "counter_patch", body)
        return Content(body)
    _check_size("counter_patch", body, services.policy.diff_limit_bytes, _DIFF_LIMIT)
    # What its proposer had not validated stays without a digest: a reviewer cannot open a gate for it.
    kept = await _kept(services, replaced)
    return await diff_facts(services, project, body, base, kept, skip_validation=not replaced.validated)


async def _kept(services: Services, current: Round) -> SentBase | None:
    """The base's files that a round was applied to; None if those of a repository."""
    if current.base_files_id is None:
        return None
    kept = await services.store.read(lambda unit: queries.find_content(unit, current.base_files_id))
    files = await asyncio.to_thread(base_files.parse, orjson.loads(kept or "[]"))
    return SentBase(current.base_commit or "", tuple(files))


def files_json(facts: ValidatedContent) -> str:
    """Affected files in their stored form."""
    return orjson.dumps([asdict(file) for file in facts.affected_files]).decode()


def columns(facts: Content) -> dict[str, Any]:
    """The columns of a round that its validation gives."""
    return {
        "base_commit": facts.base_commit,
        "digest": facts.digest,
        "validated": int(facts.validated),
        "affected_files": files_json(facts),
        "changes": orjson.dumps([change._asdict() for change in facts.changes]).decode(),
        "notes": None if facts.notes is None else orjson.dumps(facts.notes).decode(),
        "ground": grounds.as_json(facts.ground),
    }
