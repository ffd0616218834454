"""Installing the gate's hooks in a repository, beside those that are there, and taking exactly them away again.

Their scripts are for the POSIX shell, which git brings along on Windows. Each calls the hook that was there before,
then the gate; what need not start Python does not.

Without `core.hooksPath` they are put into git's own hook folder, and each hook that was there is moved aside and
called first. With it (husky, a folder for all repositories) a folder of our own takes its place, whose scripts call the
hooks of the former one where they are. The setting itself stays as it is: a file included behind it wins, so that
a tool that sets it again switches nothing off. Git knows no path that leads to the git folder from every working tree,
so that the file names our folder absolutely. Once the repository is moved, it names a folder of the user's instead,
whose scripts start those of the repository that git runs in. Without `core.hooksPath` the same folder stands by for
husky: the file is included by a path that leads through husky's folder, and so exists from the moment on that husky
sets its own.
"""

from __future__ import annotations

#
# They are for the POSIX shell, which git brings along on Windows. Each calls the hook that was there before, then the
# gate; what need not start Python does not.
#
import os
import re
import shlex
import stat
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tandem.bridge.location import find_data_dir
from tandem.core.files import remove_if_empty, write_atomically
from tandem.errors import ConfigInvalid
from tandem.rulings import liveness
from tandem.rulings.liveness import HUSKY, INCLUDED, MARK, PRE_COMMIT, UNMOVED, HooksPath
from tandem.rulings.state import FREE, JUDGED, REVIEWED, HookRepository

_INCLUDE = f"[include]\n\tpath = tandem/{INCLUDED}\n"
_STAND_BY = f"[include]\n\tpath = ../{HUSKY}/../../.git/tandem/{INCLUDED}\n"
"""Git's configuration has no condition for this, so that the path is one: without husky's folder it leads nowhere."""

_BLOCKS = (_INCLUDE, _STAND_BY)
_TOOLS = (PRE_COMMIT, b"LEFTHOOK")
"""Marks in every script of a tool that moves the hooks aside that it finds."""

_BACKUPS = (".legacy", ".old")
"""Where other tools move the hook to that they find: pre-commit and lefthook."""
_EXECUTABLE = 0o755
_MOVED = "moved-hooks"
"""In the user's data folder: what git starts in a repository that was moved, or in its working trees."""
_STARTER = b"""\
#!/bin/sh
common=$(git rev-parse --git-common-dir) || exit 1
hook=$common/tandem/hooks/${0##*/}
[ -x "$hook" ] || exit 0
exec "$hook" "$@"
"""

_GATES = ("prepare-commit-msg", "reference-transaction", "pre-push")
"""Hooks that can refuse."""

_RECORDERS = ("post-commit", "post-rewrite")
"""Hooks that record a change after it."""

_OURS = (*_GATES, *_RECORDERS)

_ON_SERVER = ("pre-receive",)
"""What a bare repository gets, which others push to; it refuses as well."""

_COMMITS, _TRANSACTIONS = "prepare-commit-msg", "reference-transaction"
_READERS = (_TRANSACTIONS, "pre-push", "post-rewrite", *_ON_SERVER)
"""Those of ours that git tells something on standard input."""

_OTHERS = (
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

_TELLING = ("proc-receive", "push-to-checkout")
"""Hooks by whose presence git does something else: passed on only where there was one."""

EVERY = (*_OURS, *_OTHERS, *_TELLING)

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
class _Setting:
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
    hooks: tuple[str, ...] = _OURS
    on: str = "tandem gate on"
    off: str = "tandem gate off"
    commits: str = REVIEWED
    free_at: str | None = None


@dataclass(frozen=True, slots=True)
class Installed:
    """How the hooks were installed, with all that an undo needs.

    Attributes:
        directory: Where the scripts are.
        previous_hooks_path: `core.hooksPath` as it was, or the folder that the hook folder was a link to; None
            without one.
        chained: The hooks that were moved aside, by name: where each is now.
        config_block: The text appended to the repository's configuration; empty if there was none.
        made_directory: Whether the folder was made.
    """

    directory: str
    previous_hooks_path: str | None = None
    chained: dict[str, str] = field(default_factory=dict[str, str])
    config_block: str = ""
    made_directory: bool = False

    def facts(self) -> dict[str, Any]:
        """As `gate.json` has it."""
        return asdict(self)

    @classmethod
    def of(cls, facts: dict[str, Any]) -> Installed | None:
        """What `gate.json` says; None if it names no installation."""
        try:
            return cls(**facts) if facts.get("directory") else None
        except TypeError:
            return None


def lender(place: HookRepository) -> tuple[str, str] | None:
    """That the hooks are another repository's, through symbolic links, and what to do; None if they are its own.

    So `git-new-workdir` of git's contributions has it: to change them here would change them there.
    """
    branches = Path(place.common_dir, "refs")
    if not branches.is_symlink():
        return None
    other, top = branches.resolve().parent, place.top or place.git_dir
    said = f"{top} has its branches and hooks from {other} through symbolic links, as git-new-workdir makes them."
    said += " Work in a linked worktree in its place."
    return said, f"git -C {shlex.quote(str(other))} worktree add {shlex.quote(f'{top}-linked')}"


def ensure_own(place: HookRepository) -> None:
    """Refuse to change hooks that are another repository's.

    Raises:
        ConfigInvalid: They are.
    """
    borrowed = lender(place)
    if borrowed is not None:
        raise ConfigInvalid(f"{borrowed[0]} The gate is switched there. For a working tree with it: {borrowed[1]}")


def ensure_room(place: HookRepository) -> None:
    """Refuse what would beat an installation, before an earlier one of the same repository is removed for it.

    Raises:
        ConfigInvalid: A working tree's own configuration names another folder of hooks, and git reads it last; or the
            hooks are another repository's.
    """
    ensure_own(place)
    path = HooksPath(place)
    stated = Path(place.top or place.git_dir, path.origin.removeprefix("file:"))
    if path.used is None or not liveness.is_same(str(stated), str(Path(place.git_dir, "config.worktree"))):
        return
    if not liveness.is_same(str(Path(place.top or place.git_dir, path.used)), str(Path(place.folder, "hooks"))):
        raise _beaten(path, "the gate's hooks")


def install(place: HookRepository, branches: tuple[str, ...], commits: str) -> Installed:
    """Install the hooks, as `gate.json` has branches and commits; what an earlier installation has left is taken over.

    Raises:
        ConfigInvalid: They would not be called, or a file is in the way.
        OSError: Something cannot be written; every step is undone.
    """
    if _block(place):
        _edit_config(place, lambda text: text.replace(_INCLUDE.encode(), b"").replace(_STAND_BY.encode(), b""))
    previous = HooksPath(place).used
    own_folder, ours = Path(place.common_dir, "hooks"), Path(place.folder, "hooks")
    if previous is not None and Path(place.top or place.git_dir, previous).resolve() == ours.resolve():
        # Somebody set what Gemini CLI is told to say: ours must not call themselves.
        previous = str(own_folder)
    elif previous is None and own_folder.is_symlink():
        # A folder that somebody shares, of this repository or another: nothing of ours belongs into it.
        previous = str(own_folder.resolve())
    folder, tandem = (own_folder, "../tandem") if previous is None else (ours, "..")
    made = previous is not None or not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    free_at = Path(place.settings_root).as_posix() if commits == FREE else None
    setting = _Setting(branches, str(folder), tandem, commits=commits, free_at=free_at)
    if previous is None:
        return _install_beside(place, folder, setting, made=made)
    return _install_before(place, folder, setting, previous, made=made)


def install_on_server(place: HookRepository, branches: tuple[str, ...]) -> Installed:
    """Install the hook of a bare repository; again repairs it, and at no moment is there none.

    Raises:
        ConfigInvalid: It would not be called, or would be called for other repositories, or a file is in the way.
        OSError: It cannot be written; every step is undone.
    """
    folder = Path(place.common_dir, "hooks")
    elsewhere = HooksPath(place).used or (str(folder.resolve()) if folder.is_symlink() else None)
    if elsewhere is not None and not liveness.is_same(str(Path(place.git_dir, elsewhere)), str(folder)):
        raise ConfigInvalid(
            f"Git takes this repository's hooks from {elsewhere}, which may be those of others, too. Give it a folder"
            f" of its own: git -C {shlex.quote(place.git_dir)} config core.hooksPath hooks",
            setting="core.hooksPath",
        )
    made = not folder.exists()
    folder.mkdir(exist_ok=True)
    off = "tandem gate server-hook --remove"
    setting = _Setting(branches, str(folder), "../tandem", _ON_SERVER, "tandem gate server-hook", off)
    return _install_beside(place, folder, setting, made=made)


def remove(place: HookRepository, installed: Installed) -> list[str]:
    """Take the hooks away and restore the former ones, to the byte; safe to repeat.

    Returns:
        What could not be put back, a sentence each.
    """
    if installed.config_block:
        _edit_config(place, lambda text: text.replace(installed.config_block.encode(), b"", 1))
    _remove_ready(place)
    remarks: list[str] = []
    folder = Path(installed.directory)
    for name in EVERY:
        _take_away(folder / name, installed.chained.get(name), remarks)
    if installed.made_directory:
        remove_if_empty(folder)
    remove_if_empty(Path(place.folder, "chained"))
    return remarks


def found(place: HookRepository) -> Installed:
    """The installation as its files show it, for when its record is lost."""
    block = _block(place)
    if block == _INCLUDE:
        return Installed(str(Path(place.folder, "hooks")), None, {}, block, made_directory=True)
    aside = Path(place.folder, "chained")
    chained = {name: str(aside / name) for name in (*_OURS, *_ON_SERVER) if os.path.lexists(aside / name)}
    return Installed(str(Path(place.common_dir, "hooks")), None, chained, block)


def is_installed(installed: Installed) -> bool:
    """Whether any of our scripts is where it was put."""
    return any(_is_our_file(Path(installed.directory, name)) for name in _OURS)


def _block(place: HookRepository) -> str:
    """What of ours the repository's configuration has; empty if nothing."""
    text = Path(place.common_dir, "config").read_bytes()
    return next((block for block in _BLOCKS if block.encode() in text), "")


def _install_beside(place: HookRepository, folder: Path, setting: _Setting, *, made: bool) -> Installed:
    """In git's own hook folder."""
    aside = Path(place.folder, "chained")
    chained: dict[str, str] = {}
    installed = Installed(str(folder), None, chained, _stand_by(place, setting), made)
    try:
        for name in setting.hooks:
            for backup in _backups(folder / name):
                _drop_ours(backup)
            word = _set_aside(folder / name, aside / name, chained)
            write_atomically(folder / name, _script(name, setting, word), mode=_EXECUTABLE)
        _ensure_alive(place, installed, setting.hooks)
    except BaseException:
        remove(place, installed)
        raise
    return installed


def _set_aside(former: Path, aside: Path, chained: dict[str, str]) -> str:
    """Move the hook away that is there; the shell's word for where ours will find it."""
    word = f'"$here/../tandem/chained/{former.name}"'
    if _is_our_file(former):
        # Of an installation whose record is lost; the hook that it had moved away is still there.
        if os.path.lexists(aside):
            chained[former.name] = str(aside)
        if aside.is_symlink():
            word = shlex.quote((former.parent / aside.readlink()).resolve().as_posix())
    elif os.path.lexists(former):
        if former.is_symlink():
            # Its target may be relative: it is called where it is, not where the link is moved to.
            word = shlex.quote(former.resolve().as_posix())
        aside.parent.mkdir(parents=True, exist_ok=True)
        _move(former, aside)
        chained[former.name] = str(aside)
        _move_backups(former, aside)
    return word


def _stand_by(place: HookRepository, setting: _Setting) -> str:
    """Prepare for husky; returns the text put into the repository's configuration, empty if there is none."""
    common = Path(place.common_dir)
    # Windows removes `..` before it checks that the folder in front of it exists.
    if os.name == "nt" or common.name != ".git" or os.path.lexists(common.parent / HUSKY):
        return ""
    own = Path(place.folder, "hooks")
    own.mkdir(parents=True, exist_ok=True)
    return _make_ready(place, replace(setting, folder=str(own), tandem=".."), HUSKY, _STAND_BY)


def _install_before(place: HookRepository, folder: Path, setting: _Setting, previous: str, *, made: bool) -> Installed:
    """In a folder of our own that takes the place of the one that is set."""
    installed = Installed(str(folder), previous, {}, _make_ready(place, setting, previous, _INCLUDE), made)
    try:
        _ensure_alive(place, installed)
    except BaseException:
        remove(place, installed)
        raise
    return installed


def _make_ready(place: HookRepository, setting: _Setting, previous: str, block: str) -> str:
    """Write scripts that call the hooks of another folder, and the file that git includes; the appended text."""
    folder, former = Path(setting.folder), Path(place.top or place.git_dir, previous)
    unmoved, moved = Path(place.folder, UNMOVED), Path(find_data_dir(), _MOVED)
    unmoved.write_bytes(_hooks_path(folder))
    inner = f"[include]\n\tpath = {_config_value(unmoved.as_posix())}\n"
    Path(place.folder, INCLUDED).write_bytes(_hooks_path(moved) + inner.encode())
    try:
        moved.mkdir(parents=True, exist_ok=True)
        for name in (*_OURS, *_OTHERS):
            write_atomically(moved / name, _STARTER, mode=_EXECUTABLE)
        for name in (*_OURS, *_OTHERS, *(name for name in _TELLING if (former / name).exists())):
            # A relative folder counts from the top of whichever working tree git runs in, which is where hooks start.
            word = shlex.quote(f"{Path(previous).as_posix()}/{name}")
            write_atomically(folder / name, _script(name, setting, word), mode=_EXECUTABLE)
        return _append_config(place, block)
    except BaseException:
        _remove_ready(place)
        raise


def _remove_ready(place: HookRepository) -> None:
    """Take away what `_make_ready` wrote, beside the block."""
    folder = Path(place.folder, "hooks")
    for name in (INCLUDED, UNMOVED):
        Path(place.folder, name).unlink(missing_ok=True)
    for name in EVERY:
        for script_file in (folder / name, *_backups(folder / name)):
            _drop_ours(script_file)
    remove_if_empty(folder)


def _ensure_alive(place: HookRepository, installed: Installed, names: tuple[str, ...] = _OURS) -> None:
    path = HooksPath(place)
    dead = [name for name, is_alive in liveness.alive(place, installed.directory, path, names).items() if not is_alive]
    if dead:
        raise _beaten(path, f"the gate's hooks {', '.join(dead)}")


def _beaten(path: HooksPath, what: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"Git would not start {what}, as core.hooksPath says otherwise ({path.origin}: {path.used}). Take that setting"
        " away, then run this again.",
        setting="core.hooksPath",
    )


def _take_away(hook: Path, chained: str | None, remarks: list[str]) -> None:
    """Remove one script, wherever another tool may have moved it, and restore the hook that it had replaced."""
    places = [hook, *_backups(hook)]
    ours = next((place for place in places if _is_our_file(place)), None)
    for place in places:
        _drop_ours(place)
    if chained is None or not os.path.lexists(chained):
        return
    aside = Path(chained)
    if _is_by_same_tool(hook, aside):
        # Its tool was installed again, over ours: only the hook that it had found itself is missing.
        aside.unlink()
        _move_backups(aside, hook)
    elif ours is None and os.path.lexists(hook):
        remarks.append(f"{hook} was replaced by another tool; the hook that was there before is at {chained}.")
    else:
        _move(aside, ours or hook)
        _move_backups(aside, hook)


def _is_by_same_tool(one: Path, other: Path) -> bool:
    try:
        contents = one.read_bytes(), other.read_bytes()
    except OSError:
        return False
    return contents[0] == contents[1] or any(all(mark in content for content in contents) for mark in _TOOLS)


def _is_our_file(path: Path) -> bool:
    return liveness.is_ours(str(path))


def _drop_ours(path: Path) -> None:
    if _is_our_file(path):
        path.unlink()


def _move(source: Path, target: Path) -> None:
    if os.path.lexists(target):
        raise ConfigInvalid(f"{target} is in the way; it is from an earlier gate. Move it, then run this again.")
    source.rename(target)


def _move_backups(source: Path, target: Path) -> None:
    """Move what another tool had set aside for a hook, to beside where the hook is by now."""
    for one, other in zip(_backups(source), _backups(target), strict=True):
        if os.path.lexists(one):
            _move(one, other)


def _backups(hook: Path) -> list[Path]:
    return [hook.with_name(hook.name + backup) for backup in _BACKUPS]


def _append_config(place: HookRepository, block: str) -> str:
    """Append a block to the repository's configuration; returns the text really appended."""
    appended: list[str] = []

    def append(text: bytes) -> bytes:
        appended.append(("" if not text or text.endswith(b"\n") else "\n") + block)
        return text + appended[0].encode()

    _edit_config(place, append)
    return appended[0]


def _edit_config(place: HookRepository, edit: Callable[[bytes], bytes]) -> None:
    """Change the repository's configuration as git does: under its lock, at once.

    Raises:
        ConfigInvalid: Somebody else has the lock.
    """
    config = Path(place.common_dir, "config")
    lock = config.with_name("config.lock")
    try:
        descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        raise ConfigInvalid(
            f"{lock} is there: another git changes the configuration. Wait for it, or remove the file if none runs.",
        ) from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(edit(config.read_bytes()))
        lock.chmod(stat.S_IMODE(config.stat().st_mode))
        lock.replace(config)
    except BaseException:
        lock.unlink(missing_ok=True)
        raise


def _hooks_path(folder: Path) -> bytes:
    return f"[core]\n\thooksPath = {_config_value(folder.as_posix())}\n".encode()


def _config_value(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _script(name: str, setting: _Setting, chained: str) -> bytes:
    """The script of one hook: the parts of `hook.sh` that are for it.

    Args:
        name: The hook.
        setting: What all have in common.
        chained: A shell word for the hook to call first; it need not exist.
    """
    can_refuse, source, python = name not in _RECORDERS, SOURCE.as_posix(), Path(sys.executable).as_posix()
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


def _is_of_kind(name: str, kind: str, setting: _Setting) -> bool:
    is_ours = name in setting.hooks
    if not is_ours or kind == "passed on":
        return not is_ours and kind == "passed on"
    kinds = {
        "without input": name not in {*_READERS, _COMMITS},
        "with input": name in _READERS and name != _TRANSACTIONS,
        "with any input": name in _READERS,
        "of transactions": name == _TRANSACTIONS,
        "free": name == _COMMITS and setting.free_at is not None,
        "recording": name in _RECORDERS,
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
