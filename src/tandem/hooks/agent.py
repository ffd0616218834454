"""What agents call before they use a tool: Claude Code's and Codex's `PreToolUse`, Gemini CLI's `BeforeTool`.

Exit status 2 with the reason on standard error keeps the tool from running, in all three. A commit is left to git's
own hooks, which hold and say why. Where no gate is on, nothing is asked and nothing is said.
"""

from __future__ import annotations

import json
import os
import shlex
import sys

from tandem.core.stand_ins import cast
from tandem.core.visible import say
from tandem.rulings import state

TYPE_CHECKING = False  # as in `rulings.git`
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

PASSES = 0
REFUSED = 2
CLIENTS = ("claude", "codex", "gemini")
_ADVICE = (
    "The gate stays closed until that is repaired. Look with 'tandem gate status', and tell the person who works here."
)
_SHELLS = frozenset({"Bash", "PowerShell", "shell", "exec_command", "run_shell_command"})
_WRITES = frozenset({"Write", "Edit", "MultiEdit", "write_file", "replace"})
_PATCH_MARK = "*** Begin Patch"
_GUARDED = (".planning", "git", "tandem")
_LOOKED_FOR = ("tandem", "git", "override", "review", "set_gate", "person.key", "secret.key")
_QUOTES = str.maketrans("", "", "\"'\\")


def main(arguments: Sequence[str]) -> int:
    """Judge the tool call on standard input; answers with the exit status.

    Args:
        arguments: `--client NAME`.
    """
    folder = os.getcwd()
    try:
        client = _client(arguments)
        call: dict[str, Any] = json.load(sys.stdin.buffer)
        folder = call.get("cwd") or folder
        reasons = _refusal(client, call, folder)
    except state.GateUnreadable as error:
        reasons = [str(error)]
    except Exception as error:  # noqa: BLE001 - the edge: an error in a gate never lets anything pass
        if not _may_be_on(folder):
            return PASSES
        reasons = [f"Whether this is approved cannot be found out: {type(error).__name__}: {error}", _ADVICE]
    if reasons is None:
        return PASSES
    say(f"refused: {reasons[0]}", *reasons[1:])
    return REFUSED


def _client(arguments: Sequence[str]) -> str:
    if len(arguments) != len(("--client", "NAME")) or arguments[0] != "--client" or arguments[1] not in CLIENTS:
        raise ValueError(f"the hook has to be called with --client and one of {', '.join(CLIENTS)}")
    return arguments[1]


def _refusal(client: str, call: dict[str, Any], folder: str) -> list[str] | None:
    """Why a tool may not be used, and what to do; None if it may.

    What the account lacks or has of another kind ends in an error, which `main` tells.
    """
    tool, given = call["tool_name"], call["tool_input"]
    text = whole = ""
    is_patch = tool == "apply_patch"
    if tool in _SHELLS:
        text = whole = given["command"]
        if isinstance(text, list):
            # As older programs give it: mostly the shell, its option, the text.
            stated = [str(word) for word in cast("list[Any]", text)]
            text, whole = stated[-1], shlex.join(stated)
        folder = os.path.join(folder, given.get("dir_path") or "")
        # Codex takes a command that patches as a call of its own tool.
        is_patch = client == "codex" and _PATCH_MARK in text
    places = state.places(os.path.join(folder, given["file_path"])) if tool in _WRITES else ()
    is_guarded = any(word in place.lower() for place in places for word in _GUARDED)
    bare = whole.lower().translate(_QUOTES)
    if not (is_patch or is_guarded or any(word in bare for word in _LOOKED_FOR)):
        return None
    # Most calls touch neither git nor a plan, and need not pay for these modules.
    from tandem.hooks import agent_commands, agent_files

    if whole and (reasons := agent_commands.refusal(client, whole, folder)) is not None:
        return reasons
    if whole and is_patch:
        tool, given = "apply_patch", {"command": text}
    return agent_files.refusal(tool, given, folder) if is_patch or is_guarded else None


def _may_be_on(folder: str) -> bool:
    """Whether a gate is on where the agent works; what cannot be read may be one."""
    try:
        return state.find_enabled(folder) is not None
    except (state.GateUnreadable, OSError):
        return True
