"""A repository of our own that follows another one: its branches, and those of its files that have settings.

Git elsewhere may read it, by what version 2 of git's protocol answers over HTTP.

Nothing of the other's is obeyed: no hook, no filter, no configuration. It is reached by the transports that are named
here and no other, with one key of its own; no program is asked for a password, and nothing of the user's is sent.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shlex
import signal
import zlib
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from tandem.core.scratch import remove_tree
from tandem.errors import InvalidInput, TandemError, TimedOut, TooLarge, Unavailable
from tandem.git.runner import BoundGit, Git, GitFailed, Limits, clean_environment, end, ensure_recent, make_git_folder

if TYPE_CHECKING:
    from tandem.git.runner import Process

FIELD: Final = "mirror"
LIMIT_SETTING: Final = "mirror_limit_bytes"
TIMEOUT_SETTING: Final = "mirror_timeout_seconds"

_LOG = logging.getLogger("tandem.mirrors")
_LONGEST_URL = 2_000
_SCHEMES = ("https", "ssh", "file")
_HOST = re.compile(r"[A-Za-z0-9\[][A-Za-z0-9.:\]_-]{0,252}")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
_BRIEF = re.compile(r"(?P<user>[^@:/]+)@(?P<host>[^@:/]+):(?P<path>[^:].*)")
_UNUSABLE = re.compile(r"[\x00-\x20\x7f\\]")

_NEWEST = "refs/tandem/HEAD"
_EVERYTHING = (f"+HEAD:{_NEWEST}", "+refs/heads/*:refs/heads/*")
_FILES = "/.tandem/\n/.planning/\n"
"""What Tandem reads settings from. The other files are read from objects."""
_EXACT = b"* -text !eol -ident -filter !working-tree-encoding\n"
_MOST_PACKS = 20
_CONNECT_SECONDS = 15
_LEAST_PROCESS_BYTES = 256_000_000
"""For the threads by which git unpacks."""
_STALLED_SECONDS = 30
_QUIET = ("-c", "core.fsync=committed", "-c", "fetch.unpackLimit=1")
_FETCH = (
    "fetch",
    "--quiet",
    "--prune",
    "--no-tags",
    "--no-auto-maintenance",
    "--no-recurse-submodules",
    "--no-write-fetch-head",
)
_OF_ANOTHER_FORMAT = "mismatched algorithms"
# What git says of files of its own that it cannot read; never of a full disk, or of permissions.
_OF_HERE = ("fatal: bad object refs/", "fatal: index file corrupt")
_DAMAGED = re.compile(
    "not a GIT packfile|does not match index|too short to be a packfile|is corrupt|is too small"
    r"|is empty|not a git repository|bad config|index file"
)
_HAS_NO_COMMIT = "couldn't find remote ref HEAD"
_OVER_THE_LIMIT = ("died of signal 25", "File too large")
_LONGEST_WORDS = 300
_NO_NEWS = "Warning: Permanently added"
_REASONS = {
    "Permission denied (publickey": "the host does not let the project's deploy key in. Have it let that key read the"
    " repository.",
    "HOST IDENTIFICATION HAS CHANGED": "the host has another key than before. If that is meant to be, remove its"
    " line from mirrors/known_hosts below the broker's data folder.",
    "could not read Username": "the host asks for a login. Use the repository's ssh URL, and the deploy key.",
}


def checked_url(url: str) -> str:
    """A URL that a repository may be fetched from.

    Raises:
        InvalidInput: Its transport is not allowed, it has a password, or it is none.
    """
    if len(url) > _LONGEST_URL or _UNUSABLE.search(url):
        raise _refused("is too long, or has a blank, a backslash or a control character")
    brief = _BRIEF.fullmatch(url)
    if brief is not None and "://" not in url:
        # As git writes it: user@host:path.
        scheme, user, host, path = "ssh", brief["user"], brief["host"], brief["path"]
    else:
        scheme, user, host, path = _parts(url)
    if scheme == "file":
        if host or user or not path.startswith("/"):
            raise _refused("has to name an absolute path: file:///srv/git/shop.git")
        return url
    if not _HOST.fullmatch(host) or path.strip("/") == "" or path.startswith("-"):
        raise _refused("names no host and path")
    if user is not None and (scheme != "ssh" or not _USER.fullmatch(user)):
        # Never with the URL: it may contain a password.
        raise _refused(
            "has a user's name or a password, which would be kept and shown. A private repository is fetched over ssh,"
            " with the project's deploy key: ssh://git@host/path"
        )
    return url


def _parts(url: str) -> tuple[str, str | None, str, str]:
    """Scheme, user, host and path."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise _refused("is no URL") from None
    if parts.scheme not in _SCHEMES or not url.startswith(f"{parts.scheme}://"):
        raise _refused(f"has a transport that is not allowed; use one of {', '.join(_SCHEMES)}")
    if parts.query or parts.fragment:
        raise _refused("has a query or a fragment")
    user = parts.netloc.rpartition("@")[0] if "@" in parts.netloc else None
    return parts.scheme, user, parts.hostname or "", unquote(parts.path)


def _refused(reason: str) -> InvalidInput:
    return InvalidInput(f"The URL of the mirror {reason}.", field=FIELD, allowed=list(_SCHEMES))


def name_in(url: str) -> str:
    """What a repository is called by the end of its URL; empty if that says nothing."""
    return url.rstrip("/").replace(":", "/").rpartition("/")[2].removesuffix(".git")


def ssh_command(key: Path, known_hosts: Path) -> str:
    """What git reaches a host by over ssh: with this key alone, and nothing of what its user has set up.

    A host's key is taken on trust the first time, and must be the same from then on.
    """
    options = (
        "BatchMode=yes",
        "IdentitiesOnly=yes",
        "IdentityAgent=none",
        "StrictHostKeyChecking=accept-new",
        # Without quotes ssh takes blanks for the next value.
        f'UserKnownHostsFile="{known_hosts}"',
        f"ConnectTimeout={_CONNECT_SECONDS}",
        f"ServerAliveInterval={_CONNECT_SECONDS}",
        "ForwardAgent=no",
        "ClearAllForwardings=yes",
    )
    words = ["ssh", "-F", os.devnull, "-i", str(key), *(word for one in options for word in ("-o", one))]
    return shlex.join(words)


class _Limits(Limits):
    """What git may take up for a whole repository."""

    @property
    def process_bytes(self) -> int:
        return self.content_bytes + _LEAST_PROCESS_BYTES

    def exceeded(self, actual: int | None = None) -> TooLarge:
        return TooLarge(
            f"The repository has more than {self.content_bytes} bytes; raise {LIMIT_SETTING} in the configuration, and"
            " restart the broker.",
            limit=self.content_bytes,
            setting=LIMIT_SETTING,
            **({} if actual is None else {"actual": actual}),
        )


class _Git(Git):
    """Git whose command can be ended from outside."""

    stopped = False
    process: Process | None = None

    def start(
        self, arguments: Sequence[str], *, environment: Mapping[str, str], cwd: Path | None, quiet: bool = False
    ) -> Process:
        self.process = super().start(arguments, environment=environment, cwd=cwd, quiet=quiet)
        if self.stopped:
            end(self.process)
        return self.process


class MirrorFolder:
    """A folder with a repository fetched from one URL. Its owner runs one fetch at a time; all methods block.

    Attributes:
        folder: The working tree, which holds the files of settings alone.
        git_folder: The objects and branches.
    """

    def __init__(self, folder: Path, url: str, git: str, *, timeout_seconds: float, limit_bytes: int) -> None:
        self.folder = folder
        self._url = url
        self.git_folder = folder / ".git"
        self._own = str(self.git_folder)
        self._limits = _Limits(limit_bytes)
        self._git = _Git(git, timeout_seconds, self._limits)
        own = {"GIT_DIR": self._own, "GIT_WORK_TREE": str(folder), "HOME": self._own, "XDG_CONFIG_HOME": self._own}
        self._run = BoundGit(self._git, clean_environment(own, isolated=True), folder).run

    @property
    def is_there(self) -> bool:
        """Whether all was fetched once."""
        try:
            return not (self.git_folder / "HEAD").read_bytes().startswith(b"ref:")
        except OSError:
            return False

    def fetch(self, extra: Mapping[str, str], wanted: str | None = None) -> None:
        """Fetch the branches as they are at the URL now, or one commit.

        Args:
            extra: Environment for git beside its own, as the command for ssh.
            wanted: The one commit; nothing for the newest and all branches.

        Raises:
            TooLarge: It is over the limit.
            TimedOut: It takes too long.
            Unavailable: It cannot be fetched, with git's words.
        """
        ensure_recent(self._git)
        was_there = self.is_there
        self._prepare()
        self._ensure_room()
        try:
            self._fetch_or_begin_anew(extra, wanted)
        except TimedOut as error:
            raise TimedOut(
                f"{self._url} was not fetched within {self._git.timeout_seconds:g} s; raise {TIMEOUT_SETTING} and"
                " restart the broker if it is that large.",
                limit_seconds=self._git.timeout_seconds,
            ) from error
        try:
            self._ensure_room()
        except TooLarge:
            if not was_there:
                self.remove()
            raise
        self._pack()

    def has(self, commit: str) -> bool:
        """Whether a commit was fetched already."""
        return self.folder.is_dir() and self._run(["cat-file", "-e", commit], accept=(0, 1, 128)).status_code == 0

    def stop(self) -> None:
        """End what git is doing, and let it do nothing more."""
        self._git.stopped = True
        if self._git.process is not None:
            end(self._git.process)

    def remove(self) -> None:
        """Remove the folder with all that was fetched."""
        remove_tree(str(self.folder))

    def _prepare(self) -> None:
        if not (self.git_folder / "objects").is_dir():
            self._make("sha1")
        # An earlier fetch was cut short.
        for left in (*self.git_folder.rglob("*.lock"), *self.git_folder.glob("objects/pack/tmp_*")):
            left.unlink(missing_ok=True)

    def _make(self, object_format: str) -> None:
        self.remove()
        self.git_folder.mkdir(mode=0o700, parents=True)
        make_git_folder(str(self.git_folder), object_format, bare=False)
        with (self.git_folder / "config").open("a", encoding="ascii", newline="\n") as config:
            config.write("[core]\n\tsparseCheckout = true\n\tsymlinks = false\n")
        (self.git_folder / "info").mkdir()
        (self.git_folder / "info" / "sparse-checkout").write_text(_FILES, "ascii")
        (self.git_folder / "info" / "attributes").write_bytes(_EXACT)

    def _ensure_room(self) -> None:
        size = sum(one.stat().st_size for one in self.git_folder.glob("objects/pack/*"))
        if size > self._limits.content_bytes:
            raise self._limits.exceeded(size)

    def _fetch_or_begin_anew(self, extra: Mapping[str, str], wanted: str | None) -> None:
        """Fetch into what there is; into a new folder if that is damaged, or of another format than the URL's."""
        tried: set[str] = set()
        while True:
            try:
                self._fetch(extra, wanted)
                if wanted is None:
                    self._show_settings()
            except GitFailed as error:
                new = "sha1" if self._is_damage(error) else "sha256"
                if new in tried or (new == "sha256" and (self.is_there or _OF_ANOTHER_FORMAT not in error.words)):
                    raise self._told(error) from error
                if self.is_there:
                    _LOG.warning("a damaged mirror is fetched again: %s", error.words[:_LONGEST_WORDS])
                tried.add(new)
                self._make(new)
            else:
                return

    def _is_damage(self, error: GitFailed) -> bool:
        """Whether git could not read the files here, as after a loss of power."""
        lines = error.words.splitlines()
        return any(line.startswith(_OF_HERE) or (self._own in line and _DAMAGED.search(line)) for line in lines)

    def _fetch(self, extra: Mapping[str, str], wanted: str | None) -> None:
        stalled = ("-c", "http.lowSpeedLimit=1", "-c", f"http.lowSpeedTime={_STALLED_SECONDS}")
        words = {"GIT_ALLOW_PROTOCOL": ":".join(_SCHEMES), "GIT_ASKPASS": "", "GIT_SSH_VARIANT": "ssh", **extra}
        if authorities := os.environ.get("SSL_CERT_FILE"):
            words.setdefault("GIT_SSL_CAINFO", authorities)
        what = _EVERYTHING if wanted is None else (f"+{wanted}:{_NEWEST}",)
        self._run([*_QUIET, *stalled, *_FETCH, "--", self._url, *what], extra=words)

    def _show_settings(self) -> None:
        """Make the newest commit the one that is checked out, and the files of settings those that it has."""
        self._run(["update-ref", "--no-deref", "HEAD", _NEWEST])
        self._run(["read-tree", "--reset", "-u", "HEAD"])

    def _pack(self) -> None:
        """Keep the packs few; what no branch has any more is kept, because reviews may be based on it."""
        if sum(1 for _ in self.git_folder.glob("objects/pack/*.pack")) > _MOST_PACKS:
            with suppress(TandemError):
                self._run([*_QUIET, "repack", "--quiet", "-d", "--geometric=2"])

    def _told(self, error: GitFailed) -> TandemError:
        if any(one in error.words for one in _OVER_THE_LIMIT):
            return self._limits.exceeded()
        if _HAS_NO_COMMIT in error.words:
            return Unavailable(f"The repository at {self._url} has no commit yet; push one.", git=error.words)
        said = " ".join(line for line in error.words.splitlines() if line.strip() and not line.startswith(_NO_NEWS))
        reason = next((reason for words, reason in _REASONS.items() if words in said), f"git says: {said}")
        return Unavailable(f"{self._url} cannot be fetched: {reason[:_LONGEST_WORDS]}", git=error.words)


PROTOCOL: Final = "version=2"
_CHUNK_BYTES = 256 * 1024
_MOST_WANTED = 32
_WANTED = re.compile(rb"want ([0-9a-f]{64}|[0-9a-f]{40})\b")
# Else git looks for deltas with as many threads as there are processors, each with as much memory as it likes.
_MODEST = ("-c", "pack.threads=1", "-c", "pack.windowMemory=64m", "-c", "core.bigFileThreshold=16m")
_ADVERTISED = b"001e# service=git-upload-pack\n0000"


def inflated(body: bytes, limit_bytes: int) -> bytes:
    """A request that git has compressed, as it is without.

    Raises:
        InvalidInput: It was not compressed so.
        TooLarge: There is more of it.
    """
    unpacker = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        found = unpacker.decompress(body, limit_bytes)
    except zlib.error as error:
        raise InvalidInput(f"The body is not compressed by gzip: {error}.", field="body") from None
    if unpacker.unconsumed_tail:
        raise TooLarge(f"The request has more than {limit_bytes} bytes.", limit_bytes=limit_bytes)
    return found


def wanted(request: bytes) -> tuple[str, ...]:
    """Ids of the objects that a request is about."""
    return tuple(one.decode("ascii") for one in _WANTED.findall(request)[:_MOST_WANTED])


@asynccontextmanager
async def answer(git: str, folder: Path, request: bytes | None) -> AsyncGenerator[AsyncGenerator[bytes]]:
    """What git says to a request, in pieces, for a block; git and all its children have ended after it.

    Args:
        git: The program.
        folder: The repository's git folder.
        request: The other git's request; None to advertise the refs.

    Raises:
        Unavailable: Git cannot be started.
    """
    about = ["--http-backend-info-refs"] if request is None else []
    try:
        process = await asyncio.create_subprocess_exec(
            git,
            *_MODEST,
            *("upload-pack", "--stateless-rpc", "--strict", *about, str(folder)),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env=clean_environment(
                {"GIT_PROTOCOL": PROTOCOL, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}, isolated=True
            ),
            cwd=folder,
            start_new_session=True,
        )
    except OSError as error:
        raise Unavailable(f"{git} cannot be started: {error.strerror}.", program=git) from error
    telling = asyncio.create_task(_tell(process, request or b""))
    try:
        yield _said(process, first=_ADVERTISED if request is None else b"")
    finally:
        telling.cancel()
        _end(process)
        await asyncio.gather(telling, process.wait(), return_exceptions=True)


async def _tell(process: asyncio.subprocess.Process, request: bytes) -> None:
    if process.stdin is not None:
        with suppress(ConnectionError):
            process.stdin.write(request)
            await process.stdin.drain()
        process.stdin.close()


async def _said(process: asyncio.subprocess.Process, first: bytes) -> AsyncGenerator[bytes]:
    if first:
        yield first
    while process.stdout is not None and (piece := await process.stdout.read(_CHUNK_BYTES)):
        yield piece


def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
