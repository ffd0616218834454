"""Gemini CLI: headless in a folder that it does not trust, with four tools that read, and events as output.

Measured with 0.61 (see `tests/clients`). An untrusted folder gives it no settings, hooks, servers, memory or
`.env`; its file tools stay within the folders that it was given. It has no effort and no schema: the prompt
says what the answer has to look like.

An agent needs a trusted folder, and then every `GEMINI.md` in the folders that it was given is obeyed, despite the
setting `context.fileName` says (that adds a name). It reads its folder for temporary files, too, without such a search:
so the repository lies there.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from tandem.pool.reviewers import DESK_FOLDER, GIVEN_FOLDER, HOME_FOLDER, Invocation, ProgramOutput, RunContext
from tandem.pool.reviewers.providers import clean_room, output
from tandem.pool.reviewers.providers.clean_room import Provider, ToolServer

_SETTINGS = ".gemini/settings.json"
_LOGIN = "oauth_creds.json"
_READING = ["read_file", "list_directory", "glob", "grep_search"]
_KEY = ("GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL")
_CLOUD = (
    "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_VERTEX_BASE_URL",
)  # fmt: skip


class Gemini(Provider):
    """The provider `gemini`."""

    name = "gemini"
    keys = (_KEY[0], "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_API_KEY")
    agent_tree = f"{HOME_FOLDER}/.gemini/tmp/{DESK_FOLDER}/tree"

    def has_saved_login(self, context: RunContext) -> bool:
        """As in `Provider`."""
        return clean_room.login(context, ".gemini", _LOGIN) is not None

    def said(self, stdout: bytes) -> ProgramOutput:
        """The model's words after its last tool; tokens and errors from the last event."""
        events = [*output.objects(stdout)]
        said: list[str] = []
        text: str | None = None
        for event in events:
            if event.get("type") == "message" and event.get("role") == "assistant":
                said.append(output.text(event, "content") or "")
                text = "".join(said)
            elif event.get("type") == "tool_use":
                said = []
        result = output.last(events, "result")
        stats = output.part(result, "stats")
        read, both = output.count(stats, "input_tokens"), output.count(stats, "total_tokens")
        wrote = max(0, both - read) if both is not None and read is not None else None
        return ProgramOutput(text, read, wrote, error=output.text(output.part(result, "error"), "message"))

    def review(self, context: RunContext, prompt: str, server: ToolServer | None = None) -> Invocation:
        """In the repository; servers need a trusted folder, and the repository is none: an agent starts elsewhere."""
        argv = [*self.command, "--output-format", "stream-json", "--approval-mode", "default"]
        argv += clean_room.model(context)
        settings, folder = _settings(context), context.workspace
        if server is not None:
            settings["mcpServers"] = {"tandem": {"httpUrl": server.url, "trust": True, **server.headers}}
            # The list of tools outranks the trust in a server.
            settings["tools"] = {"core": [*_READING, "mcp_tandem_*"]}
            prompt, folder = clean_room.told_where(context.workspace, prompt), clean_room.path(context, DESK_FOLDER)
        files: dict[str, bytes] = {}
        kind, passed = _credentials(context)
        if kind == "oauth-personal" and (saved := clean_room.login(context, ".gemini", _LOGIN)):
            # Whole: Google's refresh tokens can be used any number of times, its access tokens last an hour.
            files[f"{HOME_FOLDER}/.gemini/{_LOGIN}"] = saved
        settings["security"] = {"auth": {"selectedType": kind}, "folderTrust": {"enabled": False}}
        files[f"{HOME_FOLDER}/{_SETTINGS}"] = json.dumps(settings).encode()
        environment = clean_room.environment(
            context,
            passed,
            GEMINI_CLI_HOME=clean_room.path(context, HOME_FOLDER),
            GEMINI_CLI_TRUST_WORKSPACE="false" if server is None else "true",
            GEMINI_CLI_NO_RELAUNCH="true",
        )
        return clean_room.invocation(context, argv, prompt, environment, files, folder=folder)


def _settings(context: RunContext) -> dict[str, Any]:
    """Everything that is not reading, switched off."""
    return {
        "tools": {"core": _READING},
        # No folder has a file of this name: else what lies in the repository would be obeyed as its memory.
        "context": {
            "includeDirectories": [clean_room.path(context, GIVEN_FOLDER)],
            "loadMemoryFromIncludeDirectories": False,
            "fileName": f"{hashlib.sha256(context.scratch.encode()).hexdigest()}.md",
        },
        "mcpServers": {},
        "skills": {"enabled": False},
        "hooksConfig": {"enabled": False},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "ide": {"enabled": False},
        "advanced": {"ignoreLocalEnv": True},
        "experimental": {"enableAgents": False},
    }


def _credentials(context: RunContext) -> tuple[str, tuple[str, ...]]:
    """The way to authenticate, and the variables that go with it."""
    if context.environment.get("GEMINI_API_KEY"):
        return "gemini-api-key", _KEY
    if context.environment.get("GOOGLE_GENAI_USE_VERTEXAI") or context.environment.get("GOOGLE_API_KEY"):
        return "vertex-ai", _CLOUD
    return "oauth-personal", ("GOOGLE_CLOUD_PROJECT",)
