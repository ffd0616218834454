"""opencode: `opencode run` outside the repository, with three tools that read, and events as output.

Measured with 1.18.33 (see `tests/clients`). Started in the repository, it runs the plugins that it finds
there, against its settings; so it starts in an empty folder, and the repository is a folder that it may
read. It has no schema: the prompt says what the answer has to look like.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tandem.errors import ConfigInvalid
from tandem.pool.reviewers import DESK_FOLDER, GIVEN_FOLDER, HOME_FOLDER, Invocation, ProgramOutput, RunContext
from tandem.pool.reviewers.providers import clean_room, output
from tandem.pool.reviewers.providers.clean_room import SAVED, Provider, ToolServer

_LOGIN_FOLDER = (".local", "share", "opencode")
_LOGIN = "auth.json"
_ROTATING = ("anthropic", "openai")
"""Whose refresh tokens can be used once only, by the user or by us."""

_COMPATIBLE = "@ai-sdk/openai-compatible"
_WITH_OWN_CLIENT = ("anthropic", "google", "openai", "openrouter")

_SWITCHES = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_CLAUDE_CODE": "1",
    "OPENCODE_DISABLE_EXTERNAL_SKILLS": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
    "OPENCODE_DISABLE_SHARE": "1",
    "OPENCODE_PURE": "1",
    # It would install the development kit for plugins into each new home.
    "npm_config_offline": "true",
}


class Opencode(Provider):
    """The provider `opencode`."""

    name = "opencode"

    def login(self, context: RunContext) -> str | None:
        """As in `Provider`, for the service that the model names; None without a model, too."""
        service = (context.model or "").partition("/")[0]
        key = _variable(service, "API_KEY")
        return key if context.environment.get(key) else SAVED if _login(context, service) else None

    def said(self, stdout: bytes) -> ProgramOutput:
        """The last text, and the last error; tokens and cost summed over the steps."""
        events = [*output.objects(stdout)]

        def of_kind(kind: str, name: str) -> list[dict[str, Any]]:
            return [output.part(event, name) for event in events if event.get("type") == kind]

        texts = [text for one in of_kind("text", "part") if (text := output.text(one, "text"))]
        errors, steps = of_kind("error", "error"), of_kind("step_finish", "part")
        tokens = [output.part(step, "tokens") for step in steps]
        read = [output.count(one, "input") for one in tokens]
        read += [output.count(output.part(one, "cache"), "read", "write") for one in tokens]
        wrote = output.total(output.count(one, "output", "reasoning") for one in tokens)
        # A cost of nothing is that of a model whose price it does not know, or of one on this machine.
        cost = output.total(output.amount(step, "cost") for step in steps) or None
        error = _error(errors[-1]) if errors else None
        return ProgramOutput(texts[-1] if texts else None, output.total(read), wrote, cost, error)

    def review(self, context: RunContext, prompt: str, server: ToolServer | None = None) -> Invocation:
        """Outside the repository, with its settings in the environment: others on the machine cannot read that."""
        settings = _settings(context)
        if server is not None:
            settings["mcp"] = {"tandem": {"type": "remote", "url": server.url, "enabled": True, **server.headers}}
            settings["permission"]["tandem_*"] = "allow"
        service, model = _model(context)
        # A title of ours: it would ask a model for one.
        argv = [*self.command, "run", "--format", "json", "--title", "review", "--model", f"{service}/{model}"]
        argv += ["--variant", context.effort]
        key = _variable(service, "API_KEY")
        settings |= _service(context, service, model, key, _variable(service, "BASE_URL"))
        files: dict[str, bytes] = {}
        if not context.environment.get(key) and (saved := _login(context, service)):
            files["/".join((HOME_FOLDER, *_LOGIN_FOLDER, _LOGIN))] = saved
        environment = clean_room.environment(context, (key,), **_SWITCHES, OPENCODE_CONFIG_CONTENT=json.dumps(settings))
        told, desk = clean_room.told_where(context.workspace, prompt), clean_room.path(context, DESK_FOLDER)
        return clean_room.invocation(context, argv, told, environment, files, folder=desk)


def _error(found: dict[str, Any]) -> str:
    data = output.part(found, "data")
    said, status = output.text(data, "message") or output.text(found, "name") or "", output.count(data, "statusCode")
    after = output.text(output.part(data, "responseHeaders"), "retry-after")
    said += f", retry after {after}" if after else ""
    return said if status is None else f"{said} (status {status})"


def _variable(service: str, end: str) -> str:
    """The name of a variable about a service, such as its key."""
    return f"{re.sub('[^A-Z0-9]', '_', service.upper())}_{end}"


def _model(context: RunContext) -> tuple[str, str]:
    """The service and the model. Without one opencode would send the repository's code to whom it likes.

    Raises:
        ConfigInvalid: There is none, or it does not name its service.
    """
    service, _, model = (context.model or "").partition("/")
    if not model:
        raise ConfigInvalid("The reviewer provider 'opencode' needs a model as SERVICE/MODEL.", setting="model")
    return service, model


def _settings(context: RunContext) -> dict[str, Any]:
    """Everything that is not reading is refused, and so is everything outside the repository."""
    outside = {"*": "deny"}
    for folder in (context.workspace, clean_room.path(context, GIVEN_FOLDER)):
        outside |= {folder: "allow", f"{folder}/**": "allow"}
    reading = dict.fromkeys(("grep", "glob", "list"), "allow")
    return {
        "$schema": "https://opencode.ai/config.json",
        "autoupdate": False,
        "share": "disabled",
        "snapshot": False,
        "lsp": False,
        "formatter": False,
        "instructions": [],
        "plugin": [],
        "mcp": {},
        "permission": {
            "*": "deny",
            **reading,
            "read": {"*": "allow", "*.env": "deny", "*.env.*": "deny"},
            "external_directory": outside,
        },
    }


def _service(context: RunContext, service: str, model: str, key: str, address: str) -> dict[str, Any]:
    """The settings for a service at another address, such as a model on this machine: `NAME_BASE_URL`."""
    stated = context.environment.get(address)
    if not stated:
        return {}
    options = {"baseURL": clean_room.url(address, stated)}
    if context.environment.get(key):
        # opencode takes it from the environment.
        options["apiKey"] = f"{{env:{key}}}"
    client = {} if service in _WITH_OWN_CLIENT else {"npm": _COMPATIBLE}
    return {"provider": {service: {**client, "options": options, "models": {model: {}}}}}


def _login(context: RunContext, service: str) -> bytes | None:
    """The login for this service alone."""
    entry = output.part(output.parsed(clean_room.login(context, *_LOGIN_FOLDER, _LOGIN)), service)
    if not entry:
        return None
    if service in _ROTATING and "refresh" in entry:
        entry["refresh"] = ""
    return json.dumps({service: entry}).encode()
