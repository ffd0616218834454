"""Shell commands of an agent that are refused before they run: what is a person's, and a review of its own work.

Git's hooks judge what is committed, so all that is looked for is what would pass them by: git without its hooks, an
override, and changes of the gate's own files. The command is taken apart into words and nothing more: what hides in a
script or a variable is not seen here, and is found by the base branch's hook, the push or `tandem audit`.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from glob import glob
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from tandem.rulings import liveness, person, state
from tandem.rulings.ask import GateClient, Refused, Unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tandem.rulings.state import GateFile

_TOKEN = re.compile(r"""(?:[^\s;&|()`'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+|[;&|()`\n]""", re.DOTALL)
_QUOTED = re.compile(r"""\\(.)|'([^']*)'|"((?:[^"\\]|\\.)*)\"""", re.DOTALL)
_ENDS = frozenset(";&|()`\n")
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh", "fish", "eval", "pwsh", "powershell", "cmd", "busybox", "at"})
_CODE = re.compile(r"(?:python|pypy|perl|ruby|node|nodejs|php|deno|bun)[0-9.]*")
_FED = _SHELLS | {"parallel", "ssh", "su", "wsl", "xargs"}
"""What runs the commands that it reads."""
_RUNNERS = _FED | {
    "chroot", "docker", "env", "expect", "find", "flock", "nix-shell", "npx", "podman", "runuser", "screen", "script",
    "setsid", "sg", "sudo", "timeout", "tmux", "unshare", "watch",
}  # fmt: skip
"""What may run a text that it is given as a command. To every other program a word in quotes is only a text."""
_READERS = frozenset({
    "[", "awk", "bat", "case", "cat", "cd", "cut", "diff", "du", "echo", "egrep", "fgrep", "file", "for", "grep",
    "head", "jq", "less", "ls", "man", "md5sum", "more", "nl", "od", "printf", "pwd", "readlink", "realpath", "rg",
    "sha256sum", "sort", "stat", "strings", "tail", "test", "tree", "type", "uniq", "wc", "which", "xxd",
})  # fmt: skip
"""What runs and changes nothing that its words name."""
_COPIES = frozenset({"cp", "install", "rsync", "scp"})
_REMOVES = frozenset({"chmod", "chown", "ln", "mv", "rm", "rmdir"})
_DEEPEST = 5
_PREFIXES = frozenset({
    "!", "{", "command", "do", "doas", "else", "env", "exec", "if", "nohup", "sudo", "then", "time", "while",
})  # fmt: skip
_SUBSTITUTED = re.compile(r"\$\(([^()]*)\)")
_HEREDOC = re.compile(r"""(?<!<)<<(?!<)-?[ \t]*(['"]?)([A-Za-z_][\w.-]*)\1""")

_OPTIONS_WITH_VALUE = frozenset(
    {"-C", "-c", "--config-env", "--git-dir", "--work-tree", "--namespace", "--attr-source"}
)
_HOOKS_PATH = "core.hookspath"
_INCLUDES = ("include.path", "includeif.")
_SECTIONS = frozenset({"--remove-section", "--rename-section", "remove-section", "rename-section"})
_NO_VERIFY = re.compile(r"--no-verif?y?")
_COMMITS_NO_VERIFY = re.compile(r"-[aeiopqsvz]*n[a-zA-Z]*")
_CONFIGURATION = re.compile(r"(?:\$env:)?(GIT_CONFIG[A-Z0-9_]*)=")
_NAMED_CONFIGURATION = re.compile(r"GIT_CONFIG[A-Z0-9_]*")
_GIT_DIR = re.compile(r"(?:\$env:)?GIT_(?:COMMON_)?DIR=(.+)", re.DOTALL)
_SETS = frozenset({"declare", "export", "set", "setenv", "typeset"})
_READS_CONFIGURATION = frozenset({"get", "--get", "--get-all", "--show-origin", "--show-scope", "list", "-l", "--list"})

_WITHOUT_HOOKS = "gemini"
"""The client that switches git's hooks off for every command that it runs."""
_HOOKED = frozenset({
    "am", "cherry-pick", "commit", "commit-tree", "fast-import", "merge", "pull", "push", "rebase", "revert",
    "update-ref",
})  # fmt: skip
"""What makes commits, or moves branches to them."""
_LOOKS = frozenset({
    "blame", "cat-file", "describe", "diff", "for-each-ref", "grep", "help", "log", "ls-files", "ls-remote", "ls-tree",
    "rev-list", "rev-parse", "shortlog", "show", "status", "version",
})  # fmt: skip
"""What calls no hook, whatever the configuration is."""

_OVERRIDES = re.compile(r"\$env:TANDEM_OVERRIDE\b|TANDEM_OVERRIDE=")
_PERSONS = frozenset({"off", "override", "record-override", "set"})
"""What of `tandem gate` is a person's."""
_LOOSENING = re.compile(r"--(?:accept|branch|broker|data-dir|no-strict|project|remove|signer)(?:=.*)?", re.DOTALL)
"""What of `tandem gate on` and `server-hook` is a person's as well, and the variables that say whom they ask."""
_ELSEWHERE = re.compile(r"\bTANDEM_(?:BROKER|CONFIG_DIR|DATA_DIR)\b")
_CALLS = re.compile(r"\S*/api/v1/(?:override_gate|set_gate)\b\S*")
_KEYS = frozenset({"person.key", "secret.key"})
_UNKNOWN_FOLDER = re.compile(r"--git-(?:common-)?dir[)`\"']*[/\\]+tandem\b|GIT_(?:COMMON_)?DIR\}?[/\\]+tandem\b")
"""The gate's folder, by a git folder that only the shell knows."""

_REVIEWS = re.compile(r"\breview\s+(?:claim|verdict)\b|\b(?:claim_review|submit_verdict)\b")
_REVIEW_ID = re.compile(r"\brv_[0-9a-z]+")
_MOST_REVIEWS = 10
_AGENTS = {"claude": "claude-code"}


class _Git(NamedTuple):
    """A call of git.

    Attributes:
        folder: Where it runs.
        git_dir: The git folder that was named; empty if none was.
        settings: What `-c` and its like set.
        name: Its command, e.g. `commit`.
        arguments: What follows that.
        configured: The variable in front of it that changes its configuration; empty without one.
    """

    folder: str
    git_dir: str
    settings: tuple[str, ...]
    name: str
    arguments: tuple[str, ...]
    configured: str

    @property
    def gate(self) -> GateFile | None:
        """The gate that is on where it runs; null if none is.

        Raises:
            GateUnreadable: Whether one is on cannot be read.
        """
        named = os.path.join(self.folder, self.git_dir)
        return state.find_enabled(self.folder) or (state.find_enabled(os.path.dirname(named)) if self.git_dir else None)


class _Command(NamedTuple):
    """A simple command.

    Attributes:
        folder: Where it runs.
        words: Its words, without quotes.
        names: The same, as programs are named.
        configured: The variable in front of it, or set before it, that changes git's configuration; empty without one.
        is_code: Whether it is from the code of another language, so that only its first word is a program.
    """

    folder: str
    words: list[str]
    names: list[str]
    configured: str
    is_code: bool

    @property
    def own(self) -> list[str]:
        """The words up to git: what follows that is git's own, a message mostly."""
        return self.words[: self.names.index("git")] if "git" in self.names else self.words

    @property
    def program(self) -> str:
        """What runs, variables in front of it aside; empty if nothing does."""
        return _program(self.words)

    @property
    def is_text(self) -> bool:
        """Whether its words are only shown, searched or read."""
        in_place = self.program == "sed" and not any(word.startswith(("-i", "--in-place")) for word in self.words)
        looks = self.program == "find" and not {"-delete", "-exec", "-execdir", "-ok"} & {*self.words}
        return self.program in _READERS or in_place or looks


def refusal(client: str, text: str, folder: str) -> list[str] | None:
    """Why a command may not be run, and what to do; null if it may.

    Args:
        client: Whose command it is.
        text: The command.
        folder: Where it would be run.

    Raises:
        GateUnreadable: Whether the gate is on cannot be read.
    """
    for command in _commands(text, folder):
        reasons = None if command.is_text else _persons(command, text, folder)
        reasons = reasons or _gates_own(command, text)
        for call in _git_calls(command) if reasons is None and "git" in command.names else ():
            reasons = reasons or _passing_hooks_by(call, is_always=client == _WITHOUT_HOOKS and call.name in _HOOKED)
            reasons = reasons or _silenced(call)
        if reasons is not None:
            return reasons
    return _own_review(client, text, folder) if _REVIEWS.search(text) else None


def _persons(command: _Command, text: str, folder: str) -> list[str] | None:
    """Why a command is a person's; null if it is not.

    Args:
        command: The command.
        text: All that is run.
        folder: Where the agent works.
    """
    names, words = command.names, command.own
    said = None
    if any(map(_OVERRIDES.match, words)) or (
        "TANDEM_OVERRIDE" in words and (command.is_code or command.program in _SETS)
    ):
        said = "TANDEM_OVERRIDE"
    elif moved := next((word for word in words if _CONFIGURATION.match(word) and _HOOKS_PATH in word.lower()), None):
        said = moved.partition("=")[0] if "git" not in names else None
    elif "tandem" in names and "gate" in (rest := names[names.index("tandem") + 1 :]) and "--help" not in rest:
        verb = next((word for word in rest[rest.index("gate") + 1 :] if not word.startswith("-")), None)
        said = f"tandem gate {verb}" if verb in _PERSONS else None
        if verb in {"on", "server-hook"}:
            loosening = next(filter(_LOOSENING.fullmatch, words), None) or next(iter(_ELSEWHERE.findall(text)), None)
            said = f"tandem gate {verb} with {loosening}" if loosening else None
    said = said or next(filter(_CALLS.fullmatch, words), None)
    if said is None or (state.find_enabled(command.folder) or state.find_enabled(folder)) is None:
        return None
    return [
        f"{said}: to switch, to move or to override the gate is a person's decision, at their own terminal.",
        "Have the change approved instead, or stop and ask the person you work for.",
    ]


def _gates_own(command: _Command, text: str) -> list[str] | None:
    """Why a command may not touch the gate's own files; null if it does not."""
    is_git, last = command.program == "git", len(command.words) - 1
    for at, word in enumerate(command.words):
        # Behind a redirection, or the name of an option.
        is_target = ">" in word or (at > 0 and command.words[at - 1].endswith(">"))
        named = word.rpartition(">")[2] if is_git else word.rpartition(">")[2].rpartition("=")[2]
        here = re.sub(r"\$PWD\b|\$\{PWD\}", lambda _: command.folder, named)
        path = os.path.join(command.folder, os.path.expanduser(os.path.expandvars(here)))
        if not named or "\0" in path:
            continue
        if os.path.basename(path) in _KEYS and _is_key(path, command.folder):
            return [f"{named} is the key by which a person proves to the broker that they answered.", _ALONE]
        is_read = command.is_text or (command.program in _COPIES and at < last)
        meant = [path, *(glob(path) if "*" in named or "?" in named else ())]
        # Whoever removes the folder of the hooks removes each of them.
        meant += [os.path.join(path, state.HOOKS[0])] if command.program in _REMOVES else []
        if (is_target or not is_read) and any(map(state.own_gate, meant)):
            return [f"{named} is the gate's own, and no part of your work.", _ALONE]
    is_unknown = not (command.is_text or is_git) and _UNKNOWN_FOLDER.search(text) is not None
    if is_unknown and not command.program.startswith("/tandem") and state.find_enabled(command.folder) is not None:
        return ["The gate's own files are no part of your work.", _ALONE]
    return None


_ALONE = (
    "Leave it alone: 'tandem gate status' shows what it holds, and a person changes it with 'tandem gate on' or 'off'."
)


def _is_key(path: str, folder: str) -> bool:
    gate = state.find_enabled(folder)
    return gate is not None and os.path.realpath(os.path.dirname(path)) == os.path.realpath(gate.data_dir)


def _passing_hooks_by(call: _Git, *, is_always: bool) -> list[str] | None:
    """Why git would not call the gate's hooks; null if nothing speaks for that."""
    paths = [one.partition("=")[2] for one in call.settings if one.lower().startswith(_HOOKS_PATH)]
    off = next(_switches(call), "a core.hooksPath of its own" if paths else None)
    gate = call.gate if off is not None or is_always else None
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


def _silenced(call: _Git) -> list[str] | None:
    """Why git would not call the gate's hooks though nothing of the call says so; null if it would."""
    gate = call.gate if call.name in _HOOKED else None
    problem = liveness.silenced(gate) if gate is not None else None
    return [problem, "Run that first; then this again."] if problem is not None else None


def _switches(call: _Git) -> Iterator[str]:
    """What of a call, beside `-c`, switches git's hooks off."""
    if call.configured and call.name not in _LOOKS:
        yield call.configured
    for setting in call.settings:
        if setting.lower().startswith(_INCLUDES):
            yield setting
    for word in call.arguments:
        if word == "--":
            return
        if _NO_VERIFY.fullmatch(word) or (call.name == "commit" and _COMMITS_NO_VERIFY.fullmatch(word)):
            yield word
        is_named = word.lower() == _HOOKS_PATH or word.lower().startswith(_INCLUDES)
        if call.name == "config" and is_named and _is_changed(call.arguments):
            yield word
        if call.name == "config" and word in _SECTIONS and "core" in call.arguments:
            yield word


def _is_changed(arguments: Sequence[str]) -> bool:
    """Whether the arguments of a `git config` that names a setting change it."""
    last = arguments[-1].lower()
    is_named_last = last == _HOOKS_PATH or last.startswith(_INCLUDES)
    is_asked = is_named_last and not any("unset" in word for word in arguments)
    return not is_asked and _READS_CONFIGURATION.isdisjoint(arguments)


def _commands(text: str, folder: str, depth: int = 0, *, is_code: bool = False) -> Iterator[_Command]:
    """The simple commands of a text, also those in a text that another one runs."""
    outer: list[str] = []
    exported = ""
    text, bodies = _without_heredocs(text)
    segments = list(_segments(text))
    for at, (words, end) in enumerate(segments):
        names = [os.path.basename(word).removesuffix(".exe") for word in words]
        command = _Command(folder, words, names, exported, is_code)
        found = (match[1] for word in command.own if (match := _CONFIGURATION.match(word)) is not None)
        command = command._replace(configured=next(found, exported))
        if words:
            yield command
        is_piped = end == "|" and _program(segments[at + 1][0]) in _SHELLS
        for inner, code in _inner_texts(command, is_piped=is_piped) if depth < _DEEPEST else ():
            yield from _commands(inner, folder, depth + 1, is_code=code)
        if command.program in {"cd", "pushd"}:
            folder = os.path.join(folder, *words[names.index(command.program) + 1 :][:1])
        elif command.program in _SETS or not command.program:
            exported = next((word for word in words if _NAMED_CONFIGURATION.fullmatch(word)), command.configured)
        if end == "(":
            outer.append(folder)
        elif end == ")" and outer:
            folder = outer.pop()
    for body in bodies if depth < _DEEPEST else ():
        yield from _commands(body, folder, depth + 1)


def _inner_texts(command: _Command, *, is_piped: bool) -> Iterator[tuple[str, bool]]:
    """The words of a command that are run themselves, and whether they are code of another language."""
    for word in command.words:
        yield from ((inner, False) for inner in _SUBSTITUTED.findall(word))
    names = command.names[: len(command.own)]
    is_code = command.is_code or any(map(_CODE.fullmatch, names))
    if is_piped or ((is_code or not _RUNNERS.isdisjoint(names)) and command.program not in _READERS):
        for word in command.own:
            if " " in word or (is_code and ("(" in word or "[" in word)):
                yield (word.translate(_BRACKETS) if is_code else word), is_code


_BRACKETS = str.maketrans("[],", "   ")


def _without_heredocs(text: str) -> tuple[str, list[str]]:
    """A text without what it writes out as the input of commands, and of that what may be run."""
    kept: list[str] = []
    run: list[str] = []
    lines = text.split("\n")
    while lines:
        line = lines.pop(0)
        kept.append(line)
        for found in _HEREDOC.finditer(line):
            end = next((at for at, one in enumerate(lines) if one.strip() == found[2]), None)
            if end is not None:
                body, lines = lines[:end], lines[end + 1 :]
                run += ["\n".join(body)] if not _FED.isdisjoint(map(os.path.basename, line.split())) else []
    return "\n".join(kept), run


def _program(words: Sequence[str]) -> str:
    """What some words start; empty if they only set variables."""
    named = next((word for word in words if "=" not in word and word not in _PREFIXES), "")
    return os.path.basename(named).removesuffix(".exe")


def _git_calls(command: _Command) -> Iterator[_Git]:
    """The call of git in a command, and the one that an alias stands for which it defines."""
    before = command.own
    if command.program in _READERS or (command.is_code and any("=" not in word for word in before)):
        return
    git_dir = next((match[1] for word in before if (match := _GIT_DIR.match(word)) is not None), "")
    call = _git_call(command.words[len(before) + 1 :], command.folder, git_dir, command.configured)
    if call is None:
        return
    yield call
    aliases = [setting.partition("=")[2] for setting in call.settings if setting.lower().startswith("alias.")]
    if call.name == "config" and any(word.lower().startswith("alias.") for word in call.arguments):
        aliases.append(call.arguments[-1])
    for meaning in aliases:
        for inner in _commands(meaning.removeprefix("!") if meaning[:1] == "!" else f"git {meaning}", call.folder, 1):
            if "git" in inner.names and inner.words != command.words:
                yield from _git_calls(inner)


def _git_call(words: Sequence[str], folder: str, git_dir: str, configured: str) -> _Git | None:
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
        elif option == "--git-dir":
            git_dir = value
        elif option in {"-c", "--config-env"}:
            settings.append(value)
        at += 1
    if at >= len(words):
        return None
    return _Git(folder, git_dir, tuple(settings), words[at], tuple(words[at + 1 :]), configured)


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
    with GateClient(gate, starts=True) as asker, suppress(Unreachable, Refused):
        for review_id in ids:
            by = person.shared(own, asker.call("get_proposal", review_id=review_id, files=[]))
            if by is not None:
                return [person.not_to_review(review_id, by)]
    return None
