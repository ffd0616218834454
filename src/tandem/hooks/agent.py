"""What agents call before they use a tool: Claude Code's and Codex's `PreToolUse`, Gemini CLI's `BeforeTool`.

Exit status 2 with the reason on standard error keeps the tool from running, in all three. This is early word to
the agent; what holds is the git hook. Where no gate is on, nothing is asked and nothing is said.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, cast

from tandem.hooks import agent_tools, state
from tandem.hooks.speech import say

if TYPE_CHECKING:
    from collections.abc import Sequence

PASSES = 0
REFUSED = 2
CLIENTS = ("claude", "codex", "gemini")
_LARGEST_BYTES = 64 * 1024 * 1024
_ADVICE = (
    "The gate stays closed until that is mended. Look with 'tandem gate status', and tell the person who works here."
)


def main(arguments: Sequence[str]) -> int:
    """Judge the tool call on standard input; answers with the exit status.

    Args:
        arguments: `--client NAME`, and `--strict` where plans are reviewed before they are written.
    """
    folder = os.getcwd()
    try:
        client, strict = _options(arguments)
        call = _call(sys.stdin.buffer.read(_LARGEST_BYTES + 1))
        folder = _text(call.get("cwd")) or folder
        reasons = agent_tools.refusal(client, call, folder, strict=strict)
    except state.GateUnreadable as error:
        reasons = [str(error)]
    except Exception as error:  # noqa: BLE001 - the edge: an error in a gate never lets anything pass
        if not _may_be_on(folder):
            return PASSES
        reasons = [f"Whether this is approved cannot be found out: {error or type(error).__name__}", _ADVICE]
    if reasons is None:
        return PASSES
    say(f"refused: {reasons[0]}", *reasons[1:])
    return REFUSED


def _options(arguments: Sequence[str]) -> tuple[str, bool]:
    rest = [argument for argument in arguments if argument != "--strict"]
    if len(rest) != len(("--client", "NAME")) or rest[0] != "--client" or rest[1] not in CLIENTS:
        raise ValueError(f"the hook has to be called with --client and one of {', '.join(CLIENTS)}")
    return rest[1], len(rest) != len(arguments)


def _call(data: bytes) -> dict[str, Any]:
    """The client's account of the call.

    Raises:
        ValueError: It is none.
    """
    if len(data) > _LARGEST_BYTES:
        raise ValueError(f"the client's account of the call has more than {_LARGEST_BYTES} bytes")
    try:
        call: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError("the client's account of the call is no JSON") from error
    if not isinstance(call, dict):
        raise ValueError("the client's account of the call is no object")  # noqa: TRY004 - one kind of error for all of it
    return cast("dict[str, Any]", call)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _may_be_on(folder: str) -> bool:
    """Whether a gate is on where the agent works; what cannot be read may be one."""
    try:
        place = state.find_place(folder)
        gate = state.find(place) if place is not None else None
    except (state.GateUnreadable, OSError):
        return True
    return gate is not None and gate.enabled
