"""Who is let in to the broker: everybody on this machine, or whoever has an access token; and whether this user is."""

from __future__ import annotations

import asyncio
import os
from contextlib import closing
from typing import Any

from tandem import platforms
from tandem.bridge.credentials import REFUSED_STATUS, TOKEN_VARIABLE
from tandem.bridge.http import Client, HttpFailure, Target
from tandem.config import load_settings
from tandem.errors import Forbidden, Unauthenticated
from tandem.workflow.doctor.finding import Circumstances, Finding, note, ok, problem, skipped

_SECONDS = 5.0
_JSON = {"Content-Type": "application/json", "Accept": "application/json"}
_ASK_FOR_TOKENS = (
    'set auth = "token" in the broker\'s settings, start it again, and give each person a token: tandem token create'
)


async def check_users(here: Circumstances) -> list[Finding]:
    """Whether others are logged in, or could be: without access tokens, whoever reaches the port is trusted."""
    others = sorted(platforms.accounts())
    present = sorted(await asyncio.to_thread(platforms.others_logged_in))
    if len(others) <= 1 and not present:
        return [ok("users", "Nobody else has an account here.")]
    if await asyncio.to_thread(_asks_for_tokens, here):
        return [ok("users", "Other people have an account here, and the broker asks for access tokens.")]
    if present:
        return [
            problem(
                "users",
                f"Others are logged in on this machine ({', '.join(present[:5])}), and the broker trusts everybody who"
                " reaches its port: they can read every file that was ever committed in the repositories that you"
                " registered, and review and approve under any name.",
                _ASK_FOR_TOKENS,
            )
        ]
    return [
        note(
            "users",
            f"{len(others)} people have an account on this machine, and the broker trusts everybody who reaches its"
            f" port: {', '.join(others[:5])}.",
            _ASK_FOR_TOKENS,
        )
    ]


async def check_access(here: Circumstances) -> list[Finding]:
    """Whether this user's token is taken, where the broker asks for one."""
    if here.call is None:
        return [skipped("access", "The broker does not answer.")]
    if not await asyncio.to_thread(_asks_for_tokens, here):
        return [_idle(await here.call("list_tokens", {}))]
    whose = f"the one in {TOKEN_VARIABLE}" if os.environ.get(TOKEN_VARIABLE, "").strip() else "its owner's"
    try:
        await here.call("list_projects", {})
    except Unauthenticated as error:
        return [problem("access", f"The broker asks for access tokens, and takes none from here: {error}", _fix())]
    except Forbidden:
        return [ok("access", f"The broker asks for access tokens, and takes {whose}; it is not for everything.")]
    return [ok("access", f"The broker asks for access tokens, and takes {whose}.")]


def _idle(listed: dict[str, Any]) -> Finding:
    """What there is to say of a broker that asks for no tokens: whoever started it may have meant it to."""
    valid = sum(token["state"] == "valid" for token in listed["tokens"])
    if not valid:
        return ok("access", "The broker trusts everybody who reaches it, and asks for no access tokens.")
    return problem(
        "access",
        f"Access tokens are valid ({valid}), and yet the broker trusts everybody: it was started without"
        ' auth = "token".',
        'write auth = "token" into your own config.toml, where every start finds it, and start the broker again; or'
        " revoke the tokens: tandem token revoke",
    )


def _fix() -> str:
    if os.environ.get(TOKEN_VARIABLE, "").strip():
        return f"put a token that counts into {TOKEN_VARIABLE}; if the broker is your own, leave it out"
    return f"ask whoever runs the broker for a token (tandem token create), and put it into {TOKEN_VARIABLE}"


def _asks_for_tokens(here: Circumstances) -> bool:
    """What the broker does with a call without a token; what the settings say if it does not answer."""
    if here.url is None:
        return load_settings().settings.auth == "token"
    try:
        with closing(Client(Target(here.url), silence_seconds=_SECONDS)) as client:
            answer = client.request("POST", "/api/v1/list_projects", b"{}", _JSON)
            answer.read()
    except (HttpFailure, ValueError):
        return False
    return answer.status == REFUSED_STATUS
