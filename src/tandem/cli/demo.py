"""`tandem demo`: a review, hand-off cycles and a reviewer pool before your eyes, with a broker of their own."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from pathlib import Path
from typing import Annotated, Literal

from tandem.bridge.target import HttpFailure
from tandem.cli import demo_cycle, demo_pool, demo_review
from tandem.cli.declared import Misused, Option
from tandem.cli.demo_stage import SceneFailed, open_stage
from tandem.cli.terminal import Exit, say, show
from tandem.core.scratch import ScratchFolder
from tandem.errors import TandemError
from tandem.examples import examples
from tandem.present.text import Text, Whole


def demo(
    *,
    keep: Annotated[bool, Option("--keep", help="Keep the scratch folder.")] = False,
    only: Annotated[
        Literal["review", "cycle"] | None,
        Option("--only", help="Play the review alone, or the hand-off cycles; default: both."),
    ] = None,
    pool: Annotated[
        bool, Option("--pool", help="Play a reviewer pool instead, with a scripted program for a model.")
    ] = False,
) -> None:
    """Watch agents play a review and hand-off cycles: a broker, a repository and MCP clients, all real and scratch."""
    if pool and only is not None:
        raise Misused("A pool plays alone; leave out --only.", "--pool")
    began = time.monotonic()
    # One that is kept has a name that nobody sweeps.
    scratch = contextlib.nullcontext(tempfile.mkdtemp(prefix="tandem-demo-kept-")) if keep else ScratchFolder("demo")
    try:
        with scratch as folder:
            if keep:
                say(f"The scratch folder stays: {folder}")
            asyncio.run(_play(Path(folder).resolve(), only, pool=pool))
    except (SceneFailed, TandemError, HttpFailure, TimeoutError) as error:
        reason = Text.assemble(("The demonstration failed: ", "bold red"), str(error) or type(error).__name__)
        show(Whole(reason), stderr=True)
        raise SystemExit(Exit.REFUSED) from None
    show(Text(f"\nAll of it happened as it must, in {time.monotonic() - began:.1f} s.", "bold green"))


async def _play(folder: Path, only: str | None, *, pool: bool) -> None:
    configuration = examples()[demo_cycle.GATED_WORKFLOW] + (demo_pool.SETTINGS if pool else "")
    async with open_stage(folder, configuration) as stage:
        who = "a broker with a pool of reviewers" if pool else "a broker, and agents that speak MCP"
        stage.scene(f"A repository, {who}")
        await stage.git("init", "--quiet", "--initial-branch=main")
        await stage.git("commit", "--quiet", "--allow-empty", "--message", "Begin")
        stage.tell("log", f"broker at {stage.url}, on embedded SQLite")
        await stage.tandem("project", "add")
        if pool:
            await demo_pool.play(stage)
        if not pool and only != "cycle":
            await demo_review.play(stage)
        if not pool and only != "review":
            await demo_cycle.play(stage)
        stage.scene("The log of all this")
        await stage.tandem("audit", "verify", "--data-dir", str(stage.data_dir))
