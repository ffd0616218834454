"""Gemini CLI: headless in a folder that it does not trust, with four tools that read, and events as output.

Measured with 0.61 (see `tests/clients`). An untrusted folder gives it no settings, hooks, servers, memory or
`.env`; its file tools stay within the folders that it was given. It has no effort and no schema: the prompt
says what the answer has to look like.

An agent needs a trusted folder, and then every `GEMINI.md` in the folders that it was given is obeyed, whatever the
setting `context.fileName` says (that adds a name). It reads its folder for temporary files, too, without such a search:
so the repository lies there.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from tandem.pool.reviewers import (
    DESK_FOLDER,
    GIVEN_FOLDER,
    HOME_FOLDER,
    Finished,
    Invocation,
    ProgramOutput,
    Provider,
    RunContext,
)
from tandem.pool.reviewers.providers import clean_room, output

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
    agent_tree = f"{HOME_FOLDER}/.gemini/tmp/{DESK_FOLDER}/tree"

    def review(self, context: RunContext, prompt: str) -> Invocation:
        """One review, in the repository."""
        settings = _settings(context, [clean_room.path(context, GIVEN_FOLDER)])
        return self._invocation(context, prompt, settings, folder=context.workspace, trusted=False)

    def agent(self, context: RunContext, prompt: str, mcp_url: str, access: str | None = None) -> Invocation:
        """The loop over MCP. Servers need a trusted folder, and the repository is none: so it starts elsewhere."""
        settings = _settings(context, [clean_room.path(context, GIVEN_FOLDER)])
        server = {"httpUrl": clean_room.url("mcp_url", mcp_url), "trust": True, **clean_room.server_headers(access)}
        settings["mcpServers"] = {"tandem": server}
        # The list of tools outranks the trust in a server.
        settings["tools"] = {"core": [*_READING, "mcp_tandem_*"]}
        told = clean_room.told_where(context.workspace, prompt)
        return self._invocation(context, told, settings, folder=clean_room.path(context, DESK_FOLDER), trusted=True)

    def read(self, finished: Finished, context: RunContext) -> ProgramOutput:  # noqa: ARG002 - the same for all providers
        """What the model said after its last tool; tokens and errors from the last event."""
        said: list[str] = []
        text: str | None = None
        result: dict[str, Any] = {}
        for event in output.objects(finished.stdout):
            match event.get("type"):
                case "message" if event.get("role") == "assistant":
                    said.append(output.text(event, "content") or "")
                    text = "".join(said)
                case "tool_use":
                    said = []
                case "result":
                    result = event
                case _:
                    pass
        stats = output.part(result, "stats")
        read, both = output.count(stats, "input_tokens"), output.count(stats, "total_tokens")
        wrote = max(0, both - read) if both is not None and read is not None else None
        return ProgramOutput(text, read, wrote, error=output.text(output.part(result, "error"), "message"))

    def _invocation(
        self, context: RunContext, prompt: str, settings: dict[str, Any], *, folder: str, trusted: bool
    ) -> Invocation:
        argv = [
            *self.command,
            "--output-format",
            "stream-json",
            "--approval-mode",
            "default",
            *clean_room.model(context),
        ]
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
            GEMINI_CLI_TRUST_WORKSPACE="true" if trusted else "false",
            GEMINI_CLI_NO_RELAUNCH="true",
        )
        return clean_room.invocation(context, argv, prompt, environment, files, folder=folder)


def _settings(context: RunContext, folders: list[str]) -> dict[str, Any]:
    """Everything that is not reading, switched off."""
    return {
        "tools": {"core": _READING},
        # No folder has a file of this name: else what lies in the repository would be obeyed as its memory.
        "context": {
            "includeDirectories": folders,
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
