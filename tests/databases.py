"""On which databases a test runs: SQLite, and where the database matters PostgreSQL as well.

What a test of `tests/acceptance` shows is mostly not the database's: there it runs on SQLite. A test or a module of
races, transactions, orders, searches, durability or of the log is marked `ON_BOTH_DATABASES`. The others run on
PostgreSQL, too, with pytest's `--both-databases`, and where `make fuzz` explores.
"""

from __future__ import annotations

from itertools import chain

import pytest

ON_BOTH_DATABASES = pytest.mark.both_databases
"""For tests whose result can depend on the database."""

_NARROWED = ("broker", "database_settings", "gated")
"""Fixtures that have a broker on each database, or the settings for one."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """What `make test ARGS=--both-databases` uses."""
    parser.addoption("--both-databases", action="store_true", help="every test of a broker on PostgreSQL, too")


def pytest_configure(config: pytest.Config) -> None:
    """Make the mark known."""
    config.addinivalue_line("markers", "both_databases: runs on SQLite and on PostgreSQL")


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Leave PostgreSQL out where it is not asked for, before pytest takes a fixture's own parameters."""
    test = metafunc.definition
    asked = metafunc.config.getoption("both_databases") or metafunc.config.getoption("fuzz") is not None
    if asked or test.get_closest_marker("both_databases") is not None:
        return
    given = set(chain.from_iterable(_names(mark) for mark in test.iter_markers("parametrize")))
    for name in _NARROWED:
        if name in metafunc.fixturenames and name not in given and _has_parameters(metafunc, name):
            test.add_marker(pytest.mark.parametrize(name, ["sqlite"], indirect=True))


def _names(mark: pytest.Mark) -> list[str]:
    names: str | list[str] = mark.args[0] if mark.args else mark.kwargs["argnames"]
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


def _has_parameters(metafunc: pytest.Metafunc, name: str) -> bool:
    """Whether this is the fixture for both databases, and not one of the same name for something else."""
    return bool(metafunc._arg2fixturedefs[name][-1].params)
