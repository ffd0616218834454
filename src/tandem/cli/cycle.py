"""`tandem cycle …` and `tandem session …`: features on their way from role to role, and the keys of the roles."""

from __future__ import annotations

import getpass
import json
import os
import secrets
import shlex
import sys
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tandem.bridge.credentials import FILE_VARIABLE, KEY_VARIABLE, ROLE_VARIABLE, read_key, stated_key, stated_role
from tandem.bridge.described import Described
from tandem.bridge.operations import OPERATIONS
from tandem.bridge.session import Session, data_of
from tandem.cli.calls import call, given, present, with_project
from tandem.cli.connection_options import ConnectionOptions, KeyOption, one_of
from tandem.cli.declared import Argument, Misused, Option
from tandem.cli.render.cycles import history, key_files, keys, payloads, unseen
from tandem.cli.render.parts import copied, facts
from tandem.cli.terminal import EnvelopeOption, Exit, progress, say, show, show_data, tell
from tandem.client import read_envelope
from tandem.core import platforms
from tandem.core.atomic_dirs import write_whole
from tandem.core.files import write_atomically, write_new
from tandem.cycles.answers import CycleHistory
from tandem.cycles.payloads import archive_files
from tandem.errors import ConfigInvalid, InternalError, NotFound, Unavailable
from tandem.examples import examples
from tandem.present.shape import record
from tandem.present.text import Text
from tandem.settings.config import user_file

_HINT = "env:NAME or file:PATH. Other users of this machine can read command lines, so a key is never given there."
_SUFFIX = ".psk"
WorkflowOption = Annotated[
    str | None, Option(metavar="NAME", help="Default: the project's only one.", completes="workflow")
]
WriteToOption = Annotated[
    Path | None, Option(metavar="DIR", help="Write each key to DIR/ROLE.psk instead of showing it.")
]


@dataclass(frozen=True, slots=True)
class OwnKeys:
    """A key of one's own.

    Attributes:
        key: The key.
        source: Where it came from, for people: `from env GEMINI_KEY`.
    """

    key: str
    source: str


def keys_by_role(options: Iterable[str]) -> dict[str, OwnKeys]:
    """The keys that `--key ROLE=SOURCE` names.

    Raises:
        Misused: One is written wrongly, or its source has no key; never says what stood there.
    """
    found: dict[str, OwnKeys] = {}
    for option in options:
        role, equals, source = option.partition("=")
        if not (equals and role):
            raise Misused(f"Write ROLE=SOURCE, the source as {_HINT}", "--key")
        if role in found:
            raise Misused(f"{role} has two keys here.", "--key")
        found[role] = key_from(source, "--key")
    return found


def key_from(source: str, option: str) -> OwnKeys:
    """The key that `env:NAME` or `file:PATH` names.

    Raises:
        Misused: It is neither, or there is no key; never says what stood there.
    """
    kind, _, place = source.partition(":")
    if kind == "env" and place:
        key = os.environ.get(place, "").strip()
        if not key:
            raise Misused(f"The environment has no {place}, or it is empty.", option)
        return OwnKeys(key, f"from env {place}")
    if kind == "file" and place:
        return OwnKeys(_read(place, option), f"from {place}")
    raise Misused(f"Write the key's source as {_HINT}", option)


def session_key(role: str, literal: str | None, file: str | None) -> str:
    """The key to open a session with: that of the file that was named, else of the environment, else asked for.

    Args:
        role: Whose session it is, for the prompt.
        literal: What `--psk` has; it counts as left out when it is empty.
        file: What `--psk-file` has; `-` is standard input.

    Raises:
        Misused: There is none, or the file has none.
        ConfigInvalid: The environment names a file that has none.
    """
    if literal and file:
        raise Misused("Give one of --psk and --psk-file.", "--psk-file")
    if file:
        return _piped() if file == "-" else _read(file, "--psk-file")
    if literal:
        return literal
    stated = stated_key()
    if stated is not None:
        return stated
    if not sys.stdin.isatty():
        raise Misused(
            f"There is no key. Name its file here, or in {FILE_VARIABLE}, or put it into {KEY_VARIABLE}.",
            "--psk-file",
        )
    return getpass.getpass(f"Key of {role}: ", sys.stderr)


def _read(path: str, option: str) -> str:
    try:
        return read_key(path)
    except ConfigInvalid as trouble:
        raise Misused(trouble.message, option) from None


def _piped() -> str:
    try:
        key = sys.stdin.buffer.readline().decode().strip()
    except UnicodeDecodeError:
        key = ""
    if not key:
        raise Misused("The first line of standard input is no key.", "--psk-file")
    return key


def _key_folder(path: Path) -> Path:
    """A folder for new keys, for its user only; made before any key, so that an error is known in time.

    Raises:
        Unavailable: It cannot be made or written.
    """
    folder = path.expanduser().resolve()
    with _writing(folder):
        platforms.make_private(str(folder))
        trial = folder / f".trial.{secrets.token_hex(8)}"
        write_new(trial, b"")
        trial.unlink()
    return folder


def _refuse_to_replace(folder: Path) -> None:
    """Refuse a folder that has keys already, which may be those of another project.

    Raises:
        ConfigInvalid: It has.
    """
    there = sorted(file.name for file in folder.glob(f"*{_SUFFIX}"))
    if there:
        raise ConfigInvalid(
            f"{folder} has keys already ({', '.join(there)}), which may be in use. Name a folder without, or"
            " replace one key with: tandem cycle rotate ROLE --write-to DIR",
            setting="write_to",
            folder=str(folder),
        )


@contextmanager
def _writing(folder: Path) -> Generator[None]:
    """Maps errors of the system.

    Raises:
        Unavailable: There was one.
    """
    try:
        yield
    except OSError as error:
        raise Unavailable(
            f"Keys cannot be written to {folder}: {error.strerror or error}.", folder=str(folder)
        ) from error


def make_keys(
    *,
    workflow: WorkflowOption = None,
    key: Annotated[
        list[str] | None,
        Option(
            metavar="ROLE=SOURCE",
            help="A key of your own: its role, and env:NAME or file:PATH. For several roles, several times.",
        ),
    ] = None,
    write_to: WriteToOption = None,
    options: ConnectionOptions,
) -> Exit:
    """Create the keys of a workflow's roles; each is shown once, and only a hash is stored."""
    own = keys_by_role(key or [])
    arguments = given(keys={role: one.key for role, one in own.items()} or None, workflow=workflow or None)
    return _make(OPERATIONS["cycle_init"], arguments, own, options, write_to)


def rotate_key(
    role: Annotated[str, Argument(metavar="ROLE", help="Whose key.", completes="role")],
    *,
    workflow: WorkflowOption = None,
    key: Annotated[str | None, Option(metavar="SOURCE", help="A key of your own: env:NAME or file:PATH.")] = None,
    write_to: WriteToOption = None,
    options: ConnectionOptions,
) -> Exit:
    """Replace a role's key; its sessions end."""
    own = {role: key_from(key, "--key")} if key else {}
    arguments = given(role=role, key=own[role].key if own else None, workflow=workflow or None)
    return _make(OPERATIONS["cycle_rotate"], arguments, own, options, write_to)


def _make(
    operation: Described,
    arguments: dict[str, Any],
    own: Mapping[str, OwnKeys],
    options: ConnectionOptions,
    write_to: Path | None,
) -> Exit:
    folder = _key_folder(write_to) if write_to else None
    if folder is not None and operation.name == "cycle_init":
        _refuse_to_replace(folder)
    with options.session() as session, progress(f"{operation.noun} {operation.verb}"):
        envelope = session.call(operation.name, with_project(operation, arguments, session, options))
    if options.as_json and (folder is None or not json.loads(envelope)["ok"]):
        return present(envelope, "cycle_init", as_json=True)
    made = record(data_of(envelope))
    sources = {role: one.source for role, one in own.items()}
    lost = unseen(made, own)
    if lost:
        shown = f"Made by an earlier try, and not to be seen again: {', '.join(lost)}."
        say(f"{shown} tandem cycle rotate ROLE makes new ones.")
    if folder is None:
        show(keys(made, sources))
        return Exit.DONE
    files = {role: str(folder / f"{role}{_SUFFIX}") for role in made.keys if role not in lost}
    try:
        with _writing(folder):
            for role, file in files.items():
                # An older file is replaced.
                write_atomically(Path(file), made.keys[role].encode() + b"\n")
    except Unavailable as trouble:
        # They are made, and this is the only moment to see them.
        present(envelope, "cycle_init", as_json=options.as_json)
        say(f"{trouble.message} So they are shown here.")
        return Exit.REFUSED
    if options.as_json:
        data = {name: value for name, value in json.loads(envelope)["data"].items() if name != "keys"}
        show_data({**data, "files": files})
    else:
        show(key_files(made, files))
    return Exit.DONE


def open_session(
    role: Annotated[
        str | None,
        Argument(
            metavar="ROLE",
            help=f"Your role in the workflow; default: {ROLE_VARIABLE}.",
            shows_default=False,
            completes="role",
        ),
    ] = None,
    *,
    # The operation's own name for it, as the argument's twin.
    role_option: Annotated[str | None, Option("--role", hidden=True, completes="role")] = None,
    psk: Annotated[str | None, Option(hidden=True)] = None,
    psk_file: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="Its first line is the role's key; - for standard input. Default: TANDEM_PSK, else the file that "
            "TANDEM_PSK_FILE names, else you are asked for it.",
        ),
    ] = None,
    workflow: WorkflowOption = None,
    idempotency_key: KeyOption = None,
    options: ConnectionOptions,
) -> Exit:
    """Open a session as a role of a workflow; its token authenticates lock, hand-off, completion and archive."""
    whose = one_of(role or None, role_option or None, "--role") or stated_role()
    if whose is None:
        raise Misused("Missing ROLE.", "--role")
    key = session_key(whose, psk, psk_file)
    request = given(role=whose, workflow=workflow, idempotency_key=idempotency_key, psk=key)
    return call(OPERATIONS["session_open"], request, options)


CycleArgument = Annotated[
    str | None,
    Argument(
        metavar="CYCLE_ID",
        help="Which one; default: the newest of the project and workflow.",
        shows_default=False,
        completes="cycle",
    ),
]


def example(
    name: Annotated[str | None, Argument(metavar="NAME", help="Which one to print.", completes="example")] = None,
    *,
    as_json: EnvelopeOption = False,
) -> None:
    """List the example workflows, or print one to append to your config.toml."""
    found = examples()
    file = str(user_file())
    if name is None:
        about = {one: text.partition("\n")[0].lstrip("# ") for one, text in found.items()}
        listed = [{"name": one, "about": line} for one, line in about.items()]
        shown = facts((one, Text(line)) for one, line in about.items())
        tell({"examples": listed, "file": file}, shown, as_json=as_json)
        if not as_json:
            say("To print one: tandem cycle example NAME")
    elif name not in found:
        raise NotFound(f"There is no example '{name}'; there are: {', '.join(found)}.", allowed=list(found))
    elif as_json:
        show_data({"name": name, "text": found[name], "file": file})
    else:
        say(f"To be appended to {file}: tandem cycle example {name} >> {shlex.quote(file)}")
        say("Then restart the broker: it reads workflows when it starts.")
        sys.stdout.write(found[name])


def show_cycle(
    cycle_id: CycleArgument = None,
    *,
    workflow: WorkflowOption = None,
    with_payloads: Annotated[bool, Option("--payloads", help="Show the payloads, too.")] = False,
    options: ConnectionOptions,
) -> Exit:
    """Show a whole cycle: its phases, and every hand-off."""
    with options.session() as session, progress("cycle show"):
        envelope = _fetch(session, given(cycle_id=cycle_id, workflow=workflow), options)
        if options.as_json:
            return present(envelope, "get_cycle", as_json=True)
        found = record(data_of(envelope))
    show(history(found))
    if with_payloads:
        show(payloads(found))
    return Exit.DONE


def export(
    cycle_id: CycleArgument = None,
    *,
    to: Annotated[Path, Option(metavar="DIR", help="Where the cycle's own folder goes.")],
    workflow: WorkflowOption = None,
    options: ConnectionOptions,
) -> Exit:
    """Write a cycle to a folder of its own, as an archive has it: state, workflow and hand-offs, no secret."""
    with options.session() as session, progress("cycle export"):
        found = read_envelope(_fetch(session, given(cycle_id=cycle_id, workflow=workflow), options), CycleHistory)
    files = archive_files(found)
    name = found.cycle.cycle_id
    try:
        folder = write_whole(to.expanduser().resolve(), name, files)
    except ValueError as error:
        raise InternalError(f"The broker's cycle cannot be written to a folder: {error}.", cycle_id=name) from error
    data = {"cycle_id": name, "folder": str(folder), "files": sorted(files)}
    return tell(data, copied([("exported", name), ("folder", str(folder))]), as_json=options.as_json)


def _fetch(session: Session, asked: dict[str, Any], options: ConnectionOptions) -> bytes:
    operation = OPERATIONS["get_cycle"]
    return session.call(operation.name, with_project(operation, asked, session, options))
