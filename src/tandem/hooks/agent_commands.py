"""Shell commands of an agent that are refused before they run: git without its hooks, and a review of its own work.

Git's hooks judge what is committed, so all that is looked for is a call of git that would pass them by. The command
is taken apart into words and nothing more: what hides in a script, an alias or a variable is not seen here, and is
found by the base branch's hook, the push or `tandem audit`.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from tandem.hooks import person, state
from tandem.hooks.ask import GateClient, Refused, Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TOKEN = re.compile(r"""(?:[^\s;&|()`'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+|[;&|()`\n]""", re.DOTALL)
_QUOTED = re.compile(r"""\\(.)|'([^']*)'|"((?:[^"\\]|\\.)*)\"""", re.DOTALL)
_ENDS = frozenset(";&|()`\n")
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh", "eval"})
_DEEPEST = 5

_OPTIONS_WITH_VALUE = frozenset(
    {"-C", "-c", "--config-env", "--git-dir", "--work-tree", "--namespace", "--attr-source"}
)
_HOOKS_PATH = "core.hookspath"
_NO_VERIFY = re.compile(r"--no-verif?y?")
_COMMITS_NO_VERIFY = re.compile(r"-[aeiopqsvz]*n[a-zA-Z]*")
_CONFIGURATION = re.compile(r"GIT_CONFIG[A-Z0-9_]*=")
_READS_CONFIGURATION = frozenset({"get", "--get", "--get-all", "--show-origin", "--show-scope", "list", "-l", "--list"})

_WITHOUT_HOOKS = "gemini"
"""The client that switches git's hooks off for every command that it runs."""
_HOOKED = frozenset({
    "am", "cherry-pick", "commit", "commit-tree", "fast-import", "merge", "pull", "push", "rebase", "revert",
    "update-ref",
})  # fmt: skip
"""What makes commits, or moves branches to them."""

_REVIEWS = re.compile(r"\breview\s+(?:claim|verdict)\b|\b(?:claim_review|submit_verdict)\b")
_REVIEW_ID = re.compile(r"\brv_[0-9a-z]+")
_MOST_REVIEWS = 10
_AGENTS = {"claude": "claude-code"}


class _Git(NamedTuple):
    """A call of git.

    Attributes:
        folder: Where it runs.
        settings: What `-c` and its like set.
        name: Its command, e.g. `commit`.
        arguments: What follows that.
        configured: The variable in front of it that changes its configuration; empty without one.
    """

    folder: str
    settings: tuple[str, ...]
    name: str
    arguments: tuple[str, ...]
    configured: str


def refusal(client: str, text: str, folder: str) -> list[str] | None:
    """Why a command may not be run, and what to do; null if it may.

    Args:
        client: Whose command it is.
        text: The command.
        folder: Where it would be run.

    Raises:
        GateUnreadable: Whether the gate is on cannot be read.
    """
    for call in _git_calls(text, folder) if "git" in text else ():
        reasons = _passing_hooks_by(call, is_always=client == _WITHOUT_HOOKS and call.name in _HOOKED)
        if reasons is not None:
            return reasons
    return _own_review(client, text, folder) if _REVIEWS.search(text) else None


def _passing_hooks_by(call: _Git, *, is_always: bool) -> list[str] | None:
    """Why git would not call the gate's hooks; null if nothing speaks for that."""
    paths = [one.partition("=")[2] for one in call.settings if one.lower().startswith(_HOOKS_PATH)]
    off = next(_switches(call), "a core.hooksPath of its own" if paths else None)
    gate = state.find_enabled(call.folder) if off is not None or is_always else None
    if gate is None:
        return None
    directory = gate.hooks.get("directory")
    if directory is not None and paths and os.path.realpath(paths[-1]) == os.path.realpath(directory):
        off, is_always = next(_switches(call), None), False
    if is_always:
        reason = f"This client switches git's hooks off, and git {call.name} has to be seen by the gate's."
        if directory is None:
            return [reason, "Where they are is not known here; a person has to run again: tandem gate on"]
        way = f"  git -c core.hooksPath={quote(directory)} {call.name} …"
        return [reason, "Switch them on for it, and nothing else changes:", way]
    if off is None:
        return None
    return [
        f"git {call.name} with {off} would pass by git's hooks, and the gate's are among them.",
        "Run it without that: when git's hooks refuse, they say why and what to do.",
    ]


def _switches(call: _Git) -> Iterator[str]:
    """What of a call, beside `-c`, switches git's hooks off."""
    if call.configured:
        yield call.configured
    for word in call.arguments:
        if word == "--":
            return
        if _NO_VERIFY.fullmatch(word) or (call.name == "commit" and _COMMITS_NO_VERIFY.fullmatch(word)):
            yield word
        if call.name == "config" and word.lower() == _HOOKS_PATH and _is_changed(call.arguments):
            yield word


def _is_changed(arguments: Sequence[str]) -> bool:
    """Whether the arguments of a `git config` that names a setting change it."""
    is_named_last = arguments[-1].lower() == _HOOKS_PATH and not any("unset" in word for word in arguments)
    return not is_named_last and _READS_CONFIGURATION.isdisjoint(arguments)


def _git_calls(text: str, folder: str, depth: int = 0) -> Iterator[_Git]:
    """The calls of git in a command."""
    outer: list[str] = []
    exported = ""
    for words, end in _segments(text):
        names = [os.path.basename(word).removesuffix(".exe") for word in words]
        configured = next((word.partition("=")[0] for word in words if _CONFIGURATION.match(word)), exported)
        if "git" in names:
            found = _git_call(words[names.index("git") + 1 :], folder, configured)
            yield from [] if found is None else [found]
        elif not _SHELLS.isdisjoint(names) and depth < _DEEPEST:
            for word in words:
                yield from _git_calls(word, folder, depth + 1) if " " in word else ()
        elif names[:1] == ["cd"]:
            folder = os.path.join(folder, *words[1:2])
        elif names[:1] == ["export"] or all("=" in word for word in words):
            exported = configured
        if end == "(":
            outer.append(folder)
        elif end == ")" and outer:
            folder = outer.pop()


def _git_call(words: Sequence[str], folder: str, configured: str) -> _Git | None:
    """The call that follows the word `git`; null if it names no command."""
    settings: list[str] = []
    at = 0
    while at < len(words) and words[at].startswith("-"):
        option, _, value = words[at].partition("=")
        if option in _OPTIONS_WITH_VALUE and not value:
            at += 1
            value = words[at] if at < len(words) else ""
        if option == "-C":
            folder = os.path.join(folder, value)
        elif option in {"-c", "--config-env"}:
            settings.append(value)
        at += 1
    return _Git(folder, tuple(settings), words[at], tuple(words[at + 1 :]), configured) if at < len(words) else None


def _segments(text: str) -> Iterator[tuple[list[str], str]]:
    """The words of each simple command without their quotes, and what ends it."""
    words: list[str] = []
    for token in _TOKEN.findall(text.replace("\\\n", " ")):
        if token in _ENDS:
            yield words, token
            words = []
        else:
            words.append(_QUOTED.sub(lambda match: "".join(part or "" for part in match.groups()), token))
    yield words, ""


def _own_review(client: str, text: str, folder: str) -> list[str] | None:
    """Why the agent may not review; null if it did not propose what it names."""
    ids = list(dict.fromkeys(_REVIEW_ID.findall(text)))[:_MOST_REVIEWS]
    gate = state.find_enabled(folder) if ids else None
    own = person.origin(gate.place.top or folder, _AGENTS.get(client, client)) if gate is not None else None
    if gate is None or own is None:
        return None
    # What the broker does not answer now, it does not take from the command either.
    with GateClient(gate) as asker, suppress(Unreachable, Refused):
        for review_id in ids:
            by = person.shared(own, asker.call("get_proposal", review_id=review_id, files=[]))
            if by is not None:
                return [person.not_to_review(review_id, by)]
    return None
