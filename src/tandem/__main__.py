"""The `tandem` program: the bridge when asked for it, the command line for everything else.

The bridge runs once per agent start and answers within milliseconds, so it is chosen before anything
heavy is imported.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run `tandem` with the process's arguments; ends the process with the command's exit status."""
    if sys.argv[1:2] == ["mcp"]:
        from tandem import platforms
        from tandem.bridge.main import run as run_bridge

        run_bridge(sys.argv[2:], platforms)
    else:
        from tandem.cli.main import run as run_commands

        run_commands()


if __name__ == "__main__":
    main()
