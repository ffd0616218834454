"""Which broker is meant, where requests to it go, and how they fail to get an answer.

One rule for the command line, the bridge, the hooks, the Python client and `tandem init` says which broker is meant. In
this order: the option `--broker`, `TANDEM_BROKER`, what the repository's git folder has on record, the running
broker's `broker.json` in this user's data folder, and the configured port. The hooks take only the record, as the
committer sets the environment. Where several brokers share a database, `URL,URL` names them in the first three. See
docs/decisions/0024-one-way-to-find-the-broker.md.

Errors:

    HttpFailure
    ├── NotSent     the request did not leave whole: the other side cannot have acted on it
    │   ├── Stranger    who answers has not proved to be this user's broker, and was told nothing
    │   └── Untrusted   who answers has no certificate that is trusted here, and was told nothing
    ├── ResponseLost   it left whole, and the answer did not arrive whole: the other side may have acted
    └── Aborted     this side closed the connection, see `http.Exchange.abort`
"""

from __future__ import annotations

#
# Errors:
#
#     HttpFailure
#     ├── NotSent     the request did not leave whole: the other side cannot have acted on it
#     │   ├── Stranger    who answers has not proved to be this user's broker, and was told nothing
#     │   └── Untrusted   who answers has no certificate that is trusted here, and was told nothing
#     ├── ResponseLost   it left whole, and the answer did not arrive whole: the other side may have acted
#     └── Aborted     this side closed the connection, see `http.Exchange.abort`
#
import os

from tandem.bridge.credentials import OWNER_FILE, published
from tandem.core import platforms
from tandem.core.files import json_object
from tandem.git.place import find_repository, shell_quoted

TYPE_CHECKING = False  # as in `credentials`
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

VARIABLE = "TANDEM_BROKER"
OPTION = "--broker"
RECORD = "the record in the git folder"
RUNTIME = "broker.json of this user"
PORT = "the configured port"

_HERE = "127.0.0.1"
_USUAL_PORT = "8321"
_LOCK_FILE = "broker.lock"
"""What a running broker has open; as `settings.instance` has it."""

DEFAULT_URL = f"http://{_HERE}:{_USUAL_PORT}"

CONNECT_SECONDS = 5.0
_NOT_IN_URL = frozenset("?# \t\n\r\f\v")
_NOT_IN_NAME = frozenset("@[]")
_IN_ADDRESS = frozenset("0123456789abcdefABCDEF:.")
_MOST_PORT_DIGITS = 5
_LARGEST_PORT = 65_535


class HttpFailure(Exception):
    """A request without a whole answer."""


class NotSent(HttpFailure):
    """The request did not leave whole, so that any request can be repeated safely."""


class Stranger(NotSent):
    """Who answers there has not proved that it is this user's broker."""

    def __init__(self) -> None:
        super().__init__("what answers there has not proved that it is this user's broker")


class Untrusted(NotSent):
    """Who answers there has no certificate for that name of a CA that is trusted here."""


class ResponseLost(HttpFailure):
    """The request left whole and its answer did not arrive whole: it may have had its effect."""


class Aborted(HttpFailure):
    """The exchange was given up by this side."""


class Target:
    """Where requests go.

    Attributes:
        url: As it was stated, without a trailing slash.
        host: Name or address.
        port: TCP port.
        secure: Whether to use TLS.
        authority: Host and port as the `Host` header has them.
        prefix: The path that all others are under; empty, or begins with a slash.
    """

    __slots__ = ("authority", "host", "port", "prefix", "secure", "url")

    def __init__(self, url: str) -> None:
        """Parse `http://host:port/prefix`.

        Raises:
            ValueError: The text is not an http or https URL, or holds credentials.
        """
        self.url = url.rstrip("/")
        scheme, _, rest = self.url.partition("://")
        self.authority, slash, path = rest.partition("/")
        self.prefix = slash + path
        if self.authority.startswith("["):
            self.host, bracket, port = self.authority[1:].partition("]")
            is_host = bool(bracket and self.host) and _IN_ADDRESS.issuperset(self.host)
        else:
            self.host, colon, port = self.authority.partition(":")
            is_host, port = bool(self.host) and _NOT_IN_NAME.isdisjoint(self.host), colon + port
        digits = port[1:]
        is_number = digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_PORT_DIGITS
        is_port = not port or (port[0] == ":" and is_number and int(digits) <= _LARGEST_PORT)
        if scheme not in {"http", "https"} or not (is_host and is_port and _NOT_IN_URL.isdisjoint(self.url)):
            raise ValueError(f"'{url}' is not a URL such as http://127.0.0.1:8321")
        self.secure = scheme == "https"
        self.port = int(digits) if port else (443 if self.secure else 80)

    @property
    def is_local(self) -> bool:
        """Whether it is one of this machine's own, which its other users can listen at, too."""
        return self.host in {"localhost", "::1"} or self.host.startswith("127.")


class BrokerLocation:
    """Where a broker is, and how that is known.

    Attributes:
        url: Its address; None if it runs nowhere. Where several brokers share a database, the addresses of those that
            may be asked, with commas between them.
        origin: What said so.
        data_dir: The data folder where it leaves its address and its owner's token.
        data_dirs: That, and those of further ones of several.
        is_own: Whether it is the one on that folder, which may be started when it is away.
        owner_dirs: The data folders with one of whose secrets it has to prove first that it is this user's; none if it
            need not.
        config_dir: The folder of its settings, where that is not this process's own.
    """

    __slots__ = ("config_dir", "data_dir", "data_dirs", "is_own", "origin", "owner_dirs", "url")

    def __init__(
        self,
        url: str | None,
        origin: str,
        data_dir: str,
        *,
        is_own: bool,
        is_trusted: bool = False,
        more_dirs: Sequence[str] = (),
    ) -> None:
        self.url = url
        self.origin = origin
        self.data_dir = data_dir
        self.data_dirs = (data_dir, *more_dirs)
        self.is_own = is_own
        self.config_dir: str | None = None
        must_prove = not is_trusted and url is not None and (is_own or is_local(url))
        self.owner_dirs = self.data_dirs if must_prove else ()

    def again(self) -> BrokerLocation:
        """The same, unless the broker of the data folder has said since that it listens elsewhere."""
        found = _on_data(self.data_dir, None) if self.is_own else self
        if found.url in {None, self.url}:
            return self
        found.config_dir = self.config_dir
        return found

    def blocker(self, failure: Exception | None = None) -> tuple[str, str] | None:
        """The broker of the data folder that runs and does not answer: a sentence, and the command that ends it.

        Args:
            failure: How the broker was missed; one that was silent hangs.

        Returns:
            None if there is none, it is another one than was named, or it may be just starting.
        """
        is_silent = failure is not None and isinstance(failure.__cause__, TimeoutError)
        for one in filter(self._is_meant, platforms.holders(os.path.join(self.data_dir, _LOCK_FILE))):
            if one.is_deleted or one.is_suspended or is_silent:
                why = "its data folder is gone" if one.is_deleted else "it hangs"
                origin = f", started from {one.folder}," if one.folder else ""
                port = f"holds port {one.ports[0]} and " if one.ports else ""
                # One that hangs hears no other signal.
                how = "kill" if one.is_deleted and not one.is_suspended else "kill -9"
                return f"Process {one.pid}{origin} {port}does not answer ({why})", f"{how} {one.pid}"
        return None

    def _is_meant(self, one: platforms.Holder) -> bool:
        """Whether the broker of the data folder is the one that is meant: where a URL was named, its port says so."""
        named = targets(self.url) if self.url and is_url(self.url) else []
        is_at = len(named) == 1 and named[0].is_local and named[0].port in one.ports
        return self.is_own or is_at

    def hangs(self, failure: Exception) -> bool:
        """Whether a request was lost to a broker that runs and is silent: only a person can end that one."""
        was_silent = isinstance(failure, ResponseLost) and isinstance(failure.__cause__, TimeoutError)
        return was_silent and self.blocker(failure) is not None

    def unproven(self, failure: Exception | None) -> str | None:
        """That the broker of the data folder runs, answers and cannot prove it, a sentence; None if it is not so.

        Args:
            failure: How the broker was missed.
        """
        if not (self.is_own and isinstance(failure, Stranger)):
            return None
        port = targets(self.url or "")[0].port
        for one in platforms.holders(os.path.join(self.data_dir, _LOCK_FILE)):
            if port in one.ports or not one.ports:
                key = os.path.join(self.data_dir, OWNER_FILE)
                why = f"{key} was deleted, replaced or opened to others"
                return f"Process {one.pid} is your broker, and cannot prove it: {why}"
        return None

    def advice(self, failure: Exception | None = None) -> str:
        """What to do when it cannot be reached, a sentence without its full stop."""
        blocker = self.blocker(failure)
        if blocker is not None:
            return f"{blocker[0]}. End it: {blocker[1]}"
        if isinstance(failure, Stranger) and not self.is_own:
            return (
                f"{self.listener()}, and its data should be in {self.data_dir}. If it is yours, and has other data by"
                f" now, have it put on record again: tandem gate on --broker {self.url}. If it is somebody else's and"
                " you mean it, put the access token that they gave you into TANDEM_TOKEN"
            )
        if isinstance(failure, Untrusted):
            return (
                "Name the broker as its certificate does. If that is from a CA of your own, put the path of the CA's"
                " certificate into TANDEM_CA_FILE, or into the setting ca_file"
            )
        if self.url is not None and not is_local(self.url):
            return f"Check the address (it is from {self.origin}), and whether the broker runs on that machine"
        is_usual = not self.is_own or self.data_dir == find_data_dir()
        folder = "" if is_usual else f" --data-dir {shell_quoted(self.data_dir)}"
        if isinstance(failure, Stranger):
            here = (
                f"{self.listener()}. If that is your own broker, of an older version, end it: tandem down. Start yours"
                f" with: tandem up --background --port 0{folder}"
            )
            unproven = self.unproven(failure)
            again = f"Start it again: tandem down{folder} && tandem up --background{folder}"
            return f"{unproven}. {again}" if unproven else here
        settings = "" if self.config_dir is None else f"TANDEM_CONFIG_DIR={shell_quoted(self.config_dir)} "
        return f"Start it with: {settings}tandem up --background{folder}"

    def listener(self, port: int | None = None) -> str:
        """Who has a port of this machine, by default that of the address, as far as the system says."""
        name = platforms.listener(port or targets(self.url or "")[0].port)
        return "Another user may listen there" if name is None else f"The user {name} listens there"


def locate(stated: str | None = None, folder: str | None = None, data_dir: str | None = None) -> BrokerLocation:
    """Which broker is meant; nothing is contacted.

    Args:
        stated: The URL that an option has.
        folder: Where the record is looked for; None for nowhere.
        data_dir: The data folder that was named: then it is the broker on that one, in spite of a record.
    """
    variable = os.environ.get(VARIABLE) or None
    if stated or (variable and data_dir is None):
        origin = OPTION if stated and stated != variable else VARIABLE
        # The person's own word: through a tunnel or from a container no broker could prove anything.
        return BrokerLocation(stated or variable, origin, data_dir or find_data_dir(), is_own=False, is_trusted=True)
    found = _recorded(folder) if folder is not None and data_dir is None else None
    own = data_dir or find_data_dir()
    return found or _on_data(own, None if data_dir or stated_data_dir() else configured_url())


def of_record(
    broker: str | None,
    data_dir: str,
    usual_url: str | None,
    *,
    is_trusted: bool = False,
    more_dirs: Sequence[str] = (),
) -> BrokerLocation:
    """The broker of a gate's switch.

    Args:
        broker: The URL that was named when it was switched on.
        data_dir: The data folder of its broker, if none was named.
        usual_url: Where that listens if it has not said so.
        is_trusted: Whether the one that was named need not prove whose it is.
        more_dirs: The data folders of further ones, where several were named.
    """
    if broker is None:
        found = _on_data(data_dir, usual_url)
        return BrokerLocation(found.url, RECORD, data_dir, is_own=True)
    # Its holder's token is for a broker of somebody else, too.
    is_trusted = is_trusted or bool(os.environ.get("TANDEM_TOKEN", "").strip())
    return BrokerLocation(broker, RECORD, data_dir, is_own=False, is_trusted=is_trusted, more_dirs=more_dirs)


def _on_data(data_dir: str, usual_url: str | None) -> BrokerLocation:
    found = published(data_dir)
    if found is not None and is_url(found.url):
        return BrokerLocation(found.url, RUNTIME, data_dir, is_own=True)
    return BrokerLocation(usual_url, PORT, data_dir, is_own=True)


def _recorded(folder: str) -> BrokerLocation | None:
    """The broker that a folder's repository has on record: that of its gate, else the one that `tandem init` was told.

    A file that is of no use counts as none.
    """
    place = find_repository(folder)
    if place is None:
        return None
    gate = json_object(place.gate_file)
    try:
        if gate.get("enabled") is not False and _is_broker(gate.get("broker"), gate["data_dir"]):
            more_dirs = _folders(gate.get("more_data_dirs"))
            return of_record(gate.get("broker"), gate["data_dir"], gate.get("usual_url"), more_dirs=more_dirs)
    except (ValueError, KeyError, TypeError, AttributeError):
        pass  # edited by hand: as good as none
    init = json_object(os.path.join(place.git_dir, "tandem", "init.json"))
    named, data_dir = init.get("broker"), init.get("data_dir")
    if not isinstance(named, str) or not is_url(named):
        return None
    return of_record(
        named,
        data_dir if isinstance(data_dir, str) else find_data_dir(),
        None,
        more_dirs=_folders(init.get("more_data_dirs")),
    )


def _folders(stated: Any) -> Sequence[str]:
    return stated if isinstance(stated, list) else ()  # pyright: ignore[reportUnknownVariableType] any JSON array


def _is_broker(url: str | None, data_dir: str) -> bool:
    return os.path.isdir(data_dir) if url is None else is_url(url)


def configured_url() -> str | None:
    """Where a broker listens that is started without options; None if it takes any free port."""
    port = os.environ.get("TANDEM_PORT") or str(configured().get("port", _USUAL_PORT))
    return f"http://{_HERE}:{port}" if port.isdecimal() and port.strip("0") else None


def find_data_dir() -> str:
    """The broker's data folder: `TANDEM_DATA_DIR`, the user's configuration file, the default."""
    return stated_data_dir() or platforms.data_dir()


def stated_data_dir() -> str | None:
    """The data folder that the user chose; None if it is the default."""
    stated = os.environ.get("TANDEM_DATA_DIR") or configured().get("data_dir")
    # The broker's own start says that a name has no such character.
    if not isinstance(stated, str) or "\0" in stated:
        return None
    return os.path.abspath(os.path.expanduser(stated))


def configured() -> dict[str, Any]:
    """What the user's configuration file says."""
    folder = os.environ.get("TANDEM_CONFIG_DIR") or platforms.config_dir()
    try:
        with open(os.path.join(folder, "config.toml"), "rb") as file:
            import tomllib  # most users have no such file, and each start would pay for it

            return tomllib.load(file)
    except (OSError, ValueError):
        # Absent, or wrong: the broker's own start reports the latter with its place.
        return {}


def published_url(data_dir: str) -> str | None:
    """The URL that the running broker left in its data folder; None if none did."""
    found = published(data_dir)
    return None if found is None else found.url


def targets(urls: str) -> list[Target]:
    """The brokers of one database: their URLs, with commas between them.

    Raises:
        ValueError: One of them is not a URL.
    """
    return [Target(url.strip()) for url in urls.split(",")]


def is_url(text: str) -> bool:
    """Whether a text names a broker, or several with commas between them."""
    try:
        targets(text)
    except ValueError:
        return False
    return True


def is_local(url: str) -> bool:
    """Whether an address, or one of several, is this machine's own; an unusable one counts as such."""
    return not is_url(url) or any(target.is_local for target in targets(url))
