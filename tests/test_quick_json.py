"""JSON as the hooks read and write it: what the standard library does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tandem.core import quick_json

VALUES: list[Any] = [{"a": [1, -2.5e9, None, True, "é\ud800\n", {"b": []}]}, [], "x", {}, 0]


@pytest.mark.parametrize("value", VALUES)
def test_values_are_written_and_read_as_by_the_standard_library(value: Any):
    assert quick_json.dumps(value) == json.dumps(value)
    for text in (json.dumps(value), json.dumps(value, indent=2).encode() + b"\r\n"):
        assert quick_json.loads(text) == value


@pytest.mark.parametrize("text", ["", "{", "nul", "[1,]", "1 2", b"\xff", '{"a":tru}', '"abc', "[1"])
def test_what_is_no_json_is_refused(text: str | bytes):
    with pytest.raises(ValueError, match=r"\S"):
        quick_json.loads(text)
