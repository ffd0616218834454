"""A small MCP client for the demonstration: JSON-RPC over Streamable HTTP, and nothing of the broker's own."""

from __future__ import annotations

import itertools
import json
from types import TracebackType
from typing import Any, Self

import httpx

REVISION = "2025-11-25"
_ANSWER_SECONDS = 60.0


class ToolRefused(Exception):
    """A tool answered with a refusal.

    Attributes:
        code: The refusal's code.
        error: The whole error object.
    """

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code = str(error["code"])
        self.error = error


class ProtocolBroken(Exception):
    """The server's answer is not what MCP says it is."""


class McpClient:
    """One client on one endpoint.

    Attributes:
        name: What it calls itself.
    """

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self._url = url
        self._ids = itertools.count(1)
        self._headers = {"Accept": "application/json, text/event-stream", "Tandem-Agent": name}
        self._http = httpx.AsyncClient(timeout=_ANSWER_SECONDS, trust_env=False, verify=url.startswith("https:"))

    async def __aenter__(self) -> Self:
        answer = await self._request(
            "initialize",
            {
                "protocolVersion": REVISION,
                "capabilities": {},
                "clientInfo": {"name": self.name, "version": "1"},
            },
        )
        self._headers["MCP-Protocol-Version"] = answer["protocolVersion"]
        await self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def tools(self) -> list[str]:
        """The names of the tools that the endpoint lists."""
        return [tool["name"] for tool in (await self._request("tools/list", {}))["tools"]]

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool; the data of its envelope.

        Raises:
            ToolRefused: The envelope is a refusal.
            ProtocolBroken: The result is not an envelope, or its two forms differ.
        """
        result = await self._request("tools/call", {"name": tool, "arguments": arguments})
        envelope = result.get("structuredContent")
        said = json.loads(result["content"][0]["text"])
        if envelope is None or envelope != said:
            raise ProtocolBroken(f"{tool}: the text and the structured content differ")
        if bool(result.get("isError")) is bool(envelope["ok"]):
            raise ProtocolBroken(f"{tool}: isError does not go with the envelope")
        if not envelope["ok"]:
            raise ToolRefused(envelope["error"])
        return envelope["data"]

    async def _request(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        number = next(self._ids)
        answer = await self._post({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters})
        message = _response(answer, number)
        if "error" in message:
            raise ProtocolBroken(f"{method}: {message['error'].get('message')}")
        return message["result"]

    async def _post(self, message: dict[str, Any]) -> httpx.Response:
        answer = await self._http.post(self._url, json=message, headers=self._headers)
        if answer.status_code >= httpx.codes.BAD_REQUEST:
            raise ProtocolBroken(f"{message['method']}: HTTP {answer.status_code}: {answer.text[:200]}")
        if session := answer.headers.get("mcp-session-id"):
            self._headers["Mcp-Session-Id"] = session
        return answer


def _response(answer: httpx.Response, number: int) -> dict[str, Any]:
    """The response to a request, from a body of JSON or from a stream of events."""
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        lines = answer.text.splitlines()
        messages = [
            json.loads(line.removeprefix("data:")) for line in lines if line.startswith("data:") and line[5:].strip()
        ]
    else:
        messages = [answer.json()]
    for message in messages:
        if message.get("id") == number:
            return message
    raise ProtocolBroken(f"no response to request {number}")
