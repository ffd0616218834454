"""The switch of a repository's gate: at the broker, in the common git folder and in the hooks."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import sys
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tandem.bridge.location import (
    BrokerLocation,
    Stranger,
    configured_url,
    find_data_dir,
    of_record,
    stated_data_dir,
    targets,
)
from tandem.core import platforms
from tandem.core.files import write_atomically
from tandem.errors import ConfigInvalid, Forbidden, InvalidInput, NotFound, TandemError, Unavailable
from tandem.git.layout import ensure_usable
from tandem.git.place import linked_worktrees, main_worktree
from tandem.git.runner import GitFailed
from tandem.rulings import ask, git, pending, proof, state
from tandem.rulings.state import GateFile, HookRepository
from tandem.setup import githooks, registration
from tandem.setup.background import data_dirs_of, look
from tandem.setup.edits import way_out
from tandem.setup.githooks import Installed
from tandem.setup.registration import Call, registered_as, switch

_HEADS = "refs/heads/"
_SHORT = 10
_USUAL = ("main", "master", "trunk")


@dataclass(frozen=True, slots=True)
class GateOptions:
    """A person's wishes for the gate; None keeps the present value, or takes the default.

    Attributes:
        project: The project's name.
        broker: The broker's URL.
        branches: The base branches.
        accepted: Revisions whose commits are taken as they are from now on, with their ancestors.
        reason: Why, for the log.
        strict: Whether plans have to be approved before an agent writes them.
        sign: Whether approved commits are signed for others' brokers.
        signers: Whose brokers' signatures count from now on, too, each as `NAME=KEY`.
        no_signers: The names of those whose signatures no longer count.
        commits: One of `state.COMMITS`.
        threshold: The severity from which on an open finding keeps an approval back; the broker alone has it.
    """

    project: str | None = None
    broker: str | None = None
    branches: tuple[str, ...] | None = None
    accepted: tuple[str, ...] = ()
    reason: str | None = None
    strict: bool | None = None
    sign: bool | None = None
    signers: tuple[str, ...] = ()
    no_signers: tuple[str, ...] = ()
    commits: str | None = None
    threshold: str | None = None


def place_at(folder: Path) -> HookRepository:
    """The repository that a folder is in.

    Raises:
        InvalidInput: It is in none, or in a bare one.
    """
    found = state.find_repository(str(folder))
    if found is None:
        raise InvalidInput(f"{folder} is not in a git repository; run this inside of one.", field="path")
    ensure_usable(found)
    if found.top is None:
        main, linked = main_worktree(found.common_dir), linked_worktrees(found.common_dir)
        trees = ", ".join([*([main] if main else []), *linked])
        where = f"one of its working trees: {trees}" if trees else "a working tree"
        raise InvalidInput(
            f"A git folder has no commits of its own to judge; run this in {where}. Of dotfiles, set GIT_DIR and"
            " GIT_WORK_TREE. On a server: tandem gate server-hook"
        )
    return found


@contextmanager
def explained(what: str) -> Generator[None]:
    """What failed, in front of the system's or git's reason."""
    try:
        yield
    except GitFailed as error:
        raise Unavailable(f"{what}: {error}.") from error
    except OSError as error:
        raise Unavailable(f"{what}: {error}. {way_out(error)}") from error


async def switch_on(call: Call, place: HookRepository, wish: GateOptions, agreed: Collection[str] = ()) -> GateFile:
    """Register the project if it is none yet, switch the gate on at the broker and here, and install the hooks.

    Args:
        call: Calls the broker.
        place: The repository.
        wish: What the gate will be.
        agreed: What a person at the terminal has agreed to that lets more through, in the words of the refusal.

    Raises:
        Forbidden: It lets more through (`details.loosens`), and no person has agreed to that.
        TandemError: The broker refuses or is away, a file cannot be written, or the hooks cannot be installed; then
            the gate here is as before.
    """
    with explained("The gate was not switched on"):
        githooks.ensure_room(place)
        before, root = switch(place), Path(place.home)
        gate = await _wanted(place, before, wish, agreed)
        gate.project = await _project_of(call, place, before, gate, wish, agreed)
        if before is not None and wish.project is None:
            # Where the file is wrong the record corrects it, which makes it no other project.
            before.project = gate.project
        if await registered_as(call, root) == gate.project:
            # The record may still be that of the original of which this is a copy.
            registration.remember({"project": gate.project, "root": place.home})
        known = await call("get_gate", {"project": gate.project})
        # A record of no folder is of no repository: judging begins from here.
        stands = known["enabled"] and bool(known["folders"])
        standing: list[str] = known["branches"] if stands else []
        # The record counts more than a file that anybody can have edited.
        former = before.branches if before is not None and not known["enabled"] else ()
        gate.branches = wish.branches or tuple(standing) or former or base_branches(place)
        gate.commits = wish.commits or (known["commits"] if stands else gate.commits)
        # What a branch that becomes a base branch holds by now is where judging begins.
        starts = {name: git.resolve(place, _HEADS + name) for name in gate.branches if name not in standing}
        accepted = _resolved(place, wish.accepted) | {name: oid for name, oid in starts.items() if oid}
        request: dict[str, Any] = {
            **gate.here(),
            "since": known["switched_at"],
            "enabled": True,
            "accepted": _newest(place, [*(known["accepted"] if stands else []), *accepted.values()]),
            **({"trusted": None} if stands else {}),
            "signers": _signers(known["signers"], wish),
            "threshold": None if wish.threshold == known["threshold"] else wish.threshold,
            "reason": wish.reason,
        }
        gate.switched_at = await _told(call, before, gate, request, accepted, agreed)
        try:
            githooks.remove(place, (_installed(before) if before else None) or githooks.found(place))
            gate.hooks = githooks.install(place, gate.branches, gate.commits).facts()
            write(gate)
        except (TandemError, OSError):
            if not known["enabled"]:
                # As it was a moment ago, which no person has to decide.
                off = {"since": gate.switched_at, "enabled": False, "reason": "The hooks cannot be installed."}
                with suppress(TandemError):
                    await call("set_gate", proof.proved(gate, gate.project, **off))
            raise
        return gate


async def _project_of(
    call: Call,
    place: HookRepository,
    before: GateFile | None,
    gate: GateFile,
    wish: GateOptions,
    agreed: Collection[str],
) -> str:
    """The project whose gate this becomes, registered."""
    root = Path(place.home)
    if before is not None and wish.project is None:
        here = await registered_as(call, root)
        if before.enabled or here is None:
            await registration.refuse_copy(call, place)
        origin = await registration.find_origin(call, place) if before.enabled and here is not None else None
        if origin is not None and origin.project != here:
            raise InvalidInput(
                f"This repository is the project {origin.project}, and was moved to where {here} was. A person runs:"
                f" tandem project remove {shlex.quote(str(here))} && tandem project move",
                field="project",
                actual=origin.project,
            )
    elif before is not None and before.enabled and before.project != gate.project:
        # Before anything is registered, the broker's own question included.
        held = [place.common_dir] if await _is_on_record(call, before) else []
        _need_agreed(before, gate, proof.loosened({}, {"folders": held}), agreed)
    project = wish.project or (await _on_record(call, before, root) if before is not None else None)
    return await _registered(call, project, place)


async def _wanted(
    place: HookRepository, before: GateFile | None, wish: GateOptions, agreed: Collection[str]
) -> GateFile:
    """The switch as far as it needs no answer of the gate's broker.

    Raises:
        Forbidden: Another broker would be asked than before, and no person has agreed to that.
        ConfigInvalid: The broker that is named does not prove that it is this user's.
    """
    project = wish.project or (place.name if before is None else before.project)
    if before is not None:
        strict = before.strict if wish.strict is None else wish.strict
        sign = before.sign if wish.sign is None else wish.sign
        commits = wish.commits or before.commits
        wish = replace(wish, broker=_named(before, wish.broker), strict=strict, sign=sign, commits=commits)
    data_dir, *more_dirs = await asyncio.to_thread(data_dirs_of, wish.broker)
    gate = new_gate(place, project, wish, githooks.found(place))
    gate.data_dir, gate.more_data_dirs = data_dir, tuple(more_dirs)
    if before is not None and before.enabled and _where(gate) != _where(before):
        # Before the one is asked that it goes to: what that takes is worth nothing here.
        _need_agreed(before, gate, (), agreed)
    for one in targets(wish.broker) if wish.broker is not None else ():
        await asyncio.to_thread(_need_own, of_record(one.url, data_dir, None, more_dirs=more_dirs))
    return gate


def need_agreed(project: str, loosens: Sequence[str], agreed: Collection[str]) -> None:
    """Go on only if a person has agreed to all that lets more through a gate.

    Raises:
        Forbidden: They have not; its details have what `tandem.cli.persons` asks them about.
    """
    if not set(loosens) <= set(agreed):
        raise Forbidden(
            f"This lets more through the gate of {project}: {'; '.join(loosens)}. A person decides that at a terminal,"
            " with 'tandem gate on'.",
            needed="person",
            project=project,
            loosens=list(loosens),
        )


async def _told(
    call: Call,
    before: GateFile | None,
    gate: GateFile,
    request: Mapping[str, Any],
    accepted: Mapping[str, str],
    agreed: Collection[str],
) -> str:
    """Have the broker take a switch, with a proof only of what a person has agreed to; when it did, ISO 8601.

    Args:
        call: Calls the broker.
        before: The switch as it is.
        gate: The switch as it will be.
        request: What the broker is told.
        accepted: Commits by the names that the person has for them; the broker names them by their ids.
        agreed: As `switch_on` has it.

    Raises:
        Forbidden: No person has agreed to all of it.
    """
    unproved = {"project": gate.project} | {name: value for name, value in request.items() if value is not None}
    try:
        answer = await call("set_gate", unproved)
    except Forbidden as error:
        if error.details.get("needed") != "person":
            raise
        names = {oid: f"{name}, now {oid[:_SHORT]}," for name, oid in accepted.items()}
        stated: list[str] = error.details.get("loosens", [error.message])
        found = [" ".join(names.get(word, word) for word in one.split(" ")) for one in stated]
        _need_agreed(before, gate, found, agreed)
        proved = proof.proved(gate, gate.project, **request)
        if "proof" not in proved:
            raise Forbidden(proof.lacks_key(gate.data_dir), needed="person") from error
        answer = await call("set_gate", proved)
    else:
        _need_agreed(before, gate, (), agreed)
    return answer["switched_at"]


def _need_agreed(before: GateFile | None, gate: GateFile, more: Sequence[str], agreed: Collection[str]) -> None:
    """As `need_agreed`, of what the gate's own file lets more through once it is as wished, and of more."""
    if before is not None and before.enabled:
        # The broker's record and the file lose the same.
        loosens = dict.fromkeys([*proof.loosened(_facts(before), _facts(gate)), *more])
        need_agreed(before.project, [*loosens], agreed)
    elif githooks.is_installed(githooks.found(gate.place)):
        need_agreed(gate.project, ["its settings are lost, as its switch cannot be read", *more], agreed)
    else:
        need_agreed(gate.project, more, agreed)


def _facts(gate: GateFile) -> dict[str, list[str]]:
    """A switch as the table of what loosens has it."""
    plans = ["strict"] if gate.strict else []
    return {"project": [gate.project], "plans": plans, "commits": [*proof.PASSING[gate.commits]], **_where(gate)}


def _where(gate: GateFile) -> dict[str, list[str]]:
    """Whom the hooks ask, and by whose settings."""
    return {
        "broker": [one.url for one in targets(gate.broker)] if gate.broker else [],
        "data_dir": [os.path.realpath(one) for one in (gate.data_dir, *gate.more_data_dirs)],
        "config_dir": [os.path.realpath(gate.config_dir)],
    }


def _named(before: GateFile, broker: str | None) -> str | None:
    """The broker that is named from now on: still none, if the one is named that is asked already."""
    return before.broker if broker is None or (before.enabled and broker == ask.url_of(before)) else broker


def _need_own(broker: BrokerLocation) -> None:
    """Insist on a broker that the hooks will ask.

    Raises:
        ConfigInvalid: It does not prove that it is this user's.
    """
    failure = look(broker)[1]
    if isinstance(failure, Stranger):
        raise ConfigInvalid(f"No hook would ask {broker.url}: {failure}. {broker.advice(failure)}.", setting="broker")


async def _on_record(call: Call, before: GateFile, root: Path) -> str:
    """The project of a switch: by the broker's record of its folder, else as it says itself, as a copy does."""
    if await _is_on_record(call, before):
        return before.project
    return await registered_as(call, root) or before.project


async def _is_on_record(call: Call, gate: GateFile) -> bool:
    """Whether the broker has a gate on record in its folder."""
    try:
        known = await call("get_gate", {"project": gate.project})
    except NotFound:
        return False
    return gate.place.common_dir in known["folders"]


async def switch_off(call: Call, gate: GateFile, reason: str | None, agreed: Collection[str] = ()) -> list[str]:
    """Take the hooks away and switch the gate off, here and at the broker; a broker that is away is told later.

    Args:
        call: Calls the broker.
        gate: The switch.
        reason: Why, for the log.
        agreed: As `switch_on` has it.

    Returns:
        Remarks for the person, a sentence each.

    Raises:
        Forbidden: No person has agreed.
        Unavailable: A file or the repository cannot be changed.
    """
    place = gate.place
    need_agreed(gate.project, proof.loosened({"enabled": ["on"]}, {"enabled": []}), agreed)
    with explained("The gate was not switched off"):
        installed = _installed(gate)
        remarks = githooks.remove(place, installed) if installed else []
        for left in (Path(place.folder, state.JUDGED), Path(place.git_dir, state.FOLDER, "commit")):
            shutil.rmtree(left, ignore_errors=True)
        facts: dict[str, Any] = {**gate.facts(), "enabled": False, "hooks": {}}
        write(GateFile(place, facts))
    request = proof.proved(gate, gate.project, since=gate.switched_at, enabled=False, reason=reason)
    try:
        since = (await call("get_gate", {"project": gate.project}))["switched_at"]
        request = proof.proved(gate, gate.project, since=since, enabled=False, reason=reason)
        await call("set_gate", request)
    except Exception as error:  # noqa: BLE001 the person wants out: an error of the broker is reported, not obeyed
        pending.keep(place, "set_gate", request)
        remarks.append(f"The broker was not told ({error}); it will be when the gate is next used.")
    return remarks


async def move(call: Call, place: HookRepository, wish: GateOptions, agreed: Collection[str] = ()) -> GateFile | None:
    """Tell the broker that a project's repository is here now; where its gate is on, have it and its hooks on here.

    Args:
        call: Calls the broker.
        place: The repository.
        wish: Names the project, and what else its gate will be.
        agreed: As `switch_on` has it.

    Returns:
        The gate's switch; None where it is off.

    Raises:
        Forbidden: As `switch_on`.
        TandemError: The broker refuses or is away, or the hooks cannot be installed. The same again does the rest.
    """
    here = switch(place)
    if here is not None and here.enabled and wish.project is not None:
        need_agreed(wish.project, proof.loosened({"project": [here.project]}, {"project": [wish.project]}), agreed)
    project = await registration.register(call, Path(place.home), wish.project, move=True)
    known = await call("get_gate", {"project": project})
    if not known["enabled"] or (here is not None and not here.enabled):
        return None
    return await switch_on(call, place, wish, agreed)


def _installed(gate: GateFile) -> Installed | None:
    """How the hooks here were installed; by the files here, where the switch came along from another folder."""
    known, folder = Installed.of(gate.hooks), gate.place.common_dir
    if known is None or Path(known.directory).is_relative_to(folder):
        return known
    # The folder that it names is gone, or is the original's of which this is a copy.
    return replace(githooks.found(gate.place), made_directory=known.made_directory)


def _resolved(place: HookRepository, revisions: Sequence[str]) -> dict[str, str]:
    """The commits that revisions name.

    Raises:
        InvalidInput: One names none, or its remote has another one.
        TandemError: The remote that a revision follows cannot be asked.
    """
    return {revision: _as_its_remote_has_it(place, revision, git.resolve(place, revision)) for revision in revisions}


def _as_its_remote_has_it(place: HookRepository, revision: str, oid: str | None) -> str:
    if oid is None:
        raise InvalidInput(f"'{revision}' is no commit here; name a branch, a tag or a commit.", field="--accept")
    followed = git.followed(place, revision)
    if followed is not None:
        remote, ref = followed
        there = git.remote_tips(place, remote, ref).get(ref)
        if there != oid:
            raise InvalidInput(
                f"The remote {remote} has {there or 'nothing'} as {ref}, and {revision} is {oid} here. Run: git fetch"
                f" {remote}",
                field="--accept",
            )
    return oid


def _newest(place: HookRepository, oids: Sequence[str]) -> list[str]:
    """Commits without those that another one of them has among its ancestors; missing commits stay."""
    known = git.known_commits(place, oids)
    elsewhere = [oid for oid in dict.fromkeys(oids) if oid not in known]
    newest = git.run(place, ["merge-base", "--independent", *known]).text.split() if known else []
    return [*elsewhere, *newest]


def _signers(known: Sequence[str], wish: GateOptions) -> list[str]:
    """Whose signatures will count.

    Raises:
        InvalidInput: A name to remove is none of them.
    """
    names = {signer.partition("=")[0] for signer in known}
    unknown = next((name for name in wish.no_signers if name not in names), None)
    if unknown is not None:
        there = f"there are {', '.join(sorted(names))}" if names else "there is none"
        raise InvalidInput(f"'{unknown}' is no signer; {there}.", field="--no-signer", allowed=sorted(names))
    kept = [signer for signer in known if signer.partition("=")[0] not in wish.no_signers]
    return list(dict.fromkeys([*kept, *wish.signers]))


async def salvaged(call: Call, place: HookRepository) -> GateFile:
    """A switch in place of one that cannot be read, good for switching off.

    Raises:
        ConfigInvalid: The hooks are another repository's.
    """
    githooks.ensure_own(place)
    try:
        name = await registered_as(call, Path(place.home))
    except TandemError:
        name = None
    return new_gate(place, name or place.name, GateOptions(), githooks.found(place))


def write(gate: GateFile) -> None:
    """Write the switch, whole or not at all; whether commits are recorded, the next commit says."""
    path = Path(gate.place.gate_file)
    path.parent.mkdir(exist_ok=True)
    path.with_name(state.RECORDING).unlink(missing_ok=True)
    write_atomically(path, json.dumps(gate.facts(), indent=2).encode() + b"\n", mode=0o644)


def base_branches(place: HookRepository) -> tuple[str, ...]:
    """The branch that others are merged into, by its usual names: the remote's, `main`, `master`, else this one."""
    remote = git.run(place, ["symbolic-ref", "--quiet", "refs/remotes/origin/HEAD"], accept=(0, 1)).text
    named = remote.removeprefix("refs/remotes/origin/")
    existing = git.run(place, ["for-each-ref", "--format=%(refname)", _HEADS]).text.splitlines()
    candidates = [name for name in (named, *_USUAL) if name and _HEADS + name in existing]
    found = candidates[0] if candidates else git.branch(place)
    return (found or "main",)


async def _registered(call: Call, name: str | None, place: HookRepository) -> str:
    """The project's name with the broker, which is told of the folder if it does not know it, or it was moved."""
    root = Path(place.home)
    moved = await registration.moved_project(call, root, name)
    if moved is not None:
        return await registration.register(call, root, moved, move=True)
    return await registered_as(call, root, name) or await registration.register(call, root, name or place.name)


def new_gate(place: HookRepository, project: str, wish: GateOptions, installed: Installed | None) -> GateFile:
    """A switch that is on, not yet written: the broker is the one that is wished for, or that of this user's data."""
    facts = {
        "project": project,
        "root": place.home,
        "enabled": True,
        "broker": wish.broker,
        "data_dir": find_data_dir(),
        "usual_url": None if stated_data_dir() else configured_url(),
        "config_dir": str(Path(os.environ.get("TANDEM_CONFIG_DIR") or platforms.config_dir()).absolute()),
        "branches": list(wish.branches or ()),
        "switched_at": None,
        "strict": wish.strict is True,
        "sign": wish.sign is True,
        "commits": wish.commits or state.FREE,
        "python": sys.executable,
        "source": str(githooks.SOURCE),
        "hooks": installed.facts() if installed else {},
    }
    return GateFile(place, facts)
