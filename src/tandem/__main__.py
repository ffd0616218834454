"""The `tandem` program: the bridge or a hook when asked for it, the command line for everything else.

The bridge runs once per agent start, a hook once per commit, and a workflow's step in projects where nobody reviews,
too. They answer within milliseconds, so they are chosen before anything heavy is imported.
"""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run `tandem` with the process's arguments; ends the process with the command's exit status."""
    if sys.argv[1:2] == ["mcp"]:
        from tandem.bridge.main import run as run_bridge

        run_bridge(sys.argv[2:])
    elif sys.argv[1:2] == ["hook"]:
        from tandem.hooks.main import main as run_hook

        run_hook(sys.argv[2:])
    elif (deleted := _deleted_folder()) is not None:
        from tandem.cli.terminal import show_refusal
        from tandem.errors import NotFound

        sys.exit(show_refusal(NotFound(deleted), as_json="--json" in sys.argv))
    elif sys.argv[1:2] == ["gate"] and (answer := _disabled_answer()) is not None:
        sys.stdout.write(answer)
    else:
        # A command imports for most of its start, and what it imports stays: collecting meanwhile finds nothing and
        # takes a tenth of the time. `cli.main` turns it on again; for a broker `SdkMount` does, as the SDK comes last.
        gc.disable()
        from tandem.cli.main import run as run_commands

        run_commands()


def _deleted_folder() -> str | None:
    """What to do where the current folder was deleted; null where it is there."""
    from tandem.git.place import deleted_folder

    found = deleted_folder()
    return None if found is None else found[0].removeprefix("NOT_FOUND: ")


def _disabled_answer() -> str | None:
    """What a workflow's step prints where nobody reviews, which is most projects: they pay for one look only."""
    from tandem.rulings import planning

    return planning.disabled_answer(sys.argv[1:])


if __name__ == "__main__":
    main()
