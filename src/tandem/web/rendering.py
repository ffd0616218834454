"""The templates' environment, which runs nothing that an agent wrote; and the styles and scripts of the pages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import orjson
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import Response

from tandem.core.clock import Clock
from tandem.errors import NotFound, TandemError
from tandem.pool.rules import readable
from tandem.present.facts import brief, facts, table, worded
from tandem.present.words import draft_name, duration, reviewer_name
from tandem.reviews.page_contract import Draft
from tandem.reviews.rules import State
from tandem.server.catalogue import REGISTRY
from tandem.web.diffs.code import shown, spelled
from tandem.web.diffs.markdown import markdown
from tandem.web.page import PageRequest

FOLDER = Path(__file__).parent / "static"
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_FOREVER = "public, max-age=31536000, immutable"
_STAMP_DIGITS = 12


class StaticFiles:
    """All static files, read once; a request names one of them and never a path of the disk."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._files = {
            path.relative_to(folder).as_posix(): (path.read_bytes(), _TYPES[path.suffix])
            for path in sorted(folder.rglob("*"))
            if path.suffix in _TYPES
        }
        self._stamps = {
            name: hashlib.sha256(body).hexdigest()[:_STAMP_DIGITS] for name, (body, _) in self._files.items()
        }

    def address(self, name: str) -> str:
        """Where a file is, by its path under `static/`."""
        return f"/static/{self._stamps[name]}/{name}"

    async def serve(self, request: PageRequest) -> Response:
        """Answer with a file.

        Raises:
            NotFound: There is none of that name.
        """
        name, stamp = request.path("name"), request.path("stamp")
        found = self._files.get(name)
        if found is None:
            raise NotFound("There is no such file.", path=name[:200])
        current = stamp == self._stamps[name]
        headers = {"cache-control": _FOREVER if current else "no-cache"}
        return Response(found[0], media_type=found[1], headers=headers)


_PARTS = re.compile(r"(?<=[.;]) ")
_CATEGORY_WORDS = {
    "plan_review": "Plan",
    "code_change": "Change",
    "verification": "Verification",
    "handoff": "Hand-off",
}


def environment() -> Environment:
    """The environment of all templates; pages need `static` among its globals and the filter `when` besides."""
    made = Environment(
        loader=FileSystemLoader(str(files("tandem.web") / "templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    filters: dict[str, Callable[..., Any]] = made.filters
    filters |= {
        "duration": duration,
        "plain": plain,
        "part": address_part,
        "state_words": partial(_from_words, {**{state: sentence(state) for state in State}, "circuit_open": "paused"}),
        "category_words": partial(_from_words, _CATEGORY_WORDS),
        "words": words,
        "reviewer_name": reviewer_name,
        "draft_name": _draft_name,
        "readable": readable,
        "refused": refused,
        "on_page_of": on_page_of,
        "sentence": sentence,
        "value": as_text,
        "listed": listed,
        "markdown": markdown,
        "shown": shown,
        "spelled": spelled,
        "facts": facts,
        "brief": brief,
        "fact_table": table,
        "worded": worded,
    }
    return made


def _draft_name(draft: Draft) -> str:
    return draft_name(asdict(draft))


def plain(text: object) -> str:
    """A text in which every character can be seen."""
    return spelled(str(text).replace("\r\n", "\n"))


_REFUSED = {
    "POOL_CAP_REACHED": "The pool has as many reviewers as it may. End one, or wait until one has ended.",
    "POOL_DISABLED": "The pool is paused, and starts no reviewer. Resume it first.",
}
_NAMES_OPERATION = re.compile(rf"(?<!['\w])(?:{'|'.join(one.name for one in REGISTRY)})(?!['\w])")
_OF_CHOICE = "Input should be '"
_ENDS = (".", "!", "?", ")")
_COMMAND = re.compile(": (?:tandem|git) ")


def refused(error: TandemError) -> str:
    """A refusal in words for people: it leaves out what names an operation, which agents call."""
    message = _REFUSED.get(error.code, error.message)
    if problems := error.details.get("problems"):
        message = " ".join(_problem(words(one["field"]), str(one["problem"])) for one in problems)
    kept = [one for one in _PARTS.split(message) if not _NAMES_OPERATION.search(one)]
    said = (" ".join(kept) or "This cannot be done now").rstrip(";: ")
    # A full stop behind a command would be copied with it.
    return said if said.endswith(_ENDS) or _COMMAND.search(_PARTS.split(said)[-1]) else f"{said}."


def on_page_of(said: str, review_id: str) -> str:
    """What helps, on the page of a review: without the commands that do there what the page has buttons for."""
    return re.sub(rf"(?:, and: |: | \()tandem (?:reviewers \w+|[\w ]*{re.escape(review_id)})\)?", "", said)


def _problem(field: str, problem: str) -> str:
    if problem.startswith(_OF_CHOICE):
        return f"There is no such {field}."
    return f"{sentence(field)}: {problem}{'' if problem.endswith(_ENDS) else '.'}"


def as_text(value: object) -> str:
    """A text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def listed(value: object) -> list[Any]:
    """The values of a list; any other value alone."""
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def address_part(text: object) -> str:
    """A text as one part of an address."""
    return quote(str(text), safe="")


def words(name: object) -> str:
    """A name of the contract as words."""
    return plain(name).replace("_", " ")


def sentence(text: object) -> str:
    """Words as they begin a line."""
    begun = words(text)
    return begun[:1].upper() + begun[1:]


def _from_words(known: Mapping[str, str], name: str) -> str:
    return known.get(name) or words(name)


def when(clock: Clock, instant: str | None, form: str = "ago") -> Markup | str:
    """A time as `<time>`, exact as a title: how long ago it is for reading, `for` how long, or as a `clock` has it."""
    if not instant:
        return "–"
    then = datetime.fromisoformat(instant).astimezone(UTC)
    seconds = (datetime.fromtimestamp(clock.now_us() / 1_000_000, UTC) - then).total_seconds()
    told = {"for": duration(max(0, seconds)), "clock": then.strftime("%H:%M UTC")}.get(form)
    told = told or (f"in {duration(-seconds)}" if seconds < 0 else f"{duration(seconds)} ago")
    exact = then.strftime("%Y-%m-%d %H:%M:%S UTC")
    return Markup('<time datetime="{}" title="{}" data-form="{}">{}</time>').format(instant, exact, form, told)
