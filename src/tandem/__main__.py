"""The `tandem` program: the bridge when asked for it, the command line for everything else.

The bridge runs once per agent start and answers within milliseconds, so it is chosen before anything
heavy is imported.
"""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run `tandem` with the process's arguments; ends the process with the command's exit status."""
    if sys.argv[1:2] == ["mcp"]:
        from tandem import platforms
        from tandem.bridge.main import run as run_bridge

        run_bridge(sys.argv[2:], platforms)
    else:
        if sys.argv[1:2] == ["up"]:
            # A broker imports for most of its start, and what it imports stays: collecting meanwhile finds
            # nothing and takes a tenth of the time. The SDK comes last, and `SdkMount` turns it on again.
            gc.disable()
        from tandem.cli.main import run as run_commands

        run_commands()


if __name__ == "__main__":
    main()
