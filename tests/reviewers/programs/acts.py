"""A reviewer program that misbehaves as its arguments say: `acts.py DEED [ARGUMENT] DEED [ARGUMENT] …`.

The arguments name the files that it writes; tests read its standard output.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

LONG_SECONDS = "300"
MEGABYTE = 1024 * 1024


NONCE = re.compile(rb'^For `nonce` write "([0-9a-f]{32})":', re.MULTILINE)
READ = re.compile(rb'^The nonce of file ([0-9]+) is "([0-9a-f]+)"\.$', re.MULTILINE)


def say(text: str) -> None:
    """Prints a line at once; where it has THE-NONCE and THE-FILES it names those of its prompt."""
    if "THE-NONCE" in text:
        prompt = sys.stdin.buffer.read()
        text = text.replace("THE-NONCE", NONCE.findall(prompt)[-1].decode())
        read = [{"file": int(one[0]), "nonce": one[1].decode(), "looked_at": "all"} for one in READ.findall(prompt)]
        text = text.replace('"THE-FILES"', json.dumps(read))
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def echo() -> None:
    """Says how long its prompt was, and how it ended."""
    prompt = sys.stdin.buffer.read()
    say(f"{len(prompt)} {prompt[-20:].decode('utf-8', 'replace')}")


def show_arguments() -> None:
    """Prints its own arguments, one a line."""
    for argument in sys.argv[sys.argv.index("show-arguments") + 1 :]:
        say(repr(argument))
    sys.exit(0)


def show_environment() -> None:
    """Says its variables."""
    for name, value in sorted(os.environ.items()):
        say(f"{name}={value}")


def sleep(seconds: str) -> None:
    """Does nothing."""
    time.sleep(float(seconds))


def ignore_sigterm() -> None:
    """Does not hear the request to end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def note_sigterm(path: str) -> None:
    """Notes the request to end in a file, then ends with 7."""

    def ended(_number: int, _frame: object) -> None:
        Path(path).write_text("asked")
        sys.exit(7)

    signal.signal(signal.SIGTERM, ended)


def close_output() -> None:
    """Closes both outputs, and lives on."""
    for descriptor in (1, 2):
        os.close(descriptor)


def fill_stderr(megabytes: str) -> None:
    """Complains at length."""
    for _ in range(int(megabytes)):
        os.write(2, b"e" * MEGABYTE)
    os.write(2, b"\nlast complaint\n")


def print_megabytes(megabytes: str) -> None:
    """Prints much."""
    for _ in range(int(megabytes)):
        os.write(1, b"o" * MEGABYTE)


def print_for_ever() -> None:
    """Prints without end."""
    while True:
        os.write(1, b"o" * MEGABYTE)


def die_by(number: str) -> None:
    """Ends by a signal."""
    os.kill(os.getpid(), int(number))


def stop_itself() -> None:
    """Stands still, as after Ctrl-Z."""
    os.kill(os.getpid(), signal.SIGSTOP)


def child(path: str) -> None:
    """Starts a child in its own session, which notes its number."""
    started = subprocess.Popen([sys.executable, __file__, "note", path, "sleep", LONG_SECONDS])
    say(f"child {started.pid}")


def stubborn_child(path: str) -> None:
    """Starts a child that ignores the request to end."""
    subprocess.Popen([sys.executable, __file__, "ignore-sigterm", "note", path, "sleep", LONG_SECONDS])


def runaway(path: str) -> None:
    """Starts a process that leaves the session and has no parent, and holds the output open."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            note(path)
            time.sleep(float(LONG_SECONDS))
        os._exit(0)
    wait_for(path)


def stranger(path: str) -> None:
    """As `runaway`, and without anything in its environment that says whose it is."""
    command = [sys.executable, __file__, "note", path, "sleep", LONG_SECONDS]
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve(sys.executable, command, {})
        os._exit(0)
    wait_for(path)


def note(path: str) -> None:
    """Notes its number in a file, all at once."""
    own = Path(f"{path}.{os.getpid()}")
    own.write_text(str(os.getpid()))
    own.rename(path)


def wait_for(path: str) -> None:
    """Waits until a file is there."""
    while not Path(path).exists():
        time.sleep(0.01)


def leave(status: str) -> None:
    """Ends with a status."""
    sys.exit(int(status))


DEEDS: dict[str, Callable[..., None]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        say, echo, show_arguments, show_environment, sleep, ignore_sigterm, note_sigterm, close_output,
        fill_stderr, print_megabytes, print_for_ever, die_by, stop_itself, child, stubborn_child, runaway,
        stranger, note, wait_for, leave,
    )
}  # fmt: skip


def main() -> None:
    """Does one deed after the other."""
    words = iter(sys.argv[1:])
    for word in words:
        deed = DEEDS[word]
        deed(*[next(words) for _ in range(deed.__code__.co_argcount)])


if __name__ == "__main__":
    main()
