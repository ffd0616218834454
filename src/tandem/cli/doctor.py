"""`tandem doctor`: the problems here, and their fixes."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated, Final

from tandem.bridge.location import published_url
from tandem.cli.connection_options import BrokerOption, JsonOption
from tandem.cli.data import verified
from tandem.cli.declared import Option
from tandem.cli.terminal import Exit, progress, say, show, tell
from tandem.core.visible import visible_line
from tandem.errors import DOCS, ConfigInvalid, NotFound, TandemError
from tandem.gsd.overlay import check_overlay
from tandem.gsd.rollback.publishing import check_leftovers
from tandem.present.text import Text, Whole
from tandem.rulings import state
from tandem.settings.config import Settings, load_settings, masked
from tandem.setup.clients import home_folder
from tandem.setup.doctor import DoctorContext, Finding, Level, examine
from tandem.setup.finding import note, ok, problem, skipped
from tandem.store.log import Record

_AUDIT_SECONDS: Final = 3.0
_RESTORE: Final = "tandem down; tandem data restore --replace COPY && tandem up --background"
_COPIES: Final = f"COPY is a backup ({DOCS}/guide/backup.md#back-up)."
_LOST_KEY: Final = f"if there is none: {DOCS}/guide/backup.md#when-the-secret-is-lost"
_WITHOUT_RECORD: Final = (
    "Without that file the broker takes the database as it is: verify it then with tandem audit verify."
)
_UPGRADE: Final = (
    f"upgrade Tandem ({DOCS}/guide/install.md#upgrade), or put a copy from before in its place; do not delete it"
)

_MARKS = {
    Level.OK: ("ok", "green"),
    Level.NOTE: ("note", "yellow"),
    Level.PROBLEM: ("PROBLEM", "bold red"),
    Level.SKIPPED: ("skipped", "dim"),
}


async def doctor(
    *,
    fix: Annotated[bool, Option(help="Apply the safe remedies, then check again.")] = False,
    deep: Annotated[
        bool, Option(help="Try what users do, too: a review by the pool, a commit. That costs a short review.")
    ] = False,
    broker: BrokerOption = None,
    as_json: JsonOption = False,
) -> Exit:
    """Find problems: programs, broker, database, gate, clients. Runs every hook with something that it must refuse.

    Looks at the repository that you are in. Exit status 1 if there is a problem; each says what to do about it.
    """
    found = await _look(broker, deep=deep, tell=not as_json)
    repaired: list[str] = []
    if fix and any(one.state is Level.PROBLEM and one.repair for one in found):
        repaired = await _repair(found)
        found = await _look(broker, deep=deep, tell=not as_json)
    problems = [one for one in found if one.state is Level.PROBLEM]
    data = {"healthy": not problems, "findings": [one.facts() for one in found], "repaired": repaired}
    tell(data, Text(_summary(problems, fix=fix), style="bold"), as_json=as_json)
    return Exit.REFUSED if problems else Exit.DONE


async def _look(broker: str | None, *, deep: bool, tell: bool) -> list[Finding]:
    """All findings, told as they come."""
    place = state.find_repository(str(Path.cwd()))
    repository = place if place is not None and place.top is not None else None
    try:
        home = home_folder()
    except ConfigInvalid as error:
        # Without it nothing that follows would look where this person's settings and data are.
        return [_shown(problem("home", error.message, "export HOME=FOLDER, with a folder that is yours"), tell=tell)]
    with progress("looking") as doing:
        here = DoctorContext(Path.cwd(), home, os.environ, broker, repository, deep=deep, tell=doing)
        findings = examine(here, (check_database,), (check_overlay, check_leftovers))
        return [_shown(one, tell=tell) async for one in findings]


def _shown(one: Finding, *, tell: bool) -> Finding:
    if tell:
        show(_told(one))
    return one


async def check_database(here: DoctorContext) -> list[Finding]:
    """Whether the database can be used, and the state is what the log says: with `--deep` to the end of a long log."""
    try:
        settings = load_settings().settings
    except ConfigInvalid:
        # The settings' own finding.
        return []
    meant = here.location
    if not meant.is_own and meant.url != published_url(str(settings.data_dir)):
        return [skipped("database", f"It is that of {meant.url}; there: tandem audit verify")]
    found = await _database(here, settings)
    for one in found:
        if one.state is Level.PROBLEM:
            here.start_trouble = "secret key" if one.check == "secret" else one.check
    return found


async def _database(here: DoctorContext, settings: Settings) -> list[Finding]:
    if here.start_trouble == "data folder":
        return [skipped("database", "The data folder cannot be used.")]
    record = Record(settings.data_dir, masked("database_url", settings.database))
    try:
        was_there = record.find(None) is not None
    except ConfigInvalid as error:
        file = shlex.quote(str(record.path))
        return [problem("database", f"{_sentence(error.message)}. {_WITHOUT_RECORD}", f"mv {file} {file}.damaged")]
    try:
        found = await _audited(here, settings)
    except NotFound as error:
        if not was_there:
            return [note("database", "The broker makes it when it starts.")]
        found = [problem("database", f"{error.message.partition('. ')[0]}, and there was one. {_COPIES}", _RESTORE)]
    except ConfigInvalid as error:
        said = f"{_sentence(error.message)}."
        if not error.details.get("newer"):
            return [note("database", said, "tandem up --background")]
        found = [problem("database", said, _UPGRADE)]
    key = settings.secret_key
    if was_there and not key.exists():
        said = f"{key} is gone: the next start makes another key, by which the database cannot be used."
        found.append(problem("secret", said, f"put its copy back as {key}; {_LOST_KEY}"))
    return found


async def _audited(here: DoctorContext, settings: Settings) -> list[Finding]:
    def looked(done: int, of: int) -> None:
        here.tell(f"checking the log, {done * 100 // max(of, 1)} %")

    limit_seconds = None if here.deep else _AUDIT_SECONDS
    report = await verified(settings, is_copy=False, progress=looked, seconds=limit_seconds)
    if report.is_of_another_key:
        said = f"The database was written with another secret key than {settings.secret_key} has."
        return [problem("secret", said, f"put the key of that database in its place; {_LOST_KEY}")]
    if not report.intact:
        first, *rest = report.problems
        more = f", and {len(rest)} problems more" if rest else ""
        return [problem("database", f"It was damaged or changed: {first}{more}. {_COPIES}", _RESTORE)]
    found = [ok("database", f"The state is what the log says: {report.events} events.")]
    return found + [note("database", f"{_sentence(one)}.", "tandem audit verify") for one in report.notes]


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:].rstrip(".")


async def _repair(found: list[Finding]) -> list[str]:
    """Repair each problem that can be; one repair for all that have the same fix."""
    repaired: dict[str, str] = {}
    for one in found:
        name = f"{one.check}: {one.fix}"
        if one.state is not Level.PROBLEM or one.repair is None or name in repaired:
            continue
        try:
            await one.repair()
        except (TandemError, OSError) as error:
            say(f"{one.check} could not be repaired: {error.message if isinstance(error, TandemError) else error}")
            continue
        repaired[name] = one.message
        say(f"repaired: {one.message}")
    return list(repaired.values())


def _told(one: Finding) -> Whole:
    word, style = _MARKS[one.state]
    line = Text(f"{word:<9}", style=style)
    line.append(f"{one.check:<13}", style="bold")
    line.append(visible_line(one.message), style="not bold default")
    lines = [line]
    if one.fix is not None and one.state is not Level.OK:
        lines.append(Text(f"{'':22}fix: {visible_line(one.fix)}", style="dim" if one.state is Level.NOTE else ""))
    return Whole(*lines)


def _summary(problems: list[Finding], *, fix: bool) -> str:
    if not problems:
        return "No problem was found."
    count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
    if not fix and any(one.repair for one in problems):
        return f"{count}; tandem doctor --fix applies the safe repairs."
    return f"{count}."
