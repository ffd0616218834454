"""A supervisor in a process of its own, to be killed: `lone_supervisor.py FOLDER COUNT`; makes `ready` when all run."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.reviewers.supervising import OrderBook, Scene


async def main(folder: Path, count: int) -> None:
    """Has so many reviewers running, then waits for its end."""
    scene, book = Scene(folder), OrderBook()
    async with scene.supervising(book, "busy") as supervisor:
        for row in [book.order(scene.root) for _ in range(count)]:
            await scene.job(row)
        (scene.notes / "ready").touch()
        await supervisor.wait_ended()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
