"""`python -m bench`: measures, prints a table, keeps the figures as JSON.

The broker runs as its users run it: a process of its own, SQLite with full durability, a real socket; several share
a PostgreSQL that the run brings along.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from bench import (
    against,
    brokers,
    checks,
    commits,
    crowding,
    fetches,
    floors,
    landings,
    life_cycle,
    machine,
    pages,
    policies,
    report,
    screens,
    starts,
    trees,
    validation,
    waits,
)
from bench.run import Measure, Run
from tandem.cli.broker import new_event_loop

RESULTS = Path(__file__).resolve().parent / "results" / "latest.json"
MEASURES: dict[str, Measure] = {
    "floors": floors.measure,
    "life_cycle": life_cycle.measure,
    "validation": validation.measure,
    "waits": waits.measure,
    "pages": pages.measure,
    "starts": starts.measure,
    "commits": commits.measure,
    "landings": landings.measure,
    "crowding": crowding.measure,
    "fetches": fetches.measure,
    "trees": trees.measure,
    "checks": checks.measure,
    "policies": policies.measure,
    "screens": screens.measure,
    "brokers": brokers.measure,
    "backlog": pages.measure_backlog,
}
"""In the order in which they run; the floors come first and always, because others compare with them."""

COMPARED = ("life_cycle", "starts")
"""What `--against` runs unless others are named: figures of the processes, not of functions of this commit."""

BY_NAME_ONLY = frozenset({"backlog"})
"""Measures that run only when they are named: they take long, or state a case that no target speaks of."""


def main() -> int:
    """Run the measures that were asked for; the process's exit status."""
    options = _options()
    if options.against:
        return _compare(options)
    started = datetime.now(UTC)
    facts = {
        "version": version("tandem-broker"),
        "started": started.isoformat(timespec="seconds"),
        "quick": options.quick,
        "machine": machine.facts(),
    }
    wanted = {"floors", *(options.only or MEASURES.keys() - BY_NAME_ONLY)}
    _isolate()
    names = [name for name in MEASURES if name in wanted]
    scratch = Path(tempfile.mkdtemp(prefix="tandem-bench-"))
    run = Run(scratch, options.cache, options.quick)
    try:
        for name in names:
            _measure(run, name)
    except BaseException:
        print(f"not finished; the brokers' data and logs are kept in {scratch}", file=sys.stderr)
        raise
    shutil.rmtree(scratch, ignore_errors=True)
    report.write_json(options.json, run.figures, facts)
    missed = [figure for figure in run.figures if figure.met is False]
    met = sum(figure.met is True for figure in run.figures)
    seconds = (datetime.now(UTC) - started).total_seconds()
    print(f"\n{met} targets met, {len(missed)} missed, in {seconds:.0f} s; figures in {options.json}")
    return 1 if missed and options.strict else 0


def _compare(options: argparse.Namespace) -> int:
    """Run the measures on another commit and on this one by turns, and show the ratios."""
    python = against.build(options.against, options.cache)
    _isolate()
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as scratch:
        run = Run(Path(scratch), options.cache, quick=True)
        _measure(run, "floors")
        wanted = options.only or COMPARED
        measures = [MEASURES[name] for name in MEASURES if name in wanted]
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            pairs = runner.run(against.compare(run, python, measures, options.turns))
    print(f"\nthis commit against {options.against}: medians of both, median ratio, each turn's ratio")
    print(against.table(pairs))
    return 0


def _isolate() -> None:
    """Keep clients and servers on processors of their own, with sockets for all."""
    machine.pin_client()
    machine.raise_socket_limit()


def _measure(run: Run, name: str) -> None:
    """Run one measure and show its figures."""
    before = len(run.figures)
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(MEASURES[name](run))
    print(report.table(run.figures[before:]), flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure a real broker.", allow_abbrev=False)
    parser.add_argument("--only", action="append", choices=MEASURES, metavar="NAME", help="|".join(MEASURES))
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, smaller histories")
    parser.add_argument("--strict", action="store_true", help="exit status 1 when a target is missed")
    parser.add_argument("--against", metavar="REV", help="compare with another commit, by turns, pair by pair")
    parser.add_argument("--turns", type=int, default=5, metavar="N", help="pairs that --against measures (5)")
    parser.add_argument("--json", type=Path, default=RESULTS, metavar="FILE", help="where the figures are kept")
    cache = Path(tempfile.gettempdir()) / "tandem-bench-cache"
    parser.add_argument("--cache", type=Path, default=cache, metavar="DIR", help="where seeded histories are kept")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
