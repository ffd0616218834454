"""The settings that hold for a project, as the machine of the broker has them."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from tandem.contract.caller import Caller
from tandem.core.visible import visible
from tandem.errors import ConfigInvalid
from tandem.gate import switch as gate_switch
from tandem.gate.contract import GetProjectSettings, ProjectSettings, SettingView
from tandem.pool import sandbox
from tandem.reviews.context import Services
from tandem.rulings import planning
from tandem.settings import pool as pool_settings
from tandem.settings import view as settings_view
from tandem.settings.config import PROJECT_FILE, LoadedSettings, load_settings
from tandem.settings.pool import PoolSettings

_LARGEST_FILE_BYTES = 1_000_000
_MOST_IGNORED = 200
_LONGEST_TEXT = 1_000
_OF_PLANNING: Final = {
    planning.ENABLED: "Whether GSD's steps put their work up for review.",
    planning.GRANULARITY: "per_task: a review before each commit; per_plan: one for a whole plan.",
    planning.MODE: "blocking: work waits for its approval; optimistic: it continues; rolled back if not approved.",
}


async def get_project_settings(services: Services, _caller: Caller, request: GetProjectSettings) -> ProjectSettings:
    """The settings of a registered project, the origin of each, and its gate.

    Raises:
        NotFound: No folder is registered under that name.
        ConfigInvalid: A file of settings cannot be used.
    """
    project = request.project
    root = services.projects.root(project)
    if root is None:
        raise gate_switch.unknown(services, project)
    gate = await gate_switch.state_of(services, project)
    views = await asyncio.to_thread(_views, root, services.options)
    confines = await asyncio.to_thread(sandbox.bubblewrap) is not None
    return ProjectSettings(project, root, views, gate, confines)


def _views(folder: str, options: Mapping[str, Any]) -> tuple[SettingView, ...]:
    root = Path(planning.project_root(folder))
    _ensure_readable(root / PROJECT_FILE)
    usual = load_settings().settings
    # Values that no file and no variable has came from the command line at the broker's start.
    given = {key: value for key, value in options.items() if getattr(usual, key) != value}
    loaded = load_settings(given, root)
    refused = _refused(loaded)
    shown = settings_view.described(loaded)["settings"]
    return (
        *(
            SettingView(key, one["value"], one["origin"], one["description"] or "", refused.pop(key, None))
            for key, one in shown.items()
        ),
        *_of_pool(loaded, refused),
        *_of_planning(root),
        # Names of no setting that a file of the project has all the same.
        *(SettingView(key, None, str(root / PROJECT_FILE), "", reason) for key, reason in refused.items()),
    )


def _ensure_readable(file: Path) -> None:
    """Refuse to read a file that cannot be one of settings: others may write to the folder.

    Raises:
        ConfigInvalid: It is too large, or no file at all.
    """
    try:
        found = file.stat()
    except OSError:
        return
    if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST_FILE_BYTES:
        raise ConfigInvalid(
            f"{file} is no file of at most {_LARGEST_FILE_BYTES} bytes; write the project's settings again.",
            origin=str(file),
        )


def _refused(loaded: LoadedSettings) -> dict[str, str]:
    """Why something was not used, by setting; bounded, as the words are the repository's."""
    found: dict[str, str] = {}
    for one in loaded.ignored[:_MOST_IGNORED]:
        key, reason = (visible(text[:_LONGEST_TEXT]) for text in (one.key, f"{one.origin}: {one.reason}"))
        found[key] = f"{found[key]}; {reason}" if key in found else reason
    return found


def _of_pool(loaded: LoadedSettings, refused: dict[str, str]) -> Iterable[SettingView]:
    """Those of the pool's settings of which a file of the project says something."""
    pool: dict[str, Any] = loaded.settings.reviewer_pool.model_dump(mode="json")
    for key, field in PoolSettings.model_fields.items():
        name = f"{pool_settings.TABLE}.{key}"
        if key in loaded.pool_origins or name in refused:
            origin = loaded.pool_origins.get(key, loaded.origins[pool_settings.TABLE])
            yield SettingView(
                name, settings_view.shown(key, pool[key]), origin, field.description or "", refused.pop(name, None)
            )


def _of_planning(root: Path) -> Iterable[SettingView]:
    for key, one in settings_view.of_planning(str(root)).items():
        ignored = None if one["ignored"] is None else f"{one['ignored']} loosens; a person may run 'tandem trust'"
        yield SettingView(key, one["value"], one["origin"], _OF_PLANNING[key], ignored)
