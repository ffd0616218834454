"""The `tandem` program: the bridge or a hook when asked for it, the command line for everything else.

The bridge runs once per agent start, a hook once per commit, and a workflow's step in projects without reviews, too.
They answer within milliseconds, so each is imported only when it is called.
"""

from __future__ import annotations

import gc
import os
import sys

from tandem.git.place import deleted_folder

_INSTALLED = "tandem_broker-"


def main() -> None:
    """Run `tandem` with the process's arguments; ends the process with the command's exit status."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["mcp"]:
        from tandem.bridge.main import run as run_bridge  # once per agent start

        run_bridge(arguments[1:])
    elif arguments[:1] == ["hook"]:
        from tandem.hooks.main import main as run_hook  # once per commit

        run_hook(arguments[1:])
    elif arguments in (["--version"], ["version"]):
        sys.stdout.write(f"tandem {_version()}\n")
    elif arguments[:1] == ["gate"] and deleted_folder() is None and (answer := _disabled_answer(arguments)) is not None:
        sys.stdout.write(answer)
    else:
        # A command imports for most of its start, and modules stay: collecting meanwhile finds nothing and takes a
        # tenth of the time. `cli.execution` turns it on again; for a broker `mcp.endpoint` does, as the SDK comes last.
        gc.disable()
        from tandem.cli.program import run as run_command  # neither bridge nor hooks need it

        try:
            run_command(arguments)
        except SystemExit as end:
            _leave(end.code)
            raise


def _leave(status: object) -> None:
    """End the process at once, where nothing has to be done at its end: to take the interpreter apart takes long."""
    threads = sys.modules.get("threading")
    is_bare = "atexit" not in sys.modules and (threads is None or threads.active_count() == 1)
    if not is_bare or not isinstance(status, int | None):
        return
    try:
        # None where it was closed from the start.
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except OSError:
        return
    os._exit(status or 0)


def _version() -> str:
    """The version, from the name of the folder that an installer leaves; to import what parses it takes four starts."""
    for folder in filter(os.path.isdir, sys.path):
        for name in os.listdir(folder):  # noqa: PTH208 - pathlib takes longer to import than all this
            if name.startswith(_INSTALLED) and name.endswith(".dist-info"):
                return name.removeprefix(_INSTALLED).removesuffix(".dist-info")
    from importlib.metadata import version  # where it was installed in another way

    return version("tandem-broker")


def _disabled_answer(arguments: list[str]) -> str | None:
    """The output of a workflow's step in a project without reviews, as most are: they pay for one look only."""
    from tandem.rulings import planning  # a step of a workflow alone

    return planning.disabled_answer(arguments)


if __name__ == "__main__":
    main()
