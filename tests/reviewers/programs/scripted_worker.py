"""A reviewer's process that behaves as its arguments say: `scripted_worker.py FOLDER BEHAVIOUR [ARGUMENT]`.

It notes its acts in files of the folder, each named for the reviewer and written all at once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(sys.argv[1])
REVIEWER = os.environ["TANDEM_REVIEWER"]
LONG_SECONDS = 300


def note(what: str, text: str) -> None:
    """Writes a file all at once."""
    fresh = FOLDER / f".{REVIEWER}.{what}.{os.getpid()}"
    fresh.write_text(text, "utf-8")
    fresh.replace(FOLDER / f"{REVIEWER}.{what}")


def line() -> str:
    """The next line of standard input; empty at its end."""
    return sys.stdin.readline().strip()


def take_job() -> None:
    """Waits for the job; without one it ends as a worker does."""
    found = line()
    if not found:
        note("end", "no job")
        sys.exit(4)
    note("job", json.dumps({**json.loads(found), "cwd": str(Path.cwd()), "pid": os.getpid()}))


def obedient() -> None:
    """Has nothing to do, and ends when it is asked to."""
    take_job()
    heard = line()
    note("end", heard or "end of input")
    sys.exit(0 if heard else 4)


def busy() -> None:
    """Does not end before it is cancelled."""
    take_job()
    heard: list[str] = []
    while (word := line()) and word != "cancel":
        heard.append(word)
        note("heard", " ".join(heard))
    note("end", " ".join([*heard, word]) if word else "end of input")
    sys.exit(0 if word else 4)


def deaf() -> None:
    """Hears nothing, and has a child that left the session and has no parent."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    take_job()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            note("runaway", str(os.getpid()))
            time.sleep(LONG_SECONDS)
        os._exit(0)
    subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({LONG_SECONDS})"])
    while True:
        time.sleep(LONG_SECONDS)


def stands_still() -> None:
    """Is stopped, as by Ctrl-Z."""
    take_job()
    os.kill(os.getpid(), signal.SIGSTOP)


def leave(status: str) -> None:
    """Ends by itself, with last words, leaving a child behind."""
    take_job()
    child = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({LONG_SECONDS})"], start_new_session=True)
    note("child", str(child.pid))
    sys.stderr.write(f"\x1b[31mthese are my last words {'x' * 1000}\n")
    sys.stderr.flush()
    sys.exit(int(status))


def main() -> None:
    """Behaves."""
    note("pid", str(os.getpid()))
    behaviours = {
        "obedient": obedient, "busy": busy, "deaf": deaf, "stands-still": stands_still, "leave": leave,
    }  # fmt: skip
    behaviours[sys.argv[2]](*sys.argv[3:])


if __name__ == "__main__":
    main()
