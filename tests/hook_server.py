"""A process that has imported the gate's hooks, and forks for each that git starts in a repository of the tests.

    python -I -S tests/hook_server.py FOLDER SOURCE

An interpreter and its imports are most of what a hook costs, and the tests start thousands. The scripts of their gates
therefore start `python` of that folder, which `tests/forked_hooks.py` writes: a script for the shell, which tells its
number here and waits for the exit status. The fork is a process of its own, with the arguments, environment,
folder and streams of that script. The server ends with its standard input.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
from contextlib import suppress

PRELOADED = ("main", "commit", "judging", "loosening", "record", "branches")
ORDERS = "orders"
_MOST_DESCRIPTORS = 64


def main(folder: str, source: str) -> None:
    """Serve, and in each child become the hook."""
    sys.path.insert(0, source)
    for name in PRELOADED:
        __import__(f"tandem.hooks.{name}")
    __import__("encodings.ascii")
    # Collecting would write to pages that parent and children share.
    gc.freeze()
    heard, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    # Ctrl-C in a terminal is for the tests, which end this process, too.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    orders = os.open(f"{folder}/{ORDERS}", os.O_RDWR)
    clients: dict[int, str] = {}
    while True:
        ready, _, _ = select.select([0, orders, heard], [], [])
        if orders in ready:
            for client in os.read(orders, 4096).decode().split():
                if (pid := os.fork()) == 0:
                    become(client, source)
                    return
                clients[pid] = client
        if heard in ready:
            os.read(heard, 4096)
            report(folder, clients)
        if 0 in ready:
            # A hook that still waits, of tests that were interrupted, would wait for good.
            for client in clients.values():
                with suppress(OSError):
                    os.kill(int(client), signal.SIGTERM)
            return


def report(folder: str, clients: dict[int, str]) -> None:
    """Tell the exit status of all that have ended, if anybody still waits."""
    while clients:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        answer = f"{folder}/{clients.pop(pid)}"
        with suppress(OSError):
            descriptor = os.open(answer, os.O_WRONLY | os.O_NONBLOCK)
            os.unlink(answer)  # noqa: PTH108 as a hook: pathlib is not imported
            os.write(descriptor, b"%d\n" % (os.waitstatus_to_exitcode(status) % 256))
            os.close(descriptor)


def become(client: str, source: str) -> None:
    """Run the program that the script was given, as if this process were the interpreter that it stands for."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The shell speaks with us by its own standard input and output, and keeps what these were as 8 and 7.
    for number, theirs, way in ((0, 8, os.O_RDONLY), (1, 7, os.O_WRONLY), (2, 2, os.O_WRONLY)):
        os.dup2(os.open(f"/proc/{client}/fd/{theirs}", way), number)
    os.closerange(3, _MOST_DESCRIPTORS)
    facts = {name: _content(client, name) for name in ("environ", "cmdline", "stat")}
    os.chdir(f"/proc/{client}/cwd")
    os.environb.clear()
    for entry in facts["environ"].split(b"\0"):
        name, is_set, value = entry.partition(b"=")
        if is_set:
            os.environb[name] = value
    # Those of the shell and of the interpreter: `sh FOLDER/python -I -S -c PROGRAM NAME …`.
    _, _, *words = (os.fsdecode(word) for word in facts["cmdline"].split(b"\0")[:-1])
    program, *arguments = words[words.index("-c") + 1 :]
    if repr(source) not in program:
        os.execv(sys.executable, [sys.executable, *words])
    parent = int(facts["stat"].rpartition(b")")[2].split()[1])
    os.getppid = lambda: parent
    sys.argv = ["-c", *arguments]
    exec(program, {"__name__": "__main__"})


def _content(client: str, name: str) -> bytes:
    with open(f"/proc/{client}/{name}", "rb") as file:  # noqa: PTH123 as in `report`
        return file.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
