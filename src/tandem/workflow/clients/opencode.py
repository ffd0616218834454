"""OpenCode: `opencode.json` or `opencode.jsonc` at the top of the project.

Measured with 1.18: tools run unasked unless `permission` says otherwise, so a rule for ours is only put in where
there are rules. It writes `$schema` into a file that has none, which is why ours has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tandem.workflow.clients.settings_files import says
from tandem.workflow.clients.site import SERVER, TOOL_TIMEOUT_SECONDS, Client, Site
from tandem.workflow.edits import Edit, JsonMember
from tandem.workflow.teaching import Client as Name

_SCHEMA: Final = "https://opencode.ai/config.json"


@dataclass(frozen=True)
class Opencode(Client):
    """The client `opencode`."""

    name: Name = "opencode"
    title: str = "OpenCode"
    programs: tuple[str, ...] = ("opencode",)
    folder: str = ".config/opencode"

    def edits(self, site: Site) -> list[Edit]:
        """As in `Client`."""
        file = _file(site)
        server = {
            "type": "local",
            "command": site.server,
            "environment": {"TANDEM_AGENT": "opencode"},
            "timeout": TOOL_TIMEOUT_SECONDS * 1000,
        }
        edits: list[Edit] = [JsonMember(file, ("mcp", SERVER), server)]
        if says(file, "$schema") in {None, _SCHEMA}:
            edits.insert(0, JsonMember(file, ("$schema",), _SCHEMA))
        if isinstance(says(file, "permission"), dict):
            edits.append(JsonMember(file, ("permission", f"{SERVER}_*"), "allow"))
        return edits

    def notes(self, site: Site) -> list[str]:
        """As in `Client`."""
        rule = says(_file(site), "permission")
        if not isinstance(rule, str) or rule == "allow":
            return []
        note = f"OpenCode asks before it uses a tool ('permission' is '{rule}' in {_file(site).name}): to let it use"
        return [f'{note} ours, write it as {{"*": "{rule}", "{SERVER}_*": "allow"}}.']


def _file(site: Site) -> Path:
    with_comments = site.root / "opencode.jsonc"
    return with_comments if with_comments.exists() else site.root / "opencode.json"
