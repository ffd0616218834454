"""The one entry of all hooks: reads the gate's switch, then starts what the hook is for."""

from __future__ import annotations

import os
import sys

from tandem.git.place import deleted_folder
from tandem.rulings import state

TYPE_CHECKING = False  # as in `rulings.git`
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

    from tandem.git.place import HookRepository
    from tandem.rulings.state import GateFile

# Each hook imports its own modules only, as every commit pays for them.
_OF_GIT = {
    "prepare-commit-msg": ("tandem.hooks.commit", "prepare"),
    "post-commit": ("tandem.hooks.record", "committed"),
    "post-rewrite": ("tandem.hooks.record", "rewritten"),
    "reference-transaction": ("tandem.hooks.branches", "update"),
    "pre-push": ("tandem.hooks.branches", "push"),
    "pre-receive": ("tandem.hooks.branches", "receive"),
}
"""By the hook's name the module and the function, which takes the switch and git's arguments and answers with the exit
status. Git's standard input, where it has one, is the function's to read."""

_OF_AGENTS = {"agent": "tandem.hooks.agent", "session": "tandem.hooks.session", "turn": "tandem.hooks.turn"}
_REFUSED = 1
_USAGE = 2
_BLOCKED = 2
_FAILED = {"post-commit": 0, "post-rewrite": 0, "agent": _BLOCKED, "session": 0, "turn": 0}
"""The exit status of a hook that failed, where it is not git's word for no: those that only write down come too late
to refuse, and agents' clients are refused by another number.
"""


def main(arguments: Sequence[str] | None = None, commits: str = state.REVIEWED) -> NoReturn:
    """Run the hook that the arguments name, the process's own by default; ends the process with its exit status."""
    status = run(sys.argv[1:] if arguments is None else arguments, commits)
    # Tearing an interpreter down takes a tenth of its life, and somebody waits.
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)


def run(arguments: Sequence[str], commits: str = state.REVIEWED) -> int:
    """Run a hook by its name and git's arguments; answers with the exit status.

    Args:
        arguments: The name, then git's arguments.
        commits: One of `state.COMMITS`, as the hook's script has it since the gate was last switched: the loosest that
            the gate's file may say without a broker.
    """
    name, *rest = arguments or ("",)
    if name not in {*_OF_GIT, *_OF_AGENTS}:
        sys.stderr.write(f"tandem: there is no hook '{name}'\n")
        return _USAGE
    if (deleted := deleted_folder()) is not None:
        sys.stderr.write(f"tandem: {deleted[0]}\n")
        if name in _OF_GIT:
            return _FAILED.get(name, _REFUSED)
        # The call need not be about that folder, and may be the one that leaves it.
        os.chdir(deleted[1])
    try:
        if name in _OF_AGENTS:
            return _entry(_OF_AGENTS[name], "main")(rest)
        place = state.find_repository()
        if place is None:
            return 0
        gate = _switch(place)
        gate.at_least = commits
        return _entry(*_OF_GIT[name])(gate, rest)
    except KeyboardInterrupt:
        sys.stderr.write("tandem: interrupted\n")
    except state.GateUnreadable as error:
        sys.stderr.write(f"tandem: refused: {error}\n")
    except Exception as error:  # noqa: BLE001 the edge: an error in a gate never lets anything pass
        sys.stderr.write(
            f"tandem: refused: the gate failed ({type(error).__name__}: {error}). Look with: tandem gate status\n"
        )
    return _FAILED.get(name, _REFUSED)


def _entry(module: str, function: str) -> Callable[..., int]:
    # `importlib` takes half a millisecond itself.
    return getattr(__import__(module, fromlist=[function]), function)


def _switch(place: HookRepository) -> GateFile:
    """The switch, which is on: 'tandem gate off' takes the hooks away first.

    Raises:
        GateUnreadable: It is not there, not as it was written, or off.
    """
    gate = state.read(place)
    if not gate.enabled:
        raise state.GateUnreadable(place.gate_file, "says that the gate is off, though its hooks are installed")
    return gate
