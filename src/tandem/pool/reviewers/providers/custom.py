"""Any program that reads the prompt on standard input and prints the answer on standard output.

It is of the person's own configuration, who also answers for its rights: it keeps the user's home folder.
It is told the rest by its environment, as its options are not known.
"""

from __future__ import annotations

import json

from tandem.bridge.credentials import TOKEN_VARIABLE
from tandem.pool.reviewers import Invocation, ProgramOutput, RunContext
from tandem.pool.reviewers.providers import clean_room
from tandem.pool.reviewers.providers.clean_room import Provider, ToolServer

_SCHEMA = "schema.json"
_USERS_OWN = ("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "USER", "LOGNAME")


class Custom(Provider):
    """The provider `custom`."""

    name = "custom"

    def review(self, context: RunContext, prompt: str, server: ToolServer | None = None) -> Invocation:
        """The command as it is; an agent finds the token where Tandem's own programs look for one."""
        told = {"TANDEM_REVIEW_EFFORT": context.effort}
        files: dict[str, bytes] = {}
        if server is None:
            files[_SCHEMA] = json.dumps(context.schema).encode()
            told["TANDEM_REVIEW_SCHEMA"] = clean_room.path(context, _SCHEMA)
        else:
            told["TANDEM_REVIEW_MCP_URL"] = server.url
            told |= {} if server.access is None else {TOKEN_VARIABLE: server.access}
        if context.model is not None:
            told["TANDEM_REVIEW_MODEL"] = context.model
        own = {name: value for name in _USERS_OWN if (value := context.environment.get(name))}
        environment = clean_room.environment(context, **own, **told)
        return clean_room.invocation(context, self.command, prompt, environment, files, talks=False)

    def said(self, stdout: bytes) -> ProgramOutput:
        """All of it is the answer."""
        return ProgramOutput(stdout.decode("utf-8", "surrogateescape").strip() or None)
