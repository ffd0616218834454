"""The key that the bridge adds to the opening of a session, so that no model ever sees it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.bridging import Peer, Reply, Request, bridge, enveloped, modern, peer

KEY = "psk_of-the-environment"
FILE_KEY = "psk_of-the-file"
ERAS = pytest.mark.parametrize("era", [{}, modern()], ids=["sessions", "sessionless"])


def opened(request: Request) -> Reply:
    return enveloped(request, {"session_token": "sess_1"})


@pytest.fixture
def broker() -> Iterator[Peer]:
    with peer(opened) as running:
        yield running


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    file = tmp_path / "role.psk"
    file.write_bytes(f"\ufeff {FILE_KEY} \r\na second line\n".encode())
    return str(file)


def sent(broker: Peer, folder: Path, arguments: Any, tool: str = "session_open", **environment: str) -> dict[str, Any]:
    """The arguments with which a call reaches the broker."""
    with bridge("--broker", broker.url, "--project", "p", folder=folder, **environment) as client:
        client.call("tools/call", {"name": tool, "arguments": arguments})
        status, said = client.end()
        assert (status, said) == (0, "")
    found = broker.next().arguments
    found.pop("idempotency_key", None)
    return found


@ERAS
@pytest.mark.parametrize("left_out", [{}, {"psk": None}, {"psk": ""}, {"psk": " "}], ids=str)
@pytest.mark.parametrize("name", ["session_open", "session.open"])
def test_a_key_that_is_left_out_is_that_of_the_environment(
    broker: Peer, tmp_path: Path, name: str, left_out: dict[str, Any], era: dict[str, Any]
) -> None:
    with bridge("--broker", broker.url, "--project", "p", folder=tmp_path, TANDEM_PSK=KEY) as client:
        answer = client.call("tools/call", {"name": name, "arguments": {"role": "gemini", **left_out}, **era})
    request = broker.next()
    assert (request.arguments["psk"], request.arguments["role"]) == (KEY, "gemini")
    assert request.body["params"]["name"] == name
    assert KEY not in json.dumps(answer)


def test_the_variable_wins_over_the_file_and_the_first_line_of_the_file_is_the_key(
    broker: Peer, tmp_path: Path, key_file: str
) -> None:
    arguments = {"role": "gemini", "psk": ""}
    assert sent(broker, tmp_path, arguments, TANDEM_PSK_FILE=key_file)["psk"] == FILE_KEY
    assert sent(broker, tmp_path, arguments, TANDEM_PSK_FILE=key_file, TANDEM_PSK=KEY)["psk"] == KEY
    assert sent(broker, tmp_path, arguments, TANDEM_PSK_FILE=key_file, TANDEM_PSK="")["psk"] == FILE_KEY


def test_a_file_is_read_when_it_is_needed_so_that_a_new_key_needs_no_new_bridge(
    broker: Peer, tmp_path: Path, key_file: str
) -> None:
    with bridge("--broker", broker.url, "--project", "p", folder=tmp_path, TANDEM_PSK_FILE=key_file) as client:
        client.tool("session_open", role="gemini")
        Path(key_file).write_text("psk_after-the-rotation", "utf-8")
        client.tool("session_open", role="gemini")
    assert [broker.next().arguments["psk"] for _ in range(2)] == [FILE_KEY, "psk_after-the-rotation"]


def test_a_key_or_role_of_the_clients_own_is_left_alone(broker: Peer, tmp_path: Path) -> None:
    own = {"role": "codex", "psk": "its own", "workflow": "w"}
    assert sent(broker, tmp_path, own, TANDEM_PSK=KEY, TANDEM_ROLE="gemini") == own


@pytest.mark.parametrize("left_out", [{}, {"role": None}, {"role": ""}], ids=str)
def test_a_role_that_is_left_out_is_that_of_the_environment(
    broker: Peer, tmp_path: Path, left_out: dict[str, Any]
) -> None:
    found = sent(broker, tmp_path, left_out, TANDEM_PSK=KEY, TANDEM_ROLE="gemini")
    assert found == {"role": "gemini", "psk": KEY}
    assert "role" not in sent(broker, tmp_path, {}, TANDEM_PSK=KEY)


def test_nothing_is_added_to_any_other_call(broker: Peer, tmp_path: Path) -> None:
    for tool in ("cycle_status", "lock_acquire", "create_review"):
        assert sent(broker, tmp_path, {}, tool, TANDEM_PSK=KEY, TANDEM_ROLE="gemini") == {}
    assert broker.requests.empty()


def test_arguments_that_are_none_are_the_brokers_to_refuse(broker: Peer, tmp_path: Path) -> None:
    with bridge("--broker", broker.url, "--project", "p", folder=tmp_path, TANDEM_PSK=KEY) as client:
        client.call("tools/call", {"name": "session_open", "arguments": ["gemini"]})
    assert broker.next().body["params"]["arguments"] == ["gemini"]


@ERAS
@pytest.mark.parametrize("content", [None, b"\nthe second line", b"\xff\xfes\x00e\x00c\x00"], ids=str)
def test_a_file_without_a_key_is_a_refusal_that_says_what_to_do(
    broker: Peer, tmp_path: Path, era: dict[str, Any], content: bytes | None
) -> None:
    file = tmp_path / "role.psk"
    if content is not None:
        file.write_bytes(content)
    with bridge("--broker", broker.url, "--project", "p", folder=tmp_path, TANDEM_PSK_FILE=str(file)) as client:
        params = {"name": "session_open", "arguments": {"role": "gemini", "psk": ""}, **era}
        result = client.call("tools/call", params)["result"]
        assert client.end() == (0, "")
    envelope = result["structuredContent"]
    assert (result["isError"], envelope["ok"]) == (True, False)
    assert json.loads(result["content"][0]["text"]) == envelope
    assert ("resultType" in result) == bool(era)
    error = envelope["error"]
    assert (error["code"], error["retryable"]) == ("CONFIG_INVALID", False)
    assert error["details"] == {"setting": "TANDEM_PSK_FILE", "file": str(file)}
    assert str(file) in error["message"]
    assert "second line" not in error["message"]
    assert broker.requests.empty()


def test_a_call_without_any_key_is_told_where_to_put_one(broker: Peer, tmp_path: Path) -> None:
    with bridge("--broker", broker.url, "--project", "p", folder=tmp_path) as client:
        error = client.tool("session_open", role="gemini", psk="")["error"]
    assert error["code"] == "CONFIG_INVALID"
    assert "TANDEM_PSK" in error["message"]
    assert broker.requests.empty()
