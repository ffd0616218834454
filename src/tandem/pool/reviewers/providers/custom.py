"""Any program that reads the prompt on standard input and prints the answer on standard output.

It is of the person's own configuration, who also answers for what it may do: it keeps the user's home folder.
It is told the rest by its environment, as its options are not known.
"""

from __future__ import annotations

import json

from tandem.bridge.credentials import TOKEN_VARIABLE
from tandem.pool.reviewers import Finished, Invocation, ProgramOutput, Provider, RunContext
from tandem.pool.reviewers.providers import clean_room

_SCHEMA = "schema.json"
_USERS_OWN = ("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "USER", "LOGNAME")


class Custom(Provider):
    """The provider `custom`."""

    name = "custom"

    def review(self, context: RunContext, prompt: str) -> Invocation:
        """One review: the command as it is."""
        schema = json.dumps(context.schema).encode()
        return self._invocation(
            context, prompt, {_SCHEMA: schema}, TANDEM_REVIEW_SCHEMA=clean_room.path(context, _SCHEMA)
        )

    def agent(self, context: RunContext, prompt: str, mcp_url: str, access: str | None = None) -> Invocation:
        """The loop over MCP: the command as it is; the token is where Tandem's own programs look for one."""
        told = {} if access is None else {TOKEN_VARIABLE: access}
        return self._invocation(context, prompt, {}, TANDEM_REVIEW_MCP_URL=clean_room.url("mcp_url", mcp_url), **told)

    def read(self, finished: Finished, context: RunContext) -> ProgramOutput:  # noqa: ARG002 - the same for all providers
        """All of its output."""
        return ProgramOutput(finished.stdout.decode("utf-8", "surrogateescape").strip() or None)

    def _invocation(self, context: RunContext, prompt: str, files: dict[str, bytes], **ours: str) -> Invocation:
        told = {"TANDEM_REVIEW_EFFORT": context.effort, **ours}
        if context.model is not None:
            told["TANDEM_REVIEW_MODEL"] = context.model
        own = {name: value for name in _USERS_OWN if (value := context.environment.get(name))}
        environment = clean_room.environment(context, **own, **told)
        return clean_room.invocation(context, self.command, prompt, environment, files, talks=False)
