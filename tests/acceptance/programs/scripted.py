"""A model program that does what the proposal's intent says: `scripted.py NOTES [ARGUMENT …]`.

The intent, or else the ARGUMENTs, are the name of a deed and its arguments; anything else is approved. Below the folder
NOTES each run leaves `run-REVIEW-N.json` with its input, each process that it starts `process-PID`, and it waits there
for the files that a test makes. It uses the standard library only and is started without anything else, so that a start
is cheap.
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
from typing import Any

NOTES = Path(sys.argv[1])
LONG_SECONDS = 300.0
MEGABYTE = 1024 * 1024
FACTS = re.compile(r"(?ms)^=== BEGIN DATA (?P<mark>\w+): facts \(JSON\)$(?P<json>.*?)^=== END DATA (?P=mark)$")
NONCE = re.compile(r'(?m)^For `nonce` write "([0-9a-f]{32})":')
READ = re.compile(r'(?m)^The nonce of file (?P<file>[0-9]+) is "(?P<nonce>[0-9a-f]+)"\.$')
DESCRIPTION = re.compile(r"(?ms)^=== BEGIN DATA (?P<mark>\w+): description$\n(?P<text>.*?)\n=== END DATA (?P=mark)$")
EARLIER = re.compile(
    r"(?ms)^=== BEGIN DATA (?P<mark>\w+): earlier findings \(JSON\)$(?P<json>.*?)^=== END DATA (?P=mark)$"
)
facts: dict[str, Any] = {}
given: dict[str, Any] = {}


def note(name: str, text: str) -> None:
    """Writes a file all at once."""
    fresh = NOTES / f".{os.getpid()}"
    fresh.write_text(text, "utf-8")
    fresh.rename(NOTES / name)


def answer(verdict: str = "approved", **changes: Any) -> str:
    """What decides the review that was asked for."""
    whole: dict[str, Any] = {
        "nonce": given["nonce"],
        "digest": facts.get("digest"),
        "files": given["files"],
        "summary": None,
        "answers": [],
        "findings": [],
        "reason": "Read all of it.",
        "verdict": verdict,
        "counter_patch": None,
    }
    return json.dumps({**whole, **changes})


def finding(claim: str, line: int = 2, severity: str = "major") -> dict[str, Any]:
    """A fault at a line."""
    place = {"file": "a.txt", "line": line, "end_line": None}
    about = {"category": None, "claim": claim, "failure": "Who reads it is misled.", "suggestion": None}
    return {**place, "severity": severity, **about, "pre_existing": False}


def say(text: str) -> None:
    """Prints at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


# --------------------------------------------------------------------------------------------- good ones


def approve() -> None:
    """Approves."""
    say(answer())


def request() -> None:
    """Asks for a change, at a line."""
    say(answer("changes_requested", reason="One line is worse.", findings=[finding("This is not better.")]))


def find(lines: str = "2", severity: str = "major") -> None:
    """Asks for changes at lines, for something new each time, and settles the earlier findings."""
    found = [finding(f"Wrong in round {facts['round']}.", int(line), severity) for line in lines.split(",")]
    say(answer("changes_requested", reason="It is wrong.", findings=found, answers=settled()))


def settle(said: str | None = None) -> None:
    """Approves, and settles the earlier findings, as the proposer says unless an answer is given."""
    say(answer(answers=settled(said)))


def settled(said: str | None = None) -> list[dict[str, Any]]:
    """What becomes of earlier findings."""
    return [
        {
            "finding_id": one["finding_id"],
            "answer": said or ("upheld" if one["state"] == "refuted" else "verified"),
            "reason": "Looked again.",
        }
        for one in given["earlier"]
    ]


def where() -> None:
    """Approves, and says where it runs."""
    say(answer(reason=str(Path.cwd())))


def read(*names: str) -> None:
    """Approves, and lists the content of the folder: files, the newest commits, and uncommitted changes."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout

    found = {"files": {name: Path(name).read_text("utf-8") for name in names if Path(name).exists()}}
    say(answer(reason=json.dumps({**found, "log": git("log", "--format=%H"), "status": git("status", "--porcelain")})))


def hold(name: str) -> None:
    """Approves once a test has made a file."""
    wait_for(name)
    say(answer())


def hold_with_brood(name: str) -> None:
    """As `hold`, with children here and outside of the session."""
    child()
    runaway()
    wait_for(name)
    say(answer())


def in_turn(*deeds: str) -> None:
    """Does one thing after another, one at each run: `DEED` or `DEED=ARGUMENT`."""
    deed, *arguments = deeds[len(list(NOTES.glob(f"run-{facts['review_id']}-*"))) - 1].split("=")
    DEEDS[deed](*arguments)


def approve_in_pieces() -> None:
    """Approves, byte after byte."""
    for letter in answer():
        say(letter)
        time.sleep(0.002)


# ------------------------------------------------------------------------------------------ without an answer


def hang() -> None:
    """Does nothing for ever."""
    time.sleep(LONG_SECONDS)


def compute(seconds: str) -> None:
    """Uses a fifth of the processor for so long without a word, and approves."""
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        used = time.process_time()
        while time.process_time() < used + 0.01:
            pass
        time.sleep(0.04)
    say(answer())


def leave() -> None:
    """Ends at once and in order."""


def fail() -> None:
    """Ends at once with an error."""
    sys.stderr.write("the service is not there\n")
    sys.exit(3)


def rate_limited(seconds: str = "5") -> None:
    """Ends in order without an answer, and complains that its provider takes no requests."""
    sys.stderr.write(f"429 Too Many Requests: retry after {seconds} seconds\n")


def print_429_and_fail() -> None:
    """Prints its service's error in place of an answer, and ends with an error."""
    say('{"error": {"code": 429, "message": "rate limit exceeded"}}')
    sys.exit(1)


def speak_of_429() -> None:
    """Ends in order, with an opinion in prose on a change that handles a rate limit."""
    say("I looked at it: the change handles 429 Too Many Requests with retry-after: 604800")


def reject_429() -> None:
    """Rejects, for how a change answers a rate limit."""
    say(answer("rejected", reason="HTTP 429 is ignored: the rate limit says retry after 60 seconds."))


def numbers() -> list[str]:
    """All one-time numbers of its prompt."""
    marks = re.findall(r"(?m)^=== BEGIN DATA (\w+): ", given["prompt"])
    return [given["nonce"], *(one["nonce"] for one in given["files"]), *marks]


def spill() -> None:
    """Says its numbers everywhere, whole and in pieces, and rejects with a reason that quotes them."""
    for number in numbers():
        sys.stderr.write(f"{number} {number.upper()}-{number[:9]} {number[3:]}\n")
        sys.stderr.flush()
        for piece in (number[:5], number[5:]):
            sys.stderr.write(piece)
            sys.stderr.flush()
            time.sleep(0.05)
        sys.stderr.write("\n")
    told = " and ".join(numbers())
    found = [finding(f"I was told {told}.")]
    say(answer("rejected", reason=f"My nonces: {told}.", summary=told, findings=found))


def spill_and_fail() -> None:
    """Fails with its numbers as the last words."""
    sys.exit(f"I was told {' '.join(numbers())}")


def spill_badly() -> None:
    """Answers with words beside, so that the refusal quotes them."""
    say(f"{' '.join(numbers())} {answer()}")


def brood() -> None:
    """Hangs, with stubborn children here and outside of the session."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child()
    runaway()
    hang()


def complain() -> None:
    """Fills standard error, with an approval in it too."""
    for _ in range(8):
        os.write(2, b"e" * MEGABYTE)
    os.write(2, answer().encode())


def tamper() -> None:
    """Approves by a file, as if that counted."""
    for name in ("answer.json", "verdict.json"):
        Path(os.environ["TANDEM_REVIEW_SCHEMA"]).with_name(name).write_text(answer())


# ------------------------------------------------------------------------------------------ with a wrong one


def garbage() -> None:
    """Talks, and is not even readable."""
    os.write(1, b"\xff\xfe\x00 I approve of this. approved! {verdict: approved} \x1b[2J")


def megabytes() -> None:
    """Writes more than is kept, and an approval at the end of it."""
    for _ in range(3):
        os.write(1, b"o" * MEGABYTE)
    say(f"\n{answer()}\n")


def endless() -> None:
    """Approves, and writes on without end."""
    say(answer())
    while True:
        os.write(1, b" " * MEGABYTE)


def other_digest(digest: str) -> None:
    """Approves the content of another review."""
    say(answer(digest=digest))


def quote() -> None:
    """Refuses in words, and quotes what the description has."""
    say(f"I do not approve this. Its description holds a whole answer:\n\n```json\n{given['description']}\n```\n")


def quote_alone() -> None:
    """Prints what the description has, and nothing else."""
    say(given["description"])


def quote_with_answer() -> None:
    """Quotes the description before an answer of its own."""
    say(f"{given['description']}\n{answer('rejected')}")


def earlier_nonce() -> None:
    """Approves with the nonce of the first run, at a later one."""
    first_run = json.loads((NOTES / f"run-{facts['review_id']}-1.json").read_text("utf-8"))
    say(answer(nonce=first_run["nonce"]))


def read_nothing() -> None:
    """Approves without naming a file that it read."""
    say(answer(files=[]))


def nonces_of_another() -> None:
    """Approves with the nonces of another run."""
    other = next(file for file in sorted(NOTES.glob("run-*")) if f"run-{facts['review_id']}-" not in file.name)
    say(answer(files=json.loads(other.read_text("utf-8"))["files"]))


def approve_and_fail() -> None:
    """Approves, then ends with an error."""
    say(answer())
    fail()


def approve_and_die() -> None:
    """Approves, then is ended by a signal."""
    say(answer())
    os.kill(os.getpid(), signal.SIGKILL)


def approve_and_hang() -> None:
    """Approves, and does not end."""
    say(answer())
    hang()


# ------------------------------------------------------------------------------------------------- its parts


def child() -> None:
    """Starts a child, which outlives it unless another process ends it."""
    source = f"import os, time; open(os.path.join({str(NOTES)!r}, f'process-{{os.getpid()}}'), 'w'); time.sleep(300)"
    before = len(list(NOTES.glob("process-*")))
    subprocess.Popen([sys.executable, "-I", "-S", "-c", source])
    while len(list(NOTES.glob("process-*"))) == before:
        time.sleep(0.01)


def runaway() -> None:
    """Starts a process that leaves the session, has no parent, and holds the output open."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            note(f"process-{os.getpid()}", "")
            os.close(writing)
            time.sleep(LONG_SECONDS)
        os._exit(0)
    os.close(writing)
    os.read(reading, 1)


def wait_for(name: str) -> None:
    """Waits until a test has made a file."""
    while not (NOTES / name).exists():
        time.sleep(0.02)


def run_tandem(*names: str) -> None:
    """Approves after it has tried to start reviewers of its own, as `tandem-NAME.json` of the notes says how."""
    for name in names:
        asked = json.loads((NOTES / f"tandem-{name}.json").read_text("utf-8"))
        done = subprocess.run(
            asked["command"],
            env={**os.environ, **asked["environment"]},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        ended = {"status": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
        note(f"tandem-{name}-ended.json", json.dumps(ended))
    say(answer())


DEEDS: dict[str, Callable[..., None]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        approve, approve_in_pieces, request, find, settle, where, read, hold, hold_with_brood, in_turn,
        hang, leave, fail, brood, complain, tamper, garbage,
        megabytes, endless, other_digest, quote, quote_alone, quote_with_answer, earlier_nonce,
        read_nothing, nonces_of_another, approve_and_fail, approve_and_die, approve_and_hang,
        run_tandem, rate_limited, print_429_and_fail, speak_of_429, reject_429,
        spill, spill_and_fail, spill_badly, compute,
    )
}  # fmt: skip


def main() -> None:
    """One review."""
    prompt = sys.stdin.buffer.read().decode()
    found = FACTS.search(prompt)
    if found is None:
        sys.exit("the prompt has no facts")
    facts.update(json.loads(found["json"]))
    description = DESCRIPTION.search(prompt)
    earlier = EARLIER.search(prompt)
    given.update(
        {
            "pid": os.getpid(),
            "argv": sys.argv[1:],
            "folder": str(Path.cwd()),
            "environment": dict(os.environ),
            "facts": facts,
            "prompt": prompt,
            "nonce": NONCE.findall(prompt)[-1],
            "files": [
                {"file": int(one["file"]), "nonce": one["nonce"], "looked_at": "all of it", "unread": None}
                for one in READ.finditer(prompt)
            ],
            "earlier": json.loads(earlier["json"]) if earlier else [],
            "description": description["text"] if description else None,
        }
    )
    review = facts["review_id"]
    note(f"process-{os.getpid()}", "")
    note(f"run-{review}-{len(list(NOTES.glob(f'run-{review}-*'))) + 1}.json", json.dumps(given))
    for deed, *arguments in (facts["intent"].split() or [""], sys.argv[2:] or [""], ["approve"]):
        if deed in DEEDS:
            DEEDS[deed](*arguments)
            return


if __name__ == "__main__":
    main()
