"""The contents of a repository's settings that a person has trusted, by hash, kept outside of the repository.

`<configuration folder>/trusted.json` is written by `tandem trust` and read here. A file that cannot be read trusts
nothing. Trust is in one content in one place: a changed byte, another file or another project is asked about again.
"""

from __future__ import annotations

import json
import os

from tandem.core.stand_ins import NamedTuple, cast, hex_digest
from tandem.git.place import same

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

ENABLED = "tandem_enabled"
GRANULARITY = "review_granularity"
MODE = "execution_mode"
POOL = "reviewer_pool"
OWN_KEYS = (ENABLED, GRANULARITY, MODE, POOL)
"""The keys of GSD's file that are Tandem's; GSD itself keeps them and refuses to set them."""

SECTION = "planning"
"""GSD's own object that holds them: at the top level of its file GSD warns about every key that it does not know."""

PER_TASK, PER_PLAN = "per_task", "per_plan"
"""Values of `GRANULARITY`; the first one is the strict one."""

BLOCKING, OPTIMISTIC = "blocking", "optimistic"
"""Values of `MODE`; the first one is the strict one."""

STORE = "trusted.json"
VERSION = 1
PROJECT_FILE = ".tandem/config.toml"
CHECKS_FILE = ".tandem/checks.toml"
UNCONFINED = f"{CHECKS_FILE} (unconfined)"
"""Stands for that file's commands run without bubblewrap, which a person trusts by itself."""

LARGEST_BYTES = 1_000_000
"""Of a file of GSD's settings."""

_LARGEST_STORE_BYTES = 5_000_000


class Trusted(NamedTuple):
    """One content that a person has trusted.

    Attributes:
        root: The project's root (its main working tree).
        file: The file in it, with slashes.
        sha256: The `digest` of its content.
        at: When, ISO 8601 in UTC.
        by: Who, as the system calls them.
    """

    root: str
    file: str
    sha256: str
    at: str
    by: str


class Source(NamedTuple):
    """One file that was read.

    Attributes:
        file: From the root, with slashes.
        content: Its bytes, of which `digest` gives the hash.
        says: Tandem's own keys in it, as they are written.
    """

    file: str
    content: bytes
    says: Mapping[str, Any]

    @property
    def loosens(self) -> tuple[str, ...]:
        """The keys by which it asks for less than a review of each task before its commit."""
        asked = (GRANULARITY, self.says.get(GRANULARITY), PER_PLAN), (MODE, self.says.get(MODE), OPTIMISTIC)
        return tuple(key for key, value, loose in asked if value == loose)


def digest(file: str, content: bytes) -> str:
    """The hash by which a content is trusted, as hexadecimal digits.

    Of GSD's `config.json` only Tandem's own keys count, in a form that does not depend on spelling, because GSD
    writes the others again whenever it likes. One that is no JSON is hashed as it is. The ends of lines in
    `checks.toml` do not count: git has others than the working tree.
    """
    if file == CHECKS_FILE:
        content = content.replace(b"\r\n", b"\n")
    if is_planning(file):
        try:
            keys = own_keys(content)
            content = json.dumps(keys, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
        except (ValueError, RecursionError):
            pass
    return hex_digest(content)


def own_keys(content: bytes) -> dict[str, Any]:
    """Tandem's own keys of a file of GSD's settings: those of GSD's object `planning`, else of the top level.

    Raises:
        ValueError: It is too large, or it or its `planning` is not an object of JSON.
    """
    if len(content) > LARGEST_BYTES:
        raise ValueError(f"it has more than {LARGEST_BYTES} bytes")
    try:
        text = content.decode("utf-8-sig")
        # An editor's new file says nothing yet; that is no damage.
        document: Any = json.loads(text) if text.strip() else {}
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(document, dict):
        raise ValueError("it is not an object of JSON")  # noqa: TRY004 - one kind of error for every problem in it
    stated = cast("dict[str, Any]", document)
    section: Any = stated.get(SECTION)
    if section is not None and not isinstance(section, dict):
        raise ValueError(f"its '{SECTION}' is not an object")
    places = (stated, cast("dict[str, Any]", section or {}))
    return {key: place[key] for key in OWN_KEYS for place in places if key in place}


def is_planning(file: str) -> bool:
    """Whether a file, named from the project's root, is one of GSD's with keys of Tandem's."""
    return file.startswith(".planning/") and file.endswith("/config.json")


def is_trusted(config_dir: str, root: str, file: str, sha256: str) -> bool:
    """Whether a person has trusted exactly this content of this file of this project."""
    # To compare two roots takes a look at the disk for every part of both.
    alike = [one for one in entries(config_dir) if (one.file, one.sha256) == (file, sha256)]
    return any(same(one.root) == same(root) for one in alike)


def trusts(config_dir: str, root: str, sources: Iterable[Source]) -> bool:
    """Whether every file of GSD's settings that loosens is trusted; true where none does."""
    return all(
        is_trusted(config_dir, root, source.file, digest(source.file, source.content))
        for source in sources
        if source.loosens
    )


def contents(config_dir: str, root: str) -> list[str]:
    """The trusted contents of one project, as the broker has them on record: SHA-256 and file."""
    wanted = same(root)
    return [f"{one.sha256} {one.file}" for one in entries(config_dir) if same(one.root) == wanted]


def entries(config_dir: str) -> tuple[Trusted, ...]:
    """Everything that is trusted; nothing where the list is missing or cannot be understood."""
    try:
        with open(os.path.join(config_dir, STORE), "rb") as stream:
            return parsed(stream.read(_LARGEST_STORE_BYTES))
    except (OSError, ValueError):
        return ()


def parsed(content: bytes) -> tuple[Trusted, ...]:
    """The entries of the list.

    Raises:
        ValueError: It is not such a list.
    """
    try:
        document: Any = json.loads(content)
        if document["version"] != VERSION:
            raise ValueError(f"it is not a list of version {VERSION}")
        listed = tuple(Trusted(**one) for one in document["trusted"])
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"it is no list of trusted contents ({type(error).__name__})") from error
    if not all(isinstance(value, str) for one in listed for value in one):  # pyright: ignore[reportUnnecessaryIsInstance] - read from a file
        raise ValueError("one of its entries holds something else than texts")
    return listed
