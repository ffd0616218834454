"""What every demonstration stands on: a scratch repository, a broker of its own, agents, and a voice that tells it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import sys
from collections.abc import AsyncGenerator, Awaitable
from pathlib import Path
from typing import Any

from tandem.bridge import messages
from tandem.bridge.http import HttpClient
from tandem.bridge.location import Target
from tandem.bridge.messages import replies
from tandem.cli.terminal import show
from tandem.errors import TandemError, error_from
from tandem.git.runner import Git, clean_environment
from tandem.present.text import Framed, Group, Text, Whole
from tandem.settings.config import USER_FILE

PROJECT = "parcels"
_PATIENCE_SECONDS = 90.0
_REVISION = "2025-11-25"
_STYLES = {"reviewer": "magenta", "gate": "yellow", "log": "blue", "codex": "green"}
_GIT = ("user.name=Demo", "user.email=demo@example.invalid", "commit.gpgSign=false", "core.autocrlf=false")


class SceneFailed(Exception):
    """A step of the demonstration went otherwise than it must."""


class Stage:
    """Where a demonstration plays. Tells what happens as it happens, and prints none of the `secrets` whole."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.repository, self.data_dir = folder, folder / PROJECT, folder / "data"
        self.url = ""
        self.secrets: set[str] = set()
        kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("TANDEM_")}
        self.environment = {**kept, "TANDEM_CONFIG_DIR": str(folder / "config"), "PYTHONUTF8": "1", "COLUMNS": "110"}

    def scene(self, title: str) -> None:
        """Begin a scene."""
        self._print(Text(f"\n{title}", style="bold underline"))

    def tell(self, who: str, what: str) -> None:
        """Say what somebody does, in a line."""
        self._print(Text.assemble((f"{who:>9}", f"bold {_STYLES.get(who, 'cyan')}"), "  ", what))

    def show(self, *lines: str | Text) -> None:
        """Show what the line above speaks of."""
        self._print(*(Text(line, "dim") if isinstance(line, str) else line for line in lines), indent=11)

    def masked(self, secret: str) -> str:
        """A key or token as it may be shown, such as `psk_hz3…`."""
        self.secrets.add(secret)
        kind, _, rest = secret.partition("_")
        # The end tells one token from another; the part before names the session or the broker's key.
        return f"{kind}_{(rest if kind == 'psk' else rest.rpartition('_')[2])[:3]}…"

    def write(self, name: str, content: str) -> None:
        """Write a file below the stage's folder."""
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8", newline="\n")

    async def stage_file(self, name: str, content: str) -> None:
        """Write a file of the repository, and stage it."""
        self.write(f"{PROJECT}/{name}", content)
        await self.git("add", "--all")

    async def git(self, *arguments: str) -> None:
        """Run git in the working tree."""
        command = [*(part for setting in _GIT for part in ("-c", setting)), *arguments]
        environment = clean_environment({}, isolated=True)
        await asyncio.to_thread(Git().run, command, cwd=self.repository, environment=environment)

    async def tandem(self, *arguments: str, status: int = 0) -> str:
        """Run `tandem` in the working tree, show its output, and insist on its exit status."""
        self._print(Text(f"  $ tandem {shlex.join(arguments)}", style="bold"))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tandem", *arguments, cwd=self.repository, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            env={**self.environment, "TANDEM_BROKER": self.url},
        )  # fmt: skip
        try:
            output, _ = await asyncio.wait_for(process.communicate(), _PATIENCE_SECONDS)
        finally:
            if process.returncode is None:
                process.kill()
        shown = output.decode(errors="replace").strip()
        self._print(Text(shown, style="dim"), indent=4)
        expect(f"exit status of tandem {arguments[0]}", process.returncode, status)
        return shown

    def _print(self, *texts: Text, indent: int = 0) -> None:
        said = "\n".join(text.plain for text in texts)
        expect("keys and tokens about to be printed", sum(one in said for one in self.secrets), 0)
        if said:
            show(Framed(Group(*texts), left=indent) if indent else Whole(*texts))


class Agent:
    """An agent that speaks MCP, by the HTTP client that `tandem mcp` has."""

    def __init__(self, stage: Stage, who: str, role: str) -> None:
        self.stage, self.who = stage, who
        self._path = f"/mcp/{role}?project={PROJECT}"
        self._client = HttpClient(Target(stage.url))

    async def connect(self) -> Agent:
        """Shake hands, and ask for the names of the tools."""
        about = {"name": f"demo-{self.who}", "version": "1"}
        await self._request("initialize", protocolVersion=_REVISION, capabilities={}, clientInfo=about)
        tools = (await self._request("tools/list"))["tools"]
        self.tell(f"connects over MCP and finds {len(tools)} tools")
        return self

    def tell(self, what: str) -> None:
        """Say its action."""
        self.stage.tell(self.who, what)

    async def do(self, told: str, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and tell of it, in words that may name what its answer has; a token in it is masked."""
        answer = await self.call(tool, **arguments)
        shown = {name: self.stage.masked(value) if name.endswith("_token") else value for name, value in answer.items()}
        self.tell(told.format_map(shown))
        return answer

    async def refused(self, told: str, code: str, call: Awaitable[object]) -> None:
        """Insist that a call is refused with a code, and tell of it."""
        try:
            await call
        except TandemError as refusal:
            expect("the refusal", refusal.code, code)
            return self.tell(f"{told}, and is refused: {code}")
        raise SceneFailed(f"what {code} is for was taken")

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool; the data of its envelope, or the TandemError that it carries."""
        envelope = (await self._request("tools/call", name=tool, arguments=arguments))["structuredContent"]
        if not envelope["ok"]:
            raise error_from(envelope["error"])
        return envelope["data"]

    def wait(self, tool: str, **arguments: Any) -> asyncio.Task[dict[str, Any]]:
        """Begin to wait for news, as an agent does that has nothing else to do: a call that stays open."""
        return asyncio.create_task(self.call(tool, wait=True, timeout_s=20, **arguments))

    async def _request(self, method: str, **params: Any) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await asyncio.to_thread(self._exchange, messages.Message(messages.encode(body), body))

    def _exchange(self, message: messages.Message) -> dict[str, Any]:
        head = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        head |= {"Tandem-Agent": f"demo-{self.who}", **messages.headers(message, _REVISION)}
        *_, last = replies(self._client.request("POST", self._path, message.raw, head), message)
        answer = json.loads(last)
        expect(f"the error of {message.method}", answer.get("error"), None)
        return answer["result"]


def expect(what: str, actual: object, expected: object) -> None:
    """Insist on a value; neither may be a secret."""
    if actual != expected:
        raise SceneFailed(f"{what}: expected {expected!r}, got {actual!r}")


@contextlib.asynccontextmanager
async def open_stage(folder: Path, configuration: str) -> AsyncGenerator[Stage, None]:
    """A repository, and a broker that is gone afterwards."""
    place = Stage(folder)
    place.repository.mkdir()
    place.write(f"config/{USER_FILE}", configuration)
    log = folder / "broker.log"
    with log.open("wb") as errors:
        broker = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tandem", "up", "--port", "0", "--data-dir", str(place.data_dir), "--json",
            cwd=folder, env=place.environment, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=errors,
        )  # fmt: skip
    try:
        assert broker.stdout is not None  # noqa: S101 - for the type: it was asked for
        line = await asyncio.wait_for(broker.stdout.readline(), _PATIENCE_SECONDS)
        if not line:
            raise SceneFailed(f"the broker did not start:\n{log.read_text('utf-8', 'replace')[-2000:]}")
        place.url = json.loads(line)["data"]["url"]
        yield place
    finally:
        with contextlib.suppress(ProcessLookupError):
            broker.terminate()
        await asyncio.wait_for(broker.wait(), _PATIENCE_SECONDS)
