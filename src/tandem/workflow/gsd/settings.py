"""`tandem gsd on|off`: Tandem's keys in GSD's `config.json`, written so that they can be taken back to the byte.

A key that is not there yet is put in by the edits of `workflow/edits` and remembered in their manifest. One that is
there with another value keeps its place: only the value is exchanged, and what stood there is kept in `gsd.json`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from tandem.errors import ConfigInvalid, InvalidInput
from tandem.hooks import planning, state
from tandem.workflow.edits import Change, Edit, JsonItems, JsonMember, Manifest, changes, install, removals
from tandem.workflow.edits.edit import unusable
from tandem.workflow.edits.json_document import load, same
from tandem.workflow.edits.places import content_of, located
from tandem.workflow.edits.texts import write

OWNER: Final = "gsd"
"""Of the edits, in the manifest that `tandem init` uses too."""

MANIFEST: Final = "installed.json"
SKILL: Final = "global:tandem-review"
SKILLED_AGENTS: Final = ("gsd-planner", "gsd-executor", "gsd-verifier")
_EXCHANGED: Final = "gsd.json"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to write; null leaves what is there, or the strict value where nothing is.

    Attributes:
        granularity: `per_task` or `per_plan`.
        mode: `blocking` or `optimistic`.
        workstream: The workstream whose file gets it; null for the project's.
    """

    granularity: str | None = None
    mode: str | None = None
    workstream: str | None = None


@dataclass(slots=True)
class Exchanged:
    """The values that were exchanged: by file and key, what stood there and what was put in its place, as JSON text."""

    path: Path
    values: dict[str, dict[str, list[str]]] = field(default_factory=dict[str, dict[str, list[str]]])
    loaded: bytes | None = None

    @classmethod
    def load(cls, path: Path) -> Exchanged:
        """Read the record; an empty one if there is none.

        Raises:
            ConfigInvalid: It cannot be read.
        """
        content = content_of(path)
        if content is None:
            return cls(path)
        try:
            document = json.loads(content)
            if document["version"] != _VERSION:
                raise unusable(path, "it was written by another version of Tandem")
            return cls(path, document["exchanged"], content)
        except (ValueError, KeyError, TypeError) as error:
            raise unusable(path, "it is damaged") from error

    def change(self) -> Change:
        """What has to become of its file."""
        kept = {file: values for file, values in self.values.items() if values}
        after = json.dumps({"version": _VERSION, "exchanged": kept}, indent=1).encode() + b"\n" if kept else None
        return Change(self.path, self.path.name, self.path.name, self.loaded, after, ())


@dataclass(frozen=True, slots=True)
class GsdProject:
    """A repository whose GSD settings are written.

    Attributes:
        root: The main working tree.
        folder: Tandem's folder in the common git folder.
    """

    root: Path
    folder: Path

    @classmethod
    def at(cls, folder: str) -> GsdProject:
        """The project that a folder belongs to.

        Raises:
            InvalidInput: It is in no repository.
        """
        place = state.find_place(folder)
        if place is None or place.top is None:
            raise InvalidInput(
                f"{os.path.realpath(folder)} is in no working tree of git. Go into the project, or make it one with "
                "'git init'.",
                field="folder",
            )
        return cls(Path(planning.project_root(folder)), Path(place.folder))

    def on(self, wanted: Wanted) -> list[str]:
        """Switch the reviews of GSD's steps on; answers with what a person should know.

        Raises:
            InvalidInput: There is no such workstream.
            ConfigInvalid: The file cannot be read as JSON.
            Unavailable: It cannot be written.
        """
        path = self._file(wanted.workstream)
        has = _says(path)
        values = {
            planning.ENABLED: True,
            planning.GRANULARITY: wanted.granularity or _kept(has, planning.GRANULARITY, planning.GRANULARITIES),
            planning.MODE: wanted.mode or _kept(has, planning.MODE, planning.MODES),
        }
        manifest = self._manifest()
        self._exchange(path, values, manifest)
        edits, remarks = self._edits(path, values)
        others = [edit for edit in _made_before(manifest, self.root) if edit.path != path]
        planned = changes([*others, *edits], manifest, owner=OWNER)
        install(planned, manifest)
        return remarks

    def off(self) -> list[str]:
        """Take back what `on` wrote, and have nothing say that reviews are on; what a person should know.

        Raises:
            ConfigInvalid: A file cannot be read as JSON.
            Unavailable: It cannot be written.
        """
        manifest = self._manifest()
        remarks = self._exchange_back(manifest)
        planned = removals(manifest, owner=OWNER)
        install(planned, manifest)
        remarks += [remark for change in planned for remark in change.remarks]
        for source in planning.read(str(self.root)).sources:
            if source.says.get(planning.ENABLED, False) is not False:
                path = self._path(source.file)
                self._splice(path, {planning.ENABLED: "false"}, manifest)
                remarks.append(f"{source.file} had {planning.ENABLED} of its own; it says false now")
        return remarks

    def skills(self) -> dict[str, bool]:
        """For each of GSD's agents that review work goes through, whether it has the review's skill."""
        try:
            document: Any = json.loads(self._path(planning.FILE).read_bytes())
        except (OSError, ValueError, RecursionError):
            document = {}
        listed: Any = cast("dict[str, Any]", document).get("agent_skills") if isinstance(document, dict) else None
        by_agent = cast("dict[str, Any]", listed) if isinstance(listed, dict) else {}
        return {agent: SKILL in (by_agent.get(agent) or ()) for agent in SKILLED_AGENTS}

    def _file(self, workstream: str | None) -> Path:
        if workstream is None:
            return self._path(planning.FILE)
        streams = sorted(one.name for one in (self.root / ".planning" / "workstreams").glob("*") if one.is_dir())
        if workstream not in streams:
            raise InvalidInput(
                f"There is no workstream {workstream!r}; there are: {', '.join(streams) or 'none'}.",
                field="--workstream",
                allowed=streams,
            )
        return self._path(planning.workstream_file(workstream))

    def _path(self, file: str) -> Path:
        return located(self.root.joinpath(*file.split("/")), self.root)

    def _manifest(self) -> Manifest:
        return Manifest.load(self.folder / MANIFEST, self.root)

    def _edits(self, path: Path, values: Mapping[str, Any]) -> tuple[list[Edit], list[str]]:
        """The edits of one file, and why one is left out."""
        edits: list[Edit] = [JsonMember(path, (key,), value) for key, value in values.items()]
        remarks: list[str] = []
        for agent in SKILLED_AGENTS:
            skill = JsonItems(path, ("agent_skills", agent), (SKILL,))
            try:
                skill.plan(content_of(path))
                edits.append(skill)
            except ConfigInvalid as trouble:
                remarks.append(f"{agent} did not get the skill {SKILL}: {trouble.message}")
        return edits, remarks

    def _exchange(self, path: Path, values: Mapping[str, Any], manifest: Manifest) -> None:
        """Exchange the values that are there already and are not what is wanted."""
        content = content_of(path)
        if content is None:
            return
        document = load(path, content)
        tokens: dict[str, str] = {}
        exchanged = Exchanged.load(self.folder / _EXCHANGED)
        file = path.relative_to(os.path.realpath(self.root)).as_posix()
        known = exchanged.values.setdefault(file, {})
        for key, value in values.items():
            way = document.found((key,))
            if not way or same(way[0].value.plain, value) or _is_ours(manifest, file, key, way[0].value.plain):
                continue
            tokens[key] = json.dumps(value)
            there = document.text[way[0].value.start : way[0].value.end]
            known[key] = [known[key][0] if key in known else there, tokens[key]]
        self._splice(path, tokens, manifest, exchanged)

    def _exchange_back(self, manifest: Manifest) -> list[str]:
        exchanged = Exchanged.load(self.folder / _EXCHANGED)
        remarks: list[str] = []
        for file, values in list(exchanged.values.items()):
            path = self._path(file)
            content = content_of(path)
            tokens: dict[str, str] = {}
            for key, (was, put) in values.items():
                way = load(path, content).found((key,)) if content is not None else []
                if way and same(way[0].value.plain, json.loads(put)):
                    tokens[key] = was
                else:
                    remarks.append(f"{file}: {key} was changed or taken out since, and stays so")
            exchanged.values[file] = {}
            self._splice(path, tokens, manifest, exchanged)
        return remarks

    def _splice(
        self, path: Path, tokens: Mapping[str, str], manifest: Manifest, exchanged: Exchanged | None = None
    ) -> None:
        """Put JSON texts in the place of values that are there."""
        content = content_of(path)
        text = load(path, content).text
        for key, token in tokens.items():
            node = load(path, text).found((key,))[0].value
            text = text[: node.start] + token + text[node.end :]
        file = path.relative_to(os.path.realpath(self.root)).as_posix()
        after = write(text) if tokens else content
        change = Change(path, file, file, content, after, manifest.files.get(file, ()))
        record = [] if exchanged is None else [exchanged.change()]
        install([one for one in (*record, change) if one.alters], manifest)


def _made_before(manifest: Manifest, root: Path) -> Iterable[Edit]:
    """What the manifest has of ours: in the files that are not written now it stays."""
    for name, records in manifest.files.items():
        for record in records:
            if OWNER in record.owners:
                yield record.on(located(root / name, root))


def _is_ours(manifest: Manifest, file: str, key: str, value: Any) -> bool:
    """Whether a value is the one that an edit of ours put there; the edits themselves exchange that."""
    return any(
        OWNER in record.owners
        and record.edit["kind"] == "json_member"
        and list(record.edit["keys"]) == [key]
        and same(record.edit["value"], value)
        for record in manifest.files.get(file, ())
    )


def _says(path: Path) -> Mapping[str, Any]:
    try:
        return planning.own_keys(content_of(path) or b"{}")
    except ValueError as error:
        raise unusable(path, str(error)) from error


def _kept(has: Mapping[str, Any], key: str, allowed: tuple[str, ...]) -> str:
    value = has.get(key)
    return value if value in allowed else allowed[0]
