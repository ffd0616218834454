"""Cursor: `.cursor/mcp.json` in the project for the editor and `cursor-agent`, `.cursor/cli.json` for the latter."""

from __future__ import annotations

from dataclasses import dataclass

from tandem.workflow.clients.site import SERVER, Client, Site
from tandem.workflow.edits import Edit, JsonItems, JsonMember
from tandem.workflow.teaching import Client as Name


@dataclass(frozen=True)
class Cursor(Client):
    """The client `cursor`."""

    name: Name = "cursor"
    title: str = "Cursor"
    programs: tuple[str, ...] = ("cursor-agent", "cursor")
    folder: str = ".cursor"

    def edits(self, site: Site) -> list[Edit]:
        """As in `Client`."""
        program, *arguments = site.server
        server = {"command": program, "args": arguments, "env": {"TANDEM_AGENT": "cursor"}}
        permissions = site.root / ".cursor" / "cli.json"
        return [
            JsonMember(site.root / ".cursor" / "mcp.json", ("mcpServers", SERVER), server),
            JsonItems(permissions, ("permissions", "allow"), (f"Mcp({SERVER}:*)",)),
            # The program refuses a file that has the one list without the other.
            JsonItems(permissions, ("permissions", "deny"), ()),
        ]

    def notes(self, site: Site) -> list[str]:  # noqa: ARG002 - Cursor keeps its approvals where nobody else can look
        """As in `Client`."""
        note = f"Cursor asks before it starts a project's server: enable {SERVER} in its settings under MCP, or with"
        return [f"{note} 'cursor-agent mcp enable {SERVER}'. Its editor keeps a list of its own of what runs unasked."]
