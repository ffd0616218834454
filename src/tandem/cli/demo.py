"""`tandem demo`: two MCP clients play a whole review before your eyes, with a broker of their own."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

import typer
from rich.text import Text

from tandem.cli.demo_mcp import ProtocolBroken, ToolRefused
from tandem.cli.demo_stage import SceneFailed, stage
from tandem.cli.demo_story import Story
from tandem.cli.exits import Exit
from tandem.cli.terminal import console, say
from tandem.errors import TandemError


def register(app: typer.Typer) -> None:
    """Add the command `demo`."""
    app.command("demo")(demo)


def demo(*, keep: Annotated[bool, typer.Option("--keep", help="Leave the scratch folder for a look.")] = False) -> None:
    """Watch two agents play a whole review: a broker, a repository and two MCP clients, all of it real and scratch."""
    raise typer.Exit(asyncio.run(_demo(keep=keep)))


async def _demo(*, keep: bool) -> Exit:
    began = time.monotonic()
    try:
        async with stage(keep=keep) as place:
            if keep:
                say(f"The scratch folder stays: {place.folder}")
            await Story(place).play()
    except (SceneFailed, ToolRefused, ProtocolBroken, TandemError) as error:
        console(stderr=True).print(
            Text.assemble(("The demonstration failed: ", "bold red"), str(error)), soft_wrap=True
        )
        return Exit.REFUSED
    console().print(Text(f"\nAll of it happened as it must, in {time.monotonic() - began:.1f} s.", style="bold green"))
    return Exit.DONE
