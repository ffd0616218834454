"""Repositories to validate against, made without a working tree, and diffs that apply to them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO

FILES_A_FOLDER = 100
SMALL = 60
LARGE = 50_000
_LINES = 40
_CHANGED = 20
_CONTEXT = 3


def make_repository(folder: Path, files: int) -> Path:
    """A repository with one commit of so many files; its objects are packed, its working tree is empty."""
    folder.mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main"], cwd=folder, check=True)
    with subprocess.Popen(["git", "fast-import", "--quiet"], cwd=folder, stdin=subprocess.PIPE) as importing:
        assert importing.stdin is not None
        _write_history(importing.stdin, files)
        importing.stdin.close()
    assert importing.returncode == 0
    return folder


def make_diff(numbers: Iterator[int], files: int, total: int) -> str:
    """A diff that changes one line in each of so many files, spread over the repository and never the same twice."""
    serial = next(numbers)
    chosen = sorted({_path((serial * 7 + position * (total // files)) % total) for position in range(files)})
    return "".join(_file_diff(path, serial) for path in chosen)


def rewrite(files: int) -> str:
    """A diff that changes every second line of the first so many files."""
    return "".join(_rewritten(_path(number)) for number in range(files))


def _rewritten(path: str) -> str:
    body = "".join(
        f"-{line}\n+{line.replace('compute', 'reckon')}\n" if number % 2 else f" {line}\n"
        for number, line in enumerate(_lines(path))
    )
    return f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1,{_LINES} +1,{_LINES} @@\n{body}"


def _write_history(stream: IO[bytes], files: int) -> None:
    stream.write(b"commit refs/heads/main\ncommitter Bench <bench@example.invalid> 1790000000 +0000\ndata 5\nstart\n")
    for number in range(files):
        path = _path(number)
        content = "".join(f"{line}\n" for line in _lines(path)).encode()
        stream.write(b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(content), content))


def _path(number: int) -> str:
    return f"package{number // FILES_A_FOLDER:04}/module{number % FILES_A_FOLDER:03}.py"


def _lines(path: str) -> list[str]:
    return [f"value_{line} = compute({line})  # {path}" for line in range(1, _LINES + 1)]


def _file_diff(path: str, serial: int) -> str:
    lines = _lines(path)
    before = lines[_CHANGED - 1 - _CONTEXT : _CHANGED - 1]
    after = lines[_CHANGED : _CHANGED + _CONTEXT]
    first, count = _CHANGED - _CONTEXT, 2 * _CONTEXT + 1
    body = [
        *(f" {line}" for line in before),
        f"-{lines[_CHANGED - 1]}",
        f"+value_{_CHANGED} = compute({serial})  # changed",
        *(f" {line}" for line in after),
    ]
    head = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -{first},{count} +{first},{count} @@\n"
    return head + "".join(f"{line}\n" for line in body)
