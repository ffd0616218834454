"""`tandem config show`: every setting, its value and where that comes from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from tandem.bridge.project import top_level
from tandem.cli.terminal import say, show, show_envelope, show_refusal, visible
from tandem.config import LoadedSettings, Settings, load_settings, masked, user_file
from tandem.domain.workflows import BUILT_IN, load
from tandem.errors import TandemError
from tandem.hooks import planning, trust


def register(app: typer.Typer) -> None:
    """Add the command group."""
    group = typer.Typer(no_args_is_help=True, help="Settings, and where each comes from.")
    group.command("show")(show_settings)
    app.add_typer(group, name="config")


def show_settings(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print an envelope of JSON.")] = False,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="DIR", help="As if this were given to 'tandem up'.")
    ] = None,
) -> None:
    """Show every setting with its value and origin, and what was found and ignored.

    The project's .tandem/config.toml is that of the repository you are in, and so are GSD's settings in its
    .planning/config.json. They may only tighten, unless you trusted them: tandem trust.
    """
    root = top_level(".")
    try:
        loaded = load_settings({"data_dir": data_dir}, Path(root) if root else None)
    except TandemError as error:
        raise typer.Exit(show_refusal(error, as_json=as_json)) from None
    workflow = _planning(root) if root else {}
    if as_json:
        show_envelope(json.dumps({"ok": True, "data": {**described(loaded), "workflow": workflow}}).encode())
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


def described(loaded: LoadedSettings) -> dict[str, Any]:
    """All settings as JSON values, secrets masked."""
    return {
        "settings": {
            key: {
                "value": masked(key, getattr(loaded.settings, key)),
                "origin": loaded.origins[key],
                "description": field.description,
            }
            for key, field in Settings.model_fields.items()
        },
        "ignored": [{"key": one.key, "origin": one.origin, "reason": one.reason} for one in loaded.ignored],
        "trusted": list(loaded.trusted),
        "reviewer_pool_origins": dict(loaded.pool_origins),
    }


def _planning(root: str) -> dict[str, dict[str, Any]]:
    """GSD's three settings of Tandem's: the value that holds, its file, and a looser one that nobody has trusted."""
    found = planning.read(root)
    holds = planning.effective(found, trusted=trust.trusts(str(user_file().parent), found))
    values: dict[str, tuple[bool | str, bool | str]] = {
        planning.ENABLED: (holds.tandem_enabled, found.tandem_enabled),
        planning.GRANULARITY: (holds.granularity, found.granularity),
        planning.MODE: (holds.mode, found.mode),
    }
    return {
        key: {
            "value": value,
            "origin": str(Path(found.root, found.origins[key])) if key in found.origins else "default",
            "ignored": stated if stated != value else None,
        }
        for key, (value, stated) in values.items()
    }


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
