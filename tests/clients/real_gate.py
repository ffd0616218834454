"""The real client programs where the gate is on: refused, then approved, then accepted. Models are scripted.

Each calls the commands that `tandem init` writes into its own configuration: the entries of `setup/teaching`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tandem.setup import teaching
from tests.broker import BrokerProcess
from tests.clients.codex_hooks import CodexHooks
from tests.clients.models import ScriptedModel, serving
from tests.clients.real_clients import BIN, run_program
from tests.repository.agents import Agent, Client, approve_text
from tests.repository.gating import Gated, gate_on, new_repository

MESSAGE = "Count in digits"
CONTEXT = ".planning/phases/03-search/03-CONTEXT.md"
TEXT = "# Context\n\nOne index.\n"
OF_THE_GIT_HOOK = "Have it reviewed and committed: tandem commit"
CHOSEN: list[Client] = [
    client for client in ("claude", "codex", "gemini") if client in os.environ["TANDEM_CLIENTS"].split(",")
]

Step = tuple[str, dict[str, Any]]
_SHELLS = {
    "claude": ("Bash", "command"),
    "codex": ("exec_command", "cmd"),
    "gemini": ("run_shell_command", "command"),
    "opencode": ("bash", "command"),
}
"""By client the tool that runs a command, and its argument for that."""


def shell(client: str, command: str, **more: object) -> Step:
    """The call with which a client's model runs a command."""
    tool, argument = _SHELLS[client]
    return tool, {argument: command, **({"description": "x"} if client == "opencode" else {}), **more}


@dataclass
class Proposer(ScriptedModel):
    """A model that, once it has seen as many results as a key says, lets somebody else do something first."""

    between: dict[int, Callable[[], object]] = field(default_factory=dict[int, Callable[[], object]])

    def say(self, path: str, text: str) -> tuple[str, bytes] | None:
        """As the script has it."""
        said = super().say(path, text)
        if act := self.between.pop(len(self.results), None):
            act()
        return said


@dataclass
class Place:
    """A client in a repository with the gate on, with a home folder of its own."""

    client: Client
    gated: Gated
    home: Path
    further: list[str] = field(default_factory=list[str])

    def install(self) -> None:
        """Write its hook configuration, as `tandem init` does where nothing else is in it."""
        for entry in teaching.hooks(self.client, [str(Path(sys.executable).with_name("tandem")), "hook"]):
            path = (self.home if entry.scope == "user" else self.gated.root) / entry.path
            document: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
            inner = document
            for key in entry.keys[:-1]:
                inner = inner.setdefault(key, {})
            inner[entry.keys[-1]] = list(entry.items)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(document), "utf-8")

    @property
    def environment(self) -> dict[str, str]:
        """Its environment without the model's address."""
        return {
            "PATH": os.pathsep.join([BIN, str(Path(sys.executable).parent), os.environ["PATH"]]),
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "TANDEM_CONFIG_DIR": os.environ["TANDEM_CONFIG_DIR"],
        }

    def run(self, model: ScriptedModel) -> None:
        """Have it work until its model is done."""
        with serving(model):
            command, variables = COMMANDS[self.client](model.address)
            run_program([*command, *self.further, "go"], self.gated.root, self.home, **self.environment, **variables)

    @property
    def commit(self) -> str:
        """The command with which its model commits."""
        return f"{Agent(self.client, self.gated.root).git} commit -am '{MESSAGE}'"

    def shell(self, command: str) -> Step:
        """The call with which its model runs a command."""
        return shell(self.client, command)

    def write(self, path: str, text: str) -> Step:
        """The call with which its model writes a new file."""
        if self.client == "codex":
            added = "".join(f"+{line}\n" for line in text.splitlines())
            return "apply_patch", {"input": f"*** Begin Patch\n*** Add File: {path}\n{added}*** End Patch\n"}
        tool = "Write" if self.client == "claude" else "write_file"
        return tool, {"file_path": str(self.gated.root / path), "content": text}


def _claude(address: str) -> tuple[list[str], dict[str, str]]:
    command = ["claude", "-p", "--model", "claude-sonnet-4-5", "--permission-mode", "acceptEdits"]
    command += ["--allowedTools=Bash,Write"]
    return command, {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "key"}


def _codex(address: str) -> tuple[list[str], dict[str, str]]:
    provider = f'{{name="scripted",base_url="{address}/v1",wire_api="responses",env_key="SCRIPTED_KEY"}}'
    # Of a model that it knows: for that it offers the tool that patches.
    settings = ["analytics.enabled=false", "model=gpt-5.5", "model_provider=scripted"]
    settings += [f"model_providers.scripted={provider}"]
    command = ["codex", "exec", "--skip-git-repo-check", "--sandbox", "danger-full-access"]
    return [*command, *(word for setting in settings for word in ("-c", setting))], {"SCRIPTED_KEY": "key"}


def _gemini(address: str) -> tuple[list[str], dict[str, str]]:
    command = ["gemini", "--skip-trust", "--yolo", "-m", "gemini-2.5-pro", "-p"]
    return command, {"GOOGLE_GEMINI_BASE_URL": address, "GEMINI_API_KEY": "key"}


def _opencode(address: str) -> tuple[list[str], dict[str, str]]:
    provider = {"baseURL": f"{address}/v1", "apiKey": "key"}
    scripted = {"npm": "@ai-sdk/openai-compatible", "options": provider, "models": {"model-1": {"name": "model-1"}}}
    quiet = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    quiet["OPENCODE_CONFIG_CONTENT"] = json.dumps({"provider": {"scripted": scripted}})
    return ["opencode", "run", "--model", "scripted/model-1"], quiet


COMMANDS: dict[str, Callable[[str], tuple[list[str], dict[str, str]]]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "opencode": _opencode,
}


@pytest.fixture(params=CHOSEN)
def place(request: pytest.FixtureRequest, broker: BrokerProcess, tmp_path: Path, config_dir: Path) -> Place:
    return placed(request.param, broker, tmp_path)


def placed(client: Client, broker: BrokerProcess, tmp_path: Path) -> Place:
    """A client in a repository with the gate on; its hooks are installed, and trusted where that is needed."""
    gated = gate_on(broker, new_repository(tmp_path / "repository"))
    # Gemini CLI hides the user's own configuration from the git that it runs.
    gated.git("config", "user.name", "Test Person")
    gated.git("config", "user.email", "person@example.invalid")
    home = tmp_path / "home"
    home.mkdir()
    place = Place(client, gated, home)
    if place.client == "gemini":
        (home / ".gemini").mkdir()
        login = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
        (home / ".gemini" / "settings.json").write_text(json.dumps(login), "utf-8")
    place.install()
    if place.client == "codex":
        with CodexHooks(gated.root, place.environment) as hooks:
            assert {one.trust for one in hooks.listed()} == {"untrusted"}
            hooks.trust_all()
            assert {one.trust for one in hooks.listed()} == {"trusted"}
    return place


def test_a_commit_is_refused_then_approved_then_accepted_and_a_context_written_only_as_it_was_approved(
    place: Place,
) -> None:
    gated = place.gated
    gated.write({"a.txt": "one\n2\nthree\n"})
    before = gated.head()
    heads: list[str] = []
    there: list[bool] = []

    def approve() -> None:
        heads.append(gated.head())
        gated.git("add", "a.txt")
        gated.approve()

    def approve_context() -> None:
        there.append((gated.root / CONTEXT).exists())
        approve_text(gated, CONTEXT, TEXT)

    steps = [*[place.shell(place.commit)] * 2, *[place.write(CONTEXT, TEXT)] * 2]
    model = Proposer(steps, {"done": True}, between={1: approve, 3: approve_context})
    place.run(model)
    assert f"gate is on for the project '{gated.project}'" in model.requests()
    refused, accepted, unwritten, _ = model.results
    assert "a.txt: no approved round has this content" in refused
    assert OF_THE_GIT_HOOK in refused
    assert heads == [before]
    assert "refused" not in accepted, accepted
    assert gated.head("HEAD^") == before
    assert gated.message().startswith(f"{MESSAGE}\n\nTandem-Review: rv_")
    assert f"tandem gate context {CONTEXT}" in unwritten
    assert there == [False]
    assert (gated.root / CONTEXT).read_text("utf-8") == TEXT


@pytest.mark.client("codex")
@pytest.mark.parametrize("place", ["codex"], indirect=True)
def test_codex_skips_a_hook_that_nobody_trusted_and_the_git_hook_still_refuses(place: Place) -> None:
    (place.home / ".codex" / "config.toml").unlink()
    place.gated.write({"a.txt": "one\n2\nthree\n"})
    before = place.gated.head()
    model = ScriptedModel([place.shell(place.commit)], {"done": True})
    place.run(model)
    [refused] = model.results
    assert OF_THE_GIT_HOOK in refused
    assert place.gated.head() == before


@pytest.mark.client("gemini")
@pytest.mark.parametrize("place", ["gemini"], indirect=True)
def test_gemini_switches_gits_hooks_off_and_has_to_switch_them_on(place: Place) -> None:
    gated = place.gated
    gated.write({"a.txt": "one\n2\nthree\n"})
    before = gated.head()
    # What no hook of an agent can read, git's own hook refuses, as it is switched on; here it makes the commit.
    script = gated.root.parent / "commit.sh"
    script.write_text(f"cd {gated.root} && git commit -am unseen\n", "utf-8")
    steps = [place.shell(f"git commit -am '{MESSAGE}'"), place.shell(f"sh {script}")]
    model = ScriptedModel(steps, {"done": True})
    place.run(model)
    assert "core.hooksPath=" in model.results[0]
    assert gated.head("HEAD^") == before, "if this fails, Gemini CLI leaves git's hooks alone now, and we need not care"
    assert gated.trailers() == []


@pytest.mark.client("opencode")
def test_opencode_has_no_hook_of_its_own_and_gits_refuses(
    broker: BrokerProcess, tmp_path: Path, config_dir: Path
) -> None:
    gated = gate_on(broker, new_repository(tmp_path / "repository"))
    gated.write({"a.txt": "one\n2\nthree\n"})
    before = gated.head()
    home = home_of_opencode(tmp_path)

    def approve() -> None:
        gated.git("add", "a.txt")
        gated.approve()

    step = shell("opencode", "git commit -am x")
    model = Proposer([step, step], {"done": True}, between={1: approve})
    run_opencode(gated, home, model)
    assert OF_THE_GIT_HOOK in model.results[0]
    assert gated.head("HEAD^") == before
    assert gated.message().startswith("x\n\nTandem-Review: rv_")


def home_of_opencode(tmp_path: Path) -> Path:
    """A home folder for OpenCode and the git that it runs."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\nname = Test Person\nemail = person@example.invalid\n", "utf-8")
    return home


def run_opencode(gated: Gated, home: Path, model: ScriptedModel, *options: str) -> None:
    """Have OpenCode work until its model is done."""
    with serving(model):
        command, variables = COMMANDS["opencode"](model.address)
        config = {"TANDEM_CONFIG_DIR": os.environ["TANDEM_CONFIG_DIR"]}
        run_program([*command, *options, "go"], gated.root, home, **config, **variables)
