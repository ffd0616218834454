"""The real client programs in a project that `tandem init` set up: they read its files, and ask no questions.

Each has trusted the folder before, as a person does once. The broker is found by its data folder, which Codex hands
on to the server only because the configuration says so.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.broker import BrokerProcess, Caller
from tests.clients.models import ScriptedModel, serving
from tests.clients.real_clients import BIN, run_program
from tests.repository.gating import new_repository

PLAN = {"intent": "The plan", "agent_type": "author", "category": "plan_review", "description": "1. Begin."}
TOOLS = {
    "claude": "mcp__tandem__create_review",
    "codex": "mcp__tandem/create_review",
    "gemini": "mcp_tandem_create_review",
    "opencode": "tandem_create_review",
}
LISTED = {
    "claude": "tandem: tandem mcp --role proposer - ✔ Connected",
    "codex": '"tool_timeout_sec": 120.0',
    "gemini": "✓ tandem: tandem mcp --role proposer (stdio) - Connected",
    "opencode": "✓ tandem",
}
CHOSEN = [name for name in TOOLS if name in os.environ["TANDEM_CLIENTS"].split(",")]


@dataclass
class Place:
    """A client in a project, with a home folder of its own.

    Attributes:
        client: The client's name.
        root: The repository.
        home: The home folder.
        broker: The broker.
    """

    client: str
    root: Path
    home: Path
    broker: BrokerProcess

    def run(self, *command: str, **environment: str) -> str:
        """What a program says."""
        own = {
            "PATH": os.pathsep.join([BIN, str(Path(sys.executable).parent), os.defpath]),
            "TANDEM_DATA_DIR": str(self.broker.data_dir),
            "ANTHROPIC_API_KEY": "key",
            # Else it tries for 20 seconds to reach the service, even to list the configuration of this folder.
            "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
            "GEMINI_API_KEY": "key",
        }
        return run_program(command, self.root, self.home, **(own | environment))

    def work(self, address: str) -> None:
        """Run the client headless, with nothing that permits a tool."""
        match self.client:
            case "claude":
                self.run("claude", "-p", "--model", "claude-sonnet-4-5", "go", ANTHROPIC_BASE_URL=address)
            case "codex":
                provider = f'{{name="x",base_url="{address}/v1",wire_api="responses",env_key="X_KEY"}}'
                settings = ["analytics.enabled=false", "model=scripted", "model_provider=x"]
                words = [w for one in (*settings, f"model_providers.x={provider}") for w in ("-c", one)]
                self.run("codex", "exec", *words, "go", X_KEY="key")
            case "gemini":
                self.run("gemini", "-m", "gemini-2.5-pro", "-p", "go", GOOGLE_GEMINI_BASE_URL=address)
            case _:
                options = {"baseURL": f"{address}/v1", "apiKey": "key"}
                model = {"name": "One", "tool_call": True, "limit": {"context": 100_000, "output": 10_000}}
                scripted = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"one": model}}
                config = {"provider": {"scripted": scripted}, "enabled_providers": ["scripted"], "autoupdate": False}
                self.run("opencode", "run", "-m", "scripted/one", "go", OPENCODE_CONFIG_CONTENT=json.dumps(config))


def trusted(home: Path, root: Path) -> None:
    """Write the files into a home folder that the clients write when a person trusts the project."""
    project = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    files: dict[str, dict[str, Any] | str] = {
        ".claude.json": {"hasCompletedOnboarding": True, "projects": {str(root): project}},
        ".codex/config.toml": f"[projects.{json.dumps(str(root))}]\ntrust_level = 'trusted'\n",
        ".gemini/trustedFolders.json": {str(root): "TRUST_FOLDER"},
        ".gemini/settings.json": {"security": {"auth": {"selectedType": "gemini-api-key"}}},
    }
    for name, content in files.items():
        path = home / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")


@pytest.fixture(params=CHOSEN)
def place(request: pytest.FixtureRequest, broker: BrokerProcess, tmp_path: Path) -> Place:
    home = tmp_path / "home"
    home.mkdir()
    root = new_repository(tmp_path / f"shop-{request.param}-{tmp_path.name}")
    if request.param == "opencode":
        # Else everything is allowed anyway.
        (root / "opencode.json").write_text('{\n  // careful\n  "permission": {"*": "ask"}\n}\n', "utf-8")
    place = Place(request.param, root, home, broker)
    trusted(home, root)
    return place


def test_what_init_wrote_is_read_and_the_tools_run_unasked(place: Place) -> None:
    before = sorted(place.root.rglob("*"))
    done = json.loads(place.run("tandem", "init", "--yes", "--client", place.client, "--json"))["data"]
    assert [note for note in done["notes"] if "trust" in note] == [], "the folder is trusted already"
    told = place.run(place.client, "mcp", "list", *(["--json"] if place.client == "codex" else []))
    assert LISTED[place.client] in told.replace("\x1b[90m", ""), told
    with serving(ScriptedModel([(TOOLS[place.client], PLAN)], {"done": True})) as model:
        place.work(model.address)
    assert "rv_" in model.results[0], model.results
    with Caller(place.broker.url, done["project"]) as caller:
        [review] = caller.do("list_reviews")["reviews"]
    assert review["intent"] == PLAN["intent"]
    place.run("tandem", "uninit", "--yes")
    left = [path for path in sorted(place.root.rglob("*")) if ".git/" not in path.as_posix() and path not in before]
    # OpenCode makes a folder of its own.
    assert [path for path in left if ".opencode" not in path.parts] == []
