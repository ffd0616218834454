"""JSON by the C functions behind the standard library's `json`: importing that takes longer than all else of a hook."""

from __future__ import annotations

from _json import encode_basestring_ascii, make_encoder, make_scanner

TYPE_CHECKING = False  # as in `errors`
if TYPE_CHECKING:
    from typing import Any


class _Context:
    """What `json.JSONDecoder` has by default."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


_scan = make_scanner(_Context())  # pyright: ignore[reportArgumentType] - a JSONDecoder, as far as it is looked at
_encode = make_encoder(None, str, encode_basestring_ascii, None, ": ", ", ", False, False, True)  # noqa: FBT003 - as the standard library calls it


def loads(text: str | bytes) -> Any:
    """A document's value.

    Raises:
        ValueError: It is no JSON.
    """
    text = (text if isinstance(text, str) else text.decode("utf-8", "surrogatepass")).strip(" \t\r\n")
    try:
        value, end = _scan(text, 0)
        if end == len(text):
            return value
    except (StopIteration, SystemError):  # the latter where its own error would need `json`
        pass
    import json  # says what is wrong

    return json.loads(text)


def dumps(value: Any) -> str:
    """A value as one line of ASCII."""
    return "".join(_encode(value, 0))
