"""The scripts that git starts: which hooks there are, and what is in each of the gate's.

They are for the POSIX shell, which git brings along on Windows. Each calls the hook that was there before, then the
gate; what need not start Python does not.
"""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from tandem.rulings.liveness import MARK, PRE_COMMIT
from tandem.rulings.state import JUDGED

GATES = ("prepare-commit-msg", "reference-transaction", "pre-push")
"""Hooks that can refuse."""

RECORDERS = ("post-commit", "post-rewrite")
"""Hooks that write down what was done."""

OURS = (*GATES, *RECORDERS)

ON_SERVER = ("pre-receive",)
"""What a bare repository gets, which others push to; it refuses as well."""

_READERS = ("reference-transaction", "pre-push", "post-rewrite", *ON_SERVER)
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

EVERY = (*OURS, *OTHERS, *TELLING)

SOURCE = Path(__file__).resolve().parents[2]
"""The folder that has the package."""

_PROGRAM = """\
import sys
sys.path.insert(0, {source!r})
try:
    from tandem.hooks.main import main
except ImportError:
    sys.exit("tandem: {refused}Tandem is no longer at " + {source!r} + ". {mend}")
main()"""
_MEND = "Install it again, then run '{on}'; or take the hooks away that say so in {folder}."


@dataclass(frozen=True, slots=True)
class Setting:
    """What all scripts of one installation have in common.

    Attributes:
        branches: The base branches.
        folder: Where the scripts are, for the person who must take them away without Tandem.
        tandem: Tandem's folder of the git folder, as seen from the script's own.
        hooks: Those that do more than to call the former hook.
        on: The command that installs them, and installs them again.
        off: The command that takes them away.
    """

    branches: tuple[str, ...]
    folder: str
    tandem: str
    hooks: tuple[str, ...] = OURS
    on: str = "tandem gate on"
    off: str = "tandem gate off"


def script(name: str, setting: Setting, chained: str) -> bytes:
    """The script of one hook.

    Args:
        name: The hook.
        setting: What all have in common.
        chained: A shell word for the hook to call first; it need not exist.
    """
    lines = [
        "#!/bin/sh",
        f"{MARK}{name}. '{setting.off}' takes it away.",
        "here=${0%/*}",
        f"chained={chained}",
        # Where pre-commit calls ours, it refuses to be called in turn: what is left is what it had found itself.
        f'if [ -n "$PRE_COMMIT_RUNNING_LEGACY" ] && grep -q "{PRE_COMMIT.decode()}" "$chained" 2>/dev/null; then',
        "    chained=$chained.legacy",
        "fi",
    ]
    if name not in setting.hooks:
        return _text([*lines, 'if [ -f "$chained" ] && [ -x "$chained" ]; then exec "$chained" "$@"; fi', "exit 0"])
    if name in _READERS:
        lines += _reading(name, setting)
    else:
        lines += ['if [ -f "$chained" ] && [ -x "$chained" ]; then "$chained" "$@" || exit $?; fi']
    if name == "post-commit":
        lines += _missing()
    if name in RECORDERS:
        lines += [f'[ -e "$here/{setting.tandem}/recording" ] || exit 0']
    return _text([*lines, *_judging(name, setting)])


def _reading(name: str, setting: Setting) -> list[str]:
    """Both hooks are told the same on standard input."""
    # The letter keeps the last line end, which the shell would drop.
    rest = "$(cat; printf x)"
    if name == "reference-transaction":
        lines = [
            # Called twice for each ref that is fetched: what does not concern anybody ends here, and starts nothing.
            'if [ "$1" != prepared ] && ! [ -x "$chained" ]; then exit 0; fi',
            "end='\n'",
            "IFS= read -r line && input=$line$end || input=",
            f"if IFS= read -r line; then input=$input$line$end{rest}; input=${{input%x}}; fi",
        ]
    else:
        lines = [f"input={rest}", "input=${input%x}"]
    lines += [
        'if [ -f "$chained" ] && [ -x "$chained" ]; then',
        '    printf \'%s\' "$input" | "$chained" "$@" || exit $?',
        "fi",
    ]
    return lines + (_comparing(setting) if name == "reference-transaction" else [])


def _comparing(setting: Setting) -> list[str]:
    """Has a base branch judged; elsewhere the commit that git made has to have the tree that was judged before it."""
    pattern = "|".join(f'*" "{_any_case(f"refs/heads/{branch}")}"$end"*' for branch in setting.branches)
    swapped = (
        "tandem: refused: This commit is not what the gate has judged: a hook of this repository changed the index"
        " meanwhile, such as post-index-change or prepare-commit-msg. Look at them, then commit again."
    )
    return [
        '[ "$1" = prepared ] || exit 0',
        "tree=",
        f"judged=$here/{setting.tandem}/{JUDGED}/$PPID",
        'case $input in *" HEAD$end"*) if [ -s "$judged" ]; then read -r tree <"$judged"; : >"$judged"; fi ;; esac',
        f"case $input in {pattern}) ;; *)",
        '    [ -n "$tree" ] || exit 0',
        '    new=${input%%" HEAD$end"*}',
        '    made=$(GIT_NO_REPLACE_OBJECTS=1 git rev-parse --quiet --verify "${new##* }^{tree}")',
        '    [ "$made" = "$tree" ] && exit 0',
        f"    printf '%s\\n' {shlex.quote(swapped)} >&2",
        "    exit 1 ;;",
        "esac",
    ]


def _missing() -> list[str]:
    """Names the hooks that another tool has replaced, such as lefthook in the middle of a commit."""
    named = "tandem: Git does not start the gate's hook $hook: it was replaced. Install it again: tandem gate on"
    return [
        "for hook in prepare-commit-msg pre-push; do",
        f'    grep -qs "^{MARK}" "$here/$hook" "$here/$hook.legacy" || printf \'%s\\n\' "{named}" >&2',
        "done",
    ]


def _judging(name: str, setting: Setting) -> list[str]:
    can_refuse = name not in RECORDERS
    refused = "refused: " if can_refuse else ""
    mend = _MEND.format(on=setting.on, folder=setting.folder)
    python = Path(sys.executable).as_posix()
    program = _PROGRAM.format(source=SOURCE.as_posix(), refused=refused, mend=mend.replace('"', "'"))
    gone = f"tandem: {refused}the Python of the gate is no longer at {python}. {mend}"
    told = "printf '%s' \"$input\" | " if name in _READERS else "exec "
    return [
        f"python={shlex.quote(python)}",
        'if ! [ -x "$python" ]; then',
        f"    printf '%s\\n' {shlex.quote(gone)} >&2",
        f"    exit {int(can_refuse)}",
        "fi",
        f'{told}"$python" -I -S -c {shlex.quote(program)} {name} "$@"',
    ]


def _any_case(text: str) -> str:
    """A pattern of the shell; on some systems two names that differ in case are one file."""
    return "".join(_one_case(letter) for letter in re.sub(r"[^\x20-\x7e]+", "\0", text))


def _one_case(letter: str) -> str:
    if letter == "\0":
        return "*"
    return f"[{letter.lower()}{letter.upper()}]" if letter.isalpha() else shlex.quote(letter)


def _text(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()
