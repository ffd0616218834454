"""A browser without scripts, over HTTP: it follows links, fills in forms by their labels, and presses buttons.

What a page does in a real browser that has its scripts off, `test_all_that_matters_works_without_a_script` tries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from types import TracebackType
from typing import Self
from urllib.parse import urlencode, urljoin
from xml.etree.ElementTree import Element, TreeBuilder

import httpx

from tests.broker import CALL_SECONDS, NO_TLS
from tests.pages.windows import signed_in

_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
_SELECTOR = re.compile(r"([#.]?)([\w-]+)")


class _Reader(HTMLParser):
    """Reads a document into a tree, without scripts and hints of keys; our own pages close every element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._tree = TreeBuilder()
        self._tree.start("html", {})
        self._left_out = 0
        self.feed(text)
        self._tree.end("html")
        self.root: Element = self._tree.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        stated = {name: value or "" for name, value in attrs}
        if self._left_out or tag in {"template", "script", "kbd"}:
            self._left_out += tag not in _VOID
            return
        self._tree.start(tag, stated)
        if tag in _VOID:
            self._tree.end(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._left_out:
            self._left_out -= 1
        elif tag not in _VOID:
            self._tree.end(tag)

    def handle_data(self, data: str) -> None:
        if not self._left_out:
            self._tree.data(data)


class Plain:
    """One window of a person's, or of a stranger's."""

    def __init__(self, url: str, person: str | None = "ada") -> None:
        cookies = dict([signed_in(url, person).split("=", 1)]) if person is not None else {}
        self._client = httpx.Client(
            base_url=url, cookies=cookies, follow_redirects=True, timeout=CALL_SECONDS, verify=NO_TLS
        )
        self._document = Element("html")
        self._filled: dict[Element, str] = {}
        self.url = url
        self.status = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.close()

    def goto(self, path: str) -> Self:
        """Show a page."""
        return self._show(self._client.get(path))

    def follow(self, name: str) -> Self:
        """Click a link by a part of its name."""
        return self.goto(urljoin(self.url, self._one("a", name).get("href", "")))

    def at(self, line: int, *, side: str = "after") -> Self:
        """Click the number of a line."""
        [link] = [
            one for one in self.all("table.diff a") if (one.get("data-side"), one.get("data-line")) == (side, str(line))
        ]
        return self.goto(urljoin(self.url, link.get("href", "")))

    def fill(self, label: str, text: str) -> Self:
        """Type into a field, or choose an option by its words or its value."""
        field = self.field(label)
        for option in field.iter("option"):
            if text in {words_of(option), option.get("value")}:
                text = option.get("value", text)
        self._filled[field] = text
        return self

    @property
    def focus(self) -> Element:
        """The field that has the focus when the page is shown."""
        return next(one for one in self.all("main *") if "autofocus" in one.attrib)

    def value(self, label: str) -> str:
        """The text or the choice in a field."""
        return self._value(self.field(label))

    def press(self, name: str, within: str = "html", told: str = "") -> Self:
        """Press the first button with this name, or a part of it, and show the answer.

        Args:
            name: The button's.
            within: A selector of the places to look in.
            told: Words of the place.
        """
        button = self._one("button", name, [one for one in self.all(within) if told in words_of(one)])
        form = next(
            one for one in self._document.iter("form") if button in [*one.iter()] or one.get("id") == button.get("form")
        )
        pairs = [
            *self._pairs(form),
            *([(button.get("name", ""), button.get("value", ""))] if button.get("name") else []),
        ]
        there = urljoin(self.url, button.get("formaction") or form.get("action") or self.url)
        if form.get("method", "get").lower() == "get":
            return self.goto(f"{there.partition('?')[0]}?{urlencode(pairs)}")
        sent = {"content-type": "application/x-www-form-urlencoded"}
        return self._show(self._client.post(there, content=urlencode(pairs), headers=sent))

    def all(self, selector: str) -> list[Element]:
        """The elements that a selector of tags, classes and ids finds, in their order."""
        found = [self._document]
        for step in selector.split():
            wanted = _SELECTOR.findall(step)
            inner = [one for outer in found for one in _shown(outer) if one is not outer and _is(one, wanted)]
            found = [*dict.fromkeys(inner)]
        return found

    def text(self, selector: str = "main") -> str:
        """The text of what a selector finds."""
        return " ".join(map(words_of, self.all(selector)))

    def _show(self, answer: httpx.Response) -> Self:
        self.url, self.status = str(answer.url), answer.status_code
        self._document = _Reader(answer.text).root
        self._filled.clear()
        return self

    def _one(self, tag: str, name: str, places: Sequence[Element] = ()) -> Element:
        found = [one for place in places or [self._document] for one in place.iter(tag)]
        named = [(one, f"{words_of(one)} {one.get('aria-label', '')}".strip()) for one in found]
        found = [one for one, words in named if words == name] or [one for one, words in named if name in words]
        assert found, f"no {tag} {name!r} among {[words for _, words in named]}"
        return found[0]

    def field(self, label: str) -> Element:
        """The field with this label, or with a label that has these words."""
        fields = [one for tag in ("input", "textarea", "select") for one in self.all(tag)]
        named = [(_own_words(one), self._labelled(one, fields)) for one in self.all("label")]
        named += [(field.get("aria-label", ""), field) for field in fields]
        found = [field for words, field in named if field is not None and words == label]
        found += [field for words, field in named if field is not None and label in words]
        if found:
            return found[0]
        raise AssertionError(f"no field {label!r} among {[words for words, _ in named]}")

    def _labelled(self, label: Element, fields: list[Element]) -> Element | None:
        inside, named = {*label.iter()}, label.get("for")
        return next((one for one in fields if (one.get("id") == named if named else one in inside)), None)

    def _value(self, field: Element) -> str:
        if field in self._filled:
            return self._filled[field]
        if field.tag == "textarea":
            return "".join(field.itertext()).removeprefix("\n")
        if field.tag == "select":
            options = [*field.iter("option")]
            chosen = next((one for one in options if "selected" in one.attrib), options[0])
            return chosen.get("value", words_of(chosen))
        return field.get("value", "on" if field.get("type") == "checkbox" else "")

    def _pairs(self, form: Element) -> Iterator[tuple[str, str]]:
        inside = {*form.iter()}
        for tag in ("input", "textarea", "select"):
            for field in self._document.iter(tag):
                belongs = field in inside if "form" not in field.attrib else field.get("form") == form.get("id")
                off = field.get("type") in {"checkbox", "radio"} and "checked" not in field.attrib
                if (
                    belongs
                    and field.get("name")
                    and "disabled" not in field.attrib
                    and (not off or field in self._filled)
                ):
                    yield field.get("name", ""), self._value(field).replace("\n", "\r\n")


def words_of(element: Element) -> str:
    """The text of an element, with single spaces."""
    return " ".join("".join(_texts(element)).split())


def _shown(element: Element) -> Iterator[Element]:
    """The element and all in it, but nothing hidden."""
    if "hidden" not in element.attrib:
        yield element
        for one in element:
            yield from _shown(one)


def _texts(element: Element) -> Iterator[str]:
    if "hidden" not in element.attrib:
        yield element.text or ""
        for one in element:
            yield from _texts(one)
            yield one.tail or ""


def _own_words(label: Element) -> str:
    return " ".join([label.text or "", *(one.tail or "" for one in label)]).strip() or words_of(label)


def _is(element: Element, wanted: list[tuple[str, str]]) -> bool:
    has = {"": element.tag, "#": element.get("id", "")}
    classes = element.get("class", "").split()
    return all(name in classes if kind == "." else has[kind] == name for kind, name in wanted)
