"""JSON without the package `json`: importing that, and the patterns it compiles, takes longer than a whole judgement.

The interpreter's own accelerator reads; where there is none, the package does all of it.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is dear as well
if TYPE_CHECKING:
    from typing import Any

try:
    import _json as accelerator
except ImportError:
    accelerator = None

_SPACE = " \t\n\r"
_WORDS = {None: "null", True: "true", False: "false"}


class _Rules:
    """What the accelerator asks of a decoder: the plain types, nothing but JSON."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


_RULES: Any = _Rules()


def loads(text: bytes | str) -> Any:
    """The value that a text stands for.

    Raises:
        ValueError: It is no JSON, not UTF-8, or nested too deeply.
    """
    if accelerator is not None:
        words = (text.decode() if isinstance(text, bytes) else text).strip(_SPACE)
        try:
            value, end = accelerator.make_scanner(_RULES)(words, 0)
        except (StopIteration, RecursionError, SystemError, ValueError):
            # It raises the package's error, and fails otherwise where that was not imported.
            return _loads(text)
        if end == len(words):
            return value
    return _loads(text)


def _loads(text: bytes | str) -> Any:
    import json

    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def dumps(value: Any) -> str:
    """The text that stands for a value of texts, whole numbers, truth values, nulls, lists and objects.

    Raises:
        TypeError: There is something else in it.
    """
    if accelerator is None:
        import json

        return json.dumps(value)
    if isinstance(value, str):
        return accelerator.encode_basestring_ascii(value)
    if value is None or isinstance(value, bool):
        return _WORDS[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list | tuple):
        return f"[{','.join([dumps(item) for item in value])}]"  # pyright: ignore[reportUnknownVariableType] any JSON value
    if isinstance(value, dict):
        members = [f"{dumps(str(name))}:{dumps(item)}" for name, item in value.items()]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] any JSON value
        return f"{{{','.join(members)}}}"
    raise TypeError(f"{type(value).__name__} is no JSON")
