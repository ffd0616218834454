"""Where keys of roles come from and go to: environment, files, a hidden prompt; never a command line."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import typer

from tandem import platforms
from tandem.bridge.keys import FILE_VARIABLE, KEY_VARIABLE, NoKey, read_key, stated_key
from tandem.errors import ConfigInvalid, Unavailable

_HINT = (
    "env:NAME or file:PATH. What stands on a command line can be read by other users of this machine, so a key is"
    " never given there."
)
_SUFFIX = ".psk"


@dataclass(frozen=True, slots=True)
class Given:
    """A key of one's own.

    Attributes:
        key: The key.
        source: Where it came from, for people: `from env GEMINI_KEY`.
    """

    key: str
    source: str


def keys_by_role(options: Iterable[str]) -> dict[str, Given]:
    """The keys that `--key ROLE=SOURCE` names.

    Raises:
        typer.BadParameter: One is written wrongly, or its source has no key; never says what stood there.
    """
    found: dict[str, Given] = {}
    for option in options:
        role, equals, source = option.partition("=")
        if not (equals and role):
            raise typer.BadParameter(f"Write ROLE=SOURCE, the source as {_HINT}", param_hint="--key")
        if role in found:
            raise typer.BadParameter(f"{role} has two keys here.", param_hint="--key")
        found[role] = key_from(source, "--key")
    return found


def key_from(source: str, option: str) -> Given:
    """The key that `env:NAME` or `file:PATH` names.

    Raises:
        typer.BadParameter: It is neither, or there is no key; never says what stood there.
    """
    kind, _, place = source.partition(":")
    if kind == "env" and place:
        key = os.environ.get(place, "").strip()
        if not key:
            raise typer.BadParameter(f"The environment has no {place}, or it is empty.", param_hint=option)
        return Given(key, f"from env {place}")
    if kind == "file" and place:
        return Given(_read(place, option), f"from {place}")
    raise typer.BadParameter(f"Write the key's source as {_HINT}", param_hint=option)


def session_key(role: str, literal: str | None, file: str | None) -> str:
    """The key to open a session with: that of the file that was named, else of the environment, else asked for.

    Args:
        role: Whose session it is, for the prompt.
        literal: What `--psk` has; it counts as left out when it is empty.
        file: What `--psk-file` has; `-` is standard input.

    Raises:
        typer.BadParameter: There is none, or the file has none.
        ConfigInvalid: The environment names a file that has none.
    """
    if literal and file:
        raise typer.BadParameter("Give one of --psk and --psk-file.", param_hint="--psk-file")
    if file:
        return _piped() if file == "-" else _read(file, "--psk-file")
    if literal:
        return literal
    try:
        stated = stated_key()
    except NoKey as trouble:
        raise ConfigInvalid(trouble.message, **trouble.details) from None
    if stated is not None:
        return stated
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            f"There is no key. Name its file here, or in {FILE_VARIABLE}, or put it into {KEY_VARIABLE}.",
            param_hint="--psk-file",
        )
    return typer.prompt(f"Key of {role}", hide_input=True, err=True)


def _read(path: str, option: str) -> str:
    try:
        return read_key(path)
    except NoKey as trouble:
        raise typer.BadParameter(trouble.message, param_hint=option) from None


def _piped() -> str:
    try:
        key = sys.stdin.buffer.readline().decode().strip()
    except UnicodeDecodeError:
        key = ""
    if not key:
        raise typer.BadParameter("The first line of standard input is no key.", param_hint="--psk-file")
    return key


class KeyFolder:
    """A folder that new keys are written to, one to a file, for its user only."""

    def __init__(self, path: Path) -> None:
        """Make the folder, so that what cannot be written is known before any key is made.

        Raises:
            Unavailable: It cannot be made or written.
        """
        self.path = path.expanduser().resolve()
        try:
            platforms.make_private(str(self.path))
            trial = self._fresh("trial", b"")
            trial.unlink()
        except OSError as error:
            raise self._unwritable(error) from error

    def refuse_to_replace(self) -> None:
        """Refuse a folder that has keys already, which may be those of another project.

        Raises:
            ConfigInvalid: It has.
        """
        there = sorted(file.name for file in self.path.glob(f"*{_SUFFIX}"))
        if there:
            raise ConfigInvalid(
                f"{self.path} has keys already ({', '.join(there)}), which may be in use. Name a folder without, or"
                " replace one key with: tandem cycle rotate ROLE --write-to DIR",
                setting="write_to",
                folder=str(self.path),
            )

    def write(self, keys: Mapping[str, str]) -> dict[str, str]:
        """Write `<role>.psk` for each; an older file is replaced. The files by role.

        Raises:
            Unavailable: The system does not let us.
        """
        written: dict[str, str] = {}
        try:
            for role, key in keys.items():
                written[role] = str(self._put(role, key))
        except OSError as error:
            raise self._unwritable(error) from error
        return written

    def _put(self, role: str, key: str) -> Path:
        fresh = self._fresh(role, key.encode() + b"\n")
        try:
            return fresh.replace(self.path / f"{role}{_SUFFIX}")
        finally:
            fresh.unlink(missing_ok=True)

    def _fresh(self, name: str, content: bytes) -> Path:
        path = self.path / f".{name}.{secrets.token_hex(8)}.new"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
                stream.flush()
                platforms.flush_file(stream.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return path

    def _unwritable(self, error: OSError) -> Unavailable:
        return Unavailable(f"Keys cannot be written to {self.path}: {error.strerror or error}.", folder=str(self.path))
