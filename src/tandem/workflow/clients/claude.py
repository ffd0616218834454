"""Claude Code: `.mcp.json` and `.claude/settings.json` in the project.

Measured with 2.1.330: a project's server waits for approval unless `enabledMcpjsonServers` has it, which counts
once the user has trusted the folder.
"""

from __future__ import annotations

from dataclasses import dataclass

from tandem.workflow.clients.settings_files import says
from tandem.workflow.clients.site import SERVER, TOOL_TIMEOUT_SECONDS, Client, Site
from tandem.workflow.edits import Edit, JsonItems, JsonMember
from tandem.workflow.teaching import Client as Name

_SETTINGS = ".claude/settings.json"


@dataclass(frozen=True)
class Claude(Client):
    """The client `claude`."""

    name: Name = "claude"
    title: str = "Claude Code"
    programs: tuple[str, ...] = ("claude",)
    folder: str = ".claude"

    def edits(self, site: Site) -> list[Edit]:
        """As in `Client`."""
        program, *arguments = site.server
        server = {
            "command": program,
            "args": arguments,
            "env": {"TANDEM_AGENT": "claude-code"},
            "timeout": TOOL_TIMEOUT_SECONDS * 1000,
        }
        settings = site.root / _SETTINGS
        return [
            JsonMember(site.root / ".mcp.json", ("mcpServers", SERVER), server),
            JsonItems(settings, ("enabledMcpjsonServers",), (SERVER,)),
            JsonItems(settings, ("permissions", "allow"), (f"mcp__{SERVER}__*",)),
        ]

    def notes(self, site: Site) -> list[str]:
        """As in `Client`."""
        # Beside the configuration folder by default, in it where a variable names one.
        stated = site.environment.get("CLAUDE_CONFIG_DIR")
        state = site.user_file(".claude/.claude.json") if stated else site.home / ".claude.json"
        if says(state, "projects", str(site.root), "hasTrustDialogAccepted") is True:
            return []
        return ["Claude Code connects to the server once you have trusted this folder: start claude here and say yes."]
