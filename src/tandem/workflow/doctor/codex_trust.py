"""Whether Codex runs our hooks: it skips in silence those that the person has not trusted, and only it knows.

Measured with Codex 0.169: `codex app-server` answers `hooks/list` with what `/hooks` shows.
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tandem.bridge.messages import as_object
from tandem.workflow.doctor.finding import Finding, note, ok, problem

_SECONDS: Final = 30.0
_CHECK: Final = "agent hooks"
_LISTED: Final = 2
"""The number of the request for the list."""


def check_trust(program: str, folder: Path, environment: Mapping[str, str]) -> Finding:
    """Ask Codex, which changes nothing.

    Args:
        program: Codex.
        folder: The project.
        environment: The user's variables.
    """
    try:
        hooks = _hooks(program, folder, environment)
    except (OSError, ValueError) as error:
        return note(_CHECK, f"Codex does not say whether it trusts Tandem's hooks ({error}).", "look in codex: /hooks")
    ours = [one for one in hooks if "hook agent --client codex" in str(one.get("command"))]
    if not ours:
        return problem(_CHECK, "Codex does not list Tandem's hook here.", "tandem init --gate")
    if any(one.get("trustStatus") not in {"trusted", "managed"} for one in ours):
        untrusted = "Codex skips Tandem's hook in silence, as nobody has trusted it as it is now."
        return problem(_CHECK, untrusted, "start codex in this project, type /hooks, and trust Tandem's two")
    return ok(_CHECK, "Codex runs Tandem's hook: it is trusted.")


def _hooks(program: str, folder: Path, environment: Mapping[str, str]) -> list[dict[str, Any]]:
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
