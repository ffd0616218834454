"""`tandem gate on|off|status|override`: the switch of a gate, and a commit past it, which are a person's."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from tandem.bridge.location import BrokerLocation, find_data_dir, locate
from tandem.cli.connection_options import ConnectionOptions, ensure_known, find_project
from tandem.cli.declared import Argument, Option, without
from tandem.cli.persons import decided, need_decision, refuse_agents
from tandem.cli.render.parts import facts, plain
from tandem.cli.terminal import EnvelopeOption, Exit, progress, say, show_data, tell
from tandem.core.visible import is_blank
from tandem.errors import Forbidden, InvalidInput
from tandem.gate.contract import SIGNER
from tandem.git.runner import interactively
from tandem.hooks.judging import OVERRIDE_VARIABLE
from tandem.present.text import Group
from tandem.rulings import ask, person, state
from tandem.rulings.next_steps import BY_COMMIT
from tandem.rulings.state import COMMITS_WORDS, GateFile, GateUnreadable
from tandem.setup import gate_switch, githooks
from tandem.setup import server_hook as server_setup
from tandem.setup.gate_status import GateStatus, gate_status
from tandem.setup.gate_switch import GateOptions

_SHORT = 10
_COMMANDS = frozenset(
    {"am", "branch", "cherry-pick", "commit", "merge", "pull", "push", "rebase", "reset", "revert", "update-ref"}
)
CommitsOption = Annotated[
    Literal["free", "followed", "reviewed"] | None,
    Option(help="Let commits on other branches pass, submit them as well, or refuse them until approved."),
]
ReasonOption = Annotated[str | None, Option(metavar="TEXT", help="Why, for the log.")]


def override_gate(
    arguments: Annotated[
        list[str] | None,
        Argument(metavar="-- GIT ARGUMENTS", help="Of git commit; or another command of git with its own."),
    ] = None,
    *,
    reason: Annotated[str, Option("--reason", "-m", metavar="TEXT", help="Why; it is recorded.")],
    as_json: EnvelopeOption = False,
) -> int:
    """Run git commit and override the gate: only for a person at a terminal, who has to type the project's name."""
    arguments, reason = arguments or [], reason.strip()
    if is_blank(reason):
        raise InvalidInput("Say why; it is recorded.", field="reason")
    refuse_agents("An override lets unapproved content through.")
    if not person.is_at_terminal():
        raise Forbidden("An override needs a person at a terminal, and there is none here.", needed="person")
    named = arguments if arguments and arguments[0] in _COMMANDS else ["commit", *arguments]
    status = interactively(named, {**os.environ, OVERRIDE_VARIABLE: reason}, to_stderr=as_json)
    if as_json:
        show_data({"git": named, "exit_status": status})
    return status


async def on(  # noqa: PLR0913 - its options
    *,
    branch: Annotated[list[str] | None, Option(metavar="NAME", help="A base branch; repeat it for several.")] = None,
    accept: Annotated[
        list[str] | None,
        Option(metavar="REV", help="Accept what this ref has by now without review, e.g. what others pushed."),
    ] = None,
    strict: Annotated[
        bool | None, Option(help="Have agents' hooks refuse plans, too, until they are approved.")
    ] = None,
    sign: Annotated[bool | None, Option(help="Sign approved commits, for colleagues with their own broker.")] = None,
    signer: Annotated[
        list[str] | None,
        Option(metavar="NAME=KEY", help="Let pass what this colleague's broker has approved and signed."),
    ] = None,
    no_signer: Annotated[
        list[str] | None, Option(metavar="NAME", help="Count this colleague's signatures no longer.")
    ] = None,
    commits: CommitsOption = None,
    threshold: Annotated[
        Literal["blocker", "major", "minor", "nit"] | None,
        Option(help="From which severity on an open finding keeps an approval back; at first major."),
    ] = None,
    reason: ReasonOption = None,
    options: ConnectionOptions,
) -> Exit:
    """Switch the gate on: no base branch then takes unapproved content. Running it again repairs the hooks."""
    branches = tuple(branch) if branch else None
    signers = _signers(signer or ())
    removed = tuple(no_signer or ())
    accepted = tuple(accept or ())
    wish = GateOptions(
        options.project, options.broker, branches, accepted, reason, strict, sign, signers, removed, commits, threshold
    )
    here = gate_switch.place_at(Path.cwd())
    async with options.client(location=_chosen(options, gate_switch.switch(here))) as client:
        if options.project is not None:
            find_project(client.session, options)

        async def attempt(agreed: Sequence[str]) -> tuple[GateFile, GateStatus]:
            with progress("switching the gate on"):
                gate = await gate_switch.switch_on(client.data, here, wish, agreed)
                return gate, await gate_status(client.data, here)

        gate, found = await decided(attempt)
    say(f"Agents commit a change with: {BY_COMMIT}, and bring a branch to {gate.branches[0]} with: tandem land BRANCH")
    return _present(found, options, f"The gate of {gate.project} is on for {', '.join(gate.branches)}.")


@without("project")
async def off(
    *,
    reason: ReasonOption = None,
    options: ConnectionOptions,
) -> Exit:
    """Switch the gate off and restore the former hooks, to the byte. Asks at the terminal."""
    here = gate_switch.place_at(Path.cwd())
    known = gate_switch.switch(here)
    async with options.client(known) as client:
        call = client.data
        try:
            gate = state.find(here)
        except GateUnreadable as error:
            gate = await gate_switch.salvaged(call, here)
            say(f"{error.path} {error.problem}; the hooks are taken away all the same.")
        if gate is None and githooks.is_installed(githooks.found(here)):
            gate = await gate_switch.salvaged(call, here)
            say(f"{here.gate_file} is missing; the hooks are taken away all the same.")
        if gate is None:
            return tell({"enabled": False, "remarks": []}, plain("The gate is not on here."), as_json=options.as_json)
        remarks = await decided(partial(gate_switch.switch_off, call, gate, reason))
    say(*remarks)
    data = {"enabled": False, "project": gate.project, "remarks": remarks}
    return tell(data, plain(f"The gate of {gate.project} is off."), as_json=options.as_json)


@without("project")
async def status(*, options: ConnectionOptions) -> Exit:
    """Show the gate's status, here and at the broker. Exit status 1 if something is wrong."""
    here = gate_switch.place_at(Path.cwd())
    async with options.client(gate_switch.switch(here)) as client:
        found = await gate_status(client.data, here)
    return _present(found, options)


def _chosen(options: ConnectionOptions, gate: GateFile | None) -> BrokerLocation | None:
    """The broker on the data folder that the person has by now, where no gate that is on names one; else None."""
    is_own = options.broker is None and gate is not None and gate.enabled and gate.broker is None
    return locate(None, None, find_data_dir()) if is_own else None


def _signers(stated: Sequence[str]) -> tuple[str, ...]:
    wrong = next((one for one in stated if not re.fullmatch(SIGNER, one)), None)
    if wrong is not None:
        raise InvalidInput(
            f"'{wrong}' is not NAME=KEY. Your colleague's 'tandem gate status' shows the key, 43 letters.",
            field="--signer",
        )
    return tuple(stated)


def _present(found: GateStatus, options: ConnectionOptions, told: str | None = None) -> Exit:
    shown = facts(row for row in _rows(found) if row[1])
    tell(asdict(found), Group(plain(told), shown) if told else shown, as_json=options.as_json)
    return Exit.REFUSED if found.problems or found.refused or found.replaced else Exit.DONE


def _rows(found: GateStatus) -> list[tuple[str, object]]:
    words: Mapping[bool | None, str] = {True: "on", False: "off", None: "unknown"}
    steps = "submit their work" if found.tandem_enabled else "solo"
    alive = sum(found.hooks.values())
    return [
        ("gate", f"{words[found.enabled]} here, {words[found.broker_enabled]} at the broker"),
        ("project", found.project and f"{found.project} ({found.root})"),
        ("branches", found.project and ", ".join(found.branches)),
        ("commits", found.commits and f"{found.commits}: {COMMITS_WORDS[found.commits]}"),
        ("threshold", found.threshold and f"an open finding of {found.threshold} or above keeps an approval back"),
        ("accepted", found.accepted and f"{', '.join(oid[:_SHORT] for oid in found.accepted)} and all before"),
        ("trusted", ", ".join(sorted({one.partition(" ")[2] for one in found.trusted}))),
        ("signing", found.public_key and f"{'on' if found.sign else 'off'}, key {found.public_key}"),
        *(("signer", signer) for signer in found.signers),
        ("hooks", found.hooks and f"{alive} of {len(found.hooks)} alive in {found.hooks_directory}"),
        ("called too", ", ".join(found.chained) or found.previous_hooks_path),
        ("settings", f"{found.granularity}, {found.mode}; the workflow's steps: {steps}"),
        ("not trusted", found.untrusted and f"{', '.join(found.untrusted)}; a person runs: tandem trust"),
        ("waiting", found.pending and f"{found.pending} records for the broker"),
        *(("refused", one) for one in found.refused),
        *(("replaced", f"{what} What to do: {fix}") for what, fix in found.replaced.items()),
        *(("problem", problem) for problem in found.problems),
    ]


@without("new")
async def server_hook(
    path: Annotated[
        Path, Argument(metavar="REPOSITORY", help="The bare repository; default: the current folder.")
    ] = Path(),
    *,
    remove: Annotated[bool, Option(help="Remove the hook, and restore the former one.")] = False,
    options: ConnectionOptions,
) -> Exit:
    """Have a bare repository refuse unapproved pushes to base branches. Running it again repairs the hook."""
    place = server_setup.place_at(path.absolute())
    before = gate_switch.switch(place)
    if remove:
        known = before.project if before is not None else place.git_dir
        need_decision(known, ["anybody could push unapproved content here"])
        remarks = server_setup.remove(place)
        say(*remarks)
        return tell({"enabled": False, "remarks": remarks}, plain("The hook is removed."), as_json=options.as_json)
    project = options.project or (before.project if before is not None else None)
    if project is None:
        raise InvalidInput(
            "Say whose approvals count: --project NAME, as 'tandem project list' has it.", field="project"
        )
    looser = server_setup.loosened(before, project, options.broker)
    url = options.broker or (ask.url_of(before) if before is not None else None)
    data_dir = before.data_dir if before is not None and options.broker is None else None
    connection = ConnectionOptions(url, None, options.agent, data_dir=data_dir)
    async with connection.client() as client:
        ensure_known(client.session, project, may_be_new=False)
        if looser:
            need_decision(project, looser)
        with progress("installing the hook"):
            gate = await server_setup.install(client.data, place, project, options.broker)
    chained = gate.hooks["chained"]
    data = {"enabled": True, "project": project, "broker": gate.broker, "branches": gate.branches, "chained": chained}
    before = ", which calls the former one first" if chained else ""
    rows = [
        ("broker", ask.url_of(gate) or gate.data_dir),
        ("hook", f"{gate.hooks['directory']}/pre-receive{before}"),
    ]
    told = f"Pushes to {', '.join(gate.branches)} of {place.git_dir} need the approvals of {project}."
    return tell(data, Group(plain(told), facts(rows)), as_json=options.as_json)
