"""The texts of the hooks that git starts: POSIX shell, which git brings along on Windows.

Each calls the hook that was there before, then the gate. What need not start Python does not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MARK = "# Tandem's gate: "
"""Begins the second line of every script of ours; what follows is the hook's name."""

GATES = ("prepare-commit-msg", "reference-transaction", "pre-push")
"""Hooks that can refuse."""

RECORDERS = ("post-commit", "post-rewrite")
"""Hooks that write down what was done."""

OURS = (*GATES, *RECORDERS)
_READERS = ("reference-transaction", "pre-push", "post-rewrite")
"""Those of ours that git tells something on standard input."""

OTHERS = (
    "applypatch-msg",
    "commit-msg",
    "post-applypatch",
    "post-checkout",
    "post-index-change",
    "post-merge",
    "post-receive",
    "post-update",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-rebase",
    "pre-receive",
    "sendemail-validate",
    "update",
)
"""Every other hook of git whose mere presence changes nothing."""

TELLING = ("proc-receive", "push-to-checkout")
"""Hooks by whose presence git does something else: passed on only where there was one."""

_PROGRAM = """\
import sys
sys.path.insert(0, {source!r})
try:
    from tandem.hooks.main import main
except ImportError:
    sys.exit("tandem: {refused}Tandem is no longer at " + {source!r} + ". {mend}")
main()"""
_MEND = "Install it again, then run 'tandem gate on'; or take the hooks away that say so in {folder}."


@dataclass(frozen=True, slots=True)
class Setting:
    """What all scripts of one installation have in common.

    Attributes:
        python: The interpreter.
        source: The folder that has the package.
        branches: The base branches.
        folder: Where the scripts are, for the person who must take them away without Tandem.
        tandem: Tandem's folder of the git folder, as seen from the script's own.
    """

    python: str
    source: str
    branches: tuple[str, ...]
    folder: str
    tandem: str


def script(name: str, setting: Setting, chained: str) -> bytes:
    """The script of one hook.

    Args:
        name: The hook.
        setting: What all have in common.
        chained: A shell word for the hook to call first; it need not exist.
    """
    lines = ["#!/bin/sh", f"{MARK}{name}. 'tandem gate off' takes it away.", "here=${0%/*}", f"chained={chained}"]
    if name not in OURS:
        return _text([*lines, 'if [ -f "$chained" ] && [ -x "$chained" ]; then exec "$chained" "$@"; fi', "exit 0"])
    if name in _READERS:
        lines += _reading(name, setting)
    else:
        lines += ['if [ -f "$chained" ] && [ -x "$chained" ]; then "$chained" "$@" || exit $?; fi']
    if name in RECORDERS:
        lines += [f'[ -e "$here/{setting.tandem}/recording" ] || exit 0']
    return _text([*lines, *_judging(name, setting)])


def is_ours(content: bytes) -> bool:
    """Whether a hook is one of these scripts."""
    return content.startswith(b"#!/bin/sh\n" + MARK.encode())


def quoted(text: str) -> str:
    """A text as one word of the shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def _reading(name: str, setting: Setting) -> list[str]:
    """Both hooks are told the same on standard input."""
    lines: list[str] = []
    if name == "reference-transaction":
        # Called several times a commit: what does not concern anybody ends here.
        lines += ['if [ "$1" != prepared ] && ! [ -x "$chained" ]; then exit 0; fi']
    lines += [
        # The letter keeps the last line end, which the shell would drop.
        "input=$(cat; printf x)",
        "input=${input%x}",
        'if [ -f "$chained" ] && [ -x "$chained" ]; then',
        '    printf \'%s\' "$input" | "$chained" "$@" || exit $?',
        "fi",
    ]
    if name == "reference-transaction":
        wanted = [_any_case(f"refs/heads/{branch}") for branch in setting.branches]
        pattern = "|".join(f"*{one}*" for one in [*wanted, _any_case("refs/tandem/")])
        lines += ['[ "$1" = prepared ] || exit 0', f"case $input in {pattern}) ;; *) exit 0 ;; esac"]
    return lines


def _judging(name: str, setting: Setting) -> list[str]:
    refused = "refused: " if name in GATES else ""
    mend = _MEND.format(folder=setting.folder)
    program = _PROGRAM.format(source=setting.source, refused=refused, mend=mend.replace('"', "'"))
    gone = f"tandem: {refused}the Python of the gate is no longer at {setting.python}. {mend}"
    told = "printf '%s' \"$input\" | " if name in _READERS else "exec "
    return [
        f"python={quoted(setting.python)}",
        'if ! [ -x "$python" ]; then',
        f"    printf '%s\\n' {quoted(gone)} >&2",
        f"    exit {int(name in GATES)}",
        "fi",
        f'{told}"$python" -I -S -c {quoted(program)} {name} "$@"',
    ]


def _any_case(text: str) -> str:
    """A pattern of the shell; on some systems two names that differ in case are one file."""
    return "".join(_one_case(letter) for letter in re.sub(r"[^\x20-\x7e]+", "\0", text))


def _one_case(letter: str) -> str:
    if letter == "\0":
        return "*"
    if letter.isalpha():
        return f"[{letter.lower()}{letter.upper()}]"
    return letter if letter.isdigit() or letter in "/_-." else quoted(letter)


def _text(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()
