"""Gemini CLI: `.gemini/settings.json` in the project.

Measured with 0.61: the project's settings count in a trusted folder only; `trust` of the server lets its tools run
unasked.
"""

from __future__ import annotations

from dataclasses import dataclass

from tandem.workflow.clients.settings_files import says
from tandem.workflow.clients.site import SERVER, TOOL_TIMEOUT_SECONDS, Client, Site
from tandem.workflow.edits import Edit, JsonMember
from tandem.workflow.teaching import Client as Name


@dataclass(frozen=True)
class Gemini(Client):
    """The client `gemini`."""

    name: Name = "gemini"
    title: str = "Gemini CLI"
    programs: tuple[str, ...] = ("gemini",)
    folder: str = ".gemini"

    def edits(self, site: Site) -> list[Edit]:
        """As in `Client`."""
        program, *arguments = site.server
        server = {
            "command": program,
            "args": arguments,
            "env": {"TANDEM_AGENT": "gemini"},
            "timeout": TOOL_TIMEOUT_SECONDS * 1000,
            "trust": True,
        }
        return [JsonMember(site.root / ".gemini" / "settings.json", ("mcpServers", SERVER), server)]

    def notes(self, site: Site) -> list[str]:
        """As in `Client`."""
        trusted = says(site.user_file(".gemini/trustedFolders.json"), str(site.root))
        off = says(site.user_file(".gemini/settings.json"), "security", "folderTrust", "enabled") is False
        if off or trusted == "TRUST_FOLDER":
            return []
        return ["Gemini CLI connects to the server once this folder is trusted: start gemini here and say yes."]
