"""The agents' clients: whether their files are complete, and whether their hooks refuse.

Codex skips in silence hooks that the person has not trusted, and only it knows which: measured with Codex 0.169,
`codex app-server` answers `hooks/list` with what `/hooks` shows.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from tandem.bridge.messages import as_object
from tandem.errors import ConfigInvalid
from tandem.rulings.state import HookRepository
from tandem.setup import teaching
from tandem.setup.clients import (
    CLIENTS,
    SERVER,
    AgentClient,
    FoundClient,
    Program,
    Site,
    says,
    version_of,
)
from tandem.setup.edits import install
from tandem.setup.edits.edit import TomlTable
from tandem.setup.edits.json_edits import JsonMember
from tandem.setup.finding import DoctorContext, Finding, note, ok, problem, skipped
from tandem.setup.fresh_machine import run_program
from tandem.setup.init import InitOptions, InitRecord, SetupPlan, load_record, plan_init
from tandem.setup.teaching import ClientName

PROBE_SECONDS = 7.0
"""How long a client's program may take: all are asked at once, and doctor takes ten seconds at most."""

_LISTED: Final = 2
"""The number of the request for a list: of a server's tools, or of Codex's hooks."""

_CODEX_PASSES_ON: Final = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""What the servers of Codex see of its environment, beside what `env_vars` names."""

_MCP_REQUESTS: Final = (
    {
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "tandem-doctor", "version": "1"},
        },
    },
    {"method": "notifications/initialized"},
    {"id": _LISTED, "method": "tools/list"},
)
_LOGINS: Final[Mapping[str, tuple[tuple[str, ...], str, str]]] = {
    "claude": (("auth", "status"), r'"loggedIn": *false|not logged in', "claude auth login"),
    "codex": (("login", "status"), r"not logged in", "codex login"),
    "gemini": ((), "", "start gemini once, and see whether it answers"),
    # Without a login it still has models that ask for none.
    "opencode": (("auth", "list"), r"$^", "opencode auth login"),
}
"""How to ask a client's program whether it is logged in, its answer if not, and the command that then helps."""

_KEYS: Final = ("ANTHROPIC_API_KEY", "CODEX_API_KEY", "OPENAI_API_KEY")
_REFUSED: Final = 2
_INIT = "tandem init --yes"
_INIT_GATE = "tandem init --gate --yes"
_MARK = b"tandem: refused"


async def check_clients(here: DoctorContext) -> list[Finding]:
    """Whether the files of the clients that were set up have our server, time-outs and skill."""
    if here.place is None:
        return []
    before = _set_up(here)
    if before is None:
        return [note("clients", "No client was set up here.", "tandem init")]
    here.require_program()
    wish = InitOptions(before.clients, gate=before.gate, broker=before.broker)
    try:
        plan = await asyncio.to_thread(plan_init, here.folder, here.home, here.environment, wish)
    except ConfigInvalid as error:
        # Which client that was no longer matters: none can be set up.
        return [problem("clients", error.message, f"correct that place, or delete the file and run: {_INIT}")]
    here.changed = {change.path.resolve() for change in plan.changes}
    told = [note("clients", one) for one in (*plan.remarks, *plan.notes) if one not in here.program_notes]
    return [*await _versions(plan), *_differences(plan), *told]


def _set_up(here: DoctorContext) -> InitRecord | None:
    """What `tandem init` did in this working tree, else what its files show: they may have been checked out."""
    if here.place is None:
        return None
    if (known := load_record(Path(here.place.git_dir, "tandem"))) is not None:
        return known
    site = _site(here, here.place)
    places = ((one, _server_place(site, one)) for one in CLIENTS)
    clients = [one.name for one, at in places if at and at[0].is_relative_to(site.root) and says(at[0], *at[1])]
    has_hooks = any(_hook(site, one) for one in teaching.CLIENTS if one in clients)
    shared = load_record(Path(here.place.common_dir, "tandem")) or InitRecord()
    return replace(shared, gate=has_hooks, clients=tuple(clients)) if clients else None


def _site(here: DoctorContext, place: HookRepository) -> Site:
    """This working tree, with `tandem` on PATH."""
    return Site(Path(place.top or place.git_dir), here.home, Program(("tandem",)), here.environment)


def _differences(plan: SetupPlan) -> list[Finding]:
    changed = sorted({change.name for change in plan.changes})
    if not changed:
        return [ok("clients", "Their files are as tandem init writes them, time-outs included.")]

    async def repair() -> None:
        for tree in plan.trees:
            await asyncio.to_thread(install, tree)

    return [problem("clients", f"Not as tandem init writes them: {', '.join(changed)}", _INIT, repair)]


async def _versions(plan: SetupPlan) -> list[Finding]:
    """Each client's version, as its program says it."""
    versions = asyncio.gather(*(asyncio.to_thread(_version, found) for found in plan.clients))
    logins = asyncio.gather(*(asyncio.to_thread(_login, found, plan.root) for found in plan.clients))
    return [*await versions, *(one for one in await logins if one is not None)]


def _login(found: FoundClient, folder: Path) -> Finding | None:
    """Whether a client's program is logged in, by its own word; None where it says nothing that is known."""
    name, title = found.client.name, found.client.title
    if found.program is None or name not in _LOGINS:
        return None
    command, refused, fix = _LOGINS[name]
    if not command:
        return note("login", f"{title} has no command that says whether it is logged in.", fix)
    try:
        done = run_program([found.program, *command], PROBE_SECONDS, cwd=folder)
    except (OSError, subprocess.SubprocessError):
        return None
    said = (done.stdout + done.stderr).decode("utf-8", "replace")
    if re.search(refused, said, re.IGNORECASE) and not any(os.environ.get(key) for key in _KEYS):
        return problem("login", f"{title} is not logged in.", fix)
    return ok("login", f"{title} is logged in.") if done.returncode == 0 else None


def _version(found: FoundClient) -> Finding:
    title = found.client.title
    if found.program is None:
        return note("clients", f"{title} is set up, but its program is not on PATH.")
    try:
        said = version_of(found.program, PROBE_SECONDS)
    except subprocess.TimeoutExpired:
        return note("clients", f"{title} at {found.program} has not said its version within {PROBE_SECONDS:g} s.")
    except (OSError, subprocess.SubprocessError) as error:
        return problem("clients", f"{title} at {found.program} cannot be run: {error}", f"install {title} again")
    return ok("clients", f"{title} {said.split(chr(10))[0].strip() or '(says no version)'}")


async def check_agent_hooks(here: DoctorContext) -> list[Finding]:
    """Fire the hooks of the clients, as their files name them, with a text that is not approved."""
    gate = here.gate
    before = _set_up(here)
    if here.place is None or gate is None or not gate.enabled:
        return []
    if before is None or not before.gate:
        return [note("agent hooks", "The agents have no hooks, so they hear only from git.", "tandem init --gate")]
    here.require_call()
    here.require_program()
    site = _site(here, here.place)
    names: list[ClientName] = [one for one in teaching.CLIENTS if one in before.clients]
    asked = [asyncio.to_thread(_fire, site, name) for name in names]
    codex = shutil.which("codex", path=site.environment.get("PATH")) if "codex" in names else None
    if codex is not None:
        asked.append(asyncio.to_thread(_codex_trust, codex, site.root, site.environment))
    return [one for one in await asyncio.gather(*asked) if one is not None]


def _fire(site: Site, client: ClientName) -> Finding | None:
    """One client's hook; None for a client that has none that could refuse."""
    entries = teaching.hooks(client, (*site.program.words, "hook"))
    if not entries:
        return None
    file, command = site.file(entries[0].scope, entries[0].path), _hook(site, client)
    if file.exists() and says(file) is None:
        return skipped("agent hooks", f"{file} cannot be read.")
    if command is None:
        return problem("agent hooks", f"{file} has no hook of Tandem's for {client}.", _INIT_GATE, file=file)
    try:
        told = json.dumps(_forbidden(site.root, client)).encode()
        done = run_program(shlex.split(command), PROBE_SECONDS, cwd=site.root, env=site.environment, told=told)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return problem("agent hooks", f"The hook of {client} cannot be run: {error}", _INIT_GATE)
    if done.returncode != _REFUSED or _MARK not in done.stderr:
        return problem(
            "agent hooks",
            f"The hook of {client} lets through unapproved content (exit status {done.returncode}).",
            _INIT_GATE,
        )
    return ok("agent hooks", f"The hook of {client} refuses unapproved content.")


def _hook(site: Site, client: ClientName) -> str | None:
    """The command of our hook that a client's file names."""
    for entry in teaching.hooks(client, (*site.program.words, "hook"))[:1]:
        for group in _items(says(site.file(entry.scope, entry.path), *entry.keys)):
            for hook in _items(as_object(group).get("hooks")):
                command = as_object(hook).get("command")
                if isinstance(command, str) and f"agent --client {client}" in command:
                    return command
    return None


def _items(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _forbidden(root: Path, client: ClientName) -> dict[str, Any]:
    """A call that writes a text of random content where only reviewed ones may be."""
    path = str(root / ".planning" / "phases" / "99-tandem-doctor" / "99-CONTEXT.md")
    content = f"{secrets.token_hex(32)}\n"
    tools: dict[str, tuple[str, dict[str, str]]] = {
        "claude": ("Write", {"file_path": path, "content": content}),
        "gemini": ("write_file", {"file_path": path, "content": content}),
        "codex": ("apply_patch", {"command": f"*** Begin Patch\n*** Add File: {path}\n+{content}*** End Patch\n"}),
    }
    name, given = tools[client]
    event = "BeforeTool" if client == "gemini" else "PreToolUse"
    return {"hook_event_name": event, "tool_name": name, "tool_input": given, "cwd": str(root)}


def _codex_trust(program: str, folder: Path, environment: Mapping[str, str]) -> Finding:
    """Ask Codex, which changes nothing."""
    requests = (
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "tandem-doctor", "version": "1"}}},
        {"method": "initialized"},
        {"id": _LISTED, "method": "hooks/list", "params": {"cwds": [str(folder)]}},
    )
    try:
        result = _listed([program, "app-server"], folder, environment, requests)
    except (OSError, ValueError) as error:
        said = f"Codex does not say whether it trusts Tandem's hooks ({error})."
        return note("agent hooks", said, "look in codex: /hooks")
    hooks = [as_object(hook) for one in _items(result.get("data")) for hook in _items(as_object(one).get("hooks"))]
    ours = [one for one in hooks if re.search(r"hook (agent|session|turn) --client codex", str(one.get("command")))]
    if not ours:
        return problem("agent hooks", "Codex does not list Tandem's hooks here.", _INIT_GATE)
    if any(one.get("trustStatus") not in {"trusted", "managed"} for one in ours):
        untrusted = "Codex skips a hook of Tandem's in silence, as a person has not trusted its present form."
        return problem("agent hooks", untrusted, "start codex in this project, type /hooks, and trust Tandem's three")
    return ok("agent hooks", "Codex runs Tandem's hooks: they are trusted.")


async def check_servers(here: DoctorContext) -> list[Finding]:
    """Start the server that each client's file names, as the client does, and ask it for its tools."""
    before = _set_up(here)
    if here.place is None or before is None:
        return []
    here.require_call()
    here.require_program()
    site = _site(here, here.place)
    clients = [one for one in CLIENTS if one.name in before.clients]
    return await asyncio.gather(*(asyncio.to_thread(_try_server, site, one) for one in clients))


def _server_place(site: Site, client: AgentClient) -> tuple[Path, Sequence[str]] | None:
    """The file of a client that names Tandem's server, and where in it."""
    for edit in client.edits(site):
        keys = edit.keys if isinstance(edit, JsonMember) else edit.name if isinstance(edit, TomlTable) else ()
        if keys[-1:] == (SERVER,):
            return edit.path, keys
    return None


def _try_server(site: Site, client: AgentClient) -> Finding:
    title = client.title
    place = _server_place(site, client)
    if place is None:
        return skipped("servers", f"{title} has no server of Tandem's.")
    file, keys = place
    stated = as_object(says(file, *keys))
    if not stated and file.exists() and says(file) is None:
        return skipped("servers", f"{file} cannot be read.")
    if not stated:
        said = f"{file} does not name Tandem's server, so {title} has no tools."
        return problem("servers", said, _INIT, file=file)
    command = [str(word) for word in (*_words(stated.get("command")), *_items(stated.get("args")))]
    correct = f"correct {'.'.join(keys)} in that file; or delete it there, and run: {_INIT}"
    try:
        tools = _items(_listed(command, site.root, _environment_for(stated, site), _MCP_REQUESTS).get("tools"))
    except (OSError, ValueError) as error:
        said = f"{title} gets no tools: the server that {file} names, '{shlex.join(command)}', fails: {error}."
        return problem("servers", said, correct)
    if not tools:
        return problem("servers", f"{title} gets no tools: the server that {file} names lists none.", correct)
    return ok("servers", f"{title} reaches Tandem as its file says: {len(tools)} tools.")


def _environment_for(stated: Mapping[str, Any], site: Site) -> dict[str, str]:
    """The environment of a server: that of the client, and what its file adds."""
    passed_on = _items(stated.get("env_vars"))
    names = {*_CODEX_PASSES_ON, *passed_on} if passed_on else {*site.environment}
    added = as_object(stated.get("env")) or as_object(stated.get("environment"))
    inherited = {name: value for name, value in site.environment.items() if name in names}
    return inherited | {name: str(value) for name, value in added.items()}


def _words(command: Any) -> list[Any]:
    return [command] if isinstance(command, str) else _items(command)


def _listed(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], requests: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """What a program that speaks JSON-RPC over its pipes answers to the request for a list.

    Raises:
        OSError: It cannot be started.
        ValueError: It does not answer in time, or not as expected.
    """
    if not command:
        raise ValueError("it names no command")
    program = shutil.which(command[0], path=environment.get("PATH"))
    if program is None:
        raise ValueError(f"{command[0]} is not on PATH")
    with subprocess.Popen(
        [program, *command[1:]],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        is_late = threading.Event()
        timer = threading.Timer(PROBE_SECONDS, lambda: (is_late.set(), process.kill()))
        timer.start()
        try:
            if process.stdin is None or process.stdout is None:
                raise ValueError("it has no pipes")
            process.stdin.write(b"".join(json.dumps({"jsonrpc": "2.0", **one}).encode() + b"\n" for one in requests))
            process.stdin.flush()
            for line in process.stdout:
                message = as_object(json.loads(line))
                if message.get("id") == _LISTED:
                    if error := as_object(message.get("error")):
                        raise ValueError(str(error.get("message")))
                    return as_object(message.get("result")) or {}
        finally:
            timer.cancel()
            process.kill()
    raise ValueError(f"no answer within {PROBE_SECONDS:g} s" if is_late.is_set() else "it ended without an answer")
