"""`/projects`: the registered projects, and each one's settings with where they come from. Nothing is changed here."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import orjson

from tandem.faces.web.answering import Page
from tandem.faces.web.asking import Ask
from tandem.faces.web.routes import PageRoute

PATH = "/projects"


async def show(ask: Ask) -> Page:
    """All registered projects."""
    return Page("projects.html", {"projects": (await ask.call("list_projects"))["projects"]})


async def settings(ask: Ask) -> Page:
    """One project's settings, and its gate."""
    found = await ask.call("get_project_settings", project=ask.path("project"))
    groups = [(name, list(rows)) for name, rows in groupby(found["settings"], key=_table)]
    ignored = [one for one in found["settings"] if one["ignored"]]
    return Page("project.html", {**found, "groups": groups, "ignored": ignored, "shown": _shown})


def _shown(value: Any) -> str:
    """A value as people write it."""
    if value in (None, "", [], {}):
        return "–"
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _table(setting: dict[str, Any]) -> str:
    """The table that a setting is in; empty for those that are in none."""
    return setting["name"].rpartition(".")[0]


ROUTES = (PageRoute(PATH, show), PageRoute(f"{PATH}/{{project}}", settings))
