"""`/projects`: the registered projects, and each one's settings with where they come from. Nothing is changed here."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import orjson

from tandem.gate.contract import ProjectSettings, SettingView
from tandem.web.page import PageRequest, PageResponse, PageRoute

PATH = "/projects"


async def show(request: PageRequest) -> PageResponse:
    """All registered projects."""
    return PageResponse("projects.html", {"projects": (await request.call("list_projects")).projects})


async def settings(request: PageRequest) -> PageResponse:
    """One project's settings, and its gate."""
    found: ProjectSettings = await request.call("get_project_settings", project=request.path("project"))
    groups = [(name, list(rows)) for name, rows in groupby(found.settings, key=_table)]
    ignored = [one for one in found.settings if one.ignored]
    return PageResponse("project.html", {"found": found, "groups": groups, "ignored": ignored, "shown": _shown})


def _shown(value: Any) -> str:
    """A value as people write it."""
    if value in (None, "", [], {}):
        return "–"
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _table(setting: SettingView) -> str:
    """The table that a setting is in; empty for those that are in none."""
    return setting.name.rpartition(".")[0]


ROUTES = (PageRoute(PATH, show), PageRoute(f"{PATH}/{{project}}", settings))
