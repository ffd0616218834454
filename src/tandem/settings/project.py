"""What a repository says about the settings, and how much of it counts.

A project's `.tandem/config.toml`, and `reviewer_pool` in GSD's `.planning/config.json`, may only tighten: whoever
can commit to a repository must not choose programs, models, prompts or limits for those who check it out. A file
that a person has trusted by its hash (`tandem trust`) counts as their own configuration does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

from tandem.errors import ConfigInvalid
from tandem.hooks import planning, trust
from tandem.settings import pool as pool_settings
from tandem.settings.pool import PoolSettings

PROJECT_FILE = Path(".tandem", "config.toml")
_OWN = "use your own configuration, or have a person run 'tandem trust'"

Value = tuple[Any, str]
"""A setting's value and where it comes from."""


class Strictness(StrEnum):
    """In which direction a project's file may move a setting."""

    LOWER = "a lower value"
    FULL_DURABILITY = "full"


@dataclass(frozen=True, slots=True)
class Ignored:
    """A value that was found and not used.

    Attributes:
        key: The setting as it was written.
        origin: The file or variable.
        reason: Why, and what would be allowed.
    """

    key: str
    origin: str
    reason: str


@dataclass(frozen=True, slots=True)
class Rules:
    """What this needs to know of the settings, which stand above it.

    Attributes:
        checked: Gives a value its setting's type; raises ConfigInvalid. Takes key, value and origin.
        direction: Where a repository may move a setting; null: nowhere.
        default: A setting's default.
    """

    checked: Callable[[str, Any, str], Any]
    direction: Callable[[str], Strictness | None]
    default: Callable[[str], Any]


@dataclass(slots=True)
class ProjectSays:
    """What the files of a project come to.

    Attributes:
        values: By setting, what counts, with its file.
        pool_origins: For each setting of the pool that counts, its file.
        ignored: What does not count, and why.
        trusted: The files that count because a person trusted them.
    """

    values: dict[str, Value] = field(default_factory=dict[str, Value])
    pool_origins: dict[str, str] = field(default_factory=dict[str, str])
    ignored: list[Ignored] = field(default_factory=list[Ignored])
    trusted: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """One project's files, read against one person's trust.

    Attributes:
        root: The working tree.
        config_dir: The person's configuration folder, which has the list of what they trusted.
        rules: What is known of the settings.
    """

    root: Path
    config_dir: Path
    rules: Rules

    def say(self, document: Mapping[str, Any], content: bytes, below: Mapping[str, Value]) -> ProjectSays:
        """What the project's files come to, over what the user's own configuration says.

        Args:
            document: What stands in `.tandem/config.toml`.
            content: Its bytes, which are what was trusted.
            below: The user's own values.

        Raises:
            ConfigInvalid: A trusted file, or one that tightens, has a value that cannot be used.
        """
        says = ProjectSays()
        origin = str(self.root / PROJECT_FILE)
        if document and self._trusts(trust.PROJECT_FILE, content):
            says.trusted.append(origin)
            says.values = {key: (self.rules.checked(key, value, origin), origin) for key, value in document.items()}
        else:
            for key, raw in document.items():
                self._tighten(key, raw, origin, below, says)
        self._add_pool(below, says)
        return says

    def _trusts(self, file: str, content: bytes) -> bool:
        root = planning.project_root(str(self.root))
        return trust.is_trusted(str(self.config_dir), root, file, trust.digest(file, content))

    def _tighten(self, key: str, raw: Any, origin: str, below: Mapping[str, Value], says: ProjectSays) -> None:
        direction = self.rules.direction(key)
        if direction is None:
            says.ignored.append(Ignored(key, origin, f"a repository may not set this; {_OWN}"))
            return
        value = self.rules.checked(key, raw, origin)
        current = below[key][0] if key in below else self.rules.default(key)
        full = direction is Strictness.FULL_DURABILITY
        if value == "full" if full else value < current:
            says.values[key] = (value, origin)
            return
        allowed = "to full" if full else f"{direction.value} than {current}"
        says.ignored.append(Ignored(key, origin, f"a repository may only tighten this: {allowed}"))

    def _add_pool(self, below: Mapping[str, Value], says: ProjectSays) -> None:
        """Lay `reviewer_pool` of GSD's file over that of the user, file by file."""
        before = says.values.get(pool_settings.TABLE) or below.get(pool_settings.TABLE)
        settings = cast("PoolSettings", before[0]) if before else PoolSettings()
        for source in planning.read(str(self.root)).sources:
            table = source.says.get(planning.POOL)
            if not isinstance(table, dict) or not table:
                continue
            stated = cast("dict[str, Any]", table)
            origin = str(Path(planning.project_root(str(self.root)), *source.file.split("/")))
            if self._trusts(source.file, source.content):
                says.trusted.append(origin)
                settings = _replaced(settings, stated, origin)
                taken = set(stated)
            else:
                settings, taken = _tightened(settings, stated, origin, says)
            says.pool_origins |= dict.fromkeys(sorted(taken), origin)
            if taken:
                says.values[pool_settings.TABLE] = (settings, origin)


def _replaced(settings: PoolSettings, stated: Mapping[str, Any], origin: str) -> PoolSettings:
    try:
        return pool_settings.load({**settings.model_dump(exclude_unset=True), **stated})
    except ConfigInvalid as error:
        raise ConfigInvalid(f"{origin}: {error.message}", **{**error.details, "origin": origin}) from None


def _tightened(
    settings: PoolSettings, stated: Mapping[str, Any], origin: str, says: ProjectSays
) -> tuple[PoolSettings, set[str]]:
    """The settings after those values that make them stricter, and which these are."""
    taken: set[str] = set()
    for key, value in stated.items():
        try:
            changed = _replaced(settings, {key: value}, origin)
            refusal = pool_settings.loosening(key, settings, changed)
            if refusal is None:
                settings = changed
                taken.add(key)
                continue
            reason = f"{refusal}; {_OWN}"
        except ConfigInvalid as error:
            reason = error.message
        says.ignored.append(Ignored(f"{pool_settings.TABLE}.{key}", origin, reason))
    return settings, taken
