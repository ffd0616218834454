"""Renderings of access tokens and logins."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from tandem.cli.render.answers import render
from tandem.cli.render.parts import ago, listing, more_pages, plain
from tandem.cli.terminal import Unbroken
from tandem.domain import access_answers as answers

_STATE_STYLES = {"valid": "green", "expired": "dim", "revoked": "dim"}


@render.register
def _(answer: answers.TokenList) -> RenderableType:
    if not answer.tokens:
        return Text("No tokens. Make one with: tandem token create NAME --role ROLE", style="dim")
    table = listing("id", "name", "for", "project", "state", "made", "by", "expires", fixed=("id", "state", "made"))
    for token in answer.tokens:
        table.add_row(
            token.token_id,
            plain(token.name),
            ", ".join(token.roles),
            plain(token.project or "all"),
            Text(token.state, style=_STATE_STYLES.get(token.state, "")),
            ago(token.created_at),
            plain(token.created_by),
            ago(token.expires_at) or "never",
        )
    return Group(table, more_pages(answer.next_page))


@render.register
def _(answer: answers.TokenRevoked) -> RenderableType:
    return Text(f"{answer.token_id} is void since {ago(answer.revoked_at)}.")


@render.register
def _(answer: answers.Login) -> RenderableType:
    return Unbroken(Text(answer.path))
