"""`tandem gsd overlay`: put the pointers into GSD's files, take them out, put them in again after its update."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from tandem.bridge.project import top_level
from tandem.cli.terminal import Unbroken, say, show, show_envelope, show_refusal, visible
from tandem.config import load_settings
from tandem.errors import InvalidInput, NotFound, TandemError
from tandem.workflow.edits import diff
from tandem.workflow.gsd.installs import Client, Install, find
from tandem.workflow.gsd.overlay import Overlays, Plan


def overlay(
    *,
    remove: Annotated[bool, typer.Option("--remove", help="Take the pointers out, to the byte.")] = False,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Only where they were put in before, such as after an update of GSD.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes as a diff, and make none.")] = False,
    client: Annotated[
        list[Client] | None,
        typer.Option("--client", help="Only this client's GSD; for several, several times."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print an envelope of JSON.")] = False,
) -> None:
    """Put one-line pointers to 'tandem gate …' into what GSD installed, here and in your home folder.

    Each stands between marks at the step that it is for, and says to go on where nothing is reviewed. The review's
    tools are added to the lists of allowed tools, and GSD's own manifest is kept true, so that its updater sees no
    patch. An update of GSD takes them out; the session's start puts them in again.
    """
    try:
        if remove and refresh:
            raise InvalidInput("Choose one of --remove and --refresh.", field="--refresh")
        overlays = Overlays(load_settings().settings.data_dir)
        chosen = _chosen(overlays, set(client or Client), refresh=refresh)
        plans = [overlays.plan(one, remove=remove) for one in chosen]
        if not dry_run:
            overlays.carry_out(plans, remove=remove)
            overlays.forget_missing()
    except TandemError as error:
        raise typer.Exit(show_refusal(error, as_json=as_json)) from None
    if as_json:
        data = {"dry_run": dry_run, "installs": [plan.facts() for plan in plans]}
        show_envelope(json.dumps({"ok": True, "data": data}).encode())
        return
    for plan in plans:
        _show(plan, remove=remove, dry_run=dry_run)


def _chosen(overlays: Overlays, clients: set[Client], *, refresh: bool) -> list[Install]:
    """The installations to work on.

    Raises:
        NotFound: There are none.
    """
    top = top_level(".")
    remembered = overlays.remembered()
    found = remembered if refresh else find(Path(top) if top else None, os.environ, Path.home())
    chosen = [one for one in found if one.client in clients]
    if not chosen and not refresh:
        raise NotFound(
            "GSD is not installed here, neither for this project nor for you. Install it with 'npx get-shit-done-cc', "
            "then run this again.",
            clients=sorted(clients),
        )
    return chosen


def _show(plan: Plan, *, remove: bool, dry_run: bool) -> None:
    one = plan.install
    where = f"GSD {one.version} of {one.client} in {one.folder}"
    if dry_run:
        show(Unbroken(Text(visible(diff(plan.changes)), end="")))
    elif remove:
        say(f"{where}: {len(plan.changes)} files are as GSD wrote them")
    else:
        say(f"{where}: {plan.pointers} pointers, {len(plan.changes)} files changed")
    for problem in (*plan.missing, *plan.skipped):
        say(f"note: {problem}")
