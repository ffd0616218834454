"""A client program that reviews, and its clean room: paths, a small environment, a copied login.

A program that reviews sees nothing of the user's configuration. Its home folder is a fresh one in the run's
scratch folder; of the environment it gets the variables listed here and by its provider, and no others.
"""

from __future__ import annotations

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

from tandem.bridge import credentials
from tandem.errors import ConfigInvalid
from tandem.pool.reviewers import (
    HOME_FOLDER,
    REENTRY_VARIABLE,
    SUPERVISOR_VARIABLE,
    TEMPORARY_FOLDER,
    Finished,
    Invocation,
    ProgramOutput,
    RunContext,
    wsl,
)

_FILE_LIMIT_BYTES = 1024 * 1024

SAVED: Final = "a saved login"
"""In place of a variable: a file in the home folder, which the service may refuse by now."""

_URL = re.compile(r"https?://[A-Za-z0-9._~:/?&=%@\[\]-]{1,1000}")

LANGUAGE: Final = ("LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
PROXIES: Final = (*_PROXIES, *(name.lower() for name in _PROXIES))
CERTIFICATES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_WINDOWS = ("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "PATHEXT", "COMSPEC")
KEPT: Final = (*LANGUAGE, *PROXIES, *CERTIFICATES, *_WINDOWS)
"""What every program gets of the supervisor's environment, besides a PATH."""


@dataclass(frozen=True, slots=True)
class ToolServer:
    """Where an agent finds its tools.

    Attributes:
        url: The address, fit to be an argument.
        access: The token that the broker asks for; never an argument, which others on the machine can read.
    """

    url: str
    access: str | None = field(repr=False)

    @property
    def headers(self) -> dict[str, dict[str, str]]:
        """The entry of an MCP server's configuration that authenticates, beside its address."""
        return {} if self.access is None else {"headers": credentials.headers(self.access)}


@dataclass(frozen=True, slots=True)
class Provider(ABC):
    """A client program that can review.

    Attributes:
        name: Its name in the settings.
        command: The program and its arguments.
        agent_tree: Below the scratch folder, where a copy of the repository has to lie for an agent; None for a program
            that takes no orders from the files of the project's own folder.
        keys: The variables, each of which is a login.
    """

    name: ClassVar[str]
    agent_tree: ClassVar[str | None] = None
    keys: ClassVar[tuple[str, ...]] = ()
    command: tuple[str, ...]

    def login(self, context: RunContext) -> str | None:
        """By what the program would log in: a variable, or `SAVED`; None if neither is found. Asks no service."""
        key = next((name for name in self.keys if context.environment.get(name)), None)
        return key or (SAVED if self.has_saved_login(context) else None)

    def has_saved_login(self, context: RunContext) -> bool:  # noqa: ARG002 - for those that save one
        """Whether the user's home folder has a login that the program can be given."""
        return False

    @abstractmethod
    def review(self, context: RunContext, prompt: str, server: ToolServer | None = None) -> Invocation:
        """One review: the prompt in, one structured answer out; or, with a server of tools, an agent's whole life.

        Raises:
            ConfigInvalid: A setting that the program cannot be given.
        """

    def agent(self, context: RunContext, prompt: str, mcp_url: str, access: str | None = None) -> Invocation:
        """The program works through the queue by itself, over MCP, as the prompt tells it.

        Raises:
            ConfigInvalid: A setting that the program cannot be given.
        """
        return self.review(context, prompt, ToolServer(url("mcp_url", mcp_url), access))

    def read(self, finished: Finished, context: RunContext) -> ProgramOutput:  # noqa: ARG002 - where some leave the answer
        """The answer and the costs of a run that `review` described."""
        return self.said(finished.stdout)

    @abstractmethod
    def said(self, stdout: bytes) -> ProgramOutput:
        """The answer and the costs in the program's output."""


def url(variable: str, value: str) -> str:
    """The address of a service, fit to be an argument.

    Raises:
        ConfigInvalid: It is no http(s) URL, or has characters that a URL has only escaped.
    """
    if not _URL.fullmatch(value):
        raise ConfigInvalid(f"{variable} is no usable http(s) URL; correct it.", setting=variable)
    return value


def path(context: RunContext, *parts: str) -> str:
    """A path below the scratch folder, as the program calls it.

    Raises:
        ConfigInvalid: The scratch folder is not in the distribution of WSL.
    """
    if context.wsl_distro is None:
        return os.path.join(context.scratch, *parts)  # noqa: PTH118 - a text, which may belong to another system
    return "/".join([wsl.inside(context.scratch, context.wsl_distro).rstrip("/"), *parts])


def environment(context: RunContext, passed: Iterable[str] = (), **ours: str) -> dict[str, str]:
    """The whole environment of a program.

    Args:
        context: The run's.
        passed: Variables that are handed on where they are set: keys, and what says where they are used.
        **ours: Further variables; these win.
    """
    handed = {name: value for name in (*KEPT, SUPERVISOR_VARIABLE, *passed) if (value := context.environment.get(name))}
    fixed = {
        "PATH": search_path(context.environment, (context.workspace, context.project_folder)),
        "HOME": path(context, HOME_FOLDER),
        "TMPDIR": path(context, TEMPORARY_FOLDER),
        "TERM": "dumb",
        "NO_COLOR": "1",
        REENTRY_VARIABLE: context.reviewer_id,
    }
    return {**handed, **fixed, **ours}


def invocation(
    context: RunContext,
    argv: Iterable[str],
    prompt: str,
    environment: dict[str, str],
    files: dict[str, bytes],
    *,
    folder: str | None = None,
    talks: bool = True,
) -> Invocation:
    """How a program is run once: in the repository, if no other folder is named."""
    stdin, started_in = prompt.encode(), folder or context.workspace
    return Invocation(tuple(argv), environment, started_in, stdin, files, talks, context.wsl_distro)


def model(context: RunContext) -> list[str]:
    """The option of most programs for a model, where one is set."""
    return [] if context.model is None else ["--model", context.model]


def search_path(environment: Mapping[str, str], repositories: Iterable[str | None]) -> str:
    """PATH without relative folders and without those of the repositories: files under review must not be run."""
    stated = environment.get("PATH") or os.defpath
    folders = [Path(os.path.realpath(one)) for one in repositories if one is not None]
    entries = [
        (entry, Path(os.path.realpath(entry))) for entry in stated.split(os.pathsep) if Path(entry).is_absolute()
    ]
    return os.pathsep.join(entry for entry, real in entries if not any(map(real.is_relative_to, folders)))


def looking(environment: Mapping[str, str], model: str | None) -> RunContext:
    """What says in whose home folder to look for a login; no program is run with it."""
    return RunContext("", "", model, "low", {}, environment, "")


def login(context: RunContext, *parts: str) -> bytes | None:
    """A file with a login from the user's home folder; None if there is none.

    Args:
        context: The run's.
        *parts: Its path below the home folder.
    """
    found = [content for folder in _homes(context) if (content := file(folder.joinpath(*parts))) is not None]
    # Several homes of a distribution: whose it would be is not ours to guess.
    return found[0] if len(found) == 1 else None


def _homes(context: RunContext) -> list[Path]:
    if context.wsl_distro is None:
        stated = context.environment.get("HOME") or context.environment.get("USERPROFILE")
        return [Path(stated)] if stated else []
    shared = Path(wsl.from_windows("/home", context.wsl_distro))
    try:
        return [*shared.iterdir(), Path(wsl.from_windows("/root", context.wsl_distro))]
    except OSError:
        return []


def file(path: Path, limit_bytes: int = _FILE_LIMIT_BYTES) -> bytes | None:
    """What a file holds; None if it is not there, cannot be read, or is larger than that."""
    try:
        if not path.is_file() or path.stat().st_size > limit_bytes:
            return None
        return path.read_bytes()
    except OSError:
        return None


def told_where(workspace: str, prompt: str) -> str:
    """The prompt of a program that starts in another folder than the repository."""
    return (
        f"The repository is in the folder {json.dumps(workspace, ensure_ascii=False)}. Wherever the following text"
        " says your working folder, it means this one, and you start outside it: name files in it by their full"
        f" path.\n\n{prompt}"
    )
