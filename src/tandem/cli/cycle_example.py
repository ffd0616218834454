"""`tandem cycle example`: ready workflows, to be copied into the user's own configuration."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated, Any

import orjson
import typer
from rich.text import Text

from tandem.cli.calls import run
from tandem.cli.completion import complete_example
from tandem.cli.exits import Exit
from tandem.cli.render.parts import facts
from tandem.cli.terminal import say, show, show_envelope
from tandem.errors import NotFound

EPILOG = """[bold]Examples[/bold]

  tandem cycle example

  tandem cycle example planner-builder-tester"""


def example(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Which one to print.", autocompletion=complete_example),
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print an envelope of JSON.")] = False,
) -> None:
    """List the ready workflows, or print one to be appended to your config.toml."""
    run(_example(name, as_json=as_json), as_json=as_json)


async def _example(name: str | None, *, as_json: bool) -> Exit:
    from tandem.config import user_file
    from tandem.examples import examples

    found = examples()
    file = str(user_file())
    if name is None:
        _list({one: _about(text) for one, text in found.items()}, file, as_json=as_json)
        return Exit.DONE
    if name not in found:
        raise NotFound(f"There is no example '{name}'; there are: {', '.join(found)}.", allowed=list(found))
    if as_json:
        _show({"name": name, "text": found[name], "file": file})
        return Exit.DONE
    say(f"To be appended to {file}: tandem cycle example {name} >> {shlex.quote(file)}")
    say("Then start the broker anew: it reads its configuration once.")
    sys.stdout.write(found[name])
    return Exit.DONE


def _list(found: dict[str, str], file: str, *, as_json: bool) -> None:
    if as_json:
        _show({"examples": [{"name": name, "about": about} for name, about in found.items()], "file": file})
        return
    show(facts([(name, Text(about)) for name, about in found.items()]))
    say("To print one: tandem cycle example NAME")


def _about(text: str) -> str:
    """The first line of the comment at the top."""
    return text.partition("\n")[0].lstrip("# ")


def _show(data: dict[str, Any]) -> None:
    show_envelope(orjson.dumps({"ok": True, "data": data}))
