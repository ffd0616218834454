"""Changes of files as a unified diff that `git apply` takes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from tandem.workflow.edits.changing import Change

_NO_NEWLINE = "\\ No newline at end of file\n"


def diff(changes: Iterable[Change]) -> str:
    """The unified diff of all that changes; bytes that are no UTF-8 are surrogates in it."""
    return "".join(line for change in changes if change.alters for line in _lines(change))


def _lines(change: Change) -> Iterator[str]:
    old = "/dev/null" if change.before is None else f"a/{change.name}"
    new = "/dev/null" if change.after is None else f"b/{change.name}"
    # As git writes it: a tab ends a name with a space in it.
    end = "\t" if " " in change.name else ""
    hunks = list(difflib.unified_diff(_split(change.before), _split(change.after), n=3))[2:]
    yield f"diff --git a/{change.name} b/{change.name}\n"
    if change.before is None:
        yield f"new file mode {'100755' if change.executable else '100644'}\n"
    if change.after is None:
        yield "deleted file mode 100644\n"
    if not hunks:
        return
    yield f"--- {old}{end if change.before is not None else ''}\n"
    yield f"+++ {new}{end if change.after is not None else ''}\n"
    for line in hunks:
        yield line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}"


def _split(content: bytes | None) -> list[str]:
    # Only line feeds end lines here; `splitlines` knows nine more.
    text = (content or b"").decode("utf-8", "surrogateescape")
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
