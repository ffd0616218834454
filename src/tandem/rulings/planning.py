"""Tandem's settings among GSD's, and where GSD's commands point to us: read locally and without running anything.

The settings are in `.planning/config.json` of the main working tree, also for a linked one and for folders inside: a
working tree that an agent was given may lack it, or hold an older one. `.planning/workstreams/<name>/config.json` of
the active workstream is merged over it. These files may loosen only where a person has trusted them
(`rulings/trust.py`). Where pointers were put into GSD's commands, `tandem gsd overlay` has written down.
"""

from __future__ import annotations

import json
import os
import re

from tandem.core.stand_ins import NamedTuple, cast, hex_digest
from tandem.errors import TandemError
from tandem.git.place import find_repository
from tandem.rulings import git, state, trust
from tandem.rulings.state import FOLLOWED, FREE, REVIEWED
from tandem.rulings.trust import (
    BLOCKING,
    ENABLED,
    GRANULARITY,
    LARGEST_BYTES,
    MODE,
    OPTIMISTIC,
    PER_PLAN,
    PER_TASK,
    POOL,
    Source,
    own_keys,
)

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from tandem.rulings.state import GateFile

GRANULARITIES = (PER_TASK, PER_PLAN)
MODES = (BLOCKING, OPTIMISTIC)
STRICT = "strict"
_SOLO = "solo"

ENFORCED = {
    # What the gate says; then, where GSD's steps go alone and by each of GSD's settings, the mode that follows.
    FREE: {_SOLO: FREE, STRICT: STRICT, PER_PLAN: PER_PLAN, OPTIMISTIC: OPTIMISTIC},
    FOLLOWED: {_SOLO: FOLLOWED, STRICT: STRICT, PER_PLAN: FOLLOWED, OPTIMISTIC: OPTIMISTIC},
    REVIEWED: {STRICT: STRICT, PER_PLAN: PER_PLAN, OPTIMISTIC: OPTIMISTIC},
}
"""The mode for an unapproved commit on a branch that is no base branch: `strict` refuses it, the others pass it."""

RECORDED = (PER_PLAN, OPTIMISTIC)
"""The modes in which commits are recorded, so that a plan's can be rolled back."""

FILE = ".planning/config.json"
"""From the project's root, with slashes on every system: it is a name in the list of trusted contents."""

_WORKSTREAM = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
# GSD's own order; it names a session by the first of these that is set.
_SESSIONS = (
    "GSD_SESSION_KEY",
    "CODEX_THREAD_ID",
    "CLAUDE_SESSION_ID",
    "CLAUDE_CODE_SSE_PORT",
    "OPENCODE_SESSION_ID",
    "GEMINI_SESSION_ID",
    "CURSOR_SESSION_ID",
    "WINDSURF_SESSION_ID",
    "TERM_SESSION_ID",
    "WT_SESSION",
    "TMUX_PANE",
    "ZELLIJ_SESSION_NAME",
)

OVERLAY_FILE = "gsd-overlay.json"
"""In the data folder."""

OVERLAY_VERSION = 1
_GSD_VERSION_FILE = os.path.join("get-shit-done", "VERSION")


class PlanningFile(NamedTuple):
    """Tandem's settings as the files state them, or as they hold.

    Attributes:
        root: The working tree that has them: the main one, where there is one.
        tandem_enabled: Whether GSD's steps propose their work for review. True also where the file is there and
            cannot be read: that is no solo mode.
        granularity: `per_task` or `per_plan`.
        mode: `blocking` or `optimistic`.
        found: Whether there is a file at all.
        workstream: The active workstream whose file counts as well.
        problems: The values that could not be understood, each with the file and the allowed values.
        sources: The files that were read, the nearest last.
        origins: For each of Tandem's keys that is set, the file that won.
        reviewer_pool: Their settings of the reviewer pool, as written.
        refused: After `effective`: the keys whose value was not taken, for want of trust.
    """

    root: str
    tandem_enabled: bool = False
    granularity: str = PER_TASK
    mode: str = BLOCKING
    found: bool = False
    workstream: str | None = None
    problems: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    origins: Mapping[str, str] = {}
    reviewer_pool: Mapping[str, Any] = {}
    refused: tuple[str, ...] = ()

    @property
    def is_strict(self) -> bool:
        """Whether every task's change is reviewed before its commit."""
        return self.granularity == PER_TASK and self.mode == BLOCKING


def effective(planning: PlanningFile, *, trusted: bool) -> PlanningFile:
    """The settings that hold: `per_plan` and `optimistic` only when the files that say so are trusted."""
    if trusted:
        return planning
    asked = ((GRANULARITY, planning.granularity, PER_TASK), (MODE, planning.mode, BLOCKING))
    refused = tuple(key for key, value, strict in asked if value != strict)
    return planning._replace(granularity=PER_TASK, mode=BLOCKING, refused=refused)


def read(folder: str) -> PlanningFile:
    """The settings of the project of a folder, as stated; never fails: `problems` says why something does not count."""
    return _read_at(project_root(folder))


def _read_at(root: str) -> PlanningFile:
    planning_dir = os.path.join(root, ".planning")
    if not os.path.isdir(planning_dir):
        return PlanningFile(root)
    workstream = active_workstream(planning_dir)
    problems: list[str] = []
    sources: list[Source] = []
    is_broken = False
    for file in (FILE, *([workstream_file(workstream)] if workstream else ())):
        try:
            source = read_source(root, file)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            problems.append(f"{file} cannot be read, so reviews stay on: {why}")
            is_broken = True
        else:
            sources += [source] if source else []
    merged = _merged(sources)
    says = {key: _value(key, merged, problems) for key in (ENABLED, POOL, GRANULARITY, MODE)}
    return PlanningFile(
        root=root,
        tandem_enabled=says[ENABLED] or is_broken,
        granularity=says[GRANULARITY],
        mode=says[MODE],
        found=bool(sources) or is_broken,
        workstream=workstream,
        problems=tuple(problems),
        sources=tuple(sources),
        origins={key: file for key, (_, file) in merged.items()},
        reviewer_pool=says[POOL],
    )


def in_force(gate: GateFile) -> PlanningFile:
    """The settings that hold in a gate's project, after trust."""
    found = _read_at(gate.place.settings_root)
    return effective(found, trusted=trust.trusts(gate.config_dir, gate.root, found.sources))


def base_branch(gate: GateFile, branch: str | None) -> str | None:
    """The base branch that a branch is, by the gate's own name for it; None if it is none."""
    # Whether two names are one is not left to the file system's case.
    return next((one for one in gate.branches if branch is not None and one.casefold() == branch.casefold()), None)


def enforcement(gate: GateFile, branch: str | None) -> str:
    """The mode for an unapproved commit on a branch, by `ENFORCED`; `strict` on a base branch.

    The gate itself, and the project's trusted settings where the gate is `reviewed`, loosen.

    Args:
        gate: The switch.
        branch: The branch that is checked out; None if HEAD is detached, which is no base branch.
    """
    if branch in gate.branches:
        return STRICT
    holds = in_force(gate)
    # Both at once: every change is submitted as soon as it is committed, which says more than the mark.
    says = STRICT if holds.is_strict else OPTIMISTIC if holds.mode == OPTIMISTIC else PER_PLAN
    commits = gate.enforced_commits
    return ENFORCED[commits][says if holds.tandem_enabled or commits == REVIEWED else _SOLO]


def project_root(folder: str) -> str:
    """The working tree whose settings count where a folder is; the folder itself outside of git."""
    place = find_repository(folder)
    return os.path.realpath(folder) if place is None else place.settings_root


def trusted_as(folder: str) -> str:
    """The folder by which a person's trust names the project: that of its registration."""
    place = find_repository(folder)
    return os.path.realpath(folder) if place is None else place.home


def workstream_file(workstream: str) -> str:
    """The file of a workstream, as `FILE` is that of the project."""
    return f".planning/workstreams/{workstream}/config.json"


def read_source(root: str, file: str) -> Source | None:
    """One of the files; None if it is not there.

    Raises:
        OSError: It is there and cannot be read.
        ValueError: It is too large, or not an object of JSON.
    """
    try:
        with open(os.path.join(root, *file.split("/")), "rb") as stream:
            content = stream.read(LARGEST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Source(file, content, own_keys(content))


def active_workstream(planning_dir: str) -> str | None:
    """The workstream that GSD works in: of the environment, of this session, or of the project."""
    folder = os.path.join(planning_dir, "workstreams")
    if not os.path.isdir(folder):
        return None
    named = os.environ.get("GSD_WORKSTREAM", "").strip() or _pointer(_session_pointer(planning_dir))
    named = named or _pointer(os.path.join(planning_dir, "active-workstream"))
    if named and _WORKSTREAM.fullmatch(named) and os.path.isdir(os.path.join(folder, named)):
        return named
    return None


def _session_pointer(planning_dir: str) -> str | None:
    """Where GSD keeps the workstream of one session."""
    key = next((f"{name.lower().replace('_', '-')}-{word}" for name in _SESSIONS if (word := _token(name))), None)
    key = key or next(
        (f"tty-{word.removeprefix('dev_')}" for name in ("TTY", "SSH_TTY") if (word := _token(name))), None
    )
    if key is None:
        return None
    project = hex_digest(os.path.realpath(planning_dir).encode(errors="surrogateescape"), "sha1")[:16]
    return os.path.join(_temporary_folder(), "gsd-workstream-sessions", project, key)


def _temporary_folder() -> str:
    """As Node.js, which runs GSD, finds it."""
    return next(filter(None, map(os.environ.get, ("TMPDIR", "TMP", "TEMP"))), "/tmp")  # noqa: S108 - only read


def _token(variable: str) -> str:
    return re.sub(r"[^a-zA-Z0-9._-]+", "_", os.environ.get(variable, "").strip()).strip("_")[:160]


def _pointer(path: str | None) -> str:
    if path is None:
        return ""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read(300).strip()
    except OSError:
        return ""


def _merged(sources: list[Source]) -> dict[str, tuple[Any, str]]:
    """Value and file by key; a later file wins, and tables are merged as GSD merges them."""
    merged: dict[str, tuple[Any, str]] = {}
    for source in sources:
        for key, value in source.says.items():
            before = merged[key][0] if key in merged else None
            if isinstance(value, dict) and isinstance(before, dict):
                merged[key] = ({**cast("dict[str, Any]", before), **cast("dict[str, Any]", value)}, source.file)
            else:
                merged[key] = (value, source.file)
    return merged


_READ: dict[str, tuple[Any, Any, str]] = {
    ENABLED: (False, True, "write true or false. Until then reviews stay on"),
    POOL: ({}, {}, "write an object, or leave it out"),
    GRANULARITY: (PER_TASK, PER_TASK, f"write {' or '.join(GRANULARITIES)}. Until then it is {PER_TASK}"),
    MODE: (BLOCKING, BLOCKING, f"write {' or '.join(MODES)}. Until then it is {BLOCKING}"),
}
"""By key: its default, its value in place of an invalid one, and the advice on that."""
_CHOICES = {GRANULARITY: GRANULARITIES, MODE: MODES}


def _value(key: str, merged: Mapping[str, tuple[Any, str]], problems: list[str]) -> Any:
    usual, safe, advice = _READ[key]
    value, file = merged.get(key, (usual, FILE))
    if value in _CHOICES[key] if key in _CHOICES else isinstance(value, type(usual)):
        return value
    problems.append(f"{file}: {key} is {json.dumps(value)[:60]}; {advice}")
    return safe


# A step of GSD without reviews is answered by one look at local files, before anything heavy is imported.

STEPS = ("plan", "context", "task", "wave", "verification")
DISABLED_WORD = "SOLO"
DISABLED_REASON = "There are no reviews here: tandem_enabled is false, and no gate refuses a commit on this branch."
GO_ON = "Go on."


def is_disabled(settings: PlanningFile, gate: GateFile | None) -> bool:
    """Whether nothing is reviewed: the workflow does not submit anything, and no gate that is on would refuse.

    Args:
        settings: Those of the project's files.
        gate: The gate's switch, if it is on.
    """
    if settings.tandem_enabled or gate is None:
        return not settings.tandem_enabled
    return gate.commits != REVIEWED and base_branch(gate, git.branch(gate.place)) is None


def disabled_answer(arguments: Sequence[str]) -> str | None:
    """The words of a step for people where there are no reviews; None if there might be, or if more is asked.

    Args:
        arguments: The command line behind `tandem`.
    """
    if arguments[:1] != ["gate"] or not {*arguments[1:2]} & {*STEPS} or {"--json", "--help"} & {*arguments}:
        return None
    folder = os.getcwd()
    try:
        if not is_disabled(read(folder), state.find_enabled(folder)):
            return None
    except (TandemError, OSError):
        # Whether a gate refuses is unknown; the whole command says so.
        return None
    return f"{DISABLED_WORD}\nreason: {DISABLED_REASON}\n- {GO_ON}\n"


def outdated_overlays(data_dir: str) -> list[str]:
    """The folders whose GSD has another version than when the overlay was put in; `tandem gsd overlay --refresh`."""
    try:
        with open(os.path.join(data_dir, OVERLAY_FILE), "rb") as stream:
            stored = read_overlays(stream.read())
    except (OSError, ValueError):
        return []
    return [folder for folder, facts in stored.items() if gsd_version(folder) not in {None, facts.get("version")}]


def read_overlays(content: bytes) -> dict[str, dict[str, Any]]:
    """The record of each installation, by its folder.

    Raises:
        ValueError: It cannot be understood.
    """
    try:
        document: Any = json.loads(content)
        if document["version"] != OVERLAY_VERSION:
            raise ValueError("it was written by another version of Tandem")
        stored: Any = document["installs"]
        if not all(isinstance(facts["files"], dict) for facts in stored.values()):
            raise ValueError("it has files that are none")
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it is damaged ({type(error).__name__})") from error
    return cast("dict[str, dict[str, Any]]", stored)


def gsd_version(folder: str) -> str | None:
    """The version of GSD that a client's folder has; None if it has none."""
    try:
        with open(os.path.join(folder, _GSD_VERSION_FILE), encoding="utf-8", errors="replace") as stream:
            return stream.read(100).strip() or None
    except OSError:
        return None
