"""A model program that is the agent itself: it works through the queue over MCP, as its prompt tells it.

`agent.py NOTES`: it speaks JSON-RPC over HTTP by itself, at the URL of its environment. A review whose intent is
`hold NAME` it keeps until a test has made the file NAME below NOTES.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

NOTES = Path(sys.argv[1])
URL = os.environ["TANDEM_REVIEW_MCP_URL"]
REVIEWER = os.environ["TANDEM_REVIEWER"]


class Server:
    """An MCP server over streamable HTTP."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if "TANDEM_TOKEN" in os.environ:
            self._headers["Authorization"] = f"Bearer {os.environ['TANDEM_TOKEN']}"
        self._last = 0
        asked = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}
        self.greeting = self._request("initialize", asked)
        self._headers["MCP-Protocol-Version"] = self.greeting["protocolVersion"]
        self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.tools = [tool["name"] for tool in self._request("tools/list", {})["tools"]]

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The data of a tool's answer; ends the program if it is refused."""
        result = self._request("tools/call", {"name": tool, "arguments": arguments})
        envelope = json.loads(result["content"][0]["text"])
        if not envelope["ok"]:
            sys.exit(f"{tool}: {envelope['error']}")
        data: dict[str, Any] = envelope["data"]
        return data

    def _request(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self._last += 1
        answer = self._post({"jsonrpc": "2.0", "id": self._last, "method": method, "params": parameters})
        # As one JSON object, or as the one event of a stream.
        data = [line.removeprefix("data: ") for line in answer.splitlines() if line.startswith("data: ")]
        message: dict[str, Any] = json.loads(data[-1] if data else answer)
        if "result" not in message:
            sys.exit(f"{method}: {message}")
        result: dict[str, Any] = message["result"]
        return result

    def _post(self, message: dict[str, Any]) -> str:
        request = urllib.request.Request(self._url, json.dumps(message).encode(), self._headers)
        with urllib.request.urlopen(request, timeout=60) as response:
            session = response.headers.get("Mcp-Session-Id")
            if session:
                self._headers["Mcp-Session-Id"] = session
            return response.read().decode()


def main() -> None:
    """The loop, until somebody ends it."""
    prompt = sys.stdin.read()
    server = Server(URL)
    given = {"pid": os.getpid(), "url": URL, "prompt": prompt, "tools": server.tools, "folder": str(Path.cwd())}
    fresh = NOTES / f".{os.getpid()}"
    fresh.write_text(json.dumps(given), "utf-8")
    fresh.rename(NOTES / f"agent-{REVIEWER}.json")
    project = given_project(prompt)
    cursor: str | None = None
    while True:
        claim = server.call("claim_review", reviewer_id=REVIEWER, project=project)
        if claim["review"] is None:
            place = {} if cursor is None else {"cursor": cursor}
            asked = {"project": project, "status": "pending", "wait": True, "timeout_s": 10, **place}
            cursor = server.call("list_reviews", **asked)["cursor"]
            continue
        review(server, claim)


def given_project(prompt: str) -> str:
    """The project's name, from its frame."""
    lines = prompt.splitlines()
    begin = next(
        at for at, line in enumerate(lines) if line.startswith("=== BEGIN DATA") and line.endswith(": project")
    )
    return lines[begin + 1]


def review(server: Server, claim: dict[str, Any]) -> None:
    """One review."""
    proposal = server.call("get_proposal", review_id=claim["review_id"])
    deed, *arguments = proposal["intent"].split()
    if deed == "hold":
        while not (NOTES / arguments[0]).exists():
            time.sleep(0.02)
    server.call(
        "submit_verdict",
        review_id=claim["review_id"],
        claim_generation=claim["claim_generation"],
        round=claim["round"],
        reviewer_id=REVIEWER,
        verdict="rejected" if deed == "reject" else "approved",
        reason=f"By the agent {REVIEWER}.",
    )


if __name__ == "__main__":
    main()
