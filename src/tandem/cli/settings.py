"""`tandem config show` and `tandem trust`: every setting with its origin, and what of a repository counts in full."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from rich.cells import chop_cells

from tandem.bridge.location import is_local, locate
from tandem.bridge.project import top_level
from tandem.cli.declared import Argument, Option
from tandem.cli.render.parts import listing
from tandem.cli.terminal import EnvelopeOption, say, show, show_data
from tandem.client import TandemClient
from tandem.core.visible import visible, visible_line
from tandem.errors import Forbidden, InvalidInput, NotFound, TandemError
from tandem.present.text import Text
from tandem.rulings import person
from tandem.rulings.planning import project_root
from tandem.rulings.trust import CHECKS_FILE, UNCONFINED, Trusted, is_planning
from tandem.settings.config import LoadedSettings, load_settings, user_file
from tandem.settings.names import Mark
from tandem.settings.view import described, of_planning
from tandem.settings.workflows import BUILT_IN, load
from tandem.setup import trust
from tandem.setup.trust import Project, TrustCandidate

_BROKER_SECONDS = 5.0


def show_settings(
    *,
    all_: Annotated[bool, Option("--all", help="Also those that few need.")] = False,
    as_json: EnvelopeOption = False,
    data_dir: Annotated[Path | None, Option(metavar="DIR", help="As if this were given to 'tandem up'.")] = None,
) -> None:
    """Show settings with their values and origins, and the ignored ones; with [bold]--all[/bold] every one.

    The project's .tandem/config.toml is that of the repository you are in, and so are GSD's settings in its
    .planning/config.json. They may only tighten, unless you trusted them: tandem trust.
    """
    root = top_level(".")
    loaded = load_settings({"data_dir": data_dir}, Path(root) if root else None)
    workflow = of_planning(root) if root else {}
    if as_json:
        show_data({**described(loaded), "workflow": workflow})
        return
    rows: list[list[Text]] = []
    for key, entry in {**described(loaded)["settings"], **workflow}.items():
        if not all_ and entry.get("advanced") and entry["origin"] == "default":
            continue
        value = _workflows(entry["value"]) if key == "workflows" else _shown(entry["value"])
        style = "dim" if entry["origin"] == "default" else ""
        effect = entry.get("takes_effect", Mark.AT_ONCE)  # GSD's are read at each use
        rows.append([Text(visible(str(text)), style) for text in (key, value, entry["origin"], effect)])
    show(listing("setting!, value, from, takes effect", rows))
    if not all_:
        say("Few need the others: tandem config show --all")
    _say_what_counts(loaded, workflow)


def _say_what_counts(loaded: LoadedSettings, workflow: dict[str, dict[str, Any]]) -> None:
    """What of the project's files counts, and what does not."""
    for file in loaded.trusted:
        say(f"trusted: {file} counts in full, as its content was trusted; 'tandem trust --revoke' takes that back")
    say(*(f"reviewer_pool.{key} is from {origin}" for key, origin in loaded.pool_origins.items()))
    for key, entry in workflow.items():
        if entry["ignored"] is not None:
            say(f"ignored: {key} in {entry['origin']}: {entry['ignored']} loosens; a person may run 'tandem trust'")
    say(*(f"ignored: {one.key} in {one.origin}: {one.reason}" for one in loaded.ignored))


def _workflows(tables: dict[str, Any]) -> str:
    """The workflows that a setting declares, a line each."""
    if not tables:
        return f"(none besides {BUILT_IN.name})"
    known = load(tables)
    declared = [known[name] for name in tables]
    return "\n".join(f"{one.name} ({', '.join(one.roles)}; {one.mode})" for one in declared)


def _shown(value: Any) -> str:
    match value:
        case None:
            return "(none)"
        case bool():
            return str(value).lower()
        case dict():
            # A table: what differs from the defaults, a line each.
            lines = [f"{key} = {_shown(inner)}" for key, inner in value.items()]  # pyright: ignore[reportUnknownVariableType] any value
            return "\n".join(lines) or "(defaults)"
        case list() | tuple():
            return ", ".join(map(str, value)) or "(none)"  # pyright: ignore[reportUnknownArgumentType] any value
        case _:
            return str(value)


def trust_files(
    files: Annotated[
        list[Path] | None, Argument(metavar="FILE", help="Files of the project with settings; default: all there are.")
    ] = None,
    *,
    list_: Annotated[bool, Option("--list", help="Show the trusted files, in every project.")] = False,
    revoke: Annotated[bool, Option(help="Revoke the trust.")] = False,
    as_json: EnvelopeOption = False,
) -> None:
    """Allow this project's settings to loosen, and its checks to run.

    Shows exactly what would be trusted and asks the person at the terminal. Trust holds for this content in this
    project: a changed byte is asked about again. Of .planning/config.json only Tandem's own keys count. The commands of
    the base branch's .tandem/checks.toml run as checks; without bubblewrap a second question asks whether they may.
    """
    project = Project.at(".", user_file().parent)
    if list_ and revoke:
        raise InvalidInput("Choose one of --list and --revoke.", field="--list")
    if list_:
        _show_list(project, as_json=as_json)
    elif revoke:
        _revoke(project, files or (), as_json=as_json)
    else:
        _trust(project, files or (), as_json=as_json)


def _trust(project: Project, files: Sequence[Path], *, as_json: bool) -> None:
    found = project.candidates(files, confined=asyncio.run(_broker_confines(project)))
    if not found:
        raise NotFound(
            f"{project.top} has no .tandem/config.toml and no .tandem/checks.toml, and its .planning/config.json sets"
            " nothing of Tandem's: there is nothing to trust.",
            project=project.root,
        )
    unrecorded = trust.unrecorded(project.root, found)
    fresh = [one for one in found if not one.is_trusted or one in unrecorded]
    if fresh:
        ask_for(fresh)
        trust.add(project.config_dir, fresh)
    if as_json:
        facts = [{**one.facts(), "trusted": True} for one in found]
        show_data({"project": project.root, "files": facts})
        return
    for one in found:
        say(f"trusted{'' if one in fresh else ' already'}: {one.file} in {project.root} (sha256 {one.sha256})")


async def _broker_confines(project: Project) -> bool | None:
    """Whether bubblewrap works for the broker here, which runs the checks; None if it does not say, or is elsewhere."""
    broker = locate(None, project.top)
    if broker.url is None or not is_local(broker.url):
        return None
    with suppress(TandemError):
        async with TandemClient(broker, answer_s=_BROKER_SECONDS) as client:
            return await trust.confines_checks(client.data, project.root)
    return None


def ask_for(candidates: Sequence[TrustCandidate]) -> None:
    """Show a person what would be trusted, exactly, and have them agree: all that has an effect beside a question.

    Raises:
        Forbidden: An agent runs this, there is no terminal, or the person does not agree.
    """
    names = " ".join(one.file for one in candidates)
    mark = person.agent_mark()
    if mark is not None:
        raise Forbidden(
            f"Only a person may trust a repository's files, and {mark} shows that an agent runs this. Ask the "
            f"person to run 'tandem trust {names}' in a terminal of their own.",
            variable=mark,
        )
    # Comments must not carry what would run out of sight of the question: all on one screen, if it can be.
    forms = (_described, _shortened, partial(_shortened, joint="  |  "))
    found = [_screens(line for one in candidates for line in form(one)) for form in forms]
    screens = next((one for one in found if len(one) == 1), found[1])
    for number, lines in enumerate(screens, 1):
        question = "Trust exactly this?" if number == len(screens) else f"Part {number} of {len(screens)}: go on?"
        answer = person.ask("\n".join([*lines, f"{question} Type yes: "]))
        if answer is None:
            raise Forbidden(
                f"Trusting takes a person at a terminal, and there is none. Run 'tandem trust {names}' in a terminal."
            )
        if answer.lower() != "yes":
            raise Forbidden("Nothing was trusted, for the answer was not 'yes'. These settings may still only tighten.")


def _screens(lines: Iterable[str]) -> list[list[str]]:
    """Lines as they are shown at the terminal, in parts that leave room for a question below each."""
    columns, height = person.screen()
    rows = [row for line in lines for row in chop_cells(visible_line(line), columns - 1) or [""]]
    room = max(height - 3, 1)
    return [rows[at : at + room] for at in range(0, len(rows), room)]


def _described(one: TrustCandidate) -> list[str]:
    """All of it."""
    whole = "Tandem's keys of " if is_planning(one.file) else ""
    if one.file == UNCONFINED:
        whole = "without bubblewrap: "
    return ["", f"{whole}{one.path}", f"  sha256 {one.sha256}", *(f"    {line}" for line in one.text.splitlines()), ""]


def _shortened(one: TrustCandidate, joint: str = "\n") -> list[str]:
    """All of it that has an effect, with the joint between: the commands of checks, the values of other files."""
    if one.file == UNCONFINED or is_planning(one.file):
        effects = one.text.splitlines()
    else:
        effects = trust.commands(one.text) if one.file == CHECKS_FILE else trust.values(one.text)
    said = f"{one.file}, {len(one.text.splitlines())} lines, sha256 {one.sha256[:16]}…, in {one.root}:"
    return [said, *(f"    {line}" for line in joint.join(effects).split("\n"))]


def _revoke(project: Project, files: Sequence[Path], *, as_json: bool) -> None:
    names = project.names(files) if files else None
    gone = trust.revoke(project.config_dir, project.root, names)
    if as_json:
        show_data({"project": project.root, "revoked": [one._asdict() for one in gone]})
        return
    say(*(f"no longer trusted: {one.file} in {one.root} (sha256 {one.sha256})" for one in gone))
    if not gone:
        say(f"Nothing of {project.root} was trusted.")


def _show_list(project: Project, *, as_json: bool) -> None:
    pairs = [(one, _state(one, project.config_dir)) for one in trust.listed(project.config_dir)]
    if as_json:
        show_data({"trusted": [{**one._asdict(), "state": state} for one, state in pairs]})
        return
    if not pairs:
        say("Nothing is trusted: a repository's settings may only tighten.")
        return
    rows = [(one.root, one.file, one.sha256[:16], one.at, one.by, state) for one, state in pairs]
    show(listing("project, file, sha256, since, by, now", rows))


def _state(one: Trusted, config_dir: Path) -> str:
    """Whether the file still has its trusted content."""
    try:
        top = project_root(one.root) if Path(one.root).is_dir() else one.root
        found = Project(one.root, top, top, config_dir).candidate(one.file)
    except TandemError:
        return "unreadable"
    if found is None:
        return "gone"
    return "holds" if found.sha256 == one.sha256 else "changed"
