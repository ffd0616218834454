"""Writes the plugins of Claude Code and Codex, and `server.json`, from the texts that `tandem init` installs.

    python tools/plugins.py           write them
    python tools/plugins.py --check   exit status 1 if a file is not current

One folder serves both programs; each reads its own manifest in it. A plugin knows no place of a machine, so its hooks
and its MCP server are the program `tandem` on the PATH. `server.json` offers the MCP server in the MCP registry.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import PackageMetadata, metadata
from pathlib import Path
from typing import Any, Final

from distribution import released, server_name
from tandem.setup import teaching

ROOT = Path(__file__).resolve().parents[1]

FOLDER: Final = "plugins/tandem"
_DISTRIBUTION: Final = "tandem-broker"
_NAME: Final = "tandem"
_COMMAND: Final = ("tandem", "hook")
_DESCRIPTION: Final = "Has your agent's changes reviewed before they are committed, and refuses unapproved ones."
_TOOL_SECONDS: Final = 120
_README: Final = """\
# The plugin of Tandem

It teaches Claude Code and Codex to have their changes reviewed through [Tandem](../../README.md) before they count: a
skill, in Claude Code two commands, the MCP server, and hooks. At the end of a turn the agent goes on with what became
of its reviews; where a repository's gate is on, unapproved documents of GSD and git commands that pass by git's hooks
are refused. The program `tandem` has to be on the PATH.

`tandem init` in a repository installs the same without a plugin, for more clients, and registers the project. Use one
of the two: with both, every hook runs twice.

Claude Code:

    claude plugin marketplace add REPOSITORY
    claude plugin install tandem@tandem

Codex, which runs new hooks only when you have trusted them (start `codex`, type `/hooks`):

    codex plugin marketplace add REPOSITORY
    codex plugin add tandem@tandem

REPOSITORY is the address of this repository, or the folder of a checkout. Then, in a project:

    tandem project add
    tandem gate on

The files here are written by `python tools/plugins.py`; change the texts there.
"""


def plugin_files() -> dict[str, str]:
    """Every file of the plugins and of the marketplaces that offer them, by its path from the repository's root."""
    facts = metadata(_DISTRIBUTION)
    about: dict[str, Any] = {
        "name": _NAME,
        "version": released()[0],
        "description": _DESCRIPTION,
        "author": {"name": "Tandem contributors"},
        "license": facts["License-Expression"],
        "keywords": ["code-review", "git", "mcp"],
    }
    skills = f"{FOLDER}/skills/{teaching.SKILL}/SKILL.md"
    written = {
        ".claude-plugin/marketplace.json": _json(_claude_marketplace()),
        ".agents/plugins/marketplace.json": _json(_codex_marketplace()),
        # Not in `commands`: Codex would make skills of its own of them.
        f"{FOLDER}/.claude-plugin/plugin.json": _json({**about, "commands": "./claude-commands/"}),
        f"{FOLDER}/.codex-plugin/plugin.json": _json(_codex_manifest(about)),
        f"{FOLDER}/.mcp.json": _json({"mcpServers": {teaching.SERVER: {"command": "tandem", "args": ["mcp"]}}}),
        f"{FOLDER}/hooks/hooks.json": _json(_hooks("claude")),
        f"{FOLDER}/hooks/codex.json": _json(_hooks("codex")),
        skills: teaching.skill(),
        f"{FOLDER}/codex-skills/{teaching.STATUS_SKILL}/SKILL.md": teaching.status_skill(),
        f"{FOLDER}/README.md": _README,
        "server.json": _json(_registry_entry(facts)),
    }
    commands = {
        f"{FOLDER}/claude-commands/{name}.md": teaching.command("claude", name) for name in ("review", "status")
    }
    return written | commands


def stale(root: Path) -> list[str]:
    """What in a checkout differs from the files as they should be, in words."""
    wanted = plugin_files()
    found = {name: root / name for name in wanted}
    faults = [f"{name} is missing" for name, path in found.items() if not path.is_file()]
    faults += [
        f"{name} is not current"
        for name, path in found.items()
        if path.is_file() and path.read_text("utf-8") != wanted[name]
    ]
    there = [path for path in (root / FOLDER).rglob("*") if path.is_file()]
    return faults + [f"{path} is not ours" for path in there if path.relative_to(root).as_posix() not in wanted]


def main(arguments: list[str], root: Path = ROOT) -> int:
    """Write the files, or compare them with the texts; the exit status."""
    if "--check" in arguments:
        faults = stale(root)
        for fault in faults:
            sys.stderr.write(f"{fault}; run: python tools/plugins.py\n")
        return int(bool(faults))
    for name, text in plugin_files().items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    return 0


def _registry_entry(facts: PackageMetadata) -> dict[str, Any]:
    urls = dict(entry.split(", ") for entry in facts.get_all("Project-URL") or [])
    version = released()[0]
    package = {
        "registryType": "pypi",
        "identifier": _DISTRIBUTION,
        "version": version,
        "runtimeHint": "uvx",
        "transport": {"type": "stdio"},
        "packageArguments": [{"type": "positional", "value": "mcp"}],
        "environmentVariables": [
            {
                "name": "TANDEM_BROKER",
                "description": "The broker's address, if it is not on this machine.",
                "format": "string",
            },
            {"name": "TANDEM_TOKEN", "description": "An access token, if that broker needs one.", "isSecret": True},
        ],
    }
    return {
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": server_name(urls["Repository"]),
        "title": "Tandem",
        "description": facts["Summary"],
        "version": version,
        "repository": {"url": urls["Repository"], "source": "github"},
        "packages": [package],
    }


def _claude_marketplace() -> dict[str, Any]:
    plugin = {"name": _NAME, "source": f"./{FOLDER}", "description": _DESCRIPTION}
    return {
        "name": _NAME,
        "description": "Reviews before commits, from the repository of Tandem.",
        "owner": {"name": "Tandem contributors"},
        "plugins": [plugin],
    }


def _codex_marketplace() -> dict[str, Any]:
    plugin = {
        "name": _NAME,
        "source": {"source": "local", "path": f"./{FOLDER}"},
        "policy": {"installation": "AVAILABLE", "authentication": "ON_INSTALL"},
        "category": "Coding",
    }
    return {"name": _NAME, "interface": {"displayName": "Tandem"}, "plugins": [plugin]}


def _codex_manifest(about: dict[str, Any]) -> dict[str, Any]:
    server = {"command": "tandem", "args": ["mcp"], "tool_timeout_sec": _TOOL_SECONDS}
    return {
        **about,
        "skills": ["./skills/", "./codex-skills/"],
        "mcpServers": {teaching.SERVER: server},
        "hooks": "./hooks/codex.json",
        "interface": {"displayName": "Tandem", "shortDescription": _DESCRIPTION, "category": "Coding"},
    }


def _hooks(client: teaching.ClientName) -> dict[str, Any]:
    return {"hooks": {entry.keys[-1]: list(entry.items) for entry in teaching.hooks(client, _COMMAND)}}


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
