"""The agents' clients: whether their files hold what they should, and whether their hooks refuse.

Codex skips in silence hooks that the person has not trusted, and only it knows which: measured with Codex 0.169,
`codex app-server` answers `hooks/list` with what `/hooks` shows.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import shlex
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from tandem.bridge.messages import as_object
from tandem.setup import teaching
from tandem.setup.clients import FoundClient, Site, find_program, says, version_of
from tandem.setup.doctor.finding import DoctorContext, Finding, note, ok, problem, skipped
from tandem.setup.edits.installing import install
from tandem.setup.init import InitOptions, SetupPlan, load_record, plan_init
from tandem.setup.teaching import ClientName

_SECONDS: Final = 60.0
_LISTED: Final = 2
"""The number of the request for Codex's list of hooks."""

_REFUSED: Final = 2
_INIT = "tandem init"
_INIT_GATE = "tandem init --gate"
_MARK = b"tandem: refused"


async def check_clients(here: DoctorContext) -> list[Finding]:
    """Whether the files of the clients that were set up hold what they should: server, time-outs, skill."""
    if here.place is None:
        return []
    before = load_record(Path(here.place.git_dir, "tandem"))
    if before is None:
        return [note("clients", "No client was set up here.", _INIT)]
    plan = await asyncio.to_thread(plan_init, here.folder, here.home, here.environment, InitOptions(before.clients))
    told = [note("clients", one) for one in (*plan.remarks, *plan.notes)]
    return [*await _versions(plan), *_differences(plan), *told]


def _differences(plan: SetupPlan) -> list[Finding]:
    changed = sorted({change.name for change in plan.changes})
    if not changed:
        return [ok("clients", "Their files are as tandem init writes them, time-outs included.")]

    async def repair() -> None:
        for manifest, changes in plan.trees:
            await asyncio.to_thread(install, changes, manifest)

    return [problem("clients", f"Not as tandem init writes them: {', '.join(changed)}", _INIT, repair)]


async def _versions(plan: SetupPlan) -> list[Finding]:
    """Each client's version, as its program says it."""
    return await asyncio.gather(*(asyncio.to_thread(_version, found) for found in plan.clients))


def _version(found: FoundClient) -> Finding:
    title = found.client.title
    if found.program is None:
        return note("clients", f"{title} is set up, but its program is not on PATH.")
    try:
        said = version_of(found.program)
    except (OSError, subprocess.SubprocessError) as error:
        return problem("clients", f"{title} at {found.program} cannot be run: {error}", f"install {title} again")
    return ok("clients", f"{title} {said.split(chr(10))[0].strip() or '(says no version)'}")


async def check_agent_hooks(here: DoctorContext) -> list[Finding]:
    """Fire the hooks of the clients, as their files name them, with a text that nobody approved."""
    gate = here.gate
    before = load_record(Path(here.place.git_dir, "tandem")) if here.place is not None else None
    if here.place is None or gate is None or not gate.enabled:
        return []
    if before is None or not before.gate:
        return [note("agent hooks", "The agents have no hooks, so they hear only from git.", _INIT_GATE)]
    if here.call is None:
        return [skipped("agent hooks", "The broker does not answer.")]
    program = await asyncio.to_thread(find_program, here.environment)
    site = Site(Path(here.place.top or gate.root), here.home, program, here.environment)
    names: list[ClientName] = [one for one in teaching.CLIENTS if one in before.clients]
    found = await asyncio.gather(*(asyncio.to_thread(_fire, site, name) for name in names))
    told = [one for one in found if one is not None]
    codex = shutil.which("codex", path=site.environment.get("PATH")) if "codex" in names else None
    if codex is not None:
        told.append(await asyncio.to_thread(_codex_trust, codex, site.root, site.environment))
    return told


def _fire(site: Site, client: ClientName) -> Finding | None:
    """One client's hook; null for a client that has none that could refuse."""
    entries = teaching.hooks(client, (*site.program.words, "hook"))
    if not entries:
        return None
    entry = entries[0]
    file = site.file(entry.scope, entry.path)
    command = _command(file, entry.keys, client)
    if command is None:
        return problem("agent hooks", f"{file} has no hook of Tandem's for {client}.", _INIT_GATE)
    try:
        done = subprocess.run(
            shlex.split(command),
            cwd=site.root,
            env=dict(site.environment),
            input=json.dumps(_forbidden(site.root, client)).encode(),
            capture_output=True,
            check=False,
            timeout=_SECONDS,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return problem("agent hooks", f"The hook of {client} cannot be run: {error}", _INIT_GATE)
    if done.returncode != _REFUSED or _MARK not in done.stderr:
        return problem(
            "agent hooks",
            f"The hook of {client} lets through what is not approved (exit status {done.returncode}).",
            _INIT_GATE,
        )
    return ok("agent hooks", f"The hook of {client} refuses what is not approved.")


def _command(file: Path, keys: Sequence[str], client: str) -> str | None:
    """The command of our hook that a client's file names."""
    for group in _items(says(file, *keys)):
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
    try:
        hooks = _codex_hooks(program, folder, environment)
    except (OSError, ValueError) as error:
        said = f"Codex does not say whether it trusts Tandem's hooks ({error})."
        return note("agent hooks", said, "look in codex: /hooks")
    ours = [one for one in hooks if "hook agent --client codex" in str(one.get("command"))]
    if not ours:
        return problem("agent hooks", "Codex does not list Tandem's hook here.", _INIT_GATE)
    if any(one.get("trustStatus") not in {"trusted", "managed"} for one in ours):
        untrusted = "Codex skips Tandem's hook in silence, as nobody has trusted it as it is now."
        return problem("agent hooks", untrusted, "start codex in this project, type /hooks, and trust Tandem's two")
    return ok("agent hooks", "Codex runs Tandem's hook: it is trusted.")


def _codex_hooks(program: str, folder: Path, environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """What Codex lists.

    Raises:
        OSError: It cannot be started.
        ValueError: It does not answer in time, or not as expected.
    """
    requests = (
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "tandem-doctor", "version": "1"}}},
        {"method": "initialized"},
        {"id": _LISTED, "method": "hooks/list", "params": {"cwds": [str(folder)]}},
    )
    with subprocess.Popen(
        [program, "app-server"],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        timer = threading.Timer(_SECONDS, process.kill)
        timer.start()
        try:
            if process.stdin is None or process.stdout is None:
                raise ValueError("it has no pipes")
            process.stdin.write(b"".join(json.dumps({"jsonrpc": "2.0", **one}).encode() + b"\n" for one in requests))
            process.stdin.flush()
            for line in process.stdout:
                message = as_object(json.loads(line))
                if message.get("id") == _LISTED:
                    data: list[Any] = as_object(message.get("result")).get("data") or []
                    return [as_object(hook) for one in data for hook in as_object(one).get("hooks", [])]
        finally:
            timer.cancel()
            process.kill()
    raise ValueError("it ended without an answer")
