"""Codex: `codex exec`, confined to reading the repository, with the answer's schema and the answer in files.

Measured with 0.169 (see `tests/clients`). Its own `read-only` sandbox still lets commands read the whole disk
and the keys in the environment, so a permission profile narrows it to the system's programs and the repository.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from tandem.bridge.credentials import TOKEN_VARIABLE
from tandem.errors import ConfigInvalid
from tandem.pool.reviewers import GIVEN_FOLDER, HOME_FOLDER, Finished, Invocation, ProgramOutput, RunContext
from tandem.pool.reviewers.providers import clean_room, output
from tandem.pool.reviewers.providers.clean_room import Provider, ToolServer

_SCHEMA = "schema.json"
_ANSWER = "answer.json"
_ANSWER_LIMIT_BYTES = 4 * 1024 * 1024
_CODEX_HOME = ".codex"
_LOGIN = "auth.json"
_KEY = "CODEX_API_KEY"
_SKILL_FOLDERS = (".agents/skills", ".codex/skills")
_SKILL_FOLDERS_LIMIT = 5_000
_SKILLS_LIMIT_BYTES = 100_000
"""Of the argument that switches them off: Linux takes arguments of up to 128 kB."""

_OFF = (
    "apps", "browser_use", "computer_use", "goals", "hooks", "image_generation", "memories", "multi_agent", "plugins",
    "shell_snapshot", "unbounded_connection_retries",
)  # fmt: skip
"""Features that a review has no use for. As settings: `--disable` refuses a name that a version does not know."""

_SETTINGS: Final[tuple[tuple[str, Any], ...]] = (
    ("analytics.enabled", False),
    ("check_for_update_on_startup", False),
    ("allow_login_shell", False),
    ("project_doc_max_bytes", 0),
    ("web_search", "disabled"),
    ("skills.include_instructions", False),
    ("skills.bundled.enabled", False),
    ("shell_environment_policy", {"inherit": "core", "ignore_default_excludes": False}),
    *((f"features.{name}", False) for name in _OFF),
)


class Codex(Provider):
    """The provider `codex`."""

    name = "codex"
    keys = (_KEY, "OPENAI_API_KEY")

    def has_saved_login(self, context: RunContext) -> bool:
        """As in `Provider`."""
        return bool(_login(context))

    def read(self, finished: Finished, context: RunContext) -> ProgramOutput:
        """The last message is in its file, else in the events."""
        reply = super().read(finished, context)
        return replace(reply, text=_answer(Path(context.scratch, _ANSWER)) or reply.text)

    def said(self, stdout: bytes) -> ProgramOutput:
        """The last message, tokens and errors."""
        text: str | None = None
        usage: dict[str, Any] = {}
        error: str | None = None
        for event in output.objects(stdout):
            item = output.part(event, "item")
            if item.get("type") == "agent_message":
                text = output.text(item, "text") or text
            usage = output.part(event, "usage") or usage
            if event.get("type") == "turn.failed":
                error = output.text(output.part(event, "error"), "message") or error
            elif event.get("type") == "error":
                error = output.text(event, "message") or error
        read, wrote = output.count(usage, "input_tokens"), output.count(usage, "output_tokens")
        return ProgramOutput(text, read, wrote, error=error)

    def review(self, context: RunContext, prompt: str, server: ToolServer | None = None) -> Invocation:
        """`codex exec` with a schema, its last message left in a file; or with the server, which it must wait for."""
        environment = clean_room.environment(
            context, ("CODEX_CA_CERTIFICATE",), CODEX_HOME=clean_room.path(context, HOME_FOLDER, _CODEX_HOME)
        )
        argv = [*self.command, "exec", "--json", "--color", "never", "--skip-git-repo-check", "--ephemeral"]
        argv += ["--ignore-user-config", "--ignore-rules", "-C", context.workspace]
        for name, value in _SETTINGS:
            argv += _setting(name, value)
        argv += _setting("model_reasoning_effort", context.effort)
        argv += _without_skills(context)
        argv += self._confined(context, environment["PATH"])
        key, saved = _credentials(context)
        # Its home has to be there.
        files = {f"{HOME_FOLDER}/{_CODEX_HOME}/config.toml": b""}
        if saved:
            files[f"{HOME_FOLDER}/{_CODEX_HOME}/{_LOGIN}"] = saved
        else:
            environment |= {_KEY: key} if key else {}
            argv += _elsewhere(context, with_key=bool(key))
        if server is None:
            files[_SCHEMA] = json.dumps(context.schema).encode()
            argv += ["--output-schema", clean_room.path(context, _SCHEMA)]
            argv += ["--output-last-message", clean_room.path(context, _ANSWER)]
        else:
            entry: dict[str, Any] = {"url": server.url, "required": True}
            if server.access is not None:
                # Its settings are arguments, which others on the machine can read.
                entry["bearer_token_env_var"] = TOKEN_VARIABLE
                environment[TOKEN_VARIABLE] = server.access
            argv += _setting("mcp_servers.tandem", entry)
        return clean_room.invocation(context, [*argv, *clean_room.model(context), "-"], prompt, environment, files)

    def _confined(self, context: RunContext, search_path: str) -> list[str]:
        """What the model's commands can reach: to read the repository and the system's programs, and no network."""
        if context.wsl_distro is not None:
            # Where the program itself lies cannot be seen from Windows, and its sandbox has to read it.
            return ["--sandbox", "read-only"]
        files: dict[str, Any] = {":minimal": "read", ":workspace_roots": {".": "read"}}
        files |= dict.fromkeys(
            [*_programs(self.command[0], search_path), clean_room.path(context, GIVEN_FOLDER), *context.objects], "read"
        )
        profile = {"filesystem": files, "network": {"enabled": False}}
        return [*_setting("default_permissions", "tandem"), *_setting("permissions.tandem", profile)]


def _programs(command: str, search_path: str) -> list[str]:
    """Where Codex itself lies, which its sandbox starts again inside.

    Raises:
        ConfigInvalid: Only a launcher for it is found.
    """
    found = shutil.which(command, path=search_path)
    if found is None:
        return []
    real = Path(os.path.realpath(found))
    packages = [folder for folder in real.parents if folder.name == "node_modules"]
    if packages:
        # The outermost: the program for this platform is a package of its own beside it.
        return [str(packages[-1])]
    if not real.name.startswith("codex"):
        raise ConfigInvalid(
            f"{found} is a launcher ({real.name}) and not Codex itself, which its sandbox has to be able to read."
            " Put the folder of the real program first on the broker's PATH.",
            setting="provider",
        )
    return [str(real.parent)]


def _without_skills(context: RunContext) -> list[str]:
    """Switches off the repository's own skills: a proposal could call them up by name.

    Raises:
        ConfigInvalid: There are more of them than can be switched off.
    """
    if context.wsl_distro is not None:
        return []
    seen: set[str] = set()
    found: set[str] = set()
    for folder in _SKILL_FOLDERS:
        # Behind links too: Codex follows them.
        for place, inner, files in os.walk(Path(context.workspace, folder), followlinks=True):
            real = os.path.realpath(place)
            if real in seen:
                # A link that leads back.
                inner.clear()
            seen.add(real)
            if "SKILL.md" in files:
                found.add(os.path.realpath(Path(place, "SKILL.md")))
            if len(seen) > _SKILL_FOLDERS_LIMIT:
                break
    setting = _setting("skills.config", [{"path": path, "enabled": False} for path in sorted(found)]) if found else []
    if len(seen) <= _SKILL_FOLDERS_LIMIT and sum(len(os.fsencode(word)) for word in setting) <= _SKILLS_LIMIT_BYTES:
        return setting
    raise ConfigInvalid(
        "The repository has more skills for Codex than can be switched off for a review. Move them out of"
        f" {' and '.join(_SKILL_FOLDERS)}, or choose another provider.",
        setting="provider",
    )


def _credentials(context: RunContext) -> tuple[str | None, bytes | None]:
    """A key, else the login of `codex login`, else the key that other programs use too."""
    stated = context.environment.get(_KEY)
    saved = {} if stated else _login(context)
    if not saved:
        return stated or context.environment.get("OPENAI_API_KEY"), None
    key = output.text(saved, "OPENAI_API_KEY")
    tokens = output.part(saved, "tokens")
    if key and not tokens:
        return key, None
    if tokens.get("refresh_token"):
        # It can be used once, and the user needs it.
        tokens["refresh_token"] = ""
    return None, json.dumps(saved).encode()


def _login(context: RunContext) -> dict[str, Any]:
    stated = context.environment.get("CODEX_HOME")
    return output.parsed(
        clean_room.file(Path(stated, _LOGIN)) if stated else clean_room.login(context, _CODEX_HOME, _LOGIN)
    )


def _elsewhere(context: RunContext, *, with_key: bool) -> list[str]:
    """Another service than OpenAI's; it need not ask for a key."""
    stated = context.environment.get("OPENAI_BASE_URL")
    if not stated:
        return []
    service = {
        "name": "tandem",
        "base_url": clean_room.url("OPENAI_BASE_URL", stated),
        "wire_api": "responses",
        "supports_websockets": False,
        **({"env_key": _KEY} if with_key else {}),
    }
    return [*_setting("model_provider", "tandem"), *_setting("model_providers.tandem", service)]


def _setting(name: str, value: Any) -> list[str]:
    return ["-c", f"{name}={_toml(value)}"]


def _toml(value: Any) -> str:
    """A value as TOML, on one line."""
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        return "{" + ",".join(f"{_toml(key)}={_toml(inner)}" for key, inner in table.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_toml(inner) for inner in cast("list[Any]", value)) + "]"
    # Its strings are written as in JSON, but for one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _answer(file: Path) -> str | None:
    content = clean_room.file(file, _ANSWER_LIMIT_BYTES)
    return (content.decode("utf-8", "surrogateescape").strip() or None) if content else None
