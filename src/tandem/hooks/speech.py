"""What hooks say to whoever runs git: on standard error, with the speaker's name, nothing that plays tricks."""

from __future__ import annotations

import sys


def say(*lines: str) -> None:
    """Say something; a line that holds line ends is several."""
    from tandem.hooks.visible import visible  # most commits pass, and nothing is said

    shown = visible("\n".join(lines))
    sys.stderr.write("".join(f"tandem: {line}\n" for line in shown.split("\n")))
