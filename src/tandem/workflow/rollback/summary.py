"""The section of a plan's SUMMARY.md that says what was reverted."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from tandem.bridge.project import main_worktree
from tandem.hooks import planning
from tandem.hooks.visible import visible_line
from tandem.workflow.rollback.report import Report

_FOLDER = ".planning"
_ENDING = "-SUMMARY.md"
_LIMIT_BYTES = 4_000_000
_SHORT = 10


def write_section(root: Path, report: Report) -> str | None:
    """Adds a section to the plan's summary in the working tree, if there is one; once for each rollback.

    Args:
        root: Top of the working tree.
        report: What was done.

    Returns:
        The file's path from the root; null if the plan has no summary.

    Raises:
        OSError: It cannot be written.
    """
    file = _find(root, report.plan)
    if file is None:
        return None
    before = file.read_bytes()
    mark = f"<!-- tandem rollback {report.review_id} {report.head_after} -->"
    if mark.encode() not in before:
        line_end = "\r\n" if b"\r\n" in before else "\n"
        text = line_end.join(["", *_lines(report, mark), ""])
        gap = b"" if before.endswith(b"\n") or not before else line_end.encode()
        _replace(file, before + gap + text.encode("utf-8", "replace"))
    return file.as_posix() if not file.is_relative_to(root) else file.relative_to(root).as_posix()


def _find(root: Path, plan: str) -> Path | None:
    """The one summary of a plan; null if there is none, or it cannot be told which it is."""
    main = main_worktree(str(root))
    for top in [root, *([Path(main)] if main is not None else [])]:
        found = list(_summaries(top, f"{plan}{_ENDING}"))
        workstream = planning.read(str(top)).workstream if len(found) > 1 else None
        if workstream is not None:
            found = [file for file in found if workstream in file.relative_to(top).parts]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _summaries(top: Path, name: str) -> Iterator[Path]:
    # The name is compared and never made into a path: it may come from anybody.
    for folder, _, names in os.walk(top / _FOLDER):
        file = Path(folder) / name if name in names else None
        if file is not None and not file.is_symlink() and file.stat().st_size <= _LIMIT_BYTES:
            yield file


def _lines(report: Report, mark: str) -> Iterator[str]:
    yield f"## Reverted after review: {report.review_id}"
    yield ""
    yield mark
    yield ""
    for one in report.reverted:
        by = f", reverted by `{one.reverted_by[:_SHORT]}`" if one.reverted_by else ""
        yield f"- `{one.commit[:_SHORT]}` {_plain(one.subject)} ({_plain(one.because)}){by}"
    if report.counter_patch is not None:
        yield f"- The counter-patch (round {report.counter_patch.round}) is in `{report.counter_patch.commit[:_SHORT]}`"
    for one in report.carried:
        again = ", to be reviewed again" if one.approval == "re_review" else ""
        yield f"- Kept: `{one.commit[:_SHORT]}` {_plain(one.subject)} is now `{one.becomes[:_SHORT]}`{again}"
    for one in report.rework:
        what = _plain(one.subject) or ", ".join(one.review_ids)
        yield f"- To be made again: {what} ({_plain(one.reason)})"
    yield ""
    yield "The rest of the plan goes on in blocking mode: each change is approved before it is committed."


def _plain(text: str) -> str:
    """Text by others on one line, without what Markdown or HTML would make something of."""
    return visible_line(text).replace("<", "&lt;").replace("`", "'")


def _replace(file: Path, content: bytes) -> None:
    """Writes a file whole or not at all, with the mode it had."""
    fresh = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    try:
        fresh.write_bytes(content)
        fresh.chmod(file.stat().st_mode)
        fresh.replace(file)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
