"""P3: acknowledged writes survive `kill -9`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tandem.store.engine import make_store
from tests.store.notes import SCHEMA, present

# Eight writers that print each acknowledged write on a line, until they are killed.
WRITERS = """
import asyncio, sys
from tandem.store.engine import make_store
from tests.store.notes import SCHEMA, add

async def writer(store, name):
    number = 0
    while True:
        key = await store.write(add(f"{name}-{number}", body="x" * 500))
        sys.stdout.write(key + "\\n")
        sys.stdout.flush()
        number += 1

async def main():
    store = make_store(sys.argv[1], schema=SCHEMA)
    await store.open()
    async with asyncio.TaskGroup() as group:
        for name in sys.argv[2].split(","):
            group.create_task(writer(store, name))

asyncio.run(main())
"""


def acknowledged_until_killed(url: str, names: str, count: int) -> list[str]:
    """Start the writers, kill them after `count` acknowledgements, and give all that they said."""
    child = subprocess.Popen(
        [sys.executable, "-c", WRITERS, url, names],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    said = [child.stdout.readline() for _ in range(count)]
    child.kill()
    # Not by `communicate`: it would lose the output that was read ahead with the last of these lines.
    rest = child.stdout.read()
    child.stdout.close()
    child.wait(60)
    # A last line without its end was cut by the kill itself.
    return [line.strip() for line in [*said, *rest.splitlines(keepends=True)] if line.endswith("\n")]


@pytest.mark.parametrize("count", [1, 500])
def test_p3_everything_acknowledged_is_there_after_kill_9(database_url: str, count: int) -> None:
    first = acknowledged_until_killed(database_url, "a,b,c,d,e,f,g,h", count)
    second = acknowledged_until_killed(database_url, "s,t,u,v,w,x,y,z", count)
    assert len(first) >= count
    assert len(second) >= count
    store = make_store(database_url, schema=SCHEMA, readers=1)
    store.open_blocking()
    kept = set(present(store))
    store.close_blocking()
    assert set(first) | set(second) <= kept
    # Committed writes that were not yet acknowledged may be there: at most one of each writer.
    assert len(kept) <= len(first) + len(second) + 16
