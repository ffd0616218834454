"""What the reference pages say of files, drafts, logs and settings beyond what the declarations do."""

from __future__ import annotations

from typing import Final

CODES: Final[dict[str, tuple[str, ...]]] = {
    "get_round_file": ("NOT_FOUND", "TOO_LARGE"),
    "draft_counter_patch": ("NOT_FOUND", "STALE_ROUND", "TOO_LARGE"),
    "check_counter_patch": ("NOT_FOUND", "STALE_ROUND", "TOO_LARGE"),
    "get_reviewer_log": ("UNKNOWN_REVIEWER",),
    "get_project_settings": ("NOT_FOUND", "CONFIG_INVALID"),
}

FIELDS: Final[dict[str, str]] = {
    "GetRoundFile.first_line": "The first line to answer, from 1.",
    "RoundFile.path": "The file.",
    "RoundFile.side": "`before` or `after` the round's change.",
    "exists": "Whether the file is there on that side.",
    "binary": "Whether it is no text in UTF-8; then there are no lines.",
    "RoundFile.lines": "The lines, without the line feeds that end them; a carriage return stays.",
    "RoundFile.first_line": "The number of the first of the lines, from 1.",
    "total_lines": "How many lines the file has.",
    "ends_with_newline": "Whether its last line is ended.",
    "size_bytes": "Its size; 0 where it is not there.",
    "sha256": "The SHA-256 of its content in hexadecimal; null where it is not there.",
    "base64": "Its content in base64; null if it was not asked for, is not there, or is too large.",
    "RoundFile.round": "The round.",
    "CounterPatchDraft.round": "The round that it replaces.",
    "CounterPatchCheck.round": "The round that it would replace.",
    "FileEdit.path": "The file: one that the round leaves, or a new one.",
    "CounterPatchDraft.counter_patch": (
        "What to send with `submit_verdict`: the whole diff or text; empty if nothing is left of the change."
    ),
    "applies": "Whether `submit_verdict` would take it.",
    "problem": "Why it would not.",
    "CounterPatchDraft.affected_files": "The files that it touches; none if it does not apply.",
    "CounterPatchCheck.affected_files": "The files that it touches; none if it does not apply.",
    "CounterPatchDraft.digest": "What an approval of it would bind to; null without a validation.",
    "CounterPatchCheck.digest": "What an approval of it would bind to; null without a validation.",
    "ReviewerLog.lines": "Whole lines, oldest first, with control and direction characters spelled out.",
    "position": "Where to go on; null where there is no log.",
    "available": "Whether the log is on the broker's machine.",
    "ReviewerLog.host": "The machine that the reviewer runs, or ran, on.",
    "settings": "The settings, by name.",
    "ProjectSettings.root": "The top level of its git repository.",
    "gate": "The project's gate.",
    "SettingView.name": "The setting; those of a table are named with a dot.",
    "SettingView.value": "Its value as JSON, without passwords.",
    "SettingView.origin": "`default`, a file, a variable or an option of the command line.",
    "SettingView.description": "What it is for.",
    "ignored": "What was found in a file of the project and not used, and why.",
}
