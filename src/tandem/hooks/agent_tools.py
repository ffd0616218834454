"""The tools of each client that can commit or write a reviewed text, and what a call of one of them would do."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, cast

from tandem.hooks import writings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tandem.hooks.writings import Writing

_SHELLS = {
    "claude": ("Bash", "PowerShell"),
    "codex": ("Bash", "shell", "exec_command"),
    "gemini": ("run_shell_command",),
}
_WRITES = {"claude": ("Write",), "codex": (), "gemini": ("write_file",)}
_EDITS = {"claude": ("Edit", "MultiEdit"), "codex": (), "gemini": ("replace",)}
_PATCHES = {"claude": (), "codex": ("apply_patch",), "gemini": ()}
_PATCH_MARK = "*** Begin Patch"
_PLANNING = ".planning"
_WITHOUT_GIT_HOOKS = "gemini"
"""It switches git's hooks off for every command that it runs."""


def refusal(client: str, call: dict[str, Any], folder: str, *, strict: bool) -> list[str] | None:
    """Why a tool may not be used, and what to do; null if it may.

    Args:
        client: Whose call it is.
        call: The client's account of it.
        folder: Where the agent works.
        strict: Whether plans are asked for too.

    Raises:
        ValueError: The account lacks what the tool needs.
        Unclear: A patch cannot be read.
        GateUnreadable: Whether the gate is on cannot be read.
    """
    tool, given = call.get("tool_name"), call.get("tool_input")
    if not isinstance(tool, str) or not isinstance(given, dict):
        raise ValueError("the client's account of the call names no tool and input")  # noqa: TRY004 - as in agent.py
    arguments = cast("dict[str, Any]", given)
    if tool in _SHELLS[client]:
        return _command(client, arguments, folder, strict=strict)
    return _texts(_writings(client, tool, arguments, folder), strict=strict)


def _command(client: str, arguments: dict[str, Any], folder: str, *, strict: bool) -> list[str] | None:
    text = arguments.get("command")
    if isinstance(text, list) and text:
        # As older programs give it: the shell, its option, the text.
        text = cast("list[Any]", text)[-1]
    if not isinstance(text, str):
        raise ValueError("the client's account of the call has no command")  # noqa: TRY004 - as in agent.py
    folder = os.path.join(folder, arguments.get("dir_path") or "")
    if client == "codex" and _PATCH_MARK in text and (reasons := _texts(_shell_patches(text, folder), strict=strict)):
        return reasons
    if "review" in text and (reasons := _review(client, text, folder)) is not None:
        return reasons
    if not ("git" in text and ("commit" in text or client == _WITHOUT_GIT_HOOKS)):
        return None
    # Most commands make no commit, and need not pay for these.
    from tandem.hooks import agent_commits, shell_commits

    use = shell_commits.uses(text, folder)
    if client == _WITHOUT_GIT_HOOKS and (reasons := agent_commits.without_hooks(use, text, folder)) is not None:
        return reasons
    found = (agent_commits.refusal(commit) for commit in use.commits)
    return next((reasons for reasons in found if reasons is not None), None)


def _review(client: str, text: str, folder: str) -> list[str] | None:
    # Most commands review nothing, and need not pay for this.
    from tandem.hooks import agent_reviews

    return agent_reviews.refusal(client, text, folder)


def _shell_patches(text: str, folder: str) -> Iterator[Writing]:
    """The patches that a command hands to `apply_patch`, which Codex then takes as calls of its tool."""
    from tandem.hooks import shell

    try:
        items = shell.read(text)
    except shell.Unreadable:
        yield from writings.patched(text, folder)
        return
    for item in items:
        words = [word.text for word in item.words] if isinstance(item, shell.Command) else []
        if words[:1] == ["cd"] and len(words) > 1:
            folder = os.path.join(folder, words[1])
        if isinstance(item, shell.Command):
            for given in (*words, *(one.target.text for one in item.redirections)):
                yield from writings.patched(given, folder)


def _writings(client: str, tool: str, arguments: dict[str, Any], folder: str) -> Iterator[Writing]:
    if tool in _PATCHES[client]:
        yield from writings.patched(_stated(arguments, "command"), folder)
    elif tool in _WRITES[client]:
        yield writings.whole(os.path.join(folder, _stated(arguments, "file_path")), _stated(arguments, "content"))
    elif tool in _EDITS[client]:
        edits: list[dict[str, Any]] = arguments.get("edits", [arguments])
        for edit in edits:
            _stated(edit, "old_string")
            _stated(edit, "new_string")
        yield writings.edited(os.path.join(folder, _stated(arguments, "file_path")), edits)


def _texts(written: Iterable[Writing], *, strict: bool) -> list[str] | None:
    for writing in written:
        if _PLANNING not in writing.path.lower():
            continue
        # Most files are none that are reviewed before they are written, and need not pay for this.
        from tandem.hooks import agent_texts

        if (reasons := agent_texts.refusal(writing, strict=strict)) is not None:
            return reasons
    return None


def _stated(arguments: dict[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str):
        raise ValueError(f"the client's account of the call has no {name}")  # noqa: TRY004 - as in agent.py
    return value
