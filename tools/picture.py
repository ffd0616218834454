"""Draws the README's picture: a real session at two terminals, recorded and drawn as an animated SVG.

    python tools/picture.py [FILE]     play the session and write docs/images/session.svg, or the file

Commands, git and broker are real, in a scratch folder with a home of its own. Ids and times, which differ from one
session to the next, are written as fixed ones, so that the file changes only when the session does. Who wants no
motion sees the end of the session.
"""

from __future__ import annotations

import html
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "images" / "session.svg"
PROPOSER, REVIEWER = "A coding agent proposes", "A reviewer decides"
COLUMNS = 110
ROWS = {PROPOSER: 15, REVIEWER: 13}
CELL, LINE, FONT = 7.5, 18, 12.5
MARGIN, TITLE, GAP = 14, 30, 10
WORD_SECONDS, LINE_SECONDS, PAUSE_SECONDS, READ_SECONDS, LAST_SECONDS = 0.08, 0.02, 0.4, 1.6, 5.0
# A session that waits for a line that does not come ends.
LONGEST_SECONDS = 120
BEFORE = """\
import time

ATTEMPTS = 3


def upload(send, parcel):
    for attempt in range(ATTEMPTS):
        try:
            return send(parcel)
        except ConnectionError:
            continue
"""
INTENT = "Wait between the attempts of an upload"
ID = re.compile(r"\brv_\w{18}\b")
FIXED = (
    (ID, "rv_1m806grz23c8n7nfe8"),
    (re.compile(r"\bvd_\w{18}\b"), "vd_1m806j3kx5rmd8wgce"),
    (re.compile(r"\b1m\w{6}(?=\.\d+$)"), "1m806grz"),
    (re.compile(r"\b\d+ s ago"), "1 s ago"),
    (re.compile(r"(?<=^\[main )\w+"), "5845e21"),
)
LABELLED = 'role="img" aria-labelledby="title text"'
NAME = "A commit is refused, reviewed, approved and accepted"
DESCRIPTION = (
    "In one terminal git refuses an unapproved commit; the change is submitted and waits. In the other a "
    "reviewer claims it, reads it and approves it. The same commit is then accepted."
)
FRAME = ("╭", "│", "╰")
STYLES = (
    (re.compile(r"^tandem: refused|^-(?!--)"), "bad"),
    (re.compile(r"^tandem:"), "plain"),
    (re.compile(r"^\+(?!\+\+)|approved\b|^\[main "), "good"),
    (re.compile(r"^@@|^[╭│╰]|^diff|^index|^---|^\+\+\+"), "dim"),
)


class Shown(NamedTuple):
    """A piece of text, and where and when it appears."""

    terminal: str
    row: int
    column: int
    at: float
    text: str
    style: str


@dataclass
class Recording:
    """What appears at the terminals: what, where, when."""

    now: float = 0.5
    shown: list[Shown] = field(default_factory=list["Shown"])
    rows: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ROWS, 0))

    def type(self, terminal: str, command: str) -> None:
        """A command, word by word."""
        column = 2
        self._add(terminal, 0, "$", "dim")
        for word in command.split(" "):
            self.now += WORD_SECONDS
            self._add(terminal, column, word, "typed")
            column += len(word) + 1
        self.rows[terminal] += 1
        self.now += PAUSE_SECONDS

    def print(self, terminal: str, line: str) -> None:
        """A line of output: what does not fit goes on in the next row, but for a frame, whose end is left out."""
        line = line.rstrip()
        if line.endswith(" reviews it"):
            # Whether who waits hears of the claim or of the verdict at once depends on the moment.
            return
        for pattern, fixed in FIXED:
            line = pattern.sub(fixed, line)
        style = next((style for pattern, style in STYLES if pattern.search(line)), "plain")
        for start in range(0, 1 if line.startswith(FRAME) else max(len(line), 1), COLUMNS):
            self._add(terminal, 0, line[start : start + COLUMNS], style)
            self.rows[terminal] += 1
        self.now += LINE_SECONDS

    def pause(self, seconds: float = READ_SECONDS) -> None:
        """Time to read."""
        self.now += seconds

    def _add(self, terminal: str, column: int, text: str, style: str) -> None:
        for pattern, fixed in FIXED:
            text = pattern.sub(fixed, text)
        self.shown.append(Shown(terminal, self.rows[terminal], column, self.now, text, style))


class Session:
    """A repository with the gate on, a broker, and two people at terminals."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.record = folder / "shop", Recording()
        kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        stamp = "2026-11-25T09:00:00Z"
        self._environment = {
            **kept, "HOME": str(folder), "PATH": path, "TANDEM_PORT": "0", "PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1",
            "COLUMNS": str(COLUMNS), "GIT_AUTHOR_DATE": stamp, "GIT_COMMITTER_DATE": stamp, "GIT_CONFIG_NOSYSTEM": "1",
        }  # fmt: skip
        (folder / ".gitconfig").write_text("[user]\n    name = Ann\n    email = ann@example.invalid\n", "utf-8")
        self.folder.mkdir()

    def quietly(self, command: str) -> str:
        """Run it unseen; its output."""
        done = subprocess.run(
            shlex.split(command), cwd=self.folder, env=self._environment, check=True, capture_output=True, text=True
        )
        return done.stdout

    def start(self, terminal: str, command: str) -> Iterator[str]:
        """Type a command; its lines as they come, each recorded."""
        self.record.type(terminal, command)
        process = subprocess.Popen(
            shlex.split(command), cwd=self.folder, env=self._environment, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        for line in process.stdout or ():
            self.record.print(terminal, line)
            yield line
        process.wait()

    def run(self, terminal: str, command: str) -> str:
        """Type a command and see it through; its output."""
        printed = "".join(self.start(terminal, command))
        self.record.pause()
        return printed


def main() -> int:
    """Plays and draws."""
    signal.alarm(LONGEST_SECONDS)
    with tempfile.TemporaryDirectory() as folder:
        session = Session(Path(folder))
        try:
            play(session)
        finally:
            session.quietly("tandem down")
    (Path(sys.argv[1]) if sys.argv[1:] else PICTURE).write_text(draw(session.record), "utf-8", newline="\n")
    return 0


def play(session: Session) -> None:
    """The session itself."""
    upload = session.folder / "upload.py"
    upload.write_text(BEFORE, "utf-8")
    for command in ("git init -q -b main", "git add .", "git commit -q -m Upload", "tandem up --background"):
        session.quietly(command)
    session.quietly("tandem project add")
    session.quietly("tandem gate on")
    upload.write_text(BEFORE.replace("continue", "time.sleep(2**attempt)"), "utf-8")
    commit = f"git commit -m {shlex.quote(INTENT)}"
    session.run(PROPOSER, "git add upload.py")
    if "tandem: refused" not in session.run(PROPOSER, commit):
        raise SystemExit("picture: the gate has let an unapproved commit pass")
    waiting = session.start(PROPOSER, f"tandem submit --staged --wait -m {shlex.quote(INTENT)}")
    review = next(found[0] for line in waiting if (found := ID.search(line)))
    # Said last before it waits, in two lines.
    next(line for line in waiting if "reviewer pool serves" in line and not line.startswith("no reviewer "))
    next(waiting)
    session.record.pause()
    session.run(REVIEWER, f"tandem review show {review}")
    session.run(REVIEWER, f"tandem review approve {review} --agent alice -m 'Callers back off now'")
    for _ in waiting:
        pass
    session.record.pause()
    session.run(PROPOSER, commit)


def draw(record: Recording) -> str:
    """The recording as an animated SVG."""
    length = record.now + LAST_SECONDS
    width = round(COLUMNS * CELL + 2 * MARGIN)
    rules: dict[str, str] = {}
    panes, top = list[str](), 0
    for terminal, rows in ROWS.items():
        height = TITLE + rows * LINE + MARGIN
        mine = [one for one in record.shown if one.terminal == terminal and one.text]
        lines = [_text(one, length, rules) for one in mine]
        ups = {one.at: max(one.row - rows + 1, 0) * LINE for one in mine}
        frames = "".join(f"{at / length:.2%}{{transform:translateY({-up}px)}}" for at, up in ups.items())
        name = f"scroll{len(panes)}"
        rules[name] = f"@keyframes {name}{{0%{{transform:none}}{frames}}}"
        panes.append(
            f'<g transform="translate(0 {top})">'
            f'<rect class="pane" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8"/>'
            f'<text class="title" x="{MARGIN}" y="20">{terminal}</text>'
            f'<svg x="{MARGIN}" y="{TITLE}" width="{width - 2 * MARGIN}" height="{rows * LINE + 6}">'
            f'<g class="moves" style="animation-name:{name};transform:translateY({-max(ups.values())}px)">\n'
            + "\n".join(lines)
            + "\n</g></svg></g>"
        )
        top += height + GAP
    style = STYLE.replace("LENGTH", f"{length:.2f}s").replace("FONT", f"{FONT}px")
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top - GAP}" {LABELLED}>',
        f'<title id="title">{NAME}</title>',
        f'<desc id="text">{DESCRIPTION}</desc>',
        f"<style>{style}",
        *rules.values(),
        "</style>",
        *panes,
        "</svg>\n",
    ])  # fmt: skip


def _text(shown: Shown, length: float, rules: dict[str, str]) -> str:
    """A piece of text that appears at its time; as wide in every font, so that the text after it stands right."""
    name = f"at{round(shown.at * 1000)}"
    rules[name] = f"@keyframes {name}{{0%{{opacity:0}}{shown.at / length:.2%},100%{{opacity:1}}}}"
    return (
        f'<text class="{shown.style} moves" style="animation-name:{name}" x="{shown.column * CELL:.1f}" '
        f'y="{shown.row * LINE + FONT}" textLength="{len(shown.text) * CELL:.1f}" lengthAdjust="spacingAndGlyphs">'
        f"{html.escape(shown.text, quote=False)}</text>"
    )


STYLE = """
text { font: FONT ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
text { fill: #e6edf3; white-space: pre; }
.moves { animation: LENGTH step-end infinite; }
.pane { fill: #0d1117; stroke: #3d444d; }
.title { font-family: system-ui, -apple-system, "Segoe UI", sans-serif; font-weight: 600; fill: #9198a1; }
.typed { font-weight: 600; }
.dim { fill: #9198a1; }
.good { fill: #56d364; }
.bad { fill: #ff7b72; }
@media (prefers-reduced-motion: reduce) { .moves { animation: none; } }
"""


if __name__ == "__main__":
    sys.exit(main())
