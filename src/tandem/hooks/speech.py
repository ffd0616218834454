"""What hooks say to whoever runs git: on standard error, with the speaker's name, nothing that plays tricks."""

from __future__ import annotations

import sys


def say(*lines: str) -> None:
    """Say something; what follows a line end within a line is indented, so that nobody's text is taken for ours."""
    from tandem.hooks.visible import visible  # most commits pass, and nothing is said

    shown = (visible(line).replace("\n", "\ntandem:   ") for line in lines)
    sys.stderr.write("".join(f"tandem: {line}\n" for line in shown))
