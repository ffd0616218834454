"""The scripts that git starts: which hooks there are, and the text of each of the gate's.

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
from tandem.rulings.state import JUDGED, REVIEWED

GATES = ("prepare-commit-msg", "reference-transaction", "pre-push")
"""Hooks that can refuse."""

RECORDERS = ("post-commit", "post-rewrite")
"""Hooks that record a change after it."""

OURS = (*GATES, *RECORDERS)

ON_SERVER = ("pre-receive",)
"""What a bare repository gets, which others push to; it refuses as well."""

_COMMITS, _TRANSACTIONS = "prepare-commit-msg", "reference-transaction"
_READERS = (_TRANSACTIONS, "pre-push", "post-rewrite", *ON_SERVER)
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

_TEMPLATE = Path(__file__).with_name("hook.sh")

_PROGRAM = """\
import sys
sys.path.insert(0, {source!r})
try:
    from tandem.hooks.main import main
except ImportError:
    sys.exit("tandem: {refused}Tandem is no longer at " + {source!r} + ". {remedy}")
main(commits={commits!r})"""
_REMEDY = "Install it again, then run '{on}'; or take the hooks away that say so in {folder}."


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
        commits: What the gate makes of commits on other branches; no file loosens that afterwards.
        free_at: Where GSD's settings are, if other branches are free without them; else None.
    """

    branches: tuple[str, ...]
    folder: str
    tandem: str
    hooks: tuple[str, ...] = OURS
    on: str = "tandem gate on"
    off: str = "tandem gate off"
    commits: str = REVIEWED
    free_at: str | None = None


def script(name: str, setting: Setting, chained: str) -> bytes:
    """The script of one hook: the parts of `hook.sh` that are for it.

    Args:
        name: The hook.
        setting: What all have in common.
        chained: A shell word for the hook to call first; it need not exist.
    """
    can_refuse, source, python = name not in RECORDERS, SOURCE.as_posix(), Path(sys.executable).as_posix()
    refused = "refused: " if can_refuse else ""
    remedy = _REMEDY.format(on=setting.on, folder=setting.folder)
    values = {
        "name": name,
        "mark": MARK,
        "off": setting.off,
        "chained": chained,
        "pre_commit": PRE_COMMIT.decode(),
        "tandem": setting.tandem,
        "judged": JUDGED,
        "root": shlex.quote(setting.free_at or ""),
        "bases": "|".join(f'*" "{_any_case(f"refs/heads/{branch}")}"$end"*' for branch in setting.branches),
        "python": shlex.quote(python),
        "gone": shlex.quote(f"tandem: {refused}the Python of the gate is no longer at {python}. {remedy}"),
        "refusing": str(int(can_refuse)),
        "told": "printf '%s' \"$input\" | " if name in _READERS else "exec ",
        "program": shlex.quote(
            _PROGRAM.format(source=source, refused=refused, remedy=remedy.replace('"', "'"), commits=setting.commits)
        ),
    }
    # Each part begins with the kind of hook that it is for.
    lines, is_part = list[str](), True
    for line in _TEMPLATE.read_text("utf-8").splitlines():
        kind = line.removeprefix("#? ")
        if kind != line:
            is_part = _is_of_kind(name, kind, setting)
        elif is_part and not line.startswith("#: "):
            lines.append(line)
    text = "\n".join(lines) + "\n"
    return re.sub(r"<<(\w+)>>", lambda found: values[found[1]], text).encode()


def _is_of_kind(name: str, kind: str, setting: Setting) -> bool:
    is_ours = name in setting.hooks
    if not is_ours or kind == "passed on":
        return not is_ours and kind == "passed on"
    kinds = {
        "without input": name not in {*_READERS, _COMMITS},
        "with input": name in _READERS and name != _TRANSACTIONS,
        "with any input": name in _READERS,
        "of transactions": name == _TRANSACTIONS,
        "free": name == _COMMITS and setting.free_at is not None,
        "recording": name in RECORDERS,
        "judging": True,
    }
    return kinds.get(kind, name == kind)


def _any_case(text: str) -> str:
    """A pattern of the shell; on some systems two names that differ in case are one file."""
    return "".join(_one_case(letter) for letter in re.sub(r"[^\x20-\x7e]+", "\0", text))


def _one_case(letter: str) -> str:
    if letter == "\0":
        return "*"
    return f"[{letter.lower()}{letter.upper()}]" if letter.isalpha() else shlex.quote(letter)
