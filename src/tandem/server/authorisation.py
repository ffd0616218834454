"""Authorises calls that come with access tokens: roles, sides, project and names. Trusted brokers do without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, cast

from tandem.access.admission import Authenticator
from tandem.contract.caller import Access, Caller, Subject
from tandem.contract.operation import Operation
from tandem.contract.request import Request
from tandem.cycles import history as cycle_history
from tandem.cycles import queries as cycles
from tandem.errors import Forbidden, InvalidInput, TandemError, Unauthenticated
from tandem.pool import queries as reviewers
from tandem.pool import runs as reviewer_runs
from tandem.reviews import queries as reviews
from tandem.reviews.context import Services
from tandem.store.base import Unit

# Interfaces are given it too, and reach no deeper than here.
__all__ = ["Authenticator", "Authorisation"]

_SUBJECTS: Final[dict[Subject, tuple[Callable[[Unit, str], Any], Callable[[str], TandemError]]]] = {
    "review": (reviews.find, reviews.unknown),
    "reviewer": (reviewers.find, reviewer_runs.unknown),
    "cycle": (cycles.find, cycle_history.unknown),
}
"""How the subjects of a request are found, and the refusal of one that is missing or another project's."""
_NAME_LENGTH = 200
_PROJECT = "project"


class Authorisation:
    """Stands in front of the operations of a broker that needs tokens."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def admit(self, operation: Operation, arguments: Any, caller: Caller) -> tuple[Any, Caller]:
        """The arguments and the caller as they count: within the token's project, under its own names.

        Looks at arguments that are not validated yet, so that missing names can be put in.

        Raises:
            Unauthenticated: The caller was not let in.
            Forbidden: The token is for other roles, or for another project.
            InvalidInput: The name that the client states is too long behind the token's.
        """
        access = _required(caller)
        if not operation.roles & access.roles:
            raise Forbidden(
                f"'{operation.name}' needs a token with the role {' or '.join(sorted(operation.roles))}; this one has "
                f"{', '.join(sorted(access.roles))}. The owner of the broker makes one: tandem token create NAME"
                " --role ROLE.",
                operation=operation.name,
                allowed=sorted(operation.roles),
                actual=sorted(access.roles),
            )
        caller = replace(caller, agent=_agent(access, caller.agent))
        if not isinstance(arguments, dict):
            # Refused as such when it is read.
            return arguments, caller
        given = dict(cast("dict[str, Any]", arguments))
        _check_side(operation.request, given, access)
        if access.project is not None:
            _bind(operation, given, caller.project, access.project)
            caller = replace(caller, project=access.project)
        _name(operation.request, given, access)
        return given, caller

    async def check_subjects(self, request: Request, caller: Caller) -> None:
        """Let a caller who is bound to a project name only subjects of that project.

        Raises:
            NotFound: Something is unknown, or another project's: the answer is the same.
            UnknownReviewer: Likewise, of a reviewer.
        """
        access = _required(caller)
        if access.project is None:
            return
        named: list[tuple[Subject, str]] = [
            (kind, name)
            for field, kind in request.subject_fields.items()
            if isinstance(name := getattr(request, field, None), str)
        ]
        project = access.project

        def look(unit: Unit) -> None:
            for kind, name in named:
                find, unknown = _SUBJECTS[kind]
                found: Any = find(unit, name)
                # Which project one is of never changes.
                if found is None or found.project != project:
                    raise unknown(name)

        if named:
            await self._services.store.read(look)

    def services_for(self, caller: Caller) -> Services:
        """What the operation stands on: without the names and doings of projects that are not the caller's business."""
        project = _required(caller).project
        if project is None:
            return self._services
        services = self._services
        return replace(
            services, projects=services.projects.only(project), waits=services.waits.only(project, services.tokens)
        )

    async def check_again(self, request: Request, caller: Caller) -> None:
        """After a wait: refuse the answer if the token was revoked meanwhile.

        Raises:
            Unauthenticated: It was, or has expired.
        """
        if getattr(request, "wait", False) and await self._services.authenticator.known(_required(caller).id) is None:
            raise Unauthenticated(
                "This access token was revoked or has expired while the call waited; ask for a new one.",
                reason="revoked",
            )


def _required(caller: Caller) -> Access:
    if caller.access is None:
        raise Unauthenticated("This broker needs an access token; send it with every call.", reason="missing")
    return caller.access


def _agent(access: Access, stated: str | None) -> str | None:
    named = access.calls_itself(stated)
    if named is not None and len(named) > _NAME_LENGTH:
        raise InvalidInput(
            f"Tandem-Agent must be at most {_NAME_LENGTH - len(access.name) - 1} characters, as the token's name goes"
            " before it.",
            field="Tandem-Agent",
        )
    return named


def _check_side(request: type[Request], given: dict[str, Any], access: Access) -> None:
    """Refuse a caller who speaks for a side that the token is not for."""
    side = given.get(request.side_field) if request.side_field is not None else None
    if isinstance(side, str) and side not in access.roles and not access.is_owner:
        raise Forbidden(
            f"This token does not speak for that side; it has the roles {', '.join(sorted(access.roles))}.",
            field=request.side_field,
            actual=sorted(access.roles),
        )


def _bind(operation: Operation, given: dict[str, Any], endpoint: str | None, project: str) -> None:
    """Keep a call within a token's project, by naming it; or refuse the call."""
    for named in (given.get(_PROJECT), endpoint):
        if named is not None and named != project:
            raise Forbidden(f"This token is for the project '{project}' only.", field=_PROJECT, allowed=[project])
    if _PROJECT in operation.request.model_fields:
        given[_PROJECT] = project
    elif not operation.request.project_scoped:
        raise Forbidden(
            f"'{operation.name}' concerns more than the project '{project}', which this token is for; use a token for"
            " all projects.",
            operation=operation.name,
            allowed=[project],
        )


def _name(request: type[Request], given: dict[str, Any], access: Access) -> None:
    """Have callers go by names of their own: stated ones as a part of theirs, needed ones filled in."""
    field = request.actor_field
    if field is None or access.is_owner:
        return
    stated = given.get(field)
    if stated is None:
        if request.model_fields[field].is_required() or given.get("claim") is True:
            given[field] = access.name
    elif isinstance(stated, str) and stated.strip():
        given[field] = access.calls_itself(stated)
