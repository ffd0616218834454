"""The service function of each operation: it has the operation's name and takes `(services, caller, request)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tandem.access import tokens as access_tokens
from tandem.contract.operation import Handler
from tandem.cycles import handoffs, sessions
from tandem.cycles import history as cycle_history
from tandem.cycles import running as cycles
from tandem.gate import commits
from tandem.gate import judging as gates
from tandem.gate import project_settings as project_view
from tandem.gate import switch as gate_switch
from tandem.inbox import reading as inbox
from tandem.landings import line as landings
from tandem.pool import admin as pool_admin
from tandem.pool import runs as reviewer_runs
from tandem.pool import supervisors as pool
from tandem.projects import registry
from tandem.reviews import (
    checks,
    claims,
    counter_patches,
    discussion,
    drafts,
    findings,
    proposals,
    reports,
    verdicts,
    waivers,
)
from tandem.reviews import (
    files as round_files,
)
from tandem.reviews import (
    reading as reviews,
)
from tandem.server.catalogue import REGISTRY
from tandem.webhooks import administration as webhooks

MODULES: Final = (
    access_tokens,
    checks,
    claims,
    commits,
    counter_patches,
    cycle_history,
    cycles,
    discussion,
    drafts,
    findings,
    gate_switch,
    gates,
    handoffs,
    inbox,
    landings,
    pool,
    pool_admin,
    project_view,
    proposals,
    registry,
    reports,
    reviewer_runs,
    reviews,
    round_files,
    sessions,
    verdicts,
    waivers,
    webhooks,
)
"""The services that have operations."""

_FUNCTIONS = {
    name: function
    for module in MODULES
    for name, function in vars(module).items()
    if getattr(function, "__module__", "") == module.__name__
}

if _left_out := [operation.name for operation in REGISTRY if operation.name not in _FUNCTIONS]:
    raise LookupError(f"no module of `MODULES` has a function of this name: {', '.join(_left_out)}")
HANDLERS: Final[Mapping[str, Handler]] = {operation.name: _FUNCTIONS[operation.name] for operation in REGISTRY}
