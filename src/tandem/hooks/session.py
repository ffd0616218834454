"""What agents call when a session starts: one line about the gate, and the overlay of GSD put back after an update.

Nothing here refuses anything or is waited for: a session starts whatever happens.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any, cast

from tandem.bridge.keys import without_secrets
from tandem.rulings import state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tandem.rulings.state import GateFile

OVERLAYS_FILE = "gsd-overlay.json"
"""In the data folder: the installations that have the overlay, written by `tandem gsd overlay`."""

OVERLAYS_VERSION = 1
_GSD_VERSION_FILE = os.path.join("get-shit-done", "VERSION")

REFRESH = ("gsd", "overlay", "--refresh")
"""The command that puts the overlay back."""

_SHOWN = " ".join(("tandem", *REFRESH))
_EVENT = "SessionStart"
_LARGEST_BYTES = 16 * 1024 * 1024


def main(arguments: Sequence[str]) -> int:
    """Say on standard output what the session should know, in the form that all three clients take; answers with 0.

    Args:
        arguments: `--client NAME`, and `--data-dir FOLDER` where Tandem's data is, for projects without a gate.
    """
    folder = os.getcwd()
    try:
        folder = _folder(sys.stdin.buffer.read(_LARGEST_BYTES)) or folder
        gate = state.find_enabled(folder)
        line = _standing(gate, arguments) if gate is not None else None
    except state.GateUnreadable as error:
        gate, line = None, f"Tandem: {error}"
    except Exception as error:  # noqa: BLE001 - the edge: a session must not be kept from starting
        gate, line = None, f"Tandem: the state of the gate cannot be found out: {error or type(error).__name__}"
    lines = [line, _refreshed(_data_dir(arguments) or (gate.data_dir if gate is not None else None))]
    told = " ".join(one for one in lines if one)
    if told:
        sys.stdout.write(
            json.dumps({"hookSpecificOutput": {"hookEventName": _EVENT, "additionalContext": told}}) + "\n"
        )
    return 0


def _folder(data: bytes) -> str | None:
    """Where the session works, by the client's account of it."""
    try:
        account: Any = json.loads(data)
        folder: Any = account["cwd"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return folder if isinstance(folder, str) and os.path.isdir(folder) else None


def _data_dir(arguments: Sequence[str]) -> str | None:
    found = arguments[arguments.index("--data-dir") + 1 :] if "--data-dir" in arguments else ()
    return found[0] if found else None


def _standing(gate: GateFile, arguments: Sequence[str]) -> str:
    """That the gate is on, and whether it can be asked."""
    # Where no gate is on, nobody pays for these.
    from tandem.errors import TandemError
    from tandem.rulings import liveness
    from tandem.rulings.ask import GateClient, Refused, Unreachable

    said = (
        f"Tandem's gate is on for the project '{gate.project}': what is committed has to be approved first, to the"
        " byte; the skill tandem-review says how."
    )
    directory = gate.hooks.get("directory")
    if "gemini" in arguments and directory is not None:
        # It switches git's hooks off for every command that it runs.
        said += f" Here git commands that make or move commits have to say: git -c core.hooksPath={directory} …"
        said += " (the gate's hooks, which this client switches off)."
    try:
        said = " ".join(filter(None, [said, liveness.problem(gate)]))
    except TandemError as error:
        said += f" Whether git starts its hooks cannot be found out: {error}"
    try:
        with GateClient(gate, starts=True) as asker:
            asker.check_gate([])
    except Unreachable as error:
        return f"{said} {error}"
    except Refused as error:
        mend = "" if error.wants_token else " A person has to mend that: tandem gate on"
        return f"{said} But the broker refuses: {error}{mend}"
    return f"{said} The broker runs."


def _refreshed(data_dir: str | None) -> str | None:
    """Have the overlay put back where GSD was updated; what was done, if anything."""
    folders = outdated_overlays(data_dir) if data_dir is not None else []
    if not folders:
        return None
    from tandem.core import platforms  # as in `_standing`

    try:
        # -P: else Python would import modules that stand in the repository the session works in.
        subprocess.Popen(
            [sys.executable, "-P", "-m", "tandem", *REFRESH],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**without_secrets(), "TANDEM_DATA_DIR": data_dir or ""},
            **platforms.detached(),
        )
    except OSError as error:
        return f"GSD was updated, and Tandem's pointers in it are gone ({error.strerror}); run: {_SHOWN}"
    return f"GSD was updated in {', '.join(folders)}; Tandem puts its pointers back there ({_SHOWN})."


def outdated_overlays(data_dir: str) -> list[str]:
    """The folders whose GSD has another version than when the overlay was put in; `tandem gsd overlay --refresh`."""
    try:
        with open(os.path.join(data_dir, OVERLAYS_FILE), "rb") as stream:
            stored = read_overlays(stream.read())
    except (OSError, ValueError):
        return []
    return [folder for folder, facts in stored.items() if gsd_version(folder) not in {None, facts.get("version")}]


def read_overlays(content: bytes) -> dict[str, dict[str, Any]]:
    """What is kept of each installation, by its folder.

    Raises:
        ValueError: It cannot be understood.
    """
    try:
        document: Any = json.loads(content)
        if document["version"] != OVERLAYS_VERSION:
            raise ValueError("it was written by another version of Tandem")
        stored: Any = document["installs"]
        if not all(isinstance(facts["files"], dict) for facts in stored.values()):
            raise ValueError("it has files that are none")
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it is damaged ({type(error).__name__})") from error
    return cast("dict[str, dict[str, Any]]", stored)


def gsd_version(folder: str) -> str | None:
    """The version of GSD that a client's folder has; null if it has none."""
    try:
        with open(os.path.join(folder, _GSD_VERSION_FILE), encoding="utf-8", errors="replace") as stream:
            return stream.read(100).strip() or None
    except OSError:
        return None
