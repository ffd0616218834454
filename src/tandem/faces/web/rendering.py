"""The templates' environment: what every template may use, and nothing that runs what an agent wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from tandem.clock import Clock
from tandem.domain.reviews import State
from tandem.domain.unseen import spelled
from tandem.faces.web.static import StaticFiles

_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_CATEGORY_WORDS = {
    "plan_review": "Plan",
    "code_change": "Change",
    "verification": "Verification",
    "handoff": "Hand-off",
}


def environment(static: StaticFiles, clock: Clock) -> Environment:
    """The environment of all templates."""
    made = Environment(
        loader=FileSystemLoader(str(files("tandem.faces.web") / "templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    names: dict[str, Any] = made.globals
    names["static"] = static.address
    filters: dict[str, Callable[..., Any]] = made.filters
    filters |= {
        "when": partial(when, clock),
        "duration": duration,
        "plain": plain,
        "part": address_part,
        "state_words": partial(_from_words, {state: sentence(state) for state in State}),
        "category_words": partial(_from_words, _CATEGORY_WORDS),
        "words": words,
        "sentence": sentence,
    }
    return made


def plain(text: object) -> str:
    """A text in which every character can be seen."""
    return spelled(str(text).replace("\r\n", "\n"))


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


def when(clock: Clock, instant: str | None) -> Markup | str:
    """A time as `<time>`: how long ago for reading, exact as a title."""
    if not instant:
        return "–"
    then = datetime.fromisoformat(instant).astimezone(UTC)
    seconds = (datetime.fromtimestamp(clock.now_us() / 1_000_000, UTC) - then).total_seconds()
    told = f"in {duration(-seconds)}" if seconds < 0 else f"{duration(seconds)} ago"
    exact = then.strftime("%Y-%m-%d %H:%M:%S UTC")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(instant, exact, told)


def duration(seconds: Any) -> str:
    """A length of time in its two largest units at most."""
    if seconds is None:
        return "–"
    whole = int(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min"
    if whole < _DAY:
        return _pair(whole, _HOUR, "h", _MINUTE, "min")
    return _pair(whole, _DAY, "d", _HOUR, "h")


def _pair(whole: int, large: int, large_unit: str, small: int, small_unit: str) -> str:
    rest = whole % large // small
    return f"{whole // large} {large_unit}" + (f" {rest} {small_unit}" if rest else "")
