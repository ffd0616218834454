"""The one broker of a data folder: its lock, its port, and the files by which others find it.

The order keeps data safe: the lock first, so that a second broker is refused before it touches anything;
then the port; only then the data.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import json
import os
import socket
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from tandem.core import files, platforms
from tandem.core.platforms import ProcessIdentity
from tandem.core.stand_ins import Closing
from tandem.errors import ConfigInvalid, Unavailable
from tandem.git.place import shell_quoted
from tandem.settings.certificates import CERTIFICATE, KEY, Certificate, CertificateFiles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tandem.settings.config import Settings

RUNTIME_FILE = "broker.json"
"""Found by the bridge under the same name."""

LOCK_FILE = "broker.lock"
STOP_FILE = "broker.stop"
LAST_RUN_FILE = "last_run.json"
OPTIONS = ("port", "host", "database_url", "auth")
"""The settings that a start takes from the last run, where no other place states them.

A start by itself must neither take another database nor trust everybody, only since a variable is not set where it
was started.
"""

_REACHED_AT = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not listened on
"""Where this machine reaches a broker that listens on all of its addresses."""
_BACKLOG = 2048
_TRIES = 20


class FolderTaken(Unavailable):
    """Another broker has the data folder."""


class AuthForgotten(ConfigInvalid):
    """The last start on the database asked for access tokens, and nothing says to this one how to let callers in."""

    def __init__(self) -> None:
        super().__init__(
            'The last broker on this database asked for access tokens. Start this one with the setting auth = "token",'
            ' or, to trust everybody who reaches it, auth = "trusted".',
            setting="auth",
            allowed=["token", "trusted"],
        )


@dataclass(frozen=True, slots=True)
class Running:
    """A broker that runs, as it describes itself in its data folder.

    Attributes:
        url: Where it listens.
        pid: Its process.
        started_us: When the process began, microseconds since the epoch.
        version: Tandem's version.
        instance_id: Tells this run from every other.
        token: Its owner's access token; None if it trusts everybody.
        tls_url: Where it listens with TLS; None if it does not.
    """

    url: str
    pid: int
    started_us: int
    version: str
    instance_id: str
    token: str | None = field(default=None, repr=False)
    tls_url: str | None = None

    @property
    def process(self) -> ProcessIdentity:
        """The process, safe from reuse of its number."""
        return ProcessIdentity(self.pid, self.started_us)


def find_running(data_dir: Path) -> Running | None:
    """The broker that runs on a data folder and answers; None if none does."""
    try:
        running = Running(**files.json_object(data_dir / RUNTIME_FILE))
        return running if platforms.is_alive(running.process) else None
    except (TypeError, ValueError):
        # There is none, it is of another version, or edited: then it describes nothing.
        return None


@dataclass(frozen=True, slots=True)
class LastRun:
    """How a broker was last started on a data folder.

    Attributes:
        port: Where it listened; 0 if no run is on record.
        options: What of `OPTIONS` the next start takes over.
    """

    port: int = 0
    options: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)

    @classmethod
    def of(cls, data_dir: Path) -> Self:
        """The last run on a folder; an empty one where none is on record, or the record was damaged.

        Of `auth` only `token` counts: the database says how its broker let callers in, and a file that anybody may
        have written cannot make it more trusting.
        """
        stated = files.json_object(data_dir / LAST_RUN_FILE)
        port, options = stated.get("port"), stated.get("options")
        known = cast("dict[str, Any]", options) if isinstance(options, dict) else {}
        taken = {key: known[key] for key in OPTIONS if key in known and (key != "auth" or known[key] == "token")}
        return cls(port if isinstance(port, int) else 0, taken)

    def remember(self, data_dir: Path) -> None:
        """Put it on record, for this user alone: a database's URL may hold a password."""
        content = json.dumps({"port": self.port, "options": dict(self.options)}).encode() + b"\n"
        files.write_atomically(data_dir / LAST_RUN_FILE, content, durable=False)


class Instance(Closing):
    """The right to be the broker of a data folder, and the port that goes with it.

    Attributes:
        data_dir: The folder.
        port: Where it listens.
        listener: Bound and listening, so that requests wait rather than fail until they are served.
        beside: The same port at the loopback address of the other family; None if there is none.
        url: Where this machine's own clients reach it.
        tls: The certificate and its key; None if the broker does not speak TLS.
        tls_listener: Bound and listening, for TLS; None as that.
        tls_url: Where clients of other machines reach it, by a name that the certificate has; None as that.
    """

    def __init__(self, settings: Settings, *, any_port: bool = False) -> None:
        """Take the lock and the port; gives both back if one cannot be had.

        Args:
            settings: The broker's settings.
            any_port: Whether a free port is taken where that of the settings is not to be had.

        Raises:
            FolderTaken: Another broker has the folder.
            ConfigInvalid: The address cannot be listened on, or must not be.
        """
        refuse_foreign_host(settings)
        self.tls = tls_of(settings)
        self.tls_listener: socket.socket | None = None
        self.tls_url: str | None = None
        self.data_dir = settings.data_dir
        self._lock = _take_lock(settings.data_dir)
        # Some network file systems do not say of two views of a file that they are the same.
        self._is_told = self._is_lock_in_place()
        self._published = b""
        # Other machines connect by TLS; for this machine's own clients nothing changes.
        host = settings.host if self.tls is None or _is_loopback(settings.host) else "127.0.0.1"
        try:
            self._forget()
            self.listener, self.beside = _listen_somewhere(settings, host, any_port=any_port)
        except BaseException as error:
            os.close(self._lock)
            if not isinstance(error, OSError):
                raise
            raise ConfigInvalid(
                f"{error.filename} cannot be removed: {error.strerror}. Move it away, then start the broker again.",
                setting="data_dir",
            ) from error
        self.port = port = self.listener.getsockname()[1]
        self.url = f"http://{_bracketed(_REACHED_AT.get(host, host))}:{port}"
        try:
            if self.tls is not None:
                self.tls_listener = _listen(settings.host, settings.tls_port, "tls_port")
                self.tls_url = _tls_url(settings.host, self.tls.certificate, self.tls_listener)
            self._describe(self._lock, port)
        except BaseException:
            self.close()
            raise

    def publish(self, version: str, instance_id: str, token: str | None = None) -> Running:
        """Let the bridge and the command line find the broker; only its own user can read it."""
        own = platforms.this_process()
        running = Running(self.url, own.pid, own.started_us, version, instance_id, token, self.tls_url)
        content = json.dumps(asdict(running)).encode() + b"\n"
        # A new file: the rest of an earlier one, or one that somebody placed there, may be open to others.
        files.write_atomically(self.data_dir / RUNTIME_FILE, content, durable=False)
        self._published = content
        return running

    def keep_published(self) -> None:
        """Publish again what somebody removed or damaged: without it no command finds the broker."""
        file = self.data_dir / RUNTIME_FILE
        with contextlib.suppress(OSError):
            if self._published and not (file.exists() and file.read_bytes() == self._published):
                files.write_atomically(file, self._published, durable=False)

    def close(self) -> None:
        """Withdraw the published file, close the port, give up the lock; twice is safe."""
        if self._lock < 0:
            return
        if self.has_folder():
            with contextlib.suppress(OSError):
                self._forget()
        for listener in (self.listener, self.beside, self.tls_listener):
            if listener is not None:
                listener.close()
        os.ftruncate(self._lock, 0)
        platforms.unlock_file(self._lock)
        os.close(self._lock)
        self._lock = -1

    def is_asked_to_stop(self) -> bool:
        """Whether somebody left the file that stands for a signal where there are none."""
        return (self.data_dir / STOP_FILE).exists()

    def has_folder(self) -> bool:
        """Whether the data folder is still the one that this broker took; false once it was deleted or replaced."""
        return self._is_lock_in_place() or not self._is_told

    def _is_lock_in_place(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._lock), (self.data_dir / LOCK_FILE).stat())
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True  # the file system has trouble, which says nothing about the folder

    def _forget(self) -> None:
        for name in (RUNTIME_FILE, STOP_FILE):
            (self.data_dir / name).unlink(missing_ok=True)

    @staticmethod
    def _describe(lock: int, port: int) -> None:
        """Say in the lock's file who has it, for those who are refused."""
        os.ftruncate(lock, 0)
        os.lseek(lock, 0, os.SEEK_SET)
        os.write(lock, json.dumps({"pid": os.getpid(), "port": port}).encode())


def refuse_foreign_host(settings: Settings) -> None:
    """Insist on an address of this machine only, unless callers need tokens.

    Raises:
        ConfigInvalid: Others could reach it, and would be trusted.
    """
    host = settings.host
    if settings.auth != "token" and not _is_loopback(host):
        raise ConfigInvalid(
            f"Tandem does not listen on {host}: without access tokens everyone who reaches the port would be trusted. "
            'Have it ask for them (the setting auth = "token", or TANDEM_AUTH=token), or use 127.0.0.1.',
            setting="host",
            allowed=["127.0.0.1", "::1", "localhost"],
        )


def tls_of(settings: Settings) -> CertificateFiles | None:
    """The files by which the broker speaks TLS; None if it does not.

    Raises:
        ConfigInvalid: They cannot be used.
    """
    if settings.tls_certificate_file is not None:
        return CertificateFiles(settings.tls_certificate_file, settings.tls_key_file)
    if settings.tls_key_file is not None:
        raise ConfigInvalid(f"{KEY} names a key, and {CERTIFICATE} no certificate. Set both.", setting=CERTIFICATE)
    return None


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _tls_url(host: str, certificate: Certificate, listener: socket.socket) -> str:
    if not certificate.fits(host):
        host = certificate.name or _REACHED_AT.get(host, host)
    return f"https://{_bracketed(host)}:{listener.getsockname()[1]}"


def _take_lock(data_dir: Path) -> int:
    path = data_dir / LOCK_FILE
    try:
        platforms.make_private(str(data_dir))
        lock = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        if platforms.lock_file(lock):
            return lock
    except OSError as error:
        raise ConfigInvalid(
            f"The data folder {data_dir} cannot be used: {error.strerror}. Choose another with --data-dir.",
            setting="data_dir",
        ) from error
    os.close(lock)
    holder = files.json_object(path)
    who = f"process {holder.get('pid', 'unknown')}"
    where = f", port {holder['port']}" if "port" in holder else ""
    raise FolderTaken(
        f"Another broker has the data in {data_dir} ({who}{where}). Use that one, or stop it with "
        f"'tandem down --data-dir {shell_quoted(str(data_dir))}'.",
        data_dir=str(data_dir),
        **holder,
    )


def _listen(host: str, port: int, setting: str = "port") -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigInvalid(f"{host} is not an address to listen on: {error}.", setting="host") from error
    try:
        platforms.claim_address(listener)
        listener.bind(address)
        # At once: on Linux two sockets may be bound to a port until one of them listens.
        listener.listen(_BACKLOG)
        listener.setblocking(False)  # noqa: FBT003 - the standard library's signature
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRNOTAVAIL:
            raise ConfigInvalid(f"This machine has no address {host}: choose another.", setting="host") from error
        raise ConfigInvalid(
            f"Port {port} at {host} cannot be had: {error.strerror}. Stop the program that uses it, or choose "
            f"another port with {'--port' if setting == 'port' else f'the setting {setting}'} (0 takes a free one).",
            setting=setting,
        ) from error
    return listener


def _listen_all(settings: Settings, host: str) -> tuple[socket.socket, socket.socket | None]:
    """The broker's port, at both loopback addresses.

    Browsers look for names under `localhost` at both, and would show a login, or a person's proof, to the program at
    the other one.
    """
    for _ in range(_TRIES):
        listener = _listen(host, settings.port)
        try:
            return listener, _listen_beside(listener)
        except ConfigInvalid:
            listener.close()
            if settings.port:
                raise
    raise ConfigInvalid("No port is free at 127.0.0.1 and ::1; choose one with --port.", setting="port")


def _listen_somewhere(settings: Settings, host: str, *, any_port: bool) -> tuple[socket.socket, socket.socket | None]:
    try:
        return _listen_all(settings, host)
    except ConfigInvalid as error:
        if not any_port or error.details.get("setting") != "port":
            raise
        return _listen_all(settings.model_copy(update={"port": 0}), host)


def _listen_beside(listener: socket.socket) -> socket.socket | None:
    host, port = listener.getsockname()[:2]
    if listener.family == socket.AF_INET:
        other = "::1"
    else:
        other = "127.0.0.1"
        if host == "::" and not listener.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY):
            return None  # it has that, too
    address = ipaddress.ip_address(host)
    if not (address.is_loopback or address.is_unspecified):
        return None
    try:
        with socket.socket(socket.AF_INET6 if other == "::1" else socket.AF_INET) as probe:
            probe.bind((other, 0))
    except OSError:
        return None  # this machine has no such address, so no program listens there
    return _listen(other, port)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
