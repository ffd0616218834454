"""`tandem open`: the broker's pages in the person's browser. And for other commands: that browser, and their editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote, urlencode, urlsplit

from tandem.bridge.location import BrokerLocation
from tandem.cli import persons
from tandem.cli.connection_options import BrokerOption, ensure_known
from tandem.cli.declared import Argument, Misused, Option
from tandem.cli.terminal import EnvelopeOption, progress, say, show_data
from tandem.client import TandemClient
from tandem.core import platforms
from tandem.rulings.person import agent_mark
from tandem.setup.background import reach_broker

_NO_LOGIN: Final[dict[str, Any]] = {"path": "", "expires_in_s": 0}
_OF_THE_TERMINAL = frozenset({"www-browser", "links", "elinks", "lynx", "w3m"})


async def open_pages(
    review: Annotated[str | None, Argument(metavar="REVIEW", help="Open this review's page.")] = None,
    *,
    project: Annotated[str | None, Option(metavar="NAME", help="Open the inbox of this project only.")] = None,
    print_only: Annotated[bool, Option("--print", help="Only print the address; open nothing.")] = False,
    broker: BrokerOption = None,
    as_json: EnvelopeOption = False,
) -> None:
    """Open the inbox, or a review, in your browser; a broker that does not run is started first.

    The address is printed, too. Where there is no display it is only printed. Where the broker asks for access tokens
    it logs you in, once and within a minute. Where it does not, the browser is likewise known to be a
    person's, whose approval a policy may need, until the broker ends.
    """
    if review is not None and project is not None:
        raise Misused("A review knows its project: give one of the two.", "--project")
    path = _path(review, project)
    with progress("looking for the broker"):
        reached, started = await reach_broker(broker, ".")
        async with TandemClient(reached) as client:
            if project is not None:
                ensure_known(client.session, project, may_be_new=False)
            if review is not None:
                # A wrong id is said here, and not by a page.
                await client.get_review_status(review_id=review)
            # An agent shows a page; it logs no browser in.
            login = await client.data("create_login", {}) if agent_mark() is None else _NO_LOGIN
            address = client.address
            plain, path = path, proving_path(client.location, path)
    logs_in = login["expires_in_s"] > 0
    address += f"{login['path']}&{urlencode({'to': path})}" if logs_in else path
    obstacle = None if print_only else _obstacle(address) or (_onlookers() if logs_in else None)
    opened = not print_only and obstacle is None and webbrowser.open(address)
    if as_json:
        facts = {"url": address, "opened": opened, "started": started}
        show_data(facts)
        return
    sys.stdout.write(f"{address}\n")
    if started:
        say("The broker did not run and was started; 'tandem down' stops it.")
    secret = _secret(login["expires_in_s"], is_proof=path != plain)
    if secret is not None and not opened:
        say(f"{secret}: keep it to yourself.")
    if obstacle is not None:
        say(obstacle)
    elif not opened and not print_only:
        say("No browser could be started: open this address yourself, or name a browser in BROWSER.")


def proving_path(location: BrokerLocation, path: str) -> str:
    """The path that leads to a page in a browser which is known to be a person's by that; unchanged for an agent."""
    opening = persons.opening_proof(location)
    return f"/you?{urlencode({**opening, 'next': path})}" if opening else path


def open_in_window(url: str) -> bool:
    """Open an address; false if only a browser is there that would take the terminal, or none. Blocks."""
    try:
        found = webbrowser.get()
    except webbrowser.Error:
        return False
    # What BROWSER names is a plain `GenericBrowser` unless it runs in the background.
    takes_terminal = type(found) is webbrowser.GenericBrowser or Path(found.name).name in _OF_THE_TERMINAL
    return not takes_terminal and found.open(url)


def edited(text: str, path: str) -> str:
    """A text as the person's editor leaves it. Blocks, and takes the terminal.

    Args:
        text: The text.
        path: The file that it is, by whose name an editor knows its language.

    Raises:
        OSError: There is no such program, or it failed.
    """
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ("notepad" if sys.platform == "win32" else "vi")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, Path(path).name or "text.md")
        file.write_bytes(text.encode())
        ended = subprocess.run([*shlex.split(editor, posix=sys.platform != "win32"), str(file)], check=False)
        if ended.returncode:
            raise OSError(f"'{editor}' failed: {ended.returncode}. Nothing was taken over.")
        return file.read_text("utf-8").replace("\r\n", "\n")


def _secret(login_seconds: float, *, is_proof: bool) -> str | None:
    """Why an address is for one person's eyes; None where it is not."""
    if login_seconds > 0:
        return f"This address logs one browser in as you, once, within {login_seconds} s"
    return "Within a minute this address makes one browser known as a person's, once" if is_proof else None


def _path(review: str | None, project: str | None) -> str:
    if review is not None:
        return f"/reviews/{quote(review, safe='')}"
    return f"/?{urlencode({'project': project})}" if project else "/"


def _onlookers() -> str | None:
    """Why a browser must not be started with a login's address; None if it may.

    It would stand among the browser's arguments, and another user could use it up first.
    """
    others = platforms.accounts()
    if sys.platform == "win32" or len(others) <= 1:
        return None
    return "Others have accounts here and could see it if a browser were started with it: open it yourself."


def _obstacle(address: str) -> str | None:
    """Why no browser that a person sees can be opened from here; None if one may."""
    if os.environ.get("BROWSER") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        return None
    if os.environ.get("SSH_CONNECTION"):
        port = urlsplit(address).port
        return (
            "You are on this machine by SSH. On your own, run "
            f"'ssh -N -L {port}:127.0.0.1:{port}' with this machine's name behind it, and open this address there."
        )
    if sys.platform in {"win32", "darwin"}:
        return None
    return "There is no display here: open this address in a browser on this machine, or name one in BROWSER."
