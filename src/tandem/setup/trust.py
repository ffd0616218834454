"""Trust in a repository's files: the candidates for it, and the list of the contents that a person has trusted.

`rulings/trust.py` reads the list, and says what an entry means.
"""

from __future__ import annotations

import json
import os
import shlex
import tomllib
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from tandem.bridge.project import top_level
from tandem.core import platforms
from tandem.core.atomic_dirs import turn
from tandem.core.files import write_atomically
from tandem.errors import ConfigInvalid, Forbidden, InvalidInput, Unavailable
from tandem.git.place import same
from tandem.pool import sandbox
from tandem.rulings import planning, proof, state, trust
from tandem.rulings.ask import GateClient, Refused, Unreachable
from tandem.rulings.override import user_name
from tandem.rulings.state import GateFile
from tandem.rulings.trust import Trusted
from tandem.settings import checks
from tandem.settings.config import ensure_usable
from tandem.setup.registration import Call, registered_as

_LOCK = "trusted.lock"
_PATIENCE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class TrustCandidate:
    """A file of a project that may loosen once it is trusted.

    Attributes:
        root: The project's root.
        file: The file in it, with slashes.
        path: Where its content was read.
        sha256: The content's hash.
        text: The exact text to trust: the whole file, or Tandem's own keys of GSD's.
        is_trusted: Whether this content is trusted already.
    """

    root: str
    file: str
    path: Path
    sha256: str
    text: str
    is_trusted: bool

    def facts(self) -> dict[str, Any]:
        """As JSON values."""
        return {"file": self.file, "sha256": self.sha256, "text": self.text, "trusted": self.is_trusted}


@dataclass(frozen=True, slots=True)
class Project:
    """A project's files against one person's list.

    Attributes:
        root: The folder of its registration: the name under which things are trusted.
        main: The working tree whose GSD settings count.
        top: The working tree that one stands in.
        config_dir: The folder of the list.
    """

    root: str
    main: str
    top: str
    config_dir: Path

    @classmethod
    def at(cls, folder: str, config_dir: Path) -> Project:
        """The project that a folder belongs to."""
        top = top_level(folder) or os.path.realpath(folder)
        return cls(planning.trusted_as(folder), planning.project_root(folder), top, config_dir)

    def candidates(self, paths: Iterable[Path] = (), *, confined: bool | None = None) -> list[TrustCandidate]:
        """What could be trusted: the files that are named, or all there are.

        Args:
            paths: Those files.
            confined: Whether bubblewrap works for the broker; by default as it does here.

        Raises:
            InvalidInput: A file is none of those that Tandem reads its settings from.
            ConfigInvalid: One cannot be read, or has a syntax error.
        """
        known = self._known()
        wanted = self.names(paths) or list(known)
        found = [self._candidate(file, known[file]) for file in dict.fromkeys(wanted)]
        there = [one for one in found if one is not None]
        # By itself, and by name: it is more than to trust the commands.
        commands = [one for one in there if one.file == trust.CHECKS_FILE]
        if not commands or confined:
            return there
        is_here = sandbox.bubblewrap() is not None
        if is_here and confined is None:
            return there
        return there + [_unconfined(one, self.config_dir, is_here=is_here) for one in commands]

    def candidate(self, file: str) -> TrustCandidate | None:
        """One of the project's files as it is now; None if it is not there, or says nothing of ours."""
        path = self._known().get(trust.CHECKS_FILE if file == trust.UNCONFINED else file)
        return self._candidate(file, path) if path else None

    def _known(self) -> dict[str, Path]:
        root = Path(self.main)
        known = {
            trust.PROJECT_FILE: Path(self.top, *trust.PROJECT_FILE.split("/")),
            trust.CHECKS_FILE: Path(self.top, *trust.CHECKS_FILE.split("/")),
            planning.FILE: root / planning.FILE,
        }
        for path in sorted(root.glob(".planning/workstreams/*/config.json")):
            known[path.relative_to(root).as_posix()] = path
        return known

    def names(self, paths: Iterable[Path]) -> list[str]:
        """The files that paths name, from the root; they need not exist.

        Raises:
            InvalidInput: A path is none of those that Tandem reads its settings from.
        """
        known = self._known()
        return [self._name(path, known) for path in paths]

    def _name(self, path: Path, known: dict[str, Path]) -> str:
        here = os.path.realpath(path)
        for file, place in known.items():
            # A linked working tree's .planning stands for that of the main one, which is the one that is read.
            if here in {os.path.realpath(place), os.path.realpath(Path(self.top, *file.split("/")))}:
                return file
        raise InvalidInput(
            f"{path} is no file that Tandem takes settings from. Name one of {', '.join(known)}, or none for all.",
            field="FILE",
            allowed=list(known),
        )

    def _candidate(self, file: str, path: Path) -> TrustCandidate | None:
        try:
            content = path.read_bytes()
            text = _text(file, path, content)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise ConfigInvalid(f"{path} cannot be trusted: {error}. Correct it first.", origin=str(path)) from error
        if text is None:
            return None
        sha256 = trust.digest(file, content)
        known = trust.is_trusted(str(self.config_dir), self.root, file, sha256)
        return TrustCandidate(self.root, file, path, sha256, text, known)


def _text(file: str, path: Path, content: bytes) -> str | None:
    if trust.is_planning(file):
        keys = planning.own_keys(content)
        return json.dumps(keys, indent=2, ensure_ascii=True) if keys else None
    text = content.decode()
    if file == trust.CHECKS_FILE:
        checks.parsed(content)
    else:
        ensure_usable(path, content)
    return text


def commands(text: str) -> list[str]:
    """What `checks.toml` would run, a line for each command, with all else that it says of it."""
    found: list[str] = []
    for check in checks.parsed(text.encode()):
        stated = check.model_dump(mode="json", exclude_unset=True, exclude={"name", "command", "setup"})
        found.append(f"{check.name}: {shlex.join(check.command)}{_stated(stated)}")
        if check.setup is not None:
            stated = check.setup.model_dump(mode="json", exclude_unset=True, exclude={"command"})
            found.append(f"{check.name}, before it: {shlex.join(check.setup.command)}{_stated(stated)}")
    return found


def values(text: str) -> list[str]:
    """What a file of settings sets, a line for each value, by its whole name."""
    found: list[str] = []
    left: list[tuple[str, Any]] = [("", tomllib.loads(text))]
    while left:
        name, value = left.pop(0)
        if isinstance(value, dict) and value:
            table = cast("dict[str, Any]", value)
            left[:0] = [(f"{name}.{key}" if name else key, inner) for key, inner in table.items()]
        elif name:
            found.append(f"{name} = {json.dumps(value, ensure_ascii=False, default=str)}")
    return found


def _stated(options: dict[str, Any]) -> str:
    said = ", ".join(f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in options.items())
    return f"  ({said})" if said else ""


def _unconfined(one: TrustCandidate, config_dir: Path, *, is_here: bool) -> TrustCandidate:
    """The further trust needed where bubblewrap does not work; it may work here, and not for the broker."""
    place, way = (
        ("for the broker, but it does here", "Run tandem down and tandem up here")
        if is_here
        else ("on this machine", "Install bubblewrap")
    )
    text = (
        f"bubblewrap (bwrap) does not work {place}. The commands would run with your rights:\n"
        f"they could use the network, and read and change your files. {way}, and they cannot."
    )
    is_trusted = trust.is_trusted(str(config_dir), one.root, trust.UNCONFINED, one.sha256)
    return replace(one, file=trust.UNCONFINED, text=text, is_trusted=is_trusted)


async def confines_checks(call: Call, root: str) -> bool | None:
    """Whether bubblewrap works for the broker that is asked; None if it has no such project.

    Raises:
        TandemError: It does not answer, or refuses.
    """
    name = await registered_as(call, Path(root))
    return (await call("get_project_settings", {"project": name}))["confines_checks"] if name else None


def add(config_dir: Path, candidates: Iterable[TrustCandidate]) -> list[Trusted]:
    """Put contents on the list; those that are on it stay as they are.

    Where a gate is on its broker is told first, as it compares the list with its own record.

    Raises:
        ConfigInvalid: The list cannot be understood.
        Unavailable: It cannot be written, or a gate is on and its broker is away.
        Forbidden: The broker of a gate does not take it.
    """
    at, by = datetime.now(UTC).isoformat(timespec="seconds"), user_name()
    asked = list(candidates)
    added = [Trusted(one.root, one.file, one.sha256, at, by) for one in asked if not one.is_trusted]
    for root in dict.fromkeys(one.root for one in asked):
        contents = [f"{one.sha256} {one.file}" for one in asked if one.root == root]
        _tell(root, lambda known, contents=contents: list(dict.fromkeys([*known, *contents])))
    with _changing(config_dir) as entries:
        entries.extend(added)
    return added


def unrecorded(root: str, candidates: Iterable[TrustCandidate]) -> list[TrustCandidate]:
    """The entries of a person's list that are unknown to the broker of the project's gate: somebody wrote them.

    Nothing where no gate is on, or its broker cannot be asked.
    """
    gate = _gate(root)
    if gate is None:
        return []
    try:
        with GateClient(gate) as asker:
            known = asker.call("get_gate")
    except (Unreachable, Refused):
        return []
    return [one for one in candidates if known["enabled"] and f"{one.sha256} {one.file}" not in known["trusted"]]


def _gate(root: str) -> GateFile | None:
    try:
        place = state.find_repository(root) if Path(root).is_dir() else None
        gate = state.find(place) if place is not None else None
    except state.GateUnreadable:
        # It refuses everything until it is switched on again.
        return None
    return gate if gate is not None and gate.enabled else None


def _tell(root: str, change: Callable[[list[str]], list[str]]) -> None:
    """Change the list of trusted contents that the broker of a project's gate knows."""
    gate = _gate(root)
    if gate is None:
        return
    try:
        with GateClient(gate, user_name()) as asker:
            known = asker.call("get_gate")
            trusted = change(known["trusted"])
            if known["enabled"] and trusted != known["trusted"]:
                wish = {"since": known["switched_at"], "enabled": True, "trusted": trusted}
                asker.call("set_gate", **proof.proved(gate, gate.project, **wish))
    except Unreachable as error:
        raise Unavailable(f"The gate is on, and its broker has to record the change of trust. {error}") from error
    except Refused as error:
        raise Forbidden(f"The broker of the gate does not take it: {error}", needed="person") from error


def revoke(config_dir: Path, root: str, files: Iterable[str] | None = None) -> list[Trusted]:
    """Take a project's contents off the list, all or those of some files; returns the entries that were on it.

    Where a gate is on its broker is told after it, so that writing them back into the list trusts nothing.

    Raises:
        ConfigInvalid: The list cannot be understood.
        Unavailable: It cannot be written, or a gate is on and its broker is away: the same again tells it.
    """
    named = None if files is None else set(files)
    if named is not None and trust.CHECKS_FILE in named:
        named.add(trust.UNCONFINED)
    with _changing(config_dir) as entries:
        gone = [one for one in entries if same(one.root) == same(root) and (named is None or one.file in named)]
        entries[:] = [one for one in entries if one not in gone]
    _tell(root, lambda known: [one for one in known if named is not None and one.partition(" ")[2] not in named])
    return gone


def listed(config_dir: Path) -> list[Trusted]:
    """Everything on the list.

    Raises:
        ConfigInvalid: The list cannot be understood.
    """
    path = config_dir / trust.STORE
    try:
        return list(trust.parsed(path.read_bytes()))
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise ConfigInvalid(
            f"{path} cannot be read: {error}. Nothing is trusted until you correct it, or remove it and trust again.",
            origin=str(path),
        ) from error


@contextmanager
def _changing(config_dir: Path) -> Generator[list[Trusted]]:
    """The list to change, written whole at the end; two commands take turns."""
    path = config_dir / trust.STORE
    try:
        platforms.make_private(str(config_dir))
        with turn(config_dir / _LOCK, _PATIENCE_SECONDS):
            before = listed(config_dir)
            entries = list(before)
            yield entries
            if entries != before:
                document = {"version": trust.VERSION, "trusted": [one._asdict() for one in entries]}
                write_atomically(path, json.dumps(document, indent=2).encode() + b"\n")
    except OSError as error:
        raise Unavailable(
            f"{path} cannot be written: {error.strerror or error}. See to the permissions of {config_dir}.",
            file=str(path),
        ) from error
