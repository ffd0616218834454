"""Syntax highlighting: which words of a text are what, as classes for a stylesheet.

Pygments reads about 300 kB of source in a second, one thread at a time, so everything here is bounded: by size, by
length of line, by time, and texts that were read before are kept.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name  # pyright: ignore[reportUnknownVariableType] - its options are untyped
from pygments.token import (
    Comment,
    Keyword,
    Literal,
    Name,
    Number,
    Operator,
    String,
    _TokenType,  # pyright: ignore[reportPrivateUsage] - the kinds of tokens have no other type
)
from pygments.token import (
    Generic as Other,
)

from tandem.core.recent import Recent
from tandem.core.wanted import check

# Besides the lexer's own name; whole names of files begin with a slash.
_SUFFIXES = {
    "python": "py pyi pyw",
    "javascript": "js mjs cjs jsx",
    "typescript": "ts mts cts tsx",
    "json": "jsonc webmanifest ipynb",
    "html": "htm xhtml",
    "xml": "svg xsd xsl plist csproj",
    "markdown": "md",
    "yaml": "yml",
    "ini": "cfg conf properties editorconfig /.gitconfig",
    "bash": "sh zsh ksh /.bashrc /.profile /.zshrc",
    "powershell": "ps1 psm1",
    "batch": "bat cmd",
    "make": "mk mak /makefile /gnumakefile",
    "cmake": "/cmakelists.txt",
    "docker": "dockerfile /dockerfile /containerfile",
    "terraform": "tf tfvars hcl",
    "c": "h",
    "cpp": "cc cxx hh hpp hxx ino",
    "csharp": "cs",
    "kotlin": "kt kts",
    "scala": "sc",
    "groovy": "gradle /jenkinsfile",
    "rust": "rs",
    "objective-c": "m mm",
    "ruby": "rb rake gemspec /gemfile /rakefile",
    "perl": "pl pm",
    "julia": "jl",
    "elixir": "ex exs",
    "erlang": "erl hrl",
    "haskell": "hs",
    "ocaml": "ml mli",
    "fsharp": "fs fsx",
    "clojure": "clj cljs cljc edn",
    "common-lisp": "lisp el",
    "scheme": "scm",
    "graphql": "gql",
    "protobuf": "proto",
    "diff": "patch",
    "jinja": "j2 jinja2",
    "tex": "sty",
}
_NAMED_AS_THEIR_FILES = "css scss less vue rst toml fish nginx nix java go swift dart zig php lua r sql"
LANGUAGES = (*_SUFFIXES, *_NAMED_AS_THEIR_FILES.split())
"""Every lexer that is used, by Pygments' name for it."""
_LEXERS = {name: lexer for lexer in LANGUAGES for name in (lexer, *_SUFFIXES.get(lexer, "").split())}


def language_of(path: str) -> str | None:
    """The lexer for a file by its name; None for a file that is shown plainly."""
    name = "/" + path.rpartition("/")[2].lower()
    _, dot, suffix = name.rpartition(".")
    return _LEXERS.get(name) or (_LEXERS.get(suffix) if dot else None)


def language_named(name: str) -> str | None:
    """The lexer that a fence in Markdown asks for, by its name or a suffix of its files."""
    return _LEXERS.get(name.lower())


@lru_cache(maxsize=len(LANGUAGES))
def lexer_of(language: str) -> Lexer:
    """The lexer itself, made once for all threads: it keeps nothing between two texts."""
    return get_lexer_by_name(language)


LONGEST_TEXT = 60_000
"""Characters of one text (one side of one hunk); longer ones stay plain."""
LONGEST_LINE = 1_000
"""Characters of one line; a text with a longer one stays plain."""
MOST_LINES = 4_000
"""Lines of one text; some lexers look from each line at all that follow."""
MOST_MARKUP = 3_000_000
"""Characters of HTML, about, that the lines of one page come to at once."""

_KEPT_WORDS = 300_000
_WORDS_BETWEEN_LOOKS = 256
_CLASS_OF = (
    (Comment.Preproc, "hm"),
    (Comment.PreprocFile, "hs"),
    (Comment, "hc"),
    (Keyword.Constant, "hn"),
    (Keyword.Type, "ht"),
    (Keyword, "hk"),
    (Operator.Word, "hk"),
    (Name.Function, "hf"),
    (Name.Class, "ht"),
    (Name.Builtin, "ht"),
    (Name.Exception, "ht"),
    (Name.Namespace, "ht"),
    (Name.Tag, "ht"),
    (Name.Attribute, "ha"),
    (Name.Decorator, "ha"),
    (Name.Constant, "hn"),
    (Number, "hn"),
    (String, "hs"),
    (Literal, "hs"),
    (Other.Heading, "hm"),
    (Other.Subheading, "hm"),
    (Other.Inserted, "hs"),
    (Other.Deleted, "hk"),
)
CLASSES = frozenset(name for _, name in _CLASS_OF)
"""The classes that highlighted words have: of keywords, functions, types and tags, strings, numbers and constants,
comments, attributes and decorators, preprocessor and headings."""


class TokenKind(NamedTuple):
    """A piece of a line; `kind` is one of `CLASSES`, or empty."""

    kind: str
    text: str


Words = tuple[TokenKind, ...]


class Budget:
    """What everything that is shown at once may cost together: time of this thread for highlighting, and HTML.

    A text that was read before costs nothing, so a page that came out partly plain comes out whole the next time.
    The time runs from the first look on, in the thread that looks.
    """

    def __init__(self, seconds: float, markup: int = MOST_MARKUP) -> None:
        self._seconds = seconds
        self._until: float | None = None
        self._whole = self._markup = markup
        self.missed = False

    @property
    def is_whole(self) -> bool:
        """Whether nothing of the room for HTML is taken."""
        return self._markup == self._whole

    @property
    def is_full(self) -> bool:
        """Whether there is no more room for HTML."""
        return self._markup < 0

    def take(self, characters: int) -> bool:
        """Take room for HTML; whether there was enough."""
        check()
        self._markup -= characters
        return not self.is_full

    def left(self) -> bool:
        """Whether there is time left; remembers that there was none."""
        check()
        now = time.thread_time()
        if self._until is None:
            self._until = now + self._seconds
        if now < self._until:
            return True
        self.missed = True
        return False


def highlighted(language: str | None, lines: Sequence[str], budget: Budget) -> list[Words] | None:
    """The lines of one coherent text in words; None when it has to be shown plainly.

    Args:
        language: From `language_of`.
        lines: Without newlines.
        budget: Time that may be spent.
    """
    if language is None or not lines or not _is_usual(lines):
        return None
    text = "\n".join(lines) + "\n"
    known = _kept.get((language, text))
    if known is None and budget.left():
        known = _read(language, text, budget)
        if known is not None:
            _kept.put((language, text), known)
    return known


def _is_usual(lines: Sequence[str]) -> bool:
    lengths = [len(line) for line in lines]
    return len(lines) <= MOST_LINES and max(lengths) <= LONGEST_LINE and sum(lengths) <= LONGEST_TEXT


def _read(language: str, text: str, budget: Budget) -> list[Words] | None:
    lines: list[Words] = []
    line: list[TokenKind] = []
    length = 0
    for number, (_, token, value) in enumerate(lexer_of(language).get_tokens_unprocessed(text)):
        if number % _WORDS_BETWEEN_LOOKS == 0 and not budget.left():
            return None
        length += len(value)
        kind = _class_of(token)
        first, *others = value.split("\n")
        _add(line, kind, first)
        for other in others:
            lines.append(tuple(line))
            line = []
            _add(line, kind, other)
    # A lexer that loses or invents characters is not believed: the code on the page is the code in the diff.
    return lines if length == len(text) and _says(lines, text) else None


def _says(lines: list[Words], text: str) -> bool:
    return "".join("".join([word.text for word in line]) + "\n" for line in lines) == text


def _add(line: list[TokenKind], kind: str, text: str) -> None:
    if not text:
        return
    if line and line[-1].kind == kind:
        line[-1] = TokenKind(kind, line[-1].text + text)
    else:
        line.append(TokenKind(kind, text))


@lru_cache(maxsize=512)
def _class_of(token: _TokenType) -> str:
    return next((name for kind, name in _CLASS_OF if token in kind), "")


_kept = Recent[tuple[str, str], list[Words]](_KEPT_WORDS, lambda lines: len(lines) + sum(map(len, lines)))
