"""Which addresses in others' texts may be links: those of the web, never those of this machine or its network."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address
from socket import inet_aton
from urllib.parse import unquote

_WEB = re.compile(r"https?://[/\\]*([^/\\?#]*)", re.IGNORECASE)
_LOCAL_ENDS = (".localhost", ".localdomain", ".local", ".internal", ".lan", ".home.arpa")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
_NUMBERS = re.compile(r"[0-9a-fx.]+")
# A name without a dot is one of the own network. What is not ASCII was written as punycode by the parser.
_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)+")
_PORT = re.compile(r":[0-9]*$")
_EMBEDDING = (0, 0x0064FF9B << 64)
"""What stands before the last four bytes of an IPv6 address when these are one of IPv4: `::` and `64:ff9b::`."""


def may_be_link(url: str) -> bool:
    """Whether an address leads to the web, or is for mail; read as browsers read it, and refused where in doubt.

    Relative addresses would lead into the broker's own pages, and those of this machine to whatever listens there.
    """
    if url.lower().startswith("mailto:"):
        return True
    found = _WEB.match(url)
    if found is None or not url.isprintable():
        return False
    host = unquote(_PORT.sub("", found[1].rpartition("@")[2])).lower()
    try:
        return _is_elsewhere(host)
    except (OSError, ValueError):
        return False


def _is_elsewhere(host: str) -> bool:
    """Whether a host is none of this machine or its network.

    Raises:
        OSError, ValueError: It is no host.
    """
    if host.startswith("["):
        return _is_public(IPv6Address(host.removeprefix("[").removesuffix("]")))
    name = host.removesuffix(".")
    last = name.rpartition(".")[2]
    if _NUMBER.fullmatch(last):
        # As browsers read it: one to four numbers, decimal, octal or hexadecimal; the last fills what is left.
        return bool(_NUMBERS.fullmatch(name)) and IPv4Address(inet_aton(name)).is_global
    return bool(_NAME.fullmatch(name)) and not name.endswith(_LOCAL_ENDS)


def _is_public(address: IPv6Address) -> bool:
    inside = address.ipv4_mapped or address.sixtofour
    if inside is None and int(address) >> 32 in _EMBEDDING:
        inside = IPv4Address(int(address) & 0xFFFFFFFF)
    return address.is_global if inside is None else inside.is_global
