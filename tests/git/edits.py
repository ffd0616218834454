"""Changes of a repository that has one of everything: see `edits.txt`."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from string import Template

from tests.git.sandbox import Sandbox
from tests.repository.routes.tables import rows

LINES = "".join(f"line {number}\n" for number in range(1, 31))
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}
_STEPS = {row.name: row.steps for row in [*rows(str(Path(__file__).with_name("edits.txt")))]}
EDITS = [name for name in _STEPS if name != "populated"]


def change(sandbox: Sandbox, name: str) -> None:
    """Do the steps of a row.

    `write`, `script` and `bytes` make a file, of a text or of each byte a number of times; `sub` replaces a text in
    one; `link`, `mode`, `remove` and `git` work as in a shell, a link's name before its target.
    """
    for step in _STEPS[name]:
        verb, *words = (_text(word) for word in shlex.split(step))
        match verb, words:
            case "write" | "script", [path, content]:
                sandbox.write(path, content, executable=verb == "script")
            case "bytes", [path, times, *backwards]:
                each = bytes(range(256))
                sandbox.write(path, (each[::-1] if backwards else each) * int(times))
            case "sub", [path, old, new]:
                sandbox.write(path, sandbox.read(path).replace(old.encode(), new.encode()))
            case "link", [path, target]:
                (sandbox.root / path).symlink_to(target)
            case "mode", [mode, path]:
                (sandbox.root / path).chmod(int(mode, 8))
            case "git", _:
                sandbox.git(*words)
            case _:
                assert verb == "remove", step
                for path in words:
                    file = sandbox.root / path
                    shutil.rmtree(file) if file.is_dir() else file.unlink()


def populate(sandbox: Sandbox) -> str:
    """A first commit with one of everything."""
    change(sandbox, "populated")
    return sandbox.commit()


def _text(word: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES[found[1]], Template(word).substitute(lines=LINES))
