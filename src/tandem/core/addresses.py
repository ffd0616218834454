"""What kind of address one is: public, of a private network, or none that another program has.

By IANA's registries of special-purpose addresses, as they were in October 2025, and not by `ipaddress.is_global`: what
that says of 192.0.0.0/24 and others depends on the version of Python.
"""

from __future__ import annotations

import ipaddress
from typing import Final, Literal

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Kind = Literal["loopback", "public", "private", "unusable"]


def _networks(text: str) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    return tuple(map(ipaddress.ip_network, text.split()))


# The first that an address is in counts.
_LISTED: Final[dict[Kind, tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]]] = {
    "loopback": _networks("127.0.0.0/8 ::1/128"),
    # This network, link-local (where clouds have their own data), multicast, reserved and broadcast; translation
    # prefixes of a network's own, in which any address may be hidden, and their kind.
    "unusable": _networks("0.0.0.0/8 169.254.0.0/16 224.0.0.0/4 240.0.0.0/4 64:ff9b:1::/48 fe80::/10 ff00::/8"),
    # Globally reachable within a block that is not: PCP and TURN anycast, DNS-SD, AMT, AS112, ORCHIDv2, drones.
    "public": _networks(
        "192.0.0.9/32 192.0.0.10/32 2001:1::1/128 2001:1::2/128 2001:1::3/128 2001:3::/32 2001:4:112::/48 2001:20::/27"
    ),
    # Private use, shared by carriers, protocol assignments, documentation, 6to4 relays, benchmarks; then protocol
    # assignments, documentation, unique local and site-local.
    "private": _networks(
        "10.0.0.0/8 100.64.0.0/10 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15"
        " 198.51.100.0/24 203.0.113.0/24 2001::/23 2001:db8::/32 3fff::/20 fc00::/7 fec0::/10"
    ),
}
_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


def kind_of(address: IpAddress) -> Kind:
    """What an address may be used for; one of the sixth version that stands for one of the fourth is of its kind."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return kind_of(address.ipv4_mapped)
        within = _carried(address)
        if within is not None:
            kind = kind_of(within)
            # The loopback of the gateway that unwraps it is not ours.
            return "unusable" if kind == "loopback" else kind
    for kind, networks in _LISTED.items():
        if any(address in network for network in networks):
            return kind
    return "public" if isinstance(address, ipaddress.IPv4Address) or address in _UNICAST else "unusable"


def _carried(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The address to which a gateway forwards packets for this one."""
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.teredo[1] if address.teredo is not None else address.sixtofour
