"""The project, the workflow's settings and the gate: both switches, the hooks, and whether they really refuse.

A dead hook looks like one that has nothing to object to. So each is fired with a change that cannot be approved:
a file of random content, in a git folder of our own that shares the repository's objects and hooks, and never beyond
the point where the hook must refuse. Nothing of the repository changes.
"""

from __future__ import annotations

import asyncio
import secrets
import shlex
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from tandem.bridge.location import is_local
from tandem.core.scratch import ScratchFolder
from tandem.errors import TandemError, Unavailable
from tandem.git.runner import Output, clean_environment
from tandem.rulings import git, liveness, planning
from tandem.rulings.state import GateFile, HookRepository
from tandem.settings import checks
from tandem.settings.config import user_file
from tandem.setup import gate_switch, githooks, registration, trust
from tandem.setup.finding import GIT, NOBODY, DoctorContext, Finding, Repair, Unseen, note, ok, problem
from tandem.setup.gate_status import gate_status
from tandem.setup.gate_switch import GateOptions
from tandem.setup.registration import Call, Origin

_AGAIN = "tandem gate on"
_BY_PERSON = f"at a terminal, a person runs: {_AGAIN}"
"""Of a switch that is lost or off: what the gate held can only be judged by a person."""

_ANY_STATUS: Final = range(256)
_MESSAGE: Final = "Tandem's doctor fires the hooks\n"
_MARK: Final = "tandem: refused"
_REASON: Final = "not approved"
"""What each says of a change that cannot be approved; a hook that refuses for another reason refuses everything."""

_OTHER_RECORD: Final = "differs from the record"
"""What the gate's status says of a switch that is not as its broker has it."""

_NAMES: Final = {"git commit": "prepare-commit-msg"}
"""The hook that has to refuse each action, where the two have different names."""


async def check_project(here: DoctorContext) -> list[Finding]:
    """Whether this repository is registered."""
    if here.place is None or here.root is None:
        return [note("project", f"{here.folder} is in no git repository, so nothing of a project was looked at.")]
    call, place = here.require_call(), here.place
    if (borrowed := githooks.lender(place)) is not None:
        return [problem("project", *borrowed)]
    origin = await registration.find_origin(call, place)
    project = await registration.registered_as(call, here.folder)
    if origin is not None and origin.is_gone:
        here.moved_from = origin.root
        # The one that was here before has to make room, which only a person should say.
        other = project if project != origin.project else None
        first = f"tandem project remove {shlex.quote(other)} && " if other else ""
        wish = GateOptions(project=origin.project, reason="tandem doctor --fix")
        move = partial(gate_switch.move, call, place, wish)
        said = f"This repository is the project {origin.project}, and was moved here from {origin.root}."
        return [problem("project", said, f"{first}tandem project move", None if first else move)]
    is_gated = here.gate is not None and here.gate.enabled
    if project is not None and (origin is None or not is_gated):
        return [ok("project", f"This repository is the project {project}.")]
    return [await _unregistered(here, origin, call, place)]


async def _unregistered(here: DoctorContext, origin: Origin | None, call: Call, place: HookRepository) -> Finding:
    gate = here.gate
    is_gated = gate is not None and gate.enabled
    own = await registration.way_to_own_project(call, place)
    if origin is not None:
        here.moved_from = origin.root if is_gated else None
        said = f"This repository is a copy of the project {origin.project} at {origin.root}, and no project of its own."
        return problem("project", f"{said} If it takes that one's place: tandem project move {origin.project}", own)
    if gate is not None and is_gated:
        said = f"The broker does not know the project {gate.project}, whose gate has the hooks here."
        return problem("project", said, _AGAIN, _reinstalling(here))
    register = partial(registration.register, call, Path(place.home), own.partition(" --name ")[2] or place.name)
    said = "This repository is not registered. If it takes a project's place: tandem project move NAME"
    return problem("project", said, own, register)


async def check_gate(here: DoctorContext) -> list[Finding]:
    """Whether the gate is on at both places, and git starts its hooks."""
    if here.place is None:
        return []
    if here.moved_from is not None:
        raise Unseen("It is switched on here when this repository has its project.")
    call = here.call or _nobody
    found = await gate_status(call, here.place)
    if found.enabled is False and found.broker_enabled is not True and not found.problems:
        off = "The gate is off here: commits need no approval."
        return [note("gate", off, "tandem gate on, if it should be")]
    # Those are a finding of their own.
    of_settings = planning.read(found.root).problems
    repair = _reinstalling(here) if found.enabled and here.call is not None else None
    fix = _AGAIN if found.enabled else _BY_PERSON
    problems = [
        problem("gate", one, fix, repair)
        for one in found.problems
        if one not in of_settings and (here.call or "cannot be asked" not in one)
    ]
    if found.pending and here.call is not None:
        problems.append(note("gate", f"{found.pending} records wait for the broker.", "tandem gate status"))
    look = "look at them: the changes that they let through are not on record. Then delete them"
    problems += [problem("gate", f"The broker has refused a record: {one}", look) for one in found.refused]
    problems += [problem("gate", what, way) for what, way in found.replaced.items()]
    is_other = found.broker_enabled is not found.enabled or any(_OTHER_RECORD in one for one in found.problems)
    here.gate_trouble = bool(problems) and is_other
    holds = f"{', '.join(found.branches)} ({found.commits}, {found.granularity}, {found.mode})"
    return problems or [ok("gate", f"The gate is on for {holds}; git starts its hooks.")]


async def check_hooks(here: DoctorContext) -> list[Finding]:
    """Fire every hook of git with what cannot be approved: each has to refuse it."""
    gate = here.gate
    if gate is None or not gate.enabled or here.moved_from is not None:
        return []
    here.require_call()
    if here.gate_trouble:
        raise Unseen("Here the gate is not as its broker has it.")
    if (lost := _lost_objects(gate.place)) is not None:
        return [lost]
    try:
        # Those that git does not start are the gate's finding.
        started = await asyncio.to_thread(_started, gate)
        # It is made on no branch, where it passes unless that is strict.
        is_judged = planning.enforcement(gate, None) == planning.STRICT
        fired = await asyncio.to_thread(_fire, gate, with_commit=here.deep and is_judged) if started else {}
    except (TandemError, OSError) as error:
        return [problem("hooks", f"The hooks cannot be fired: {error}", _AGAIN, _reinstalling(here))]
    found: dict[str, list[str]] = {}
    for hook, done in fired.items():
        if _NAMES.get(hook, hook) in started:
            found.setdefault(_judged(done), []).append(hook)
    sound = [ok("hooks", f"{hook} refuses unapproved content.") for hook in found.pop("", [])]
    repair = _reinstalling(here)
    return sound + [problem("hooks", f"{', '.join(hooks)}: {what}", _AGAIN, repair) for what, hooks in found.items()]


def _lost_objects(place: HookRepository) -> Finding | None:
    """That objects which a clone borrows are gone, so that the hooks can judge nothing; None if they are there."""
    objects = Path(place.common_dir, "objects")
    alternates = objects / "info" / "alternates"
    named = alternates.read_text("utf-8", "surrogateescape").splitlines() if alternates.exists() else []
    gone = next((one for one in named if one and one[0] not in '#"' and not (objects / one).is_dir()), None)
    if gone is None:
        return None
    said = f"{alternates} names {gone}, which is gone: git lacks its objects, and the hooks refuse everything."
    return problem("hooks", said, f"write where that folder is now into {alternates}")


def _started(gate: GateFile) -> list[str]:
    """The hooks that git starts."""
    directory = gate.hooks.get("directory")
    return [name for name, lives in liveness.alive(gate.place, directory).items() if lives] if directory else []


def _judged(done: Output) -> str:
    """The fault of a hook, by its own words; empty if it refused for the right reason."""
    lines = [line.strip() for line in done.words.splitlines() if line.strip()] or ["it said nothing"]
    if done.status_code == 0 or _MARK not in done.words:
        return f"lets through unapproved content: {lines[-1]}"
    return f"refuses everything: {lines[0]}" if _REASON not in done.words else ""


def _fire(gate: GateFile, *, with_commit: bool) -> dict[str, Output]:
    """What git says when each hook that can refuse is fired with a commit of a random file on top of a base branch.

    Raises:
        TandemError: Git cannot be run in the repository, or fails.
        OSError: There is no room for a scratch folder.
    """
    ref, top = f"refs/heads/{gate.branches[0]}", Path(gate.place.top or gate.root)
    tip = git.resolve(gate.place, ref)
    with ScratchFolder("doctor") as name:
        folder = Path(name)
        for own in ("repository", "objects"):
            (folder / own).mkdir()
        (folder / "repository" / "HEAD").write_text(f"ref: {ref}\n", "utf-8")
        (folder / "repository" / "commondir").write_text(f"{gate.place.common_dir}\n", "utf-8")
        (folder / "message").write_text(_MESSAGE, "utf-8")
        variables = {
            **NOBODY,
            "GIT_DIR": str(folder / "repository"),
            "GIT_WORK_TREE": str(top),
            "GIT_INDEX_FILE": str(folder / "index"),
            "GIT_OBJECT_DIRECTORY": str(folder / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(Path(gate.place.common_dir, "objects")),
        }
        environment = clean_environment(variables, isolated=False)
        environment.pop("TANDEM_OVERRIDE", None)

        def made(*arguments: str, told: str = "") -> str:
            output = GIT.run(arguments, cwd=top, environment=environment, stdin=told.encode())
            return output.stdout.decode().strip()

        def fired(*arguments: str, told: str = "") -> Output:
            return GIT.run(arguments, cwd=top, environment=environment, stdin=told.encode(), accept=_ANY_STATUS)

        if tip is not None:
            made("read-tree", tip)
        blob = made("hash-object", "-w", "--stdin", told=secrets.token_hex(32))
        made("update-index", "--add", "--cacheinfo", f"100644,{blob},tandem-doctor-{secrets.token_hex(8)}")
        parents = ["-p", tip] if tip is not None else []
        commit = made("commit-tree", made("write-tree", "--missing-ok"), *parents, "-m", _MESSAGE)
        away = str(folder / "away.git")
        # A push to a repository with other ids fails before any hook.
        ids = made("rev-parse", "--show-object-format")
        init = ["init", "--quiet", "--bare", "--template=", f"--object-format={ids}", away]
        GIT.run(init, cwd=folder, environment=clean_environment({}, isolated=True))
        # Git asks this one in the middle of a transaction, which is then given up.
        update = f"start\nupdate {ref} {commit} {tip or '0' * len(commit)}\nprepare\nabort\n"
        found = {
            "prepare-commit-msg": fired("hook", "run", "prepare-commit-msg", "--", str(folder / "message"), "message"),
            "reference-transaction": fired("update-ref", "--stdin", told=update),
            "pre-push": fired("push", "--dry-run", "--quiet", away, f"{commit}:{ref}"),
        }
        if with_commit and tip is not None:
            # Detached, so that a commit which nothing refuses moves nothing but this.
            (folder / "repository" / "HEAD").write_text(f"{tip}\n", "utf-8")
            found["git commit"] = fired("commit", "--quiet", "-m", _MESSAGE)
        return found


def _reinstalling(here: DoctorContext) -> Repair:
    """Installs the hooks again, with the gate as it is."""

    async def reinstall() -> None:
        if here.call is None or here.place is None:
            raise Unavailable("The broker does not answer; start it with: tandem up --background")
        await gate_switch.switch_on(here.call, here.place, GateOptions(reason="tandem doctor --fix"))

    return reinstall


async def _nobody(_operation: str, _arguments: object) -> object:
    raise TandemError("the broker does not answer")


async def check_planning(here: DoctorContext) -> list[Finding]:
    """The three settings of `.planning/config.json`, as far as they hold."""
    if here.root is None:
        return []
    settings = planning.read(str(here.root))
    if not settings.found:
        return []
    found = [problem("planning", one, "correct .planning/config.json") for one in settings.problems]
    gate = here.gate
    holds = planning.in_force(gate) if gate is not None else planning.effective(settings, trusted=False)
    if holds.refused:
        found.append(
            note("planning", f"Not trusted, and so without effect: {', '.join(holds.refused)}", "tandem trust")
        )
    if found:
        return found
    steps = "propose their results" if holds.tandem_enabled else "go alone (tandem gsd on)"
    return [ok("planning", f"The workflow's steps {steps}; {holds.granularity}, {holds.mode}.")]


async def check_checks(here: DoctorContext) -> list[Finding]:
    """Whether the project's checks can run: the file, the trust in it, bubblewrap."""
    if here.root is None:
        return []
    confined = None
    if here.call is not None and here.url is not None and is_local(here.url):
        with suppress(TandemError):
            confined = await trust.confines_checks(here.call, str(here.root))
    return await asyncio.to_thread(_checks, here.root, confined=confined)


def _checks(root: Path, *, confined: bool | None) -> list[Finding]:
    file = root / checks.FILE
    if not file.exists():
        return []
    try:
        asked = trust.Project.at(str(root), user_file().parent).candidates([file], confined=confined)
    except TandemError as error:
        return [problem("checks", f"No check runs: {error.message}", f"correct {checks.FILE}")]
    missing = [one.file for one in asked if not one.is_trusted]
    if missing:
        return [problem("checks", f"The checks do not run: {', '.join(missing)} is not trusted.", "tandem trust")]
    where = "in bubblewrap" if len(asked) == 1 else "without bubblewrap, as you trusted them to"
    return [ok("checks", f"The commands of {checks.FILE} are trusted; they run {where}.")]
