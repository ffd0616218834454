"""Another commit beside this one: the same measures on both, by turns in one run, compared pair by pair.

Machines differ by a factor of two within an hour, so figures of different runs say nothing. Only processes of the
other commit are measured; the clients are of this one.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from bench.processes import ROOT, measuring
from bench.report import Figure, shown
from bench.run import Measure, Run

Pairs = dict[tuple[str, str], list[tuple[Figure, Figure]]]
"""The figures of the other commit and of this one, by measure and name, a pair for each turn."""


def build(revision: str, cache: Path) -> Path:
    """The interpreter of an environment in which that commit is installed; the folder is kept for the next time.

    Raises:
        subprocess.CalledProcessError: There is no such commit, or its environment cannot be made.
    """
    commit = _git("rev-parse", "--verify", f"{revision}^{{commit}}", cwd=ROOT)
    folder = cache / f"commit-{commit[:12]}"
    python = folder / ".venv" / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    built = folder / ".built"
    # Builds of one version of Python differ by a third: the same one runs both commits.
    if not built.exists() or built.read_text("utf-8") != sys.version:
        print(f"building {commit[:12]} in {folder}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        _git("clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(folder), cwd=ROOT)
        _git("checkout", "--quiet", "--detach", commit, cwd=folder)
        subprocess.run([sys.executable, "-m", "venv", str(folder / ".venv")], check=True)
        # Its pins, and an ordinary installation: a figure of both commits is of code that is installed alike.
        install = [str(python), "-m", "pip", "install", "--quiet", "-c", "constraints.txt", "-e", "."]
        subprocess.run(install, cwd=folder, check=True)
        built.write_text(sys.version, "utf-8")
    return python


def _git(*arguments: str, cwd: Path) -> str:
    return subprocess.run(["git", *arguments], cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()


async def compare(run: Run, python: Path, measures: Sequence[Measure], turns: int) -> Pairs:
    """Run each measure `turns` times on both commits, and begin each turn with the other one."""
    pairs: Pairs = defaultdict(list)
    for turn in range(turns):
        for measure in measures:
            sides: dict[Path, list[Figure]] = {}
            order = (python, Path(sys.executable))
            for side in order if turn % 2 == 0 else reversed(order):
                with measuring(side), run.part(f"{turn}-{len(sides)}") as part:
                    await measure(part)
                sides[side] = part.figures
            theirs = {one.name: one for one in sides[python]}
            for ours in sides[Path(sys.executable)]:
                # A command that the other commit lacks has no figure there.
                if ours.name in theirs:
                    pairs[ours.measure, ours.name].append((theirs[ours.name], ours))
        print(f"turn {turn + 1} of {turns} done", flush=True)
    return pairs


def table(pairs: Pairs) -> str:
    """A line for each figure: both medians, the median ratio of this commit to the other, and each pair's."""
    lines: list[str] = []
    heading = ""
    for (measure, name), found in pairs.items():
        if measure != heading:
            heading = measure
            lines.append(f"\n{heading}")
        ratios = [ours.value / theirs.value for theirs, ours in found if theirs.value]
        if not ratios:
            continue
        before, now = (median(side.value for side in sides) for sides in zip(*found, strict=True))
        each = " ".join(f"{ratio:.2f}" for ratio in ratios)
        unit = found[0][1].unit
        lines.append(f"  {name:<62} {shown(before):>9} {shown(now):>9} {unit:<5} {median(ratios):>6.2f}x  {each}")
    return "\n".join(lines)
