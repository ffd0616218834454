"""What the gate costs `git fetch`: before 2.51, git starts the hook for refs twice for each ref that it updates."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from bench.processes import Broker, environment, python
from bench.report import quartiles
from bench.repositories import SMALL, make_repository
from bench.run import Run

MEASURE = "fetches: what the gate adds to git fetch"
REFS = 300
RATIO = 2.0
_BATCHING = (2, 51)
"""The first git that updates all refs of a fetch in one transaction, without `--atomic`."""

_NOTHING = "#!/bin/sh\nexit 0\n"


async def measure(run: Run) -> None:
    """The same new commits on 300 branches, fetched by turns with the gate, without, and with an empty hook."""
    record = run.recorder(MEASURE)
    with Broker(run.scratch / "fetching") as broker:
        env = {**environment(broker.data_dir), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        source = make_repository(run.scratch / "source", SMALL)
        trees = {name: _clone(source, run.scratch / name, env) for name in ("without", "empty hook", "gate")}
        hook = trees["empty hook"] / ".git/hooks/reference-transaction"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(_NOTHING, "utf-8")
        hook.chmod(0o755)
        command = [python(), "-m", "tandem", "gate", "on", "--broker", f"http://127.0.0.1:{broker.port}"]
        await asyncio.to_thread(subprocess.run, command, cwd=trees["gate"], env=env, check=True, capture_output=True)
        for how in ((), ("--atomic",)):
            taken: dict[str, list[float]] = {name: [] for name in trees}
            for number in range(run.times(10, 3) + 1):
                _commit(source, env, number)
                for name, root in trees.items():
                    taken[name].append(await asyncio.to_thread(_fetch_ms, root, env, how))
            # The first one reads everything from the disk.
            ratios = [one / other for one, other in zip(taken["gate"][1:], taken["without"][1:], strict=True)]
            name = f"a fetch of {REFS} refs{' with --atomic' if how else ''}: times that without the gate"
            target = RATIO if how or _git_version(env) >= _BATCHING else None
            told = ", ".join(f"{name} {median(times[1:]):.0f} ms" for name, times in taken.items())
            record.add(name, median(ratios), "", target, detail=f"{quartiles(ratios, digits=1)}; {told}")
            beside = [one / other for one, other in zip(taken["gate"][1:], taken["empty hook"][1:], strict=True)]
            if not how:
                name = f"a fetch of {REFS} refs: times that with a hook that does nothing"
                record.add(name, median(beside), "", 1.5, detail=quartiles(beside, digits=1))


def _clone(source: Path, root: Path, env: Mapping[str, str]) -> Path:
    _git(source.parent, env, "clone", "--quiet", str(source), str(root))
    return root


def _commit(source: Path, env: Mapping[str, str], number: int) -> None:
    """A new commit on each branch."""
    lines = [
        f"commit refs/heads/branch-{branch}\ncommitter Bench <bench@example.invalid> {1_790_000_000 + number} +0000\n"
        f"data 1\nx\nfrom {'refs/heads/main^0' if not number else f'refs/heads/branch-{branch}^0'}\n"
        f"M 100644 inline file\ndata {len(text)}\n{text}\n"
        for branch in range(REFS)
        for text in [f"{branch} {number} {time.time_ns()}"]
    ]
    command = ["git", "fast-import", "--quiet", "--force"]
    subprocess.run(command, cwd=source, env=env, check=True, input="".join(lines).encode(), capture_output=True)


def _fetch_ms(root: Path, env: Mapping[str, str], options: tuple[str, ...]) -> float:
    started = time.perf_counter()
    _git(root, env, "fetch", "--quiet", *options, "origin")
    return (time.perf_counter() - started) * 1000


def _git_version(env: Mapping[str, str]) -> tuple[int, ...]:
    return tuple(int(part) for part in _git(Path(), env, "version").split()[2].split(".")[:2])


def _git(root: Path, env: Mapping[str, str], *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, env=env, check=True, capture_output=True, text=True)
    return done.stdout
