"""`tandem cycle …`: features on their way from role to role."""

from __future__ import annotations

import typer

from tandem.cli import cycle_example, cycle_keys, cycle_record
from tandem.cli.generated import add_operation
from tandem.client.table import OPERATIONS


def register(app: typer.Typer) -> None:
    """Add the group `cycle`, in the order in which the commands are needed."""
    group = typer.Typer(help="Hand-off cycles: one feature, one active role at a time.", no_args_is_help=True)
    group.command("example", epilog=cycle_example.EPILOG)(cycle_example.example)
    group.command("init", epilog=cycle_keys.INIT_EPILOG)(cycle_keys.init)
    for name in ("cycle_start", "cycle_status", "cycle_complete", "cycle_archive", "list_cycles"):
        add_operation(group, OPERATIONS[name])
    group.command("show", epilog=cycle_record.SHOW_EPILOG)(cycle_record.show_cycle)
    group.command("export", epilog=cycle_record.EXPORT_EPILOG)(cycle_record.export)
    group.command("rotate", epilog=cycle_keys.ROTATE_EPILOG)(cycle_keys.rotate)
    add_operation(group, OPERATIONS["cycle_revoke"])
    app.add_typer(group, name="cycle")
