"""`tandem gsd`: the reviews of GSD's steps switched on and off, and the pointers in what GSD installed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from tandem.bridge.project import top_level
from tandem.cli.declared import Option
from tandem.cli.settings import ask_for
from tandem.cli.terminal import EnvelopeOption, say, show, show_data
from tandem.core.visible import visible
from tandem.errors import InvalidInput, NotFound, TandemError
from tandem.gsd.overlay import Client, Install, OverlayPlan, Overlays, find
from tandem.gsd.settings import SKILL, GsdProject
from tandem.present.text import Text, Whole
from tandem.rulings import planning, trust
from tandem.settings.config import load_settings, user_file
from tandem.setup import trust as trusting
from tandem.setup.clients import home_folder
from tandem.setup.edits import diff, install


def overlay(
    *,
    remove: Annotated[bool, Option(help="Take the pointers out, to the byte.")] = False,
    refresh: Annotated[
        bool, Option(help="Only where they were put in before, such as after an update of GSD.")
    ] = False,
    dry_run: Annotated[bool, Option(help="Show the changes as a diff, and make none.")] = False,
    client: Annotated[list[Client] | None, Option(help="Only this client's GSD; for several, several times.")] = None,
    as_json: EnvelopeOption = False,
) -> None:
    """Add one-line pointers to 'tandem gate …' to GSD's installed files, here and in your home folder.

    Each stands between marks at the step that it is for, and says to go on where nothing is reviewed. The review's
    tools are added to the lists of allowed tools, and GSD's own manifest is kept true, so that its updater sees no
    patch. An update of GSD takes them out; the session's start puts them in again.
    """
    if remove and refresh:
        raise InvalidInput("Choose one of --remove and --refresh.", field="--refresh")
    overlays = Overlays(load_settings().settings.data_dir)
    chosen = _chosen(overlays, set(client or Client), refresh=refresh)
    plans = [overlays.plan(one, remove=remove) for one in chosen]
    if not dry_run:
        overlays.carry_out(plans, remove=remove)
        overlays.forget_missing()
    if as_json:
        show_data({"dry_run": dry_run, "installs": [plan.facts() for plan in plans]})
        return
    for plan in plans:
        _show_plan(plan, remove=remove, dry_run=dry_run)


def _chosen(overlays: Overlays, clients: set[Client], *, refresh: bool) -> list[Install]:
    """The installations to work on.

    Raises:
        NotFound: There are none.
    """
    top = top_level(".")
    found = overlays.remembered() if refresh else find(Path(top) if top else None, os.environ, home_folder())
    chosen = [one for one in found if one.client in clients]
    if not chosen and not refresh:
        raise NotFound(
            "GSD is not installed here, neither for this project nor for you. Install it with 'npx get-shit-done-cc', "
            "then run this again.",
            clients=sorted(clients),
        )
    return chosen


def _show_plan(plan: OverlayPlan, *, remove: bool, dry_run: bool) -> None:
    one = plan.install
    where = f"GSD {one.version} of {one.client} in {one.folder}"
    if dry_run:
        show(Whole(Text(visible(diff(plan.changes)))))
    elif remove:
        say(f"{where}: {len(plan.changes)} files are as GSD wrote them")
    else:
        say(f"{where}: {plan.pointers} pointers, {len(plan.changes)} files changed")
    say(*(f"note: {problem}" for problem in (*plan.missing, *plan.skipped)))


@dataclass(frozen=True, slots=True)
class _GsdStatus:
    """What holds in a project now."""

    project: GsdProject
    says: planning.PlanningFile
    trusted: bool

    @classmethod
    def of(cls, project: GsdProject) -> _GsdStatus:
        says = planning.read(str(project.root))
        return cls(project, says, trust.trusts(str(user_file().parent), says.root, says.sources))

    @property
    def effective(self) -> planning.PlanningFile:
        return planning.effective(self.says, trusted=self.trusted)

    def facts(self) -> dict[str, Any]:
        holds = self.effective
        return {
            "root": self.says.root,
            "found": self.says.found,
            "tandem_enabled": holds.tandem_enabled,
            "review_granularity": holds.granularity,
            "execution_mode": holds.mode,
            "stated": {"review_granularity": self.says.granularity, "execution_mode": self.says.mode},
            "not_trusted": list(holds.refused),
            "workstream": self.says.workstream,
            "origins": dict(self.says.origins),
            "problems": list(self.says.problems),
            "agent_skills": self.project.skills(),
        }


def on(
    *,
    granularity: Annotated[
        Literal["per_task", "per_plan"] | None,
        Option(help="The unit of a review; default: as it is set, else per_task."),
    ] = None,
    mode: Annotated[
        Literal["blocking", "optimistic"] | None,
        Option(help="Whether work waits for the verdict; default: as it is set, else blocking."),
    ] = None,
    workstream: Annotated[
        str | None, Option(metavar="NAME", help="Write it for one workstream of GSD's instead of the project.")
    ] = None,
    as_json: EnvelopeOption = False,
) -> None:
    """Have GSD's steps submit their work for review: three keys in .planning/config.json, and the skill.

    per_plan and optimistic loosen, so that they count only once a person has trusted the file: this asks at the
    terminal. Everything else in the file stays as it is, to the byte.
    """
    project = GsdProject.at(".")
    planned, remarks = project.plan_on(granularity, mode, workstream)
    install(planned)
    standing = _GsdStatus.of(project)
    if standing.effective.refused:
        remarks += _offer_trust(standing)
        standing = _GsdStatus.of(project)
    if not standing.effective.tandem_enabled:
        remarks.append(f"the workstream {standing.says.workstream} says {planning.ENABLED}: false, and that counts now")
    _show(standing, remarks, as_json=as_json)


def off(*, as_json: EnvelopeOption = False) -> None:
    """Undo what 'tandem gsd on' wrote; GSD's steps run as without Tandem. The gate, if it is on, stays on."""
    project = GsdProject.at(".")
    planned = project.plan_off()
    install(planned)
    _show(_GsdStatus.of(project), planned.remarks, as_json=as_json)


def status(*, as_json: EnvelopeOption = False) -> None:
    """Say whether GSD's steps are reviewed, how, and where that is set."""
    _show(_GsdStatus.of(GsdProject.at(".")), [], as_json=as_json)


def _offer_trust(standing: _GsdStatus) -> list[str]:
    """Ask the person at the terminal to trust what loosens; the remarks if they do not."""
    project = trusting.Project.at(".", user_file().parent)
    loose = [project.candidate(source.file) for source in standing.says.sources if source.loosens]
    asked = [one for one in loose if one is not None and not one.is_trusted]
    try:
        ask_for(asked)
    except TandemError as refusal:
        return [f"{', '.join(standing.effective.refused)} does not count yet. {refusal.message}"]
    trusting.add(project.config_dir, asked)
    return []


def _show(standing: _GsdStatus, remarks: list[str], *, as_json: bool) -> None:
    facts = standing.facts()
    if as_json:
        show_data({**facts, "remarks": remarks})
        return
    for line in _lines(standing):
        show(visible(line))
    say(*(f"note: {remark}" for remark in (*standing.says.problems, *remarks)))


def _lines(standing: _GsdStatus) -> list[str]:
    holds, says = standing.effective, standing.says
    if not says.found:
        return [f"off: {Path(says.root) / planning.FILE} is not there"]
    lines = [f"{'on' if holds.tandem_enabled else 'off'}: GSD's steps in {says.root} are {_how(holds)}"]
    if says.workstream:
        lines.append(f"  workstream: {says.workstream}")
    for key, value, stated in (
        (planning.ENABLED, str(holds.tandem_enabled).lower(), None),
        (planning.GRANULARITY, holds.granularity, says.granularity),
        (planning.MODE, holds.mode, says.mode),
    ):
        origin = says.origins.get(key, "default")
        ignored = f"; {stated} is not trusted: tandem trust {origin}" if stated not in {None, value} else ""
        lines.append(f"  {key} = {value} ({origin}{ignored})")
    skilled = [agent for agent, has in standing.project.skills().items() if has]
    lines.append(f"  agent_skills: {SKILL} for {', '.join(skilled) or 'none of its agents'}")
    return lines


def _how(holds: planning.PlanningFile) -> str:
    if not holds.tandem_enabled:
        return "not reviewed"
    if holds.mode != planning.BLOCKING:
        return "reviewed commit by commit, after they are committed"
    if holds.granularity != planning.PER_TASK:
        return "reviewed a plan at a time, before its branch is merged"
    return "reviewed task by task, before they are committed"
