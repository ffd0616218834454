"""The typed requests on access tokens and logins."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tandem.contract.request import (
    Name,
    PageLimit,
    PageToken,
    Refusals,
    Request,
    WriteRequest,
)
from tandem.domain.access import NAME_LENGTH
from tandem.errors import NotFound

_MOST_DAYS = 3650

RoleName = Literal["proposer", "reviewer", "operator", "handoff", "supervisor", "admin"]


class CreateToken(WriteRequest):
    """Make an access token for a person or program; it is shown this once, and only a hash is kept."""

    refusals: ClassVar[Refusals] = ()

    project: Annotated[
        Name | None,
        Field(description="The one project that it is for; default: all. Roles supervisor and admin are for all."),
    ] = None
    name: Annotated[
        str,
        Field(
            min_length=1,
            max_length=NAME_LENGTH,
            pattern=r"^[A-Za-z0-9._-]+$",
            description="Whose it is; they act under this name. Several tokens may have one name.",
        ),
    ]
    roles: Annotated[list[RoleName], Field(min_length=1, max_length=20, description="What it is for.")]
    days: Annotated[
        float | None, Field(gt=0, le=_MOST_DAYS, description="How long it is good for; default: until it is revoked.")
    ] = None


class ListTokens(Request):
    """Access tokens, newest first, those included that are void; never what proves them."""

    refusals: ClassVar[Refusals] = ()

    limit: PageLimit = 50
    page: PageToken = None


class RevokeToken(WriteRequest):
    """Make an access token void at once."""

    refusals: ClassVar[Refusals] = (NotFound,)

    project: Annotated[Name | None, Field(description="Of no effect.")] = None
    token_id: Annotated[str, Field(pattern=r"^tok_[0-9a-z]{18}$", description="As list_tokens shows it.")]


class CreateLogin(Request):
    """Where to open a browser that is then logged in to the pages as you; works once, within a minute."""

    refusals: ClassVar[Refusals] = ()
    keeps_to_caller: ClassVar[bool] = True
