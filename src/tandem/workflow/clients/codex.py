"""Codex: `.codex/config.toml` in the project.

Measured with 0.169: the project's file counts once the user has trusted the project. The server's process gets a
stripped environment, so the variables that say where the broker is, and hold the token for it, are passed on by name.
Tools need no list of permissions: ours all say that they destroy nothing and reach nobody, and such run unasked.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from tandem.workflow.clients.settings_files import says
from tandem.workflow.clients.site import SERVER, START_TIMEOUT_SECONDS, TOOL_TIMEOUT_SECONDS, Client, Site
from tandem.workflow.edits import Edit, TomlTable
from tandem.workflow.teaching import Client as Name

_PASSED: Final = (
    "TANDEM_BROKER", "TANDEM_TOKEN", "TANDEM_DATA_DIR", "TANDEM_CONFIG_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME",
)  # fmt: skip
_BANNER: Final = "# GSD Agent Configuration"
"""GSD's installer deletes what stands below this line of its own."""


@dataclass(frozen=True)
class Codex(Client):
    """The client `codex`."""

    name: Name = "codex"
    title: str = "Codex"
    programs: tuple[str, ...] = ("codex",)
    folder: str = ".codex"

    def edits(self, site: Site) -> list[Edit]:
        """As in `Client`."""
        program, *arguments = site.server
        lines = [
            f"[mcp_servers.{SERVER}]",
            f"command = {_text(program)}",
            f"args = [{', '.join(map(_text, arguments))}]",
            'env = { TANDEM_AGENT = "codex" }',
            f"env_vars = [{', '.join(map(_text, _PASSED))}]",
            f"startup_timeout_sec = {START_TIMEOUT_SECONDS}",
            f"tool_timeout_sec = {TOOL_TIMEOUT_SECONDS}",
            # Without it a run of `codex exec` does not wait for the server.
            "required = true",
        ]
        table = "\n".join(lines) + "\n"
        return [TomlTable(site.root / ".codex" / "config.toml", ("mcp_servers", SERVER), table, (_BANNER,))]

    def notes(self, site: Site) -> list[str]:
        """As in `Client`."""
        config = site.user_file(".codex/config.toml")
        if says(config, "projects", str(site.root), "trust_level") == "trusted":
            return []
        note = "Codex reads .codex/config.toml once this project is trusted: start codex here and say yes."
        return [f"{note} Until then it has no {SERVER} tools."]


def _text(value: str) -> str:
    """A text as TOML: written as in JSON, but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
