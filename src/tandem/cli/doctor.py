"""`tandem doctor`: what is wrong here, and how it is mended."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from tandem.cli.commands import add, command
from tandem.cli.connection_options import BrokerOption, JsonOption
from tandem.cli.terminal import Exit, NoWrap, progress, say, show, tell
from tandem.core.visible import visible_line
from tandem.errors import TandemError
from tandem.gsd.findings import CHECKS
from tandem.hooks import state
from tandem.setup.doctor import DoctorContext, Finding, Level, examine

_MARKS = {
    Level.OK: ("ok", "green"),
    Level.NOTE: ("note", "yellow"),
    Level.PROBLEM: ("PROBLEM", "bold red"),
    Level.SKIPPED: ("skipped", "dim"),
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    add(app, "doctor", doctor)


@command()
async def doctor(
    *,
    fix: Annotated[bool, typer.Option("--fix", help="Apply the safe remedies, then check again.")] = False,
    broker: BrokerOption = None,
    as_json: JsonOption = False,
) -> Exit:
    """Find problems: programs, broker, database, gate, clients. Runs every hook with something that it must refuse.

    Looks at the repository that you are in. Exit status 1 if there is a problem; each says what to do about it.
    """
    found = await _look(broker, tell=not as_json)
    mended: list[str] = []
    if fix and any(one.state is Level.PROBLEM and one.repair for one in found):
        mended = await _mend(found)
        found = await _look(broker, tell=not as_json)
    problems = [one for one in found if one.state is Level.PROBLEM]
    data = {"healthy": not problems, "findings": [one.facts() for one in found], "mended": mended}
    tell(data, Text(_summary(problems, fix=fix), style="bold"), as_json=as_json)
    return Exit.REFUSED if problems else Exit.DONE


async def _look(broker: str | None, *, tell: bool) -> list[Finding]:
    """All findings, told as they come."""
    place = state.find_repository(str(Path.cwd()))
    repository = place if place is not None and place.top is not None else None
    here = DoctorContext(Path.cwd(), Path.home(), os.environ, broker, repository)
    found: list[Finding] = []
    async with progress("looking"):
        async for one in examine(here, CHECKS):
            found.append(one)
            if tell:
                show(_told(one))
    return found


async def _mend(found: list[Finding]) -> list[str]:
    """Mend each problem that can be; one repair for all that have the same fix."""
    mended: dict[str, str] = {}
    for one in found:
        name = f"{one.check}: {one.fix}"
        if one.state is not Level.PROBLEM or one.repair is None or name in mended:
            continue
        try:
            await one.repair()
        except (TandemError, OSError) as error:
            say(f"{one.check} could not be mended: {error.message if isinstance(error, TandemError) else error}")
            continue
        mended[name] = one.message
        say(f"mended: {one.message}")
    return list(mended.values())


def _told(one: Finding) -> NoWrap:
    word, style = _MARKS[one.state]
    line = Text(f"{word:<9}", style=style)
    line.append(f"{one.check:<13}", style="bold")
    line.append(visible_line(one.message), style="not bold default")
    lines = [line]
    if one.fix is not None and one.state is not Level.OK:
        lines.append(Text(f"{'':22}fix: {visible_line(one.fix)}", style="dim" if one.state is Level.NOTE else ""))
    return NoWrap(*lines)


def _summary(problems: list[Finding], *, fix: bool) -> str:
    if not problems:
        return "No problem was found."
    count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
    if not fix and any(one.repair for one in problems):
        return f"{count}; tandem doctor --fix mends what can be mended safely."
    return f"{count}."
