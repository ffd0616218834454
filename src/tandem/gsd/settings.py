"""`tandem gsd on|off`: Tandem's keys in GSD's `config.json`, written so that they can be undone to the byte.

The edits of the package `edits` put them in, and remember in their manifest what stood there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tandem.errors import ConfigInvalid, InvalidInput
from tandem.rulings import planning, state, trust
from tandem.setup.clients import says
from tandem.setup.edits import Edit, FileChange, FilePlan, Manifest, plan
from tandem.setup.edits.edit import at, content_of, located, unusable
from tandem.setup.edits.json_edits import JsonItems, JsonMember, JsonText

OWNER: Final = "gsd"
"""Of the edits, in the manifest that `tandem init` uses too."""

MANIFEST: Final = "installed.json"
SKILL: Final = "global:tandem-review"
SKILLED_AGENTS: Final = ("gsd-planner", "gsd-executor", "gsd-verifier")


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
        place = state.find_repository(folder)
        if place is None or place.top is None:
            raise InvalidInput(
                f"{os.path.realpath(folder)} is in no working tree of git. Go into the project, or make it one with "
                "'git init'.",
                field="folder",
            )
        return cls(Path(planning.project_root(folder)), Path(place.folder))

    def plan_on(self, granularity: str | None, mode: str | None, workstream: str | None) -> tuple[FilePlan, list[str]]:
        """How to switch the reviews of GSD's steps on, and what a person should know.

        Args:
            granularity: `per_task` or `per_plan`; None leaves the present value, or the strict one where there is none.
            mode: `blocking` or `optimistic`; None likewise.
            workstream: The workstream whose file gets it; None for the project's.

        Raises:
            InvalidInput: There is no such workstream.
            ConfigInvalid: The file cannot be read as JSON.
        """
        path = self._file(workstream)
        has = _says(path)
        values = {
            planning.ENABLED: True,
            planning.GRANULARITY: granularity or _kept(has, planning.GRANULARITY, planning.GRANULARITIES),
            planning.MODE: mode or _kept(has, planning.MODE, planning.MODES),
        }
        manifest = self._manifest()
        edits, remarks = self._edits(path, values)
        others = [edit for edit in _made_before(manifest, self.root) if edit.path != path]
        planned = plan([*others, *edits], manifest, owner=OWNER)
        after = next((change.after for change in planned.changes if change.path == path), content_of(path))
        root = JsonText(path, after).root
        loose = [key for key in values if root is not None and at(root.value, (key,)) is not None]
        if loose:
            words = f"{', '.join(loose)} at the top level of {path}"
            remarks.append(f"{words} no longer counts, and GSD warns about it: delete it there")
        return planned, remarks

    def plan_off(self) -> FilePlan:
        """How to undo what `on` wrote, and to have no file say that reviews are on.

        Raises:
            ConfigInvalid: A file cannot be read as JSON.
        """
        manifest = self._manifest()
        planned = {change.path: change for change in plan([], manifest, owner=OWNER).changes}
        for source in planning.read(str(self.root)).sources:
            path = self._path(source.file)
            name, content = path.relative_to(os.path.realpath(self.root)).as_posix(), content_of(path)
            change = planned.get(path, FileChange(path, name, name, content, content, manifest.files.get(name)))
            if planning.own_keys(change.after or b"{}").get(planning.ENABLED, False) is not False:
                root = JsonText(path, change.after).root
                after = change.after
                for keys in ((trust.SECTION, planning.ENABLED), (planning.ENABLED,)):
                    if root is not None and at(root.value, keys) is not None:
                        after = JsonMember(path, keys, value=False, replaces=True).put(after).content
                remark = f"{source.file} had {planning.ENABLED} of its own; it says false now"
                planned[path] = replace(change, after=after, remarks=(*change.remarks, remark))
        return FilePlan(manifest, tuple(planned.values()))

    def skills(self) -> dict[str, bool]:
        """For each of GSD's agents that review work goes through, whether it has the review's skill."""
        file = self._path(planning.FILE)
        return {agent: SKILL in (says(file, "agent_skills", agent) or ()) for agent in SKILLED_AGENTS}

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
        edits: list[Edit] = [
            JsonMember(path, (trust.SECTION, key), value, replaces=True) for key, value in values.items()
        ]
        remarks: list[str] = []
        for agent in SKILLED_AGENTS:
            skill = JsonItems(path, ("agent_skills", agent), (SKILL,))
            try:
                skill.put(content_of(path))
                edits.append(skill)
            except ConfigInvalid as trouble:
                remarks.append(f"{agent} did not get the skill {SKILL}: {trouble.message}")
        return edits, remarks


def _made_before(manifest: Manifest, root: Path) -> Iterable[Edit]:
    """What the manifest has of ours: in the files that are not written now it stays."""
    for name, of_file in manifest.files.items():
        for record in of_file.edits:
            if OWNER in record.owners:
                yield record.on(located(root / name, root))


def _says(path: Path) -> Mapping[str, Any]:
    try:
        return planning.own_keys(content_of(path) or b"{}")
    except ValueError as error:
        raise unusable(path, str(error)) from error


def _kept(has: Mapping[str, Any], key: str, allowed: tuple[str, ...]) -> str:
    value = has.get(key)
    return value if value in allowed else allowed[0]
