"""The reviewer pool's settings: which program reviews, how it is called, their number and their limits.

They are the table `[reviewer_pool]` of the user's configuration. A repository may only tighten some of them: a
program, a model or a prompt comes from the person who runs the broker, or from a file that they have trusted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, cast, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from tandem.core import platforms
from tandem.errors import ConfigInvalid
from tandem.rulings.person import family
from tandem.settings import names
from tandem.settings.names import Mark, Tighten

TABLE: Final = "reviewer_pool"
"""The setting of the broker that holds these."""

AUTO: Final = "auto"
"""The workspace of each reviewer is its project's own folder."""

THROUGH_WSL: Final = platforms.STOPS_BY_FILE
"""Whether programs are run in the Windows Subsystem for Linux: where no signal reaches them otherwise."""

_QUIET_SPAN: Final = re.compile(r"(?P<start>(?:[01]\d|2[0-3]):[0-5]\d)-(?P<end>(?:[01]\d|2[0-3]):[0-5]\d|24:00)")
"""A part of the day, `22:00-07:00`; it may go across midnight."""

SAFE_WORD: Final = re.compile(r"(?!-)[A-Za-z0-9._:/-]{1,100}")
"""A word that can be an argument of a program without being taken for an option."""

PROFILE_NAME: Final = r"[a-z][a-z0-9-]{0,28}[a-z0-9]"
"""What a profile is called: it begins the ids of its reviewers."""

_TAKEN: Final = frozenset({"claude", "codex", "cursor", "custom", "gemini", "opencode", "other-provider"})
"""Words that `agent:` has a meaning for already."""
_NO_EFFORT: Final = "gemini"
"""The program that cannot be told how hard to think."""

_DISTRO: Final = re.compile(r"(?!-)[A-Za-z0-9._-]{1,64}")
_OF_THE_BROKER: Final = ("claim_timeout_seconds", "review_deadline_seconds")
_NO_CONTROL: Final = re.compile(r"[^\x00-\x1f\x7f]*")


def absolute_path(value: object) -> object:
    """A path without `~` that does not depend on where one stands; texts only."""
    if value == "":
        raise ValueError("a path cannot be empty")
    if isinstance(value, str) and "\0" in value:
        raise ValueError("a path has no NUL character")
    return Path(value).expanduser().absolute() if isinstance(value, str | Path) else value


def _listed(value: object) -> object:
    """A list of texts, never one text that somebody would have to take apart."""
    if isinstance(value, str):
        raise ValueError("write it as a list of texts, such as ['one', 'two']; nothing takes one text apart")  # noqa: TRY004 - pydantic reports ValueError only
    return value


Words = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Provider = Literal["codex", "claude", "gemini", "opencode", "custom"]
Effort = Literal["low", "medium", "high"]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Dollars = Annotated[float, Field(gt=0, le=1_000_000)]
Tokens = Annotated[int, Field(ge=1, le=10**12)]
ADVANCED, LOWER = Mark.ADVANCED, Tighten.LOWER


def _check_model(model: str | None) -> str | None:
    if model is not None and not SAFE_WORD.fullmatch(model):
        raise ValueError("use 1 to 100 letters, digits and . _ : / -, and no hyphen first")
    return model


def _check_command(command: tuple[str, ...]) -> tuple[str, ...]:
    if command and not command[0].strip():
        raise ValueError("the first text has to name a program")
    if any("\0" in word for word in command):
        raise ValueError("a program cannot be given a NUL character")
    return command


def _check_workspace(path: str) -> str:
    if path == AUTO:
        return path
    if not path.strip() or not _NO_CONTROL.fullmatch(path):
        raise ValueError(f"name a folder, or write '{AUTO}' for the one of each project")
    return str(absolute_path(path))


def _check_wsl_path(path: str | None) -> str | None:
    if path is not None and not (path.startswith("/") and _NO_CONTROL.fullmatch(path)):
        raise ValueError("write the folder as the distribution calls it, such as '/home/me/project'")
    return path


def _check_distro(name: str) -> str:
    if not _DISTRO.fullmatch(name):
        raise ValueError("use 1 to 64 letters, digits and . _ -, and no hyphen first")
    return name


def _check_quiet_hours(spans: tuple[str, ...]) -> tuple[str, ...]:
    for text in spans:
        found = _QUIET_SPAN.fullmatch(text)
        if found is None or found["start"] == found["end"]:
            raise ValueError(f"{text[:40]!r} is no part of the day; write '22:00-07:00', or '00:00-24:00' for all")
    return spans


Model = Annotated[str | None, AfterValidator(_check_model)]
Command = Annotated[Words, AfterValidator(_check_command)]


def _check_profile_name(name: str) -> str:
    if not re.fullmatch(PROFILE_NAME, name):
        raise ValueError("use 2 to 30 small letters, digits and hyphens; a letter first, and no hyphen at the end")
    if name in _TAKEN or family(name) is not None:
        raise ValueError(f"'{name}' has another meaning in a policy; choose another word")
    return name


def _check_rubric(value: object) -> object:
    texts: Any = (value,) if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(
        isinstance(one, str) and one.strip() for one in cast("tuple[object, ...]", texts)
    ):
        raise ValueError("write a list of headings, such as ['Security'], or a text")
    return value


def _tables(value: object) -> object:
    if not isinstance(value, list | tuple):
        raise ValueError(f"each profile is a table of a list: [[{TABLE}.profile]]")  # noqa: TRY004 - pydantic reports ValueError only
    return cast("object", value)


class PlainSettings(BaseModel):
    """Settings of which no value passes for another one."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @field_validator("*", mode="before")
    @classmethod
    def _plain(cls, value: object, about: ValidationInfo) -> object:
        kind = cls.model_fields[about.field_name or ""].annotation
        if isinstance(value, bool) and bool not in (kind, *get_args(kind)):
            raise ValueError("it is true or false; write the value itself")
        if isinstance(value, str) and "\0" in value:
            raise ValueError("it has a NUL character")
        return value


class ProfileSettings(PlainSettings):
    """One kind of reviewers of the pool; the pool's settings hold for all that it leaves out."""

    name: Annotated[str, AfterValidator(_check_profile_name)] = Field(
        description="A word, by which a policy asks for it: `agent:NAME`."
    )
    provider: Provider | None = Field(default=None, description="The client program that reviews.")
    command: Command = Field(
        default=(), repr=False, description="How the program is called; `custom` needs it here or in the pool."
    )
    model: Model = Field(default=None, description="The model; of another provider than the pool's: its default.")
    effort: Effort | None = Field(default=None, description="How hard the model thinks; Gemini CLI cannot be told.")
    rubric: Annotated[tuple[str, ...] | str, BeforeValidator(_check_rubric)] = Field(
        default=(), description="The subject that it judges: a list of headings in `REVIEW.md`, or a text."
    )
    paths: Words = Field(default=(), description="Patterns: it takes only reviews that change such a path.")
    projects: Words = Field(default=(), description="It takes only reviews of these projects.")
    budget_per_review: Dollars | None = Field(
        default=None, description="The profile starts nothing more, until a person resumes it, when one run cost more."
    )
    budget_per_day: Dollars | None = Field(
        default=None, description="It starts nothing more until midnight UTC when its runs of a day cost as much."
    )
    token_budget_per_review: Tokens | None = Field(default=None, description="As budget_per_review, in tokens.")
    token_budget_per_day: Tokens | None = Field(default=None, description="As budget_per_day, in tokens.")
    voting: bool = Field(
        default=True, description="Whether its verdicts count; else it only adds findings, which keep nothing back."
    )
    allow_failure: bool = Field(
        default=False, description="Whether a run that fails is not tried again, and holds nothing up."
    )


class PoolSettings(PlainSettings):
    """Everything that can be set of the reviewer pool. Durations are seconds, sizes bytes, budgets US dollars."""

    enabled: Annotated[bool, Tighten.OFF] = Field(default=False, description="Start reviewers when proposals wait.")
    provider: Provider = Field(default="codex", description="The client program that reviews.")
    command: Command = Field(
        default=(),
        repr=False,
        description="How the program is called, as a list; default: by the provider's name. `custom` needs it.",
    )
    mode: Literal["worker", "agent"] = Field(
        default="worker",
        description="worker: Tandem claims and submits, the program only answers; agent: the program does it over MCP.",
    )
    model: Model = Field(default=None, description="The model, in the program's own words; default: the program's.")
    allowed_models: Words = Field(default=(), description="If there are any: the only models that may be set.")
    reasoning_effort: Effort = Field(
        default="high", description="How hard the model thinks, where the program can be told."
    )
    workspace_path: Annotated[str, Mark.NAMES_FILES, AfterValidator(_check_workspace)] = Field(
        default=AUTO,
        description="Folder that reviewers read; `auto`: the folder of the project that they review.",
    )
    workspace_wsl_path: Annotated[str | None, AfterValidator(_check_wsl_path)] = Field(
        default=None, description="On Windows: that folder as the distribution calls it; it is never translated."
    )
    wsl_distro: Annotated[str, AfterValidator(_check_distro)] = Field(
        default="Ubuntu", description="On Windows: the distribution of WSL that has the program."
    )
    max_pool_size: Annotated[int, LOWER] = Field(default=3, ge=1, le=10, description="Most reviewers at a time.")
    min_pool_size: Annotated[int, LOWER, ADVANCED] = Field(
        default=0, ge=0, le=10, description="Reviewers that are kept although nothing waits."
    )
    scaling_ratio: Annotated[float, Tighten.HIGHER, ADVANCED] = Field(
        default=3,
        ge=1,
        le=100,
        description="One more is started when more reviews wait than so many for each reviewer.",
    )
    idle_timeout_seconds: Annotated[Seconds, LOWER] = Field(
        default=300, ge=60, description="A reviewer without work for so long ends."
    )
    max_ttl_seconds: Annotated[Seconds, LOWER, ADVANCED] = Field(
        default=3600, ge=300, description="A reviewer takes no new work after so long; it finishes its review."
    )
    spawn_cooldown_seconds: Annotated[float, Tighten.HIGHER, ADVANCED] = Field(
        default=10, ge=0, le=86_400, description="Least time between two starts."
    )
    background_check_interval_seconds: Annotated[Seconds, ADVANCED] = Field(
        default=30, ge=1, description="Longest time between two looks at the queue; every proposal is a look too."
    )
    prompt_template_path: Annotated[Path | None, BeforeValidator(absolute_path)] = Field(
        default=None, description="File of the prompt; default: the one that comes with Tandem."
    )
    budget_per_review: Annotated[Dollars | None, LOWER] = Field(
        default=None, description="The pool pauses when one run cost more."
    )
    budget_per_day: Annotated[Dollars | None, LOWER] = Field(
        default=20, description="The pool pauses when a day's runs, in UTC, cost as many US dollars."
    )
    token_budget_per_review: Annotated[Tokens | None, LOWER] = Field(
        default=None, description="As budget_per_review, in tokens."
    )
    token_budget_per_day: Annotated[Tokens | None, LOWER] = Field(
        default=20_000_000, description="As budget_per_day, in tokens."
    )
    quiet_hours: Annotated[Words, Tighten.LONGER, AfterValidator(_check_quiet_hours)] = Field(
        default=(), description="Parts of the day in which nothing is started: `22:00-07:00`, in local time."
    )
    retry_delay_seconds: Annotated[Seconds, Tighten.HIGHER, ADVANCED] = Field(
        default=30, description="After a run without a verdict the review waits so long, and longer each time."
    )
    attempt_seconds: Annotated[Seconds, LOWER] = Field(
        default=1800, description="The longest that one run of the program may take."
    )
    checks_wait_seconds: Annotated[float, ADVANCED] = Field(
        default=900, ge=0, le=86_400, description="How long a reviewer waits for the checks of its review to end."
    )
    start_seconds: Annotated[Seconds, LOWER, ADVANCED] = Field(
        default=180, description="The longest until the program's first output."
    )
    silence_seconds: Annotated[Seconds, LOWER, ADVANCED] = Field(
        default=600,
        description=(
            "The longest that the program neither writes nor uses the processor; then it hangs, and is ended. After"
            " half of it the reviewer is called silent."
        ),
    )
    grace_seconds: Annotated[float, ADVANCED] = Field(
        default=10, gt=0, le=600, description="From the request to end to the kill."
    )
    drain_seconds: Annotated[float, ADVANCED] = Field(
        default=10, ge=0, le=86_400, description="How long the broker's stop waits for reviews that are under way."
    )
    output_bytes: Annotated[int, LOWER, ADVANCED] = Field(
        default=16_000_000, ge=10_000, le=10**9, description="How much of a program's output is kept: the end of it."
    )
    log_max_bytes: Annotated[int, ADVANCED] = Field(
        default=5_000_000, ge=10_000, le=2**31, description="Size at which a reviewer's log is rotated."
    )
    log_backups: Annotated[int, ADVANCED] = Field(
        default=2, ge=0, le=100, description="Rotated logs that are kept of each reviewer."
    )
    profile: Annotated[tuple[ProfileSettings, ...], BeforeValidator(_tables)] = Field(
        default=(), max_length=20, description="Kinds of reviewers, each a table `[[reviewer_pool.profile]]`."
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_what_belongs_elsewhere(cls, value: object) -> object:
        if isinstance(value, Mapping):
            for name in _OF_THE_BROKER:
                if name in value:
                    raise ValueError(f"{name} is a setting of the broker itself; write it outside this table")
        return cast("object", value)

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.provider == "custom" and not self.command:
            raise ValueError("the provider 'custom' needs a command: a list of a program and its arguments")
        if self.allowed_models and self.model not in self.allowed_models:
            stated = "no model is set" if self.model is None else f"the model '{self.model}' is not among them"
            raise ValueError(f"allowed_models has {', '.join(self.allowed_models)}, and {stated}; set model to one")
        self._check_profiles()
        if self.min_pool_size > self.max_pool_size:
            raise ValueError(f"min_pool_size ({self.min_pool_size}) is over max_pool_size ({self.max_pool_size})")
        if THROUGH_WSL and self.enabled and self.workspace_wsl_path is None:
            raise ValueError(
                "on Windows reviewers run in WSL: set workspace_wsl_path to the repository's folder in there"
            )
        return self

    def _check_profiles(self) -> None:
        if self.profile and self.mode == "agent":
            raise ValueError("profile needs the mode 'worker': a program that reviews by itself is given no rubric")
        named = [one.name for one in self.profile]
        for one in self.profile:
            own, where = self.of(one.name), f"profile '{one.name}'"
            if named.count(one.name) > 1:
                raise ValueError(f"{where} is there more than once")
            if own.provider == "custom" and not own.command:
                raise ValueError(f"{where}: the provider 'custom' needs a command")
            if one.effort is not None and own.provider == _NO_EFFORT:
                raise ValueError(f"{where}: effort: the program of '{_NO_EFFORT}' cannot be told; leave it out")
            if self.allowed_models and own.model not in self.allowed_models:
                raise ValueError(f"{where}: model: allowed_models has {', '.join(self.allowed_models)}; set one")

    def kinds(self) -> list[Self]:
        """The settings by which reviewers run: of each profile, or the pool's own."""
        return [self.of(one.name) for one in self.profile] or [self]

    def of(self, profile: str | None) -> Self:
        """The settings by which a profile's reviewers run; the pool's own for None.

        Raises:
            ConfigInvalid: There is no such profile.
        """
        if profile is None:
            return self
        one = next((one for one in self.profile if one.name == profile), None)
        if one is None:
            raise ConfigInvalid(f"The reviewer pool has no profile '{profile}' any more.", setting=f"{TABLE}.profile")
        stated = {"provider": one.provider, "model": one.model, "reasoning_effort": one.effort}
        own = {name: value for name, value in stated.items() if value is not None}
        if one.provider not in (None, self.provider):
            own = {"model": None, "command": (), **own}
        return self.model_copy(update=own | ({"command": one.command} if one.command else {}))


def is_quiet(spans: Iterable[str], now_local: datetime) -> bool:
    """Whether a time, as people there read it from the clock, lies in one of `quiet_hours`.

    The time is compared, never computed with: a day on which the clock is set forward or back has its quiet
    hours by the clock like every other.
    """
    now = now_local.strftime("%H:%M")
    parts = (span.partition("-") for span in spans)
    return any(start <= now < end if start < end else not end <= now < start for start, _, end in parts)


def load(table: object) -> PoolSettings:
    """The settings from a table of the configuration.

    Args:
        table: The table, an object of JSON, or settings that were read already.

    Raises:
        ConfigInvalid: A key that is unknown, or a value that cannot be used; the message and `details.setting` name it.
    """
    if isinstance(table, PoolSettings):
        return table
    if not isinstance(table, Mapping):
        raise ConfigInvalid(f"{TABLE}: it must be a table, such as [{TABLE}] begins.", setting=TABLE, expected="table")
    try:
        return PoolSettings.model_validate(dict(cast("Mapping[str, Any]", table)))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        problem, place = first["msg"].removeprefix("Value error, "), first["loc"]
        if place[:1] == ("profile",) and len(place) > 1:
            # Counted from 1, as people do.
            where = f"{TABLE}.profile[{int(place[1]) + 1}]"
            raise _refused(ProfileSettings, where, place[2:], problem) from None
        raise _refused(PoolSettings, TABLE, place, problem) from None


def _refused(model: type[BaseModel], where: str, place: tuple[int | str, ...], problem: str) -> ConfigInvalid:
    """The error for a table of the configuration; `place` leads from there to the mistake."""
    if not place:
        return ConfigInvalid(f"{where}: {problem}.", setting=where, problem=problem)
    key, setting = str(place[0]), f"{where}.{place[0]}"
    field = model.model_fields.get(key)
    if field is None:
        allowed = sorted(model.model_fields)
        return ConfigInvalid(f"{where}: {names.unknown(key, allowed)}", setting=setting, allowed=allowed)
    return ConfigInvalid(f"{setting}: {problem}. {field.description}", setting=setting, problem=problem)
