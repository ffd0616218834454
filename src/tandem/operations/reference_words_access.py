"""What the reference pages say of access tokens beyond what the declarations do."""

from __future__ import annotations

from typing import Final

CODES: Final[dict[str, tuple[str, ...]]] = {
    "create_token": (),
    "list_tokens": (),
    "revoke_token": ("NOT_FOUND",),
    "create_login": (),
}

FIELDS: Final[dict[str, str]] = {
    "token_id": "The token's id, which proves nothing.",
    "CreateToken.project": "The one project that it is for; default: all. Roles supervisor and admin are for all.",
    "RevokeToken.project": "Of no effect.",
    "TokenCreated.name": "Whose it is.",
    "TokenCreated.roles": "What it is for.",
    "TokenCreated.token": "The token, shown this once; a repetition has a remark in its place.",
    "TokenList.tokens": "The tokens.",
    "TokenView.name": "Whose it is.",
    "TokenView.roles": "What it is for.",
    "TokenView.project": "The one project that it is for; null for all.",
    "TokenCreated.project": "The one project that it is for; null for all.",
    "created_by": "Who made it.",
    "expires_at": "Until when it is good; null for until it is revoked.",
    "revoked_at": "Since when it is void.",
    "TokenView.state": "`valid`, `expired` or `revoked`.",
    "Login.path": "The address below the broker's own; `/` on a broker that trusts everybody.",
    "expires_in_s": "How many seconds it works; 0 where no login is needed.",
    "Order.access": "The token that a reviewer is started with, where the broker needs tokens; null once it runs.",
}
