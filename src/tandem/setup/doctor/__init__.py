"""Finding out what is wrong with an installation, and saying how it is mended.

Each check looks at one thing and answers with findings. A check that fails itself is a finding too, so that the
others are still made.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Final

from tandem.errors import TandemError
from tandem.setup.doctor.broker import (
    check_access,
    check_broker,
    check_certificate,
    check_mirrors,
    check_reviewers,
    check_users,
    check_webhooks,
)
from tandem.setup.doctor.clients import check_agent_hooks, check_clients, check_servers
from tandem.setup.doctor.deep import check_review
from tandem.setup.doctor.finding import DoctorContext, Finding, Level, problem
from tandem.setup.doctor.gate import check_checks, check_gate, check_hooks, check_planning, check_project
from tandem.setup.doctor.machine import check_data, check_programs, check_service, check_settings

__all__ = ["CHECKS", "Check", "DoctorContext", "Finding", "Level", "examine"]

Check = Callable[[DoctorContext], Awaitable[list[Finding]]]

OF_MACHINE: Final[tuple[Check, ...]] = (check_programs, check_settings, check_data, check_service)

CHECKS: Final[tuple[Check, ...]] = (
    # What the broker's check learns, the ones behind it need.
    check_broker,
    check_certificate,
    check_users,
    check_access,
    check_reviewers,
    check_webhooks,
    check_mirrors,
    check_review,
    check_project,
    check_gate,
    check_hooks,
    check_clients,
    check_servers,
    check_agent_hooks,
    check_planning,
    check_checks,
)


async def examine(
    here: DoctorContext, before: Iterable[Check] = (), more: Iterable[Check] = ()
) -> AsyncIterator[Finding]:
    """All findings, as they come.

    Args:
        here: What is looked at.
        before: Checks of other packages of what the broker stands on.
        more: Checks of other packages, made last.
    """
    for check in (*OF_MACHINE, *before, *CHECKS, *more):
        try:
            found = await check(here)
        except TandemError as error:
            found = [problem(_name(check), error.message, None)]
        except Exception as error:  # noqa: BLE001 - the edge: what one check stumbles over must not hide what others find
            found = [problem(_name(check), f"This could not be checked: {type(error).__name__}: {error}", None)]
        for one in found:
            yield one


def _name(check: Check) -> str:
    return getattr(check, "__name__", "check").removeprefix("check_").replace("_", " ")
