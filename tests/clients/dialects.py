"""How models are spoken to: the Responses API, the Messages API, Gemini's, and chat completions."""

from __future__ import annotations

import json
from typing import Any, Protocol

Said = tuple[str, bytes]

_EVENTS = "text/event-stream"
_IN, _OUT, _CACHED = 100, 20, 40


def _events(*events: dict[str, Any] | str, named: bool = False) -> Said:
    lines: list[str] = []
    for event in events:
        if named and isinstance(event, dict):
            lines.append(f"event: {event['type']}\n")
        lines.append(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n")
    return _EVENTS, "".join(lines).encode()


class Dialect(Protocol):
    """One interface of models."""

    def speaks(self, path: str) -> bool:
        """Whether a request to this path is in it."""
        ...

    def tools(self, body: dict[str, Any]) -> set[str]:
        """The names of the tools that the model may call."""
        ...

    def results(self, body: dict[str, Any]) -> list[str]:
        """The results of the calls so far, oldest first."""
        ...

    def call(self, body: dict[str, Any], number: int, name: str, arguments: dict[str, Any]) -> Said:
        """The model calls a tool; `server/tool` is a tool of an MCP server, and only `input` is one that takes text."""
        ...

    def answer(self, body: dict[str, Any], answer: dict[str, Any]) -> Said:
        """The model is done."""
        ...


class Responses:
    """OpenAI's Responses API, as Codex speaks it."""

    def speaks(self, path: str) -> bool:
        return path.partition("?")[0].endswith("/responses")

    def tools(self, body: dict[str, Any]) -> set[str]:
        found: set[str] = set()
        for tool in body.get("tools", []):
            inner = [f"{tool['name']}/{one['name']}" for one in tool.get("tools", [])]
            found |= set(inner or [tool.get("name", tool["type"])])
        return found

    def results(self, body: dict[str, Any]) -> list[str]:
        ends = {"function_call_output", "custom_tool_call_output"}
        return [json.dumps(item["output"]) for item in body["input"] if item["type"] in ends]

    def call(self, body: dict[str, Any], number: int, name: str, arguments: dict[str, Any]) -> Said:
        if set(arguments) == {"input"}:
            text = {"type": "custom_tool_call", "id": f"ct_{number}", "call_id": f"call_{number}", "name": name}
            return self._done({**text, **arguments})
        item = {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": name.rpartition("/")[2],
            "arguments": json.dumps(arguments),
        }
        if "/" in name:
            item["namespace"] = name.partition("/")[0]
        return self._done(item)

    def answer(self, body: dict[str, Any], answer: dict[str, Any]) -> Said:
        said = [{"type": "output_text", "text": json.dumps(answer)}]
        return self._done({"type": "message", "id": "msg_1", "role": "assistant", "content": said})

    def _done(self, item: dict[str, Any]) -> Said:
        usage = {
            "input_tokens": _IN,
            "input_tokens_details": {"cached_tokens": _CACHED},
            "output_tokens": _OUT,
            "output_tokens_details": None,
            "total_tokens": _IN + _OUT,
        }
        return _events(
            {"type": "response.created", "response": {"id": "resp_1"}},
            {"type": "response.output_item.done", "item": item},
            {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}},
            named=True,
        )


class Messages:
    """Anthropic's Messages API, as Claude Code speaks it; a schema comes as the tool `StructuredOutput`."""

    STRUCTURED = "StructuredOutput"

    def speaks(self, path: str) -> bool:
        return path.partition("?")[0].endswith("/messages")

    def tools(self, body: dict[str, Any]) -> set[str]:
        return {tool["name"] for tool in body.get("tools", [])}

    def results(self, body: dict[str, Any]) -> list[str]:
        blocks = [block for one in body["messages"] if isinstance(one["content"], list) for block in one["content"]]
        return [json.dumps(block.get("content")) for block in blocks if block["type"] == "tool_result"]

    def call(self, body: dict[str, Any], number: int, name: str, arguments: dict[str, Any]) -> Said:
        block: dict[str, Any] = {"type": "tool_use", "id": f"call_{number}", "name": name, "input": {}}
        return self._stream(
            body, block, {"type": "input_json_delta", "partial_json": json.dumps(arguments)}, "tool_use"
        )

    def answer(self, body: dict[str, Any], answer: dict[str, Any]) -> Said:
        if self.STRUCTURED in self.tools(body):
            return self.call(body, len(self.results(body)), self.STRUCTURED, answer)
        return self._stream(
            body, {"type": "text", "text": ""}, {"type": "text_delta", "text": json.dumps(answer)}, "end_turn"
        )

    def _stream(self, body: dict[str, Any], block: dict[str, Any], delta: dict[str, Any], stop: str) -> Said:
        usage = {"input_tokens": _IN - _CACHED, "output_tokens": _OUT, "cache_read_input_tokens": _CACHED}
        usage["cache_creation_input_tokens"] = 0
        message: dict[str, Any] = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": body.get("model"),
            "content": [],
        }
        return _events(
            {
                "type": "message_start",
                "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage},
            },
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
            named=True,
        )


class Gemini:
    """Google's interface, as Gemini CLI speaks it."""

    def speaks(self, path: str) -> bool:
        return "GenerateContent" in path or ":generateContent" in path

    def tools(self, body: dict[str, Any]) -> set[str]:
        return {one["name"] for tool in body.get("tools", []) for one in tool.get("functionDeclarations", [])}

    def results(self, body: dict[str, Any]) -> list[str]:
        parts = [part for content in body["contents"] for part in content["parts"]]
        return [json.dumps(part["functionResponse"]) for part in parts if "functionResponse" in part]

    def call(self, body: dict[str, Any], number: int, name: str, arguments: dict[str, Any]) -> Said:
        return self._part({"functionCall": {"name": name, "args": arguments, "id": f"call_{number}"}})

    def answer(self, body: dict[str, Any], answer: dict[str, Any]) -> Said:
        return self._part({"text": json.dumps(answer)})

    def _part(self, part: dict[str, Any]) -> Said:
        usage = {"promptTokenCount": _IN, "candidatesTokenCount": _OUT, "cachedContentTokenCount": _CACHED}
        content = {"role": "model", "parts": [part]}
        return _events(
            {
                "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
                "usageMetadata": {**usage, "totalTokenCount": _IN + _OUT},
            }
        )


class Chat:
    """Chat completions, as opencode speaks them."""

    def speaks(self, path: str) -> bool:
        return path.endswith("/chat/completions")

    def tools(self, body: dict[str, Any]) -> set[str]:
        return {tool["function"]["name"] for tool in body.get("tools", [])}

    def results(self, body: dict[str, Any]) -> list[str]:
        return [json.dumps(one["content"]) for one in body["messages"] if one["role"] == "tool"]

    def call(self, body: dict[str, Any], number: int, name: str, arguments: dict[str, Any]) -> Said:
        function = {"name": name, "arguments": json.dumps(arguments)}
        calls = [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]
        return self._stream({"role": "assistant", "tool_calls": calls}, "tool_calls")

    def answer(self, body: dict[str, Any], answer: dict[str, Any]) -> Said:
        return self._stream({"role": "assistant", "content": json.dumps(answer)}, "stop")

    def _stream(self, delta: dict[str, Any], finish: str) -> Said:
        chunk = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
        usage = {"prompt_tokens": _IN, "completion_tokens": _OUT, "total_tokens": _IN + _OUT}
        return _events(
            {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}], "usage": usage},
            "[DONE]",
        )


ALL: tuple[Dialect, ...] = (Responses(), Messages(), Gemini(), Chat())
