"""Codex's own list of hooks, asked of its app server; a person trusts them in `/hooks`, which writes the same."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

SECONDS = 30


class Listed(NamedTuple):
    """A hook as Codex lists it.

    Attributes:
        event: When it is run, e.g. `preToolUse`.
        command: The command.
        trust: `trusted`, `untrusted` or `modified`; only the first is run.
    """

    event: str
    command: str
    trust: str


class CodexHooks:
    """A conversation with `codex app-server` about a folder."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._number = 0
        self._process = subprocess.Popen(
            ["codex", "app-server"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> Self:
        self._ask("initialize", {"clientInfo": {"name": "tandem", "version": "1"}})
        self._send({"method": "initialized"})
        return self

    def __exit__(self, *_: object) -> None:
        with self._process:
            self._process.terminate()
            self._process.wait(SECONDS)

    def listed(self) -> list[Listed]:
        """The hooks that count for the folder."""
        return [Listed(one["eventName"], one["command"], one["trustStatus"]) for one in self._hooks()]

    def trust_all(self) -> None:
        """Trust every one as it is now."""
        states = {one["key"]: {"trusted_hash": one["currentHash"], "enabled": True} for one in self._hooks()}
        edit = {"keyPath": "hooks.state", "mergeStrategy": "upsert", "value": states}
        self._ask("config/batchWrite", {"edits": [edit], "reloadUserConfig": True})

    def _hooks(self) -> list[dict[str, Any]]:
        [found] = self._ask("hooks/list", {"cwds": [str(self._folder)]})["data"]
        assert (found["warnings"], found["errors"]) == ([], []), found
        return found["hooks"]

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            if message.get("id") == self._number:
                assert "result" in message, message
                return message["result"]
        raise AssertionError(f"codex ended without an answer to {method}")

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()
