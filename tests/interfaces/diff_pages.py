"""Diffs as a browser would get them: templates rendered in an environment as strict as the broker's, and read back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from html.parser import HTMLParser
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

import tandem.web.diffs

WEB = Path(tandem.web.diffs.__file__).parent.parent
VOID = {"meta", "br", "hr", "img", "input", "link"}

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</td></tr></table></style></pre><svg onload=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)",
    "&lt;b&gt;&#x3c;b>",
    "a\u202eb\u2066c\u200bd\x1b[31me\x00f",
    "<!--", "-->", "]]>", "<![CDATA[", '<a href="javascript:alert(1)">x</a>',
)  # fmt: skip


@lru_cache
def environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(str(WEB / "templates")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def rendered(source: str, **values: object) -> str:
    """A template that imports macros, rendered."""
    return environment().from_string(source).render(**values)


@dataclass
class Element:
    """An element of a page; `text` is all that is written inside it."""

    tag: str
    attributes: dict[str, str | None]
    inside: list[Element | str] = field(default_factory=list["Element | str"])

    @property
    def text(self) -> str:
        return "".join(part if isinstance(part, str) else part.text for part in self.inside)

    @property
    def classes(self) -> set[str]:
        return set((self.attributes.get("class") or "").split())

    def all(self) -> Iterable[Element]:
        for part in self.inside:
            if isinstance(part, Element):
                yield part
                yield from part.all()

    def find(self, tag: str, of_class: str = "") -> list[Element]:
        return [one for one in self.all() if one.tag == tag and (not of_class or of_class in one.classes)]

    def by_id(self, name: str) -> Element:
        (found,) = [one for one in self.all() if one.attributes.get("id") == name]
        return found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("root", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"an attribute twice in <{tag}>"
        element = Element(tag, dict(attrs))
        self.open[-1].inside.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> inside <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].inside.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment came out: {data[:50]}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration came out: {data[:50]}")


def read(html: str) -> Element:
    """The page as elements; every element must be closed where it was opened."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == [reader.root], f"left open: {[one.tag for one in reader.open]}"
    return reader.root


HIDDEN = set("\u202e\u2066\u200b\x1b\x00")
FORBIDDEN = {"script", "img", "svg", "iframe", "object", "embed", "form", "link", "base", "math", "video", "audio"}


def assert_harmless(page: Element) -> None:
    """No element that runs or fetches anything, no inline style or handler, no address but of the web or the page."""
    for element in page.all():
        assert element.tag not in FORBIDDEN, element.tag
        for name, value in element.attributes.items():
            assert not name.startswith("on"), f"{name} in <{element.tag}>"
            assert name != "style"
            if name in {"href", "src"}:
                assert (value or "").startswith(("#", "/", "http://", "https://", "mailto:")), value
    assert not HIDDEN & set(page.text), "a character that cannot be seen came out"
