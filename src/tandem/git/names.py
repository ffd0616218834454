"""Names of files as git writes them: quoted where they have to be, and as text that stands for exactly one path."""

from __future__ import annotations

_ESCAPES = {
    ord("a"): 7,
    ord("b"): 8,
    ord("t"): 9,
    ord("n"): 10,
    ord("v"): 11,
    ord("f"): 12,
    ord("r"): 13,
    ord('"'): ord('"'),
    ord("\\"): ord("\\"),
}
_QUOTED = {value: b"\\" + bytes([letter]) for letter, value in _ESCAPES.items()}
_OCTAL = frozenset(b"01234567")
_OCTAL_LENGTH, _LARGEST_OCTAL = 3, 0o377
_SPACE = 0x20
_DELETE = 0x7F


def quote(path: bytes) -> bytes:
    """A path in double quotes with C escapes, as git reads it back in lists and attribute files."""
    return b'"' + b"".join(_escaped(byte) for byte in path) + b'"'


def _escaped(byte: int) -> bytes:
    known = _QUOTED.get(byte)
    if known is not None:
        return known
    return bytes([byte]) if _SPACE <= byte < _DELETE else b"\\%03o" % byte


def unquote(text: bytes) -> tuple[bytes, bytes] | None:
    """The name that a C-quoted string at the start of `text` stands for, and what follows it."""
    if not text.startswith(b'"'):
        return None
    name = bytearray()
    at = 1
    while at < len(text):
        byte = text[at]
        if byte == ord('"'):
            return bytes(name), text[at + 1 :]
        if byte != ord("\\"):
            name.append(byte)
            at += 1
            continue
        octal = text[at + 1 : at + 4]
        if len(octal) == _OCTAL_LENGTH and _OCTAL.issuperset(octal) and int(octal, 8) <= _LARGEST_OCTAL:
            name.append(int(octal, 8))
            at += 1 + _OCTAL_LENGTH
            continue
        letter = _ESCAPES.get(text[at + 1]) if at + 1 < len(text) else None
        if letter is None:
            return None
        name.append(letter)
        at += 2
    return None


def decode_path(path: bytes) -> str:
    """A path as text: itself, or quoted as git does where it is not UTF-8, or could be taken for a quoted one.

    `encode_path` takes it back, so that no two paths have the same text.
    """
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        text = None
    if text is not None and encode_path(text) == path:
        return text
    return quote(path).decode("ascii")


def encode_path(path: str) -> bytes:
    """The path that a text of `decode_path` stands for."""
    data = path.encode()
    if not data.startswith(b'"'):
        return data
    found = unquote(data)
    return found[0] if found is not None and not found[1] else data
