"""What a shell command would do with git, told from its words alone: above all which commits it would make, of what.

A commit is certain as long as everything in front of it is known to leave files, index and approvals alone, or is a
`git add` that can be tried out. Of every other nothing is claimed: the git hook judges it when it is made.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from tandem.hooks import commit_options
from tandem.hooks.shell import Command, Item, Unreadable, Word, read

_RESERVED = frozenset({"if", "then", "else", "elif", "while", "until", "do", "!", "{", "}", "fi", "done", "esac"})
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
_PASSING_ON = frozenset({"command", "builtin", "exec", "nohup", "time"})
_HARMLESS = frozenset(
    {":", "[", "[[", "basename", "cat", "date", "dirname", "echo", "export", "false", "grep", "head", "ls", "printf",
     "pwd", "readlink", "rg", "set", "sleep", "tail", "test", "true", "type", "umask", "unset", "wc", "which"}
)  # fmt: skip
_GIT_LOOKS = frozenset(
    {"blame", "cat-file", "check-ignore", "describe", "diff", "fetch", "for-each-ref", "grep", "help", "log",
     "ls-files", "ls-remote", "ls-tree", "merge-base", "name-rev", "push", "reflog", "rev-list", "rev-parse",
     "shortlog", "show", "show-ref", "status", "tag", "var", "version"}
)  # fmt: skip
_HOOKS_PATH = "core.hookspath"
_GIT_VALUES = frozenset({"-c", "--config-env", "--exec-path", "--attr-source"})
_GIT_FLAGS = frozenset(
    {"-p", "--paginate", "-P", "--no-pager", "--no-optional-locks", "--no-advice", "--no-lazy-fetch"}
)
_ADD_FLAGS = frozenset({"-A", "--all", "-u", "--update", "-f", "--force", "-v", "--verbose", "--no-ignore-removal"})
# What only says who and when, or how it is shown.
_GIT_VARIABLES = (
    "GIT_AUTHOR_",
    "GIT_COMMITTER_",
    "GIT_EDITOR",
    "GIT_PAGER",
    "GIT_SEQUENCE_EDITOR",
    "GIT_TERMINAL_PROMPT",
)
_NOWHERE = frozenset({"/dev/null", "/dev/stderr", "/dev/stdout", "/dev/tty"})
_DEEPEST = 5


class Adding(NamedTuple):
    """A `git add` in front of a commit, of a kind that can be tried out.

    Attributes:
        folder: Where it is run.
        arguments: What follows `git add`; null if they are not certain.
    """

    folder: str
    arguments: tuple[str, ...] | None


class Commit(NamedTuple):
    """A `git commit`.

    Attributes:
        folder: Where it is run.
        options: What its arguments say; null if that cannot be told.
        added: What is added to the index before it.
    """

    folder: str
    options: commit_options.CommitOptions | None
    added: tuple[Adding, ...]


class GitCall(NamedTuple):
    """A call of git, whatever is known of the rest.

    Attributes:
        name: The command, e.g. `merge`.
        folder: Where it is run; null if that cannot be told.
        hooks_path: The folder of hooks that it is told to use; null if it is told none.
    """

    name: str
    folder: str | None
    hooks_path: str | None


class GitUse(NamedTuple):
    """What a command does with git.

    Attributes:
        commits: The commits that can be judged before it runs; those that cannot are not among them.
        calls: Every call that is seen.
        is_readable: Whether the command could be read at all; if not, both are empty.
    """

    commits: tuple[Commit, ...]
    calls: tuple[GitCall, ...]
    is_readable: bool


def uses(text: str, folder: str) -> GitUse:
    """What a command does with git.

    Args:
        text: The command, for a POSIX shell.
        folder: Where it would be run, absolute.
    """
    walk = _Walk(folder)
    try:
        walk.text(text, 0)
    except Unreadable:
        # Half of it would be a guess.
        return GitUse((), (), is_readable=False)
    return GitUse(tuple(walk.found), tuple(walk.calls), is_readable=True)


class _Walk:
    """Goes through the commands in their order, and knows what is still certain."""

    def __init__(self, folder: str) -> None:
        self.found: list[Commit] = []
        self.calls: list[GitCall] = []
        self._folder: str | None = folder
        self._added: list[Adding] = []
        self._is_certain = True

    def text(self, text: str, depth: int) -> None:
        if depth > _DEEPEST:
            raise Unreadable("it is nested too deeply")
        self._items(read(text), depth)

    def _items(self, items: list[Item], depth: int) -> None:
        outer: list[str | None] = []
        for item in items:
            if isinstance(item, Command):
                self._items(item.inner, depth)
                self._command(item, depth)
            elif item == "(":
                outer.append(self._folder)
            elif outer:
                self._folder = outer.pop()

    def _command(self, command: Command, depth: int) -> None:
        words, variables = _program(command.words)
        if not words:
            # Assignments alone hold for what follows.
            self._is_certain = self._is_certain and not _steers_git(variables) and not _writes(command)
            return
        name = os.path.basename(words[0].text).removesuffix(".exe")
        rest = words[1:]
        if not words[0].is_certain:
            self._is_certain = False
        elif name == "git":
            self._git(rest, steered=_steers_git(variables))
        elif name in {"cd", "pushd", "popd"}:
            self._folder = self._below(rest[0]) if name != "popd" and len(rest) == 1 else None
        elif name in _SHELLS or name == "eval":
            self._shell(name, rest, depth)
        elif name not in _HARMLESS:
            self._is_certain = False
        if name != "git" and _writes(command):
            self._is_certain = False

    def _below(self, word: Word) -> str | None:
        if self._folder is None or not word.is_certain or word.text.startswith("-"):
            return None
        return os.path.normpath(os.path.join(self._folder, word.text))

    def _shell(self, name: str, rest: list[Word], depth: int) -> None:
        """`bash -c '…'`, which may also be one of several letters, e.g. `-lc`."""
        if not all(word.is_certain for word in rest):
            self._is_certain = False
        elif name == "eval":
            self.text(" ".join(word.text for word in rest), depth + 1)
        elif len(rest) > 1 and rest[0].text.startswith("-") and rest[0].text.endswith("c"):
            folder = self._folder
            self.text(rest[1].text, depth + 1)
            self._folder = folder
        else:
            self._is_certain = False

    def _git(self, words: list[Word], *, steered: bool) -> None:
        folder = self._folder
        hooks_path: str | None = None
        at = 0
        while at < len(words) and words[at].is_certain and words[at].text.startswith("-"):
            option = words[at].text
            if option == "-C" and at + 1 < len(words):
                self._folder, before = folder, self._folder
                folder = self._below(words[at + 1])
                self._folder = before
                at += 2
            elif option in _GIT_VALUES:
                setting = words[at + 1].text if at + 1 < len(words) else ""
                name, _, value = setting.partition("=")
                hooks_path = value if name.lower() == _HOOKS_PATH else hooks_path
                at += 2
            elif option in _GIT_FLAGS or option.startswith("--exec-path="):
                at += 1
            else:
                # Another repository or index: `--git-dir` and its like.
                steered = True
                at += 1
        if at >= len(words) or not words[at].is_certain:
            self._is_certain = False
            return
        folder = None if steered else folder
        self.calls.append(GitCall(words[at].text, folder, hooks_path))
        self._subcommand(words[at].text, words[at + 1 :], folder)

    def _subcommand(self, name: str, arguments: list[Word], folder: str | None) -> None:
        if name == "commit":
            if self._is_certain and folder is not None:
                self.found.append(Commit(folder, commit_options.parse(arguments), tuple(self._added)))
            # What comes after it depends on whether it was made.
            self._is_certain = False
        elif name in {"add", "stage"} and folder is not None:
            self._added.append(Adding(folder, _add_arguments(arguments)))
        elif name not in _GIT_LOOKS:
            self._is_certain = False


def _program(words: list[Word]) -> tuple[list[Word], list[str]]:
    """The words from the program on, and the names of the variables that are set for it."""
    rest = list(words)
    variables: list[str] = []
    while rest:
        text = rest[0].text
        name, is_assignment, _ = text.partition("=")
        if is_assignment and name.isidentifier():
            variables.append(name)
        elif not (rest[0].is_certain and (text in _RESERVED or text in _PASSING_ON or text == "env")):
            break
        del rest[0]
        if text in _PASSING_ON or text == "env":
            while rest and rest[0].text in {"-p", "-i", "--"}:
                del rest[0]
    return rest, variables


def _steers_git(variables: list[str]) -> bool:
    """Whether one of these variables makes git use another repository, index or configuration."""
    return any(
        (name.startswith("GIT_") and not name.startswith(_GIT_VARIABLES)) or name in {"HOME", "XDG_CONFIG_HOME"}
        for name in variables
    )


def _writes(command: Command) -> bool:
    """Whether a command's output goes into a file."""
    for one in command.redirections:
        is_stream = one.operator == ">&" and one.target.text.isdigit()
        if ">" in one.operator and one.target.text not in _NOWHERE and not is_stream:
            return True
    return False


def _add_arguments(words: list[Word]) -> tuple[str, ...] | None:
    """The arguments of a `git add` that can be tried out; null if they are not certain, or it asks questions."""
    flags = True
    for word in words:
        if not word.is_certain:
            return None
        if flags and word.text == "--":
            flags = False
        elif flags and word.text.startswith("-") and word.text not in _ADD_FLAGS:
            return None
    return tuple(word.text for word in words)
