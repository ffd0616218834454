"""`tandem init` and `uninit`: set a repository and the clients of this machine up for reviews, and undo exactly that.

A plan is made first, which only reads; a refusal then leaves everything as it is. Then the project is registered, the
files are changed and the gate is switched; a failure on the way undoes the rest.

Where the gate is on, a review like any other then approves the written files, to the byte, so that a person need not
override their own gate. It has a file only if HEAD's content with nothing but init's edits stands there now.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from tandem.bridge.location import find_data_dir
from tandem.core.files import remove_if_empty
from tandem.errors import ConfigInvalid, TandemError
from tandem.git.hunks import only_files
from tandem.git.repository import Repository
from tandem.git.snapshot import Scope
from tandem.reviews.rules import INIT
from tandem.rulings import git, pending, state
from tandem.rulings.person import agent_mark
from tandem.rulings.state import GateFile, HookRepository
from tandem.setup import gate_switch, githooks, registration
from tandem.setup.background import data_dirs_of
from tandem.setup.clients import (
    ClientSetup,
    FoundClient,
    Site,
    find_clients,
    find_program,
    refuse_unknown,
    setup_for,
)
from tandem.setup.edits import Edit, FileChange, FilePlan, Manifest, edited, install, plan, sweep
from tandem.setup.edits.edit import content_of, located
from tandem.setup.fresh_machine import identity_problem
from tandem.setup.gate_status import gate_status
from tandem.setup.registration import Call

_INTENT: Final = "What tandem init wrote: the server, permissions, instructions and commands of the agents' clients."


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """Files that init wrote and that are not committed yet.

    Attributes:
        paths: From the top of the working tree; what git ignores is none of them.
        review_id: The review that approves them, just made; None where none was needed, or none could be made.
        remark: Why they are not approved; empty if they are.
    """

    paths: tuple[str, ...] = ()
    review_id: str | None = None
    remark: str = ""


async def approve(call: Call, place: HookRepository, project: str, person: str, wanted: Sequence[Edit]) -> OwnFiles:
    """Approve what `wanted` made of HEAD's files, unless that is approved already.

    Args:
        call: Calls the broker.
        place: The repository.
        project: The project.
        person: Who ran init.
        wanted: Every edit of init's in the working tree.
    """
    root = Path(place.top or place.git_dir)
    own = tuple(_exactly_ours(place, root, wanted))
    with Repository.discover(root) as repository:
        found = repository.working_diff(Scope(new_files=own))
        diff = only_files(found.diff, own)
        content = repository.validate_diff(diff, found.base) if diff else None
    if content is None:
        return OwnFiles()
    paths = tuple(change.path for change in content.changes)
    if not set(paths) <= set(own):
        return OwnFiles(paths, remark=_not_approved("other files were renamed to them"))
    if (await call("check_gate", {"project": project, "digest": content.digest}))["allowed"]:
        return OwnFiles(paths)
    if (mark := agent_mark()) is not None:
        return OwnFiles(paths, remark=_not_approved(f"an agent ran this command ({mark} is set)"))
    review: dict[str, str] = {}
    try:
        stated = {"project": project, "intent": _INTENT, "agent_type": "tandem-init", "proposer_id": INIT}
        review = {"review_id": (await call("create_review", {**stated, "diff": diff, "base": found.base}))["review_id"]}
        claim = await call("claim_review", {**review, "reviewer_id": person})
        decided = {"verdict": "approved", "claim_generation": claim["claim_generation"], "reviewer_id": person}
        await call("submit_verdict", {**review, **decided, "reason": "tandem init alone wrote it."})
        await call("close_review", review)
    except TandemError as error:
        with suppress(TandemError):
            if review:
                await call("close_review", review)
        return OwnFiles(paths, remark=_not_approved(error.message))
    return OwnFiles(paths, review["review_id"])


def _not_approved(why: str) -> str:
    return (
        f"What init wrote is not approved: {why}. Submit it: git add FILES, then tandem submit --staged --wait"
        " -m 'Set up Tandem'."
    )


def _exactly_ours(place: HookRepository, root: Path, wanted: Sequence[Edit]) -> Iterable[str]:
    """The files that are HEAD's with our edits and nothing else."""
    by_path: dict[Path, list[Edit]] = {}
    for edit in wanted:
        by_path.setdefault(located(edit.path, root), []).append(edit)
    for path, edits in by_path.items():
        name = path.relative_to(root.resolve()).as_posix()
        before = _committed(place, name)
        after, _, _ = edited(path, before, None, edits, "init")
        if _lines(after) == _lines(content_of(path)) != _lines(before):
            yield name


def _committed(place: HookRepository, name: str) -> bytes | None:
    """What HEAD has of a file; None if it has none."""
    found = git.run(place, ["cat-file", "blob", f"HEAD:{name}"], accept=(0, 128))
    return None if found.status_code else found.stdout


def _lines(content: bytes | None) -> bytes | None:
    # Git may have changed the line ends when the file was checked out.
    return None if content is None else content.replace(b"\r\n", b"\n")


OWNER: Final = "init"
FILE: Final = "init.json"
MANIFEST: Final = "installed.json"
_FOLDER: Final = "tandem"
_VERSION: Final = 1
_GATE_RECORDS: Final = (state.FILE, state.RECORDING, "steps.json", "steps.lock", "rollback.lock")
"""What the gate and its steps keep in the common git folder, of no use to anybody once the gate is off."""


@dataclass(frozen=True, slots=True)
class UserManifest:
    """Where a manifest of the user's own files is.

    Attributes:
        file: The manifest.
        tree: The folder that the files are in.
        label: The prefix of their names when they are shown.
    """

    file: str
    tree: str
    label: str


@dataclass(frozen=True, slots=True)
class InitRecord:
    """What `tandem init` did in a working tree, for the next `init` and for `uninit`.

    Attributes:
        project: The project's name; None before the broker gave one.
        registered: Whether it was registered for this.
        gate: Whether the agents' hooks were written.
        switched: Whether the gate was switched on for this.
        clients: The clients that were set up.
        ledgers: The manifests of files outside of the project.
        broker: The URL that the person named; None for the broker that runs for this user.
        data_dir: The data folder of the one that was named.
        more_data_dirs: Those of further ones on this machine, where several were named.
    """

    project: str | None = None
    registered: bool = False
    gate: bool = False
    switched: bool = False
    clients: tuple[str, ...] = ()
    ledgers: tuple[UserManifest, ...] = ()
    broker: str | None = None
    data_dir: str | None = None
    more_data_dirs: tuple[str, ...] = ()

    def content(self) -> bytes:
        """As it is kept."""
        return json.dumps({"version": _VERSION, **asdict(self)}, indent=1).encode() + b"\n"


def load_record(folder: Path) -> InitRecord | None:
    """The record of `init` in Tandem's folder in the git folder; None if there is none.

    Raises:
        ConfigInvalid: It cannot be read.
    """
    file = folder / FILE
    content = content_of(file)
    try:
        return None if content is None else TypeAdapter(InitRecord).validate_json(content)
    except ValueError as error:
        raise ConfigInvalid(
            f"{file} is damaged. Delete it, and run 'tandem init' again before 'tandem uninit'.", file=str(file)
        ) from error


@dataclass(frozen=True, slots=True)
class InitOptions:
    """What a person wants.

    Attributes:
        clients: The clients to set up; empty for those that are installed.
        gate: Whether to have commits refused that are not approved.
        name: The project's name; None for the folder's.
        broker: The broker's URL; None for the one of an earlier `init`, else the one that runs for this user.
        gate_broker: The one that the gate asks if none is named otherwise: hooks do not look at the environment.
        commits: What the gate makes of commits on other branches, if it is switched on; None for its default.
    """

    clients: tuple[str, ...] = ()
    gate: bool = False
    name: str | None = None
    broker: str | None = None
    gate_broker: str | None = None
    commits: str | None = None


@dataclass
class SetupPlan:
    """The changes to make; none is made yet.

    Attributes:
        place: The repository.
        root: The top of the working tree.
        folder: Tandem's folder in the git folder of this working tree.
        clients: The clients, and why.
        before: What an earlier `init` did; None if none.
        gate: Whether the gate is wanted.
        trees: The changes by tree, the project's first.
        notes: What a person has to do in the clients.
        needed: What the clients need.
    """

    place: HookRepository
    root: Path
    folder: Path
    clients: list[FoundClient]
    before: InitRecord | None
    gate: bool
    trees: list[FilePlan] = field(default_factory=list[FilePlan])
    notes: list[str] = field(default_factory=list[str])
    needed: ClientSetup = field(default_factory=ClientSetup)

    @property
    def changes(self) -> list[FileChange]:
        """All that changes a file."""
        return [change for tree in self.trees for change in tree.altered]

    @property
    def remarks(self) -> list[str]:
        """What a person should know about the files."""
        return [remark for tree in self.trees for remark in tree.remarks]

    @property
    def switches_off(self) -> bool:
        """Whether taking it back switches the gate off: `init` switched it on, or was killed before it had."""
        gate = gate_switch.switch(self.place)
        return (gate is None or gate.enabled) and self.before is not None and self.before.switched

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing to undo: no record, no change, and no records of a gate that is off."""
        gate = gate_switch.switch(self.place)
        return self.before is None and not self.changes and (gate is None or gate.enabled)

    @property
    def ledgers(self) -> tuple[UserManifest, ...]:
        """The manifests of the user's own files that have something of this project."""
        return tuple(
            UserManifest(str(one.manifest.file), str(one.manifest.tree), one.manifest.label)
            for one in self.trees[1:]
            if user_owner(self.root) in one.owners()
        )


def user_owner(root: Path) -> str:
    """Who edits of the user's own files belong to: another project may need the same ones."""
    return f"{OWNER}:{root}"


def plan_init(folder: Path, home: Path, environment: Mapping[str, str], wish: InitOptions) -> SetupPlan:
    """What `tandem init` has to change for the repository that a folder is in.

    Raises:
        InvalidInput: The folder is in no repository, or there is no such client.
        ConfigInvalid: A file does not have its format; names the file and the place.
    """
    place = gate_switch.place_at(folder)
    root, own = Path(place.top or place.git_dir), Path(place.git_dir) / _FOLDER
    before = load_record(own)
    program = find_program(environment)
    site = Site(root, home, program, environment, wish.broker or (before.broker if before else None))
    chosen = _chosen(site, wish, before)
    gate = wish.gate or (before is not None and before.gate)
    needed = setup_for([one.client for one in chosen], site, gate=gate)
    setup = SetupPlan(place, root, own, chosen, before, gate, needed=needed)
    for manifest, edits, owner in _trees(setup, site, needed):
        setup.trees.append(plan(edits, manifest, owner=owner))
    unknown = identity_problem(root, environment)
    setup.notes += [f"{unknown[0]} So that it does: {unknown[1]}"] if unknown else []
    setup.notes += [*program.notes, *needed.notes, *(needed.hook_notes if setup.changes else ())]
    return setup


def plan_uninit(folder: Path) -> SetupPlan:
    """What `tandem uninit` has to change for the repository that a folder is in.

    Raises:
        InvalidInput: The folder is in no repository.
        ConfigInvalid: A file does not have its format; names the file and the place.
    """
    place = gate_switch.place_at(folder)
    root, own = Path(place.top or place.git_dir), Path(place.git_dir) / _FOLDER
    before = load_record(own)
    trees = [plan([], Manifest.load(own / MANIFEST, root), owner=OWNER)]
    for ledger in before.ledgers if before else ():
        manifest = Manifest.load(Path(ledger.file), Path(ledger.tree), ledger.label)
        trees.append(plan([], manifest, owner=user_owner(root)))
    return SetupPlan(place, root, own, [], before, gate=False, trees=trees)


def clean(folder: Path) -> None:
    """Delete the half-written files that an `init` or `uninit` which was killed has left in the git folder.

    Raises:
        InvalidInput: The folder is in no repository.
        Unavailable: Another command does not finish.
    """
    place = gate_switch.place_at(folder)
    own, folders = Path(place.git_dir) / _FOLDER, (githooks.found(place).directory, Path(place.folder, "hooks"))
    hooks = [Path(folder, name) for folder in folders for name in githooks.EVERY]
    sweep(own / MANIFEST, [own / FILE, Path(place.folder, registration.FILE), Path(place.gate_file), *hooks])


def _chosen(site: Site, wish: InitOptions, before: InitRecord | None) -> list[FoundClient]:
    """The clients that were named, or are installed, and those that were set up before.

    Raises:
        InvalidInput: There is no client of a name.
    """
    refuse_unknown(wish.clients)
    named, kept = set(wish.clients), set(before.clients) if before else set[str]()
    found = find_clients(site)
    chosen = [one for one in found if one.client.name in named or (not named and one.is_installed)]
    chosen += [one for one in found if one.client.name in kept and one not in chosen]
    return sorted(chosen, key=found.index)


def _trees(setup: SetupPlan, site: Site, needed: ClientSetup) -> list[tuple[Manifest, Sequence[Edit], str]]:
    """The manifests and the edits wanted in each: the project's, and those of the user's folders."""
    found: list[tuple[Manifest, Sequence[Edit], str]] = [
        (Manifest.load(setup.folder / MANIFEST, setup.root), needed.project, OWNER)
    ]
    owner = user_owner(setup.root)
    wanted_in: dict[Path, list[Edit]] = {}
    for edit in needed.user:
        wanted_in.setdefault(site.tree_of(edit.path), []).append(edit)
    for tree, edits in wanted_in.items():
        found.append((_ledger(tree, site.home), edits, owner))
    known = {manifest.file for manifest, _, _ in found}
    # The variables that move a folder may have changed since.
    left = [one for one in (setup.before.ledgers if setup.before else ()) if Path(one.file) not in known]
    return [*found, *((Manifest.load(Path(one.file), Path(one.tree), one.label), [], owner) for one in left)]


def _ledger(tree: Path, home: Path) -> Manifest:
    folder = Path(find_data_dir())
    if tree == home:
        return Manifest.load(folder / MANIFEST, tree, "~/")
    name = hashlib.sha256(str(tree).encode()).hexdigest()[:12]
    return Manifest.load(folder / f"installed-{name}.json", tree, f"{tree}/")


@dataclass
class Done:
    """The result of `init`, or of its undoing.

    Attributes:
        project: The project's name; None if it is no longer known.
        registered: Whether it was registered, or forgotten, just now.
        gate: Whether the gate is on.
        switched: Whether it was switched just now.
        own: What init wrote and is not committed yet, where the gate is on.
        remarks: What a person should know.
    """

    project: str | None
    registered: bool
    gate: bool
    switched: bool = False
    own: OwnFiles = field(default_factory=OwnFiles)
    remarks: list[str] = field(default_factory=list[str])


async def set_up(call: Call, setup: SetupPlan, wish: InitOptions, person: str) -> Done:
    """Register the project, change the files, switch the gate on if it is wanted: all of it or nothing.

    Where the gate is on, the written files are then approved in the name of the person.

    Raises:
        TandemError: The broker refuses or is away, a file cannot be written, or the gate cannot be switched on.
    """
    before, gate = setup.before or InitRecord(), gate_switch.switch(setup.place)
    await registration.refuse_gated_copy(call, setup.place)
    async with AsyncExitStack() as undo:
        moved = await registration.moved_project(call, setup.root, wish.name)
        if moved is not None:
            # True even if a later step fails, so that no failure undoes it.
            await gate_switch.move(call, setup.place, gate_switch.GateOptions(moved, reason="tandem init"))
        project = moved or await registration.registered_as(call, setup.root)
        is_new = project is None
        if project is None:
            # Killed behind this, the next command knows whose project it is that the broker has.
            intent = replace(before, registered=True)
            undo.callback(install(FilePlan(setup.trees[0].manifest, (_recording(setup, intent),))))
            project = await _register(call, setup, wish, undo)
        data_dir, *more_dirs = (
            await asyncio.to_thread(data_dirs_of, wish.broker)
            if wish.broker
            else (before.data_dir, *before.more_data_dirs)
        )
        record = InitRecord(
            project=project,
            registered=is_new or before.registered,
            gate=setup.gate,
            switched=before.switched or (setup.gate and not (gate is not None and gate.enabled)),
            clients=tuple(one.client.name for one in setup.clients),
            ledgers=setup.ledgers,
            broker=wish.broker or before.broker,
            data_dir=data_dir,
            more_data_dirs=tuple(str(one) for one in more_dirs),
        )
        for step in _write(setup, record):
            undo.callback(step)
        options = gate_switch.GateOptions(
            project, record.broker or wish.gate_broker, reason="tandem init --gate", commits=wish.commits
        )
        switched = setup.gate and await _switch_on(call, setup, options)
        undo.pop_all()
    gate = gate_switch.switch(setup.place)
    done = Done(project, is_new, gate is not None and gate.enabled, switched)
    if done.gate:
        done.own = await approve(call, setup.place, project, person, setup.needed.project)
        done.remarks += [done.own.remark] if done.own.remark else []
    return done


async def take_back(call: Call, setup: SetupPlan, agreed: Collection[str] = ()) -> Done:
    """Switch the gate off that `init` switched on, take our parts out of the files, forget the project.

    Args:
        call: Calls the broker.
        setup: The plan to undo.
        agreed: As `gate_switch.switch_on` has it.

    Raises:
        Forbidden: The gate would be switched off, and no person has agreed to that; nothing was done.
        TandemError: A file or the gate cannot be changed. The steps done until then stay done; the same command
            does the rest.
    """
    before = setup.before or InitRecord()
    gate = gate_switch.switch(setup.place)
    done = Done(before.project, registered=False, gate=gate is not None and gate.enabled)
    if setup.switches_off:
        gate = gate or await gate_switch.salvaged(call, setup.place)
        done.remarks += await gate_switch.switch_off(call, gate, "tandem uninit", agreed)
        done.gate, done.switched = False, True
    gate = gate_switch.switch(setup.place)
    if gate is not None and not gate.enabled:
        _forget_gate(gate)
    left: InitRecord | None = None
    if before.registered and done.gate:
        done.remarks.append(f"The project {before.project} stays registered, for its gate is on.")
    elif before.registered and not await _forget_project(call, setup, done):
        left = InitRecord(before.project, registered=True, ledgers=before.ledgers)
    for _ in _write(setup, left):
        pass
    return done


async def _forget_project(call: Call, setup: SetupPlan, done: Done) -> bool:
    """Whether the broker does not have the project any more."""
    try:
        # By its folder, if an `init` was killed before it knew the name that the broker gave.
        name = await registration.registered_as(call, setup.root, done.project)
        if name is not None:
            await call("remove_project", {"name": name})
            done.project, done.registered = name, True
        registration.forget(setup.place)
    except TandemError as error:
        name = done.project or setup.place.name
        done.remarks.append(f"The project {name} is still registered; run 'tandem uninit' again: {error.message}")
        return False
    return True


def _forget_gate(gate: GateFile) -> None:
    """Delete the records of a gate that is off, once the broker knows all that waits to be told."""
    if pending.deliver(gate):
        return
    folder = Path(gate.place.folder)
    for name in _GATE_RECORDS:
        (folder / name).unlink(missing_ok=True)
    for each in (folder / pending.FOLDER, folder):
        remove_if_empty(each)


async def _register(call: Call, setup: SetupPlan, wish: InitOptions, undo: AsyncExitStack) -> str:
    name = await registration.register(call, Path(setup.place.home), wish.name or setup.place.name)

    async def forget() -> None:
        with suppress(TandemError):
            await call("remove_project", {"name": name})
        registration.forget(setup.place)

    undo.push_async_callback(forget)
    return name


def _write(setup: SetupPlan, record: InitRecord | None) -> Iterator[Callable[[], object]]:
    """Change the files and their record; yields a function that undoes each step.

    Raises:
        Unavailable: A file cannot be written.
    """
    kept = _recording(setup, record)
    project, *others = setup.trees
    # What finds the others' manifests is written first, and taken away last.
    if kept.alters:
        project = replace(project, changes=(*project.changes, kept))
    for tree in [project, *others] if record is not None else [*others, project]:
        yield install(tree)


def _recording(setup: SetupPlan, record: InitRecord | None) -> FileChange:
    """The change of the record of `init`."""
    file = setup.folder / FILE
    return FileChange(file, str(file), str(file), content_of(file), record.content() if record is not None else None)


async def _switch_on(call: Call, setup: SetupPlan, options: gate_switch.GateOptions) -> bool:
    """Switch the gate on unless it is, whole; whether that was needed.

    Raises:
        TandemError: It could not be.
    """
    status = await gate_status(call, setup.place)
    is_same = options.commits in {None, status.commits}
    if is_same and status.enabled and status.broker_enabled and all(status.hooks.values()) and status.hooks:
        return False
    await gate_switch.switch_on(call, setup.place, options)
    return True
