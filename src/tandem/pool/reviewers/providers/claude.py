"""Claude Code: `claude -p` with three tools that read, confined to the repository, and a JSON schema.

Measured with 2.1.330 (see `tests/clients`). Without these options a repository's own settings run commands
(hooks, a key helper, MCP servers) as soon as the program starts in it.
"""

from __future__ import annotations

import json
import time
from typing import Any

from tandem.pool.reviewers import GIVEN_FOLDER, HOME_FOLDER, Invocation, ProgramOutput, RunContext
from tandem.pool.reviewers.providers import clean_room, output
from tandem.pool.reviewers.providers.clean_room import Provider, ToolServer

_HOME = ".claude"
_LOGIN = ".credentials.json"
_SERVERS = "mcp.json"

_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
_PASSED = (*_KEYS, "ANTHROPIC_BASE_URL")
_CLOUDS = {
    "CLAUDE_CODE_USE_BEDROCK": (
        "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK",
        "ANTHROPIC_BEDROCK_BASE_URL",
    ),
    "CLAUDE_CODE_USE_VERTEX": (
        "CLOUD_ML_REGION", "ANTHROPIC_VERTEX_PROJECT_ID", "ANTHROPIC_VERTEX_BASE_URL", "GOOGLE_APPLICATION_CREDENTIALS",
    ),
}  # fmt: skip
"""Keys of clouds, handed on only where Claude is told to use that cloud."""

_CLEAN = (
    "--tools", "Read,Grep,Glob", "--restricted", "--setting-sources", "", "--strict-mcp-config",
    "--disable-slash-commands", "--no-session-persistence", "--permission-prompts", "none", "--no-chrome",
)  # fmt: skip


class Claude(Provider):
    """The provider `claude`."""

    name = "claude"
    keys = (*_KEYS, *_CLOUDS)

    def has_saved_login(self, context: RunContext) -> bool:
        """As in `Provider`; not one that has run out, as it cannot be renewed in the clean room."""
        saved = output.part(output.parsed(_login(context)), "claudeAiOauth")
        until_ms = output.count(saved, "expiresAt")
        return bool(saved) and (until_ms is None or until_ms > time.time() * 1000)

    def review(self, context: RunContext, prompt: str, server: ToolServer | None = None) -> Invocation:
        """With the schema; or with the server, which safe mode would leave out: the other options do its rest."""
        files: dict[str, bytes] = {}
        # Event for event, not all at the end: one that hangs is noticed by its silence.
        argv = [*self.command, "-p", "--output-format", "stream-json", "--verbose", *_CLEAN]
        if server is None:
            argv += ["--safe-mode", "--json-schema", json.dumps(context.schema)]
        else:
            tandem = {"type": "http", "url": server.url, **server.headers}
            files[_SERVERS] = json.dumps({"mcpServers": {"tandem": tandem}}).encode()
            argv += ["--mcp-config", clean_room.path(context, _SERVERS), "--allowedTools", "mcp__tandem__*"]
        argv += ["--add-dir", clean_room.path(context, GIVEN_FOLDER)]
        argv += ["--effort", context.effort, *clean_room.model(context)]
        clouds = [
            name for switch, names in _CLOUDS.items() if context.environment.get(switch) for name in (switch, *names)
        ]
        environment = clean_room.environment(
            context,
            (*_PASSED, *clouds),
            CLAUDE_CONFIG_DIR=clean_room.path(context, HOME_FOLDER, _HOME),
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
            DISABLE_AUTOUPDATER="1",
        )
        if not clouds and not any(name in environment for name in _KEYS) and (saved := _login(context)):
            files[f"{HOME_FOLDER}/{_HOME}/{_LOGIN}"] = saved
        return clean_room.invocation(context, argv, prompt, environment, files)

    def said(self, stdout: bytes) -> ProgramOutput:
        """The structured output, else the result's text; tokens, cost and errors from the same object."""
        events = [*output.objects(stdout)]
        result = output.last(events, "result")
        structured = result.get("structured_output")
        text = json.dumps(structured) if isinstance(structured, dict) else output.text(result, "result")
        usage = output.part(result, "usage")
        return ProgramOutput(
            None if result.get("is_error") else text,
            output.count(usage, "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
            output.count(usage, "output_tokens"),
            output.amount(result, "total_cost_usd"),
            _error(events, result),
        )


def _error(events: list[dict[str, Any]], result: dict[str, Any]) -> str | None:
    """What went wrong, with the time until which the account's limit refuses requests; None if nothing did."""
    if not result and events and events[-1].get("subtype") == "api_retry":
        # It was ended while it tried again.
        return f"{output.text(events[-1], 'error')} (status {output.count(events[-1], 'error_status')})"
    if not result.get("is_error"):
        return None
    limits = [output.part(one, "rate_limit_info") for one in events if one.get("type") == "rate_limit_event"]
    resets = [output.count(limit, "resetsAt") for limit in limits if limit.get("status") == "rejected"]
    until = f" (resets at {resets[-1]})" if resets and resets[-1] else ""
    return f"{output.text(result, 'result') or output.text(result, 'subtype') or 'error'}{until}"


def _login(context: RunContext) -> bytes | None:
    """The login without its refresh token: that can be used once, and the user needs it.

    It lasts some hours then; a person who wants more sets CLAUDE_CODE_OAUTH_TOKEN (`claude setup-token`). On macOS
    it is in the keychain, out of reach.
    """
    tokens = output.part(output.parsed(clean_room.login(context, _HOME, _LOGIN)), "claudeAiOauth")
    if "refreshToken" in tokens:
        tokens["refreshToken"] = None
    # Nothing else of the file: it also keeps the logins of MCP servers.
    return json.dumps({"claudeAiOauth": tokens}).encode() if tokens else None
