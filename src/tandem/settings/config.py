"""The settings: their names and types, where they may be set, and which place won.

Nearest wins: flags, `TANDEM_*` variables, the project's `.tandem/config.toml`, the user's `config.toml`,
defaults. A project's file, and `reviewer_pool` in GSD's `.planning/config.json`, may only make the settings that say so
stricter: a committer must not choose programs, models, prompts or limits for the people who check the repository
out. The rest is ignored, and reported. A file that a person has trusted by its hash (`tandem trust`) counts as
their own configuration does.
"""

from __future__ import annotations

import difflib
import ipaddress
import json
import os
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)

from tandem.core import platforms
from tandem.errors import ConfigInvalid
from tandem.rulings import planning, trust
from tandem.settings import names, workflows
from tandem.settings import pool as pool_settings
from tandem.settings.names import Mark, Tighten
from tandem.settings.policy import DEFAULT_PATTERNS
from tandem.settings.pool import PlainSettings, PoolSettings, Seconds, absolute_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PREFIX = "TANDEM_"
CONFIG_DIR_VARIABLE = "TANDEM_CONFIG_DIR"
USER_FILE = "config.toml"
PROJECT_FILE = Path(".tandem", "config.toml")
DEFAULT_PORT = 8321

_NEAR = 0.75
"""How much of a variable's name has to be right to be taken for a setting."""
_OWN = "use your own configuration, or have a person run 'tandem trust'"

# As much as could be a password, since hiding too much does no harm.
_PASSWORD_BEFORE_HOST = re.compile(r"(://[^/@:]*):.*@")
_PASSWORD_IN_QUERY = re.compile(r"(?i)([?&][^=&]*pass[^=&]*=)[^&]*")


Value = tuple[Any, str]
"""A setting's value and where it comes from."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """A value that was found and not used.

    Attributes:
        key: The setting as it was written.
        origin: The file or variable.
        reason: Why, and what would be allowed.
    """

    key: str
    origin: str
    reason: str

    @property
    def is_variable(self) -> bool:
        """Whether it is one of the environment, which `unset` removes."""
        return self.origin.startswith(PREFIX)


def _comma_separated(value: object) -> object:
    if not isinstance(value, str):
        return value
    return tuple(part.strip() for part in value.split(",") if part.strip())


def _addresses_or_networks(stated: tuple[str, ...]) -> tuple[str, ...]:
    """The same, if each is one."""
    for one in stated:
        try:
            ipaddress.ip_network(one)
        except ValueError as error:
            raise ValueError(f"{error}; use 10.0.0.2 or 10.0.0.0/24") from None
    return stated


def _from_json(value: object) -> object:
    """What a variable of the environment says as JSON; anything but a text as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this is not valid JSON: {error}") from None


def _sound_workflows(tables: dict[str, Any]) -> dict[str, Any]:
    """The tables as they are; a ConfigInvalid says which of them cannot be used."""
    workflows.load(tables)
    return tables


def _sound_pool(table: object) -> PoolSettings:
    """The pool's settings; a ConfigInvalid says which of them cannot be used."""
    return pool_settings.load(_from_json(table))


Bytes = Annotated[int, Field(ge=1, le=2**31)]


AbsolutePath = Annotated[Path, BeforeValidator(absolute_path)]
CommaSeparated = Annotated[tuple[str, ...], BeforeValidator(_comma_separated)]
ADVANCED, AT_ONCE, LOWER = Mark.ADVANCED, Mark.AT_ONCE, Tighten.LOWER


class Settings(PlainSettings):
    """Everything that can be set. Durations are seconds, sizes bytes."""

    model_config = ConfigDict(validate_default=True)

    auth: Literal["trusted", "token"] = Field(
        "trusted",
        description="trusted: everyone who reaches the port may do everything; token: calls need an access token.",
    )
    host: str = Field("127.0.0.1", min_length=1, description="Address to listen on; loopback only without tokens.")
    port: int = Field(DEFAULT_PORT, ge=0, le=65_535, description="Port to listen on; 0 takes a free one.")
    data_dir: AbsolutePath = Field(
        default_factory=lambda: Path(platforms.data_dir()),
        description="Folder of the database, logs, archives, secret key and instance lock.",
    )
    database_url: Annotated[str | None, Mark.NAMES_FILES] = Field(
        None,
        repr=False,
        pattern=r"^(sqlite:///.+|postgres(ql)?://.+)$",
        description="`sqlite:///path` or `postgresql://…`; default: SQLite in the data folder.",
    )
    durability: Annotated[Literal["full", "normal"], Tighten.FULL] = Field(
        "full",
        description="full: an acknowledged write survives loss of power; normal: only the end of the process.",
    )
    reader_threads: Annotated[int | None, ADVANCED] = Field(
        None,
        ge=1,
        le=64,
        description="Threads (and connections) that read the database; default: 2, and 4 on PostgreSQL.",
    )
    wait_max_seconds: Annotated[Seconds, LOWER, ADVANCED, AT_ONCE] = Field(
        50, description="The longest that one call waits."
    )
    claim_timeout_seconds: Annotated[Seconds, LOWER, AT_ONCE] = Field(
        1200, ge=1, description="Lease of a claim that is not renewed."
    )
    review_deadline_seconds: Annotated[Seconds, LOWER, ADVANCED, AT_ONCE] = Field(
        3600,
        ge=1,
        description="The longest that a claim can be renewed.",
    )
    sweep_interval_seconds: Annotated[Seconds, ADVANCED] = Field(
        5, description="Time between two looks for expired claims."
    )
    checkpoint_interval_seconds: Annotated[Seconds, ADVANCED] = Field(
        60, description="Time between two checkpoints of the event log."
    )
    diff_limit_bytes: Annotated[Bytes, LOWER, AT_ONCE] = Field(5_000_000, description="Largest diff.")
    inflated_limit_bytes: Annotated[Bytes, LOWER, ADVANCED] = Field(
        50_000_000,
        description="Most bytes, without compression, of all files that one change touches; a git that validates it may"
        " take eight times as much memory, and 128 MB.",
    )
    text_limit_bytes: Annotated[Bytes, LOWER, ADVANCED, AT_ONCE] = Field(256_000, description="Largest single text.")
    body_limit_bytes: Annotated[Bytes, LOWER, ADVANCED] = Field(16_000_000, description="Largest request body.")
    page_limit: Annotated[int, LOWER, ADVANCED, AT_ONCE] = Field(
        200, ge=200, le=10_000, description="Most rows of one page. Tandem's own commands and pages ask for 200."
    )
    git_executable: str = Field("git", min_length=1, description="The git program, by name or path.")
    git_timeout_seconds: Annotated[Seconds, LOWER, ADVANCED] = Field(10, description="Time limit of one git command.")
    mirror_timeout_seconds: Annotated[Seconds, ADVANCED] = Field(
        600, description="The longest that one fetch of a project's mirror takes."
    )
    mirror_limit_bytes: Annotated[Bytes, ADVANCED] = Field(
        2_000_000_000, description="Most bytes of a project's mirror."
    )
    checks_at_once: int = Field(
        2, ge=0, le=64, description="Checks that run at the same time; 0: none in this process."
    )
    check_disk_bytes: Annotated[int, ADVANCED, AT_ONCE] = Field(
        5_000_000_000, ge=1_000_000, le=2**50, description="How much one check may write before it is ended."
    )
    checks_readable: Annotated[tuple[AbsolutePath, ...], BeforeValidator(_comma_separated), Mark.READABLE] = Field(
        (),
        description="Folders in your home that checks may read, e.g. that of a compiler; separated by commas.",
    )
    checks_on_tip: Annotated[bool, Tighten.ON] = Field(
        default=False,
        description="Whether the gate opens only for checks that ran on what their base branch is now; without it a run"
        " counts when the branch has moved on since.",
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], AT_ONCE] = Field(
        "info", description="Least level that is logged."
    )
    log_backups: Annotated[int, ADVANCED] = Field(5, ge=0, le=1000, description="Rotated log files that are kept.")
    tls_certificate_file: AbsolutePath | None = Field(
        None,
        description="Certificate (PEM, with those between it and its CA): the broker then also listens with TLS, at"
        " `tls_port` of `host`, and without at the loopback only. Read again when it changes.",
    )
    tls_key_file: AbsolutePath | None = Field(
        None, description="The certificate's private key (PEM, without a password); default: in the same file."
    )
    tls_port: int = Field(8443, ge=0, le=65_535, description="Port to listen on with TLS; 0 takes a free one.")
    ca_file: Annotated[AbsolutePath | None, AT_ONCE] = Field(
        None,
        description="For clients: certificates (PEM) of a CA of your own, trusted beside those of the system.",
    )
    allowed_hosts: CommaSeparated = Field(
        (), description="Further names that a Host header may carry; separated by commas."
    )
    trusted_proxies: Annotated[
        tuple[str, ...], BeforeValidator(_comma_separated), AfterValidator(_addresses_or_networks)
    ] = Field(
        (),
        description="Addresses and networks of proxies whose `X-Forwarded-For`, `-Proto` and `-Host` are believed;"
        " separated by commas.",
    )
    rate_limit_per_minute: int = Field(
        6000,
        ge=0,
        le=10_000_000,
        description="Requests a minute for each token's name, and for each address without a token; 0: any number.",
    )
    rate_limit_burst: int = Field(
        2000, ge=1, le=10_000_000, description="Requests that may come at once, above that rate."
    )
    fast_path: Annotated[bool, ADVANCED] = Field(
        default=True, description="Answer tool calls by Tandem's own code path rather than the SDK's."
    )
    idempotency_ttl_seconds: Annotated[float, ADVANCED, AT_ONCE] = Field(
        86_400, ge=1, le=2_592_000, description="How long the answer to an idempotency key is kept."
    )
    workflows: Annotated[dict[str, Any], BeforeValidator(_from_json), AfterValidator(_sound_workflows)] = Field(
        default_factory=dict[str, Any],
        description="Hand-off workflows by name, besides the built-in `frontend-backend`; the variable holds JSON.",
    )
    session_idle_seconds: Annotated[float, ADVANCED, AT_ONCE] = Field(
        43_200, ge=1, le=2_592_000, description="A hand-off session that is not used for so long ends."
    )
    webhook_retry_seconds: Annotated[Seconds, AT_ONCE] = Field(
        5, description="How long after a first failure a webhook is tried again; four times as long each time."
    )
    webhook_give_up_seconds: Annotated[float, AT_ONCE] = Field(
        259_200, gt=0, le=2_592_000, description="How long an event is tried at a webhook before it is given up."
    )
    retention_days: float = Field(
        0,
        ge=0,
        le=36_500,
        description="Days after which a closed review or archived cycle loses its contents; 0: it keeps them.",
    )
    archive_dir: Annotated[AbsolutePath | None, ADVANCED] = Field(
        None, description="Folder of archived hand-off cycles; default: `archives` in the data folder."
    )
    secret_key_file: Annotated[AbsolutePath | None, ADVANCED] = Field(
        None,
        description="File of the key that tokens are derived from; default: `secret.key` in the data folder.",
    )
    gate_exempt: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=1000)], ...], BeforeValidator(_comma_separated)
    ] = Field(
        DEFAULT_PATTERNS,
        description="Paths that need no approval, as patterns from the repository's root: `*` and `?` within a"
        " folder, `**` through folders; separated by commas.",
    )
    owners: Annotated[
        tuple[Annotated[str, Field(pattern=r"^\S+=\S.*$", max_length=1000)], ...],
        BeforeValidator(_comma_separated),
        AT_ONCE,
    ] = Field(
        (),
        description="Who the owners in a project's CODEOWNERS are, each as `@ORG/TEAM=NAME` and several for a team; a"
        " person NAME is `@NAME` without that. Separated by commas.",
    )
    verify_command: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_from_json)] = Field(
        (),
        repr=False,
        description="Command whose exit status says whether a rolled back plan still works, as a list;"
        " default: none. The variable holds JSON.",
    )
    landing_strategy: Annotated[Literal["merge", "squash", "ff"], AT_ONCE] = Field(
        "merge",
        description="How `tandem land` brings a branch to its base branch: a merge commit, one commit of all of it, or"
        " ff: a fast-forward only.",
    )
    landing_remote: Annotated[str | None, AT_ONCE] = Field(
        None,
        min_length=1,
        description="The remote whose branch `tandem land` moves; default: none, but the one here.",
    )
    reviewer_pool: Annotated[PoolSettings, BeforeValidator(_sound_pool), AT_ONCE] = Field(
        PoolSettings(),
        description="Reviewers that the broker runs by itself: the table `[reviewer_pool]`; the variable holds JSON.",
    )

    @property
    def database(self) -> str:
        """The database's URL, the default included; may hold a password."""
        return self.database_url or f"sqlite:///{(self.data_dir / 'tandem.db').as_posix()}"

    @property
    def log_file(self) -> Path:
        """The broker's log, JSON lines; rotated ones stand beside it."""
        return self.data_dir / "logs" / "broker.jsonl"

    @property
    def reviewer_logs(self) -> Path:
        """The folder of the logs of this machine's reviewers, of every supervisor."""
        return self.log_file.parent / "reviewers"

    @property
    def archives(self) -> Path:
        """The folder of archived cycles, the default included."""
        return self.archive_dir or self.data_dir / "archives"

    @property
    def secret_key(self) -> Path:
        """The file of the broker's key, the default included; not the key itself."""
        return self.secret_key_file or self.data_dir / "secret.key"


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The settings and where they come from.

    Attributes:
        settings: The values.
        origins: For each setting, `default`, a file, a variable or a flag.
        ignored: Values that were found and not used.
        trusted: The project's files that count in full because a person trusted them.
        pool_origins: For each of the pool's settings that the project changed, the file.
    """

    settings: Settings
    origins: Mapping[str, str]
    ignored: tuple[Ignored, ...]
    trusted: tuple[str, ...] = ()
    pool_origins: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True)
class _ProjectFileSettings:
    """What the files of a project come to.

    Attributes:
        values: By setting, what counts, with its file.
        pool_origins: For each setting of the pool that counts, its file.
        ignored: What does not count, and why.
        trusted: The files that count because a person trusted them.
    """

    values: dict[str, Value] = field(default_factory=dict[str, Value])
    pool_origins: dict[str, str] = field(default_factory=dict[str, str])
    ignored: list[Ignored] = field(default_factory=list[Ignored])
    trusted: list[str] = field(default_factory=list[str])


_Layer = dict[str, Value]
"""What one place says: value and origin by setting."""


def load_settings(
    flags: Mapping[str, Any] | None = None,
    project_root: Path | None = None,
    last_run: tuple[Path, Mapping[str, Any]] | None = None,
) -> LoadedSettings:
    """Read all sources and merge them.

    Args:
        flags: Settings given on the command line; those that are None were not given.
        project_root: The repository whose `.tandem/config.toml` counts; None for the broker itself.
        last_run: The record of the broker's last run, and its settings, which count where no other source has them.

    Raises:
        ConfigInvalid: An unknown key or a value that cannot be used; names the place, the key and
            the values that are allowed.
    """
    user = _layer(_parsed(user_file(), _read(user_file())), str(user_file()))
    project = _project(project_root, user) if project_root is not None else _ProjectFileSettings()
    stated = {**user, **project.values, **_environment_layer(), **_flags_layer(flags or {})}
    record, options = last_run or (Path(), {})
    earlier = {key: value for key, value in options.items() if key not in stated}
    merged = {**_layer(earlier, str(record)), **stated}
    settings = Settings.model_validate({key: value for key, (value, _) in merged.items()})
    origins = {key: merged[key][1] if key in merged else "default" for key in Settings.model_fields}
    pool = project.pool_origins if merged.get(pool_settings.TABLE) is project.values.get(pool_settings.TABLE) else {}
    ignored = (*project.ignored, *_unknown_variables())
    return LoadedSettings(settings, origins, ignored, tuple(project.trusted), pool)


def user_file() -> Path:
    """Where the user's own configuration is, whether or not it exists."""
    return Path(os.environ.get(CONFIG_DIR_VARIABLE) or platforms.config_dir()) / USER_FILE


def masked(key: str, value: Any) -> Any:
    """A setting's value as it may be shown: JSON, and without the database's password."""
    if key == "database_url" and isinstance(value, str):
        return _PASSWORD_IN_QUERY.sub(r"\1***", _PASSWORD_BEFORE_HOST.sub(r"\1:***@", value))
    if isinstance(value, PoolSettings):
        return value.model_dump(mode="json", exclude_defaults=True)
    if isinstance(value, tuple):
        return [masked(key, one) for one in cast("tuple[Any, ...]", value)]
    return str(value) if isinstance(value, Path) else value


def _layer(stated: Mapping[str, Any], origin: str) -> _Layer:
    return {key: (_checked(key, value, origin), origin) for key, value in stated.items()}


def _environment_layer() -> _Layer:
    variables = {key: PREFIX + key.upper() for key in Settings.model_fields}
    stated = {key: (text, name) for key, name in variables.items() if (text := os.environ.get(name))}
    return {key: (_checked(key, text, name), name) for key, (text, name) in stated.items()}


def _unknown_variables() -> Iterator[Ignored]:
    """Variables that are called nearly as one that there is."""
    known = {*Settings.model_fields, *names.VARIABLES}
    for variable in sorted(name for name in os.environ if name.startswith(PREFIX)):
        key = variable.removeprefix(PREFIX).lower()
        near = difflib.get_close_matches(key, known, 1, _NEAR)
        if key not in known and near:
            reason = f"there is no such variable. Did you mean {PREFIX}{near[0].upper()}?"
            yield Ignored(key, variable, reason)


def _flags_layer(flags: Mapping[str, Any]) -> _Layer:
    stated = {key: (value, "--" + key.replace("_", "-")) for key, value in flags.items() if value is not None}
    return {key: (_checked(key, value, flag), flag) for key, (value, flag) in stated.items()}


def _project(root: Path, user: _Layer) -> _ProjectFileSettings:
    """What the project's files come to: what tightens, or what a person has trusted.

    Raises:
        ConfigInvalid: A trusted file, or one that tightens, has a value that cannot be used.
    """
    path, says = root / PROJECT_FILE, _ProjectFileSettings()
    content, origin = _read(path), str(path)
    document = _parsed(path, content)
    if document and _trusts(root, trust.PROJECT_FILE, content):
        says.trusted.append(origin)
        says.values = _layer(document, origin)
    else:
        for key, raw in document.items():
            _tighten(key, raw, origin, user, says)
    _add_pool(root, user, says)
    return says


def ensure_usable(path: Path, content: bytes) -> None:
    """See that a project's file could count in full, before a person is asked to trust it.

    Raises:
        ConfigInvalid: It is no TOML, or names a setting that there is not, or a value that cannot be used.
    """
    _layer(_parsed(path, content), str(path))


def _trusts(root: Path, file: str, content: bytes) -> bool:
    project = planning.trusted_as(str(root))
    return trust.is_trusted(str(user_file().parent), project, file, trust.digest(file, content))


def _tighten(key: str, raw: Any, origin: str, user: _Layer, says: _ProjectFileSettings) -> None:
    if key in Settings.model_fields and names.direction(Settings, key) is not None:
        value = _checked(key, raw, origin)
        current = user[key][0] if key in user else Settings.model_fields[key].get_default()
        refusal = names.loosening(Settings, key, current, value)
    elif key in Settings.model_fields:
        value, refusal = None, f"a repository may not set this; {_OWN}"
    else:
        value, refusal = None, names.unknown(key, Settings.model_fields)
    if refusal is None:
        says.values[key] = (value, origin)
    else:
        says.ignored.append(Ignored(key, origin, refusal))


def _add_pool(root: Path, user: _Layer, says: _ProjectFileSettings) -> None:
    """Lay `reviewer_pool` of GSD's file over that of the user, file by file."""
    before = says.values.get(pool_settings.TABLE) or user.get(pool_settings.TABLE)
    settings = cast("PoolSettings", before[0]) if before else PoolSettings()
    for source in planning.read(str(root)).sources:
        table = source.says.get(planning.POOL)
        if not isinstance(table, dict) or not table:
            continue
        stated = cast("dict[str, Any]", table)
        origin = str(Path(planning.project_root(str(root)), *source.file.split("/")))
        if _trusts(root, source.file, source.content):
            says.trusted.append(origin)
            settings = _replaced(settings, stated, origin)
            taken = set(stated)
        else:
            settings, taken = _tightened(settings, stated, origin, says)
        says.pool_origins |= dict.fromkeys(sorted(taken), origin)
        if taken:
            says.values[pool_settings.TABLE] = (settings, origin)


def _replaced(settings: PoolSettings, stated: Mapping[str, Any], origin: str) -> PoolSettings:
    try:
        return pool_settings.load({**settings.model_dump(exclude_unset=True), **stated})
    except ConfigInvalid as error:
        raise ConfigInvalid(f"{origin}: {error.message}", **{**error.details, "origin": origin}) from None


def _tightened(
    settings: PoolSettings, stated: Mapping[str, Any], origin: str, says: _ProjectFileSettings
) -> tuple[PoolSettings, set[str]]:
    """The settings after those values that make them stricter, and which these are."""
    taken: set[str] = set()
    for key, value in stated.items():
        try:
            changed = _replaced(settings, {key: value}, origin)
            old, new = getattr(settings, key), getattr(changed, key)
            refusal = None if old == new else names.loosening(PoolSettings, key, old, new)
            if refusal is None:
                settings = changed
                taken.add(key)
                continue
            reason = f"{refusal}; {_OWN}"
        except ConfigInvalid as error:
            reason = error.message
        says.ignored.append(Ignored(f"{pool_settings.TABLE}.{key}", origin, reason))
    return settings, taken


def _read(path: Path) -> bytes:
    """A file's content; nothing if there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise ConfigInvalid(f"{path} cannot be read: {error.strerror}.", origin=str(path)) from error


def _parsed(path: Path, content: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigInvalid(f"{path} is not valid TOML: {error}.", origin=str(path)) from error


def _checked(key: str, value: Any, origin: str) -> Any:
    """The value as the setting's own type."""
    field = Settings.model_fields.get(key)
    if field is None:
        allowed = sorted(Settings.model_fields)
        raise ConfigInvalid(
            f"{origin}: {names.unknown(key, allowed)}",
            setting=key,
            origin=origin,
            allowed=allowed,
        )
    try:
        return getattr(Settings.model_validate({key: value}), key)
    except ConfigInvalid as error:
        raise ConfigInvalid(f"{origin}: {error.message}", **{**error.details, "origin": origin}) from None
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False, include_input=False)[0]["msg"]
        problem = problem.removeprefix("Value error, ")
        raise ConfigInvalid(
            f"{origin}: {key}: {problem}. {field.description}",
            setting=key,
            origin=origin,
            problem=problem,
            allowed=_allowed(key),
        ) from None


def _allowed(key: str) -> dict[str, Any]:
    """What the setting accepts, as JSON Schema says it."""
    schema: dict[str, Any] = Settings.model_json_schema()["properties"][key]
    shown = {name: value for name, value in schema.items() if name not in {"title", "description"}}
    return json.loads(json.dumps(shown, default=str))
