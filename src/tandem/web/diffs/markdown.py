"""Markdown from agents and people as HTML that can do nothing and hides nothing.

Three things stand between a text and the page: the parser takes no HTML and makes only links to the web and for mail,
the sanitiser keeps only the tags and classes listed here, and the page's Content-Security-Policy runs nothing.

Agents read the source, so people see all of its words. Titles, info strings and addresses of links without a text are
shown beside their element. A text whose words do not all come out of the parser is shown as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from socket import inet_aton
from typing import cast
from urllib.parse import unquote

import nh3
from markdown_it import MarkdownIt
from markdown_it.common.normalize_url import normalizeLink
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup

from tandem.core.addresses import kind_of
from tandem.core.texts import is_too_much_markdown, loses_cells
from tandem.web.diffs.code import code, escape, spelled
from tandem.web.diffs.syntax import CLASSES, Budget, highlighted, language_named

_PARSE_SECONDS = 0.4
_SECONDS_TOGETHER = 2.0
_NOTE = "<p><em>Shown as it was written: it would take too long to lay it out.</em></p>\n"
_HIDES = "<p><em>Shown as it was written: laid out, some of its words would be missing.</em></p>\n"
_KEPT_LENGTH = 20_000
_HIGHLIGHT_SECONDS = 0.1
_DEEPEST = 40
_LOWEST_HEADING = 6
_TAGS = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "code", "em", "strong", "s", "a"),
    *("ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "span", "ins", "del"),
}
_ATTRIBUTES = {
    "a": {"href", "class"},
    "ol": {"start"},
    "li": {"value"},
    "span": {"class"},
    "th": {"class"},
    "td": {"class"},
}
_CLASSES = {"image", "aside", "hidden-char", "cut", *CLASSES, "to-left", "to-center", "to-right"}
_BOXES = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}
_MARKUP = dict.fromkeys(map(ord, "!\"#'()*+-.:<=>[\\]_`|~"))
"""Characters that the parser may take as signs, for `str.translate`; all others that are not spaces count as words."""


_together: ContextVar[Budget | None] = ContextVar("together", default=None)


@contextmanager
def laid_out_together() -> Generator[None]:
    """Lets all texts that this thread lays out in the block take two seconds at most; the rest stay as written."""
    before = _together.set(Budget(_SECONDS_TOGETHER))
    try:
        yield
    finally:
        _together.reset(before)


def _is_late() -> bool:
    together = _together.get()
    return together is not None and not together.left()


def markdown(text: str, *, heading: int = 3) -> Markup:
    """A text as HTML for a `<div class="doc">`.

    Args:
        text: Anything.
        heading: The level that the text's first-level headings get on the page, 1 to 6.
    """
    if _is_late():
        return as_written(text)
    return _kept(text, heading) if len(text) <= _KEPT_LENGTH else blocks_html(text, heading)


def blocks_html(text: str, heading: int) -> Markup:
    """As `markdown`, without keeping it."""
    if is_too_much_markdown(text):
        return as_written(text)
    return rendered(parsed(text), heading, Budget(_HIGHLIGHT_SECONDS))


_kept = lru_cache(maxsize=128)(blocks_html)


def as_written(text: str) -> Markup:
    """A text that is not laid out, and says so."""
    return Markup(_NOTE + "<pre>{}</pre>").format(Markup(escape(text)))  # noqa: S704 - escaped


def parsed(text: str) -> list[Token]:
    """The tokens of a text; one that is nested too deeply, or takes too long, is a block of code, as it was written."""
    readable = spelled(text.replace("\r\n", "\n"))
    if not _is_late():
        with suppress(_TooLongError):
            tokens = _parser.parse(readable, {"budget": Budget(_PARSE_SECONDS)})
            # The parser drops what lies deeper, which must not be a place to hide a text.
            if max((token.level for token in tokens), default=0) < _DEEPEST - 1:
                return tokens
    return _unparsed(readable, _NOTE)


def _unparsed(readable: str, note: str) -> list[Token]:
    lines = readable.count("\n") + 1
    return [
        Token("html_block", "", 0, content=note, block=True),
        Token("fence", "code", 0, content=readable, map=[0, lines], block=True),
    ]


def rendered(tokens: Sequence[Token], heading: int, budget: Budget) -> Markup:
    """Some of the tokens of a text as HTML."""
    return clean(_parser.renderer.render(tokens, _parser.options, {"heading": heading, "budget": budget}))


def clean(html: str) -> Markup:
    """HTML with only the tags and attributes that are listed here."""
    return Markup(  # noqa: S704 - this makes it safe
        nh3.clean(
            html,
            tags=_TAGS,
            attributes=_ATTRIBUTES,
            attribute_filter=_attribute,
            url_schemes={"http", "https", "mailto"},
            link_rel="noopener noreferrer nofollow",
            strip_comments=True,
        )
    )


def _attribute(_: str, name: str, value: str) -> str | None:
    if name == "class" and not _CLASSES.issuperset(value.split()):
        return None
    if name == "href" and not may_be_link(value):
        return None
    return value


# Which addresses in others' texts may be links: those of the web, never those of this machine or its network.

_WEB = re.compile(r"https?://[/\\]*([^/\\?#]*)", re.IGNORECASE)
_LOCAL_ENDS = (".localhost", ".localdomain", ".local", ".internal", ".lan", ".home.arpa")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
_NUMBERS = re.compile(r"[0-9a-fx.]+")
# A name without a dot is one of the own network. The parser wrote names that are not ASCII as punycode.
_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)+")
_PORT = re.compile(r":[0-9]*$")


def may_be_link(url: str) -> bool:
    """Whether an address leads to the web, or is for mail; read as browsers read it, and refused where in doubt.

    Relative addresses would lead into the broker's own pages, and those of this machine to other programs.
    """
    if url.lower().startswith("mailto:"):
        return True
    found = _WEB.match(url)
    if found is None or not url.isprintable():
        return False
    host = unquote(_PORT.sub("", found[1].rpartition("@")[2])).lower()
    try:
        return _is_elsewhere(host)
    except (OSError, ValueError):
        return False


def _is_elsewhere(host: str) -> bool:
    """Whether a host is none of this machine or its network.

    Raises:
        OSError, ValueError: It is no host.
    """
    if host.startswith("["):
        return kind_of(IPv6Address(host.removeprefix("[").removesuffix("]"))) == "public"
    name = host.removesuffix(".")
    last = name.rpartition(".")[2]
    if _NUMBER.fullmatch(last):
        # As browsers read it: one to four numbers, decimal, octal or hexadecimal; the last fills the rest.
        return bool(_NUMBERS.fullmatch(name)) and kind_of(IPv4Address(inet_aton(name))) == "public"
    return bool(_NAME.fullmatch(name)) and not name.endswith(_LOCAL_ENDS)


class _TooLongError(Exception):
    """The parser took longer over a text than it may."""


def _watch(state: StateBlock | StateInline, *_: object) -> bool:
    """Tried as the first rule at each place of a text: ends the parser when its time is over."""
    if not state.env["budget"].left():
        raise _TooLongError
    return False


class _Renderer(RendererHTML):
    """What differs from the usual HTML: heading levels, images as links, coloured code, and what HTML does not show."""

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """A block of code, highlighted when its language is named; what else its first line says stands above it."""
        del options
        token = tokens[idx]
        info = token.info.strip()
        name = info.split(maxsplit=1)[0] if info else ""
        lines = token.content.removesuffix("\n").split("\n")
        budget: Budget = env.get("budget") or Budget(0)
        words = highlighted(language_named(name), lines, budget)
        above = f"<p>{_aside(info)}</p>\n" if info and language_named(info) is None else ""
        if words is None:
            return f"{above}<pre><code>{escape(token.content)}</code></pre>\n"
        shown = "\n".join(code(line, read, (), "ins") for line, read in zip(lines, words, strict=True))
        return f"{above}<pre><code>{shown}\n</code></pre>\n"

    def aside(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """What HTML would not show: a title, or the address of a link without a text."""
        del options, env
        return _aside(tokens[idx].content)

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """An image as a link to it: no page asks another host for anything."""
        token = tokens[idx]
        name = self.renderInlineAsText(token.children or [], options, env)
        label = escape(name if name.strip() else "without a name")
        address = str(token.attrs.get("src", ""))
        if not address:
            return f'<span class="image">{label}</span>'
        return f'<a class="image" href="{escape(address)}">{label}</a>'

    def heading_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """A heading, as deep as the page wants it."""
        del options
        return f"<h{_level(tokens[idx], env)}>"

    def heading_close(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """The end of a heading."""
        del options
        return f"</h{_level(tokens[idx], env)}>\n"

    def th_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """A table's cell: its alignment as a class, because no page has styles inside."""
        del options, env
        return _aligned(tokens[idx])

    td_open = th_open


def _aside(text: str) -> str:
    return f'<span class="aside">{escape(text)}</span>'


def _level(token: Token, env: EnvType) -> int:
    return min(int(token.tag[1:]) + env.get("heading", 3) - 1, _LOWEST_HEADING)


def _aligned(token: Token) -> str:
    side = str(token.attrs.get("style", "")).rpartition(":")[2]
    return f'<{token.tag} class="to-{side}">' if side else f"<{token.tag}>"


class _Address(str):
    """An address as browsers need it, which knows how it was written."""

    __slots__ = ("written",)
    written: str


def _address(url: str) -> _Address:
    made = _Address(normalizeLink(url))
    made.written = url
    return made


def _is_kept(url: str) -> bool:
    """Whether an address may be a link, and the sanitiser takes it for one."""
    return may_be_link(url) and "href" in clean(f'<a href="{escape(url)}">a</a>')


def _nothing_hidden(state: StateCore) -> None:
    """Adds what HTML would not show; shows the text as it was written where its words are not those of the tokens."""
    seen: list[str] = []
    for token in state.tokens:
        if token.type == "inline":
            token.children = _with_asides(token.children or [], seen, state)
        elif token.type in ("list_item_open", "fence", "code_block"):
            seen += (token.info, token.content)
    if loses_cells(state.tokens, state.src) or _words(state.src) != _words("".join(seen)):
        state.tokens[:] = _unparsed(state.src, _HIDES)


def _words(text: str) -> str:
    return "".join(text.translate(_MARKUP).split())


def _with_asides(children: list[Token], seen: list[str], state: StateCore) -> list[Token]:
    """The tokens of a paragraph with titles, and with the addresses of links in which nothing can be read.

    Args:
        children: The tokens.
        seen: Gets everything that is shown of them, in the order of the source.
        state: Of the parser.
    """
    made: list[Token] = []
    links: list[Token] = []
    nameless: Token | None = None
    for token in children:
        if token.type in ("text", "code_inline"):
            seen.append(token.content)
            nameless = None if token.content.strip() else nameless
        elif nameless is not None and token.type in ("link_open", "link_close", "image"):
            # A link or an image within a link ends it.
            made.append(Token("aside", "", 0, content=_written(nameless, "href")))
            nameless = None
        made.append(token)
        if token.type == "link_open":
            links.append(token)
            nameless = token
        elif token.type == "link_close":
            made += _target(links.pop(), "href", seen)
        elif token.type == "image":
            renderer = cast("_Renderer", state.md.renderer)
            seen.append(renderer.renderInlineAsText(token.children, state.md.options, state.env))
            made += _target(token, "src", seen)
    return made


def _target(token: Token, name: str, seen: list[str]) -> list[Token]:
    """The title of a link or an image, to follow it; `seen` gets its address and its title."""
    title = str(token.attrs.pop("title", ""))
    seen += ("" if token.markup == "autolink" else _written(token, name), title)
    return [Token("aside", "", 0, content=f' "{title}"')] if title.strip() else []


def _written(token: Token, name: str) -> str:
    address = token.attrs.get(name)
    return address.written if isinstance(address, _Address) else ""


def _numbers(state: StateCore) -> None:
    """The items of a list have the numbers that were written, unless these are all the same."""
    lists: list[list[Token]] = []
    for token in state.tokens:
        if token.type == "ordered_list_open":
            lists.append([])
        elif token.type == "list_item_open" and token.info:
            lists[-1].append(token)
        elif token.type == "ordered_list_close":
            items = lists.pop()
            numbers = [int(item.info) for item in items]
            for item, number, before in zip(items[1:], numbers[1:], numbers, strict=False):
                if number != before + 1 and len(set(numbers)) > 1:
                    item.attrs["value"] = number


def _boxes(state: StateCore) -> None:
    """`[ ]` and `[x]` at the start of a list's item become boxes."""
    items = [at for at, token in enumerate(state.tokens) if token.type == "list_item_open"]
    for at in items:
        inline = state.tokens[at + 2] if at + 2 < len(state.tokens) else None
        first = inline.children[0] if inline and inline.children else None
        if first and first.type == "text" and first.content[:4] in _BOXES:
            first.content = _BOXES[first.content[:4]] + first.content[4:]


def _made() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False, "maxNesting": _DEEPEST}, renderer_cls=_Renderer)
    made.enable(["table", "strikethrough"])
    # A definition of a link is not shown, which makes it a place to hide words from people but not from agents.
    # The character that an entity stands for may be one that cannot be seen.
    made.disable(["reference", "entity"])
    made.normalizeLink = _address
    made.normalizeLinkText = lambda link: link
    made.validateLink = _is_kept
    made.core.ruler.push("nothing hidden", _nothing_hidden)
    made.core.ruler.push("numbers", _numbers)
    made.core.ruler.push("boxes", _boxes)
    made.block.ruler.before("table", "watch", _watch)
    made.inline.ruler.before("text", "watch", _watch)
    return made


_parser = _made()
