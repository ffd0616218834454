"""The one entry of all hooks: reads the gate's switch, then does what the hook is for."""

from __future__ import annotations

import os
import sys

from tandem.hooks import state

TYPE_CHECKING = False  # as in `jsontext`
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

    from tandem.hooks.state import GateFile

_REFUSED = 1
_USAGE = 2
_BLOCKED = 2
_FAILED = {"post-commit": 0, "post-rewrite": 0, "agent": _BLOCKED, "session": 0}
"""The exit status of a hook that failed, where it is not git's word for no: those that only write down come too late
to refuse, and agents' clients are refused by another number.
"""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the hook that the arguments name, the process's own by default; ends the process with its exit status."""
    status = run(sys.argv[1:] if arguments is None else arguments)
    # Tearing an interpreter down takes a tenth of its life, and somebody waits.
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


def run(arguments: Sequence[str]) -> int:
    """Run a hook by its name and git's arguments; answers with the exit status."""
    name, *rest = arguments or ("",)
    hook = _HOOKS.get(name)
    if hook is None and name not in _FOR_AGENTS:
        sys.stderr.write(f"tandem: there is no hook '{name}'\n")
        return _USAGE
    try:
        if hook is None:
            return _FOR_AGENTS[name](rest)
        place = state.find_place()
        gate = state.read(place) if place is not None else None
        if gate is None or not gate.enabled:
            return 0
        return hook(gate, rest)
    except state.GateUnreadable as error:
        sys.stderr.write(f"tandem: refused: {error}\n")
    except Exception as error:  # noqa: BLE001 the edge: an error in a gate never lets anything pass
        sys.stderr.write(
            f"tandem: refused: the gate failed ({type(error).__name__}: {error}). Look with: tandem gate status\n"
        )
    return _FAILED.get(name, _REFUSED)


# Each hook imports what it needs, as every commit pays for it.


def _commit(gate: GateFile, arguments: Sequence[str]) -> int:
    from tandem.hooks import commit

    return commit.main(gate, arguments)


def _post_commit(gate: GateFile, _arguments: Sequence[str]) -> int:
    from tandem.hooks import record

    return record.committed(gate)


def _post_rewrite(gate: GateFile, _arguments: Sequence[str]) -> int:
    from tandem.hooks import record

    return record.rewritten(gate, sys.stdin.buffer.read())


def _update(gate: GateFile, arguments: Sequence[str]) -> int:
    from tandem.hooks import update

    return update.main(gate, arguments, sys.stdin.buffer.read())


def _push(gate: GateFile, arguments: Sequence[str]) -> int:
    from tandem.hooks import push

    return push.main(gate, arguments, sys.stdin.buffer.read())


def _agent(arguments: Sequence[str]) -> int:
    from tandem.hooks import agent

    return agent.main(arguments)


def _session(arguments: Sequence[str]) -> int:
    from tandem.hooks import session

    return session.main(arguments)


_HOOKS: dict[str, Callable[[GateFile, Sequence[str]], int]] = {
    "prepare-commit-msg": _commit,
    "post-commit": _post_commit,
    "post-rewrite": _post_rewrite,
    "reference-transaction": _update,
    "pre-push": _push,
}
_FOR_AGENTS: dict[str, Callable[[Sequence[str]], int]] = {"agent": _agent, "session": _session}
