"""The envelope of revision 2026-07-28 in its plain forms, which the SDK certainly accepts.

With each call of that revision a client states the revision, its name and its capabilities. The SDK's own check of
them takes as long as many a call, and before it can be asked, half of the SDK has to be imported. Most clients state
very little; whoever states more is left to the SDK.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

REVISION: Final = "2026-07-28"
_VERSION = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
_PLAIN_META = frozenset({_VERSION, _CAPABILITIES, CLIENT_INFO, "progressToken"})
_PLAIN_CAPABILITIES = frozenset({"elicitation", "roots", "sampling"})
_PLAIN_CLIENT = frozenset({"name", "title", "version"})
_NAMED = frozenset({"name", "version"})
_ENCODED = b"=?"
"""Begins a header whose value stands there in another form than in the body."""


def is_plain(parameters: Mapping[str, Any], headers: Mapping[bytes, bytes]) -> bool:
    """Whether the SDK would take the envelope of a `tools/call` for sound without a second look.

    Args:
        parameters: The call's, of which `name` is text and `_meta`, if it is an object, has a sound `progressToken`.
        headers: The request's headers, lower case; `mcp-protocol-version` is this revision.
    """
    meta: Any = parameters.get("_meta")
    return (
        isinstance(meta, dict)
        and headers.get(b"mcp-method") == b"tools/call"
        and _is_mirrored(parameters["name"], headers.get(b"mcp-name"))
        and _is_plain_meta(cast("dict[str, Any]", meta))
    )


def _is_mirrored(name: str, header: bytes | None) -> bool:
    # Other than ASCII, a name and its header are the same only in the SDK's eyes, or not even there.
    return header is not None and name.isascii() and name.encode() == header and not header.startswith(_ENCODED)


def _is_plain_meta(meta: dict[str, Any]) -> bool:
    return (
        meta.keys() <= _PLAIN_META
        and meta.get(_VERSION) == REVISION
        and _are_plain_capabilities(meta.get(_CAPABILITIES))
        and (CLIENT_INFO not in meta or _is_plain_client(meta[CLIENT_INFO]))
    )


def _are_plain_capabilities(stated: Any) -> bool:
    if not isinstance(stated, dict):
        return False
    capabilities = cast("dict[str, Any]", stated)
    # What they say of roots is free; of the others, only that there are some.
    return capabilities.keys() <= _PLAIN_CAPABILITIES and all(
        isinstance(value, dict) and (not value or name == "roots") for name, value in capabilities.items()
    )


def _is_plain_client(stated: Any) -> bool:
    if not isinstance(stated, dict):
        return False
    client = cast("dict[str, Any]", stated)
    return _NAMED <= client.keys() <= _PLAIN_CLIENT and all(isinstance(value, str) for value in client.values())
