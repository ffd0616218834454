"""The real Claude Code at a terminal, with a scripted model: a wait goes to the background, and the verdict is told."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.reviewing import Desk
from tests.broker import BrokerProcess, fresh_project
from tests.clients.models import ScriptedModel, serving
from tests.clients.real_clients import program_environment
from tests.clients.real_init import trusted

pytestmark = pytest.mark.client("claude")
SECONDS = 120
KEY = "a-key-that-only-this-test-accepts"
RESULT = "verdict_reason"
"""Only the status of a review has it."""


@dataclass
class Terminal:
    """A program at a pseudo-terminal."""

    screen: int
    process: subprocess.Popen[bytes]

    def until(self, happened: Callable[[], bool], seconds: float = SECONDS) -> None:
        """Show the screen's output to no one until something has happened."""
        shown, deadline = b"", time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < deadline, shown[-3000:]
            assert self.process.poll() is None, shown[-3000:]
            if select.select([self.screen], [], [], 0.2)[0]:
                shown += os.read(self.screen, 65536)


@contextmanager
def claude(home: Path, server: dict[str, Any], model: ScriptedModel) -> Generator[Terminal]:
    """Claude Code with one server, and a person before it, who has said `go`."""
    work = home / "work"
    work.mkdir()
    trusted(home, work)
    (home / "mcp.json").write_text(json.dumps({"mcpServers": {"tandem": server}}), "utf-8")
    options = ["--mcp-config", str(home / "mcp.json"), "--strict-mcp-config", "--allowedTools", "mcp__tandem__*"]
    with at_terminal(home, work, model, *options) as terminal:
        yield terminal


@contextmanager
def at_terminal(home: Path, work: Path, model: ScriptedModel, *options: str, **more: str) -> Generator[Terminal]:
    """Claude Code in a folder that it trusts, with a person before it, who has said `go`."""
    settings = home / ".claude.json"
    answered = {"approved": [KEY[-20:]], "rejected": list[str]()}
    started = {**json.loads(settings.read_text("utf-8")), "theme": "dark", "customApiKeyResponses": answered}
    settings.write_text(json.dumps(started), "utf-8")
    screen, inner = pty.openpty()
    service = {"ANTHROPIC_BASE_URL": model.address, "ANTHROPIC_API_KEY": KEY}
    process = subprocess.Popen(
        ["claude", "go", *options],
        cwd=work,
        stdin=inner,
        stdout=inner,
        stderr=inner,
        start_new_session=True,
        env=program_environment(home, TERM="xterm-256color", **service, **more),
    )
    os.close(inner)
    try:
        yield Terminal(screen, process)
    finally:
        process.kill()
        process.wait()
        os.close(screen)


@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_claude_code_goes_on_and_tells_its_model_the_verdict(
    broker: BrokerProcess, tmp_path: Path, transport: str
) -> None:
    # A client that opens stdio takes a server for an old one if the first answer takes it seconds, as the first of
    # a broker may that has just started: it imports the SDK for it.
    httpx.post(f"{broker.url}/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"}, timeout=SECONDS)
    with Desk(broker.url, fresh_project()) as desk, Desk(broker.url, desk.project) as later:
        review = desk.put_up()
        bridge = ["mcp", "--role", "proposer", "--project", desk.project, "--broker", broker.url]
        server: dict[str, Any] = {
            "http": {"type": "http", "url": f"{broker.url}/mcp/proposer?project={desk.project}"},
            # Before 2.1.332 it opens stdio servers with an older revision unless it is told.
            "stdio": {"command": "tandem", "args": bridge, "env": {"MCP_PROTOCOL_NEGOTIATION": "auto"}},
        }[transport]
        wait = ("mcp__tandem__get_review_status", {"review_id": review, "wait": True})
        model = ScriptedModel([wait], {"said": "I go on with other work."})
        with serving(model), claude(tmp_path, server, model) as terminal:
            terminal.until(lambda: bool(model.results))
            # The call has ended, and there is no verdict yet.
            assert "approved" not in model.results[0]
            assert "background" in model.results[0]
            asked = len(model.seen)
            broker.kill()
            broker.start()
            later.approve(review)
            terminal.until(lambda: any(RESULT in seen.body for seen in model.seen))
        told = [seen.body for seen in model.seen[asked:] if seen.path.startswith("/v1/messages")]
        # Between submitting and the verdict the model is not asked; then it is told, once.
        assert RESULT in told[0]
        assert "<task-notification>" in told[0].partition(RESULT)[0]
