"""A person at a terminal: a command that has a controlling terminal, and somebody who types there."""

from __future__ import annotations

import os
import select
from collections.abc import Sequence
from pathlib import Path

from tandem.rulings.person import agent_mark
from tests.forked import start_tandem

RUN_SECONDS = 60


def without_agents() -> dict[str, str]:
    """The process's environment without the marks of an agent, which may well run these tests."""
    environment = dict(os.environ)
    while mark := agent_mark(environment):
        del environment[mark]
    return environment


def at_a_terminal(
    arguments: Sequence[str], cwd: Path, *, typed: str = "", after: str = "", **environment: str
) -> tuple[int, str]:
    """Run `tandem` at a pseudo-terminal of its own; its exit status and everything that was shown there.

    Args:
        arguments: What it is told to do.
        cwd: Where.
        typed: What the person types, with its newline.
        after: What has to be shown before they do.
        environment: Variables beside those of the process.
    """
    import pty

    ours, theirs = pty.openpty()
    variables = {**without_agents(), "TERM": "dumb", **environment}
    # The terminal has to be the one of the command's own session: that is what /dev/tty opens.
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    process = start_tandem(arguments, cwd, variables, **streams, session="terminal")
    os.close(theirs)
    shown = b""
    waiting = typed.encode()
    try:
        while chunk := _next(ours):
            shown += chunk
            if waiting and after.encode() in shown:
                os.write(ours, waiting)
                waiting = b""
    except OSError:
        pass  # So a pseudo-terminal says on Linux that its other end is closed.
    finally:
        os.close(ours)
    if process.poll() is None and waiting:
        # It asks something else, and would wait for long.
        process.kill()
    return process.wait(RUN_SECONDS), shown.decode(errors="replace").replace("\r\n", "\n")


def _next(terminal: int) -> bytes:
    """What is shown next; nothing if that takes too long."""
    ready, _, _ = select.select([terminal], [], [], RUN_SECONDS)
    return os.read(terminal, 65_536) if ready else b""
