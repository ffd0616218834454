"""Finds the faults of an installation, and says how to repair them.

Each check looks at one thing and answers with findings. A check that fails itself is a finding too, so that the
others are still made.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tandem.errors import TandemError
from tandem.setup.doctor.broker import (
    check_access,
    check_broker,
    check_certificate,
    check_mirrors,
    check_review,
    check_reviewers,
    check_users,
    check_webhooks,
)
from tandem.setup.doctor.clients import check_agent_hooks, check_clients, check_servers
from tandem.setup.doctor.gate import check_checks, check_gate, check_hooks, check_planning, check_project
from tandem.setup.doctor.machine import check_data, check_programs, check_service, check_settings
from tandem.setup.finding import DoctorContext, Finding, Level, Unseen, problem, skipped

__all__ = ["Check", "DoctorContext", "Finding", "Level", "examine"]

Check = Callable[[DoctorContext], Awaitable[list[Finding]]]

OF_MACHINE: Final[tuple[Check, ...]] = (check_programs, check_settings, check_data, check_service)

OF_BROKER: Final[tuple[Check, ...]] = (
    check_certificate,
    check_users,
    check_access,
    check_reviewers,
    check_webhooks,
    check_mirrors,
    check_review,
)

OF_REPOSITORY: Final[tuple[Check, ...]] = (
    check_hooks,
    check_clients,
    check_servers,
    check_agent_hooks,
    check_planning,
    check_checks,
)

_PROBES: Final = 32
"""Programs that are asked at once: they wait for each other's answers, not for a processor."""


async def examine(
    here: DoctorContext, before: Iterable[Check] = (), more: Iterable[Check] = ()
) -> AsyncIterator[Finding]:
    """All findings, group by group: later groups need the facts that earlier ones find.

    Args:
        here: The installation to check.
        before: Checks from other packages, of the things that the broker depends on.
        more: Checks from other packages, made last.
    """
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_PROBES))
    told: set[str] = set()
    running: list[str] = []
    of_machine = OF_MACHINE, (*before,), (check_broker,), OF_BROKER
    for group in (*of_machine, (check_project,), (check_gate,), (*OF_REPOSITORY, *more)):
        if check_project in group and here.obstacle and here.place is not None:
            yield skipped("repository", f"Nothing of this repository was looked at: {here.obstacle}.")
            break
        for found in await asyncio.gather(*(_made(here, check, running) for check in group)):
            for one in found:
                # What several checks stumble over is one problem.
                is_known = one.message in told or (one.file is not None and one.file.resolve() in here.changed)
                if one.state is not Level.PROBLEM or not is_known:
                    yield one
                if one.state is Level.PROBLEM:
                    told.add(one.message)


async def _made(here: DoctorContext, check: Check, running: list[str]) -> list[Finding]:
    """What one check finds; told of while it runs."""
    name = _name(check)
    running.append(name)
    here.tell(f"checking: {', '.join(running)}")
    try:
        return await check(here)
    except Unseen as reason:
        return [skipped(name, str(reason))]
    except TandemError as error:
        return [problem(name, error.message, None)]
    except Exception as error:  # noqa: BLE001 - the edge: what one check stumbles over must not hide what others find
        return [problem(name, f"This could not be checked: {type(error).__name__}: {error}", None)]
    finally:
        running.remove(name)
        if running:
            here.tell(f"checking: {', '.join(running)}")


def _name(check: Check) -> str:
    return getattr(check, "__name__", "check").removeprefix("check_").replace("_", " ")
