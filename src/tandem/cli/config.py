"""`tandem config show`: every setting, its value and where that comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from tandem.bridge.project import top_level
from tandem.cli.commands import EnvelopeOption, command
from tandem.cli.terminal import say, show, show_data, visible
from tandem.config import LoadedSettings, load_settings
from tandem.domain.workflows import BUILT_IN, load
from tandem.services.settings_view import described, of_planning


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(no_args_is_help=True, help="Settings, and where each comes from.")
    group.command("show")(show_settings)
    app.add_typer(group, name="config")


@command()
def show_settings(
    *,
    as_json: EnvelopeOption = False,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="DIR", help="As if this were given to 'tandem up'.")
    ] = None,
) -> None:
    """Show every setting with its value and origin, and what was found and ignored.

    The project's .tandem/config.toml is that of the repository you are in, and so are GSD's settings in its
    .planning/config.json. They may only tighten, unless you trusted them: tandem trust.
    """
    root = top_level(".")
    loaded = load_settings({"data_dir": data_dir}, Path(root) if root else None)
    workflow = of_planning(root) if root else {}
    if as_json:
        show_data({**described(loaded), "workflow": workflow})
        return
    table = Table(box=None, pad_edge=False)
    for column in ("setting", "value", "from"):
        table.add_column(column, no_wrap=column == "setting", overflow="fold")
    for key, entry in described(loaded)["settings"].items():
        style = "dim" if entry["origin"] == "default" else ""
        value = _workflows(entry["value"]) if key == "workflows" else _shown(entry["value"])
        table.add_row(*(Text(visible(str(text)), style) for text in (key, value, entry["origin"])))
    for key, entry in workflow.items():
        style = "dim" if entry["origin"] == "default" else ""
        table.add_row(*(Text(visible(text), style) for text in (key, _shown(entry["value"]), entry["origin"])))
    show(table)
    _say_what_counts(loaded, workflow)


def _say_what_counts(loaded: LoadedSettings, workflow: dict[str, dict[str, Any]]) -> None:
    """What of the project's files counts, and what does not."""
    for file in loaded.trusted:
        say(f"trusted: {file} counts in full, as its content was trusted; 'tandem trust --revoke' takes that back")
    for key, origin in loaded.pool_origins.items():
        say(f"reviewer_pool.{key} is from {origin}")
    for key, entry in workflow.items():
        if entry["ignored"] is not None:
            say(f"ignored: {key} in {entry['origin']}: {entry['ignored']} loosens; a person may run 'tandem trust'")
    for ignored in loaded.ignored:
        say(f"ignored: {ignored.key} in {ignored.origin}: {ignored.reason}")


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
