"""What the arguments of `git commit` say about the content of the commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tandem.hooks.shell import Word

_WITH_VALUE = (
    "author", "cleanup", "date", "file", "fixup", "message", "pathspec-from-file", "reedit-message", "reuse-message",
    "squash", "template", "trailer",
)  # fmt: skip
_ALONE = (
    "ahead-behind", "all", "allow-empty", "allow-empty-message", "amend", "branch", "dry-run", "edit", "gpg-sign",
    "help", "include", "interactive", "long", "no-edit", "no-gpg-sign", "no-post-rewrite", "no-signoff", "no-status",
    "no-verify", "null", "only", "patch", "pathspec-file-nul", "porcelain", "quiet", "reset-author", "short", "signoff",
    "status", "untracked-files", "verbose", "verify",
)  # fmt: skip
_LETTERS = {
    "a": "all", "C": "reuse-message", "c": "reedit-message", "e": "edit", "F": "file", "h": "help", "i": "include",
    "m": "message", "n": "no-verify", "o": "only", "p": "patch", "q": "quiet", "S": "gpg-sign", "s": "signoff",
    "t": "template", "u": "untracked-files", "v": "verbose", "z": "null",
}  # fmt: skip
_VALUE_ATTACHED = frozenset("Su")
_SHOWS_ONLY = frozenset({"dry-run", "help", "long", "porcelain", "short"})
_UNTOLD = frozenset({"interactive", "patch", "pathspec-from-file", "pathspec-file-nul"})


class CommitOptions(NamedTuple):
    """What of the arguments matters for the content.

    Attributes:
        all_tracked: `-a`: every tracked file as it is in the working tree.
        include: `-i`: the index, and the paths as they are in the working tree.
        paths: The paths; without `include` the commit has them alone.
        shows_only: Nothing would be committed: `--dry-run` and its like.
    """

    all_tracked: bool
    include: bool
    paths: tuple[str, ...]
    shows_only: bool


def parse(words: list[Word]) -> CommitOptions | None:
    """The arguments of a `git commit`; null if it cannot be told what would be in the commit."""
    said: set[str] = set()
    paths: list[str] = []
    rest = list(words)
    is_option = True
    while rest:
        word = rest.pop(0)
        if not word.is_certain:
            # A message may be joined to its option: -m"$(…)".
            if not (is_option and _has_joined_value(word.text)):
                return None
        elif not is_option or not word.text.startswith("-") or word.text == "-":
            paths.append(word.text)
        elif word.text == "--":
            is_option = False
        else:
            names, takes_next = _long(word.text) if word.text.startswith("--") else _short(word.text)
            if names is None:
                return None
            said.update(names)
            if takes_next and rest:
                del rest[0]
    if said & _UNTOLD:
        return None
    return CommitOptions("all" in said, "include" in said, tuple(paths), bool(said & _SHOWS_ONLY))


def _has_joined_value(text: str) -> bool:
    if text.startswith("--"):
        name, joined, _ = text.partition("=")
        return bool(joined) and _full_name(name.removeprefix("--")) in _WITH_VALUE
    return text.startswith("-m") and len(text) > len("-m")


def _long(text: str) -> tuple[tuple[str, ...] | None, bool]:
    """The option's full name, and whether its value is the next word."""
    name, joined, _ = text.removeprefix("--").partition("=")
    full = _full_name(name)
    if full is None:
        return None, False
    return (full,), full in _WITH_VALUE and not joined


def _full_name(name: str) -> str | None:
    """The option that a beginning stands for, as git takes it; null if that is none, or several."""
    known = (*_WITH_VALUE, *_ALONE)
    if name in known:
        return name
    meant = [one for one in known if one.startswith(name)]
    return meant[0] if len(meant) == 1 else None


def _short(text: str) -> tuple[tuple[str, ...] | None, bool]:
    """The options of several letters behind one hyphen, and whether the last one's value is the next word."""
    names: list[str] = []
    for at, letter in enumerate(text[1:], 1):
        name = _LETTERS.get(letter)
        if name is None:
            return None, False
        names.append(name)
        if letter in _VALUE_ATTACHED:
            break
        if name in _WITH_VALUE:
            return tuple(names), at == len(text) - 1
    return tuple(names), False
