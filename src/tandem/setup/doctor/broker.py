"""The broker: whether it answers, which one it is, whom it lets in, and whether its reviewers review.

With `--deep` the pool's own program reviews a trial change, in a project that is removed afterwards.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import tandem
from tandem.bridge.credentials import REFUSED_STATUS, TOKEN_VARIABLE, published
from tandem.bridge.location import (
    VARIABLE,
    BrokerLocation,
    HttpFailure,
    Stranger,
    Untrusted,
    find_data_dir,
    is_local,
    targets,
)
from tandem.bridge.messages import as_object
from tandem.bridge.tls import ends
from tandem.client import TandemClient
from tandem.core import platforms
from tandem.core.scratch import ScratchFolder
from tandem.errors import Forbidden, TandemError, Unauthenticated
from tandem.git.runner import clean_environment
from tandem.settings.certificates import Certificate
from tandem.settings.config import Settings, load_settings
from tandem.settings.instance import tls_of
from tandem.setup.background import ask, look, reach_broker
from tandem.setup.finding import GIT, NOBODY, DoctorContext, Finding, Level, Unseen, note, ok, problem, skipped
from tandem.setup.registration import Call

_SECONDS = 5.0
_CLOCK_SECONDS = 1.0
"""How much later than the start a file has to be changed, as clocks and files count differently."""
_LEAST_VALID = timedelta(days=14)
"""Programs renew certificates a month before their end; less time left says that the renewal does not work."""
_START = "tandem up --background"
_RESTART = "tandem down && tandem up --background"
_AWAY = "have PostgreSQL run and reachable, and the broker goes on by itself; else tandem logs"
_RESTORE = (
    "put the same file back, or run 'tandem down', restore a copy, and run 'tandem up --background'; else tandem logs"
)
_ASK_FOR_TOKENS = (
    'set auth = "token" in the broker\'s settings, start it again, and give each person a token:'
    " tandem token create NAME --role ROLE"
)


async def check_broker(here: DoctorContext) -> list[Finding]:
    """Whether it answers, with the version of this program, and can use its database."""
    reached = here.location
    said, failure = await asyncio.to_thread(look, reached)
    if failure is not None:
        return [await _silence(here, reached, failure)]
    here.url, here.call = reached.url, _caller(reached)
    facts = as_object(said.get("data")) or as_object(as_object(said.get("error")).get("details"))
    here.facts = facts
    phase = facts.get("phase")
    if phase != "ready":
        return [
            problem(
                "broker", f"The broker at {reached.url} is {phase or 'not ready'}.", "wait a moment; else tandem logs"
            )
        ]
    found = [ok("broker", f"The broker answers at {reached.url} (process {facts.get('pid')}).")]
    ours = version("tandem-broker")
    if facts.get("version") != ours:
        found.append(
            problem("version", f"The broker is version {facts.get('version')}, this program is {ours}.", _RESTART)
        )
    elif changed := await asyncio.to_thread(_changed_since, float(facts.get("uptime_seconds", 0))):
        said = f"The broker still runs the code from before {changed} was changed."
        found.append(problem("version", said, _RESTART))
    if settings := facts.get("settings_changed"):
        said = f"Changed since the broker was started, and without effect until the next start: {', '.join(settings)}."
        found.append(problem("settings", said, _RESTART))
    if trouble := facts.get("settings_problem"):
        said = f"The broker goes on with the settings from before the last change: {trouble}"
        fix = "correct that place: the broker reads the file again when it changes"
        # Where the file cannot be used, the check of settings has named it.
        is_named = here.start_trouble == "settings"
        found.append(note("settings", said) if is_named else problem("settings", said, fix))
    found.append(await _database(here))
    if found[-1].state is Level.PROBLEM:
        here.call, here.silence = None, "The broker cannot read its database."
        if here.start_trouble == "database":
            # Which is named already.
            found[-1] = skipped("database", here.silence)
    return found


def _changed_since(uptime_seconds: float) -> str | None:
    """A file of this program that is newer than the broker's start; None if none is."""
    folder = Path(tandem.__file__).parent
    started = time.time() - uptime_seconds
    newer = (file for file in folder.rglob("*.py") if file.stat().st_mtime > started + _CLOCK_SECONDS)
    return next((str(file) for file in newer), None)


async def _silence(here: DoctorContext, meant: BrokerLocation, failure: HttpFailure) -> Finding:
    """Why nothing answers."""
    if not meant.is_own:
        return _named(meant, failure)
    folder = meant.data_dir
    if (user := await asyncio.to_thread(_other_owner, folder)) is not None:
        here.obstacle = "its gate asks another user's broker"
        said = f"The gate of this repository asks the broker of {user}, on {folder}, which you cannot use."
        return problem("broker", said, _own_clone(here))
    # The broker that is meant may be that of a gate's record, on another folder than the user's own.
    where = "" if folder == find_data_dir() else f" --data-dir {shlex.quote(folder)}"
    if (said := await asyncio.to_thread(_useless, meant, failure)) is not None:
        # Which works also where it has ended itself by then.
        return problem("broker", said, f"tandem down{where} && {_START}{where}")
    if here.start_trouble:
        return skipped(
            "broker", f"No broker runs on {folder}, and none can before this is fixed: {here.start_trouble}."
        )
    start = partial(reach_broker, None, str(here.folder))
    loaded = load_settings()
    port = loaded.settings.port
    if loaded.origins["port"] != "default" and port and await asyncio.to_thread(_is_taken, port):
        said = f"No broker runs on {folder}, and the port {port} of the settings is taken. {meant.listener(port)}."
        return problem("broker", said, f"{_START} --port 0{where}", start)
    return problem("broker", f"No broker runs on {folder}.", f"{_START}{where}", start)


def _useless(meant: BrokerLocation, failure: HttpFailure) -> str | None:
    """Why a running broker cannot be used; None if it can."""
    blocker = meant.blocker(failure)
    if blocker is not None:
        return f"{blocker[0]}. End it: {blocker[1]}"
    unproven = meant.unproven(failure)
    return None if unproven is None else f"{unproven}."


def _named(meant: BrokerLocation, failure: HttpFailure) -> Finding:
    """Why nothing answers at an address that was named."""
    said = f"No broker answers at {meant.url}, from {meant.origin}: {failure}."
    if isinstance(failure, Stranger | Untrusted) or not is_local(meant.url or ""):
        said = f"{said} {meant.advice(failure)}."
    is_variable = meant.origin == VARIABLE
    return problem("broker", said, f"unset {VARIABLE}" if is_variable else "name another with --broker")


def _own_clone(here: DoctorContext) -> str:
    place = here.place
    top, git_dir = (here.folder, here.folder) if place is None else (place.top or place.git_dir, place.common_dir)
    trusts = f"git config --global --add safe.directory {shlex.quote(str(git_dir))}"
    return f"work in a clone of your own: {trusts} && git clone {shlex.quote(str(top))} FOLDER"


def _other_owner(folder: str) -> str | None:
    """Whose a data folder is that this user cannot use; None if they can, or it is theirs, or there is none."""
    if os.name != "posix" or not Path(folder).exists() or os.access(folder, os.R_OK | os.X_OK):
        return None
    owner = Path(folder).stat().st_uid
    try:
        return None if owner == os.geteuid() else Path(folder).owner()
    except KeyError:
        return f"user {owner}"


async def _database(here: DoctorContext) -> Finding:
    """A read of the database, through the broker."""
    call = here.require_call()
    try:
        await call("get_review_stats", {})
    except (Unauthenticated, Forbidden):
        return skipped("database", "The broker does not let this access token look.")
    except TandemError as error:
        is_file = load_settings().settings.database.startswith("sqlite:")
        fix = _RESTORE if is_file and "PostgreSQL" not in error.message else _AWAY
        return problem("database", f"The broker cannot read its database: {error.message}", fix)
    return ok("database", "The broker reads its database.")


async def check_certificate(here: DoctorContext) -> list[Finding]:
    """Whether certificates can be used, are valid for long enough, and have the names that clients use."""
    settings = load_settings().settings
    files = tls_of(settings)
    if files is not None:
        return [_certified(files.certificate, str(settings.tls_certificate_file), _names(settings))]
    secured = [target for target in targets(here.url) if target.secure] if here.url else []
    return [
        _certified(Certificate((target.host,), await asyncio.to_thread(ends, target)), target.url, [target.host])
        for target in secured
    ]


def _names(settings: Settings) -> list[str]:
    """What clients on other machines use: names without their ports, or the address that is listened on."""
    if settings.allowed_hosts:
        return [name if name.count(":") > 1 else name.partition(":")[0] for name in settings.allowed_hosts]
    return [] if settings.host in {"0.0.0.0", "::", "127.0.0.1", "::1", "localhost"} else [settings.host]  # noqa: S104 - compared


def _certified(certificate: Certificate, where: str, names: list[str]) -> Finding:
    left = certificate.ends - datetime.now(UTC)
    until = certificate.ends.strftime("%Y-%m-%d")
    if left < _LEAST_VALID:
        said = f"The certificate {where} {'has ended on' if left < timedelta() else 'ends on'} {until}."
        return problem("certificate", said, "renew it; a broker that runs takes the new files up by itself")
    wrong = [name for name in names if not certificate.fits(name)]
    if wrong:
        has = ", ".join(certificate.names) or "no name"
        said = f"The certificate {where} is for {has}, and not for {', '.join(wrong)}, as clients call the broker."
        return problem("certificate", said, "have a certificate made for that name, or correct allowed_hosts")
    return ok("certificate", f"The certificate {where} is valid until {until}.")


async def check_users(here: DoctorContext) -> list[Finding]:
    """Whether others are logged in, or could be: without access tokens every caller is trusted."""
    others = sorted(platforms.accounts())
    present = sorted(await asyncio.to_thread(platforms.others_logged_in))
    if len(others) <= 1 and not present:
        return [ok("users", "No other user has an account here.")]
    if await asyncio.to_thread(_asks_for_tokens, here):
        return [ok("users", "Other people have an account here, and the broker asks for access tokens.")]
    if present:
        return [
            problem(
                "users",
                f"Others are logged in on this machine ({', '.join(present[:5])}), and the broker trusts everybody who"
                " reaches its port: they can read every file that was ever committed in the repositories that you"
                " registered, and review and approve under any name.",
                _ASK_FOR_TOKENS,
            )
        ]
    return [
        note(
            "users",
            f"{len(others)} people have an account on this machine, and the broker trusts everybody who reaches its"
            f" port: {', '.join(others[:5])}.",
            _ASK_FOR_TOKENS,
        )
    ]


async def check_access(here: DoctorContext) -> list[Finding]:
    """Whether this user's token is taken, where the broker asks for one."""
    call = here.require_call()
    if not await asyncio.to_thread(_asks_for_tokens, here):
        return [_idle(await call("list_tokens", {}))]
    whose = f"the one in {TOKEN_VARIABLE}" if os.environ.get(TOKEN_VARIABLE, "").strip() else "its owner's"
    try:
        await call("list_projects", {})
    except Unauthenticated as error:
        here.call, here.silence = None, "The broker takes no access token from here."
        return [problem("access", f"The broker asks for access tokens, and takes none from here: {error}", _fix(here))]
    except Forbidden:
        return [ok("access", f"The broker asks for access tokens, and takes {whose}; it is not for everything.")]
    return [ok("access", f"The broker asks for access tokens, and takes {whose}.")]


def _idle(listed: dict[str, Any]) -> Finding:
    """The finding for a broker that asks for no tokens, which may be on purpose."""
    valid = sum(token["state"] == "valid" for token in listed["tokens"])
    if not valid:
        return ok("access", "The broker trusts everybody who reaches it, and asks for no access tokens.")
    return problem(
        "access",
        f"Access tokens are valid ({valid}), and yet the broker trusts everybody: it was started without"
        ' auth = "token".',
        'write auth = "token" into your own config.toml, where every start finds it, and start the broker again; or'
        " revoke the tokens: tandem token revoke TOKEN_ID",
    )


def _fix(here: DoctorContext) -> str:
    """How to get a token that counts: the owner needs none."""
    if not os.environ.get(TOKEN_VARIABLE, "").strip():
        who = "ask the person who runs the broker for a token (tandem token create NAME --role ROLE)"
        return f"{who}, and put it into {TOKEN_VARIABLE}"
    left = published(here.location.data_dir)
    is_owner = left is not None and left.url == here.url
    return f"unset {TOKEN_VARIABLE}" if is_owner else f"put a token that counts into {TOKEN_VARIABLE}"


def _asks_for_tokens(here: DoctorContext) -> bool:
    """What the broker does with a call without a token; what the settings say if it does not answer."""
    if here.url is None:
        return load_settings().settings.auth == "token"
    status_code, _ = ask(here.url, "POST", "/api/v1/list_projects", b"{}")
    return status_code == REFUSED_STATUS


async def check_reviewers(here: DoctorContext) -> list[Finding]:
    """Whether a proposer will find a reviewer."""
    call = here.require_call()
    if here.facts.get("reviewer_pool", "off") == "off":
        return [
            note(
                "reviewers",
                "There is no reviewer pool: a person, or an agent that was started for it, has to review.",
                "tandem reviewers setup",
            )
        ]
    program = here.facts.get("program_missing")
    if program:
        return [_not_found(program)]
    try:
        pools = (await call("list_reviewers", {})).get("pools", [])
    except (Unauthenticated, Forbidden):
        return [skipped("reviewers", "The broker does not let this access token look.")]
    except TandemError as error:
        return [problem("reviewers", f"The pool cannot be asked: {error.message}", "tandem reviewers list")]
    stopped = [_stopped(pool) for pool in pools if pool.get("state") not in ("running", "ended")]
    kinds = [one for pool in pools if pool.get("state") == "running" for one in pool.get("profiles", ())]
    stopped += [_left_out(one) for one in kinds if one["why"]]
    return stopped or [ok("reviewers", f"Reviewers come by themselves: {here.facts['reviewer_pool']}.")]


def _left_out(profile: Mapping[str, Any]) -> Finding:
    said = f"The profile '{profile['name']}' of the pool starts nothing: {profile['why']}."
    return problem("reviewers", said, "remove the cause, then: tandem reviewers resume")


def _not_found(program: str) -> Finding:
    said = f"The broker does not find the reviewers' program '{program}' on its own PATH: each reviewer ends at once."
    path = "install it, or name it with its whole path (command in [reviewer_pool]); then, in a shell that finds it: "
    return problem("reviewers", said, f"{path}{_RESTART}")


async def check_webhooks(here: DoctorContext) -> list[Finding]:
    """Whether events arrive where a person wants them posted to."""
    webhooks = await _listed(here, "webhooks")
    troubled = [_undelivered(one) for one in webhooks if one["stopped"] or one["problem"]]
    return troubled or [ok("webhooks", f"Every webhook receives its events ({len(webhooks)}).")]


async def check_mirrors(here: DoctorContext) -> list[Finding]:
    """Whether the broker can fetch the repositories that it keeps mirrors of."""
    mirrored = [one for one in await _listed(here, "projects") if one.get("mirror")]
    troubled = [_unfetched(one) for one in mirrored if one["mirror"]["problem"]]
    return troubled or [ok("mirrors", f"Every mirror of a project can be fetched ({len(mirrored)}).")]


async def _listed(here: DoctorContext, what: str) -> list[dict[str, Any]]:
    """What a broker has of webhooks or projects.

    Raises:
        Unseen: It does not say.
    """
    try:
        return (await here.require_call()(f"list_{what}", {}))[what]
    except TandemError as error:
        raise Unseen(f"The broker does not list its {what}: {error.message}") from error


def _unfetched(project: Mapping[str, Any]) -> Finding:
    mirror, name = project["mirror"], project["project"]
    is_refused = "deploy key" in mirror["problem"]
    cause = f"let it read the repository: {mirror['deploy_key']}" if is_refused else "remove the cause"
    again = f"tandem project add --mirror {shlex.quote(mirror['url'])} --name {shlex.quote(name)}"
    return problem(
        "mirrors",
        f"The broker cannot fetch its mirror of '{name}': {mirror['problem']}",
        f"{cause}; then: {again}",
    )


def _undelivered(webhook: Mapping[str, Any]) -> Finding:
    which = f"{webhook['webhook_id']} to {webhook['url']}"
    fix = f"tandem webhook test {webhook['webhook_id']}, or tandem webhook remove {webhook['webhook_id']}"
    if webhook["stopped"]:
        return problem("webhooks", f"Nothing is posted to the webhook {which}: its receiver answered 410 Gone.", fix)
    count = f"{webhook['failed']} given up, {webhook['waiting']} waiting"
    return problem("webhooks", f"Events do not arrive at the webhook {which} ({count}): {webhook['problem']}", fix)


def _stopped(pool: Mapping[str, Any]) -> Finding:
    said = f"The pool {pool['supervisor_id']} is {pool['state']}: {pool['why']}."
    if pool["state"] == "lost":
        return problem("reviewers", said, "start its supervisor again: tandem reviewers --broker URL")
    again = "tandem reviewers resume"
    return problem("reviewers", said, again if pool["state"] == "paused" else f"remove the cause, then: {again}")


def _caller(broker: BrokerLocation) -> Call:
    async def call(operation: str, arguments: Mapping[str, Any]) -> Any:
        async with TandemClient(broker, agent="doctor") as client:
            return await client.data(operation, arguments)

    return call


def _is_taken(port: int) -> bool:
    """Whether somebody listens at a port of this machine."""
    try:
        socket.create_connection(("127.0.0.1", port), _SECONDS).close()
    except OSError:
        return False
    return True


_REVIEW_SECONDS: Final = 300.0
_WAIT_SECONDS: Final = 10.0
_UNDECIDED: Final = {"pending", "claimed", "in_review"}
_LOOK: Final = "tandem reviewers list; tandem reviewers logs"
_DIFF: Final = """\
diff --git a/try.txt b/try.txt
--- a/try.txt
+++ b/try.txt
@@ -1 +1 @@
-This is a trial
+This is a trial.
"""


async def check_review(here: DoctorContext) -> list[Finding]:
    """Propose a full stop, and wait for what the pool's program says of it."""
    if not here.deep:
        return []
    call = here.require_call()
    if here.facts.get("reviewer_pool", "off") == "off":
        return [skipped("review", "There is no pool whose program could be tried.")]
    here.tell("waiting for a review by the pool")
    with ScratchFolder("doctor") as name:
        await asyncio.to_thread(_make_repository, Path(name))
        project = f"tandem-doctor-{secrets.token_hex(4)}"
        await call("register_project", {"root": name, "name": project})
        try:
            return [await _reviewed(call, project)]
        finally:
            with suppress(TandemError):
                await call("remove_project", {"name": project})


async def _reviewed(call: Call, project: str) -> Finding:
    intent = "A try by tandem doctor --deep: end the sentence with a full stop. Give any verdict."
    request = {"project": project, "intent": intent, "agent_type": "doctor", "diff": _DIFF}
    review_id = (await call("create_review", request))["review_id"]
    try:
        status = await _decided(call, project, review_id)
    finally:
        with suppress(TandemError):
            await call("close_review", {"review_id": review_id, "reason": "It was a try by tandem doctor."})
    if status["status"] not in _UNDECIDED:
        return ok("review", f"The pool's program reviewed a try: {status['status']}.")
    why = status.get("no_reviewer")
    if why:
        return problem("review", f"The pool's program gave no verdict: {why['message']}", why["remedy"])
    return problem("review", f"The pool's program gave no verdict in {_REVIEW_SECONDS:g} s.", _LOOK)


async def _decided(call: Call, project: str, review_id: str) -> dict[str, Any]:
    """The review's state, once there is a verdict, or a reason why none has come."""
    deadline, cursor = time.monotonic() + _REVIEW_SECONDS, None
    while True:
        request = {"project": project, "review_id": review_id, "wake_on": "any", "timeout_s": _WAIT_SECONDS}
        status = await call("get_review_status", {**request, "wait": cursor is not None, "cursor": cursor})
        is_over = status["status"] not in _UNDECIDED or bool(status.get("no_reviewer") or status.get("attention"))
        if is_over or time.monotonic() > deadline:
            return status
        cursor = status["cursor"]


def _make_repository(folder: Path) -> None:
    environment = clean_environment(NOBODY, isolated=True)
    (folder / "try.txt").write_text("This is a trial\n", "utf-8")
    for arguments in (
        ["init", "--quiet", "--template="],
        ["add", "try.txt"],
        ["commit", "--quiet", "-m", "start"],
    ):
        GIT.run(arguments, cwd=folder, environment=environment)
