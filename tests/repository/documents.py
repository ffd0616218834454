"""Documents as people write them, for properties: JSON with comments, TOML, Markdown, in every odd layout."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tandem.errors import ConfigInvalid
from tandem.setup.edits.json_edits import JsonText

WORDS = ["mcpServers", "tandem", "permissions", "allow", "a", "é b", "//", "x\\y", "{"]

_blank = st.sampled_from(["", "", " ", "\n", "\n  ", "\t", "\r\n", "\r\n\t", "\n\n    "])
_comment = st.sampled_from(["/**/", "/* a\n , } */", "// b ,\n", "// é  \r\n", "//\n"])
gaps = st.lists(st.one_of(_blank, _blank, _comment), max_size=3).map("".join)
_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-9, 99),
    st.floats(-2, 2, width=16),
    st.sampled_from(WORDS),
    st.text('a"\\\n,', max_size=3),
).map(lambda value: json.dumps(value, ensure_ascii=False))


@st.composite
def _containers(draw: st.DrawFn, inner: st.SearchStrategy[str], *, of_members: bool) -> str:
    elements = draw(st.lists(inner, max_size=3))
    texts: list[str] = []
    for value in elements:
        name = json.dumps(draw(st.sampled_from(WORDS)), ensure_ascii=False) + draw(gaps) + ":" if of_members else ""
        texts.append(draw(gaps) + name + draw(gaps) + value + draw(gaps))
    body = ",".join(texts)
    trailing = "," + draw(gaps) if texts and draw(st.booleans()) else ""
    inside = body + trailing if texts else draw(gaps)
    return "{" + inside + "}" if of_members else "[" + inside + "]"


_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(_containers(inner, of_members=True), _containers(inner, of_members=False)),
    max_leaves=8,
)


@st.composite
def jsonc(draw: st.DrawFn) -> bytes:
    """A JSON file with an object in it, or nothing but comments."""
    root = draw(st.one_of(_containers(_values, of_members=True), st.just(""), st.just("{}"), st.just("{\n}")))
    text = draw(st.sampled_from(["", "\ufeff"])) + draw(gaps) + root + draw(gaps)
    return text.encode()


def plain(content: bytes | None) -> Any:
    """Returns the value of a JSON file; None if it is not readable, or empty."""
    try:
        root = JsonText(Path("file.json"), content).root
    except ConfigInvalid:
        return None
    return None if root is None else root.value


def tables(content: bytes | None) -> Any:
    """Returns the tables of a TOML file; None if it is not readable."""
    try:
        return tomllib.loads((content or b"").decode().removeprefix("\ufeff"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return None


_statements = st.sampled_from(
    [
        "a = 1", "b='''\n[x]\n# no comment'''", 'c = """\n"" [y] \\""" """', "d = [\n 1, # one\n [2],\n]", "# remark",
        "", "[t]", "[ t . 'u v' ] # remark", "[[list]]", '[mcp_servers."other"]', "[mcp_servers.other.env]", "  ",
        "e = {x = 1, y = '['}", "# GSD banner", "[mcp_servers]", "f = 1979-05-27", "g = '# no remark'",
    ]
)  # fmt: skip


@st.composite
def toml(draw: st.DrawFn) -> bytes:
    """A TOML file."""
    newline = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    lines = draw(st.lists(_statements, max_size=7))
    content = draw(st.sampled_from(["", "\ufeff"])) + newline.join(lines) + draw(st.sampled_from(["", newline]))
    content = content.replace("\r\n", "\n").replace("\n", newline)
    kept = content.encode()
    while tables(kept) is None:
        # Tables and keys that came twice.
        lines.pop()
        kept = newline.join(lines).replace("\r\n", "\n").replace("\n", newline).encode()
    return kept


@st.composite
def markdown(draw: st.DrawFn) -> bytes:
    """A text file, in any encoding that has no zero bytes."""
    newline = draw(st.sampled_from([b"\n", b"\n", b"\r\n"]))
    lines = draw(
        st.lists(st.sampled_from([b"# Title", b"", b"  ", b"text \xe9", b"<!-- note -->", b"## anchor x"]), max_size=6)
    )
    return draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + newline.join(lines) + draw(st.sampled_from([b"", newline]))
