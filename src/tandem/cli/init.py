"""`tandem init` and `tandem uninit`: a repository and its agents' clients, set up for reviews and back."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from tandem.bridge.location import VARIABLE
from tandem.cli import persons
from tandem.cli.declared import Option
from tandem.cli.gate_switch import CommitsOption
from tandem.cli.persons import confirm, decided, refuse_agents
from tandem.cli.reviewers_setup import offer
from tandem.cli.terminal import EnvelopeOption, Exit, progress, say, show, show_data
from tandem.client import TandemClient
from tandem.core.visible import shortened, visible
from tandem.errors import InvalidInput
from tandem.present.text import Text, Whole
from tandem.rulings import person
from tandem.rulings.state import COMMITS, COMMITS_WORDS
from tandem.setup import gate_switch
from tandem.setup.background import find_broker, reach_broker
from tandem.setup.clients import NAMES, home_folder
from tandem.setup.edits import FileChange, diff
from tandem.setup.init import OWNER, Done, InitOptions, SetupPlan, clean, plan_init, plan_uninit, set_up, take_back
from tandem.setup.registration import registered_as

_MOST_FILES = 40
_COMMITS_QUESTION = (
    "Commits on other branches pass (free), unless you choose otherwise. Type followed to have each submitted for"
    " review, or reviewed to have each refused until it is approved. To change it later, for example: tandem gate on"
    " --commits reviewed."
)
DryRunOption = Annotated[bool, Option(help="Print the exact changes as a diff; change nothing.")]
YesOption = Annotated[bool, Option("--yes", "-y", help="Do not ask, but before the gate is switched off or loosened.")]


@dataclass
class SetupReport:
    """The report at the end.

    Attributes:
        command: Which of the two.
        plan: The plan.
        dry_run: Whether it was left at that.
        broker: The broker's URL; None if none was reached.
        started: Whether the broker was started for this.
        project: The project's name; None if it has none yet.
        done: The changes; None if there were none.
        reviewers: What to know of the reviewers that come by themselves.
    """

    command: Literal["init", "uninit"]
    plan: SetupPlan
    dry_run: bool
    broker: str | None = None
    started: bool = False
    project: str | None = None
    done: Done | None = None
    reviewers: Sequence[str] = ()

    def question(self) -> str:
        """The changes that are planned, for the person who is asked."""
        files = [f"  {_kind(change):<7} {change.name}" for change in self.plan.changes]
        lines = [f"tandem {self.command} in {self.plan.root}", *shortened(files, _MOST_FILES, "  and {} more")]
        if self.command == "uninit" and self.plan.switches_off:
            lines.append("The gate is switched off: later commits are not reviewed.")
        if self.command == "init" and self.plan.gate:
            lines.append("The gate is on then: no base branch takes unapproved content.")
        return "\n".join(lines)

    def facts(self) -> dict[str, Any]:
        """As JSON."""
        done = self.done
        facts: dict[str, Any] = {
            "dry_run": self.dry_run,
            "root": str(self.plan.root),
            "project": self.project,
            "registered": done is not None and done.registered,
            "broker": self.broker,
            "broker_started": self.started,
            "gate": done.gate if done is not None else self.plan.gate,
            "gate_switched": done is not None and done.switched,
            "commits": self.commits(),
            "clients": [
                {"client": one.client.name, "title": one.client.title, "program": one.program, "folder": one.folder}
                for one in self.plan.clients
            ],
            "files": [{"file": change.name, "change": _kind(change)} for change in self.plan.changes],
            "approved_as": done.own.review_id if done is not None else None,
            "remarks": self.remarks(),
            "notes": self.notes(),
            "next": self.next_command(),
        }
        if self.dry_run:
            # JSON cannot carry bytes that are no UTF-8.
            facts["diff"] = diff(self.plan.changes).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        return facts

    def commits(self) -> str | None:
        """What the gate makes of commits on other branches; None while it is off."""
        gate = gate_switch.switch(self.plan.place)
        return gate.commits if gate is not None and gate.enabled else None

    def remarks(self) -> list[str]:
        """Deviations from the plan."""
        remarks = [*self.plan.remarks, *(self.done.remarks if self.done else ())]
        if self.command == "uninit":
            others = self.plan.trees[0].manifest.owners() - {OWNER}
            if others:
                remarks.append("What 'tandem gsd' put in is still there; take it back with 'tandem gsd off'.")
            if self.done is not None and self.done.gate:
                remarks.append("The gate is still on: it was not switched on by 'tandem init'. See 'tandem gate off'.")
        return remarks

    def notes(self) -> list[str]:
        """What a person has to do now."""
        if self.command == "uninit":
            return []
        plan, notes = self.plan, [*self.plan.notes, *self.reviewers]
        if not plan.clients:
            notes.append(
                "No agent's client is installed here (no program on PATH, no configuration folder): the git gate and"
                f" the pages work without one. To set one up: tandem init --client {'|'.join(NAMES)}"
            )
        return notes

    def next_command(self) -> str | None:
        """The command that comes next; None where nothing was set up."""
        done, plan = self.done, self.plan
        if self.command == "uninit" or done is None:
            return None
        project = plan.trees[0]
        own = done.own.paths if done.gate else ()
        written = own or tuple(change.key for change in project.altered if change.after is not None)
        if written and not done.own.remark:
            root = (
                "" if Path.cwd().samefile(project.manifest.tree) else f"-C {shlex.quote(str(project.manifest.tree))} "
            )
            files = shlex.join(written)
            # Other staged files are not approved with it.
            return f"git {root}add --sparse -- {files} && git {root}commit -m 'Set up Tandem' -- {files}"
        if written:
            return f"git add --sparse -- {shlex.join(written)} && tandem submit --staged --wait -m 'Set up Tandem'"
        return "tandem doctor"


def show_diff(report: SetupReport, name: str | None, *, as_json: bool) -> Exit:
    """Tell what would be done."""
    if as_json:
        show_data(report.facts())
        return Exit.DONE
    sys.stdout.flush()
    sys.stdout.buffer.write(diff(report.plan.changes).encode("utf-8", "surrogateescape"))
    sys.stdout.buffer.flush()
    say(*report.remarks(), *_would(report, name), *report.notes())
    return Exit.DONE


def show_report(report: SetupReport, *, as_json: bool) -> Exit:
    """Tell of the changes."""
    if as_json:
        show_data(report.facts())
        return Exit.DONE
    lines = _lines(report)
    show(Whole(*(Text(visible(line)) for line in lines)))
    say(*(f"note: {note}" for note in (*report.remarks(), *report.notes())))
    if (following := report.next_command()) is not None:
        say(f"next: {following}")
    return Exit.DONE


def _lines(report: SetupReport) -> list[str]:
    plan, done = report.plan, report.done
    lines = [f"{_kind(change):<8} {change.name}" for change in plan.changes] or ["No file had to be changed."]
    if done is None:
        return lines
    if report.command == "uninit":
        lines += [f"project  {done.project} is forgotten; its reviews stay"] if done.registered else []
        return [*lines, "gate     off"] if done.switched else lines
    started = ", started just now" if report.started else ""
    lines.append(
        f"project  {done.project}{', registered' if done.registered else ''} (broker {report.broker}{started})"
    )
    lines.append(f"clients  {', '.join(one.client.title for one in plan.clients) or 'none'}")
    lines.append(f"gate     {'on' if done.gate else 'off'}")
    lines += [f"commits  {commits}: {COMMITS_WORDS[commits]}"] if (commits := report.commits()) else []
    if done.own.review_id is not None:
        lines.append(f"approved what init wrote, as {done.own.review_id}: {len(done.own.paths)} files, to the byte")
    return lines


def _would(report: SetupReport, name: str | None) -> list[str]:
    """What else would be done, besides the diff."""
    plan = report.plan
    said = [] if plan.changes else ["No file has to be changed."]
    if report.command == "uninit":
        if plan.switches_off:
            said.append("The gate would be switched off, and git's hooks taken away.")
        if plan.before is not None and plan.before.registered:
            said.append(f"The project {plan.before.project} would be forgotten; its reviews stay.")
        return said
    if report.broker is None:
        said.append("No broker runs; one would be started in the background.")
    if report.project is None:
        said.append(f"The project would be registered as {name or plan.place.name}.")
    if plan.gate:
        said.append("The gate would be switched on: hooks in the git folder, which 'tandem gate status' shows.")
    return said


def _kind(change: FileChange) -> str:
    if change.before is None:
        return "create"
    return "delete" if change.after is None else "change"


async def init(
    *,
    client: Annotated[
        list[str] | None, Option(metavar="NAME", help=f"Set up this one, installed or not: {', '.join(NAMES)}.")
    ] = None,
    gate: Annotated[bool, Option(help="Have git and the agents' hooks refuse unapproved content.")] = False,
    commits: CommitsOption = None,
    name: Annotated[str | None, Option(help="The project's name; default: the folder's.")] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    broker: Annotated[
        str | None,
        Option(metavar="URL", help="The broker that the agents use; default: the one that runs for this user."),
    ] = None,
    as_json: EnvelopeOption = False,
) -> Exit:
    """Set this repository up: register it, and give the agents' clients Tandem's server, skill and instructions.

    Finds Claude Code, Codex, Gemini CLI, OpenCode and Cursor. Merges into files that are there and leaves the rest of
    them as it is, to the byte. Run it again at any time; 'tandem uninit' reverts exactly these changes.
    """
    gate = gate or commits is not None
    wish = InitOptions(tuple(client or ()), gate, name, broker, os.environ.get(VARIABLE) or None, commits)
    if not dry_run:
        clean(Path.cwd())
    plan = plan_init(Path.cwd(), home_folder(), os.environ, wish)
    stated = wish.broker or wish.gate_broker or (plan.before.broker if plan.before else None)
    report = SetupReport("init", plan, dry_run=dry_run)
    if dry_run:
        found = await find_broker(stated, ".")
        if found is not None:
            report.broker = found.url
            async with TandemClient(found) as broker_client:
                report.project = await registered_as(broker_client.data, plan.root)
        return show_diff(report, wish.name, as_json=as_json)
    asks = plan.gate and report.commits() is None and commits is None and person.is_at_terminal()
    if (plan.changes or asks) and not yes:
        answer = _ask(f"{report.question()}\n{_COMMITS_QUESTION}", COMMITS) if asks else _ask(report.question())
        wish = replace(wish, commits=answer if answer in COMMITS else commits)
    with progress("looking for the broker"):
        reached, report.started = await reach_broker(stated, ".")
    async with TandemClient(reached) as broker_client:
        with progress("setting up"):
            approver = persons.caller().name or persons.suggested() or "person"
            report.done = await set_up(broker_client.data, plan, wish, approver)
    report.broker, report.project = reached.url, report.done.project
    names = [one.client.name for one in plan.clients]
    report.reviewers = await offer(names, reached, is_new=report.started, asks=not (yes or as_json))
    return show_report(report, as_json=as_json)


async def uninit(*, dry_run: DryRunOption = False, yes: YesOption = False, as_json: EnvelopeOption = False) -> Exit:
    """Undo what 'tandem init' did: every file as it was, the gate off if it switched it on."""
    if not dry_run:
        clean(Path.cwd())
    plan = plan_uninit(Path.cwd())
    report = SetupReport("uninit", plan, dry_run=dry_run)
    report.project = plan.before.project if plan.before else None
    if dry_run:
        return show_diff(report, None, as_json=as_json)
    if plan.is_nothing:
        say("Nothing of Tandem's is set up in this working tree.")
        return show_report(report, as_json=as_json)
    if plan.switches_off or (plan.before is not None and plan.before.gate):
        refuse_agents(report.question())
    if not yes:
        _ask(report.question())
    async with TandemClient() as client:

        async def attempt(agreed: Sequence[str]) -> Done:
            with progress("reverting"):
                return await take_back(client.data, plan, agreed)

        report.done = await decided(attempt)
    return show_report(report, as_json=as_json)


def _ask(question: str, choices: Sequence[str] = ()) -> str:
    unasked = InvalidInput(
        "There is no terminal to ask at. Look first with --dry-run, then run it with --yes.", field="yes"
    )
    return confirm(f"{question}\nGo on?", unasked=unasked, choices=choices)
