"""A review as one HTML file: its styles are inside, and its own policy lets it ask nobody for anything."""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from tandem.domain.unseen import spelled
from tandem.faces.web.diffs.markdown import markdown
from tandem.faces.web.diffs.outline import outline
from tandem.faces.web.diffs.syntax import Budget
from tandem.faces.web.diffs.views import FileView, view
from tandem.faces.web.diffs.visible import shown
from tandem.faces.web.exports.facts import facts, happened, said

_HIGHLIGHT_SECONDS = 1.0
_MOST_LINES = 200_000
_MOST_MARKUP = 50_000_000
_STYLES = ("export.css", "diff.css", "syntax.css")


def page(proposal: dict[str, Any], discussion: dict[str, Any], timeline: dict[str, Any]) -> str:
    """The whole review as a document of its own. Takes up to seconds for a large diff: call it in a thread.

    Send it as an attachment: its styles stand inside it, where the policy of the broker's own pages allows none.

    Args:
        proposal: As `get_proposal` answers it.
        discussion: As `get_discussion` answers it, with the entries of all its pages.
        timeline: As `get_review_timeline` answers it.
    """
    budget = Budget(_HIGHLIGHT_SECONDS, _MOST_MARKUP)
    return (
        _environment()
        .get_template("export.html")
        .render(
            style=_style(),
            policy=_policy(),
            proposal=proposal,
            facts=facts(proposal),
            views=_views(proposal.get("diff") or "", budget),
            entries=[(entry, _views(entry.diff or "", budget, f"c{at}-")) for at, entry in enumerate(said(discussion))],
            events=happened(timeline),
        )
    )


def _views(diff: str, budget: Budget, prefix: str = "") -> list[FileView]:
    found: list[FileView] = []
    left = _MOST_LINES
    for index, file in enumerate(outline(diff).files):
        shown_part = view(file, index, limit=max(left, 0), budget=budget, prefix=prefix)
        left -= shown_part.lines
        found.append(shown_part)
    return found


@lru_cache(maxsize=1)
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(str(files("tandem.faces.web") / "templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters["markdown"] = markdown
    made.filters["shown"] = shown
    made.filters["spelled"] = spelled
    return made


@lru_cache(maxsize=1)
def _style() -> Markup:
    folder = Path(str(files("tandem.faces.web") / "static"))
    return Markup("\n".join((folder / name).read_text("utf-8") for name in _STYLES))  # noqa: S704 - our own files


def _policy() -> str:
    """Nothing but the style above, by its digest."""
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode("ascii")
    return f"default-src 'none'; style-src 'sha256-{digest}'; form-action 'none'; base-uri 'none'"
