"""What the fast path takes for sound by itself, the SDK takes for sound; and what ordinary clients send, it takes."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.server.mcp.recognition import recognise
from tandem.server.mcp.server import passes_modern_checks
from tests.interfaces.serving import MODERN, mcp_headers, mcp_message

PREFIX = "io.modelcontextprotocol/"
CAPABILITIES, INFO = PREFIX + "clientCapabilities", PREFIX + "clientInfo"

ENCODED = "=?base64?ZWNobw==?="
words = st.sampled_from(["echo", "", " echo", "écho", "\x7f", ENCODED, "=?x", MODERN]) | st.text(max_size=5)
leaves = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | words
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2), max_leaves=4
)


def near(sound: dict[str, Any], **others: Any) -> st.SearchStrategy[Any]:
    """A sound object, or one of which a field is left out, is another value, or is one that is not always there."""
    left_out = st.sampled_from([{key: sound[key] for key in sound if key != name} for name in (*sound, None)])
    another = st.dictionaries(st.sampled_from([*sound, *others]) | words, values, min_size=1, max_size=1)
    return left_out | another.map(lambda change: sound | change) | st.just(sound | others) | values


META = mcp_message(MODERN, "tools/call", {})["params"]["_meta"]
CALL: dict[str, Any] = {"name": "echo", "header": None, "method": "tools/call", "meta": META}
CAPABLE = near({"roots": {}, "sampling": {}, "elicitation": {}}, experimental={})
CLIENT = near({"name": "toy", "version": "1", "title": "Toy"}, icons=[])
# Each with one thing that may be wrong: where more are, the SDK refuses it anyway.
CALLS = st.one_of(
    words.map(lambda name: CALL | {"name": name}),
    words.map(lambda header: CALL | {"header": header}),
    words.map(lambda method: CALL | {"method": method}),
    near(META, progressToken=1).map(lambda meta: CALL | {"meta": meta}),
    CAPABLE.map(lambda stated: CALL | {"meta": META | {CAPABILITIES: stated}}),
    CLIENT.map(lambda stated: CALL | {"meta": META | {INFO: stated}}),
)


@given(CALLS)
def test_what_is_plain_passes_the_sdks_own_checks(call: dict[str, Any]):
    name = call["name"]
    message = mcp_message(MODERN, "tools/call", {"name": name, "arguments": {}, "_meta": call["meta"]})
    headers = mcp_headers(MODERN, call["method"], name if call["header"] is None else call["header"])
    # As they arrive: parsed from JSON, and header bytes as Latin-1.
    message = orjson.loads(orjson.dumps(message))
    raw = {key.encode(): value.encode() for key, value in headers.items()}
    if recognise(message, raw, modern_check=None):
        assert passes_modern_checks(message, {key.decode(): value.decode("latin-1") for key, value in raw.items()})


@pytest.mark.parametrize(
    "change",
    [
        {},
        {CAPABILITIES: {}},
        {CAPABILITIES: {"sampling": {}, "elicitation": {}, "roots": {}}},
        {INFO: {"name": "claude-code", "title": "Claude Code", "version": "2.1.0"}},
        {"progressToken": 7},
    ],
)
def test_what_ordinary_clients_send_needs_no_import_of_the_sdk(change: dict[str, Any]):
    message = mcp_message(MODERN, "tools/call", {"name": "echo", "arguments": {}})
    message["params"]["_meta"] |= change
    headers = {name.encode(): value.encode() for name, value in mcp_headers(MODERN, "tools/call", "echo").items()}
    call = recognise(message, headers, None)
    assert call is not None
    assert (call.name, call.modern) == ("echo", True)
