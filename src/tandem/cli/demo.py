"""`tandem demo`: a review, hand-off cycles and a reviewer pool before your eyes, with a broker of their own."""

from __future__ import annotations

import asyncio
import time
from enum import StrEnum
from typing import Annotated

import typer
from rich.text import Text

from tandem.cli import demo_pool
from tandem.cli.demo_cycle import CycleStory
from tandem.cli.demo_gated import GatedStory
from tandem.cli.demo_mcp import ProtocolBroken, ToolRefused
from tandem.cli.demo_review import ReviewStory
from tandem.cli.demo_stage import PROJECT, SceneFailed, Stage, stage
from tandem.cli.demo_teller import Teller
from tandem.cli.exits import Exit
from tandem.cli.terminal import console, say
from tandem.client import TandemClient
from tandem.errors import TandemError


class Part(StrEnum):
    """What can be played alone."""

    REVIEW = "review"
    CYCLE = "cycle"


def register(app: typer.Typer) -> None:
    """Add the command `demo`."""
    app.command("demo")(demo)


def demo(
    *,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the scratch folder for a look.")] = False,
    only: Annotated[
        Part | None, typer.Option("--only", help="Play the review alone, or the hand-off cycles; default: both.")
    ] = None,
    pool: Annotated[
        bool, typer.Option("--pool", help="Play a reviewer pool instead, with a scripted program for a model.")
    ] = False,
) -> None:
    """Watch agents play a review and hand-off cycles: a broker, a repository and MCP clients, all real and scratch."""
    if pool and only is not None:
        raise typer.BadParameter("A pool plays alone; leave out --only.", param_hint="--pool")
    raise typer.Exit(asyncio.run(_demo(keep=keep, only=only, pool=pool)))


async def _demo(*, keep: bool, only: Part | None, pool: bool) -> Exit:
    began = time.monotonic()
    try:
        async with stage(keep=keep, more=demo_pool.settings if pool else None) as place:
            if keep:
                say(f"The scratch folder stays: {place.folder}")
            await (_play_pool(place) if pool else _play(place, only))
    except (SceneFailed, ToolRefused, ProtocolBroken, TandemError) as error:
        console(stderr=True).print(
            Text.assemble(("The demonstration failed: ", "bold red"), str(error)), soft_wrap=True
        )
        return Exit.REFUSED
    console().print(Text(f"\nAll of it happened as it must, in {time.monotonic() - began:.1f} s.", style="bold green"))
    return Exit.DONE


async def _play(place: Stage, only: Part | None) -> None:
    teller = Teller(place)
    await _begin(teller, "A repository, a broker, and agents that speak MCP")
    if only is not Part.CYCLE:
        await ReviewStory(teller).play()
    if only is not Part.REVIEW:
        await CycleStory(teller).play()
        await GatedStory(teller).play()
    await _end(teller)


async def _play_pool(place: Stage) -> None:
    teller = Teller(place)
    await _begin(teller, "A repository, and a broker with a pool of reviewers")
    async with TandemClient(place.url, PROJECT, "demo") as client:
        await demo_pool.PoolStory(teller, client).play()
    await _end(teller)


async def _begin(teller: Teller, title: str) -> None:
    place = teller.stage
    teller.scene(title)
    await place.git("init", "--quiet")
    await place.git("commit", "--quiet", "--allow-empty", "--message", "Begin")
    teller.tell("log", f"broker at {place.url}, on embedded SQLite")
    await teller.run("project", "add")


async def _end(teller: Teller) -> None:
    teller.scene("The log of all this")
    await teller.run("audit", "verify", "--data-dir", str(teller.stage.data_dir))
