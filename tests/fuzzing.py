"""Fixed examples for `make test`, and other ones for `make fuzz`.

`make test` tries the same examples in every run. `make fuzz` (pytest's `--fuzz SECONDS`) runs only the tests that
explore: those of Hypothesis, alone or inside of a test, and those that ask for `chance`. Each has the same share
of the time, and is repeated with new examples until its share is over or something was found.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from types import FunctionType
from typing import cast

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from hypothesis.database import DirectoryBasedExampleDatabase

# Deadlines would measure the machine.
settings.register_profile(
    "fixed",
    max_examples=25,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "fuzz",
    settings.get_profile("fixed"),
    derandomize=False,
    # For those that do not say how many: a longer look goes deeper.
    max_examples=500,
    # Earlier finds are tried first.
    database=DirectoryBasedExampleDatabase(".hypothesis/examples"),
)
settings.load_profile("fixed")

_INSIDE = {"given", "run_state_machine_as_test", "run_machine"}
"""What a test calls that explores inside; `run_machine` is what modules call that run a machine on several brokers."""
KEEP = """\
To keep the find: add the arguments of "Failing test case" to the test as an @example(...) below its @given,
or write the steps of a state machine as a test of its own. See that `make test` fails, fix the cause, commit both.
Until then `make fuzz` tries it first. A test that says "chance seed" is repeated by pytest's --chance SEED."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """What `tools/check.py` uses."""
    group = parser.getgroup("fuzz")
    group.addoption("--fuzz", type=float, metavar="SECONDS", help="explore at random for so long")
    group.addoption("--fuzz-share", default="1/1", metavar="N/M", help="only every M-th of the tests, from the N-th on")
    group.addoption("--chance", type=int, metavar="SEED", help="the seed of the fixture `chance`")


def _seconds(config: pytest.Config) -> float | None:
    """How long to explore; None if not at all."""
    return config.getoption("fuzz")


def pytest_configure(config: pytest.Config) -> None:
    """Before any test is read: the profile is what its settings begin with."""
    if _seconds(config) is not None:
        settings.load_profile("fuzz")


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """Choices: the same in every run of `make test`, other ones in `make fuzz`."""
    seed = request.config.getoption("chance")
    if seed is None:
        seed = 0 if _seconds(request.config) is None else random.SystemRandom().getrandbits(32)
    print(f"chance seed {seed}")  # noqa: T201 - shown with a failure
    return random.Random(seed)


def explores(item: pytest.Item) -> bool:
    """Whether a test has examples that could be others."""
    if not isinstance(item, pytest.Function):
        return False
    test = cast("FunctionType", item.obj)
    inside = not _INSIDE.isdisjoint(test.__code__.co_names)
    return is_hypothesis_test(test) or inside or "chance" in item.fixturenames


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that do not explore, and other processes' share."""
    if _seconds(config) is None:
        return
    number, of = map(int, str(config.getoption("fuzz_share")).split("/"))
    items[:] = [item for item in items if explores(item)][number - 1 :: of]


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run each test again and again until its share of the time is over."""
    seconds = _seconds(session.config)
    if seconds is None or session.config.option.collectonly:
        return None
    began = time.monotonic()
    left = Counter(map(_function, session.items))
    cells = left.copy()
    for item in session.items:
        here = time.monotonic()
        shares = sum(left[function] / cells[function] for function in left)
        end = here + (began + seconds - here) / shares / cells[_function(item)]
        left[_function(item)] -= 1
        runs, failed = 0, session.testsfailed
        while not runs or (time.monotonic() < end and session.testsfailed == failed):
            # What a test did to its own fixtures goes with it; brokers for all tests stay.
            following = cast("pytest.Item", session)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            runs += 1
        found = "found something" if session.testsfailed > failed else ""
        _say(session, f"{time.monotonic() - began:7.0f} s  {runs:4} x  {item.nodeid}  {found}".rstrip())
    return True


def _function(item: pytest.Item) -> str:
    """A test without its parameters, which share its time."""
    return item.nodeid.partition("[")[0]


def _say(session: pytest.Session, line: str) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.write_line(line, flush=True)


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport, config: pytest.Config) -> tuple[str, str, str] | None:
    """A line for each test instead of a dot for each run."""
    if _seconds(config) is None or report.outcome != "passed":
        return None
    return ("passed" if report.when == "call" else "", "", "")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how to keep a counterexample."""
    if _seconds(terminalreporter.config) is not None and terminalreporter.stats.get("failed"):
        terminalreporter.write_line(KEEP)
