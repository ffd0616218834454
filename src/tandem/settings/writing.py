"""The reviewer pool in the user's `config.toml`: what a person chooses is written there, beside all that they wrote."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any, cast

import tomlkit

from tandem.bridge.location import find_data_dir
from tandem.core import platforms
from tandem.core.files import write_atomically
from tandem.errors import ConfigInvalid
from tandem.rulings import proof
from tandem.settings import following, pool
from tandem.settings.config import user_file
from tandem.settings.pool import PoolSettings

_PRIVATE = 0o600
_NAMED = {"enabled", "provider", "model"}
"""The settings of the pool that `tandem reviewers setup` is given."""


def with_reviewer(content: str, provider: str, model: str | None) -> str:
    """A file of settings with a pool of this provider switched on; its comments and all else stay.

    Args:
        content: The file, which is valid.
        provider: The program that reviews.
        model: Its model; None keeps the one of the same provider, else leaves it to the program.

    Raises:
        ConfigInvalid: The table would not be valid, e.g. as it allows other models only.
    """
    before = _pool_of(content)
    document = cast("dict[str, Any]", tomlkit.parse(content))
    table = document.setdefault(pool.TABLE, tomlkit.table())
    if before.provider != provider:
        # They are the other program's.
        for key in ("command", "model"):
            table.pop(key, None)
    stated = {"enabled": True, "provider": provider, "model": model}
    table.update({key: value for key, value in stated.items() if value is not None})
    written = tomlkit.dumps(document)
    _pool_of(written)
    return written


def _pool_of(content: str) -> PoolSettings:
    return pool.load(tomllib.loads(content).get(pool.TABLE, {}))


def read() -> str:
    """The user's file; empty if there is none.

    Raises:
        ConfigInvalid: It cannot be read.
    """
    try:
        return user_file().read_bytes().decode()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(f"{user_file()} cannot be read: {error}.", origin=str(user_file())) from error


def pool_table(content: str) -> str:
    """The pool of a file of settings as a table, without comments: all that a person chooses by it."""
    return tomlkit.dumps({pool.TABLE: tomllib.loads(content).get(pool.TABLE, {})})


def write(content: str, *, asked: bool) -> bool:
    """Put the user's file in place, at the end of a link, too, with the proof for a broker that runs.

    Args:
        content: The file, which is valid.
        asked: Whether a person has seen all of the pool that it has. Without that the proof is left only where nothing
            else is set than a command names.

    Returns:
        Whether the proof was left.

    Raises:
        ConfigInvalid: It cannot be written.
    """
    path = Path(os.path.realpath(user_file()))
    try:
        platforms.make_private(str(path.parent))
        chosen = _pool_of(content)
        proved = proof.prove(proof.keys(find_data_dir()), following.pool_facts(chosen))
        is_proved = bool(proved) and (asked or chosen.model_fields_set <= _NAMED)
        if is_proved:
            write_atomically(following.pool_proof(), proved.encode(), mode=_PRIVATE)
        write_atomically(path, content.encode(), mode=None if path.exists() else _PRIVATE)
    except OSError as error:
        raise ConfigInvalid(f"{path} cannot be written: {error.strerror}.", origin=str(path)) from error
    return is_proved
