"""`tandem gsd overlay`: pointers to the review's commands in what GSD installed, put in and taken out to the byte.

GSD's updater compares its files with the hashes in its own manifest, and takes a difference for somebody's patch.
So that manifest gets the hashes of the overlaid files, and the former ones back when the overlay goes; a file that
somebody had really patched keeps the hash that shows it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast

from tandem.bridge.location import find_data_dir
from tandem.core.stand_ins import hex_digest
from tandem.errors import ConfigInvalid, TandemError
from tandem.rulings import planning
from tandem.setup.edits import FileChange, FilePlan, Manifest, install
from tandem.setup.edits.edit import content_of, located
from tandem.setup.finding import DoctorContext, Finding, note, ok, problem
from tandem.setup.teaching import SERVER

_MANIFEST: Final = "gsd-file-manifest.json"
_POINTERS: Final[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("pointers.toml").read_text("utf-8"))

TOOL: Final = f"mcp__{SERVER}__*"
"""Every tool of the MCP server, as Claude Code names them."""

TOOLS: Final = {"claude": TOOL, "gemini": f"mcp_{SERVER}_*", "opencode": f"{SERVER}_*"}
"""The same in each client's words. Codex lists no tools: its agents have those of its configuration."""

_DO: Final = "follow its output. At SOLO, or where there is no such command, go on as usual."
# Of this or another version of Tandem.
_POINTER_LINE = re.compile(r"^[ \t]*(?:- )?<!-- tandem:[a-z]+ --> [^\n]* <!-- /tandem -->\r?\n", re.MULTILINE)
_HEAD = re.compile(r"---\r?\n(?P<head>(?:[^\n]*\n)*?)---\r?(?:\n|\Z)")
_KEY = re.compile(r"^(?:allowed-tools|tools):(?P<inline>[^\r\n]*)(?P<end>\r?\n)", re.MULTILINE)
_ITEM = re.compile(r"(?P<indent>[ \t]+)(?:-[ \t]+(?P<item>[^\r\n]*?)|(?P<key>[^\s:][^:\r\n]*):[^\r\n]*)(?P<end>\r?\n)")


class Client(StrEnum):
    """A client for which GSD's files are known."""

    CLAUDE = "claude"
    CODEX = "codex"
    GEMINI = "gemini"
    OPENCODE = "opencode"


_HOME_VARIABLES: Final[Mapping[Client, str]] = {
    Client.CLAUDE: "CLAUDE_CONFIG_DIR",
    Client.CODEX: "CODEX_HOME",
    Client.GEMINI: "GEMINI_CONFIG_DIR",
    Client.OPENCODE: "OPENCODE_CONFIG_DIR",
}


@dataclass(frozen=True, slots=True)
class Pointer:
    """One pointer in one file, as `pointers.toml` has it.

    It is one line of its own that names the command to run. It stands between two marks, so that it can be found and
    taken out however the file around it has changed.
    """

    gate: str
    anchors: Sequence[str]
    since: Sequence[int] = (1, 20)
    is_prefix: bool = False
    is_behind: bool = False

    @property
    def line(self) -> str:
        """The line, without indentation and line end."""
        return f"<!-- tandem:{self.gate} --> Review gate: {_POINTERS['texts'][self.gate]}, and {_DO} <!-- /tandem -->"


def _pointers(kind: str) -> dict[str, tuple[Pointer, ...]]:
    """The pointers by agent or by workflow."""
    return {name: tuple(Pointer(**one) for one in listed) for name, listed in _POINTERS[kind].items()}


@dataclass(frozen=True, slots=True)
class OverlayTarget:
    """A file that the overlay is for.

    Attributes:
        name: From the installation's folder, with slashes, as GSD's own manifest names it.
        pointers: The pointers that belong into it.
        tool: What belongs at the end of its list of tools; None if nothing.
        is_expected: Whether its absence is worth a word.
    """

    name: str
    pointers: tuple[Pointer, ...] = ()
    tool: str | None = None
    is_expected: bool = True


@dataclass(frozen=True, slots=True)
class Install:
    """GSD as one client has it.

    Attributes:
        client: Whose.
        scope: `project`, or `user` for all of the user's projects.
        folder: The client's folder, links followed.
        version: GSD's version.
    """

    client: Client
    scope: Literal["project", "user"]
    folder: Path
    version: str

    def targets(self) -> Iterator[OverlayTarget]:
        """The files that the overlay is for, whether or not they are there."""
        tool = TOOLS.get(self.client)
        for agent, pointers in _pointers("agents").items():
            yield OverlayTarget(f"agents/{agent}.md", pointers, tool)
            if self.client is Client.CODEX:
                yield OverlayTarget(f"agents/{agent}.toml", pointers)
        for workflow, pointers in _pointers("workflows").items():
            expected = self.is_at_least(_POINTERS["not_before"].get(workflow, (0, 0)))
            yield OverlayTarget(f"get-shit-done/workflows/{workflow}.md", pointers, is_expected=expected)
        if tool is not None:
            for command in _POINTERS["commands"]:
                for name in (
                    f"commands/gsd/{command}.md",
                    f"skills/gsd-{command}/SKILL.md",
                    f"command/gsd-{command}.md",
                ):
                    yield OverlayTarget(name, (), tool, is_expected=False)

    def is_at_least(self, version: Sequence[int]) -> bool:
        """Whether it is of a version or a later one; one that cannot be read counts as the newest."""
        found = re.match(r"v?(\d+)\.(\d+)", self.version)
        return found is None or (int(found[1]), int(found[2])) >= tuple(version)


def find(top: Path | None, environment: Mapping[str, str], home: Path) -> list[Install]:
    """Every installation that a session in a project meets: the project's own and the user's.

    Args:
        top: The working tree's top; None outside of git.
        environment: Where the clients' own variables are looked up.
        home: The user's home folder.
    """
    found: dict[Path, Install] = {}
    for client in Client:
        places: list[tuple[Literal["project", "user"], Path]] = [("user", _user_folder(client, environment, home))]
        if top is not None:
            places.append(("project", top / f".{client}"))
        for scope, place in places:
            folder = Path(os.path.realpath(place))
            version = planning.gsd_version(str(folder))
            if version is not None:
                found.setdefault(folder, Install(client, scope, folder, version))
    return list(found.values())


def _user_folder(client: Client, environment: Mapping[str, str], home: Path) -> Path:
    """The folder that GSD's installer uses for a client when it installs for all projects."""
    stated = environment.get(_HOME_VARIABLES[client], "").strip()
    if stated:
        return _expanded(stated, home)
    if client is not Client.OPENCODE:
        return home / f".{client}"
    file = environment.get("OPENCODE_CONFIG", "").strip()
    if file:
        return _expanded(file, home).parent
    base = environment.get("XDG_CONFIG_HOME", "").strip()
    return (_expanded(base, home) if base else home / ".config") / "opencode"


def _expanded(path: str, home: Path) -> Path:
    return home / path[2:] if path.startswith("~/") else Path(path)


@dataclass(slots=True)
class OverlayPlan:
    """What becomes of one installation.

    Attributes:
        install: The installation.
        changes: Of its files, GSD's manifest included.
        files: The record of each file with something of ours: hashes before and after, and the tool.
        pointers: How many pointers there are then.
        missing: Places that a pointer should have, and that this version does not have.
        skipped: Files that are left alone, and why.
    """

    install: Install
    changes: list[FileChange] = field(default_factory=list[FileChange])
    files: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    pointers: int = 0
    missing: list[str] = field(default_factory=list[str])
    skipped: list[str] = field(default_factory=list[str])

    def facts(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "client": self.install.client,
            "scope": self.install.scope,
            "folder": str(self.install.folder),
            "version": self.install.version,
            "pointers": self.pointers,
            "changed": [change.name for change in self.changes],
            "missing": self.missing,
            "skipped": self.skipped,
        }


class Overlays:
    """The installations that have the overlay, as the data folder remembers them."""

    def __init__(self, data_dir: Path) -> None:
        """Read the record.

        Args:
            data_dir: Tandem's data folder.

        Raises:
            ConfigInvalid: It cannot be read.
        """
        self._data_dir = data_dir
        self._path = data_dir / planning.OVERLAY_FILE
        self._loaded = content_of(self._path)
        try:
            self._stored = planning.read_overlays(self._loaded) if self._loaded is not None else {}
        except ValueError as error:
            raise ConfigInvalid(
                f"{self._path} cannot be used: {error}. Remove it, then run 'tandem gsd overlay' again.",
                origin=str(self._path),
            ) from error

    def remembered(self) -> list[Install]:
        """The installations with the overlay that are still there."""
        found: list[Install] = []
        for folder, facts in self._stored.items():
            version = planning.gsd_version(folder)
            client = next((one for one in Client if one == facts.get("client")), None)
            if version is not None and client is not None:
                scope = "project" if facts.get("scope") == "project" else "user"
                found.append(Install(client, scope, Path(folder), version))
        return found

    def plan(self, one: Install, *, remove: bool = False) -> OverlayPlan:
        """The changes by which an installation gets the overlay, or loses it; nothing is changed yet.

        Raises:
            ConfigInvalid: A file cannot be read.
        """
        return _GsdPlanning(one, self._stored.get(str(one.folder)), remove=remove).plan()

    def carry_out(self, plans: Iterable[OverlayPlan], *, remove: bool = False) -> None:
        """Change the files: all of an installation, or none of it.

        Raises:
            Unavailable: A file cannot be written, or was changed in between.
        """
        for one in plans:
            folder = str(one.install.folder)
            if remove:
                self._stored.pop(folder, None)
            else:
                facts = {"client": one.install.client, "scope": one.install.scope, "version": one.install.version}
                self._stored[folder] = {**facts, "files": one.files}
            self._write(one.changes, one.install.folder)

    def forget_missing(self) -> None:
        """Forget the installations that are gone."""
        gone = [folder for folder in self._stored if planning.gsd_version(folder) is None]
        for folder in gone:
            del self._stored[folder]
        if gone:
            self._write([], self._data_dir)

    def _write(self, changes: Iterable[FileChange], tree: Path) -> None:
        document = {"version": planning.OVERLAY_VERSION, "installs": self._stored}
        after = json.dumps(document, indent=1).encode() + b"\n" if self._stored else None
        store = FileChange(self._path, planning.OVERLAY_FILE, planning.OVERLAY_FILE, self._loaded, after)
        manifest = Manifest(self._data_dir / "gsd-overlay.manifest", tree)
        # The record comes first: after a crash in the middle, the same command finishes the work.
        install(FilePlan(manifest, tuple(one for one in (store, *changes) if one.alters)))
        self._loaded = after


class _GsdPlanning:
    """One installation while its changes are worked out."""

    def __init__(self, one: Install, remembered: dict[str, Any] | None, *, remove: bool) -> None:
        self._plan = OverlayPlan(one)
        self._remove = remove
        self._known: dict[str, dict[str, Any]] = (remembered or {}).get("files", {})
        self._is_remembered = remembered is not None
        self._hashes: list[tuple[str, set[str], str]] = []

    def plan(self) -> OverlayPlan:
        found = [
            (target, path, content) for target in self._plan.install.targets() for path, content in self._at(target)
        ]
        # Nothing is remembered, but our marks are there: another data folder's work, tools included.
        orphaned = not self._is_remembered and any(_POINTER_LINE.search(_text(content)) for _, _, content in found)
        for target, path, content in found:
            self._add(target, path, content, is_orphaned=orphaned)
        self._add_manifest()
        return self._plan

    def _at(self, target: OverlayTarget) -> list[tuple[Path, bytes]]:
        """The target's file, if it is there and inside of the installation."""
        folder = self._plan.install.folder
        try:
            path = located(folder.joinpath(*target.name.split("/")), folder)
        except ConfigInvalid as trouble:
            self._plan.skipped.append(trouble.message)
            return []
        content = content_of(path)
        if content is None:
            if target.is_expected and not self._remove:
                self._plan.missing.append(f"{target.name}: there is no such file in GSD {self._plan.install.version}")
            return []
        return [(path, content)]

    def _add(self, target: OverlayTarget, path: Path, content: bytes, *, is_orphaned: bool) -> None:
        text = _text(content)
        known = self._known.get(target.name, {})
        stock = _POINTER_LINE.sub("", text)
        if target.tool is not None and known.get("tool", is_orphaned):
            stock = _without_tool(stock, target.tool)
        new = stock if self._remove else self._overlaid(target, stock)
        before, now, after = (hex_digest(one) for one in (_bytes(stock), content, _bytes(new)))
        if new != stock:
            tool = target.tool is not None and _with_tool(stock, target.tool) != stock
            self._plan.files[target.name] = {"before": before, "after": after, "tool": tool}
        if self._remove:
            self._hashes.append((target.name, {now}, after))
            if known.get("after") not in {None, now}:
                # Patched since: the hash that shows the patch is the one that GSD had written.
                self._hashes.append((target.name, {known["after"]}, known["before"]))
        else:
            self._hashes.append((target.name, {now, before}, after))
        self._change(target.name, path, content, _bytes(new))

    def _overlaid(self, target: OverlayTarget, stock: str) -> str:
        text, missing = _with_pointers(stock, target.pointers)
        self._plan.missing += [
            f"{target.name}: no line {pointer.anchors[0]!r} for the pointer '{pointer.gate}'"
            for pointer in missing
            if self._plan.install.is_at_least(pointer.since)
        ]
        self._plan.pointers += len(target.pointers) - len(missing)
        return text if target.tool is None else _with_tool(text, target.tool)

    def _add_manifest(self) -> None:
        """Have GSD's manifest hold the hashes of the files as they will be, one by one and nothing else."""
        path = self._plan.install.folder / _MANIFEST
        content = content_of(path)
        if content is None:
            return
        try:
            listed = cast("dict[str, str]", json.loads(content)["files"])
        except (ValueError, KeyError, TypeError):
            self._plan.skipped.append(f"{_MANIFEST}: it cannot be read; GSD's update may take the overlay for a patch")
            return
        text = _text(content)
        for name, fitting, wanted in self._hashes:
            there = listed.get(name)
            if there in fitting and there != wanted:
                member = re.compile(rf'({re.escape(json.dumps(name))}\s*:\s*"){re.escape(there)}"')
                text = member.sub(rf'\g<1>{wanted}"', text, count=1)
        self._change(_MANIFEST, path, content, _bytes(text))

    def _change(self, name: str, path: Path, before: bytes, after: bytes) -> None:
        change = FileChange(path, name, name, before, after)
        if change.alters:
            self._plan.changes.append(change)


def _with_pointers(stock: str, pointers: Iterable[Pointer]) -> tuple[str, list[Pointer]]:
    """A text without pointers with each of them at its anchor, and the pointers whose anchors it does not have."""
    lines = stock.splitlines(keepends=True)
    missing: list[Pointer] = []
    for pointer in pointers:
        place = _place(lines, pointer)
        if place is None:
            missing.append(pointer)
            continue
        anchor = lines[place]
        indent = anchor[: len(anchor) - len(anchor.lstrip())]
        bullet = "- " if anchor.lstrip().startswith("- ") else ""
        end = "\r\n" if anchor.endswith("\r\n") else "\n"
        lines.insert(place + pointer.is_behind, f"{indent}{bullet}{pointer.line}{end}")
    return "".join(lines), missing


def _place(lines: list[str], pointer: Pointer) -> int | None:
    """The anchor's line; one that ends the file without a newline is none, as nothing could follow it."""
    for anchor in pointer.anchors:
        for number, line in enumerate(lines):
            stripped = line.strip()
            if line.endswith("\n") and (stripped.startswith(anchor) if pointer.is_prefix else stripped == anchor):
                return number
    return None


def _with_tool(text: str, tool: str) -> str:
    """The text with a tool at the end of the list in its front matter; as it is without a list, or with it there."""
    listed = _tools(text, tool)
    if listed is None or listed.is_there:
        return text
    return f"{text[: listed.end]}{listed.written}{text[listed.end :]}"


def _without_tool(text: str, tool: str) -> str:
    """The text without what `_with_tool` put in; as it is where that is not there."""
    listed = _tools(text, tool)
    if listed is None or not listed.is_there:
        return text
    before, _, behind = text[listed.start : listed.end].rpartition(listed.written)
    return f"{text[: listed.start]}{before}{behind}{text[listed.end :]}"


class _Tools(NamedTuple):
    """A list of tools, in one of the three ways in which GSD writes them: a line, or a member or an item each.

    Attributes:
        start: Where the list begins in the text.
        end: Where the next one would go.
        is_there: Whether ours is one of them.
        written: Ours as it would be at the end.
    """

    start: int
    end: int
    is_there: bool
    written: str


def _tools(text: str, tool: str) -> _Tools | None:
    head = _HEAD.match(text)
    key = _KEY.search(text, head.start("head"), head.end("head")) if head else None
    if head is None or key is None:
        return None
    inline = key["inline"].strip()
    if inline.startswith("["):
        # GSD writes none of these; a person's own form is left alone.
        return None
    if inline:
        end = key.start("inline") + len(key["inline"].rstrip())
        return _Tools(key.start("inline"), end, tool in map(str.strip, inline.split(",")), f", {tool}")
    names: set[str] = set()
    place, last = key.end(), None
    while (item := _ITEM.match(text, place, head.end("head"))) and (last is None or item["indent"] == last["indent"]):
        names.add((item["item"] or item["key"]).strip())
        place, last = item.end(), item
    if last is None:
        return None
    ours = f"- {tool}" if last["key"] is None else f"{tool}: true"
    return _Tools(key.end(), place, tool in names, f"{last['indent']}{ours}{last['end']}")


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


async def check_overlay(_: DoctorContext) -> list[Finding]:
    """For `tandem doctor`: whether GSD has our pointers where it should, also after its last update."""
    try:
        overlays = Overlays(Path(find_data_dir()))
        return await asyncio.to_thread(_overlaid, overlays)
    except TandemError as error:
        return [problem("overlay", error.message, "tandem gsd overlay")]


def _overlaid(overlays: Overlays) -> list[Finding]:
    found: list[Finding] = []
    for one in overlays.remembered():
        plan = overlays.plan(one)
        said = f"GSD {one.version} in {one.folder}"
        if any(change.alters for change in plan.changes):

            async def again(plan: OverlayPlan = plan) -> None:
                await asyncio.to_thread(overlays.carry_out, [plan])

            found.append(problem("overlay", f"{said} lost pointers, as an update does.", "tandem gsd overlay", again))
        elif plan.missing:
            found.append(note("overlay", f"{said} has no place for: {', '.join(plan.missing)}"))
        else:
            found.append(ok("overlay", f"{said} has {plan.pointers} pointers."))
    return found
