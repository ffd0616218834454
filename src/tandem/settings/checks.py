"""`.tandem/checks.toml`: the commands that run on a change before its review.

The file of the base branch counts, so that no change, and no base of its proposer's choice, decides how it is checked;
and only with a content that a person has trusted (`tandem trust`), as its commands run on the broker's machine.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, cast
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from tandem.core.texts import storable_text
from tandem.git.place import same
from tandem.rulings import trust
from tandem.rulings.globs import matches
from tandem.settings import names
from tandem.settings.config import Settings
from tandem.settings.names import Mark

FILE: Final = trust.CHECKS_FILE
LARGEST_BYTES: Final = 100_000
_MOST_CHECKS = 50
_MOST_WORDS = 200
_LONGEST_SECONDS = 86_400


def _relative(path: str) -> str:
    if path.startswith("/") or ".." in path.split("/"):
        raise ValueError("must be a path within the repository")
    return path


_Word = Annotated[str, Field(max_length=4_096), AfterValidator(storable_text)]
_Path = Annotated[str, Field(min_length=1, max_length=4_096), AfterValidator(storable_text), AfterValidator(_relative)]
_Command = Annotated[tuple[_Word, ...], Field(min_length=1, max_length=_MOST_WORDS)]
_Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,99}$")]
_Seconds = Annotated[int, Field(ge=1, le=_LONGEST_SECONDS, strict=True)]
_Flag = Annotated[bool, Field(strict=True)]
"""Never a text such as `no`."""
_CLOSED = ConfigDict(extra="forbid", frozen=True)


class Setup(BaseModel):
    """What a check needs to have made first, once for each content of some files.

    Attributes:
        files: Their contents decide whether it has to be made again.
        command: Makes it, in the folder that `TANDEM_SETUP` names.
        timeout_seconds: How long that may take.
        network: Whether it may use the network, where checks may not.
    """

    model_config = _CLOSED

    files: Annotated[tuple[_Path, ...], Field(min_length=1, max_length=_MOST_WORDS)]
    command: _Command
    timeout_seconds: _Seconds = 1_800
    network: _Flag = False


class CheckDefinition(BaseModel):
    """One check.

    Attributes:
        name: What people call it.
        command: The program and its arguments; no shell reads them.
        paths: Patterns; it runs on changes of which a file fits one. None means any change.
        timeout_seconds: After so long it is ended.
        required: Whether the gate stays closed until it has passed.
        setup: The preparation before it.
    """

    model_config = _CLOSED

    name: _Name
    command: _Command
    paths: Annotated[tuple[_Word, ...], Field(max_length=_MOST_WORDS)] = ()
    timeout_seconds: _Seconds = 600
    required: _Flag = True
    setup: Setup | None = None

    @property
    def command_hash(self) -> str:
        """Identifies the commands: SHA-256, hexadecimal."""
        said = {"command": self.command, "setup": self.setup.model_dump() if self.setup else None}
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    def applies_to(self, paths: Iterable[str]) -> bool:
        """Whether it runs on a change of these files."""
        return not self.paths or any(matches(path, self.paths) for path in paths)


class _Document(BaseModel):
    model_config = _CLOSED

    check: Annotated[tuple[CheckDefinition, ...], Field(max_length=_MOST_CHECKS)] = ()

    @model_validator(mode="after")
    def _names_differ(self) -> _Document:
        names = [one.name for one in self.check]
        if len(set(names)) != len(names):
            raise ValueError("two checks have the same name")
        return self


class Standing(StrEnum):
    """Whether a person has trusted a project's checks."""

    TRUSTED = "trusted"
    CHANGED = "changed"
    """Another content of the file was trusted: somebody changed the commands, and that is not for them to decide."""
    NEVER = "never"


def parsed(content: bytes) -> tuple[CheckDefinition, ...]:
    """The checks of a file.

    Raises:
        ValueError: It is none, in words for its author.
    """
    if len(content) > LARGEST_BYTES:
        raise ValueError(f"it has more than {LARGEST_BYTES} bytes")
    try:
        document: dict[str, Any] = tomllib.loads(content.decode())
        return _Document.model_validate(document).check
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or FILE
        raise ValueError(f"{place}: {first['msg']}") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def has_trusted(config_dir: Path, root: str) -> bool:
    """Whether a person has trusted any content of a project's file."""
    known, wanted = (one for one in trust.entries(str(config_dir)) if one.file == FILE), same(root)
    return any(same(one.root) == wanted for one in known)


def standing(config_dir: Path, root: str, content: bytes) -> Standing:
    """Whether a person has trusted this content of a project's file."""
    if trust.is_trusted(str(config_dir), root, FILE, trust.digest(FILE, content)):
        return Standing.TRUSTED
    return Standing.CHANGED if has_trusted(config_dir, root) else Standing.NEVER


_SQLITE = "sqlite:///"


def named_files(settings: Settings) -> tuple[Path, ...]:
    """All of them, the defaults included, but for those that checks may read."""
    defaults = (settings.log_file, settings.archives, settings.secret_key)
    stated = (*_files_of(settings), *_files_of(settings.reviewer_pool))
    return (*stated, *_database_files(settings.database), *defaults)


def _files_of(settings: BaseModel) -> Iterator[Path]:
    """The paths that fields hold, and the texts that are marked as paths."""
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        listed = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
        if not names.has(type(settings), name, Mark.READABLE):
            yield from (one for one in listed if isinstance(one, Path))
        if names.has(type(settings), name, Mark.NAMES_FILES) and isinstance(value, str) and Path(value).is_absolute():
            yield Path(value)


def _database_files(url: str) -> Iterator[Path]:
    """The files of SQLite, or what PostgreSQL's URL names: keys, certificates, passwords."""
    if url.startswith(_SQLITE):
        path = Path(url.removeprefix(_SQLITE)).absolute()
        yield from (path.with_name(path.name + end) for end in ("", "-wal", "-shm", "-journal", ".lock"))
    else:
        yield from (Path(value) for _, value in parse_qsl(urlsplit(url).query) if Path(value).is_absolute())
