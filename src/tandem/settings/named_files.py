"""Every file and folder that a setting names: what no check sees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

from pydantic import BaseModel

from tandem.settings.config import Settings
from tandem.settings.pool import NAMES_FILES

_SQLITE = "sqlite:///"


def named_files(settings: Settings) -> tuple[Path, ...]:
    """All of them, the defaults included, but for those that checks may read."""
    defaults = (settings.log_file, settings.archives, settings.secret_key)
    stated = (*_files_of(settings), *_files_of(settings.reviewer_pool))
    return (*stated, *_database_files(settings.database), *defaults)


def mark_of(owner: type[BaseModel], name: str) -> str | None:
    """What a setting's declaration says of the files that it names."""
    extra: Any = owner.model_fields[name].json_schema_extra
    return extra.get(NAMES_FILES) if extra else None


def _files_of(settings: BaseModel) -> Iterator[Path]:
    """The paths that fields hold, and the texts that are marked as paths."""
    for name in type(settings).model_fields:
        mark, value = mark_of(type(settings), name), getattr(settings, name)
        listed = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
        if mark != "readable":
            yield from (one for one in listed if isinstance(one, Path))
        if mark == "some" and isinstance(value, str) and Path(value).is_absolute():
            yield Path(value)


def _database_files(url: str) -> Iterator[Path]:
    """The files of SQLite, or what PostgreSQL's URL names: keys, certificates, passwords."""
    if url.startswith(_SQLITE):
        path = Path(url.removeprefix(_SQLITE)).absolute()
        yield from (path.with_name(path.name + end) for end in ("", "-wal", "-shm", "-journal", ".lock"))
    else:
        yield from (Path(value) for _, value in parse_qsl(urlsplit(url).query) if Path(value).is_absolute())
