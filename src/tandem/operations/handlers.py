"""The service function of each operation: it has the operation's name and takes `(services, caller, request)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tandem.contract.operation import Handler
from tandem.operations.catalogue import REGISTRY
from tandem.services import (
    access_tokens,
    attention,
    claims,
    commits,
    counter_patches,
    cycle_history,
    cycles,
    discussion,
    drafts,
    gate_switch,
    gates,
    handoffs,
    inbox,
    pool,
    pool_admin,
    project_view,
    proposals,
    registration,
    reports,
    reviewer_runs,
    reviews,
    round_files,
    search,
    sessions,
    verdicts,
    viewed,
)

MODULES: Final = (
    access_tokens,
    attention,
    claims,
    commits,
    counter_patches,
    cycle_history,
    cycles,
    discussion,
    drafts,
    gate_switch,
    gates,
    handoffs,
    inbox,
    pool,
    pool_admin,
    project_view,
    proposals,
    registration,
    reports,
    reviewer_runs,
    reviews,
    round_files,
    search,
    sessions,
    verdicts,
    viewed,
)
"""The services that have operations."""

_FUNCTIONS = {
    name: function
    for module in MODULES
    for name, function in vars(module).items()
    if getattr(function, "__module__", "") == module.__name__
}

# An operation that nobody does is a KeyError at every start.
HANDLERS: Final[Mapping[str, Handler]] = {operation.name: _FUNCTIONS[operation.name] for operation in REGISTRY}
